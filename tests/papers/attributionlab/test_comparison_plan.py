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
from claims_held import cases, follows, holds

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


@pytest.fixture(scope="module")
def made():
    """Tables by which every claim about scores agrees."""
    ig, true, exact = (
        f"integrated-gradients{name}" for name in ("", "-true-baseline", "-exact-true-baseline")
    )
    rows = [
        *((name, MODULO, 0.4, 1.0, 0.5) for name in ("guided-backprop", "gradcam", "iba")),
        *((ig, COLORS, 0.3, 0.5, 0.3), (true, COLORS, 1.0, 0.5, 0.5), (exact, COLORS, 1, 1, 0.55)),
        *((exact, WITHOUT, 1, 1, 0.95), ("deep-shap", UNIFORM, 1, 1, 0.55)),
        ("deep-shap", WITHOUT, 1, 1, 0.96),
        *((name, "", 1, 1, f1) for name, f1 in (("quickshift", 0.2), ("quickshift, ratio=1", 0.8))),
        *((f"felzenszwalb{name}", "", 1, 1, f1) for name, f1 in (("", 0.3), (", scale=100", 0.8))),
    ]
    methods = ["gradcam", "extremal-perturbation", "iba", "iba, lowest of 3 runs"]
    scores = pd.DataFrame({"method": methods, "f1": [0.5, 0.4, 0.7, 0.6]})
    return {
        **agreement(("iba", "overall", 0.5, True)),
        "summary": pd.DataFrame(
            rows, columns=["method", "environment", "precision", "recall", "f1"]
        ),
        "scores": scores.assign(part="positive-smoothed", n=2),
    }


@cases(
    """
    guided_backprop_recalls_more | summary | method == 'guided-backprop' | precision=0.4 | agrees
    | summary | method == 'guided-backprop' | precision=0.95 | differs
    | summary | method == 'guided-backprop' | recall=0.8 | differs
    coarse_maps_have_low_precision | summary | method == 'iba' | precision=0.4 | agrees
    | summary | method == 'iba' | precision=0.95 | differs
    ig_is_more_precise_from_the_true_baseline | summary | method == 'gradcam' | precision=0.0 | agrees
    | summary | method == 'integrated-gradients' | precision=0.9 | differs
    the_path_costs_more_than_the_nodes | summary | method == 'gradcam' | f1=0.0 | agrees
    | summary | environment == @WITHOUT | f1=0.6 | differs
    without_redundant_channels_deep_shap_is_right | summary | environment == @WITHOUT | f1=0.96 | agrees
    | summary | environment == @WITHOUT | f1=0.61 | differs
    | scores | | n=1 | undecided
    a_uniform_accumulator_takes_the_effect_away | summary | environment == @UNIFORM | f1=0.55 | agrees
    | summary | environment == @UNIFORM | f1=0.2 | differs
    | scores | | n=1 | undecided
    coarse_methods_pass | verdicts | | agree=True | agrees
    | scores | | n=1 | undecided
    iba_is_best | scores | method == 'gradcam' | f1=0.5 | agrees
    | scores | method == 'gradcam' | f1=0.65 | undecided
    | scores | method == 'gradcam' | f1=0.75 | differs
    | scores | | n=1 | undecided
    settings_decide_as_much_as_names | summary | method == 'gradcam' | f1=0.0 | agrees
    | summary | method == 'quickshift, ratio=1' | f1=0.3 | differs
    """,
    comparison_plan,
)
def test_each_claim_follows_its_table(made, name, table, where, values, answer):
    follows(made, name, table, where, values, answer)


@pytest.mark.parametrize("item", ["figure-6", "figure-24"])
def test_weights_that_are_no_file_are_refused_before_anything_is_computed(item):
    with pytest.raises(AttributionLabError, match="sam_weights is 'nofile': give the path"):
        reproduce(item, quick=True, settings={"sam_weights": "nofile"})
