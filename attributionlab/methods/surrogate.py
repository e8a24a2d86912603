r"""LIME: a linear model of what happens when superpixels are removed."""

import random
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attributionlab.base import Count, NotNegative, Positive
from attributionlab.base.segmentation import Segmentation
from attributionlab.methods import coalitions
from attributionlab.methods.baselines import Baselines, as_baselines, from_true_baseline
from attributionlab.methods.batching import drawn_in_memory
from attributionlab.methods.declaration import checked
from attributionlab.methods.defaults import seeded, superpixels
from attributionlab.methods.notices import Notice, notify
from attributionlab.methods.outputs import same_outputs

Regression = Literal["ridge", "lasso"]
SETTINGS = (*coalitions.MASKING_SETTINGS, "n_samples", "regression", "alpha", "kernel_width")
"""What a user sets of LIME itself; everything else goes to the segmentation."""


@checked
def lime(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    highest: Positive | None = None,
    generator: torch.Generator | None = None,
    segmentation: Segmentation = "quickshift",
    n_samples: Count = 1000,
    baselines: Baselines = 0.0,
    regression: Regression = "ridge",
    alpha: NotNegative = 1.0,
    kernel_width: Positive = 0.25,
    perturbations_per_eval: Count | None = None,
    patches: Tensor | None = None,
    **segmentation_settings: Any,
) -> Tensor:
    r"""LIME: the coefficients of a linear surrogate that predicts the output from the superpixels kept.

    .. math:: \min_{a, b} \sum_i \pi(z_i) \, \bigl(f_t(x_{z_i}) - b - a \cdot z_i\bigr)^2
              + \alpha \lVert a \rVert_2^2, \qquad
              \pi(z) = \exp\Bigl(-\frac{(1 - \cos(z, 1))^2}{2 w^2}\Bigr)

    where z_i in {0, 1}^S keeps each superpixel with probability 1/2, and x_z has the baseline where z
    is 0. Every pixel gets the coefficient of its superpixel, not divided by its size: large superpixels
    with little effect per pixel look as strong as small ones with a large effect. If no perturbation
    changes the output by more than rounding, coefficients are 0.

    Source: Ribeiro et al., 2016; kernel, width, penalty and the default Quickshift settings are those
    of its public code. Shows the effect of superpixels together with about half of the others; it is
    constant within a superpixel, so the segmentation limits what it can find. In captum 0.9.0 the
    default, Lasso with alpha 0.01, sets everything to zero where the output varies little
    (docs/methods.md, "Where Captum does not do the work"). For a regression the output is fitted as it
    is, wrap-around included. Claims signs. `n_samples` forward passes and one segmentation for each
    image; take several times more samples than superpixels.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    highest : float, optional
        The largest value that a pixel can have, as for `feature_ablation`.
    generator : torch.Generator, optional
        The source of z, on the CPU; by default one with seed 0.
    segmentation : str, callable, object with `generate`, or label map
        The superpixels (`segment`): "quickshift", "felzenszwalb", "slic", "grid", "sam", or "patches",
        the environment's own. If a share p of a patch is filled, a map that is constant on patches has
        an overall F1 of at most 2 p / (1 + p), 2/3 for one half; superpixels that separate filled from
        empty pixels can exceed this.
    n_samples : int
        Perturbations for each image.
    baselines : float, sequence of float, ndarray or Tensor
        Value of removed superpixels (`as_baselines`); black by default.
    regression : {"ridge", "lasso"}
        The penalty: alpha times the sum of squares, or scikit-learn's Lasso.
    alpha : float
        Its strength; 0 for none.
    kernel_width : float
        w above.
    perturbations_per_eval : int, optional
        Perturbed images per pass; by default as many as fit the memory budget.
    patches : Tensor, (B, H, W), optional
        The environment's label map, for segmentation "patches".
    **segmentation_settings
        Settings of the segmentation, such as ``scale=100`` for "felzenszwalb" or ``weights=PATH`` for
        "sam".

    Returns
    -------
    Tensor, (B, 1, H, W)

    Raises
    ------
    AttributionLabError
        For settings out of range or unknown.
    """
    start = as_baselines(baselines, inputs)
    generator = seeded(generator)
    labels = superpixels(
        inputs, segmentation, highest, patches, segmentation_settings, SETTINGS, "lime"
    )
    maps, zero = [], 0
    on: dict[str, Any] = {"generator": generator, "device": generator.device}
    for k in range(len(inputs)):
        count = int(labels[k].max()) + 1
        # An integer and a bit of each coin; later, 1 and 0 as float64 and scikit-learn's copies.
        with drawn_in_memory("lime", "n_samples", n_samples, 32 * count + 128):
            kept = torch.randint(2, (n_samples, count), **on).bool().cpu()
        game = coalitions.Game(inputs[k], start[k], labels[k], count, targets[k])
        [outputs] = coalitions.coalition_outputs(
            model, [game], [coalitions.drawn(kept)], perturbations_per_eval, "lime"
        )
        coefficients = _fit(kept, outputs, regression, alpha, kernel_width)
        zero += not coefficients.any()
        maps.append(coefficients.to(inputs)[labels[k]])
    coalitions.notify_superpixels(labels)
    text = (
        "have only coefficients of zero because no perturbation changes the output, or the penalty "
        "outweighs its range: choose other baselines, a higher temperature, a lower alpha or "
        "regression='ridge'"
    )
    notify(Notice(text, zero, kind="zeros"))
    return torch.stack(maps)[:, None]


lime_true_baseline = from_true_baseline(
    lime, "LIME that replaces superpixels by the environment's background."
)


def _fit(
    kept: Tensor, outputs: Tensor, regression: Regression, alpha: float, kernel_width: float
) -> Tensor:
    """Coefficients of the penalized, weighted linear model, (S,)."""
    state = random.getstate()
    from sklearn.linear_model import Lasso, Ridge

    random.setstate(state)  # importing it draws from Python's generator (scikit-learn 1.9)

    if same_outputs(outputs.min(), outputs.max()):
        # Solving would leave rounding, which a normalization blows up to a full-scale map.
        return torch.zeros(kept.shape[1])
    present = kept.double()
    distance = 1 - present.mean(1).sqrt()  # of cosines: z.1 / (|z| |1|) = sqrt(share of ones)
    weights = torch.exp(-(distance**2) / (2 * kernel_width**2))
    linear = (Ridge if regression == "ridge" else Lasso)(alpha=alpha)
    linear.fit(present.numpy(), outputs.double().numpy(), sample_weight=weights.numpy())
    return torch.from_numpy(linear.coef_)
