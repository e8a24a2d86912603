"""Rows of Gaussian features: both algorithms, trials and claims, by definitions."""

from functools import partial
from itertools import permutations

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.metrics import THRESHOLDS
from attributionlab.papers import reproduce
from attributionlab.papers.soco import gaussian
from claims_held import all_hold, cases, follows

ITEM = "soco-figure-6"
modify = partial(gaussian.modified_truth, share=0.5, strength=1.5)


@pytest.fixture(scope="module")
def rows():
    return gaussian.gaussian_rows(40, 30, 0, silent=0.2)


@pytest.fixture(scope="module")
def maps(rows):
    """Maps that are wrong at first: with zeros, ties, values above 1, and a row without attribution."""
    generator = np.random.default_rng(1)
    maps = np.where(generator.random(rows.truth.shape) < 0.4, generator.random(rows.truth.shape), 0)
    maps = np.where(generator.random(maps.shape) < 0.3, 0.5, maps)
    maps += 0.8 * (rows.contributions < -1) + 0.3 * (rows.contributions > 1)
    maps[3] = 0
    return maps


def test_the_truth_is_the_positive_part_of_shapley_values_for_the_label():
    rows = gaussian.gaussian_rows(5, 4, 0)
    for x, truth in zip(rows.features, rows.truth, strict=True):
        shapley, sign = np.zeros(4), np.sign(x.sum())
        for order in permutations(range(4)):
            present = np.zeros(4)
            for j in order:
                before = present.sum()
                present[j] = x[j]
                shapley[j] += sign * (present.sum() - before) / 24
        positive = np.maximum(shapley, 0)
        assert np.allclose(truth, positive / positive.max(), atol=1e-12)


def test_the_model_is_right_on_every_intact_row_and_reads_no_silent_feature(rows):
    model, images, targets, _ = rows.given(rows.truth)
    assert (model(images).argmax(1) == targets).all()
    assert (rows.weights == 0).sum() == 6
    changed = images.clone()
    changed[..., torch.from_numpy(rows.weights == 0)] = 5
    assert torch.equal(model(changed), model(images))


def test_removed_features_are_interpolated_and_get_the_noise_of_their_place(rows):
    keep = torch.rand(40, 1, 1, 30, generator=torch.Generator().manual_seed(0)) < 0.3
    keep[..., 0] = True
    images = gaussian.as_images(rows.features)
    found = rows.imputation(images, keep)
    assert torch.equal(found[keep], images[keep])
    line = al.imputation.noisy_linear_1d(images[:, 0, 0], keep[:, 0, 0], noise=0)
    expected = line.numpy() + rows.noise
    assert np.array_equal(found[~keep], expected[:, None, None][~keep.numpy()])


def test_noise_has_the_stated_deviation():
    rows = gaussian.gaussian_rows(200, 50, 0)
    # Of 10,000 numbers: a relative standard error of 0.7 %, five of which are allowed
    assert rows.noise.std() == pytest.approx(gaussian.NOISE, rel=0.035)


def test_levels_are_those_of_the_whole_schedule_beside_what_is_true_there(rows, maps, monkeypatch):
    monkeypatch.setattr(gaussian, "LEVELS", (0.2, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99))
    given = rows.given(maps)
    sweep = al.metrics.soundness_sweep(
        *given, ratios=gaussian.RATIOS, expansion="attributed", **rows.setup | {"batch_size": 7}
    )
    found = {each["level"]: each for each in gaussian.soundness_of(rows, maps)}
    assert 2 < len(found) < 7
    assert set(found) == {level for level in gaussian.LEVELS if sweep.at(level).reached}
    size = maps.shape[1]
    for level, each in found.items():
        wanted = sweep.at(level)
        assert (each["ratio"], each["performance"]) == (wanted.ratio, wanted.performance)
        assert (each["jumped"], each["soundness"]) == (wanted.jumped, wanted.soundness)
        shares = {"true": [], "true_of_all": []}
        for of_row, truth in zip(maps, rows.truth, strict=True):
            order = [j for j in np.argsort(-of_row, kind="stable") if of_row[j] > 0]
            kept = order[: size - round(each["ratio"] * size)]
            for name, predictive in (("true", truth > 0), ("true_of_all", rows.weights > 0)):
                if kept:
                    shares[name].append(of_row[kept] @ predictive[kept] / of_row[kept].sum())
        for name, values in shares.items():
            assert each[name] == pytest.approx(np.mean(values), abs=1e-12)


def test_thresholds_have_the_accuracy_lost_beside_the_share_of_information(rows, maps):
    given = rows.given(maps)
    curve = al.metrics.completeness_curve(*given, thresholds=THRESHOLDS, **rows.setup)
    found = list(gaussian.completeness_of(rows, maps))
    assert [each["threshold"] for each in found] == list(THRESHOLDS)
    assert [each["difference"] for each in found] == curve.differences.tolist()
    for each in found:
        removed = maps > each["threshold"]
        for name, phi in (("true", rows.truth), ("true_of_all", abs(rows.contributions))):
            shares = (phi * removed).sum(1) / phi.sum(1)
            assert each[name] == pytest.approx(shares.mean(), abs=1e-12)


def test_remove_empties_a_share_of_the_attributed_features_and_introduce_gives_to_the_others():
    rows = gaussian.gaussian_rows(200, 50, 0, silent=0.5)
    attributed = rows.truth > 0

    def changed_by(reading, direction):
        return gaussian.modified_truth(rows, reading, direction, 0.3, 2.0, np.random.default_rng(0))

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
        return list(gaussian.trial_rows(rows, "features", 0.5, 1.5, seed, trial))

    first, again, other, reseeded = (of_trial(*each) for each in ((0, 1), (0, 1), (0, 2), (1, 1)))
    assert first == again
    measured, *others = (
        [row["difference"] for table, row in each if table == "completeness"]
        for each in (first, other, reseeded)
    )
    assert all(each != measured for each in others)
    assert {row["attribution"] for _, row in first} == {gaussian.REMOVE, gaussian.INTRODUCE}
    assert {row["attribution"] for _, row in of_trial(0, 0)} == {
        gaussian.TRUTH,
        gaussian.REMOVE,
        gaussian.INTRODUCE,
    }
    counted = [table for table, row in first if row["attribution"] == gaussian.REMOVE]
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
    assert table.trials.to_dict() == {gaussian.TRUTH: 1, gaussian.REMOVE: 2, gaussian.INTRODUCE: 1}
    assert table.reached.to_dict() == {"ground truth": 1, "Remove": 1, "Introduce": 0.5}
    assert table.soundness["Remove"] == pytest.approx(0.6)
    assert table.sd["Remove"] == pytest.approx(0.2 / np.sqrt(2))


@pytest.fixture(scope="module")
def outcome():
    return reproduce(ITEM, n=60, quick=True, settings={"trials": 2})


def test_truth_and_remove_are_sound_and_introduce_is_not(outcome):
    table = outcome.tables["soundness"].set_index(["reading", "attribution"]).sort_index()
    for reading in ("features", "shifts"):
        for name in ("ground truth", "Remove"):
            assert (table.loc[reading, name].soundness == 1).all()
            assert len(table.loc[reading, name]) == len(gaussian.LEVELS)
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
    rows = gaussian.gaussian_rows(60, 200, 0)
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
        truth = table.loc[(row.reading, gaussian.TRUTH)].difference.to_numpy()
        gaps = table.loc[(row.reading, row.attribution)].difference.to_numpy() - truth
        assert row.below == (gaps < -0.01).sum()
        assert row.above == (gaps > 0.01).sum()
        assert row.below + row.equal + row.above == len(THRESHOLDS)
        assert (row.least_gap, row.largest_gap) == (gaps.min(), gaps.max())


def test_what_the_paper_says_agrees_but_for_remove(outcome):
    found = all_hold(outcome.tables, ITEM)
    assert found["truth_and_remove_are_sound"] == "agrees"
    assert found["introduce_is_less_sound"] == "agrees"
    assert found["introduce_is_less_complete"] == "agrees"
    assert found["remove_is_more_complete"] == "differs"
    assert "undecided" not in found.values()


@cases(
    """
    truth_and_remove_are_sound | soundness | attribution == 'Remove' | soundness=1.0 | agrees
    | soundness | attribution == 'Remove' | soundness=0.9 | differs
    introduce_is_less_sound | soundness | attribution == 'Introduce' | soundness=0.9 | agrees
    | soundness | attribution == 'Introduce' | soundness=1.0 | differs
    remove_is_more_complete | order | attribution == 'Remove' | above=3 | agrees
    | order | attribution == 'Remove' | above=0 | differs
    introduce_is_less_complete | order | attribution == 'Introduce' | below=3, above=0 | agrees
    | order | attribution == 'Introduce' | below=3, above=1 | differs
    order_is_that_of_the_definition | order | reading != 'features' | below=0, above=0 | agrees
    | order | reading != 'features' | below=1, above=0 | differs
    weak_introduce_is_not_seen | strengths | strength <= 0.75 | soundness=1.0, true=0.8 | agrees
    | strengths | strength <= 0.75 | soundness=1.0, true=1.0 | differs
    truth_jumps_over_levels | soundness | attribution == "ground truth" | jumped=1.0 | agrees
    | soundness | attribution == "ground truth" | jumped=0.0 | differs
    whole_sweep_calls_the_truth_false | sweeps | indicator == 'accuracy' | all_steps=0.1 | agrees
    | sweeps | indicator == 'accuracy' | all_steps=0.9 | differs
    probability_needs_zeros | sweeps | imputation == 'zero' | first_step=0.7, highest=0.9 | agrees
    | sweeps | imputation == 'zero' | first_step=1.0, highest=1.0 | differs
    released_code_agrees_at_levels | sweeps | variant == 'released' | at_0.2=1.0 | agrees
    | sweeps | variant == 'released' | at_0.2=0.9 | differs
    chance_counts_as_sound | soundness | attribution == 'Introduce' | soundness=1.0, true=0.0 | agrees
    | soundness | attribution == 'Introduce' | soundness=0.0, true=0.0 | differs
    """
)
def test_each_claim_follows_its_table(outcome, name, table, where, values, answer):
    follows(outcome.tables, name, table, where, values, answer)


def test_levels_that_no_trial_reached_decide_nothing(outcome):
    table = outcome.tables["soundness"].query("attribution != 'Introduce'")
    weak = outcome.tables["strengths"].query("strength > 0.75")
    found = all_hold({**outcome.tables, "soundness": table, "strengths": weak}, ITEM)
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
        reproduce(ITEM, n=10, quick=True, settings=settings)
