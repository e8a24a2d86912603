"""Tables 2 to 6 and figures 9, 18, 20 and 21: do perturbation metrics rank methods as the truth does?

One run of an environment yields its table of ranks, areas, correlations and curves; items that share
environments share a run, and each shows its own part first.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from attributionlab.papers.attributionlab.comparison_plan import environment_of
from attributionlab.papers.attributionlab.paper_ranks import METRICS, RANKS
from attributionlab.papers.attributionlab.perturbation_findings import Subject, findings
from attributionlab.papers.attributionlab.perturbation_study import Study, constant_by_ties, study
from attributionlab.papers.attributionlab.perturbation_tables import (
    COLORS,
    FROM_BASELINE,
    MODULO,
    SIGNED,
    UNIFORM,
    WITHOUT,
    areas_table,
    correlations_table,
    curves_table,
    images_table,
    means_table,
    ranks_table,
    scores_table,
    summary_table,
    ties_table,
    two_by_two_table,
)
from attributionlab.papers.reproduction import Reproduction
from attributionlab.progress import track
from attributionlab.report import CurvePanel, curves_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Item(NamedTuple):
    """What is asked for.

    Parameters
    ----------
    title : str
        What it shows.
    environments : tuple of str
        Where it is measured.
    subject : str
        What its findings are about first.
    tables : tuple of str
        Which of all tables the terminal shows.
    metrics : tuple of str
        Which its figure shows.
    """

    title: str
    environments: tuple[str, ...]
    subject: Subject
    tables: tuple[str, str]
    metrics: tuple[str, ...] = METRICS


RANKED = ("ranks", "summary")
SENSITIVITY = ("sensitivity_n", "summary")
ITEMS = {
    "table-2": Item(
        "Rank correlations of three metrics with the truth, 2 x 2",
        (COLORS, WITHOUT, UNIFORM),
        "ranks",
        ("two-by-two", "summary"),
    ),
    "table-3": Item("Ranks of methods in single-color-modulo", (MODULO,), "ranks", RANKED),
    "table-4": Item(
        "Insertion and Deletion AUC in single-color-modulo", (MODULO,), "areas", ("areas", "ties")
    ),
    "table-5": Item("Ranks of methods in multi-color-sum", (COLORS,), "ranks", RANKED),
    "table-6": Item(
        "Ranks of methods in both readings of appendix I", (WITHOUT, UNIFORM), "ranks", RANKED
    ),
    "figure-9": Item(
        "Insertion curves with and without the Unseen Data Effect",
        (COLORS, WITHOUT, UNIFORM),
        "insertion",
        ("insertion", "summary"),
        ("insertion",),
    ),
    "figure-18": Item(
        "Sensitivity-N in single-color-modulo",
        (MODULO,),
        "sensitivity_n",
        SENSITIVITY,
        ("sensitivity_n",),
    ),
    "figure-20": Item(
        "Sensitivity-N in multi-color-sum",
        (COLORS,),
        "sensitivity_n",
        SENSITIVITY,
        ("sensitivity_n",),
    ),
    "figure-21": Item(
        "Sensitivity-N in both readings of appendix I",
        (WITHOUT, UNIFORM),
        "sensitivity_n",
        SENSITIVITY,
        ("sensitivity_n",),
    ),
}
AXES = {
    "insertion": ("Insertion", "fraction of pixels inserted", "{} (higher is better)"),
    "deletion": ("Deletion", "fraction of pixels removed", "{} (lower is better)"),
    "sensitivity_n": ("Sensitivity-N", "pixels removed (N)", "correlation (higher is better)"),
}
EFFECTS = {
    COLORS: "\nwith the Unseen Data Effect",
    WITHOUT: "\nno Unseen Data Effect: no redundant channels",
    UNIFORM: "\nwith the effect: redundant channels, uniform weights",
}
"""What an environment stands for in the paper."""
CORRELATIONS = (
    "rank correlation of each metric with F1 on that part of the truth, and its 95 % interval; paper: "
    "Insertion, Deletion, Sensitivity-N"
)
RUNS = "; lowest, highest: of several runs of a method that optimizes"
NOTES = {
    "two-by-two": CORRELATIONS,
    "summary": CORRELATIONS,
    "ranks": (
        "1 is best; methods with equal scores share the mean of their ranks; F1 is of the truth that "
        "the paper's table is about; 'paper': its rank" + RUNS
    ),
    "areas": (
        "Insertion: higher is better, Deletion: lower is better; 'paper': its area; 'magnitude': the "
        "map without its signs" + RUNS
    ),
    "ties": "areas of a map that is 1 everywhere, by the order of its equal values",
    "insertion": "mean area under the curve by environment; higher is better" + RUNS,
    "sensitivity_n": "mean correlation over all N with one, by environment; higher is better"
    + RUNS,
}


def perturbation_tables(
    item: str, *, n: int | None, quick: bool, seed: int = 0, show_progress: bool = False
) -> Reproduction:
    """Insertion, Deletion and Sensitivity-N beside the truth's F1, for the methods of the paper.

    Parameters
    ----------
    item : str
        A name in `ITEMS`.
    n : int, optional
        Images of each environment; 4, or 2 in a quick run, by default.
    quick : bool
        Images of 72 x 72 pixels, and not every N of Sensitivity-N.
    seed : int
        Of images, methods, draws and intervals.
    show_progress : bool
        Show progress on standard error.
    """
    asked = ITEMS[item]
    names = asked.environments
    n = n or (2 if quick else 4)
    studies = []
    for name in names:
        methods = [*RANKS[name].ranks, *([] if name == MODULO else FROM_BASELINE.values())]
        unsigned = SIGNED if name == MODULO else ()

        def shown(methods: Sequence[str], name: str = name) -> Iterator[str]:
            title = f"{item} on {name}"
            return track(methods, len(methods), title, show_progress, "methods", str)

        env = environment_of(name, quick)
        studies.append(study(env, methods, n, seed, unsigned=unsigned, quick=quick, track=shown))
    correlations = correlations_table(studies, seed)
    tables = {
        "summary": summary_table(correlations),
        "ranks": ranks_table(studies),
        "insertion": means_table(studies, "insertion"),
        "sensitivity_n": means_table(studies, "sensitivity_n"),
        "scores": scores_table(studies),
        "correlations": correlations,
        "images": images_table(studies),
        "curves": curves_table(studies),
    }
    ties = None
    if names == (MODULO,):
        ties = constant_by_ties(studies[0].env, n, seed)
        tables |= {"areas": areas_table(studies[0]), "ties": ties_table(ties)}
    if {COLORS, WITHOUT} <= set(names):
        tables["two-by-two"] = two_by_two_table(correlations)
    return Reproduction(
        item,
        asked.title,
        {name: tables[name] for name in dict.fromkeys([*asked.tables, *tables])},
        {"curves": _figure(studies, asked, seed)},
        findings(asked.subject, studies, correlations, ties),
        {name: NOTES[name] for name in asked.tables},
    )


def _figure(studies: Sequence[Study], asked: Item, seed: int) -> "Figure":
    """A row for each environment and a column for each metric; one row for a single metric."""
    rows = []
    for each in studies:
        output = "share of counted pixels found" if each.env.counting.modulus else "probability"
        row = []
        for metric in asked.metrics:
            name, xlabel, ylabel = AXES[metric]
            curves = dict(zip(each.methods, each.curves[metric], strict=True))
            effect = EFFECTS.get(each.env.name, "")
            labels = (f"{name}, {each.env.name}{effect}", xlabel, ylabel.format(output))
            row.append(CurvePanel(*labels, each.points[metric], curves))
        rows.append(row)
    if len(asked.metrics) == 1:
        rows = [[panel for row in rows for panel in row]]
    side, images = studies[0].env.recipe.image_size, len(studies[0].counted)
    count = "1 image" if images == 1 else f"{images} images"
    return curves_figure(rows, f"{asked.title}: {side} x {side} pixels, {count}, seed {seed}")
