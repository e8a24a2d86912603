"""The built wheel works outside the repository, with the sources out of reach."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
TESTS_OF_THE_WHEEL = ("environment/test_catalog.py",)
NOT_BUILT = shutil.ignore_patterns(".*_cache", ".venv", ".git", "__pycache__", "lab", "site")
SHARED = ("conftest.py", "shape_checks.py", "oracles.py", "cases.py", "refusals.py")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy so that the checkout stays clean."""
    source = tmp_path_factory.mktemp("source")
    folders = ("attributionlab", "designs", "datasets", "notebooks")
    names = (*folders, "README.md", "LICENSE", "pyproject.toml")
    for name in names:
        path = REPOSITORY / name
        ignored = shutil.ignore_patterns("__pycache__")
        (shutil.copytree if path.is_dir() else shutil.copy)(
            path, source / name, **({"ignore": ignored} if path.is_dir() else {})
        )
    built = tmp_path_factory.mktemp("built")
    run("-m", "build", "--wheel", "--no-isolation", "--outdir", str(built), str(source))
    shutil.rmtree(source)
    [path] = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the installed wheel and nothing else."""
    target = tmp_path_factory.mktemp("installed")
    run("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel))
    return target


def run(*arguments, cwd=None, path=None):
    env = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_carries_every_design_and_dataset_and_no_tests(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for kind, pattern in (("designs", "*.toml"), ("datasets", "*.toml"), ("notebooks", "*.ipynb")):
        expected = {
            f"attributionlab/_specs/{kind}/{path.name}"
            for path in (REPOSITORY / kind).glob(pattern)
        }
        assert expected
        assert expected <= names
    assert "attributionlab/py.typed" in names
    course = ("hints.toml", "class.html.j2")
    assert {f"attributionlab/teaching/course/{name}" for name in course} <= names
    kept = ("answers.toml", "solutions.toml", "course-answers.md")  # from students
    assert not any(name.endswith(kept) for name in names)
    [entries] = [name for name in names if name.endswith("entry_points.txt")]
    command = zipfile.ZipFile(wheel).read(entries).decode()
    assert "attributionlab = attributionlab.__main__:main" in command
    schemas = (REPOSITORY / "attributionlab").rglob("*.schema.json")
    assert {path.relative_to(REPOSITORY).as_posix() for path in schemas} <= names
    pages = ("page.html.j2", "page_macros.html.j2", "page.css", "page.js")
    pages += ("items.html.j2", "items.css")
    assert {f"attributionlab/show/{name}" for name in pages} <= names
    live = ("live.html.j2", "live.css", "live.js", "worker.js")
    assert {f"attributionlab/teaching/live/{name}" for name in live} <= names
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"attributionlab"}


def test_the_page_of_a_package_registry_has_no_link_or_picture_of_the_repository(wheel):
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    with zipfile.ZipFile(wheel) as files:
        [name] = [each for each in files.namelist() if each.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(files.read(name).decode())
    page = metadata.get_payload()
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert re.findall(r"\]\((?!https?:)", text)
    assert not re.findall(r"\]\((?!https?:)|docs/images|^\*[^*\s]", page, re.M)
    headings = re.findall(r"^#.*", text, re.M)
    assert re.findall(r"^#.*", page, re.M) == headings
    assert "built-in methods |" in page  # the words of a link stay


@pytest.mark.long
def test_two_builds_have_equal_bytes(tmp_path):
    """From copies made at different times, in folders of different names."""
    built = []
    for name in ("one", "another"):
        source = tmp_path / name
        shutil.copytree(REPOSITORY, source, copy_function=shutil.copyfile, ignore=NOT_BUILT)
        run("-m", "build", "--no-isolation", "--outdir", str(source / "dist"), str(source))
        built.append({path.name: path.read_bytes() for path in (source / "dist").iterdir()})
    assert sorted(name.rpartition(".")[2] for name in built[0]) == ["gz", "whl"]
    assert built[0] == built[1]


@pytest.mark.long
def test_the_command_works_elsewhere(installed, tmp_path):
    where = run("-c", "import attributionlab as a; print(a.__file__)", cwd=tmp_path, path=installed)
    assert Path(where.strip()).is_relative_to(installed)
    arguments = [
        "test",
        "oracle",
        "--env",
        "multi-color-sum",
        "--image-size",
        "24",
        "--n",
        "13",
        "--one-network",
    ]
    arguments += ["--html", "out.html"]
    assert "oracle: pass" in run("-m", "attributionlab", *arguments, cwd=tmp_path, path=installed)
    assert (tmp_path / "out.html").exists()


# Those that the command above has compiled; what compiles the others is the same.
LOOPS = """
import torch
from attributionlab.metrics.imputation import noisy_linear
images, keep = torch.arange(64.0).reshape(1, 1, 8, 8), torch.ones(1, 1, 8, 8, dtype=torch.bool)
keep[..., 3, 3] = False
assert abs(float(noisy_linear(images, keep, noise=0.0)[0, 0, 3, 3]) - 27) < 1e-3
"""


@pytest.mark.long
def test_the_tests_pass_on_the_wheel_and_compiled_loops_keep_their_cache(
    installed, tmp_path, pytestconfig
):
    for name in (*SHARED, *TESTS_OF_THE_WHEEL):
        shutil.copy(REPOSITORY / "tests" / name, tmp_path)
    designs = {path.stem for path in (REPOSITORY / "designs").glob("*.toml")}
    (tmp_path / "test_home.py").write_text(
        "import attributionlab\n\n"
        f"def test_home():\n    assert attributionlab.__file__.startswith({str(installed)!r})\n"
        f"\ndef test_designs():\n    assert set(attributionlab.environments()) == {designs!r}\n"
        "\ndef test_items():\n"
        "    assert __import__('attributionlab.papers.catalog').papers.catalog.items()\n"
        "\ndef test_plugin(assert_faithful):\n"
        "    assert_faithful('oracle', env='uniform-accumulator', n=13, one_network=True)\n"
        f"\ndef test_compiled_loops():\n    exec({LOOPS!r}, {{}})\n"
    )
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\nmarkers =\n  slow\n  long\n"
    )
    arguments = [
        "-m",
        "pytest",
        "-q",
        "-m",
        "not slow and not long",
        "-p",
        "no:cacheprovider",
        str(tmp_path),
    ]
    arguments += [f"-W{each}" for each in pytestconfig.getoption("pythonwarnings") or ()]
    assert "passed" in run(*arguments, cwd=tmp_path, path=installed)
    compiled = {path: path.stat().st_mtime_ns for path in installed.rglob("kernels.*.nb[ic]")}
    assert any("of_kept" in path.name for path in compiled)
    run("-c", LOOPS, cwd=tmp_path, path=installed)  # loaded
    assert {path: path.stat().st_mtime_ns for path in compiled} == compiled
