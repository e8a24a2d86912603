"""Hold two checkouts against each other: what every command prints and writes on fixed seeds.

A change that only moves code must leave all of it as it was. Nothing is stored in the repository: the
earlier commit is in its history. From a checkout, with the project's environment active:

    git worktree add ../before COMMIT
    python tests/golden/freeze.py run ../before before/      # some minutes on two cores
    python tests/golden/freeze.py run . after/
    python tests/golden/freeze.py compare before/ after/     # 1 where anything differs

`run CHECKOUT FOLDER NAME ...` runs only the commands whose names begin so. Both runs belong on one
machine: methods that optimize amplify the rounding of processors. Counts and texts are compared with
==, other numbers to 1e-9 of the larger: code that moved computes the same, so the room is only for
pandas' order of sums. What is measured (seconds, memory, versions, processor) is left out.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd

TOLERANCE = 1e-9
MEASURED = re.compile(r"second|minute|time|version|command|machine|memory|speed|ratio", re.I)
"""Columns and keys that another run of the same code need not repeat."""


def commands(listed: dict[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """Yield a name and the arguments of each command; {out} is a folder of its own."""
    small = ["--n", "3", "--image-size", "72"]
    yield "list", ["list"]
    for env in listed["environments"]:
        yield f"show-{env}", ["show", env]
        yield f"verify-{env}", ["verify", env, "--json", "{out}/verify.json"]
        yield (
            f"test-{env}",
            [
                *("test", "integrated-gradients", "--env", env, *small, "--also", "truths"),
                *("--csv", "{out}/t.csv", "--json", "{out}/t.json"),
            ],
        )
    for method in [*listed["methods"], *listed["controls"]]:
        yield f"test-{method}", ["test", method, "--quick", "--n", "2", "--json", "{out}/t.json"]
    for claim in ["signed", "overall", "positive", "positive-smoothed", "agreed"]:
        arguments = ["test", "saliency", "--claim", claim, "--output", "logit", *small]
        yield f"claim-{claim}", [*arguments, "--json", "{out}/t.json"]
    drift = ["--also", "camouflage:2", "--also", "seeds:2", *small, "--json", "{out}/t.json"]
    yield "camouflage-rise", ["test", "rise", "--env", "multi-color-sum", *drift]
    yield "camouflage-ig", ["test", "integrated-gradients", "--env", "multi-color-sum", *drift]
    files = ["--json", "{out}/c.json", "--csv", "{out}/c.csv"]
    yield "compare", ["compare", "--quick", "--n", "2", "--preset", "paper", *files]
    for metric in listed["metrics"]:
        yield f"metric-{metric}", ["metric", metric, "--quick", "--n", "4", *files]
    yield "leaderboard", ["leaderboard", "--quick", *files]
    for item in listed["items"]:
        yield f"reproduce-{item}", ["reproduce", item, "--quick", "--out", "{out}"]


def run(checkout: Path, folder: Path, beginnings: list[str]) -> None:
    """Run the commands with the code of a checkout and keep what they print and write."""
    environment = os.environ | {
        "PYTHONPATH": str(checkout.resolve()),
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        "COLUMNS": "120",
    }

    def one(named: tuple[str, list[str]]) -> None:
        name, arguments = named
        out = (folder / name).resolve()
        out.mkdir(parents=True, exist_ok=True)
        filled = [each.format(out=out) for each in arguments]
        done = subprocess.run(
            [sys.executable, "-m", "attributionlab", *filled],
            env=environment,
            cwd=checkout,  # `python -m` looks there first
            capture_output=True,
            text=True,
            check=False,
        )
        (out / "stdout.txt").write_text(f"{done.stdout}\nexit status {done.returncode}\n")
        (out / "stderr.txt").write_text(done.stderr)
        print(name, done.returncode, flush=True)

    wanted = [
        named
        for named in commands(_listed(environment, checkout))
        if not beginnings or named[0].startswith(tuple(beginnings))
    ]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, wanted))


def _listed(environment: dict[str, str], checkout: Path) -> dict[str, list[str]]:
    """Names of what there is, as `attributionlab list` prints them."""
    printed = subprocess.run(
        [sys.executable, "-m", "attributionlab", "list"],
        env=environment,
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    sections = re.split(r"^(\w.*)$", printed, flags=re.MULTILINE)[1:]
    text = {title.strip(): body for title, body in zip(sections[::2], sections[1::2], strict=True)}

    def first_words(title: str) -> list[str]:
        return re.findall(r"^  (\S+)", text[title], flags=re.MULTILINE)

    def comma_list(title: str) -> list[str]:
        return re.findall(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?=,|\s*$)", text[title], re.MULTILINE)

    return {
        "environments": first_words("environments"),
        "methods": first_words("methods"),
        "controls": first_words("controls"),
        "metrics": comma_list("metrics"),
        "items": comma_list("reproduce"),
    }


def compare(before: Path, after: Path) -> int:
    """Print what differs between two folders of `run`; return how many files do."""
    differing = 0
    names = {path.relative_to(root) for root in (before, after) for path in root.rglob("*.*")}
    for name in sorted(names):
        if name.suffix not in {".csv", ".json", ".txt"} or name.name == "stderr.txt":
            continue
        missing = [str(root) for root in (before, after) if not (root / name).exists()]
        found = [f"is not in {root}" for root in missing] or differences(
            before / name, after / name
        )
        differing += bool(found)
        for each in found[:5]:
            print(f"{name}: {each}")
    print(f"{differing} of {len(names)} files differ")
    return differing


def differences(before: Path, after: Path) -> list[str]:
    """Return what differs between two files of the same name."""
    if before.suffix == ".txt":
        return _unequal(*(_lines(path) for path in (before, after)), place="line")
    if before.suffix == ".json":
        return _unequal(*(json.loads(path.read_text()) for path in (before, after)), place="")
    tables = [pd.read_csv(path) for path in (before, after)]
    return _unequal(*(table.to_dict("list") for table in tables), place="column")


def _lines(path: Path) -> list[str]:
    """Lines of a printed text without numbers beside a unit of time, and without paths."""
    return re.sub(r"\S*/\S+|[\d.,]+ (?=s\b|seconds|minutes)", "*", path.read_text()).splitlines()


def _unequal(before: Any, after: Any, place: str) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in {**before, **after} if not MEASURED.search(str(key))]
        return [
            line
            for key in keys
            for line in _unequal(before.get(key), after.get(key), f"{place} {key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [line for i, pair in pairs for line in _unequal(*pair, f"{place} {i}")]
    if isinstance(before, float) and isinstance(after, float):
        if before != before and after != after:  # both NaN
            return []
        near = abs(before - after) <= TOLERANCE * max(abs(before), abs(after), TOLERANCE)
        return [] if near else [f"{place}: {before!r}, then {after!r}"]
    return [] if before == after else [f"{place}: {before!r}, then {after!r}"]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run", checkout, folder, *beginnings]:
            run(Path(checkout), Path(folder), beginnings)
        case ["compare", before, after]:
            sys.exit(compare(Path(before), Path(after)) > 0)
        case _:
            sys.exit(__doc__)
