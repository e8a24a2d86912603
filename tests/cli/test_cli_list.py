"""The command that lists all names: what each means, and in which order they stand."""

import re

import pytest

import attributionlab as al
from attributionlab.cli import app, listing
from attributionlab.methods import DERIVATIONS, METHODS
from attributionlab.papers import items
from attributionlab.verdicts import CONTROLS
from attributionlab.verdicts.metric_trials.registry import METRICS, SHORT_NAMES


@pytest.fixture
def sections(capsys, monkeypatch):
    """Names and what is said of them, by heading."""
    monkeypatch.setenv("COLUMNS", "1000")
    assert app.main(["list"]) == 0
    sections = {}
    for section in capsys.readouterr().out.split("\n\n"):
        title, *lines = section.splitlines()
        sections[title] = dict(re.split(r" {2,}", line.strip(), maxsplit=1) for line in lines)
    return sections


def first_sentence(function):
    paragraph = " ".join(function.__doc__.partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".") + "."


def test_every_name_is_there_with_what_its_docstring_says(sections):
    assert list(sections["environments"]) == al.environments()
    assert list(sections["random worlds"]) == ["random:N:DIFFICULTY:SEED"]
    for title, functions in (("methods", METHODS), ("controls", CONTROLS)):
        said = {name: first_sentence(functions[name]) for name in sorted(functions)}
        assert sections[title] == said
        assert list(sections[title]) == list(said)
    [suffixes] = sections["variants of any method"].values()
    assert ", ".join(DERIVATIONS) in suffixes


def test_second_names_of_metrics_stand_behind_the_first(sections):
    names = re.findall(r"([a-z0-9-]+)(?: \(also ([a-z-]+)\))?", sections["metrics"]["names"])
    assert {second: first for first, second in names if second} == SHORT_NAMES
    assert {name for pair in names for name in pair if name} == METRICS.keys()
    assert [first for first, _ in names] == sorted(METRICS.keys() - SHORT_NAMES.keys())


def test_items_stand_by_paper_tables_before_figures_each_by_number(sections):
    by_paper = {paper: names.split(", ") for paper, names in sections["reproduce"].items()}
    for paper, names in by_paper.items():
        assert sorted(names) == sorted(
            name for name, each in items().items() if each.paper == paper
        )
    assert list(by_paper) == list(dict.fromkeys(item.paper for item in items().values()))
    first = by_paper["AttributionLab"]
    assert first[:6] == [f"table-{number}" for number in range(1, 7)]
    assert [first.index(f"figure-{number}") for number in (2, 3, 9, 16)] == [6, 7, 12, 13]
    assert first[22:] == sorted(first[22:])  # without a number
    unified = by_paper["Unified study"]
    assert unified[3] == "unified-figure-2"
    assert unified[6].startswith("unified-appendix-figure-")
    assert unified[-1] == "unified-section-6-2-2"


def test_without_sources_it_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(listing, "PACKAGE", tmp_path)
    assert app.main(["list"]) == 2
    error = capsys.readouterr().err
    assert "install the package with its sources" in error
    assert error.count("\n") == 1
