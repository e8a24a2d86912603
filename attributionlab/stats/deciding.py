"""How many images it takes until an interval decides."""

from collections.abc import Mapping

import numpy as np
from scipy import special

from attributionlab.stats.intervals import (
    CONFIDENCE,
    Scores,
    applicable,
    mean_score,
    of_the_same_images,
    tail_of,
)
from attributionlab.stats.resampling import joint_tail, resampled_means


def images_to_decide(
    parts: Mapping[str, Scores],
    gamma: float,
    confidence: float = CONFIDENCE,
    most: int = 100_000,
) -> int | None:
    r"""How many images would decide over the lowest of several means, if they stayed as they are.

    One part is decided by the smallest n with t_{n-1, 1-a} s / sqrt(n) <= |mean - gamma|, for mean and
    spread s of its scores: Student's interval, close to the bootstrap's for so many images. Where a
    score applies to a share of the images only, that many more must be drawn.

    As for `least_mean_interval`, the lowest mean reaches gamma once every part lies above, with
    a = (1 - confidence) / 2: the part that takes longest decides, whichever mean is lowest. It misses
    gamma once some part lies below, with the smaller a that several chances to fall too low leave: of
    the parts with a mean below gamma the fastest decides.

    The means of other images will lie elsewhere: about half of the tests of this size would decide
    where one part does, fewer where several must.

    Parameters
    ----------
    parts : mapping of str to array, (n,)
        A score of each image for each part, NaN where it does not apply. A part that applies to no
        image is left out.
    gamma : float
        The mean that must be reached.
    confidence : float
        In (0, 1).
    most : int
        The largest number worth naming.

    Returns
    -------
    int or None
        None if `most` images would not do, without any part, or if one applies to a single image.

    Raises
    ------
    AttributionLabError
        As for `least_mean_interval`.

    Examples
    --------
    >>> import numpy as np
    >>> from attributionlab.stats.deciding import images_to_decide
    >>> scores = np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.9])
    >>> images_to_decide({"overall": scores}, gamma=0.5)
    43
    >>> images_to_decide({"overall": scores, "positive": scores / 10 + 0.5}, gamma=0.5)
    43
    """
    arrays = of_the_same_images(parts).values()
    tail = tail_of(0, confidence)
    there = [values for values in arrays if applicable(values)]
    if not there or min(applicable(values) for values in there) < 2:
        return None
    below = [values for values in there if mean_score(values) < gamma]
    if not below:
        needed = [_images_of_one_part(values, gamma, tail, most) for values in there]
        return None if None in needed else max(n for n in needed if n is not None)
    if len(there) > 1:
        tail = joint_tail(resampled_means(np.stack(there, axis=1), 0), tail)
    needed = [_images_of_one_part(values, gamma, tail, most) for values in below]
    return min((n for n in needed if n is not None), default=None)


def _images_of_one_part(values: Scores, gamma: float, tail: float, most: int) -> int | None:
    """After how many images Student's interval of a mean leaves gamma outside."""
    drawn_each = len(values) / applicable(values)
    # From the lowest score on, equal scores are exact zeros and have no spread at all.
    spread = float(np.nanstd(values - np.nanmin(values), ddof=1))
    distance = abs(mean_score(values) - gamma)

    def decides(n: int) -> bool:
        return bool(-special.stdtrit(n - 1, tail) * spread <= distance * np.sqrt(n))

    fewest, enough = 2, int(most / drawn_each)
    if enough < fewest or not decides(enough):
        return None
    while fewest < enough:
        middle = (fewest + enough) // 2
        fewest, enough = (fewest, middle) if decides(middle) else (middle + 1, enough)
    return int(np.ceil(enough * drawn_each))
