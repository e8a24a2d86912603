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
    "base": (),
    "worlds": ("base", "metrics"),  # random worlds in which one map would score high are not drawn
    "methods": ("base",),
    "metrics": ("base",),
    "show": ("base",),
    "runs": ("base", "worlds"),
    "verdicts": ("base", "worlds", "methods", "metrics", "show", "runs"),
    "papers": ("base", "worlds", "methods", "metrics", "show", "runs", "verdicts"),
    "teaching": ("base", "worlds", "metrics", "show", "verdicts"),
    "cli": (
        "base",
        "worlds",
        "methods",
        "metrics",
        "show",
        "runs",
        "verdicts",
        "papers",
        "teaching",
    ),
}
"""The wings, folders directly under attributionlab/, and which others each may import."""

MOST = {
    "base": Size(6_989, 42),
    "worlds": Size(19_093, 92),
    "methods": Size(10_829, 38),
    "metrics": Size(7_807, 32),
    "runs": Size(2_729, 10),
    "show": Size(4_283, 17),
    "verdicts": Size(17_851, 56),
    "papers": Size(12_949, 56),
    "teaching": Size(2_723, 15),
    "cli": Size(3_357, 12),
    "tests": Size(87_216, 397),
}


def size_of(paths: list[Path]) -> Size:
    """Lines and files of some modules."""
    return Size(sum(len(path.read_bytes().splitlines()) for path in paths), len(paths))


def sizes() -> dict[str, Size]:
    """The size of each wing as it stands, and of the tests."""
    wings = {wing: size_of(list((PACKAGE / wing).rglob("*.py"))) for wing in WINGS}
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
