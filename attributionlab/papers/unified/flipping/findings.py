"""What the tables of Pixel Flipping say, in sentences."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attributionlab.papers.unified.flipping.orders import RANDOM, WINDOW
from attributionlab.papers.unified.flipping.tables import Case
from attributionlab.papers.unified.six_methods import GRADCAM
from attributionlab.papers.unified.verdicts import clear_sign, ends_text
from attributionlab.report.reading import few_images_text

if TYPE_CHECKING:
    import pandas as pd

DIGITS = 3
"""Of differences of the probability, as printed."""
HALF = 0.5
"""Of a reference, near which the paper sees the lowest point."""
Tables = Mapping[str, "pd.DataFrame"]
Units = Mapping[Case, int]


def findings_of(tables: Tables, units: Units) -> list[str]:
    """Sentences computed from the tables of `unified_flipping`.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Of the run.
    units : mapping of pair of str to int
        Over how many networks or images the means of each case are.
    """
    counted = ", ".join(f"{' with '.join(case)}: {number}" for case, number in units.items())
    return [
        "The paper (VGG-16, ImageNet; 18 % of the pixels masked; no numbers): random masking falls "
        "faster than GradCAM at first, maps of isolated pixels (Gradient, guided backpropagation, "
        "DeConvNet) fall faster than connected ones, masking at random within GradCAM's first N pixels "
        "falls faster than both, the furthest near half of N. It does not say what a score is "
        "normalized by, nor whether zero is black or the mean color; here it is black, and log ratios "
        "are of means over images.",
        f"Intervals are 95 % bootstrap intervals over networks or images ({counted})."
        + (
            " There is no verdict on fewer than six."
            if any(few_images_text(number) for number in units.values())
            else ""
        ),
        *_ties(tables["ties"]),
        *_random_against_gradcam(tables["differences"], units),
        *_unseen(tables["unseen"], units),
        *_isolation_alone(tables["differences"], units),
        *_correlations(tables["correlations"]),
        *_references(tables["references"], units),
    ]


def _ties(table: "pd.DataFrame") -> Iterator[str]:
    """Where the order of a map is chance, or that of zeros and negative values."""
    for subject, here in table.groupby("subject", sort=False):
        parts = [
            f"{row[2]} {row[3]}, {row[4]}, {row[5]}"
            for row in here.itertuples()
            if row[3] or row[4] or row[5]
        ]
        if parts:
            early, masked = here.columns[3:5]
            yield (
                f"{subject}: of {here.maps.max()} maps of each method, numbers of those that are "
                f"constant (their order is a random one), have {early}, and have {masked} pixels: "
                f"{'; '.join(parts)}."
            )


def _random_against_gradcam(table: "pd.DataFrame", units: Units) -> Iterator[str]:
    here = table[(table.against == GRADCAM) & (table.indicator == "probability")]
    for (subject, baseline), rows in here.groupby(["subject", "baseline"], sort=False):
        parts = [
            f"at {row.masked:.0%} masked random pixels take {_more(row, units)} GradCAM's of the "
            f"probability ({_signed(row)})"
            for row in rows.itertuples()
        ]
        yield f"{subject}, {baseline}: {'; '.join(parts)}."


def _unseen(table: "pd.DataFrame", units: Units) -> Iterator[str]:
    """What the true baseline leaves of the decay of random masking."""
    for subject in dict.fromkeys(table.get("subject", ())):
        here = table[(table.subject == subject) & table.order.isin([RANDOM, GRADCAM])]
        number = min(count for (name, _), count in units.items() if name == subject)
        parts = [
            f"{row.order} at {row.masked:.0%} {row.by_true_baseline + row.difference:.3f} against "
            f"{row.by_true_baseline:.3f} ({_signed(row)})"
            for row in here.itertuples()
        ]
        by_random = list(here[here.order == RANDOM].itertuples())
        signs = [clear_sign(row.low, row.high, number, DIGITS) for row in by_random]
        shares = ", ".join(
            f"{row.difference:+.3f} by the unseen color and {row.by_true_baseline:+.3f} without it at "
            f"{row.masked:.0%}"
            for row in by_random
        )
        most = table[table.subject == subject].sort_values("difference").iloc[-1]
        yield (
            f"{subject}: the drop of the probability with zeros, against that with the true baseline, "
            f"a color that the network knows: {', '.join(parts)}. The drop of random masking is "
            f"made up of {shares}"
            + (
                "."
                if None in signs
                else f"; the unseen color clearly adds to it at {signs.count(1)} of {len(signs)} "
                "shares."
            )
            + f" The most it adds to the drop of {most.order}: {_signed(most)} at {most.masked:.0%}."
        )


def _isolation_alone(table: "pd.DataFrame", units: Units) -> Iterator[str]:
    """Random pixels against random windows: as many, as uninformed, less isolated."""
    here = table[(table.against == WINDOW) & (table.indicator == "probability")]
    last = here.groupby(["subject", "baseline"], sort=False).tail(1)
    for row in last.itertuples():
        verdict = _verdict(
            row,
            units,
            ": isolation alone makes masking look more important than it is",
            ": isolation alone makes masking look less important than it is",
            ": whether pixels are isolated or connected makes no clear difference",
            "",
        )
        yield (
            f"{row.subject}, {row.baseline}: {row.masked:.0%} masked at random as single pixels take "
            f"{_more(row, units)} a window of the probability ({_signed(row)}){verdict}."
        )


def _correlations(table: "pd.DataFrame") -> Iterator[str]:
    here = table[table.indicator == "probability"]
    last = here.groupby(["subject", "baseline", "with"], sort=False).tail(1)
    for (subject, baseline), rows in last.groupby(["subject", "baseline"], sort=False):
        parts = [
            f"{'true information' if row[3] == 'truth' else row[3]} by {row[4]:.2f} "
            f"({ends_text(row[5], row[6], '.2f')})"
            for row in rows[
                ["subject", "baseline", "masked", "with", "correlation", "low", "high"]
            ].itertuples(index=False, name=None)
        ]
        yield (
            f"{subject}, {baseline}: over the seven maps, the probability that "
            f"{rows.masked.iloc[0]:.0%} masked pixels take correlates with {' and with '.join(parts)}."
        )


def _references(table: "pd.DataFrame", units: Units) -> Iterator[str]:
    for (subject, baseline), rows in table.groupby(["subject", "baseline"], sort=False):
        # A curve that begins equal and is nowhere below has its lowest point at 0.
        lower = rows[rows["at"] > 0]
        sizes = ", ".join(f"{share:.0%}" for share in rows.reference)
        number = units[str(subject), str(baseline)]
        signs = {
            name: [
                clear_sign(low, high, number, DIGITS)
                for low, high in zip(rows[f"{name}_low"], rows[f"{name}_high"], strict=True)
            ]
            for name in ("gradcam", "random")
        }
        below = [found.count(-1) for found in signs.values()]
        if any(None in found for found in signs.values()):
            means = [", ".join(f"{each:+.3f}" for each in rows[f"minus_{name}"]) for name in signs]
            outcome = (
                f"the probability minus GradCAM's is {means[0]}, minus that of random masking "
                f"{means[1]}, without a verdict"
            )
        elif min(below) == len(rows):
            outcome = "as in the paper, every reference falls faster than both"
        else:
            outcome = (
                f"{below[0]} of {len(rows)} references clearly fall faster than GradCAM, {below[1]} "
                "than random masking; the paper says all do"
            )
        yield (
            f"{subject}, {baseline}: half of a reference of {sizes} masked, {outcome}. "
            f"{_lowest(lower, len(rows), number)}"
        )


def _lowest(lower: "pd.DataFrame", references: int, number: int) -> str:
    """Of references that are below GradCAM anywhere."""
    if not len(lower):
        return "None is below GradCAM's mean anywhere."
    points = ", ".join(
        f"{row.at:.2f} of {row.reference:.0%} ({ends_text(row.at_low, row.at_high, '.2f')})"
        for row in lower.itertuples()
    )
    said = f"Of {references}, {len(lower)} are below GradCAM's mean somewhere, the furthest at {points}"
    if few_images_text(number):
        return f"{said}."
    near = int(((lower.at_low <= HALF) & (lower.at_high >= HALF)).sum())
    return f"{said}; the half that the paper sees is in {near} of these intervals."


def _more(row: Any, units: Units) -> str:
    unknown = f"{row.difference:+.{DIGITS}f} compared with"
    return _verdict(row, units, "more than", "less than", "about as much as", unknown)


def _verdict(row: Any, units: Units, above: str, below: str, neither: str, unknown: str) -> str:
    sign = clear_sign(row.low, row.high, units[row.subject, row.baseline], DIGITS)
    return {1: above, -1: below, 0: neither, None: unknown}[sign]


def _signed(row: Any) -> str:
    ends = ends_text(row.low, row.high, f"+.{DIGITS}f")
    return f"{row.difference:+.{DIGITS}f}, {ends}"
