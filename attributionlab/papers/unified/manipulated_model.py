"""Table 3, Figure 3 and appendix Figure 6: one weight takes a faithful map from 100 % to 0 %."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Int64
from matplotlib.figure import Figure
from torch import Tensor

from attributionlab.metrics import pointing_game
from attributionlab.papers.catalog import Found, Run, Tables, shared
from attributionlab.papers.subjects.drawn_pictures import boxes_of
from attributionlab.papers.unified.digits import (
    CLASSES,
    CORNER,
    DARKEST,
    Digits,
    LinearClassifier,
    digits_split,
    manipulated,
    random_classifier,
    sparse_classifier,
)
from attributionlab.show import map_grid

DOT, NORMALIZED, INK = "faint dot in the corner", "normalized", "ink as it is"
STANDARD, MANIPULATED = "standard", "manipulated"
RANDOM, IMAGE = "random weights * x", "x itself"
MAIN_PENALTY = 0.1
"""C, of the values that are tried the one with a few weights for each class."""
PENALTIES = (0.03, MAIN_PENALTY, 1.0)
"""C: 1 / the weight of the penalty. The paper states none."""
STEPS = 64
"""To the unit of ink, in which the mean and the spread of normalized values are rounded."""
SHOWN_DIGIT = 7
DECIMALS, ROUNDING = 5e-4, 1e-12
"""Half of the last place that the paper prints, and of two means over the same splits."""


class Values(NamedTuple):
    """How ink (integers from 0 to 16) becomes the input of a model, in integers.

    They are divided by `unit` for training; `corner` is the corner's value in all images, and `highest`
    the largest absolute value of any pixel.
    """

    of_ink: Callable[[Tensor], Tensor]
    unit: int
    corner: int
    highest: int


@shared
def sparse_linear_model(run: Run, *, splits: int) -> Found:
    """Score a sparse linear model by the Pointing Game before and after one weight was raised.

    The paper explains the true class t by w_t * x and raises the weight of the top left pixel. That
    pixel must not be 0 then, as it is in digits (appendix D). Two ways out are taken: a faint dot of
    1/16 of full ink in the corner of every image, and values less their mean. Ink as it is shows what
    the weight does without. Each split has 1,197 training images; table "maps" has controls.
    """
    rows: list[dict[str, Any]] = []
    controls: list[dict[str, Any]] = []
    fitted: dict[tuple[int, int, float], LinearClassifier] = {}
    for seed in run.track(range(run.seed, run.seed + splits)):
        training, test = digits_split(run.n, seed)
        for name, values in _values_of(training).items():
            keys = {"seed": seed, "values": name}
            for penalty in PENALTIES:
                # Training leaves out the corner: ink gives the same model with and without the dot.
                model = (seed, values.unit, penalty)
                if model not in fitted:
                    fitted[model] = sparse_classifier(
                        *(values.of_ink(training.ink), training.labels),
                        unit=values.unit,
                        inverse_penalty=penalty,
                        seed=seed,
                    )
                found = _model_rows(fitted[model], values, test)
                rows += [{**keys, "C": penalty, **row} for row in found]
            controls += [{**keys, **row} for row in _control_rows(values, test, seed)]
    every = pd.DataFrame(rows)
    training, test = digits_split(run.n, run.seed)
    maps = pd.DataFrame(controls).groupby(["values", "attribution"], sort=False).pointing_game
    standard = every[every.model == STANDARD].groupby(["values", "C"], sort=False)
    hits = every.pivot_table("pointing_game", index=["values", "C"], columns="model")
    means = standard[["accuracy", "weights", "some_positive"]].mean()
    tables = {
        "table-3": _table_3(every),
        "penalties": means.join(hits[[STANDARD, MANIPULATED]]).reset_index(),
        "maps": maps.mean().reset_index().assign(box=float(test.boxes.double().mean())),
        "splits": every,
    }
    figures = {"maps": _maps_figure(fitted, training, test, run.seed), "boxes": _boxes_figure(test)}
    return Found(tables, figures)


def pointing_game_falls_from_all_to_none(tables: Tables) -> bool:
    hits = _table(tables).pointing_game
    before, after = (hits[[(DOT, model), (NORMALIZED, model)]] for model in (STANDARD, MANIPULATED))
    return bool(before.min() > 1 - DECIMALS and after.max() < DECIMALS)


def weight_of_an_empty_corner_does_nothing(tables: Tables) -> bool:
    hits = _table(tables).pointing_game
    return bool(hits[INK, STANDARD] == hits[INK, MANIPULATED])


def random_weights_hit_too(tables: Tables) -> bool:
    maps = tables["maps"].set_index(["values", "attribution"]).pointing_game
    return bool(maps[INK, RANDOM] >= _table(tables).pointing_game[INK, STANDARD])


def _table(tables: Tables) -> pd.DataFrame:
    return tables["table-3"].set_index(["values", "model"])


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


def _model_rows(
    standard: LinearClassifier, values: Values, test: Digits
) -> Iterator[dict[str, Any]]:
    images = values.of_ink(test.ink)
    models = {STANDARD: standard, MANIPULATED: manipulated(standard, values.corner, values.highest)}
    answers = standard.predictions(images)
    for name, model in models.items():
        predicted = model.predictions(images)
        maps, of_predicted = (model.maps(images, each) for each in (test.labels, predicted))
        yield {
            "model": name,
            "accuracy": _share(predicted == test.labels),
            "pointing_game": _share(pointing_game(maps, test.boxes)),
            "predicted_class": _share(pointing_game(of_predicted, test.boxes)),
            "corner_first": _corner_first(model, images),
            "same_predictions": _share(predicted == answers),
            "images": len(images),
            "weights": _share(model.weights != 0),
            "some_positive": _share(maps.flatten(1).amax(1) > 0),
        }


def _control_rows(values: Values, test: Digits, seed: int) -> list[dict[str, Any]]:
    """Score weights that learned nothing, and the image itself for a map."""
    images = values.of_ink(test.ink)
    untrained = random_classifier(values.unit, seed)
    maps = {RANDOM: untrained.maps(images, test.labels), IMAGE: images}
    return [
        {"attribution": name, "pointing_game": _share(pointing_game(each, test.boxes))}
        for name, each in maps.items()
    ]


def _corner_first(model: LinearClassifier, images: Int64[Tensor, "batch 1 side side"]) -> float:
    """The share over all classes, not the true one alone."""
    leads = []
    for label in range(CLASSES):
        of_class = model.maps(images, torch.full((len(images),), label)).flatten(1)
        corner = of_class[:, CORNER].clone()
        of_class[:, CORNER] = torch.iinfo(torch.int64).min
        leads.append(corner > of_class.amax(1))
    return _share(torch.stack(leads))


def _share(truth: Tensor) -> float:
    return float(truth.double().mean())


def _table_3(splits: pd.DataFrame) -> pd.DataFrame:
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


def _maps_figure(
    fitted: Mapping[tuple[int, int, float], LinearClassifier],
    training: Digits,
    test: Digits,
    seed: int,
) -> Figure:
    """Draw the maps of a seven, or of the first image where there is none."""
    index = int((test.labels == SHOWN_DIGIT).int().argmax())
    one = Digits(test.ink[index : index + 1], test.labels[index : index + 1])
    digit = int(one.labels)
    ways = _values_of(training)
    rows: dict[str, list[Any]] = {"image": [], STANDARD: [], MANIPULATED: []}
    notes: dict[str, list[str]] = {STANDARD: [], MANIPULATED: []}
    for values in ways.values():
        standard = fitted[seed, values.unit, MAIN_PENALTY]
        images = values.of_ink(one.ink)
        low, high = int(images.min()), int(images.max())
        rows["image"].append(((images[0] - low) / (high - low)).numpy())
        models = (standard, manipulated(standard, values.corner, values.highest))
        for name, model in zip(notes, models, strict=True):
            maps = model.maps(images, one.labels)
            rows[name].append(maps[0, 0].double().numpy())
            notes[name].append(f"Pointing Game {float(pointing_game(maps, one.boxes)):g}")
    return map_grid(
        rows,
        headings=list(ways),
        notes=notes,
        boxes=[boxes_of(one.boxes[0, 0])] * len(ways),
        title=f"w * x of class {digit} for a digit {digit} in both models, and its box",
    )


def _boxes_figure(test: Digits) -> Figure:
    """Draw the first test image of each class that has one."""
    first = [
        int((test.labels == label).int().argmax()) for label in sorted(set(test.labels.tolist()))
    ]
    chosen = Digits(test.ink[first], test.labels[first])
    return map_grid(
        {"digit": list((chosen.ink / DARKEST).numpy())},
        headings=[f"a {label}" for label in chosen.labels.tolist()],
        boxes=[boxes_of(box) for box in chosen.boxes[:, 0]],
        title="Bounding boxes: a hit is a pixel within the lines",
    )
