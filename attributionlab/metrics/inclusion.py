r"""Which pixels are put back first, and whose attribution shows no information.

The steps of Algorithms 1 and 3 of Li, Zhang, Kawaguchi, Khakzar, Bischl and Rezaei (2024): A
dual-perspective approach to evaluating feature attribution methods. TMLR.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Real
from torch import Tensor

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.metrics.checked_inputs import checked_shares, nonnegative_maps
from attributionlab.metrics.orders import removal_order
from attributionlab.metrics.performance import Performance
from attributionlab.validation import number_problem

__all__ = ["ROUNDING", "Expansion", "Steps", "Variant", "eight_bit", "included_pixels"]

Variant = Literal["paper", "released"]
"""Of Li et al. (2024): what the text says, or what its public code does."""
Expansion = Literal["attributed", "area"]
"""Whether pixels without attribution are added, too, once all others are."""

ROUNDING = 1e-12
"""By which a mean of indicators may be off: 0.61 - 0.6 > 0.01 in float64, and 0.3 - 0.2 < 0.1."""

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


class Step(NamedTuple):
    performance: Tensor  # ()
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
        self.epsilon, self.released = epsilon, variant == "released"
        order = removal_order(maps.view(self.shape))
        self.rank = order.argsort(1)
        ranked = maps.gather(1, order)
        self.sums = torch.nn.functional.pad(ranked.cumsum(1), (1, 0))  # of the first k, (B, P + 1)
        pixels = maps.shape[1]
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
        before = torch.zeros((), dtype=torch.float64)
        included = self.sums.new_zeros(len(self.sums))
        sound, wrong = included, included
        kept, reached = None, before
        for ratio in self.ratios:
            counts = self.counts(ratio)
            if kept is None or not torch.equal(counts, kept):
                reached = performance.keeping(self.keep(counts)).mean().cpu()
            kept = counts
            total = self.sums.gather(1, counts[:, None])[:, 0]
            added, included = total - included, total
            rise = float(reached - before)
            if self.released:
                false = rise <= self.epsilon + ROUNDING and float(reached) > SPARED
                # The released code looks at the attributed pixels before it judges the new ones.
                quotient = _share(sound + added, wrong)
            else:
                false = rise < self.epsilon - ROUNDING
            if false:
                wrong = wrong + added
            else:
                sound = sound + added
            if not self.released:
                quotient = _share(sound, wrong)
            before = reached
            yield Step(reached, quotient, false)


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
