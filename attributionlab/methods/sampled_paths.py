r"""Integrated gradients from baselines that are drawn, or made of the image: averages over starts.

.. math:: a_j = E_b \Big[ (x_j - b_j) \int_0^1 \partial_j f_t(b + s (x - b)) \, ds \Big]

They sum to f(x) less the mean of f(b), and an average over few draws has an error of its own: the
guards look at both.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.errors import refuse_if
from attributionlab.methods.batching import drawn_in_memory
from attributionlab.methods.entry import checked
from attributionlab.methods.guards import completeness
from attributionlab.methods.masking import blur_pyramid
from attributionlab.methods.paths import (
    Quadrature,
    integrated_gradients,
    nodes_at_once,
    quadrature_problems,
    straight_paths,
)
from attributionlab.methods.sampling_noise import noise_share, tell_of_noise
from attributionlab.validation import (
    generator_problem,
    integer_problem,
    number_problem,
    reference_images_problem,
)

BLUR_SIGMA, SIDE = 20.0, 224
"""The Gaussian of a blurred baseline, in pixels, and the side of an image at which it is that."""


@checked
def integrated_gradients_uniform(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    highest: float,
    generator: torch.Generator,
    n_baselines: int = 5,
    n_steps: int = 50,
    method: Quadrature = "gausslegendre",
    internal_batch_size: int | None = None,
) -> Tensor:
    r"""Integrated gradients from images of uniform noise, averaged over a few of them.

    .. math::
        a = \frac{1}{N} \sum_{n=1}^N IG(x, b_n), \qquad b_{n,j} \sim U(0, h) \text{ for each value}

    Source: Sturmfels et al., 2020 (IG-U in Hesse et al., 2024, with no number of baselines stated).
    No color is treated as absent, unlike those that a constant baseline shares. But noise shows the
    network images that it has never seen, each draw gives another map, and what the path adds from
    there is about them. Claims signs. N times the cost of `integrated_gradients`.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    highest : float
        The length h of the inputs' value range, from 0; the environment gives it.
    generator : torch.Generator
        Draws the noise on its own device, image after image.
    n_baselines : int
        N above.
    n_steps, method, internal_batch_size
        As for `integrated_gradients`.

    Returns
    -------
    Tensor, (B, C, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        For settings out of range and an unknown quadrature.
    """
    refuse_if(
        [
            *number_problem("highest", highest, above=0),
            *integer_problem("n_baselines", n_baselines, 1),
            *generator_problem(generator),
            *quadrature_problems(n_steps, method, internal_batch_size),
        ],
        "integrated-gradients-uniform",
    )

    def noise(image: Tensor) -> Tensor:
        shape = (n_baselines, *image.shape)
        draws = torch.rand(shape, generator=generator, device=generator.device)
        return highest * draws.to(image)

    batch = nodes_at_once(model, inputs, internal_batch_size)
    given = (model, inputs, targets, noise, n_baselines, n_steps, method, batch)
    return _averaged(*given, "integrated-gradients-uniform")


@checked
def integrated_gradients_random(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    reference_images: Tensor,
    generator: torch.Generator,
    n_baselines: int = 5,
    n_steps: int = 50,
    method: Quadrature = "gausslegendre",
    internal_batch_size: int | None = None,
) -> Tensor:
    r"""Integrated gradients from other images of the kind, averaged over a few of them.

    .. math:: a = \frac{1}{N} \sum_{n=1}^N IG(x, b_n), \qquad b_n \text{ drawn from reference images}

    Source: Sturmfels et al., 2020 ("training distribution" as the baseline); an average over many
    draws is what expected gradients (Erion et al., 2021) estimate. Compares the image with what
    is usual in its place: where images share a value, that value gets nothing. Both ends of a path are
    images that the network knows, its middle blends them. Claims signs. N times the cost of
    `integrated_gradients`.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    reference_images : Tensor, (n, C, H, W)
        Other images of the kind, at least one; the environment gives some.
    generator : torch.Generator
        Draws from them on its own device, image after image: without replacement while there are
        enough, and after that all over again.
    n_baselines : int
        N above.
    n_steps, method, internal_batch_size
        As for `integrated_gradients`.

    Returns
    -------
    Tensor, (B, C, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        For settings out of range, an unknown quadrature, and reference images of another shape.
    """
    problems = integer_problem("n_baselines", n_baselines, 1)
    problems += generator_problem(generator)
    problems += quadrature_problems(n_steps, method, internal_batch_size)
    problems += reference_images_problem(reference_images, inputs, 1)
    refuse_if(problems, "integrated-gradients-random")
    there = len(reference_images)

    def others(image: Tensor) -> Tensor:
        chosen = image.new_empty((n_baselines, *image.shape))  # refused here if memory is short
        for part in torch.split(chosen, there):
            order = torch.randperm(there, generator=generator, device=generator.device)
            part.copy_(reference_images[order[: len(part)].to(reference_images.device)])
        return chosen

    batch = nodes_at_once(model, inputs, internal_batch_size)
    given = (model, inputs, targets, others, n_baselines, n_steps, method, batch)
    return _averaged(*given, "integrated-gradients-random", there)


@checked
def integrated_gradients_blurred(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    sigma: float | None = None,
    n_steps: int = 50,
    method: Quadrature = "gausslegendre",
    internal_batch_size: int | None = None,
) -> Tensor:
    r"""Integrated gradients from the image itself under a Gaussian.

    .. math:: a = IG(x, \, G_\sigma * x)

    Source: Sturmfels et al., 2020. What is absent is detail, not a color: large uniform areas, which
    a blur leaves as they are, get nothing whatever they mean to the network. Claims signs. The cost is
    that of `integrated_gradients`; of it come its guards.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    sigma : float, optional
        Of the Gaussian, in pixels; by default 20 at 224 pixels, and in proportion to the shorter side
        of other images. Edge pixels continue outside the image.
    n_steps, method, internal_batch_size
        As for `integrated_gradients`.

    Returns
    -------
    Tensor, (B, C, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        For settings out of range and an unknown quadrature.
    """
    problems = [] if sigma is None else number_problem("sigma", sigma, above=0)
    problems += quadrature_problems(n_steps, method, internal_batch_size)
    refuse_if(problems, "integrated-gradients-blurred")
    width = BLUR_SIGMA * min(inputs.shape[2:]) / SIDE if sigma is None else sigma
    _, start = blur_pyramid(inputs, width, 2)
    return integrated_gradients(
        *(model, inputs, targets),
        baselines=start,
        n_steps=n_steps,
        method=method,
        internal_batch_size=internal_batch_size,
    ).to(inputs)


def _averaged(
    model: nn.Module,
    inputs: Float[Tensor, "batch channels height width"],
    targets: Int[Tensor, " batch"],
    draw: Callable[[Tensor], Tensor],
    n_baselines: int,
    n_steps: int,
    method: Quadrature,
    batch: int,
    who: str,
    population: int | None = None,
) -> Float[Tensor, "batch channels height width"]:
    """Integrated gradients of each image, averaged over the starts that `draw` has for it.

    Where these are drawn without replacement, `population` is what there is to draw from.
    """
    maps, outputs, references, shares = [], [], [], []
    for image, target in zip(inputs, targets, strict=True):
        # Starts, attributions, and these in float64 with their squares.
        with drawn_in_memory(who, "n_baselines", n_baselines, 8 * image.nbytes, image.device):
            starts = draw(image)  # (N, C, H, W)
        ends, classes = image.expand_as(starts), target.expand(len(starts))
        found, output, reference = straight_paths(
            *(model, ends, starts, classes, n_steps, method, batch, who)
        )
        maps.append(found.mean(0))
        outputs.append(output[0])
        references.append(reference.mean())
        total, squares = found.double().sum(0), found.double().square().sum(0)
        shares.append(noise_share(total, squares, n_baselines, population))
    attributions = torch.stack(maps)
    completeness(
        *(attributions, torch.stack(outputs), torch.stack(references)),
        *("take a larger n_steps", "quadrature"),
    )
    tell_of_noise(shares, "take a larger n_baselines")
    return attributions.to(inputs)
