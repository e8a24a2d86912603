"""An environment: one hand-weighted network, one generator of images, and their truth."""

import json
import math
from functools import lru_cache
from typing import Any, Literal, Self, get_args

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn
from torch.utils.data import DataLoader

from attributionlab.dataset import Accept, Sample, SampleDataset
from attributionlab.device import as_device
from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.images import Recipe
from attributionlab.nets import Network, default_temperature, with_softmax
from attributionlab.spec import EnvironmentSpec, counting_of, known_colors
from attributionlab.truth import Counting, Output, Truth, mask, softmax_shapley, symmetric_shapley
from attributionlab.validation import integer_problem

__all__ = ["Environment"]

PIXELS_AT_ONCE = 224 * 224


class Environment:
    """One network, its images and their truth. Made by `attributionlab.load`.

    Attributes
    ----------
    name : str
        Name in the catalogue, or the stem of the user's file.
    task : {"classification", "regression"}
        Several logits and a winner, or one output.
    model : nn.Module
        In eval mode: (B, C, H, W) float32 -> (B, K) logits, which are counts (or a remainder).
    softmax_model : nn.Module or None
        The same network with a temperature and a softmax behind it; None for regression.
    baseline : Tensor
        (C, 1, 1), the true baseline: the background's pixel.
    layers : dict of str to nn.Module
        "gradcam" and "iba": where map-based methods attach.
    spec : EnvironmentSpec
        What it was made from.
    reference, overrides : str and dict
        What `attributionlab.load` was called with.
    """

    def __init__(self, spec: EnvironmentSpec, network: Network, recipe: Recipe) -> None:
        self.spec, self.network, self.recipe = spec, network, recipe
        self.name = self.reference = spec.name
        self.overrides: dict[str, Any] = {}
        self.model: nn.Module = network.model
        self.layers = network.layers
        self.counting = counting_of(spec)
        self.max_value = network.highest
        self.task: Literal["classification", "regression"] = (
            "classification" if network.classes > 1 else "regression"
        )
        self.softmax_model: nn.Module | None = None
        self.temperature: float | None = None
        if self.task == "classification":
            gap = math.ceil(recipe.patch_size[1] * recipe.image_size) ** 2
            gap *= spec.constants.get("patches_per_color", 1)
            self.temperature = spec.constants.get("temperature", default_temperature(gap))
            self.softmax_model = with_softmax(self.model, network.classes, self.temperature)
        self.baseline = torch.tensor(recipe.background).float()[:, None, None]
        self.device = torch.device("cpu")

    def __repr__(self) -> str:
        return f"Environment({self.name!r}, {self.task}, {self.recipe.image_size} px)"

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Outputs that can be explained, the default first."""
        return ("probability", "logit") if self.softmax_model is not None else ("logit",)

    @property
    def smoothing_sigma(self) -> float:
        """Standard deviation, in pixels, of the Gaussian of the smoothed truth."""
        return float(self.spec.constants["smoothing"]) * self.recipe.image_size

    def explained_model(self, output: Output) -> nn.Module:
        """The network whose output is explained."""
        if output == "probability" and self.softmax_model is not None:
            return self.softmax_model
        return self.model

    def to(self, device: str | torch.device) -> Self:
        """Move the network to a device; images are made on the CPU and moved by the caller.

        Raises
        ------
        AttributionLabError
            If there is no such device; nothing is moved then.
        """
        place = as_device(device)
        (self.softmax_model or self.model).to(place)
        self.baseline, self.device = self.baseline.to(place), place
        return self

    def dataset(self, n: int | None = None, seed: int | None = None) -> SampleDataset:
        """Samples 0 to n - 1.

        Parameters
        ----------
        n : int, optional
            How many; the data set's own size by default.
        seed : int, optional
            Non-negative; the data set's own seed (0 in the catalogue) by default.

        Returns
        -------
        SampleDataset
            Of `Sample`; sample i does not depend on n.
        """
        n = self.spec.size if n is None else n
        seed = self.spec.seed if seed is None else seed
        refuse_if(
            [*integer_problem("n", n, 1), *integer_problem("seed", seed, 0)],
            f"dataset of {self.name}",
        )
        keep = bool(self.spec.constants.get("keep_degenerate", False))
        accept = Accept(self.counting, self.network.max_count, keep)
        return SampleDataset(self.recipe, accept, int(n), int(seed))

    def loader(self, n: int, seed: int) -> "DataLoader[Sample]":
        """Samples 0 to n - 1 in batches with as many pixels as one image at 224, or one image."""
        # A loader without a generator of its own would draw from the global one.
        return DataLoader(
            self.dataset(n, seed),
            batch_size=max(1, PIXELS_AT_ONCE // self.recipe.image_size**2),
            generator=torch.Generator(),
        )

    def batch(
        self, n: int, seed: int | None = None
    ) -> tuple[Float[Tensor, "n channels height width"], Int[Tensor, " n"]]:
        """The first n images and their labels, as from `dataset`.

        Returns
        -------
        images : Tensor of float32, (n, C, H, W)
            In channels-last memory format.
        labels : Tensor of int64, (n,)
        """
        dataset = self.dataset(n, seed)
        samples = [dataset[index] for index in range(len(dataset))]
        images = torch.stack([sample.image for sample in samples])
        labels = torch.stack([sample.label for sample in samples])
        return images.to(memory_format=torch.channels_last), labels

    def targets(self, labels: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """Which output to explain by default: the label's, and for regression the only one."""
        return labels if self.task == "classification" else torch.zeros_like(labels)

    def truth(
        self,
        images: Float[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"],
        output: Output | None = None,
    ) -> Truth:
        """What the network used in each image.

        Parameters
        ----------
        images : Tensor, (B, C, H, W)
            Integers in the valid box, of colors that the network knows.
        targets : Tensor, (B,)
            Class indices; zeros for regression.
        output : {"probability", "logit"}, optional
            Which output is explained; "probability" by default for classification.

        Raises
        ------
        AttributionLabError
            For images outside the valid box, with colors that set off the Unseen Data Effect (no mask
            holds for them), or with counts above the network's bound, and for targets out of range.
        """
        output = self.checked_output(output)
        self._check_images(images)
        targets = self._checked_targets(targets, len(images))
        self._checked_counts(images)
        return mask(self.counting.classes_of(images), targets, output)

    def shapley(
        self,
        image: Float[Tensor, "channels height width"],
        target: int,
        output: Output | None = None,
    ) -> Float64[Tensor, "1 height width"]:
        """Exact Shapley values of an image's pixels; an absent pixel has the true baseline's value.

        Every coalition is then an image of colors that the network knows: the values hold with the
        Unseen Data Effect too. Pixels that do not count have the value 0. Logit: 1 for each of the
        target's pixels, 0 for all others. Probability: see `attributionlab.truth.softmax_shapley`, at
        this environment's temperature. Regression: 1 for each counted pixel, and (n mod N) / n for
        each of n counted modulo N.

        Parameters
        ----------
        image : Tensor, (C, H, W)
            As one of those of `truth`.
        target : int
            Class index; 0 for regression.
        output : {"probability", "logit"}, optional
            As for `truth`.

        Returns
        -------
        Tensor of float64, (1, H, W)

        Raises
        ------
        AttributionLabError
            For what `truth` refuses.
        """
        output = self.checked_output(output)
        images = image[None] if isinstance(image, Tensor) else image
        self._check_images(images)
        target = int(self._checked_targets([target], 1)[0])
        counts = self._checked_counts(images)[0].cpu()
        if self.temperature is not None and output == "probability":
            values = _probability_values(tuple(counts.tolist()), target, self.temperature)
        else:
            values = torch.zeros(len(counts), dtype=torch.float64)
            answer = int(counts[target]) % (self.counting.modulus or math.inf)
            values[target] = symmetric_shapley(0.0, answer, int(counts[target]))
        # Class -1, of pixels that do not count, is the last entry.
        of_class = torch.cat([values, torch.zeros(1)]).to(image.device)
        return of_class[self.counting.classes_of(images)[0]]

    def checked_output(self, output: str | None) -> Output:
        """The output asked for, or the default, if this environment has it."""
        if output is None:
            return self.outputs[0]
        if output not in get_args(Output):
            raise AttributionLabError(f"output is {output!r}: take 'probability' or 'logit'")
        if output not in self.outputs:
            raise AttributionLabError(
                f"{self.name} is a regression: its only output is 'logit', not {output!r}"
            )
        return output

    def summary(self) -> str:
        """What it computes, from which layers, for which images and how exactly, as plain text."""
        spec, network, recipe = self.spec, self.network, self.recipe
        weighted = [m for m in self.model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        tightest = max(network.budgets, key=lambda budget: budget.steps)
        names = {module: name for name, module in self.model.named_modules()}
        rows = {
            "claim": spec.claim,
            "formula": spec.formula,
            "source": spec.source,
            "task": f"{self.task}, {network.classes} output{'s' * (network.classes > 1)}",
            "layers": f"{len(weighted)} with weights, {parameters:,} parameters",
            "images": f"{recipe.channels} x {recipe.image_size} x {recipe.image_size}",
            "valid box": f"integers in [0, {self.max_value}]",
            "true baseline": str(recipe.background),
            "largest count": f"{network.max_count:,} (the network is right up to here)",
            "exactness": f"{tightest.layer} needs {tightest.steps:,.0f} of 2^24 grid steps",
            "attach": ", ".join(f"{k}: model.{names[layer]}" for k, layer in self.layers.items()),
            "smoothed truth": f"Gaussian, sigma {self.smoothing_sigma:g} pixels",
        }
        if self.temperature is not None:
            rows["temperature"] = f"{self.temperature:g}"
        rows |= {f"  {name}": _shown(value) for name, value in spec.constants.items()}
        rows |= {name: f"{value:g} in force" for name, value in network.effective.items()}
        rows["spec"] = spec.digest[:16]
        return "\n".join([self.name, *(f"  {key:<20}{value}" for key, value in rows.items())])

    def _checked_counts(self, images: Tensor) -> Int[Tensor, "batch classes"]:
        counts = self.counting.counts(images)
        if int(counts.max()) > self.network.max_count:
            raise AttributionLabError(
                f"{self.name}: an image has {int(counts.max())} counted pixels, the network is right "
                f"up to {self.network.max_count}: use smaller patches or a larger max_count"
            )
        return counts

    def _checked_targets(self, targets: Any, n: int) -> Int[Tensor, " batch"]:
        try:
            targets = torch.as_tensor(targets)
        except (TypeError, ValueError, RuntimeError) as error:
            raise AttributionLabError(
                f"targets are {targets!r}: pass one integer for each of the {n} images"
            ) from error
        if targets.shape != (n,) or targets.is_floating_point() or targets.dtype == torch.bool:
            raise AttributionLabError(
                f"targets are {targets.dtype} of shape {tuple(targets.shape)}: pass one integer for "
                f"each of the {n} images"
            )
        outside = targets[(targets < 0) | (targets >= self.network.classes)]
        if len(outside):
            raise AttributionLabError(
                f"target {int(outside[0])} does not exist: {self.name} has the outputs 0 to "
                f"{self.network.classes - 1}"
                + ("" if self.task == "classification" else " (a regression's targets are zeros)")
            )
        checked: Tensor = targets.long()
        return checked

    def _check_images(self, images: Any) -> None:
        side, channels = self.recipe.image_size, self.recipe.channels
        shape_is_right = isinstance(images, Tensor) and images.shape[1:] == (channels, side, side)
        if not shape_is_right or not len(images):
            shape = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
            raise AttributionLabError(
                f"images are {shape}: {self.name} takes a tensor of shape (B, {channels}, {side}, "
                f"{side}), B at least 1"
            )
        if images.is_complex() or images.dtype == torch.bool:
            raise AttributionLabError(f"images are {images.dtype}: pass float32 numbers")
        top = self.max_value
        outside = ~((images >= 0) & (images <= top) & (images == images.round()))
        if outside.any():
            where = tuple(int(i) for i in outside.nonzero()[0])
            raise AttributionLabError(
                f"images have the value {float(images[where]):g} at {where}: {self.name} takes "
                f"integers in [0, {top}], not scaled or normalized ones"
            )
        if self.network.effective.get("redundant_strength"):
            self._check_colors(images)

    def _check_colors(self, images: Tensor) -> None:
        unseen = Counting(known_colors(self.spec)).classes_of(images) < 0
        if unseen.any():
            i, _, y, x = (int(k) for k in unseen.nonzero()[0])
            color = tuple(int(value) for value in images[i, :, y, x])
            raise AttributionLabError(
                f"image {i} has {int(unseen[i].sum())} pixels of colors that {self.name} was not made "
                f"for, the first {color} at {(y, x)}: no mask holds there; set redundant_strength=0 "
                "or use the environment's own images"
            )


@lru_cache(maxsize=4096)
def _probability_values(
    counts: tuple[int, ...], target: int, temperature: float
) -> Float64[Tensor, " classes"]:
    """The Shapley value of a pixel of each class; the same images are asked about again and again."""
    return softmax_shapley(torch.tensor(counts), target, temperature).values


def _shown(value: Any) -> str:
    """A constant as TOML would have it."""
    return json.dumps(value)
