"""What the laboratory raises: refusals, warnings, and how work ends that somebody stops."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

LONGEST_VALUE = 200
"""Characters of a value in a message."""
LONG_WORD = re.compile(
    rf"(?<!\S)(?!\S*\.\.\. \()\S{{{LONGEST_VALUE}}}\S*?[^\s:;,](?=[:;,]?(?:\s|$))"
)
"""What has no blank, without what ends its clause, and is not cut already."""
LONG_TEXT = re.compile(
    rf"(?<!\w)(['\"])((?:(?!\1)[^\\]|\\.){{{LONGEST_VALUE + 1},}}?)\1(?!\w)", re.DOTALL
)
"""What stands in quotes, as Python writes a text."""
BRACKETS = {"[": "]", "{": "}", "(": ")"}


class AttributionLabError(ValueError):
    """Input that the laboratory refuses: what is wrong, the value, the remedy, in one line.

    Values in it (quoted texts, text in brackets, long words) are cut after 200 characters, and control
    characters are escaped, because values and errors of other people's code may contain anything.

    Attributes
    ----------
    problems : sequence of str
        The sentences that `refuse_if` joined into the message.
    """

    problems: Sequence[str] = ()

    def __init__(self, message: object = "") -> None:
        text = LONG_TEXT.sub(lambda found: cut(found[0]), str(message))
        text = LONG_WORD.sub(lambda found: cut(found[0]), _cut_brackets(text))
        super().__init__("\n".join(map(printable, text.split("\n"))))


class Stopped(KeyboardInterrupt):
    """Ctrl-C or a signal to end came, and this much was done.

    `message`: how much was done. `result`: the result as far as it goes, None where nothing was done.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class AttributionLabWarning(UserWarning):
    """Base of all warnings of the laboratory."""


class CostWarning(AttributionLabWarning):
    """Work that has begun will take long."""


class AttributionWarning(AttributionLabWarning):
    """An attribution, or a change that its method made to the model, was repaired before scoring."""


class GuardWarning(AttributionWarning):
    """A method returned something other than it claims, without its own warning."""


def refuse_if(problems: Sequence[str], where: str = "") -> None:
    """Raise one `AttributionLabError` that lists all problems at once; do nothing without any.

    `problems`: one sentence a problem. `where`: what the problems are about, put in front of them.
    """
    if problems:
        error = AttributionLabError((f"{where}: " if where else "") + "; ".join(problems))
        error.problems = tuple(problems)
        raise error


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a wrong name: the known one most like it, or else all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(str(name), known, n=1)  # anything may stand in a name's place
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known) or 'none'}"


def printable(text: str) -> str:
    """A text in which each character that ends a line, moves the cursor, hides others or cannot be
    written in UTF-8 is an escape, as in Python's texts.
    """
    return "".join(
        each
        if each.isprintable() or each == "\N{NO-BREAK SPACE}"
        else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def listed(words: Sequence[str]) -> str:
    """Words as they stand in a sentence: a, b and c."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def cut(text: str, longest: int = LONGEST_VALUE) -> str:
    """The beginning of a long text, and how much is left out."""
    left_out = len(text) - longest
    return f"{text[:longest]}... ({left_out:,} characters more)" if left_out > 0 else text


def _cut_brackets(text: str) -> str:
    """A text in which whatever stands between a bracket and the one that closes it is a short line."""
    parts, open_, start = [], list[str](), 0
    for place, each in enumerate(text):
        if each in BRACKETS:
            if not open_:
                parts.append(text[start:place])
                start = place
            open_.append(BRACKETS[each])
        elif open_ and each == open_[-1]:
            open_.pop()
            if not open_:
                # Arrays and tensors are written in many lines.
                parts.append(cut(" ".join(text[start : place + 1].split())))
                start = place + 1
    return "".join(parts) + text[start:]
