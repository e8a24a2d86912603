"""Ranks, correlations and sentences follow from the scores, beside the paper's."""

import json

import numpy as np
import pytest

import attributionlab as al
from attributionlab.experiments import (
    EXPERIMENTS,
    comparison_plan,
    experiment,
    perturbation_study,
)
from attributionlab.experiments.paper_ranks import METRICS, RANKS
from attributionlab.experiments.perturbation_findings import findings
from attributionlab.experiments.perturbation_study import Study
from attributionlab.experiments.perturbation_tables import (
    ITEMS,
    READINGS,
    correlations_table,
    ranks_table,
)

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
        assert (rows.low <= rows.ours + 1e-12).all()
        assert (rows.ours <= rows.high + 1e-12).all()
        printed = list(rows.paper)
        if truth == RANKS[name].truth:
            assert printed == list(RANKS[name].correlations)
            assert list(rows.of_printed_ranks) == pytest.approx(RANKS[name].recomputed())
        else:
            assert np.isnan(printed).all()


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
    sentences = findings(studies, correlations_table(studies, 0), None)
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
    text = " ".join(findings([study], correlations_table([study], 0), None))
    assert "At 50% of all N" in text


def test_findings_derive_the_best_areas_from_the_share_of_white_pixels():
    study = as_printed(MODULO)
    ties = {"reading order": (0.25, 0.75)}
    text = " ".join(findings([study], correlations_table([study], 0), ties))
    assert (
        "the 5.00% white pixels first: Insertion 1 - 0.0500 / 2 = 0.9750, Deletion 0.0250" in text
    )
    assert "those of 4.92% white pixels" in text
    assert "(0.94, 0.98, 1.00) follow from its printed ranks" in text
    assert "(reading order: 0.2500, 0.7500)" in text


def test_every_item_is_an_experiment_of_known_environments():
    assert set(ITEMS) <= set(EXPERIMENTS)
    for title, names in ITEMS.values():
        assert title
        assert set(names) <= set(RANKS)


def test_an_item_is_carried_out_and_written(monkeypatch, tmp_path):
    monkeypatch.setattr(comparison_plan, "QUICK_SIZE", SIDE)
    few = {name: RANKS[MODULO].ranks[name] for name in ("gradcam", "occlusion", "lrp", "constant")}
    few |= {
        name: RANKS[MODULO].ranks[name]
        for name in ("integrated-gradients", "integrated-gradients-true-baseline", "random")
    }
    monkeypatch.setitem(RANKS, MODULO, RANKS[MODULO]._replace(ranks=few))
    monkeypatch.setattr(
        "attributionlab.experiments.perturbation_tables.AREAS",
        dict.fromkeys(few, (0.5, 0.5)),
    )
    monkeypatch.setattr(perturbation_study, "DRAWS", 10)
    outcome = experiment("figure-18", n=1, quick=True)
    assert (outcome.item, set(outcome.figures)) == ("figure-18", {"curves"})
    tables = outcome.tables
    assert set(tables) == {
        *("summary", "ranks", "scores", "correlations", "images", "curves", "areas", "ties")
    }
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
