"""Does a method's score on a hand-weighted network say anything about trained ones of the same rule?

How well scores on hand-weighted networks predict those on trained ones, with intervals over worlds,
trained networks and methods.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attributionlab.base import CONFIDENCE, LEAST_SHARE, Numbers, middle
from attributionlab.methods import METHODS
from attributionlab.metrics.ranking import centered_ranks
from attributionlab.papers.answers import above
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.runs import Cell, values
from attributionlab.show import dots
from attributionlab.verdicts import network_scores, ranked_world
from attributionlab.worlds import (
    ARCHITECTURES,
    IMAGE_SIDE,
    LEARNING_IMAGES,
    PAPER,
    Environment,
    Lessons,
    TrainedNetwork,
    find_trained,
    lessons_of,
    make_trained,
    random_worlds,
    soft_sister,
    with_trained,
)
from attributionlab.worlds import trained_networks as included_networks
from attributionlab.worlds.nets import EQUIVALENT, GRADED

TRAINED = "trained"
SOFT = " (soft sister)"
MEAN, RANKING = "mean of planes and natural", "ranking score"
OTHER, SAME = "another architecture", "another seed"
"""Trained networks themselves, as predictors of each other: the ceiling."""
PASSES = 0.5
RESAMPLES = 2000
"""Each end of a 95 % interval then has a Monte-Carlo error of 0.06 standard errors."""
STATISTICS = 3
COLUMNS = (
    *("value", "low", "high"),
    *("same_half", "same_half_low", "same_half_high"),
    *("same_verdict", "same_verdict_low", "same_verdict_high"),
)
"""Each statistic with the ends of its interval; the first is the correlation."""


class Panel(NamedTuple):
    """One world's scores: predictors in the first rows, its trained networks in the others.

    `f1`, `solved`: (P + T, M), of the M methods that ran on all its networks. `methods`: where these
    stand among all methods. `predictors`: P names. `architectures`: of the T trained networks.
    """

    f1: Numbers
    solved: Numbers
    methods: NDArray[np.int64]
    predictors: tuple[str, ...]
    architectures: tuple[str, ...]


def panel_of(scores: pd.DataFrame, methods: Sequence[str]) -> Panel | None:
    """The panel of one world's scores; None without a trained network.

    Predictors are its implementations; those with the soft sister in place of the world where there is
    one; the mean of planes and natural, and the ranking score, which is the same with soft sisters.
    """
    tables = [
        scores.pivot(index="method", columns="network", values=key) for key in ("f1", "solved")
    ]
    tables = [each.dropna(axis=1, how="all").dropna() for each in tables]
    names = [*dict.fromkeys(scores.network[scores.network.isin(tables[0].columns)])]
    learned = [name for name in names if name.startswith(TRAINED)]
    if not learned:
        return None
    sources = {name: [name] for name in names if name not in learned and SOFT not in name}
    if {*GRADED} <= sources.keys():
        softest = {name: name + SOFT if name + SOFT in names else name for name in GRADED}
        sources |= {name + SOFT: [softest[name]] for name in GRADED}
        sources |= {MEAN: [*GRADED], RANKING: [*softest.values()]}
    f1, solved = (
        np.stack(
            [table[each].mean(axis=1) for each in (*sources.values(), *([x] for x in learned))]
        )
        for table in tables
    )
    places = {name: place for place, name in enumerate(methods)}
    where = np.array([places[name] for name in tables[0].index])
    return Panel(f1, solved, where, tuple(sources), tuple(name.split()[1] for name in learned))


def statistics(
    panel: Panel, names: Sequence[str], methods: NDArray[np.int64], networks: NDArray[np.int64]
) -> Numbers:
    """(predictors, 3): three statistics, NaN for a predictor that the world lacks.

    Spearman's correlation of the F1 of methods; the share of methods whose F1 is 0.5 or more on both or
    on neither; and of those that solve three quarters of the questions on both or on neither: each the
    mean over trained networks, or over pairs of them. `methods`, `networks`: which, with repetition.
    """
    f1, solved = panel.f1[:, methods], panel.solved[:, methods]
    count = len(panel.predictors)
    ranks = centered_ranks(f1)
    squares = np.square(ranks).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN where all methods score alike
        correlation = (ranks @ ranks[count:].T) / np.sqrt(np.outer(squares, squares[count:]))
    alike = [
        (each[:, None] == each[None, count:]).mean(-1)
        for each in (f1 >= PASSES, solved >= LEAST_SHARE)
    ]
    found = np.stack([correlation, *alike])[:, :, networks]  # (3, P + T, drawn)
    kinds = np.array(panel.architectures)
    differ = kinds[networks][:, None] != kinds[networks][None]
    same_seed = (networks[:, None] == networks[None]) | differ
    pairs = found[:, count + networks]
    result = {name: found[:, row].T for row, name in enumerate(panel.predictors)}
    result |= {OTHER: pairs[:, differ].T, SAME: pairs[:, ~same_seed].T}
    return np.stack([_mean(result.get(name, np.empty((0, STATISTICS)))) for name in names])


def _mean(values: Numbers) -> Numbers:
    """Over the first axis, NaN left out; NaN without any."""
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        means: Numbers = np.where(there, values, 0).sum(0) / there.sum(0)
    return means


def transfer_table(
    panels: Mapping[str, Panel], groups: Mapping[str, Sequence[str]], methods: int, seed: int
) -> pd.DataFrame:
    """A row for each predictor in each world and in each group of worlds.

    Columns: predictor, world, networks, and `COLUMNS`, the `statistics` with their 95 % intervals:
    trained networks and methods are drawn again, and in groups worlds too, methods alike in all worlds
    of a draw. Over a group it is the mean of its worlds' means.
    """
    names = [*dict.fromkeys(name for panel in panels.values() for name in panel.predictors)]
    names += [OTHER, SAME]
    rows = []
    for title, worlds in {**{name: [name] for name in panels}, **groups}.items():
        chosen = [panels[name] for name in worlds if name in panels]
        if not chosen:
            continue
        values = _over(chosen, names, np.arange(methods), None)
        low, high = _interval(chosen, names, methods, seed)
        for row, name in enumerate(names):
            if np.isnan(values[row]).all():
                continue
            asked = [panel for panel in chosen if name in (*panel.predictors, OTHER, SAME)]
            numbers = np.stack([values[row], low[row], high[row]], 1).ravel()
            count = sum(len(panel.architectures) for panel in asked)
            rows.append([name, title, count, *numbers])
    return pd.DataFrame(rows, columns=["predictor", "world", "networks", *COLUMNS])


def _over(
    panels: Sequence[Panel],
    names: Sequence[str],
    drawn: NDArray[np.int64],
    rng: np.random.Generator | None,
) -> Numbers:
    """The mean over worlds of `statistics` on some methods, of all networks or of some drawn again."""
    values = []
    for panel in panels:
        place = np.full(drawn.max() + 1, -1)
        there = panel.methods <= drawn.max()
        place[panel.methods[there]] = there.nonzero()[0]
        methods, count = place[drawn], len(panel.architectures)
        networks = np.arange(count) if rng is None else rng.integers(0, count, count)
        values.append(statistics(panel, names, methods[methods >= 0], networks))
    return _mean(np.stack(values))


def _interval(
    panels: Sequence[Panel], names: Sequence[str], methods: int, seed: int
) -> tuple[Numbers, Numbers]:
    """Both ends, (predictors, 3) each."""
    rng = np.random.default_rng([seed, len(panels)])
    draws = np.stack(
        [
            _over(
                [panels[world] for world in rng.integers(0, len(panels), len(panels))],
                names,
                rng.integers(0, methods, methods),
                rng,
            )
            for _ in range(RESAMPLES)
        ]
    )
    ends = [middle(each, CONFIDENCE) for each in draws.reshape(len(draws), -1).T]
    low, high = np.array(ends).reshape(len(names), STATISTICS, 2).transpose(2, 0, 1)
    return low, high


ITEM = "trained-networks"
WORLDS = tuple(LEARNING_IMAGES)
"""Worlds of the catalog, whose images differ from the catalog's: each patch draws its own area."""
UNSEEN_SEED, MOST_UNSEEN = 41, 4
"""Random worlds, easy ones, drawn after implementations and soft sisters were designed."""
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
REAL, ALL = "methods", "methods and blind controls"
OVERALL, UNSEEN = "all worlds", "unseen worlds"
SHOWN = (PAPER, *GRADED, RANKING, OTHER)
"""Predictors in the figure."""


def world_of(name: str, image_size: int = IMAGE_SIDE) -> Environment:
    """A world of the catalog, or a random one, by its name."""
    if name in WORLDS:
        return ranked_world(name, image_size)
    return next(env for env in _unseen(image_size) if env.name == name)


@lru_cache(maxsize=1)
def _unseen(image_size: int = IMAGE_SIDE) -> list[Environment]:
    """Those whose outputs differ: a rule with one output for all images teaches nothing."""
    drawn = random_worlds(3 * MOST_UNSEEN, UNSEEN_SEED, "easy", image_size)
    return [env for env in drawn if len({*env.batch(64)[1].tolist()}) > 1][:MOST_UNSEEN]


@lru_cache(maxsize=1)
def lessons(world: str, image_size: int) -> tuple[Environment, Lessons]:
    """A world, and what networks learn from there and are asked; for all networks alike."""
    env = world_of(world, image_size)
    return env, lessons_of(env)


def with_network(env: Environment, trained: TrainedNetwork) -> Environment:
    """A world whose network is a trained one; its truth, which is the rule's, stays."""
    return Environment(env.spec, with_trained(env.network, trained), env.recipe)


@dataclass(frozen=True)
class Sizes:
    """How much is learned, and what is scored: all that a cell depends on beside world and network.

    `samples`: how many images a network learns from; None: as many as its world needs, or the network
    that the package has.
    """

    n: int
    seed: int
    samples: int | None
    image_size: int
    methods: tuple[str, ...]


def exact_network(world: str, written: str, sizes: Sizes, device: str | None) -> pd.DataFrame:
    """Scores of the methods on a hand-weighted network, as it is written."""
    env = world_of(world, sizes.image_size)
    if written.endswith(SOFT):
        env, written = soft_sister(env) or env, written.removesuffix(SOFT)
    found = network_scores(env.with_implementation(written), sizes.methods, sizes.n, sizes.seed)
    return found.drop(columns="refused")


def included_network(
    world: str, architecture: str, seed: int, sizes: Sizes
) -> TrainedNetwork | None:
    """The network that comes with the package, if it has one of that size and none is asked for."""
    which = f"{architecture}.{seed}"
    there = sizes.image_size == IMAGE_SIDE and f"{world}.{which}" in included_networks()
    return TrainedNetwork.read(find_trained(world, which)) if there and not sizes.samples else None


def learned_network(
    world: str, architecture: str, seed: int, sizes: Sizes, device: str | None
) -> dict[str, pd.DataFrame]:
    """Take or train a network, and score the methods on it if it is certified."""
    trained = included_network(world, architecture, seed, sizes)
    if trained is None:
        env, known = lessons(world, sizes.image_size)
        trained = make_trained(env, architecture, seed=seed, samples=sizes.samples, lessons=known)
    else:
        env = world_of(world, sizes.image_size)
    found = trained.certificate
    methods = sizes.methods if found.passed else ()
    scores = network_scores(with_network(env, trained), methods, sizes.n, sizes.seed)
    reached = {**found.agreement, "signs": found.signs, "shapley": found.shapley}
    row = {**reached, "null": found.null, "certified": found.passed}
    return {"certificate": pd.DataFrame([row]), "scores": scores.drop(columns="refused")}


def trained_networks(
    run: Run,
    *,
    worlds: int,
    unseen: int,
    architectures: int,
    networks: int,
    samples: int | None = None,
    image_size: int = IMAGE_SIDE,
    some: bool = False,
) -> Found:
    """Correlate methods' scores on networks trained on the rules of worlds with those on exact ones.

    The first `worlds` of `WORLDS` and `unseen` random ones; of the first `architectures` of them all so
    many `networks` for each: those that come with the package, the others are trained; all are trained
    where `samples` says on how many images, or where `image_size` is not theirs. `some`: the fast
    methods alone.
    """
    methods = QUICK_METHODS if some else tuple(name for name in METHODS if name not in LEFT_OUT)
    sizes = Sizes(run.n, run.seed, samples, image_size, (*methods, *BLIND))
    drawn = _unseen(image_size)[:unseen] if unseen else []
    known, new = WORLDS[:worlds], tuple(env.name for env in drawn)
    kinds = [*ARCHITECTURES][:architectures]
    cells = [cell for world in (*known, *new) for cell in _cells(world, kinds, networks, sizes)]
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
    groups = {OVERALL: known, UNSEEN: new}
    return _found(pd.concat(certificates), pd.concat(scores), groups, run.seed)


def trained_ones_are_more_alike(tables: Tables) -> bool | None:
    return _above(_overall(tables, OTHER), _overall(tables, PAPER))


def natural_ones_are_nearer(tables: Tables) -> bool | None:
    return _above(_overall(tables, "natural"), _overall(tables, PAPER))


def the_ranking_score_is_nearer(tables: Tables) -> bool | None:
    return _above(_overall(tables, RANKING), _overall(tables, PAPER))


def _above(one: Any, other: Any) -> bool | None:
    """Whether the first row's correlation is higher, by the intervals of both."""
    if one is None or other is None:
        return None
    return above(one.low - other.high, one.high - other.low)


def passing_does_not_carry_over(tables: Tables) -> bool | None:
    table = tables["passes"]
    exact = table[(table.network == PAPER) & table.exact]
    return bool(exact[exact[TRAINED]].pairs.sum() < exact.pairs.sum() / 2) if len(exact) else None


def _overall(tables: Tables, predictor: str) -> Any:
    """The row over all worlds, without controls; None where there is none, or no interval."""
    table = tables["correlations"]
    rows = table[(table.over == REAL) & (table.predictor == predictor) & (table.world == OVERALL)]
    return rows.iloc[0] if len(rows) and np.isfinite(rows.low.iloc[0]) else None


def _cells(world: str, kinds: Sequence[str], networks: int, sizes: Sizes) -> Iterator[Cell]:
    """The work of a world: its networks together, since they share what they learn from."""
    env = world_of(world, sizes.image_size)
    inputs = {"spec": env.spec.digest, **asdict(sizes)}
    for kind, seed in product(kinds, range(sizes.seed, sizes.seed + networks)):
        found = included_network(world, kind, seed, sizes)
        yield Cell(
            ITEM,
            {"world": world, "network": f"{TRAINED} {kind} {seed}"},
            {**inputs, "included": found and found.digest},
            partial(learned_network, world, kind, seed, sizes),
        )
    written = [name for name in env.implementations if name in (PAPER, *GRADED, *EQUIVALENT)]
    written += [name + SOFT for name in (PAPER, *GRADED)] if soft_sister(env) else []
    for name in written:
        compute = partial(exact_network, world, name, sizes)
        yield Cell(ITEM, {"world": world, "network": name}, inputs, compute)


def _found(
    certificates: pd.DataFrame,
    scores: pd.DataFrame,
    groups: Mapping[str, Sequence[str]],
    seed: int,
) -> Found:
    """Tables and figures of all cells."""
    kept = certificates.groupby("world", sort=False)
    summary = kept.agg(networks=("certified", "size"), certified=("certified", "sum"))
    reached = [name for name in certificates if certificates[name].dtype == float]
    worst = kept[reached].min().assign(null=kept.null.max())
    over = {REAL: scores[~scores.method.isin(BLIND)], ALL: scores}
    correlations = pd.concat(
        correlation_table(each, groups, seed).assign(over=name) for name, each in over.items()
    )
    tables = {
        "correlations": correlations,
        "networks": summary.join(worst).reset_index(),
        "methods": mean_scores(scores),
        "passes": _transfer(scores),
        "certificates": certificates,
        "scores": scores,
    }
    shown = correlations[(correlations.over == REAL) & correlations.predictor.isin(SHOWN)]
    if shown.empty:  # no network is certified
        return Found(tables)
    figure = dots(
        *(shown, "value", "world"),
        color="predictor",
        title="Do methods rank on trained networks as on hand-weighted ones?",
        xlabel="Spearman correlation of the methods' F1 with that on trained networks",
        reference=0,
    )
    return Found(tables, {"correlations": figure})


def correlation_table(
    scores: pd.DataFrame, groups: Mapping[str, Sequence[str]], seed: int
) -> pd.DataFrame:
    """`transfer_table` of scores; a world without certified networks is left out."""
    methods = [*dict.fromkeys(scores.method)]
    found = {world: panel_of(own, methods) for world, own in scores.groupby("world", sort=False)}
    panels = {str(world): panel for world, panel in found.items() if panel is not None}
    return transfer_table(panels, groups, len(methods), seed)


def mean_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """Mean F1 of each method on exact and on certified networks, over worlds that have the latter.

    `RANKING` takes the soft sister where a world has one.
    """
    scores = scores.assign(kind=_kinds(scores))
    scores = scores[scores.world.isin(scores[scores.kind == TRAINED].world)]
    each = scores.groupby(["method", "world", "kind"]).f1.mean().unstack("kind")
    soft = [
        each[n + SOFT].fillna(each[n]) if n + SOFT in each else each[n] for n in GRADED if n in each
    ]
    if soft:
        each[RANKING] = pd.concat(soft, axis=1).mean(axis=1, skipna=False)
    wide = each.groupby("method").mean().reindex(columns=[PAPER, *GRADED, RANKING, TRAINED])
    order = wide.sort_values(PAPER, ascending=False, kind="stable")
    return order.reset_index().rename_axis(columns=None)


def _kinds(scores: pd.DataFrame) -> pd.Series:
    return scores.network.where(~scores.network.str.startswith(TRAINED), TRAINED)


def _transfer(scores: pd.DataFrame) -> pd.DataFrame:
    """How often methods reach an F1 of 0.5 on an exact and on a trained network of a world."""
    real = scores[~scores.method.isin(BLIND)].dropna().drop(columns="solved")
    exact = real[real.network.isin([PAPER, *GRADED])].rename(columns={"f1": "exact"})
    learned = real[real.network.str.startswith(TRAINED)].rename(columns={"f1": TRAINED})
    both = exact.merge(learned.drop(columns="network"), on=["world", "method"])
    reached = both.assign(exact=both.exact >= PASSES, **{TRAINED: both[TRAINED] >= PASSES})
    passes = reached.groupby(["network", "exact", TRAINED], sort=False).size()
    return passes.rename("pairs").reset_index()
