"""The page about methods names every one of them once, and its code runs."""

import re
from pathlib import Path

import pytest

from attributionlab.base.segmentation import SEGMENTATIONS
from attributionlab.methods import METHODS

PAGE = (Path(__file__).parent.parent / "docs" / "methods.md").read_text(encoding="utf-8")


def test_every_method_has_its_place_in_the_table_of_costs():
    [table] = re.findall(r"\| name \| what it needs .*?\n\n", PAGE, re.DOTALL)
    names = [
        name
        for row in table.strip().splitlines()[2:]
        for name in re.findall(r"`([\w-]+)`", row.split("|")[1])
    ]
    assert len(names) == len({*names})
    assert {*names} == {*METHODS}, "by hand: the table of costs in docs/methods.md"


def test_every_segmentation_is_named():
    for name in (*SEGMENTATIONS, "patches"):
        assert f"`{name}`" in PAGE


@pytest.mark.filterwarnings("ignore::UserWarning")  # Captum's own
@pytest.mark.parametrize("index", range(9))
def test_the_snippets_run_and_say_what_the_page_says(index, capsys):
    snippet = re.findall(r"( *)```python\n(.*?)```", PAGE, re.DOTALL)[index]
    indent, code = snippet
    exec(compile(code.replace("\n" + indent, "\n").removeprefix(indent), "methods.md", "exec"), {})
    printed = capsys.readouterr().out
    if index == 0:
        assert printed.splitlines() == [
            "(2, 1, 32, 32) (2, 1, 32, 32) (2, 3, 32, 32)",
            "(2, 1, 32, 32)",
            "(2, 1, 32, 32)",
            "(2, 3, 32, 32)",
        ]
    elif index == 1:
        assert "('exact', 'exact')" in printed
    elif index == 2:
        assert printed.strip() == "pass"
    elif index == 3:
        relevance, refused = printed.split()
        assert float(relevance) != 3
        assert refused == "True"
    elif index == 4:
        alone, both = map(float, printed.split())
        assert alone != pytest.approx(both, rel=0.1)
    elif index == 5:
        assert [float(each) for each in printed.split()] == [1, 2]
    elif index == 6:
        assert [float(each) for each in printed.split()] == [1, 3]
    elif index == 7:
        assert printed.strip() == "[[0.0, 0.0, 0.0, 0.0]]"
    else:
        assert [float(each) for each in printed.split()] == [10, 4]
