"""Whether a student's prediction is right, and if not, how it is wrong."""

import math
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from numbers import Real
from pathlib import Path

from attributionlab.base import AttributionLabError, cut

Item = float | str
"""A number, or a word."""

# A student types decimals, and an answer may come out of a few operations in float32, each of which
# is off by at most 6e-8 of the value.
RELATIVE = 1e-6

FACTORS = (2, 3, 4, 10, 100, 255)
"""Common wrong factors; 100 is per cent, 255 the range of a color channel."""

TRUTH_VALUES = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
SIGNS = {"+": 1.0, "up": 1.0, "plus": 1.0, "rises": 1.0, "positive": 1.0, "-": -1.0, "down": -1.0}
SIGNS |= {"minus": -1.0, "falls": -1.0, "negative": -1.0, "same": 0.0, "zero": 0.0, "none": 0.0}
"""What students write for 1, -1 and 0 where nothing else is asked."""
ENDINGS = ("s", "es", "ed")
"""Passes and passed are pass."""
HINTS = Path(__file__).with_name("hints.toml")


def items(value: object) -> list[Item]:
    """The numbers and words of a value in reading order.

    Parameters
    ----------
    value : object
        A number, a truth value (1 or 0), a text, or a list, tuple, set, array or tensor of them, nested
        or not.

    Raises
    ------
    AttributionLabError
        If it holds anything else.

    Examples
    --------
    >>> from attributionlab.teaching.course.comparing import items
    >>> items([(1, True), "Pass"])
    [1.0, 1.0, 'Pass']
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return [item for each in value for item in items(each)]
    if isinstance(value, str):
        return [value]
    if isinstance(value, Real):
        try:
            return [float(value)]
        except OverflowError:
            return [math.inf if abs(value) == value else -math.inf]  # beyond what floats hold
    kind = type(value).__name__
    raise AttributionLabError(
        f"{cut(repr(value))} is of type {kind}: write a number, a word, or a list of them"
    )


def difference(prediction: object, answer: object, tolerance: float = 0.0) -> str:
    """How a prediction differs from the answer, in a sentence that does not give it away; "" where it
    is right.

    `prediction`, `answer`: as for `items`; where the answer is a set, the order does not count.
    `tolerance`: the largest difference of a number that still counts as right.

    Examples
    --------
    >>> difference((0, 0, 1.0, True), [0, 0, 1, 1])
    ''
    >>> difference([1, -1], [-1, 1])
    'The sizes are right, the signs are all reversed.'
    """
    target = items(answer)
    yes_or_no = isinstance(answer, bool)
    numeric = all(isinstance(item, float) for item in target)
    parts = _split(items(prediction), len(target))
    if numeric and {abs(item) for item in target if isinstance(item, float)} <= {0.0, 1.0}:
        parts = [SIGNS.get(str(part).strip().casefold(), part) for part in parts]
    guess = [_like(part, numeric) for part in parts]
    names = {word(item) for item in target if isinstance(item, str)}
    # A number may be the name of something.
    guess = [_digits(g) if isinstance(g, float) and _digits(g) in names else g for g in guess]
    if isinstance(answer, (set, frozenset)):
        return _missing(guess, target, tolerance)
    if len(guess) != len(target):
        return f"{_count(len(guess), 'value')} given, {len(target)} expected."
    right = [_same(g, t, tolerance) for g, t in zip(guess, target, strict=True)]
    if all(right):
        if len(target) > 1 and isinstance(prediction, (set, frozenset)):
            return "A set in { } has no order: write a list in [ ]."
        return ""
    wrong = [place for place, fits in enumerate(right) if not fits]
    for place in wrong:
        asked, given = (
            "number" if isinstance(each[place], float) else "word" for each in (target, guess)
        )
        if asked != given and yes_or_no:
            return "Answer yes or no."
        if asked != given:
            return f"Expected a {asked}, but {cut(repr(guess[place]))} is a {given}."
    alike = _signs(guess, target, tolerance) or _order(guess, target, tolerance)
    alike = alike or _factor(guess, target, tolerance)
    if alike:
        return alike
    if len(target) > 1:
        if len(wrong) == 1:
            return f"Only value {wrong[0] + 1} of {len(target)} is wrong."
        return f"{len(wrong)} of {len(target)} values are wrong."
    (given_value,), (asked_value,) = guess, target
    if yes_or_no and given_value in TRUTH_VALUES.values():
        return "It is the other one."
    if isinstance(given_value, str) or isinstance(asked_value, str):
        return "It is a different word."
    if math.isnan(given_value) or math.isnan(asked_value):
        return "nan stands for a value that does not exist."
    return "The number is too large." if given_value > asked_value else "The number is too small."


def _split(guess: list[Item], length: int) -> list[Item]:
    """The parts of a single text where several values are asked, or given."""
    if len(guess) == 1 and isinstance(guess[0], str) and (length > 1 or "," in guess[0]):
        text = guess[0].strip(" ()[]{}")
        parts = re.split(r"[,;]" if re.search(r"[,;]", text) else r"\s", text)
        return [part.strip() for part in parts if part.strip()]
    return guess


def _like(item: Item, numeric: bool) -> Item:
    """A text as the number that it stands for, where a number is asked."""
    if not numeric or isinstance(item, float):
        return item
    text = item.strip().casefold()
    if text in TRUTH_VALUES:
        return TRUTH_VALUES[text]
    over, _, under = text.removesuffix("%").partition("/")
    try:
        return float(over) / float(under or 1) / (100 if text.endswith("%") else 1)
    except (ValueError, ZeroDivisionError):
        return item


def word(text: str) -> str:
    """A word without what does not count: case, blanks, hyphens, brackets and quotes around it."""
    return re.sub(r"[\s_-]+", " ", text.casefold().strip(" \t\n.()[]'\""))


def _same(guess: Item, target: Item, tolerance: float = 0.0) -> bool:
    if isinstance(guess, str) or isinstance(target, str):
        words = word(str(guess)), word(str(target))
        alike = any(
            words in ((one, one + end), (one + end, one)) for one in words for end in ENDINGS
        )
        return type(guess) is type(target) and (len({*words}) == 1 or alike)
    # Integers are equal or not, however large they are.
    relative = 0.0 if guess.is_integer() and target.is_integer() else RELATIVE
    return math.isclose(guess, target, rel_tol=relative, abs_tol=tolerance * (1 + RELATIVE))


def _missing(guess: list[Item], target: list[Item], tolerance: float) -> str:
    """What is wrong with a list whose order does not count."""
    found = [t for t in target if any(_same(g, t, tolerance) for g in guess)]
    extra = [g for g in guess if not any(_same(g, t, tolerance) for t in target)]
    missing = len(target) > len(found)
    if not extra and not missing:
        return ""
    # Not how many are missing: that is a part of the answer.
    return f"{len(found)} right, {len(extra)} wrong" + (", some are missing." if missing else ".")


def _signs(guess: list[Item], target: list[Item], tolerance: float) -> str:
    numbers = [(g, t) for g, t in zip(guess, target, strict=True) if isinstance(g, float)]
    pairs = [(g, t) for g, t in numbers if isinstance(t, float)]
    if len(pairs) < len(target) or not all(_same(abs(g), abs(t), tolerance) for g, t in pairs):
        return ""
    flipped = [not _same(g, t, tolerance) for g, t in pairs]
    if len(pairs) == 1:
        return "The size is right, the sign is wrong."
    if all(flipped[place] for place, (_, t) in enumerate(pairs) if abs(t) > tolerance):
        return "The sizes are right, the signs are all reversed."
    return f"The sizes are right, {_count(sum(flipped), 'sign')} of {len(pairs)} wrong."


def _order(guess: list[Item], target: list[Item], tolerance: float) -> str:
    if all(_same(g, t, tolerance) for g, t in zip(reversed(guess), target, strict=True)):
        return "The values are right, their order is reversed."
    left = list(target)
    for item in guess:
        twin = next((each for each in left if _same(item, each, tolerance)), None)
        if twin is None:
            return ""
        left.remove(twin)
    return "The values are right, their order is wrong."


def _factor(guess: list[Item], target: list[Item], tolerance: float) -> str:
    """Whether all numbers are the same common factor too large or too small."""
    for factor in FACTORS:
        for times, name in ((factor, "large"), (1 / factor, "small")):
            # Per cent are right up to the tolerance; of smaller factors it would say anything.
            slack = tolerance * times if factor == 100 else 0.0
            if any(target) and all(
                isinstance(g, float) and isinstance(t, float) and _same(g, t * times, slack)
                for g, t in zip(guess, target, strict=True)
            ):
                how = "twice" if factor == 2 else f"{factor} times"
                if name == "small":
                    how = "half" if factor == 2 else f"1/{factor}"
                return f"{'Each value' if len(target) > 1 else 'The value'} is {how} as large."
    return ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def written(answer: object) -> str:
    """An answer as students read it, numbers with five digits.

    Examples
    --------
    >>> written([0.0, 1 / 3, "pass"])
    '0, 0.33333, pass'
    """
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    texts = [each if isinstance(each, str) else _digits(each) for each in items(answer)]
    return ", ".join(sorted(texts) if isinstance(answer, (set, frozenset)) else texts)


def _digits(number: float) -> str:
    return f"{number + 0.0:.0f}" if number.is_integer() else f"{number:.5g}"  # + 0.0: no "-0"


@cache
def known_mistakes() -> Mapping[str, Mapping[str, str]]:
    """For each gate of the course its expected wrong predictions, and why people think so."""
    read: dict[str, dict[str, str]] = tomllib.loads(HINTS.read_text(encoding="utf-8"))
    return read


def values_of(text: str) -> list[Item]:
    """The numbers and words of a text such as "2/3, pass"."""
    return [_like(part.strip(), True) for part in text.split(",")]


def hint(gate: str, prediction: object, tolerance: float = 0.0, unordered: bool = False) -> str:
    """Why people think so, "" where a gate does not expect that wrong prediction."""
    for wrong, text in known_mistakes().get(gate, {}).items():
        values = values_of(wrong)
        if not difference(prediction, set(values) if unordered else values, tolerance):
            return text
    return ""
