"""Ranks, correlations and claims follow from the scores, beside the paper's."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

import attributionlab as al
from attributionlab.papers import items, reproduce
from attributionlab.papers.attributionlab import (
    comparison_plan,
    perturbation_study,
    perturbation_tables,
)
from attributionlab.papers.attributionlab.comparison_plan import COLORS, MODULO, UNIFORM, WITHOUT
from attributionlab.papers.attributionlab.perturbation_study import METRICS, OPPOSITE, Study
from attributionlab.papers.attributionlab.perturbation_tables import (
    PRINTED,
    READINGS,
    TABLE_OF,
    correlations_table,
    mean_agreement,
    orders_table,
    printed_areas,
    printed_ranks,
    ranks_table,
    scores_table,
    two_by_two_table,
)
from claims_held import holds

SIDE, IMAGES = 24, 3


def study_of(name, scores):
    """A study in which methods have these scores on every image: name -> (f1, three metrics)."""
    rows = [
        {"method": method, "run": 0, "sample": sample, "f1_overall": f1, "f1_positive": f1}
        | dict(zip(METRICS, map(float, metrics), strict=True))
        for method, (f1, *metrics) in scores.items()
        for sample in range(IMAGES)
    ]
    env = al.load(name, image_size=SIDE)
    table = pd.DataFrame(rows).astype({"f1_overall": float, "f1_positive": float})
    return Study(env, table, pd.DataFrame(), {}, 0.05)


def as_printed(name):
    """Scores with which methods have the paper's ranks; the other reading has the opposite ones."""
    scores = {row.Index: (-row.f1, -row.insertion, row.deletion, -row.sensitivity_n)
              for row in printed_ranks(name).itertuples()}  # fmt: skip
    for others in READINGS[name].values():
        for method, other in others.items():
            f1, *metrics = scores[method]
            if name == MODULO:  # where the magnitudes are the first reading
                scores[other] = (f1, *metrics)
                scores[method] = (f1, -99, 99, -99)
            else:
                scores[other] = (f1, -99, 99, -99)
    return study_of(name, scores)


def recomputed(name):
    ranks = printed_ranks(name)
    return [float(spearmanr(ranks.f1, ranks[metric]).statistic) for metric in METRICS]


each_environment = pytest.mark.parametrize("name", TABLE_OF)


@each_environment
def test_printed_ranks_run_from_1_to_the_number_of_methods(name):
    for _, column in printed_ranks(name).items():
        assert sorted(column) == list(range(1, len(column) + 1))


@each_environment
def test_scores_in_the_paper_s_order_have_the_paper_s_ranks(name):
    study = as_printed(name)
    truth = PRINTED[TABLE_OF[name]][0]
    other = {"overall": "positive", "positive": "overall"}[truth]
    study.scores[f"f1_{other}"] *= -1  # another truth, which the paper's table is not about
    table = ranks_table([study])
    assert list(table.method) == list(printed_ranks(name).index)
    for column in ("f1", *METRICS):
        assert list(table[column]) == list(table[f"{column}_paper"]), column


@each_environment
def test_scores_in_the_paper_s_order_have_the_correlations_of_its_ranks(name):
    table = correlations_table([as_printed(name)], seed=0)
    first = table[table.maps == next(iter(READINGS[name]))]
    about, printed = PRINTED[TABLE_OF[name]]
    for truth, rows in first.groupby("truth"):
        assert list(rows.metric) == list(METRICS)
        assert list(rows.ours) == pytest.approx(recomputed(name), abs=1e-12)
        if truth == about:
            assert tuple(rows.paper) == printed
            assert list(rows.of_printed_ranks) == pytest.approx(recomputed(name), abs=1e-12)
        else:
            assert rows.paper.isna().all()


@each_environment
def test_intervals_are_those_of_the_paper_s_ranks(name):
    ranks = printed_ranks(name).to_numpy(float)
    rows = (np.repeat(-column[:, None], IMAGES, axis=1) for column in ranks.T)
    scores = dict(zip(("f1_overall", *METRICS), rows, strict=True))
    scores |= {"f1_positive": scores["f1_overall"], "deletion": -scores["deletion"]}
    expected = mean_agreement(scores, seed=7)
    table = correlations_table([as_printed(name)], seed=7)
    first = table[(table.maps == next(iter(READINGS[name]))) & (table.truth == "overall")]
    for row in first.itertuples():
        assert (row.low, row.high) == expected["overall", row.metric][1:]
        if row.ours < 0.99:  # what so few methods give is uncertain on both sides
            assert row.low < row.ours - 0.02
            assert row.high > row.ours + 0.005


def test_equal_and_opposite_rankings_have_no_width():
    methods = as_printed(COLORS).scores.method.unique()
    scores = {method: (i, i, i, -i) for i, method in enumerate(methods)}
    for row in correlations_table([study_of(COLORS, scores)], seed=0).itertuples():
        known = 1 if row.metric == "insertion" else -1
        assert [row.ours, row.low, row.high] == pytest.approx([known] * 3, abs=1e-12)


@pytest.mark.long
def test_table_2_has_a_row_for_each_truth_with_and_without_the_effect():
    table = two_by_two_table(
        correlations_table([as_printed(each) for each in (COLORS, WITHOUT, UNIFORM)], 0)
    )
    assert list(zip(table.unseen_data_effect, table.truth, table.paper, strict=True)) == [
        ("with", "overall", ""),
        ("with", "positive", "0.02, 0.47, 0.65"),
        ("without", "overall", "0.42, 0.61, 0.81"),
        ("without", "positive", ""),
    ]
    numbers = [float(cell.split()[0]) for cell in table.iloc[2][list(METRICS)]]
    assert numbers == [round(each, 2) for each in recomputed(WITHOUT)]


def test_orders_of_all_maps_are_compared_between_environments():
    opposite = {
        row.method: (0, -row.insertion, 0, 0) for row in as_printed(COLORS).scores.itertuples()
    }
    studies = [as_printed(COLORS), study_of(UNIFORM, opposite)]
    [row] = orders_table(scores_table(studies)).itertuples()
    assert (row.first, row.second, row.correlation) == (COLORS, UNIFORM, pytest.approx(-1))


@each_environment
def test_the_other_reading_takes_the_scores_of_other_maps(name):
    table = correlations_table([as_printed(name)], seed=0)
    assert list(dict.fromkeys(table.maps)) == list(READINGS[name])
    first, second = (table[table.maps == reading].ours.to_numpy() for reading in READINGS[name])
    assert (first != second).all()


def test_what_differs_by_rounding_errors_is_a_tie():
    scores = dict.fromkeys(as_printed(COLORS).scores.method.unique(), (0.5, 0.5, 0.5, 0.5))
    scores["gradcam"] = (0.9999999, 0.9, 0.1, 0.9)
    scores["lime"] = (1.0, 0.9, 0.1, 0.9)
    table = ranks_table([study_of(COLORS, scores)]).set_index("method")
    assert list(table.loc["gradcam", ["f1", *METRICS]]) == [1.5] * 4
    assert table.f1["iba"] == 5.5


def attainable(correlation, methods):
    """Whether two rankings without ties have it: 1 - 6 D / (n (n^2 - 1)), D even, to two decimals."""
    scale = methods * (methods**2 - 1)
    return any(round(1 - each / scale, 2) == correlation for each in range(0, 2 * scale + 1, 12))


@pytest.mark.parametrize("methods", [4, 5])
def test_attainable_correlations_are_those_of_all_rankings(methods):
    scale = methods * (methods**2 - 1)
    found = {
        round(1 - 6 * sum((i - j) ** 2 for i, j in enumerate(each)) / scale, 2)
        for each in permutations(range(methods))
    }
    assert {n / 100 for n in range(-100, 101) if attainable(n / 100, methods)} == found


def test_notes_state_what_follows_from_the_printed_ranks():
    notes = " ".join(items()["table-2"].notes) + " ".join(items()["table-3"].notes)
    for name, follows in ((MODULO, True), (COLORS, False), (WITHOUT, False)):
        rounded = [round(each, 2) for each in recomputed(name)]
        assert (tuple(rounded) == PRINTED[TABLE_OF[name]][1]) == follows
        assert ", ".join(f"{each:.2f}" for each in rounded) in notes
    between = [
        spearmanr(ranks.insertion, ranks.deletion).statistic
        for ranks in map(printed_ranks, (COLORS, WITHOUT))
    ]
    assert "{:.2f} (table-5) and {:.2f} (table-6)".format(*between) in notes
    printed = [*PRINTED["table-5"][1], *PRINTED["table-6"][1]]
    assert [each for each in printed if not attainable(each, 8)] == [0.47, 0.65, 0.42, 0.61]
    assert "correlate by 0.47, 0.65, 0.42, 0.61" in notes
    assert not all(attainable(each, 9) for each in printed)
    assert all(attainable(each, 10) for each in printed)
    areas = printed_areas()
    assert f"{areas.loc['constant'].sum():.2f}" in notes
    assert f"{2 * areas.deletion['lrp']:.2%}".replace("%", " %") in notes


def test_the_ranks_of_random_and_constant_contradict_their_printed_areas():
    ranks, areas = printed_ranks(MODULO), printed_areas().loc[["random", "constant"]]
    assert areas.insertion.idxmax() != ranks.insertion[areas.index].idxmin()
    assert areas.deletion.idxmin() != ranks.deletion[areas.index].idxmin()


def correlations(by_name):
    """Rows of the likelier reading: environment -> (ours, low, high), for every metric alike."""
    return pd.DataFrame(
        {"environment": name, "truth": PRINTED[TABLE_OF[name]][0], "metric": metric,
         "maps": next(iter(READINGS[name])), "ours": ours, "low": low, "high": high}
        for name, (ours, low, high) in by_name.items() for metric in METRICS
    )  # fmt: skip


SURE, NONE, WIDE = (0.9, 0.8, 1.0), (0.1, 0.0, 0.2), (0.5, 0.0, 1.0)


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        (
            "metrics_rank_as_f1_on_modulo",
            [
                ({MODULO: SURE}, "agrees"),
                ({MODULO: NONE}, "differs"),
                ({MODULO: WIDE}, "undecided"),
            ],
        ),
        (
            "no_metric_ranks_as_f1_with_unseen_colors",
            [
                ({COLORS: NONE}, "agrees"),
                ({COLORS: SURE}, "differs"),
                ({COLORS: WIDE}, "undecided"),
            ],
        ),
        (
            "agreement_returns_without_unseen_colors",
            [
                ({COLORS: NONE, WITHOUT: SURE}, "agrees"),
                ({COLORS: SURE, WITHOUT: NONE}, "differs"),
                ({COLORS: WIDE, WITHOUT: SURE}, "undecided"),
            ],
        ),
        (
            "uniform_weights_take_the_effect_away",
            [
                ({UNIFORM: SURE, WITHOUT: SURE}, "agrees"),
                ({UNIFORM: NONE, WITHOUT: SURE}, "differs"),
            ],
        ),
    ],
)
def test_claims_about_correlations_follow_their_intervals(name, cases):
    for by_name, expected in cases:
        assert holds({"correlations": correlations(by_name)}, name) == expected


def test_mixed_correlations_leave_uniform_weights_undecided():
    table = correlations({UNIFORM: NONE, WITHOUT: WIDE})
    table.loc[0, "ours"] = 0.9
    assert holds({"correlations": table}, "uniform_weights_take_the_effect_away") == "undecided"


def test_claims_about_signs_areas_and_ties_follow_the_tables():
    both = pd.concat(
        correlations({MODULO: each}).assign(maps=reading)
        for reading, each in (("magnitude", SURE), ("signed", NONE))
    )
    assert holds({"correlations": both}, "signs_spoil_the_ranks_on_modulo") == "agrees"
    equal = both.assign(ours=0.5)
    assert holds({"correlations": equal}, "signs_spoil_the_ranks_on_modulo") == "differs"
    names = ["lrp", "deep-shap", "integrated-gradients, magnitude",
             "integrated-gradients-true-baseline, magnitude"]  # fmt: skip
    areas = pd.DataFrame({"method": names, "insertion": 0.9, "deletion": 0.1})
    best = pd.DataFrame({"of": ["ours"], "insertion": [0.9], "deletion": [0.1]})
    tables = {"areas": areas, "best-order": best}
    assert holds(tables, "four_methods_have_the_best_order") == "agrees"
    tables["areas"] = areas.assign(deletion=[0.1, 0.1, 0.1, 0.11])
    assert holds(tables, "four_methods_have_the_best_order") == "differs"
    rows = [("reading order", 0.4, 0.6), (OPPOSITE[0], 0.4, 0.4), (OPPOSITE[1], 0.6, 0.6)]
    ties = pd.DataFrame(rows, columns=["ties", "insertion", "deletion"])
    assert holds({"ties": ties}, "constant_maps_have_equal_areas") == "differs"
    assert holds({"ties": ties}, "opposite_ties_explain_the_areas") == "agrees"
    other = ties.assign(insertion=0.5, deletion=[0.5, 0.5, 0.6])
    assert holds({"ties": other}, "constant_maps_have_equal_areas") == "agrees"
    assert holds({"ties": other}, "opposite_ties_explain_the_areas") == "differs"


def test_claims_about_orders_curves_and_the_replacement_follow_the_tables():
    for correlation, expected in ((0.1, "agrees"), (0.9, "differs")):
        orders = pd.DataFrame([(COLORS, WITHOUT, correlation)])
        tables = {"orders": orders.set_axis(["first", "second", "correlation"], axis=1)}
        assert holds(tables, "order_by_insertion_changes") == expected
    names = ["lrp", "deep-shap", "integrated-gradients, magnitude"]
    for last, expected in ((1.0, "agrees"), (0.5, "differs")):
        table = pd.DataFrame({"method": names, MODULO: [1.0, 1.0, last]})
        assert holds({"sensitivity_n": table}, "three_methods_are_near_the_optimum") == expected
    for below, expected in ((10, "agrees"), (7, "undecided"), (2, "differs")):
        means = [-1.0] * below + [1.0] * (10 - below)
        table = pd.DataFrame({"metric": "sensitivity_n", "method": "deep-shap", "mean": means})
        assert (
            holds({"curves": table.assign(environment=COLORS)}, "deep_shap_is_negative") == expected
        )
    table = pd.DataFrame({"environment": [COLORS, WITHOUT], "logit": [5, 0]})
    assert holds({"replacement": table}, "black_sets_off_redundant_channels") == "agrees"
    table.logit = [5, 5]
    assert holds({"replacement": table}, "black_sets_off_redundant_channels") == "differs"


@pytest.mark.long
def test_an_item_has_its_tables_and_figure(monkeypatch):
    monkeypatch.setattr(comparison_plan, "QUICK_SIZE", SIDE)
    monkeypatch.setattr(perturbation_study, "DRAWS", 10)
    few = ["gradcam", "occlusion", "lrp", "constant", "deep-shap", "random"]
    few += ["integrated-gradients", "integrated-gradients-true-baseline"]
    ranks, areas = printed_ranks(MODULO).loc[few], printed_areas().loc[few]
    monkeypatch.setattr(perturbation_tables, "printed_ranks", lambda _: ranks)
    monkeypatch.setattr(perturbation_tables, "printed_areas", lambda: areas)
    outcome = reproduce("figure-18", n=1, quick=True)
    tables = outcome.tables
    assert list(tables)[:2] == list(outcome.item.tables) == ["sensitivity_n", "summary"]
    assert set(tables) == {
        *("summary", "ranks", "scores", "correlations", "images", "curves", "areas", "ties"),
        *("insertion", "sensitivity_n", "undefined", "best-order"),
    }
    [axis] = outcome.figures["curves"].axes  # of the item's metric, and no other
    assert axis.get_title().startswith("Sensitivity-N, higher is better")
    assert f"{SIDE} x {SIDE} pixels, 1 images" in outcome.figures["curves"].get_suptitle().replace(
        "\n", " "
    )
    methods = [*few, *READINGS[MODULO]["magnitude"].values()]
    assert set(tables["scores"].method) == {*methods}
    found, scores = (tables[name].set_index("method") for name in ("areas", "scores"))
    for metric in ("insertion", "deletion"):
        assert list(found.loc[few, metric]) == pytest.approx(scores.loc[few, metric], abs=1e-5)
    best = tables["ranks"].set_index("method").loc["lrp", ["f1", *METRICS]]
    assert list(best) == [2.5] * 4  # with DeepSHAP and both IGs, whose magnitudes are right
    assert not tables["curves"].isna().any().any()
    assert [each["here"] for each in outcome.claims][-1] == "agrees"
