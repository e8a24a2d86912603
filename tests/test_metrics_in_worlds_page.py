"""The page of metrics in worlds: it has every metric, and its command names options that exist."""

import re
from pathlib import Path

from attributionlab.verdicts import DEFAULT_METRICS

PAGE = (Path(__file__).parent.parent / "docs" / "metrics-in-worlds.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([a-z0-9-]+)` \|(.*)\|$", re.MULTILINE)


def test_its_tables_have_every_metric_and_the_same_ones():
    rows = ROW.findall(PAGE)
    names = [name for name, _ in rows]
    first, second = names[: len(names) // 2], names[len(names) // 2 :]
    every = {*DEFAULT_METRICS, "foreground-share", "edge-share"}
    assert {*first} == every, "attributionlab metrics NAME, with the options of the page"
    assert first == second
    estimates = {name: cells.split("|")[-1].strip() for name, cells in rows[: len(first)]}
    assert estimates["foreground-share"] == estimates["edge-share"] == "none"
