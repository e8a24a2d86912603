"""What the tables of idsds-table-3 say, in sentences."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from attributionlab.papers.idsds.alignment.conditions import TOO_FEW
from attributionlab.stats.intervals import FEWEST_FOR_ORDER, mean_interval

if TYPE_CHECKING:
    import pandas as pd

PAPER = (
    "The paper (ImageNet, eleven networks): accuracy on whole images changes by -0.67 to +4.16 points, "
    "and without the worst patch by +4.13 to +12.58."
)
FEWEST_NETWORKS, SPOILED = 6, -5.0
"""Networks for an interval over them; points on whole images below which one is named."""


def accuracy_findings(
    tables: Mapping[str, "pd.DataFrame"],
    images: int,
    exact: float | None,
    seed: int,
    *,
    unseen: bool,
) -> list[str]:
    """Sentences computed from the tables of `idsds_table_3`.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        "accuracies", and "losses" where the truth without a patch is known.
    images : int
        How many were asked about.
    exact : float, optional
        The share of images whose label is the truth without whichever patch, where that is known.
    seed : int
        Of the intervals over networks.
    unseen : bool
        Whether it is known that no network was trained on these images.
    """
    accuracies = tables["accuracies"]
    said = [PAPER, *(_changes(accuracies, asked, seed) for asked in ("whole", "worst"))]
    spoiled = accuracies[accuracies.whole_high < SPOILED]
    if len(spoiled):
        names = ", ".join(f"{row.network} {row.whole_change:+.1f}" for row in spoiled.itertuples())
        said.append(
            f"Fine-tuning takes more than {-SPOILED:.0f} points on whole images from: {names}."
        )
    if exact is not None:
        said.append(
            f"On {1 - exact:.0%} of the images there is a patch without which the label is no longer "
            f"the color with the most pixels: by the label, who counts exactly is right on {exact:.0%} "
            "without the worst patch."
        )
        said += _losses(tables["losses"])
    whose = (
        " that no network was trained on"
        if unseen
        else "; nothing is known here of what the networks were trained on"
    )
    said.append(f"All on {images} images{whose}.{TOO_FEW if images < FEWEST_FOR_ORDER else ''}")
    return said


def _changes(table: "pd.DataFrame", asked: str, seed: int) -> str:
    where = {"whole": "On whole images", "worst": "Without the worst patch"}[asked]
    change = table[f"{asked}_change"].to_numpy()
    low, high, of = table[f"{asked}_low"], table[f"{asked}_high"], len(table)
    clearly = (
        f", clearly up for {int((low > 0).sum())} and clearly down for {int((high < 0).sum())} of {of} "
        "networks"
        if low.notna().all()
        else ""
    )
    interval = mean_interval(change, seed) if of >= FEWEST_NETWORKS else None
    over = (
        f" (95 % interval over networks {interval.low:+.1f} to {interval.high:+.1f})"
        if interval
        else ""
    )
    before, after = (table[f"{asked}_{version}"].mean() for version in ("before", "after"))
    return (
        f"{where} accuracy changes by {change.min():+.1f} to {change.max():+.1f} points, "
        f"{change.mean():+.1f} on average{over}: from {before:.1f} to {after:.1f} %{clearly}."
    )


def _losses(table: "pd.DataFrame") -> Iterator[str]:
    for version, here in table.groupby("version", sort=False):
        loss, truth, own = here.loss.mean(), here.truth.mean(), here.network_own.mean()
        share = f" ({truth / loss:.0%})" if loss > 0 else ""
        yield (
            f"{str(version).capitalize()} fine-tuning the worst patch costs {loss:.1f} points on "
            f"average: {truth:.1f}{share} where the label is no longer the color with the most pixels, "
            f"{own:.1f} where it still is. Held against the color that wins then, accuracy without the "
            f"worst patch is {here.left.mean():.1f} %."
        )
    yield (
        "So most of what the worst patch costs is no fault of the network; the paper cannot tell."
        if table.truth.sum() > table.network_own.sum()
        else "So most of what the worst patch costs is the networks' own; the paper cannot tell."
    )
