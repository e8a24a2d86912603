"""What the scores of all protocols come to, in tables."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attributionlab.metric_trials.agreement import without_rounding
from attributionlab.papers.idsds.maps import ABSOLUTE, CONTROL, PANEL
from attributionlab.papers.idsds.protocols.construction import Judged
from attributionlab.papers.idsds.protocols.names import (
    IDS,
    IDSDS,
    INTRINSIC,
    LEGEND,
    PAIRS,
    PAPER,
    PARTS,
    SDS,
    UPDATED_BY_CONSTRUCTION,
    UPDATED_IDS,
)
from attributionlab.papers.idsds.protocols.scoring import Scored
from attributionlab.papers.idsds.protocols.setting import EXACT, MASK
from attributionlab.ranking import centered_ranks, row_correlations, spearman_interval
from attributionlab.stats.intervals import mean_interval, mean_score, paired_difference

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]
ALL, EXPLAINABLE = "all", "updatable"
"""Sets of maps: all, and those that can be explained anew."""
PROTOCOLS = (IDSDS, SDS, IDS, UPDATED_IDS, PARTS)


def score_table(scored: Sequence[Scored], seed: int) -> "pd.DataFrame":
    """A row for each place, protocol and method: the mean, its interval, and constant maps.

    Where there are several networks the interval is one over them, otherwise over images.
    """
    import pandas as pd

    rows = []
    for (place, protocol, method), units, constant, images in _units(scored):
        low, high = mean_interval(units, seed) or (np.nan, np.nan)
        rows.append(
            {
                "place": place,
                "protocol": protocol,
                "method": LEGEND.get(method, method),
                "mean": mean_score(units),
                "low": low,
                "high": high,
                "units": int((~np.isnan(units)).sum()),
                "images": images,
                "constant_maps": constant,
                "paper": PAPER.get(protocol, {}).get(LEGEND.get(method, method), np.nan),
            }
        )
    return pd.DataFrame(rows)


def _units(
    scored: Sequence[Scored],
) -> Iterator[tuple[tuple[str, str, str], Numbers, int, int]]:
    """Key, what the interval is taken over, constant maps and images of each row."""
    grouped: dict[tuple[str, str, str], list[Scored]] = {}
    for each in scored:
        grouped.setdefault((each.place, each.protocol, each.method), []).append(each)
    for key, group in grouped.items():
        units = (
            group[0].values
            if len(group) == 1
            else np.array([mean_score(each.values) for each in group])
        )
        yield key, units, sum(e.constant_maps for e in group), sum(len(e.values) for e in group)


def readable(scores: "pd.DataFrame", protocol: str) -> "pd.DataFrame":
    """One protocol: a row for each method, a column for each place, and how many maps are constant."""
    shown = [*LEGEND.values(), EXACT, MASK, *INTRINSIC.values()]
    here = scores[(scores.protocol == protocol) & scores.method.isin(shown)]
    if not len(here):
        return here
    table = side_by_side(here, ("method",), "place", ("mean", "low", "high"))
    by_method = here.groupby("method", sort=False)
    table.insert(1, "paper", by_method.paper.first().reindex(table.method).to_numpy())
    counted = by_method.apply(
        lambda rows: ", ".join(f"{row.constant_maps} of {row.images}" for row in rows.itertuples()),
        include_groups=False,
    )
    if here.constant_maps.any():
        table["constant_maps"] = counted.reindex(table.method).to_numpy()
    return table


def side_by_side(
    table: "pd.DataFrame", rows: Sequence[str], across: str, values: Sequence[str]
) -> "pd.DataFrame":
    """A value and its interval as text: a column for each entry of another column."""
    import pandas as pd

    found: dict[tuple[str, ...], dict[str, str]] = {}
    for _, each in table.iterrows():
        value, low, high = (float(each[name]) for name in values)
        text = f"{value:.2f}" + (f" ({low:.2f} to {high:.2f})" if np.isfinite(low) else "")
        found.setdefault(tuple(each[name] for name in rows), {})[str(each[across])] = (
            text if np.isfinite(value) else ""
        )
    filled = [dict(zip(rows, key, strict=True)) | cells for key, cells in found.items()]
    return pd.DataFrame(filled).fillna("")


def correlation_table(scores: "pd.DataFrame", seed: int) -> "pd.DataFrame":
    """Spearman's correlation of two protocols' mean scores of the panel, the control left out."""
    import pandas as pd

    names = [LEGEND[name] for name in PANEL if name != CONTROL]
    rows = []
    paper = pd.DataFrame(PAPER).reindex(names)
    places: dict[str, Any] = {
        str(place): of_place.pivot(index="method", columns="protocol", values="mean").reindex(names)
        for place, of_place in scores.groupby("place", sort=False)
    }
    for place, wide in {"paper": paper, **places}.items():
        for first, second in combinations([each for each in PROTOCOLS if each in wide], 2):
            both = wide[[first, second]].dropna()
            if len(both) < 4:
                continue
            found = spearman_interval(*without_rounding(both.to_numpy().T), seed=seed)
            rows.append(
                {"place": place, "first": first, "second": second, "correlation": found.value}
                | {"low": found.low, "high": found.high, "methods": len(both)}
            )
    return pd.DataFrame(rows)


def absolute_table(scored: Sequence[Scored], seed: int) -> "pd.DataFrame":
    """Raw minus absolute maps: a row for each place, protocol and method that has both.

    Which is "better" is told from six networks on, or from six images where there is one network.
    """
    import pandas as pd

    units = {key: values for key, values, _, _ in _units(scored)}
    networks = {(each.place, each.protocol) for each in scored if each.network > 0}
    rows = []
    for (place, protocol, method), raw in units.items():
        other = (place, protocol, f"{method}{ABSOLUTE}")
        if protocol not in PROTOCOLS or method not in PAIRS or other not in units:
            continue
        if np.isnan(raw).all():
            continue
        found = paired_difference(raw, units[other], seed)
        known = PAPER.get(protocol, {})
        name = LEGEND[method]
        rows.append(
            {
                "place": place,
                "protocol": protocol,
                "method": name,
                "raw_minus_absolute": found.mean,
                "low": found.low,
                "high": found.high,
                "units": found.images,
                "over": "networks" if (place, protocol) in networks else "images",
                "better": {"first": "raw", "second": "absolute", None: ""}[found.better],
                "paper": known.get(name, np.nan) - known.get(f"{name} abs.", np.nan),
            }
        )
    return pd.DataFrame(rows)


def intrinsic_table(scored: Sequence[Scored], seed: int) -> "pd.DataFrame":
    """IDSDS of networks that explain themselves, minus that of the plain networks' best method.

    Networks are paired by their number: they share images and labels.
    """
    import pandas as pd

    means: dict[str, dict[str, dict[int, float]]] = {}
    for each in scored:
        if each.protocol == IDSDS:
            of_method = means.setdefault(each.place, {}).setdefault(each.method, {})
            of_method[each.network] = mean_score(each.values)
    rows = []
    for place, by_method in means.items():
        table = pd.DataFrame(by_method)
        own = [name for name in INTRINSIC.values() if name in table]
        if not own:
            continue
        others = table.drop(columns=own)
        best = others.mean().idxmax()
        for name in own:
            found = paired_difference(table[name].to_numpy(), others[best].to_numpy(), seed)
            rows.append(
                {"place": place, "method": name, "mean": table[name].mean()}
                | {"best": LEGEND.get(str(best), str(best)), "best_mean": others[best].mean()}
                | {"difference": found.mean, "low": found.low, "high": found.high}
                | {"networks": found.images, "better": found.better or ""}
            )
    return pd.DataFrame(rows)


def agreement_table(judged: Sequence[Judged], seed: int) -> "pd.DataFrame":
    """How far each protocol ranks maps as the truth does, image by image.

    Spearman's correlation over the maps of an image, its mean over images with a bootstrap interval.
    An image in which a protocol's scores are all equal has no ranking and is left out.
    """
    import pandas as pd

    rows = []
    for each in judged:
        chosen = {
            ALL: np.arange(len(each.names)),
            EXPLAINABLE: np.array(
                [
                    i
                    for i, name in enumerate(each.names)
                    if name in (*UPDATED_BY_CONSTRUCTION, EXACT, MASK)
                ]
            ),
        }
        for protocol in dict.fromkeys(score.protocol for score in each.scored):
            of_protocol = [score for score in each.scored if score.protocol == protocol]
            values = np.stack([score.values for score in of_protocol])  # (maps, images)
            for maps, places in chosen.items():
                if np.isnan(values[places]).all(1).any():
                    continue  # not all of these maps have a score
                row: dict[str, Any] = {"place": each.place, "output": each.output, "maps": maps}
                row |= {"protocol": protocol}
                for truth, right in (("f1", each.f1), ("cells", each.cells)):
                    found = row_correlations(_ranks(values[places]), _ranks(right[places]))
                    low, high = mean_interval(found, seed) or (np.nan, np.nan)
                    row |= {truth: mean_score(found), f"{truth}_low": low, f"{truth}_high": high}
                row["images"] = int((~np.isnan(found)).sum())
                row["constant_maps"] = sum(of_protocol[place].constant_maps for place in places)
                rows.append(row)
    return pd.DataFrame(rows)


def _ranks(scores: Numbers) -> Numbers:
    """(maps, images) -> (images, maps)"""
    return centered_ranks(without_rounding(scores.T))
