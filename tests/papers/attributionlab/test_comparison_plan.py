"""A plan becomes scores, the paper's verdicts beside ours, figures and sentences."""

import pytest

import attributionlab as al
from attributionlab.methods import METHODS
from attributionlab.papers.attributionlab.comparison_plan import (
    PaperVerdict,
    Plan,
    carry_out,
    verdict_table,
)
from attributionlab.papers.attributionlab.figures import PLANS, lime_plan

ENVIRONMENT = "multi-color-sum-uniform"


@pytest.fixture(scope="module")
def comparison():
    env = al.load(ENVIRONMENT, image_size=24)
    return al.compare(["saliency", ("sobel", {})], env, n=2)


def said(method, part, gamma, verdict):
    return PaperVerdict(method, ENVIRONMENT, part, gamma, verdict)


def test_verdicts_stand_beside_each_other(comparison):
    [saliency, _] = [result for _, result in comparison.results]
    f1 = saliency.mean("overall", "f1")
    table = verdict_table(
        comparison,
        [
            said("saliency", "overall", f1, "pass"),  # reached exactly
            said("saliency", "overall", f1 + 1e-9, "pass"),
            said("sobel", "negative", 0.5, "fail"),
        ],
    )
    assert list(table.ours) == ["pass", "fail", "fail"]
    assert list(table.paper) == ["pass", "pass", "fail"]
    assert list(table.agree) == [True, False, True]
    assert table.f1[0] == f1


def test_what_was_not_run_has_no_row(comparison):
    assert not len(verdict_table(comparison, [said("lime", "overall", 0.5, "pass")]))


def test_a_plan_is_carried_out():
    plan = Plan(
        "figure-0",
        "nothing",
        ["saliency", "sobel"],
        [ENVIRONMENT],
        [said("sobel", "overall", 0.5, "pass")],
        notes=["a note"],
        reading=lambda comparison: [f"{len(comparison.reports)} reports"],
    )
    outcome = carry_out(plan, n=1, quick=True)
    assert (outcome.item, outcome.title) == ("figure-0", "nothing")
    assert set(outcome.tables) == {"summary", "scores", "verdicts"}
    assert set(outcome.figures) == {"scores", "maps"}
    assert outcome.findings[0].startswith(f"sobel on {ENVIRONMENT}, overall: F1 0.")
    assert outcome.findings[0].endswith("fail at gamma 0.5; the paper: pass.")
    assert outcome.findings[1:] == ["2 reports", "a note"]
    assert set(outcome.tables["scores"].n) == {1}


@pytest.mark.parametrize("plan", [*PLANS.values(), lime_plan(None), lime_plan("sam.pth")])
def test_every_plan_names_what_exists(plan):
    names = [each if isinstance(each, str) else each[0] for each in plan.methods]
    assert set(names) <= {*METHODS, "random", "constant"}
    assert set(plan.environments) <= set(al.environments())
    for verdict in plan.paper:
        assert verdict.environment in plan.environments
        assert verdict.method.split(" ")[0] in names
        assert verdict.verdict in ("pass", "fail")
