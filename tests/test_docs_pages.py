"""Snippets, commands and tables of the pages in docs/ that no test of their own holds."""

import inspect
import linecache
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import captum.attr  # noqa: F401 - pytester forgets what its runs import, and captum is slow
import pytest
import typer

import attributionlab as al
from attributionlab.cli import app as cli
from attributionlab.cli import pytest_plugin
from attributionlab.papers import items
from attributionlab.show import reading, verdict
from attributionlab.verdicts.faithfulness import protocol as faithfulness
from pages import PAGES
from pages import explained_columns as columns
from torchvision_stand_in import Torchvision, forget

DOCS = Path(__file__).parents[1] / "docs"
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
# Pages whose snippets run in a file of their own.
ELSEWHERE = {
    "bring-your-own.md": "test_bring_your_own.py",
    "exchange.md": "test_exchange_page.py",
    "json.md": "show/test_schema.py",
    "live.md": "live/test_live_in_browser.py",
    "methods.md": "test_methods_page.py",
    "metric-check.md": "test_metric_check_page.py",
    "metrics.md": "test_metrics_page.py",
    "quantus-and-captum.md": "test_other_libraries_page.py",
    "sealed-laboratories.md": "test_sealed_page.py",
    "sweeps.md": "sweep/test_sweeps_page.py",
    "teaching.md": "test_teaching_page.py",
    "which-truth.md": "test_which_truth_page.py",
}
GALLERY = TEXTS["gallery.md"]
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
BEFORE = {
    "conventions.md": "import attributionlab as al\nenv = al.load('multi-color-sum', image_size=24)\n"
    "images, labels = env.batch(2)\n"
}
LIBRARIES = {
    "nnsight": "nnsight",
    "pytorch_grad_cam": "grad-cam",
    "quantus": "quantus",
    "shap": "shap",
    "timm": "timm",
    "transformers": "transformers",
    "zennit": "zennit",
}
ON_TORCHVISION = {"pytorch_grad_cam", "timm", "zennit"}


def snippets(page):
    """Code and what it prints, for each snippet of a page; without imports it goes on with the last."""
    found, code = {}, BEFORE.get(page, "")
    for index, (own, printed) in enumerate(BLOCK.findall(TEXTS[page])):
        code = own if re.search(r"^(import|from) ", own, re.M) else code + own
        found[f"{page.removesuffix('.md')}-{index}"] = (code, printed)
    return found


SNIPPETS = {
    name: each for page in TEXTS if page not in ELSEWHERE for name, each in snippets(page).items()
}
FILES = {
    match[1]: code for code, _ in SNIPPETS.values() if (match := re.match(r"# (\w+\.py)\n", code))
}
RUN = {name: each for name, each in SNIPPETS.items() if each[0] not in FILES.values()}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A reader's folder with the files that pages name; the default test is small."""
    for name, code in FILES.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    faithfulness.protocol_document()  # kept from now on: of the names, which the next lines replace
    small = [al.load(name, image_size=48) for name in faithfulness.DEFAULT_ENVIRONMENTS]
    monkeypatch.setattr(faithfulness, "DEFAULT_ENVIRONMENTS", small)
    yield tmp_path
    sys.modules.pop("mine", None)


def library_for(code, monkeypatch):
    """Skip where a library of the snippet is missing; stand in for torchvision if it is."""
    needed = [name for name in LIBRARIES if re.search(rf"^(import|from) {name}\b", code, re.M)]
    if find_spec("torchvision") is None and ON_TORCHVISION & {*needed}:
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Torchvision()])
    for name in needed:
        pytest.importorskip(name, reason=f"pip install {LIBRARIES[name]}")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of other libraries, and of methods that are meant to fail
@pytest.mark.parametrize("name", RUN)
def test_snippets_print_what_their_page_says(name, folder, capsys, monkeypatch):
    code, expected = RUN[name]
    library_for(code, monkeypatch)
    source = (len(code), None, code.splitlines(keepends=True), name)
    monkeypatch.setitem(linecache.cache, name, source)  # nnsight reads the code that it runs
    try:
        exec(compile(code, name, "exec"), {"__name__": name})
    finally:
        if any(isinstance(each, Torchvision) for each in sys.meta_path):
            forget({"torchvision", *ON_TORCHVISION})
    printed = capsys.readouterr().out
    assert not expected or printed == expected


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
def test_the_file_for_pytest_passes(folder, pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    options = ("--strict-markers", "-p", "no:cacheprovider", str(folder / "test_faithful.py"))
    pytester.runpytest_inprocess(*options, plugins=[pytest_plugin]).assert_outcomes(passed=1)


@pytest.mark.parametrize("page", ELSEWHERE)
def test_pages_that_are_tested_elsewhere_are(page):
    text = (Path(__file__).parent / ELSEWHERE[page]).read_text(encoding="utf-8")
    assert page in text
    assert BLOCK.search(TEXTS[page])


COMMANDS = sorted(
    {
        (page, line)
        for page, text in TEXTS.items()
        for block in re.findall(r"```(?:shell|bash|)\n(.*?)```", text, re.DOTALL)
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("attributionlab ")
    }
)


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=lambda text: text[:60])
def test_commands_of_the_pages_are_commands(page, line):
    parsed(line)


ELSEWHERE_GENERATED = {"json.md", "networks-and-methods.md"}


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.long] * (page == "broken-methods.md"))
        for page in sorted(PAGES.keys() - ELSEWHERE_GENERATED)
    ],
)
def test_generated_tables_are_those_of_today(page):
    assert PAGES[page](TEXTS[page]) == TEXTS[page], f"python tests/pages.py {page}"


# The glossary


def test_every_term_has_a_number_a_link_a_command_or_a_picture():
    terms = re.findall(r"^### ([^\n]*)\n\n(.*?)(?=\n\n#|\Z)", TEXTS["glossary.md"], re.M | re.S)
    assert len(terms) >= 60
    bare = [term for term, text in terms if not re.search(r"\d|\]\(|`", text)]
    assert bare == []
    names = [name for term, _ in terms for name in re.split(r", | \(|\)", term) if name]
    assert len(names) == len({name.lower() for name in names})


# The gallery


def parsed(line):
    """The context of a command: names of options, and types of values, are right. Nothing runs."""
    name, *given = shlex.split(line.partition(" #")[0])[1:]
    return typer.main.get_command(cli.app).commands[name].make_context(name, given)


@pytest.mark.long
def test_the_gallery_shows_every_option_that_draws():
    commands = {line for line in re.findall(r"`(attributionlab [^`]+)`", GALLERY) if " --" in line}
    shown = {(parsed(line).info_name, key) for line in commands for key in parsed(line).params}
    given = {
        (context.info_name, key)
        for context in map(parsed, commands)
        for key, value in context.params.items()
        if value is not None
    }
    drawing = {(name, key) for name, key in shown if key in ("figure", "forms", "maps")}
    assert len(drawing) >= 5
    assert drawing <= given


def test_the_gallery_has_each_picture_once_under_its_sentence_and_above_its_command():
    blocks = re.findall(r"^<!-- \S+ -->\n(.*?)\n<!-- end -->$", GALLERY, re.M | re.S)
    shown = []
    for block in blocks:
        titles, pictures, command = block.split("\n\n")
        assert re.fullmatch(r"(\*\*\S+\*\*: .+(  \n)?)+", titles)
        assert re.fullmatch(r"`attributionlab .+`, \d+ CPU seconds", command)
        shown += re.findall(r"^!\[.{20,}\]\((images/gallery/\S+)\)$", pictures, re.M)
        assert pictures.count("![") == len(pictures.splitlines())
    files = (DOCS / "images" / "gallery").iterdir()
    assert sorted(shown) == sorted(path.relative_to(DOCS).as_posix() for path in files)
    assert GALLERY.count("![") == len(shown)


def test_the_pictures_of_the_gallery_are_small():
    files = [*(DOCS / "images" / "gallery").iterdir()]
    assert sum(path.stat().st_size for path in files) < 15_000 * len(files)


def test_items_of_the_gallery_are_items_of_today():
    commands = re.findall(
        r"^`attributionlab reproduce ([^`]+) --quick --out papers`", GALLERY, re.M
    )
    named = [name for words in commands for name in words.split()]
    assert len(named) > 0.9 * len(items())
    assert {*named} <= {*items()}
    for name in named:
        assert f"**{name}**: {items()[name].title}" in GALLERY


# How to read a result

READING = TEXTS["reading-a-result.md"]


def test_every_line_that_a_report_can_have_is_explained():
    source = inspect.getsource(verdict)
    titles = [*re.findall(r'yield "([^"]+)",', source), *reading.SHOWN, *reading.NOTES]
    headings = re.findall(r'(?:add_column\(|^            ")  ?([a-z][^"]*)"', source, re.M)
    assert len(titles) >= 16
    for title in [*titles, *headings]:
        assert f"`{title.strip()}`" in READING, f"docs/reading-a-result.md lacks `{title.strip()}`"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
def test_columns_of_the_files_are_those_of_the_page():
    env = al.load("multi-color-sum", image_size=24)
    report = al.faithfulness_test("saliency", env, n=2)
    assert [*report.to_frame()] == columns("attributionlab test")
    comparison = al.compare(["saliency"], env, n=2, also="equivalent:1")
    assert [*comparison.to_frame()] == columns("attributionlab compare")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
def test_columns_of_the_longer_commands_are_those_of_the_page():
    env = al.load("multi-color-sum", image_size=24)
    assert [*al.metric_test("deletion", env, n=2).dose_frame()] == columns(
        "attributionlab metric --csv"
    )


@pytest.mark.long
def test_the_table_on_the_page_is_what_the_command_prints(tmp_path):
    [(command, table)] = re.findall(
        r"```shell\n(attributionlab test .*?)\n```\n\nprints\n\n```text\n(.*?)```",
        READING,
        re.DOTALL,
    )
    words = [sys.executable, "-m", *shlex.split(command)]
    env = {**os.environ, "COLUMNS": "100"}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == cli.FAIL
    assert done.stdout == table
    assert {path.suffix for path in tmp_path.iterdir()} == {".html", ".json", ".csv", ".parquet"}
