"""`attributionlab test METHOD --worlds N`, and metric: an exam in random worlds."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from attributionlab.base import printable, refuse_if
from attributionlab.cli import options

if TYPE_CHECKING:
    from attributionlab.verdicts import MetricWorldsReport, WorldsReport

ONE_METRIC_ONLY = {
    "env": "the environments are drawn",
    "quick": "random worlds have images of 48 x 48 pixels",
    "dose": "nothing is unseen in worlds",
    "output": "every world is a regression",
    "takes": "every world is a regression",
    "threshold": "it is about doses of unseen data",
    "html": "the report is --json",
    "figure": "the report is --json",
}
"""As `ONE_TEST_ONLY`, of a test of a metric."""
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
    "size": "there is no figure",
}
"""Options of a test in named environments, and why random worlds have none of them."""
WORLDS_ONLY = ("difficulty", "out", "retry_failed")
"""Options of a test that nothing but --worlds uses."""
MEANS = ("agreement", "contrast")
"""What an exam of a metric has the mean of."""


def check_options(
    worlds: int | None,
    given: Mapping[str, Any],
    one_only: Mapping[str, str] = ONE_TEST_ONLY,
    worlds_only: tuple[str, ...] = WORLDS_ONLY,
) -> None:
    """Refuse options that do not belong to what is asked for; those that are not given are false."""
    if worlds is None:
        names = [name for name in worlds_only if given[name]]
        problems = [f"{as_option(name)} is given without --worlds: add --worlds" for name in names]
    else:
        problems = [
            f"{as_option(name)} is given with --worlds, but {reason}: leave one of them out"
            for name, reason in one_only.items()
            if given[name]
        ]
    refuse_if(problems)


def as_option(name: str) -> str:
    """How a command names an option."""
    return "--" + name.replace("_", "-")


def examine(
    exam: Callable[..., Any],
    name: str,
    subject: Any,
    worlds: int,
    seed: str,
    difficulty: str | None,
    image_size: int | None,
    n: int | None,
    out: Path | None,
    files: Mapping[str, Path | None],
    **others: Any,
) -> str:
    """Run the exam of a method or a metric, print it, write its files; the verdict.

    `name` is how the command names the subject.
    """
    places = options.check_paths(files, read=[name, *others.get("methods", ())])
    chosen = {"difficulty": difficulty, "image_size": image_size, "n": n}
    others |= {key: value for key, value in chosen.items() if value is not None}
    report, stop = options.as_far_as_done(
        f"exam of {name}",
        out,
        lambda folder: exam(
            subject,
            worlds,
            options.parse_seed(seed),
            out=folder,
            show_progress=True,
            command=options.command_line(),
            **others,
        ),
    )
    if report.seed_drawn:
        report = replace(report, command=options.command_line(report.exam["seed"]))
    writers = {"json": report.to_json, "csv": report.to_csv, "parquet": report.to_parquet}
    with options.written_at_last(places, writers, stop):
        _print(report)
    return str(report.verdict)


def _print(report: "WorldsReport | MetricWorldsReport") -> None:
    """The share of worlds passed, by feature too, and what was drawn."""
    import pandas as pd

    from attributionlab.show import data_table, print_table

    document = report.to_dict()
    exam, passed = document["exam"], document["passed"]
    low, high = passed["interval"]
    drawn = "fresh" if document["seed_drawn"] else "given"
    if "metric" in document:
        name, did, further = document["metric"], "valid in", ""
        means = [f"{key} {_mean(document[key])}" for key in MEANS]
        last = (
            f"means over worlds: {', '.join(means)}\n"
            "Nothing is unseen in worlds, so no drop was measured."
        )
    else:
        name, did = document["method"], "passed"
        further = (
            f", claim {document['claim']}; a world is passed by three quarters of its questions"
        )
        last = "Passing is necessary for faithfulness, never sufficient."
    typer.echo(
        f"{printable(name)}: {report.verdict}\n"
        f"{did} {passed['passed']} of {passed['worlds']} random worlds, a share of "
        f"{passed['share']:.2f}, 95 % interval over worlds {low:.2f} to {high:.2f}; it must reach "
        f"{document['majority']:g}\n"
        f"worlds: --worlds {exam['worlds']} --seed {exam['seed']} ({drawn}) --difficulty "
        f"{exam['difficulty']} --image-size {exam['image_size']}; in each {report.n} questions (one "
        f"network each){further}\n"
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
    print_table(data_table(pd.DataFrame(rows)), width=140)
    verdicts = report.to_frame()["verdict"].value_counts()
    others = [f"{count} {name}" for name, count in verdicts.items() if name != report.PASSED]
    kept = len(document["worlds"])
    rejected = "; ".join(f"{reason} {count}" for reason, count in document["rejected"].items())
    typer.echo(
        f"\nothers: {', '.join(others) or 'none'}\n"
        f"rules drawn: {kept + sum(document['rejected'].values())}; not kept: {rejected or 'none'}\n"
        f"{last}"
    )


def _share_texts(share: Mapping[str, Any]) -> dict[str, str]:
    """A share as it is shown."""
    means = {key: _mean(share[key]) for key in MEANS if key in share}
    if not share["worlds"]:
        return {"passed": "no world", "interval": "", **means}
    low, high = share["interval"]
    return {
        "passed": f"{share['passed']} of {share['worlds']}",
        "interval": f"{low:.2f} to {high:.2f}",
        **means,
    }


def _mean(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
