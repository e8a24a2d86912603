"""What the tables of soco-table-1 say, in sentences."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from attributionlab.papers.soco.modifications.curves import BY_ORDER, BY_VALUE, UNCLIPPED

if TYPE_CHECKING:
    import pandas as pd

PAPER = {
    "Completeness": (0.503, 0.112),
    "Soundness": (0.183, 0.046),
    "Deletion": (0.019, 0.011),
    "ROAD": (0.014, 0.009),
}
"""Table 1: means and standard deviations (VGG16, ImageNet)."""
Tables = Mapping[str, "pd.DataFrame"]


def findings_of(tables: Tables, images: Mapping[str, int]) -> list[str]:
    """Sentences computed from the tables of `soco_modifications`, and how many images were used."""
    said = ", ".join(f"{name} {mean:.3f} ± {sd:.3f}" for name, (mean, sd) in PAPER.items())
    return [
        f"The paper (VGG16, ImageNet, accuracy; 5,000 images; mean ± standard deviation): {said}.",
        *_measured(tables["distances"], images),
        *_message(tables["differences"]),
        *_twice(tables["pairs"]),
        *_saturated(tables["curves"]),
        _schemes(tables["pairs"]),
        _nearest(tables["pairs"]),
        *_order(tables["pairs"], tables["changes"]),
    ]


def _measured(table: "pd.DataFrame", images: Mapping[str, int]) -> Iterator[str]:
    for (subject, indicator), here in table.groupby(["subject", "indicator"], sort=False):
        values = ", ".join(
            f"{row.metric} {row.mean:.3f} ± {row.sd:.3f}" for row in here.itertuples()
        )
        cases = sorted(set(here.cases))
        counted = f"{cases[0]}" if len(cases) == 1 else f"{cases[0]} to {cases[-1]}"
        yield (
            f"{subject}, {indicator} on {images[str(subject)]} images (± is the standard deviation "
            f"over {counted} cases, each a method and a scheme): {values}."
        )


def _message(table: "pd.DataFrame") -> Iterator[str]:
    """Whether metrics of values are ahead of those of order in the same cases."""
    for (subject, indicator), here in table.groupby(["subject", "indicator"], sort=False):
        said = ", ".join(
            f"{row.metric} - {row.against} {row.difference:.3f} ({row.low:.3f} to {row.high:.3f})"
            for row in here.itertuples()
        )
        ahead = [name for name in BY_VALUE if (here[here.metric == name].low > 0).all()]
        outcome = (
            "both are farther apart than those of order, as in the paper's table"
            if len(ahead) == len(BY_VALUE)
            else f"{ahead[0]} alone is farther apart than those of order"
            if ahead
            else "neither is clearly farther apart than those of order, unlike in the paper's table"
        )
        yield (
            f"{subject}, {indicator}: differences case by case and their 95 % intervals: {said}. Of "
            f"the metrics of values {outcome}."
        )


def _twice(pairs: "pd.DataFrame") -> Iterator[str]:
    """Where Deletion and ROAD are one measurement."""
    here = pairs[(pairs.scheme != UNCLIPPED) & pairs.metric.isin(BY_ORDER)]
    keys = ["subject", "indicator", "method", "scheme"]
    for subject, of_subject in here.groupby("subject", sort=False):
        wide = of_subject.set_index([*keys, "metric"]).smallest.unstack("metric")
        same = int((wide[BY_ORDER[0]] == wide[BY_ORDER[1]]).sum())
        yield (
            f"{subject}: Deletion (black) and ROAD have the same distance in {same} of {len(wide)} "
            "cases and indicators"
            + (", so that they are one measurement." if same == len(wide) else ".")
        )


def _schemes(pairs: "pd.DataFrame") -> str:
    """Mean smallest distances by scheme."""
    here = pairs[pairs.scheme != UNCLIPPED]
    means = here.pivot_table(index="scheme", columns="metric", values="smallest", sort=False)
    parts = [
        f"{scheme}: " + ", ".join(f"{name} {row[name]:.3f}" for name in (*BY_VALUE, *BY_ORDER))
        for scheme, row in means.iterrows()
    ]
    return f"By scheme, over all networks and indicators: {'; '.join(parts)}."


def _saturated(curves: "pd.DataFrame") -> Iterator[str]:
    """Where soundness at a level can tell nothing apart, and whether the first step is the reason."""
    clipped = curves[curves.scheme != UNCLIPPED]
    keys = ["subject", "method", "scheme", "indicator", "map"]
    levels = clipped[clipped.metric == "Soundness"].groupby(keys, sort=False)
    steps = clipped[clipped.metric == "Soundness, every step"].groupby(keys, sort=False)
    flat = levels.y.min() == 1
    at_once = flat & (levels.x.max() <= steps.x.first().reindex(flat.index))
    for subject, of_subject in flat.groupby("subject", sort=False):
        yield (
            f"{subject}: soundness is 1 at every level that is reached in {int(of_subject.sum())} of "
            f"{len(of_subject)} curves; in {int(at_once[of_subject.index].sum())} the first step "
            "reaches all of these levels, and is credited with all that it adds."
        )


def _nearest(pairs: "pd.DataFrame") -> str:
    """Which pair decides, and where it lies on the original."""
    clipped = pairs[pairs.scheme != UNCLIPPED]
    names = [name for name in clipped if " - " in name]
    parts = []
    for metric in (*BY_VALUE, *BY_ORDER):
        here = clipped[(clipped.metric == metric) & clipped.smallest.notna()]
        nearest = here[names].idxmin(axis=1).value_counts()
        zero = int((here.smallest == 0).sum())
        parts.append(
            f"{metric} by {nearest.index[0]} in {nearest.iloc[0]} of {len(here)} cases, 0 in {zero}"
        )
    return (
        "The smallest of three distances is decided by the pair that a metric tells apart worst: "
        f"{'; '.join(parts)}. A metric may see one modification well and still come out near 0."
    )


def _order(pairs: "pd.DataFrame", changes: "pd.DataFrame") -> Iterator[str]:
    """Constant shifts that are not clamped leave the order, and so every metric of order, as it was."""
    free = pairs[pairs.scheme == UNCLIPPED]
    names = [name for name in pairs if " - " in name]
    largest = float(free[free.metric.isin(BY_ORDER)][names].max().max())
    exactly = (
        "exactly 0, as they must be"
        if largest == 0
        else f"up to {largest:.3f}, since rounding ties values that differ by very little"
    )
    values = ", ".join(
        f"{metric} {free[free.metric == metric]['Original - Introduce'].mean():.3f}"
        for metric in BY_VALUE
    )
    yield (
        "Only a constant shift that is not clamped leaves the order as it is. There the distances of "
        f"ROAD and Deletion are {exactly}; those of Original and Introduce are, on average, {values}. "
        "(Remove would leave negative values, for which neither is defined.)"
    )
    clamped = pairs[(pairs.scheme == "constant") & pairs.metric.isin(BY_ORDER)]
    constant = changes[changes.scheme == "constant"].groupby("direction").mean(numeric_only=True)
    kept = changes.groupby("scheme", sort=False).rank_correlation.mean()
    yield (
        f"Clamped to [0, 1], {constant.at_0['Remove']:.0%} of the pixels become 0 (Remove) and "
        f"{constant.at_1['Introduce']:.0%} become 1 (Introduce); tied pixels are removed in reading "
        f"order, and ROAD and Deletion differ by up to {clamped[names].max().max():.3f} between two "
        "maps. Rank correlations with the original are "
        + ", ".join(f"{scheme} {value:.2f}" for scheme, value in kept.items())
        + ": the modifications change the order, too, and metrics of order see that."
    )
