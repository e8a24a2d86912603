"""Curves of modified maps and their distances, on a model of sixteen pixels."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.papers import items, reproduce
from attributionlab.papers.catalog import Run
from attributionlab.papers.soco import modifications as module
from attributionlab.papers.soco.maps import SCHEMES, modified, road_imputation
from attributionlab.papers.subjects.subjects import TRAINED, Subject, trained_subject
from claims_held import all_hold, cases, follows
from own_network import own_network

RATIOS = tuple(sixteenth / 16 for sixteenth in range(15, -1, -1))
TENTHS = tuple(tenth / 10 for tenth in range(1, 10))


def made_up(name="made up", n=6):
    """Two classes by which half of a 4 x 4 image is brighter."""
    generator = torch.Generator().manual_seed(0)
    linear = nn.Linear(16, 2, bias=False)
    left = torch.tensor([1.0, 1.0, 0.0, 0.0]).repeat(4)
    linear.weight = nn.Parameter(torch.stack([left, 1 - left]), requires_grad=False)
    model = nn.Sequential(nn.Flatten(), linear).eval()
    images = torch.rand(n, 1, 4, 4, generator=generator)
    targets = model(images).argmax(1)
    return Subject(name, model, model, images, targets, 1.0, torch.full((1, 1, 1), 0.5), 1.0)


@pytest.fixture(scope="module")
def subject():
    return made_up()


@pytest.fixture(scope="module")
def maps(subject):
    weights = subject.model[1].weight[subject.targets].view(-1, 1, 4, 4)
    values = (subject.images * weights).double()
    return values / values.amax((1, 2, 3), keepdim=True)


def test_curves_are_those_of_the_metrics(subject, maps):
    found = {key[:2]: key[2] for key in module.curves_of(subject, maps, 0, RATIOS)}
    assert set(found) == {
        (indicator, metric)
        for indicator in ("accuracy", "label probability")
        for metric in module.METRICS
    }
    setup = {
        "imputation": road_imputation(1.0, 0),
        "nothing_kept": 0.5,
    }
    asked = (subject.model, subject.images, subject.targets, maps)
    for name, indicator in (
        ("accuracy", "accuracy"),
        ("label probability", al.metrics.label_probability),
    ):
        same = setup | {"indicator": indicator}
        complete = al.metrics.completeness_curve(*asked, **same)
        points = found[name, "Completeness"]
        assert points[:, 0].tolist() == list(TENTHS)
        assert points[::-1, 1].tolist() == complete.differences.tolist()
        sweep = al.metrics.soundness_sweep(*asked, ratios=RATIOS, expansion="attributed", **same)
        levels = [sweep.at(level) for level in module.LEVELS]
        expected = [[each.level, each.soundness] for each in levels if each.reached]
        assert found[name, "Soundness"].tolist() == expected
        steps = torch.stack([sweep.performance, sweep.soundness], 1)
        assert found[name, "Soundness, every step"].tolist() == steps.tolist()
        for metric, imputation in (
            ("ROAD", setup["imputation"]),
            ("Deletion", lambda images, keep: images * keep),
        ):
            curve = al.metrics.removal_curve(
                *asked, fractions=TENTHS, **same | {"imputation": imputation}
            )
            assert found[name, metric][:, 1].tolist() == curve.mean(0).tolist()
    assert len(found["label probability", "Soundness"]) < len(
        module.LEVELS
    )  # high levels are not reached


def test_metrics_of_order_alone_take_maps_of_either_sign(subject, maps):
    found = list(module.curves_of(subject, maps - 0.6, 0, RATIOS, module.BY_ORDER))
    assert {metric for _, metric, _ in found} == set(module.BY_ORDER)


def test_a_constant_that_is_not_clamped_leaves_metrics_of_order_exactly_alike(subject, maps):
    versions = module.modifications(maps, module.UNCLIPPED, 0)
    first, *others = (
        {
            key[:2]: key[2].tolist()
            for key in module.curves_of(subject, each, 0, RATIOS, module.BY_ORDER)
        }
        for each in versions.values()
    )
    assert len(others) == 2
    assert all(each == first for each in others)


def test_distances_are_of_all_pairs_and_the_smallest():
    x = np.linspace(0, 1, 5)
    curves = {
        name: np.stack([x, np.full(5, height)], 1)
        for name, height in (("Original", 0.0), ("Remove", 0.1), ("Introduce", 0.5))
    }
    apart = {"Original - Remove": 0.1, "Original - Introduce": 0.5, "Remove - Introduce": 0.4}
    assert module.distances(curves) == pytest.approx({**apart, "smallest": 0.1})
    unknown = module.distances({**curves, "Remove": np.zeros((0, 2))})  # no points, no distance
    nothing = {**dict.fromkeys(apart, np.nan), "Original - Introduce": 0.5, "smallest": np.nan}
    assert unknown == pytest.approx(nothing, nan_ok=True)


@pytest.mark.long
def test_changes_count_ties_and_ranks(subject, maps):
    found = [
        row
        for table, row in module.modification_rows(subject, maps, 0, RATIOS)
        if table == "changes"
    ]
    assert [row["scheme"] for row in found] == [each for each in SCHEMES for _ in range(2)]
    rows = {row["direction"]: row for row in found if row["scheme"] == "constant"}
    assert set(rows) == {"Remove", "Introduce"}
    assert rows["Remove"]["at_0"] == pytest.approx(float((maps <= 0.6).double().mean()))
    assert rows["Introduce"]["at_1"] == pytest.approx(float((maps + 0.6 >= 1).double().mean()))
    after = modified(maps, "constant", "remove")
    change = (maps - after).abs().mean()
    assert rows["Remove"]["value_change"] == pytest.approx(float(change))
    ranks = al.metrics.rank_correlation(maps, after).nanmean()
    assert rows["Remove"]["rank_correlation"] == pytest.approx(float(ranks))


@pytest.fixture(scope="module")
def outcome(maps):
    """The item on made-up subjects, with two methods that cost nothing."""

    def cheap(subject, names, seed, *, quick):
        exponent = {"gradcam": 1, "integrated-gradients": 2}
        yield from ((name, maps ** exponent[name]) for name in names if name in exponent)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "method_maps", cheap)
        patch.setattr(
            module,
            "_own_subjects",
            lambda run, training: [made_up(TRAINED), made_up(module.ENVIRONMENT)],
        )
        run = Run("soco-figure-13", n=6, quick=True)
        # Some curves have levels on both sides of a first step of 20 pixels.
        return module.modified_maps_apart(run, training=1, step=20)


def test_the_summary_is_over_schemes_and_methods(outcome):
    pairs, summary = outcome.tables["pairs"], outcome.tables["distances"]
    assert set(pairs.scheme) == {*SCHEMES, module.UNCLIPPED}
    assert len(summary) == 2 * 2 * len(module.METRICS)
    assert set(items()["soco-figure-13"].tables) <= set(outcome.tables)
    for row in summary.itertuples():
        here = pairs[
            (pairs.subject == row.subject)
            & (pairs.indicator == row.indicator)
            & (pairs.metric == row.metric)
            & (pairs.scheme != module.UNCLIPPED)
        ].smallest.dropna()
        assert row.cases == len(here) <= 6
        assert row.mean == pytest.approx(here.mean(), nan_ok=True)
        assert row.sd == pytest.approx(here.std(), nan_ok=True)
    published = summary[summary.metric == "ROAD"].set_index("indicator").paper
    assert published["accuracy"].tolist() == [0.014, 0.014]
    assert published["label probability"].isna().all()
    free = pairs[pairs.scheme == module.UNCLIPPED]
    order = free[free.metric.isin(module.BY_ORDER)]
    assert (order[module.PAIRS] == 0).all(axis=None)
    values = free[free.metric == "Completeness"]
    assert (values["Original - Introduce"] > 0).all()
    assert values["Original - Remove"].isna().all()


def test_metrics_and_networks_are_counted_from_the_pairs_and_curves(outcome):
    pairs, curves = outcome.tables["pairs"], outcome.tables["curves"]
    for row in outcome.tables["metrics"].itertuples():
        here = pairs[(pairs.metric == row.metric) & (pairs.scheme != module.UNCLIPPED)]
        of_random = here[here.scheme == "random"].smallest
        assert row.random == pytest.approx(of_random.mean(), nan_ok=True)
        known = here[here.smallest.notna()]
        assert row.cases == len(known)
        assert row.at_0 == (known.smallest == 0).sum()
        assert row.decides == max(
            (known[module.PAIRS].idxmin(axis=1) == p).sum() for p in module.PAIRS
        )
        constant = here[here.scheme == "constant"]
        every = constant[module.PAIRS].stack().dropna()
        assert row.constant_largest == pytest.approx(max(every, default=np.nan), nan_ok=True)
    for row in outcome.tables["networks"].itertuples():
        here = curves[(curves.subject == row.subject) & (curves.scheme != module.UNCLIPPED)]
        keys = ["method", "scheme", "indicator", "map"]
        flat = at_once = 0
        groups = here[here.metric == "Soundness"].groupby(keys)
        stepwise = here[here.metric == "Soundness, every step"].set_index(keys)
        stepwise = stepwise.sort_index(kind="stable")
        for key, of_levels in groups:
            steps = stepwise.loc[key]
            flat += (of_levels.y == 1).all()
            at_once += (of_levels.y == 1).all() and of_levels.x.max() <= steps.x.iloc[0]
        assert (row.images, row.soundness_curves) == (6, len(groups))
        assert (row.soundness_1, row.at_first_step) == (flat, at_once)
        assert 0 <= row.removal_same <= row.removal_cases == 2 * 2 * len(SCHEMES)


def apart(completeness, soundness):
    """A table of differences, both intervals of each metric alike."""
    return pd.DataFrame(
        [
            {
                "subject": "s",
                "indicator": "accuracy",
                "metric": metric,
                "against": against,
                "difference": sum(ends) / 2,
                "low": ends[0],
                "high": ends[1],
                "cases": 9,
            }
            for metric, ends in (("Completeness", completeness), ("Soundness", soundness))
            for against in module.BY_ORDER
        ]
    )


def test_differences_are_paired_by_method_and_scheme():
    values = {
        "Completeness": [0.5, 0.4, 0.6, 9.0],
        "Soundness": [0.1, np.nan, 0.1, 9.0],
        "Deletion": [0.1, 0.1, 0.1, 0.0],
        "ROAD": [0.4, 0.1, 0.7, 0.0],
    }
    cases = [("a", "constant"), ("a", "random"), ("b", "constant"), ("b", module.UNCLIPPED)]
    pairs = pd.DataFrame(
        [
            (method, scheme, metric, value)
            for metric, of_metric in values.items()
            for (method, scheme), value in zip(cases, of_metric, strict=True)
        ],
        columns=["method", "scheme", "metric", "smallest"],
    ).assign(subject="s", indicator="accuracy")
    shuffled = pairs.sample(frac=1, random_state=0)
    table = module.paired_differences(shuffled, 0).set_index(["metric", "against"])
    row = table.loc[("Completeness", "ROAD")]
    assert (row.difference, row.cases) == (pytest.approx((0.1 + 0.3 - 0.1) / 3), 3)
    assert row.low == pytest.approx(-0.1)
    assert row.high == pytest.approx(0.3)
    row = table.loc[("Soundness", "Deletion")]
    assert (row.difference, row.low, row.high, row.cases) == (0, 0, 0, 2)


def answers(tables):
    return all_hold(tables, "soco-table-1")


@pytest.mark.parametrize(
    ("ends", "cases", "expected"),
    [
        ((0.01, 0.2), 9, "agrees"),
        ((0.01, 0.2), 5, "undecided"),
        ((-0.1, 0.2), 9, "undecided"),
        ((-0.2, -0.1), 9, "differs"),
    ],
)
def test_metrics_of_values_are_judged_by_intervals_that_may_decide_nothing(
    outcome, ends, cases, expected
):
    for metric in ("completeness", "soundness"):
        table = apart(**{"completeness": (-0.1, 0.1), "soundness": (-0.1, 0.1), metric: ends})
        found = answers({**outcome.tables, "differences": table.assign(cases=cases)})
        assert found[f"{metric}_is_farther_apart"] == expected


@cases(
    """
    order_is_left_without_clamping | metrics | | unclipped_largest=0, unclipped_introduce=1 | agrees
    | metrics | | unclipped_largest=0.1, unclipped_introduce=1 | differs
    | metrics | | unclipped_largest=0, unclipped_introduce=0 | differs
    modifications_change_the_order | changes | | rank_correlation=0.5 | agrees
    | changes | | rank_correlation=1.0 | differs
    removals_are_one_measurement | networks | | removal_same=12 | agrees
    | networks | | removal_same=11 | differs
    soundness_is_saturated | distances | | max=0.0 | agrees
    | distances | | max=0.1 | differs
    """
)
def test_each_claim_follows_its_table(outcome, name, table, where, values, answer):
    follows(outcome.tables, name, table, where, values, answer)


def test_own_images_say_nothing_of_our_environment(outcome):
    tables = {
        name: table[table["subject"] != module.ENVIRONMENT] if "subject" in table else table
        for name, table in outcome.tables.items()
    }
    found = answers(tables)
    assert found["removals_are_one_measurement"] == "undecided"
    assert found["soundness_is_saturated"] == "undecided"


@pytest.mark.long
def test_the_trained_network_is_better_than_chance_on_pictures_it_has_not_seen():
    subject = trained_subject(40, 200, 0)
    with torch.no_grad():
        right = (subject.model(subject.images).argmax(1) == subject.targets).double().mean()
    assert right > 0.2  # chance is 0.1
    assert subject.offered["layers"]["gradcam"] in list(subject.model)
    assert not torch.equal(subject.images, subject.offered["reference_images"][:40])


@pytest.mark.slow
def test_given_images_and_a_given_model_are_judged(tmp_path):
    own = own_network(tmp_path, number=1)
    outcome = reproduce("soco-figure-13", quick=True, settings=own | {"layer": "0"})
    assert outcome.run["n"] == 1
    assert "is right on" in outcome.notes[-1]
    assert set(outcome.tables["pairs"].subject) == {"images"}
    assert set(outcome.tables["pairs"].method) == {"GradCAM", "IG", "ExPerturb"}


# The modifications of Table 3, counted out pixel by pixel

DIRECTIONS = ("remove", "introduce")


def drawn(*, ties=False):
    maps = torch.rand(3, 1, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (maps * 4).round() / 4 if ties else maps


def ascending(values):
    """Places from the least value on, the first of equal ones first."""
    return sorted(range(len(values)), key=lambda place: (values[place], place))


def test_constant_moves_every_pixel_and_clamps():
    maps = drawn()
    for direction, shift in (("remove", -0.6), ("introduce", 0.6)):
        free = modified(maps, "constant", direction, clip=False)
        assert torch.equal(free, maps + shift)
        assert torch.equal(modified(maps, "constant", direction), free.clamp(0, 1))


def test_random_moves_each_pixel_by_its_own_share_of_the_shift():
    maps = torch.full((1, 1, 100, 100), 0.5, dtype=torch.float64)
    for direction, sign in (("remove", -1), ("introduce", 1)):
        shifts = sign * (
            modified(maps, "random", direction, torch.Generator().manual_seed(0), clip=False) - maps
        )
        assert shifts.min() >= 0
        assert shifts.max() <= 0.6
        # Of 10,000 numbers from U(0, 0.6): a standard error of 0.0017, five of which are allowed
        assert float(shifts.mean()) == pytest.approx(0.3, abs=0.0087)
        assert len(shifts.unique()) > 9000


@pytest.mark.parametrize("ties", [False, True])
def test_partial_empties_ranks_or_lifts_the_lowest_to_a_quantile(ties):
    maps = drawn(ties=ties)
    removed, introduced = (modified(maps, "partial", each) for each in DIRECTIONS)
    for of_one, without, more in zip(maps, removed, introduced, strict=True):
        values = of_one.flatten().tolist()
        order = ascending(values)
        expected = [0.0 if place in order[12:16] else v for place, v in enumerate(values)]
        assert without.flatten().tolist() == expected
        ranked = sorted(values)
        quantile = ranked[15] + 0.2 * (ranked[16] - ranked[15])  # 0.8 * 19 = 15.2
        lifted = [quantile if place in order[:8] else v for place, v in enumerate(values)]
        assert more.flatten().tolist() == pytest.approx(lifted, abs=1e-15)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_map_of_a_batch_is_modified_by_itself_and_in_its_own_type(scheme):
    maps = drawn().float()
    for direction in DIRECTIONS:
        whole = modified(maps, scheme, direction, torch.Generator().manual_seed(0))
        assert whole.dtype == torch.float32
        alone = modified(maps[:1], scheme, direction, torch.Generator().manual_seed(0))
        assert torch.equal(whole[:1], alone)


def test_without_clamping_a_constant_leaves_the_order():
    maps = drawn()
    order = al.metrics.removal_order(maps)
    for direction in DIRECTIONS:
        free = modified(maps, "constant", direction, clip=False)
        assert torch.equal(al.metrics.removal_order(free), order)
        clamped = modified(maps, "constant", direction)
        assert not torch.equal(al.metrics.removal_order(clamped), order)


def test_what_cannot_be_modified_is_refused():
    with pytest.raises(al.AttributionLabError, match=r"maps reach from -1 to 1: pass maps in \[0"):
        modified(torch.tensor([[[[-1.0, 1.0]]]]), "constant", "remove")
    with pytest.raises(al.AttributionLabError, match="random shifts need a generator"):
        modified(drawn(), "random", "remove")
