"""GradientSHAP: a path integral and the mean over baselines, estimated by the same random samples."""

from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.errors import refuse_if
from attributionlab.methods.baselines import Baselines, as_distribution
from attributionlab.methods.batching import batch_problem, drawn_in_memory, in_smaller_batches
from attributionlab.methods.declaration import declares
from attributionlab.methods.ensembles import noise_problems
from attributionlab.methods.entry import checked
from attributionlab.methods.guards import completeness
from attributionlab.methods.outputs import target_outputs
from attributionlab.methods.paths import nodes_at_once
from attributionlab.methods.sampling_noise import noise_share, tell_of_noise
from attributionlab.validation import generator_problem, integer_problem


@checked
@declares(distribution=True)
def gradient_shap(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    generator: torch.Generator,
    highest: float,
    baselines: Baselines = 0.0,
    n_samples: int = 50,
    noise: float = 0.0,
    perturbations_per_eval: int | None = None,
) -> Tensor:
    r"""Gradients at random points between baselines and the image, times the distance between these.

    .. math::
        a_j = \frac{1}{S} \sum_{s=1}^S (x_{s,j} - b_{s,j}) \,
            \partial_j f_t\big(b_s + u_s (x_s - b_s)\big), \qquad
        x_s = x + \sigma h e_s, \quad e_{s,j} \sim N(0, 1), \quad u_s \sim U(0, 1),

    with :math:`b_s` drawn from the baselines with replacement.

    Source: Lundberg & Lee's package shap (GradientExplainer), by Captum's name; expected gradients of
    Erion et al., 2021, without noise. An estimate of integrated gradients averaged over the baselines,
    whose error falls as 1/sqrt(S): where gradients differ from zero on short pieces of the path only,
    few samples meet one, and a guard says how much of the map is noise of the sampling. Its sum
    estimates f(x) less the mean of f(b), which another guard holds it against. Claims signs. S forward
    and backward passes (the authors' package takes 200 by default, Captum 5), and one forward pass for
    the image and for each baseline.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    generator : torch.Generator
        Draws baselines, noise and points, on its own device, image after image.
    highest : float
        The length h of the inputs' value range; the environment gives it.
    baselines : float, sequence of float, ndarray or Tensor
        One baseline (`as_baselines`), or N of them as (N, C, H, W) or (N, C, 1, 1), each for all
        images; black by default.
    n_samples : int
        S above.
    noise : float
        The standard deviation of the noise in units of `highest`; none by default, as in Captum.
    perturbations_per_eval : int, optional
        Points in one pass; by default what fits the memory budget.

    Returns
    -------
    Tensor, (B, C, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        For settings out of range.
    """
    problems = [
        *noise_problems(noise, highest, inputs.dtype),
        *integer_problem("n_samples", n_samples, 1),
        *generator_problem(generator),
        *batch_problem("perturbations_per_eval", perturbations_per_eval),
    ]
    refuse_if(problems, "gradient-shap")
    starts = as_distribution(baselines, inputs)
    batch = nodes_at_once(model, inputs, perturbations_per_eval)
    maps, shares = [], []
    for image, target in zip(inputs, targets, strict=True):
        on: dict[str, Any] = {"generator": generator, "device": generator.device}
        each = 32 + (3 * image.nbytes if noise else 0)
        with drawn_in_memory("gradient-shap", "n_samples", n_samples, each, generator.device):
            which = torch.randint(len(starts), (n_samples,), **on).to(starts.device)
            moved = (
                noise * highest * torch.randn((n_samples, *image.shape), **on) if noise else None
            )
            along = torch.rand((n_samples, 1, 1, 1), **on).to(image)
        total, squares = in_smaller_batches(
            partial(_sums, model, image, target, starts, which, moved, along),
            min(batch, n_samples),
            "gradient-shap",
        )
        maps.append((total / n_samples).to(image))
        shares.append(noise_share(total, squares, n_samples))
    attributions = torch.stack(maps)
    before = _outputs(model, starts, 2 * batch).mean(0)[targets.to(inputs.device)]
    output = target_outputs(_outputs(model, inputs, 2 * batch), targets)
    remedy = "take a larger n_samples" + " or less noise" * (noise > 0)
    completeness(attributions, output, before, remedy, "quadrature")
    tell_of_noise(shares, "take a larger n_samples")
    return attributions


def _sums(
    model: nn.Module,
    image: Float[Tensor, "channels height width"],
    target: Int[Tensor, ""],
    starts: Float[Tensor, "baselines channels height width"],
    which: Int[Tensor, " samples"],
    moved: Float[Tensor, "samples channels height width"] | None,
    along: Float[Tensor, "samples 1 1 1"],
    batch: int,
) -> tuple[Float[Tensor, "channels height width"], Float[Tensor, "channels height width"]]:
    """Sums of GradientSHAP's samples and of their squares, in float64."""
    total = torch.zeros_like(image, dtype=torch.float64)
    squares = torch.zeros_like(total)
    for first in range(0, len(which), batch):
        part = slice(first, first + batch)
        b = starts[which[part]]
        distance = image - b if moved is None else image + moved[part].to(image) - b
        # Convolutions of this layout are up to three times faster on a CPU.
        points = (b + along[part] * distance).contiguous(memory_format=torch.channels_last)
        points.requires_grad_()
        with torch.enable_grad():
            value = target_outputs(model(points), target.expand(len(points))).sum()
            (gradient,) = torch.autograd.grad(value, points)
        samples = (distance * gradient).double()
        total += samples.sum(0)
        squares += samples.square().sum(0)
    return total, squares


def _outputs(
    model: nn.Module, images: Float[Tensor, "batch channels height width"], batch: int
) -> Float[Tensor, "batch outputs"]:
    """f of images that may be many."""

    @torch.no_grad()
    def run(size: int) -> Tensor:
        return torch.cat([model(part) for part in torch.split(images, size)])

    return in_smaller_batches(run, min(batch, len(images)), "gradient-shap")
