"""The architecture: who may import whom, what the package costs to import, where files may lie."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import attributionlab as al
from attributionlab.runs.cells import LEAVES
from house import MOST, WINGS, sizes

PACKAGE = Path(al.__file__).parent
REPOSITORY = Path(__file__).parent.parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# What each part may import of the others, besides itself and `errors`, which every module may.
# A part is a module or a folder directly under attributionlab/.
MAY_IMPORT = {
    "errors": set(),
    "dyadic": set(),
    "compiling": set(),
    "validation": set(),
    "models": {"validation"},
    "arguments": {"models", "validation"},
    "versions": set(),
    "device": set(),
    "digits": set(),
    "files": set(),
    "memory": set(),
    "passes": {"models"},
    "processes": set(),
    "progress": {"rich_import"},
    "rich_import": set(),
    "sources": set(),
    "references": {"sources"},
    "course": {"files"},
    "report": {"digits", "rich_import", "stats"},
    "store": {"files", "progress", "references", "sources", "validation"},
    "stats": {"arguments"},
    "ranking": {"arguments", "stats"},
    "exact": {"arguments", "compiling", "device", "dyadic", "models", "passes", "validation"},
    "nets": {"dyadic", "validation"},
    "images": set(),
    "rules": {"dyadic", "images", "nets", "truth", "validation"},
    "segmentation": {"references", "validation"},
    "imputation": {"arguments", "compiling", "validation"},
    "local_data": {"references", "validation"},
    "truth": {"arguments", "device", "exact", "validation"},
    "metrics": {
        *("arguments", "device", "exact", "imputation", "models", "ranking", "validation"),
    },
    "methods": {
        "arguments",
        *("device", "exact", "memory", "models", "passes", "progress", "references"),
        *("segmentation", "truth", "validation"),
    },
    "environment": {
        "arguments",
        *("device", "exact", "images", "memory", "models", "nets", "passes", "references"),
        *("rules", "truth", "validation"),
    },
    # The networks are what is certified: it meets them as nn.Modules and knows none of their code, and
    # of rules only what they mean.
    "verification": {"arguments", "device", "environment", "images", "progress", "rules"},
    "diagnosis": {"digits", "methods", "metrics", "stats", "truth"},
    "faithfulness": {
        "arguments",
        *("compiling", "device", "diagnosis", "digits", "environment", "exact", "files"),
        *(
            "methods",
            "metrics",
            "nets",
            "passes",
            "processes",
            "progress",
            "ranking",
            "references",
            "report",
            "rules",
            "sources",
            "stats",
            "store",
            "truth",
            "validation",
        ),
        "versions",
    },
    "metric_trials": {
        "arguments",
        *("device", "diagnosis", "digits", "environment", "faithfulness", "files", "imputation"),
        *("methods", "metrics", "progress", "ranking", "references", "report", "stats", "store"),
        *("truth", "validation", "versions"),
    },
    "cards": {
        *("digits", "environment", "files", "methods", "metric_trials", "metrics"),
        *("ranking", "report", "stats", "validation"),
    },
    "leaderboard": {
        *("device", "digits", "environment", "exact", "exams", "faithfulness", "files", "methods"),
        "metric_trials",
        *("metrics", "progress", "ranking", "report", "stats", "store", "truth", "validation"),
        "versions",
    },
    "exams": {
        *("device", "environment", "faithfulness", "files", "images", "methods", "metric_trials"),
        *("metrics", "progress", "ranking", "rules", "stats", "store", "validation", "versions"),
    },
    "exchange": {
        "arguments",
        *("environment", "faithfulness", "files", "progress", "references", "truth", "validation"),
        "versions",
    },
    "live": {
        *("device", "environment", "exchange", "nets", "report", "validation", "versions"),
    },
    "sealed": {
        "arguments",
        *(
            "device",
            "environment",
            "exams",
            "exchange",
            "faithfulness",
            "files",
            "images",
            "metrics",
        ),
        *("progress", "references", "report", "rules"),
    },
    "papers": {
        *("compiling", "device", "diagnosis", "environment", "exact", "faithfulness", "files"),
        *(
            "images",
            "imputation",
            "leaderboard",
            "local_data",
            "methods",
            "metric_trials",
            "metrics",
        ),
        *("nets", "progress", "ranking", "references", "report", "segmentation", "stats", "store"),
        *("truth", "validation", "versions"),
    },
    "sweep": {
        "arguments",
        *("device", "environment", "faithfulness", "files", "methods", "metric_trials"),
        *("progress", "store", "truth", "validation"),
    },
    "pytest_plugin": {"faithfulness", "methods", "metric_trials", "stats"},
}
# The outermost parts, which may import everything beneath them.
OUTERMOST = ("cli", "__main__", "__init__")

FOLDERS = {"attributionlab", "benchmarks", "datasets", "designs", "docs", "notebooks", "tests"}

LONGEST_MODULE = 600  # lines


def part_of(module: Path) -> str:
    """The part of the package that a file belongs to."""
    relative = module.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def imported_parts(module: Path) -> set[str]:
    """The parts that a file imports anywhere in it, at its top or inside a function."""
    parts = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            # from attributionlab import nets; from attributionlab.worlds.nets import Stage
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        split = [name.split(".") for name in names]
        parts |= {name[1] for name in split if name[0] == "attributionlab" and len(name) > 1}
    return parts - {part_of(module)}


def test_no_result_depends_on_a_leaf_but_its_own():
    """What `code_digest` leaves out is imported by leaves alone, and the command line."""
    importers = {part for part, others in MAY_IMPORT.items() if others & set(LEAVES)}
    assert importers <= set(LEAVES)
    assert set(LEAVES) <= {*MAY_IMPORT, "cli"}


def test_every_part_of_the_package_has_its_place_in_the_table():
    assert {part_of(module) for module in MODULES} <= {*MAY_IMPORT, *OUTERMOST}


@pytest.mark.long
def test_imports_go_one_way():
    forbidden = {}
    for module in MODULES:
        part, imported = part_of(module), imported_parts(module)
        if part not in OUTERMOST:
            extra = imported - MAY_IMPORT[part] - {"errors", "__version__"}
            forbidden |= {str(module.relative_to(PACKAGE)): extra} if extra else {}
    assert not forbidden, forbidden  # the message names all of them


def test_the_table_itself_has_no_cycle():
    remaining = MAY_IMPORT
    while remaining:
        free = {part for part, allowed in remaining.items() if not allowed}
        assert free, remaining
        remaining = {
            part: allowed - free for part, allowed in remaining.items() if part not in free
        }


def test_networks_and_images_never_meet():
    for part, other in (("nets", "images"), ("images", "nets")):
        imported = [imported_parts(m) for m in MODULES if part_of(m) == part]
        assert imported
        assert not any(other in parts for parts in imported)


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


def test_every_part_of_the_package_belongs_to_one_wing():
    parts = [part for wing in WINGS.values() for part in wing]
    assert sorted(parts) == sorted({part_of(module) for module in MODULES})


@pytest.mark.parametrize("wing", MOST)
def test_a_wing_only_shrinks(wing):
    """The numbers of tests/house.py fall with the code; one that rises needs a commit that says why."""
    found, most = sizes()[wing], MOST[wing]
    assert found.lines <= most.lines
    assert found.files <= most.files
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
    parts = {part_of(module) for module in MODULES}
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
            names = {alias.asname or alias.name for node in imports for alias in node.names}
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


@pytest.mark.long
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
    assert not stems & {"utils", "util", "helpers", "helper", "base", "common", "misc"}
