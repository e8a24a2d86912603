r"""Soundness: how much of what is attributed carries information, seen by adding it step by step.

The most attributed pixels are put back first. Where adding some more of them does not raise the model's
performance by :math:`\epsilon`, their attribution is counted as false; the soundness of the pixels so
far is the share of their attribution that is not (Li et al., 2024, Theorem 4.11).
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Unpack

import torch
from jaxtyping import Bool, Float, Real
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    AttributionLabWarning,
    NotNegative,
    Portion,
    Positive,
    checked_arguments,
)
from attributionlab.metrics.checked_inputs import Falling, exactly_rescaled, nonnegative_maps
from attributionlab.metrics.marking import metric
from attributionlab.metrics.orders import removal_order
from attributionlab.metrics.performance import Images, Performance, PerformanceOptions, Targets

Variant = Literal["paper", "released"]
"""Variant of Li et al. (2024): what the text says, or what its public code does."""
Expansion = Literal["attributed", "area"]
"""Whether pixels without attribution are added, too, once all others are."""

EPSILON = 0.01
"""Least rise of the performance that shows information."""

SPARED = 0.04
"""Performance up to which the public code counts nothing as false."""

Maps = Real[Tensor, "batch 1 height width"]

PAPER_RATIOS = tuple(percent / 100 for percent in range(99, 0, -1))
"""Algorithm 3: 0.99, 0.98 ... 0.01."""
RELEASED_RATIOS = tuple(percent / 100 for percent in range(98, 2, -1))
"""The public code: 0.98, 0.97 ... 0.03."""


class SoundnessLevel(NamedTuple):
    """Soundness where the performance first reached a level."""

    level: float
    reached: bool
    jumped: bool
    """whether the performance there is above the level by more than epsilon: the step before was below
    it, and what lies between was never seen"""
    ratio: float
    """masked share of the area there; NaN where the level was not reached"""
    performance: float
    soundness: float
    """mean over images; NaN where the level was not reached"""
    per_sample: Tensor
    """(B,), NaN for images without attribution"""


@dataclass(frozen=True, eq=False)
class SoundnessSweep:
    """Soundness after every step of adding pixels.

    - `ratios`: masked share of the area, decreasing, of the steps done.
    - `performance`: mean indicator over the data set.
    - `per_sample`: soundness of each image's pixels so far; NaN where they have no attribution.
    - `false`: steps whose attribution counts as false.
    - `epsilon`: rise of the performance below which a step is false.
    - `rounding`: possible error of the performance in the precision of the indicator.
    """

    ratios: Float[Tensor, " steps"]
    performance: Float[Tensor, " steps"]
    per_sample: Float[Tensor, "steps batch"]
    false: Bool[Tensor, " steps"]
    epsilon: NotNegative
    rounding: Float[Tensor, " steps"]

    @property
    def soundness(self) -> Float[Tensor, " steps"]:
        """Mean over the images that have attribution; (S,)."""
        return self.per_sample.nanmean(1)

    @checked_arguments
    def at(self, level: Positive) -> SoundnessLevel:
        """Soundness at the first step whose performance is at least `level`.

        Raises
        ------
        AttributionLabError
            For a level that is not above 0, which requires no pixels.
        """
        steps = reaches(self.performance, level, self.rounding).nonzero()[:, 0]
        if not len(steps):
            none = torch.full_like(self.per_sample[0], torch.nan)
            nan = float("nan")
            return SoundnessLevel(level, False, False, nan, nan, nan, none)
        step = int(steps[0])
        performance = float(self.performance[step])
        return SoundnessLevel(
            level,
            True,
            performance - level > self.epsilon + float(self.rounding[step]),
            float(self.ratios[step]),
            performance,
            float(self.soundness[step]),
            self.per_sample[step],
        )


@checked_arguments
def soundness_sweep(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    ratios: Falling | None = None,
    epsilon: NotNegative = EPSILON,
    variant: Variant = "paper",
    expansion: Expansion = "area",
    **setup: Unpack[PerformanceOptions],
) -> SoundnessSweep:
    r"""Soundness after every step of adding the most attributed pixels (Algorithm 3).

    With :math:`A_m` the pixels that are kept at masked share m, s_m the performance on them, and
    :math:`\hat A` the union of all steps with :math:`s_m - s_{m'} < \epsilon`, m' the step before:

    .. math:: q_m = \frac{|A_m|_\eta - |\hat A|_\eta}{|A_m|_\eta}

    The first step is compared with a performance of 0. Steps that keep no pixel of any image are left
    out, unless `nothing_kept` gives replacements.

    Source: Li, Zhang, Kawaguchi, Khakzar, Bischl and Rezaei (2024): A dual-perspective approach to
    evaluating feature attribution methods. TMLR. Algorithm 3.

    Parameters
    ----------
    model, images, targets
        What is explained: (B, C, H, W) -> (B, K), images, labels.
    attributions : Tensor, (B, 1, H, W)
        :math:`\eta`, at least 0.
    ratios : sequence of float
        Masked shares of the area, falling. By default 0.99, 0.98 ... 0.01, or 0.98 ... 0.03 for the
        released variant. A ratio m keeps P - round(m P) of P pixels; equal attributions in
        reading order.
    epsilon : float
        Least rise of the performance that shows information.
    variant : {"paper", "released"}
        "released" is the authors' code: q before :math:`\hat A` is updated, a rise of exactly epsilon
        does not count, nothing is false while the performance is at most 0.04, and maps, which must lie
        in [0, 1], are rounded to 256 levels.
    expansion : {"area", "attributed"}
        "area" continues with pixels without attribution, "attributed" stops when all attributed pixels
        of an image are kept.
    **setup
        `PerformanceOptions`: indicator, value_range, imputation, nothing_kept, seed, batch_size.

    Returns
    -------
    SoundnessSweep
        `.at(level)` gives Algorithm 1's answer.

    Raises
    ------
    AttributionLabError
        For negative attributions, ratios that do not fall within [0, 1], and what `Performance`
        refuses. Without `nothing_kept`, also if no step keeps a pixel, or if an image has no attributed
        pixels.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import soundness_sweep
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2, bias=False)).eval()
    >>> _ = model[1].weight.data.copy_(torch.tensor([[1.0, 1, 0, 0], [0, 0, 0, 1]]))
    >>> image = torch.tensor([[[[1.0, 1.0, 1.0, 0.0]]]])
    >>> map_ = torch.tensor([[[[3.0, 0.0, 1.0, 0.0]]]])
    >>> black = lambda images, keep: images * keep
    >>> sweep = soundness_sweep(
    ...     model, image, torch.tensor([0]), map_, ratios=(0.75, 0.5), imputation=black
    ... )
    >>> sweep.performance, sweep.soundness
    (tensor([1., 1.], dtype=torch.float64), tensor([1.0000, 0.7500], dtype=torch.float64))
    """
    performance = Performance(model, images, targets, **setup)
    if ratios is None:
        ratios = PAPER_RATIOS if variant == "paper" else RELEASED_RATIOS
    steps = Steps(attributions, ratios, epsilon, variant, expansion, performance.map_shape)
    found = list(steps.walk(performance))
    return SoundnessSweep(
        torch.tensor([each.ratio for each in found], dtype=torch.float64, device="cpu"),
        torch.stack([each.performance for each in found]),
        torch.stack([each.soundness for each in found]),
        torch.tensor([each.false for each in found], device="cpu"),
        steps.epsilon,
        torch.tensor([each.rounding for each in found], dtype=torch.float64, device="cpu"),
    )


@metric(
    higher_is_better=True,
    per_sample=False,
    maps="nonnegative",
    unit="output change",
    ties="reading order",
    invariances=("scale", "missing"),
    rising=True,
)
@checked_arguments
def soundness_at(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    level: Positive,
    ratios: Falling | None = None,
    epsilon: NotNegative = EPSILON,
    variant: Variant = "paper",
    **setup: Unpack[PerformanceOptions],
) -> Float[Tensor, ""]:
    r"""Soundness of the pixels that first reach a predictive level (Algorithm 1).

    The most attributed pixels are added until the performance is at least v; parameters and errors
    as for `soundness_sweep`, with `expansion="attributed"`.

    Source: Li et al. (2024), Algorithm 1.

    Parameters
    ----------
    level : float
        v, in units of the indicator; above 0.
    ratios : sequence of float
        By default 0.99, 0.98 ... 0 (released: 0.98 ... 0.03).

    Returns
    -------
    Tensor of float64, ()
        Mean over images, in [0, 1]; images without attribution are left out, and need `nothing_kept`
        for the performance. NaN if the level is not reached.

    Warns
    -----
    AttributionLabWarning
        If the level is not reached, passed by more than epsilon in one step, or reached before any
        attribution is included (NaN).

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import soundness_at
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2, bias=False)).eval()
    >>> _ = model[1].weight.data.copy_(torch.tensor([[1.0, 1, 0, 0], [0, 0, 0, 1]]))
    >>> image = torch.tensor([[[[1.0, 1.0, 1.0, 0.0]]]])
    >>> map_ = torch.tensor([[[[1.0, 0.0, 3.0, 0.0]]]])
    >>> black = lambda images, keep: images * keep
    >>> soundness_at(
    ...     model, image, torch.tensor([0]), map_, level=1.0, ratios=(0.75, 0.5), imputation=black
    ... )  # the first pixel ties: right by half; the second decides
    tensor(1., dtype=torch.float64)
    """
    level = float(level)
    performance = Performance(model, images, targets, **setup)
    if ratios is None:
        ratios = (*PAPER_RATIOS, 0.0) if variant == "paper" else RELEASED_RATIOS
    steps = Steps(attributions, ratios, epsilon, variant, "attributed", performance.map_shape)
    best = 0.0
    for step in steps.walk(performance):
        best = max(best, float(step.performance))
        if reaches(step.performance, level, step.rounding):
            soundness = step.soundness.nanmean()
            if soundness.isnan():
                warnings.warn(
                    f"level {level:g} was reached by pixels without attribution, which have no "
                    "soundness; take a higher level",
                    AttributionLabWarning,
                    stacklevel=3,  # past the check of the arguments
                )
            elif step.performance - level > steps.epsilon + step.rounding:
                warnings.warn(
                    f"level {level:g} was jumped over: the performance went from below it to "
                    f"{float(step.performance):g} in one step; this is the soundness there",
                    AttributionLabWarning,
                    stacklevel=3,  # past the check of the arguments
                )
            return soundness
    warnings.warn(
        f"level {level:g} was not reached: the performance of the attributed pixels is at most "
        f"{best:g}; take a lower level",
        AttributionLabWarning,
        stacklevel=3,  # past the check of the arguments
    )
    return torch.tensor(torch.nan, dtype=torch.float64, device="cpu")


@checked_arguments
def included_pixels(
    attributions: Maps, ratio: Portion, *, expansion: Expansion = "area"
) -> Bool[Tensor, "batch 1 height width"]:
    """The pixels that are kept at a masked share of the area: those with the largest attribution.

    Parameters
    ----------
    attributions : Tensor, (B, 1, H, W)
        At least 0.
    ratio : float
        m in [0, 1]; P - round(m P) of P pixels are kept, equal attributions in reading order.
    expansion : {"area", "attributed"}
        Whether pixels without attribution may be among them.

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
        self.ratios = tuple(ratios)
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
                f"no step keeps a pixel: {self._why_none()}, or pass nothing_kept=, the replacement of "
                "images without kept pixels"
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
                "nothing_kept=, their replacement"
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
