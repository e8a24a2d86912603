"""What the tables of `idsds_protocols` say, in sentences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attributionlab.assess import mean_interval
from attributionlab.experiments.idsds.protocols.construction import ENVIRONMENTS, Judged, dosed
from attributionlab.experiments.idsds.protocols.names import (
    ALIGNED_IDS,
    IDS,
    IDSDS,
    INTRINSIC,
    LEGEND,
    PARTS,
    SDS,
    UPDATED_IDS,
)
from attributionlab.experiments.idsds.protocols.setting import EXACT, STRENGTHS
from attributionlab.experiments.idsds.protocols.tables import ALL, EXPLAINABLE

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["findings_of"]

SAME = 1e-6
"""Mean probabilities that differ by less, in float32, do so by rounding."""
Tables = Mapping[str, "pd.DataFrame"]


def findings_of(
    tables: Tables, known: Sequence[Judged], modulo: NDArray[np.float64] | None
) -> list[str]:
    """Sentences computed from the tables.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Of `idsds_protocols`.
    known : sequence of Judged
        Of logits; empty for given networks.
    modulo : array, optional
        Of `modulo_scores`.
    """
    said = [
        *_protocols(tables["correlations"]),
        *_absolute(tables["absolute"]),
        *_updates(tables["scores"]),
    ]
    if "networks" in tables:
        said += [*_intrinsic(tables["scores"]), *_accuracies(tables["networks"])]
    if "agreement" in tables:
        said += [*_by_construction(known), *_agreement(tables["agreement"])]
        said += [*_above_the_truth(tables["scores"])]
    if modulo is not None:
        said.append(_modulo(modulo))
    if "properties" in tables:
        said += [*_properties(tables["properties"])]
    return [*said, *_constant(tables["scores"])]


def _protocols(table: "pd.DataFrame") -> Iterator[str]:
    """How far SDS and IDSDS rank methods alike."""
    for first, second in ((IDSDS, SDS), (IDSDS, IDS)):
        here = table[(table["first"] == first) & (table.second == second)]
        parts = [
            f"{row.place} {row.correlation:.2f} ({row.low:.2f} to {row.high:.2f}, {row.methods} "
            "methods)"
            for row in here.itertuples()
        ]
        if parts:
            yield (
                f"{first} and {second} rank methods alike by (Spearman, 95 % interval over methods; "
                f"'paper' is of the methods that we have too, the paper's own 0.89 of {IDSDS} and "
                f"{SDS} is of 19): {'; '.join(parts)}."
            )


def _absolute(table: "pd.DataFrame") -> Iterator[str]:
    """Whether raw maps beat absolute ones, by protocol."""
    for protocol, here in table.groupby("protocol", sort=False):
        if protocol not in (IDSDS, SDS, IDS, UPDATED_IDS, PARTS):
            continue
        parts = []
        for place, of_place in here.groupby("place", sort=False):
            raw, absolute = ((of_place.better == each).sum() for each in ("raw", "absolute"))
            parts.append(
                f"{place}: raw {raw}, absolute {absolute}, not told apart "
                f"{len(of_place) - raw - absolute}"
            )
        paper = here.drop_duplicates("method").paper.dropna()
        published = (
            f" (paper: raw {int((paper > 0).sum())}, absolute {int((paper < 0).sum())} of "
            f"{len(paper)})"
            if len(paper)
            else ""
        )
        clear = here[(here.better != "") & here.paper.notna()]
        alike = int((clear.better == np.where(clear.paper > 0, "raw", "absolute")).sum())
        sign = (
            f" Of the {len(clear)} that are told apart and published, {alike} have the paper's sign."
            if len(clear)
            else ""
        )
        yield (
            f"{protocol}, which of a method's maps is better, with an interval that excludes 0"
            f"{published}: {'; '.join(parts)}.{sign}"
        )


def _updates(scores: "pd.DataFrame") -> Iterator[str]:
    """What IDS gains where maps are made anew."""
    for place, here in scores.groupby("place", sort=False):
        wide = here.pivot(index="method", columns="protocol", values="mean")
        fixed = ALIGNED_IDS if ALIGNED_IDS in wide else IDS
        if UPDATED_IDS not in wide or wide[UPDATED_IDS].isna().all():
            continue
        both = wide[[fixed, UPDATED_IDS]].dropna()
        gain = both[UPDATED_IDS] - both[fixed]
        raw = [name for name in ("IxG", "IG", "IG-U") if name in gain.index]
        said = ", ".join(f"{name} {gain[name]:+.3f}" for name in raw)
        first = ", ".join(both[UPDATED_IDS].sort_values(ascending=False).index[:3])
        why = (
            " Exact Shapley values gain nothing: in a sum each pixel has the same share whichever "
            "others are there, so that there is nothing to update."
            if EXACT in gain.index and abs(gain[EXACT]) < SAME
            else ""
        )
        yield (
            f"{place}: maps that are made anew after each step change {fixed} of the raw maps by "
            f"{said} (the paper: a gain that puts raw IxG, IG and IG-U first); updated, {first} are "
            f"ahead.{why}"
        )


def _intrinsic(scores: "pd.DataFrame") -> Iterator[str]:
    """Networks that explain themselves beside the best map of one that does not."""
    here = scores[scores.protocol == IDSDS]
    for place, of_place in here.groupby("place", sort=False):
        by_name = of_place.set_index("method")
        own = [name for name in INTRINSIC.values() if name in by_name.index]
        if not own:
            continue
        others = by_name.drop(index=own)["mean"]
        said = ", ".join(
            f"{name} {by_name['mean'][name]:.2f} ({by_name.low[name]:.2f} to {by_name.high[name]:.2f})"
            for name in own
        )
        ahead = [name for name in own if by_name.low[name] > others.max()]
        yield (
            f"{place}: IDSDS of networks that explain themselves: {said}; the best map of the plain "
            f"network, {others.idxmax()}, has {others.max():.2f}. "
            + (
                f"{' and '.join(ahead)} {'is' if len(ahead) == 1 else 'are'} clearly ahead, as in the "
                "paper (0.797 and 0.314 to 0.255)."
                if ahead
                else "Neither is clearly ahead, unlike in the paper (0.797 and 0.314 to 0.255)."
            )
        )


def _accuracies(networks: "pd.DataFrame") -> Iterator[str]:
    for place, here in networks.groupby("place", sort=False):
        means = here.groupby("family", sort=False).mean(numeric_only=True)
        parts = [
            f"{family} {row.original:.2f} and {row.fine_tuned:.2f}, without a cell "
            f"{row.original_lacking:.2f} and {row.fine_tuned_lacking:.2f}"
            for family, row in means.iterrows()
        ]
        yield (
            f"{place}: accuracy of original and fine-tuned networks (means over "
            f"{here.network.nunique()}): {'; '.join(parts)}."
        )


def _by_construction(known: Sequence[Judged]) -> Iterator[str]:
    """What is exact, and what is out of domain."""
    for each in known:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in each.unseen.items())
        yield (
            f"{each.place} ({_environment(each.place)}): {each.exact:.0%} of the drops of the logit "
            "equal the number of the label's pixels in the cell, exactly. Images that set off a "
            f"redundant channel: {shares}. With the true baseline outputs are those of the same "
            "network without redundant channels, bit for bit: there SDS is IDSDS."
            if each.unseen[IDSDS] == 0
            else f"{each.place}: {each.unseen[IDSDS]:.0%} of the images of IDSDS are out of domain."
        )


def _environment(place: str) -> str:
    return next(name for name, short in ENVIRONMENTS.items() if short == place)


def _agreement(table: "pd.DataFrame") -> Iterator[str]:
    """Which protocol ranks maps as the truth does."""
    here = table[table.maps == ALL]
    for (place, output), group in here.groupby(["place", "output"], sort=False):
        rows = group.set_index("protocol")
        said = ", ".join(
            f"{name} {rows.f1[name]:.2f} ({rows.f1_low[name]:.2f} to {rows.f1_high[name]:.2f})"
            for name in (IDSDS, SDS, PARTS, ALIGNED_IDS, IDS)
        )
        doses = ", ".join(f"{rows.f1[dosed(dose)]:.2f}" for dose in STRENGTHS)
        single = [name for name in rows.index if str(name).startswith(SDS)]
        same = [name for name in single if rows.f1[name] == rows.f1[IDSDS]]
        yield (
            f"{place}, {output}: agreement with the truth's ranking of all maps (lowest F1; Spearman, "
            f"mean over {rows.images[IDSDS]} images): {said}. SDS with cells of which a random half "
            f"is black, by strength ({', '.join(f'{each:g}' for each in STRENGTHS)}): {doses}; "
            f"{len(same)} of {len(single)} variants of SDS agree exactly as much as IDSDS."
        )
    logits = here[(here.output == "logit") & here.protocol.isin((IDSDS, SDS))]
    wide = logits.pivot(index="place", columns="protocol", values="f1")
    if (wide[IDSDS] == wide[SDS]).all():
        yield (
            "Black cells are out of domain, and yet SDS of logits equals IDSDS: all cells are equally "
            "large and equally black, so that the redundant channels take the same from each drop, and "
            "a rank correlation does not see that. IDS has no such protection."
        )
    few = table[(table.maps == EXPLAINABLE) & (table.output == "logit")]
    for place, group in few.groupby("place", sort=False):
        rows = group.set_index("protocol")
        names = [name for name in (IDSDS, ALIGNED_IDS, UPDATED_IDS) if name in rows.index]
        said = ", ".join(
            f"{name} {rows.f1[name]:.2f} ({rows.f1_low[name]:.2f} to {rows.f1_high[name]:.2f})"
            for name in names
        )
        yield f"{place}, maps that can be made anew alone: {said}."


def _above_the_truth(scores: "pd.DataFrame") -> Iterator[str]:
    """Which methods a protocol puts above the exact Shapley values."""
    for place, here in scores.groupby("place", sort=False):
        if EXACT not in set(here.method):
            continue
        parts = []
        for protocol in (IDSDS, SDS, PARTS, ALIGNED_IDS, IDS):
            means = here[here.protocol == protocol].set_index("method")["mean"]
            methods = means.reindex(list(LEGEND.values())).dropna()
            above = methods[methods > means[EXACT] + SAME]
            best = f", at most {above.idxmax()} ({above.max():.2f})" if len(above) else ""
            parts.append(f"{protocol} {len(above)} above {means[EXACT]:.2f}{best}")
        yield f"{place}: methods whose mean score is above that of {EXACT}: {'; '.join(parts)}."


def _modulo(scores: NDArray[np.float64]) -> str:
    low, high = mean_interval(scores, 0) or (np.nan, np.nan)
    return (
        f"Single-color-modulo is left out: {EXACT} score {np.nanmean(scores):.2f} ({low:.2f} to "
        f"{high:.2f}) under single deletion there, because a remainder may rise when pixels go; under "
        "a sum of pixels they score 1."
    )


def _properties(table: "pd.DataFrame") -> Iterator[str]:
    decided = table[(table.ours != "") & table.paper.isin(("yes", "no"))]
    unlike = decided[decided.ours != decided.paper]
    parts = [
        f"{row.protocol}, {row.property} (paper {row.paper}, here {row.ours}: {row.how}, "
        f"{row.measured:.3g})"
        for row in unlike.itertuples()
    ]
    yield (
        f"Table 1: {len(decided) - len(unlike)} of {len(decided)} ticks and crosses that can be "
        "measured here come out as in the paper"
        + (f"; other than there: {'; '.join(parts)}." if parts else ".")
    )


def _constant(scores: "pd.DataFrame") -> Iterator[str]:
    asked = IDSDS if (scores.protocol == IDSDS).any() else SDS
    here = scores[(scores.constant_maps > 0) & (scores.protocol == asked)]
    for place, counted in here.groupby("place", sort=False):
        parts = ", ".join(
            f"{row.method} {row.constant_maps} of {row.images}" for row in counted.itertuples()
        )
        yield (
            f"{place}, {asked}: maps with the same sum in every cell score 0 and are counted (public "
            f"code of the paper leaves them out): {parts}."
        )
    if not len(here):
        yield f"{asked}: no map has the same sum in every cell."
