"""The house in wings: lines and files of each, and the most that it may have.

    python tests/house.py

A number in `MOST` falls with the code that it counts. It rises in a commit of its own, whose message
says why.
"""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "attributionlab"


class Size(NamedTuple):
    """Lines of Python, and files."""

    lines: int
    files: int


WINGS = {
    "base": (
        *("arguments", "compiling", "device", "digits", "dyadic", "errors", "exact", "files"),
        *("memory", "models", "passes", "processes", "progress", "references", "rich_import"),
        *("segmentation", "sources", "stats", "validation", "versions"),
    ),
    "worlds": ("nets", "images", "rules", "truth", "environment", "verification"),
    "methods": ("methods",),
    "metrics": ("metrics", "imputation", "ranking"),
    "runs": ("store", "local_data"),
    "show": ("report",),
    "verdicts": (
        *("faithfulness", "diagnosis", "metric_kit", "metric_trials", "leaderboard"),
        *("cards", "exams", "exchange", "sweep"),
    ),
    "papers": ("papers",),
    "teaching": ("course", "live", "sealed"),
    "cli": ("cli", "pytest_plugin", "__init__", "__main__"),
}
"""The files and folders directly under attributionlab/, by the wing that they belong to."""

MOST = {
    "base": Size(6_486, 41),
    "worlds": Size(14_546, 77),
    "methods": Size(10_402, 37),
    "metrics": Size(7_939, 35),
    "runs": Size(2_770, 13),
    "show": Size(3_288, 13),
    "verdicts": Size(17_751, 79),
    "papers": Size(17_296, 68),
    "teaching": Size(2_398, 13),
    "cli": Size(3_174, 18),
    "tests": Size(89_860, 400),
}


def size_of(paths: list[Path]) -> Size:
    """Lines and files of some modules."""
    return Size(sum(len(path.read_bytes().splitlines()) for path in paths), len(paths))


def modules_of(part: str) -> list[Path]:
    """The modules of a file or folder directly under attributionlab/."""
    folder = PACKAGE / part
    return list(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def sizes() -> dict[str, Size]:
    """The size of each wing as it stands, and of the tests."""
    wings = {
        wing: size_of([module for part in parts for module in modules_of(part)])
        for wing, parts in WINGS.items()
    }
    return wings | {"tests": size_of(list((ROOT / "tests").rglob("*.py")))}


def main() -> None:
    """Print the house, and what each wing may have."""
    found = sizes()
    for name, size in found.items():
        print(f"{name:10} {size.lines:7,} of {MOST[name].lines:7,} lines, {size.files:4} files")
    package = [found[wing] for wing in WINGS]
    lines, files = (sum(column) for column in zip(*package, strict=True))
    print(f"{'package':10} {lines:7,} lines, {files} files")


if __name__ == "__main__":
    main()
