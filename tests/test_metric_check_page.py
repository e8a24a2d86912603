"""The page about checks of metrics has the registry's table and all declarations, and its code runs."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from attributionlab.metrics import DECLARED

PAGE = (Path(__file__).parent.parent / "docs" / "metric-check.md").read_text(encoding="utf-8")


def test_every_declaration_has_its_line():
    section = PAGE.partition("## What a metric declares")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `(\w+)`", section, re.M)
    assert set(named) == {*DECLARED, "higher_is_better", "maps"}


@pytest.mark.long
def test_the_snippet_finds_the_faults_that_the_page_tells_of():
    maps, _, methods, pairs = re.findall(
        r"```python\n(.*?)```", PAGE, re.DOTALL
    )  # one needs Quantus
    code = maps + methods + pairs
    code = re.sub(r"(check_metric\([^)]*)\)", r"\1, time_limit=None)", code)
    with redirect_stdout(StringIO()) as printed:
        exec(compile(code, "metric-check.md", "exec"), {})
    lines = printed.getvalue().splitlines()
    assert lines[0].startswith("agreement: no fault (")
    assert (len(lines), lines[1], lines[5]) == (11, "order", "sign")
    assert lines[9].startswith("other_target: no fault (")
    assert lines[10].startswith("similarity: no fault (")
