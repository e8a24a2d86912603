"""Ranks, areas, correlations and curves of perturbation metrics, the paper's beside ours."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata

from attributionlab.metric_trials.agreement import RankedBy, mean_over_images
from attributionlab.papers.attributionlab.paper_ranks import AREAS, METRICS, RANKS
from attributionlab.papers.attributionlab.perturbation_study import Numbers, Study, magnitude_of
from attributionlab.papers.attributionlab.ranks_of_means import AgreementOfMeans
from attributionlab.stats.runs import OfRuns

if TYPE_CHECKING:
    import pandas as pd

MODULO, COLORS = "single-color-modulo", "multi-color-sum"
WITHOUT, UNIFORM = "multi-color-sum-in-distribution", "multi-color-sum-uniform"
SIGNED = ("occlusion", "integrated-gradients", "integrated-gradients-true-baseline")
"""Methods whose signs are at the mercy of a remainder, which falls by 29 once in 30 pixels."""
FROM_BASELINE = {name: f"{name}-true-baseline" for name in ("occlusion", "integrated-gradients")}
READINGS = {
    MODULO: {"magnitude": {name: magnitude_of(name) for name in SIGNED}, "signed": {}},
    **{
        name: {"black baseline": {}, "true baseline": FROM_BASELINE}
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
        paper = dict(zip(methods, printed.ranks.items(), strict=True))
        for label, ours, end in each.rows(methods):
            method, said = paper[ours]
            row: dict[str, Any] = {
                "environment": each.env.name,
                "method": label.replace(ours, method),
            }
            for name, theirs in zip(keys, said, strict=True):
                means, place, ranks = _means(each, keys[name], methods), methods.index(ours), []
                for run in each.in_run(keys[name], ours):
                    means[place] = _mean_of_run(run)
                    ranks.append(_ranks(means, HIGHER_IS_BETTER[name])[place])
                row |= {f"{name}_paper": theirs if label == ours else np.nan, name: end(ranks)}
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
            agreement = AgreementOfMeans(f1, CONFIDENCE, seed)
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


def _mean_of_run(of_images: Numbers) -> float:
    return float(mean_over_images(of_images[None].round(DECIMALS)).round(DECIMALS)[0])


def _ranks(means: Numbers, higher_is_better: bool) -> Numbers:
    """1 is best; equal scores share the mean of their ranks."""
    ranks: Numbers = rankdata(-means if higher_is_better else means)
    return ranks


def summary_table(correlations: "pd.DataFrame") -> "pd.DataFrame":
    """A row for each environment, truth and start: ours with its interval, and the paper's."""
    import pandas as pd

    rows = []
    for key, group in correlations.groupby(["environment", "truth", "maps"], sort=False):
        row = dict(zip(("environment", "truth", "maps"), key, strict=True))
        for line in group.itertuples():
            row[line.metric] = f"{line.ours:.2f} ({line.low:.2f}, {line.high:.2f})"
        said = [f"{number:.2f}" for number in group["paper"] if not np.isnan(number)]
        rows.append({**row, "paper": ", ".join(said)})
    return pd.DataFrame(rows)


def two_by_two_table(correlations: "pd.DataFrame") -> "pd.DataFrame":
    """Table 2 for either truth: with and without the Unseen Data Effect, ours beside the paper's."""
    import pandas as pd

    summary = summary_table(correlations)
    effects = {COLORS: "with", WITHOUT: "without"}
    first = summary["maps"] == next(iter(READINGS[COLORS]))
    rows = summary[first & summary["environment"].isin(effects)]
    chosen = [*METRICS, "paper"]
    effect = rows["environment"].map(effects)
    return pd.DataFrame({"unseen_data_effect": effect, "truth": rows["truth"]}).join(rows[chosen])


def means_table(studies: Sequence[Study], metric: str) -> "pd.DataFrame":
    """One metric by method, means over images, a column for each environment."""
    import pandas as pd

    columns = {
        each.env.name: pd.Series(
            {
                label: _end(each, metric, method, end)
                for label, method, end in each.rows(each.methods)
            }
        )
        for each in studies
    }
    return pd.DataFrame(columns).rename_axis("method").reset_index()


def _end(each: Study, score: str, method: str, end: OfRuns) -> float | None:
    """What a row takes of the means over images in each run."""
    return end([float(mean_over_images(run[None])[0]) for run in each.in_run(score, method)])


def scores_table(studies: Sequence[Study]) -> "pd.DataFrame":
    """Means over images; of a method that optimizes also the lowest and the highest of several runs."""
    import pandas as pd

    return pd.DataFrame(
        {
            "environment": each.env.name,
            "method": label,
            **{name: _end(each, name, method, end) for name in each.scores},
        }
        for each in studies
        for label, method, end in each.rows(each.methods)
    )


def images_table(studies: Sequence[Study]) -> "pd.DataFrame":
    """One row for each environment, method and image, as in `scores_table`."""
    import pandas as pd

    return pd.DataFrame(
        {
            "environment": each.env.name,
            "method": label,
            "sample": sample,
            **{
                name: end([float(run[sample]) for run in each.in_run(name, method)])
                for name in each.scores
            },
        }
        for each in studies
        for label, method, end in each.rows(each.methods)
        for sample in range(len(each.counted))
    )


def curves_table(studies: Sequence[Study]) -> "pd.DataFrame":
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


def areas_table(each: Study) -> "pd.DataFrame":
    """Table 4 beside ours, maps with and without their signs."""
    import pandas as pd

    printed = AREAS | {magnitude_of(name): AREAS[name] for name in SIGNED}
    rows = []
    for label, method, end in each.rows(list(printed)):
        row: dict[str, Any] = {"method": label}
        for name, theirs in zip(("insertion", "deletion"), printed[method], strict=True):
            ours = end([_mean_of_run(run) for run in each.in_run(name, method)])
            row |= {f"{name}_paper": theirs if label == method else np.nan, name: ours}
        rows.append(row)
    return pd.DataFrame(rows)


def ties_table(ties: dict[str, tuple[float, float]]) -> "pd.DataFrame":
    """What a constant map scores, by how its ties are broken, the paper's numbers in the first row."""
    import pandas as pd

    rows = {"paper": AREAS["constant"], **ties}
    return pd.DataFrame(
        {"ties": name, "insertion": insertion, "deletion": deletion}
        for name, (insertion, deletion) in rows.items()
    )
