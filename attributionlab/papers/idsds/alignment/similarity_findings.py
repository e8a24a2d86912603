"""What the tables of idsds-section-4-1 and idsds-figure-10 say, in sentences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attributionlab.stats.intervals import paired_difference

if TYPE_CHECKING:
    import pandas as pd

Differences = Mapping[str, Sequence[Mapping[str, NDArray[np.float64]]]]

PAPER = (
    "The paper (ImageNet; mean absolute difference of the label's probability, of GradCAM's maps): "
    "ResNet-50 and its fine-tuned self 0.049, 0.047; VGG-16 and its fine-tuned self 0.028, 0.039; "
    "ResNet-50 and VGG-16 0.133, 0.193. It does not say how maps are scaled; here each is the positive "
    "part divided by its maximum. It shows that channels are excited most by much the same images."
)
TUNED, AGAIN = "its fine-tuned self", "another training of it"
"""How names of comparisons end."""
MEASURES = {"output": "the label's probability", "map": "GradCAM's maps"}


def similarity_findings(
    tables: Mapping[str, "pd.DataFrame"], differences: Differences, images: int, seed: int
) -> list[str]:
    """Sentences computed from the outcome of `idsds_similarity`.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        "differences", and "channels" and "accuracies" where there are some.
    differences : mapping of str to sequence
        By comparison, for each run the differences of each image.
    images, seed : int
        How many were asked about; of intervals.
    """
    said = [PAPER, *_measured(tables["differences"])]
    said += _nearer(differences, seed)
    if "channels" in tables:
        said += _channels(tables["channels"])
    if "accuracies" in tables:
        means = tables["accuracies"].groupby("network", sort=False).accuracy.mean()
        listed = ", ".join(f"{name} {mean:.1%}" for name, mean in means.items())
        said.append(f"Accuracy on {images} images that no network was trained on: {listed}.")
    return said


def _measured(table: "pd.DataFrame") -> Iterator[str]:
    for measure, here in table.groupby("measure", sort=False):
        listed = "; ".join(
            f"{row.comparison} {row.mean:.3f} ({row.low:.3f} to {row.high:.3f})"
            for row in here.itertuples()
        )
        runs = int(here.runs.max())
        over = f", means over {runs} training runs" if runs > 1 else ""
        yield (
            f"Mean absolute difference of {MEASURES[str(measure)]}{over} (95 % interval over images): "
            f"{listed}."
        )


def _nearer(differences: Differences, seed: int) -> Iterator[str]:
    """Whether a fine-tuned network differs less than another one does."""
    tuned = [name for name in differences if name.endswith(TUNED)]
    others = [name for name in differences if not name.endswith(TUNED)]
    for name in tuned:
        family = name.removesuffix(f" and {TUNED}")
        for other in others:
            if family not in other.split(" and "):
                continue
            rest = next(each for each in other.split(" and ") if each != family)
            outcomes = []
            for measure, said in MEASURES.items():
                if measure not in differences[name][0]:
                    continue
                own, far = (_mean(differences[each], measure) for each in (name, other))
                found = paired_difference(far, own, seed)
                outcome = {"first": "less", "second": "more", None: "not clearly more or less"}
                outcomes.append(
                    f"{outcome[found.better]} in {said} (by {found.mean:.3f}, {found.low:.3f} to "
                    f"{found.high:.3f})"
                )
            yield (
                f"From {family} its fine-tuned self differs, compared with {rest}: "
                f"{', '.join(outcomes)}."
            )


def _mean(runs: Sequence[Mapping[str, NDArray[np.float64]]], measure: str) -> NDArray[np.float64]:
    return np.asarray(np.mean([run[measure] for run in runs], axis=0))


def _channels(table: "pd.DataFrame") -> Iterator[str]:
    for row in table.itertuples():
        skipped = (
            f"; {row.not_compared} that no image excites, or all alike, are left out"
            if row.not_compared
            else ""
        )
        outcome = (
            "more than other channels do"
            if row.low > row.others
            else "not clearly more than other channels do"
        )
        yield (
            f"{row.comparison}: of the images that excite a channel most, {row.same:.0%} excite the "
            f"same channel of the other network most ({row.low:.0%} to {row.high:.0%} over "
            f"{row.channels} channels{skipped}), {outcome} ({row.others:.0%}); by chance "
            f"{row.chance:.0%} would."
        )
