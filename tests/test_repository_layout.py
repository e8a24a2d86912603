"""The architecture: who may import whom, what the package costs to import, where files may lie."""

import ast
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import attributionlab as al
from house import MOST, WINGS, sizes

PACKAGE = Path(al.__file__).parent
REPOSITORY = Path(__file__).parent.parent
MODULES = sorted(PACKAGE.rglob("*.py"))

FOLDERS = {
    *("attributionlab", "benchmarks", "datasets", "designs", "docs", "notebooks", "packaging"),
    *("paper", "results", "tests"),
}

LONGEST_MODULE = 600  # lines


class Imported(NamedTuple):
    """A module of the package that a file imports from, and a name that it takes."""

    module: tuple[str, ...]  # below attributionlab
    name: str


def wing_of(module: Path) -> str:
    """The wing that a file belongs to; of the package's own `__init__` and `__main__`, their name."""
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def part_of(module: Path) -> str:
    """The file or folder directly within a wing that a file belongs to."""
    return "/".join(module.relative_to(PACKAGE).with_suffix("").parts[:2])


@cache
def imported(module: Path) -> list[Imported]:
    """What a file imports of the package anywhere in it, at its top or inside a function."""
    found = []
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            split = [tuple(alias.name.split(".")) for alias in node.names]
            found += [Imported(name[1:], "") for name in split if name[0] == PACKAGE.name]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            first, *rest = str(node.module).split(".")
            if first == PACKAGE.name:
                found += [Imported(tuple(rest), alias.name) for alias in node.names]
    return found


def wing_imported(one: Imported) -> str:
    """The wing that an import is of."""
    return (*one.module, one.name)[0]


def has_no_circle(edges: dict[str, set[str]]) -> bool:
    """Whether one can go on from no node to others and come back."""
    while edges:
        free = {node for node, others in edges.items() if not others & set(edges)}
        if not free:
            return False
        edges = {node: others - free for node, others in edges.items() if node not in free}
    return True


def test_every_module_belongs_to_a_wing():
    assert {wing_of(module) for module in MODULES} == {*WINGS, "__init__", "__main__"}


def test_imports_go_one_way():
    forbidden = set()
    for module in MODULES:
        wing = wing_of(module)
        if wing in WINGS:
            others = {wing_imported(one) for one in imported(module)} - {"", "__version__"}
            extra = others - {wing, *WINGS[wing]}
            forbidden |= {(str(module.relative_to(PACKAGE)), other) for other in extra}
    assert not forbidden


def test_the_table_itself_has_no_circle():
    assert has_no_circle({wing: set(others) for wing, others in WINGS.items()})


def test_the_picture_of_the_wings_shows_the_table():
    """Each arrow is an import that the table allows, and all that it allows goes down the arrows."""
    page = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    below = {wing: set[str]() for wing in WINGS}
    for upper, lower in re.findall(r"^ +(\w+) --> (\w+)$", page, re.M)[::-1]:
        assert lower in WINGS[upper]
        below[upper] |= {lower, *below[lower]}
    for wing, others in WINGS.items():
        assert set(others) <= below[wing]


def test_nobody_imports_past_a_face():
    """From another wing only what the stub of the wing, or of a public namespace in it, names."""
    faces = {stub.parent.relative_to(PACKAGE).parts for stub in PACKAGE.rglob("__init__.pyi")}
    past = {
        (str(module.relative_to(PACKAGE)), ".".join(one.module), one.name)
        for module in MODULES
        for one in imported(module)
        if wing_of(module) in WINGS
        and wing_imported(one) not in (wing_of(module), "__version__")
        and one.module not in faces
        and (*one.module, one.name) not in faces
    }
    assert not past


@pytest.mark.parametrize("wing", WINGS)
def test_the_parts_of_a_wing_have_no_circle(wing):
    edges: dict[str, set[str]] = {}
    for module in MODULES:
        if wing_of(module) == wing:
            inside = {one for one in imported(module) if one.module[:1] == (wing,)}
            parts = {"/".join((*one.module, one.name)[:2]) for one in inside}
            edges.setdefault(part_of(module), set()).update(parts - {part_of(module)})
    assert has_no_circle(edges)


def test_networks_and_images_never_meet():
    for part, other in (("worlds/nets", "images"), ("worlds/images", "nets")):
        found = [one for m in MODULES if part_of(m) == part for one in imported(m)]
        assert found
        assert not any(other in (*one.module, one.name)[:2] for one in found)


def test_the_oracles_know_no_network():
    oracles = list((REPOSITORY / "tests").glob("oracles*.py"))
    assert oracles
    for oracle in oracles:
        text = oracle.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                assert not any("attributionlab" in alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.module is not None
                assert not node.module.startswith("attributionlab")


# Size


@pytest.mark.parametrize("wing", MOST)
def test_a_wing_only_shrinks(wing):
    """The numbers of tests/house.py fall with the code; one that rises needs a commit that says why."""
    found, most = sizes()[wing], MOST[wing]
    raised = "pay by removing code, or raise MOST of tests/house.py in a commit that says why"
    assert found.lines <= most.lines, raised
    assert found.files <= most.files, raised
    assert found.lines >= 0.98 * most.lines, "lower the number: what left must not come back unseen"


# Public names


@pytest.mark.parametrize("name", al.__all__)
def test_every_public_name_is_there(name):
    assert getattr(al, name) is not None
    assert name in dir(al)


def test_the_version_is_public():
    assert re.fullmatch(r"\d+\.\d+\.\d+", al.__version__)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="laod"):
        al.laod  # noqa: B018 - the access is the test


def test_no_public_function_has_the_name_of_a_module():
    parts = {part_of(module).split("/")[-1] for module in MODULES}
    functions = {name for name in al.__all__ if not isinstance(getattr(al, name), ModuleType)}
    assert not parts & functions


def test_no_subpackage_exports_a_function_that_hides_one_of_its_modules():
    hidden = set()
    for module in MODULES:
        if module.name == "__init__.py" and module.parent != PACKAGE:
            stub = module.with_suffix(".pyi")
            names = stub if stub.exists() else module
            nodes = ast.walk(ast.parse(names.read_text(encoding="utf-8")))
            imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
            names = {
                alias.asname or alias.name
                for node in imports
                for alias in node.names
                if node.module  # `from . import spam` is of the module itself
            }
            beside = {path.stem for path in module.parent.iterdir() if path != module}
            hidden |= {f"{module.parent.name}.{name}" for name in names & beside}
    assert not hidden


def test_the_docstring_of_the_methods_names_all_their_modules():
    named = set(re.findall(r"`(\w+)`", str(al.methods.__doc__)))
    modules = {path.stem for path in (PACKAGE / "methods").glob("*.py")} - {"__init__"}
    assert modules == named


def test_importing_the_package_imports_no_heavy_library():
    code = (
        "import sys, json, attributionlab\n"
        "names = {name.split('.')[0] for name in sys.modules}\n"
        "print(json.dumps(sorted(names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert "attributionlab" in loaded
    assert not loaded & {"torch", "numpy", "captum", "skimage", "matplotlib", "pandas", "numba"}


# Files


@pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="needs a checkout")
def test_the_top_level_has_only_the_folders_of_the_design():
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True, text=True)
    folders = {name.split("/")[0] for name in done.stdout.splitlines() if "/" in name}
    assert {name for name in folders if not name.startswith(".")} <= FOLDERS
    assert {name for name in folders if name.startswith(".")} <= {".ci", ".github"}


def test_modules_are_short_and_begin_with_what_they_are():
    texts = {str(m.relative_to(PACKAGE)): m.read_text(encoding="utf-8") for m in MODULES}
    lines = {name: len(text.splitlines()) for name, text in texts.items()}
    long = {name: count for name, count in lines.items() if count > LONGEST_MODULE}
    unexplained = [name for name, text in texts.items() if not ast.get_docstring(ast.parse(text))]
    assert not long, long
    assert not unexplained, unexplained


def test_no_module_has_a_name_that_says_nothing():
    stems = {
        part for module in MODULES for part in module.relative_to(PACKAGE).with_suffix("").parts
    }
    assert not stems & {"utils", "util", "helpers", "helper", "common", "misc"}
