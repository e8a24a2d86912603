r"""Sensitivity-N: do sums of attributions follow what the output loses?

For subsets S of N pixels, drawn uniformly, Sensitivity-N is Pearson's correlation over the draws

    corr( sum of a_j over j in S,   f(x) - f(x without S) )

where x without S has the replacement's values at S. Sources: Ancona, Ceolini, Oztireli and Gross, 2018;
AttributionLab, F.5 and G.5 (100 draws, every N, the mean over N).

Undefined correlations: where all draws change the output alike, N says nothing (not applicable, NaN,
left out of the mean over N); so does N = P, where every draw is the same subset. Where the outputs vary
and the sums do not, the attributions explain nothing: 0.

Draws of different N are nested, hence not independent. A curve over N is smooth, and its mean is not as
certain as that of independent correlations: near 0 a single one varies by 1 / sqrt(D).

The first N pixels of a random permutation are a uniform subset of every size N. So D permutations
yield D draws for all N from 1 to P = H W, from one evaluation along each permutation, and all
attributions of an image share them: `SubsetEffects.correlations` is the Sensitivity-N of each.

Sums of attributions are exact, so that equal sums are found equal in whatever order: values are first
rounded to integer multiples of a step, 2^-46 (at 224 x 224; finer in smaller images) of the power of
two above the map's largest magnitude. That leaves float32 values above 2^-22 of it as they are.
Outputs are compared with ==.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, TypedDict, Unpack

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    Count,
    Replacement,
    Seed,
    Within,
    ascending,
    broadcast_replacement,
    checked_arguments,
    not_empty,
)
from attributionlab.base.exact import trajectories
from attributionlab.metrics.checked_inputs import checked_maps, output_of, warn_of_forward_passes
from attributionlab.metrics.curves import Measure
from attributionlab.metrics.marking import metric

Sizes = Annotated[Sequence[Count], not_empty, ascending]
Images = Real[Tensor, "batch channels height width"]
Maps = Real[Tensor, "batch 1 height width"]
Curves = Float[Tensor, "batch sizes"]

OUTPUTS_AT_ONCE = 2**21
"""Rows of outputs that are evaluated at once: 42 draws of all sizes at 224 x 224."""


class SubsetOptions(TypedDict, total=False):
    """Keywords of Sensitivity-N and of everything else that removes random subsets of all sizes.

    Parameters
    ----------
    sizes : sequence of int, optional
        The N, ascending, in 1 .. H W; all of them by default.
    draws : int
        Permutations for each image, at least 3; 100 by default.
    seed : int
        Seed for the permutations, at least 0; 0 by default. Image after image draws from one stream:
        the permutations are a function of the seed, the draws, the image's size and its place in the
        batch. So pass all images in one call, or another seed with each batch: with one seed for all,
        batches share their draws, and an image in another place gets others.
    measure : {"output", "changed-steps"}
        The output's loss, or at how many of the first N steps of one pixel each the output changed
        (!=). The latter is AttributionLab's form for outputs that wrap, such as remainders (F.5); it
        needs exact outputs, at every step up to the largest size.
    """

    sizes: Sizes | None
    draws: Annotated[int, Within(least=3)]
    seed: Seed
    measure: Measure


@dataclass(frozen=True)
class SubsetEffects:
    """What a model loses without random subsets of pixels; the same for all attributions of an image.

    - `orders`: D permutations of the pixels (flat indices) for each image.
    - `sizes`: how many of an order's first pixels are removed, ascending.
    - `changes`: f(x) - f(x without the first N pixels), or the number of changed steps among the first
      N.
    - `shape`: height and width of the images.
    """

    orders: Int[Tensor, "batch draws pixels"]
    sizes: Int[Tensor, " sizes"]
    changes: Float[Tensor, "batch draws sizes"]
    shape: tuple[int, int]

    def correlations(self, attributions: Maps) -> Curves:
        """Pearson's correlation of summed attributions and changes, at every size.

        Parameters
        ----------
        attributions : Tensor, (B, 1, H, W)
            Signed, of any scale; their sums, not their magnitudes, are compared with the changes.

        Returns
        -------
        Tensor of float64, (B, S)
            In [-1, 1]; NaN where all changes are equal and for N = P; 0 where only the sums are equal.

        Raises
        ------
        AttributionLabError
            For attributions of another shape or with NaN.
        """
        maps = checked_maps(attributions, (len(self.orders), 1, *self.shape))
        sizes = self.sizes.cpu().numpy()
        rows = [
            _correlations(values, orders, sizes, changes)
            for values, orders, changes in zip(
                *(each.cpu().numpy() for each in (maps, self.orders, self.changes)), strict=True
            )
        ]
        return torch.from_numpy(np.stack(rows)).to(attributions.device)


@checked_arguments
def subset_effects(
    model: nn.Module,
    images: Images,
    targets: Int[Tensor, " batch"],
    *,
    replacement: Replacement,
    **options: Unpack[SubsetOptions],
) -> SubsetEffects:
    """Remove random pixels one after the other, once for all attributions to be scored.

    With the incremental evaluation (`exact.route_of`) all sizes cost little more than one; a model that
    needs forward passes is evaluated draws x sizes times for each image: choose few sizes.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K); the output that is explained: logits or probabilities.
    images : Tensor, (B, C, H, W)
        Any real dtype.
    targets : Tensor of int, (B,)
        Classes; zeros for a regression.
    replacement : float or Tensor
        Value of removed pixels: a number, or what broadcasts to the images, (C, 1, 1) for one color.
    **options
        As `SubsetOptions` says: sizes, draws, seed, measure.

    Returns
    -------
    SubsetEffects
        8 D (P + S) bytes for each image: 80 MB for 100 draws of all sizes at 224 x 224.

    Raises
    ------
    AttributionLabError
        For sizes out of range or not ascending, fewer than 3 draws, seeds out of range, an unknown
        measure, shapes that do not fit, targets that the model does not have, and images, replacements
        or outputs that are not finite real numbers.

    Warns
    -----
    AttributionLabWarning
        For more than 100,000 forward passes, where the model's layers rule out the incremental route.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import subset_effects
    >>> image = torch.tensor([[[[3.0, 1.0], [0.0, 2.0]]]])
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False))
    >>> _ = model[1].weight.data.fill_(1)
    >>> effects = subset_effects(model, image, torch.tensor([0]), replacement=torch.zeros(1), draws=5)
    >>> effects.correlations(image)
    tensor([[1., 1., 1., nan]], dtype=torch.float64)
    >>> effects.correlations(-image)
    tensor([[-1., -1., -1., nan]], dtype=torch.float64)
    """
    each = list(each_effects(model, images, targets, replacement=replacement, **options))
    orders = torch.cat([effects.orders for effects in each])
    changes = torch.cat([effects.changes for effects in each])
    return SubsetEffects(orders, each[0].sizes, changes, each[0].shape)


def each_effects(
    model: nn.Module,
    images: Images,
    targets: Int[Tensor, " batch"],
    *,
    replacement: Replacement,
    sizes: Sizes | None = None,
    draws: Count = 100,
    seed: Seed = 0,
    measure: Measure = "output",
) -> Iterator[SubsetEffects]:
    """`subset_effects` of one image after the other, when all together would need too much memory.

    Images are evaluated one after the other; all input is checked at once.
    """
    ends = broadcast_replacement(replacement, images)
    height, width = images.shape[2:]
    chosen = _checked_sizes(sizes, height * width)
    cases = list(zip(images, ends, targets.tolist(), strict=True))
    counts = _counts(chosen, measure)
    warn_of_forward_passes(
        model,
        images,
        len(images) * draws * len(counts),
        'measure="changed-steps" needs every step: pass a smaller largest of sizes=, or fewer draws='
        if measure == "changed-steps"
        else "pass fewer sizes=, or fewer draws=",
    )
    generator = torch.Generator().manual_seed(int(seed))
    kept = torch.tensor(chosen, device=images.device)

    def effects() -> Iterator[SubsetEffects]:
        for image, end, target in cases:
            orders = torch.stack(
                [
                    torch.randperm(height * width, generator=generator, device="cpu")
                    for _ in range(draws)
                ]
            ).to(images.device)
            changes = []
            for some in torch.split(orders, max(1, OUTPUTS_AT_ONCE // len(counts))):
                along = trajectories(model, image[None], end[None], some[None], counts=counts)
                outputs = output_of(along[0], target)
                if measure == "output":
                    changes.append(outputs[:, :1].double() - outputs[:, 1:].double())
                else:
                    changed = (outputs[:, 1:] != outputs[:, :-1]).double()
                    changes.append(changed.cumsum(1)[:, kept - 1])
            yield SubsetEffects(orders[None], kept, torch.cat(changes)[None], (height, width))

    return effects()


@checked_arguments
def sensitivity_n_curve(
    model: nn.Module,
    images: Images,
    targets: Int[Tensor, " batch"],
    attributions: Maps,
    *,
    replacement: Replacement,
    **options: Unpack[SubsetOptions],
) -> Float[Tensor, "batch sizes"]:
    """Sensitivity-N at each size; holds the subsets of one image at a time.

    To score several attributions of the same images, evaluate the model once with `subset_effects`,
    which has these parameters, errors and warnings, and ask it for `correlations`.

    Returns
    -------
    Tensor of float64, (B, S)
        In [-1, 1], higher is better; NaN where N is not informative, always at N = P.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import sensitivity_n_curve
    >>> image = torch.tensor([[[[3.0, 1.0], [0.0, 2.0]]]])
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False))
    >>> _ = model[1].weight.data.fill_(1)
    >>> target, black = torch.tensor([0]), torch.zeros(1)
    >>> sensitivity_n_curve(model, image, target, image, replacement=black, sizes=[1, 2], draws=10)
    tensor([[1., 1.]], dtype=torch.float64)
    """
    each = each_effects(model, images, targets, replacement=replacement, **options)
    checked_maps(attributions, (len(images), 1, *images.shape[2:]))  # before any evaluation
    curves = [effects.correlations(attributions[i : i + 1]) for i, effects in enumerate(each)]
    return torch.cat(curves)


@metric(
    higher_is_better=True,
    per_sample=True,
    unit="output change",
    sampled=True,
    invariances=("scale", "shift"),
)
@checked_arguments
def sensitivity_n(
    model: nn.Module,
    images: Images,
    targets: Int[Tensor, " batch"],
    attributions: Maps,
    *,
    replacement: Replacement,
    **options: Unpack[SubsetOptions],
) -> Float[Tensor, " batch"]:
    """Mean of `sensitivity_n_curve` over the sizes at which it is defined (AttributionLab, G.5).

    Parameters, errors and warnings of `subset_effects`. An image's subsets, and with them its score,
    depend on its place in the batch: pass all images in one call, or use a different seed for each
    batch.

    Returns
    -------
    Tensor of float64, (B,)
        In [-1, 1], higher is better; NaN for an image that no subset changes.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import sensitivity_n
    >>> image = torch.tensor([[[[3.0, 1.0], [0.0, 2.0]]]])
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False))
    >>> _ = model[1].weight.data.fill_(1)
    >>> sensitivity_n(model, image, torch.tensor([0]), image, replacement=torch.zeros(1), draws=10)
    tensor([1.], dtype=torch.float64)
    """
    curves = sensitivity_n_curve(
        model, images, targets, attributions, replacement=replacement, **options
    )
    return curves.nanmean(dim=1)


def _counts(sizes: Sequence[int], measure: Measure) -> Sequence[int]:
    """After how many removed pixels the model is evaluated."""
    if measure == "changed-steps" or len(sizes) == sizes[-1]:
        return range(sizes[-1] + 1)
    return [0, *sizes]


def _correlations(
    values: NDArray[np.float64],
    orders: NDArray[np.int64],
    sizes: NDArray[np.int64],
    changes: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Pearson's correlation over draws (S,), by sums that take one draw at a time.

    Both variables are measured from the first draw. Equal values then leave exact zeros; and as the
    first is 0, Cauchy and Schwarz bound the variance from below, D sum x^2 - (sum x)^2 >= sum x^2, so
    the difference loses a factor of D to rounding at worst. Changes are multiplied by a power of two
    for each size, with which the largest is about 1: squares then stay in range.
    """
    # numpy, not torch: so many short steps are slow in threads that share busy cores.
    draws, pixels = orders.shape
    _, exponent = math.frexp(np.abs(values).max())
    bits = 62 - pixels.bit_length()  # sums of P values stay within +-2^62
    units = np.rint(np.ldexp(values, bits - exponent)).astype(np.int64)
    most, every = sizes[-1], len(sizes) == sizes[-1]
    # Changes that are not all equal then lie 2^-53 or more from the first: their squares stay.
    _, exponents = np.frexp(np.maximum(changes.max(0), -changes.min(0)))
    scale = np.ldexp(1.0, -exponents.clip(min=-1021))
    start = changes[0] * scale
    sum_x, sum_y, sum_xx, sum_yy, sum_xy = np.zeros((5, len(sizes)))
    first = 0
    for draw, (order, change) in enumerate(zip(orders, changes, strict=True)):
        sums = units[order[:most]].cumsum()
        if not every:
            sums = sums[sizes - 1]
        if draw == 0:
            first = sums
        x, y = (sums - first).astype(np.float64), change * scale - start
        sum_x += x
        sum_y += y
        sum_xx += x * x
        sum_yy += y * y
        sum_xy += x * y
    covariance = draws * sum_xy - sum_x * sum_y
    spread = (draws * sum_xx - sum_x**2) * (draws * sum_yy - sum_y**2)
    spread[spread == 0] = 1
    correlation: NDArray[np.float64] = covariance / np.sqrt(spread)
    correlation = correlation.clip(-1, 1)  # rounding may step over 1
    correlation[sum_xx == 0] = 0
    correlation[(sum_yy == 0) | (sizes == pixels)] = np.nan
    return correlation


def _checked_sizes(sizes: Sequence[int] | None, pixels: int) -> Sequence[int]:
    """The sizes, all from 1 to the number of pixels unless given."""
    if sizes is None:
        return range(1, pixels + 1)
    if sizes[-1] > pixels:
        raise AttributionLabError(
            f"sizes contain {sizes[-1]}: pass numbers of pixels, integers from 1 to {pixels}"
        )
    return sizes
