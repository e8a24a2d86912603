"""A faithfulness document in sentences: what was found, by how much, and what would decide."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attributionlab.base import (
    FEWEST_QUESTIONS,
    LEAST_SHARE,
    AttributionLabError,
    interval_text,
    listed,
)
from attributionlab.show.proof import SPACE, labels, proof_sentence

SCHEMA = 3
"""The version of the documents that are read here, and that tests write."""
PARTS = ("overall", "positive", "negative", "positive-smoothed")
AMPLIFIED = (
    "an optimization amplifies differences between runs, and rounding: with the same seed, scores "
    "on another machine may differ as much, or more"
)
SHOWN_SHARES = 3
LEAST_SHOWN = 0.005
"""Share of F1 from which one is shown; less would be 0.00 in print."""
VERBS = {
    "pass": "passes in",
    "fail": "fails in",
    "inconclusive": "is inconclusive in",
    "invalid": "could not be judged in",
}
NAMED = 4
"""Environments that are named in a sentence; of more, the numbers are told."""
PASS_RULE = f"the exact 95 % interval of the share solved lies at or above {LEAST_SHARE:g}"
"""When a method passes in an environment."""
DOUBTED = "pass?"
"""How a comparison writes the pass of a method of which `test` would not call it proven."""
VERDICTS = ("pass", DOUBTED, "inconclusive", "fail", "invalid")
CLAIMED = {
    "signed": "positions and signs",
    "overall": "positions, not signs",
    "positive": "what raises the output",
    "positive-smoothed": "what raises the output, blurred",
    "agreed": "what all definitions of the truth agree on",
}
"""What a claim asks of a map, in words."""
HANGS_ON_IMPLEMENTATION = {
    ("paper", "natural"): "right on the paper's networks, wrong on natural ones",
    (
        "natural",
        "paper",
    ): "right on natural networks, wrong on the paper's, which only know "
    "exact colors: it shows them other colors, or depends on kinks",
}
"""What is said of a method that is right on the first of two implementations and wrong on the other."""
LIMITS = {
    "positive only": "maps without negative values",
    "own regions": "maps constant on its own superpixels",
}


def refuse_older(document: Mapping[str, Any]) -> None:
    """Refuse a document of another version: its verdict rests on other numbers."""
    if (schema := document.get("schema")) != SCHEMA:
        raise AttributionLabError(
            f"schema is {schema!r}: this version reads {SCHEMA}; run the test again"
        )


def marked_verdict(verdict: str, not_excluded: Sequence[str]) -> str:
    """A verdict in one environment, of a method of which a pass does not exclude blind maps.

    Examples
    --------
    >>> marked_verdict("pass", []), marked_verdict("pass", ["target"])
    ('pass', 'pass?')
    >>> marked_verdict("fail", ["target"])
    'fail'
    """
    return DOUBTED if verdict == "pass" and not_excluded else verdict


def sentences(document: Mapping[str, Any]) -> list[str]:
    """The verdict of a document, the count that decides it, and what an open one still needs."""
    environments = document["environments"]
    named = list(zip(labels(environments), environments, strict=True))
    tests = asked_text(environments)
    tests = f"{len(named)} tests ({tests})" if " x " in tests else tests
    parts = []
    for verdict, verb in VERBS.items():
        where = [label for label, result in named if result["verdict"] == verdict]
        if len(where) < len(named) > NAMED and where:
            where = [str(len(where))]
        elif where and len(where) == len(named) > 1:
            every = "any of the" if verdict == "invalid" else "all"
            both = tests == "2 environments" and verdict != "invalid"
            where = ["both environments" if both else f"{every} {tests}"]
        if where:
            parts.append(f"{verb} {listed(where)}")
    several = len(named) > NAMED and len(parts) > 1
    method = f"Of {tests} the method" if several else "The method"
    lines = [f"{method} {listed(parts)}.", _deciding(document), implementations_text(document)]
    is_open = document["verdict"] == "inconclusive"
    all_pass = all(result["verdict"] == "pass" for _, result in named)
    # What keeps the verdict open comes first.
    lines.insert(0 if is_open and all_pass else len(lines), proof_sentence(document))
    if second := second_verdict(document):
        lines.append(f"Second verdict: {second}.")
    for label, result in named:
        if result["verdict"] == document["verdict"] == "inconclusive":
            lines.append(undecided(label, result))
        elif result["verdict"] == "invalid":
            lines.append(
                f"{label} is invalid: {result['reason'].rstrip('.') or 'no reason given'}."
            )
    return [line for line in lines if line]


def in_rows(environments: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Results by the environment's name, and by implementation."""
    rows: dict[str, dict[str, Mapping[str, Any]]] = {}
    for label, result in zip(labels(environments), environments, strict=True):
        name = label.replace(f" ({result['implementation']})", "", 1)
        rows.setdefault(name, {})[result["implementation"]] = result
    return rows


def asked_text(environments: Sequence[Mapping[str, Any]]) -> str:
    """How many environments there are, and in how many implementations."""
    rows = in_rows(environments)
    written = {result["implementation"] for result in environments}
    if len(written) == 1 or len(rows) * len(written) != len(environments):
        return _count(len(environments), "environment")
    return f"{_count(len(rows), 'environment')} x {len(written)} implementations"


def implementations_text(document: Mapping[str, Any]) -> str:
    """What differs between networks of one rule that are written in other ways; empty if nothing does.

    Only environments in which each of the implementations was asked are compared.
    """
    by_name: dict[str, dict[str, str]] = {}
    for result in document["environments"]:
        own = f" ({result['implementation']})"
        by_name.setdefault(result["name"].removesuffix(own), {})[result["implementation"]] = result[
            "verdict"
        ]
    found = []
    for (right, wrong), says in HANGS_ON_IMPLEMENTATION.items():
        names = [
            name
            for name, verdicts in by_name.items()
            if verdicts.get(right) == "pass" and verdicts.get(wrong) == "fail"
        ]
        if names:
            where = listed(names) if len(names) < 3 else f"{len(names)} environments"
            found.append(f"In {where}: {says}.")
    return " ".join(found)


def second_verdict(document: Mapping[str, Any]) -> str:
    """Whether a method that passes is robust to how networks are written; empty where nobody asked."""
    found = [result.get("equivalent") for result in document["environments"]]
    found = [each for each in found if each and each["reading"]]
    broken = [each for each in found if each["reading"] == "depends on the implementation"]
    if broken:
        return _broken_text(min(broken, key=lambda each: each["lowest"]["claim_f1"]))
    if any(each["reading"] == "undecided" for each in found):
        return "undecided on equivalent networks"
    count = min((len(each["forms"]) for each in found), default=0)
    return f"robust on {_count(count, 'implementation')}" if found else ""


def _broken_text(found: Mapping[str, Any]) -> str:
    """That a score depends on the implementation, with the one on which it is lowest."""
    lowest = found["lowest"]
    return f"depends on the implementation ({lowest['form']}: {lowest['claim_f1']:.2f})"


def forms_text(result: Mapping[str, Any]) -> str:
    """What a method scores on equivalent networks; empty where nobody asked."""
    found = result.get("equivalent")
    if not found:
        return ""
    if not found["forms"]:
        return "none of the equivalent implementations applies to this network"
    scores = [
        f"{each['form']} {'not run' if each['claim_f1'] is None else format(each['claim_f1'], '.2f')}"
        for each in found["forms"]
    ]
    reading = found["reading"]
    if reading == "depends on the implementation":
        reading = _broken_text(found)
    return f"{reading + '; ' if reading else ''}F1 on equivalent networks: {', '.join(scores)}"


def hidden_text(result: Mapping[str, Any]) -> str:
    """What an environment draws anew for each question, with the number of alternatives."""
    return ", ".join(f"{thing} (1 of {count})" for thing, count in result["hidden"].items())


def solved_text(result: Mapping[str, Any]) -> str:
    """How many questions are solved, of how many."""
    return f"{result['solved']} of {result['asked']}"


def features_text(result: Mapping[str, Any]) -> str:
    """What is solved in random worlds with each feature and without it; empty elsewhere."""
    return "; ".join(
        f"{feature}: {solved_text(sides['with'])} with it, {solved_text(sides['without'])} without"
        for feature, sides in result.get("by_feature", {}).items()
        if sides["with"]["asked"]
    )


def share_text(interval: Sequence[float] | None) -> str:
    """Both ends of the interval of the share solved, each on its own side of what a pass needs."""
    return interval_text(interval, LEAST_SHARE)


def deciding_place(document: Mapping[str, Any]) -> int:
    """Which environment carries the verdict: of those that have it, the first that solves least; of
    equal ones the first that the first likely cause was found in.
    """
    environments = document["environments"]
    named = {hint["cause"] for hint in document["hints"][:1]}

    def weight(place: int) -> tuple[bool, float, bool]:
        result = environments[place]
        share = result["solved"] / max(1, result["asked"])
        own = {hint["cause"] for hint in (result["diagnosis"] or {"hints": ()})["hints"]}
        return result["verdict"] != document["verdict"], share, not named & own

    return min(range(len(environments)), key=weight)


def _deciding(document: Mapping[str, Any]) -> str:
    """The count of solved questions that carries the verdict."""
    environments = document["environments"]
    named = list(zip(labels(environments), environments, strict=True))
    where, result = named[deciding_place(document)]
    asked = result["asked"]
    if not asked:
        return f"No question of {where} has a truth for the claim {document['claim']!r}."
    least = min(each["solved"] / max(1, each["asked"]) for each in environments)
    alike = {solved_text(each) for each in environments} == {solved_text(result)}
    start = f"In {where} it solves"
    if len(named) == 1 or alike:
        start = "It solves" if len(named) == 1 else "In each it solves"
    elif result["solved"] / asked == least:
        start = f"It solves the fewest in {where}:"
    low, high = result["solved_ci"]
    side = f"contains {LEAST_SHARE:g}; a pass needs all of it at or above"
    if low >= LEAST_SHARE or high < LEAST_SHARE:
        side = f"lies {'below' if high < LEAST_SHARE else 'at or above'} {LEAST_SHARE:g}"
    return (
        f"{start} {solved_text(result)} question{'s' * (asked != 1)}; the 95{SPACE}% interval of the "
        f"share solved, {share_text(result['solved_ci'])}, {side}."
    )


def undecided(label: str, result: Mapping[str, Any]) -> str:
    """What would decide an inconclusive environment."""
    asked, needed = result["asked"], result["questions_to_decide"]
    if asked < FEWEST_QUESTIONS:
        return (
            f"{asked} question{'s' * (asked != 1)} in {label} cannot give a pass; take "
            f"{FEWEST_QUESTIONS} or more (--n {FEWEST_QUESTIONS})."
        )
    if needed is None:
        return (
            f"More questions will hardly decide {label}: the share solved is too close to "
            f"{LEAST_SHARE:g}."
        )
    return (
        f"About {needed:,} questions (--n {needed}) would decide {label} if the share solved stayed "
        f"the same; there were {asked:,}."
    )


def spread_text(result: Mapping[str, Any]) -> str:
    """What the lowest and highest scores of a method that optimizes are; empty for other methods."""
    if not result["spread"]:
        return ""
    lowest, _ = result["spread"]
    return f"{lowest['of']}, and highest: {AMPLIFIED}"


def strict_text(result: Mapping[str, Any]) -> str:
    """What the maps score where all pixels are asked; empty where that is the same, or no rule."""
    scores = result.get("strict", {})
    known = {part: f1 for part, f1 in scores.items() if f1 is not None}
    if all(result[part] and abs(result[part]["f1"] - f1) < 0.005 for part, f1 in known.items()):
        return ""
    parts = [f"{part} {f1:.2f}" for part, f1 in known.items()]
    return f"F1 {', '.join(parts)}, if every pixel that ever changes the output counts"


def few_images_text(n: int) -> str:
    """A caveat about few questions, empty where there are enough."""
    if n >= FEWEST_QUESTIONS:
        return ""
    return f"with fewer than {FEWEST_QUESTIONS} questions no method passes"


CODE = ". The code:"
"""Before code, with lines of its own, that a page shows and a terminal leaves out."""

EITHER = "pass or fail"
"""What a control may do of which nothing is asked."""


def required(rows: Sequence[Mapping[str, Any]]) -> str:
    """What a control must do; `EITHER` for one of which nothing is asked."""
    return next((str(row["must"]) for row in rows if row["must"] is not None), EITHER)


def violates(row: Mapping[str, Any]) -> bool:
    """Whether a control does not do what it must; the oracle passes where it solves every question."""
    return row["must"] not in (None, "pass" if row["passes"] else "fail")


def controls_text(document: Mapping[str, Any]) -> str:
    """Which controls do what they must, and which do not; nothing of those that may do either."""
    places = labels(document["environments"])
    kept: dict[str, list[str]] = {"pass": [], "fail": []}
    broken = []
    for name, rows in document["controls"].items():
        wrong = [place for place, row in zip(places, rows, strict=True) if violates(row)]
        must = required(rows)
        if wrong:
            does = "fails" if must == "pass" else "passes"
            broken.append(f"(!) {name} {does} in {listed(wrong)}, where it must {must}")
        elif must in kept:
            kept[must].append(name)
    parts = [
        f"{listed(names)} {must if len(names) > 1 else must + ('es' if must == 'pass' else 's')}"
        for must, names in kept.items()
        if names
    ]
    they = "it" if sum(map(len, kept.values())) == 1 else "they"
    met = [f"{'; '.join(parts)}, as {they} must"] if parts else []
    return "; ".join([*broken, *met])


def without_page(confirm: str) -> str:
    """What would confirm a cause, to a reader who has the page."""
    return re.sub(r" \(`--html PATH`[^)]*\)", "", confirm)


def next_command(confirm: str, command: str) -> str:
    """The command that shows what became of a user's method, unless what would confirm its cause has
    one or is about other code; a built-in one would answer the same again.

    Examples
    --------
    >>> next_command("keep the signs", "attributionlab test mine.py:mine")
    'attributionlab test mine.py:mine'
    """
    users = re.match(r"attributionlab test \S+[.:]", command)
    stated = "attributionlab" in confirm or CODE in confirm
    return command if users and not stated else ""


def limit_phrase(name: str) -> str:
    """The maps that a resolution allows, as they stand in a sentence."""
    if name.endswith(" cells"):
        return f"maps upsampled from {name}"
    return LIMITS.get(name, name)


def resolution_text(result: Mapping[str, Any]) -> str:
    """What limits a method's maps, and the best F1 under this limit; empty where nothing does."""
    name, most = result["resolution"], result["resolution_f1"]
    if name is None or most is None or most > 1 - LEAST_SHOWN:
        return ""
    return f"{limit_phrase(name)} reach an F1 of at most {most:.2f} ({first_images(result)})"


def first_images(result: Mapping[str, Any]) -> str:
    """Which images the studies of an environment are about."""
    return f"first {_count(result['studied_images'], 'image')}"


def gap_text(gap: float) -> str:
    """By how much the sum of the median image's attributions is wrong."""
    if gap > 1:
        off = f"{gap:,.0f} times" if gap >= 10 else f"{gap:.1f} times"
    else:
        off = "less than 1 % of" if gap < 0.005 else f"{100 * gap:.0f} % of"
    return (
        "the attributions should sum to the change of the output; they are off by "
        f"{off} that change (median image)"
    )


def sentence(text: str) -> str:
    """A hint with a capital letter, and a full stop unless it ends with lines of code."""
    ended = text.endswith((".", "!", "?")) or CODE in text
    return text[:1].upper() + text[1:] + ("" if ended else ".")


TRUTH_COLUMNS = {
    "rank_correlation": "rank corr.",
    "cosine": "cosine",
    "sign_agreement": "signs",
    "sum_gap": "sum gap",
}
"""Heading of each score."""


def truth_score_text(name: str, value: float | None) -> str:
    """A score as it is printed: gaps in percent, nothing where it is not defined."""
    if value is None:
        return ""
    if name == "sum_gap":
        return f"{value:.0%}" if value < 99.995 else "> 9,999%"
    return f"{value:.2f}"


SHOWN_SEEDS = 3
MEANINGS = {
    "equal, as it must be": "0, as it must be: the method queried integer images only, on which "
    "all networks have identical outputs",
    "differs, where it must not": "(!) it must be 0, as the method used integer images only and no "
    "gradient: it reads weights or structure of the network, its random numbers depend on that "
    "structure or on no seed, or this laboratory has an error; the verdict does not change",
    "equal": "the same maps, bit for bit",
    "within rounding": "rounding",
    "beyond rounding": "more than rounding: on kinks a gradient is a convention (ReLU'(0) = 0), and "
    "depends on how the function is built",
    "drifts": "more than rounding of sums: equal functions get different maps",
    "not known": "not known whether it is rounding: the method does not run in float64, and no "
    "useful bound can be derived",
}
"""What each reading of a drift says about a method."""


def _two_digits(value: float | None) -> str:
    """As drifts span many orders of magnitude."""
    return "n/a" if value is None else f"{value:.2g}"


def drift_text(drift: Mapping[str, Any]) -> str:
    """The drift of an environment, of `Drift.to_dict`, or why there is none: its size, what it means,
    what is left of it in float64, how far rounding may lead at most, and what becomes of the F1.
    """
    if drift["refused"]:
        return f"not applicable: {drift['refused']}"
    precision = []
    if drift["in_float64"] is not None:
        precision.append(f"{_two_digits(drift['in_float64'])} remains in float64")
    if drift["rounding_bound"] is not None and drift["largest"]:
        precision.append(f"bound {_two_digits(drift['rounding_bound'])}")
    networks = len(drift["networks"])
    parts = [
        f"median {_two_digits(drift['median'])}, largest {_two_digits(drift['largest'])} of the "
        f"plain map's norm ({_count(networks, 'network')}, {_count(drift['images'], 'image')})",
        MEANINGS[drift["reading"]] + (f" ({', '.join(precision)})" if precision else ""),
    ]
    if drift["appeared"]:
        parts.append(
            f"{_count(drift['appeared'], 'map')} not zero where the map of the plain network is, up to "
            f"{_two_digits(drift['largest_difference'])}"
        )
    if drift["plain_f1"] is not None:
        low, high = f"{drift['lowest_f1']:.2f}", f"{drift['highest_f1']:.2f}"
        span = low if low == high else f"{low} to {high}"
        parts.append(f"F1 {span}, {drift['plain_f1']:.2f} on the plain network")
    return "; ".join(parts)


def drift_seeds_text(networks: Sequence[int]) -> str:
    """How to load the camouflaged networks again."""
    shown = ", ".join(map(str, networks[:SHOWN_SEEDS]))
    more = f" and {len(networks) - SHOWN_SEEDS:,} more (--json)"
    return (
        f"attributionlab.load(..., camouflage_seed=SEED), SEED {shown}"
        f"{more if len(networks) > SHOWN_SEEDS else ''}"
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def explained(result: Mapping[str, Any]) -> str:
    """Which output was explained, and behind which temperature."""
    if result["temperature"] is None:
        return str(result["output"])
    return f"{result['output']}, temperature {result['temperature']:g}"


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
        f"{text}; the F1 of an image has a standard deviation of {result['seed_sd']:.3f} over seeds"
    )


def _drift(result: Mapping[str, Any]) -> str:
    """How far maps lie apart on functionally equal networks."""
    return drift_text(result["drift"]) if result.get("drift") else ""


def _drift_seeds(result: Mapping[str, Any]) -> str:
    drift = result.get("drift")
    return drift_seeds_text(drift["networks"]) if drift and not drift["refused"] else ""


def _runner_up(result: Mapping[str, Any]) -> str:
    """F1 where another class than the label is explained."""
    scores = result["runner_up"]
    if scores is None:
        return ""
    parts = [f"{part} {scores[part]:.2f}" for part in PARTS if scores.get(part) is not None]
    return (
        f"F1 {', '.join(parts)}, explaining the runner-up of the first {scores['images']:,} images"
    )


SHOWN: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "explained": explained,
    "missing F1": _missing,
    "hides": hidden_text,
    "warning": _warning,
}
"""What there is to know of an environment, by its title: a text that is empty where there is nothing. A
page draws these, or has them in its tables."""
NOTES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "completeness gap": _gap,
    "by feature": features_text,
    "resolution": resolution_text,
    "spread": spread_text,
    "seeds": _seeds,
    "strict level": strict_text,
    "runner-up": _runner_up,
    "drift": _drift,
    "  to load them": _drift_seeds,
    "equivalent": forms_text,
}
"""The same of what is a sentence everywhere."""
