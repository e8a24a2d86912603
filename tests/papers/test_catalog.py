"""Items are found without their code; claims are decided by tables alone."""

import subprocess
import sys
from typing import get_args

import pandas as pd
import pytest

from attributionlab.papers import catalog
from attributionlab.papers.catalog import CLAIMS, Found, Grade, Item, Run, claim, items, reproduce


@pytest.mark.parametrize("item", items().values(), ids=items())
def test_every_block_names_a_function_sizes_it_takes_and_tables_it_makes(item):
    assert item.grade in get_args(Grade)
    assert callable(item.load())
    assert item.most is None or item.sizes["n"] <= item.most
    assert set(item.quick) <= set(item.sizes)


def test_reading_the_catalog_loads_no_torch():
    code = (
        "import sys; from attributionlab.papers.catalog import items; assert items();"
        "assert not {'torch', 'numpy', 'pandas', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_claim_agrees_differs_or_is_undecided_and_gives_its_reason_where_it_differs(monkeypatch):
    monkeypatch.setattr(catalog, "CLAIMS", [])

    @claim("tiny", place="Table 1", statement="x is positive", reason="x is ours")
    def positive(tables):
        [x] = tables["main"].x
        return None if x == 0 else bool(x > 0)

    def compute(run: Run, *, x: int):
        return Found({"main": pd.DataFrame({"x": [x], "n": [run.n]})})

    item = Item(
        "tiny", "paper", "title", "Table 1", "faithful", "", sizes={"n": 3, "x": 1}, quick={"x": 0}
    )
    monkeypatch.setattr(Item, "load", lambda self: compute)
    runs = {
        "agrees": reproduce(item, Run("tiny", 3), {}),
        "undecided": reproduce(item, Run("tiny", 3, quick=True), {}),
        "differs": reproduce(item, Run("tiny", 3), {"x": -1}),
    }
    for here, outcome in runs.items():
        [found] = outcome.claims
        assert (found["here"], found["reason"]) == (here, "x is ours" if here == "differs" else "")
        assert outcome.tables["main"].n[0] == 3


def test_every_claim_is_about_an_item_of_the_catalog():
    for item in items().values():
        item.load()
    assert {name for each in CLAIMS for name in each.items} <= set(items())
