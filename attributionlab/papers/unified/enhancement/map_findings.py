"""What the tables of enhanced images' maps say, in sentences."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from attributionlab.papers.unified.enhancement.twin_maps import CONDITIONS
from attributionlab.papers.unified.verdicts import clear_sign, ends_text

if TYPE_CHECKING:
    import pandas as pd

FEW = "With fewer than six networks this is no verdict"


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
    typical = bool(tables["images"].typical.any())
    yield from _counted(tables["images"], epsilon, networks)
    yield from _constant(tables["constant"])
    yield from _alike(tables["similarities"])
    if "plausibility" in tables:
        yield from _plausible(tables["plausibility"], typical)
    else:
        yield "Where the objects are is not known, so nothing is said about plausibility."


def _counted(each: "pd.DataFrame", epsilon: float, networks: int) -> Iterator[str]:
    images = each.drop_duplicates(["network", "image"])
    typical = int(images.typical.sum())
    yield (
        f"At epsilon {epsilon:g} (of pixel values from 0 to 1), {typical} of {len(images)} images of "
        f"{networks} networks are as the paper's: wrong untrained, right untrained and enhanced, right "
        "trained. "
        + (
            "The numbers are of these."
            if typical
            else "Since there are none, the numbers are of all images."
        )
    )


def _constant(table: "pd.DataFrame") -> Iterator[str]:
    """How many maps say nothing at all."""
    parts = [
        f"{row.method} {', '.join(f'{row[at]} ({name})' for at, name in enumerate(CONDITIONS, 2))}"
        for row in table.itertuples()
        if any(row[2 : 2 + len(CONDITIONS)])
    ]
    if parts:
        yield (
            f"Constant maps, of {table.images.max()} images: {'; '.join(parts)}. An image with one is "
            "left out of the method's numbers."
        )


def _alike(table: "pd.DataFrame") -> Iterator[str]:
    parts = [
        f"{row.method} {row[2]:.2f} and {row[3]:.2f} ({ends_text(row.low, row.high, '+.2f')})"
        for row in table.itertuples()
    ]
    signs = _signs(table)
    more, less = signs[1], signs[-1]
    if len(signs[None]) == len(table):
        outcome = FEW
    else:
        outcome = "It is clearly more like the former " + (
            "as the paper says, of every method"
            if len(more) == len(table)
            else f"of {len(more)} of {len(table)} methods"
            + (f" ({', '.join(more)})" if more else "")
            + (f"; it is less like it for {', '.join(less)}" if less else "")
            + _undecided(signs[None])
        )
    yield (
        "Correlation of the enhanced image's map with the raw image's in the same network and with the "
        f"trained network's (95 % interval of the difference): {', '.join(parts)}. {outcome}."
    )


def _plausible(table: "pd.DataFrame", typical: bool) -> Iterator[str]:
    rightly = ", both of which answer rightly" if typical else ""
    for metric, here in table.groupby("metric", sort=False):
        parts = [
            f"{row.method} {row[4]:.2f} and {row[5]:.2f} "
            f"({ends_text(0 - row.high, 0 - row.low, '+.2f')})"
            for row in here.itertuples()
        ]
        signs = _signs(here)
        lower, higher = signs[1], signs[-1]
        if len(signs[None]) == len(here):
            outcome = FEW
        else:
            outcome = (
                "It is clearly lower in the former for every method"
                if len(lower) == len(here)
                else f"It is clearly lower in the former for {', '.join(lower) or 'no method'}"
            )
            outcome += f" and higher for {', '.join(higher)}" if higher else ""
            outcome += _undecided(signs[None])
        yield (
            f"{str(metric).capitalize()}, of the untrained network on enhanced images and of the "
            f"trained one{rightly}: {', '.join(parts)}. {outcome}."
        )


def _signs(table: "pd.DataFrame") -> dict[int | None, list[str]]:
    """Methods by what the interval of their difference says."""
    found: dict[int | None, list[str]] = {1: [], 0: [], -1: [], None: []}
    for row in table.itertuples():
        found[clear_sign(row.low, row.high, row.networks, 2)].append(row.method)
    return found


def _undecided(methods: list[str]) -> str:
    return f"; no verdict on {', '.join(methods)} with fewer than six networks" if methods else ""
