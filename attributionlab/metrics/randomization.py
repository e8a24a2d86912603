"""Randomization: does an attribution change with the network, and with the output that is asked for?

With e the attribution by the network as it is, e_l that after l of its L layers were drawn anew, e'
that of another output, rho Spearman's rank correlation over pixels, H the entropy of a map's histogram:

    parameter randomization  mean over l of rho(e, e_l)
    its efficient form       (H(e_L) - H(e)) / H(e)
    its smooth form          the first, each attribution averaged over noisy copies of the image
    random logit             rho(e, e')

These judge a method: an edge detector, which ignores the network, has a correlation of 1 and no rise in
entropy. To change is not to be right: a map at random passes. Weights are put back, even after errors.

Sources: Adebayo, Gilmer, Muelly, Goodfellow, Hardt and Kim (2018): Sanity checks for saliency maps.
NeurIPS. Hedstroem, Weber, Lapuschkin and Hoehne (2024): A fresh look at sanity checks for saliency
maps. XAI (smooth and efficient forms). Sixt, Granz and Landgraf (2020): When explanations lie. ICML
(random logit).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal, TypedDict, Unpack

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor, nn

from attributionlab.base import (
    HIGHEST_SEED,
    AttributionLabError,
    Count,
    NotNegative,
    Seed,
    Within,
    checked_arguments,
)
from attributionlab.metrics.checked_inputs import output_of
from attributionlab.metrics.marking import metric
from attributionlab.metrics.perturbation import Scores, Targets
from attributionlab.metrics.ranking.correlations import centered_ranks, row_correlations
from attributionlab.metrics.robustness import (
    Attribute,
    Images,
    maps_by,
    noise_ready,
    outputs_of,
    with_noise,
)

LayerOrder = Literal["top-down", "bottom-up", "independent"]
"""From the last layer to the first, from the first to the last, or one layer at a time."""


class RandomizationOptions(TypedDict, total=False):
    """Keywords of parameter randomization.

    Parameters
    ----------
    order : {"top-down", "bottom-up", "independent"}
        Whether the last layer is the first to be randomized ("top-down", by default) or the first one,
        each on top of those before; or each alone, in the order of the model's modules.
    radius : float
        Noise of the smooth form, uniform in [-radius, radius], in the unit of the images; 0 by default.
    draws : int
        Noisy copies over which each attribution is averaged; 1 by default. Every network is asked
        about the same copies.
    seed : int
        Seed for weights and noise, 0 by default. The i-th layer of the model is drawn from seed + i.
    """

    order: LayerOrder
    radius: NotNegative
    draws: Count
    seed: Seed


@checked_arguments
def parameter_randomization_curve(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attribute: Attribute,
    *,
    order: LayerOrder = "top-down",
    radius: NotNegative = 0.0,
    draws: Count = 1,
    seed: Seed = 0,
) -> Float64[Tensor, "batch layers"]:
    """Rank correlation of attributions before and after randomizing layer by layer.

    Quantus 0.6.0 seeds every layer alike, so that equal layers get equal weights, and torch's global
    generator is left in that state. Its smooth form has Gaussian noise.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K). Layers are its modules with `reset_parameters`, which draws their
        weights; it is changed in place and restored.
    images : Tensor, (B, C, H, W)
        Converted to the type of the model's parameters. All are explained in one call.
    targets : Tensor of int, (B,)
        Classes; zeros for a regression.
    attribute : callable
        `attribute(model, images, targets)` -> attributions (B, C, H, W) or (B, 1, H, W), which are
        summed over channels. A method that draws random numbers must seed itself.
    order, radius, draws, seed
        As `RandomizationOptions` says.

    Returns
    -------
    Tensor of float64, (B, L)
        In [-1, 1], in the order of randomization; NaN where either map is constant.

    Raises
    ------
    AttributionLabError
        For a model with a module that has weights but no `reset_parameters`, settings out of range, and
        attributions of another shape or that are not finite.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import parameter_randomization_curve
    >>> def blind(model, images, targets):
    ...     return images
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2), torch.nn.Linear(2, 2))
    >>> image = torch.tensor([[[[3.0, 0.0], [1.0, 4.0]]]])
    >>> parameter_randomization_curve(model, image, torch.tensor([0]), blind)
    tensor([[1., 1.]], dtype=torch.float64)
    """
    starts = noise_ready(model, images, radius)
    layers = list(enumerate(_layers(model)))

    def ranks() -> Any:
        generator = torch.Generator().manual_seed(int(seed))
        total = starts.new_zeros(starts[:, 0].shape, dtype=torch.float64).flatten(1)
        for _ in range(draws):  # a sum has the ranks of the mean
            copies = with_noise(starts, radius, generator)
            total += maps_by(attribute, model, copies, targets).flatten(1)
        return centered_ranks(total.cpu().numpy())

    before, columns = ranks(), []
    with _kept_weights(model) as put_back:
        for index, layer in reversed(layers) if order == "top-down" else layers:
            if order == "independent":
                put_back()
            _draw_anew(layer, seed + index)
            columns.append(torch.from_numpy(row_correlations(before, ranks())))
    return torch.stack(columns, 1).to(images.device)


@metric(
    higher_is_better=False,
    per_sample=True,
    sampled=True,
    invariances=("scale", "shift"),
    varies="weights",
    unchanged=1,
)
@checked_arguments
def parameter_randomization(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attribute: Attribute,
    **options: Unpack[RandomizationOptions],
) -> Scores:
    """Mean of `parameter_randomization_curve`, with its parameters and errors, over the layers.

    `radius` and `draws` make it the smooth form.

    Returns
    -------
    Tensor of float64, (B,)
        In [-1, 1], lower is better, but a reversed map (-1) depends on the network as little as an
        unchanged one (1). Layers at which it is NaN are left out; NaN if all are.
    """
    curves = parameter_randomization_curve(model, images, targets, attribute, **options)
    return curves.nanmean(1)


@metric(
    higher_is_better=True,
    per_sample=True,
    sampled=True,
    invariances=("scale",),
    varies="weights",
    unchanged=0,
)
@checked_arguments
def efficient_parameter_randomization(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attribute: Attribute,
    *,
    bins: Annotated[int, Within(least=2)] = 100,
    seed: Seed = 0,
) -> Scores:
    """Relative rise of an attribution's entropy when all layers are randomized at once.

    Parameters and errors of `parameter_randomization_curve`, and:

    Quantus 0.6.0 chooses the number of bins from the maps unless it is given one.

    Parameters
    ----------
    bins : int
        Number of bins of equal width between each map's least and largest value; at least 2.

    Returns
    -------
    Tensor of float64, (B,)
        At least -1, higher is better; NaN for a constant map, whose entropy is 0.
    """
    starts = noise_ready(model, images)
    layers = _layers(model)

    def entropies() -> Tensor:
        maps = maps_by(attribute, model, starts, targets).flatten(1).cpu().numpy()
        # Around a large constant there is no room for bins.
        rows = [each if each.min() < each.max() else 0 * each for each in maps]
        counts = np.stack([np.histogram(each, bins=bins)[0] for each in rows])
        shares = torch.from_numpy(counts / counts.sum(1, keepdims=True))
        entropy: Tensor = torch.special.entr(shares).sum(1)
        return entropy

    before = entropies()
    with _kept_weights(model):
        for index, layer in enumerate(layers):
            _draw_anew(layer, seed + index)
        after = entropies()
    return torch.where(before == 0, torch.nan, (after - before) / before).to(images.device)


@metric(
    higher_is_better=False,
    per_sample=True,
    invariances=("scale", "shift"),
    varies="target",
    unchanged=1,
)
@checked_arguments
def random_logit(
    model: nn.Module, images: Images, targets: Targets, attribute: Attribute, *, seed: Seed = 0
) -> Scores:
    """Rank correlation of the attributions of the target and of another output drawn at random.

    Parameters and errors of `parameter_randomization_curve`; models with one output are refused.

    Quantus 0.6.0 compares by structural similarity by default, and needs the number of outputs.

    Parameters
    ----------
    seed : int
        Seed for the other outputs, drawn uniformly, image after image.

    Returns
    -------
    Tensor of float64, (B,)
        In [-1, 1]; lower is better. NaN where either map is constant.
    """
    starts = noise_ready(model, images)
    classes = targets.tolist()
    outputs = outputs_of(model, starts[:1])
    number = outputs.shape[1]
    if number < 2:
        raise AttributionLabError("the model has one output: pass one with two or more")
    for each in classes:
        output_of(outputs, each)
    generator = torch.Generator().manual_seed(int(seed))
    away = torch.randint(1, number, (len(starts),), generator=generator, device="cpu")
    others = (targets + away.to(targets)) % number
    first, second = (
        centered_ranks(maps_by(attribute, model, starts, each).flatten(1).cpu().numpy())
        for each in (targets, others)
    )
    return torch.from_numpy(row_correlations(first, second)).to(images.device)


def _layers(model: nn.Module) -> list[nn.Module]:
    """Modules whose weights can be drawn anew, in the order of the model's modules."""
    layers = []
    for name, module in model.named_modules():
        if callable(getattr(module, "reset_parameters", None)):
            layers.append(module)
        elif next(module.parameters(recurse=False), None) is not None:
            raise AttributionLabError(
                f"module {name!r} ({type(module).__name__}) has weights and no reset_parameters: "
                "add that method, which randomizes them"
            )
    if not layers:
        raise AttributionLabError(
            "the model has no layer with weights: there is nothing to randomize"
        )
    return layers


def _draw_anew(layer: Any, seed: int) -> None:
    # The layer draws from torch's global generator, whose state is the caller's.
    with torch.random.fork_rng():
        torch.manual_seed(seed % (HIGHEST_SEED + 1))
        layer.reset_parameters()


@contextmanager
def _kept_weights(model: nn.Module) -> Iterator[Callable[[], None]]:
    """Put parameters and buffers back at the end, and whenever what it yields is called."""
    kept: list[tuple[dict[str, Any], str, Tensor, Tensor]] = [
        (table, name, tensor, tensor.detach().clone())
        for module in model.modules()
        for table in (module._parameters, module._buffers)
        for name, tensor in table.items()
        if tensor is not None
    ]

    def put_back() -> None:
        with torch.no_grad():
            for table, name, tensor, value in kept:
                table[name] = tensor.copy_(value)

    try:
        yield put_back
    finally:
        put_back()
