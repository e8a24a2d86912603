"""Table 3, Figure 3 and appendix Figure 6: one weight takes a faithful map from 100 % to 0 %."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from attributionlab.metrics import pointing_game
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.unified.linear.digits import (
    CLASSES,
    CORNER,
    DARKEST,
    MOST_TEST,
    Digits,
    LinearClassifier,
    digits_split,
    manipulated,
    random_classifier,
    sparse_classifier,
)
from attributionlab.papers.unified.linear.manipulated_findings import (
    DOT,
    INK,
    MAIN_PENALTY,
    NORMALIZED,
    findings_of,
)
from attributionlab.progress import track
from attributionlab.report.boxed_maps import BoxedRow, boxed_images_figure, boxed_maps_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ITEMS = {
    "unified-table-3": (
        "Pointing Game of a sparse linear model, and of one with another corner weight",
        "maps",
    ),
    "unified-figure-3": ("Maps of the manipulated linear model for a seven", "maps"),
    "unified-appendix-figure-6": ("Bounding boxes of digits", "boxes"),
}
"""Title, and which figure comes first; all are of the same run."""
SEEDS, QUICK_SEEDS = 5, 2
QUICK_TEST = 200
PENALTIES = (0.03, MAIN_PENALTY, 1.0)
"""C: 1 / the weight of the penalty. The paper states none."""
STEPS = 64
"""To the unit of ink, in which the mean and the spread of normalized values are rounded."""
SHOWN_DIGIT = 7
SHOWN = {
    "table-3": f"means over splits at C = {MAIN_PENALTY:g}, low and high: least and largest split; "
    "Pointing Game by maps of the true class (predicted_class: of the predicted one); corner_first: "
    "share of images and classes in which no pixel adds as much as the corner; same_predictions: share "
    "of test images with the standard model's answer, in the worst split",
    "penalties": "by C, means over splits; weights: share that is not 0; some_positive: share of "
    "images of which some pixel speaks for the true class; standard, manipulated: Pointing Game",
    "maps": "of models that learned nothing, and of none: Pointing Game, means over splits; box: "
    "share of the pixels that lies in the box",
}


class Values(NamedTuple):
    """How ink becomes the input of a model.

    Parameters
    ----------
    of_ink : callable
        Ink, integers from 0 to 16, to integers.
    unit : int
        What these are divided by for training.
    corner, highest : int
        The corner's value in all images, and the largest absolute value of any pixel.
    """

    of_ink: Callable[[Tensor], Tensor]
    unit: int
    corner: int
    highest: int


def sparse_linear_model(
    item: str, *, n: int | None, quick: bool, seed: int = 0, show_progress: bool = False
) -> Reproduction:
    """Pointing Game and accuracy of a sparse linear model, and after one pixel's weight was raised.

    The paper explains the true class t by w_t * x and raises the weight of the top left pixel. That
    pixel must not be 0 then, as it is in digits (appendix D). Two ways out are taken here: a faint dot
    of 1/16 of full ink in the corner of every image, and values less their mean. Ink as it is shows
    what the weight does without.

    Parameters
    ----------
    item : str
        A name in `ITEMS`.
    n : int, optional
        Test images of each split; 600, or 200 in a quick run, by default.
    quick : bool
        Two splits instead of five.
    seed : int
        Of the first split into 1,197 training images and test images; the others count on from it.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "table-3", "penalties", "maps" (controls) and "splits"; figures "maps" and "boxes".
    """
    import pandas as pd

    number = n if n is not None else QUICK_TEST if quick else MOST_TEST
    seeds = range(seed, seed + (QUICK_SEEDS if quick else SEEDS))
    rows: list[dict[str, Any]] = []
    controls: list[dict[str, Any]] = []
    for each in track(seeds, len(seeds), item, show_progress):
        training, test = digits_split(number, each)
        fitted: dict[tuple[int, float], LinearClassifier] = {}
        for name, values in _values_of(training).items():
            keys = {"seed": each, "values": name}
            for penalty in PENALTIES:
                # Training leaves out the corner: ink gives the same model with and without the dot.
                model = (values.unit, penalty)
                if model not in fitted:
                    fitted[model] = _fitted(training, values, penalty, each)
                found = _model_rows(fitted[model], values, test)
                rows += [{**keys, "C": penalty, **row} for row in found]
            controls += [{**keys, **row} for row in _control_rows(values, test, each)]
    splits = pd.DataFrame(rows)
    tables = {
        "table-3": _table_3(splits),
        "penalties": _by_penalty(splits),
        "maps": pd.DataFrame(controls)
        .groupby(["values", "attribution"], sort=False)
        .pointing_game.mean()
        .reset_index(),
        "splits": splits,
    }
    training, test = digits_split(number, seed)
    box = float(test.boxes.double().mean())
    tables["maps"]["box"] = box
    figures = {"maps": _maps_figure(training, test, seed), "boxes": _boxes_figure(test)}
    title, first = ITEMS[item]
    return Reproduction(
        item=item,
        title=title,
        tables=tables,
        figures={name: figures[name] for name in dict.fromkeys([first, *figures])},
        findings=findings_of(tables),
        shown=SHOWN,
    )


def _values_of(training: Digits) -> Mapping[str, Values]:
    """The three ways, with the mean and the spread of the training images."""
    ink = training.ink.double()
    mean, unit = round(float(ink.mean() * STEPS)), round(float(ink.std() * STEPS))
    dot = torch.zeros_like(training.ink[0])
    dot.view(-1)[CORNER] = 1
    return {
        DOT: Values(lambda images: images + dot, DARKEST, 1, DARKEST),
        NORMALIZED: Values(
            lambda images: STEPS * images - mean, unit, -mean, max(mean, STEPS * DARKEST - mean)
        ),
        INK: Values(lambda images: images, DARKEST, 0, DARKEST),
    }


def _fitted(training: Digits, values: Values, penalty: float, seed: int) -> LinearClassifier:
    images = values.of_ink(training.ink)
    return sparse_classifier(
        images, training.labels, unit=values.unit, inverse_penalty=penalty, seed=seed
    )


def _model_rows(standard: LinearClassifier, values: Values, test: Digits) -> list[dict[str, Any]]:
    images = values.of_ink(test.ink)
    models = {
        "standard": standard,
        "manipulated": manipulated(standard, values.corner, values.highest),
    }
    answers = standard.predictions(images)
    rows = []
    for name, model in models.items():
        predicted = model.predictions(images)
        maps = model.maps(images, test.labels)
        rows.append(
            {
                "model": name,
                "accuracy": _share(predicted == test.labels),
                "pointing_game": float(pointing_game(maps, test.boxes).mean()),
                "predicted_class": float(
                    pointing_game(model.maps(images, predicted), test.boxes).mean()
                ),
                "corner_first": _corner_first(model, images),
                "same_predictions": _share(predicted == answers),
                "images": len(images),
                "weights": _share(model.weights != 0),
                "some_positive": _share(maps.flatten(1).amax(1) > 0),
            }
        )
    return rows


def _control_rows(values: Values, test: Digits, seed: int) -> list[dict[str, Any]]:
    """Weights that learned nothing, and the image itself for a map."""
    images = values.of_ink(test.ink)
    untrained = random_classifier(values.unit, seed)
    maps = {"random weights * x": untrained.maps(images, test.labels), "x itself": images}
    return [
        {"attribution": name, "pointing_game": float(pointing_game(each, test.boxes).mean())}
        for name, each in maps.items()
    ]


def _corner_first(model: LinearClassifier, images: Int64[Tensor, "batch 1 side side"]) -> float:
    """Over all classes, not the true one alone."""
    leads = []
    for label in range(CLASSES):
        of_class = model.maps(images, torch.full((len(images),), label)).flatten(1)
        corner = of_class[:, CORNER].clone()
        of_class[:, CORNER] = torch.iinfo(torch.int64).min
        leads.append(corner > of_class.amax(1))
    return _share(torch.stack(leads))


def _share(truth: Tensor) -> float:
    return float(truth.double().mean())


def _table_3(splits: "pd.DataFrame") -> "pd.DataFrame":
    here = splits[splits.C == MAIN_PENALTY].groupby(["values", "model"], sort=False)
    return here.agg(
        accuracy=("accuracy", "mean"),
        accuracy_low=("accuracy", "min"),
        accuracy_high=("accuracy", "max"),
        pointing_game=("pointing_game", "mean"),
        low=("pointing_game", "min"),
        high=("pointing_game", "max"),
        predicted_class=("predicted_class", "mean"),
        corner_first=("corner_first", "mean"),
        same_predictions=("same_predictions", "min"),
        splits=("seed", "count"),
        images=("images", "first"),
    ).reset_index()


def _by_penalty(splits: "pd.DataFrame") -> "pd.DataFrame":
    """What the standard model is like, and the Pointing Game of both."""
    keys = ["values", "C"]
    standard = splits[splits.model == "standard"].groupby(keys, sort=False)
    hits = splits.pivot_table("pointing_game", index=keys, columns="model")
    means = standard[["accuracy", "weights", "some_positive"]].mean()
    return means.join(hits[["standard", "manipulated"]]).reset_index()


def _maps_figure(training: Digits, test: Digits, seed: int) -> "Figure":
    """A seven, or the first image where there is none."""
    sevens = (test.labels == SHOWN_DIGIT).nonzero()[:, 0]
    index = int(sevens[0]) if len(sevens) else 0
    one = Digits(test.ink[index : index + 1], test.labels[index : index + 1])
    rows = []
    for name, values in _values_of(training).items():
        standard = _fitted(training, values, MAIN_PENALTY, seed)
        images = values.of_ink(one.ink)
        maps = {
            "standard model": standard.maps(images, one.labels),
            "manipulated model": manipulated(standard, values.corner, values.highest).maps(
                images, one.labels
            ),
        }
        low, high = int(images.min()), int(images.max())
        rows.append(
            BoxedRow(
                name,
                ((images[0] - low) / (high - low)).numpy(),
                one.boxes[0, 0].numpy(),
                {which: of_model[0, 0].numpy() for which, of_model in maps.items()},
                {
                    which: f"Pointing Game {float(pointing_game(of_model, one.boxes)):g}"
                    for which, of_model in maps.items()
                },
            )
        )
    title = (
        f"w * x of class {int(one.labels)} for a digit {int(one.labels)}; outlined: its box, circles: "
        "the largest value; each map divided by its largest absolute value"
    )
    return boxed_maps_figure(rows, title)


def _boxes_figure(test: Digits) -> "Figure":
    """The first test image of each class that has one."""
    first = [
        int((test.labels == label).nonzero()[0, 0]) for label in sorted(set(test.labels.tolist()))
    ]
    return boxed_images_figure(
        [(test.ink[index] / DARKEST).numpy() for index in first],
        [test.boxes[index, 0].numpy() for index in first],
        [f"a {int(test.labels[index])}" for index in first],
        "Bounding boxes: a hit is a pixel within the lines",
    )
