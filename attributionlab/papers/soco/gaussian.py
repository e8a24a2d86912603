"""Figure 6 of Li et al. (2024): soundness and completeness where a linear model's truth is known.

Appendix G.1: rows of Gaussian features, labelled by the sign of their sum. For the metrics a row is an
image one pixel high. A thousand trials modify all maps.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.base import number_problem, refuse_if
from attributionlab.metrics import (
    THRESHOLDS,
    PerformanceOptions,
    Variant,
    completeness_curve,
    included_pixels,
    label_probability,
    soundness_sweep,
    true_completeness,
    true_soundness,
)
from attributionlab.metrics.imputation import constant, noisy_linear_1d
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.papers.soco.maps import Direction, modified
from attributionlab.show import curves

Rows = NDArray[np.float64]

FEATURES = 200
NOISE = 0.01
"""Standard deviation of what is added to imputed features, in units of the features'."""
RATIOS = tuple(percent / 100 for percent in range(98, -1, -1))
"""Masked shares of the soundness schedule: appendix E begins with 0.98."""
TRIED = (1, 8, len(RATIOS))
"""So many of them are taken, until all levels are reached: mostly the first is enough."""
LEVELS = (0.2, 0.4, 0.6, 0.8)
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
    "silent": "control: half of the features are silent, and Introduce adds to these only",
}
"""Readings of "randomly add and remove attribution", and a control on other data."""
DRAWN = {
    "soundness": (
        *("level", "soundness", "attribution", "4.8"),
        *("accuracy (predictive level)", "soundness (higher is better)"),
    ),
    "completeness": (
        *("threshold", "difference", "attribution", "4.9"),
        "attribution threshold (share of the truth's largest)",
        "accuracy lost, or share of information\n(higher is better)",
    ),
    "strengths": (
        *("strength", "soundness", "level", "4.8"),
        "strength: introduced attributions are\nU(0, strength) of the largest",
        "soundness (higher is better)",
    ),
}
"""By figure: columns of both axes and of the color, the definition of what is true, axis labels."""


def as_images(rows: Rows) -> Tensor:
    """(N, 1, 1, D)"""
    return torch.from_numpy(rows)[:, None, None]


class GaussianRows(NamedTuple):
    """Rows of independent standard normal features, labelled by the sign of a weighted sum."""

    features: Rows
    noise: Rows
    """what is added to features that are imputed"""
    weights: Rows
    """(D,): 1 where the model reads a feature, 0 where it does not"""
    contributions: Rows
    """Shapley values for the label (baseline 0, the features' mean)"""
    truth: Rows
    """their positive parts, in units of the row's largest"""

    def given(self, maps: Rows) -> tuple[nn.Module, Tensor, Tensor, Tensor]:
        """For the metrics: a network of two outputs, of which the sum's sign makes one the largest."""
        linear = nn.Linear(len(self.weights), 2, bias=False).double()
        weights = torch.from_numpy(self.weights)
        linear.weight = nn.Parameter(torch.stack([-weights, weights]), requires_grad=False)
        labels = torch.from_numpy(self.features @ self.weights > 0).long()
        model = nn.Sequential(nn.Flatten(), linear).eval()
        return model, as_images(self.features), labels, as_images(maps)

    @property
    def setup(self) -> PerformanceOptions:
        """For the metrics: by accuracy, between kept features interpolated, nothing kept is 0."""
        bound = float(abs(self.features).max())
        return {
            "imputation": self.imputation,
            "value_range": (-bound, bound),
            "nothing_kept": 0.0,
            "batch_size": len(self.features),
        }

    def imputation(self, images: Tensor, keep: Tensor) -> Tensor:
        """Interpolation between kept features of all rows, and noise."""
        features, kept = images[:, 0, 0], keep[:, 0, 0]
        linear = noisy_linear_1d(features, kept, noise=0)
        return torch.where(kept, features, linear + torch.from_numpy(self.noise))[:, None, None]

    @property
    def information(self) -> dict[str, Tensor]:
        """Predictive is what speaks for the label (`true`), or what the model reads (`true_of_all`)."""
        return {
            "true": as_images(self.truth),
            "true_of_all": as_images(np.abs(self.contributions)),
        }


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
    return GaussianRows(features, NOISE * noise, weights, contributions, truth)


def soundness_of(rows: GaussianRows, maps: Rows) -> Iterator[dict[str, Any]]:
    """A row for each level that Algorithm 1 reaches by accuracy.

    `ratio` is the masked share of the features there; `jumped`: passed by more than epsilon; `true`
    and `true_of_all`: Definition 4.8 of the included features by `information`.
    """
    given = rows.given(maps)
    for tried in TRIED:
        sweep = soundness_sweep(*given, ratios=RATIOS[:tried], expansion="attributed", **rows.setup)
        if sweep.performance.max() >= LEVELS[-1]:
            break
    for level in map(sweep.at, LEVELS):
        if level.reached:
            kept = included_pixels(given[-1], level.ratio, expansion="attributed")
            row = {each: getattr(level, each) for each in ("level", "ratio", "performance")}
            row |= {"jumped": level.jumped, "soundness": level.soundness}
            for name, phi in rows.information.items():
                row[name] = float(true_soundness(given[-1], phi, included=kept).nanmean())
            yield row


def completeness_of(rows: GaussianRows, maps: Rows) -> Iterator[dict[str, Any]]:
    """A row for each threshold of Algorithm 2: the accuracy lost, and Definition 4.9.

    Thresholds are in units of the truth's largest value in each row.
    """
    given = rows.given(maps)
    curve = completeness_curve(*given, thresholds=THRESHOLDS, **rows.setup)
    for threshold, difference in zip(THRESHOLDS, curve.differences.tolist(), strict=True):
        row = {"threshold": threshold, "difference": difference}
        for name, phi in rows.information.items():
            row[name] = float(true_completeness(given[-1], phi, threshold=threshold).mean())
        yield row


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
        return np.asarray(modified(as_images(rows.truth), "random", direction, drawing)[:, 0, 0])
    chosen = generator.random(rows.truth.shape) < share
    if direction == "remove":
        return np.where(chosen, 0.0, rows.truth)
    empty = rows.weights == 0 if reading == "silent" else rows.truth == 0
    return np.where(chosen & empty, generator.uniform(0, strength, rows.truth.shape), rows.truth)


def trial_rows(
    rows: GaussianRows, reading: str, share: float, strength: float, seed: int, trial: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Pairs of a table and its row for one trial; the truth is not modified: trial 0 has it."""
    generator = np.random.default_rng((seed, trial))
    maps = {} if trial else {TRUTH: rows.truth}
    maps[REMOVE] = modified_truth(rows, reading, "remove", share, strength, generator)
    maps[INTRODUCE] = modified_truth(rows, reading, "introduce", share, strength, generator)
    for name, of_name in maps.items():
        keys = {"reading": reading, "attribution": name, "trial": trial}
        for row in soundness_of(rows, of_name):
            yield "soundness", keys | row
        for row in completeness_of(rows, of_name):
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
        f"over {trials} trials\nRemove: {share:.0%} of attributed features set to 0; Introduce: "
        f"{share:.0%} of features without information get U(0, {strength:g})"
    )
    of_strengths = (
        f"Introduce on {share:.0%} of the features without information, by predictive level; "
        f"means over {STRENGTH_TRIALS} trials"
    )
    figures = {
        "soundness": _figure("soundness", sound, title),
        "completeness": _figure("completeness", complete, title),
        "strengths": _figure(
            "strengths", tables["strengths"].assign(reading="features"), of_strengths
        ),
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
    given = rows.given(rows.truth)
    for imputed, indicated, variant in product(imputations, indicators, get_args(Variant)):
        how: Any = {"indicator": indicators[indicated], "imputation": imputations[imputed]}
        every, inside = (
            soundness_sweep(
                *given, ratios=RATIOS, variant=variant, expansion=expansion, **{**rows.setup, **how}
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
            found += [{"strength": strength, **row} for row in soundness_of(rows, maps)]
    means = pd.DataFrame(found).groupby(["strength", "level"]).mean().reset_index()
    return means.drop(columns="true_of_all")


def _figure(name: str, table: pd.DataFrame, title: str) -> Figure:
    """Draw estimates of each reading, with a standard deviation to either side, above what is true."""
    x, value, color, definition, xlabel, ylabel = DRAWN[name]
    sd, meaning = table.get("sd", 0.0), table.reading.map(READINGS)
    estimated = table.assign(height=table[value], low=table[value] - sd, high=table[value] + sd)
    true = table.assign(height=table.true, panel=f"True (Definition {definition}): " + meaning)
    return curves(
        *(pd.concat([estimated.assign(panel="Estimated: " + meaning), true]), x, "height", color),
        panel="panel",
        title=title,
        xlabel=xlabel,
        ylabel=ylabel,
        limits=(0, 1),
    )


def weak_introduce_is_not_seen(tables: Tables) -> bool | None:
    weak = tables["strengths"].query("strength <= 0.75")
    if len(weak) < len(LEVELS):
        return None
    return bool((weak.soundness == 1).all() and weak.true.min() < 1)


def released_code_agrees_at_levels(tables: Tables) -> bool:
    every = tables["sweeps"].set_index(["variant", "imputation", "indicator"])
    levels = every[[f"at_{level:g}" for level in LEVELS]]
    return bool((levels.loc["released"] - levels.loc["paper"]).abs().max(axis=None) <= CLOSE)
