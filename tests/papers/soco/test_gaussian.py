"""Rows of Gaussian features: the compiled loop, both algorithms and the trials, against definitions."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import torch

import attributionlab as al
from attributionlab.papers.soco.gaussian import experiment as gaussian
from attributionlab.papers.soco.gaussian import findings as gaussian_findings
from attributionlab.papers.soco.gaussian.experiment import soco_figure_6
from attributionlab.papers.soco.gaussian.loops import imputed_sums
from attributionlab.papers.soco.gaussian.rows import (
    NOISE,
    RATIOS,
    completeness_of,
    gaussian_rows,
    soundness_of,
)
from attributionlab.papers.soco.gaussian.trials import (
    LEVELS,
    READINGS,
    THRESHOLDS,
    Modification,
    random_shifts,
    silent_features,
    single_features,
    trial_rows,
)

HOW = Modification(0.5, 1.5)


@pytest.fixture(scope="module")
def rows():
    return gaussian_rows(40, 30, 0, silent=0.2)


@pytest.fixture(scope="module")
def maps(rows):
    """Maps that are wrong at first: with zeros, ties, values above 1, and a row without attribution."""
    generator = np.random.default_rng(1)
    maps = np.where(generator.random(rows.truth.shape) < 0.4, generator.random(rows.truth.shape), 0)
    maps = np.where(generator.random(maps.shape) < 0.3, 0.5, maps)
    maps += 0.8 * (rows.contributions < -1) + 0.3 * (rows.contributions > 1)
    maps[3] = 0
    return maps


def as_images(values):
    return torch.from_numpy(values)[:, None, None]


def trial_settings(rows):
    return {
        "imputation": rows.imputation,
        "value_range": (-9.0, 9.0),
        "nothing_kept": 0.0,
        "batch_size": len(rows.features),
    }


def naive_sum(features, noise, weights, keep):
    """Each removed feature by itself; features are at most 4 or so, and a sum has 30 terms of them."""
    kept = [j for j, is_kept in enumerate(keep) if is_kept]
    if not kept:
        return 0.0
    total = 0.0
    for j, (value, weight) in enumerate(zip(features, weights, strict=True)):
        if not keep[j]:
            before = [k for k in kept if k < j]
            after = [k for k in kept if k > j]
            p = before[-1] if before else after[0]
            q = after[0] if after else p
            share = 0 if p == q else (j - p) / (q - p)
            value = features[p] * (1 - share) + features[q] * share + noise[j]
        total += weight * value
    return total


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.9, 1.0])
def test_the_compiled_loop_adds_up_interpolated_rows(rows, share):
    keep = np.random.default_rng(2).random(rows.features.shape) < share
    found = imputed_sums(rows.features, rows.noise_sums, rows.weights, keep)
    expected = [
        naive_sum(x, e, rows.weights, k)
        for x, e, k in zip(rows.features, rows.noise, keep, strict=True)
    ]
    # About a hundred sums of numbers up to 30 * 4 in either: 1e2 * 120 * 1.1e-16 = 1.4e-12
    assert np.abs(found - expected).max() < 2e-12


def test_imputing_rows_is_imputing_images_one_pixel_high(rows):
    keep = torch.rand(rows.features.shape, generator=torch.Generator().manual_seed(0)) < 0.2
    keep[:, 0] = True
    line = al.imputation.noisy_linear_1d(rows.images[:, 0, 0], keep, noise=0)
    image = al.imputation.noisy_linear(rows.images, keep[:, None, None], noise=0, tolerance=1e-9)
    assert (image[:, 0, 0] - line).abs().max() <= 1e-9


def test_the_truth_is_the_positive_part_of_shapley_values_for_the_label():
    rows = gaussian_rows(5, 4, 0)
    for x, sign, truth in zip(rows.features, rows.signs, rows.truth, strict=True):
        shapley = np.zeros(4)
        for order in permutations(range(4)):
            present = np.zeros(4)
            for j in order:
                before = present.sum()
                present[j] = x[j]
                shapley[j] += sign * (present.sum() - before) / 24
        positive = np.maximum(shapley, 0)
        assert np.allclose(truth, positive / positive.max(), atol=1e-12)


def test_the_model_is_right_on_every_intact_row_and_reads_no_silent_feature(rows):
    outputs = rows.model()(rows.images)
    assert (outputs.argmax(1) == rows.targets).all()
    assert (rows.weights == 0).sum() == 6
    changed = rows.images.clone()
    changed[..., torch.from_numpy(rows.weights == 0)] = 5
    assert torch.equal(rows.model()(changed), outputs)
    assert rows.accuracy(np.ones(rows.truth.shape, dtype=bool)) == 1
    assert rows.accuracy(np.zeros(rows.truth.shape, dtype=bool)) == 0.5


def test_noise_has_the_stated_deviation():
    rows = gaussian_rows(200, 50, 0)
    # Of 10,000 numbers: a relative standard error of 0.7 %, five of which are allowed
    assert rows.noise.std() == pytest.approx(NOISE, rel=0.035)


def test_soundness_of_rows_is_soundness_of_images(rows, maps):
    sweep = al.metrics.soundness_sweep(
        rows.model(),
        rows.images,
        rows.targets,
        as_images(maps),
        ratios=RATIOS,
        expansion="attributed",
        **trial_settings(rows),
    )
    levels = (0.2, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
    found = {each.level: each for each in soundness_of(rows, maps, levels)}
    expected = {level: sweep.at(level) for level in levels}
    assert set(found) == {level for level, each in expected.items() if each.reached}
    assert 2 < len(found) < len(levels)
    for level, each in found.items():
        wanted = expected[level]
        assert (each.ratio, each.performance, each.jumped) == (
            *(wanted.ratio, wanted.performance, wanted.jumped),
        )
        assert each.soundness == pytest.approx(wanted.soundness, abs=1e-12)
        kept = al.metrics.included_pixels(as_images(maps), each.ratio, expansion="attributed")
        for true, information in (
            (each.true, rows.truth),
            (each.true_of_all, abs(rows.contributions)),
        ):
            ratio = al.metrics.true_soundness(
                as_images(maps), as_images(information), included=kept
            )
            assert true == pytest.approx(float(ratio.nanmean()), abs=1e-12)
    assert len({each.soundness for each in found.values()}) > 1


def test_completeness_of_rows_is_completeness_of_images(rows, maps):
    thresholds = (0.9, 0.5, 0.2, 0.0)
    curve = al.metrics.completeness_curve(
        rows.model(),
        rows.images,
        rows.targets,
        as_images(maps),
        thresholds=thresholds,
        **trial_settings(rows),
    )
    found = list(completeness_of(rows, maps, thresholds))
    assert [each.threshold for each in found] == list(thresholds)
    assert [each.difference for each in found] == curve.differences.tolist()
    for each in found:
        for true, information in (
            (each.true, rows.truth),
            (each.true_of_all, abs(rows.contributions)),
        ):
            ratio = al.metrics.true_completeness(
                as_images(maps), as_images(information), threshold=each.threshold
            )
            assert true == pytest.approx(float(ratio.mean()), abs=1e-12)


def test_remove_empties_a_share_of_the_attributed_features_and_introduce_gives_to_the_others():
    rows = gaussian_rows(200, 50, 0, silent=0.5)
    how = Modification(0.3, 2.0)
    attributed = rows.truth > 0

    def modified(modify, direction):
        return modify(rows, direction, how, np.random.default_rng(0))

    for modify in (single_features, silent_features):
        removed = modified(modify, "remove")
        assert ((removed == rows.truth) | (removed == 0)).all()
        # Of about 2,500 features: a standard error of 0.9 %, five of which are allowed
        assert (removed[attributed] == 0).mean() == pytest.approx(0.3, abs=0.046)
    introduced = modified(single_features, "introduce")
    changed = introduced != rows.truth
    assert not changed[attributed].any()
    assert changed[~attributed].mean() == pytest.approx(0.3, abs=0.027)
    assert 1.98 < introduced[changed].max() <= 2.0
    introduced = modified(silent_features, "introduce")
    changed = introduced != rows.truth
    assert changed[:, rows.weights == 0].mean() == pytest.approx(0.3, abs=0.033)
    assert not changed[:, rows.weights == 1].any()


def test_random_shifts_go_one_way_within_the_unit_interval(rows):
    removed, introduced = (
        random_shifts(rows, direction, HOW, np.random.default_rng(0))
        for direction in ("remove", "introduce")
    )
    assert (removed <= rows.truth).all()
    assert (introduced >= rows.truth).all()
    assert removed.min() == 0
    assert introduced.max() == 1
    assert (introduced - rows.truth).max() <= 0.6 + 1e-12


def test_a_trial_repeats_itself_and_only_the_first_has_the_unmodified_truth(rows):
    reading = READINGS["features"]
    first, again, other, reseeded = (
        list(trial_rows(reading, rows, HOW, seed, trial))
        for seed, trial in ((0, 1), (0, 1), (0, 2), (1, 1))
    )
    assert first == again
    measured, *others = (
        [row["difference"] for table, row in each if table == "completeness"]
        for each in (first, other, reseeded)
    )
    assert all(each != measured for each in others)
    assert {row["attribution"] for _, row in first} == {"Remove", "Introduce"}
    named = {row["attribution"] for _, row in trial_rows(reading, rows, HOW, 0, 0)}
    assert named == {"ground truth", "Remove", "Introduce"}
    counted = [table for table, row in first if row["attribution"] == "Remove"]
    assert counted.count("completeness") == len(THRESHOLDS)


def test_means_and_deviations_are_over_trials_and_unreached_levels_are_counted():
    rows = [
        {"reading": "features", "attribution": name, "trial": trial, "level": 0.2, "soundness": v}
        for name, trial, v in (
            *(("ground truth", 0, 1.0), ("Remove", 0, 0.5), ("Remove", 1, 0.7)),
            *(("Introduce", 1, 0.4),),
        )
    ]
    table = gaussian._means(rows, "level", "soundness", {"features": 2})
    table = table.set_index("attribution")
    assert table.reached.to_dict() == {"ground truth": 1, "Remove": 1, "Introduce": 0.5}
    assert table.soundness["Remove"] == pytest.approx(0.6)
    assert table.sd["Remove"] == pytest.approx(0.2 / np.sqrt(2))


@pytest.fixture(scope="module")
def outcome():
    return soco_figure_6(n=60, quick=True, trials=2)


def test_truth_and_remove_are_sound_and_introduce_is_not(outcome):
    table = outcome.tables["soundness"].set_index(["reading", "attribution"]).sort_index()
    for reading in ("features", "shifts"):
        for name in ("ground truth", "Remove"):
            assert (table.loc[reading, name].soundness == 1).all()
            assert len(table.loc[reading, name]) == len(LEVELS)
    assert (table.loc["features", "Introduce"].soundness < 1).all()
    assert (table.loc["features", "Introduce"].true < 0.5).all()


def test_completeness_is_in_the_order_of_the_theory_where_nothing_argues_against_the_label(outcome):
    table = outcome.tables["completeness"]
    wide = table.pivot_table(
        index=["reading", "threshold"], columns="attribution", values="difference"
    )
    for reading in ("shifts", "silent"):
        here = wide.loc[reading]
        assert (here["Remove"] <= here["ground truth"]).all()
        # One row of sixty may change its class by what is interpolated from other neighbors.
        assert (here["Introduce"] >= here["ground truth"] - 4 / 60).all()
    true = table.pivot_table(index=["reading", "threshold"], columns="attribution", values="true")
    assert (true["Remove"] <= true["ground truth"]).all()
    assert (true["Introduce"] >= true["ground truth"]).all()


def test_the_whole_of_algorithm_3_counts_what_the_first_step_adds(outcome):
    both = outcome.tables["sweeps"].set_index(["variant", "imputation", "indicator"])
    sweeps = both.loc["paper"]
    assert both.loc["released"].index.equals(sweeps.index)
    row = sweeps.loc["noisy linear", "accuracy"]
    rows = gaussian_rows(60, 200, 0)
    ranked = np.sort(rows.truth, axis=1)[:, ::-1]
    first = (ranked[:, :4].sum(1) / ranked.sum(1)).mean()
    assert row.first_step == 1
    assert row.all_steps == pytest.approx(first, abs=1e-12)
    assert row["at_0.2"] == row["at_0.8"] == 1
    assert sweeps.loc["zero", "probability"].first_step < 0.9


def test_tables_figures_and_run_are_whole(outcome):
    assert set(outcome.figures) == {"metrics", "strengths"}
    long = {"soundness", "completeness", "sweeps", "strengths"}
    assert set(outcome.tables) == {"figure-6a", "figure-6b"} | long
    for name, of, at in (("figure-6a", "soundness", 0.4), ("figure-6b", "completeness", 0.3)):
        wide, table = outcome.tables[name], outcome.tables[of]
        column = {"soundness": "level", "completeness": "threshold"}[of]
        value = {"soundness": "soundness", "completeness": "difference"}[of]
        points = table[(table[column] - at).abs() < 1e-9]
        assert wide[f"at {at}"].dropna().tolist() == points[value].tolist()
        assert wide[f"true {at}"].dropna().tolist() == points.true.tolist()
    assert set(outcome.shown) <= set(outcome.tables)
    assert 1.5 in set(outcome.tables["strengths"].strength)


def test_findings_follow_the_tables(outcome):
    counts = {"features": 2, "shifts": 2, "silent": 1}
    said = " ".join(outcome.findings)
    assert "exactly 1 at every level" in said
    assert "Nowhere does Remove outperform" in said
    tables = {name: table.copy() for name, table in outcome.tables.items()}
    sound = tables["soundness"]
    sound.loc[sound.attribution == "Remove", "soundness"] = 0.9
    complete = tables["completeness"]
    complete.loc[complete.attribution == "Remove", "difference"] = 1.3
    graded = {1.0: 1.0, 2.0: 0.5, 3.0: 1.0}  # blind, then graded, and blind again by chance
    tables["strengths"] = pd.DataFrame(
        {"strength": strength, "level": level, "soundness": soundness, "true": soundness - 0.25}
        for strength, soundness in graded.items()
        for level in LEVELS
    )
    changed = " ".join(gaussian_findings.findings_of(tables, HOW, counts))
    assert "at least 1.000 and 0.900" in changed
    assert "Remove outperforms the truth by up to" in changed
    assert "Up to a strength of 1 Algorithm 1 gives Introduce 1" in changed
    assert "the true ratio falls to 0.75" in changed
    assert "below 1 at all four levels at 2: introduced" in changed


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"trials": 0}, "trials is 0: take an integer"),
        ({"share": 1.5}, "share is 1.5: take a number of at least 0 and of at most 1"),
        ({"strength": 0}, "strength is 0: take a number above 0"),
    ],
)
def test_impossible_settings_are_refused(settings, problem):
    with pytest.raises(al.AttributionLabError, match=problem):
        soco_figure_6(n=10, quick=True, **settings)
