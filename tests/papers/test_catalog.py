"""Items are found without their code; claims are decided by tables alone."""

import inspect
import subprocess
import sys
from typing import get_args

import pandas as pd
import pytest

from attributionlab.papers import catalog, registry
from attributionlab.papers.catalog import CLAIMS, Found, Grade, Item, Run, claim, items, reproduce


@pytest.mark.parametrize("item", items().values(), ids=items())
def test_every_block_names_a_function_sizes_it_takes_and_tables_it_makes(item):
    assert item.grade in get_args(Grade)
    assert callable(item.load())
    assert item.most is None or item.sizes["n"] <= item.most
    taken = set(inspect.signature(item.load()).parameters)
    assert {*item.sizes, *item.quick} - {"n"} <= taken


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


def blocks(text, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "items.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(catalog, "__file__", str(tmp_path / "catalog.py"))
    monkeypatch.setattr(catalog, "PAPERS", ("mine",))
    return catalog.items.__wrapped__()


def test_a_block_begins_as_the_one_that_it_is_like(tmp_path, monkeypatch):
    found = blocks(
        """
        paper = "Mine"
        [first]
        title = "one"
        place = "Figure 1"
        grade = "faithful"
        function = "mine:one"
        notes = ["a note"]
        tables = { drops = "how far" }
        [second]
        like = "first"
        title = "two"
        [third]
        like = "second"
        place = "Figure 3"
        """,
        tmp_path,
        monkeypatch,
    )
    assert [each.title for each in found.values()] == ["one", "two", "two"]
    assert [each.place for each in found.values()] == ["Figure 1", "Figure 1", "Figure 3"]
    assert all(each.notes == ("a note",) for each in found.values())
    assert found["third"].tables == {"drops": "how far"}


def one(run, *, images=None):
    return Found({"n": pd.DataFrame({"n": [run.n]})}, notes=[f"{run.n} of them"])


ITEM = Item("mine", "Unified study", "t", "p", "faithful", "m:f", {"n": 9}, notes=("always",))


def test_notes_of_a_run_follow_those_of_the_item(monkeypatch):
    monkeypatch.setattr(Item, "load", lambda self: one)
    assert reproduce(ITEM, Run("mine", n=3), {}).findings == ["always", "3 of them"]


def test_own_images_have_a_number_of_their_own(monkeypatch):
    monkeypatch.setattr(Item, "load", lambda self: one)
    known = {"mine": Item(**{**vars(ITEM), "per_class": 2})}
    monkeypatch.setattr(registry, "items", lambda: known)
    monkeypatch.setitem(registry.EXPERIMENTS, "mine", one)

    def number(**settings):
        return int(registry.experiment("mine", **settings).tables["n"].n[0])

    assert number() == 9
    assert number(settings={"images": "there"}) == 2
    assert number(settings={"images": "there"}, n=5) == 5
