"""Proposition 1: n random pixels of a map's first N overlap with its first n by n / N."""

import math
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any

import torch

from attributionlab.errors import refuse_if
from attributionlab.metrics.reference_masking import dice, expected_dice, reference_order
from attributionlab.papers.reproduction import Reproduction
from attributionlab.progress import track
from attributionlab.report.overlaps import Overlap, overlaps_figure
from attributionlab.validation import integer_problem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ENUMERATED, SUMMED = 10, 60
"""The largest N of which all subsets, and all sizes of the overlap, are gone through."""
PIXELS = 224 * 224
MASKED = (3_000, 9_000, 15_000)
REFERENCES = (9_000, 12_000, 15_000, 20_000, 30_000, PIXELS)
"""The paper masks up to N pixels within 15,000 to 30,000, and shows 9,000 within 12,000."""
ORDERS, QUICK_ORDERS = 100, 20
CHUNK = 20
"""Orders at once, 8 MB each 20."""
NORMAL = 1.96
SHOWN = {
    "exact": "pairs of n and N for which the expectation equals n / N, as fractions; subsets or terms "
    "that were added up",
    "samples": f"n pixels of shuffled orders of {PIXELS:,} pixels: mean similarity, its standard "
    "error (exact, hypergeometric), and by how many of them it is off n / N",
}


def expected_overlap(
    *, n: int | None, quick: bool, seed: int = 0, show_progress: bool = False
) -> Reproduction:
    """The expected Dice similarity by enumeration, by the proof's sum, and by sampling.

    Parameters
    ----------
    n : int, optional
        Orders shuffled for each N; 100, or 20 in a quick run, by default.
    quick : bool
        Fewer orders.
    seed : int
        Of the orders.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "exact", "samples" and "pairs" (each n and N of the exact part); figure "overlap".
    """
    import pandas as pd

    number = n if n is not None else QUICK_ORDERS if quick else ORDERS
    refuse_if(integer_problem("n", number, 1))
    pairs = pd.DataFrame(_exact_rows())
    samples = [
        row
        for reference in track(
            list(REFERENCES), len(REFERENCES), "unified-proposition-1", show_progress
        )
        for row in _sample_rows(reference, number, seed)
    ]
    table = pd.DataFrame(samples).sort_values(["masked", "reference"], ignore_index=True)
    exact = pairs.groupby("way", sort=False).agg(
        largest_reference=("reference", "max"),
        pairs=("equal", "count"),
        equal=("equal", "sum"),
        added_up=("terms", "sum"),
    )
    tables = {"exact": exact.reset_index(), "samples": table, "pairs": pairs}
    return Reproduction(
        item="unified-proposition-1",
        title="Expected Dice similarity of random pixels within a reference",
        tables=tables,
        figures={"overlap": _figure(table, number)},
        findings=_findings(tables),
        shown=SHOWN,
    )


def _exact_rows() -> list[dict[str, Any]]:
    rows = []
    for way, function, largest in (
        ("all subsets", _by_subsets, ENUMERATED),
        ("sum over the overlap", _by_overlaps, SUMMED),
    ):
        for reference in range(1, largest + 1):
            for masked in range(1, reference + 1):
                mean, terms = function(masked, reference)
                rows.append(
                    {
                        "way": way,
                        "masked": masked,
                        "reference": reference,
                        "mean": str(mean),
                        "equal": mean == expected_dice(masked, reference),
                        "terms": terms,
                    }
                )
    return rows


def _by_subsets(masked: int, reference: int) -> tuple[Fraction, int]:
    """Mean over every subset of `masked` of the pixels 0, ..., reference - 1, and their number."""
    first = torch.arange(masked)
    every = list(combinations(range(reference), masked))
    total = sum((dice(first, torch.tensor(chosen)) for chosen in every), Fraction(0))
    return total / len(every), len(every)


def _by_overlaps(masked: int, reference: int) -> tuple[Fraction, int]:
    """The sum of appendix F over k pixels in common, and how many k there are."""
    sizes = range(max(0, 2 * masked - reference), masked + 1)
    ways = [math.comb(masked, k) * math.comb(reference - masked, masked - k) for k in sizes]
    shared = sum(k * count for k, count in zip(sizes, ways, strict=True))
    return Fraction(shared, masked * math.comb(reference, masked)), len(sizes)


def _sample_rows(reference: int, number: int, seed: int) -> list[dict[str, Any]]:
    """Orders of a whole image, shuffled within a reference."""
    generator = torch.Generator().manual_seed(seed + reference)
    masked = [count for count in MASKED if count <= reference]
    found: dict[int, list[Fraction]] = {count: [] for count in masked}
    for start in range(0, number, CHUNK):
        orders = torch.stack(
            [torch.randperm(PIXELS, generator=generator) for _ in range(min(CHUNK, number - start))]
        )
        for order, shuffled in zip(
            orders, reference_order(orders, reference, generator), strict=True
        ):
            for count in masked:
                found[count].append(dice(order[:count], shuffled[:count]))
    rows = []
    for count, values in found.items():
        expected, mean = expected_dice(count, reference), sum(values, Fraction(0)) / number
        error, off = _standard_error(count, reference, number), float(mean - expected)
        rows.append(
            {
                "masked": count,
                "reference": reference,
                "expected": float(expected),
                "mean": float(mean),
                "standard_error": error,
                "errors_off": off / error if error else 0.0,
                "orders": number,
            }
        )
    return rows


def _standard_error(masked: int, reference: int, number: int) -> float:
    """Root of p (1 - p) (N - n) / ((N - 1) n) / orders, where p = n / N.

    The number of shared pixels is hypergeometric: nothing is estimated from few orders.
    """
    if masked == reference:
        return 0.0
    share = Fraction(masked, reference)
    variance = share * (1 - share) * Fraction(reference - masked, (reference - 1) * masked)
    return math.sqrt(variance / number)


def _findings(tables: dict[str, "pd.DataFrame"]) -> list[str]:
    exact, samples = tables["exact"], tables["samples"]
    said = "; ".join(
        f"{row.way}, N up to {row.largest_reference}: {row.equal:,} of {row.pairs:,} pairs equal n / N"
        for row in exact.itertuples()
    )
    drawn = samples[samples.masked < samples.reference]
    within = int((drawn.errors_off.abs() < NORMAL).sum())
    whole = samples[samples.masked == samples.reference]
    return [
        "The paper: the expected Dice similarity falls in inverse proportion to N; its appendix F has "
        "n / N.",
        f"Exactly: {said}.",
        f"Orders of {PIXELS:,} pixels shuffled by `reference_order`: {within} of {len(drawn)} means "
        f"are within {NORMAL} standard errors of n / N (about 95 % are to be expected), the farthest "
        f"is {drawn.errors_off.abs().max():.1f} off.",
        "Where N = n, the reference is the map's own order: "
        + (
            "all samples have similarity 1."
            if bool((whole["mean"] == 1).all())
            else "but samples are not all 1."
        ),
    ]


def _figure(samples: "pd.DataFrame", number: int) -> "Figure":
    overlaps = {
        f"n = {masked:,}": Overlap(
            int(str(masked)),
            here.reference.to_numpy(dtype=float),
            here["mean"].to_numpy(),
            NORMAL * here.standard_error.to_numpy(),
        )
        for masked, here in samples.groupby("masked")
    }
    title = (
        "Random n pixels within a map's first N, and the map's first n; lines: n / N\n"
        f"symbols: means over shuffled orders of {PIXELS:,} pixels ({number}), bars: 95 % intervals"
    )
    return overlaps_figure(overlaps, title)
