"""Figure 2 and appendix figures 1 to 5 of Wang and Wang (2022): maps of enhanced images."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple, Unpack

import pandas as pd
import torch
from jaxtyping import Bool
from matplotlib.figure import Figure
from torch import Tensor

from attributionlab.base import mean_score, number_problem, refuse_if
from attributionlab.metrics import magnitudes, pointing_game, relevance_mass_accuracy
from attributionlab.metrics.ranking import spearman
from attributionlab.papers.answers import all_above, mean_ends
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.papers.subjects.networks import right
from attributionlab.papers.subjects.subjects import OwnNetwork
from attributionlab.papers.unified.counterparts import (
    MAPS,
    STEPS,
    Counterparts,
    given_counterparts,
    map_of,
    our_counterparts,
)
from attributionlab.papers.unified.untrained_accuracy import PAPER_EPSILON
from attributionlab.show import map_grid

FIGURES = ("unified-figure-2", *(f"unified-appendix-figure-{number}" for number in range(1, 6)))
ITEMS = dict(zip(FIGURES, MAPS, strict=True))
"""The method of each figure; the numbers of a run are those of all methods."""
DESIGN = "VGG-like"
COLUMNS = 6
CONDITIONS = RAW, ENHANCED, TRAINED = ("untrained, raw", "untrained, enhanced", "trained, raw")
"""The rows of the paper's figures, from top to bottom."""
SIMILARITY, CONSTANT = "similarity", "constant map"
PLAUSIBILITY = POINTING, MASS = ("pointing game", "mass on the object")
SIMILAR = {
    "same network": f"{RAW} - {ENHANCED}",
    "same answer": f"{ENHANCED} - {TRAINED}",
    "neither": f"{RAW} - {TRAINED}",
}
"""What the maps of two conditions have in common besides the picture."""


class ConditionMaps(NamedTuple):
    """What both networks say about the same images, by condition; maps, by method, are of the label."""

    images: Mapping[str, Tensor]
    right: Mapping[str, Bool[Tensor, " batch"]]
    maps: Mapping[str, Mapping[str, Tensor]]

    def typical(self) -> Bool[Tensor, " batch"]:
        """Say which are wrong in the untrained network until enhanced, and right in the trained one."""
        return ~self.right[RAW] & self.right[ENHANCED] & self.right[TRAINED]


def maps_of_enhanced_images(
    run: Run,
    *,
    networks: int,
    training: int,
    epsilon: float = PAPER_EPSILON,
    steps: int = STEPS,
    layer: str | None = None,
    **own: Unpack[OwnNetwork],
) -> Found:
    """Compare maps of the label in an untrained network, raw and enhanced, and in its counterpart.

    Images are those that the paper shows: wrong in the untrained network, right there when enhanced,
    and right in the trained one; all images where there are none. The item decides whose maps are
    drawn. A network of one's own takes the place of ours, as for `given_counterparts`.
    """
    refuse_if(number_problem("epsilon", epsilon, above=0, most=1))
    given = given_counterparts(run.n, run.seed, networks, layer=layer, layer_for="GradCAM", **own)

    def explained() -> tuple[str, ConditionMaps, list[dict[str, Any]]]:
        """The first design, its maps, and rows of all networks."""
        rows: list[dict[str, Any]] = []
        for index in run.track(range(networks)):
            [pair] = (
                our_counterparts(DESIGN, run.n, training, run.seed + 2 * index)
                if given is None
                else [given[index]]
            )
            found = condition_maps(pair, epsilon, steps, run.seed)
            objects = pair.trained.objects
            rows += [{"network": index, **row} for row in rows_of(found, objects)]
            if not index:
                first = pair.trained.name, found
        return *first, rows

    first, maps, rows = run.once("networks", explained)
    figure = _figure(first, maps, ITEMS[run.item], epsilon)
    tables = tables_of(pd.DataFrame(rows), run.seed)
    tables["typical"].insert(0, "epsilon", epsilon)
    return Found(
        tables, {"maps": figure}, notes=given[0].trained.notes[:1] if given is not None else ()
    )


def maps_stay_those_of_the_network(tables: Tables) -> bool | None:
    return all_above(tables["similarities"], "networks")


def _falls(metric: str, tables: Tables) -> bool | None:
    """Say whether a metric falls, for all methods; None where objects are not known."""
    table = tables.get("plausibility", pd.DataFrame({"metric": []}))
    return all_above(table[table.metric == metric], "networks")


pointing_game_falls = partial(_falls, POINTING)
mass_on_the_object_falls = partial(_falls, MASS)


def condition_maps(pair: Counterparts, epsilon: float, steps: int, seed: int) -> ConditionMaps:
    """Enhance the images, in [0, 1], for the untrained network and explain all."""
    better = replace(pair.untrained, images=pair.enhanced(epsilon, steps))
    subjects = {RAW: pair.untrained, ENHANCED: better, TRAINED: pair.trained}
    return ConditionMaps(
        {name: each.images for name, each in subjects.items()},
        {name: right(each.model, each.images, each.targets) for name, each in subjects.items()},
        {
            method: {name: map_of(each, method, seed) for name, each in subjects.items()}
            for method in MAPS
        },
    )


def rows_of(found: ConditionMaps, objects: Tensor | None) -> Iterator[dict[str, Any]]:
    """A row for each method, image and pair of conditions (similarity) or condition (the others).

    A constant map points nowhere: it has neither a similarity nor a plausibility, but is counted.
    Without a positive value there is no mass to be on the object.
    """
    typical = found.typical().tolist()

    def rows(method: str, what: str, of: str, values: Iterable[float]) -> Iterator[dict[str, Any]]:
        for image, (kept, value) in enumerate(zip(typical, values, strict=True)):
            keys = {"method": MAPS[method], "image": image, "typical": kept, "what": what, "of": of}
            yield keys | {"value": float(value)}

    for method, by_condition in found.maps.items():
        flat = {name: maps.flatten(1).double().numpy() for name, maps in by_condition.items()}
        for first, second in combinations(CONDITIONS, 2):
            alike = [spearman(*pair) for pair in zip(flat[first], flat[second], strict=True)]
            yield from rows(method, SIMILARITY, f"{first} - {second}", alike)
        for name, maps in by_condition.items():
            constant = maps.flatten(1).amax(1) == maps.flatten(1).amin(1)
            yield from rows(method, CONSTANT, name, constant.double())
            if objects is None:
                continue
            positive = magnitudes(maps, "positive")
            undefined = constant | ~positive.flatten(1).any(1)
            hits = pointing_game(maps, objects).masked_fill(constant, torch.nan)
            mass = relevance_mass_accuracy(positive, objects)
            yield from rows(method, POINTING, name, hits)
            yield from rows(method, MASS, name, mass.masked_fill(undefined, torch.nan))


def tables_of(each: pd.DataFrame, seed: int) -> dict[str, pd.DataFrame]:
    """Means over the typical images of each network, then over networks."""
    kept = each[each.typical] if each.typical.any() else each

    def by_image(method: str, what: str, columns: Iterable[str]) -> pd.DataFrame:
        chosen = kept[(kept.method == method) & (kept.what == what)]
        return chosen.pivot(index=["network", "image"], columns="of", values="value")[[*columns]]

    similar, plausible, constant = [], [], []
    for method in MAPS.values():
        pairs = by_image(method, SIMILARITY, SIMILAR.values()).set_axis(list(SIMILAR), axis=1)
        pairs["more"] = pairs["same network"] - pairs["same answer"]
        similar.append({"method": method, **_means(pairs, "more", seed)})
        counts = by_image(method, CONSTANT, CONDITIONS)
        constant.append({"method": method, **counts.sum().astype(int), "images": len(counts)})
    for metric in PLAUSIBILITY if each.what.isin(PLAUSIBILITY).any() else ():
        for method in MAPS.values():
            scores = by_image(method, metric, CONDITIONS)
            scores["fall"] = scores[TRAINED] - scores[ENHANCED]
            plausible.append({"metric": metric, "method": method, **_means(scores, "fall", seed)})
    images = each.drop_duplicates(["network", "image"])
    typical = {"typical": images.typical.sum(), "images": len(images)}
    tables = {"similarities": similar, "plausibility": plausible, "constant": constant}
    return {
        **{name: pd.DataFrame(rows) for name, rows in tables.items() if rows},
        "typical": pd.DataFrame([typical | {"networks": images.network.nunique()}]),
        "images": each,
    }


def _means(by_image: pd.DataFrame, difference: str, seed: int) -> dict[str, float]:
    """Average the images of which all is known, over each network's, then over networks."""
    known = by_image.dropna()
    means = known.groupby("network").mean()
    low, high = mean_ends(means[difference], seed)
    found = {str(name): mean_score(means[name].to_numpy()) for name in means}
    return found | {"low": low, "high": high, "networks": len(means), "images": len(known)}


def _figure(design: str, found: ConditionMaps, method: str, epsilon: float) -> Figure:
    """Draw the paper's three rows below the raw and the enhanced images."""
    chosen = found.typical().nonzero().flatten()
    chosen = (chosen if len(chosen) else found.typical().argsort())[:COLUMNS]
    maps = {name: each[chosen, 0].double().numpy() for name, each in found.maps[method].items()}
    return map_grid(
        {
            "raw image": list(found.images[RAW][chosen].numpy()),
            "enhanced image": list(found.images[ENHANCED][chosen].numpy()),
            **{name: list(each) for name, each in maps.items()},
        },
        notes={
            name: ["right" if each else "wrong" for each in found.right[name][chosen].tolist()]
            for name in CONDITIONS
        },
        title=f"{MAPS[method]} for the label, {design}, epsilon {epsilon:g}\n"
        "right, wrong: the network's answer",
        signed=any((each < 0).any() for each in maps.values()),
    )
