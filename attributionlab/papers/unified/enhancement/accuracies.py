"""Table 2 of Wang and Wang (2022): how often untrained networks are right on enhanced images."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.errors import refuse_if
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.subjects.small_network import accuracy_of
from attributionlab.papers.unified.enhancement.projected_descent import EPSILON, STEPS, enhanced
from attributionlab.papers.unified.enhancement.twins import (
    DESIGNS,
    INITIALIZATIONS,
    Twins,
    given_twins,
    our_twins,
)
from attributionlab.progress import track
from attributionlab.report.decays import DecayPanel, decays_figure
from attributionlab.report.reading import few_images_text
from attributionlab.stats.intervals import mean_interval
from attributionlab.validation import integer_problem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

NETWORKS, QUICK_NETWORKS = 6, 2
IMAGES, QUICK_IMAGES = 32, 12
TRAINING, QUICK_TRAINING = 1500, 400
NORMALIZED = 0.226
"""Standard deviation by which inputs of ImageNet networks are divided, as a share of the value range,
mean over channels."""
PAPER_EPSILON = round(EPSILON * NORMALIZED, 3)
"""The paper's 0.3 in units of such inputs, in units of pixel values from 0 to 1."""
EPSILONS = (0.01, 0.03, PAPER_EPSILON, EPSILON)
QUICK_EPSILONS = (PAPER_EPSILON, EPSILON)
RAW, SIGNS, ENHANCED = "raw", "random signs", "enhanced"
UNTRAINED, TRAINED = "untrained", "trained"
PAPER = {
    "AlexNet": (0.086, 64.664, 52.558),
    "VGG-16": (0.102, 99.956, 72.230),
    "MnasNet": (0.110, 64.588, 71.718),
}
"""Per cent: untrained on raw and enhanced images, trained on raw ones."""
STEPS_ACROSS = 10
"""Steps from the middle of the box to its side: epsilon / alpha of the paper."""
Line = tuple[NDArray[np.float64], NDArray[np.float64]]
SHOWN = {
    "accuracies": "share of images classified rightly, mean over networks with a 95 % bootstrap "
    "interval; initialization: of the untrained network, for which images are enhanced (the trained "
    "one began with He's); epsilon: half of the side of the box that enhanced images stay in, and size "
    "of the random signs that are added for comparison, in units of pixel values from 0 to 1",
}


def unified_table_2(
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    images: str | None = None,
    model: str | None = None,
    weights: str | None = None,
    classes: str | None = None,
    size: int = 224,
    steps: int = STEPS,
    show_progress: bool = False,
) -> Reproduction:
    """Accuracy of untrained networks on raw and enhanced images, and of trained ones on raw images.

    Parameters
    ----------
    n : int, optional
        Images for each network; 32, or 12 in a quick run, by default. Of given images, for each class;
        8 by default.
    quick : bool
        Fewer networks, images and sizes of the box.
    seed : int
        Of images and weights.
    images, model, weights : str, optional
        A folder of class folders, a classifier (``path/to/file.py:name``) and a file with its trained
        weights, to be asked instead of our three designs; without the weights it is untrained.
    classes : str, optional
        A text file that names the class folder of each output of the classifier, one in a line.
    size : int
        Side of the given images.
    steps : int
        Of the descent; the step's length is a tenth of epsilon, as in the paper.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "accuracies" and "networks" (each of them); figure "accuracies".
    """
    import pandas as pd

    refuse_if(integer_problem("steps", steps, 1))
    networks = QUICK_NETWORKS if quick else NETWORKS
    epsilons = QUICK_EPSILONS if quick else EPSILONS
    given = given_twins(
        *(images, model, weights, 8 if n is None else n, seed, networks),
        size=size,
        layer=None,
        classes=classes,
    )
    number = n if n is not None else QUICK_IMAGES if quick else IMAGES
    training = QUICK_TRAINING if quick else TRAINING
    asked: Iterable[Twins] = given if given is not None else _ours(number, training, seed, networks)
    total = networks if given is not None else networks * len(DESIGNS) * len(INITIALIZATIONS)
    rows: list[dict[str, Any]] = []
    count = 0
    for index, twins in enumerate(track(asked, total, "unified-table-2", show_progress)):
        count = int(twins.untrained(twins.images[:1]).shape[1])
        keys = {"design": twins.design, "initialization": twins.initialization}
        rows += [keys | row for row in _rows(twins, epsilons, steps, seed + index)]
    each = pd.DataFrame(rows)
    means = _means(each, seed)
    chance = 1 / count
    return Reproduction(
        item="unified-table-2",
        title="Accuracy of untrained networks on enhanced images",
        tables={"accuracies": means, "networks": each},
        figures={"accuracies": _figure(each, epsilons, chance)},
        findings=[
            *(given[0].notes[:1] if given is not None else ()),
            *_findings(means, epsilons, chance, networks),
        ],
        shown=SHOWN,
    )


def _ours(n: int, training: int, seed: int, networks: int) -> Iterator[Twins]:
    for index in range(networks):
        for design in DESIGNS:
            yield from our_twins(design, n, training, seed + 2 * index, INITIALIZATIONS)


def _rows(
    twins: Twins, epsilons: Sequence[float], steps: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Accuracies of both networks on raw images and on those that are changed for the untrained one."""

    def row(network: str, images: str, epsilon: float, shown: Tensor) -> dict[str, Any]:
        model = twins.untrained if network == UNTRAINED else twins.trained
        right = accuracy_of(model, shown, twins.labels, batch_size=64)
        return {"network": network, "images": images, "epsilon": epsilon, "accuracy": right}

    for network in (UNTRAINED, TRAINED):
        yield row(network, RAW, 0.0, twins.images)
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, twins.images.shape, generator=generator) * 2 - 1
    for epsilon in epsilons:
        noisy = (twins.images + epsilon * signs).clamp(0, 1)
        yield row(UNTRAINED, SIGNS, epsilon, noisy)
        better = enhanced(
            twins.untrained,
            twins.images,
            twins.labels,
            epsilon=epsilon,
            alpha=epsilon / STEPS_ACROSS,
            steps=steps,
            low=0.0,
            high=1.0,
        )
        for network in (UNTRAINED, TRAINED):
            yield row(network, ENHANCED, epsilon, better)


def _means(each: "pd.DataFrame", seed: int) -> "pd.DataFrame":
    """Over networks, with intervals."""
    import pandas as pd

    rows = []
    keys = ["design", "initialization", "network", "images", "epsilon"]
    for key, here in each.groupby(keys, sort=False):
        interval = mean_interval(here.accuracy.to_numpy(), seed)
        rows.append(
            {
                **dict(zip(keys, key, strict=True)),
                "accuracy": float(here.accuracy.mean()),
                "low": interval.low if interval else np.nan,
                "high": interval.high if interval else np.nan,
                "networks": len(here),
            }
        )
    return pd.DataFrame(rows)


def _figure(each: "pd.DataFrame", epsilons: Sequence[float], chance: float) -> "Figure":
    """A panel for each design and initialization, accuracies by the size of the box."""
    x = np.array(epsilons)
    rows: dict[str, list[DecayPanel]] = {}
    for (initialization, design), here in each.groupby(["initialization", "design"], sort=False):
        lines = {
            "untrained, enhanced": _line(here, UNTRAINED, ENHANCED),
            "untrained, random signs": _line(here, UNTRAINED, SIGNS),
            "trained, enhanced for the untrained": _line(here, TRAINED, ENHANCED),
            "trained, raw": _flat(_line(here, TRAINED, RAW), len(x)),
            "untrained, raw": _flat(_line(here, UNTRAINED, RAW), len(x)),
            "chance": (np.full(len(x), chance), np.zeros(len(x))),
        }
        title = f"{design}, initialization: {initialization}"
        panel = DecayPanel(
            *(title, "epsilon (pixel values from 0 to 1)", "accuracy (higher: more are right)", x),
            lines,
            shares=True,
        )
        rows.setdefault(str(initialization), []).append(panel)
    return decays_figure(
        list(rows.values()), "Images enhanced for untrained networks", bold=("untrained, enhanced",)
    )


def _line(here: "pd.DataFrame", network: str, images: str) -> Line:
    """Means over networks by epsilon, and their standard errors."""
    chosen = here[(here.network == network) & (here.images == images)]
    by_epsilon = chosen.groupby("epsilon").accuracy
    return by_epsilon.mean().to_numpy(), by_epsilon.sem().to_numpy()


def _flat(line: Line, points: int) -> Line:
    mean, error = line
    return np.repeat(mean, points), np.repeat(error, points)


def _findings(
    means: "pd.DataFrame", epsilons: Sequence[float], chance: float, networks: int
) -> Iterator[str]:
    said = ", ".join(f"{name} {raw} / {up} / {own} %" for name, (raw, up, own) in PAPER.items())
    yield (
        "The paper (ImageNet; untrained on raw images / untrained on enhanced ones / trained on raw "
        f"ones): {said}."
    )
    yield (
        "It does not say on what scale epsilon is 0.3, whether pixels are cut to their range, where "
        "the descent starts and how networks are initialized. Here pixels lie in [0, 1] and are cut to "
        f"it, the image is the start, the step is epsilon / 10; {PAPER_EPSILON:g} is 0.3 in units of "
        f"inputs that are divided by {NORMALIZED:g}, as ImageNet networks take them, and 0.3 is "
        f"anything but imperceptible. Means are over {networks} networks, brackets are 95 % intervals; "
        f"chance is {chance:.0%}."
    )
    for (design, initialization), here in means.groupby(["design", "initialization"], sort=False):
        by_image = {
            (row.network, row.images, row.epsilon): row for row in here.itertuples(index=False)
        }
        raw, trained = by_image[UNTRAINED, RAW, 0.0], by_image[TRAINED, RAW, 0.0]
        parts = [
            f"{epsilon:g}: {_said(by_image[UNTRAINED, ENHANCED, epsilon])}, random signs "
            f"{by_image[UNTRAINED, SIGNS, epsilon].accuracy:.0%}, the trained twin "
            f"{by_image[TRAINED, ENHANCED, epsilon].accuracy:.0%}"
            for epsilon in epsilons
        ]
        yield (
            f"{design}, initialization {initialization}: untrained on raw images {_said(raw)}, trained "
            f"{_said(trained)}. Untrained on enhanced images, by epsilon: {'; '.join(parts)}. "
            f"{_outcome(by_image, epsilons, raw, trained, networks)}"
        )


def _outcome(
    by_image: Mapping[Any, Any], epsilons: Sequence[float], raw: Any, trained: Any, networks: int
) -> str:
    """Where enhancement clearly raises the accuracy, and where not below the trained network's."""
    if few_images_text(networks):
        return "With fewer than six networks this is no verdict."
    found = {epsilon: by_image[UNTRAINED, ENHANCED, epsilon] for epsilon in epsilons}
    raised = [epsilon for epsilon, row in found.items() if _below(raw, row)]
    equal = [epsilon for epsilon in raised if not _below(found[epsilon], trained)]
    if not raised:
        return "Enhancement does not clearly raise the accuracy."
    reached = (
        f"to one that is not clearly below the trained network's {_places(equal, epsilons)}"
        if equal
        else "and stays clearly below the trained network's"
    )
    return f"Enhancement clearly raises the accuracy {_places(raised, epsilons)}, {reached}."


def _below(lower: Any, upper: Any) -> bool:
    """Whether one interval ends before the other begins, in whole per cent as they are printed."""
    return bool(round(lower.high, 2) < round(upper.low, 2))


def _places(chosen: Sequence[float], epsilons: Sequence[float]) -> str:
    """Among ascending sizes; "from ... on" only where it holds for all larger ones."""
    if list(chosen) == list(epsilons)[-len(chosen) :]:
        return f"from {chosen[0]:g} on"
    return f"at {', '.join(f'{each:g}' for each in chosen)}"


def _said(row: Any) -> str:
    ends = "no interval" if np.isnan(row.low) else f"{row.low:.0%} to {row.high:.0%}"
    return f"{row.accuracy:.0%} ({ends})"
