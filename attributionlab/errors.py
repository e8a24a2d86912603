"""The one exception class and the warning categories of the laboratory."""

import difflib
from collections.abc import Iterable, Sequence

__all__ = [
    "AttributionLabError",
    "AttributionLabWarning",
    "AttributionWarning",
    "GuardWarning",
    "nearest",
    "refuse_if",
]


class AttributionLabError(ValueError):
    """Input that the laboratory refuses: what is wrong, the value, the remedy, in one line."""


class AttributionLabWarning(UserWarning):
    """Base of all warnings of the laboratory."""


class AttributionWarning(AttributionLabWarning):
    """An attribution, or what its method did to the model, was repaired before it was scored."""


class GuardWarning(AttributionWarning):
    """A method returned something that is not what it claims to be, without saying so itself."""


def refuse_if(problems: Sequence[str], where: str = "") -> None:
    """Raise one `AttributionLabError` that lists all problems at once; do nothing without any.

    Parameters
    ----------
    problems : sequence of str
        One sentence a problem.
    where : str
        What the problems are about, put in front of them.
    """
    if problems:
        raise AttributionLabError((f"{where}: " if where else "") + "; ".join(problems))


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a wrong name: the known one most like it, or else all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known) or 'none'}"
