"""The page about cards has every metric with all that no run tells, and its commands exist."""

import re
from pathlib import Path

import pytest

from attributionlab.verdicts import FUNCTIONS, any_metric
from attributionlab.verdicts.cards import MetricCards, card_of
from attributionlab.verdicts.metric_trials.check import ALL_CHECKS
from attributionlab.verdicts.metric_trials.registry import METRICS

PAGE = (Path(__file__).parent.parent / "docs" / "metric-cards.md").read_text(encoding="utf-8")


def rows(heading):
    """The rows of the first table under a heading."""
    section = PAGE.partition(f"\n{heading}\n")[2]
    [table] = re.findall(r"(?:^\|.*\n)+", section, re.M)[:1]
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()
    ]


@pytest.fixture(scope="module")
def cards():
    return MetricCards([card_of(any_metric(name)) for name in FUNCTIONS]).shown()


@pytest.mark.long
def test_the_table_has_every_metric_with_its_direction_range_and_cost(cards):
    names, _, *table = rows("## All metrics")
    assert names == [name.replace("_", " ") for name in (*cards.columns[:6], *ADDED)]
    known = cards[["metric", "better", "range", "cost"]].to_numpy().tolist()
    assert [row[:4] for row in table] == known


ADDED = ["agreement", "contrast", "drops_at", "cannot_see"]


def test_every_metric_has_a_row_and_what_was_not_tried_is_what_cannot_be_tested():
    names, _, *table = rows("## All metrics")
    given = "attributionlab cards NAME --out cards writes the row into cards/table.csv"
    assert [row[0] for row in table] == [*FUNCTIONS], given
    untried = {row[0] for row in table if row[names.index("verdict")] == "not tried"}
    assert untried == set(FUNCTIONS) - set(METRICS)


def test_the_card_in_full_is_that_of_the_table():
    names, _, *table = rows("## All metrics")
    row = dict(zip(names, next(row for row in table if row[0] == "deletion"), strict=True))
    trial = {what: numbers for what, *numbers in rows("### Trial")[2:]}
    for what, name in (("agreement", "agreement"), ("swap contrast", "contrast")):
        shown = [float(number) for number in re.findall(r"[\d.]+", row[name])]
        assert [float(number) for number in trial[what]] == pytest.approx(
            shown, abs=0.0101
        )  # two roundings to 0.01
    unseen = [what for what, *_ in rows("### What it cannot see")[2:]]
    assert row["cannot see"] == "; ".join(unseen)
    checks = rows("### Checks with a fault, or settled by a declaration")[2:]
    assert {name for name, *_ in checks} <= set(ALL_CHECKS)
    assert row["faults"] == str(sum(status == "fault" for _, status, *_ in checks))
