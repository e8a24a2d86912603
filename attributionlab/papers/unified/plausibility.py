"""Table 1: what a metric of plausibility says of (un)faithful maps of (im)plausible models."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Bool, Float
from matplotlib.figure import Figure
from torch import Tensor, nn

from attributionlab.base import FEWEST_FOR_ORDER, with_intervals
from attributionlab.metrics import (
    cosine,
    f1,
    magnitudes,
    normalize,
    pointing_game,
    relevance_mass_accuracy,
)
from attributionlab.papers.answers import decided
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.papers.subjects.drawn_pictures import boxes_of
from attributionlab.papers.unified import digits
from attributionlab.show import map_grid
from attributionlab.verdicts import sobel
from attributionlab.worlds import Environment, load

ENVIRONMENT, SIDE = "multi-color-sum-distractors", 32
INVERSE_PENALTY = 0.1
FAITHFUL, OTHERS = "the model's truth", "the other model's truth"
EDGES, RANDOM = "edges of the image", "random numbers"
PRINTED = {
    ("plausible", "faithful"): "high",
    ("plausible", "unfaithful"): "low",
    ("implausible", "faithful"): "low",
    ("implausible", "unfaithful"): "uncertain",
}
"""How a metric of plausibility scores, by model and map."""
LOW, HIGH = 0.25, 0.75
"""Limits of the interval of a mean Pointing Game; between them a score is neither."""
UNDECIDED = "undecided"


class Case(NamedTuple):
    """A model, images in [0, 1], the objects that people look at, and maps.

    The truth (what each pixel adds to the output that is explained) is the first map, and for
    `masks` it is a mask.
    """

    plausible: bool
    model: str
    images: Float[Tensor, "batch channels height width"]
    objects: Bool[Tensor, "batch 1 height width"]
    maps: dict[str, Float[Tensor, "batch 1 height width"]]
    masks: bool


def plausible_and_faithful(run: Run) -> Found:
    """Fill every cell of Table 1 by models whose truth is known.

    Two networks see the same pictures: one counts the colors of the objects, the other those of the
    distractors beside them. Two linear models see the same digits: a sparse one, and the one whose
    corner was raised (`unified-table-3`). Each is explained by its own truth, by the other's, by edges
    of the image and by random numbers.
    """
    parts: list[Callable[[], Iterator[Case]]] = [
        lambda: _pictures(run.n, run.seed),
        lambda: _digits(min(run.n, digits.MOST_TEST), run.seed),
    ]
    cases = [case for part in run.track(parts) for case in part()]
    maps = _means(cases, run.seed)
    return Found({"table-1": cells_of(maps), "maps": maps}, {"maps": _figure(cases, maps)})


def cells_of(maps: pd.DataFrame) -> pd.DataFrame:
    """A row for each printed cell: scores of the maps that belong into it."""
    rows = []
    for (model, of_map), printed in PRINTED.items():
        here = maps[maps.plausible == (model == "plausible")]
        here = here[here.faithful == (of_map == "faithful")]
        levels = [_level(row) for row in here.itertuples()]
        row: dict[str, Any] = {"model": model, "map": of_map, "printed": printed}
        row |= {level: levels.count(level) for level in ("low", "between", "high", UNDECIDED)}
        row |= {"least": here.pointing_game.min(), "largest": here.pointing_game.max()}
        rows.append(row | {"as_printed": _as_printed(printed, levels)})
    return pd.DataFrame(rows)


def _level(row: Any) -> str:
    if row.images < FEWEST_FOR_ORDER:
        return UNDECIDED
    if row.high <= LOW:
        return "low"
    if row.low >= HIGH:
        return "high"
    return "between" if row.low > LOW and row.high < HIGH else UNDECIDED


def _as_printed(printed: str, levels: list[str]) -> str:
    """Judge a cell: an uncertain one must hold low and high scores, in others all are as printed."""
    if printed == "uncertain":
        missing = {"low", "high"} - set(levels)
        if not missing:
            return "yes"
        return UNDECIDED if levels.count(UNDECIDED) >= len(missing) else "no"
    if set(levels) - {printed, UNDECIDED}:
        return "no"
    return UNDECIDED if UNDECIDED in levels else "yes"


def _as_in(model: str, of_map: str, tables: Tables) -> bool | None:
    found = tables["table-1"].set_index(["model", "map"]).as_printed[model, of_map]
    return {"yes": True, "no": False, UNDECIDED: None}[found]


of_faithful_maps_where_plausible = partial(_as_in, "plausible", "faithful")
of_unfaithful_maps_where_plausible = partial(_as_in, "plausible", "unfaithful")
of_faithful_maps_where_implausible = partial(_as_in, "implausible", "faithful")
of_unfaithful_maps_where_implausible = partial(_as_in, "implausible", "unfaithful")


def plausibility_ranks_against_faithfulness(tables: Tables) -> bool | None:
    maps = tables["maps"]
    free = maps[maps["map"].isin([EDGES, RANDOM])]
    pairs = maps[maps.faithful].merge(free, on="model", suffixes=("", "_free"))
    if pairs.images.min() < FEWEST_FOR_ORDER:
        return None
    before = (pairs.pointing_game_free > pairs.pointing_game).any()
    return decided((pairs.low_free > pairs.high).any(), not before)


def _pictures(number: int, seed: int) -> Iterator[Case]:
    """The network of the environment, and one that has objects and distractors swapped."""
    env = load(ENVIRONMENT, image_size=SIDE)
    colors, distractors = (env.spec.constants[key] for key in ("colors", "distractor_colors"))
    swapped = {"colors": distractors, "distractor_colors": colors, "distractors": len(colors)}
    other = load(ENVIRONMENT, image_size=SIDE, **swapped)
    images, labels = env.batch(number, seed)
    truths = [_positive(each, images) for each in (env, other)]
    objects = env.truth(images, labels, output="logit").positive
    names = ("counts objects", "counts distractors")
    return _pair(names, images / env.max_value, objects, truths, seed, masks=True)


def _positive(env: Environment, images: Tensor) -> Tensor:
    """The pixels of the class that the network answers."""
    with torch.no_grad():
        answers = env.model(images).argmax(1)
    return env.truth(images, answers, output="logit").positive.float()


def _digits(number: int, seed: int) -> Iterator[Case]:
    training, test = digits.digits_split(number, seed)
    dot = torch.zeros_like(test.ink[:1])
    dot.view(-1)[digits.CORNER] = 1
    images = test.ink + dot
    how: dict[str, Any] = {"unit": digits.DARKEST, "inverse_penalty": INVERSE_PENALTY, "seed": seed}
    standard = digits.sparse_classifier(training.ink + dot, training.labels, **how)
    models = (standard, digits.manipulated(standard, 1, digits.DARKEST))
    truths = [model.maps(images, test.labels).double() for model in models]
    names = ("sparse linear", "raised corner")
    return _pair(names, images.float() / digits.DARKEST, test.boxes, truths, seed, masks=False)


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
        yield Case(index == 0, name, images, objects, maps, masks)


def _means(cases: list[Case], seed: int) -> pd.DataFrame:
    """Means over images; faithfulness is F1 with a mask, else the cosine with the truth."""
    scores = []
    for case in cases:
        truth = case.maps[FAITHFUL]
        for name, values in case.maps.items():
            faithful = f1(normalize(values), truth) if case.masks else cosine(values, truth)
            mass = relevance_mass_accuracy(magnitudes(values, "positive"), case.objects)
            own = {"model": case.model, "plausible": case.plausible, "map": name}
            own |= {"faithful": name == FAITHFUL, "faithfulness": faithful, "mass": mass}
            scores.append(
                pd.DataFrame(own | {"pointing_game": pointing_game(values, case.objects)})
            )
    each, keys = pd.concat(scores), ["model", "plausible", "map", "faithful"]
    hits = with_intervals(each, keys, "pointing_game", seed)
    return hits.merge(each.groupby(keys)[["faithfulness", "mass"]].mean().reset_index())


def _figure(cases: list[Case], maps: pd.DataFrame) -> Figure:
    """Draw the first image and its maps, a column for each model."""
    hits = maps.set_index(["model", "map"]).pointing_game
    return map_grid(
        {
            "image": [case.images[0].numpy() for case in cases],
            **{name: [case.maps[name][0, 0].numpy() for case in cases] for name in cases[0].maps},
        },
        headings=[f"{'' if case.plausible else 'im'}plausible: {case.model}" for case in cases],
        notes={
            name: [f"hits: {hits[case.model, name]:.2f}" for case in cases]
            for name in cases[0].maps
        },
        boxes=[boxes_of(case.objects[0, 0]) for case in cases],
        title="First image of each model and its maps; boxes: objects. Hits: Pointing Game over all "
        f"images (n = {len(cases[0].images)}, digits {len(cases[-1].images)}; higher: more plausible)",
    )
