"""An environment: one hand-weighted network, one generator of images, and their truth."""

import math
import warnings
from dataclasses import replace
from typing import Any, Literal, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.data import DataLoader

from attributionlab.dataset import Accept, Sample, SampleDataset
from attributionlab.device import as_device, plain_torch, rounds_products
from attributionlab.environment.admission import Admission
from attributionlab.environment.known_truths import KnownTruths
from attributionlab.environment.summary import described
from attributionlab.errors import AttributionLabError, AttributionLabWarning, refuse_if
from attributionlab.images import Recipe
from attributionlab.memory import refuse_beyond_memory
from attributionlab.nets import Network, camouflaged, default_temperature, with_softmax
from attributionlab.spec import EnvironmentSpec, counting_of
from attributionlab.validation import MOST_IMAGES, integer_problem

__all__ = ["Environment"]

PIXELS_AT_ONCE = 224 * 224


class Environment(KnownTruths):
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
        self.admission = Admission(spec, network, recipe, self.counting)
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
    def smoothing_sigma(self) -> float:
        """Standard deviation, in pixels, of the Gaussian of the smoothed truth."""
        return float(self.spec.constants["smoothing"]) * self.recipe.image_size

    def to(self, device: str | torch.device) -> Self:
        """Move the network to a device; images are made on the CPU and moved by the caller.

        Warns where torch may round the factors of products there (TF32): the laboratory's own calls are
        exact all the same, ``env.model(images)`` is under `attributionlab.exact_arithmetic` alone.

        Raises
        ------
        AttributionLabError
            If there is no such device; nothing is moved then.
        """
        place = as_device(device)
        (self.softmax_model or self.model).to(place)
        self.baseline, self.device = self.baseline.to(place), place
        if place.type != "cpu" and rounds_products():
            warnings.warn(
                f"{self.name} is on {place}, where torch may round products (TF32): your own "
                "env.model(images) can be off by counts; run it under "
                "`with attributionlab.exact_arithmetic():`",
                AttributionLabWarning,
                stacklevel=2,
            )
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
            [*integer_problem("n", n, 1, MOST_IMAGES), *integer_problem("seed", seed, 0)],
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

        Raises
        ------
        AttributionLabError
            If they do not fit in memory.
        """
        dataset = self.dataset(n, seed)
        # Each image twice, to be stacked, and a label map of int64; the stack once more as it is laid
        # out anew.
        needed = n * (3 * 4 * self.recipe.channels + 8) * self.recipe.image_size**2
        what = f"{self.name}: n is {n}: a batch of so many images"
        refuse_beyond_memory(needed, what, "take fewer, or pass over env.dataset")
        samples = [dataset[index] for index in range(len(dataset))]
        images = torch.stack([sample.image for sample in samples])
        labels = torch.stack([sample.label for sample in samples])
        return images.to(memory_format=torch.channels_last), labels

    def targets(self, labels: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """Which output to explain by default: the label's, and for regression the only one."""
        return labels if self.task == "classification" else torch.zeros_like(labels)

    @plain_torch()
    def camouflaged(self, seed: int) -> "Environment":
        """The same environment, whose network computes the same with weights that look unlike it.

        Parameters
        ----------
        seed : int
            Non-negative; which camouflage.

        Returns
        -------
        Environment
            Equal to ``attributionlab.load(..., camouflage_seed=seed)``; this one stays as it is.

        Examples
        --------
        >>> import attributionlab as al
        >>> env = al.load("multi-color-sum", image_size=24)
        >>> images, labels = env.batch(2)
        >>> bool((env.model(images) == env.camouflaged(3).model(images)).all())
        True
        """
        if "camouflage_seed" in self.spec.constants:
            raise AttributionLabError(
                f"{self.name} has the camouflage {self.spec.constants['camouflage_seed']} already: "
                "camouflage the plain environment"
            )
        refuse_if(integer_problem("camouflage_seed", seed, 0))
        constants = dict(sorted({**self.spec.constants, "camouflage_seed": int(seed)}.items()))
        env = Environment(
            replace(self.spec, constants=constants),
            camouflaged(self.network, int(seed)),
            self.recipe,
        )
        env.reference, env.overrides = (
            self.reference,
            {**self.overrides, "camouflage_seed": int(seed)},
        )
        return env.to(self.device)

    def summary(self) -> str:
        """What it computes, from which layers, for which images and how exactly, as plain text."""
        return described(self)
