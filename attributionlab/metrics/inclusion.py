r"""Which pixels are put back first, and whose attribution shows no information.

The steps of Algorithms 1 and 3 of Li, Zhang, Kawaguchi, Khakzar, Bischl and Rezaei (2024): A
dual-perspective approach to evaluating feature attribution methods. TMLR.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Real
from torch import Tensor

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.metrics.checked_inputs import checked_shares, exactly_rescaled, nonnegative_maps
from attributionlab.metrics.orders import removal_order
from attributionlab.metrics.performance import Performance
from attributionlab.validation import number_problem

Variant = Literal["paper", "released"]
"""Of Li et al. (2024): what the text says, or what its public code does."""
Expansion = Literal["attributed", "area"]
"""Whether pixels without attribution are added, too, once all others are."""

EPSILON = 0.01
"""Least rise of the performance that shows information."""

SPARED = 0.04
"""Performance up to which the public code counts nothing as false."""

Maps = Real[Tensor, "batch 1 height width"]


def included_pixels(
    attributions: Maps, ratio: float, *, expansion: Expansion = "area"
) -> Bool[Tensor, "batch 1 height width"]:
    """The pixels that are kept at a masked share of the area: those with the largest attribution.

    Parameters
    ----------
    attributions : Tensor, (B, 1, H, W)
        At least 0.
    ratio : float
        m in [0, 1]; P - round(m P) of P pixels are kept, equal attributions in reading order.
    expansion : {"area", "attributed"}
        Whether pixels of no attribution may be among them.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import included_pixels
    >>> included_pixels(torch.tensor([[[[0.0, 2.0, 0.0, 1.0]]]]), 0.75)
    tensor([[[[False,  True, False, False]]]])
    """
    steps = Steps(attributions, (ratio,), 0.0, "paper", expansion)
    return steps.keep(steps.counts(ratio))


def informs(rise: float | Tensor, epsilon: float, rounding: float | Tensor) -> Any:
    """Whether the performance rises by epsilon, up to rounding."""
    return rise >= epsilon - rounding


def reaches(performance: float | Tensor, level: float, rounding: float | Tensor) -> Any:
    """Whether a performance is at least a level, up to rounding."""
    return performance >= level - rounding


class Step(NamedTuple):
    ratio: float
    performance: Tensor  # ()
    rounding: float
    """by which the performance, or its rise, may be off"""
    soundness: Tensor  # (B,)
    false: bool


class Steps:
    """Masks and attribution sums of a sweep over a batch."""

    def __init__(
        self,
        attributions: Tensor,
        ratios: Sequence[float],
        epsilon: float,
        variant: Variant,
        expansion: Expansion,
        shape: tuple[int, int, int, int] | None = None,
    ) -> None:
        for name, value, words in (
            ("variant", variant, get_args(Variant)),
            ("expansion", expansion, get_args(Expansion)),
        ):
            if value not in words:
                raise AttributionLabError(f"{name} is {value!r}: take {words[0]!r} or {words[1]!r}")
        refuse_if(number_problem("epsilon", epsilon, least=0))
        self.ratios = checked_shares(ratios, "ratios", falling=True)
        maps = nonnegative_maps(attributions, shape)
        self.shape = attributions.shape
        if variant == "released":
            maps = eight_bit(maps)
        self.epsilon, self.released = float(epsilon), variant == "released"
        order = removal_order(maps.view(self.shape))
        pixels = maps.shape[1]
        places = torch.arange(pixels, dtype=torch.int32, device=order.device)
        self.rank = torch.empty_like(order, dtype=torch.int32)
        self.rank.scatter_(1, order, places.expand_as(order))
        self.sums = maps.new_zeros(len(maps), pixels + 1)  # of the first k
        torch.cumsum(exactly_rescaled(maps).gather(1, order), 1, out=self.sums[:, 1:])
        self.most = (
            (maps > 0).sum(1)
            if expansion == "attributed"
            else maps.new_full((len(maps),), pixels, dtype=torch.int64)
        )
        self.pixels = pixels

    def counts(self, ratio: float) -> Tensor:
        """How many pixels of each image are kept, (B,)."""
        return self.most.clamp(max=self.pixels - round(ratio * self.pixels))

    def keep(self, counts: Tensor) -> Tensor:
        return (self.rank < counts[:, None]).view(self.shape)

    def walk(self, performance: Performance) -> Iterator[Step]:
        """Every step, except those at which no pixel of any image is kept and no answer is known."""
        before, size_before = torch.zeros((), dtype=torch.float64, device="cpu"), 0.0
        included = self.sums.new_zeros(len(self.sums))
        sound, wrong = included, included
        kept, reached, size = None, before, 0.0
        for ratio in self.ratios:
            counts = self.counts(ratio)
            if performance.empty is None and not self._answered(counts):
                continue
            if kept is None or not torch.equal(counts, kept):
                values = performance.keeping(self.keep(counts))
                reached, size = values.mean().cpu(), float(values.abs().mean())
            kept = counts
            total = self.sums.gather(1, counts[:, None])[:, 0]
            added, included = total - included, total
            rise = float(reached - before)
            rounding = performance.precision * max(size, size_before)
            if self.released:
                false = rise <= self.epsilon + rounding and float(reached) > SPARED
                # The released code looks at the attributed pixels before it judges the new ones.
                quotient = _share(sound + added, wrong)
            else:
                false = not informs(rise, self.epsilon, rounding)
            if false:
                wrong = wrong + added
            else:
                sound = sound + added
            if not self.released:
                quotient = _share(sound, wrong)
            before, size_before = reached, size
            yield Step(ratio, reached, rounding, quotient, false)
        if kept is None:
            raise AttributionLabError(
                f"no step keeps a pixel: {self._why_none()}, or pass nothing_kept=, what an image "
                "becomes of which nothing is kept"
            )

    def _answered(self, counts: Tensor) -> bool:
        """Whether pixels are kept: of every image, or of none."""
        if not bool(counts.any()):
            return False
        if not bool(counts.all()):
            bare = counts == 0
            raise AttributionLabError(
                f"image {int(bare.nonzero()[0])} has no attribution ({int(bare.sum())} of "
                f"{len(bare)} images), so that no pixel of it is kept: leave such images out, or pass "
                "nothing_kept=, what they become"
            )
        return True

    def _why_none(self) -> str:
        if not bool(self.most.any()):
            return "no image has any attribution; pass other maps"
        return (
            f"a share of {1 - self.ratios[-1]:g} of {self.pixels} pixels rounds to none; pass smaller "
            "ratios"
        )


def _share(sound: Tensor, wrong: Tensor) -> Tensor:
    """NaN where there is no attribution at all."""
    return sound / (sound + wrong)


def eight_bit(maps: Tensor) -> Tensor:
    """The 256 levels that the released code stores maps in, which must lie in [0, 1]."""
    if float(maps.max()) > 1:
        raise AttributionLabError(
            f"attributions reach {float(maps.max()):g}, but variant='released' rounds maps in [0, 1] "
            "to 256 levels: divide each map by its maximum"
        )
    return (255 * maps).round()
