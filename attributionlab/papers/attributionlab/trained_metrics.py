"""Does a metric's agreement with the truth on hand-weighted networks predict it on trained ones?"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from attributionlab.base import CONFIDENCE, Numbers, middle, own_arithmetic
from attributionlab.methods import METHODS, as_method
from attributionlab.metrics.ranking import centered_ranks, row_correlations, spearman
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.runs import Cell, values
from attributionlab.show import dots
from attributionlab.verdicts import (
    Evaluation,
    any_metric,
    case_of,
    graded_attributions,
    pixel_kinds,
    prepared,
    ranked_world,
)
from attributionlab.worlds import (
    IMAGE_SIDE,
    LEARNING_IMAGES,
    PAPER,
    Environment,
    RuleAnswers,
    drawn_pictures,
    load,
    patch_shapley,
    playing,
    trained_networks,
)

ITEM = "trained-metrics"
WORLDS = ("quadrants", "no-orange", "at-least", "either", "stripes-or-checks")
"""Those with trained networks of both architectures and one output, whose patches have values: in the
worlds of watermarks none has."""
TRAINED = ("patch-cnn.0", "cnn.0")
EXACT = (PAPER, "planes", "natural")
METRICS = (
    *("sensitivity-n", "faithfulness-correlation", "idsds", "faithfulness-estimate"),
    *("monotonicity-correlation", "insertion", "deletion", "pixel-flipping", "ids"),
    *("region-perturbation", "selectivity", "infidelity", "non-sensitivity"),
)
BLIND = ("foreground-share", "edge-share")
"""Controls, which never look at the network."""
REPLACEMENTS = {"true baseline": None, "black": 0.0}
"""What stands in place of removed pixels: the true baseline, or a value that no image shows."""
EVERY = 3
"""Of the graded attributions every third is scored."""
RESAMPLES = 2000


def trained_metrics(run: Run, *, worlds: int) -> Found:
    """How well metrics rank maps on hand-weighted and on trained networks of the first `worlds`."""
    cells = [*_cells(WORLDS[:worlds], run.n, run.seed)]
    done, stop = values(cells, run.item, run.running)
    if stop is not None:
        raise stop
    scores = pd.concat([value.assign(**dict(cell.place)) for cell, value in done])
    means = agreement_table(scores)
    tables = {
        "metrics": means,
        "correlations": correlation_table(scores, run.seed),
        "scores": scores,
    }
    shown = means[means.replaced == "true baseline"].drop(columns="replaced")
    long = shown.melt("metric", var_name="network", value_name="agreement").dropna()
    figure = dots(
        *(long, "agreement", "metric"),
        color="network",
        title="How well do metrics rank maps on hand-weighted and on trained networks?",
        xlabel="Spearman correlation of a metric's scores with closeness to the truth",
        reference=0,
    )
    return Found(tables, {"metrics": figure})


def agreement_carries_over(tables: Tables) -> bool | None:
    table = tables["correlations"]
    table = table[table.replaced == "true baseline"].set_index("predictor")
    if not np.isfinite(table.low.get("natural", np.nan)):
        return None
    low, high = table.loc["natural", ["low", "high"]]
    return True if low > 0 else False if high < 0 else None


def _cells(worlds: tuple[str, ...], n: int, seed: int) -> Iterator[Cell]:
    for world in worlds:
        there = trained_networks()
        for network in (*EXACT, *(each for each in TRAINED if f"{world}.{each}" in there)):
            compute = partial(metric_agreement, world, network, n, seed)
            env = _network(world, network)
            inputs = {"spec": env.spec.digest, "n": n, "seed": seed}
            yield Cell(ITEM, {"world": world, "network": network}, inputs, compute)


def _network(world: str, network: str) -> Environment:
    if network in EXACT:
        return ranked_world(world).with_implementation(network)
    images = LEARNING_IMAGES[world]
    return load(world, image_size=IMAGE_SIDE, trained=network, **images)


@own_arithmetic()
def metric_agreement(
    world: str, network: str, n: int, seed: int, device: str | None = None
) -> pd.DataFrame:
    """Spearman's correlation, over graded maps, of each metric's score with nearness to the truth.

    The maps are the rule's truth, damaged in known ways, and the same for all networks. Nearness is the
    cosine of a map's sums over patches with the network's Shapley values over patches: of a
    hand-weighted network the rule's, of a trained one its own. Metrics replace pixels by the true
    baseline, so that nothing is unseen, and by black, which no image shows. One row for each
    replacement, image and metric; NaN where a metric scores all maps alike or none.
    """
    env = _network(world, network)
    exact = ranked_world(world)
    pictures = drawn_pictures(exact, n, seed)
    is_exact = network in EXACT
    play = RuleAnswers(env, pictures.colors) if is_exact else playing(env.model, pictures)
    setup = prepared(as_method("saliency", METHODS), exact, n=n, seed=seed, claim="signed")
    rows: list[dict[str, Any]] = []
    for index, (own,) in enumerate(patch_shapley(pictures, [play])):
        batch = setup.image(index)
        kinds = pixel_kinds(batch.flat_images, batch.patches, batch.classes, env.baseline)
        graded = graded_attributions(
            batch.ideal.to(torch.int8), kinds, distractors=True, seed=seed, first=index
        )[::EVERY]
        maps = torch.cat([each.maps * batch.truth.asked for each in graded])
        case = case_of(batch, maps, batch.truth.signed.float(), seed)
        near = nearness(maps.double(), batch.patches, own[:, 0])
        for replaced, pixel in REPLACEMENTS.items():
            canvas = (
                env.baseline if pixel is None else torch.full_like(env.baseline, pixel)
            ).expand(batch.images[0].shape)
            seen = Evaluation(case, env.model, canvas)
            for name in (*METRICS, *BLIND):
                metric = any_metric(name)
                scores = metric.scores(seen) * (1 if metric.higher_is_better else -1)
                value = spearman(scores, near) if np.isfinite(scores).all() else np.nan
                place = {"replaced": replaced, "metric": name, "image": index}
                rows.append({**place, "agreement": value})
    return pd.DataFrame(rows)


def nearness(maps: torch.Tensor, patches: torch.Tensor, own: torch.Tensor) -> Numbers:
    """Cosine of each map's sums over patches, (maps, 1, H, W), with values of the patches.

    `patches`: (1, H, W), 0 outside. 0 for a map without anything on patches.
    """
    labels = torch.unique(patches)
    sums = torch.stack(
        [(maps[:, 0] * (patches == each)).sum((1, 2)) for each in labels[labels > 0]], 1
    )
    lengths = sums.norm(dim=1) * own.norm()
    found: Numbers = torch.where(lengths > 0, sums @ own / lengths, 0.0).numpy()
    return found


def agreement_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Mean agreement of each metric on each network: over images, then worlds; best on trained first.

    "trained": the mean over trained networks of a world. NaN where it ranks nothing in any world.
    """
    each = scores.groupby(["replaced", "metric", "network", "world"]).agreement.mean()
    wide = each.unstack("network")
    learned = [name for name in TRAINED if name in wide]
    wide["trained"] = wide[learned].mean(axis=1)
    means = wide.groupby(["replaced", "metric"]).mean()[[*EXACT, *learned, "trained"]]
    order = means.reset_index().sort_values(["replaced", "trained"], ascending=False, kind="stable")
    return order.reset_index(drop=True).rename_axis(columns=None)


def correlation_table(scores: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Spearman's correlation over metrics of their agreement on two kinds of networks.

    For each replacement one row for each implementation against trained networks, and for one
    architecture against the other. 95 % intervals: worlds and metrics are drawn again. Controls are
    left out.
    """
    real = scores[~scores.metric.isin(BLIND)]
    found = [
        _correlations(own, seed).assign(replaced=replaced)
        for replaced, own in real.groupby("replaced", sort=False)
    ]
    return pd.concat(found, ignore_index=True)


def _correlations(scores: pd.DataFrame, seed: int) -> pd.DataFrame:
    cube = scores.groupby(["world", "network", "metric"]).agreement.mean().unstack("metric")
    worlds = [*cube.index.unique("world")]
    learned = [name for name in TRAINED if name in cube.index.unique("network")]
    numbers = np.stack(
        [cube.loc[world].reindex([*EXACT, *learned]).to_numpy(float) for world in worlds]
    )  # (worlds, networks, metrics)
    rng = np.random.default_rng(seed)
    pairs = {name: (row, slice(len(EXACT), None)) for row, name in enumerate(EXACT)}
    if len(learned) > 1:
        pairs["another architecture"] = len(EXACT), slice(len(EXACT) + 1, None)
    count, metrics = len(worlds), numbers.shape[2]
    draws = [
        (rng.integers(0, count, count), rng.integers(0, metrics, metrics)) for _ in range(RESAMPLES)
    ]
    rows = []
    for name, (row, others) in pairs.items():
        value = _correlation(numbers, row, others)
        drawn = [_correlation(numbers[one][:, :, two], row, others) for one, two in draws]
        rows.append([name, metrics, value, *middle(np.array(drawn), CONFIDENCE)])
    return pd.DataFrame(rows, columns=["predictor", "metrics", "value", "low", "high"])


def _correlation(numbers: Numbers, row: int, others: slice) -> float:
    """Over metrics that rank something on both; NaN with fewer than three."""
    there = ~np.isnan(numbers)
    sums, counts = np.where(there, numbers, 0).sum(0), there.sum(0)
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    both = np.stack([means[row], means[others].mean(0)])
    both = both[:, ~np.isnan(both).any(0)]
    if both.shape[1] < 3:
        return np.nan
    ranks = centered_ranks(both)
    return float(row_correlations(ranks[:1], ranks[1:])[0])
