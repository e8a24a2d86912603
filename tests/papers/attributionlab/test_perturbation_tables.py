"""Ranks, correlations and sentences follow from the scores, beside the paper's."""

import json

import numpy as np
import pytest

import attributionlab as al
from attributionlab.papers.attributionlab import comparison_plan, perturbation_study
from attributionlab.papers.attributionlab.paper_ranks import METRICS, RANKS
from attributionlab.papers.attributionlab.perturbation_findings import findings
from attributionlab.papers.attributionlab.perturbation_items import ITEMS, NOTES
from attributionlab.papers.attributionlab.perturbation_study import Study
from attributionlab.papers.attributionlab.perturbation_tables import (
    READINGS,
    correlations_table,
    means_table,
    ranks_table,
    two_by_two_table,
)
from attributionlab.papers.attributionlab.ranks_of_means import AgreementOfMeans
from attributionlab.papers.registry import EXPERIMENTS, experiment

SIDE, IMAGES = 24, 3
COLORS, MODULO = "multi-color-sum", "single-color-modulo"


def study_of(name, scores):
    """A study in which methods have these scores on every image: name -> (f1, three metrics)."""
    keys = ("f1_overall", "f1_positive", *METRICS)
    columns = {
        key: np.repeat([[float(scores[method][i])] for method in scores], IMAGES, axis=1)
        for i, key in zip((0, 0, 1, 2, 3), keys, strict=True)
    }
    curves = {metric: np.tile([0.0, 1.0], (len(scores), IMAGES, 1)) for metric in METRICS}
    points = dict.fromkeys(METRICS, np.array([0.0, 1.0]))
    env = al.load(name, image_size=SIDE)
    return Study(env, tuple(scores), columns, curves, points, np.full(IMAGES, 0.05))


def as_printed(name):
    """Scores with which methods have the paper's ranks; the other reading has the opposite ones."""
    ranks = RANKS[name].ranks
    scores = {method: (-f, -i, d, -s) for method, (f, i, d, s) in ranks.items()}
    for others in READINGS[name].values():
        for method, other in others.items():
            f1, *metrics = scores[method]
            if name == MODULO:  # where the magnitudes are the first reading
                scores[other] = (f1, *metrics)
                scores[method] = (f1, -99, 99, -99)
            else:
                scores[other] = (f1, -99, 99, -99)
    return study_of(name, scores)


each_environment = pytest.mark.parametrize("name", RANKS)


@each_environment
def test_scores_in_the_paper_s_order_have_the_paper_s_ranks(name):
    study = as_printed(name)
    other = {"overall": "positive", "positive": "overall"}[RANKS[name].truth]
    study.scores[f"f1_{other}"] *= -1  # another truth, which the paper's table is not about
    table = ranks_table([study])
    assert list(table.method) == list(RANKS[name].ranks)
    for column in ("f1", *METRICS):
        assert list(table[column]) == list(table[f"{column}_paper"]), column


@each_environment
def test_scores_in_the_paper_s_order_have_the_correlations_of_its_ranks(name):
    table = correlations_table([as_printed(name)], seed=0)
    first = table[table.maps == next(iter(READINGS[name]))]
    for truth, rows in first.groupby("truth"):
        assert list(rows.metric) == list(METRICS)
        assert list(rows.ours) == pytest.approx(RANKS[name].recomputed(), abs=1e-12)
        printed = list(rows.paper)
        if truth == RANKS[name].truth:
            assert printed == list(RANKS[name].correlations)
            assert list(rows.of_printed_ranks) == pytest.approx(RANKS[name].recomputed())
        else:
            assert np.isnan(printed).all()


@each_environment
def test_intervals_are_those_of_the_paper_s_ranks(name):
    ranks = np.array([*RANKS[name].ranks.values()], dtype=float)
    f1, *metrics = (np.repeat(-column[:, None], IMAGES, axis=1) for column in ranks.T)
    agreement = AgreementOfMeans({"overall": f1, "positive": f1}, 0.95, seed=7)
    table = correlations_table([as_printed(name)], seed=7)
    first = table[(table.maps == next(iter(READINGS[name]))) & (table.truth == "overall")]
    for row, metric in zip(first.itertuples(), metrics, strict=True):
        expected = agreement.of(metric, higher_is_better=True)["overall"]
        assert (row.low, row.high) == (expected.low, expected.high)
        if row.ours < 0.99:  # what so few methods give is uncertain on both sides
            assert row.low < row.ours - 0.02
            assert row.high > row.ours + 0.005


def test_equal_and_opposite_rankings_have_no_width():
    scores = {method: (i, i, i, -i) for i, method in enumerate(as_printed(COLORS).methods)}
    for row in correlations_table([study_of(COLORS, scores)], seed=0).itertuples():
        known = 1 if row.metric == "insertion" else -1
        assert [row.ours, row.low, row.high] == pytest.approx([known] * 3, abs=1e-12)


def test_table_2_has_a_row_for_each_truth_with_and_without_the_effect():
    studies = [as_printed(name) for name in RANKS if name != MODULO]
    table = two_by_two_table(correlations_table(studies, 0))
    assert list(zip(table.unseen_data_effect, table.truth, table.paper, strict=True)) == [
        ("with", "overall", ""),
        ("with", "positive", "0.02, 0.47, 0.65"),
        ("without", "overall", "0.42, 0.61, 0.81"),
        ("without", "positive", ""),
    ]
    numbers = [float(cell.split()[0]) for cell in table.iloc[2][list(METRICS)]]
    assert numbers == [round(each, 2) for each in RANKS["multi-color-sum-uniform"].recomputed()]


def test_means_stand_in_a_column_for_each_environment():
    studies = [as_printed(COLORS), as_printed("multi-color-sum-uniform")]
    table = means_table(studies, "insertion")
    assert list(table.columns) == ["method", COLORS, "multi-color-sum-uniform"]
    assert table.set_index("method").loc["lime"].tolist() == [-3, -4]


@each_environment
def test_the_other_reading_takes_the_scores_of_other_maps(name):
    table = correlations_table([as_printed(name)], seed=0)
    assert list(dict.fromkeys(table.maps)) == list(READINGS[name])
    first, second = (table[table.maps == reading].ours.to_numpy() for reading in READINGS[name])
    assert (first != second).all()


def test_what_differs_by_rounding_errors_is_a_tie():
    scores = dict.fromkeys(as_printed(COLORS).methods, (0.5, 0.5, 0.5, 0.5))
    scores["gradcam"] = (0.9999999, 0.9, 0.1, 0.9)
    scores["lime"] = (1.0, 0.9, 0.1, 0.9)
    table = ranks_table([study_of(COLORS, scores)]).set_index("method")
    assert list(table.loc["gradcam", ["f1", *METRICS]]) == [1.5] * 4
    assert table.f1["iba"] == 5.5


def test_findings_name_the_numbers_that_contradict_each_other():
    studies = [as_printed(name) for name in RANKS if name != MODULO]
    sentences = findings("ranks", studies, correlations_table(studies, 0), None)
    text = "\n".join(sentences)
    assert "(0.02, 0.47, 0.65) do not follow from its printed ranks" in text
    assert "correlate by -0.36, -0.19, 0.02." in text
    assert "correlate by 0.76, 0.67, 0.43." in text
    assert "without ties correlate by 0.47, 0.65, 0.42, 0.61" in text
    assert "exist from 10 methods on" in text
    assert "correlate by 0.38 and 0.83 instead of -1" in text
    assert text.count("table-6 (") == 1  # two environments, one table
    unseen = [each for each in sentences if "is an unseen color" in each]
    assert [each.split(" color in ")[1].split(":")[0] for each in unseen] == [
        "multi-color-sum",
        "multi-color-sum-uniform",
    ]
    assert "no effect of its own in multi-color-sum-in-distribution" in text


def test_findings_say_at_how_many_n_nothing_is_defined():
    study = as_printed(COLORS)
    study.curves["sensitivity_n"][..., -1] = np.nan
    text = " ".join(findings("ranks", [study], correlations_table([study], 0), None))
    assert "is not defined at 50% of all N (from N = 1 on)" in text
    study.curves["sensitivity_n"][..., 0] = np.nan
    study.curves["sensitivity_n"][..., -1] = 1
    text = " ".join(findings("ranks", [study], correlations_table([study], 0), None))
    assert "(first at N = 0)" in text


def test_findings_begin_with_what_the_item_is_about():
    studies = [as_printed(COLORS), as_printed("multi-color-sum-in-distribution")]
    table = correlations_table(studies, 0)
    ranks, insertion, sensitivity = (
        findings(about, studies, table, None) for about in ("ranks", "insertion", "sensitivity_n")
    )
    assert ranks[0].startswith("multi-color-sum: rank correlation of Insertion")
    assert insertion[0].startswith("Insertion in multi-color-sum, mean area over 3 images, highest")
    assert "first: -1.00 integrated-gradients; -2.00 occlusion; -3.00 lime; " in insertion[0]
    # Of the ten maps, the two from the true baseline are last in both.
    assert "multi-color-sum and in multi-color-sum-in-distribution correlate by" in insertion[2]
    assert "first: -1.00 guided-backprop; -2.00 lime; " in sensitivity[0]
    assert set(ranks) < set(insertion)
    assert set(ranks) < set(sensitivity)
    modulo = as_printed(MODULO)
    ties = {"reading order": (0.25, 0.75)}
    areas = findings("areas", [modulo], correlations_table([modulo], 0), ties)
    assert areas[0].startswith("The best order takes the 5.00% white pixels first")


def test_findings_say_of_what_the_intervals_are():
    study = as_printed(COLORS)
    first, *_ = findings("ranks", [study], correlations_table([study], 0), None)
    assert "of 8 methods by their means over 3 images" in first
    assert "they are of the correlation that 3 images and 8 methods give" in first


def test_findings_derive_the_best_areas_from_the_share_of_white_pixels():
    study = as_printed(MODULO)
    ties = {"reading order": (0.25, 0.75)}
    text = " ".join(findings("ranks", [study], correlations_table([study], 0), ties))
    assert (
        "the 5.00% white pixels first: Insertion 1 - 0.0500 / 2 = 0.9750, Deletion 0.0250" in text
    )
    assert "those of 4.92% white pixels" in text
    assert "(0.94, 0.98, 1.00) follow from its printed ranks" in text
    assert "(reading order: 0.2500, 0.7500)" in text


def test_every_item_is_an_experiment_of_known_environments():
    assert set(ITEMS) <= set(EXPERIMENTS)
    for item in ITEMS.values():
        assert item.title
        assert set(item.environments) <= set(RANKS)
        assert set(item.tables) <= set(NOTES)


def test_an_item_is_carried_out_and_written(monkeypatch, tmp_path):
    monkeypatch.setattr(comparison_plan, "QUICK_SIZE", SIDE)
    few = {name: RANKS[MODULO].ranks[name] for name in ("gradcam", "occlusion", "lrp", "constant")}
    few |= {
        name: RANKS[MODULO].ranks[name]
        for name in ("integrated-gradients", "integrated-gradients-true-baseline", "random")
    }
    monkeypatch.setitem(RANKS, MODULO, RANKS[MODULO]._replace(ranks=few))
    monkeypatch.setattr(
        "attributionlab.papers.attributionlab.perturbation_tables.AREAS",
        dict.fromkeys(few, (0.5, 0.5)),
    )
    monkeypatch.setattr(perturbation_study, "DRAWS", 10)
    outcome = experiment("figure-18", n=1, quick=True)
    assert (outcome.item, set(outcome.figures)) == ("figure-18", {"curves"})
    tables = outcome.tables
    assert list(tables)[:2] == list(outcome.shown) == ["sensitivity_n", "summary"]
    assert set(tables) == {
        *("summary", "ranks", "scores", "correlations", "images", "curves", "areas", "ties"),
        *("insertion", "sensitivity_n"),
    }
    assert outcome.findings[0].startswith("Sensitivity-N in single-color-modulo, mean correlation")
    [axis] = outcome.figures["curves"].axes  # of the metric that is asked for, and no other
    assert axis.get_title() == "Sensitivity-N, single-color-modulo"
    heading = outcome.figures["curves"].get_suptitle()
    assert f"{SIDE} x {SIDE} pixels, 1 image, seed 0" in heading
    methods = [*few, *READINGS[MODULO]["magnitude"].values()]
    assert list(tables["scores"].method) == methods
    assert len(tables["images"]) == len(methods)
    areas = tables["areas"].set_index("method")
    scores = tables["scores"].set_index("method")
    for metric in ("insertion", "deletion"):
        ours = areas.loc[list(few), metric]
        assert list(ours) == pytest.approx(list(scores.loc[list(few), metric]), abs=1e-5)
    best = tables["ranks"].set_index("method").loc["lrp", ["f1", *METRICS]]
    assert list(best) == [2.0] * 4  # with both IGs, whose magnitudes are right
    assert not tables["curves"].isna().any().any()
    written = outcome.save(tmp_path, "command")
    assert json.loads((tmp_path / "figure-18.json").read_text())["findings"] == outcome.findings
    assert len(written) == 1 + len(tables) + 1
