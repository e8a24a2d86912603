"""Methods by soundness and completeness: counted again by hand, and what must hold of a perfect map."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import attributionlab as al
from attributionlab.methods import METHODS, Notice, collect_notices, notify
from attributionlab.papers import items, reproduce
from attributionlab.papers.catalog import CLAIMS
from attributionlab.papers.soco import maps as soco_maps
from attributionlab.papers.soco import methods
from attributionlab.papers.subjects import subjects
from claims_held import all_hold, cases, follows
from own_network import own_network

ITEM = "soco-figure-8"


def linear_subject():
    """Four pixels; the first two speak for class 0, the third for class 1, the last for none."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2, bias=False)).eval()
    model[1].weight.data = torch.tensor([[2.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    images = torch.tensor([[[[1.0, 1.0], [1.0, 1.0]]], [[[1.0, 0.5], [0.0, 1.0]]]])
    phi = torch.tensor([[[[2.0, 1.0], [0.0, 0.0]]], [[[2.0, 0.5], [0.0, 0.0]]]]).double()
    return subjects.Subject(
        *("four pixels", model, model, images, torch.tensor([0, 0]), 1.0),
        *(torch.zeros(1, 1, 1), 1.0, phi),
    )


def measured(subject, maps, imputation="true-baseline"):
    """What is measured, by indicator."""
    return {
        name: methods.measured_rows(subject, maps, how)
        for name, how in soco_maps.setups(subject, imputation, 0)
    }


def summary_of(subject, maps):
    return pd.DataFrame(methods.case_rows(subject, maps, "true-baseline", 0.5, 0)["summary"])


def test_the_information_itself_is_sound_and_complete():
    subject = linear_subject()
    maps = subject.information / subject.information.amax((2, 3), keepdim=True)
    for result in measured(subject, maps).values():
        reached = [row for row in result["soundness"] if row["reached"]]
        assert reached
        assert all(row["soundness"] == row["true_soundness"] == 1 for row in reached)
        # Thresholds up to 0.2 leave nothing of what either image has; 0.5 and more the first pixel.
        complete = {row["threshold"]: row for row in result["completeness"]}
        assert complete[0.2]["true_completeness"] == 1
        ends = complete[0.9]["true_least"], complete[0.9]["true_greatest"]
        assert ends == pytest.approx((2 / 3, 2 / 2.5))
        assert complete[0.9]["true_completeness"] == pytest.approx(sum(ends) / 2)


def test_the_truth_beside_a_level_is_about_the_pixels_that_reach_it():
    subject = linear_subject()
    maps = torch.tensor([1.0, 0.0, 0.0, 0.5]).double().reshape(1, 1, 2, 2).expand(2, -1, -1, -1)
    levels = measured(subject, maps)["accuracy"]["soundness"]
    # The first pixel alone is enough; the fourth, which carries nothing, is not among them.
    assert [row["true_soundness"] for row in levels] == [1] * 9
    [row] = methods.noise_rows(subject, 0.0, {"map": maps})["noise"]
    assert row["all_soundness"] == pytest.approx(2 / 3)


def test_a_predictive_level_is_a_share_of_the_way_from_nothing_to_the_whole_image():
    subject = linear_subject()
    found = measured(subject, subject.information / 2)
    # One pixel makes both right: accuracy goes from the tie's 0.5 to 1 and jumps over all levels.
    accuracy = found["accuracy"]["soundness"]
    assert [row["performance"] for row in accuracy] == [1] * 9
    assert all(row["jumped"] for row in accuracy)
    outputs = subject.model(subject.images).softmax(1)[:, 0].mean().item()
    for row in found["label probability"]["soundness"]:
        assert row["performance"] >= 0.5 + row["level"] * (outputs - 0.5) - 1e-12


def test_removal_starts_from_the_whole_image_and_black_is_what_deletion_leaves():
    subject = linear_subject()
    rows = measured(subject, subject.information / 2)["accuracy"]["removal"]
    found = {(row["metric"], row["fraction"]): row["performance"] for row in rows}
    assert [found[metric, 0.0] for metric in methods.REMOVALS] == [1] * 4
    # Without its first two pixels the first image is taken for class 1, the second for neither.
    assert found["deletion-morf", 0.5] == 0.25
    assert found["deletion-lerf", 0.5] == 1


def test_without_information_nothing_true_is_claimed():
    subject = linear_subject()
    blind = subjects.Subject(
        *("blind", subject.model, subject.model, subject.images, subject.targets, 1.0),
        *(subject.empty, 1.0),
    )
    for result in measured(blind, subject.information / 2, methods.LINEAR).values():
        assert all(math.isnan(row["true_soundness"]) for row in result["soundness"])
        assert all(math.isnan(row["true_completeness"]) for row in result["completeness"])
    [row] = methods.noise_rows(blind, 0.1, {"a": subject.information})["noise"]
    assert math.isnan(row["all_soundness"])


def test_the_summary_is_counted_from_the_points():
    subject = linear_subject()
    maps = {"good": subject.information / 2, "empty": 0 * subject.information}
    rows = methods.case_rows(subject, maps, "true-baseline", 0.5, 0)
    points = {name: pd.DataFrame(of_name) for name, of_name in rows.items()}
    table = points.pop("summary").set_index(["indicator", "method"])
    assert list(table.index) == [(i, m) for i in soco_maps.INDICATORS for m in maps]
    for (indicator, method), row in table.iterrows():
        here = {
            name: of[(of.indicator == indicator) & (of.method == method)]
            for name, of in points.items()
        }
        reached = here["soundness"][here["soundness"].reached]
        assert row.levels == len(reached)
        if len(reached):
            assert row.soundness == pytest.approx(reached.soundness.mean(), nan_ok=True)
        assert row.completeness == pytest.approx(here["completeness"].completeness.mean())
        curve = here["removal"][here["removal"].metric == "road-lerf"]
        assert curve.fraction.tolist() == list(methods.FRACTIONS)
        area, before = 0.0, None
        for at, value in zip(curve.fraction, curve.performance, strict=True):
            if before is not None:
                area += (at - before[0]) * (value + before[1]) / 2
            before = at, value
        assert row["road-lerf"] == pytest.approx(area / 0.9)
    assert table["empty"].tolist() == [0, 2, 0, 2]
    assert table.loc[("accuracy", "good"), "all_completeness"] == 1
    assert table.loc[("accuracy", "empty"), "levels"] == 0
    assert set(table.images) == {2}
    counted = methods.levels_table(table.reset_index()).set_index("indicator").loc["accuracy"]
    of_accuracy = table.loc["accuracy"]
    assert counted.tolist() == [18, of_accuracy.levels.sum(), of_accuracy.jumped.sum()]


@pytest.mark.long
def test_below_a_method_that_optimizes_stand_the_lowest_and_highest_of_its_runs():
    subject = linear_subject()
    good, empty = subject.information / 2, 0 * subject.information

    def table(maps):
        return summary_of(subject, maps)

    first, others = table({"a": good, "b": good}), [table({"b": empty}), table({"b": good})]
    whole = methods.with_other_runs(
        first, [row for each in others for row in each.to_dict("records")]
    )
    names = ["a", "b", "b, lowest of 3 runs", "b, highest of 3 runs"]
    assert whole.method.tolist() == names * 2
    assert whole.all_completeness.tolist() == [1, 1, 0, 1] * 2
    assert whole["empty"].tolist() == [0, 0, 0, 2] * 2
    assert whole.columns.tolist() == first.columns.tolist()
    pd.testing.assert_frame_equal(methods.with_other_runs(first, []), first)


@pytest.mark.long
def test_runs_of_a_method_that_optimizes_differ_and_others_have_one():
    subject = subjects.environment_subject(al.load("multi-color-sum", image_size=24), 1, 0)
    first, second, third = (
        dict(soco_maps.method_maps(subject, ("gradcam", "iba"), 0, repeat=repeat))
        for repeat in range(3)
    )
    assert (list(first), list(second)) == (["gradcam", "iba"], ["iba"])
    assert not torch.equal(first["iba"], second["iba"])
    assert not torch.equal(second["iba"], third["iba"])
    assert not list(soco_maps.method_maps(subject, ("gradcam", "iba"), 0, repeat=3))


def made_up_summary(**changes):
    """A row of each map, of which most numbers grow from map to map."""
    steps = 0.1 * np.arange(4)
    fixed = {"environment": "env", "imputation": methods.LINEAR, "indicator": "label probability"}
    grows = ("soundness", "all_soundness", "completeness", "true_completeness", "road-morf")
    table = pd.DataFrame({**fixed, "method": [soco_maps.PLAIN, *soco_maps.ENSEMBLES], "noise": 0.1})
    table = table.assign(**dict.fromkeys((*grows, "road-lerf"), steps), true_soundness=-steps)
    same = {"levels": 9, "jumped": 3, "all_completeness": 0.5, "empty": 0}
    same |= {"deletion-morf": 0.5, "deletion-lerf": 0.5}
    return table.assign(**same | changes)


def test_metrics_of_which_less_is_better_are_turned_around_before_they_are_correlated():
    table = methods.agreement_table(
        made_up_summary(), {"ensembles": (soco_maps.PLAIN, *soco_maps.ENSEMBLES)}
    )
    everything = table.set_index("metric")
    assert everything.with_own[["soundness", "completeness"]].tolist() == pytest.approx([-1, 1])
    assert everything.with_soundness[["soundness", "road-morf", "road-lerf"]].tolist() == (
        pytest.approx([1, -1, 1])
    )
    assert everything.loc[["deletion-morf"], "with_soundness"].isna().all()
    assert everything.with_own[["road-morf", "deletion-lerf"]].isna().all()
    assert everything["count"].tolist() == [4, 4, 0, 0, 0, 0]
    assert everything.low.isna().all()  # a correlation of 1 has no interval by Fisher's z


def test_a_correlation_has_the_interval_of_as_many_methods_as_are_known():
    summary = made_up_summary(true_soundness=[0.1, 0.0, 0.2, 0.3])
    names = (soco_maps.PLAIN, *soco_maps.ENSEMBLES)
    own = methods.agreement_table(summary, {"ensembles": names}).iloc[0]
    assert (own.metric, own["count"]) == ("soundness", 4)
    # One pair of four swapped: 1 - 6 * 2 / 60
    expected = al.ranking.fisher_interval(0.8, 4)
    assert (own.with_own, own.low, own.high) == pytest.approx(tuple(expected))
    fewer = methods.agreement_table(summary, {"three": names[:3]}).iloc[0]
    assert fewer["count"] == 3
    assert math.isnan(fewer.low)


def test_networks_are_compared_with_their_own_plain_map():
    first = made_up_summary(environment="a", completeness=[0.5, 0.6, 0.505, 0.1])
    second = made_up_summary(environment="b", completeness=[0.1, 0.3, 0.0, 0.2])
    table = methods.networks_table(pd.concat([first, second])).set_index(["metric", "method"])
    found = table.loc["completeness", ["mean", "least", "greatest", "better", "worse"]]
    assert found.to_numpy(float) == pytest.approx(
        np.array(
            [
                [0.3, 0.1, 0.5, 0, 0],
                [0.45, 0.3, 0.6, 2, 0],
                [0.2525, 0, 0.505, 0, 1],
                [0.15, 0.1, 0.2, 1, 1],
            ]
        )
    )
    # Of MoRF, less is better.
    assert table.loc[("road-morf", soco_maps.ENSEMBLES[0]), ["better", "worse"]].tolist() == [0, 2]
    assert set(table.networks) == {2}


def test_leaders_are_no_worse_than_the_best_by_more_than_a_hundredth():
    case = made_up_summary(soundness=[0.5, 0.495, 0.48, math.nan])
    networks = methods.networks_table(made_up_summary(environment=f"{subjects.TRAINED}, seed 0"))
    table = methods.leaders_table(case, networks).set_index(["environment", "ratio"])
    assert table.leaders["env", "soundness"] == f"{soco_maps.PLAIN}, {soco_maps.ENSEMBLES[0]}"
    assert table.value["env", "soundness"] == 0.5
    assert table.leaders[f"{subjects.TRAINED}, mean", "completeness"] == soco_maps.ENSEMBLES[2]
    assert (f"{subjects.TRAINED}, mean", "true_soundness") not in table.index


def answers(tables):
    return all_hold(tables, ITEM)


def made_up_tables(*, networks=3, **changes):
    """Tables of one environment and so many trained networks, all alike."""
    summary = made_up_summary(environment=methods.SEEN, true_soundness=[0.2, 0.1, 0.1, 0.1])
    disturbed = made_up_summary(environment=methods.UNSEEN, soundness=1.0)
    learned = [
        made_up_summary(environment=f"{subjects.TRAINED}, seed {seed}", **changes)
        for seed in range(networks)
    ]
    by_network = (
        methods.networks_table(pd.concat(learned))
        if learned
        else methods.networks_table(summary.iloc[:0])
    )
    agreement = methods.agreement_table(
        summary, {"all": (soco_maps.PLAIN, *soco_maps.ENSEMBLES)}
    ).assign(low=0.1, high=0.9)
    noise = pd.DataFrame({"noise": [0.0, 0.124], "all_completeness": [1.0, 0.01]})
    return {
        "ensembles": summary,
        "methods": pd.concat([summary, disturbed]),
        "leaders": methods.leaders_table(summary, by_network),
        "agreement": agreement,
        "networks": by_network,
        "noise": noise,
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "column", "cases"),
    [
        (
            *("ensembles_gain_soundness", "soundness"),
            {"agrees": [0.1, 0.2, 0.2, 0.2], "differs": [0.1, 0.2, 0.2, 0.1]},
        ),
        (
            *("smoothgrad_alone_gains_completeness", "completeness"),
            {"agrees": [0.1, 0.2, 0.1, 0.0], "differs": [0.1, 0.2, 0.2, 0.1]},
        ),
        (
            *("removal_shows_no_gain", "road-lerf"),
            {"agrees": [0.2, 0.2, 0.1, 0.1], "differs": [0.1, 0.2, 0.1, 0.1]},
        ),
    ],
)
def test_what_ensembles_gain_is_counted_on_at_least_three_networks(name, column, cases):
    same = {"road-morf": 0.5, "road-lerf": 0.5}
    for expected, values in cases.items():
        tables = made_up_tables(**{**same, column: values})
        assert answers(tables)[name] == expected
        assert answers(made_up_tables(networks=2, **{**same, column: values}))[name] == "undecided"
        assert answers(made_up_tables(networks=0))[name] == "undecided"


def test_a_gain_in_two_of_three_networks_decides_nothing():
    table = made_up_tables()["networks"]
    found = answers({**made_up_tables(), "networks": table.assign(better=2, worse=1)})
    assert found["ensembles_gain_soundness"] == "undecided"


def leaders(**of_ratio):
    table = pd.DataFrame({"ratio": of_ratio.keys(), "leaders": of_ratio.values()})
    return table.assign(environment=f"{subjects.TRAINED}, mean", imputation=methods.LINEAR)


@pytest.mark.long
def test_who_leads_follows_the_table():
    of_paper = leaders(soundness="gradcam, iba", completeness="extremal-perturbation")
    of_other = leaders(soundness="gradcam", completeness="gradcam, iba")
    names = ["gradcam_and_iba_lead_in_soundness", "extremal_perturbation_leads_in_completeness"]
    for table, expected in ((of_paper, "agrees"), (of_other, "differs")):
        found = answers({**made_up_tables(), "leaders": table})
        assert {found[name] for name in [*names, "no_method_leads_in_both"]} == {expected}
        found = answers({**made_up_tables(networks=2), "leaders": table})
        assert {found[name] for name in names} == {"undecided"}


def test_a_ratio_that_is_not_known_has_no_leaders():
    found = answers({**made_up_tables(), "leaders": leaders(completeness="gradcam")})
    assert found["no_method_leads_in_both"] == "undecided"
    assert found["gradcam_and_iba_lead_in_soundness"] == "undecided"
    assert found["extremal_perturbation_leads_in_completeness"] == "differs"


@cases(
    """
    ensembles_gain_nothing_true | ensembles | | true_completeness=0.5 | agrees
    | ensembles | method == @SMOOTH | true_completeness=0.9 | differs
    | ensembles | | true_completeness=nan, true_soundness=nan | undecided
    estimates_rank_as_the_truth | agreement | | low=0.1, high=0.9 | agrees
    | agreement | | low=-0.9, high=-0.1 | differs
    | agreement | | low=-0.1, high=0.9 | undecided
    | agreement | | low=nan | undecided
    disturbed_counts_hide_soundness | methods | | soundness=1.0 | agrees
    | methods | | soundness=0.9 | differs
    | methods | | environment='own' | undecided
    paper_noise_loses_information | noise | | all_completeness=0.05 | agrees
    | noise | | all_completeness=0.5 | differs
    | noise | | all_completeness=nan | undecided
    """,
    SimpleNamespace(SMOOTH=soco_maps.ENSEMBLES[0]),
)
def test_each_claim_of_ours_follows_its_table(name, table, where, values, answer):
    follows(made_up_tables(), name, table, where, values, answer)


def test_what_guards_say_of_the_samples_of_ensembles_is_handed_on(monkeypatch):
    def method(model, inputs, targets, *, baselines):
        notify(Notice("are made up", len(inputs)))
        return inputs

    monkeypatch.setattr("attributionlab.papers.soco.maps.METHODS", {soco_maps.PLAIN: method})
    subject = subjects.environment_subject(al.load("multi-color-sum", image_size=16), 1, 0)
    with collect_notices() as notices:
        soco_maps.ensemble_maps(subject, 0.0005, 0, quick=True)
    assert [(notice.text, notice.images) for notice in notices] == [
        ("of integrated-gradients at noisy samples are made up", soco_maps.QUICK_SAMPLES)
    ]


@pytest.mark.long
def test_ensembles_share_samples_and_are_what_the_methods_of_these_names_give():
    env = al.load("multi-color-sum", image_size=16)
    subject = subjects.environment_subject(env, 1, 0)
    together = soco_maps.ensemble_maps(subject, 0.0005, 0, quick=True)
    assert list(together) == list(soco_maps.ENSEMBLES)
    for name in soco_maps.ENSEMBLES:
        with collect_notices():
            maps = METHODS[name](
                *(env.softmax_model, subject.images, subject.targets),
                highest=255.0,
                generator=torch.Generator().manual_seed(0),
                noise=0.0005,
                n_samples=soco_maps.QUICK_SAMPLES,
            )
        positive = maps.double().sum(1, keepdim=True).clamp(min=0)
        expected = positive / positive.amax((2, 3), keepdim=True)
        # Channels of float64 are summed here, of values rounded to float32 there.
        torch.testing.assert_close(together[name], expected, rtol=0, atol=1e-6)


@pytest.mark.long
def test_information_is_what_raises_the_label_and_maps_are_in_the_unit_interval():
    env = al.load("multi-color-sum", image_size=16)
    subject = subjects.environment_subject(env, 1, 0)
    truth = env.truth(subject.images, subject.targets)
    assert torch.equal(subject.information > 0, truth.positive)
    [(name, maps)] = soco_maps.method_maps(subject, ("deep-shap",), 0)
    assert name == "deep-shap"
    assert maps.min() == 0
    assert maps.max() == 1


def test_methods_that_explain_by_a_layer_need_one_of_a_given_network(tmp_path):
    own = own_network(tmp_path, number=1)
    assert not list(soco_maps.method_maps(subjects.chosen_subject(1, 0, **own), ("gradcam",), 0))
    attached = subjects.chosen_subject(1, 0, **own, layer="0")
    assert [name for name, _ in soco_maps.method_maps(attached, ("gradcam",), 0)] == ["gradcam"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # Captum's own
def test_a_run_on_given_images_claims_nothing_of_a_truth(tmp_path):
    own = own_network(tmp_path, number=1, side=16)
    outcome = reproduce(ITEM, n=1, quick=True, settings=own)
    assert outcome.tables["ensembles"].true_completeness.isna().all()
    assert not any(each.startswith("true") for each in outcome.tables["leaders"].ratio)
    assert "is right on" in outcome.notes[-2]
    found = answers(outcome.tables)
    found.pop("no_method_leads_in_both")
    assert set(found.values()) == {"undecided"}


@pytest.mark.slow
def test_a_quick_run_serves_all_items_and_shows_each_its_own_figures_first():
    settings = {"pictures": 1}
    outcome = reproduce("soco-figure-9", n=1, quick=True, settings=settings)
    assert next(iter(outcome.figures)).startswith("methods-")
    trained = f"{subjects.TRAINED}, seed 0"
    kinds = ("soundness", "completeness", "removal")
    assert set(outcome.figures) == {
        *(f"{group}-{kind}" for group in ("ensembles", "methods") for kind in kinds),
        *("maps-multi-color-sum", "maps-trained-on-pictures-seed-0"),
    }
    assert all(isinstance(figure, Figure) for figure in outcome.figures.values())
    assert outcome.item.tables.keys() <= outcome.tables.keys()
    summary = outcome.tables["summary"]
    first = summary[~summary.method.str.contains(" runs")]
    assert len(first) == 4 * 2 * 9
    assert set(summary[summary.environment == trained].noise) == {0.124}
    assert trained not in set(outcome.tables["ensembles"].environment)
    assert len(outcome.tables["networks"]) == 9 * 6
    four = {f"soco-figure-{number}" for number in (8, 9, 14, 15)}
    assert four <= set(items())
    assert all(set(each.items) == four for each in CLAIMS if outcome.item.name in each.items)
    ratios = summary[["true_soundness", "true_completeness", "all_soundness"]]
    assert ratios.stack().dropna().between(0, 1 + 1e-12).all()  # NaN: no level reached
