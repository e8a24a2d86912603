"""How much of a mean of few samples is noise of the sampling, and the guard that tells of it."""

import math
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from attributionlab.methods.findings import Notice, notify

STATED_NOISE = 0.5
"""Share of a map's sum of squares that may be sampling noise without mention."""


def noise_share(
    total: Float[Tensor, "..."],
    squares: Float[Tensor, "..."],
    samples: int,
    population: int | None = None,
) -> float:
    r"""Which share of a mean map's sum of squares the error of so few samples is expected to make up.

    .. math::
        \frac{\sum_j \hat s_j^2}{\sum_j \bar a_j^2}, \qquad
        \hat s_j^2 = c \sum_{s=1}^n (a_{sj} - \bar a_j)^2, \qquad
        c = \frac{1}{n (n - 1)}

    for n independent samples. Drawn from N without replacement, all over again after each N, only the
    r = n mod N of the last round leave the mean to chance. Its variance is
    :math:`S^2 r (N - r) / (N n^2)`, with S^2 of all N (divided by N - 1), and without bias

    .. math:: c = \frac{r (N - r)}{n \, \big(n^2 (N - 1) - r (N - r)\big)},

    which is (1 - n / N) / (n (n - 1)) in the first round and 0 where every round is complete.

    Parameters
    ----------
    total, squares : Tensor
        Sums of the samples and of their squares.
    samples : int
        n.
    population : int, optional
        N; independent samples without it.

    Returns
    -------
    float
        Infinity where a single sample says nothing of its error; 0 for a map of zeros.
    """
    mean = total / samples
    if population is None:
        c = 1 / (samples * (samples - 1)) if samples > 1 else math.inf
    else:
        rest = samples % population
        left = rest * (population - rest)
        most = samples**2 * (population - 1)
        c = 0.0 if not left else left / (samples * (most - left)) if most > left else math.inf
    if math.isinf(c):
        return c if mean.any() else 0.0
    scatter = (squares - samples * mean.square()).clamp(min=0)
    return share_of_errors(mean, (c * scatter).sqrt())


def share_of_errors(estimate: Float[Tensor, "..."], errors: Float[Tensor, "..."]) -> float:
    r"""Which share of a map's sum of squares is expected to be noise.

    That of independent samples adds up to the sum of squares,

    .. math:: E \sum_j \hat a_j^2 = \sum_j a_j^2 + \sum_j s_j^2,

    so that :math:`\sum_j s_j^2 / \sum_j \hat a_j^2` estimates its share.

    Parameters
    ----------
    estimate, errors : Tensor
        a, and the standard error s of each value; infinite where nothing is known of it.

    Returns
    -------
    float
        Infinity where nothing is known; 0 for a map of zeros.
    """
    whole = estimate.double().square().sum()
    return float(errors.double().square().sum() / whole) if whole else 0.0


def tell_of_noise(shares: Sequence[float], remedy: str) -> None:
    """Tell of maps that are mostly noise, and of those of which nobody knows.

    Parameters
    ----------
    shares : sequence of float
        Of each image; infinite where it is not known.
    remedy : str
        What to do.
    """
    unknown = sum(math.isinf(share) for share in shares)
    text = f"have a sampling noise of unknown size, as so few samples do not show it: {remedy}"
    notify(Notice(text, unknown))
    noisy = [share for share in shares if STATED_NOISE < share < math.inf]
    text = (
        "are mostly noise of the sampling, by the scatter of the samples (about {worst} of a map's sum "
        f"of squares): {remedy}"
    )
    notify(Notice(text, len(noisy), worst=min(1.0, max(noisy, default=0.0))))
