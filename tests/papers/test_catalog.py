"""Items are found without their code, run by name, and hold their tables against claims."""

import json
import math
import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Unpack, get_args

import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

from attributionlab import AttributionLabError, papers
from attributionlab.cli import app as cli
from attributionlab.cli import main
from attributionlab.papers import catalog, items, reproduce
from attributionlab.papers.catalog import CLAIMS, Claim, Found, Grade, Item
from attributionlab.papers.subjects.subjects import OwnNetwork, maps_of, of_images
from refusals import refused


@pytest.fixture
def register(monkeypatch):
    """Put an item into the catalog: a function, and what its block says."""
    monkeypatch.setattr(catalog, "CLAIMS", [])

    def put(function, **block):
        block = {"sizes": {"n": 3}, "notes": ("it is so",)} | block
        item = Item("tiny", "Mine", "a title", "Table 1", "faithful", "", **block)
        monkeypatch.setattr(Item, "load", lambda self: function)
        for module in (catalog, papers):
            monkeypatch.setattr(module, "items", lambda: {"tiny": item})

    return put


@pytest.fixture
def tiny(register):
    """An item that takes no time."""

    def run(run, *, weights=None):
        sizes = {"n": [run.n], "quick": [run.quick], "seed": [run.seed]}
        return Found({"table": pd.DataFrame({**sizes, "weights": [weights]})}, {"figure": Figure()})

    register(run)


@pytest.mark.parametrize("item", items().values(), ids=items())
def test_every_block_names_a_function_and_sizes_it_takes(item):
    assert item.grade in get_args(Grade)
    assert {*item.sizes, *item.quick, *item.limits} <= {"n", *item.settings()}
    for sizes in (item.sizes, item.quick):
        for size, (least, *most) in item.limits.items():
            assert least <= sizes.get(size, least) <= (*most, math.inf)[0]


def test_reading_the_catalog_loads_no_torch():
    code = (
        "import sys; from attributionlab.papers.catalog import items; assert items();"
        "assert not {'torch', 'numpy', 'pandas', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_claim_agrees_differs_or_is_undecided_and_gives_its_reason_where_it_differs(register):
    def compute(run, *, x: float):
        return Found({"main": pd.DataFrame({"x": [x], "n": [run.n]})})

    register(compute, sizes={"n": 3, "x": 1}, quick={"x": 0})

    def positive(tables):
        [x] = tables["main"].x
        return None if x == 0 else bool(x > 0)

    catalog.CLAIMS.append(Claim(("tiny",), "Table 1", "x is positive", "x is ours", positive))
    runs = {
        "agrees": reproduce("tiny"),
        "undecided": reproduce("tiny", quick=True),
        "differs": reproduce("tiny", settings={"x": -1}),
    }
    for here, outcome in runs.items():
        [found] = outcome.claims
        assert (found["here"], found["reason"]) == (here, "x is ours" if here == "differs" else "")
        assert outcome.tables["main"].n[0] == 3


def test_a_terminal_leaves_out_columns_in_which_no_row_has_a_value(register, capsys):
    register(
        lambda run: Found({"main": pd.DataFrame({"x": [1.5], "f1_negative": [float("nan")]})}),
        sizes={"n": 3},
    )
    assert main(["reproduce", "tiny"]) == 0
    assert "\nmain\n  x\n1.5\n" in capsys.readouterr().out


def test_every_claim_is_about_an_item_of_the_catalog_says_something_and_has_its_check():
    for item in items().values():
        item.load()
    assert all(each.statement and each.items for each in CLAIMS)
    for folder in catalog.PAPERS:
        for each in catalog.statements(folder):
            if each.check.__module__ != catalog.__name__:  # a condition on rows needs no function
                assert callable(getattr(import_module(each.check.__module__), each.check.__name__))
    assert {name for each in CLAIMS for name in each.items} <= set(items())


def test_statements_of_a_file_are_checked_by_the_functions_of_their_names(tmp_path, monkeypatch):
    text = """
    paper = "Mine"
    [statements.one]
    holds = { says = "it is so" }
    fails = { place = "Table 1", says = "it is not", reason = "ours", about = ["a", "b"] }
    """
    (tmp_path / "soco").mkdir()
    (tmp_path / "soco" / "items.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(catalog, "__file__", str(tmp_path / "catalog.py"))
    named = {
        name: Item(name, *[""] * 3, "faithful", f"soco.{each}:run")
        for name, each in (("a", "one"), ("b", "ones"))
    }
    monkeypatch.setattr(catalog, "items", lambda: named)
    module = SimpleNamespace(holds=lambda tables: True, fails=lambda tables: tables["x"])
    monkeypatch.setitem(sys.modules, "attributionlab.papers.soco.one", module)
    first, second = catalog.statements("soco")
    assert (first.items, first.place, first.statement) == (("a",), "ours", "it is so")
    assert first.reason == ""
    assert (second.items, second.place, second.reason) == (("a", "b"), "Table 1", "ours")
    assert [first.holds({}), second.holds({"x": False})] == ["agrees", "differs"]


@pytest.mark.parametrize(
    ("quantified", "where", "answer"),
    [
        *(("all", "kind == 'a'", "agrees"), ("all", "kind != 'c'", "differs")),
        *(("all", "kind == 'd'", "undecided"), ("all", None, "differs")),
        *(("any", "kind != 'a'", "agrees"), ("any", "kind == 'c'", "differs")),
        *(("any", "kind == 'd'", "differs"), ("any", None, "agrees")),
    ],
)
def test_a_statement_is_a_condition_on_the_rows_that_are_meant(quantified, where, answer):
    table = pd.DataFrame({"kind": [*"aabbc"], "x": [1, 2, 3, 0, 0], "y": 1})
    meant = {"table": "t", quantified: "x >= y"} | ({"where": where} if where else {})
    one = Claim(("a",), "ours", "x reaches y", "", catalog._rows_meet("reaches", meant))
    assert one.holds({"t": table}) == answer
    assert one.holds({}) == "undecided"


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


def test_notes_of_a_run_follow_those_of_the_item(register):
    register(one)
    assert reproduce("tiny").notes == ["it is so", "3 of them"]


def told_of_maps(run):
    images = torch.rand(run.n, 1, 2, 2)
    functional = nn.Sequential(nn.Flatten(), nn.Linear(4, 2, bias=False), nn.LogSoftmax(1)).eval()
    labels = torch.zeros(run.n, dtype=torch.int64)
    subject = of_images("it", functional, images, labels, torch.zeros(1, 1, 1))
    for method in ("deep-lift", "saliency"):
        maps_of(subject, method, 0)
    return one(run)


def test_notes_say_what_guards_say_of_maps(register):
    register(told_of_maps)
    first, *told, last = reproduce("tiny").notes
    assert (first, last) == ("it is so", "3 of them")
    hidden, *_ = told
    assert hidden.startswith(
        "attributions of 3 images of deep-lift come from a network with 1 func"
    )
    assert not any("saliency" in each for each in told)


def test_own_images_have_a_number_of_their_own(register):
    register(one, per_class=2)

    def number(**settings):
        return int(reproduce("tiny", **settings).tables["n"].n[0])

    assert number() == 3
    assert number(settings={"images": "there"}) == 2
    assert number(settings={"images": "there"}, n=5) == 5


def test_n_beyond_the_items_most_is_refused(register):
    register(one, limits={"n": [1, 4]})
    with pytest.raises(AttributionLabError, match="n is 5: take an integer from 1 to 4"):
        reproduce("tiny", n=5)
    assert reproduce("tiny", n=4, device="cpu").run == {"n": 4, "quick": False, "seed": 0}


def test_whole_numbers_outside_their_limits_are_refused_together(register):
    def run(run, *, runs: int = 2, epochs: int | None = None, share: float = 0.5):
        return {"table": pd.DataFrame({"runs": [runs], "epochs": [epochs], "share": [share]})}

    register(run, limits={"runs": [2, 4], "share": [0.1, 1]})
    problems = (
        r"runs is 5: .* 2 to 4; epochs is 0: .* least 1; share is 0: .* least 0.1 and of at most 1"
    )
    with pytest.raises(AttributionLabError, match=problems):
        reproduce("tiny", settings={"runs": 5, "epochs": 0, "share": 0})
    with pytest.raises(AttributionLabError, match="runs is None"):
        reproduce("tiny", settings={"runs": None})
    assert reproduce("tiny", settings={"runs": 4, "epochs": None}).run["runs"] == 4


def test_an_items_own_figures_come_first(register):
    figures = {name: Figure() for name in ("maps", "curves-a", "all", "curves-b")}
    register(lambda _: Found({}, figures), figure="curves")
    assert [*reproduce("tiny").figures] == ["curves-a", "curves-b", "maps", "all"]


def test_a_device_is_for_accelerated_items(register, monkeypatch):
    monkeypatch.setattr("attributionlab.base.as_device", torch.device)
    register(one)
    with pytest.raises(AttributionLabError, match=r"device is .cuda., but tiny .* leave it out"):
        reproduce("tiny", device="cuda")
    register(one, accelerated=True)
    assert reproduce("tiny", device="cuda").run["device"] == "cuda"


@pytest.mark.parametrize("name", ["figure-171", ["figure-17"]])
def test_an_unknown_item_is_refused_with_the_nearest(name):
    refused(reproduce, {"name": name}, {}, f"no item named {name!r}: did you mean 'figure-17'")


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("idsds-figure-7", {"runs": 1}, "runs is 1: take an integer"),
        ("idsds-figure-10", {"runs": 0}, "runs is 0: take an integer"),
        ("camouflage-drift", {"networks": 0}, "networks is 0: take an integer from 1 to 100"),
        ("unified-table-3", {"splits": 0}, "splits is 0"),
        ("metarank-table-2", {"runs": 1, "epochs": 2}, "runs is 1 ... epochs is 2"),
        ("metarank-table-3", {"seeds": 0}, "seeds is 0"),
        ("metarank-figure-3", {"seeds": 0}, "seeds is 0"),
        ("figure-7", {"pictures": 0}, "pictures is 0: take an integer"),
        ("unified-table-2", {"steps": 0, "networks": 0}, "networks is 0"),
    ],
)
def test_each_item_has_limits_of_its_own(name, settings, said):
    refused(reproduce, {"name": name}, {"settings": settings}, said)


def test_settings_reach_the_item_and_unknown_ones_are_refused(tiny):
    outcome = reproduce("tiny", n=1, quick=True, settings={"weights": "file"})
    assert outcome.tables["table"].weights[0] == "file"
    assert outcome.run == {"n": 1, "quick": True, "seed": 0, "weights": "file"}
    with pytest.raises(AttributionLabError, match="tiny has no setting 'weight': did you mean"):
        reproduce("tiny", settings={"weight": "file"})
    with pytest.raises(AttributionLabError, match="tiny has no setting 'seed'"):
        reproduce("tiny", settings={"seed": 1})


@pytest.mark.parametrize(
    ("value", "kind", "remedy"),
    [
        (5, str | None, "pass a text"),
        (["a"], str, "pass a text"),
        ("true", bool, "take True or False"),
        ("0.5", float, "take a finite number"),
        (None, float, "take a finite number"),
        (float("nan"), float | None, "take a finite number"),
        (0, int, "take an integer of at least 1"),
        ("3", int | None, "take an integer of at least 1"),
    ],
)
def test_a_setting_of_another_type_is_refused(register, value, kind, remedy):
    def run(run, *, own):
        raise AssertionError

    run.__annotations__["own"] = kind
    register(run)
    with pytest.raises(AttributionLabError, match=f"own is .*: {remedy}"):
        reproduce("tiny", settings={"own": value})


def test_settings_that_items_share_are_taken_and_suggested_as_their_own_are(register):
    def run(run, *, layer=None, **own: Unpack[OwnNetwork]):
        return {"table": pd.DataFrame({"layer": [layer], **own})}

    register(run)
    outcome = reproduce("tiny", settings={"layer": "1", "weights": "file"})
    assert outcome.tables["table"].loc[0].to_dict() == {"layer": "1", "weights": "file"}
    with pytest.raises(AttributionLabError, match="no setting 'weight': did you mean 'weights'"):
        reproduce("tiny", settings={"weight": "file"})
    with pytest.raises(
        AttributionLabError, match="known are classes, images, layer, model, size, weights"
    ):
        reproduce("tiny", settings={"own": 1})


@pytest.mark.parametrize("plan", ["figure-17", "figure-6", "deepshap-signs", "table-1"])
@pytest.mark.parametrize("n", [0, -1, 1.5, True])
def test_an_impossible_number_of_images_is_refused_alike(plan, n):
    with pytest.raises(AttributionLabError, match=f"n is {n!r}: take an integer"):
        reproduce(plan, n=n)


def test_a_terminal_shows_what_it_has_room_for_and_names_the_rest(
    register, monkeypatch, tmp_path, capsys
):
    place = {"environment": ["here"] * 2, "method": ["a", "b"]}
    tables = {
        "own": pd.DataFrame({**place, "rank": [1.5, 1.5]}),
        "places": pd.DataFrame({"environment": ["here", "there"], "rank": [1.0, 2.0]}),
        "more": pd.DataFrame({"x": [1.0]}),
        "long": pd.DataFrame({"x": range(1234)}),
    }
    shown = {"own": "1 is best", "places": "by environment", "long": "very"}
    sentence = "word " * 60
    register(lambda run: Found(tables), tables=shown, notes=(sentence, "short"))
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main(["reproduce", "tiny"]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert lines[2:4] == ["own, here", "(1 is best)"]
    assert lines[4].split() == ["method", "rank"]
    assert [line.split() for line in lines[9:11]] == [
        ["(by", "environment)"],
        ["environment", "rank"],
    ]
    assert "More tables with --out DIR: more (1 row), long (1,234 rows)." in lines
    assert max(map(len, lines)) <= 80
    assert "\n\n- word word" in printed
    assert "\n  word word" in printed
    assert printed.endswith("\n\n- short\n")
    assert list(tables["own"]) == ["environment", "method", "rank"]
    assert cli.main(["reproduce", "tiny", "--out", str(tmp_path / "all")]) == 0
    assert "More tables" not in capsys.readouterr().out  # all are files there


def test_the_command_prints_and_writes_everything(tiny, tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    arguments = ["reproduce", "tiny", "--n", "3", "--quick", "--seed", "5", "--out", str(out)]
    assert cli.main([*arguments, "--set", "weights=w.pth"]) == 0
    printed = capsys.readouterr().out
    assert "tiny: a title" in printed
    assert "- it is so" in printed
    assert {path.name for path in out.iterdir()} == {
        *("tiny.json", "tiny-table.csv", "tiny-figure.png")
    }
    table = pd.read_csv(out / "tiny-table.csv")
    assert list(table.iloc[0]) == [3, True, 5, "w.pth"]
    summary = json.loads((out / "tiny.json").read_text(encoding="utf-8"))
    assert (summary["schema"], summary["notes"], summary["claims"]) == (2, ["it is so"], [])
    assert summary["command"].startswith("attributionlab reproduce tiny --n 3")
    assert "torch" in summary["versions"]
    assert summary["run"] == {"n": 3, "quick": True, "seed": 5, "weights": "w.pth"}


def test_an_item_of_many_cells_is_told_where_to_keep_them_and_how_many_processes_may_work(
    register, tmp_path
):
    seen = []

    def run(run):
        seen.append((run.running.get("out"), run.running.get("jobs")))
        return {"table": pd.DataFrame({"x": [1]})}

    register(run, resumable=True)
    assert cli.main(["reproduce", "tiny", "--jobs", "2", "--out", str(tmp_path)]) == 0
    assert cli.main(["reproduce", "tiny"]) == 0
    assert seen == [(tmp_path, 2), (None, None)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tinny"], "did you mean 'tiny'"),
        (["tiny", "--n", "0"], "n is 0"),
        (["tiny", "--set", "weights"], "write KEY=VALUE"),
    ],
)
def test_a_wrong_command_is_2_and_one_line(tiny, arguments, message, capsys):
    assert cli.main(["reproduce", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_folder_that_cannot_be_is_refused_before_the_run(tiny, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["reproduce", "tiny", "--out", str(tmp_path / "file")]) == 2
    captured = capsys.readouterr()
    assert "cannot be a folder" in captured.err
    assert captured.out == ""
