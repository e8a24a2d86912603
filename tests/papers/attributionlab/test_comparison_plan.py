"""A plan becomes scores, the paper's verdicts beside ours, figures and claims."""

import pandas as pd
import pytest

import attributionlab as al
from attributionlab.base import AttributionLabError
from attributionlab.methods import METHODS
from attributionlab.papers import reproduce
from attributionlab.papers.attributionlab import comparison_plan
from attributionlab.papers.attributionlab.comparison_plan import (
    COLORS,
    MODULO,
    PLANS,
    UNIFORM,
    WITHOUT,
    Plan,
    lime_plan,
    published_verdicts,
    verdict_table,
)
from attributionlab.papers.catalog import Run
from claims_held import holds

FEW = Plan(8, ["gradcam", "sobel"], [COLORS], "positive-smoothed")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(comparison_plan, "QUICK_SIZE", 24)


@pytest.fixture(scope="module")
def comparison():
    env = al.load(UNIFORM, image_size=24)
    return al.compare(["saliency", ("sobel", {})], env, n=2)


def verdicts(*rows):
    columns = ["method", "part", "gamma", "verdict"]
    return pd.DataFrame(rows, columns=columns).assign(environment=UNIFORM)


def test_verdicts_stand_beside_each_other(comparison):
    [saliency, _] = [result for _, result in comparison.results]
    f1 = saliency.mean("overall", "f1")
    table = verdict_table(
        comparison,
        verdicts(
            ("saliency", "overall", f1, "pass"),  # reached exactly
            ("saliency", "overall", f1 + 1e-9, "pass"),
            ("sobel", "negative", 0.5, "fail"),
        ),
    )
    assert list(table.ours) == ["pass", "fail", "fail"]
    assert list(table.paper) == ["pass", "pass", "fail"]
    assert list(table.agree) == [True, False, True]
    assert table.f1[0] == f1


def test_what_was_not_run_has_no_row(comparison):
    assert not len(verdict_table(comparison, verdicts(("lime", "overall", 0.5, "pass"))))


def test_a_plan_has_tables_figures_and_the_ceiling_of_a_smoothed_truth():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PLANS, "figure-8", FEW)
        found = comparison_plan.comparison(Run("figure-8", n=1, quick=True))
    assert set(found.tables) == {"summary", "scores", "verdicts", "ceilings"}
    assert set(found.figures) == {"scores", "maps"}
    assert found.tables["verdicts"].method.tolist() == ["gradcam"]
    assert 0.5 < found.tables["ceilings"].best_f1.item() < 1
    assert set(found.tables["scores"].n) == {1}
    assert found.notes == []


@pytest.mark.parametrize("plan", [*PLANS.values(), lime_plan(None), lime_plan("sam.pth")])
def test_every_plan_and_verdict_names_what_exists(plan):
    names = [each if isinstance(each, str) else each[0] for each in plan.methods]
    assert set(names) <= {*METHODS, "random", "constant"}
    assert set(plan.environments) <= set(al.environments())
    published = published_verdicts(plan.figure)
    assert set(published.environment) <= set(plan.environments)
    assert {each.split(" ")[0] for each in published.method} <= set(names)
    assert set(published.verdict) <= {"pass", "fail"}


@pytest.mark.long
def test_superpixels_are_counted_and_drawn_with_a_figure_for_each_image(monkeypatch):
    monkeypatch.setattr(comparison_plan, "SEGMENTATIONS", ({"segmentation": "grid"},))
    outcome = reproduce("figure-24", n=2, quick=True)
    assert [*outcome.figures] == ["image-0", "image-1", "scores", "maps"]
    counted = outcome.tables["superpixels"]
    assert counted.image.tolist() == [0, 1]
    assert (counted.superpixels > 1).all()
    axes = outcome.figures["image-0"].axes
    assert f"{counted.superpixels[0]} superpixels" in [axis.get_xlabel() for axis in axes]


def agreement(*rows):
    return {"verdicts": pd.DataFrame(rows, columns=["method", "part", "gamma", "agree"])}


VERDICT_CLAIMS = {
    "three_methods_are_near_optimal": "lrp",
    "ig_needs_the_true_baseline": "integrated-gradients-true-baseline",
    "occlusion_needs_the_true_baseline": "occlusion",
    "deep_shap_finds_pixels_without_signs": "deep-shap",
    "coarse_methods_pass": "iba",
    "quickshift_passes_at_half": "lime-true-baseline (segmentation=quickshift)",
    "felzenszwalb_fails": "lime-true-baseline (segmentation=felzenszwalb)",
    "sam_passes": "lime-true-baseline (segmentation=sam, weights=w.pth)",
}


@pytest.mark.parametrize(("name", "method"), VERDICT_CLAIMS.items())
def test_claims_about_verdicts_follow_them_and_runs_that_differ_decide_nothing(name, method):
    first, other = (method, "overall", 0.5, True), (method, "positive", 0.5, False)
    assert holds(agreement(first), name) == "agrees"
    assert holds(agreement(first, other), name) == "differs"
    run = (f"{method}, lowest of 3 runs", "overall", 0.5, False)
    assert holds(agreement(first, run), name) == "undecided"
    assert holds({}, name) == "undecided"


def summary(**values):
    rows = [
        {"method": name.replace("_", "-"), "environment": environment, **scores}
        for name, of_method in values.items()
        for environment, scores in of_method.items()
    ]
    return {"summary": pd.DataFrame(rows)}


def test_claims_about_means_follow_the_summary():
    for precision, expected in ((0.4, "agrees"), (0.95, "differs")):
        scores = {MODULO: {"precision": precision, "recall": 1.0}}
        tables = summary(guided_backprop=scores, gradcam=scores, iba=scores)
        assert holds(tables, "guided_backprop_recalls_more") == expected
        assert holds(tables, "coarse_maps_have_low_precision") == expected
    for black, expected in ((0.3, "agrees"), (0.9, "differs")):
        tables = summary(
            integrated_gradients={COLORS: {"precision": black}},
            integrated_gradients_true_baseline={COLORS: {"precision": 1.0}},
        )
        assert holds(tables, "ig_is_more_precise_from_the_true_baseline") == expected
    for f1, expected in ((0.95, "agrees"), (0.6, "differs")):
        tables = summary(
            integrated_gradients_true_baseline={COLORS: {"f1": 0.5}},
            integrated_gradients_exact_true_baseline={COLORS: {"f1": 0.55}, WITHOUT: {"f1": f1}},
        )
        assert holds(tables, "the_path_costs_more_than_the_nodes") == expected
        tables = summary(deep_shap={UNIFORM: {"f1": f1 - 0.4}, WITHOUT: {"f1": f1 + 0.01}})
        assert holds(tables, "without_redundant_channels_deep_shap_is_right") == expected
        assert holds(tables, "a_uniform_accumulator_takes_the_effect_away") == expected


def test_iba_is_the_best_in_all_of_its_runs_or_undecided():
    methods = ["gradcam", "extremal-perturbation", "iba", "iba, lowest of 3 runs"]
    for f1, expected in ((0.7, "agrees"), (0.55, "undecided"), (0.4, "differs")):
        low = f1 - 0.1 if f1 < 0.7 else f1
        table = pd.DataFrame({"method": methods, "f1": [0.5, 0.4, f1, low]})
        assert holds({"scores": table.assign(part="positive-smoothed")}, "iba_is_best") == expected


def test_one_image_decides_nothing():
    names = ["gradcam", "extremal-perturbation", "iba"]
    scores = pd.DataFrame({"method": names, "f1": [0.5, 0.4, 0.7], "part": "positive-smoothed"})
    tables = {
        **agreement(("iba", "overall", 0.5, True)),
        **summary(deep_shap={UNIFORM: {"f1": 0.9}, WITHOUT: {"f1": 0.99}}),
    }
    for n, expected in ((1, "undecided"), (2, "agrees")):
        tables["scores"] = scores.assign(n=n)
        assert holds(tables, "coarse_methods_pass") == expected
        assert holds(tables, "iba_is_best") == expected
        assert holds(tables, "a_uniform_accumulator_takes_the_effect_away") == expected
        assert holds(tables, "without_redundant_channels_deep_shap_is_right") == expected


def test_settings_decide_where_they_differ_more_than_names():
    names = ["quickshift", "quickshift, ratio=1", "felzenszwalb", "felzenszwalb, scale=100"]
    for f1, expected in (([0.2, 0.8, 0.3, 0.8], "agrees"), ([0.2, 0.3, 0.8, 0.9], "differs")):
        tables = {"summary": pd.DataFrame({"method": names, "f1": f1})}
        assert holds(tables, "settings_decide_as_much_as_names") == expected


@pytest.mark.parametrize("item", ["figure-6", "figure-24"])
def test_weights_that_are_no_file_are_refused_before_anything_is_computed(item):
    with pytest.raises(AttributionLabError, match="sam_weights is 'nofile': give the path"):
        reproduce(item, quick=True, settings={"sam_weights": "nofile"})
