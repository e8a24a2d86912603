"""Proposition 1: n random pixels of a map's first N overlap with its first n by n / N."""

import math
from fractions import Fraction
from itertools import combinations
from typing import Any

import pandas as pd
import torch

from attributionlab.metrics import dice, expected_dice, reference_order
from attributionlab.papers.catalog import Found, Run
from attributionlab.show import scatter

ENUMERATED, SUMMED = 10, 60
"""The largest N of which all subsets, and all sizes of the overlap, are gone through."""
PIXELS = 224 * 224
MASKED = (3_000, 9_000, 15_000)
REFERENCES = (9_000, 12_000, 15_000, 20_000, 30_000, PIXELS)
"""The paper masks up to N pixels within 15,000 to 30,000, and shows 9,000 within 12,000."""
COLUMNS = [
    *("masked", "reference", "expected", "mean", "standard_error", "errors_off", "within", "orders")
]
CHUNK = 20
"""Orders at once, 8 MB each 20."""
NORMAL = 1.96
"""Standard errors that 95 % of all means lie within; four are left by one of 14 once in 1,100 runs."""


def expected_overlap(run: Run) -> Found:
    """Compute the expected Dice similarity by enumeration, by the proof's sum and by sampling."""
    pairs = _exact()
    drawn = [row for each in run.track(REFERENCES) for row in _sample_rows(each, run.n, run.seed)]
    samples = pd.DataFrame(drawn, columns=COLUMNS)
    samples = samples.sort_values(["masked", "reference"], ignore_index=True)
    exact = pairs.groupby("way", sort=False).agg(
        largest_reference=("reference", "max"),
        pairs=("equal", "count"),
        equal=("equal", "sum"),
        added_up=("terms", "sum"),
    )
    shown = samples.assign(
        n=[f"n = {masked:,}" for masked in samples.masked],
        N=[f"{reference / 1000:.0f}k" for reference in samples.reference],
        x_low=samples.expected,
        x_high=samples.expected,
        y_low=samples["mean"] - NORMAL * samples.standard_error,
        y_high=samples["mean"] + NORMAL * samples.standard_error,
    )
    figure = scatter(
        *(shown, "expected", "mean"),
        color="n",
        panel="n",
        label="N",
        diagonal="mean = n / N",
        title="Dice similarity of the first n pixels of a map and n random ones of its first N: means "
        f"over {run.n} shuffled orders of {PIXELS:,} pixels, with 95 % intervals; beside points: N",
        xlabel="expected similarity n / N",
        ylabel="mean similarity (1: the same pixels)",
    )
    tables = {"exact": exact.reset_index(), "samples": samples, "pairs": pairs}
    return Found(tables, {"overlap": figure})


def _exact() -> pd.DataFrame:
    ways = (
        ("all subsets", _by_subsets, ENUMERATED),
        ("sum over the overlap", _by_overlaps, SUMMED),
    )
    rows = []
    for way, function, largest in ways:
        for masked, reference in _pairs(largest):
            mean, terms = function(masked, reference)
            equal = mean == expected_dice(masked, reference)
            rows.append((way, masked, reference, str(mean), equal, terms))
    return pd.DataFrame(rows, columns=["way", "masked", "reference", "mean", "equal", "terms"])


def _pairs(largest: int) -> list[tuple[int, int]]:
    return [(n, reference) for reference in range(1, largest + 1) for n in range(1, reference + 1)]


def _by_subsets(masked: int, reference: int) -> tuple[Fraction, int]:
    """The mean over every subset of `masked` of the first pixels, and their number."""
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


def _sample_rows(reference: int, number: int, seed: int) -> list[tuple[Any, ...]]:
    """Similarities of orders of a whole image, shuffled within a reference."""
    generator = torch.Generator().manual_seed(seed + reference)
    found: dict[int, list[Fraction]] = {count: [] for count in MASKED if count <= reference}
    for start in range(0, number, CHUNK):
        orders = torch.stack(
            [torch.randperm(PIXELS, generator=generator) for _ in range(min(CHUNK, number - start))]
        )
        shuffled = reference_order(orders, reference, generator)
        for own, other in zip(orders, shuffled, strict=True):
            for count, values in found.items():
                values.append(dice(own[:count], other[:count]))
    rows = []
    for count, values in found.items():
        expected, mean = expected_dice(count, reference), sum(values, Fraction(0)) / number
        error, off = _standard_error(count, reference, number), float(mean - expected)
        off_by, within = off / error if error else 0.0, abs(off) <= NORMAL * error
        rows.append((count, reference, float(expected), float(mean), error, off_by, within, number))
    return rows


def _standard_error(masked: int, reference: int, number: int) -> float:
    """The root of p (1 - p) (N - n) / ((N - 1) n) / orders, where p = n / N.

    The number of shared pixels is hypergeometric: nothing is estimated from few orders.
    """
    if masked == reference:
        return 0.0
    share = Fraction(masked, reference)
    variance = share * (1 - share) * Fraction(reference - masked, (reference - 1) * masked)
    return math.sqrt(variance / number)
