"""Rows of Gaussian features: the compiled loop, both algorithms, trials and claims, by definitions."""

from functools import partial
from itertools import permutations

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.metrics import THRESHOLDS
from attributionlab.papers import reproduce
from attributionlab.papers.catalog import CLAIMS
from attributionlab.papers.soco import gaussian
from attributionlab.papers.soco.gaussian import (
    INTRODUCE,
    LEVELS,
    NOISE,
    RATIOS,
    REMOVE,
    TRUTH,
    completeness_of,
    gaussian_rows,
    modified_truth,
    soundness_of,
    trial_rows,
)

modify = partial(modified_truth, share=0.5, strength=1.5)


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
    found = gaussian._compiled_sums()(rows.features, rows.noise_sums, rows.weights, keep)
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
    found = {each["level"]: each for each in soundness_of(rows, maps, levels)}
    expected = {level: sweep.at(level) for level in levels}
    assert set(found) == {level for level, each in expected.items() if each.reached}
    assert 2 < len(found) < len(levels)
    for level, each in found.items():
        wanted = expected[level]
        assert (each["ratio"], each["performance"], each["jumped"]) == (
            *(wanted.ratio, wanted.performance, wanted.jumped),
        )
        assert each["soundness"] == pytest.approx(wanted.soundness, abs=1e-12)
        kept = al.metrics.included_pixels(as_images(maps), each["ratio"], expansion="attributed")
        for true, information in (
            (each["true"], rows.truth),
            (each["true_of_all"], abs(rows.contributions)),
        ):
            ratio = al.metrics.true_soundness(
                as_images(maps), as_images(information), included=kept
            )
            assert true == pytest.approx(float(ratio.nanmean()), abs=1e-12)
    assert len({each["soundness"] for each in found.values()}) > 1


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
    assert [each["threshold"] for each in found] == list(thresholds)
    assert [each["difference"] for each in found] == curve.differences.tolist()
    for each in found:
        for true, information in (
            (each["true"], rows.truth),
            (each["true_of_all"], abs(rows.contributions)),
        ):
            ratio = al.metrics.true_completeness(
                as_images(maps), as_images(information), threshold=each["threshold"]
            )
            assert true == pytest.approx(float(ratio.mean()), abs=1e-12)


def test_remove_empties_a_share_of_the_attributed_features_and_introduce_gives_to_the_others():
    rows = gaussian_rows(200, 50, 0, silent=0.5)
    attributed = rows.truth > 0

    def changed_by(reading, direction):
        return modified_truth(rows, reading, direction, 0.3, 2.0, np.random.default_rng(0))

    for reading in ("features", "silent"):
        removed = changed_by(reading, "remove")
        assert ((removed == rows.truth) | (removed == 0)).all()
        # Of about 2,500 features: a standard error of 0.9 %, five of which are allowed
        assert (removed[attributed] == 0).mean() == pytest.approx(0.3, abs=0.046)
    introduced = changed_by("features", "introduce")
    changed = introduced != rows.truth
    assert not changed[attributed].any()
    assert changed[~attributed].mean() == pytest.approx(0.3, abs=0.027)
    assert 1.98 < introduced[changed].max() <= 2.0
    changed = changed_by("silent", "introduce") != rows.truth
    assert changed[:, rows.weights == 0].mean() == pytest.approx(0.3, abs=0.033)
    assert not changed[:, rows.weights == 1].any()


def test_random_shifts_go_one_way_within_the_unit_interval(rows):
    removed, introduced = (
        modify(rows, "shifts", direction, generator=np.random.default_rng(0))
        for direction in ("remove", "introduce")
    )
    assert (removed <= rows.truth).all()
    assert (introduced >= rows.truth).all()
    assert removed.min() == 0
    assert introduced.max() == 1
    assert (introduced - rows.truth).max() <= 0.6 + 1e-12


def test_a_trial_repeats_itself_and_only_the_first_has_the_unmodified_truth(rows):
    def of_trial(seed, trial):
        return list(trial_rows(rows, "features", 0.5, 1.5, seed, trial))

    first, again, other, reseeded = (of_trial(*each) for each in ((0, 1), (0, 1), (0, 2), (1, 1)))
    assert first == again
    measured, *others = (
        [row["difference"] for table, row in each if table == "completeness"]
        for each in (first, other, reseeded)
    )
    assert all(each != measured for each in others)
    assert {row["attribution"] for _, row in first} == {REMOVE, INTRODUCE}
    assert {row["attribution"] for _, row in of_trial(0, 0)} == {TRUTH, REMOVE, INTRODUCE}
    counted = [table for table, row in first if row["attribution"] == REMOVE]
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
    assert table.trials.to_dict() == {TRUTH: 1, REMOVE: 2, INTRODUCE: 1}
    assert table.reached.to_dict() == {"ground truth": 1, "Remove": 1, "Introduce": 0.5}
    assert table.soundness["Remove"] == pytest.approx(0.6)
    assert table.sd["Remove"] == pytest.approx(0.2 / np.sqrt(2))


@pytest.fixture(scope="module")
def outcome():
    return reproduce("soco-figure-6", n=60, quick=True, settings={"trials": 2})


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


def test_the_wide_tables_hold_the_numbers_of_the_long_ones(outcome):
    for name, of, at in (("figure-6a", "soundness", 0.4), ("figure-6b", "completeness", 0.3)):
        wide, table = outcome.tables[name], outcome.tables[of]
        column = {"soundness": "level", "completeness": "threshold"}[of]
        value = {"soundness": "soundness", "completeness": "difference"}[of]
        points = table[(table[column] - at).abs() < 1e-9]
        assert wide[f"at {at}"].dropna().tolist() == points[value].tolist()
        assert wide[f"true {at}"].dropna().tolist() == points.true.tolist()
    assert set(outcome.item.tables) <= set(outcome.tables)
    assert set(outcome.figures) == {"soundness", "completeness", "strengths"}
    assert 1.5 in set(outcome.tables["strengths"].strength)


def test_the_order_counts_thresholds_of_completeness_beside_the_truth(outcome):
    keys = ["reading", "attribution"]
    table = outcome.tables["completeness"].set_index(keys).sort_index(kind="stable")
    for row in outcome.tables["order"].itertuples():
        truth = table.loc[(row.reading, TRUTH)].difference.to_numpy()
        gaps = table.loc[(row.reading, row.attribution)].difference.to_numpy() - truth
        assert row.below == (gaps < -0.01).sum()
        assert row.above == (gaps > 0.01).sum()
        assert row.below + row.equal + row.above == len(THRESHOLDS)
        assert (row.least_gap, row.largest_gap) == (gaps.min(), gaps.max())


def answers(tables):
    """Whether each claim holds, by the name of its function."""
    return {
        each.check.__name__: each.holds(tables) for each in CLAIMS if "soco-figure-6" in each.items
    }


def changed(tables, name, where, **values):
    """Tables of which one has other values in some rows."""
    table = tables[name].copy()
    table.loc[table.eval(where), list(values)] = list(values.values())
    return {**tables, name: table}


def test_what_the_paper_says_agrees_but_for_remove(outcome):
    found = answers(outcome.tables)
    assert found["truth_and_remove_are_sound"] == "agrees"
    assert found["introduce_is_less_sound"] == "agrees"
    assert found["introduce_is_less_complete"] == "agrees"
    assert found["remove_is_more_complete"] == "differs"
    assert "undecided" not in found.values()


@pytest.mark.parametrize(
    ("name", "table", "where", "agreeing", "differing"),
    [
        (
            *("truth_and_remove_are_sound", "soundness", "attribution == 'Remove'"),
            *({"soundness": 1.0}, {"soundness": 0.9}),
        ),
        (
            *("introduce_is_less_sound", "soundness", "attribution == 'Introduce'"),
            *({"soundness": 0.9}, {"soundness": 1.0}),
        ),
        (
            *("remove_is_more_complete", "order", "attribution == 'Remove'"),
            *({"above": 3}, {"above": 0}),
        ),
        (
            *("introduce_is_less_complete", "order", "attribution == 'Introduce'"),
            *({"below": 3, "above": 0}, {"below": 3, "above": 1}),
        ),
        (
            *("order_is_that_of_the_definition", "order", "reading != 'features'"),
            *({"below": 0, "above": 0}, {"below": 1, "above": 0}),
        ),
        (
            *("weak_introduce_is_not_seen", "strengths", "strength <= 0.75"),
            *({"soundness": 1.0, "true": 0.8}, {"soundness": 1.0, "true": 1.0}),
        ),
        (
            *("truth_jumps_over_levels", "soundness", "attribution == 'ground truth'"),
            *({"jumped": 1.0, "ratio": 0.98}, {"jumped": 0.0, "ratio": 0.98}),
        ),
        (
            *("whole_sweep_calls_the_truth_false", "sweeps", "indicator == 'accuracy'"),
            *({"all_steps": 0.1}, {"all_steps": 0.9}),
        ),
        (
            *("probability_needs_zeros", "sweeps", "imputation == 'zero'"),
            *({"first_step": 0.7, "highest": 0.9}, {"first_step": 1.0, "highest": 1.0}),
        ),
        (
            *("released_code_agrees_at_levels", "sweeps", "variant == 'released'"),
            *({"at_0.2": 1.0}, {"at_0.2": 0.9}),
        ),
        (
            *("chance_counts_as_sound", "soundness", "attribution == 'Introduce'"),
            *({"soundness": 1.0, "true": 0.0}, {"soundness": 0.0, "true": 0.0}),
        ),
    ],
)
def test_each_claim_follows_its_table(outcome, name, table, where, agreeing, differing):
    for values, expected in ((agreeing, "agrees"), (differing, "differs")):
        assert answers(changed(outcome.tables, table, where, **values))[name] == expected


def test_levels_that_no_trial_reached_decide_nothing(outcome):
    table = outcome.tables["soundness"].query("attribution != 'Introduce'")
    weak = outcome.tables["strengths"].query("strength > 0.75")
    found = answers({**outcome.tables, "soundness": table, "strengths": weak})
    assert found["introduce_is_less_sound"] == "undecided"
    assert found["chance_counts_as_sound"] == "undecided"
    assert found["weak_introduce_is_not_seen"] == "undecided"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"trials": 0}, "trials is 0: take an integer"),
        ({"share": 1.5}, "share is 1.5: take a number of at least 0 and of at most 1"),
        ({"strength": 0}, "strength is 0: take a number above 0"),
    ],
)
def test_impossible_settings_are_refused_before_anything_runs(settings, problem, monkeypatch):
    monkeypatch.delattr(gaussian, "gaussian_rows")
    with pytest.raises(al.AttributionLabError, match=problem):
        reproduce("soco-figure-6", n=10, quick=True, settings=settings)
