"""`attributionlab test METHOD --worlds N`: an exam in random worlds."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from attributionlab.cli.options import (
    as_far_as_done,
    check_paths,
    command_line,
    parse_seed,
    write_all,
)
from attributionlab.errors import printable, refuse_if
from attributionlab.progress import follow

if TYPE_CHECKING:
    from attributionlab.exams import WorldsReport

ONE_TEST_ONLY = {
    "env": "the environments are drawn",
    "quick": "random worlds have images of 48 x 48 pixels",
    "output": "every world is a regression",
    "seeds": "each world has one run",
    "truths": "it is about images of one environment",
    "one_network": "each question has a network of its own",
    "equivalent": "it is about images of one environment",
    "camouflage": "it is about images of one environment",
    "html": "the report is --json",
    "figure": "the report is --json",
}
"""Options of a test in named environments, and why random worlds have none of them."""
WORLDS_ONLY = ("difficulty", "out", "jobs", "retry_failed")
"""Options that nothing but --worlds uses."""


def check_options(worlds: int | None, given: Mapping[str, Any]) -> None:
    """Refuse options that do not belong to what is asked for; those that are not given are false."""
    if worlds is None:
        names = [name for name in WORLDS_ONLY if given.get(name)]
        problems = [f"{_option(name)} is given without --worlds: add --worlds" for name in names]
    else:
        problems = [
            f"{_option(name)} is given with --worlds, but {reason}: leave one of them out"
            for name, reason in ONE_TEST_ONLY.items()
            if given.get(name)
        ]
    refuse_if(problems)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def examine(
    method: str,
    worlds: int,
    seed: str,
    difficulty: str | None,
    image_size: int | None,
    n: int | None,
    out: Path | None,
    files: Mapping[str, Path | None],
    **options: Any,
) -> str:
    """Run the exam, print it, write its files; the verdict."""
    from attributionlab.exams import worlds_test

    places = check_paths(files, read=[method])
    chosen = {"difficulty": difficulty, "image_size": image_size, "n": n}
    options |= {name: value for name, value in chosen.items() if value is not None}

    def run(folder: Path) -> "WorldsReport":
        return worlds_test(
            *(method, worlds, parse_seed(seed)),
            out=folder,
            show_progress=True,
            command=command_line(),
            **options,
        )

    with follow(f"test {method}"):
        report, stop = as_far_as_done(run, out)
    if report.seed_drawn:
        report = replace(report, command=command_line(report.exam["seed"]))
    try:
        _print(report)
    finally:  # whether or not anybody reads the table
        write_all(
            places,
            {"json": report.to_json, "csv": report.to_csv, "parquet": report.to_parquet},
        )
    if stop is not None:
        raise stop
    return report.verdict


def _print(report: "WorldsReport") -> None:
    """The share of worlds passed, by feature too, and what was drawn."""
    import pandas as pd

    from attributionlab.report import data_table, print_table

    document = report.to_dict()
    exam, passed = document["exam"], document["passed"]
    low, high = passed["interval"]
    drawn = "fresh" if document["seed_drawn"] else "given"
    typer.echo(
        f"{printable(report.method)}: {report.verdict}\n"
        f"passed {passed['passed']} of {passed['worlds']} random worlds, a share of "
        f"{passed['share']:.2f}, 95 % interval over worlds {low:.2f} to {high:.2f}; it must reach "
        f"{document['majority']:g}\n"
        f"worlds: --worlds {exam['worlds']} --seed {exam['seed']} ({drawn}) --difficulty "
        f"{exam['difficulty']} --image-size {exam['image_size']}; in each {report.n} questions (one "
        f"network each), claim {report.claim}, F1 of at least {report.gamma:g}\n"
    )
    rows = [
        {
            "feature": feature,
            **{
                f"{what} {side} it": text
                for side, share in shares.items()
                for what, text in _share_texts(share).items()
            },
        }
        for feature, shares in document["by_feature"].items()
    ]
    print_table(data_table(pd.DataFrame(rows)))
    verdicts = report.to_frame()["verdict"].value_counts()
    others = [f"{count} {name}" for name, count in verdicts.items() if name != "pass"]
    kept = len(document["worlds"])
    rejected = "; ".join(f"{reason} {count}" for reason, count in document["rejected"].items())
    typer.echo(
        f"\nnot passed: {', '.join(others) or 'none'}\n"
        f"rules drawn: {kept + sum(document['rejected'].values())}; not kept: {rejected or 'none'}\n"
        "Passing is necessary for faithfulness, never sufficient."
    )


def _share_texts(share: Mapping[str, Any]) -> dict[str, str]:
    """A share as it is shown."""
    if not share["worlds"]:
        return {"passed": "no world", "interval": ""}
    low, high = share["interval"]
    return {
        "passed": f"{share['passed']} of {share['worlds']}",
        "interval": f"{low:.2f} to {high:.2f}",
    }
