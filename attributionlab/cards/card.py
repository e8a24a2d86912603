"""A card of a metric, its tables, and the one table of many metrics."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from attributionlab import metrics
from attributionlab.errors import AttributionLabError, printable
from attributionlab.files import make_folder, write_atomically, write_csv
from attributionlab.metric_kit.report import KitReport
from attributionlab.metric_trials.conditions import AXES
from attributionlab.metric_trials.report import MetricReport
from attributionlab.ranking import CorrelationInterval
from attributionlab.report.page import study_page

INDEX, TABLE = "index.html", "table.csv"
FALLS_FOR = 0.5
"""Share of the questions in which a lure must reach the exact map's score before the card names it."""
MEANINGS = {
    "scale": "a positive factor of the map",
    "shift": "a constant added to the map",
    "sizes": "anything but the order of the pixels",
    "sign": "the signs of a map",
    "below 0": "attribution below 0",
    "added": "attribution where nothing is",
    "missing": "attribution that is left out",
    "in patches": "which pixel of a patch has the attribution",
    "extremes": "that the highest and the lowest value changed places",
    "intensity": "that the map is the image",
    "target": "which output is explained",
    "network": "which network is explained",
    "replacement": "what takes the place of removed pixels",
    "imputed": "not known: removed pixels are imputed, and with that no exact map is known",
}
"""What a map may get wrong without a worse score. Names of checks and of invariances mean what they do
there."""
DECLARATIONS = (
    ("unit", "order", "sizes"),
    ("unit", "local gradient", "replacement"),
    ("neighbors", "patches", "in patches"),
    ("neighbors", "imputation", "imputed"),
)
"""What follows of a declaration beside invariances."""
KNOWING = {"model", "truth", "values", "information", "changes", "attribute"}
"""Parameters through which a metric can learn of a network."""


class Facts(NamedTuple):
    """What is said of a metric by hand, in facts.toml beside the metrics."""

    formula: str
    source: str
    range: str
    best: str
    use: str


@cache
def facts() -> Mapping[str, Facts]:
    """The facts by the name of the metric's function."""
    return {name: Facts(**said) for name, said in _file().items() if name != "symbols"}


@cache
def symbols() -> str:
    """What the letters in the formulas stand for."""
    return str(_file()["symbols"])


def _file() -> dict[str, Any]:
    text = Path(str(metrics.__file__)).with_name("facts.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


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


@dataclass(frozen=True, eq=False)
class MetricCard:
    """What a metric asks, costs and cannot see, and how it was examined.

    Parameters
    ----------
    metric : str
        Its name.
    higher_is_better : bool
        Which maps it prefers.
    declared : mapping
        What it declares (`attributionlab.metrics.metric`), defaults included.
    takes : frozenset of str
        Names of its parameters.
    facts : Facts, optional
        Of a metric of `attributionlab.metrics`.
    costs : sequence of Cost
        For images of rising size; empty where nothing was counted.
    kit : KitReport, optional
        What the checks of its code found; None where they cannot be asked.
    trial : MetricReport, optional
        Whether it ranks as the truth does; None where that was not tried.
    why : str
        Why something is missing; "" where nothing is.
    image_size : int, optional
        Side of the trial's images, in pixels.
    command : str
        How to make the card again.
    """

    metric: str
    higher_is_better: bool
    declared: Mapping[str, Any]
    takes: frozenset[str]
    facts: Facts | None = None
    costs: Sequence[Cost] = ()
    kit: KitReport | None = None
    trial: MetricReport | None = None
    why: str = ""
    image_size: int | None = None
    command: str = ""

    def __repr__(self) -> str:
        return f"MetricCard({self.metric!r}, {self._verdict or 'not tried'!r})"

    @property
    def title(self) -> str:
        """The metric and its direction."""
        return f"{printable(self.metric)} ({self._better} is better)"

    @property
    def sentences(self) -> list[str]:
        """What checks and trial came to, and why one of them is missing."""
        said = []
        if self.kit is not None:
            said.append(f"Checks of its code: {self.kit.title.partition(': ')[2]}.")
        if self.trial is not None:
            size = f", {self.image_size} x {self.image_size} pixels" if self.image_size else ""
            said.append(
                f"Trial in {self.trial.environment} ({self.trial.output}{size}), n = {self.trial.n} "
                f"questions, seed {self.trial.seed}: {self.trial.sentence.rstrip('.')}."
            )
        return [*said, *([f"Not examined: {self.why}."] if self.why else [])]

    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of the card by their headings, without empty ones.

        Returns
        -------
        dict of str to DataFrame
            "What it is"; "What it cannot see", with the evidence; "Trial", with the intervals; "Unseen
            data", a row for each axis along which scores change; "Wrong maps that it may fall for";
            "Checks with a fault, or answered by a declaration"; "What it declares".
        """
        trial = self.trial and self.trial.trial
        checks = [] if self.kit is None else self.kit.checks
        found = {
            "What it is": pd.DataFrame(self._is().items(), columns=["what", "said"]),
            "What it cannot see": pd.DataFrame(
                [
                    (what, MEANINGS.get(what, "that this wrong map is wrong"), "; ".join(why))
                    for what, why in self.cannot_see().items()
                ],
                columns=["what", "meaning", "how that is known"],
            ),
            "Trial": pd.DataFrame() if self.trial is None else _told(self._headline()),
            "Unseen data": self.drops(),
            "Wrong maps that it may fall for": trial.lures if trial else pd.DataFrame(),
            "Checks with a fault, or answered by a declaration": pd.DataFrame(
                [
                    (row.id, row.status, row.expected, row.found)
                    for row in checks
                    if row.status in ("fault", "by declaration")
                ],
                columns=["check", "status", "expected", "found"],
            ),
            "What it declares": pd.DataFrame(
                [(name, _words(value)) for name, value in self.declared.items()],
                columns=["declaration", "value"],
            ),
        }
        return {name: table for name, table in found.items() if len(table)}

    def cannot_see(self) -> dict[str, list[str]]:
        """What a map may get wrong without a worse score (`MEANINGS`, and lures), and how that is
        known: by a declaration, by a check that found a fault, or because in the trial a lure scored as
        well as the exact map.
        """
        found: dict[str, list[str]] = {}

        def add(what: str, why: str) -> None:
            found.setdefault(what, []).append(why)

        stated = self.declared
        for name in stated["invariances"]:
            add(name, "declared as an invariance")
        for key, value, what in DECLARATIONS:
            if stated[key] == value:
                add(what, f"declared: {key} {value}")
        if stated["maps"] != "signed":
            add("below 0", f"declared: maps {stated['maps']}")
        if not KNOWING & self.takes:
            add("network", "it is given nothing that a network changes")
        for row in self.kit.faults if self.kit else ():
            if row.id in MEANINGS:
                add(row.id, f"check {row.id}: {row.found}")
        if self._verdict == "blind":
            add("network", "trial: the swap contrast is 0")
        trial = self.trial and self.trial.trial
        for row in trial.lures.itertuples() if trial else ():
            if row.beats_exact >= FALLS_FOR:
                often = f"in {row.beats_exact:.0%} of the questions"
                add(f"lure {row.lure}", f"trial: it scored as well as the exact map {often}")
        return found

    def drops(self) -> pd.DataFrame:
        """A row for each axis of unseen data along which scores change: the smallest dose at which the
        agreement falls by its interval, and by how much; the largest dose and its drop; the break.
        """
        if self.trial is None or self.trial.trial is None:
            return pd.DataFrame()
        breaks = {each.axis: str(each) for each in self.trial.breaks()}
        rows, every = [], self.trial.trial.drops
        for axis in dict.fromkeys(each.axis for each in every):
            own = [each for each in every if each.axis == axis]
            first = next((each for each in own if each.mean.low > 0), None)
            rows.append(
                {
                    "axis": axis,
                    "what_varies": AXES[axis].meaning,
                    "drops_at": "" if first is None else f"{first.dose:g}",
                    "drop_there": "none is shown" if first is None else _interval(first.mean),
                    "largest_dose": own[-1].dose,
                    "drop_at_it": _interval(own[-1].mean),
                    "agreement_below_threshold": breaks[axis],
                }
            )
        return pd.DataFrame(rows)

    def row(self) -> dict[str, Any]:
        """The metric's row in the one table."""
        headline = {} if self.trial is None or self.trial.trial is None else self._trial_row()
        drops = [each for each in self.drops().itertuples() if each.drops_at]
        return {
            "metric": self.metric,
            "better": self._better,
            "range": self.facts.range if self.facts else "",
            "cost": self._cost(),
            "faults": math.nan if self.kit is None else float(len(self.kit.faults)),
            "verdict": self._verdict,
            **headline,
            "drops_at": "; ".join(f"{each.axis} {each.drops_at}" for each in drops),
            "cannot_see": "; ".join(self.cannot_see()),
            "not_examined": self.why,
        }

    def save(self, path: str | Path) -> None:
        """Write the card: Markdown for a name that ends in .md, a page that needs nothing else for
        .html.

        Raises
        ------
        AttributionLabError
            For another name, and a file that cannot be written.
        """
        suffix = card_suffix(path)
        if suffix == ".html":
            write_atomically(
                path, study_page(self.title, self.sentences, {}, self.tables(), self.command)
            )
            return
        parts = [f"# {self.title}", *self.sentences]
        parts += [f"## {name}\n\n{as_markdown(table)}" for name, table in self.tables().items()]
        parts += [f"## Make it again\n\n```\n{printable(self.command)}\n```"] * bool(self.command)
        write_atomically(path, "\n\n".join(parts) + "\n")

    @property
    def _better(self) -> str:
        return "higher" if self.higher_is_better else "lower"

    @property
    def _verdict(self) -> str:
        return "" if self.trial is None else self.trial.verdict

    def _is(self) -> dict[str, str]:
        """Facts, direction and cost, as far as they are known."""
        said = {} if self.facts is None else self.facts._asdict()
        names = {"best": "best score", "use": "when to use it"}
        letters = {"letters": symbols()} if said else {}
        return {
            **{names.get(key, key): value for key, value in said.items()},
            **letters,
            "direction": f"{self._better} is better",
            "scores": "each image" if self.declared["per_sample"] else "a data set",
            "cost of one map": self._cost(in_full=True) or "not counted",
        }

    def _cost(self, *, in_full: bool = False) -> str:
        """Forward passes at each size, once where they are equal, and maps of the method."""
        texts = [_cost_text(each, in_full=in_full) for each in self.costs]
        if len(set(texts)) <= 1:
            return "".join(texts[:1])
        sized = zip(texts, self.costs, strict=True)
        return ", ".join(f"{text} ({each.side} x {each.side})" for text, each in sized)

    def _headline(self) -> pd.DataFrame:
        """Agreement and swap contrast with their intervals."""
        assert self.trial is not None
        table = self.trial.headline()
        return table[table["what"] != "drop"].drop(columns=["axis", "dose"], errors="ignore")

    def _trial_row(self) -> dict[str, float]:
        """Agreement and swap contrast with both ends of their intervals."""
        table = self._headline().set_index("what")
        return {
            f"{what.replace('swap ', '')}{end}": float(table.loc[what, column])
            for what in table.index
            for end, column in (("", "value"), ("_low", "low"), ("_high", "high"))
        }


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

        Columns: metric, better, range, cost (forward passes for one map), faults, verdict, agreement
        and contrast (with `_low` and `_high`), drops_at (the smallest dose of each axis at which the
        agreement falls by its interval), cannot_see, not_examined.
        """
        table = pd.DataFrame([each.row() for each in self.cards])
        last = ["drops_at", "cannot_see", "not_examined"]
        return table[[*(name for name in table if name not in last), *last]]

    def shown(self) -> pd.DataFrame:
        """The same in fewer columns, each interval behind its value."""
        table = self.to_frame()
        for name in ("agreement", "contrast"):
            ends = [f"{name}_low", f"{name}_high"]
            if name in table:
                numbers = table[[name, *ends]].itertuples(index=False)
                table[name] = [_interval(CorrelationInterval(*each)) for each in numbers]
                table = table.drop(columns=ends)
        table["faults"] = ["" if math.isnan(each) else f"{each:.0f}" for each in table["faults"]]
        table["verdict"] = table["verdict"].replace("", NOT_TRIED)
        return table.drop(columns="not_examined")

    def save(self, folder: str | Path) -> list[Path]:
        """Write the page ``index.html`` with the one table, ``table.csv``, and a page for each card.

        Returns
        -------
        list of Path
            What was written, the index first.
        """
        folder = make_folder(folder)
        names = {each.metric: f"{each.metric}.html" for each in self.cards}
        table = self.shown()
        links = [
            Markup('<a href="{}">{}</a>').format(names[name], name) for name in table["metric"]
        ]
        table["metric"] = pd.Series(links, dtype=object)
        gap = r"(?:(?<=\w)|(?<=\d,)) (?=[x\d-])"  # in an interval, a size, an axis with its dose
        for name in table.columns.intersection(["cost", "agreement", "contrast", "drops_at"]):
            table[name] = table[name].str.replace(gap, "\N{NO-BREAK SPACE}", regex=True)
        page = study_page("Metrics", NOTES, {}, {"All metrics": table}, self.command)
        write_atomically(folder / INDEX, page)
        write_csv(folder / TABLE, self.to_frame())
        for each in self.cards:
            each.save(folder / names[each.metric])
        return [folder / INDEX, folder / TABLE, *(folder / name for name in names.values())]


NOT_TRIED = "not tried"
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


def as_markdown(table: pd.DataFrame) -> str:
    """A table as Markdown, numbers to three digits."""
    rows = [[str(name).replace("_", " ") for name in table], ["---"] * len(table.columns)]
    rows += [[_cell(value) for value in row] for row in table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(value: Any) -> str:
    text = f"{value:.3g}" if isinstance(value, float) else printable(str(value))
    return "" if text == "nan" else text.replace("|", "\\|")


def _told(table: pd.DataFrame) -> pd.DataFrame:
    """A table that says where it has no number."""
    return table.astype(object).where(table.notna(), "undefined")


def _words(value: Any) -> str:
    """A declared value in words."""
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return "not said" if value is None else {True: "yes", False: "no"}.get(value, str(value))


def _interval(found: CorrelationInterval) -> str:
    if math.isnan(found.value):
        return ""
    if math.isnan(found.low):
        return f"{found.value:.2f}"
    return f"{found.value + 0.0:.2f} [{found.low + 0.0:.2f}, {found.high + 0.0:.2f}]"


def _cost_text(cost: Cost, *, in_full: bool) -> str:
    """Forward passes, and maps of the method where there are some."""
    calls = f" in {cost.calls} call{'s' * (cost.calls > 1)}" * bool(cost.calls)
    asked = f"{cost.passes:,}" + f" forward passes{calls}" * in_full
    asked = asked if cost.passes or not cost.maps else ""
    made = f"{cost.maps} maps of the method" if cost.maps else ""
    return ", ".join(filter(None, (asked, made)))
