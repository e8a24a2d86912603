"""What the tables of enhanced images' maps say, in sentences."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["findings_of"]


def findings_of(
    tables: Mapping[str, "pd.DataFrame"], epsilon: float, networks: int
) -> Iterator[str]:
    """Sentences computed from the tables of `unified_enhanced_maps`."""
    yield (
        "The paper (VGG-16, ImageNet, a few images, no numbers): the map of an enhanced image in an "
        "untrained network is more like that network's map of the raw image than like the trained "
        "network's map, although the answers are the trained network's; so a metric of plausibility is "
        "unfair to it. Which output is explained it does not say; here it is the label in all rows."
    )
    yield from _counted(tables["images"], epsilon, networks)
    yield from _alike(tables["similarities"])
    if "plausibility" in tables:
        yield from _plausible(tables["plausibility"])
    else:
        yield "Where the objects are is not known, so nothing is said about plausibility."


def _counted(each: "pd.DataFrame", epsilon: float, networks: int) -> Iterator[str]:
    images = each.drop_duplicates(["network", "image"])
    typical = int(images.typical.sum())
    judged = each[each.typical] if typical else each
    constant = judged[(judged.what == "similarity") & judged.value.isna()].method.value_counts()
    left_out = ", ".join(f"{count} of {method}" for method, count in constant.items())
    yield (
        f"At epsilon {epsilon:g} (of pixel values from 0 to 1), {typical} of {len(images)} images of "
        f"{networks} networks are as the paper's: wrong untrained, right untrained and enhanced, right "
        "trained. "
        + (
            "The numbers are of these."
            if typical
            else "Since there are none, the numbers are of all images."
        )
        + (f" Without a correlation, since a map is constant: {left_out}." if left_out else "")
    )


def _alike(table: "pd.DataFrame") -> Iterator[str]:
    parts = [
        f"{row.method} {row[2]:.2f} and {row[3]:.2f} ({row.low:+.2f} to {row.high:+.2f})"
        for row in table.itertuples()
    ]
    more = table[table.low > 0].method.tolist()
    less = table[table.high < 0].method.tolist()
    outcome = (
        "as the paper says, of every method"
        if len(more) == len(table)
        else f"of {len(more)} of {len(table)} methods"
        + (f" ({', '.join(more)})" if more else "")
        + (f"; it is less like it for {', '.join(less)}" if less else "")
    )
    yield (
        "Correlation of the enhanced image's map with the raw image's in the same network and with the "
        f"trained network's (95 % interval of the difference): {', '.join(parts)}. It is clearly more "
        f"like the former {outcome}."
    )


def _plausible(table: "pd.DataFrame") -> Iterator[str]:
    for metric, here in table.groupby("metric", sort=False):
        parts = [
            f"{row.method} {row[4]:.2f} and {row[5]:.2f} ({-row.high:+.2f} to {-row.low:+.2f})"
            for row in here.itertuples()
        ]
        lower = here[here.low > 0].method.tolist()
        higher = here[here.high < 0].method.tolist()
        outcome = (
            "It is clearly lower in the former for every method"
            if len(lower) == len(here)
            else f"It is clearly lower in the former for {', '.join(lower)}"
            if lower
            else "It is clearly lower in the former for no method"
        ) + (f" and higher for {', '.join(higher)}" if higher else "")
        yield (
            f"{str(metric).capitalize()}, of the untrained network on enhanced images and of the "
            f"trained one, both of which answer rightly: {', '.join(parts)}. {outcome}."
        )
