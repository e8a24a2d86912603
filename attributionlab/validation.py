"""What to say about a setting that is not the number, or the truth value, that a method takes.

Each function returns a list of at most one sentence, for `attributionlab.errors.refuse_if`, so that a
method refuses everything that is wrong at once. NumPy's numbers count as numbers; truth values and
texts do not, because ``True`` as a count and ``"9"`` are mistakes.
"""

import math
from numbers import Integral, Real
from typing import cast

import numpy as np

__all__ = ["boolean_problem", "integer_problem", "number_problem"]


def integer_problem(name: str, value: object, least: int, most: int | None = None) -> list[str]:
    """What is wrong with a setting that must be an integer.

    Parameters
    ----------
    name : str
        Of the setting.
    value : object
        What was passed.
    least, most : int
        The range, both ends included; without `most` it is open above.

    Examples
    --------
    >>> from attributionlab.validation import integer_problem
    >>> integer_problem("n_samples", 10.5, 1)
    ['n_samples is 10.5: take an integer of at least 1']
    """
    fits = isinstance(value, Integral) and not isinstance(value, bool)
    if fits and least <= value and (most is None or value <= most):  # type: ignore[operator]
        return []
    allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
    return [f"{name} is {value!r}: take an integer {allowed}"]


def number_problem(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> list[str]:
    """What is wrong with a setting that must be a finite number.

    Parameters
    ----------
    name : str
        Of the setting.
    value : object
        What was passed.
    above : float, optional
        The number must be larger.
    least, most : float, optional
        The number must be no smaller, no larger.

    Examples
    --------
    >>> from attributionlab.validation import number_problem
    >>> number_problem("alpha", float("nan"), least=0)
    ['alpha is nan: take a number of at least 0']
    """
    fits = (
        isinstance(value, Real)
        and not isinstance(value, bool)
        and -math.inf < (number := cast(float, value)) < math.inf
        and (above is None or number > above)
        and (least is None or number >= least)
        and (most is None or number <= most)
    )
    if fits:
        return []
    ends = (("above", above), ("of at least", least), ("of at most", most))
    limits = " and ".join(f"{words} {end:g}" for words, end in ends if end is not None)
    return [f"{name} is {value!r}: take a {f'number {limits}' if limits else 'finite number'}"]


def boolean_problem(name: str, value: object) -> list[str]:
    """What is wrong with a setting that must be true or false; texts such as "false" are true.

    Parameters
    ----------
    name : str
        Of the setting.
    value : object
        What was passed.

    Examples
    --------
    >>> from attributionlab.validation import boolean_problem
    >>> boolean_problem("relu", "false")
    ["relu is 'false': take True or False"]
    """
    if isinstance(value, bool | np.bool_):
        return []
    return [f"{name} is {value!r}: take True or False"]
