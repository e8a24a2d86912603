"""Networks of several designs, each trained from several seeds, and the scores of maps of them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attributionlab.errors import AttributionLabError, nearest, refuse_if
from attributionlab.papers.idsds.choices.cells import (
    AFTER,
    LOGIT,
    OUTPUTS,
    PATCHES,
    PROBABILITY,
    TRUTH,
    CellScores,
    Explained,
    cell_scores,
)
from attributionlab.papers.idsds.data import Task, colors_task, pictures_task
from attributionlab.papers.idsds.training import Pair, trained_pair
from attributionlab.papers.subjects.networks import Design, gradcam_layer
from attributionlab.papers.subjects.small_network import accuracy_of
from attributionlab.progress import track
from attributionlab.stats.intervals import mean_score
from attributionlab.validation import integer_problem

if TYPE_CHECKING:
    import pandas as pd


def _small_colors(training: int, n: int, seed: int) -> Task:
    return colors_task(training, n, seed, side=16)


TASKS: Mapping[str, Callable[[int, int, int], Task]] = {
    "colors": _small_colors,
    "pictures": pictures_task,
}
"""(images to train on, to explain, seed) -> Task"""


@dataclass(frozen=True)
class Scale:
    """How much is trained and explained.

    Parameters
    ----------
    images, tested, training : int
        Images to explain, to be right on (those to explain are of them), and to train on.
    epochs, fine_tuning : int
        Passes over the images as they are, and then with deleted cells.
    runs : int
        Trainings of each design. Each has images, weights and an order of its own.
    methods : tuple of str
        Rows of the panel.
    quick : bool
        Whether methods take fewer samples.
    """

    images: int
    tested: int
    training: int
    epochs: int
    fine_tuning: int
    runs: int
    methods: tuple[str, ...]
    quick: bool

    def __post_init__(self) -> None:
        counts = ("images", "tested", "training", "epochs", "fine_tuning", "runs")
        refuse_if([p for name in counts for p in integer_problem(name, getattr(self, name), 1)])


@dataclass(frozen=True, eq=False)
class Measured:
    """What networks and maps of them scored.

    Parameters
    ----------
    scores : DataFrame
        A row for each setup (a design, with `AFTER` where maps explain the probability), run, method
        and what its maps are held "against": drops of the logit (IDSDS), drops of the probability, and
        the data's truth where it is known. "score" is the mean over "images" where that is not
        constant ("constant_drops" are not counted); there "constant_maps" have 0.
    networks : DataFrame
        A row for each design (as "setup") and run: parameters, accuracies before and after fine-tuning
        on images as they are, and means over images of `network_facts`.
    """

    scores: "pd.DataFrame"
    networks: "pd.DataFrame"

    def __add__(self, other: "Measured") -> "Measured":
        """Both, one below the other."""
        import pandas as pd

        both = (
            pd.concat([getattr(each, name) for each in (self, other)], ignore_index=True)
            for name in ("scores", "networks")
        )
        return Measured(*both)


def measured(
    designs: Sequence[Design],
    scale: Scale,
    *,
    task: str,
    seed: int,
    after_softmax: Collection[str] = (),
    show_progress: bool = False,
) -> Measured:
    """Train each design in each run, once, and score maps of the fine-tuned networks.

    Networks of one run share the images they are trained on and explained for, so that they can be
    compared in pairs.

    Parameters
    ----------
    designs : sequence of Design
        Of networks.
    scale : Scale
        How much.
    task : {"colors", "pictures"}
        What the images are: of colors, 16 x 16 pixels, the truth is known; of pictures, 32 x 32, where
        the object is.
    seed : int
        Of the first run; two are between runs, because a task's images are of two seeds.
    after_softmax : collection of str
        Names of designs whose probability is explained, too.
    show_progress : bool
        Show progress on standard error.

    Raises
    ------
    AttributionLabError
        For a task that is none.
    """
    import pandas as pd

    if task not in TASKS:
        raise AttributionLabError(f"task is {task!r}: {nearest(task, TASKS)}")
    scores: list[dict[str, Any]] = []
    networks: list[dict[str, Any]] = []
    trained = _trained(designs, scale, TASKS[task], seed)
    total = len(designs) * scale.runs
    for name, run, pair, given in track(trained, total, "networks", show_progress):
        network = pair.fine_tuned
        held = Explained(
            network,
            gradcam_layer(network),
            given.images[: scale.images],
            given.labels[: scale.images],
            given.baseline,
            None if given.truth is None else given.truth[: scale.images],
        )
        references = held.references()
        for output in OUTPUTS if name in after_softmax else OUTPUTS[:1]:
            key = {"setup": name if output == LOGIT else name + AFTER, "run": run}
            for method, sums in held.sums(output, scale.methods, run, quick=scale.quick):
                scores += [
                    {**key, "method": method, "against": against}
                    | summary_of(cell_scores(reference, sums))
                    for against, reference in references.items()
                ]
        networks.append(
            {
                "setup": name,
                "run": run,
                "parameters": sum(each.numel() for each in network.parameters()),
                "accuracy_before": accuracy_of(pair.original, given.images, given.labels),
                "accuracy": accuracy_of(network, given.images, given.labels),
                **network_facts(held, references).mean(),
            }
        )
    return Measured(pd.DataFrame(scores), pd.DataFrame(networks))


def _trained(
    designs: Sequence[Design], scale: Scale, draw: Callable[[int, int, int], Task], seed: int
) -> Iterator[tuple[str, int, Pair, Task]]:
    """Name, run, networks and images, run by run."""
    for run in range(scale.runs):
        own = seed + 2 * run
        given = draw(scale.training, max(scale.tested, scale.images), own)
        for design in designs:
            pair = trained_pair(
                design,
                given,
                seed=own,
                patches=PATCHES,
                replacement=given.baseline,
                epochs=scale.epochs,
                fine_tuning_epochs=scale.fine_tuning,
            )
            yield design.name, run, pair, given


def network_facts(held: Explained, references: Mapping[str, Any]) -> "pd.DataFrame":
    """What is true of a network whatever explains it, a row for each image.

    Returns
    -------
    DataFrame
        "network_truth": Spearman's correlation of the logit's drops with the data's truth (NaN where
        that is not known); "drops_agree": of the drops of logit and probability; "probability": of the
        label; "saturated": whether that is 1 after rounding.
    """
    import pandas as pd

    logit, probability = references[LOGIT], references[PROBABILITY]
    probabilities = held.probabilities().double().numpy()
    return pd.DataFrame(
        {
            "network_truth": cell_scores(references[TRUTH], logit).scores
            if TRUTH in references
            else np.nan,
            "drops_agree": cell_scores(logit, probability).scores,
            "probability": probabilities,
            "saturated": probabilities == 1,
        }
    )


def summary_of(found: CellScores) -> dict[str, Any]:
    """The mean score over images, and what had to be decided."""
    known = int((~np.isnan(found.scores)).sum())
    return {
        "score": mean_score(found.scores),
        "constant_maps": int(found.constant_maps.sum()),
        "constant_drops": len(found.scores) - known,
        "images": known,
    }
