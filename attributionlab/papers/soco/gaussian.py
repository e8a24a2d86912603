"""Figure 6 of Li et al. (2024): soundness and completeness where a linear model's truth is known.

Appendix G.1: rows of Gaussian features, labelled by the sign of their sum. A thousand trials modify all
maps; the metrics for images take more than twenty times as long as the algorithms for rows here, and
give the same numbers.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.base import number_problem, refuse_if
from attributionlab.metrics import THRESHOLDS, Variant, label_probability, soundness_sweep
from attributionlab.metrics.imputation import constant, noisy_linear_1d
from attributionlab.papers.catalog import Found, Run, Tables, claim
from attributionlab.papers.soco.modified_maps import Direction, modified
from attributionlab.show import curves

Rows = NDArray[np.float64]
Masks = NDArray[np.bool_]

FEATURES = 200
NOISE = 0.01
"""Standard deviation of what is added to imputed features, in units of the features'."""
RATIOS = tuple(percent / 100 for percent in range(98, -1, -1))
"""Masked shares of the soundness schedule: appendix E begins with 0.98."""
LEVELS = (0.2, 0.4, 0.6, 0.8)
EPSILON = 0.01
"""Least rise of the accuracy that shows information."""
SILENT = 0.5
"""Share of silent features in the control."""
CONTROL_TRIALS = 0.1
"""Share of the trials for the control: its means vary by less than a hundredth."""
STRENGTHS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
STRENGTH_TRIALS = 5
SHOWN_THRESHOLDS = (0.1, 0.3, 0.5, 0.7, 0.9)
CLOSE = 0.01
"""Completeness that differs by less is called equal: ten rows of a thousand."""
TRUTH, REMOVE, INTRODUCE = "ground truth", "Remove", "Introduce"
READINGS = {
    "features": "single features, as section 5.1 says",
    "shifts": "random shifts of all features, as in Table 3",
    "silent": "control: half of the features are silent, and Introduce gives to these alone",
}
"""Readings of "randomly add and remove attribution", and a control on other data."""


class GaussianRows(NamedTuple):
    """Rows of independent standard normal features, labelled by the sign of a weighted sum."""

    features: Rows
    noise: Rows
    """what is added to features that are imputed"""
    weights: Rows
    """(D,): 1 where the model reads a feature, 0 where it does not"""
    signs: Rows
    """(N,): 1 where the weighted sum is positive, else -1"""
    contributions: Rows
    """Shapley values for the label (baseline 0, the features' mean)"""
    truth: Rows
    """their positive parts, in units of the row's largest"""
    noise_sums: Rows
    """(N, D + 1): of the first j products of weight and noise"""

    @property
    def images(self) -> Tensor:
        """(N, 1, 1, D)"""
        return torch.from_numpy(self.features)[:, None, None]

    @property
    def targets(self) -> Tensor:
        """Label 1 for a positive sum, else 0."""
        return torch.from_numpy((self.signs > 0).astype(np.int64))

    def model(self) -> nn.Module:
        """Images (B, 1, 1, D) to two outputs, of which the sum's sign makes one the largest."""
        linear = nn.Linear(len(self.weights), 2, bias=False).double()
        weights = torch.from_numpy(self.weights)
        linear.weight = nn.Parameter(torch.stack([-weights, weights]), requires_grad=False)
        return nn.Sequential(nn.Flatten(), linear).eval()

    def imputation(self, images: Tensor, keep: Tensor) -> Tensor:
        """Interpolation between kept features of all rows and noise, for `attributionlab.metrics`."""
        features, kept = images[:, 0, 0], keep[:, 0, 0]
        linear = noisy_linear_1d(features, kept, noise=0)
        return torch.where(kept, features, linear + torch.from_numpy(self.noise))[:, None, None]

    def accuracy(self, keep: Masks) -> float:
        """Accuracy where only some features are kept; an empty row is 0 and right by half."""
        sums = _compiled_sums()(self.features, self.noise_sums, self.weights, keep)
        margins = self.signs * sums
        return float(((margins > 0) + 0.5 * (margins == 0)).mean())


def gaussian_rows(n: int, size: int, seed: int, *, silent: float = 0.0) -> GaussianRows:
    """Draw the data set of appendix G.1; the model does not read a share `silent` of the features.

    In the paper it reads all.
    """
    generator = np.random.default_rng(seed)
    features, noise = generator.standard_normal((2, n, size))
    weights = np.ones(size)
    weights[generator.permutation(size)[: round(silent * size)]] = 0
    signs = np.where(features @ weights > 0, 1.0, -1.0)
    contributions = features * weights * signs[:, None]
    truth = np.maximum(contributions, 0)
    truth /= truth.max(1, keepdims=True)
    noise *= NOISE
    noise_sums = np.pad((noise * weights).cumsum(1), ((0, 0), (1, 0)))
    return GaussianRows(features, noise, weights, signs, contributions, truth, noise_sums)


def imputed_sums(features: Rows, noise_sums: Rows, weights: Rows, keep: Masks) -> Rows:
    r"""Return weighted sums (N,) of rows whose removed features are interpolated; 0 if none is kept.

    As `attributionlab.imputation.noisy_linear_1d` has it: linear between the nearest kept features, the
    nearest one's value beyond the ends, and noise. Between kept features p < q the sum is

    .. math:: \sum_{p<j<q} w_j \left(x_p + \frac{j - p}{q - p} (x_q - x_p) + \epsilon_j\right),

    so that sums of :math:`w_j`, :math:`j w_j` and :math:`w_j \epsilon_j` over all j up to a place
    suffice.
    """
    rows, size = features.shape
    sums = np.zeros(rows)
    weight_sums, place_sums = np.zeros(size + 1), np.zeros(size + 1)
    for j in range(size):
        weight_sums[j + 1] = weight_sums[j] + weights[j]
        place_sums[j + 1] = place_sums[j] + j * weights[j]
    for row in range(rows):
        last, total = -1, 0.0  # the kept feature before
        value = 0.0
        for here in range(size):
            if keep[row, here]:
                before, value = value, features[row, here]
                total += weights[here] * value
                if here > last + 1:
                    weight = weight_sums[here] - weight_sums[last + 1]
                    if last < 0:
                        total += value * weight
                    else:
                        places = place_sums[here] - place_sums[last + 1] - last * weight
                        total += before * weight + (value - before) / (here - last) * places
                    total += noise_sums[row, here] - noise_sums[row, last + 1]
                last = here
        if last >= 0:
            total += value * (weight_sums[size] - weight_sums[last + 1])
            total += noise_sums[row, size] - noise_sums[row, last + 1]
        sums[row] = total
    return sums


@cache
def _compiled_sums() -> Callable[..., Rows]:
    from attributionlab.base import compiled  # numba takes a second to import

    return compiled(imputed_sums)


def soundness_of(
    rows: GaussianRows, maps: Rows, levels: Sequence[float]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each rising level that Algorithm 1 reaches by accuracy.

    `ratio` is the masked share of the features there; `jumped`: passed by more than epsilon; `true`:
    Definition 4.8 of the included features where what speaks for the label is predictive,
    `true_of_all`: where all features are that the model reads. Of equal attributions (N, D), at least
    0, the first come first.
    """
    size = maps.shape[1]
    order = np.argsort(-maps, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(size)[None], axis=1)
    # Of the first k features in that order, (N, D + 1)
    totals = np.pad(np.take_along_axis(maps, order, axis=1).cumsum(1), ((0, 0), (1, 0)))
    attributed = (maps > 0).sum(1)
    before, included = 0.0, np.zeros(len(maps))
    sound = np.zeros(len(maps))
    todo = list(levels)
    for ratio in RATIOS:
        counts = np.minimum(size - round(ratio * size), attributed)[:, None]
        keep = rank < counts
        performance = rows.accuracy(keep)
        total = np.take_along_axis(totals, counts, axis=1)[:, 0]
        if performance - before >= EPSILON:
            sound += total - included
        before, included = performance, total
        while todo and performance >= todo[0]:
            level = todo.pop(0)
            within = np.where(keep, maps, 0.0)
            yield {
                "level": level,
                "ratio": ratio,
                "performance": performance,
                "jumped": performance - level > EPSILON,
                "soundness": _mean_ratio(sound, total),
                "true": _mean_ratio((within * (rows.truth > 0)).sum(1), total),
                "true_of_all": _mean_ratio((within * (rows.weights > 0)).sum(1), total),
            }
        if not todo:
            return


def completeness_of(
    rows: GaussianRows, maps: Rows, thresholds: Sequence[float]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each threshold of Algorithm 2: the accuracy lost, and Definition 4.9.

    Thresholds are in units of the truth's largest value in each row. `true`: what speaks for the label
    is predictive; `true_of_all`: all features that the model reads, by the size of a contribution.
    """
    intact = rows.accuracy(np.ones(maps.shape, dtype=bool))
    every = np.abs(rows.contributions)
    for threshold in thresholds:
        removed = maps > threshold
        yield {
            "threshold": threshold,
            "difference": intact - rows.accuracy(~removed),
            "true": _mean_ratio((rows.truth * removed).sum(1), rows.truth.sum(1)),
            "true_of_all": _mean_ratio((every * removed).sum(1), every.sum(1)),
        }


def _mean_ratio(parts: Rows, wholes: Rows) -> float:
    """Over the rows whose whole is not 0."""
    known = wholes != 0
    return float((parts[known] / wholes[known]).mean()) if known.any() else float("nan")


def modified_truth(
    rows: GaussianRows,
    reading: str,
    direction: Direction,
    share: float,
    strength: float,
    generator: np.random.Generator,
) -> Rows:
    """Take attribution from the truth, or give it to features without information.

    By "shifts" the scheme "random" of Table 3 moves every feature (the others of that table are not
    random). Else Remove empties a share of the attributed features, and Introduce gives U(0, strength),
    in units of a map's largest value, to a share of those without attribution; by "silent" to a share
    of those that the model does not read.
    """
    if reading == "shifts":
        drawing = torch.Generator().manual_seed(int(generator.integers(2**63)))
        maps = torch.from_numpy(rows.truth)[:, None, None]
        return np.asarray(modified(maps, "random", direction, drawing)[:, 0, 0].numpy())
    chosen = generator.random(rows.truth.shape) < share
    if direction == "remove":
        return np.where(chosen, 0.0, rows.truth)
    empty = rows.weights == 0 if reading == "silent" else rows.truth == 0
    return np.where(chosen & empty, generator.uniform(0, strength, rows.truth.shape), rows.truth)


def trial_rows(
    rows: GaussianRows, reading: str, share: float, strength: float, seed: int, trial: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield pairs of a table and its row for one trial; the truth is not modified: trial 0 has it."""
    generator = np.random.default_rng((seed, trial))
    maps = {} if trial else {TRUTH: rows.truth}
    maps[REMOVE] = modified_truth(rows, reading, "remove", share, strength, generator)
    maps[INTRODUCE] = modified_truth(rows, reading, "introduce", share, strength, generator)
    for name, of_name in maps.items():
        keys = {"reading": reading, "attribution": name, "trial": trial}
        for row in soundness_of(rows, of_name, LEVELS):
            yield "soundness", keys | row
        for row in completeness_of(rows, of_name, THRESHOLDS):
            yield "completeness", keys | row


def modified_truths(run: Run, *, trials: int, share: float = 0.5, strength: float = 1.5) -> Found:
    """Measure soundness and completeness of the truth, and of it with attribution taken or introduced.

    Trials draw which `share` of the features is modified; introduced attributions are U(0, `strength`).
    Tables "soundness" and "completeness" are means over trials ("figure-6a" and "figure-6b" their wide
    forms), "strengths" has Introduce by strength, "sweeps" the truth's own by indicator, imputation and
    variant.
    """
    refuse_if(number_problem("strength", strength, above=0))
    data = {
        name: gaussian_rows(run.n, FEATURES, run.seed, silent=SILENT if name == "silent" else 0.0)
        for name in READINGS
    }
    counts = dict.fromkeys(READINGS, trials)
    counts["silent"] = max(1, round(CONTROL_TRIALS * trials))
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, trial in run.track([(each, i) for each in READINGS for i in range(counts[each])]):
        for table, row in trial_rows(data[name], name, share, strength, run.seed, trial):
            rows[table].append(row)
    sound = _means(rows["soundness"], "level", "soundness", counts)
    complete = _means(rows["completeness"], "threshold", "difference", counts)
    shown = complete[complete.threshold.round(1).isin(SHOWN_THRESHOLDS)]
    tables = {
        "figure-6a": _wide(sound, "level", "soundness"),
        "figure-6b": _wide(shown, "threshold", "difference"),
        "order": _order(complete),
        "soundness": sound,
        "completeness": complete.drop(columns="reached"),
        "sweeps": pd.DataFrame(_sweeps(data["features"])),
        "strengths": _strengths(data["features"], share, strength, run.seed),
    }
    title = (
        f"{run.n} rows of {FEATURES} Gaussian features, linear model; means and standard deviations "
        f"over {trials} trials\nRemove: {share:.0%} of attributed features emptied; Introduce: "
        f"{share:.0%} of features without information get U(0, {strength:g})"
    )
    strengths = tables["strengths"].assign(reading="features")
    drawn = {
        "soundness": (
            *(_with_truth(sound, "soundness", "Definition 4.8"), "level", "attribution", title),
            *("accuracy (predictive level)", "soundness (higher is better)"),
        ),
        "completeness": (
            _with_truth(complete, "difference", "Definition 4.9"),
            *("threshold", "attribution", title),
            "attribution threshold (share of the truth's largest)",
            "accuracy lost, or share of information\n(higher is better)",
        ),
        "strengths": (
            *(_with_truth(strengths, "soundness", "Definition 4.8"), "strength", "level"),
            f"Introduce on {share:.0%} of the features without information, by predictive level; "
            f"means over {STRENGTH_TRIALS} trials",
            "strength: introduced attributions are\nU(0, strength) of the largest",
            "soundness (higher is better)",
        ),
    }
    figures = {
        name: curves(
            *(table, x, "height", color),
            panel="panel",
            title=over,
            xlabel=xlabel,
            ylabel=ylabel,
            limits=(0, 1),
        )
        for name, (table, x, color, over, xlabel, ylabel) in drawn.items()
    }
    return Found(tables, figures)


def _means(rows: list[dict[str, Any]], at: str, value: str, counts: dict[str, int]) -> pd.DataFrame:
    """Over trials, with the standard deviation of the value; `reached`: share of trials with a row."""
    grouped = pd.DataFrame(rows).groupby(["reading", "attribution", at], sort=False)
    table = grouped.mean().drop(columns="trial")
    table.insert(list(table).index(value) + 1, "sd", grouped[value].std())
    table["trials"] = grouped.size()
    table = table.reset_index()
    tried = table.reading.map(counts).where(table.attribution != TRUTH, 1)
    return table.assign(reached=table.trials / tried)


def _wide(table: pd.DataFrame, at: str, value: str) -> pd.DataFrame:
    """A row for each reading and map, and beside every value the true ratio."""
    rows = []
    for (reading, attribution), here in table.groupby(["reading", "attribution"], sort=False):
        row: dict[str, Any] = {"reading": reading, "attribution": attribution}
        for place, found, true in zip(here[at], here[value], here.true, strict=True):
            row |= {f"at {place:g}": found, f"true {place:g}": true}
        rows.append(row)
    return pd.DataFrame(rows)


def _order(table: pd.DataFrame) -> pd.DataFrame:
    """At how many thresholds modified maps are less, equally and more complete than the truth."""
    wide = table.pivot_table(
        index=["reading", "threshold"], columns="attribution", values="difference", sort=False
    )
    rows = []
    for reading, name in product(READINGS, (REMOVE, INTRODUCE)):
        gaps = (wide[name] - wide[TRUTH])[reading]
        below, above = int((gaps < -CLOSE).sum()), int((gaps > CLOSE).sum())
        keys = {"reading": reading, "attribution": name, "below": below}
        keys |= {"equal": len(gaps) - below - above, "above": above}
        rows.append(keys | {"least_gap": gaps.min(), "largest_gap": gaps.max()})
    return pd.DataFrame(rows)


def _sweeps(rows: GaussianRows) -> Iterator[dict[str, Any]]:
    """Algorithms 1 and 3 on the unmodified truth, as published and as released."""
    margin = 2 * float(abs(rows.features @ rows.weights).mean())
    indicators: dict[str, Any] = {
        "accuracy": "accuracy",
        "probability": partial(label_probability, temperature=margin),
    }
    imputations: dict[str, Any] = {
        "noisy linear": rows.imputation,
        "zero": partial(constant, value=0.0),
    }
    bound = float(abs(rows.features).max())
    maps = torch.from_numpy(rows.truth)[:, None, None]
    for imputed, indicated, variant in product(imputations, indicators, get_args(Variant)):
        every, inside = (
            soundness_sweep(
                *(rows.model(), rows.images, rows.targets, maps),
                indicator=indicators[indicated],
                imputation=imputations[imputed],
                value_range=(-bound, bound),
                nothing_kept=0.0,
                batch_size=len(maps),
                ratios=RATIOS,
                variant=variant,
                expansion=expansion,
            )
            for expansion in ("area", "attributed")
        )
        yield {
            "imputation": imputed,
            "indicator": indicated,
            "variant": variant,
            "first_step": float(every.performance[0]),
            "highest": float(every.performance.max()),
            "intact": float(every.performance[-1]),
            **{f"at_{level:g}": inside.at(level).soundness for level in LEVELS},
            "all_steps": float(every.soundness[-1]),
            "false_steps": int(every.false.sum()),
            "steps": len(RATIOS),
        }


def _strengths(rows: GaussianRows, share: float, chosen: float, seed: int) -> pd.DataFrame:
    """Soundness of Introduce by its strength, at every level."""
    found = []
    for strength in sorted({*STRENGTHS, chosen}):
        for trial in range(STRENGTH_TRIALS):
            generator = np.random.default_rng((seed, trial))
            maps = modified_truth(rows, "features", "introduce", share, strength, generator)
            found += [{"strength": strength, **row} for row in soundness_of(rows, maps, LEVELS)]
    means = pd.DataFrame(found).groupby(["strength", "level"]).mean().reset_index()
    return means.drop(columns="true_of_all")


def _with_truth(table: pd.DataFrame, value: str, definition: str) -> pd.DataFrame:
    """Estimates of each reading, with a standard deviation to either side, and true ratios below."""
    sd = table.get("sd", 0.0)
    meaning = table.reading.map(READINGS)
    estimated = table.assign(height=table[value], low=table[value] - sd, high=table[value] + sd)
    return pd.concat(
        [
            estimated.assign(panel="Estimated: " + meaning),
            table.assign(height=table.true, panel=f"True ({definition}): " + meaning),
        ]
    )


def _rows_of(
    tables: Tables, reading: str, attribution: str, table: str = "soundness"
) -> pd.DataFrame:
    found = tables[table]
    return found[(found.reading == reading) & (found.attribution == attribution)]


def _sweep_of(tables: Tables, imputation: str, indicator: str) -> Any:
    """The row of the algorithms as published."""
    found = tables["sweeps"].set_index(["imputation", "indicator", "variant"])
    return found.loc[imputation, indicator, "paper"]


@claim(place="Figure 6a")
def truth_and_remove_are_sound(tables: Tables) -> bool:
    """Soundness of the truth, and of the truth with attribution removed, is 1 at every level."""
    rows = tables["soundness"]
    rows = rows[rows.reading.isin(["features", "shifts"]) & (rows.attribution != INTRODUCE)]
    return bool((rows.soundness == 1).all())


@claim(
    place="Figure 6a",
    reason="accuracy may be at all levels after the first step, which is credited with all it adds",
)
def introduce_is_less_sound(tables: Tables) -> bool | None:
    """Attribution introduced at features without information lowers soundness at every level."""
    rows = _rows_of(tables, "features", INTRODUCE)
    return bool((rows.soundness < 1).all()) if len(rows) else None


@claim(
    place="Section 5.1",
    reason="what is not attributed is not taken away: by Definition 4.9 completeness can only fall",
)
def remove_is_more_complete(tables: Tables) -> bool:
    """With attribution removed, completeness is above that of the truth."""
    here = tables["order"].query("attribution == @REMOVE and reading != 'silent'")
    return bool((here.above > 0).any())


@claim(place="Figure 6b")
def introduce_is_less_complete(tables: Tables) -> bool:
    """With attribution introduced at features without information, completeness is below it."""
    [row] = _rows_of(tables, "features", INTRODUCE, "order").itertuples()
    return bool(row.below > 0 == row.above)


@claim()
def order_is_that_of_the_definition(tables: Tables) -> bool:
    """Where Introduce gives not only to features against the label (shifts, silent), completeness
    is in the order of Definition 4.9: Remove at most, Introduce at least the truth's.
    """
    here = tables["order"].query("reading in ['shifts', 'silent']").set_index("attribution")
    return bool((here.above[REMOVE] == 0).all() and (here.below[INTRODUCE] == 0).all())


@claim()
def weak_introduce_is_not_seen(tables: Tables) -> bool | None:
    """Introduced attribution of up to three quarters of the largest has soundness 1 at every level,
    though the true ratio falls below.
    """
    weak = tables["strengths"].query("strength <= 0.75")
    if len(weak) < len(LEVELS):
        return None
    return bool((weak.soundness == 1).all() and weak.true.min() < 1)


@claim()
def truth_jumps_over_levels(tables: Tables) -> bool:
    """The truth jumps over all levels: accuracy is above them after the first step."""
    rows = _rows_of(tables, "features", TRUTH)
    return bool((rows.jumped == 1).all() and (rows.ratio == RATIOS[0]).all())


@claim()
def whole_sweep_calls_the_truth_false(tables: Tables) -> bool:
    """After the whole of Algorithm 3 most of the truth's own attribution counts as false; only
    soundness at a level stops before.
    """
    row = _sweep_of(tables, "noisy linear", "accuracy")
    return bool(row.all_steps < 0.5 and min(row[f"at_{level:g}"] for level in LEVELS) == 1)


@claim()
def probability_needs_zeros(tables: Tables) -> bool:
    """A probability that is not saturated rises with the attributed features only where removed
    ones are 0: interpolated, the first step argues more than the whole row.
    """
    linear, zero = (_sweep_of(tables, each, "probability") for each in ("noisy linear", "zero"))
    return bool(linear.first_step > linear.intact and zero.first_step < zero.highest)


@claim()
def released_code_agrees_at_levels(tables: Tables) -> bool:
    """The released code differs from the text, but gives the truth the same soundness at the four
    levels (within 0.01).
    """
    every = tables["sweeps"].set_index(["variant", "imputation", "indicator"])
    levels = every[[f"at_{level:g}" for level in LEVELS]]
    return bool((levels.loc["released"] - levels.loc["paper"]).abs().max(axis=None) <= CLOSE)


@claim()
def chance_counts_as_sound(tables: Tables) -> bool | None:
    """Levels below chance say nothing: features that the model does not read reach them, and are
    rated above the truth (control).
    """
    rows = _rows_of(tables, "silent", INTRODUCE)
    below = rows[rows.level < 0.5]
    return bool((below.soundness > below.true).all()) if len(below) else None
