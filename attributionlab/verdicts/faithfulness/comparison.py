"""Methods side by side: every method in every environment, on the same images."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from attributionlab.base import (
    GAMMA,
    LEAST_SHARE,
    AttributionLabError,
    Files,
    attributes,
    library_versions,
    mean_score,
    nearest,
    paired_difference,
    refuse_if,
    run_name,
)
from attributionlab.methods import figure_label, name_label
from attributionlab.metrics import Part
from attributionlab.show import PASS_RULE, VERDICTS, marked_verdict
from attributionlab.verdicts.faithfulness.protocol import protocol_entry
from attributionlab.verdicts.faithfulness.report import (
    SCORES,
    EnvironmentResult,
    FaithfulnessReport,
    gravest,
    not_excluded,
)
from attributionlab.worlds import Environment

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


MOST_PANELS = 3
"""Environments up to which a figure has a panel for each, with intervals: those of a row."""


@dataclass(frozen=True)
class Refusal:
    """A method that could not be run in an environment, and why."""

    method: str
    environment: str
    reason: str


@dataclass(frozen=True, eq=False)
class Comparison(Files):
    """What several methods scored in several environments.

    - `reports`: one for each method and environment that could be run.
    - `refusals`: the others.
    - `environments`: where.
    - `command`: how to run it again.
    - `seed_drawn`: whether the seed was drawn for this comparison ("fresh") and not given.
    - `changed`: what differs from the protocol (`attributionlab.verdicts.faithfulness.protocol`).
    """

    reports: list[FaithfulnessReport]
    refusals: list[Refusal]
    environments: list[Environment]
    command: str
    seed_drawn: bool = False
    changed: Sequence[str] = ()

    @property
    def seed(self) -> int:
        """Which questions."""
        return self.reports[0].seed

    @property
    def places(self) -> dict[str, str]:
        """Each environment's name by the digest of its specification, with the constants that
        distinguish environments of the same name.
        """
        found = {env.spec.digest: (env.name, env.spec) for env in self.environments}
        alike = Counter(name for name, _ in found.values())
        labels = {}
        for digest, (name, spec) in found.items():
            others = [each.constants for own, each in found.values() if own == name]
            differing = [
                f"{key}={value}"
                for key, value in spec.constants.items()
                if any(other.get(key) != value for other in others)
            ]
            labels[digest] = name if alike[name] == 1 else f"{name} ({', '.join(differing)})"
        return labels

    @property
    def not_excluded(self) -> dict[str, list[str]]:
        """For each method, with its settings, what its claim requires but none of these environments
        hides: a pass is then written "pass?". Empty if the user asked for one network.
        """
        found: dict[str, list[EnvironmentResult]] = {}
        claims = {report.label: report.claim for report in self.reports}
        for report, result in self.results:
            found.setdefault(report.label, []).append(result)
        if self.reports[0].one_network:
            return {label: [] for label in found}
        return {label: not_excluded(each, claims[label]) for label, each in found.items()}

    @property
    def results(self) -> list[tuple[FaithfulnessReport, EnvironmentResult]]:
        """Every report with its one environment's result."""
        return [(report, result) for report in self.reports for result in report.environments]

    def to_frame(self) -> "pd.DataFrame":
        """One row for each method, environment and part. Methods that optimize also have rows for their
        lowest and highest scores over several runs, with their own names and no verdict.

        Columns: method, environment, spec, output, truth_output, part, precision, recall, f1 (means
        over images, NaN where not applicable), f1_low, f1_high (its 95 % interval), reaches_gamma (the
        paper's criterion for the mean), claim, verdict, solved and asked (questions), not_excluded (as
        the property, or "nothing"; not where all images have one network), completeness_gap (the
        median), seconds_per_image, n, seed; with equivalent networks also robustness ("robust",
        "depends on the implementation", "undecided", or None), lowest_form and lowest_form_f1 (of the
        claim).
        """
        import pandas as pd

        rows: list[dict[str, Any]] = []
        doubted, one = self.not_excluded, self.reports[0].one_network
        for report, result in self.results:
            keys = {
                "method": report.label,
                "environment": self.places[result.digest],
                "spec": result.digest[:8],
                "output": result.output,
                "truth_output": result.truth_output,
            }
            for part in result.scores:
                f1, interval = result.mean(part, "f1"), result.intervals[part]["f1"]
                rows.append(
                    {
                        **keys,
                        "part": part,
                        **{score: result.mean(part, score) for score in SCORES},
                        "f1_low": None if interval is None else interval.low,
                        "f1_high": None if interval is None else interval.high,
                        "reaches_gamma": None if f1 is None else f1 >= GAMMA,
                        "claim": report.claim,
                        "verdict": result.verdict,
                        **result.count._asdict(),
                        **(
                            {}
                            if one
                            else {"not_excluded": ", ".join(doubted[report.label]) or "nothing"}
                        ),
                        "completeness_gap": result.median_gap,
                        "seconds_per_image": result.seconds,
                        "n": report.n,
                        "seed": report.seed,
                        **_lowest(result),
                    }
                )
            for end in result.spread():
                method = f"{report.label}, {end['of']}"
                rows += [
                    {
                        **keys,
                        "method": method,
                        "part": part,
                        **(end[part] or {}),
                        "claim": report.claim,
                        "n": end["images"],
                        "seed": report.seed,
                    }
                    for part in result.scores
                ]
        numbers = (*SCORES, "f1_low", "f1_high", "completeness_gap", "seconds_per_image")
        types = {**dict.fromkeys(numbers, float), "reaches_gamma": "boolean"}
        types |= dict.fromkeys(("solved", "asked"), "Int64")
        return pd.DataFrame(rows).astype(types)

    def summary(self) -> "pd.DataFrame":
        """One row for each method and environment: overall precision, recall and F1, F1 of the positive
        and negative part, completeness gap, questions solved and asked, and the verdict on the claim;
        methods that optimize have rows for other runs, as in `to_frame`. "pass?": see `not_excluded`.
        """
        import pandas as pd

        signs, doubted = ("positive", "negative"), self.not_excluded
        rows: list[dict[str, Any]] = []
        for report, result in self.results:
            keys = {
                "environment": self.places[result.digest],
                "method": report.label,
                "output": result.output,
            }
            rows.append(
                {
                    **keys,
                    **{score: result.mean("overall", score) for score in SCORES},
                    **{f"f1_{part}": result.mean(part, "f1") for part in signs},
                    "gap": result.median_gap,
                    "claim": report.claim,
                    "claim_f1": result.claim_f1,
                    "solved": result.count.solved,
                    "asked": result.count.asked,
                    "verdict": marked_verdict(result.verdict, doubted[report.label]),
                }
            )
            rows += [
                {
                    **keys,
                    "method": f"{report.label}, {end['of']}",
                    **(end["overall"] or {}),
                    **{f"f1_{part}": (end[part] or {}).get("f1") for part in signs},
                    "claim": report.claim,
                    "claim_f1": (end[result.claim_part] or {}).get("f1"),
                    "verdict": "",
                }
                for end in result.spread()
            ]
        numbers = (*SCORES, "f1_positive", "f1_negative", "gap")
        types = {**dict.fromkeys(numbers, float), **dict.fromkeys(("solved", "asked"), "Int64")}
        return pd.DataFrame(rows).astype(types)

    def paper_table(self) -> "pd.DataFrame":
        """A table for a paper: one row for each method.

        Columns: method, one column "environment, implementation" each (questions solved; "14/16" if not
        all of the `n` questions apply; "not run" if the method was refused), claim (if claims differ),
        and the overall verdict ("pass?": see `not_excluded`; no pass where a column was not run). Its
        caption is in ``attrs["caption"]``: protocol, seed, number of questions, size and version.

        Examples
        --------
        >>> import attributionlab as al
        >>> env = al.load("multi-color-sum", image_size=24)
        >>> found = al.compare(["sobel"], env, n=2, one_network=True)
        >>> list(found.paper_table())
        ['method', 'multi-color-sum, paper', 'verdict']
        """
        import pandas as pd

        columns = self._columns()
        doubted, rows = self.not_excluded, dict[str, dict[str, str]]()
        verdicts: dict[str, set[str]] = {}
        for report, result in self.results:
            row = rows.setdefault(report.label, {"method": report.label, "claim": report.claim})
            solved, asked = result.count.solved, result.count.asked
            row[columns[result.digest]] = f"{solved}/{asked}" if asked < report.n else f"{solved}"
            verdicts.setdefault(report.label, set()).add(result.verdict)
        for label, row in rows.items():
            if not row.keys() >= set(columns.values()):  # where it was not run it has not passed
                verdicts[label].add("inconclusive")
            row["verdict"] = marked_verdict(gravest(verdicts[label]), doubted[label])
        claims = {row["claim"] for row in rows.values()}
        names = ["method", *columns.values(), *["claim"] * (len(claims) > 1), "verdict"]
        table = pd.DataFrame(rows.values(), columns=names).fillna("not run")
        table.attrs["caption"] = self.caption
        return table

    def _columns(self) -> dict[str, str]:
        """ "environment, implementation" of each digest."""
        columns: dict[str, str] = {}
        for _, result in self.results:
            place = self.places[result.digest].partition(" (")[0]
            column = f"{place}, {result.implementation}"
            if column in columns.values():
                column = f"{self.places[result.digest]}, {result.implementation}"
            columns.setdefault(result.digest, column)
        return columns

    @property
    def caption(self) -> str:
        """The caption of a table of these results: protocol, seed, n, size, version."""
        unseen = sorted({thing for things in self.not_excluded.values() for thing in things})
        doubts = (
            f" A pass marked ? does not show that a method sees: {', '.join(unseen)}."
            if unseen
            else ""
        )
        return (
            f"Questions solved of {self.reports[0].n} per column. A method passes if {PASS_RULE} in "
            f"every column. {self.setting}.{doubts}"
        )

    @property
    def setting(self) -> str:
        """Version, protocol, claims, seed and environments, for a caption or a citation."""
        protocol = protocol_entry(self.changed)
        changed = f", changed: {', '.join(protocol['changed'])}" if protocol["changed"] else ""
        return (
            f"AttributionLab {library_versions()['attributionlab']}, {protocol['name']} "
            f"({protocol['sha256'][:6]}{changed}), {self._claims}, seed {self.seed}, {self._scope}"
        )

    def differences(self, first: str, second: str) -> "pd.DataFrame":
        """How much one method's F1 exceeds another's on the same images, by environment and part.

        Columns: environment, part, mean (of first minus second over the images to which both apply),
        low, high (its 95 % interval), images, better ("first", "second", or None where the interval
        contains 0).

        Parameters
        ----------
        first, second : str
            Methods as `to_frame` names them, with their settings.

        Raises
        ------
        AttributionLabError
            If one of them was not run, or they share no environment.
        """
        import pandas as pd

        found = {(report.label, result.digest): result for report, result in self.results}
        names = list(dict.fromkeys(report.label for report in self.reports))
        unknown = [name for name in (first, second) if name not in names]
        refuse_if([f"no method {name!r} was run: {nearest(str(name), names)}" for name in unknown])
        seed = self.reports[0].seed
        rows = []
        for digest, place in self.places.items():
            pair = [found.get((name, digest)) for name in (first, second)]
            one, other = pair
            if one is None or other is None:
                continue
            for part in get_args(Part):
                if one.mean(part, "f1") is None or other.mean(part, "f1") is None:
                    continue
                f1 = [result.scores[part]["f1"] for result in (one, other)]
                difference = paired_difference(f1[0], f1[1], seed)
                if difference.images > 1:
                    rows.append({"environment": place, "part": part, **difference._asdict()})
        if not rows:
            raise AttributionLabError(
                f"{first} and {second} have no two images of an environment in common: compare methods "
                "that both ran in one environment, with n of at least 2"
            )
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """The document that `to_json` writes: everything except the maps."""
        return {
            "schema": 3,
            "one_network": self.reports[0].one_network,
            "seed_drawn": self.seed_drawn,
            "protocol": protocol_entry(self.changed),
            "not_excluded": self.not_excluded,
            "results": [
                {
                    "method": report.label,
                    **attributes(report, "claim", "n", "seed", "preset"),
                    "source": dict(report.source),
                    "environment": self.places[result.digest],
                    **result.to_dict(),
                    "warnings": report.warnings,
                }
                for report, result in self.results
            ],
            "refused": [vars(refusal) for refusal in self.refusals],
            "command": self.command,
            "versions": library_versions(),
        }

    def forms(self) -> "Figure":
        """The claim's F1 of each method on the plain networks and on the worst equivalent
        implementation.

        Raises
        ------
        AttributionLabError
            If there are none: run `compare` with ``also="equivalent"``.
        """
        import pandas as pd

        from attributionlab.show import dots

        rows = []
        for report, result in self.results:
            if result.robustness is None or (lowest := result.robustness.lowest) is None:
                continue
            keys = {"environment": self.places[result.digest]}
            keys["method"] = figure_label(report.label)
            rows += [
                {**keys, "networks": "plain", "F1 of the claim": result.claim_f1},
                {**keys, "networks": "lowest of equal ones", "F1 of the claim": lowest.f1},
            ]
        if not rows:
            raise AttributionLabError(
                "no method was run on equivalent networks: add 'equivalent' (--also)"
            )
        return dots(
            pd.DataFrame(rows),
            "F1 of the claim",
            "method",
            color="networks",
            panel="environment",
            title=f"Networks with identical outputs on every integer image: means of {self._scope}; "
            f"line: the paper's criterion, {GAMMA:g}",
            reference=GAMMA,
        )

    def figure(self, all_parts: bool = False) -> "Figure":
        """The share of questions solved: in up to three environments with its exact 95 % interval, a
        panel for each environment; in more as a table of numbers and colors, which stays small.

        Parameters
        ----------
        all_parts : bool
            Means of precision, recall and F1 of every part instead, with the spread of their values
            from eight images.
        """
        if all_parts:
            return self._parts_figure()
        few = len({result.digest for _, result in self.results}) <= MOST_PANELS
        return self._solved_figure() if few else self._solved_table()

    def _solved_table(self) -> "Figure":
        import pandas as pd

        from attributionlab.show import heat_map

        table, columns = self.paper_table(), self._columns()
        names = [name_label(label) for label in table["method"]]
        names = names if len({*names}) == len(names) else list(table["method"])
        rows = {
            label: f"{name}: {verdict}"
            for label, name, verdict in zip(table["method"], names, table["verdict"], strict=True)
        }
        shares = [
            {
                "method": rows[report.label],
                "column": columns[result.digest],
                "share": result.count.solved / max(1, result.count.asked),
            }
            for report, result in self.results
        ]
        return heat_map(
            pd.DataFrame(shares),
            *("column", "method", "share"),
            title=f"Share of questions solved ({self._claims}; {self._scope}). A method passes if "
            f"{PASS_RULE} in every column",
            label="share of questions solved (higher is better)",
            limits=(0, 1),
        )

    def _solved_figure(self) -> "Figure":
        import pandas as pd

        from attributionlab.show import dots

        doubted = self.not_excluded
        rows = []
        for report, result in self.results:
            low, high = result.count.interval or (np.nan, np.nan)
            rows.append(
                {
                    "method": figure_label(report.label),
                    "verdict": marked_verdict(result.verdict, doubted[report.label]),
                    "panel": self.places[result.digest],
                    "share": result.count.solved / max(1, result.count.asked),
                    "low": low,
                    "high": high,
                }
            )
        table = pd.DataFrame(rows)
        table["verdict"] = pd.Categorical(table["verdict"], VERDICTS)  # one color in every figure
        return dots(
            table,
            *("share", "method"),
            color="verdict",
            panel="panel",
            title=f"Share of questions solved ({self._claims}; {self._scope}), with exact 95 % "
            f"intervals; line: a pass needs the whole interval at {LEAST_SHARE:g} or above",
            xlabel="share of questions solved (higher is better)",
            reference=LEAST_SHARE,
            limits=(0, 1),
        )

    def _parts_figure(self) -> "Figure":
        import pandas as pd

        from attributionlab.show import dots

        rows = []
        for report, result in self.results:
            keys = {"method": figure_label(report.label)}
            for part in get_args(Part):
                if result.mean(part, "f1") is None:  # no such truth
                    continue
                for score in SCORES:
                    for index, run in enumerate([result.scores, *result.compared_runs[1:]]):
                        if part not in run or (mean := mean_score(run[part][score])) is None:
                            continue
                        interval = result.intervals[part][score] if index == 0 else None
                        shown = "F1" if score == "f1" else score
                        rows.append(
                            {
                                **keys,
                                "method": run_name(keys["method"], index),
                                "panel": f"{self.places[result.digest]}: {part}, {shown}",
                                "mean": mean,
                                "low": np.nan if interval is None else interval.low,
                                "high": np.nan if interval is None else interval.high,
                                "values": run[part][score],
                            }
                        )
        order = [f"{place}: {part}, {score}" for place in self.places.values()
                 for part in get_args(Part) for score in ("precision", "recall", "F1")]  # fmt: skip
        table = pd.DataFrame(rows).sort_values(
            "panel", key=lambda each: each.map(order.index), kind="stable"
        )
        return dots(
            table,
            *("mean", "method"),
            panel="panel",
            title=f"Precision, recall and F1: means of {self._scope}, with 95 % intervals; line: the "
            f"paper's criterion, {GAMMA:g}",
            xlabel="higher is better",
            reference=GAMMA,
            limits=(0, 1),
        )

    @property
    def _claims(self) -> str:
        names = list(dict.fromkeys(report.claim for report in self.reports))
        return f"claim{'s' * (len(names) > 1)} {', '.join(names)}"

    @property
    def _scope(self) -> str:
        """How many images, and their size."""
        sides = dict.fromkeys(
            f"{w} x {h}" for *_, h, w in [each.images.shape for _, each in self.results]
        )
        number = self.reports[0].n
        return f"{number} image{'s' * (number > 1)} of {' or '.join(sides)} pixels"

    def maps(self, images: int = 3) -> "Figure":
        """The first images of each environment with their truth and every method's attributions.

        Below a map: the F1 of its image that counts for the claim, and the verdict. The truth is that
        of the environment's default output; if a method was scored against another one, it is named.
        """
        from attributionlab.show import map_cell, map_grid, signless_legend, unasked_only, visible

        labels = dict.fromkeys(report.label for report in self.reports)
        rows: dict[str, list[Any]] = {"image": [], "ground truth": []}
        rows |= {figure_label(label): [] for label in labels}
        notes: dict[str, list[str]] = {figure_label(label): [] for label in labels}
        headings, signless, doubted = [], [], self.not_excluded
        for env in self.environments:
            found = {report.label: each for report, each in self.results
                     if each.digest == env.spec.digest}  # fmt: skip
            if not found:
                continue
            default = [each for each in found.values() if each.truth_output == env.outputs[0]]
            first = (default or list(found.values()))[0]
            for index in range(min(images, len(first.attributions))):
                here = {name: where[index] for name, where in first.signless.items()}
                here = {name: where for name, where in here.items() if where.any()}
                signless.append(here)
                headings.append(f"{self.places[env.spec.digest]}\nimage {index}")
                rows["image"].append(visible(first.images[index].astype(float), env.max_value))
                rows["ground truth"].append(map_cell(first.truth[index], here))
                for label in labels:
                    result, name = found.get(label), figure_label(label)
                    if result is None:
                        rows[name].append(None)
                        notes[name].append("")
                        continue
                    faint = bool(result.faint[index])
                    values = result.attributions[index]
                    rows[name].append(map_cell(values, unasked_only(here), faint))
                    verdict = marked_verdict(result.verdict, doubted[label])
                    note = f"F1 {result.lowest[index]:.2f}, {verdict}"
                    if result.truth_output != env.outputs[0]:
                        note += f"\ntruth of the {result.truth_output}"
                    notes[name].append(note)
        part = f"the first {images} of " if images < self.reports[0].n else ""
        return map_grid(
            rows,
            headings=headings,
            notes=notes,
            title=f"Attributions of {part}{self._scope} in each environment\n"
            f"F1: the lowest of the claim's parts ({self._claims}), in this image; verdict: on all",
            limits=(-1, 1),
            legend=signless_legend(signless),
        )


def _lowest(result: EnvironmentResult) -> dict[str, Any]:
    """What equivalent networks make of a result, as columns."""
    if result.robustness is None:
        return {}
    lowest = result.robustness.lowest
    return {
        "robustness": result.robustness.reading or None,
        "lowest_form": None if lowest is None else lowest.form,
        "lowest_form_f1": None if lowest is None else lowest.f1,
    }
