"""A faithfulness test as people read it in a terminal: at 80 columns, and without color."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attributionlab.base import GAMMA, LEAST_SHARE, score_text
from attributionlab.show.provenance import INSIDE, given_text, protocol_text, seed_text
from attributionlab.show.reading import (
    LEAST_SHOWN,
    PARTS,
    TRUTH_COLUMNS,
    controls_text,
    drift_seeds_text,
    drift_text,
    features_text,
    few_images_text,
    first_images,
    forms_text,
    gap_text,
    has_no_questions,
    hidden_text,
    labels,
    listed,
    proof_sentence,
    refuse_older,
    resolution_text,
    second_verdict,
    share_text,
    solved_text,
    spread_text,
    strict_text,
    truth_score_text,
    undecided,
)
from attributionlab.show.terminal import explained, printable_document, verdict_text

SHOWN_SHARES = 3
SHOWN_HINTS = 2
FOOT = (
    "Solved: every part of the claim has an F1 above 2/3. Interval: of the share solved, 95 %; a pass "
    f"needs all of it at {LEAST_SHARE:g} or above, a failure all of it below. Passing is necessary for "
    "faithfulness, never sufficient."
)


def report_table(document: Mapping[str, Any]) -> RenderableType:
    """A faithfulness test: one row for each environment and part, then what there is to know of it.

    Parameters
    ----------
    document : mapping
        As written by `FaithfulnessReport.to_dict`.
    """
    refuse_older(document)
    document = printable_document(document)
    head = Text.assemble(
        (document["method"], "bold"),
        ": ",
        verdict_text(document["verdict"]),
        f", {second}" if (second := second_verdict(document)) else "",
        f"\nclaim {document['claim']}, {document['n']} {_asked(document)}{_size(document)} each, "
        f"{seed_text(document)}, {protocol_text(document)}",
        f"\n{proof}" if (proof := proof_sentence(document)) else "",
    )
    notes = Table.grid(padding=(0, 2, 0, 0))
    notes.add_column(no_wrap=True, style="bold")
    notes.add_column(overflow="fold")
    for title, text in _notes(document):
        notes.add_row(title, Text(text))
    foot = Text(FOOT, style="dim")
    truths = truths_table(document["environments"])
    held = [] if truths is None else [truths, ""]
    return Group(head, "", _scores_table(document), "", *held, notes, "", foot)


def _asked(document: Mapping[str, Any]) -> str:
    return "images" if has_no_questions(document) else "questions (one network each)"


def _size(document: Mapping[str, Any]) -> str:
    """Size of the images, where all environments have the same."""
    stated = [result["constants"]["image_size"] for result in document["environments"]]
    sizes = {tuple(size) if isinstance(size, list) else (size, size) for size in stated}
    return " of {} x {} pixels".format(*sizes.pop()) if len(sizes) == 1 else ""


def _scores_table(document: Mapping[str, Any]) -> Table:
    """The count of each environment, which decides, and below it the means of its parts."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("environment", overflow="fold")
    for heading in ("prec.", "rec.", "F1", "solved", "interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    environments = document["environments"]
    for place, result in zip(labels(environments), environments, strict=True):
        count = solved_text(result), share_text(result["solved_ci"])
        table.add_row(Text(place), *[""] * 3, *count, verdict_text(result["verdict"]))
        for name in PARTS:
            if result.get(name) is None:
                continue
            scores = result[name]
            means = [f"{scores[key]:.2f}" for key in ("precision", "recall")]
            table.add_row(Text(f"  {name}"), *means, score_text(scores["f1"], GAMMA))
            for end in result["spread"]:
                if end[name] is None:  # the first images, which other runs have, lack this part
                    continue
                cells = [f"{end[name][key]:.2f}" for key in ("precision", "recall", "f1")]
                table.add_row(Text(f"    {end['of'].split()[0]}", style="dim"), *cells)
        if result.get("ceiling_f1") is not None:
            table.add_row("    best possible", "", "", f"{result['ceiling_f1']:.2f}")
    return table


def _notes(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Notes below the table, each under its title."""
    named = list(zip(labels(document["environments"]), document["environments"], strict=True))
    if few := few_images_text(document["n"]):
        yield "note", few
    if told := given_text(document):
        yield "note", told
    yield from (("note", each) for each in document["warnings"] if each.endswith(INSIDE))
    for label, result in named:
        if result["verdict"] == "invalid":
            yield "no verdict", f"{label}: {result['reason']}"
        if result["verdict"] == "inconclusive":
            yield "undecided", undecided(label, result)
    for hint in document["hints"][:SHOWN_HINTS]:
        yield "likely cause", hint["says"].replace("`", "")
        yield "  to confirm", hint["confirm"].replace("`", "")
    for title, text_of in (
        ("explained", explained),
        ("completeness gap", _gap),
        ("by feature", features_text),
        ("missing F1", _missing),
        ("resolution", resolution_text),
        ("hides", hidden_text),
        ("warning", _warning),
        ("spread", spread_text),
        ("seeds", _seeds),
        ("strict level", strict_text),
        ("runner-up", _runner_up),
        ("drift", _drift),
        ("equivalent", forms_text),
    ):
        said: dict[str, list[str]] = {}  # environments of which the same is said
        for label, result in named:
            said.setdefault(text_of(result), []).append(label)
        for text, where in said.items():
            if text:
                yield title, f"{listed(where)}: {text}"
                title = ""
    drifts = [result["drift"] for result in document["environments"] if result.get("drift")]
    if any(not drift["refused"] for drift in drifts):
        yield "  to load them", drift_seeds_text(drifts[0]["networks"])
    if text := controls_text(document):
        yield "controls", text


def _gap(result: Mapping[str, Any]) -> str:
    gap = result.get("completeness_gap")
    return "" if gap is None else gap_text(gap)


def _missing(result: Mapping[str, Any]) -> str:
    """The largest shares of what is missing."""
    if result["diagnosis"] is None:
        return ""
    shares = result["diagnosis"]["shares"]
    largest = sorted(shares, key=shares.__getitem__, reverse=True)[:SHOWN_SHARES]
    parts = [f"{name} {shares[name]:.2f}" for name in largest if shares[name] >= LEAST_SHOWN]
    return f"{', '.join(parts)} (of {result['claim_part']})" if parts else ""


def _warning(result: Mapping[str, Any]) -> str:
    """Which controls that see the image alone pass."""
    names = result["bar"]
    return f"maps computed from the image alone also pass here ({listed(names)})" if names else ""


def _seeds(result: Mapping[str, Any]) -> str:
    if result["seeds"] == 1:
        return ""
    text = f"scores are means over {result['seeds']} seeds, shares are of the first seed's maps"
    if result["seed_sd"] is None:
        return text
    return (
        f"{text}; the F1 of an image has a standard deviation of {result['seed_sd']:.3f} over them"
    )


def _drift(result: Mapping[str, Any]) -> str:
    """How far maps lie apart on functionally equal networks."""
    return drift_text(result["drift"]) if result.get("drift") else ""


def _runner_up(result: Mapping[str, Any]) -> str:
    """F1 where another class than the label is explained."""
    scores = result["runner_up"]
    if scores is None:
        return ""
    parts = [f"{part} {scores[part]:.2f}" for part in PARTS if scores.get(part) is not None]
    return (
        f"F1 {', '.join(parts)}, explaining the runner-up of the first {scores['images']:,} images"
    )


def truths_table(environments: Sequence[Mapping[str, Any]]) -> RenderableType | None:
    """One row for each environment and definition, None without any definition."""
    if not any(result["truths"] for result in environments):
        return None
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("environment", overflow="fold")
    table.add_column("definition of the truth", no_wrap=True)
    for heading in TRUTH_COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("known by", no_wrap=True)
    for place, result in zip(labels(environments), environments, strict=True):
        for index, scores in enumerate(result["truths"]):
            table.add_row(
                Text(place if index == 0 else ""),
                Text(scores["definition"]),
                *(truth_score_text(name, scores[name]) for name in TRUTH_COLUMNS),
                Text(scores["source"]),
            )
    legend = (
        f"Against each definition of the truth ({first_images(environments[0])}): Spearman's "
        "correlation and cosine over all pixels; share of the pixels with a value whose sign is right; "
        "sum gap: what the attributions' sum misses of the definition's, as a share of it (only "
        "methods that distribute the output aim at 0). No part of the verdict."
    )
    return Group(table, Text(legend, style="dim"))
