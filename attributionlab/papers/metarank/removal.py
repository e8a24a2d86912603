"""Figure 2 of Duan et al. (2024): accuracy while pixels are removed, by method and case."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from attributionlab.leaderboard import PAPER_METHODS, PROTOCOLS, Pair
from attributionlab.leaderboard.agreement import ranks_of
from attributionlab.leaderboard.evaluation import explained, indicator_curves, removed_pixel
from attributionlab.metrics import area_under_curve, curve_fractions, removal_order
from attributionlab.papers.metarank.reading import convention
from attributionlab.papers.reproduction import Reproduction
from attributionlab.progress import track
from attributionlab.ranking import fisher_interval, spearman
from attributionlab.report.metric_panels import MetricLine, MetricPanel, metric_panels_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]

ITEM = "metarank-figure-2"
IMAGES, SIZE = 48, 48
QUICK_IMAGES, QUICK_SIZE = 12, 32
PAIRS = (
    Pair("multi-color-sum", 0, label="four colors"),
    Pair("multi-color-sum", 1, label="four colors"),
    Pair("multi-color-sum-distractors", 1, label="distractors"),
)
SHOWN_FRACTIONS = (0, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, *(part / 20 for part in range(2, 21)))
"""Closer where patches, a few percent of the image, are removed."""
SAME = 0.03
"""Of accuracy: about the width of a line."""
BETTER = {"MoRF": "lower", "LeRF": "higher"}
SHOWN = {
    "places": "place of every method by the area under its curve, 1 is best; equal areas share a place"
}


def metarank_removal(
    *, n: int | None, quick: bool, seed: int = 0, show_progress: bool = False
) -> Reproduction:
    """Curves of the accuracy of eight methods in eight cases, from none to all pixels removed.

    Parameters
    ----------
    n : int, optional
        Images of each pair of images and network.
    quick : bool
        Fewer and smaller images.
    seed : int
        Of images and random weights.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "places", "areas" and "curves" (means over images); figure "curves".
    """
    import pandas as pd

    images = n if n is not None else QUICK_IMAGES if quick else IMAGES
    side = QUICK_SIZE if quick else SIZE
    fractions = curve_fractions(side * side)
    shown = np.unique(np.round(np.array(SHOWN_FRACTIONS) * side * side).astype(int))
    titles: dict[str, list[str]] = {protocol: [] for protocol in PROTOCOLS}
    drawn: dict[str, list[dict[str, Numbers]]] = {protocol: [] for protocol in PROTOCOLS}
    areas: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    for pair in track(PAIRS, len(PAIRS), ITEM, show_progress):
        env = pair.load(side, seed)
        seen = explained(PAPER_METHODS, env, images, seed)
        for protocol, order in PROTOCOLS.items():
            orders = [removal_order(maps, order=order) for maps in seen.maps.values()]
            found = torch.stack(
                list(
                    indicator_curves(
                        env.model,
                        seen.images,
                        seen.targets,
                        torch.stack(orders, 1),
                        replacement=removed_pixel(env, pair.removed_to),
                        indicator="accuracy",
                        temperature=1.0,
                    )
                )
            )
            keys = {"data": pair.data, "network": pair.network, "protocol": protocol}
            of_methods = dict(zip(seen.maps, found.unbind(1), strict=True))
            means = {method: each.mean(0) for method, each in of_methods.items()}
            areas += [
                {**keys, "method": method, "area": float(area_under_curve(mean, fractions))}
                for method, mean in means.items()
            ]
            curves += [
                {
                    **keys,
                    "method": method,
                    "removed": float(fractions[at]),
                    "accuracy": float(mean[at]),
                }
                for method, mean in means.items()
                for at in shown
            ]
            titles[protocol].append(f"{pair.name}, {protocol}")
            drawn[protocol].append({name: mean[shown].numpy() for name, mean in means.items()})
    table = pd.DataFrame(areas)
    ranked = _ranked(table)
    title = f"Eight methods, means over {images} images of {side} x {side} pixels each"
    return Reproduction(
        item=ITEM,
        title="Accuracy while pixels are removed (Duan et al., Figure 2)",
        tables={"places": _wide(ranked), "areas": ranked, "curves": pd.DataFrame(curves)},
        figures={"curves": _figure(titles, drawn, fractions[shown].numpy(), title)},
        findings=_findings(ranked),
        shown=SHOWN,
    )


def _figure(
    titles: Mapping[str, Sequence[str]],
    curves: Mapping[str, Sequence[Mapping[str, Numbers]]],
    fractions: Numbers,
    title: str,
) -> "Figure":
    """A row for each protocol; methods whose curves coincide everywhere are one line."""
    every = [panel for row in curves.values() for panel in row]
    groups = coinciding(every)
    rows = [
        [
            MetricPanel(
                name,
                "fraction removed",
                f"accuracy ({BETTER[protocol]} is better)",
                {" = ".join(group): MetricLine(fractions, panel[group[0]]) for group in groups},
            )
            for name, panel in zip(titles[protocol], row, strict=True)
        ]
        for protocol, row in curves.items()
    ]
    return metric_panels_figure(rows, title)


def coinciding(panels: Sequence[Mapping[str, Numbers]]) -> list[list[str]]:
    """Names in groups whose curves are nowhere farther apart than `SAME` from the first one's.

    Examples
    --------
    >>> import numpy as np
    >>> from attributionlab.papers.metarank.removal import coinciding
    >>> coinciding([{"a": np.zeros(2), "b": np.ones(2), "c": np.zeros(2)}])
    [['a', 'c'], ['b']]
    """
    groups: list[list[str]] = []
    for name in panels[0]:
        for group in groups:
            if all(np.abs(panel[name] - panel[group[0]]).max() <= SAME for panel in panels):
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def _ranked(areas: "pd.DataFrame") -> "pd.DataFrame":
    """With each method's rank within its case."""
    table = areas.assign(case=areas.data + ", " + areas.network + ", " + areas.protocol, rank=0.0)
    for _, here in table.groupby("case", sort=False):
        lower = bool((here.protocol == "MoRF").all())
        table.loc[here.index, "rank"] = ranks_of(here.area.to_numpy(float)[:, None], [lower])[:, 0]
    return table


def _wide(ranked: "pd.DataFrame") -> "pd.DataFrame":
    """A row for each case, a column for each method."""
    wide = ranked.pivot(index="case", columns="method", values="rank")
    cases, methods = ranked.case.unique(), ranked.method.unique()
    return wide.loc[list(cases), list(methods)].reset_index().rename_axis(columns=None)


def _findings(ranked: "pd.DataFrame") -> list[str]:
    wide = ranked.pivot(index="case", columns="method", values="rank")
    reach = wide.max() - wide.min()
    moved = str(reach.idxmax())
    best, worst = str(wide[moved].idxmin()), str(wide[moved].idxmax())
    firsts = {
        str(case): [str(name) for name in row.index[row == row.min()]]
        for case, row in wide.iterrows()
    }
    winners = sorted({name for names in firsts.values() for name in names})
    found = [
        "The paper: the order of methods differs by model, data set and protocol; LRP is last on "
        "ImageNet with Inception-v4 under MoRF and much better with ResNet-18 and VGG-19.",
        f"Here {moved} moves most: rank {wide[moved].min():g} in {best}, {wide[moved].max():g} in "
        f"{worst}. First, alone or shared, in some of {len(wide)} cases: {', '.join(winners)}.",
    ]
    for data, here in ranked.groupby(["data", "network"], sort=False):
        of_protocol = here.pivot(index="method", columns="protocol", values="rank")
        value = spearman(of_protocol.MoRF, of_protocol.LeRF)
        if np.isnan(value):
            continue
        interval = fisher_interval(value, len(of_protocol))
        found.append(
            f"{', '.join(data)}: MoRF and LeRF rank eight methods alike by {value:.2f} "
            f"[{interval.low:.2f}, {interval.high:.2f}] (Spearman; Fisher's z)."
        )
    return [*found, convention()]
