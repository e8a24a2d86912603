"""Tables 2 to 6 and figures 9, 18, 20 and 21: do perturbation metrics rank methods as the truth does?

One run of an environment yields its table of ranks, areas, correlations and curves; items that share
environments share a run.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata

from attributionlab.dose.agreement import Agreement, RankedBy, mean_over_images
from attributionlab.experiments.comparison_plan import environment_of
from attributionlab.experiments.paper_ranks import AREAS, METRICS, RANKS
from attributionlab.experiments.perturbation_findings import findings
from attributionlab.experiments.perturbation_study import (
    Numbers,
    Study,
    constant_by_ties,
    magnitude_of,
    study,
)
from attributionlab.experiments.reproduction import Reproduction
from attributionlab.progress import track
from attributionlab.report import CurvePanel, curves_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["ITEMS", "perturbation_tables"]

MODULO, COLORS = "single-color-modulo", "multi-color-sum"
WITHOUT, UNIFORM = "multi-color-sum-in-distribution", "multi-color-sum-uniform"

ITEMS = {
    "table-2": (
        "Rank correlations of three metrics with the truth, 2 x 2",
        (COLORS, WITHOUT, UNIFORM),
    ),
    "table-3": ("Ranks of methods in single-color-modulo", (MODULO,)),
    "table-4": ("Insertion and Deletion AUC in single-color-modulo", (MODULO,)),
    "table-5": ("Ranks of methods in multi-color-sum", (COLORS,)),
    "table-6": ("Ranks of methods in both readings of appendix I", (WITHOUT, UNIFORM)),
    "figure-9": (
        "Insertion curves with and without the Unseen Data Effect",
        (COLORS, WITHOUT, UNIFORM),
    ),
    "figure-18": ("Sensitivity-N in single-color-modulo", (MODULO,)),
    "figure-20": ("Sensitivity-N in multi-color-sum", (COLORS,)),
    "figure-21": ("Sensitivity-N in both readings of appendix I", (WITHOUT, UNIFORM)),
}
"""By item its title and where it is measured."""
SIGNED = ("occlusion", "integrated-gradients", "integrated-gradients-true-baseline")
"""Methods whose signs are at the mercy of a remainder, which falls by 29 once in 30 pixels."""
FROM_BASELINE = {name: f"{name}-true-baseline" for name in ("occlusion", "integrated-gradients")}
READINGS = {
    MODULO: {"magnitude": {name: magnitude_of(name) for name in SIGNED}, "signed": {}},
    **{
        name: {"from black": {}, "from the true baseline": FROM_BASELINE}
        for name in (COLORS, WITHOUT, UNIFORM)
    },
}
"""Which maps stand for the paper's methods, the likelier reading first. single-color-modulo: IG is
among the best of Table 4, which it is without its signs only. multi-color-sum: G.2 lists the true
baseline for Occlusion and IG, G.3 speaks of black, and IG is next to last by F1 in Table 5."""
HIGHER_IS_BETTER = {"f1": True, "insertion": True, "deletion": False, "sensitivity_n": True}
CONFIDENCE = 0.95
DECIMALS = 5
"""To which scores are rounded before they are ranked: what float32 maps make differ less is a tie."""
AXES = {
    "insertion": ("Insertion", "fraction of pixels inserted", "{} (higher is better)"),
    "deletion": ("Deletion", "fraction of pixels removed", "{} (lower is better)"),
    "sensitivity_n": ("Sensitivity-N", "pixels removed (N)", "correlation (higher is better)"),
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
    title, names = ITEMS[item]
    n = n or (2 if quick else 4)
    studies = []
    for name in names:
        methods = [*RANKS[name].ranks, *([] if name == MODULO else FROM_BASELINE.values())]
        unsigned = SIGNED if name == MODULO else ()

        def shown(methods: Sequence[str], name: str = name) -> Iterator[str]:
            return track(methods, len(methods), f"{item} on {name}", show_progress)

        env = environment_of(name, quick)
        studies.append(study(env, methods, n, seed, unsigned=unsigned, quick=quick, track=shown))
    correlations = correlations_table(studies, seed)
    tables = {
        "summary": _summary(correlations),
        "ranks": ranks_table(studies),
        "scores": _scores(studies),
        "correlations": correlations,
        "images": _images(studies),
        "curves": _curves(studies),
    }
    ties = None
    if names == (MODULO,):
        ties = constant_by_ties(studies[0].env, n, seed)
        tables |= {"areas": _areas(studies[0]), "ties": _ties(ties)}
    figures = {"curves": _figure(studies, title)}
    return Reproduction(item, title, tables, figures, findings(studies, correlations, ties))


def ranks_table(studies: Sequence[Study]) -> "pd.DataFrame":
    """The paper's ranks and ours, 1 the best.

    Columns: environment, method, and for F1 and each metric the paper's rank and ours. F1 is of the
    truth that the paper's table is about; maps are those of the first of `READINGS`.
    """
    import pandas as pd

    rows = []
    for each in studies:
        printed = RANKS[each.env.name]
        methods = _read(each, next(iter(READINGS[each.env.name])))
        keys = {"f1": f"f1_{printed.truth}", **{metric: metric for metric in METRICS}}
        places = {
            name: _ranks(_means(each, key, methods), HIGHER_IS_BETTER[name])
            for name, key in keys.items()
        }
        for index, (method, said) in enumerate(printed.ranks.items()):
            row: dict[str, Any] = {"environment": each.env.name, "method": method}
            for name, theirs in zip(places, said, strict=True):
                row |= {f"{name}_paper": theirs, name: places[name][index]}
            rows.append(row)
    return pd.DataFrame(rows)


def correlations_table(studies: Sequence[Study], seed: int) -> "pd.DataFrame":
    """Spearman correlation of each metric's ranking with that of F1.

    Columns: environment, truth (the masks of F1), maps (`READINGS`), metric, paper (as printed),
    of_printed_ranks, ours, low, high (its 95 % interval, images and methods drawn again).
    """
    import pandas as pd

    rows = []
    for each in studies:
        printed = RANKS[each.env.name]
        for reading in READINGS[each.env.name]:
            methods = _read(each, reading)
            parts: tuple[RankedBy, ...] = ("overall", "positive")
            f1: dict[str, Numbers] = {part: _of(each, f"f1_{part}", methods) for part in parts}
            agreement = Agreement(f1, CONFIDENCE, seed)
            found = {
                metric: agreement.of(_of(each, metric, methods), HIGHER_IS_BETTER[metric])
                for metric in METRICS
            }
            for part in parts:
                same = part == printed.truth
                numbers = (printed.correlations, printed.recomputed())
                for metric, said, recomputed in zip(METRICS, *numbers, strict=True):
                    ours, low, high = found[metric][part]
                    rows.append(
                        {
                            "environment": each.env.name,
                            "truth": part,
                            "maps": reading,
                            "metric": metric,
                            "paper": said if same else None,
                            "of_printed_ranks": recomputed if same else None,
                            "ours": ours,
                            "low": low,
                            "high": high,
                        }
                    )
    return pd.DataFrame(rows).astype({"paper": float, "of_printed_ranks": float})


def _read(each: Study, reading: str) -> list[str]:
    """The methods of a reading, in the order of the paper's."""
    others = READINGS[each.env.name][reading]
    return [others.get(name, name) for name in RANKS[each.env.name].ranks]


def _of(each: Study, score: str, methods: Sequence[str]) -> Numbers:
    """(methods, images)"""
    return each.scores[score][[each.methods.index(name) for name in methods]].round(DECIMALS)


def _means(each: Study, score: str, methods: Sequence[str]) -> Numbers:
    return mean_over_images(_of(each, score, methods)).round(DECIMALS)


def _ranks(means: Numbers, higher_is_better: bool) -> Numbers:
    """1 is best; equal scores share the mean of their ranks."""
    ranks: Numbers = rankdata(-means if higher_is_better else means)
    return ranks


def _summary(correlations: "pd.DataFrame") -> "pd.DataFrame":
    """A row for each environment, truth and start: ours with its interval, and the paper's."""
    import pandas as pd

    rows = []
    for key, group in correlations.groupby(["environment", "truth", "maps"], sort=False):
        row = dict(zip(("environment", "truth", "maps"), key, strict=True))
        for line in group.itertuples():
            row[line.metric] = f"{line.ours:.2f} ({line.low:.2f} to {line.high:.2f})"
        said = [f"{number:.2f}" for number in group["paper"] if not np.isnan(number)]
        rows.append({**row, "paper": ", ".join(said)})
    return pd.DataFrame(rows)


def _scores(studies: Sequence[Study]) -> "pd.DataFrame":
    """Means over images."""
    import pandas as pd

    return pd.DataFrame(
        {
            "environment": each.env.name,
            "method": method,
            **{name: mean_over_images(of)[index] for name, of in each.scores.items()},
        }
        for each in studies
        for index, method in enumerate(each.methods)
    )


def _images(studies: Sequence[Study]) -> "pd.DataFrame":
    """One row for each environment, method and image."""
    import pandas as pd

    return pd.DataFrame(
        {
            "environment": each.env.name,
            "method": method,
            "sample": sample,
            **{name: of[index, sample] for name, of in each.scores.items()},
        }
        for each in studies
        for index, method in enumerate(each.methods)
        for sample in range(len(each.counted))
    )


def _curves(studies: Sequence[Study]) -> "pd.DataFrame":
    """The curves as they are drawn: mean, least and largest over images."""
    import pandas as pd

    frames = []
    for each in studies:
        for metric, of_methods in each.curves.items():
            for method, curves in zip(each.methods, of_methods, strict=True):
                known = ~np.isnan(curves).all(0)
                drawn = curves[:, known]
                values = {
                    "x": each.points[metric][known],
                    "mean": np.nanmean(drawn, 0),
                    "low": np.nanmin(drawn, 0),
                    "high": np.nanmax(drawn, 0),
                }
                where = {"environment": each.env.name, "metric": metric, "method": method}
                frames.append(pd.DataFrame({**where, **values}))
    return pd.concat(frames, ignore_index=True)


def _areas(each: Study) -> "pd.DataFrame":
    """Table 4 beside ours, maps with and without their signs."""
    import pandas as pd

    printed = AREAS | {magnitude_of(name): AREAS[name] for name in SIGNED}
    ours = {name: _means(each, name, list(printed)) for name in ("insertion", "deletion")}
    return pd.DataFrame(
        {
            "method": method,
            "insertion_paper": insertion,
            "insertion": ours["insertion"][index],
            "deletion_paper": deletion,
            "deletion": ours["deletion"][index],
        }
        for index, (method, (insertion, deletion)) in enumerate(printed.items())
    )


def _ties(ties: dict[str, tuple[float, float]]) -> "pd.DataFrame":
    """What a constant map scores, by how its ties are broken, the paper's numbers in the first row."""
    import pandas as pd

    rows = {"paper": AREAS["constant"], **ties}
    return pd.DataFrame(
        {"ties": name, "insertion": insertion, "deletion": deletion}
        for name, (insertion, deletion) in rows.items()
    )


def _figure(studies: Sequence[Study], title: str) -> "Figure":
    """A row for each environment, a column for each metric."""
    rows = []
    for each in studies:
        output = "share of counted pixels found" if each.env.counting.modulus else "probability"
        rows.append(
            [
                CurvePanel(
                    f"{name}, {each.env.name}",
                    xlabel,
                    ylabel.format(output),
                    each.points[metric],
                    dict(zip(each.methods, each.curves[metric], strict=True)),
                )
                for metric, (name, xlabel, ylabel) in AXES.items()
            ]
        )
    images = len(studies[0].counted)
    return curves_figure(rows, f"{title}: means of {images} images, bands from least to largest")
