"""Estimated ratios beside true ones: both counted again by hand, from colors and not from networks."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch

import attributionlab as al
from attributionlab.experiments.soco import truth_findings as told
from attributionlab.experiments.soco.truth import soundness_truth
from attributionlab.experiments.soco.truth_assumption import (
    assumption_row,
    compared_pairs,
    counterexample_rows,
    kept_sets,
    theorem_row,
)
from attributionlab.experiments.soco.truth_conditions import (
    INDICATORS,
    REFERENCE,
    SEEN,
    Condition,
    Place,
    conditions_of,
)
from attributionlab.experiments.soco.truth_panel import panel_of, scaled
from attributionlab.experiments.soco.truth_ratios import (
    LEVELS,
    MIDDLE,
    THRESHOLDS,
    Ends,
    ends_of,
    ratio_rows,
    schedule,
    soundness_rows,
)
from attributionlab.experiments.soco.truth_summaries import (
    agreement_table,
    error_table,
    rank_agreement,
)

LINEAR = Condition("multi-color-sum", 1.0, "noisy-linear")
CLEAN_LINEAR = Condition("multi-color-sum", 0.0, "noisy-linear")


@pytest.fixture(scope="module")
def place():
    """Three small images with a few attributions."""
    env = al.load("multi-color-sum", image_size=16)
    return Place(panel_of(env, 3, 0, THRESHOLDS[:-1], quick=True), 0)


def entry_of(place, name):
    [entry] = [each for each in place.panel.entries if each.name == name]
    return entry


def counts_of(place, keep):
    """Pixels of each color that are kept, (B, K): removed ones, at the baseline, count for none."""
    panel = place.panel
    classes = panel.env.counting.classes_of(panel.images)
    return torch.stack([((classes == c) & keep).sum((1, 2, 3)) for c in range(4)], 1).double()


def performances(place, keep, indicator):
    """By formulas, with removed pixels at the true baseline; one for each image."""
    counts = counts_of(place, keep)
    label = counts.gather(1, place.panel.targets[:, None])[:, 0]
    if indicator == "accuracy":
        winners = counts == counts.amax(1, keepdim=True)
        return winners.gather(1, place.panel.targets[:, None])[:, 0].double() / winners.sum(1)
    if indicator == "label probability":
        odds = torch.exp(counts / place.env.temperature)
        return torch.exp(label / place.env.temperature) / odds.sum(1)
    every = counts_of(place, torch.ones_like(keep)).gather(1, place.panel.targets[:, None])
    return label / every.mean()


def naive_soundness(place, maps, indicator, level, step, epsilon):
    """Algorithm 1 as printed, from the empty set: estimate, truth of the same pixels, masked share."""
    images, pixels = maps.shape[0], maps[0].numel()
    flat, phi = maps.flatten(1).numpy(), place.panel.information.flatten(1).numpy()
    order = [sorted(range(pixels), key=lambda j: (-row[j], j)) for row in flat]
    order = [[j for j in o if row[j] > 0] for o, row in zip(order, flat, strict=True)]
    included = [set() for _ in range(images)]
    wrong = [set() for _ in range(images)]
    s, percent = 0.0, 0.0
    while s < level:
        percent += step if percent < 30 else 5
        if percent > 100:
            return None
        count = pixels - round((1 - percent / 100) * pixels)
        new = [set(o[:count]) - inc for o, inc in zip(order, included, strict=True)]
        included = [inc | each for inc, each in zip(included, new, strict=True)]
        keep = torch.zeros(images, pixels, dtype=torch.bool)
        for image, each in enumerate(included):
            keep[image, list(each)] = True
        reached = float(performances(place, keep.view(maps.shape), indicator).mean())
        if reached - s < epsilon:
            wrong = [w | each for w, each in zip(wrong, new, strict=True)]
        s = reached
    estimates, truths = [], []
    for image, (inc, bad) in enumerate(zip(included, wrong, strict=True)):
        total = sum(flat[image][j] for j in inc)
        if total:
            estimates.append(sum(flat[image][j] for j in inc - bad) / total)
            truths.append(sum(flat[image][j] for j in inc if phi[image][j] > 0) / total)
    return np.mean(estimates), np.mean(truths), 1 - percent / 100


def test_information_is_one_value_on_the_pixels_of_the_label_and_0_elsewhere(place):
    panel = place.panel
    of_label = panel.env.counting.classes_of(panel.images) == panel.targets[:, None, None, None]
    assert torch.equal(panel.information > 0, of_label)
    for image, target, phi in zip(panel.images, panel.targets, panel.information, strict=True):
        values = phi[phi > 0]
        assert float(values.max() / values.min()) == pytest.approx(1, abs=1e-9)
        logit = panel.env.shapley(image, int(target), "logit").clamp(min=0)
        # Proportional: the true ratios do not depend on the output.
        assert torch.allclose(phi / phi.sum(), logit / logit.sum(), rtol=1e-9, atol=0)


def test_the_exact_attribution_is_perfect_and_others_are_rated_by_the_definitions(place):
    assert entry_of(place, "exact").truths == {"soundness": 1, "completeness": 1, "f1": 1}
    entry, phi = entry_of(place, "random"), place.panel.information
    sound, complete = [], []
    for eta, of_image in zip(entry.maps, phi, strict=True):
        sound.append(float(eta[of_image > 0].sum() / eta.sum()))
        complete.append(
            np.mean([float(of_image[eta > t].sum() / of_image.sum()) for t in THRESHOLDS[:-1]])
        )
    assert entry.soundness == pytest.approx(np.mean(sound))
    assert entry.completeness == pytest.approx(np.mean(complete))
    assert {each.kind for each in place.panel.entries} == {"graded", "real"}


def test_of_a_map_the_positive_part_is_rated_on_a_scale_to_1():
    maps = torch.tensor([[[[-4.0, 2.0, 1.0]]], [[[-1.0, 0.0, -2.0]]]])
    assert scaled(maps).tolist() == [[[[0, 1, 0.5]]], [[[0, 0, 0]]]]


def test_the_schedule_has_fine_steps_first_and_ends_with_all_pixels():
    ratios = schedule(1.0)
    assert ratios[:2] == [0.99, 0.98]
    assert ratios[29:31] == pytest.approx([0.70, 0.65])
    assert ratios[-1] == 0
    assert len(schedule(0.25)) == 120 + 14


def test_a_level_is_a_share_of_the_way_from_nothing_to_all(place):
    assert ends_of(place, REFERENCE, "accuracy") == Ends(0.25, 1.0)
    assert ends_of(place, REFERENCE, "label logit") == Ends(0.0, 1.0)
    assert Ends(0.25, 1.0).level(0.6) == pytest.approx(0.7)


@pytest.mark.parametrize("indicator", INDICATORS["classification"])
@pytest.mark.parametrize("name", ["exact", "gradcam", "random", "specks 0.05"])
def test_soundness_is_that_of_algorithm_1_as_printed(place, indicator, name):
    entry = next(e for e in place.panel.entries if e.name.startswith(name.split(" 0")[0]))
    ends = ends_of(place, REFERENCE, indicator)
    for epsilon in (0.01, 0.05):
        for row in soundness_rows(
            place, REFERENCE, indicator, entry, ends, step=2.0, epsilon=epsilon
        ):
            level = ends.level(row["share"])
            expected = naive_soundness(place, entry.maps, indicator, level, 2.0, epsilon)
            assert row["reached"] == (expected is not None)
            if expected is not None:
                # Sums of at most 256 float64 numbers
                assert row["estimate"] == pytest.approx(expected[0], abs=1e-12)
                assert row["truth"] == pytest.approx(expected[1], abs=1e-12)
                assert row["ratio"] == pytest.approx(expected[2], abs=1e-12)
            else:
                assert math.isnan(row["estimate"])
                assert math.isnan(row["truth"])


@pytest.mark.parametrize("indicator", INDICATORS["classification"])
def test_completeness_is_what_is_lost_of_what_there_is_to_lose(place, indicator):
    entry = entry_of(place, "gradcam")
    rows = ratio_rows(place, REFERENCE, indicator, entry)["completeness"]
    everything = torch.ones_like(entry.maps, dtype=torch.bool)
    intact, nothing = (
        performances(place, kept, indicator).mean() for kept in (everything, ~everything)
    )
    phi = place.panel.information
    for row in rows:
        left = performances(place, entry.maps <= row["threshold"], indicator).mean()
        # The network's probabilities are float64 of exact logits; the formula's are, too.
        assert row["estimate"] == pytest.approx(
            float((intact - left) / (intact - nothing)), abs=1e-9
        )
        taken = (phi * (entry.maps > row["threshold"])).sum((1, 2, 3)) / phi.sum((1, 2, 3))
        assert row["truth"] == pytest.approx(float(taken.mean()))
    assert [row["threshold"] for row in rows] == list(THRESHOLDS)


def test_scores_are_higher_for_better_attributions(place):
    scores = {}
    for name in ("exact", "random"):
        rows = ratio_rows(place, REFERENCE, "label probability", entry_of(place, name))
        scores[name] = {row["metric"]: row["score"] for row in rows["scores"]}
        [middle] = [row["estimate"] for row in rows["soundness"] if row["share"] == MIDDLE]
        # NaN where the level is not reached
        assert scores[name]["soundness"] == pytest.approx(middle, nan_ok=True)
        losses = [row["estimate"] for row in rows["completeness"] if row["threshold"] > 0]
        assert scores[name]["completeness"] == pytest.approx(np.mean(losses))
    for metric in ("completeness", "removal, most first", "removal, least first"):
        assert scores["exact"][metric] > scores["random"][metric]


def test_nothing_is_imputed_and_no_network_asked_twice(place, monkeypatch):
    calls = []
    linear = al.imputation.noisy_linear
    monkeypatch.setattr(
        "attributionlab.experiments.soco.truth_conditions.noisy_linear",
        lambda *args, **settings: calls.append(1) or linear(*args, **settings),
    )
    place.forget()
    sets = kept_sets(place, 0)[:5]
    for imputation in ("noisy-linear", "rounded", "nearest-known-color"):
        for strength in (0.0, 1.0):
            condition = Condition("multi-color-sum", strength, imputation)
            for indicator in INDICATORS["classification"]:
                assumption_row(place, condition, indicator, sets)
    distinct = len({keep.numpy().tobytes() for keep in sets})
    assert len(calls) == distinct
    place.forget()
    assumption_row(place, LINEAR, "accuracy", sets)
    assert len(calls) == 2 * distinct


@pytest.mark.parametrize("imputation", SEEN)
def test_what_every_network_has_seen_is_answered_alike_by_all_strengths(place, imputation):
    sets = kept_sets(place, 0)[::5]
    weak, strong = (
        assumption_row(place, Condition("multi-color-sum", s, imputation), "label logit", sets)
        for s in (0.0, 4.0)
    )
    assert weak | {"strength": 4.0} == strong
    unseen = assumption_row(place, LINEAR._replace(strength=4.0), "label logit", sets)
    assert unseen["reversed"] > strong["reversed"]


def test_of_strength_0_no_channel_fires_on_unseen_colors(place):
    black = torch.zeros_like(place.panel.images)
    with torch.no_grad():
        logits = {strength: place.network(strength)(black) for strength in (0.0, 1.0, 4.0)}
    assert not logits[0.0].any()
    assert logits[4.0].max() > logits[1.0].max() > 0


def test_conditions_are_distinct_and_a_quick_run_has_some_of_them():
    every = conditions_of(False)
    assert len(set(every)) == len(every)
    assert set(conditions_of(True)) < set(every)
    assert {REFERENCE, LINEAR, CLEAN_LINEAR} <= set(conditions_of(True))


def test_the_single_color_environment_is_asked_for_its_count():
    env = al.load("color-detector", image_size=16)
    place = Place(panel_of(env, 2, 0, (0.5,), quick=True), 0)
    condition = Condition("color-detector", 0.0, "true-baseline")
    row = assumption_row(place, condition, "label logit", kept_sets(place, 0))
    assert row["differ"] > 0
    assert (row["reversed"], row["no_more"], row["hidden"]) == (0, 0, 0)
    assert list(counterexample_rows(place, condition, "label logit")) == []


def naive_pairs(performance, information):
    found = np.zeros(6, dtype=int)
    for p, phi in zip(performance.T.tolist(), information.T.tolist(), strict=True):
        for i, j in combinations(range(len(p)), 2):
            worse, better = (i, j) if p[i] <= p[j] else (j, i)
            found[0] += 1
            if p[worse] < p[better]:
                found[1] += 1
                found[2] += phi[better] < phi[worse]
                found[3] += phi[better] == phi[worse]
            else:
                found[4] += 1
                found[5] += phi[better] != phi[worse]
    return tuple(found.tolist())


def test_pairs_are_counted_one_by_one():
    generator = torch.Generator().manual_seed(0)
    performance, information = (
        torch.randint(0, 4, (9, 3), generator=generator).double() for _ in range(2)
    )
    assert tuple(compared_pairs(performance, information)) == naive_pairs(performance, information)


def test_rounding_makes_no_order():
    performance = torch.tensor([[1.0], [1.0 + 1e-13]]).double()
    assert compared_pairs(performance, torch.tensor([[0.0], [1.0]]).double()).hidden == 1


def test_kept_sets_are_a_function_of_the_seed_and_end_with_everything(place):
    first, again, other = kept_sets(place, 0), kept_sets(place, 0), kept_sets(place, 1)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    assert first[-1].all()
    assert not any(each.all() for each in first[:-1])
    assert {tuple(each.shape) for each in first} == {(3, 1, 16, 16)}


@pytest.mark.parametrize("indicator", INDICATORS["classification"])
def test_the_assumption_is_tested_on_what_is_kept(place, indicator):
    sets = kept_sets(place, 0)
    row = assumption_row(place, REFERENCE, indicator, sets)
    performance = torch.stack([performances(place, keep, indicator) for keep in sets])
    phi = place.panel.information
    # In pixels of the label, so that equal information is equal exactly
    information = torch.stack([((phi > 0) & keep).sum((1, 2, 3)) for keep in sets]).double()
    expected = naive_pairs(performance.mul(1e9).round(), information)
    names = ("pairs", "differ", "reversed", "no_more", "ties", "hidden")
    assert tuple(row[name] for name in names) == expected
    assert row["reversed_share"] == row["reversed"] / row["differ"]
    assert row["hidden_share"] == row["hidden"] / row["ties"]


def test_by_the_logit_the_assumption_holds_and_by_accuracy_it_does_not(place):
    sets = kept_sets(place, 0)
    logit = assumption_row(place, REFERENCE, "label logit", sets)
    assert (logit["reversed"], logit["no_more"], logit["hidden"]) == (0, 0, 0)
    accuracy = assumption_row(place, REFERENCE, "accuracy", sets)
    assert min(accuracy["reversed"], accuracy["no_more"], accuracy["hidden"]) > 0


def test_the_smallest_counterexamples_of_accuracy_are_these_three(place):
    rows = {row["kind"]: row for row in counterexample_rows(place, REFERENCE, "accuracy")}
    assert {kind: (row["worse"], row["better"]) for kind, row in rows.items()} == {
        "no more": ("1 rival", "nothing"),  # a wrong answer against a tie of four
        "reversed": ("1 label + 2 rival", "nothing"),
        "hidden": ("1 label", "2 label"),
    }
    assert rows["reversed"]["performance_of_worse"] == 0
    assert rows["reversed"]["performance_of_better"] == 0.25
    assert rows["reversed"]["information_of_worse"] == 1
    assert not list(counterexample_rows(place, REFERENCE, "label logit"))


def test_the_theorem_gives_the_truth_only_where_performance_is_information(place):
    rows = {name: theorem_row(place, REFERENCE, name) for name in INDICATORS["classification"]}
    assert {row["truth"] for row in rows.values()} == {3 / 7}
    # A tie of three against three is as good as one of one against one.
    assert rows["accuracy"]["theorem"] == 2 / 7
    # Removing pixels of the rival raises the probability: none can go but the background's.
    assert rows["label probability"]["theorem"] == 6 / 7
    assert rows["label logit"]["theorem"] == 3 / 7
    assert rows["label logit"]["minimizer"] == "3 label"


def test_errors_are_summed_up_by_condition():
    rows = pd.DataFrame(
        {
            "indicator": ["accuracy"] * 4,
            "attribution": list("abcd"),
            "estimate": [1.0, 0.5, 0.6, math.nan],
            "truth": [0.5, 0.75, 0.8, math.nan],
            "truth_of_all": [0.9, 0.2, 0.5, 0.4],
            "reached": [True, True, True, False],
            "jumped": [True, False, False, False],
        }
    )
    [row] = error_table(rows, ["indicator"]).to_dict("records")
    assert row["attributions"] == 4
    assert row["reached"] == 3 / 4
    assert row["jumped"] == pytest.approx(1 / 3)
    assert row["bias"] == pytest.approx((0.5 - 0.25 - 0.2) / 3)
    assert row["error"] == pytest.approx((0.5 + 0.25 + 0.2) / 3)
    assert row["rank"] == pytest.approx(-0.5)
    assert row["rank_of_all"] == 1


def test_rankings_of_fewer_than_half_of_the_attributions_are_none():
    nan = math.nan
    assert rank_agreement([1.0, 2.0, nan, nan], [1.0, 2.0, 3.0, 4.0]).value == 1
    assert math.isnan(rank_agreement([1.0, 2.0, nan, nan, nan], [1.0, 2.0, 3.0, 4.0, 5.0]).value)


def test_what_differs_by_rounding_is_tied():
    assert math.isnan(rank_agreement([1.0, 1.0 - 1e-15, 1.0], [0.1, 0.2, 0.3]).value)


def test_metrics_are_held_against_each_true_quality():
    scores = pd.DataFrame(
        {
            **REFERENCE._asdict(),
            "indicator": "accuracy",
            "metric": ["soundness"] * 3,
            "score": [0.1, 0.2, 0.3],
            "soundness": [0.1, 0.5, 0.9],
            "completeness": [0.9, 0.5, 0.1],
            "f1": [0.1, 0.9, 0.5],
        }
    )
    table = agreement_table(scores).set_index("truth")
    assert table["rank"].to_dict() == pytest.approx({"soundness": 1, "completeness": -1, "f1": 0.5})
    assert set(table.ranked) == {3}


def assumption_table(reversed_, no_more):
    found = [reversed_, no_more]
    return pd.DataFrame(
        {
            **REFERENCE._asdict(),
            "indicator": ["accuracy", "label logit"],
            "pairs": 10,
            "reversed": [found[0], 0],
            "no_more": [found[1], 0],
            "reversed_share": [found[0] / 10, 0.0],
            "no_more_share": [found[1] / 10, 0.0],
            "hidden_share": 0.5,
        }
    )


def test_whether_the_assumption_holds_is_told_from_the_table():
    first, second = told._assumption(assumption_table(2, 1))
    assert "It holds for the label logit" in first
    assert "It fails for accuracy" in first
    assert "no pair in 1, and for 30% at worst" in second
    first, _ = told._assumption(assumption_table(0, 0))
    assert "It holds for the accuracy and the label logit" in first
    assert "It fails" not in first


def test_whether_estimates_are_too_high_is_told_from_the_table():
    high, mixed = (pd.DataFrame({"bias": biases}) for biases in ([0.1, 0.2], [0.1, -0.2]))
    assert told._why_biased(high).startswith("Estimates are too high")
    assert "not too high" in told._why_biased(mixed)


@pytest.mark.slow
def test_a_quick_run_has_every_table_and_says_what_is_in_it():
    outcome = soundness_truth(n=2, quick=True)
    tables = outcome.tables
    assert outcome.item == "soundness-truth"
    assert set(outcome.figures) == {"ratios", "ranks-accuracy", "ranks-label-probability"}
    assert outcome.shown.keys() <= tables.keys()
    conditions = {tuple(row) for row in tables["soundness"].iloc[:, :3].to_numpy()}
    assert conditions == {tuple(each) for each in conditions_of(True)}
    assert set(tables["levels"].share) == set(LEVELS)
    reference = tables["completeness"].query(
        "imputation == 'true-baseline' and indicator == 'label logit'"
    )
    assert reference["rank"].item() > 0.9
    text = " ".join(outcome.findings)
    assert "nan" not in text
    assert "{" not in text
