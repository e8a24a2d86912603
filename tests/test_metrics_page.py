"""The page about metrics has the registry's table, a formula for each metric, and its code runs."""

import re
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

import matplotlib as mpl
import pytest
import torch

import attributionlab as al
from attributionlab.metrics import deletion, insertion, symbols
from pages import metrics_page

PAGE = (Path(__file__).parent.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
SNIPPETS = dict(re.findall(r"^## ([^\n]*)\n(?:(?!^## ).)*?```python\n(.*?)```", PAGE, re.S | re.M))
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_tables_are_what_the_registry_and_the_facts_say():
    assert metrics_page(PAGE) == PAGE, "python tests/pages.py metrics.md"
    assert symbols().rstrip(".") in " ".join(PAGE.split())


@cache
def run(code):
    """What a snippet leaves behind and what it prints."""
    mpl.use("Agg")
    with torch.random.fork_rng(), redirect_stdout(StringIO()) as printed:
        exec(compile(code, "metrics.md", "exec"), scope := {})
    return scope, printed.getvalue()


@pytest.mark.parametrize("index", range(len(BLOCKS)))
def test_every_snippet_runs_and_prints_no_score_that_is_not_applicable(index):
    _, printed = run(BLOCKS[index])
    assert printed
    assert "nan" not in printed


def test_the_curves_are_areas_as_the_snippet_says():
    scope, _ = run(SNIPPETS["Curves"])
    arguments = [scope[name] for name in ("model", "images", "labels", "maps")]
    scores = deletion(*arguments, replacement=0)
    assert torch.equal(scores, al.metrics.area_under_curve(scope["curves"], scope["removed"]))
    assert scope["curves"].shape == (8, 577)


def test_orders_that_are_evaluated_together_give_the_best_and_the_worst_area():
    scope, _ = run(BLOCKS[2])
    env, images, targets, maps = (scope[name] for name in ("env", "images", "targets", "maps"))
    areas = al.metrics.area_under_curve(1 - scope["shares"], al.metrics.curve_fractions(576))
    settings = {"replacement": 0, "measure": "changed-steps"}
    for draw, each in enumerate(maps):
        expected = deletion(env.model, images, targets, each, **settings)
        assert torch.equal(areas[:, draw], expected)
    share = maps[0].mean((1, 2, 3)).double()
    # Sums of 577 float64 numbers up to 1; the share is a float32 mean of 576 of them.
    torch.testing.assert_close(areas[:, 0], share / 2, atol=1e-6, rtol=0)
    torch.testing.assert_close(areas[:, 1], 1 - share / 2, atol=1e-6, rtol=0)


def test_a_network_of_no_kind_that_the_package_builds_is_scored_by_forward_passes():
    scope, printed = run(SNIPPETS["Your own network"])
    route = al.exact.route_of(scope["network"], scope["images"][0], scope["gray"][0])
    assert route.name == "forward"
    assert "deletion lower" in printed
    assert "insertion higher" in printed


def test_a_metric_of_ones_own_tells_truth_from_noise_from_the_inverted_truth():
    scope, printed = run(SNIPPETS["Your own metric"])
    assert scope["area_between"].higher_is_better
    scores = {name: float(score) for name, score in map(str.split, printed.splitlines())}
    assert scores["truth"] > scores["random"] + 0.2
    assert scores["random"] > scores["inverted"] + 0.2


def test_the_first_snippet_scores_the_truth_better_than_its_opposite():
    scope, _ = run(BLOCKS[0])
    model, *batch = (scope[name] for name in ("model", "images", "labels", "maps"))
    images, labels, maps = (values[:1] for values in batch)
    replacement = scope["env"].baseline
    for metric, sign in ((deletion, -1), (insertion, 1)):
        good = metric(model, images, labels, maps, replacement=replacement)
        bad = metric(model, images, labels, -maps, replacement=replacement)
        assert (sign * (good - bad) > 0).all()


def test_the_estimated_soundness_of_the_foreground_is_above_the_true_one_as_the_page_says():
    _, printed = run(SNIPPETS["Soundness, completeness and ROAD"])
    found = re.findall(r"^(\w+) (\S+) tensor\((\S+),", printed, re.MULTILINE)
    (informed, *both), (colored, estimate, true) = found
    assert (informed, colored) == ("information", "foreground")
    assert both == ["1.0", "1."]
    assert float(true) < 0.7 < float(estimate) == 1
