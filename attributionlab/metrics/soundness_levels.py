r"""Soundness: how much of what is attributed carries information, seen by adding it step by step.

The most attributed pixels are put back first. Where adding some more of them does not raise the model's
performance by :math:`\epsilon`, their attribution is counted as false; the soundness of the pixels so
far is the share of their attribution that is not (Li et al., 2024, Theorem 4.11).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attributionlab.errors import AttributionLabWarning, refuse_if
from attributionlab.metrics.inclusion import EPSILON, Expansion, Maps, Steps, Variant, reaches
from attributionlab.metrics.marking import metric
from attributionlab.metrics.performance import Images, Performance, Setup, Targets
from attributionlab.validation import number_problem

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

    Parameters
    ----------
    ratios : Tensor, (S,)
        Masked share of the area, falling; of the steps that were seen.
    performance : Tensor, (S,)
        Mean indicator over the data set.
    per_sample : Tensor, (S, B)
        Soundness of each image's pixels so far; NaN where they have no attribution.
    false : Tensor of bool, (S,)
        Steps whose attribution was counted as false.
    epsilon : float
        Rise of the performance below which it is.
    rounding : Tensor, (S,)
        By which the performance may be off, in the precision in which the indicator returns numbers.
    """

    ratios: Float[Tensor, " steps"]
    performance: Float[Tensor, " steps"]
    per_sample: Float[Tensor, "steps batch"]
    false: Bool[Tensor, " steps"]
    epsilon: float
    rounding: Float[Tensor, " steps"]

    @property
    def soundness(self) -> Float[Tensor, " steps"]:
        """Mean over the images that have attribution; (S,)."""
        return self.per_sample.nanmean(1)

    def at(self, level: float) -> SoundnessLevel:
        """Soundness at the first step whose performance is at least `level`.

        Raises
        ------
        AttributionLabError
            For a level that is not above 0, where nothing is asked to be included.
        """
        refuse_if(number_problem("level", level, above=0))
        level = float(level)
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


def soundness_sweep(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    ratios: Sequence[float] | None = None,
    epsilon: float = EPSILON,
    variant: Variant = "paper",
    expansion: Expansion = "area",
    **setup: Unpack[Setup],
) -> SoundnessSweep:
    r"""Soundness after every step of adding the most attributed pixels (Algorithm 3).

    With :math:`A_m` the pixels that are kept at masked share m, s_m the performance on them, and
    :math:`\hat A` the union of all steps with :math:`s_m - s_{m'} < \epsilon`, m' the step before:

    .. math:: q_m = \frac{|A_m|_\eta - |\hat A|_\eta}{|A_m|_\eta}

    The first step is compared with a performance of 0. Steps so small that no pixel of any image is
    kept are left out, unless `nothing_kept` says what the images are then.

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
        is too little, nothing is false while the performance is at most 0.04, and maps, which must
        lie in [0, 1], are rounded to 256 levels.
    expansion : {"area", "attributed"}
        "area" goes on with pixels of no attribution, "attributed" leaves an image as it is when all its
        attributed pixels are kept.
    **setup
        As `Setup` says: indicator, value_range, imputation, nothing_kept, seed, batch_size.

    Returns
    -------
    SoundnessSweep
        `.at(level)` gives Algorithm 1's answer.

    Raises
    ------
    AttributionLabError
        For negative attributions, ratios that do not fall within [0, 1], and what `Performance`
        refuses. Without `nothing_kept`, also if no step keeps a pixel, or if the attributed pixels of
        an image are none.

    References
    ----------
    Li, Zhang, Kawaguchi, Khakzar, Bischl and Rezaei (2024): A dual-perspective approach to evaluating
    feature attribution methods. TMLR. Algorithm 3.

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


@metric(higher_is_better=True, per_sample=False, maps="nonnegative")
def soundness_at(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    level: float,
    ratios: Sequence[float] | None = None,
    epsilon: float = EPSILON,
    variant: Variant = "paper",
    **setup: Unpack[Setup],
) -> Float[Tensor, ""]:
    r"""Soundness of the pixels that first reach a predictive level (Algorithm 1).

    The most attributed pixels are added until the performance is at least v; parameters and errors
    as for `soundness_sweep`, with `expansion="attributed"`.

    Parameters
    ----------
    level : float
        v, in units of the indicator; above 0.
    ratios : sequence of float
        By default 0.99, 0.98 ... 0 (released: 0.98 ... 0.03).

    Returns
    -------
    Tensor of float64, ()
        Mean over images, in [0, 1]; those without any attribution are left out of it, and need
        `nothing_kept` for the performance. NaN where the level is not reached.

    Warns
    -----
    AttributionLabWarning
        If the level is not reached, passed by more than epsilon in one step, or reached before any
        attribution is included (NaN).

    References
    ----------
    Li et al. (2024), Algorithm 1.

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
    refuse_if(number_problem("level", level, above=0))
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
                    stacklevel=2,
                )
            elif step.performance - level > steps.epsilon + step.rounding:
                warnings.warn(
                    f"level {level:g} was jumped over: the performance went from below it to "
                    f"{float(step.performance):g} in one step; this is the soundness there",
                    AttributionLabWarning,
                    stacklevel=2,
                )
            return soundness
    warnings.warn(
        f"level {level:g} was not reached: the performance of the attributed pixels is at most "
        f"{best:g}; take a lower level",
        AttributionLabWarning,
        stacklevel=2,
    )
    return torch.tensor(torch.nan, dtype=torch.float64, device="cpu")
