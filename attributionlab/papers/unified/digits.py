r"""Sparse linear classifiers of scikit-learn's digits, in integers, so that their answers are exact.

The data (1,797 scans of 8 x 8 pixels, ink 0 to 16) come with scikit-learn. The weights of a
multinomial logistic regression with an L1 penalty are rounded to multiples of 2^-20; scores of classes
are then sums of integers, which nothing rounds.
"""

import inspect
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int64
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import integer_problem, number_problem, refuse_if
from attributionlab.metrics import bounding_boxes

CLASSES = 10
DARKEST = 16
"""The largest value of ink; 0 is the background."""
MARGIN = 1
"""Empty pixels added on each side. A digit fills all rows of its 8 x 8 pixels, whereas in MNIST at
least four are empty on each side; without a margin, boxes of some digits would hold the corner."""
SIDE = 8 + 2 * MARGIN
CORNER = 0
"""Flat index of the pixel at the top left, which no digit reaches."""
TRAINING = 1197
MOST_TEST = 600
GRID = 2**20
"""Weights are multiples of 1 / GRID."""


Images = Int64[Tensor, "batch 1 side side"]
Labels = Int64[Tensor, " batch"]


class Digits(NamedTuple):
    """Images in integers: `ink` from 0 to DARKEST, and their labels."""

    ink: Images
    labels: Labels

    @property
    def boxes(self) -> Bool[Tensor, "batch 1 side side"]:
        """Strictly within the boxes of appendix D, whose edges are the pixels next to the digit's."""
        return bounding_boxes(self.ink > 0)


class LinearClassifier(NamedTuple):
    """Scores of the classes are y_k = sum_j w_kj x_j + b_k, all of them integers."""

    weights: Int64[Tensor, "classes pixels"]
    bias: Int64[Tensor, " classes"]

    def scores(self, images: Images) -> Int64[Tensor, "batch classes"]:
        """y, exact: below 2^63 for the values of this module."""
        return images.flatten(1) @ self.weights.T + self.bias

    def predictions(self, images: Images) -> Labels:
        """The class with the largest score, of equal ones the first."""
        return self.scores(images).argmax(1)

    def maps(self, images: Images, targets: Labels) -> Images:
        """w_t * x: what each pixel adds to the target's score."""
        return self.weights[targets].view(images.shape) * images


def digits_split(n: int, seed: int) -> tuple[Digits, Digits]:
    """Digits to train on (1,197) and up to 600 others to explain, drawn by a seed."""
    from sklearn.datasets import load_digits

    refuse_if([*integer_problem("n", n, 1, MOST_TEST), *integer_problem("seed", seed, 0)])
    data = load_digits()
    ink = torch.from_numpy(data.images).long()[:, None]
    ink = torch.nn.functional.pad(ink, (MARGIN,) * 4)
    labels = torch.from_numpy(data.target).long()
    order = torch.randperm(len(ink), generator=torch.Generator().manual_seed(seed))
    training, test = order[:TRAINING], order[TRAINING : TRAINING + n]
    return Digits(ink[training], labels[training]), Digits(ink[test], labels[test])


def sparse_classifier(
    images: Images, labels: Labels, *, unit: int, inverse_penalty: float, seed: int
) -> LinearClassifier:
    r"""Fit a multinomial logistic regression with an L1 penalty (Lasso), in integers.

    Minimizes \|w\|_1 + C times the sum of cross-entropies over the images, by scikit-learn's SAGA; the
    bias is not penalized. The corner, which is the same in all images, tells nothing: its weight is 0.

    Values are divided by `unit` for training, so that they are of the order of 1; the smaller the
    `inverse_penalty` C, the fewer weights are not 0. The seed orders the images for SAGA.
    """
    from sklearn.linear_model import LogisticRegression

    refuse_if(
        [
            *number_problem("inverse_penalty", inverse_penalty, above=0),
            *integer_problem("seed", seed, 0, 2**32 - 1),
        ]
    )
    inputs = images.flatten(1).numpy() / unit
    inputs[:, CORNER] = 0
    fitted = LogisticRegression(
        C=inverse_penalty, solver="saga", tol=1e-3, max_iter=2000, random_state=seed, **_lasso()
    ).fit(inputs, labels.numpy())
    return _in_integers(fitted.coef_, fitted.intercept_, unit)


def random_classifier(unit: int, seed: int) -> LinearClassifier:
    """Normal weights, which have learned nothing; 0 at the corner."""
    weights = np.random.default_rng(seed).standard_normal((CLASSES, SIDE**2))
    weights[:, CORNER] = 0
    return _in_integers(weights, np.zeros(CLASSES), unit)


def manipulated(classifier: LinearClassifier, corner: int, highest: int) -> LinearClassifier:
    """The same classifier with the corner's weight raised by one number for all classes.

    The new weight is the least with which the corner adds more than any other pixel can to any class,
    whatever its value: by as much as the largest |w| times the largest |value|, and 1 more. All scores
    of an image rise by the same integer, so that no prediction changes.
    `highest` is the largest absolute value of a pixel, and the classifier's weight at the corner is 0.
    A corner of value 0 adds nothing, whatever its weight: then this is the weight for a value of 1.
    """
    reach = int(classifier.weights.abs().max()) * highest + 1
    size = -(-reach // max(1, abs(corner)))  # rounded up
    weights = classifier.weights.clone()
    weights[:, CORNER] += -size if corner < 0 else size
    return LinearClassifier(weights, classifier.bias)


def _in_integers(
    weights: NDArray[np.float64], bias: NDArray[np.float64], unit: int
) -> LinearClassifier:
    """Weights for values in units of 1 / unit, so that biases are multiples of 1 / (GRID unit)."""
    return LinearClassifier(
        torch.from_numpy(np.rint(weights * GRID)).long(),
        torch.from_numpy(np.rint(bias * GRID * unit)).long(),
    )


def _lasso() -> dict[str, Any]:
    """What this scikit-learn calls an L1 penalty: version 1.8 deprecates the former way."""
    from sklearn.linear_model import LogisticRegression

    default = inspect.signature(LogisticRegression).parameters["penalty"].default
    return {"l1_ratio": 1.0} if default == "deprecated" else {"penalty": "l1"}
