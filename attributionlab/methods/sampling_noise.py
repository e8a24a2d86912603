"""How much of a mean of few samples is noise of the sampling, and the guard that tells of it."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from attributionlab.methods.findings import Finding, tell

__all__ = ["noise_share", "tell_of_noise"]

STATED_NOISE = 0.5
"""Share of a map's sum of squares that may be sampling noise without mention."""


def noise_share(total: Float[Tensor, "..."], squares: Float[Tensor, "..."], samples: int) -> float:
    r"""Which share of a mean map's sum of squares the error of so few samples is expected to make up.

    .. math:: \frac{\sum_j \hat\sigma_j^2 / S}{\sum_j \bar a_j^2}

    0 for a single sample, which says nothing of its error.
    """
    mean = total / samples
    if samples == 1 or not mean.any():
        return 0.0
    variance = (squares / samples - mean.square()).clamp(min=0) * samples / (samples - 1)
    return float(variance.sum() / samples / mean.square().sum())


def tell_of_noise(shares: Sequence[float], remedy: str) -> None:
    """Tell of maps that are mostly noise; of each image the share that `noise_share` found."""
    noisy = [share for share in shares if share > STATED_NOISE]
    text = (
        "are mostly noise of the sampling, by the scatter of the samples (about {worst} of a map's sum "
        f"of squares): {remedy}"
    )
    tell(Finding(text, len(noisy), worst=min(1.0, max(noisy, default=0.0))))
