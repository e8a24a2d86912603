"""Faithfulness correlation, estimate, monotonicity and others: does the output follow a map?

With d_S = f(x) - f(x without S), random sets S of k pixels, and patches p, maybe of single pixels:

    faithfulness correlation  corr over S of  sum of a_j over S    and  d_S
    faithfulness estimate     corr over p of  sum of a_j over p    and  d_p
    monotonicity correlation  rho over p of   sum of |a_j| over p  and  d_p^2
    non-sensitivity           share of the p with just one of  sum of |a_j| over p = 0  and  d_p = 0

corr is Pearson's correlation, rho Spearman's. As in `sensitivity_n`, a correlation is NaN where the
output changes alike everywhere, and 0 where only the map's sums are equal: they explain nothing.
"""

from typing import Unpack

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from attributionlab.base import (
    Count,
    NotNegative,
    Replacement,
    Seed,
    Share,
    checked_arguments,
    checked_pair,
    kind_of,
)
from attributionlab.metrics.checked_inputs import (
    checked_maps,
    pixels_of_share,
)
from attributionlab.metrics.marking import metric
from attributionlab.metrics.perturbation import Images, Maps, Scores, Targets, insertion_curve
from attributionlab.metrics.robustness import outputs_of
from attributionlab.metrics.sensitivity import sensitivity_n_curve
from attributionlab.metrics.single_deletions import (
    PatchOptions,
    PatchValues,
    deletion_drops,
    judged_by_drops,
    patch_sums,
)


@metric(
    higher_is_better=True,
    per_sample=True,
    unit="output change",
    sampled=True,
    ties="reading order",
    invariances=("scale",),
)
@checked_arguments
def faithfulness_correlation(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    share: Share = 0.1,
    draws: Count = 100,
    seed: Seed = 0,
) -> Scores:
    """Correlation of summed attributions and drops over random subsets of one size.

    One point of `sensitivity_n_curve`, with its parameters, errors and warnings.

    Quantus 0.6.0 has k itself, 224 by default, and draws from numpy's global random state.

    Source: Bhatt, Weller and Moura (2020): Evaluating and aggregating feature-based model explanations.
    IJCAI.

    Parameters
    ----------
    share : float
        k as a share of the P pixels, in (0, 1): k = round(share P), at least 1. All pixels at once are
        not informative.

    Returns
    -------
    Tensor of float64, (B,)
        In [-1, 1], higher is better; NaN if all subsets change the output equally.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import faithfulness_correlation
    >>> image = torch.tensor([[[[3.0, 1.0], [0.0, 2.0]]]])
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False)).eval()
    >>> _ = model[1].weight.data.fill_(1)
    >>> faithfulness_correlation(model, image, torch.tensor([0]), image, replacement=0.0, share=0.5)
    tensor([1.], dtype=torch.float64)
    """
    k = pixels_of_share(share, attributions[0].numel())
    return sensitivity_n_curve(
        *(model, images, targets, attributions),
        replacement=replacement,
        sizes=[k],
        draws=draws,
        seed=seed,
    )[:, 0]


@metric(
    higher_is_better=True,
    per_sample=True,
    unit="output change",
    invariances=("scale",),
    neighbors="patches",
)
@checked_arguments
def faithfulness_estimate(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    **options: Unpack[PatchOptions],
) -> Scores:
    """Correlation between the attribution of each patch and the output's drop without it.

    `sds` with Pearson's instead of Spearman's correlation; parameters and errors of `single_deletion`.
    The paper's patches are single pixels: `patches=torch.arange(H * W).view(H, W)`.

    Quantus 0.6.0 takes groups of pixels with consecutive attributions for patches, single ones by
    default.

    Source: Alvarez-Melis and Jaakkola (2018): Towards robust interpretability with self-explaining
    neural networks. NeurIPS.

    Returns
    -------
    Tensor of float64, (B,)
        In [-1, 1], higher is better; NaN where all drops are equal, 0 where only the sums are.
    """
    drops = deletion_drops(model, images, targets, replacement=replacement, **options)
    sums = patch_sums(attributions, options.get("patches", 16))
    return correlated_with_drops(sums.to(drops), drops)


@metric(
    higher_is_better=True, per_sample=True, unit="order", ties="reading order", neighbors="patches"
)
@checked_arguments
def monotonicity(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    step: Count = 1,
) -> Scores:
    """Whether the output never falls while pixels are inserted, the least relevant first.

    1 where `insertion_curve` with `order="lerf"`, with its parameters and errors, never falls from one
    point to the next, otherwise 0. Outputs are compared with >=: if a model rounds, a fall by one
    rounding unit counts.

    Quantus 0.6.0 replaces pixels of the replacement image by the replacement, not by the image: its
    outputs do not change, and its score is 1.

    Source: Arya et al. (2019): One explanation does not fit all: a toolkit and taxonomy of AI
    explainability techniques. arXiv 1909.03012. Luss et al. (2021): Leveraging latent features for
    local explanations. KDD.
    """
    curves = insertion_curve(
        model, images, targets, attributions, replacement=replacement, order="lerf", step=step
    )
    return (curves.diff(dim=1) >= 0).all(1).double()


@metric(
    higher_is_better=True,
    per_sample=True,
    unit="output change",
    invariances=("scale", "sign"),
    neighbors="patches",
)
@checked_arguments
def monotonicity_correlation(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    **options: Unpack[PatchOptions],
) -> Scores:
    """Rank correlation between each patch's magnitude and the squared output change without it.

    Parameters and errors of `single_deletion`. The magnitudes |a| are the definition's.

    Nguyen and Martinez take the mean square over random replacements, divided by f(x)^2, which changes
    no rank; here there is one replacement. Quantus 0.6.0 draws 100 of them, uniform in [0, 1].

    Source: Nguyen and Martinez (2020): On quantitative aspects of model interpretability. arXiv
    2007.07584.

    Returns
    -------
    Tensor of float64, (B,)
        In [-1, 1], higher is better; NaN where all changes are equal, 0 where only the magnitudes are.
    """
    sums, drops = _sizes(model, images, targets, attributions, replacement, options)
    return judged_by_drops(sums, drops).scores  # drops^2 has the ranks of |drops|


@metric(
    higher_is_better=False,
    per_sample=True,
    unit="output change",
    invariances=("scale", "sign"),
    neighbors="patches",
)
@checked_arguments
def non_sensitivity(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    tolerance: NotNegative = 1e-6,
    **options: Unpack[PatchOptions],
) -> Scores:
    """Share of patches that matter but have no attribution, or have attribution but do not matter.

    Parameters and errors of `single_deletion`. The magnitudes |a| are the definition's.

    Nguyen and Martinez count single pixels (`patches=torch.arange(H * W).view(H, W)`), and so does
    Quantus 0.6.0, with one absolute threshold for maps and outputs.

    Source: Nguyen and Martinez (2020), as for `monotonicity_correlation`.

    Parameters
    ----------
    tolerance : float
        Attributions and changes of at most this share of the image's largest ones count as 0; at least
        0. Sums in float32 are off by about 1e-6.

    Returns
    -------
    Tensor of float64, (B,)
        In [0, 1], lower is better.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import non_sensitivity
    >>> image, maps = torch.tensor([[[[3.0, 1.0], [0.0, 0.0]]]]), torch.tensor([[[[1.0, 0], [1, 0]]]])
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False)).eval()
    >>> _ = model[1].weight.data.fill_(1)
    >>> non_sensitivity(model, image, torch.tensor([0]), maps, replacement=0.0, patches=4)
    tensor([0.5000], dtype=torch.float64)
    """
    sums, drops = _sizes(model, images, targets, attributions, replacement, options)
    return mismatched(sums, drops, tolerance)


def mismatched(sizes: PatchValues, changes: PatchValues, tolerance: float = 1e-6) -> Scores:
    """`non_sensitivity` by each patch's magnitude, and that of what the output loses without it."""
    there = ~changes.isnan()
    unattributed, unimportant = (
        each.nan_to_num() <= tolerance * each.nan_to_num().amax(1, keepdim=True)
        for each in (sizes, changes)
    )
    return ((unattributed ^ unimportant) & there).sum(1).double() / there.sum(1)


@metric(higher_is_better=True, per_sample=True)
@checked_arguments
def sufficiency(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    closeness: NotNegative,
) -> Scores:
    """Share of the images with a similar attribution that get the same answer from the model.

    Quantus 0.6.0 takes the standardized Euclidean distance as a share of the largest one, and scores 0
    where no image is similar.

    Source: Dasgupta, Frost and Moshkovitz (2022): Framework for evaluating faithfulness of local
    explanations. ICML.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K); its answer is the class of the largest output, the first if tied.
    images : Tensor, (B, C, H, W)
        All images of the data set: they are compared with each other.
    targets
        Not used; every metric of a model has them.
    attributions : Tensor, (B, 1, H, W)
        In any unit.
    closeness : float
        Largest Euclidean distance, in the unit of the maps, of maps that count as similar; at least 0.

    Returns
    -------
    Tensor of float64, (B,)
        In [0, 1], higher is better; NaN for an image to which no other one is similar.
    """
    shown, _ = checked_pair(images, 0, *kind_of(model))
    maps = checked_maps(attributions, (len(images), 1, images.shape[2], images.shape[3]))
    answers = outputs_of(model, shown).argmax(1)
    distances = torch.cdist(maps, maps, compute_mode="donot_use_mm_for_euclid_dist")
    similar = (distances <= closeness).fill_diagonal_(False)
    same = similar & (answers == answers[:, None]).to(similar.device)
    return same.sum(1).double() / similar.sum(1)


def _sizes(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    replacement: Replacement,
    options: PatchOptions,
) -> tuple[PatchValues, PatchValues]:
    """Each patch's sum of magnitudes, and the magnitude of what the output loses without it."""
    drops = deletion_drops(model, images, targets, replacement=replacement, **options)
    sums = patch_sums(attributions.detach().double().abs(), options.get("patches", 16))
    return sums.to(drops), drops.abs()


def correlated_with_drops(sums: PatchValues, drops: PatchValues) -> Scores:
    """`faithfulness_estimate` by `patch_sums` and `deletion_drops`."""
    return torch.stack([_pearson(*row) for row in zip(sums, drops, strict=True)])


def _pearson(
    sums: Float64[Tensor, " patches"], drops: Float64[Tensor, " patches"]
) -> Float64[Tensor, ""]:
    """Pearson's correlation over patches with a pixel; NaN for equal drops, 0 for equal sums alone."""
    there = ~(sums.isnan() | drops.isnan())
    x, y = sums[there], drops[there]
    if not len(y) or y.amax() == y.amin():
        return y.new_tensor(torch.nan)
    if x.amax() == x.amin():
        return y.new_tensor(0.0)
    # Measured from the first and scaled to 1, so that differences keep their digits and squares stay.
    x, y = ((each - each[0]) / (each - each[0]).abs().amax() for each in (x, y))
    x, y = x - x.mean(), y - y.mean()
    correlation: Tensor = (x * y).sum() / (x.norm() * y.norm())
    return correlation.clamp(-1, 1)
