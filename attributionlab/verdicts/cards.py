"""Cards of metrics: what each asks, costs and cannot see, how it was examined; one table of many."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import pandas as pd
import torch
from markupsafe import Markup
from torch import Tensor, nn

from attributionlab.base import (
    FEWEST_FOR_ORDER,
    MOST_IMAGES,
    AttributionLabError,
    Stopped,
    applicable,
    explained_arguments,
    integer_problem,
    make_folder,
    printable,
    refuse_if,
    write_atomically,
    write_csv,
)
from attributionlab.methods import globals_restored
from attributionlab.metrics import Facts, known_facts, symbols
from attributionlab.metrics.ranking import CorrelationInterval
from attributionlab.show import in_text, markdown, study_page
from attributionlab.verdicts.metric_trials import registry
from attributionlab.verdicts.metric_trials.asking import Linear
from attributionlab.verdicts.metric_trials.check import CheckReport
from attributionlab.verdicts.metric_trials.report import MetricReport, Trial
from attributionlab.verdicts.metric_trials.test import (
    FEWEST_IMAGES,
    MetricTestOptions,
    checked_and_tried,
)
from attributionlab.worlds import Environment

LURE_SHARE = 0.5
"""Share of the questions in which a lure must reach the exact map's score before the card names it."""
MEANINGS = {
    "scale": "a positive factor of the map",
    "shift": "a constant added to the map",
    "sizes": "anything but the order of the pixels",
    "sign": "the signs of a map",
    "below 0": "attribution below 0",
    "added": "attribution on irrelevant pixels",
    "missing": "missing attribution",
    "exchange": "the order of the two maps",
    "in patches": "which pixel of a patch has the attribution",
    "extremes": "that the highest and the lowest value were swapped",
    "intensity": "that the map is the image",
    "target": "which output is explained",
    "network": "which network is explained",
    "replacement": "the replacement of removed pixels",
}
"""What a map may get wrong without a worse score. Names of checks and of invariances mean what they do
there."""
DECLARATIONS = (
    ("unit", "order", "sizes"),
    ("unit", "local gradient", "replacement"),
    ("neighbors", "patches", "in patches"),
)
"""What other declarations imply."""
NETWORK_PARAMETERS = {"model", "truth", "values", "information", "changes", "attribute"}
"""Parameters through which a metric can learn of a network."""


SIDES = 8, 16
"""Of the images for which costs are counted: whether a cost grows with the pixels is seen."""
SETTINGS: Mapping[str, Any] = {"radius": 0.1, "tolerance": 0.1, "closeness": 0.1, "level": 0.5}
"""Values of parameters without defaults, which change no count."""


class Cost(NamedTuple):
    """What one score of one map took, counted."""

    side: int
    """of the image, in pixels"""
    passes: int
    """images that the network was asked about"""
    calls: int
    """of the network, each with a batch of them"""
    maps: int
    """that the metric had the method make"""


def cost_of(metric: registry.Metric, side: int) -> Cost:
    """Count what one score of one map takes, before a network that no shortcut serves.

    The network is linear, of one channel, and an output rises with every pixel. What a metric wants
    beside its parameters' defaults is given by name: `OFFERED`, `SETTINGS`, a method that is counted.

    `metric`: any, also one that cannot be tried. `side`: of the image, in pixels; at least 4, so that
    there are 16 patches. Raises AttributionLabError for what the metric raises, in one line.
    """
    rising = torch.arange(1.0, 2 * side * side + 1, dtype=torch.float64).view(2, -1) / (side * side)
    lab = Linear(weights=rising, pixels=rising[:1], offset=0.0)
    model, image, asked, made = lab.model, lab.images, list[int](), list[int]()
    model.register_forward_pre_hook(lambda _, given: asked.append(len(given[0])))

    def attribute(model: nn.Module, images: Tensor, targets: Tensor) -> Tensor:
        made.append(len(images))
        return images.clone()

    known = {
        **SETTINGS,
        "model": model,
        "images": image,
        "targets": lab.targets,
        "attributions": image.clone(),
        "attribute": attribute,
        "others": image.clone(),
        "changes": torch.ones(1),
        "layer": model[-1],
        "replacement": lab.replacement,
        "truth": image > 0.5,
        "values": image.clone(),
        "information": image.clone(),
        "threshold": 0.5,
        "seed": 0,
    }
    with globals_restored(0), registry.raised(metric.name), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric.call(known)
    return Cost(side, sum(asked), len(asked), sum(made))


def format_cost(cost: Cost, *, in_full: bool) -> str:
    """Forward passes, and maps of the method where there are some."""
    calls = f" in {cost.calls} call{'s' * (cost.calls > 1)}" * bool(cost.calls)
    asked = f"{cost.passes:,}" + f" forward passes{calls}" * in_full
    asked = asked if cost.passes or not cost.maps else ""
    made = f"{cost.maps} maps of the method" if cost.maps else ""
    return ", ".join(filter(None, (asked, made)))


@dataclass(frozen=True, eq=False)
class MetricCard:
    """What a metric measures, costs and cannot see, and how it was examined."""

    metric: registry.Metric
    report: MetricReport | None = None
    """of its check and its trial; None where neither was made"""
    costs: Sequence[Cost] = ()
    """for images of rising size; empty where nothing was counted"""
    command: str = ""
    """how to make the card again"""

    def __repr__(self) -> str:
        return f"MetricCard({self.name!r}, {self.row()['verdict'] or NOT_TRIED!r})"

    @property
    def title(self) -> str:
        """The metric and its direction."""
        return f"{printable(self.name)} ({self._better} is better)"

    @property
    def name(self) -> str:
        """Of the metric."""
        return self.metric.name

    @property
    def check(self) -> CheckReport | None:
        """None if its code was not checked."""
        return self.report.checks if self.report else None

    @property
    def trial(self) -> Trial | None:
        """None if there was no trial."""
        return self.report.trial if self.report else None

    @property
    def facts(self) -> Facts | None:
        """Of a metric of `attributionlab.metrics`."""
        function = self.metric.function
        ours = any(function is each for each in registry.FUNCTIONS.values())
        return known_facts()[function.__name__] if ours else None

    @property
    def not_examined(self) -> str:
        """Why something is missing; "" if nothing is."""
        if self.metric.only_described:
            return self.metric.refusal
        if self.trial is not None:
            return ""
        if self.check is None:
            return "there was neither a check nor a trial"
        if self.metric.untried:
            given = registry.NOT_GIVEN[self.metric.handed]
            return f"its code was checked, but there was no trial: {given}"
        return "its code has a fault, so there was no trial" * bool(self.check.faults) or (
            "its code was checked, but there was no trial"
        )

    @property
    def sentences(self) -> list[str]:
        """The results of checks and trial, and what is unknown."""
        found = []
        if self.check is not None:
            found.append(f"Checks of its code: {self.check.title.partition(': ')[2]}.")
        if self.report is not None and self.trial is not None:
            tried, side = self.report, self.report.image_size
            size = f", {side} x {side} pixels" if side else ""
            found.append(
                f"Trial in {tried.environment} ({tried.output}{size}), n = {tried.n} questions, "
                f"seed {tried.seed}: {tried.sentence.rstrip('.')}."
            )
        if self.is_stopped:
            found.append(STOPPED)
        if self.metric.stated["neighbors"] == "imputation":
            found.append(
                "It imputes removed pixels, for which no exact map is known, so it may miss more "
                "errors than stated here."
            )
        if self.not_examined:
            found.append(f"Not examined: {self.not_examined}.")
        return found

    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of the card by their headings, without empty ones."""
        found = {
            "What it is": pd.DataFrame(self._description().items(), columns=["what", "value"]),
            "What it cannot see": pd.DataFrame(
                [
                    (what, MEANINGS.get(what, "that this wrong map is wrong"), "; ".join(reasons))
                    for what, reasons in self.cannot_see().items()
                ],
                columns=["what", "meaning", "how that is known"],
            ),
            **(self.report.tables() if self.report and self.trial else {}),
            "Checks with a fault or a note, or settled by a declaration": pd.DataFrame(
                [
                    (row.id, row.status, row.expected, row.found)
                    for row in (self.check.checks if self.check else ())
                    if row.status in ("fault", "note", "by declaration")
                ],
                columns=["check", "status", "expected", "found"],
            ),
            "What it declares": pd.DataFrame(
                [
                    (name, _words(value))
                    for name, value in self.metric.stated.items()
                    if value is not None or name not in ("takes", "varies", "unchanged")
                ],
                columns=["declaration", "value"],
            ),
        }
        return {name: table for name, table in found.items() if len(table)}

    def cannot_see(self) -> dict[str, list[str]]:
        """What a map may get wrong without a worse score (`MEANINGS`, and lures), and how that is
        known: by a declaration, by what a check found, or because in the trial a lure scored as
        well as the exact map.
        """
        found, stated = dict[str, list[str]](), self.metric.stated

        def add(what: str, reason: str) -> None:
            found.setdefault(what, []).append(reason)

        for name in stated["invariances"]:
            add(name, "declared as an invariance")
        for key, value, what in DECLARATIONS:
            if stated[key] == value:
                add(what, f"declared: {key} {value}")
        if stated["maps"] != "signed":
            add("below 0", f"declared: maps {stated['maps']}")
        if not NETWORK_PARAMETERS & self.metric.parameters:
            add("network", "it receives nothing that depends on the network")
        for row in self.check.findings if self.check else ():
            if row.id in MEANINGS:
                add(row.id, f"check {row.id}: {row.found}")
        if self.report and self.trial and self.report.verdict == "blind":
            add("network", "trial: the swap contrast is 0")
        for row in self.trial.lures.itertuples() if self.trial else ():
            if row.beats_exact >= LURE_SHARE:
                often = f"in {row.beats_exact:.0%} of the questions"
                add(f"lure {row.lure}", f"trial: it scored as high as the exact map {often}")
        return found

    def drops_at(self) -> dict[str, float]:
        """For each axis of unseen data, the smallest dose at which the agreement drops significantly;
        empty if it never does, or if fewer than six questions have a ranking.
        """
        found: dict[str, float] = {}
        few = self.trial is None or self.trial.ranked < FEWEST_FOR_ORDER
        for each in () if few or self.report is None else self.report.doses:
            if each.drop is not None and each.drop.low > 0:
                found.setdefault(each.axis, each.dose)
        return found

    def row(self) -> dict[str, Any]:
        """The metric's row in the table; without an interval if fewer than six questions have a
        ranking.
        """
        about, trial = self.facts, self.trial
        agreement = contrast = CorrelationInterval(*[math.nan] * 3)
        if trial:
            agreement = _shown(trial.agreement, trial.ranked)
        if trial and trial.contrast:
            contrast = _shown(trial.contrast.mean, applicable(trial.contrast.each))
        return {
            "metric": self.name,
            "better": self._better,
            "range": about.range if about else "",
            "cost": self._cost(),
            "faults": math.nan if self.check is None else float(len(self.check.faults)),
            "notes": math.nan if self.check is None else float(len(self.check.notes)),
            "verdict": self.report.verdict if self.report and trial else "",
            **agreement.as_columns("agreement"),
            **contrast.as_columns("contrast"),
            "drops_at": "; ".join(f"{axis} {dose:g}" for axis, dose in self.drops_at().items()),
            "cannot_see": "; ".join(self.cannot_see()),
            "not_examined": self.not_examined,
        }

    def save(self, path: str | Path) -> None:
        """Write the card as Markdown (.md) or as a self-contained page (.html).

        Raises
        ------
        AttributionLabError
            For any other name, and for a file that cannot be written.
        """
        suffix = Path(path).suffix.lower()
        if suffix not in (".md", ".html"):
            raise AttributionLabError(f"the card is {str(path)!r}: name it .md or .html")
        if suffix == ".html":
            write_atomically(
                path, study_page(self.title, self.sentences, {}, self.tables(), self.command)
            )
            return
        parts = [f"# {self.title}", *self.sentences]
        parts += [
            f"## {name}\n\n{markdown(table.columns, table.itertuples(index=False))}"
            for name, table in self.tables().items()
        ]
        parts += [f"## Reproduce it\n\n```\n{printable(self.command)}\n```"] * bool(self.command)
        parts.append("<!-- written by AttributionLab -->")
        write_atomically(path, "\n\n".join(parts) + "\n")

    @property
    def is_stopped(self) -> bool:
        """Whether the trial was stopped early."""
        return self.report is not None and self.report.stopped

    @property
    def _better(self) -> str:
        return "higher" if self.metric.higher_is_better else "lower"

    def _description(self) -> dict[str, str]:
        """Facts, direction and cost, as far as they are known."""
        about = self.facts
        known = {**about._asdict(), "symbols": symbols()} if about else {}
        names = {"best": "best score", "use": "when to use it"}
        return {
            **{names.get(key, key): value for key, value in known.items()},
            "direction": f"{self._better} is better",
            "scores": "each image" if self.metric.stated["per_sample"] else "a data set",
            "cost of one map": self._cost(in_full=True) or "not counted",
        }

    def _cost(self, *, in_full: bool = False) -> str:
        """Forward passes at each size, once where they are equal, and maps of the method."""
        texts = {each.side: format_cost(each, in_full=in_full) for each in self.costs}
        if len(set(texts.values())) > 1:
            texts = {side: f"{text} ({side} x {side})" for side, text in texts.items()}
        return ", ".join(dict.fromkeys(texts.values()))


@dataclass(frozen=True, eq=False)
class MetricCards:
    """Cards of several metrics, and one table of them.

    `cards`: in the order of the table. `command`: how to make them again.
    """

    cards: Sequence[MetricCard]
    command: str = ""

    def __repr__(self) -> str:
        return f"MetricCards({len(self.cards)} metrics)"

    def to_frame(self) -> pd.DataFrame:
        """A row for each metric.

        Columns: metric, better, range, cost (forward passes for one map), faults, notes, verdict,
        agreement and contrast (with `_low` and `_high`), drops_at (the smallest dose of each axis at
        which the agreement falls by its interval), cannot_see, not_examined.
        """
        return pd.DataFrame([each.row() for each in self.cards])

    def shown(self) -> pd.DataFrame:
        """The same in fewer columns, without notes, with each interval after its value."""
        table = in_text(self.to_frame(), "agreement", "contrast")
        table = table.drop(columns=["not_examined", "notes"])
        table["faults"] = ["" if math.isnan(each) else f"{each:.0f}" for each in table["faults"]]
        table["verdict"] = table["verdict"].replace("", NOT_TRIED)
        return table

    def save(self, folder: str | Path) -> list[Path]:
        """Write the page ``index.html`` with the one table, ``table.csv``, and a page for each card.

        Returns
        -------
        list of Path
            What was written, the index first.
        """
        root, table = make_folder(folder), self.shown()
        written = [root / name for name in files_of(table["metric"])]
        index, rows, *pages = written
        links = [
            Markup('<a href="{}">{}</a>').format(page.name, name)
            for page, name in zip(pages, table["metric"], strict=True)
        ]
        table["metric"] = pd.Series(links, dtype=object)
        gap = r"(?:(?<=\w)|(?<=\d,)) (?=[x\d-])"  # in an interval, a size, an axis with its dose
        for name in ("cost", "agreement", "contrast", "drops_at"):
            table[name] = table[name].str.replace(gap, "\N{NO-BREAK SPACE}", regex=True)
        stopped = [STOPPED] if any(each.is_stopped for each in self.cards) else []
        page = study_page("Metrics", [*stopped, *NOTES], {}, {"All metrics": table}, self.command)
        write_atomically(index, page)
        write_csv(rows, self.to_frame())
        for card, place in zip(self.cards, pages, strict=True):
            replace(card, command=card.command or self.command).save(place)
        return written


def _shown(mean: CorrelationInterval, ranked: int) -> CorrelationInterval:
    """Without an interval where it is of so few questions that it says nothing."""
    return mean if ranked >= FEWEST_FOR_ORDER else mean._replace(low=math.nan, high=math.nan)


def files_of(metrics: Iterable[str]) -> list[str]:
    """Names of the files in a folder of cards: the page, the table, and each metric's card."""
    return ["index.html", "table.csv", *(f"{name}.html" for name in metrics)]


NOT_TRIED = "not tried"
STOPPED = (
    "The trial was stopped early and covers only the questions that were done. To continue, repeat the "
    "command; without a folder it starts again."
)
NOTES = (
    "range: of the scores; f is the model's output for the target, P the number of pixels. cost: "
    "images that the network evaluates for one score of one map, on a network without shortcuts, "
    "with 8 x 8 and 16 x 16 pixels if they differ; and maps that a method has to make.",
    "faults: failed checks of the code. verdict, agreement, contrast: results of the trial, with 95 % "
    "intervals; a contrast of 0 means that the metric ignores the network. Empty: on every question "
    "some score is NaN, or all are equal. Not tried: the metric judges methods, or compares maps "
    "differently than the trial does; its card says why.",
    "drops at: on each axis, the smallest dose of unseen data at which the interval of the drop in "
    "agreement is above 0. cannot see: errors of a map that do not lower its score, as declared, "
    "checked or measured with lures; the cards explain each word and how this is known.",
)
"""What the columns of the one table mean."""


def _words(value: Any) -> str:
    """A declared value in words."""
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not declared" if value is None else str(value)


@explained_arguments
def metric_cards(
    metrics: Sequence[str | Callable[..., Any]] | None = None,
    env: str | Environment = "multi-color-sum",
    n: int = 8,
    seed: int = 0,
    *,
    higher_is_better: bool | None = None,
    **options: Unpack[MetricTestOptions],
) -> MetricCards:
    """Make cards of metrics: facts, declarations, cost, checks of their code, and trials.

    There is no trial of metrics without scores, of metrics that judge methods, and of those that
    compare the maps of two methods. If a metric can be neither checked nor tried (because it compares
    sums, for example), its card says why.

    Parameters
    ----------
    metrics : sequence of str or callable, optional
        Each as for `metric_test`, and the other names of `attributionlab.metrics`, with hyphens; all of
        these by default.
    env, n, seed, higher_is_better, **options
        As for `metric_test`. Results in the folder `out` are reused, except the checks of a function.

    Returns
    -------
    MetricCards
        ``.to_frame()`` is the table, ``.save(folder)`` writes everything; ``.cards`` are the cards,
        with ``.tables()``, ``.cannot_see()`` and ``.save(path)`` as Markdown or HTML.

    Raises
    ------
    AttributionLabError
        For unknown names, and as `check_metric` and `metric_test` do.

    Examples
    --------
    >>> import attributionlab as al
    >>> [card] = al.metric_cards(["max-sensitivity"]).cards
    >>> [(each.passes, each.maps) for each in card.costs]
    [(0, 11), (0, 11)]
    """
    problems = integer_problem("n", n, FEWEST_IMAGES, MOST_IMAGES)
    problems += integer_problem("seed", seed, 0)
    named = list(registry.FUNCTIONS) if metrics is None else metrics
    described = registry.chosen_metrics(
        named, partial(registry.any_metric, higher_is_better=higher_is_better), problems
    )
    names = [each.name for each in described]
    taken = [name for name in names if name.casefold() == "index" and len(names) > 1]
    problems += [f"metrics name {name!r}, the page of all cards: rename it" for name in taken]
    refuse_if(problems)
    stop: Stopped | None = None
    try:
        reports = checked_and_tried(described, env, n, seed, **options)
    except Stopped as error:
        if error.result is None:
            raise
        reports, stop = error.result, error
    each = zip(described, reports, strict=True)
    cards = MetricCards([card_of(metric, report) for metric, report in each])
    if stop is not None:
        raise Stopped(str(stop).partition(": ")[0], cards) from stop
    return cards


def card_of(metric: registry.Metric, report: MetricReport | None = None) -> MetricCard:
    """The card of a metric whose check and trial are there, as far as they can be."""
    costs = list[Cost]()
    if report is None or report.checks is None or report.checks.has_scores:
        with suppress(AttributionLabError):  # a user's metric, made for images of one size
            costs = [cost_of(metric, side) for side in SIDES]
    return MetricCard(metric, report, costs)
