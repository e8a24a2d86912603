"""What no run tells of a metric: formula, source, range, best score and use, from facts.toml."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


class Facts(NamedTuple):
    """What somebody wrote about a metric in facts.toml."""

    formula: str
    source: str
    range: str
    best: str
    use: str


def known_facts() -> Mapping[str, Facts]:
    """The facts by the name of the metric's function."""
    return {name: Facts(**each) for name, each in _file().items() if name != "symbols"}


def symbols() -> str:
    """What the letters in the formulas stand for."""
    return str(_file()["symbols"])


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("facts.toml").read_text(encoding="utf-8"))
