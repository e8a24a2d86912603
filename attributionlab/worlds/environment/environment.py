"""An environment: a hand-weighted network, a generator of images (data sets for torch), their truth."""

import math
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import torch
from jaxtyping import Float, Float64, Int, Real
from torch import Tensor, nn
from torch.utils.data import DataLoader

from attributionlab.base import (
    AttributionLabError,
    AttributionLabWarning,
    Images,
    Positive,
    Replacement,
    Seed,
    Whole,
    as_device,
    checked_arguments,
    own_arithmetic,
    plain_torch,
    refuse_beyond_memory,
    rounds_products,
)
from attributionlab.worlds.environment.admission import Admission
from attributionlab.worlds.environment.contributions import MOST_PERMUTATIONS, Contributions
from attributionlab.worlds.environment.hidden import hidden_in
from attributionlab.worlds.environment.samples import Accept, Sample, SampleDataset
from attributionlab.worlds.environment.spec import EnvironmentSpec, counting_of
from attributionlab.worlds.environment.summary import summary_of
from attributionlab.worlds.images.recipe import ImageRecipe
from attributionlab.worlds.nets.camouflage.camouflaging import camouflaged
from attributionlab.worlds.nets.head import default_temperature, with_softmax
from attributionlab.worlds.nets.implementations import PAPER, implementations_of, implemented
from attributionlab.worlds.nets.networks import Network
from attributionlab.worlds.truth.definitions import Truths
from attributionlab.worlds.truth.masks import Output, Truth
from attributionlab.worlds.truth.sampling import SampledShapley

PIXELS_AT_ONCE = 224 * 224


class Environment:
    """One network, its images and their truth. Made by `attributionlab.load`.

    Attributes
    ----------
    name : str
        Name in the catalog, or the stem of the user's file.
    task : {"classification", "regression"}
        Several logits with a winner, or a single output.
    model : nn.Module
        In eval mode: (B, C, H, W) float32 -> (B, K) logits, which are counts (or a remainder).
    softmax_model : nn.Module or None
        The same network followed by a temperature and a softmax; None for regression.
    baseline : Tensor
        (C, 1, 1), the true baseline: the background's pixel.
    layers : dict of str to nn.Module
        "gradcam" and "iba": where map-based methods attach.
    spec : EnvironmentSpec
        The specification it was made from.
    maker, reference, overrides : str, str and dict
        The function that made it ("load", "world", "custom_environment"), and its arguments.
    classes, image_shape : int and tuple of int
        Number of the network's outputs, and (C, H, W).
    has_roles, is_of_tokens : bool
        Whether each image can be a question with its own network (not for a user's network), and
        whether images are one-hot sequences of tokens (`worlds.environment.token_worlds`).
    """

    has_roles: ClassVar[bool] = True
    is_of_tokens: ClassVar[bool] = False
    _one_output: ClassVar[str] = "regression"
    """what has one output, in words"""
    features: tuple[str, ...] | None = None  # what a random world asks (`random_rules.FEATURES`)

    def __init__(self, spec: EnvironmentSpec, network: Network, recipe: ImageRecipe) -> None:
        self.spec, self.network, self.recipe = spec, network, recipe
        self.name = self.reference = spec.name
        if self.implementation != PAPER:
            self.name = f"{spec.name} ({self.implementation})"
        self.maker: Literal["load", "world", "custom_environment"] = "load"
        self.overrides: dict[str, Any] = {}
        self.model: nn.Module = network.model
        self.layers = network.layers
        self.counting = counting_of(spec)
        self.admission = Admission(self)
        self.max_value = network.highest
        self.classes = network.classes
        self.image_shape = (recipe.channels, recipe.image_size, recipe.image_size)
        self.softmax_model: nn.Module | None = None
        self.temperature: float | None = None
        if self.task == "classification":
            gap = math.ceil(recipe.patch_size[1] * recipe.image_size) ** 2
            gap *= spec.constants.get("patches_per_color", 1)
            self.temperature = spec.constants.get("temperature", default_temperature(gap))
            self.softmax_model = with_softmax(self.model, network.classes, self.temperature)
        self.baseline = torch.tensor(recipe.background).float()[:, None, None]
        self.device = torch.device("cpu")

    @property
    def task(self) -> Literal["classification", "regression"]:
        """Several outputs, one for each class, or a single output."""
        return "classification" if self.classes > 1 else "regression"

    @property
    def rule(self) -> str | dict[str, str]:
        """The rule of a world, as text or by class; empty for all other environments."""
        stated = self.spec.constants.get("rule", "")
        return stated if isinstance(stated, str) else dict(stated)

    @property
    def colors(self) -> dict[str, tuple[int, ...]]:
        """The colors of a world by name; empty for all other environments."""
        constants = self.spec.constants
        return dict(
            zip(constants.get("color_names", ()), constants.get("colors", ()), strict=False)
        )

    @property
    def worlds(self) -> "list[Environment]":
        """The worlds of this environment: fifty for a name like "random:50:medium:7", else itself."""
        return [self]

    def __repr__(self) -> str:
        return f"Environment({self.name!r}, {self.task}, {self.recipe.image_size} px)"

    @property
    def smoothing_sigma(self) -> float:
        """Standard deviation, in pixels, of the Gaussian of the smoothed truth."""
        return self.recipe.image_size * float(self.spec.constants["smoothing"])

    def to(self, device: str | torch.device) -> Self:
        """Move the network to a device; images are made on the CPU and moved by the caller.

        Warns if torch may round the factors of products there (TF32). The laboratory's own calls are
        always exact; ``env.model(images)`` is exact only under `attributionlab.exact_arithmetic`.

        Raises
        ------
        AttributionLabError
            If there is no such device; nothing is then moved.
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

    @checked_arguments
    def dataset(self, n: Images | None = None, seed: Whole | None = None) -> SampleDataset:
        """Samples 0 to n - 1.

        Parameters
        ----------
        n : int, optional
            How many; the data set's own size by default.
        seed : int, optional
            Non-negative; the data set's own seed (0 in the catalog) by default.

        Returns
        -------
        SampleDataset
            A data set of `Sample`; sample i does not depend on n.
        """
        n = self.spec.size if n is None else n
        return self._samples(n, self.spec.seed if seed is None else seed)

    def _samples(self, n: int, seed: int) -> SampleDataset:
        keep = bool(self.spec.constants.get("keep_degenerate", False))
        accept = Accept(self.counting, self.network.max_count, keep)
        return SampleDataset(self.recipe, accept, n, seed)

    @checked_arguments
    def loader(self, n: Images, seed: Whole) -> "DataLoader[Sample]":
        """Samples 0 to n - 1 in batches with the pixels of one 224 x 224 image, or of one image."""
        # A loader without a generator of its own would draw from the global one.
        return DataLoader(
            self.dataset(n, seed),
            batch_size=max(1, PIXELS_AT_ONCE // math.prod(self.image_shape[1:])),
            generator=torch.Generator(),
        )

    @checked_arguments
    def batch(
        self, n: Images, seed: Whole | None = None
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
        channels, *size = self.image_shape
        needed = n * (3 * 4 * channels + 8) * math.prod(size)
        what = f"{self.name}: n is {n}: a batch of this many images"
        refuse_beyond_memory(needed, what, "take fewer, or iterate over env.dataset")
        samples = [dataset[index] for index in range(len(dataset))]
        images = torch.stack([sample.image for sample in samples])
        labels = torch.stack([sample.label for sample in samples])
        return images.to(memory_format=torch.channels_last), labels

    @checked_arguments
    def targets(self, labels: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """The outputs to explain by default: those of the labels, or the only one for regression."""
        return labels if self.task == "classification" else torch.zeros_like(labels)

    @plain_torch()
    @checked_arguments
    def camouflaged(self, seed: Whole) -> "Environment":
        """The same environment, whose network computes the same function with different weights.

        Parameters
        ----------
        seed : int
            Non-negative; which camouflage.

        Returns
        -------
        Environment
            Equal to ``attributionlab.load(..., camouflage_seed=seed)``; this one is not changed.

        Examples
        --------
        >>> import attributionlab as al
        >>> env = al.load("multi-color-sum", image_size=24)
        >>> images, labels = env.batch(2)
        >>> bool((env.model(images) == env.camouflaged(3).model(images)).all())
        True
        """
        for key, what in (("trained", "trained network"), ("camouflage_seed", "camouflage")):
            if key in self.spec.constants:
                raise AttributionLabError(
                    f"{self.name} already has the {what} {self.spec.constants[key]}: camouflage the "
                    "plain environment"
                )
        network = camouflaged(self.network, seed)
        return self.with_network(network, camouflage_seed=seed)

    @property
    def implementation(self) -> str:
        """The network's implementation, a key of `attributionlab.nets.IMPLEMENTATIONS`.

        "trained" for a network trained on the rule, "own" for a user's.
        """
        if not self.has_roles:
            return "own"
        constants = self.spec.constants
        return "trained" if self.spec.is_trained else str(constants.get("implementation", PAPER))

    @property
    def implementations(self) -> tuple[str, ...]:
        """The network's possible implementations; empty if it was rewritten or is not hand-weighted."""
        is_exact = self.has_roles and not self.spec.is_trained
        return implementations_of(self.network) if is_exact else ()

    @plain_torch()
    @checked_arguments
    def with_implementation(self, name: str) -> "Environment":
        """The same environment with another implementation of the network.

        Images, questions, roles and truth are the same.

        Parameters
        ----------
        name : str
            One of ``env.implementations``; `attributionlab.nets.IMPLEMENTATIONS` says what each is.

        Returns
        -------
        Environment
            Equal to ``attributionlab.load(..., implementation=name)``; this one is not changed.

        Raises
        ------
        AttributionLabError
            For one that is unknown or does not apply, and if the network was already rewritten.

        Examples
        --------
        >>> import attributionlab as al
        >>> env = al.load("multi-color-sum", image_size=24)
        >>> images, labels = env.batch(2)
        >>> bool((env.model(images) == env.with_implementation("natural").model(images)).all())
        True
        """
        for key in ("implementation", "camouflage_seed", "trained"):
            if key in self.spec.constants:
                raise AttributionLabError(
                    f"{self.name} already has the network of {key} {self.spec.constants[key]!r}: take "
                    "another implementation of the plain environment"
                )
        if name == PAPER:
            return self
        network = implemented(self.network, name, self.spec.constants.get("weight_seed", 0))
        env = self.with_network(network, implementation=name)
        env.name = f"{self.name} ({name})"
        return env

    def with_network(
        self, network: Network, recipe: ImageRecipe | None = None, **changed: Any
    ) -> "Environment":
        """The same environment with another network and images, and the constants that make them."""
        spec = self.spec.with_constants(**changed)
        env = Environment(spec, network, self.recipe if recipe is None else recipe)
        env.maker, env.reference, env.name = self.maker, self.reference, self.name
        env.overrides, env.features = {**self.overrides, **changed}, self.features
        return env.to(self.device)

    def hidden(self, claim: str = "signed") -> dict[str, int]:
        """What each question of this environment draws anew, so that a map must depend on it.

        A map made without seeing one of these things solves a question (F1 > 2/3) with probability at
        most 1/m: see `attributionlab.worlds.environment.hidden` for the proof.

        Parameters
        ----------
        claim : {"signed", "overall", "positive", "positive-smoothed", "agreed"}
            What is tested; "overall" requires fewer things.

        Returns
        -------
        dict of str to int
            The number m >= 2 of alternatives by thing, among "roles", "target", "place", "color",
            "sign" and "context". Empty for a user's own network. An unknown claim is refused.

        Examples
        --------
        >>> import attributionlab as al
        >>> al.load("quadrants", image_size=24).hidden()
        {'roles': 6, 'place': 4, 'color': 6}
        """
        return hidden_in(self, claim)

    def summary(self) -> str:
        """What it computes, from which layers, for which images and how exactly, as plain text."""
        return summary_of(self)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Outputs that can be explained, the default first."""
        return ("probability", "logit") if self.softmax_model is not None else ("logit",)

    @checked_arguments
    def explained_model(self, output: Output) -> nn.Module:
        """The network whose output is explained."""
        if output == "probability" and self.softmax_model is not None:
            return self.softmax_model
        return self.model

    @checked_arguments
    @own_arithmetic()
    def truth(
        self,
        images: Real[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"] | Sequence[int],
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
            For images outside the valid box, with colors that cause the Unseen Data Effect (no mask
            holds for them), or with counts above the network's bound, and for targets out of range.
        """
        output = self.checked_output(output)
        images = self.admission.images(images)
        self.admission.check_colors(images)
        targets = self.admission.targets(targets, len(images))
        self.admission.check_counts(images)
        return self.counting.truth(images, targets, output, self.temperature)

    @checked_arguments
    @own_arithmetic()
    def truths(
        self,
        images: Real[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"] | Sequence[int],
        output: Output | None = None,
        *,
        baseline: Replacement | None = None,
        precision: Positive | None = None,
        seed: Seed = 0,
    ) -> Truths:
        """What each pixel contributes, by every definition that applies.

        The mask, single-pixel ablation and insertion, Shapley values, and integrated gradients along
        two paths: through the colors (RGB) and through the counts. Without unseen colors in images and
        baseline, all except the path through the colors are closed forms, and that one is integrated
        piecewise. With unseen colors there is no mask and no path through the counts; ablation and
        insertion are the network's exact outputs, and Shapley values an estimate.

        Parameters
        ----------
        images : Tensor, (B, C, H, W)
            Integers in the valid box.
        targets, output
            As for `truth`.
        baseline : number or Tensor, optional
            The values of absent pixels: a number, a pixel (C, 1, 1) or images (C, H, W) or (B, C, H,
            W), integers in the valid box; by default the true baseline.
        precision : float, optional
            If Shapley values are estimated, the largest acceptable standard error, in units of the
            output; by default 1e-4 of the largest |f(x) - f(b)|. There is a warning if 2,000
            permutations do not reach it.
        seed : int
            Seed for the estimate, non-negative.

        Returns
        -------
        Truths
            Definitions by name, their values with errors, and `Truths.agreement`.

        Raises
        ------
        AttributionLabError
            For images and baselines outside the valid box, targets out of range, and mixtures of the
            two with counts above the network's bound.

        Examples
        --------
        >>> import attributionlab as al
        >>> env = al.load("multi-color-sum-in-distribution", image_size=24)
        >>> images, labels = env.batch(1)
        >>> truths = env.truths(images, labels, "logit")
        >>> bool((truths["shapley"].values == truths["ablation"].values).all())
        True
        """
        contributions = Contributions(self, images, targets, output, baseline, precision, seed)
        truths = contributions.truths()
        if truths["shapley"].source == "estimate":
            _tell_if_coarse(contributions)
        return truths

    @checked_arguments
    @own_arithmetic()
    def shapley(
        self,
        image: Real[Tensor, "channels height width"],
        target: int,
        output: Output | None = None,
        *,
        baseline: Replacement | None = None,
    ) -> Float64[Tensor, "1 height width"]:
        """Exact Shapley values of an image's pixels; an absent pixel has the baseline's value.

        With the true baseline every coalition is an image of colors that the network knows: the values
        hold with the Unseen Data Effect too. See `attributionlab.truth.CountingGame` for the formulas.

        Parameters
        ----------
        image : Tensor, (C, H, W)
            As one of those of `truth`.
        target : int
            Class index; 0 for regression.
        output : {"probability", "logit"}, optional
            As for `truth`.
        baseline : number or Tensor, optional
            As for `truths`.

        Returns
        -------
        Tensor of float64, (1, H, W)

        Raises
        ------
        AttributionLabError
            For what `truth` refuses, and for baselines without a closed form; the message then suggests
            `sampled_shapley`.
        """
        contributions = Contributions(self, image[None], [target], output, baseline)
        remedy = "there is no closed form; `sampled_shapley` estimates the values"
        self.admission.check_colors(contributions.images, remedy)
        self.admission.check_colors(contributions.baselines, remedy)
        if not contributions.has_closed_shapley:
            raise AttributionLabError(f"{self.name}: {remedy}")
        return contributions.games[0].shapley().values.to(image.device)

    @checked_arguments
    @own_arithmetic()
    def sampled_shapley(
        self,
        image: Real[Tensor, "channels height width"],
        target: int,
        output: Output | None = None,
        *,
        baseline: Replacement | None = None,
        precision: Positive | None = None,
        seed: Seed = 0,
    ) -> SampledShapley:
        """Unbiased estimates of Shapley values with standard errors, for any colors in the box.

        Parameters
        ----------
        image, target, output, baseline
            As for `shapley`; unseen colors are allowed in both.
        precision, seed
            As for `truths`.

        Returns
        -------
        SampledShapley
            See `attributionlab.truth.sampled_shapley`.

        Raises
        ------
        AttributionLabError
            For what `truths` refuses.
        """
        found = Contributions(self, image[None], [target], output, baseline, precision, seed)
        _tell_if_coarse(found)
        return found.samples[0]

    def checked_output(self, output: str | None) -> Output:
        """The requested or default output, if this environment has it."""
        if output is None:
            return self.outputs[0]
        if output not in get_args(Output):
            raise AttributionLabError(f"output is {output!r}: take 'probability' or 'logit'")
        if output not in self.outputs:
            raise AttributionLabError(
                f"{self.name} is a {self._one_output}: its only output is 'logit', not {output!r}"
            )
        return output


def _tell_if_coarse(contributions: Contributions) -> None:
    """Warn of estimates that do not reach the required precision."""
    coarse = [not found.reached for found in contributions.samples]
    if any(coarse):
        largest = max(float(found.standard_errors.max()) for found in contributions.samples)
        warnings.warn(
            f"Shapley values of {sum(coarse)} of {len(coarse)} images have standard errors up to "
            f"{largest:.2g} after {MOST_PERMUTATIONS:,} permutations, more than required: take a "
            "larger precision, or attributionlab.truth.sampled_shapley with a larger `most`",
            AttributionLabWarning,
            stacklevel=4,  # past the context of the public function
        )
