"""Estimated ratios beside true ones: both counted again by hand, from colors and not from networks."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.integrate import trapezoid

import attributionlab as al
from attributionlab.papers import reproduce
from attributionlab.papers.catalog import CLAIMS
from attributionlab.papers.soco import ratios as rated
from attributionlab.papers.soco import truth as module


@pytest.fixture(scope="module")
def place():
    """Three small images with a few attributions."""
    env = al.load("multi-color-sum", image_size=16)
    return rated.Place(env, 3, 0, rated.THRESHOLDS[:-1], quick=True)


def entry_of(place, name):
    [entry] = [each for each in place.entries if each.name == name]
    return entry


def all_of(sets):
    return [keep for of_kind in sets.values() for keep in of_kind]


def assumption_row(place, condition, indicator, sets, of="image"):
    """Row of all sets."""
    rows = module.assumption_rows(rated.Case(place, condition, indicator), sets)
    [row] = [each for each in rows if (each["performance_of"], each["sets"]) == (of, "all")]
    return row


def counts_of(place, keep):
    """Pixels of each color that are kept, (B, K): removed ones, at the baseline, count for none."""
    classes = place.env.counting.classes_of(place.images)
    return torch.stack([((classes == c) & keep).sum((1, 2, 3)) for c in range(4)], 1).double()


def performances(place, keep, indicator):
    """By formulas, with removed pixels at the true baseline; one for each image."""
    counts = counts_of(place, keep)
    label = counts.gather(1, place.targets[:, None])[:, 0]
    if indicator == "accuracy":
        winners = counts == counts.amax(1, keepdim=True)
        return winners.gather(1, place.targets[:, None])[:, 0].double() / winners.sum(1)
    if indicator == "label probability":
        odds = torch.exp(counts / place.env.temperature)
        return torch.exp(label / place.env.temperature) / odds.sum(1)
    every = counts_of(place, torch.ones_like(keep)).gather(1, place.targets[:, None])
    return label / every.mean()


def naive_soundness(place, maps, indicator, level, step, epsilon):
    """Algorithm 1 as printed, from the empty set: estimate, truth of the same pixels, masked share.

    And the estimate if the first step is held against the performance on nothing.
    """
    images, pixels = maps.shape[0], maps[0].numel()
    flat, phi = maps.flatten(1).numpy(), place.information.flatten(1).numpy()
    order = [sorted(range(pixels), key=lambda j: (-row[j], j)) for row in flat]
    order = [[j for j in o if row[j] > 0] for o, row in zip(order, flat, strict=True)]
    included = [set() for _ in range(images)]
    wrong, wrong_from_nothing = ([set() for _ in range(images)] for _ in range(2))
    s, percent = 0.0, 0.0
    before = float(performances(place, torch.zeros(maps.shape) > 0, indicator).mean())
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
        if reached - before < epsilon:
            wrong_from_nothing = [w | each for w, each in zip(wrong_from_nothing, new, strict=True)]
        s = before = reached
    found = []
    for image, inc in enumerate(included):
        total = sum(flat[image][j] for j in inc)
        if total:
            parts = (
                inc - wrong[image],
                {j for j in inc if phi[image][j] > 0},
                inc - wrong_from_nothing[image],
            )
            found.append([sum(flat[image][j] for j in part) / total for part in parts])
    estimate, truth, from_nothing = np.mean(found, axis=0)
    return estimate, truth, 1 - percent / 100, from_nothing


def test_information_is_one_value_on_the_pixels_of_the_label_and_0_elsewhere(place):
    of_label = place.env.counting.classes_of(place.images) == place.targets[:, None, None, None]
    assert torch.equal(place.information > 0, of_label)
    for image, target, phi in zip(place.images, place.targets, place.information, strict=True):
        values = phi[phi > 0]
        assert float(values.max() / values.min()) == pytest.approx(1, abs=1e-9)
        logit = place.env.shapley(image, int(target), "logit").clamp(min=0)
        # Proportional: the true ratios do not depend on the output.
        assert torch.allclose(phi / phi.sum(), logit / logit.sum(), rtol=1e-9, atol=0)


def test_a_mask_of_the_label_gives_the_same_true_ratios_as_its_shapley_values(place):
    mask = (place.information > 0).double()
    for entry in place.entries:
        sound, complete = (
            [ratio(entry.maps, phi) for phi in (place.information, mask)]
            for ratio in (al.metrics.true_soundness, al.metrics.true_completeness)
        )
        assert torch.equal(sound[0].nan_to_num(-1), sound[1].nan_to_num(-1))
        # Shapley values of an image's pixels agree within rounding.
        assert torch.allclose(complete[0], complete[1], rtol=0, atol=1e-9)


def test_the_exact_attribution_is_perfect_and_others_are_rated_by_the_definitions(place):
    assert entry_of(place, "exact").truths == dict.fromkeys(rated.TRUTHS, 1)
    entry, phi = entry_of(place, "random"), place.information
    sound, complete, of_thresholds = [], [], []
    for eta, of_image in zip(entry.maps, phi, strict=True):
        sound.append(float(eta[of_image > 0].sum() / eta.sum()))
        complete.append(float(of_image[eta > 0].sum() / of_image.sum()))
        of_thresholds.append(
            np.mean(
                [float(of_image[eta > t].sum() / of_image.sum()) for t in rated.THRESHOLDS[:-1]]
            )
        )
    assert entry.truths["soundness"] == pytest.approx(np.mean(sound))
    assert entry.truths["completeness"] == pytest.approx(np.mean(complete))
    assert entry.truths["completeness of thresholds"] == pytest.approx(np.mean(of_thresholds))
    assert entry.truths["completeness"] > entry.truths["completeness of thresholds"]
    assert {each.kind for each in place.entries} == {"graded", "real"}


def test_the_schedule_has_fine_steps_first_and_ends_with_all_pixels():
    ratios = rated.schedule(1.0)
    assert ratios[:2] == [0.99, 0.98]
    assert ratios[29:31] == pytest.approx([0.70, 0.65])
    assert ratios[-1] == 0
    assert len(rated.schedule(0.25)) == 120 + 14


def test_a_level_is_a_share_of_the_way_from_nothing_to_all(place):
    assert rated.Case(place, rated.REFERENCE, "accuracy").ends == (0.25, 1.0)
    assert rated.Case(place, rated.REFERENCE, "label logit").ends == (0.0, 1.0)
    rows = rated.ratio_rows(
        rated.Case(place, rated.REFERENCE, "accuracy"), entry_of(place, "exact")
    )["soundness"]
    assert rows[rated.LEVELS.index(0.6)]["level"] == pytest.approx(0.7)


@pytest.mark.parametrize("indicator", rated.INDICATORS["classification"])
@pytest.mark.parametrize("name", ["exact", "gradcam", "random", "specks 0.05"])
def test_soundness_is_that_of_algorithm_1_as_printed(place, indicator, name):
    entry = next(e for e in place.entries if e.name.startswith(name.split(" 0")[0]))
    case = rated.Case(place, rated.REFERENCE, indicator)
    nothing, everything = case.ends
    for epsilon in (0.01, 0.05):
        for row in rated.soundness_rows(case, entry, case.ends, step=2.0, epsilon=epsilon):
            level = nothing + row["share"] * (everything - nothing)
            expected = naive_soundness(place, entry.maps, indicator, level, 2.0, epsilon)
            assert row["reached"] == (expected is not None)
            if expected is not None:
                # Sums of at most 256 float64 numbers
                assert row["estimate"] == pytest.approx(expected[0], abs=1e-12)
                assert row["truth"] == pytest.approx(expected[1], abs=1e-12)
                assert row["ratio"] == pytest.approx(expected[2], abs=1e-12)
                assert row["estimate_from_nothing"] == pytest.approx(expected[3], abs=1e-12)
            else:
                assert math.isnan(row["estimate"])
                assert math.isnan(row["truth"])


@pytest.mark.parametrize(
    ("indicator", "first_step_turns"), [("accuracy", True), ("label logit", False)]
)
def test_a_first_step_onto_background_is_sound_only_as_it_is_held_against_0(
    place, indicator, first_step_turns
):
    exact = entry_of(place, "exact").maps
    background = (place.images == place.env.baseline).all(1, keepdim=True)
    ahead = background & (background.flatten(1).cumsum(1).view(background.shape) <= 5)
    entry = entry_of(place, "exact")._replace(maps=torch.where(ahead, 1.0, 0.5 * exact))
    case = rated.Case(place, rated.REFERENCE, indicator)
    nothing, everything = case.ends
    for row in rated.soundness_rows(case, entry, case.ends, step=2.0):
        level = nothing + row["share"] * (everything - nothing)
        expected = naive_soundness(place, entry.maps, indicator, level, 2.0, 0.01)
        assert row["reached"]
        assert row["estimate"] == pytest.approx(expected[0], abs=1e-12)
        assert row["estimate_from_nothing"] == pytest.approx(expected[3], abs=1e-12)
        assert (row["estimate_from_nothing"] < row["estimate"]) == first_step_turns


@pytest.mark.parametrize("indicator", rated.INDICATORS["classification"])
@pytest.mark.parametrize("name", ["gradcam", "missing pixels 0.6"])
def test_completeness_is_what_is_lost_of_what_there_is_to_lose(place, indicator, name):
    entry = entry_of(place, name)
    rows = rated.ratio_rows(rated.Case(place, rated.REFERENCE, indicator), entry)["completeness"]
    everything = torch.ones_like(entry.maps, dtype=torch.bool)
    intact, nothing = (
        performances(place, kept, indicator).mean() for kept in (everything, ~everything)
    )
    phi = place.information
    for row in rows:
        left = performances(place, entry.maps <= row["threshold"], indicator).mean()
        # The network's probabilities are float64 of exact logits; the formula's are, too.
        assert row["estimate"] == pytest.approx(
            float((intact - left) / (intact - nothing)), abs=1e-9
        )
        taken = (phi * (entry.maps > row["threshold"])).sum((1, 2, 3)) / phi.sum((1, 2, 3))
        assert row["truth"] == pytest.approx(float(taken.mean()))
        assert row["truth_of_all"] == entry.truths["completeness"]
        weight = (phi > 0).double() if indicator == "label logit" else phi
        of_set = (weight * (entry.maps > row["threshold"])).sum() / weight.sum()
        assert row["taken"] == pytest.approx(float(of_set))
    assert [row["threshold"] for row in rows] == list(rated.THRESHOLDS)


def test_scores_are_higher_for_better_attributions(place):
    scores = {}
    for name in ("exact", "random"):
        rows = rated.ratio_rows(
            rated.Case(place, rated.REFERENCE, "label probability"), entry_of(place, name)
        )
        scores[name] = {row["metric"]: row["score"] for row in rows["scores"]}
        [middle] = [row["estimate"] for row in rows["soundness"] if row["share"] == rated.MIDDLE]
        # NaN where the level is not reached
        assert scores[name]["soundness"] == pytest.approx(middle, nan_ok=True)
        losses = [row["estimate"] for row in rows["completeness"] if row["threshold"] > 0]
        assert scores[name]["completeness"] == pytest.approx(np.mean(losses))
    for metric in (
        "completeness",
        "removal, most first",
        "removal, least first",
        rated.OWN_FRACTIONS,
    ):
        assert scores["exact"][metric] > scores["random"][metric]


def test_removal_is_the_area_over_or_under_the_curve_at_the_fractions_named(place):
    entry = entry_of(place, "gradcam")
    rows = rated.ratio_rows(rated.Case(place, rated.REFERENCE, "accuracy"), entry)["scores"]
    scores = {row["metric"]: row["score"] for row in rows}
    pixels = entry.maps[0].numel()
    rank = torch.stack([eta.flatten().argsort(descending=True, stable=True) for eta in entry.maps])
    rank = rank.argsort(1).view(entry.maps.shape)
    least = torch.stack([eta.flatten().argsort(stable=True) for eta in entry.maps])
    least = least.argsort(1).view(entry.maps.shape)
    road = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
    for metric, order, fractions, sign in (
        ("removal, most first", rank, rated.FEW_REMOVED, -1),
        ("removal, least first", least, rated.FEW_KEPT, 1),
        (rated.OWN_FRACTIONS, rank, road, -1),
    ):
        heights = [
            float(performances(place, order >= round(f * pixels), "accuracy").mean())
            for f in fractions
        ]
        area = trapezoid(heights, fractions) / (fractions[-1] - fractions[0])
        assert scores[metric] == pytest.approx(sign * area)


def test_sets_of_random_content_hold_nothing_of_the_background(place):
    background = (place.images == place.env.baseline).all(1, keepdim=True)
    sets = torch.stack(module.kept_sets(place, 0)["random content"])
    assert sets.any()
    assert not (sets & background).any()


def test_nothing_is_imputed_and_no_network_asked_twice(place, monkeypatch):
    calls = []
    linear = al.imputation.noisy_linear
    monkeypatch.setattr(
        "attributionlab.papers.soco.maps.noisy_linear",
        lambda *args, **settings: calls.append(1) or linear(*args, **settings),
    )
    place.forget()
    sets = {"some": all_of(module.kept_sets(place, 0))[:5]}
    for imputation in ("noisy-linear", "rounded", "nearest-known-color"):
        for strength in (0.0, 1.0):
            condition = rated.Condition("multi-color-sum", strength, imputation)
            for indicator in rated.INDICATORS["classification"]:
                assumption_row(place, condition, indicator, sets)
    distinct = len({keep.numpy().tobytes() for keep in sets["some"]})
    assert len(calls) == distinct
    place.forget()
    assumption_row(place, module.DISTURBED, "accuracy", sets)
    assert len(calls) == 2 * distinct


@pytest.mark.parametrize("imputation", rated.SEEN)
def test_what_every_network_has_seen_is_answered_alike_by_all_strengths(place, imputation):
    sets = {"some": all_of(module.kept_sets(place, 0))[::5]}
    weak, strong = (
        assumption_row(
            place, rated.Condition("multi-color-sum", s, imputation), "label logit", sets
        )
        for s in (0.0, 4.0)
    )
    assert weak | {"strength": 4.0} == strong
    unseen = assumption_row(place, module.DISTURBED._replace(strength=4.0), "label logit", sets)
    assert unseen["reversed"] > strong["reversed"]


def test_of_strength_0_no_channel_fires_on_unseen_colors(place):
    black = torch.zeros_like(place.images)
    with torch.no_grad():
        logits = {strength: place.network(strength)(black) for strength in (0.0, 1.0, 4.0)}
    assert not logits[0.0].any()
    assert logits[4.0].max() > logits[1.0].max() > 0


def test_conditions_are_distinct_and_a_quick_run_has_some_of_them():
    every = rated.conditions_of(False)
    assert len(set(every)) == len(every)
    assert set(rated.conditions_of(True)) < set(every)
    assert {rated.REFERENCE, module.DISTURBED, module.CLEAN} <= set(rated.conditions_of(True))


@pytest.mark.long
def test_the_single_color_environment_is_asked_for_its_count():
    env = al.load("color-detector", image_size=16)
    place = rated.Place(env, 2, 0, (0.5,), quick=True)
    condition = rated.Condition("color-detector", 0.0, "true-baseline")
    row = assumption_row(place, condition, "label logit", module.kept_sets(place, 0))
    assert row["differ"] > 0
    assert (row["reversed"], row["no_more"], row["hidden"]) == (0, 0, 0)
    assert list(module.counterexample_rows(rated.Case(place, condition, "label logit"))) == []


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
    found = module.compared_pairs(performance, information)
    assert tuple(found.values()) == naive_pairs(performance, information)


def test_rounding_makes_no_order():
    performance = torch.tensor([[1.0], [1.0 + 1e-13]]).double()
    assert module.compared_pairs(performance, torch.tensor([[0.0], [1.0]]).double())["hidden"] == 1


def test_kept_sets_are_a_function_of_the_seed_and_end_with_everything(place):
    first, again, other = (all_of(module.kept_sets(place, seed)) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    assert first[-1].all()
    assert not any(each.all() for each in first[:-1])
    assert {tuple(each.shape) for each in first} == {(3, 1, 16, 16)}


@pytest.mark.parametrize("indicator", rated.INDICATORS["classification"])
def test_the_assumption_is_tested_on_what_is_kept_of_images_and_of_the_data_set(place, indicator):
    sets = module.kept_sets(place, 0)
    rows = list(module.assumption_rows(rated.Case(place, rated.REFERENCE, indicator), sets))
    label, phi = place.information > 0, place.information
    for row in rows:
        chosen = all_of(sets) if row["sets"] == "all" else sets[row["sets"]]
        performance = torch.stack([performances(place, keep, indicator) for keep in chosen])
        # In pixels of the label, so that equal information is equal exactly
        information = torch.stack([(label & keep).sum((1, 2, 3)) for keep in chosen]).double()
        if row["performance_of"] == "data set":
            performance = performance.mean(1, keepdim=True)
            if indicator != "label logit":
                information = information * phi.amax((1, 2, 3)) / phi.sum()
            information = information.sum(1, keepdim=True).mul(1e9).round()
        expected = naive_pairs(performance.mul(1e9).round(), information)
        names = ("pairs", "differ", "reversed", "no_more", "ties", "hidden")
        assert tuple(row[name] for name in names) == expected
        assert row["reversed_share"] == row["reversed"] / max(1, row["differ"])
        assert row["hidden_share"] == row["hidden"] / max(1, row["ties"])
    kinds = {"all", "random pixels", "random content", "rectangles", "most attributed"}
    assert {row["sets"] for row in rows} == kinds
    pairs = {row["performance_of"]: row["pairs"] for row in rows if row["sets"] == "all"}
    assert pairs["image"] == len(phi) * pairs["data set"]


def test_of_the_logit_every_pixel_of_the_label_has_the_same_information(place):
    shapley = torch.stack(
        [
            place.env.shapley(image, int(target), "logit").clamp(min=0)
            for image, target in zip(place.images, place.targets, strict=True)
        ]
    )
    # float64 sums of at most 256 values
    assert torch.allclose(
        rated.Case(place, rated.REFERENCE, "label logit").information,
        shapley / shapley.sum(),
        atol=1e-12,
    )
    assert torch.equal(
        rated.Case(place, rated.REFERENCE, "accuracy").information,
        place.information / place.information.sum(),
    )


def test_the_smallest_counterexamples_of_accuracy_are_these_three(place):
    rows = {
        row["kind"]: row
        for row in module.counterexample_rows(rated.Case(place, rated.REFERENCE, "accuracy"))
    }
    assert {kind: (row["worse"], row["better"]) for kind, row in rows.items()} == {
        "no more": ("1 rival", "nothing"),  # a wrong answer against a tie of four
        "reversed": ("1 label + 2 rival", "nothing"),
        "hidden": ("1 label", "2 label"),
    }
    assert rows["reversed"]["performance_of_worse"] == 0
    assert rows["reversed"]["performance_of_better"] == 0.25
    assert rows["reversed"]["information_of_worse"] == 1
    assert not list(module.counterexample_rows(rated.Case(place, rated.REFERENCE, "label logit")))


def test_the_theorem_gives_the_truth_only_where_performance_is_information(place):
    rows = {
        name: module.theorem_row(rated.Case(place, rated.REFERENCE, name))
        for name in rated.INDICATORS["classification"]
    }
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
            "estimate_from_nothing": [0.9, 0.4, 0.6, math.nan],
            "truth": [0.5, 0.75, 0.8, math.nan],
            "truth_of_all": [0.9, 0.2, 0.5, 0.4],
            "reached": [True, True, True, False],
            "jumped": [True, False, False, False],
        }
    )
    [row] = rated.error_table(rows, ["indicator"]).to_dict("records")
    assert row["attributions"] == 4
    assert row["reached"] == 3 / 4
    assert row["jumped"] == pytest.approx(1 / 3)
    assert row["bias"] == pytest.approx((0.5 - 0.25 - 0.2) / 3)
    assert row["bias_from_nothing"] == pytest.approx((0.4 - 0.35 - 0.2) / 3)
    assert row["error"] == pytest.approx((0.5 + 0.25 + 0.2) / 3)
    assert row["rank"] == pytest.approx(-0.5)
    assert row["rank_of_all"] == 1
    assert (row["largest"], row["rated_1"], row["least_of_1"]) == (1.0, 1, 0.5)


def test_of_two_attributions_the_one_that_loses_more_is_to_take_more():
    lost, taken = [0.1, 0.2, 0.5, 0.5 + 1e-13], [0.3, 0.2 + 0.2, 0.4, 0.9]
    # (a, b), (a, c), (a, d), (b, d) in order, (b, c) takes as much, (c, d) does not count
    assert rated.ordered_share(lost, taken) == 4 / 5
    assert rated.ordered_share(lost[:3], [0.3, 0.1, 0.2]) == 1 / 3
    assert math.isnan(rated.ordered_share([0.5, 0.5], [0.1, 0.2]))


def test_a_setting_is_judged_on_attributions_that_it_was_not_chosen_on():
    names = ["a", "b", "c", "d"]
    errors = {(1.0, 0.01): (0.3, 0.1, 0.3, 0.1), (2.0, 0.5): (0.1, 0.4, 0.1, 0.2)}
    rows = pd.DataFrame(
        [
            {
                "indicator": indicator,
                "step": step,
                "epsilon": epsilon,
                "attribution": name,
                "estimate": error,
                "truth": 0.0,
                "truth_of_all": 0.0,
            }
            for (step, epsilon), of_setting in errors.items()
            for name, error in zip(names, of_setting, strict=True)
            for indicator in ("accuracy", "label logit")
        ]
    )
    found = rated.held_out_table(rows, (1.0, 0.01))
    assert list(found.indicator) == ["accuracy"] * 2 + ["label logit"] * 2
    assert found[found.indicator == "accuracy"].error.tolist() == found.error[2:].tolist()
    paper, chosen = found[:2].to_dict("records")
    assert (paper["chosen"], chosen["chosen"]) == (False, True)
    assert paper["settings"] == "steps of 1 % and epsilon 0.01"
    # a and c are best by the second, b and d by the first; each half is judged by the other's.
    assert chosen["settings"] == f"{paper['settings']} or steps of 2 % and epsilon 0.5"
    assert paper["error"] == pytest.approx((0.3 + 0.1 + 0.3 + 0.1) / 4)
    assert chosen["error"] == pytest.approx((0.3 + 0.4 + 0.3 + 0.2) / 4)
    assert chosen["attributions"] == 4


def test_rankings_of_fewer_than_half_of_the_attributions_are_none():
    nan = math.nan
    assert rated.rank_agreement([1.0, 2.0, nan, nan], [1.0, 2.0, 3.0, 4.0]).value == 1
    assert math.isnan(
        rated.rank_agreement([1.0, 2.0, nan, nan, nan], [1.0, 2.0, 3.0, 4.0, 5.0]).value
    )


def test_what_differs_by_rounding_is_tied():
    assert math.isnan(rated.rank_agreement([1.0, 1.0 - 1e-15, 1.0], [0.1, 0.2, 0.3]).value)


def test_metrics_are_held_against_each_true_quality():
    scores = pd.DataFrame(
        {
            **rated.REFERENCE._asdict(),
            "indicator": "accuracy",
            "metric": ["soundness"] * 3,
            "score": [0.1, 0.2, 0.3],
            "soundness": [0.1, 0.5, 0.9],
            "completeness": [0.9, 0.5, 0.1],
            "completeness of thresholds": [0.5, 0.1, 0.9],
            "f1": [0.1, 0.9, 0.5],
        }
    )
    table = rated.agreement_table(scores).set_index("truth")
    expected = dict(zip(rated.TRUTHS, (1, -1, 0.5, 0.5), strict=True))
    assert table["rank"].to_dict() == pytest.approx(expected)
    assert set(table.ranked) == set(table.distinct) == {3}


def test_scores_that_agree_within_rounding_are_not_distinct():
    scores = pd.DataFrame(
        {
            **rated.REFERENCE._asdict(),
            "indicator": "accuracy",
            "metric": "m",
            "score": [1.0, 1.0 + 1e-13, math.nan],
            **{truth: [0.1, 0.2, 0.3] for truth in rated.TRUTHS},
        }
    )
    [first, *_] = rated.agreement_table(scores).to_dict("records")
    assert (first["ranked"], first["distinct"]) == (2, 1)


def made_up_tables(**changes):
    """Small tables with which every claim agrees, but for one that is changed in part."""
    indicators = {"indicator": list(rated.INDICATORS["classification"])}
    reference = rated.REFERENCE._asdict() | indicators
    estimated = {"low": 0.1, "high": 0.9, "error": 0.05, "bias": 0.2, "bias_from_nothing": 0.19}
    by_condition = [
        each._asdict() | {"indicator": "accuracy", "reached": reached}
        for each, reached in ((module.CLEAN, 0.9), (module.DISTURBED, 0.1))
    ]
    pairs = {"performance_of": "data set", "no_more": 0, "reversed": 0, "differ": 10}
    spoiled = [
        row | pairs | {"reversed": reversed_}
        for row, reversed_ in zip(by_condition, (0, 4), strict=True)
    ]
    scores = {rated.OWN_FRACTIONS: 2, "removal, most first": 9}
    tables = {
        "soundness": pd.concat([pd.DataFrame(reference | estimated), pd.DataFrame(by_condition)]),
        "completeness": pd.DataFrame(reference | estimated),
        "schedule-held-out": pd.DataFrame(
            {"indicator": "accuracy", "chosen": [False, True], "error": [0.2, 0.1]}
        ),
        "assumption": pd.concat(
            [
                pd.DataFrame(reference | pairs | {"reversed": [3, 2, 0]}),
                pd.DataFrame(spoiled),
            ]
        ),
        "counterexamples": pd.DataFrame(
            [
                rated.REFERENCE._asdict()
                | {"indicator": "accuracy", "worse": "1 rival", "better": "nothing"}
            ]
        ),
        "theorem": pd.DataFrame(reference | {"theorem": 0.5, "truth": 0.5}),
        "thresholds": pd.DataFrame(reference | {"threshold": 0.0, "ordered": 1.0}),
        "metrics": pd.DataFrame(
            module.DISTURBED._asdict()
            | {
                "indicator": "accuracy",
                "metric": metric,
                "truth": "completeness",
                "distinct": count,
            }
            for metric, count in scores.items()
        ),
    }
    for name, columns in changes.items():
        tables[name] = tables[name].assign(**columns)
    return tables


def answers(tables):
    """Whether each claim holds, by the name of its function."""
    return {
        each.check.__name__: each.holds(tables)
        for each in CLAIMS
        if "soundness-truth" in each.items
    }


def test_claims_agree_with_tables_made_for_them_but_for_the_assumption():
    found = answers(made_up_tables())
    assert found.pop("performance_is_information") == "differs"
    assert set(found.values()) == {"agrees"}
    found = answers(made_up_tables(assumption={"reversed": 0}))
    assert found["performance_is_information"] == "agrees"


@pytest.mark.parametrize(
    ("name", "table", "columns", "expected"),
    [
        ("soundness_approximates_the_truth", "soundness", {"error": 0.2}, "differs"),
        ("soundness_orders_attributions", "soundness", {"low": -0.1}, "undecided"),
        ("soundness_orders_attributions", "soundness", {"low": -0.9, "high": -0.1}, "differs"),
        ("first_step_explains_little", "soundness", {"bias_from_nothing": 0.1}, "differs"),
        ("first_step_explains_little", "soundness", {"bias": -0.1}, "undecided"),
        ("other_schedules_are_nearer", "schedule-held-out", {"error": 0.1}, "differs"),
        ("completeness_orders_attributions", "completeness", {"low": math.nan}, "undecided"),
        ("completeness_orders_attributions", "completeness", {"low": -1, "high": -0.1}, "differs"),
        ("performance_is_information", "assumption", {"no_more": 1}, "differs"),
        ("assumption_holds_for_the_logit", "assumption", {"reversed": 1}, "differs"),
        ("assumption_holds_for_the_logit", "assumption", {"reversed": 0}, "differs"),
        ("a_rival_pixel_contradicts", "counterexamples", {"worse": "1 label"}, "differs"),
        ("theorem_gives_the_true_soundness", "theorem", {"theorem": [0.5, 0.2, 0.5]}, "differs"),
        ("theorem_orders_by_completeness", "thresholds", {"ordered": [1.0, 0.9, 1.0]}, "differs"),
        ("theorem_orders_by_completeness", "thresholds", {"ordered": math.nan}, "undecided"),
        ("unseen_colors_spoil_estimates", "soundness", {"reached": 0.5}, "differs"),
        ("unseen_colors_spoil_estimates", "assumption", {"reversed": 1}, "differs"),
        ("roads_fractions_tell_less_apart", "metrics", {"distinct": 5}, "differs"),
    ],
)
def test_each_claim_follows_its_table(name, table, columns, expected):
    assert answers(made_up_tables(**{table: columns}))[name] == expected


@pytest.mark.slow
def test_a_quick_run_has_every_table_and_says_what_is_in_it():
    outcome = reproduce("soundness-truth", n=2, quick=True)
    tables = outcome.tables
    assert outcome.name == "soundness-truth"
    ranks = {"ranks-accuracy", "ranks-label-probability"}
    assert set(outcome.figures) == {"soundness", "completeness", *ranks}
    assert tables["panel"][["graded", "real", "images"]].to_numpy().tolist() == [[14, 4, 2]]
    assert outcome.item.tables.keys() <= tables.keys()
    conditions = {tuple(row) for row in tables["soundness"].iloc[:, :3].to_numpy()}
    assert conditions == {tuple(each) for each in rated.conditions_of(True)}
    assert set(tables["levels"].share) == set(rated.LEVELS)
    reference = tables["completeness"].query(
        "imputation == 'true-baseline' and indicator == 'label logit'"
    )
    assert reference["rank"].item() > 0.9
    assert {each["here"] for each in outcome.claims} <= {"agrees", "differs", "undecided"}
