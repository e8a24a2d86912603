"""Pixel Flipping of a model of sixteen pixels: curves, tables, and what claims say about them."""

from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.metrics import pixel_isolation
from attributionlab.papers import items, reproduce
from attributionlab.papers.catalog import Run
from attributionlab.papers.subjects.subjects import TRAINED, Subject, environment_subject
from attributionlab.papers.unified import flipping, flipping_curves
from attributionlab.papers.unified.flipping import (
    DECAYS,
    FIRST,
    KNOWN,
    MASKS,
    TRUE_BASELINE,
    UNSEEN,
    WITHIN,
    correlations_table,
    differences_table,
    drops_table,
    lowest_point,
    pixel_flipping_of_maps,
    references_table,
    ties_table,
    unseen_table,
)
from attributionlab.papers.unified.flipping_curves import (
    RANDOM,
    REFERENCES,
    SEVEN,
    TRUTH,
    WINDOW,
    Flipped,
    baselines_of,
    flipped,
    mask_counts,
    orders_of,
    pooled,
    reference_name,
    window_orders,
)
from attributionlab.papers.unified.six_methods import GRADCAM, MAPS, map_of
from own_network import own_network


def made_up(name="made up", n=6, seed=0):
    """Two classes by which half of a 4 x 4 image is brighter."""
    generator = torch.Generator().manual_seed(seed)
    linear = nn.Linear(16, 2, bias=False)
    left = torch.tensor([1.0, 1.0, 0.0, 0.0]).repeat(4)
    linear.weight = nn.Parameter(torch.stack([left, 1 - left]), requires_grad=False)
    model = nn.Sequential(nn.Flatten(), linear).eval()
    images = torch.randint(0, 9, (n, 1, 4, 4), generator=generator) / 8
    targets = model(images).argmax(1)
    information = images.double() * model[1].weight[targets].view(-1, 1, 4, 4)
    empty = torch.full((1, 1, 1), 0.5)
    return Subject(name, model, model, images, targets, 1.0, empty, 0.5, information)


@pytest.fixture(autouse=True)
def cheap_maps(monkeypatch):
    """In place of six methods: the image's pixels, in six powers."""

    def maps_of(subject, name, seed):
        return subject.images.double() ** (1 + list(MAPS).index(name)) - 0.3

    monkeypatch.setattr(flipping_curves, "map_of", maps_of)


def test_window_orders_take_squares_around_their_center_on_the_torus():
    orders = window_orders(20, (5, 7), torch.Generator().manual_seed(0))
    for order in orders.tolist():
        assert sorted(order) == list(range(35))
        row, column = divmod(order[0], 7)
        for reach in (1, 2):
            square = {
                (row + down) % 5 * 7 + (column + right) % 7
                for down in range(-reach, reach + 1)
                for right in range(-reach, reach + 1)
            }
            assert set(order[: (2 * reach + 1) ** 2]) == square


def test_every_pixel_is_equally_likely_among_the_first_of_a_window():
    orders = window_orders(4000, (3, 4), torch.Generator().manual_seed(0))
    counts = Counter(orders[:, :5].flatten().tolist())
    # 4000 x 5 / 12 = 1667 expected of each, standard deviation at most sqrt(4000 / 4) = 32.
    assert all(abs(counts[pixel] - 4000 * 5 / 12) < 4 * 32 for pixel in range(12))


def test_orders_follow_maps_and_shuffle_what_they_must():
    subject = made_up()
    found = orders_of(subject, 0)
    assert found.names == (
        *MAPS.values(),
        TRUTH,
        RANDOM,
        WINDOW,
        *(reference_name(share) for share in REFERENCES),
    )
    values = subject.images.flatten(1)
    for name in MAPS.values():
        assert (values.gather(1, found.of(name)).diff() <= 0).all()
    for share in REFERENCES:
        size = round(16 * share)
        within, by_map = found.of(reference_name(share)), found.of(GRADCAM)
        assert torch.equal(within[:, :size].sort(1).values, by_map[:, :size].sort(1).values)
        assert torch.equal(within[:, size:], by_map[:, size:])
    assert torch.equal(found.orders, orders_of(subject, 0).orders)
    assert not torch.equal(found.of(RANDOM), orders_of(subject, 1).of(RANDOM))


@pytest.mark.parametrize("baseline", ["zeros", "noise"])
def test_curves_are_what_the_network_says_of_masked_images(baseline):
    subject = made_up(n=2)
    replacement = baselines_of(subject, 0)[baseline]
    orders = orders_of(subject, 0)
    case = flipped(subject, orders, replacement, [0, 3, 16])
    for image, label in enumerate(subject.targets.tolist()):
        for draw, order in enumerate(orders.orders[image].tolist()):
            for at, count in enumerate([0, 3, 16]):
                masked = subject.images[image].clone().flatten()
                other = replacement.expand(subject.images.shape)[image].flatten()
                masked[order[:count]] = other[order[:count]]
                logits = subject.model(masked.view(1, 1, 4, 4))[0].double()
                expected = {
                    "accuracy": float(logits[label] == logits.max())
                    / int((logits == logits.max()).sum()),
                    "probability": float((logits / 0.5).softmax(0)[label]),
                    "logit": float(logits[label]),
                }
                for name, value in expected.items():
                    # float32 sums of 16 numbers below 1, in another order: 16 x 16 x 2^-24.
                    assert case.curves[name][image, draw, at] == pytest.approx(value, abs=2e-5)
                information = subject.information[image].flatten()
                share = float(information[order[:count]].sum() / information.sum())
                assert case.captured[image, draw, at] == pytest.approx(share)
    isolation = pixel_isolation(orders.orders[0], (4, 4), counts=[0, 3, 16]).numpy()
    assert np.array_equal(case.isolation[0], isolation, equal_nan=True)


@pytest.mark.long
def test_baselines_are_zeros_and_noise_from_the_seed_in_the_images_numbers():
    subject = made_up()
    found = baselines_of(subject, 0)
    assert float(found["zeros"]) == 0
    assert torch.equal(found["noise"], baselines_of(subject, 0)["noise"])
    assert not torch.equal(found["noise"], baselines_of(subject, 1)["noise"])
    assert not torch.equal(found["noise"][0], found["noise"][1])
    env = al.load("multi-color-sum", image_size=24)
    whole = environment_subject(env, 1, 0)
    noise = baselines_of(whole, 0)["noise"]
    assert torch.equal(noise, noise.round())
    assert 200 < float(noise.max()) <= 255


def test_drops_are_from_the_unmasked_image_and_logits_in_units_of_their_mean_there():
    curves = {
        "accuracy": np.array([[[1.0, 0.5]]]),
        "probability": np.array([[[0.9, 0.2]]]),
        "logit": np.array([[[-4.0, -6.0]]]),
    }
    case = Flipped(("a",), np.array([0.0, 1.0]), curves, np.zeros((1, 1, 2)), np.zeros((1, 1, 2)))
    assert case.drop("a", "accuracy").tolist() == [[0.0, 0.5]]
    assert case.drop("a", "probability")[0, 1] == pytest.approx(0.7)
    assert case.drop("a", "logit").tolist() == [[0.0, 0.5]]


def test_several_networks_become_units_and_a_single_ones_images_stay():
    subjects = [made_up(seed=seed) for seed in range(3)]
    cases = [flipped(each, orders_of(each, 0), 0.0, [0, 4, 16]) for each in subjects]
    together = pooled(cases)
    for name in ("accuracy", "probability", "logit"):
        assert together.curves[name].shape == (3, len(together.names), 3)
        assert np.array_equal(together.curves[name][1], cases[1].curves[name].mean(0))
    assert np.array_equal(together.isolation[2], cases[2].isolation.mean(0), equal_nan=True)
    assert pooled(cases[:1]) is cases[0]


def test_counts_are_equal_steps_and_the_shares_that_tables_need():
    assert mask_counts(1000, 4, (0.05, 0.18)) == [0, 50, 180, 250, 500, 750, 1000]


def test_the_lowest_point_is_that_of_the_mean_and_its_interval_of_resampled_units():
    places = np.linspace(0, 1, 5)
    near = np.array([0.0, -1.0, -2.0, -1.0, 0.0])
    assert lowest_point(np.stack([near] * 4), places, 0) == (0.5, 0.5, 0.5)
    far = np.array([0.0, -3.0, 0.0, 0.0, 0.0])
    place, low, high = lowest_point(np.stack([near, near, far, far]), places, 0)
    assert (place, low, high) == (0.25, 0.25, 0.5)
    assert np.isnan(lowest_point(near[None], places, 0)[1:]).all()


def case_of(drops, isolation=None, truth=None, units=8):
    """Curves whose probability falls by one number for each order at both shares of the tables."""
    names = (*SEVEN, WINDOW, TRUTH, *(reference_name(share) for share in REFERENCES))
    shares = np.array([0.0, 0.05, 0.15, 0.18, 0.2, 0.25, 0.3, 1.0])
    fallen = np.array([drops.get(name, 0.0) for name in names])
    curves = np.repeat(0.9 - fallen[None, :, None] * (shares > 0), units, axis=0)
    jitter = np.random.default_rng(0).normal(0, 1e-4, (units, 1, 1)) * (shares > 0)
    every = {each: curves + jitter for each in ("accuracy", "probability", "logit")}  # noqa: C420, three arrays

    def spread(values):
        filled = np.array([values.get(name, 0.0) if values else np.nan for name in names])
        return np.repeat(np.repeat(filled[None, :, None], units, axis=0), len(shares), axis=2)

    return Flipped(names, shares, every, spread(isolation or {GRADCAM: 0.0}), spread(truth))


def test_tables_compare_random_masking_with_gradcam_and_with_a_window():
    cases = {("s", "zeros"): case_of({RANDOM: 0.3, GRADCAM: 0.5, WINDOW: 0.1})}
    table = differences_table(cases, 0).set_index(["against", "indicator", "masked"])
    assert table.loc[(GRADCAM, "probability", 0.05)].difference == pytest.approx(-0.2)
    assert table.loc[(WINDOW, "accuracy", 0.18)].difference == pytest.approx(0.2)
    drops = drops_table(cases, 0).set_index(["order", "masked"])
    row = drops.loc[(RANDOM, 0.18)]
    assert row.probability == pytest.approx(0.3, abs=1e-3)
    assert row.low <= row.probability <= row.high
    assert row.logit == pytest.approx(0.3 / 0.9, abs=1e-3)


def test_correlations_are_over_the_seven_maps_alone():
    ramp = {name: 0.01 * rank for rank, name in enumerate(SEVEN)}
    away = {name: -value for name, value in ramp.items()}
    cases = {("s", "zeros"): case_of({**ramp, WINDOW: 0.9, TRUTH: 0.0}, ramp, away)}
    table = correlations_table(cases, 0)
    values = table.set_index(["with", "indicator", "masked"]).correlation
    assert (values["isolation"] == 1).all()
    assert (values["truth"] == -1).all()
    unknown = correlations_table({("s", "zeros"): case_of(ramp, ramp)}, 0)
    assert set(unknown["with"]) == {"isolation"}


def test_references_are_compared_at_half_of_their_size():
    drops = {GRADCAM: 0.2, RANDOM: 0.1, reference_name(0.3): 0.5}
    case = case_of(drops)
    later = case.shares > 0.2
    case.curves["probability"][:, case.names.index(reference_name(0.4)), later] = 0.0
    table = references_table({("s", "zeros"): case}, 0).set_index("reference")
    assert table.loc[0.3].minus_gradcam == pytest.approx(-0.3)
    assert table.loc[0.3].minus_random == pytest.approx(-0.4)
    assert table.loc[0.4].minus_random == pytest.approx(0.1)
    assert table.loc[0.3]["at"] == pytest.approx(0.05 / 0.3)  # the first of equally low ones
    assert table.loc[0.4]["at"] == pytest.approx(0.25 / 0.4)


def tables_of(drops, isolation=None, truth=None, units=8, case=("s", "zeros")):
    cases = {case: case_of(drops, isolation, truth, units)}
    return {
        "drops": drops_table(cases, 0),
        "differences": differences_table(cases, 0),
        "correlations": correlations_table(cases, 0),
        "references": references_table(cases, 0),
        "unseen": unseen_table(cases, 0),
    }


LOW = {reference_name(share): 0.6 for share in REFERENCES}
RAMP = {name: 0.01 * rank for rank, name in enumerate(SEVEN)}


@pytest.mark.parametrize(
    ("drops", "units", "expected"),
    [
        ({RANDOM: 0.3, GRADCAM: 0.1}, 8, "agrees"),
        ({RANDOM: 0.1, GRADCAM: 0.3}, 8, "differs"),
        ({RANDOM: 0.2, GRADCAM: 0.2}, 8, "undecided"),
        ({RANDOM: 0.3, GRADCAM: 0.1}, 5, "undecided"),
        ({RANDOM: 0.1, GRADCAM: 0.3}, 1, "undecided"),
    ],
)
def test_random_masking_and_gradcam_are_compared_by_the_interval(drops, units, expected, answers):
    tables = tables_of(drops, units=units)
    assert answers(FIRST, tables) == [expected, "undecided"]  # of unseen colors nothing is known
    assert answers(DECAYS, tables)[0] == expected


@pytest.mark.long
@pytest.mark.parametrize(("ranks", "expected"), [(1, "agrees"), (-1, "differs"), (0, "undecided")])
def test_isolation_and_information_are_judged_by_their_correlations(ranks, expected, answers):
    values = {name: ranks * value for name, value in RAMP.items()}
    assert answers(DECAYS, tables_of(RAMP, values))[1] == expected
    known = tables_of(RAMP, truth=values, case=("s", TRUE_BASELINE))
    assert answers(DECAYS, known)[3] == expected
    assert answers(DECAYS, tables_of(RAMP, truth=values, case=(KNOWN, "zeros")))[3] == expected
    unseen = tables_of(RAMP, truth=values)
    assert answers(DECAYS, unseen)[3] == "undecided"


@pytest.mark.parametrize(
    ("single", "window", "expected"),
    [(0.3, 0.1, "agrees"), (0.1, 0.3, "differs"), (0.2, 0.2, "undecided")],
)
def test_single_pixels_are_compared_with_a_window(single, window, expected, answers):
    tables = tables_of({RANDOM: single, WINDOW: window})
    assert answers(DECAYS, tables)[2] == answers(MASKS, tables)[0] == expected


@pytest.mark.parametrize(
    ("gradcam", "within", "expected"), [(0.3, 0.5, "agrees"), (0.6, 0.5, "differs")]
)
def test_isolation_of_orders_is_compared(gradcam, within, expected, answers):
    isolation = {RANDOM: 0.8, reference_name(REFERENCES[0]): within, GRADCAM: gradcam}
    assert answers(MASKS, tables_of({}, isolation))[1] == expected
    assert answers(MASKS, tables_of({}, isolation | {RANDOM: 0.4}))[1] == "differs"


@pytest.mark.parametrize(
    ("drops", "units", "expected"),
    [
        ({RANDOM: 0.3, GRADCAM: 0.1, **LOW}, 8, "agrees"),
        ({RANDOM: 0.7, GRADCAM: 0.1, **LOW}, 8, "differs"),
        ({RANDOM: 0.3, GRADCAM: 0.7, **LOW}, 8, "differs"),
        ({RANDOM: 0.3, GRADCAM: 0.6, **LOW}, 8, "undecided"),
        ({RANDOM: 0.3, GRADCAM: 0.1, **LOW}, 5, "undecided"),
    ],
)
def test_references_must_fall_faster_than_both(drops, units, expected, answers):
    assert answers(WITHIN, tables_of(drops, units=units))[0] == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "agrees"),
        ({"at_low": 0.55}, "differs"),
        ({"at_high": 0.45}, "differs"),
        ({"at": 0.0}, "differs"),
        ({"units": 5}, "undecided"),
    ],
)
def test_lowest_points_must_be_near_half_of_the_reference(changes, expected, answers):
    tables = tables_of({})
    near = {"at": 0.5, "at_low": 0.4, "at_high": 0.6, "units": 8} | changes
    tables["references"] = tables["references"].assign(**near)
    assert answers(WITHIN, tables)[1] == expected


def test_what_an_unseen_color_adds_is_compared_with_a_known_one(answers):
    cases = {
        ("s", "zeros"): case_of({RANDOM: 0.5, GRADCAM: 0.2}),
        ("s", TRUE_BASELINE): case_of({RANDOM: 0.1, GRADCAM: 0.3}),
        ("t", "zeros"): case_of({RANDOM: 0.5}),
    }
    unseen = unseen_table(cases, 0)
    assert set(unseen.subject) == {"s"}
    assert "baseline" not in unseen
    values = unseen.set_index(["order", "masked"])
    assert values.loc[(RANDOM, 0.05)].difference == pytest.approx(0.4)
    assert values.loc[(GRADCAM, 0.18)].difference == pytest.approx(-0.1)
    assert values.loc[(RANDOM, 0.05)].by_true_baseline == pytest.approx(0.1, abs=1e-3)

    def answer(**changes):
        return answers(FIRST, tables_of({}) | {"unseen": unseen.assign(**changes)})[1]

    assert answer() == "agrees"
    assert answer(low=-0.1) == "undecided"
    assert answer(units=5) == "undecided"
    assert answer(low=-0.2, high=-0.1) == "differs"


def test_maps_whose_order_is_chance_are_counted(monkeypatch):
    def one_positive(subject, name, seed):
        maps = torch.zeros(len(subject.images), 1, 4, 4)
        if name != "gradcam":
            maps[1:, 0, 0, :2] = 1.0
        return maps

    monkeypatch.setattr(flipping_curves, "map_of", one_positive)
    networks = [orders_of(made_up(n=3, seed=seed), 0) for seed in range(2)]
    table = ties_table({"s": networks})
    rows = table.set_index("map")
    assert rows.loc[GRADCAM].tolist() == ["s", 6, 6, 6, 6]
    assert rows.loc["Gradient"].tolist() == ["s", 2, 2, 6, 6]  # 2 of 16 pixels are 12.5 %
    assert rows.loc[TRUTH].constant == 0


def test_lines_end_at_the_share_nearest_to_nine_tenths_and_leave_a_gap_where_nothing_is_left():
    shares = np.array(mask_counts(1296, 40)) / 1296
    curve = np.where((shares > 0.4) & (shares < 0.6), 1e-3, 1.0) - 0.5 * shares * (shares <= 0.4)
    curves = np.stack([curve, curve])[:, None] * np.array([0.8, 0.4])[:, None, None]
    case = Flipped(("a",), shares, {"probability": curves}, curves, curves)
    table = flipping._lines({("s", "zeros"): case}, ("a", "b"), "probability")
    assert set(table.order) == {"a"}
    assert len(table) == 37
    assert abs(table.masked.iloc[-1] - 0.9) < 0.5 / 1296
    gap = (table.masked > 0.4) & (table.masked < 0.6)
    assert table["log ratio"].isna().equals(gap)
    assert np.allclose(table["log ratio"][~gap], np.log(curve[:37])[~gap])
    assert (table.high - table.low)[~gap].abs().max() < 1e-12  # both units fall alike


def test_bands_are_the_standard_error_of_the_ratio():
    own = np.array([[1.0, 0.5], [1.0, 0.7], [1.0, 0.9]])
    case = Flipped(("a",), np.array([0.0, 0.9]), {"logit": own[:, None]}, own, own)
    last = flipping._lines({("s", "z"): case}, ("a",), "logit").iloc[-1]
    # Of three ratios 5/7, 1 and 9/7 of the mean.
    assert last.high - last["log ratio"] == pytest.approx(2 / 7 / 3**0.5)
    assert np.isnan(flipping._lines({("s", "z"): case}, ("a",), "logit", bands=()).high).all()


@pytest.fixture(scope="module")
def outcome():
    """The experiment on made-up networks and one small environment."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, replacement in (
            (flipping, "trained_subject", lambda n, _, seed: made_up(TRAINED, n, seed)),
            (flipping, "SIDE", 24),
            (
                flipping_curves,
                "map_of",
                lambda subject, name, seed: (
                    subject.images.double().sum(1, keepdim=True) * (1 if name == "gradcam" else -1)
                ),
            ),
        ):
            patch.setattr(module, name, replacement)
        return pixel_flipping_of_maps(Run(WITHIN, n=3), networks=3, training=1, steps=10)


def test_the_run_has_all_cases_and_its_own_figure_first(outcome):
    cases = set(zip(outcome.tables["drops"].subject, outcome.tables["drops"].baseline, strict=True))
    assert cases == {
        (TRAINED, "zeros"),
        (TRAINED, "noise"),
        (UNSEEN, "zeros"),
        (UNSEEN, TRUE_BASELINE),
        (KNOWN, "zeros"),
    }
    own = {items()[name].figure or "first" for name in (FIRST, DECAYS, MASKS, WITHIN)}
    assert own == set(outcome.figures)
    assert len(outcome.figures["first"].axes) == len(outcome.figures["references"].axes) == 10
    drops = outcome.tables["drops"].drop_duplicates(["subject", "baseline"])
    assert drops.units.tolist() == [3] * 5
    drawn = [axis.images[0].get_array().squeeze() for axis in outcome.figures["masked"].axes[:3]]
    assert np.array_equal(drawn, made_up(n=3).images[:, 0])


def test_a_network_that_knows_every_color_does_not_react_to_which_one_masks(outcome):
    curves = outcome.tables["curves"].set_index(["subject", "baseline", "order", "masked"]).logit
    unseen = curves[UNSEEN]
    known = curves[KNOWN]["zeros"]
    assert known[RANDOM].equals(unseen[TRUE_BASELINE][RANDOM])  # counts of pixels, exact
    assert not known[RANDOM].equals(unseen["zeros"][RANDOM])


def test_the_summary_has_the_probability_s_differences_and_correlations(outcome):
    tables = outcome.tables
    summary = tables["summary"]
    assert len(summary) == 5 * 4 + 5 + 5  # two comparisons at two shares, two correlations
    keys = ["subject", "baseline", "masked"]
    row = summary[summary.what == "Random minus GradCAM"].iloc[3]
    found = tables["differences"].query("against == 'GradCAM' and indicator == 'probability'")
    assert row[keys].tolist() == found.iloc[3][keys].tolist()
    assert (row["value"], row.low, row.high) == tuple(found.iloc[3][["difference", "low", "high"]])
    row = summary[summary.what == "correlation with truth"].iloc[-1]
    found = (
        tables["correlations"].query("`with` == 'truth' and indicator == 'probability'").iloc[-1]
    )
    assert row["value"] == found.correlation
    assert row.masked == found.masked > 0.1


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"images": "there"}, "pass both, or neither"),
        ({"weights": "there"}, "weights is 'there' without images"),
        ({"steps": 0}, "steps is 0"),
        ({"networks": 0}, "networks is 0"),
        ({"training": 0}, "training is 0"),
    ],
)
def test_impossible_settings_are_refused(settings, problem):
    with pytest.raises(al.AttributionLabError, match=problem):
        reproduce(DECAYS, quick=True, settings=settings)


@pytest.mark.long
def test_a_given_network_is_flipped_by_all_maps_and_needs_a_layer(tmp_path, monkeypatch):
    own = own_network(tmp_path, number=1)
    monkeypatch.setattr(flipping_curves, "map_of", map_of)
    with pytest.raises(al.AttributionLabError, match="layer is None, and GradCAM"):
        reproduce(DECAYS, n=1, settings=own)
    found = reproduce(DECAYS, n=1, quick=True, settings=own | {"layer": "1"})
    drops = found.tables["drops"]
    assert set(drops.subject) == {"images"}
    assert set(drops.baseline) == {"zeros", "noise"}
    assert set(SEVEN) < set(drops.order)
    assert "is right on" in found.notes[-1]
    assert {each["here"] for each in found.claims} == {"undecided"}
