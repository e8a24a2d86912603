"""What the tables of `idsds_protocols` say, in sentences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attributionlab.papers.idsds.protocols.construction import ENVIRONMENTS, Judged, dosed
from attributionlab.papers.idsds.protocols.names import (
    ALIGNED_IDS,
    IDS,
    IDSDS,
    LEGEND,
    PAPER,
    PARTS,
    SDS,
    UPDATED_IDS,
)
from attributionlab.papers.idsds.protocols.properties import networks_reacting
from attributionlab.papers.idsds.protocols.setting import EXACT, STRENGTHS
from attributionlab.papers.idsds.protocols.tables import ALL, EXPLAINABLE
from attributionlab.stats.intervals import mean_interval

if TYPE_CHECKING:
    import pandas as pd

SAME = 1e-6
"""Mean probabilities that differ by less, in float32, do so by rounding."""
FEWEST = 6
"""Networks or images from which one map may be called better (`attributionlab.stats`)."""
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
        *_noise_for_black(tables["scores"]),
        *_updates(tables["scores"]),
    ]
    if "networks" in tables:
        said += [*_intrinsic(tables["intrinsic"]), *_accuracies(tables["networks"])]
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
                f"'paper' is of its tables; its own number is 0.89 of {IDSDS} and {SDS}): "
                f"{'; '.join(parts)}."
            )


def _absolute(table: "pd.DataFrame") -> Iterator[str]:
    """Whether raw maps beat absolute ones, by protocol."""
    for protocol, here in table.groupby("protocol", sort=False):
        if protocol not in (IDSDS, SDS, IDS, UPDATED_IDS, PARTS):
            continue
        parts = [
            f"{place}: {_told_apart(of_place)}"
            for place, of_place in here.groupby("place", sort=False)
        ]
        paper = here.drop_duplicates("method").paper.dropna()
        published = (
            f" (paper: raw {int((paper > 0).sum())}, absolute {int((paper < 0).sum())} of "
            f"{len(paper)})"
            if len(paper)
            else ""
        )
        differing = here[(here.raw_minus_absolute.abs() > SAME) & here.paper.notna()]
        alike = int((np.sign(differing.raw_minus_absolute) == np.sign(differing.paper)).sum())
        sign = (
            f" {alike} of {len(differing)} differences of means have the paper's sign."
            if len(differing)
            else ""
        )
        yield f"{protocol}, which of a method's maps is better{published}: {'; '.join(parts)}.{sign}"


def _told_apart(here: "pd.DataFrame") -> str:
    """For how many methods the raw or the absolute map is better at one place."""
    units, over = int(here.units.min()), here.over.iloc[0]
    if units < FEWEST:
        higher = int((here.raw_minus_absolute > SAME).sum())
        lower = int((here.raw_minus_absolute < -SAME).sum())
        return (
            f"means of raw maps higher for {higher}, of absolute ones for {lower} of {len(here)} "
            f"methods ({_no_verdict(units, over)})"
        )
    raw, absolute = (int((here.better == each).sum()) for each in ("raw", "absolute"))
    return (
        f"raw {raw}, absolute {absolute}, not told apart {len(here) - raw - absolute} "
        f"({units} {over})"
    )


def _no_verdict(units: int, over: str) -> str:
    return (
        f"1 {over.removesuffix('s')} gives no verdict"
        if units == 1
        else f"{units} {over} give no verdict"
    )


def _noise_for_black(scores: "pd.DataFrame") -> Iterator[str]:
    """What a uniformly random baseline does for both methods that have one in the paper."""
    here = scores[scores.protocol == IDSDS].pivot(index="place", columns="method", values="mean")
    for name in ("IG", "RISE"):
        if {name, f"{name}-U"} <= set(here):
            changes = (here[f"{name}-U"] - here[name]).dropna()
            paper = PAPER[IDSDS][f"{name}-U"] - PAPER[IDSDS][name]
            said = "; ".join(f"{place} {change:+.2f}" for place, change in changes.items())
            yield (
                f"{IDSDS}, what noise in place of the baseline changes in the mean of {name} (paper "
                f"{paper:+.2f}): {said}."
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
        ranked = both[UPDATED_IDS].sort_values(ascending=False, kind="stable")
        # All that tie with the third: where probabilities are 1, IDS tells maps apart by rounding.
        first = ", ".join(ranked.index[ranked > ranked.iloc[:3].iloc[-1] - SAME])
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


def _intrinsic(table: "pd.DataFrame") -> Iterator[str]:
    """Networks that explain themselves beside the best map of plain ones."""
    for place, here in table.groupby("place", sort=False):
        first = here.iloc[0]
        parts = []
        for row in here.itertuples():
            interval = "" if np.isnan(row.low) else f" ({row.low:+.2f} to {row.high:+.2f})"
            side = {"first": "is ahead", "second": "is behind", "": "is not told apart"}[row.better]
            if row.networks < FEWEST:
                side = f"mean is {'higher' if row.difference > 0 else 'lower'}"
            parts.append(
                f"{row.method} {row.mean:.2f}, {'whose' if row.networks < FEWEST else 'which'} {side} "
                f"by {row.difference:+.2f}{interval}"
            )
        few = int(here.networks.min())
        verdict = f"{_no_verdict(few, 'networks')}; " if few < FEWEST else ""
        yield (
            f"{place}: IDSDS, paired by network: the best map of plain networks, {first.best}, has "
            f"{first.best_mean:.2f}; of networks that explain themselves: {'; '.join(parts)}; "
            f"{verdict}in the paper both are ahead (0.797 and 0.314 to 0.255)."
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
        shares = ", ".join(
            f"{name} {share.mean():.0%}{_reacting(share)}" for name, share in each.unseen.items()
        )
        yield (
            f"{each.place} ({_environment(each.place)}): {each.exact:.0%} of the drops of the logit "
            "equal the number of the label's pixels in the cell, exactly. Images that set off a "
            f"redundant channel: {shares}. With the true baseline outputs are those of the same "
            "network without redundant channels, bit for bit: there SDS is IDSDS."
            if not each.unseen[IDSDS].any()
            else f"{each.place}: {each.unseen[IDSDS].mean():.0%} of the images of IDSDS are out of "
            "domain."
        )


def _reacting(shares: NDArray[np.float64]) -> str:
    return f" ({networks_reacting(shares)})" if 0 < shares.mean() < 1 else ""


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
    published = table[table.paper.isin(("yes", "no"))]
    decided = published[published.ours != ""]
    unlike = decided[decided.ours != decided.paper]
    parts = [
        f"{row.protocol}, {row.property} (paper {row.paper}, here {row.ours}: {row.how}, "
        f"{row.measured:.3g})"
        for row in unlike.itertuples()
    ]
    yield (
        f"Table 1: {len(decided) - len(unlike)} of {len(decided)} ticks and crosses that were "
        "measured here come out as in the paper"
        + (f"; other than there: {'; '.join(parts)}. " if parts else ". ")
        + f"{len(published) - len(decided)} others were not measured."
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
