"""Which code a result depends on: what its own code imports, and nothing else."""

import ast
import shutil
from pathlib import Path

import pytest

import attributionlab as al
from attributionlab.base import code_digest, own_code
from attributionlab.base.own_code import code_behind, imports_in

PACKAGE = Path(al.__file__).parent
RANKING = "attributionlab.verdicts.leaderboard.study"


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The package's texts, to be changed."""
    root = tmp_path_factory.mktemp("copy") / "attributionlab"
    shutil.copytree(PACKAGE, root, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def changed(root, file, *names):
    """Digests before and after somebody writes into a file."""
    assert (root / file).is_file()
    before = code_digest(*names, root=root)
    forget()
    with open(root / file, "a", encoding="utf-8") as text:
        text.write("# a remark\n")
    after = code_digest(*names, root=root)
    forget()
    return before, after


def forget():
    """What a process keeps of texts, which do not change under it otherwise."""
    for kept in (code_digest, own_code._hash, own_code._imports, own_code._table):
        kept.cache_clear()


@pytest.mark.parametrize(
    "file",
    [
        "papers/metarank/removal.py",
        "papers/attributionlab/items.toml",
        "verdicts/cards.py",
        "cli/app.py",
        "verdicts/sweep/run.py",
        "worlds/verification/pixels.py",
        "cli/pytest_plugin.py",
        "__init__.pyi",
    ],
)
def test_what_a_ranking_does_not_import_voids_no_ranking(copied, file):
    before, after = changed(copied, file, RANKING)
    assert before == after


@pytest.mark.parametrize(
    "file",
    [
        "verdicts/leaderboard/study.py",
        "methods/relevance.py",  # by the table of a package
        "methods/__init__.pyi",
        "base/exact/stepwise/kernels.py",
        "metrics/curves.py",  # by a module that is passed on as it is
        "show/plots.py",  # by an import within a function
        "worlds/environment/__init__.py",
        "base/errors.py",
        "runs/records.py",
    ],
)
def test_what_a_ranking_imports_counts(copied, file):
    before, after = changed(copied, file, RANKING)
    assert before != after


def test_without_names_everything_counts(copied):
    for file in ("papers/metarank/removal.py", "__init__.pyi"):
        before, after = changed(copied, file)
        assert before != after


def test_the_whole_package_is_what_its_table_names(copied):
    """As for who imports attributionlab, and may ask for anything."""
    files = {
        path.relative_to(copied).as_posix() for path in code_behind(["attributionlab."], copied)
    }
    assert {
        "verdicts/sweep/run.py",
        "verdicts/cards.py",
        "metrics/curves.py",
        "__init__.pyi",
    } <= files
    assert not any(file.startswith(("papers/", "cli/")) for file in files)


def naive(tree):
    """What a text imports of the package, as Python's own parser reads it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, each.name) for each in node.names)
        yield from naive(node)


@pytest.mark.long
def test_imports_are_read_from_texts_as_the_parser_reads_them():
    some = 0
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        expected = {each for each in naive(ast.parse(text)) if each[0].startswith("attributionlab")}
        assert imports_in(text) == expected, path
        some += len(expected)
    assert some > 1_000


def test_names_are_found_over_packages_and_tables(tmp_path):
    root = tmp_path / "attributionlab"
    texts = {
        "__init__.py": "",
        "__init__.pyi": "from .a import f as f\n",
        "a/__init__.py": "",
        "a/__init__.pyi": "from .b import f as f\nfrom .c import (\n    g as g,\n)\n",
        "a/b.py": "def f(): ...\n",
        "a/c.py": "from attributionlab.d import (\n    x,  # a remark\n    y as z,\n)\n",
        "d.py": "if TYPE_CHECKING:\n    from attributionlab.e import E\n\nx = y = 1\n",
        "e.py": "import attributionlab.a.b\n",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)

    def files(*names):
        return {path.relative_to(root).as_posix() for path in code_behind(names, root)}

    assert files("attributionlab.d") == {"__init__.py", "d.py"}
    assert files("attributionlab.e") == {"__init__.py", "a/__init__.py", "a/b.py", "e.py"}
    of_f = {"__init__.py", "a/__init__.py", "a/__init__.pyi", "a/b.py"}
    assert files("attributionlab.a.f") == of_f
    assert files("attributionlab.f") == files("attributionlab.") == {*of_f, "__init__.pyi"}
    assert files("attributionlab.a.g") == {*of_f - {"a/b.py"}, "a/c.py", "d.py"}
    assert files("attributionlab.a") == {*of_f, "a/c.py", "d.py"}
    assert files("elsewhere.f") == set()
