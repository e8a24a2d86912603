"""The one exception class and the warning categories of the laboratory."""

from collections.abc import Sequence

__all__ = ["AttributionLabError", "AttributionLabWarning", "AttributionWarning", "refuse_if"]


class AttributionLabError(ValueError):
    """Input that the laboratory refuses: what is wrong, the value, the remedy, in one line."""


class AttributionLabWarning(UserWarning):
    """Base of all warnings of the laboratory."""


class AttributionWarning(AttributionLabWarning):
    """An attribution, or what its method did to the model, was repaired before it was scored."""


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
