"""The page of reproductions: every table and figure once, every cell filled, every command real."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from scipy.stats import spearmanr

import attributionlab as al
from attributionlab.papers import items

PAGE = Path(__file__).parents[1] / "docs" / "reproduction.md"
COLUMNS = ["item", "what it shows", "grade", "paper", "ours", "why they differ", "command"]


def numbered(kind: str, last: int) -> list[str]:
    return [f"{kind} {number}" for number in range(1, last + 1)]


# What each paper prints, in the order of the page: all of its tables and figures, appendices included.
ITEMS = {
    "AttributionLab": [*numbered("Table", 6), *numbered("Figure", 26)],
    "Soundness and completeness": [*numbered("Table", 3), *numbered("Figure", 15)],
    "IDSDS": [*numbered("Table", 7), *numbered("Figure", 10)],
    "Unified study": [
        *numbered("Table", 3),
        *numbered("Figure", 6),
        *numbered("Appendix figure", 6),  # the appendix counts from 1 again
    ],
    "Meta-Rank": [*numbered("Table", 4), *numbered("Figure", 4)],
}
PREFIX = {
    "AttributionLab": "",
    "Soundness and completeness": "soco-",
    "IDSDS": "idsds-",
    "Unified study": "unified-",
    "Meta-Rank": "metarank-",
}

each_paper = pytest.mark.parametrize("paper", ITEMS)


def sections() -> dict[str, str]:
    """The text under each heading of the second level."""
    _, *parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def table(paper: str) -> list[list[str]]:
    """The cells of a paper's table, the line of column names first."""
    lines = [line for line in sections()[paper].splitlines() if line.startswith("|")]
    names, rule, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert set(rule) == {"---"}
    assert len(rule) == len(names)
    return [names, *rows]


def rows(paper: str) -> list[dict[str, str]]:
    """The rows of a paper, by column."""
    names, *lines = table(paper)
    return [dict(zip(names, line, strict=True)) for line in lines]


def commands(verb: str) -> Iterator[tuple[str, str, str]]:
    """Paper, item and name of every command of a kind in the tables."""
    for paper in ITEMS:
        for row in rows(paper):
            for name in re.findall(rf"`attributionlab {verb} ([^`]+)`", row["command"]):
                yield paper, row["item"], name


def test_the_page_has_these_papers_and_no_others():
    assert list(sections()) == list(ITEMS)


@each_paper
def test_every_table_and_figure_of_a_paper_has_exactly_one_row_and_comes_first(paper):
    found = [row["item"] for row in rows(paper)]
    assert found[: len(ITEMS[paper])] == ITEMS[paper]
    assert len({*found}) == len(found)


@each_paper
def test_every_row_has_all_columns_and_no_empty_cell(paper):
    names, *lines = table(paper)
    assert names == COLUMNS
    for line in lines:
        assert len(line) == len(COLUMNS), line
        assert all(line), line


@each_paper
def test_a_command_cell_holds_commands_and_nothing_else(paper):
    for row in rows(paper):
        left = re.sub(r"`attributionlab (reproduce|verify) [a-z0-9-]+`", "", row["command"])
        assert row["command"] == "—" or not left.strip(" ,"), row


@each_paper
def test_what_is_ours_comes_from_a_command(paper):
    for row in rows(paper):
        if not row["ours"].startswith(("illustration", "—")):
            assert "`attributionlab " in row["command"], row


def test_every_command_is_in_the_row_of_its_item():
    for paper, item, name in commands("reproduce"):
        if item.startswith(("Table", "Figure", "Appendix figure")):
            assert name == PREFIX[paper] + item.lower().replace(" ", "-")


def test_every_item_has_its_row_and_every_row_its_item():
    named = [name for _, _, name in commands("reproduce")]
    assert set(named) == set(items()), "by hand: a row of docs/reproduction.md for each item"
    # What the theorems and algorithms say is covered by the item that has a row of its own.
    assert {name for name in named if named.count(name) > 1} <= {"soundness-truth"}


@each_paper
def test_what_is_built_in_is_faithful_and_pictures_of_ideas_have_no_grade(paper):
    for row in rows(paper):
        beginnings = {"covered": "faithful", "illustration": "—", "—": "not reproduced"}
        for beginning, grade in beginnings.items():
            assert not row["ours"].startswith(beginning) or row["grade"] == grade, row["item"]


def test_every_network_to_verify_is_in_the_catalog():
    named = {name for _, _, name in commands("verify")}
    assert named
    assert named <= set(al.environments())


# Ranks as AttributionLab prints them, rows in its order: F1, Insertion, Deletion, Sensitivity-N.
PRINTED_RANKS = {
    "Table 5": "8463 3541 1332 4678 6255 5826 7114 2787",
    "Table 6": "5566 6641 1434 7878 2355 3122 4213 8787",
}


@pytest.mark.parametrize("item", PRINTED_RANKS)
def test_the_correlations_of_printed_ranks_are_as_the_page_says(item):
    truth, *metrics = zip(*[map(int, row) for row in PRINTED_RANKS[item].split()], strict=True)
    computed = [round(float(spearmanr(truth, metric).statistic), 2) for metric in metrics]
    [row] = [row for row in rows("AttributionLab") if row["item"] == item]
    [said] = re.findall(r"printed ranks correlate by ([^;]+)", row["why they differ"])
    assert [float(number) for number in re.findall(r"-?\d\.\d+", said)] == computed
    assert [float(number) for number in re.findall(r"-?\d\.\d+", row["paper"])] != computed


def test_prose_is_wrapped():
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        assert line.startswith("|") or len(line) <= 110, line
