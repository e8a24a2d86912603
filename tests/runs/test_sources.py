"""Results of a user's code are used again only while all of it, and what it read, is as it was."""

import importlib
import os
import sys
from functools import partial

import numpy as np
import pytest

from attributionlab.base import changed_files, code_of, files_read, heard, located
from attributionlab.runs import Cell, Store, Workers, fingerprint, run_cells
from attributionlab.runs.running import outcome_of


@pytest.fixture
def user(tmp_path, monkeypatch):
    """A folder of the user's, the current one; its modules are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, ""])
    yield tmp_path
    forget("aid", "between", "pack", "one", "two", "w_in")


def write(folder, **files):
    """Python files by name; IN stands for a slash."""
    for name, text in files.items():
        path = folder / f"{name.replace('IN', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def forget(*names):
    """As in a new process."""
    for name in list(sys.modules):
        if name.partition(".")[0] in names or name.startswith("attributionlab_user_"):
            del sys.modules[name]
    importlib.invalidate_caches()


IMPORTS = {
    "import": "import aid\ndef f(x):\n    return aid.K\n",
    "from": "from aid import K\ndef f(x):\n    return K\n",
    "in a function": "def f(x):\n    from aid import K\n    return K\n",
    "a module in a function": "def f(x):\n    import aid as it\n    return it.K\n",
    "by a text": ("import importlib\ndef f(x):\n    return importlib.import_module('aid').K\n"),
    "by a name put together": (
        "import importlib\nit = importlib.import_module('a' + 'id')\ndef f(x):\n    return it.K\n"
    ),
    "a function by a name put together": (
        "import importlib\nit = importlib.import_module('a' + 'id').g\ndef f(x):\n    return it\n"
    ),
    "through another": "import between\ndef f(x):\n    return between.K\n",
    "through a package": "import pack\ndef f(x):\n    return pack.K\n",
}


@pytest.mark.parametrize("how", IMPORTS)
def test_what_a_file_imports_counts(user, how):
    seen = []
    between = "def g(): pass\nimport aid\nK = aid.K\n"
    write(user, mine=IMPORTS[how], between=between, packIN__init__=between)
    for text in ("K = 1\ndef g(): pass\n", "K = 2\ndef g(): pass\n", "K = 1\ndef g(): pass\n"):
        write(user, aid=text, other=text)
        forget("aid", "between", "pack")
        seen.append(fingerprint(located("mine.py:f", {})))
    assert seen[0] != seen[1]
    assert seen[0] == seen[2]  # of contents alone
    assert str(user / "aid.py") in seen[0].files
    assert str(user / "other.py") not in seen[0].files


@pytest.mark.parametrize("text", ["import aid\ndef f(x): return aid.K", "from aid import g as f"])
def test_what_a_notebook_imports_counts(user, text):
    """What has no file itself is known by its code and by what that refers to."""
    seen = []
    for content in ("K = 1\ndef g(): pass\n", "K = 2\ndef g(): pass\n"):
        write(user, aid=content)
        forget("aid")
        space = {"__name__": "notebook"}
        exec(compile(text, "<cell 3>", "exec"), space)
        seen.append(fingerprint(space["f"]))
    assert seen[0] != seen[1]


def test_a_package_counts_as_a_whole(user):
    """Also what it loads under names that nobody sees."""
    write(user, packIN__init__="", packINmethod="def f(x): return 1\n", packINrest="K = 1\n")
    seen = []
    for text in ("K = 1\n", "K = 2\n"):
        write(user, packINrest=text)
        forget("pack")
        seen.append(fingerprint(located("pack.method:f", {})))
    assert seen[0] != seen[1]


def test_an_installed_package_counts_as_a_whole(user, monkeypatch):
    installed = user / "site-packages"
    installed.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(installed)])
    write(user / "site-packages", packIN__init__="", packINmethod="def f(x): return 1\n")
    seen = []
    for text in ("K = 1\n", "K = 2\n"):
        write(installed, packINrest=text)
        forget("pack")
        seen.append(fingerprint(located("pack.method:f", {})))
    assert seen[0] != seen[1]
    write(user, mine="import pack\ndef f(x): return 1\n")
    assert seen[1].files.isdisjoint(fingerprint(located("mine.py:f", {})).files)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import attributionlab as al", ("attributionlab.",)),
        ("from attributionlab import *", ("attributionlab.",)),
        ("from attributionlab.methods import lrp as x, rise", ("methods.lrp", "methods.rise")),
        ("def f(x):\n    import attributionlab.base.exact", ("base.exact",)),
    ],
)
def test_what_it_imports_of_this_package_counts(user, monkeypatch, text, names):
    asked, seen = [], []
    write(user, mine=f"{text}\ndef f(x): ...\n")
    for digest in "abab":
        of_package = partial(lambda digest, *of: asked.append(of) or digest, digest)
        monkeypatch.setattr("attributionlab.base.sources.code_digest", of_package)
        seen.append(fingerprint(located("mine.py:f", {})))
    assert seen[:2] == seen[2:]
    assert seen[0] != seen[1]
    full = tuple(each if each[0] == "a" else f"attributionlab.{each}" for each in names)
    assert {*asked} == {full}
    assert seen[0].files == {str(user / "mine.py")}


def test_a_circle_of_imports_and_what_is_no_python_end(user):
    write(user, mine="import one\ndef f(x): return 1\n", one="import two\n", two="import one\n")
    method = located("mine.py:f", {})
    write(user, two="this is no Python")
    assert {str(user / f"{name}.py") for name in ("mine", "one", "two")} == code_of(method).files


def test_where_the_files_lie_does_not_count(user, monkeypatch):
    seen = []
    for name in ("here", "there"):
        (user / name).mkdir()
        write(user / name, mine="import aid\ndef f(x): return 1\n", aid="K = 1\n")
        forget("aid")
        seen.append(fingerprint(located(f"{name}/mine.py:f", {})))
    assert seen[0] == seen[1]


READS = {
    "when it is loaded": "import numpy as np\nw = np.load('w.npy')\ndef f(device): return float(w)\n",
    "when it is called": "import numpy as np\ndef f(device): return float(np.load('w.npy'))\n",
    "by another file": "import aid\ndef f(device): return aid.read()\n",
    "at the first call": (
        "import numpy as np\nfrom functools import cache\n@cache\ndef w(): return np.load('w.npy')\n"
        "def f(device): return float(w())\n"
    ),
    "a module by a name put together": (
        "import importlib\nw = 'w'\n"
        "def f(device): return float(importlib.import_module(w + '_in').K)\n"
    ),
}


def cells_of(function):
    """Two cells of the user's, and one that has nothing to do with them."""
    place = {"name": "its"}
    return [
        Cell("test", place, {"f": fingerprint(function), "n": 1}, function),
        Cell("test", {"name": "again"}, {"f": fingerprint(function), "n": 2}, function),
        Cell("test", {"name": "other"}, {}, lambda device: 3.0),
    ]


@pytest.mark.parametrize("how", READS)
def test_what_it_read_counts(user, how):
    aid = "import numpy as np\ndef read(): return float(np.load('w.npy'))\n"
    write(user, mine=READS[how], aid=aid)
    found = []
    for value in (1.0, 1.0, 2.0):
        np.save("w.npy", value)
        write(user, w_in=f"K = {value}  #{'.' * int(value)}\n")  # in a second, of another size
        forget("aid", "w_in")
        cells = cells_of(located("mine.py:f", {}))
        with Store(user / "out") as store:
            why = [store.why_missing(each) for each in cells]
            pairs = list(run_cells(cells, store))
            found.append(
                {each.title: (outcome.value, bool(outcome.known)) for each, outcome in pairs}
            )
            assert len(store.keys()) == 3  # what was just computed is known
    other = ("other", (3.0, False)), ("other", (3.0, True))
    assert found[0] == dict([("its", (1.0, False)), ("again", (1.0, False)), other[0]])
    assert found[1] == dict([("its", (1.0, True)), ("again", (1.0, True)), other[1]])
    assert found[2] == dict([("its", (2.0, False)), ("again", (2.0, False)), other[1]])
    assert why[0].startswith("changed: ")
    assert "w" in why[0]


def test_a_file_that_is_gone_is_a_change(user):
    write(user, mine=READS["when it is called"])
    np.save("w.npy", 1.0)
    method = located("mine.py:f", {})
    read = outcome_of(method, None, fingerprint(method).files).read
    assert [name for name, _ in read] == ["w.npy"]
    assert changed_files(read) == []
    os.remove("w.npy")
    assert changed_files(read) == ["w.npy"]


def test_what_it_wrote_itself_is_no_input(user):
    text = (
        "from pathlib import Path\nmade = Path('made')\n"
        "def f(device): return made.write_text('1') + len(made.read_text())\n"
    )
    write(user, mine=text)
    method = located("mine.py:f", {})
    assert outcome_of(method, None, fingerprint(method).files).read == ()


def test_only_the_users_own_code_reads(user):
    """What libraries open for themselves, and the user outside of the work, is not looked at."""
    (user / "data").write_text("1")
    write(user, mine="def f(device): return 1\n")
    files = fingerprint(located("mine.py:f", {})).files
    (user / "data").read_text()
    assert heard(lambda: 1) == 1
    assert files_read(files) == ()
    assert files_read(frozenset({__file__})) == ()
    heard(lambda: open("data").close())
    assert [name for name, _ in files_read(frozenset({__file__}))] == ["data"]


@pytest.mark.long
def test_workers_say_what_they_read(user):
    write(user, mine=READS["when it is called"])
    found = []
    for value in (1.0, 1.0, 2.0):
        np.save("w.npy", value)
        forget()
        method = located("mine.py:f", {})
        cells = [
            Cell("test", {"n": n}, {"f": fingerprint(method)}, partial(method)) for n in range(3)
        ]
        with Store(user / "out") as store:
            pairs = run_cells(cells, store, Workers(2))
            found.append([(outcome.value, bool(outcome.known)) for _, outcome in pairs])
    assert found == [[(1.0, False)] * 3, [(1.0, True)] * 3, [(2.0, False)] * 3]
