"""A card of a metric, its tables, and the one table of many metrics."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from attributionlab.base import (
    FEWEST_FOR_ORDER,
    AttributionLabError,
    applicable,
    correlation_text,
    make_folder,
    printable,
    write_atomically,
    write_csv,
)
from attributionlab.metrics import Facts, symbols
from attributionlab.metrics.ranking import CorrelationInterval
from attributionlab.show import markdown, study_page
from attributionlab.verdicts.cards.cost import Cost, format_cost
from attributionlab.verdicts.metric_kit.report import KitReport
from attributionlab.verdicts.metric_trials.conditions import AXES
from attributionlab.verdicts.metric_trials.report import MetricReport, Trial

LURE_SHARE = 0.5
"""Share of the questions in which a lure must reach the exact map's score before the card names it."""
MEANINGS = {
    "scale": "a positive factor of the map",
    "shift": "a constant added to the map",
    "sizes": "anything but the order of the pixels",
    "sign": "the signs of a map",
    "below 0": "attribution below 0",
    "added": "attribution where nothing is",
    "missing": "attribution that is left out",
    "exchange": "which of the two maps is which",
    "in patches": "which pixel of a patch has the attribution",
    "extremes": "that the highest and the lowest value changed places",
    "intensity": "that the map is the image",
    "target": "which output is explained",
    "network": "which network is explained",
    "replacement": "what takes the place of removed pixels",
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


@dataclass(frozen=True, eq=False)
class MetricCard:
    """What a metric asks, costs and cannot see, and how it was examined."""

    metric: str
    higher_is_better: bool
    declared: Mapping[str, Any]
    """by `attributionlab.metrics.metric`, defaults included"""
    takes: frozenset[str]
    """names of its parameters"""
    facts: Facts | None = None
    """of a metric of `attributionlab.metrics`"""
    costs: Sequence[Cost] = ()
    """for images of rising size; empty where nothing was counted"""
    kit: KitReport | None = None
    """None where its code cannot be checked"""
    trial: MetricReport | None = None
    """None where it was not tried"""
    not_examined: str = ""
    """why something is missing; "" where nothing is"""
    image_size: int | None = None
    """side of the trial's images, in pixels"""
    command: str = ""
    """how to make the card again"""

    def __repr__(self) -> str:
        return f"MetricCard({self.metric!r}, {self._verdict or 'not tried'!r})"

    @property
    def title(self) -> str:
        """The metric and its direction."""
        return f"{printable(self.metric)} ({self._better} is better)"

    @property
    def sentences(self) -> list[str]:
        """What checks and trial came to, and what is not known."""
        found = []
        if self.kit is not None:
            found.append(f"Checks of its code: {self.kit.title.partition(': ')[2]}.")
        if self.trial is not None:
            size = f", {self.image_size} x {self.image_size} pixels" if self.image_size else ""
            found.append(
                f"Trial in {self.trial.environment} ({self.trial.output}{size}), n = {self.trial.n} "
                f"questions, seed {self.trial.seed}: {self.trial.sentence.rstrip('.')}."
            )
        if self.is_stopped:
            found.append(STOPPED)
        if self.declared["neighbors"] == "imputation":
            found.append(
                "It imputes removed pixels, and with that no exact map is known: it may miss more than "
                "is said here."
            )
        if self.not_examined:
            found.append(f"Not examined: {self.not_examined}.")
        return found

    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of the card by their headings, without empty ones.

        Returns
        -------
        dict of str to DataFrame
            "What it is"; "What it cannot see", with the evidence; "Trial", with the intervals; "Unseen
            data", a row for each axis along which scores change; "Wrong maps that it may fall for";
            "Checks with a fault, or answered by a declaration"; "What it declares".
        """
        found = {
            "What it is": pd.DataFrame(self._description().items(), columns=["what", "value"]),
            "What it cannot see": pd.DataFrame(
                [
                    (what, MEANINGS.get(what, "that this wrong map is wrong"), "; ".join(reasons))
                    for what, reasons in self.cannot_see().items()
                ],
                columns=["what", "meaning", "how that is known"],
            ),
            "Trial": pd.DataFrame(
                [
                    (what, *("undefined" if math.isnan(each) else each for each in interval))
                    for what, interval in self.intervals().items()
                ],
                columns=["what", "value", "low", "high"],
            ),
            "Unseen data": self.drops(),
            "Wrong maps that it may fall for": self._trial.lures if self._trial else pd.DataFrame(),
            "Checks with a fault or a note, or answered by a declaration": pd.DataFrame(
                [
                    (row.id, row.status, row.expected, row.found)
                    for row in (self.kit.checks if self.kit else ())
                    if row.status in ("fault", "note", "by declaration")
                ],
                columns=["check", "status", "expected", "found"],
            ),
            "What it declares": pd.DataFrame(
                [
                    (name, _words(value))
                    for name, value in self.declared.items()
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
        found: dict[str, list[str]] = {}

        def add(what: str, reason: str) -> None:
            found.setdefault(what, []).append(reason)

        for name in self.declared["invariances"]:
            add(name, "declared as an invariance")
        for key, value, what in DECLARATIONS:
            if self.declared[key] == value:
                add(what, f"declared: {key} {value}")
        if self.declared["maps"] != "signed":
            add("below 0", f"declared: maps {self.declared['maps']}")
        if not NETWORK_PARAMETERS & self.takes:
            add("network", "it is given nothing that a network changes")
        for row in self.kit.findings if self.kit else ():
            if row.id in MEANINGS:
                add(row.id, f"check {row.id}: {row.found}")
        if self._verdict == "blind":
            add("network", "trial: the swap contrast is 0")
        for row in self._trial.lures.itertuples() if self._trial else ():
            if row.beats_exact >= LURE_SHARE:
                often = f"in {row.beats_exact:.0%} of the questions"
                add(f"lure {row.lure}", f"trial: it scored as well as the exact map {often}")
        return found

    def drops(self) -> pd.DataFrame:
        """A row for each axis of unseen data along which scores change: the smallest dose at which the
        agreement falls by its interval, and by how much; the largest dose and its drop; the break.
        """
        rows, drops = [], self._trial.drops if self._trial and _enough(self._trial.ranked) else ()
        for each in self.trial.breaks() if self.trial else ():
            own = [drop for drop in drops if drop.axis == each.axis]
            if not own:  # only doses that show nothing unseen
                continue
            first = next((drop for drop in own if drop.mean.low > 0), None)
            rows.append(
                {
                    "axis": each.axis,
                    "what_varies": AXES[each.axis].meaning,
                    "drops_at": f"{first.dose:g}" if first else "",
                    "drop_there": correlation_text(*first.mean) if first else "none is shown",
                    "largest_dose": own[-1].dose,
                    "drop_at_it": correlation_text(*own[-1].mean),
                    "agreement_below_threshold": str(each),
                }
            )
        return pd.DataFrame(rows)

    def intervals(self) -> dict[str, CorrelationInterval]:
        """Agreement and swap contrast of the trial, without an interval if fewer than six questions
        have a ranking.
        """
        if self._trial is None:
            return {}
        found = {"agreement": (self._trial.agreement, self._trial.ranked)}
        if contrast := self._trial.contrast:
            found["swap contrast"] = contrast.mean, applicable(contrast.each)
        return {
            what: mean if _enough(ranked) else mean._replace(low=math.nan, high=math.nan)
            for what, (mean, ranked) in found.items()
        }

    def row(self) -> dict[str, Any]:
        """The metric's row in the one table."""
        drops = [each for each in self.drops().itertuples() if each.drops_at]
        return {
            "metric": self.metric,
            "better": self._better,
            "range": self.facts.range if self.facts else "",
            "cost": self._cost(),
            "faults": math.nan if self.kit is None else float(len(self.kit.faults)),
            "notes": math.nan if self.kit is None else float(len(self.kit.notes)),
            "verdict": self._verdict,
            **{
                f"{what.removeprefix('swap ')}{end}": number
                for what, interval in self.intervals().items()
                for end, number in zip(("", "_low", "_high"), interval, strict=True)
            },
            "drops_at": "; ".join(f"{each.axis} {each.drops_at}" for each in drops),
            "cannot_see": "; ".join(self.cannot_see()),
            "not_examined": self.not_examined,
        }

    def save(self, path: str | Path) -> None:
        """Write the card: Markdown for a name that ends in .md, a page that needs nothing else for
        .html.

        Raises
        ------
        AttributionLabError
            For another name, and a file that cannot be written.
        """
        if card_suffix(path) == ".html":
            write_atomically(
                path, study_page(self.title, self.sentences, {}, self.tables(), self.command)
            )
            return
        parts = [f"# {self.title}", *self.sentences]
        parts += [
            f"## {name}\n\n{markdown(table.columns, table.itertuples(index=False))}"
            for name, table in self.tables().items()
        ]
        parts += [f"## Make it again\n\n```\n{printable(self.command)}\n```"] * bool(self.command)
        parts.append("<!-- written by AttributionLab -->")
        write_atomically(path, "\n\n".join(parts) + "\n")

    @property
    def is_stopped(self) -> bool:
        """Whether the trial was stopped before its end."""
        return self.trial is not None and self.trial.stopped

    @property
    def _better(self) -> str:
        return "higher" if self.higher_is_better else "lower"

    @property
    def _verdict(self) -> str:
        return "" if self.trial is None else self.trial.verdict

    @property
    def _trial(self) -> Trial | None:
        return self.trial.trial if self.trial else None

    def _description(self) -> dict[str, str]:
        """Facts, direction and cost, as far as they are known."""
        known = {**self.facts._asdict(), "letters": symbols()} if self.facts else {}
        names = {"best": "best score", "use": "when to use it"}
        return {
            **{names.get(key, key): value for key, value in known.items()},
            "direction": f"{self._better} is better",
            "scores": "each image" if self.declared["per_sample"] else "a data set",
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

    Parameters
    ----------
    cards : sequence of MetricCard
        In the order of the table.
    command : str
        How to make them again.
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
        table = pd.DataFrame([each.row() for each in self.cards])
        last = ["drops_at", "cannot_see", "not_examined"]
        return table[[*(name for name in table if name not in last), *last]]

    def shown(self) -> pd.DataFrame:
        """The same in fewer columns, without notes, each interval behind its value."""
        table = self.to_frame().drop(columns=["not_examined", "notes"])
        table = table[[name for name in table if not name.endswith(("_low", "_high"))]]
        for what in ("agreement", "swap contrast"):
            if (name := what.removeprefix("swap ")) in table:
                intervals = [each.intervals().get(what) for each in self.cards]
                table[name] = [correlation_text(*each) if each else "" for each in intervals]
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
        for name in table.columns.intersection(["cost", "agreement", "contrast", "drops_at"]):
            table[name] = table[name].str.replace(gap, "\N{NO-BREAK SPACE}", regex=True)
        stopped = [STOPPED] if any(each.is_stopped for each in self.cards) else []
        page = study_page("Metrics", [*stopped, *NOTES], {}, {"All metrics": table}, self.command)
        write_atomically(index, page)
        write_csv(rows, self.to_frame())
        for card, place in zip(self.cards, pages, strict=True):
            card.save(place)
        return written


def _enough(ranked: int) -> bool:
    """Whether so many questions with a ranking have an interval that says something."""
    return ranked >= FEWEST_FOR_ORDER


def files_of(metrics: Iterable[str]) -> list[str]:
    """Names of the files in a folder of cards: the page, the table, and each metric's card."""
    return ["index.html", "table.csv", *(f"{name}.html" for name in metrics)]


NOT_TRIED = "not tried"
STOPPED = (
    "The trial was stopped before its end, and is about the questions that were done. The same command "
    "goes on where it has a folder, and begins again without one."
)
NOTES = (
    "range: that of the scores; f is the model's output of the target, P the number of pixels. cost: "
    "images that the network was asked about for one score of one map, counted on a network that no "
    "shortcut serves, with 8 x 8 and 16 x 16 pixels where they differ; and maps that a method had to "
    "make.",
    "faults: checks of the code, with known answers, that failed. verdict, agreement, contrast: of the "
    "trial, with 95 % intervals; a contrast of 0 says that the network is not seen. Empty: scores of "
    "all questions are NaN somewhere, or all alike. Not tried: it judges methods, or compares maps in "
    "another way than the trial does; its card says why.",
    "drops at: on each axis the smallest dose of unseen data at which the agreement falls by its "
    "interval. cannot see: what a map may get wrong without a worse score, as declared, checked or "
    "measured with lures; the cards say what each word means, and how it is known.",
)
"""What the columns of the one table mean."""


def card_suffix(path: str | Path) -> str:
    """How the name of a card ends.

    Raises
    ------
    AttributionLabError
        For other endings than .md and .html.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".md", ".html"):
        raise AttributionLabError(
            f"the card is {str(path)!r}: cards are .md or .html files, name it so"
        )
    return suffix


def _words(value: Any) -> str:
    """A declared value in words."""
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not declared" if value is None else str(value)
