"""The page about Quantus and Captum: its versions, links and outputs, and a part of it found again."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import attributionlab as al

REPOSITORY = Path(__file__).parents[1]
SCRIPT = REPOSITORY / "benchmarks" / "other_libraries.py"
CHECK_PAGE = (REPOSITORY / "docs" / "metric-check.md").read_text(encoding="utf-8")
PAGE = (REPOSITORY / "docs" / "quantus-and-captum.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(
    r"^### ([^\n]+)\n|```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.S | re.M
)
REASON = "pip install -e '.[quantus]' for Quantus"


def rows(*columns):
    """The cells of a table of the page."""
    found = re.search(rf"^\| {re.escape(' | '.join(columns))} .*\n.*\n((?:\|.*\n)+)", PAGE, re.M)
    return [re.split(r" (?<!\\)\| ", line[2:-2]) for line in found[1].splitlines()]


def adapter(text):
    return re.search(r"^def from_quantus\(.*?\n\n\n", text, re.S | re.M)[0]


@pytest.fixture(scope="module")
def script():
    pytest.importorskip("quantus", reason=REASON)
    spec = importlib.util.spec_from_file_location("other_libraries", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Without Quantus


def test_the_versions_are_those_of_the_constraints():
    pins = dict(
        line.split("==")
        for line in (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    )
    versions = dict(rows("package", "version"))
    assert versions == {name: pins[name] for name in versions}
    assert PAGE.startswith(f"# Quantus {pins['quantus']} and Captum {pins['captum']}, examined\n")


def test_links_lead_to_sections_and_every_fault_has_one():
    headings = re.findall(r"^### (.*)$", PAGE, re.M)
    sections = {re.sub(r"[^\w-]", "", each.lower().replace(" ", "-")) for each in headings}
    linked = set(re.findall(r"\(#([\w-]+)\)", PAGE))
    assert linked <= sections
    assert "unexplained" not in PAGE


def test_every_snippet_has_an_output():
    assert len(re.findall("```python", PAGE)) == sum(bool(code) for _, code, _ in SNIPPETS)
    assert all(output.strip() for _, code, output in SNIPPETS if code)


def test_the_adapter_of_the_page_is_the_one_that_was_used():
    assert adapter(CHECK_PAGE) == adapter(SCRIPT.read_text(encoding="utf-8"))


# With Quantus


def with_quantus(test):
    """Its import alone takes seconds, and it advises on its settings."""
    return pytest.mark.long(pytest.mark.filterwarnings("ignore")(test))


@with_quantus
def test_snippets_print_what_the_page_says(script):
    assert script.with_outputs(PAGE) == PAGE


@with_quantus
@pytest.mark.parametrize("name", ["Monotonicity", "PointingGame", "AUC", "AttributionLocalisation"])
def test_the_check_finds_again_what_the_page_says(script, name):
    lines = [each for each in script.LINES if each.name == f"Quantus {name}"]
    reports = [(each, al.check_metric(each.function, time_limit=None)) for each in lines]
    kinds = script.kinds_of_sections(PAGE)
    table = rows("metric", "settings")
    # Counts only: what a metric makes of NaN may depend on how the processor sorts.
    assert all(script.examined_row(*each, kinds) in table for each in reports)
    found = {(section, check) for section, check, *_ in script.found_rows(reports, kinds)}
    written = rows("section", "check")
    assert found == {(row[0], row[1]) for row in written if name in row[-1].split(", ")}


@with_quantus
def test_a_fault_without_a_section_is_said_to_be_unexplained(script):
    line = script.of_quantus("Monotonicity", unit="order")
    report = al.check_metric(line.function, only=["order"], time_limit=None)
    kinds = script.kinds_of_sections(PAGE)
    assert script.examined_row(line, report, kinds)[-3] == "[unexplained](#unexplained) 1"
    assert script.found_rows([(line, report)], kinds)[0][0] == "[unexplained](#unexplained)"


# Three metrics that would be accused falsely


@with_quantus
def test_an_infidelity_of_gradients_has_no_fault_in_its_unit(script):
    asked = {"only": ["order", "best"], "time_limit": None}
    [line] = [each for each in script.LINES if each.name == "Quantus Infidelity"]
    assert al.check_metric(line.function, **asked).passed
    undeclared = script.of_quantus("Infidelity", unit="output change").function
    assert not al.check_metric(undeclared, **asked).passed


@with_quantus
def test_what_correlates_across_images_is_said_to_be_of_a_data_set(script):
    line = script.of_quantus("SensitivityN", settings=script.EACH, unit="output change")
    [fault] = al.check_metric(line.function, time_limit=None).findings
    assert fault.id == "one-number"
    assert fault.found.endswith("(a metric of whole data sets cannot be tested)")


@with_quantus
@pytest.mark.skipif(hasattr(np, "trapz"), reason="NumPy 2.4 and later have no trapz")
def test_a_function_that_numpy_lost_is_named_and_not_put_back(script):
    lines = [each for each in script.LINES if "return_auc_per_sample" in each.settings]
    asked = {"only": ["order"], "time_limit": None}
    alone, put_back = (al.check_metric(each.function, **asked) for each in lines)
    assert "module 'numpy' has no attribute 'trapz'" in alone.findings[0].found
    assert put_back.passed
    assert not hasattr(np, "trapz")


@pytest.mark.long
def test_the_snippet_wraps_a_metric_of_quantus():
    pytest.importorskip("quantus", reason=REASON)
    _, code, *_ = re.findall(r"```python\n(.*?)```", CHECK_PAGE, re.S)
    exec(compile(code, "theirs.py", "exec"), theirs := {})
    report = al.check_metric(theirs["auc"])
    assert not report.faults, report
    assert [row.id for row in report.notes] == ["zero-map", "constant-map"]
