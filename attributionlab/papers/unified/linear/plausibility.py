"""Table 1: what a metric of plausibility says of (un)faithful maps of (im)plausible models."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attributionlab.environment import Environment
from attributionlab.environment.catalog import load
from attributionlab.methods.controls import sobel
from attributionlab.metrics import (
    cosine,
    f1,
    magnitudes,
    normalize,
    pointing_game,
    relevance_mass_accuracy,
)
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.unified.linear.digits import (
    CORNER,
    DARKEST,
    MOST_TEST,
    digits_split,
    manipulated,
    sparse_classifier,
)
from attributionlab.papers.unified.linear.plausibility_findings import (
    EDGES,
    FAITHFUL,
    OTHERS,
    PRINTED,
    RANDOM,
    cells_of,
    findings_of,
)
from attributionlab.report.boxed_maps import BoxedRow, boxed_maps_figure
from attributionlab.stats.intervals import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENVIRONMENT, SIDE = "multi-color-sum-distractors", 32
IMAGES, QUICK_IMAGES = 200, 40
INVERSE_PENALTY = 0.1
SHOWN = {
    "table-1": "printed: how a metric of plausibility scores, according to the paper; then how many "
    "maps have a Pointing Game of up to 0.25 (low), of at least 0.75 (high) or between, by the whole "
    "95 % interval (else, and with fewer than six images: undecided); least, largest: of these maps; "
    "as_printed: whether all are, or for uncertain: whether there are low and high ones",
    "maps": "means over images; faithfulness: F1 with the network's known truth (pictures), cosine "
    "with what pixels add (digits); Pointing Game (low, high: 95 %) and relevance mass on the object "
    "(a patch of the label's color; the box of a digit)",
}


@dataclass(frozen=True)
class Case:
    """A model, images, the objects on them, and maps.

    Parameters
    ----------
    plausible : bool
        Whether the model looks at the objects.
    model : str
        What it does.
    images : Tensor, (B, C, H, W)
        In [0, 1].
    objects : Tensor of bool, (B, 1, H, W)
        Where people look.
    truth : Tensor, (B, 1, H, W)
        What each pixel adds to the output that is explained.
    maps : dict of str to Tensor, (B, 1, H, W)
        The first is the truth.
    masks : bool
        Whether the truth is a mask.
    """

    plausible: bool
    model: str
    images: Float[Tensor, "batch channels height width"]
    objects: Bool[Tensor, "batch 1 height width"]
    truth: Float[Tensor, "batch 1 height width"]
    maps: dict[str, Float[Tensor, "batch 1 height width"]]
    masks: bool


def plausible_and_faithful(
    *, n: int | None, quick: bool, seed: int = 0, show_progress: bool = False
) -> Reproduction:
    """Every cell of Table 1, by models whose truth is known.

    Two networks see the same pictures: one counts the colors of the objects, the other those of the
    distractors beside them. Two linear models see the same digits: a sparse one, and the one whose
    corner was raised (`unified-table-3`). Each is explained by its own truth, by the other's, by edges
    of the image and by random numbers.

    Parameters
    ----------
    n : int, optional
        Pictures, and digits, of which there are 600; 200, or 40 in a quick run, by default.
    quick : bool
        Fewer images.
    seed : int
        Of the images, the training and the random maps.
    show_progress : bool
        Not used.

    Returns
    -------
    Reproduction
        Tables "table-1" and "maps"; figure "maps".
    """
    import pandas as pd

    number = n if n is not None else QUICK_IMAGES if quick else IMAGES
    cases = [*_pictures(number, seed), *_digits(min(number, MOST_TEST), seed)]
    maps = pd.DataFrame([row for case in cases for row in _rows(case, seed)])
    tables = {"table-1": cells_of(maps), "maps": maps}
    return Reproduction(
        item="unified-table-1",
        title="Plausible or not, faithful or not: what a metric of plausibility says",
        tables=tables,
        figures={"maps": _figure(cases)},
        findings=findings_of(tables, PRINTED),
        shown=SHOWN,
    )


def _pictures(number: int, seed: int) -> Iterator[Case]:
    """The network of the environment, and one for which objects and distractors change places."""
    env = load(ENVIRONMENT, image_size=SIDE)
    colors, distractors = (env.spec.constants[key] for key in ("colors", "distractor_colors"))
    other = load(
        ENVIRONMENT,
        image_size=SIDE,
        colors=distractors,
        distractor_colors=colors,
        distractors=len(colors),
    )
    images, labels = env.batch(number, seed)
    truths = [_positive(each, images) for each in (env, other)]
    objects = env.truth(images, labels, output="logit").positive
    yield from _pair(
        ("counts objects", "counts distractors"),
        images / env.max_value,
        objects,
        truths,
        seed,
        masks=True,
    )


def _positive(env: Environment, images: Tensor) -> Tensor:
    """Pixels of the class that the network answers."""
    with torch.no_grad():
        answers = env.model(images).argmax(1)
    return env.truth(images, answers, output="logit").positive.float()


def _digits(number: int, seed: int) -> Iterator[Case]:
    training, test = digits_split(number, seed)
    dot = torch.zeros_like(test.ink[:1])
    dot.view(-1)[CORNER] = 1
    images = test.ink + dot
    standard = sparse_classifier(
        training.ink + dot,
        training.labels,
        unit=DARKEST,
        inverse_penalty=INVERSE_PENALTY,
        seed=seed,
    )
    models = (standard, manipulated(standard, 1, DARKEST))
    yield from _pair(
        ("sparse linear", "raised corner"),
        images.float() / DARKEST,
        test.boxes,
        [model.maps(images, test.labels).double() for model in models],
        seed,
        masks=False,
    )


def _pair(
    names: tuple[str, str],
    images: Tensor,
    objects: Tensor,
    truths: list[Tensor],
    seed: int,
    *,
    masks: bool,
) -> Iterator[Case]:
    """A plausible and an implausible model of the same images."""
    edges = sobel(nn.Identity(), images, torch.zeros(len(images), dtype=torch.int64))
    generator = torch.Generator().manual_seed(seed)
    noise = torch.rand(edges.shape, generator=generator)
    for index, name in enumerate(names):
        own, others = truths[index], truths[1 - index]
        maps = {FAITHFUL: own, OTHERS: others, EDGES: edges, RANDOM: noise}
        yield Case(index == 0, name, images, objects, own, maps, masks)


def _rows(case: Case, seed: int) -> list[dict[str, Any]]:
    rows = []
    for name, values in case.maps.items():
        hits = pointing_game(values, case.objects)
        ends = mean_interval(hits.numpy(), seed)
        low, high = ends if ends is not None else (np.nan, np.nan)
        mass = relevance_mass_accuracy(magnitudes(values, "positive"), case.objects)
        rows.append(
            {
                "model": case.model,
                "plausible": case.plausible,
                "map": name,
                "faithful": name == FAITHFUL,
                "faithfulness": float(_faithfulness(case, values).nanmean()),
                "pointing_game": float(hits.mean()),
                "low": low,
                "high": high,
                "mass": float(mass.mean()),
                "images": len(hits),
            }
        )
    return rows


def _faithfulness(case: Case, values: Tensor) -> Tensor:
    if case.masks:
        return f1(normalize(values), case.truth)
    return cosine(values, case.truth)


def _figure(cases: list[Case]) -> "Figure":
    rows = []
    for case in cases:
        hits = {
            name: float(pointing_game(values, case.objects).mean())
            for name, values in case.maps.items()
        }
        kind = "plausible" if case.plausible else "implausible"
        rows.append(
            BoxedRow(
                f"{kind}: {case.model}",
                case.images[0].numpy(),
                case.objects[0, 0].numpy(),
                {name: values[0, 0].numpy() for name, values in case.maps.items()},
                {name: f"Pointing Game, all images: {hit:.2f}" for name, hit in hits.items()},
            )
        )
    title = (
        "Outlined: the object; circles: the largest value, unless more than eight pixels share it. "
        "Maps are divided by their largest absolute values"
    )
    return boxed_maps_figure(rows, title)
