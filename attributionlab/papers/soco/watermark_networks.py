"""Figures 2, 3, 11 and 12 of Li et al. (2024): maps that know watermarks, by Attr% and ROAD.

Networks are trained on watermarked images, asked what they use, and explained.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor, nn

from attributionlab.metrics import relevance_mass_accuracy
from attributionlab.papers.answers import decided, every, with_extremes
from attributionlab.papers.catalog import Found, Run, Tables, shared
from attributionlab.papers.soco.maps import label_maps, road_curve
from attributionlab.papers.soco.watermarked_images import (
    BLACK,
    BLANK,
    MARKS,
    NUMBER,
    ON_IMAGES,
    ORIGINAL,
    STRIPES,
    Data,
    Watermarked,
    data_sets,
    natural_images,
    rectangle_side,
    stripe_count,
    stripe_rows,
    stripe_watermarks,
    watermarked,
)
from attributionlab.papers.subjects.drawn_pictures import boxes_of
from attributionlab.papers.subjects.networks import accuracy_of, fit_network, small_network
from attributionlab.show import curves, dots, map_grid

TESTING = 400
EPOCHS = {ORIGINAL: 12, NUMBER: 6, STRIPES: 3}
"""Until accuracies on test images hardly rise; stripes are learned in the first."""
LEARNING_RATE = 2e-3
FRACTIONS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Shares of the pixels removed; close at first, since a number's square has 8 % of all."""
METHODS = ("GradCAM", "IG", "DeepSHAP")
RECT, POOLING, SQUARED, UNIFORM = "Rect", "Pooling", "Rect, squared", "uniform"
"""SQUARED: Rect around the center by squared attributions, which many faint ones move less."""
BASELINES = 8
"""Training images that DeepSHAP compares with."""
ROAD_METHODS = {
    (ORIGINAL, ON_IMAGES): (*METHODS, RECT),
    (NUMBER, ON_IMAGES): (*METHODS, RECT),
    (NUMBER, BLANK): METHODS,
}
"""What the paper's figures 3 and 12 show."""
NAMES = {
    (ORIGINAL, ON_IMAGES): "original images and labels",
    (NUMBER, ON_IMAGES): "number watermarks on images",
    (NUMBER, BLANK): "numbers on a blank canvas",
}
SPREAD: Mapping[str, tuple[list[str], str, list[str], tuple[str, ...]]] = {
    "attr": (["data", "method"], "attr", ["zero_maps"], ("data", "method")),
    "road": (["data", "canvas", "method"], "road", [], ()),
    "networks": (["data", "canvas"], "accuracy", ["chance"], ("data", "canvas")),
    "uses": (["data", "check", "answer"], "agreed", ["images"], ()),
    "curve-means": (["data", "canvas", "method", "removed"], "accuracy", [], ()),
}
"""Tables over networks: groups, a value, other columns, and the key of `PUBLISHED`."""
SAMPLES = 3
"""Images of each semi-natural data set that are drawn."""
PUBLISHED = {
    (ORIGINAL, ON_IMAGES): 0.704,
    (NUMBER, ON_IMAGES): 0.994,
    (NUMBER, BLANK): 0.999,
    (NUMBER, RECT): 0.92,
    (STRIPES, POOLING): 0.93,
}
"""Accuracies of VGG-16 on CIFAR-100 by data and canvas; Attr% by data and method."""
AGREED = 0.95
"""Share of answers from which on they are called those of the watermark."""
NEAR_CHANCE = 0.05
"""Three standard errors of a share of 1/8 over 400 images."""
SAME = 1e-9
"""Means that differ by less are equal up to rounding."""

Maps = Float[Tensor, "batch 1 height width"]
Rows = list[dict[str, Any]]


@shared
def watermark_maps(run: Run, *, networks: int, training: int, images: str | None = None) -> Found:
    """Train networks on watermarked images, explain them, and score the maps by Attr% and ROAD.

    `run.n` images of each data set are explained; each has so many `networks`, from the seed on.
    `images` is a folder as in `natural_images`. Tables are means over networks with their extremes;
    those whose names end in "each" have a row for each network.
    """
    natural = natural_images(images, training=training, testing=max(run.n, TESTING), seed=run.seed)
    rows, samples = study_of(data_sets(natural, run.seed), run, networks)
    tables = {}
    for name, (keys, value, also, published) in SPREAD.items():
        each = pd.DataFrame(rows[name])
        tables[name] = table = with_extremes(each, keys, value, also=also)
        if published:
            pairs = zip(*(table[key] for key in published), strict=True)
            table["published"] = [PUBLISHED.get(pair, np.nan) for pair in pairs]
        tables[f"{name}-each" if name != "curve-means" else "curves"] = each
    tables["road"]["rank"] = tables["road"].groupby(["data", "canvas"], sort=False).road.rank()
    tables["distances"] = _distances(tables["curve-means"])
    n = min(run.n, len(natural.testing.labels))
    counted = f"{n} images, {networks} network{'s' * (networks > 1)} for each data set"
    return Found(tables, _figures(samples, tables, natural.source, counted))


def own_watermark_decides(tables: Tables) -> bool | None:
    rows = tables["attr"].set_index(["data", "method"])
    return every(
        _ahead(rows.loc[NUMBER, RECT], rows.loc[NUMBER, POOLING]),
        _ahead(rows.loc[STRIPES, POOLING], rows.loc[STRIPES, RECT]),
    )


def squares_move_rect(tables: Tables) -> bool | None:
    rows = tables["attr"].set_index(["data", "method"])
    return _ahead(rows.loc[NUMBER, SQUARED], rows.loc[NUMBER, RECT])


def pooling_is_ig_on_stripes(tables: Tables) -> bool:
    rows = tables["attr"].set_index(["data", "method"]).attr
    return bool(abs(rows[STRIPES, POOLING] - rows[STRIPES, "IG"]) < SAME)


def watermarks_are_used(tables: Tables) -> bool:
    table, chance = tables["uses"], tables["networks"].chance.iloc[0]
    gone = table[table.check == "watermark removed"].agreed
    moved = table[table.check.str.startswith("on other images")].agreed
    return bool(gone.max() <= chance + NEAR_CHANCE and moved.min() >= AGREED)


def rect_is_first_and_last(tables: Tables) -> bool:
    table = tables["road"][tables["road"].canvas == ON_IMAGES]
    ranks = table.pivot(index="method", columns="data", values="rank")
    return bool(ranks[NUMBER][RECT] == 1 and ranks[ORIGINAL][RECT] == len(ranks))


def gradcam_is_first_and_last(tables: Tables) -> bool:
    found = [(data, rows.road) for (data, _), rows in _three(tables).items()]
    named = {road.idxmin() if data == ORIGINAL else road.idxmax() for data, road in found}
    return named == {"GradCAM"}


def original_images_give_another_order(tables: Tables) -> bool:
    """Compare last methods, and first ones where networks agree on who is ahead."""
    original, marked = list(_three(tables).values())[:2]
    pairs = (rows.sort_values("road").iloc[:2].itertuples() for rows in (original, marked))
    apart = all(first.highest < second.lowest for first, second in pairs)
    if original.road.idxmax() != marked.road.idxmax():
        return True
    return apart and original.road.idxmin() != marked.road.idxmin()


def marked_curves_are_like_synthetic_ones(tables: Tables) -> bool | None:
    distance = tables["distances"].set_index("to").distance
    return None if distance.isna().any() else bool(distance[NUMBER] < distance[ORIGINAL])


def study_of(
    data: Sequence[Data], run: Run, networks: int
) -> tuple[dict[str, Rows], dict[str, Rows]]:
    """Train networks on every data set, ask what they use, and explain them.

    Returns rows of tables, and samples (label, image, region and maps) of each semi-natural data set.
    """
    found: dict[str, Rows] = defaultdict(list)
    samples: dict[str, Rows] = {}
    for seed, each in run.track(
        (seed, each) for seed in range(run.seed, run.seed + networks) for each in data
    ):
        channels, side = each.training.images.shape[1:3]
        network = small_network(channels, each.classes, side, seed)
        fit_network(
            *(network, each.training.images, each.training.labels),
            seed=seed,
            epochs=EPOCHS[each.mark],
            learning_rate=LEARNING_RATE,
        )
        keys = {"data": each.mark, "canvas": each.canvas, "seed": seed}
        accuracy = accuracy_of(network, each.testing.images, each.testing.labels)
        found["networks"].append({**keys, "accuracy": accuracy, "chance": 1 / each.classes})
        semi_natural = each.mark in MARKS and each.canvas == ON_IMAGES
        if semi_natural:
            found["uses"] += [{**keys, **row} for row in use_rows(network, each)]
        if each.canvas == BLANK and (each.mark, each.canvas) not in ROAD_METHODS:
            continue
        shown = Watermarked(*(part[: run.n] for part in each.testing))
        maps = attribution_maps(network, shown, each)
        for table, row in _road_rows(network, shown, maps, keys):
            found[table].append(row)
        if semi_natural:
            found["attr"] += [{**keys, **row} for row in _attr_rows(shown, maps)]
            samples.setdefault(each.mark, _samples(shown, maps))
    return found, samples


def _road_rows(
    network: nn.Module, shown: Watermarked, maps: Mapping[str, Maps], keys: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of "road", and of "curve-means" at each fraction."""
    for method in ROAD_METHODS.get((keys["data"], keys["canvas"]), ()):
        accuracies, height = road_curve(
            *(network, shown.images, shown.labels, maps[method]),
            fractions=FRACTIONS,
            seed=keys["seed"],
        )
        of_method = {**keys, "method": method}
        yield "road", {**of_method, "road": height}
        for fraction, accuracy in zip(FRACTIONS, accuracies, strict=True):
            yield "curve-means", {**of_method, "removed": fraction, "accuracy": accuracy}


def _attr_rows(shown: Watermarked, maps: Mapping[str, Maps]) -> Iterator[dict[str, Any]]:
    for method, values in {**maps, UNIFORM: torch.ones_like(maps["IG"])}.items():
        share = float(relevance_mass_accuracy(values, shown.region).nanmean())
        zero = float((values.flatten(1).amax(1) == 0).double().mean())
        yield {"method": method, "attr": share, "zero_maps": zero}


def _samples(shown: Watermarked, maps: Mapping[str, Maps]) -> Rows:
    """The first images with a watermark, and some of their maps."""
    marked = [index for index, region in enumerate(shown.region) if region.any()][:SAMPLES]
    drawn = {"region": shown.region} | {name: maps[name] for name in ("IG", RECT, POOLING)}
    return [
        {"label": int(shown.labels[index]), "image": shown.images[index]}
        | {name: values[index, 0] for name, values in drawn.items()}
        for index in marked
    ]


def use_rows(network: nn.Module, data: Data) -> Iterator[dict[str, Any]]:
    """What a network answers where the watermark is removed, alone, moved or changed.

    Each row has a check, what the answers are compared with ("label", or the label that the changed
    stripes spell), the share of answers that agree, and of how many.
    """
    marked, labels, region = data.testing
    before, classes = data.before, data.classes

    def row(check: str, images: Tensor, expected: Tensor, answer: str = "label") -> dict[str, Any]:
        agreed = accuracy_of(network, images, expected)
        return {"check": check, "answer": answer, "agreed": agreed, "images": len(images)}

    elsewhere = watermarked(data.mark, before.roll(1, 0), labels, classes=classes, seed=2**20)
    color = before.mean((0, 2, 3), keepdim=True)
    moved = "on other images, elsewhere" if data.mark == NUMBER else "on other images"
    yield row("watermark removed", before, labels)
    yield row("watermark alone, on black", torch.where(region, marked, BLACK), labels)
    yield row("watermark alone, on the mean color", torch.where(region, marked, color), labels)
    yield row(moved, elsewhere.images, labels)
    if data.mark == NUMBER:
        yield row("digits erased", torch.where(region, BLACK, marked), labels)
        strokes = region & (marked > BLACK).all(1, keepdim=True)
        yield row("digits without rectangle", torch.where(strokes, marked, before), labels)
        return
    changed: dict[str, list[tuple[Tensor, Tensor]]] = {
        "one stripe removed": [],
        "one stripe added": [],
    }
    for place in range(stripe_count(classes)):
        spelled = labels ^ (1 << place)
        for check, chosen in zip(changed, (spelled < labels, spelled > labels), strict=True):
            kept = chosen & (spelled < classes)
            if kept.any():
                other = stripe_watermarks(before[kept], spelled[kept], classes=classes)
                changed[check].append((other.images, spelled[kept]))
    for check, pairs in changed.items():
        if pairs:
            images, spelled = (torch.cat(each) for each in zip(*pairs, strict=True))
            yield row(check, images, spelled, "label of the stripes left")


def attribution_maps(network: nn.Sequential, shown: Watermarked, data: Data) -> dict[str, Maps]:
    """Maps of what speaks for the label, by method.

    Negative sums over channels are set to 0: GradCAM and Attr% know no others, and so all metrics judge
    the same maps.
    """
    found = label_maps(network, *shown[:2], data.training.images[:BASELINES])
    maps = {name: values.clamp(min=0) for name, values in found.items()}
    maps[RECT] = rectangle_at_center(maps["IG"])
    maps[POOLING] = pooled(maps["IG"], stripe_rows(shown.images.shape[2], data.classes))
    maps[SQUARED] = rectangle_at_center(maps["IG"] ** 2)
    return maps


def rectangle_at_center(maps: Maps) -> Maps:
    """Ones in a square of the watermark's size around the attribution's center, zeros elsewhere.

    The center is the mean place of the pixels, weighted by their attributions, which are not
    negative; the square is moved into the image where it would leave it. A map of zeros has its
    center in the middle.
    """
    height, width = maps.shape[2:]
    side = rectangle_side(min(height, width))
    weights = maps[:, 0].double()
    weights = torch.where((weights.sum((1, 2)) > 0)[:, None, None], weights, 1.0)
    total = weights.sum((1, 2))
    result = torch.zeros_like(maps)
    for axis_sums, extent, along in ((weights.sum(2), height, 2), (weights.sum(1), width, 3)):
        place = torch.arange(extent)
        center = (axis_sums @ place.double()) / total
        first = (center - (side - 1) / 2).round().clamp(0, extent - side)
        inside = (place >= first[:, None]) & (place < first[:, None] + side)
        shaped = inside[:, None, :, None] if along == 2 else inside[:, None, None, :]
        result = result + shaped
    return (result == 2).to(maps)


def pooled(maps: Maps, rows: Sequence[slice]) -> Maps:
    """Give each region of rows its mean attribution everywhere."""
    result = torch.empty_like(maps)
    for region in rows:
        result[:, :, region] = maps[:, :, region].mean((2, 3), keepdim=True)
    return result


def _ahead(first: Any, second: Any) -> bool | None:
    """Whether all networks' values are above the other's, or below; None where ranges meet."""
    return decided(first.lowest > second.highest, first.highest < second.lowest)


def _three(tables: Tables) -> dict[tuple[str, str], pd.DataFrame]:
    """ROAD of the three methods on original, semi-natural and pure synthetic images."""
    road = tables["road"][tables["road"].method.isin(METHODS)]
    return {
        (data, canvas): road[(road.data == data) & (road.canvas == canvas)].set_index("method")
        for data, canvas in ROAD_METHODS
    }


def _distances(means: pd.DataFrame) -> pd.DataFrame:
    """How far curves on semi-natural images are from the others, in shares of their starts.

    Means over methods and fractions; NaN where a network is never right.
    """
    known = means[means.method.isin(METHODS)].set_index(["data", "canvas", "method", "removed"])
    known = known.sort_index()
    starts = known.accuracy.groupby(level=[0, 1, 2], sort=False).transform("first")
    shares = known.accuracy / (starts if starts.min() > 0 else np.nan)
    return pd.DataFrame(
        {"from": NAMES[NUMBER, ON_IMAGES], "to": to, "canvas": canvas}
        | {"distance": (shares[NUMBER, ON_IMAGES] - shares[to, canvas]).abs().mean()}
        for to, canvas in ((NUMBER, BLANK), (ORIGINAL, ON_IMAGES))
    )


def _figures(
    samples: Mapping[str, Rows], tables: Tables, source: str, counted: str
) -> dict[str, Figure]:
    shown = [(mark, one) for mark in MARKS for one in samples[mark]]
    rows = {
        name: [one[name].numpy() for _, one in shown] for name in ("image", "IG", RECT, POOLING)
    }
    accuracy = tables["networks"].set_index(["data", "canvas"]).accuracy
    means = tables["curve-means"].rename(columns={"lowest": "low", "highest": "high"})
    means["panel"] = [
        f"{NAMES[key]} (accuracy on all test images {accuracy[key]:.1%})"
        for key in zip(means.data, means.canvas, strict=True)
    ]
    title = (
        f"ROAD, most relevant pixels first; bands: lowest to highest network\n{source}; {counted}"
    )
    drawn = {
        "road": means[means.canvas == ON_IMAGES].sort_values("data", kind="stable"),
        "road-canvases": means[means.method.isin(METHODS)],
    }
    attr = tables["attr"].rename(columns={"lowest": "low", "highest": "high"})
    return {
        "samples": map_grid(
            rows,
            headings=[f"{mark}, label {one['label']}" for mark, one in shown],
            boxes=[boxes_of(one["region"]) for _, one in shown],
            title=f"Watermarks, framed, and maps ({source})",
            signed=False,
        ),
        "attr": dots(
            attr.replace({"method": {UNIFORM: "uniform (share of area)"}}),
            *("attr", "method"),
            panel="data",
            title=f"Attr%, from the lowest to the highest network\n{source}; {counted}",
            xlabel="share of attribution on the watermark (higher is better)",
        ),
        **{
            name: curves(
                *(table, "removed", "accuracy", "method"),
                panel="panel",
                title=title,
                xlabel="fraction of pixels removed",
                ylabel="accuracy (lower is better)",
            )
            for name, table in drawn.items()
        },
    }
