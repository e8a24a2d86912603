"""Many items go through one store: kept, resumed, listed where they fail, and shown on one page."""

import base64
import io
import re
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

from attributionlab import AttributionLabError
from attributionlab.base import Stopped
from attributionlab.cli import app as cli
from attributionlab.papers import catalog, everything, reproduce, reproduce_all
from attributionlab.papers.catalog import Claim, Found, Item
from attributionlab.papers.everything import Attempt, Reproductions, longest_first
from attributionlab.papers.unified import manipulated_model
from attributionlab.papers.unified.digits import random_classifier
from attributionlab.runs import Outcome, Store
from attributionlab.runs.records import record_of
from attributionlab.show import items_page
from html_pages import Outline

CHEAP = ["unified-appendix-e", "table-1"]
BAD = "<script>alert('&')</script>"


def check_page(folder):
    """What every page must be: whole, harmless, and every link leads somewhere."""
    html = (folder / "index.html").read_text(encoding="utf-8")
    page = Outline(html)
    assert not page.every("script", "link", "iframe", "object", "form")
    assert all(source.startswith("data:image/png;base64,") for source in page.values("src"))
    assert not re.search(r"(src|href)=.?(https?:|//|file:)|@import|url\(", html)
    assert page.values("content")[0].startswith(
        "default-src 'none'; img-src data:; style-src 'sha256-"
    )
    assert len(page.values("id")) == len(set(page.values("id")))
    for link in page.values("href"):
        if link.startswith("#"):
            assert link[1:] in page.values("id")
        else:
            assert (folder / unquote(link)).is_file(), link
    return page, html


def contents(folder):
    """Files that a user looks for, without the store's."""
    kinds = (".html", ".csv", ".json", ".png")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in kinds}


@pytest.fixture
def mine(monkeypatch):
    """Items of one's own: functions by name; counts how often each is computed."""
    computed = []

    def put(run_with=None, **functions):
        monkeypatch.setattr(catalog, "CLAIMS", [])
        blocks = {
            name: Item(
                *(name, paper, f"title of {name}", "Table 1", "faithful", f"x:{name}", {"n": 3}),
                run_with=(run_with or {}).get(name, ""),
            )
            for paper, names in {"First": ["a", "b"], "Second": ["c", "d"]}.items()
            for name in names
            if name in functions
        }

        def load(item):
            def run(run, **sizes):
                computed.append(item.name)
                return functions[item.name](run)

            return run

        monkeypatch.setattr(Item, "load", load)
        monkeypatch.setattr(Item, "settings", lambda item: {})
        for module in (catalog, everything):
            monkeypatch.setattr(module, "items", lambda: blocks)
        return computed

    return put


def fine(run):
    table = pd.DataFrame(
        {"ours": [run.n, run.seed], "paper": [0.5, float("nan")], "x_y": ["a", None]}
    )
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1])
    return Found({"own": table, "long": pd.DataFrame({"x": range(1234)})}, {"drawn": figure}, [BAD])


def fails(run):
    raise ZeroDivisionError(BAD)


def stops(run):
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def cheap(tmp_path_factory):
    """Two real items through a store, by two processes."""
    folder = tmp_path_factory.mktemp("cheap")
    found = reproduce_all(CHEAP, quick=True, out=folder, jobs=2)
    found.save(folder)
    return found, folder


@pytest.mark.long
@pytest.mark.parametrize("name", CHEAP)
def test_files_of_two_processes_are_those_that_the_item_alone_writes(cheap, name, tmp_path):
    command = f"attributionlab reproduce {name} --quick"
    alone = reproduce(name, quick=True).save(tmp_path, command)
    assert len(alone) > 2
    for path in alone:
        ours, theirs = (cheap[1] / path.name).read_bytes(), path.read_bytes()
        if path.suffix == ".json":  # cells have one thread, this process may have more
            ours, theirs = (re.sub(rb'"threads": "\d+"', b"", each) for each in (ours, theirs))
        assert ours == theirs, path.name


@pytest.mark.long
def test_the_page_has_every_item_with_its_claims_tables_and_figures(cheap):
    found, folder = cheap
    page, html = check_page(folder)
    for attempt in found.attempts:
        item = attempt.item
        assert {item.name, f"{item.name}-title"} <= set(page.values("id"))
        assert f"#{item.name}" in page.values("href")
        for text in (item.title, item.place, item.grade, *attempt.drawn.notes):
            assert " ".join(text.split()) in page.words
        assert attempt.claims
        for each in attempt.claims:
            assert f"{each['paper says']} {each['here']}" in page.words.replace(" ", " ")
        some = [name for name, table in attempt.drawn.tables.items() if len(table)]
        assert {f"{item.name}-table-{name}" for name in some} <= set(page.values("id"))
        assert {f"{item.name}-figure-{name}" for name in attempt.drawn.figures} <= set(
            page.values("id")
        )
        assert f"attributionlab reproduce {item.name} --quick" in page.words
    assert len(page.values("src")) == sum(len(each.drawn.figures) for each in found.attempts) > 0
    for value in (found.command, *found["table-1"].versions.values()):
        assert " ".join(value.split()) in page.words
    # published values stand beside ours, marked
    assert 'class="number published">published parameters</th>' in html
    assert 'published">1,227,594</td>' in html


@pytest.mark.long
def test_the_summary_counts_items_and_claims_of_each_paper(cheap):
    found, _ = cheap
    assert found.summary().to_dict("list") == {
        "paper": ["Unified study", "AttributionLab"],
        "items": [1, 1],
        "computed": [1, 1],
        "failed": [0, 0],
        "left": [0, 0],
        "agrees": [4, 3],
        "differs": [0, 0],
        "undecided": [0, 0],
    }
    frame = found.to_frame()
    assert frame.item.tolist() == CHEAP
    assert frame.agrees.tolist() == [4, 3]
    assert (frame.seconds > 0).all()


def test_a_claim_about_several_items_counts_once_for_each_answer(mine):
    mine(a=fine, b=fine, c=fine)
    catalog.CLAIMS[:] = [
        *(Claim(("a", "b", "c"), f"Table {name}", "it is so", "", lambda _: True) for name in "ab"),
        Claim(("a",), "Table 2", "this is not", "", lambda _: False),
        Claim(("b",), "Table 2", "this is not", "", lambda _: None),
    ]
    found = reproduce_all().summary().set_index("paper")
    assert found.loc["First", ["agrees", "differs", "undecided"]].tolist() == [2, 1, 1]
    assert found.loc["Second", ["agrees", "differs", "undecided"]].tolist() == [2, 0, 0]


@pytest.mark.long
def test_what_the_store_knows_is_not_computed_again_and_what_changed_is(mine, tmp_path):
    computed = mine(a=fine, b=fine)
    first = reproduce_all(out=tmp_path)
    assert computed == ["a", "b"]
    again = reproduce_all(out=tmp_path)
    assert computed == ["a", "b"]
    assert first.to_html() == again.to_html()
    reproduce_all(["b"], seed=1, out=tmp_path)
    reproduce_all(["b"], quick=True, out=tmp_path)
    assert computed == ["a", "b", "b", "b"]
    object.__setattr__(everything.items()["a"], "sizes", {"n": 4})
    assert reproduce_all(out=tmp_path)["a"].tables["own"].ours[0] == 4
    assert computed == ["a", "b", "b", "b", "a"]
    said = {"says": "x", "table": "own", "all": "ours > 9"}
    catalog.CLAIMS.append(Claim(("b",), "ours", "x", "", lambda _: True, said))
    assert reproduce_all(out=tmp_path)["b"].claims[0]["here"] == "agrees"
    assert computed == ["a", "b", "b", "b", "a", "b"]


def test_an_item_that_fails_is_listed_and_the_others_go_on(mine, tmp_path):
    computed = mine(a=fails, b=fine)
    found = reproduce_all(out=tmp_path)
    [failed] = found.failed
    assert (failed.item.name, failed.reason) == ("a", f"ZeroDivisionError: {BAD}")
    assert "in fails" in failed.error
    assert found.to_frame().status.tolist() == ["failed", "computed"]
    found.save(tmp_path)
    page, html = check_page(tmp_path)
    assert f"a : ZeroDivisionError: {BAD}" in page.words
    assert "9 The first 10 of 1,234 rows; all are in b-long.csv" in page.words
    assert BAD not in html
    with pytest.raises(AttributionLabError, match="'a' has no result: ZeroDivisionError"):
        found["a"]
    reproduce_all(out=tmp_path)
    assert computed == ["a", "b"]
    reproduce_all(out=tmp_path, retry_failed=True)
    assert computed == ["a", "b", "a"]


def test_items_that_are_run_together_compute_once_what_they_share(mine, tmp_path):
    shared = []

    def half(run):
        number = run.once("number", lambda: shared.append(run.item) or len(shared))
        return {"own": pd.DataFrame({"x": [number], "item": [run.item]})}

    computed = mine(a=half, b=half, c=half, d=fine, run_with={"c": "a"})
    found = reproduce_all(["c", "b", "a"], out=tmp_path)
    assert (computed, shared) == (["c", "a", "b"], ["c", "b"])
    assert [found[name].tables["own"].to_numpy().tolist() for name in "abc"] == [
        *([[1, "a"]], [[2, "b"]], [[1, "c"]]),
    ]
    assert [each.item.name for each in found.attempts] == ["c", "b", "a"]
    assert found.attempts[0].seconds == found.attempts[2].seconds
    reproduce_all(["c", "b", "a"], out=tmp_path)
    assert len(computed) == 3
    reproduce("a")
    reproduce("b")
    assert shared[2:] == ["a", "b"]


@pytest.mark.long
def test_an_item_that_is_run_with_another_is_what_it_is_alone(monkeypatch):
    monkeypatch.setattr(manipulated_model, "PENALTIES", (0.1,))
    monkeypatch.setattr(  # what trains takes longest, and is not asked here
        manipulated_model,
        "sparse_classifier",
        lambda images, labels, *, unit, seed, **_: random_classifier(unit, seed),
    )
    names = ["unified-table-3", "unified-appendix-figure-6"]
    assert catalog.items()[names[1]].run_with == names[0]
    together = reproduce_all(names, quick=True)[names[1]]
    alone = reproduce_all(names[1:], quick=True)[names[1]]
    assert list(together.files("")) == list(alone.files(""))  # its own figure first
    assert together.files("") == alone.files("")


def test_of_items_that_are_run_together_one_that_fails_spoils_no_other(mine, tmp_path):
    computed = mine(a=fine, b=fails, c=fine, run_with={"b": "a", "c": "a"})
    for again in range(2):
        found = reproduce_all(out=tmp_path)
        assert found.to_frame().status.tolist() == ["computed", "failed", "computed"]
        assert [each.item.name for each in found.failed] == ["b"]
        assert computed == ["a", "b", "a", "b", "c"], again


@pytest.mark.parametrize(
    "item", [each for each in catalog.items().values() if each.run_with], ids=lambda each: each.name
)
def test_items_that_are_run_together_have_one_function_and_its_sizes(item):
    other = catalog.items()[item.run_with]
    assert not other.run_with
    assert (other.function, other.sizes, other.quick) == (item.function, item.sizes, item.quick)


def test_a_refused_item_has_its_one_line(mine):
    def refuses(run):
        raise AttributionLabError("weights are missing: pass weights")

    mine(a=refuses)
    [attempt] = reproduce_all().failed
    assert attempt.error == attempt.reason == "weights are missing: pass weights"


@pytest.mark.long
def test_an_interruption_keeps_what_is_done_and_the_same_call_goes_on(mine, tmp_path):
    mine(a=fine, b=stops, c=fine)
    with pytest.raises(Stopped, match="1 of 3 items were done") as stopped:
        reproduce_all(out=tmp_path)
    part = stopped.value.result
    assert part.to_frame().status.tolist() == ["computed", "not yet", "not yet"]
    part.save(tmp_path)
    page, _ = check_page(tmp_path)
    assert page.words.count("Not computed yet") == 2
    assert (tmp_path / "a-own.csv").is_file()
    assert not (tmp_path / "b-own.csv").exists()
    computed = mine(a=fine, b=fine, c=fine)
    computed.clear()
    reproduce_all(out=tmp_path).save(tmp_path)
    assert computed == ["b", "c"]
    undisturbed = tmp_path / "undisturbed"
    reproduce_all().save(undisturbed)
    assert contents(tmp_path) == contents(undisturbed)


def test_an_interruption_before_the_first_item_has_no_result(mine):
    mine(a=stops)
    with pytest.raises(Stopped) as stopped:
        reproduce_all()
    assert stopped.value.result is None


@pytest.mark.long
def test_the_command_writes_the_page_and_says_what_failed(mine, tmp_path, capsys):
    mine(a=fine, b=fine)
    arguments = ["reproduce", "all", "--quick", "--out", str(tmp_path)]
    assert cli.main([*arguments, "--jobs", "1"]) == 0
    captured = capsys.readouterr()
    assert captured.out.split()[-8:] == ["First", "2", "2", "0", "0", "0", "0", "0"]
    assert f"written: {tmp_path / 'index.html'}" in captured.err
    page, _ = check_page(tmp_path)
    assert f"attributionlab {' '.join(arguments)} --jobs 1" in page.words
    assert {"a.json", "a-own.csv", "a-drawn.png", "b.json"} <= contents(tmp_path).keys()
    mine(a=fails, b=fine)
    object.__setattr__(everything.items()["a"], "sizes", {"n": 4})
    assert cli.main(arguments) == 1
    assert f"failed: a: ZeroDivisionError: {BAD}" in capsys.readouterr().err


def test_without_a_folder_the_command_prints_the_summary(mine, capsys):
    mine(a=fine, b=fine, c=fails)
    assert cli.main(["reproduce", "a", "c"]) == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "paper", "First", "Second",
    ]  # fmt: skip


def test_an_interrupted_command_writes_what_is_done_and_exits_130(mine, tmp_path, capsys):
    mine(a=fine, b=stops)
    assert cli.main(["reproduce", "all", "--jobs", "1", "--out", str(tmp_path)]) == 130
    captured = capsys.readouterr()
    assert "1 of 2 items were done" in captured.err
    assert captured.out.splitlines()[-1].split()[:4] == ["First", "2", "1", "0"]
    check_page(tmp_path)
    mine(a=fails, b=fine)  # a is known
    assert cli.main(["reproduce", "all", "--out", str(tmp_path)]) == 0


def test_one_item_writes_its_files_alone(mine, tmp_path):
    mine(a=fine, b=fine)
    assert cli.main(["reproduce", "a", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        *("a.json", "a-own.csv", "a-long.csv", "a-drawn.png"),
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["all", "a"], "all is given with other items: name all alone"),
        (["a", "all"], "all is given with other items: name all alone"),
        (["a", "bb"], "no item named 'bb'"),
        (["a", "a"], "items name 'a' twice: name each once"),
        (["all", "--n", "3"], "--n is 3, which is for a single item"),
        (["all", "--size", "slide"], "--size is 'slide', which is for a single item"),
        (["all", "--latex", "t.tex"], "--latex is 't.tex', which is for a single item"),
        (
            ["table-1", "--size", "slide"],
            "--size is 'slide', but there is no figure: add --out DIR",
        ),
        (["all", "--set", "x=1"], "--set is ['x=1'], which is for a single item"),
        (["all", "--device", "cuda"], "--device is 'cuda', which is for a single item"),
        (["all", "--seed", "-1"], "seed is -1"),
        (["a", "--jobs", "2"], "--jobs is given, but a cannot be split: leave it out"),
        (
            ["a", "--retry-failed"],
            "--retry-failed is given, but a cannot be split: leave it out",
        ),
    ],
)
def test_a_wrong_command_is_2_and_one_line(mine, arguments, message, capsys):
    computed = mine(a=fine, b=fine)
    assert cli.main(["reproduce", *arguments]) == 2
    error = capsys.readouterr().err.splitlines()
    assert message in error[-1]
    assert not computed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": []}, "items are empty"),
        ({"quick": "no"}, "quick is 'no': take True or False"),
        ({"seed": 0.5}, "seed is 0.5"),
    ],
)
def test_impossible_arguments_are_refused(mine, options, message):
    mine(a=fine)
    with pytest.raises(AttributionLabError, match=message):
        reproduce_all(**options)


def test_a_folder_of_something_else_is_refused(mine, tmp_path):
    computed = mine(a=fine)
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(AttributionLabError, match=r"'thesis\.tex' but no store"):
        reproduce_all(out=tmp_path)
    assert not computed


def test_long_items_come_first_and_those_that_no_store_has_measured_before_them(mine, tmp_path):
    mine(a=fine, b=fine, c=fine, d=fine)
    cells = {name: everything._cell([name], True, 0) for name in everything.items()}
    other = everything._cell(["a"], False, 0)
    assert longest_first(list(cells.values()), None) == list(cells.values())
    with Store(tmp_path) as store:
        for name, seconds in {"a": 1.0, "b": 3.0, "d": 2.0}.items():
            store.put(cells[name], Outcome(record_of(None), seconds=seconds))
        store.put(other, Outcome(record_of(None), seconds=100.0))
        order = longest_first(list(cells.values()), store)
    assert [cell.place["item"] for cell in order] == ["c", "b", "d", "a"]


def pictures(**sizes):
    """A document with items whose figures are noise of so many pixels each way."""
    rng = np.random.default_rng(0)

    def png(side):
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(buffer, "png")
        return buffer.getvalue()

    attempts = [
        Attempt(
            Item(name, "Mine", BAD, "Table 1", "faithful", ""),
            catalog.Reproduction(
                name, {}, {f"{k}": png(side) for k, side in enumerate(each)}, [], [], {}, {}
            ),
        )
        for name, each in sizes.items()
    ]
    return Reproductions(attempts, False, 0, BAD)


@pytest.mark.long
def test_figures_beyond_the_size_of_a_page_are_links_and_second_figures_wait(
    mine, monkeypatch, tmp_path
):
    blocks = {name: Item(name, "Mine", BAD, "Table 1", "faithful", "") for name in ("a", "b")}
    for module in (catalog, everything):
        monkeypatch.setattr(module, "items", lambda: blocks)
    monkeypatch.setattr(Item, "settings", lambda item: {})
    found = pictures(a=[120, 120], b=[120])
    whole = found.to_html()
    assert Outline(whole).words.count("as drawn") == 3
    one = len(whole) - len(Outline(whole).values("src")[0])
    monkeypatch.setattr(items_page, "LARGEST_PAGE", one)
    found.save(tmp_path)
    page, html = check_page(tmp_path)
    assert len(html.encode()) <= one
    assert len(page.values("src")) == 2
    assert "1: a-1.png , left out" in page.words
    assert "as drawn" in page.words
    assert BAD not in html


def test_a_figure_of_several_items_is_shown_once_with_that_whose_own_it_is(monkeypatch, tmp_path):
    found = pictures(a=[120, 100], b=[100])
    second, [own] = found.attempts[0].drawn.figures, found.attempts[1].drawn.figures.values()
    second["1"] = own
    blocks = {each.item.name: each.item for each in found.attempts}
    for module in (catalog, everything):
        monkeypatch.setattr(module, "items", lambda: blocks)
    monkeypatch.setattr(Item, "settings", lambda item: {})
    found.save(tmp_path)
    page, _ = check_page(tmp_path)
    assert len(page.values("src")) == 2
    assert "#b-figure-0" in page.values("href")
    assert page.words.count("shown with another item") == 1


def test_a_figure_on_the_page_is_no_wider_than_it_is_shown_and_keeps_its_shape():
    buffer = io.BytesIO()
    Image.new("RGB", (3000, 1500), (200, 30, 30)).save(buffer, "png")
    address = items_page._address(buffer.getvalue())
    with Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))) as image:
        assert image.size == (1000, 500)
        assert image.convert("RGB").getpixel((10, 10)) == (200, 30, 30)


@pytest.mark.long
def test_one_item_has_its_tables_as_text_and_its_figures_in_a_size(tmp_path):
    paths = {name: tmp_path / f"t.{name}" for name in ("latex", "markdown")}
    options = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    words = [
        "reproduce",
        "unified-appendix-e",
        "--quick",
        "--out",
        str(tmp_path),
        "--size",
        "column",
    ]
    assert cli.main([*words, *options]) == 0
    assert "### " in (text := paths["markdown"].read_text(encoding="utf-8"))
    assert "|---|" in text
    assert "\\toprule" in paths["latex"].read_text(encoding="utf-8")
    [picture] = tmp_path.glob("*.png")
    with Image.open(picture) as drawn:
        assert drawn.width == 3.4 * 150  # inches, dots per inch
