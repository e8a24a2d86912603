"""A faithfulness test as HTML: one file that needs nothing else."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
import numpy as np
from markupsafe import Markup, escape
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attributionlab.base import (
    GAMMA,
    LEAST_SHARE,
    QUESTIONS,
    SOLVED_ABOVE,
    AttributionLabError,
    cut,
    interval_text,
    listed,
    printable,
    score_text,
    solved,
)
from attributionlab.show.asked import asked_colors, by_effect, needed_text, output_text
from attributionlab.show.figures import unasked_only
from attributionlab.show.frames import cell_text
from attributionlab.show.pictures import (
    ERROR_COLORS,
    SIGNED_COLORS,
    error_picture,
    errors,
    image_picture,
    map_picture,
    of_tokens,
    png_uri,
)
from attributionlab.show.proof import SPACE, has_no_questions, labels, proof_sentence
from attributionlab.show.provenance import given_text, method_text, protocol_text, seed_text
from attributionlab.show.reading import (
    CLAIMED,
    NOTES,
    PARTS,
    TRUTH_COLUMNS,
    asked_text,
    deciding_place,
    few_images_text,
    in_rows,
    next_command,
    refuse_older,
    required,
    sentence,
    sentences,
    share_text,
    solved_text,
    truth_score_text,
    undecided,
    violates,
    without_page,
)
from attributionlab.show.style import LOWERS, RAISES, SIGNLESS_COLORS, encoded
from attributionlab.show.terminal import printable_document
from attributionlab.show.verdict import of_size

if TYPE_CHECKING:
    import pandas as pd

LONGEST_NAME, LONGEST_TEXT, LONGEST_COMMAND, MOST_ITEMS = 200, 1_000, 10_000, 50  # characters


def shortened(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with anybody's text cut to a length that a page can bear, and made printable."""
    document = printable_document(document)
    warnings = document["warnings"]
    shown = [cut(warning, LONGEST_TEXT) for warning in warnings[:MOST_ITEMS]]
    if len(warnings) > MOST_ITEMS:
        shown.append(f"{len(warnings) - MOST_ITEMS:,} more")
    return {
        **document,
        "method": cut(method_text(document), LONGEST_NAME),
        "settings": _settings(document["settings"]),
        "command": cut(document["command"], LONGEST_COMMAND),
        "warnings": shown,
        "environments": [
            {
                **result,
                "name": cut(result["name"], LONGEST_NAME),
                "settings": _settings(result["settings"]),
            }
            for result in document["environments"]
        ],
    }


def _settings(settings: Mapping[str, Any]) -> list[str]:
    """One line for each setting."""
    lines = [
        cut(f"{name} = {json.dumps(value, ensure_ascii=False)}", LONGEST_TEXT)
        for name, value in list(settings.items())[:MOST_ITEMS]
    ]
    left_out = len(settings) - len(lines)
    return [*lines, f"{left_out:,} more"] if left_out else lines


HERE = Path(__file__).parent
LARGEST_PAGE = 4_900_000  # bytes
RANKS = ("worst", "lower quartile", "median", "upper quartile", "best")
SHARE_COLORS = (
    *("#d55e00", "#0072b2", "#e69f00", "#56b4e9", "#7b4ea3", "#009e73", "#cc79a7", "#8c6d1f"),
    *("#8b939c", "#3d4652"),
)
BINS = 12
"""Bins of the F1 of single questions: two thirds is an end of one."""
THINGS = {
    "roles": "which color has which role in the network",
    "target": "which output is to be explained",
    "place": "where in the image the network counts a color",
    "color": "which color a pixel has",
    "sign": "whether the network computes its rule or minus that rule",
    "context": "the mark in the image on which the sign of an effect depends",
}
"""What is hidden, in words."""


class Panel(NamedTuple):
    """What the page shows of one environment beside the document's numbers."""

    examples: Sequence[Any]
    """`verdicts.faithfulness.report.Example`, of which all fields are read."""
    image_f1: NDArray[np.float64]
    """(n,), the lowest F1 of each question over the claim's parts, as a share of that of the best
    possible map; NaN where the claim does not apply."""


class _Plan(NamedTuple):
    """How many pictures a page shows, and with how many rows and columns at most."""

    ranks: Sequence[str]
    side: int


# From everything to nothing; the first that fits is taken.
PLANS = (
    *(_Plan(RANKS, side) for side in (448, 224, 160, 112)),
    *(_Plan(RANKS[::2], side) for side in (112, 80)),
    _Plan(RANKS[2:3], 56),
    _Plan((), 56),
)


def faithfulness_page(document: Mapping[str, Any], panels: Sequence[Panel]) -> str:
    """The report of a faithfulness test as an HTML page of under 5 MB.

    The same input gives the same page. Where pictures would make it too large, there are fewer or
    smaller ones, and the page says so.

    Parameters
    ----------
    document : mapping
        As written by `FaithfulnessReport.to_dict`.
    panels : sequence of Panel
        One for each of its environments, in their order.

    Returns
    -------
    str
        To be written as UTF-8.

    Raises
    ------
    AttributionLabError
        Unless there is one panel for each environment, and the document is of this version.
    """
    refuse_older(document)
    results = document["environments"]
    if len(panels) != len(results):
        raise AttributionLabError(
            f"{len(panels)} panels for {len(results)} environments: give one for each, in order"
        )
    whole = template("page")
    content = _content(shortened(document), panels)
    for plan in PLANS:
        samples = _samples(content["environments"], panels, plan, document)
        if samples is not None:
            page = whole.render(content, samples=samples, notes=_notes(panels, plan))
            if len(page.encode()) <= LARGEST_PAGE:
                break
    return page


def template(name: str) -> jinja2.Template:
    """A template of this folder, by the first part of its file's name."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,  # names, settings and warnings are anybody's text
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "code": lambda text: with_code(without_page(text)),
        "interval": lambda interval: interval_text(interval, GAMMA),
        "in_rows": in_rows,
        "listed": listed,
        "required": required,
        "score": lambda value: score_text(value, GAMMA),
        "share": share_text,
        "solved": solved_text,
        "truth_score": truth_score_text,
        "unbroken": unbroken,
        "sentence": sentence,
    }
    templates.tests["violated"] = violates
    return templates.get_template(f"{name}.html.j2")


def _content(document: Mapping[str, Any], panels: Sequence[Panel]) -> dict[str, Any]:
    """Everything on the page but the samples."""
    results = document["environments"]
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    shares = [r["diagnosis"]["shares"] for r in results if r["diagnosis"] is not None]
    numbers = {
        name: place for place, name in enumerate(dict.fromkeys(n for s in shares for n in s))
    }
    environments = [
        {
            **result,
            "label": label,
            "anchor": f"environment-{place}",
            "explained": output_text(result),
            "scores": {part: result[part] for part in PARTS if result.get(part)},
            "shares": _shares(result["diagnosis"], numbers),
            "bins": _bins(panel.image_f1),
            "notes": _notes_of(label, result),
        }
        for place, (label, result, panel) in enumerate(
            zip(labels(results), results, panels, strict=True), start=1
        )
    ]
    return {
        "document": document,
        "sentences": sentences(document),
        "asked": "image" if has_no_questions(document) else "question",
        "protocol": cut(protocol_text(document), LONGEST_TEXT),
        "eye": _by_eye(document, panels, environments),
        "claimed": CLAIMED[document["claim"]],
        "next": document["hints"]
        and next_command(document["hints"][0]["confirm"], document["command"]),
        "seed": seed_text(document).removeprefix("seed "),
        "given": given_text(document),
        "proof": proof_sentence(document),
        "things": {
            thing: meaning
            for thing, meaning in THINGS.items()
            if thing in document["excludes"] or thing in document["not_excluded"]
        },
        "least_share": LEAST_SHARE,
        "needed": needed_text(document),
        "asked_in": asked_text(results),
        "size": of_size(document).removeprefix(" of "),
        "protocol_asks": QUESTIONS,
        "gamma": GAMMA,
        "environments": environments,
        "parts": [
            part
            for part in ([document["claim"]] if document["claim"] in PARTS else PARTS)
            if any(result.get(part) for result in results)
        ],
        "few_images": few_images_text(document["n"]),
        "truth_columns": TRUTH_COLUMNS,
        "truth_meanings": {
            row["definition"]: row["meaning"] for result in results for row in result["truths"]
        },
        "sign_colors": {"raises the output": RAISES, "lowers it": LOWERS},
        "error_colors": ERROR_COLORS,
        "signless_colors": {
            name: color
            for name, color in SIGNLESS_COLORS.items()
            if any(name in each.signless for panel in panels for each in panel.examples)
        },
        "signed_colors": [f"#{bytes(color).hex()}" for color in SIGNED_COLORS[:: 127 // 4]],
        "ranks": RANKS,
        # The page runs its own script and style only, and loads nothing.
        "policy": f"default-src 'none'; img-src data:; style-src {_hash(style)}; "
        f"script-src {_hash(script)}; base-uri 'none'; form-action 'none'",
        "style": Markup(style),
        "script": Markup(script),
    }


BY_EYE = {
    "median": "a typical sample (median F1)",
    "worst": "the sample with the lowest F1",
    "best": "the sample with the highest F1",
}
"""The sample beside the verdict, by rank: the first that there is."""


def _by_eye(
    document: Mapping[str, Any], panels: Sequence[Panel], environments: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """One sample of the environment that decides; None where there is no sample."""
    place = deciding_place(document)
    by_rank = {each.rank: each for each in panels[place].examples}
    there = [by_rank[rank] for rank in BY_EYE if rank in by_rank]
    if not there:
        return None
    # Of an empty map nothing can be seen.
    chosen = next((each for each in there if each.attribution.any() and not each.faint), there[0])
    drawn = _drawn(chosen, PLANS[1].side, document["claim"])
    return drawn | {"environment": environments[place], "which": BY_EYE[chosen.rank]}


def _drawn(example: Any, side: int, claim: str) -> dict[str, Any]:
    """A sample: its pictures, what each color of its image does, and what its map got right."""
    empty = example.faint or not example.attribution.any()
    found = errors(example.truth, example.attribution, claim, example.signless)
    left_out = np.zeros(example.truth.shape, dtype=bool)
    for where in example.signless.values():
        left_out |= where
    pictures = {
        "image": image_picture(example.image, example.highest, side),
        "truth": map_picture(example.truth, side, example.signless),
        "map": map_picture(example.attribution, side, unasked_only(example.signless), empty),
        "errors": error_picture(found, side),
    }
    pictures, (height, width) = of_tokens(pictures, example.image)
    swatches = asked_colors(example.image, example.highest, example.truth, left_out)
    return {
        "sample": example.sample,
        "rank": example.rank,
        "f1": score_text(float(example.f1), SOLVED_ABOVE),
        "pictures": {name: Markup(address) for name, address in pictures.items()},
        "height": height,
        "width": width,
        "colors": by_effect(swatches),
        "empty": empty,
        "shares": [f"{100 * share:.0f}{SPACE}%" for share in found.shares],
        "raises": float((example.truth > 0).mean()),
        "lowers": float((example.truth < 0).mean()),
        "signless": "".join(
            f", {100 * float(where.mean()):.0f} % are {name}"
            for name, where in example.signless.items()
        ),
    }


def _notes_of(label: str, result: Mapping[str, Any]) -> dict[str, str]:
    """What is said of an environment, by its title."""
    found = {title.strip(): text_of(result) for title, text_of in NOTES.items()}
    if result["verdict"] == "inconclusive":
        found = {"to decide": undecided(label, result), **found}
    return {title: said for title, said in found.items() if said}


def _shares(
    diagnosis: Mapping[str, Any] | None, numbers: Mapping[str, int]
) -> list[dict[str, Any]]:
    """The parts of the missing F1 one after the other, behind what was reached."""
    if diagnosis is None:
        return []
    drawn, start = [], 1 - diagnosis["missing"]
    for name, place in numbers.items():
        size = diagnosis["shares"].get(name, 0)
        if size > 0:
            color = SHARE_COLORS[place % len(SHARE_COLORS)]
            drawn.append(
                {"name": name, "number": place + 1, "size": size, "start": start, "color": color}
            )
            start += size
    return drawn


def _bins(f1: NDArray[np.float64]) -> list[int]:
    """How many questions lie in each bin of F1; those that are solved lie right of two thirds."""
    f1 = f1[~np.isnan(f1)]
    first = int(BINS * SOLVED_ABOVE)
    place = (BINS * f1).astype(int)
    place = np.where(solved(f1), place.clip(first, BINS - 1), place.clip(0, first - 1))
    return [int(count) for count in np.bincount(place, minlength=BINS)]


def _samples(
    environments: Sequence[Mapping[str, Any]],
    panels: Sequence[Panel],
    plan: _Plan,
    document: Mapping[str, Any],
) -> list[dict[str, Any]] | None:
    """The pictures of a plan; None as soon as they alone are too large for a page."""
    samples, size = [], 0
    for environment, panel in zip(environments, panels, strict=True):
        for example in panel.examples:
            if example.rank not in plan.ranks:
                continue
            drawn = _drawn(example, plan.side, document["claim"])
            size += sum(map(len, drawn["pictures"].values()))
            if size > LARGEST_PAGE:
                return None
            samples.append(drawn | {"environment": environment})
    return samples


def _notes(panels: Sequence[Panel], plan: _Plan) -> list[str]:
    """What a plan left out or made smaller, so that the page stays small."""
    notes = []
    missing = [rank for rank in RANKS if rank not in plan.ranks]
    if missing:
        which = listed(missing) if plan.ranks else "every rank"
        notes.append(f"Omitted to keep this page under 5 MB: the samples of {which}.")
    shapes = {example.truth.shape for panel in panels for example in panel.examples}
    if plan.ranks and any(max(shape) > plan.side for shape in shapes):
        sizes = listed(sorted({f"{h:,} x {w:,}" for h, w in shapes if max(h, w) > plan.side}))
        notes.append(
            f"Images of {sizes} pixels are averaged over blocks, to at most {plan.side} rows and "
            "columns; scores and shares are of the full size."
        )
    return notes


def with_code(text: str) -> Markup:
    """Text with what stands between backticks as code, of which no flag is broken at its hyphens, and
    which is a block if it has several lines (`printable_document` writes their ends as in Python); the
    text is anybody's, and escaped.

    Examples
    --------
    >>> with_code("set `n` above 1 < 2")
    Markup('set <code>n</code> above 1 &lt; 2')
    """
    parts = re.split(r"`([^`\n]+)`", text)
    return Markup("").join(
        _code(part.replace("\\n", "\n")) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def _code(code: str) -> Markup:
    lines = ' class="lines"' * ("\n" in code)
    return Markup(f"<code{lines}>{unbroken(code)}</code>")


def unbroken(code: str) -> Markup:
    """Code, of which words with a hyphen stay in one line if they fit; anybody's, and escaped."""
    return Markup(re.sub(r"\S*-\S*", r'<span class="whole">\g<0></span>', str(escape(code))))


def style_policy(style: str) -> str:
    """What a page may do that runs nothing: show pictures that are in it, under this style."""
    return (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; base-uri 'none'; "
        "form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def study_page(
    title: str,
    sentences: Sequence[str],
    figures: Mapping[str, Figure],
    tables: Mapping[str, "pd.DataFrame"],
    command: str = "",
    *,
    first: Mapping[str, "pd.DataFrame"] | None = None,
    notes: Sequence[str] = (),
    verdict: str = "",
    state: str = "",
) -> str:
    """A study as an HTML page: a card of the verdict, if there is one, with sentences and tables that
    come `first`; then figures, tables, notes on what the words mean; numbers to three digits.

    Parameters
    ----------
    title, sentences, notes, command : str
        Anybody's text; it is shown, never run.
    figures : mapping of str to Figure
        By what they show.
    tables, first : mapping of str to DataFrame
        By what they hold.
    verdict, state : str
        A word, and which verdict of a test has its color: "pass", "fail", "inconclusive", "invalid".
    """

    def shown(found: "Mapping[str, pd.DataFrame]") -> list[tuple[str, list[str], list[list[str]]]]:
        return [
            (
                name,
                [str(column).replace("_", " ") for column in table],
                [[_cell(value) for value in row] for row in table.itertuples(index=False)],
            )
            for name, table in found.items()
        ]

    style = (HERE / "page.css").read_text(encoding="utf-8")
    return template("study").render(
        title=cut(printable(title), LONGEST_NAME),
        sentences=[cut(printable(each), LONGEST_TEXT) for each in sentences],
        figures=[(name, Markup(png_uri(encoded(each)))) for name, each in figures.items()],
        tables=shown(tables),
        first=shown(first or {}),
        notes=[cut(printable(each), LONGEST_TEXT) for each in notes],
        verdict=verdict,
        state=state,
        command=cut(printable(command), LONGEST_COMMAND),
        style=Markup(style),
        # Style attributes and its own sheet only; nothing is run or loaded.
        policy="default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'",
    )


def _cell(value: Any) -> str:
    return value if isinstance(value, Markup) else cell_text(value)  # a link, or anything else
