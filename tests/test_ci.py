"""What is installed for a run of the tests, and what continuous integration runs."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import attributionlab
from attributionlab.show.verdict import BIBTEX

REPOSITORY = Path(__file__).parents[1]
WORKFLOWS = REPOSITORY / ".github" / "workflows"
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
DEPENDENCIES = [*map(Requirement, PROJECT["dependencies"])]
REQUIREMENTS = [
    *map(Requirement, PYPROJECT["build-system"]["requires"]),
    *DEPENDENCIES,
    *map(Requirement, PROJECT["optional-dependencies"]["dev"]),
]


def pinned(name):
    """Package -> exact version, of a file that has nothing else: no addresses, no paths."""
    lines = (REPOSITORY / name).read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[0-9][\w.]*", pin)] == []
    versions = dict(pin.split("==") for pin in pins)
    assert list(versions) == sorted(versions, key=str.lower)
    return {re.sub(r"[._]", "-", package).lower(): version for package, version in versions.items()}


# Versions


def test_the_lowest_versions_that_are_tested_are_the_floors():
    floors = {}
    for requirement in REQUIREMENTS:
        [floor] = [s.version for s in requirement.specifier if s.operator == ">="]
        assert floors.setdefault(requirement.name, floor) == floor
    assert pinned("constraints-lowest.txt") == floors


def test_every_requirement_has_a_tested_version_within_its_range():
    pins = pinned("constraints.txt")
    for requirement in REQUIREMENTS:
        assert requirement.specifier.contains(pins[requirement.name]), requirement


@pytest.mark.parametrize("release", ["captum==0.10.0", "numpy==3.0.0"])
def test_releases_that_may_break_what_we_build_on_are_not_installed(release):
    name, version = release.split("==")
    [requirement] = [r for r in REQUIREMENTS if r.name == name]
    assert not requirement.specifier.contains(version)


PERMISSIVE = re.compile(
    r"(?:MIT|MIT-CMU|ISC|BSD|0BSD|BSD-[23]-Clause|Apache|Apache-2\.0|Apache Software|PSF-2\.0|MPL-2\.0"
    r"|Python Software Foundation|BSL-1\.0|Zlib|CC0-1\.0|ISC License \(ISCL\))"
    r"(?: License| WITH LLVM-exception)?"
)
"""Licenses that fit BSD-3: none of them asks anything of the package that needs theirs."""


def license_of(package):
    """What a package that is installed says of its license: an expression, else a classifier."""
    about = metadata.distribution(package).metadata
    if about.get("License-Expression"):
        return about["License-Expression"]
    kinds = [
        each.split(" :: ")[-1] for each in about.get_all("Classifier") or () if "License ::" in each
    ]
    return kinds[0] if kinds else about.get("License", "").partition("\n")[0]


def required():
    """Packages that an installation without extras brings, those that these need among them."""
    found, left = set(), [requirement.name for requirement in DEPENDENCIES]
    while left:
        name = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if name not in found:
            found.add(name)
            needs = [Requirement(each) for each in metadata.requires(name) or ()]
            left += [
                each.name
                for each in needs
                if not each.marker or each.marker.evaluate({"extra": ""})
            ]
    return sorted(found)


def test_licenses_of_all_that_is_installed_fit_ours():
    licenses = {package: license_of(package) for package in required()}
    assert len(licenses) > len(DEPENDENCIES)
    strange = {
        package: text
        for package, text in licenses.items()
        if not all(PERMISSIVE.fullmatch(each) for each in re.split(r" AND | OR ", text))
    }
    assert strange == {}
    assert not PERMISSIVE.fullmatch("GNU General Public License v3 (GPLv3)")


def test_one_statement_of_the_pythons_that_are_supported():
    named = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if "Python :: 3." in c]
    matrix = (WORKFLOWS / "tests.yml").read_text(encoding="utf-8")
    assert re.findall(r'"(3\.\d+)"', matrix) == named
    assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(named[0])


def test_the_readme_names_versions_that_are_tested():
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    [sentence] = re.findall(r"Tested with Python .*?;", text, re.DOTALL)
    versions = dict(re.findall(r"(torch|captum|numpy) ([\d.]*\d)", sentence))
    pins = pinned("constraints.txt")
    assert versions == {n: pins[n].rpartition(".")[0] for n in ("torch", "captum", "numpy")}


def test_every_file_that_states_the_version_states_the_same():
    cited = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    changes = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    latest = re.search(r"^## (.*)$", changes, re.M)[1]
    assert cited["version"] == attributionlab.__version__
    assert latest == f"{cited['version']} ({cited['date-released']})"
    [paper], released = cited["references"], str(cited["date-released"])
    assert re.findall(r"year = {(\d+)}", BIBTEX) == [released[:4], str(paper["year"])]
    assert f"url = {{{paper['url']}}}" in BIBTEX
    surface = (REPOSITORY / "tests" / "golden" / "surface.txt").read_text(encoding="utf-8")
    *_, frozen = re.findall(r"^# (\d.*)$", surface, re.M)
    assert attributionlab.__version__.startswith(f"{frozen}.")


def test_the_conda_recipe_has_the_version_and_what_is_required():
    recipe = yaml.safe_load((REPOSITORY / "packaging" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == attributionlab.__version__
    renamed = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
    required = {renamed.get(r.name, r.name): r.specifier for r in DEPENDENCIES}
    python, *run = map(Requirement, recipe["requirements"]["run"])
    assert {r.name: r.specifier for r in run} == required
    assert str(python) == f"python{PROJECT['requires-python']}"
    [entry] = recipe["build"]["python"]["entry_points"]
    assert dict([entry.split(" = ")]) == PROJECT["scripts"]


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_torch_without_cuda_is_the_one_that_the_constraints_ask_for(page):
    """Any other is replaced by the one with CUDA in the next step."""
    given = re.findall(r"pip install (torch\S*) --index", (REPOSITORY / page).read_text("utf-8"))
    asked = (REPOSITORY / "constraints.txt").read_text("utf-8").splitlines()
    assert given
    assert set(given) <= set(asked)


# Commands


def test_the_workflow_runs_the_commands_of_make_test():
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^test: \.venv.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe
    commands = re.findall(r"\$\(BIN\)/(?:python -m )?(.*)", recipe[1])
    assert [command.split()[0] for command in commands] == ["ruff", "ruff", "mypy", "pytest"]
    suite = (WORKFLOWS / "suite.yml").read_text(encoding="utf-8")
    for command in commands:
        assert f"python -m {command.replace('-n 2', '-n auto')}" in suite


def test_the_workflow_runs_long_tests_and_notebooks_apart():
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    suite = (WORKFLOWS / "suite.yml").read_text(encoding="utf-8")
    [command] = re.findall(r"^long: .*\n\t\$\(BIN\)/(python .*)\n", makefile, re.MULTILINE)
    assert '-m "long and not slow"' in command
    assert f"run: {command.replace('-n 2', '-n auto')} $ARGUMENTS\n" in suite
    [command] = re.findall(r"^notebooks: .*\n\t\$\(BIN\)/(python .*)\n", makefile, re.MULTILINE)
    assert '-m "notebooks and not slow"' in command
    assert f"run: {command} $ARGUMENTS\n" in suite
    assert "not long and not notebooks" in PYPROJECT["tool"]["pytest"]["ini_options"]["addopts"]


@pytest.mark.long
def test_a_missing_browser_fails_where_one_is_required(tmp_path):
    page = REPOSITORY / "tests" / "show" / "test_page_in_browser.py"
    # No programs on the PATH, and no other test: the first shows it. The suite's conftest would load
    # torch for nothing. (Old libraries that import newer ones warn.)
    env = {**os.environ, "PATH": str(tmp_path), "REQUIRE_BROWSER": "1"}
    arguments = ["-qx", "-n0", "--noconftest", "-p", "no:cacheprovider"]
    arguments += ["-W", "ignore::DeprecationWarning", str(page)]
    command = [sys.executable, "-m", "pytest", *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 1
    assert "chromedriver None" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
@pytest.mark.parametrize(("installs", "status"), [(False, 1), (True, 0)])
def test_ci_is_red_where_a_browser_cannot_be_installed(tmp_path, installs, status):
    for program in ("bash", "dirname"):
        (tmp_path / program).symlink_to(shutil.which(program))
    for program, line in (("apt-get", f"exit {0 if installs else 100}"), ("make", "echo made $1")):
        (tmp_path / program).write_text(f"#!{shutil.which('bash')}\n{line}\n")
        (tmp_path / program).chmod(0o755)
    command = [str(tmp_path / "bash"), str(REPOSITORY / ".ci" / "run")]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == status
    assert done.stdout.split("\n")[:-1] == ["made test", "made long", "made notebooks"] * installs
    assert ("apt-get install chromium" in done.stderr) != installs


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
@pytest.mark.parametrize(
    ("status", "verdict", "report"),
    [
        (0, "pass", "report"),
        (1, "fail", "report"),
        (3, "inconclusive", "report"),
        (4, "invalid", "report"),
        (2, "", ""),
        (1, "", ""),
    ],
)
def test_the_action_posts_the_table_and_ends_with_the_status_of_the_test(
    tmp_path, status, verdict, report
):
    action = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))
    [step] = [each for each in action["runs"]["steps"] if each.get("id") == "test"]
    program = tmp_path / "attributionlab"
    written = f"echo {report} > report.json" if report else ""
    program.write_text(f'#!/bin/sh\necho "$@" > asked\necho the table\n{written}\nexit {status}\n')
    program.chmod(0o755)
    env = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "METHOD": "my methods.py:f",
        "ARGUMENTS": "--quick --n 13",
        **{name: str(tmp_path / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")},
    }
    # As GitHub runs a step whose shell is bash.
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    assert subprocess.run(command, env=env, cwd=tmp_path, capture_output=True).returncode == status
    asked = "test my methods.py:f --quick --n 13 --html report.html --json report.json\n"
    assert (tmp_path / "asked").read_text() == asked
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text() == "```text\nthe table\n```\n"
    if verdict:
        assert (tmp_path / "GITHUB_OUTPUT").read_text() == f"verdict={verdict}\n"
    else:  # refused, or Python could not start: nothing was tested
        assert not (tmp_path / "GITHUB_OUTPUT").exists()
