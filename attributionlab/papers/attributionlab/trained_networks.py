"""Does a method's score on a hand-weighted network say anything about trained ones of the same rule?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import AttributionLabError, draw_again, mean_score, middle, own_arithmetic
from attributionlab.methods import METHODS, as_method, collect_notices
from attributionlab.metrics.ranking import centered_ranks, row_correlations
from attributionlab.papers.answers import above
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.runs import Cell, values
from attributionlab.show import dots
from attributionlab.verdicts import CONTROLS, Batch, attribute_batch, lowest_mean, prepared
from attributionlab.worlds import (
    IMAGE_SIDE,
    LEARNING_IMAGES,
    Environment,
    Lessons,
    TrainedNetwork,
    lessons_of,
    load,
    make_trained,
    with_trained,
)

ITEM = "trained-networks"
ARCHITECTURE = "cnn"
WORLDS = tuple(LEARNING_IMAGES)
"""Worlds of the catalog, whose images differ from the catalog's: each patch draws its own area."""
HARDER = ("stripes-or-checks", "quadrants", "marker-flips")
"""Worlds in which networks learn from twice as many images."""
_SLOW = "takes more than 0.1 s for an image of one of the networks"
LEFT_OUT = {
    **dict.fromkeys(("attention-rollout", "chefer-lrp"), "needs a network with attention"),
    **dict.fromkeys(("extremal-perturbation", "iba", "input-iba", "shapley-value-sampling"), _SLOW),
    **dict.fromkeys(
        (
            f"integrated-gradients-{which}"
            for which in (
                *("exact", "exact-true-baseline", "random", "smoothgrad", "smoothgrad-absolute"),
                *("smoothgrad-squared", "vargrad"),
            )
        ),
        _SLOW,
    ),
}
"""Built-in methods that are not run, and why."""
BLIND = ("random", "constant", "sobel", "baseline-distance", "non-background", "filled-patches")
"""Controls that see nothing of the network, for reference."""
QUICK_METHODS = (
    *("saliency", "input-x-gradient", "lrp", "gradcam", "occlusion-true-baseline", "rise"),
)
HAND, TRAINED, FORM = "hand-weighted", "trained", "plateau"
GRADED = ("planes", "natural")
"""Implementations that answer by degrees between the colors of an image, as trained networks do."""
RANKING = "mean of planes and natural"
EXACT = (HAND, *GRADED, FORM)
"""Networks with weights set by hand, by implementation; the first is the paper's."""
REAL, ALL = "methods", "methods and blind controls"
OVERALL = "all worlds"
WITH_TRAINED = "hand-weighted and trained"
TWO_TRAINED = "trained and trained"
WITH_FORM = "hand-weighted and plateau"
TO_TRAINED = {f"{name} and trained": name for name in (HAND, *GRADED, RANKING)}
"""What is compared with trained networks."""
RESAMPLES = 2000
"""Each end of a 95 % interval then has a Monte-Carlo error of 0.06 standard errors."""
PASSES = 0.5
Numbers = NDArray[np.float64]


@lru_cache(maxsize=1)
def lessons(world: str) -> tuple[Environment, Lessons]:
    """A world, and what networks learn from there and are asked; for all networks alike."""
    env = _world(world)
    return env, lessons_of(env)


def with_network(env: Environment, trained: TrainedNetwork) -> Environment:
    """A world whose network is a trained one; its truth, which is the rule's, stays."""
    return Environment(env.spec, with_trained(env.network, trained), env.recipe)


@own_arithmetic()
def method_scores(env: Environment, methods: Sequence[str], n: int, seed: int) -> dict[str, float]:
    """The claim's F1 of each method on n images of a world; NaN for a method that cannot run there."""
    batches: list[Batch] = []
    found = {}
    for name in methods:
        method = as_method(name, METHODS | CONTROLS)
        setup = prepared(method, env, n=n, seed=seed, claim=method.claim or "signed")
        batches = batches or [*setup.batches()]
        parts: dict[str, list[Tensor]] = {part: [] for part in setup.claimed_parts}
        try:
            for batch in batches:
                with collect_notices():
                    maps = attribute_batch(setup, batch).maps
                scores = setup.scores(batch.scaled(maps), batch)
                for part, each in parts.items():
                    each.append(scores[part].f1)
        except AttributionLabError:
            found[name] = np.nan
            continue
        mean = lowest_mean({part: torch.cat(each).numpy() for part, each in parts.items()})[1]
        found[name] = np.nan if mean is None else mean
    return found


@dataclass(frozen=True)
class Sizes:
    """How much is learned, and what is scored: all that a cell depends on beside world and network."""

    n: int
    seed: int
    samples: int
    methods: tuple[str, ...]


def exact_network(world: str, written: str, sizes: Sizes, device: str | None) -> pd.DataFrame:
    """Scores of the methods on a hand-weighted network, as it is written."""
    env = _world(world)
    env = env if written == HAND else env.with_implementation(written)
    return _scored(method_scores(env, sizes.methods, sizes.n, sizes.seed))


def learned_network(
    world: str, number: int, sizes: Sizes, device: str | None
) -> dict[str, pd.DataFrame]:
    """Train a network, examine it, and score the methods on it if it is certified."""
    env, known = lessons(world)
    trained = make_trained(
        *(env, ARCHITECTURE),
        seed=sizes.seed + number,
        samples=sizes.samples * (2 if world in HARDER else 1),
        lessons=known,
    )
    found = trained.certificate
    methods = sizes.methods if found.passed else ()
    scores = _scored(method_scores(with_network(env, trained), methods, sizes.n, sizes.seed))
    reached = {**found.agreement, "signs": found.signs, "shapley": found.shapley}
    row = {**reached, "null": found.null, "certified": found.passed}
    return {"certificate": pd.DataFrame([row]), "scores": scores}


def trained_networks(
    run: Run,
    *,
    worlds: int,
    networks: int,
    samples: int,
    some: bool = False,
) -> Found:
    """Train networks on the rules of worlds, and correlate methods' scores with those on exact ones.

    The first `worlds` of `WORLDS`, so many `networks` for each, which see so many `samples` (twice as
    many in `HARDER` worlds); `some`: the fast methods alone.
    """
    methods = QUICK_METHODS if some else tuple(name for name in METHODS if name not in LEFT_OUT)
    sizes = Sizes(run.n, run.seed, samples, (*methods, *BLIND))
    cells = [*_cells(WORLDS[:worlds], networks, sizes)]
    done, stop = values(cells, run.item, run.running)
    if stop is not None:
        raise stop
    certificates, scores = [], []
    for cell, value in done:
        place = dict(cell.place)
        if place["network"].startswith(TRAINED):
            certificates.append(value["certificate"].assign(**place))
            value = value["scores"]
        scores.append(value.assign(**place))
    return _found(pd.concat(certificates), pd.concat(scores), run.seed)


def trained_ones_are_more_alike(tables: Tables) -> bool | None:
    one, two = _overall(tables, WITH_TRAINED), _overall(tables, TWO_TRAINED)
    if one is None or two is None:
        return None
    return above(two.low - one.high, two.high - one.low)


def natural_ones_are_nearer(tables: Tables) -> bool | None:
    one, two = (_overall(tables, f"{name} and trained") for name in (HAND, "natural"))
    if one is None or two is None:
        return None
    return above(two.low - one.high, two.high - one.low)


def passing_does_not_carry_over(tables: Tables) -> bool | None:
    table = tables["passes"]
    exact = table[(table.network == HAND) & table.exact]
    return bool(exact[exact[TRAINED]].pairs.sum() < exact.pairs.sum() / 2) if len(exact) else None


def _overall(tables: Tables, compared: str) -> Any:
    """The row over all worlds, without controls; None where there is none, or no interval."""
    table = tables["correlations"]
    rows = table[(table.over == REAL) & (table.compared == compared) & (table.world == OVERALL)]
    return rows.iloc[0] if len(rows) and np.isfinite(rows.low.iloc[0]) else None


def _cells(worlds: Sequence[str], networks: int, sizes: Sizes) -> Iterator[Cell]:
    """The work: each world's networks together, since they share what they learn from."""
    for world in worlds:
        works: dict[str, Callable[[str | None], Any]] = {
            f"{TRAINED} {number}": partial(learned_network, world, number, sizes)
            for number in range(networks)
        }
        works |= {written: partial(exact_network, world, written, sizes) for written in EXACT}
        env = _world(world)
        for network, compute in works.items():
            inputs = {"spec": env.spec.digest, **asdict(sizes)}
            yield Cell(ITEM, {"world": world, "network": network}, inputs, compute)


def _found(certificates: pd.DataFrame, scores: pd.DataFrame, seed: int) -> Found:
    """Tables and figures of all cells."""
    kept = certificates.groupby("world", sort=False)
    summary = kept.agg(networks=("certified", "size"), certified=("certified", "sum"))
    reached = [name for name in certificates if certificates[name].dtype == float]
    worst = kept[reached].min().assign(null=kept.null.max())
    over = {REAL: scores[~scores.method.isin(BLIND)], ALL: scores}
    correlations = pd.concat(
        correlation_table(each, seed).assign(over=name) for name, each in over.items()
    )
    tables = {
        "correlations": correlations,
        "networks": summary.join(worst).reset_index(),
        "methods": mean_scores(scores),
        "passes": _transfer(scores),
        "certificates": certificates,
        "scores": scores,
    }
    shown = correlations[correlations.over == REAL]
    learned = shown[shown.compared == WITH_TRAINED].world
    if len(learned):
        is_asked = shown.compared.isin([*TO_TRAINED, TWO_TRAINED])
        shown = shown[shown.world.isin(learned) & is_asked]
    figure = dots(
        *(shown, "value", "world"),
        color="compared",
        title="Do methods rank alike on two networks of a rule?",
        xlabel="Spearman correlation of the methods' F1",
        reference=0,
    )
    return Found(tables, {"correlations": figure})


def mean_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """Mean F1 of each method on exact and on certified networks, over worlds that have the latter."""
    scores = scores.assign(kind=_kinds(scores))
    scores = scores[scores.world.isin(scores[scores.kind == TRAINED].world)]
    means = scores.groupby(["method", "world", "kind"]).f1.mean().groupby(["method", "kind"]).mean()
    wide = means.unstack("kind").reindex(columns=[HAND, *GRADED, TRAINED])
    order = wide.sort_values(HAND, ascending=False, kind="stable")
    return order.reset_index().rename_axis(columns=None)


def _kinds(scores: pd.DataFrame) -> pd.Series:
    return scores.network.where(~scores.network.str.startswith(TRAINED), TRAINED)


def correlation_table(scores: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Spearman correlations of methods' scores, by world and over worlds, with 95 % intervals.

    For each world the mean over its networks (for `TWO_TRAINED` over pairs of networks) of the
    correlation of two networks' scores. Intervals are from networks drawn again; over worlds, from
    worlds drawn again and from the networks of each drawn world drawn again. A world without certified
    networks is left out. There is one `plateau`: with it worlds alone are drawn again. `RANKING` is the
    mean of a method's scores on two implementations.
    """
    rows = []
    pairs = (*TO_TRAINED, TWO_TRAINED, WITH_FORM)
    matrices: dict[str, dict[str, Numbers]] = {compared: {} for compared in pairs}
    for world, own in scores.groupby("world", sort=False):
        wide = own.pivot(index="method", columns="network", values="f1").dropna(axis=1, how="all")
        wide = wide.dropna()
        learned = [name for name in wide if name.startswith(TRAINED)]
        if {*GRADED} <= {*wide}:
            wide[RANKING] = wide[[*GRADED]].mean(axis=1)
        for compared, name in TO_TRAINED.items():
            others = learned if name in wide else []
            found = _correlations(wide, [name] * len(others), others)
            matrices[compared][world] = found[:, None]
        forms = [FORM] if FORM in wide else []
        matrices[WITH_FORM][world] = _correlations(wide, [HAND] * len(forms), forms)[:, None]
        first, second = [*zip(*combinations(learned, 2), strict=True)] or ((), ())
        matrix = np.full((len(learned), len(learned)), np.nan)
        matrix[np.triu_indices(len(learned), 1)] = _correlations(wide, first, second)
        matrices[TWO_TRAINED][world] = np.fmax(matrix, matrix.T)
    for compared, by_world in matrices.items():
        there = {world: each for world, each in by_world.items() if not np.isnan(each).all()}
        for world, each in there.items():
            rows.append(
                [compared, world, len(each), *_interval([each], seed, compared != WITH_FORM)]
            )
        if there:
            interval = _interval([*there.values()], seed, compared != WITH_FORM)
            rows.append([compared, OVERALL, sum(map(len, there.values())), *interval])
    return pd.DataFrame(rows, columns=["compared", "world", "networks", "value", "low", "high"])


def _correlations(scores: pd.DataFrame, first: Sequence[str], second: Sequence[str]) -> Numbers:
    """Spearman's correlation of each pair of networks, over methods."""
    ranks = [centered_ranks(scores[[*names]].to_numpy(float).T) for names in (first, second)]
    return row_correlations(*ranks)


def _interval(matrices: Sequence[Numbers], seed: int, networks: bool) -> tuple[float, float, float]:
    """The mean of the worlds' means, and its interval; NaN where nothing can be drawn again."""
    rng = np.random.default_rng([seed, len(matrices)])

    def mean(matrix: Numbers, again: bool) -> float:
        if again:
            rows = rng.integers(0, len(matrix), len(matrix))
            matrix = matrix[rows][:, rows] if matrix.shape[1] > 1 else matrix[rows]
        return mean_score(matrix.ravel())

    value = mean_score(np.array([mean(each, False) for each in matrices]))
    if len(matrices) == 1 and (len(matrices[0]) == 1 or not networks):
        return value, np.nan, np.nan
    drawn = [
        mean_score(np.array([mean(matrices[world], networks) for world in worlds]))
        for worlds in draw_again(len(matrices), RESAMPLES, rng)
    ]
    return value, *middle(np.array(drawn), 0.95)


def _transfer(scores: pd.DataFrame) -> pd.DataFrame:
    """How often methods reach an F1 of 0.5 on an exact and on a trained network of a world."""
    real = scores[~scores.method.isin(BLIND)].dropna()
    exact = real[real.network.isin([HAND, *GRADED])].rename(columns={"f1": "exact"})
    learned = real[real.network.str.startswith(TRAINED)].rename(columns={"f1": TRAINED})
    both = exact.merge(learned.drop(columns="network"), on=["world", "method"])
    reached = both.assign(exact=both.exact >= PASSES, **{TRAINED: both[TRAINED] >= PASSES})
    passes = reached.groupby(["network", "exact", TRAINED], sort=False).size()
    return passes.rename("pairs").reset_index()


def _scored(found: Mapping[str, float]) -> pd.DataFrame:
    return pd.DataFrame({"method": [*found], "f1": np.array([*found.values()], dtype=float)})


def _world(name: str) -> Environment:
    return load(name, image_size=IMAGE_SIDE, **LEARNING_IMAGES[name])
