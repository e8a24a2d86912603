"""What an environment knows about each pixel of an image: masks, and every definition of how much."""

import warnings
from typing import Any, get_args

import torch
from jaxtyping import Float64, Int, Real
from torch import Tensor, nn

from attributionlab.device import own_arithmetic
from attributionlab.environment.admission import Admission
from attributionlab.environment.question import MOST_PERMUTATIONS, Question
from attributionlab.errors import AttributionLabError, AttributionLabWarning, refuse_if
from attributionlab.nets import Network
from attributionlab.truth import Counting, Output, SampledShapley, Truth, Truths, mask
from attributionlab.validation import Replacement, integer_problem, number_problem

__all__ = ["KnownTruths"]


HIGHEST_SEED = 2**64 - 1


class KnownTruths:
    """The part of an environment that answers what its network used."""

    name: str
    model: nn.Module
    softmax_model: nn.Module | None
    temperature: float | None
    network: Network
    counting: Counting
    admission: Admission
    baseline: Tensor
    device: torch.device

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Outputs that can be explained, the default first."""
        return ("probability", "logit") if self.softmax_model is not None else ("logit",)

    def explained_model(self, output: Output) -> nn.Module:
        """The network whose output is explained."""
        if output == "probability" and self.softmax_model is not None:
            return self.softmax_model
        return self.model

    @own_arithmetic()
    def truth(
        self,
        images: Real[Tensor, "batch channels height width"],
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
        images = self.admission.images(images)
        self.admission.check_colors(images)
        targets = self.admission.targets(targets, len(images))
        self.admission.check_counts(images)
        return mask(self.counting.classes_of(images), targets, output)

    @own_arithmetic()
    def truths(
        self,
        images: Real[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"],
        output: Output | None = None,
        *,
        baseline: Replacement | None = None,
        precision: float | None = None,
        seed: int = 0,
    ) -> Truths:
        """What each pixel contributes, by every definition that the question has.

        The mask, single-pixel ablation and insertion, Shapley values, and integrated gradients along
        two paths: through the colors (RGB) and through the counts. Without unseen colors, in images and
        baseline, all but the path through the colors are closed forms, and that one is integrated piece
        by piece. With unseen colors there is no mask and no path through the counts; ablation and
        insertion are the network's exact outputs, and Shapley values an estimate.

        Parameters
        ----------
        images : Tensor, (B, C, H, W)
            Integers in the valid box.
        targets, output
            As for `truth`.
        baseline : number or Tensor, optional
            What an absent pixel has: a number, a pixel (C, 1, 1) or images (C, H, W) or (B, C, H, W),
            integers in the valid box; the true baseline by default.
        precision : float, optional
            Where Shapley values are estimated, the largest standard error to be content with, in units
            of the output; 1e-4 of the largest |f(x) - f(b)| by default. A warning says where it is not
            reached within 2,000 permutations.
        seed : int
            Of the estimate, non-negative.

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
        question = self._question(images, targets, output, baseline, precision, seed)
        truths = question.truths()
        if truths["shapley"].source == "estimate":
            _tell_if_coarse(question)
        return truths

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
            For what `truth` refuses, and for baselines for which there is no closed form; the message
            names `sampled_shapley`, which has none to need.
        """
        question = self._question(_batch_of_one(image), [target], output, baseline)
        remedy = "there is no closed form; `sampled_shapley` estimates the values"
        self.admission.check_colors(question.images, remedy)
        self.admission.check_colors(question.baselines, remedy)
        return question.games[0].shapley().values.to(image.device)

    @own_arithmetic()
    def sampled_shapley(
        self,
        image: Real[Tensor, "channels height width"],
        target: int,
        output: Output | None = None,
        *,
        baseline: Replacement | None = None,
        precision: float | None = None,
        seed: int = 0,
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
        question = self._question(_batch_of_one(image), [target], output, baseline, precision, seed)
        _tell_if_coarse(question)
        return question.samples[0]

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

    def _question(
        self,
        images: Any,
        targets: Any,
        output: Output | None,
        baseline: Any,
        precision: float | None = None,
        seed: int = 0,
    ) -> Question:
        problems = integer_problem("seed", seed, 0, HIGHEST_SEED)
        if precision is not None:
            problems += number_problem("precision", precision, above=0)
        refuse_if(problems)
        output = self.checked_output(output)
        images = self.admission.images(images)
        place, images = images.device, images.to(self.device)
        targets = self.admission.targets(targets, len(images)).to(self.device)
        baselines = self.admission.baselines(
            self.baseline if baseline is None else baseline, images
        )
        self.admission.check_counts(images, baselines)
        disturbed = self.admission.unseen(images).any() or self.admission.unseen(baselines).any()
        return Question(
            model=self.model,
            explained=self.explained_model(output),
            counting=self.counting,
            temperature=self.temperature,
            place=place,
            images=images.float(),
            baselines=baselines.float(),
            targets=targets,
            output=output,
            is_counting=not disturbed,
            precision=precision,
            seed=int(seed),
        )


def _tell_if_coarse(question: Question) -> None:
    """Warn of estimates that do not have the precision asked for."""
    coarse = [not found.reached for found in question.samples]
    if any(coarse):
        largest = max(float(found.standard_errors.max()) for found in question.samples)
        warnings.warn(
            f"Shapley values of {sum(coarse)} of {len(coarse)} images have standard errors up to "
            f"{largest:.2g} after {MOST_PERMUTATIONS:,} permutations, more than asked for: take a "
            "larger precision, or attributionlab.truth.sampled_shapley with a larger `most`",
            AttributionLabWarning,
            stacklevel=4,  # past the context that the asked function is in
        )


def _batch_of_one(image: Any) -> Any:
    return image[None] if isinstance(image, Tensor) else image
