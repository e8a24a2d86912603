"""A faithfulness document in sentences: what was found, by how much, and what would decide."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "bounds_text",
    "interval_text",
    "labels",
    "listed",
    "score_text",
    "sentence",
    "sentences",
    "undecided",
]

SPACE = "\N{NO-BREAK SPACE}"
VERBS = {
    "pass": "passes in",
    "fail": "fails in",
    "inconclusive": "is undecided in",
    "invalid": "could not be judged in",
}


def sentences(document: Mapping[str, Any]) -> list[str]:
    """What the verdict says, the score that decides it, and what an open one still needs.

    Parameters
    ----------
    document : mapping
        As written by `FaithfulnessReport.to_dict`.
    """
    environments = document["environments"]
    named = list(zip(labels(environments), environments, strict=True))
    parts = []
    for verdict, verb in VERBS.items():
        where = [label for label, result in named if result["verdict"] == verdict]
        if where and len(where) == len(named) > 1:
            every = "any of the" if verdict == "invalid" else "all"
            where = [f"{every} {len(named)} environments"]
        if where:
            parts.append(f"{verb} {listed(where)}")
    said = [f"The method {listed(parts)}.", _deciding(document)]
    for label, result in named:
        if result["verdict"] == "inconclusive":
            said.append(undecided(label, result, document["n"]))
        elif result["verdict"] == "invalid":
            said.append(f"{label} is invalid: {result['reason'].rstrip('.') or 'no reason given'}.")
    return said


def _deciding(document: Mapping[str, Any]) -> str:
    """The lowest score over environments (eq. 2) against gamma."""
    least, gamma = document["least"], document["gamma"]
    bound = f"gamma{SPACE}={SPACE}{gamma:g}"
    environments = document["environments"]
    if least["claim_f1"] is None:
        return f"No environment has a score for the claim {document['claim']!r}."
    score = score_text(least["claim_f1"], gamma)
    where = next(
        label
        for label, result in zip(labels(environments), environments, strict=True)
        if (result["name"], result["claim_f1"]) == (least["environment"], least["claim_f1"])
    )
    start = f"Its lowest score, that in {where}, is" if len(environments) > 1 else "It scores"
    interval = least["claim_ci"]
    if interval is None:
        side = "at least" if least["claim_f1"] >= gamma else "below"
        return (
            f"{start} F1 {score}, {side} {bound}, without an interval, "
            "which needs two images or more."
        )
    low, high = interval
    if low >= gamma:
        side = "wholly at or above"
    elif high < gamma:
        side = "wholly below"
    else:
        side = "on both sides of"
    return (
        f"{start} F1 {score}; its 95{SPACE}% interval, {interval_text(interval, gamma)}, "
        f"lies {side} {bound}."
    )


def undecided(label: str, result: Mapping[str, Any], n: int) -> str:
    """What would decide an inconclusive environment."""
    images = result["images_to_decide"]
    if result["claim_ci"] is None:
        return f"In {label} a part of the claim applies to fewer than two images; take 8 or more."
    if images is None:
        return f"{label} would stay undecided with any number of images like these."
    return f"About {max(images, n + 1):,} images would decide {label}; {n:,} were used."


def bounds_text(interval: Sequence[float], gamma: float) -> str:
    """Which gammas in (0, 1] would give which verdict.

    Examples
    --------
    >>> bounds_text([0.26, 0.36], 0.5)
    'passes up to gamma = 0.26, fails above 0.36, is inconclusive between'
    >>> bounds_text([0.0, 1.0], 0.5)
    'is inconclusive at every gamma'
    """
    low, high = interval
    said = [f"passes up to gamma = {score_text(low, gamma)}"] if low > 0 else []
    if high < 1:
        said.append(f"fails above {'' if said else 'gamma = '}{score_text(high, gamma)}")
    if low < high:
        said.append("is inconclusive " + ("between" if low > 0 and high < 1 else "elsewhere"))
    return ", ".join(said) if low > 0 or high < 1 else "is inconclusive at every gamma"


def sentence(text: str) -> str:
    """A hint with a capital letter and a full stop.

    Examples
    --------
    >>> sentence("values grow towards the edge")
    'Values grow towards the edge.'
    """
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def labels(environments: Sequence[Mapping[str, Any]]) -> list[str]:
    """The environments' names, with a piece of their hash where several have one name."""
    names = [result["name"] for result in environments]
    return [
        f"{name} ({result['spec'][:8]})" if names.count(name) > 1 else name
        for name, result in zip(names, environments, strict=True)
    ]


def listed(words: Sequence[str]) -> str:
    """Words as they stand in a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def score_text(value: float | None, gamma: float) -> str:
    """Two digits behind the point, or as many as show on which side of gamma the value lies.

    Examples
    --------
    >>> score_text(0.412, 0.5), score_text(0.4996, 0.5), score_text(None, 0.5)
    ('0.41', '0.4996', 'n/a')
    """
    if value is None:
        return "n/a"
    for digits in range(2, 17):
        text = f"{value:.{digits}f}"
        if (float(text) >= gamma) == (value >= gamma):
            return text
    return repr(value)


def interval_text(interval: Sequence[float] | None, gamma: float) -> str:
    """Both ends of an interval, empty where there is none."""
    return "" if interval is None else " to ".join(score_text(end, gamma) for end in interval)
