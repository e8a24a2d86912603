"""The pytest plugin: what passes, what a failure shows, which defaults hold, what it costs."""

import json
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import captum.attr  # noqa: F401 - pytester forgets what its runs import, and captum is slow
import pytest
import torch

import attributionlab as al
from attributionlab import verdicts
from attributionlab.cli import app as cli
from attributionlab.cli import pytest_plugin
from cli.command_line import FILES

REPOSITORY = Path(__file__).parents[1]

START = """
import captum.attr
import numpy as np
import pytest
import torch

import attributionlab as al

SMALL = al.load("multi-color-sum", image_size=24)
pytestmark = pytest.mark.attribution(env=SMALL, n=13, one_network=True)
"""
METHODS = """
def right(model, inputs, targets):
    inputs.requires_grad_()
    model(inputs).gather(1, targets[:, None]).sum().backward()
    return inputs.grad * inputs

def flipped(model, inputs, targets):
    return -right(model, inputs, targets)

def double(model, inputs, targets):
    return right(model, inputs, targets).double()

def double_flipped(model, inputs, targets):
    return flipped(model, inputs, targets).double()

def broken(model, inputs, targets):
    raise ValueError("no such luck")
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    """Runs pytest, with no plugin but ours, on a test file with `START` and some methods."""
    # Whether the package is installed or only on the path, the plugin is loaded once.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    # Where these are set, pytest's summary repeats whole messages, and counts of words differ.
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("BUILD_NUMBER", raising=False)
    pytester.makefile(".toml", small=FILES["small.toml"], images=FILES["images.toml"])
    pytester.makepyfile(mine=METHODS)

    def run(body, *options):
        pytester.makepyfile(test_mine=START + METHODS + body)
        options = ("-p", "no:cacheprovider", "--strict-markers", *options)
        return pytester.runpytest_inprocess(*options, plugins=[pytest_plugin])

    return run


def told(result):
    """What pytest printed, without the mark of lines that belong to an error."""
    return "\n".join(line.removeprefix("E").strip() for line in result.outlines)


# Verdicts


def flipped(model, inputs, targets):
    inputs.requires_grad_()
    model(inputs).gather(1, targets[:, None]).sum().backward()
    return -inputs.grad * inputs


@pytest.mark.long
def test_a_good_method_passes_and_a_broken_one_fails_with_the_table(suite):
    result = suite(
        """
def test_good(assert_faithful):
    report = assert_faithful(captum.attr.InputXGradient)
    assert isinstance(report, al.FaithfulnessReport)
    assert report.verdict == "pass"

def test_bad(assert_faithful):
    assert_faithful(flipped)
"""
    )
    result.assert_outcomes(passed=1, failed=1)
    text = told(result)
    assert "AssertionError: flipped: fail" in text
    env = al.load("multi-color-sum", image_size=24)
    report = al.faithfulness_test(flipped, env, n=13, one_network=True)
    for line in repr(report).splitlines()[1:]:
        assert line.strip() in text
    assert ">       assert_faithful(flipped)" in result.outlines
    assert "pytest_plugin.py" not in text  # the traceback ends in the test
    assert "attributionlab/verdicts/faithfulness/" not in text.replace("\\", "/")


@pytest.mark.long
def test_a_method_that_ends_the_process_does_not_make_the_suite_green(suite):
    result = suite(
        """
import os

def ends(model, inputs, targets):
    os._exit(0)

def test_ends(assert_faithful):
    assert_faithful(ends)

def test_metric_that_ends(assert_metric):
    assert_metric(lambda model, images, targets, attributions: os._exit(0), higher_is_better=True)

def test_another():
    assert False
"""
    )
    result.assert_outcomes(failed=3)
    assert "os._exit(0) would end the whole process" in told(result)


@pytest.mark.long
def test_the_verdict_and_the_scores_are_those_of_the_command(suite, pytester):
    result = suite(
        """
@pytest.mark.parametrize("method", [right, flipped])
@pytest.mark.attribution(env="small.toml", n=13, seed=5, one_network=True)
def test_it(assert_faithful, method):
    assert_faithful(method).to_json("plugin.json")
"""
    )
    result.assert_outcomes(passed=1, failed=1)
    assert Path.cwd() == pytester.path
    common = ["--env", "small.toml", "--n", "13", "--seed", "5"]
    common += ["--one-network"]
    assert cli.main(["test", "mine.py:right", *common, "--json", "command.json"]) == 0
    assert cli.main(["test", "mine.py:flipped", *common]) == 1
    documents = [json.loads(Path(name).read_text()) for name in ("plugin.json", "command.json")]
    for document in documents:
        del document["method"], document["command"], document["source"]
        for place in document["environments"]:
            del place["seconds_per_image"]
    assert documents[0] == documents[1]


@pytest.fixture
def recorded(monkeypatch):
    """A stand-in for the test: the method names the verdict; what it was called with is kept."""
    calls = []

    def stand_in(method, *arguments, **given):
        calls.append((*arguments, given))
        return Stand(verdict=method, warnings=["it is odd", "table: of four"])

    monkeypatch.setattr(verdicts, "faithfulness_test", stand_in)
    return calls


class Stand(SimpleNamespace):
    """A report with a verdict and a text."""

    def __repr__(self):
        return f"{self.verdict}: the table\nwarning: table: of four"


def test_everything_but_a_pass_fails_with_the_report_and_its_warnings(suite, recorded):
    result = suite(
        """
@pytest.mark.parametrize("verdict", ["pass", "fail", "inconclusive", "invalid"])
def test_it(assert_faithful, verdict):
    assert assert_faithful(verdict).verdict == "pass"
"""
    )
    result.assert_outcomes(passed=1, failed=3)
    text = told(result)
    for verdict in ("fail", "inconclusive", "invalid"):
        assert f"AssertionError: {verdict}: the table" in text
    # Once each: the second is in the report's own text already.
    assert text.count("warning: it is odd") == text.count("table: of four") == 3


# Defaults


def test_without_marker_and_arguments_the_defaults_are_those_of_the_test(suite, recorded):
    result = suite(
        """
del pytestmark

def test_it(assert_faithful):
    assert_faithful("pass")
"""
    )
    result.assert_outcomes(passed=1)
    assert recorded == [(None, {})]


def test_arguments_beat_the_nearest_marker_which_beats_farther_ones_key_by_key(suite, recorded):
    result = suite(
        """
pytestmark = pytest.mark.attribution(
    env="module", also="seeds:1", n=13, claim="module", seed=1, one_network=True
)

@pytest.mark.attribution(also="seeds:2", n=14, claim="class", explain="class", settings={"by": 2})
class TestClass:
    @pytest.mark.attribution(n=15, claim="function", explain=None)
    def test_it(self, assert_faithful):
        assert_faithful("pass", claim="argument", settings={"at": 3})
        assert_faithful("pass")
        assert_faithful("pass", env="argument", seed=0, one_network=False)
"""
    )
    result.assert_outcomes(passed=1)
    marked = {"also": "seeds:2", "n": 15, "claim": "function", "seed": 1, "settings": {"by": 2}}
    marked["one_network"] = True
    assert recorded == [
        ("module", marked | {"claim": "argument", "settings": {"at": 3}}),
        ("module", marked),
        ("argument", marked | {"seed": 0, "one_network": False}),
    ]


# What is unusual and what is wrong


@pytest.mark.long
def test_warnings_of_the_run_are_no_errors_and_are_told_where_it_fails(suite):
    result = suite(
        """
pytestmark = [pytestmark, pytest.mark.filterwarnings("error")]

def test_good(assert_faithful):
    [warning] = assert_faithful(double).warnings
    assert "float64" in warning

def test_bad(assert_faithful):
    assert_faithful(double_flipped)
"""
    )
    result.assert_outcomes(passed=1, failed=1, warnings=0)
    text = told(result)
    assert "AssertionError: double_flipped: fail" in text
    assert "warning: double_flipped: " in text


def test_a_wrong_marker_is_an_error_of_the_setup_in_one_line(suite, recorded):
    result = suite(
        """
@pytest.mark.attribution(clam="signed")
def test_key(assert_faithful):
    pass

@pytest.mark.attribution("multi-color-sum", environment="x")
def test_both(assert_faithful):
    pass

@pytest.mark.attribution("single-color-modulo", n=2)
def test_place(assert_faithful):
    pass
"""
    )
    result.assert_outcomes(errors=3)
    lines = result.outlines
    assert "pytest.mark.attribution: no 'clam': did you mean 'claim'?" in lines
    [both] = [line for line in lines if line.startswith("pytest.mark.attribution: 'multi")]
    assert both == (
        "pytest.mark.attribution: 'multi-color-sum' has no name: write env=..., n=...; "
        "no 'environment': known are also, claim, env, explain, implementations, isolated, n, "
        "one_network, seed, settings"
    )
    place = "pytest.mark.attribution: 'single-color-modulo' has no name: write env=..., n=..."
    assert place in lines
    assert "Traceback" not in told(result)


def test_bad_input_is_one_line_at_the_line_of_the_test(suite, without_shape_checks):
    result = suite(
        """
@pytest.mark.attribution(n=12)
def test_value(assert_faithful):
    assert_faithful(right)

def test_name(assert_faithful):
    assert_faithful(right, env="multicolor")

def test_method(assert_faithful):
    assert_faithful(broken)

def test_is_an_error_of_the_package(assert_faithful):
    with pytest.raises(al.AttributionLabError, match="n is 0"):
        assert_faithful(right, n=0)

def test_argument(assert_faithful):
    with pytest.raises(TypeError, match="gamma"):
        assert_faithful(right, gamma=0.5)
"""
    )
    result.assert_outcomes(failed=3, passed=2)
    text = told(result)
    assert (
        "AttributionLabError: n is 12: with fewer than 13 questions no method passes; take 13 or more"
        in text
    )
    assert "AttributionLabError: no environment named 'multicolor': did you mean" in text
    assert "broken raised ValueError: no such luck on multi-color-sum (test_mine.py, line" in text
    assert "Traceback" not in text
    assert "direct cause" not in text
    assert "pytest_plugin.py" not in text


# Loading


def test_the_marker_is_explained(suite):
    result = suite("", "--markers")
    [line] = [line for line in result.outlines if "attribution(" in line]
    assert line.startswith(
        "@pytest.mark.attribution(env, n, claim, seed, explain, settings, also, one_network, "
        "isolated, implementations): "
    )


def test_the_entry_point_leads_to_the_plugin():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [(name, value)] = project["entry-points"]["pytest11"].items()
    assert name == "attributionlab"
    assert EntryPoint(name, value, "pytest11").load() is pytest_plugin


@pytest.mark.long
def test_who_does_not_use_it_loads_nothing_and_sees_no_warning(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        """
        import sys

        def test_it():
            loaded = {name.partition(".")[0] for name in sys.modules}
            assert "attributionlab" in loaded
            assert not loaded & {"torch", "numpy", "matplotlib", "pandas", "captum", "scipy", "rich"}
            ours = {name for name in sys.modules if name.startswith("attributionlab")}
            beside = {"attributionlab", "attributionlab.cli"}
            assert ours == {*beside, "attributionlab.cli.pytest_plugin"}
        """
    )
    options = ("-W", "error", "-p", "attributionlab.cli.pytest_plugin", "--strict-markers")
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=1, warnings=0)


@pytest.mark.parametrize(("processes", "share"), [(None, 4), (1, 4), (2, 2), (3, 1), (8, 1)])
def test_processes_of_xdist_share_the_threads(suite, monkeypatch, processes, share):
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    if processes:
        monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", str(processes))
    threads = []

    def stand_in(*_, **__):
        threads.append(torch.get_num_threads())
        raise al.AttributionLabError("no report")

    monkeypatch.setattr(verdicts, "faithfulness_test", stand_in)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        suite("def test_it(assert_faithful):\n    assert_faithful(right)")
        assert (threads, torch.get_num_threads()) == ([share], 4)
    finally:
        torch.set_num_threads(before)


@pytest.mark.long
def test_processes_of_xdist_show_the_report_too(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(
        """
        import sys
        from types import SimpleNamespace

        class Report(SimpleNamespace):
            def __repr__(self):
                return f"{self.verdict}: the table"

        def stand_in(method, *_, **__):  # spares the process torch
            return Report(verdict=method, warnings=[])

        sys.modules["attributionlab.verdicts"] = SimpleNamespace(faithfulness_test=stand_in)
        """
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("verdict", ["pass", "fail"])
        def test_it(assert_faithful, verdict):
            assert_faithful(verdict)
        """
    )
    options = ("-W", "error", "-p", "attributionlab.cli.pytest_plugin", "-p", "xdist", "-n", "1")
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=1, failed=1)
    assert "AssertionError: fail: the table" in told(result)


# Metrics


def test_a_metric_passes_or_fails_with_its_faults_alone(suite):
    result = suite(
        """
def total(attributions):
    return attributions.sum((1, 2, 3))

def test_good(assert_metric):
    report = assert_metric("cosine", only=["one-number", "order", "cuda"], time_limit=None)
    assert isinstance(report, al.CheckReport)

def test_bad(assert_metric):
    assert_metric(total, higher_is_better=True, only=["scale", "sign", "chance"], time_limit=None)

def test_refused(assert_metric):
    assert_metric(total)
"""
    )
    result.assert_outcomes(passed=1, failed=2)
    text = told(result)
    assert "AssertionError: total: no fault (2 not applicable, 1 note)" in text
    for words in ("sign: Exact maps without their signs", "expected: below exact", "found: "):
        assert words in text
    assert "AttributionLabError: total does not say which direction is better" in text
    assert "pytest_plugin.py" not in text
