"""What an environment knows about each pixel of an image: masks, and every definition of how much."""

import math
from typing import Any, get_args

from jaxtyping import Float, Float64, Int, Real
from torch import Tensor, nn

from attributionlab.environment.admission import Admission
from attributionlab.environment.answers import Question
from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.nets import Network
from attributionlab.truth import Counting, Output, SampledShapley, Truth, Truths, mask
from attributionlab.validation import integer_problem, number_problem

__all__ = ["KnownTruths"]

SHARE = 1e-4
"""Standard errors of estimates are to be at most this share of the output's change: an image has some
thousand pixels that share it."""


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

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Outputs that can be explained, the default first."""
        return ("probability", "logit") if self.softmax_model is not None else ("logit",)

    def explained_model(self, output: Output) -> nn.Module:
        """The network whose output is explained."""
        if output == "probability" and self.softmax_model is not None:
            return self.softmax_model
        return self.model

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
        images = self.admission.images(images)
        self.admission.check_colors(images)
        targets = self.admission.targets(targets, len(images))
        self.admission.check_counts(images)
        return mask(self.counting.classes_of(images), targets, output)

    def truths(
        self,
        images: Float[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"],
        output: Output | None = None,
        *,
        baseline: Real[Tensor, "..."] | None = None,
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
        baseline : Tensor, optional
            What an absent pixel has: a pixel (C, 1, 1) or an image (C, H, W), integers in the valid
            box; the true baseline by default.
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
        return self._question(images, targets, output, baseline, precision, seed).truths()

    def shapley(
        self,
        image: Float[Tensor, "channels height width"],
        target: int,
        output: Output | None = None,
        *,
        baseline: Real[Tensor, "..."] | None = None,
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
        baseline : Tensor, optional
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
        return question.game(0).shapley().values.to(image.device)

    def sampled_shapley(
        self,
        image: Float[Tensor, "channels height width"],
        target: int,
        output: Output | None = None,
        *,
        baseline: Real[Tensor, "..."] | None = None,
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
        return question.sampled_shapley(0)

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
        problems = integer_problem("seed", seed, 0)
        if precision is not None:
            problems += number_problem("precision", precision, above=0)
        refuse_if(problems)
        output = self.checked_output(output)
        images = self.admission.images(images)
        targets = self.admission.targets(targets, len(images)).to(images.device)
        baselines = self.admission.baselines(
            self.baseline if baseline is None else baseline, images
        )
        self.admission.check_counts(images, baselines)
        question = Question(self, images, targets, output, baselines, precision or math.inf, seed)
        if precision is None:
            largest = float(question.changes().abs().max())
            question = question._replace(precision=SHARE * (largest or 1.0))
        return question


def _batch_of_one(image: Any) -> Any:
    return image[None] if isinstance(image, Tensor) else image
