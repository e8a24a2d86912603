"""Figure 3: a trained network need not use the features that its data were designed to have."""

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float32
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.show import dots, map_grid

Head = Literal["flatten", "pooling"]
"""What joins the last maps to the two logits: a weight for each place, or the mean over all places."""

SIDE = 32
LABELS = (0, 1)
LEARNING_RATE, LOSS, MOST_STEPS = 1e-3, 0.01, 2000
OUTCOMES = {
    (True, False): "center alone suffices",
    (True, True): "either suffices",
    (False, True): "edge alone suffices",
    (False, False): "neither suffices",
}
"""By whether a network is right on both center objects alone, and on both edge objects alone."""
PUBLISHED = (1.0, 0.5, 1.0)
"""Accuracies of the paper's network in training, on the center and on the edge objects."""


class DesignedImages(NamedTuple):
    """Images of the two classes, white on black: whole, center object alone, edge object alone."""

    both: Float32[Tensor, "2 1 height width"]
    center: Float32[Tensor, "2 1 height width"]
    edge: Float32[Tensor, "2 1 height width"]


class Outcome(NamedTuple):
    """How a network answers on the three sets, and where its answers come from.

    `share` is the edge objects' part of what tells the classes apart: with m the difference of the two
    logits and D(x) = m(x of class 1) - m(x of class 0), it is D(edge) / (D(center) + D(edge)). 1 would
    be a network that ignores the center.
    """

    training: float
    center: float
    edge: float
    share: float


def designed_images() -> DesignedImages:
    """The data of appendix A: class 0 has rectangles, class 1 has discs.

    A large one in the center (12 x 16 pixels; radius 7.5), a small one at the top left (4 x 6) or the
    bottom right edge (radius 2.5). The paper gives no sizes.
    """
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    middle = SIDE / 2

    def rectangle(top: float, left: float, height: float, width: float) -> NDArray[np.bool_]:
        inside = (y > top) & (y < top + height) & (x > left) & (x < left + width)
        return np.asarray(inside)

    def disc(row: float, column: float, radius: float) -> NDArray[np.bool_]:
        return np.asarray((y - row) ** 2 + (x - column) ** 2 < radius**2)

    center = np.stack([rectangle(middle - 6, middle - 8, 12, 16), disc(middle, middle, 7.5)])
    edge = np.stack([rectangle(1, 1, 4, 6), disc(SIDE - 3.5, SIDE - 3.5, 2.5)])
    return DesignedImages(
        *(torch.from_numpy(each[:, None]).float() for each in (center | edge, center, edge))
    )


def train(head: Head, seed: int) -> tuple[nn.Sequential, int]:
    """A small convolutional network trained on the two designed images, and the steps that it took.

    Two convolutions (8 and 16 kernels of 3 x 3), each with ReLU and 2 x 2 maximum pooling, then one
    linear layer, which reads each place of the last maps ("flatten") or their means ("pooling");
    Adam, until the mean cross-entropy is below 0.01. Chosen beforehand, as the smallest network of
    the common kind. Only the first weights are random; the global generator is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        places = 1 if head == "pooling" else (SIDE // 4) ** 2
        network = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.AdaptiveAvgPool2d(1) if head == "pooling" else nn.Identity(),
            nn.Flatten(),
            nn.Linear(16 * places, 2),
        )
    images, labels = designed_images().both, torch.tensor(LABELS)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    for step in range(MOST_STEPS):
        loss = nn.functional.cross_entropy(network(images), labels)
        if loss.item() < LOSS:
            return network, step
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return network, MOST_STEPS


def outcome(network: nn.Module) -> Outcome:
    """Accuracies of a network of two logits, and the share of the edge objects."""
    accuracies, swings = [], []
    for images in designed_images():
        with torch.no_grad():
            margins = network(images).diff(dim=1)[:, 0]
        accuracies.append(float(((margins > 0) == torch.tensor(LABELS).bool()).float().mean()))
        swings.append(float(margins[1] - margins[0]))
    (training, center, edge), (_, by_center, by_edge) = accuracies, swings
    return Outcome(training, center, edge, by_edge / (by_center + by_edge))


def figure_3(run: Run) -> Found:
    """Train n networks of each kind on two designed images; test on center and edge objects alone."""
    heads: tuple[Head, ...] = get_args(Head)
    rows: list[dict[str, Any]] = []
    for head, seed in run.track([(head, run.seed + i) for head in heads for i in range(run.n)]):
        network, steps = train(head, seed)
        found = outcome(network)
        name = OUTCOMES[found.center == 1, found.edge == 1]
        rows.append({"head": head, "seed": seed, "steps": steps, "outcome": name} | found._asdict())
    networks = pd.DataFrame(rows)
    counted = networks.groupby(["head", "outcome"], sort=False).size().rename("networks")
    same = (networks[["training", "center", "edge"]] == list(PUBLISHED)).all(axis=1)
    counts = networks.assign(right_in_training=networks.training == 1, as_published=same)
    shares = counts.groupby("head", sort=False).agg(
        networks=("seed", "size"),
        right_in_training=("right_in_training", "sum"),
        as_published=("as_published", "sum"),
        median_share=("share", "median"),
        least_share=("share", "min"),
        largest_share=("share", "max"),
    )
    tables = {"outcomes": counted.reset_index(), "shares": shares.reset_index()}
    images = designed_images()._asdict()
    accuracies = zip(images, networks.loc[0, ["training", "center", "edge"]], strict=True)
    figures = {
        "images": map_grid(
            {name: [each.numpy() for each in of_kind] for name, of_kind in images.items()},
            headings=["class 0", "class 1"],
            notes={name: ["", f"accuracy {accuracy:.0%}"] for name, accuracy in accuracies},
            title=f"Images, and accuracies of a network ({heads[0]} head, seed {run.seed})",
        ),
        "networks": dots(
            *(networks, "share", "head"),
            color="outcome",
            title=f"Outcomes of {run.n} networks of each kind",
            xlabel="share of the class difference due to the edge objects",
            reference=0.5,
        ),
    }
    return Found({**tables, "networks": networks}, figures)


def accuracy_does_not_tell_what_is_used(tables: Tables) -> bool | None:
    networks = tables["networks"]
    ends = networks[networks.training == 1].outcome.nunique()
    return True if ends > 1 else None  # all alike, or none: others may differ


def half_right_is_not_ignored(tables: Tables) -> bool | None:
    networks = tables["networks"]
    missed = networks[networks.outcome == OUTCOMES[True, False]].share
    return bool((missed.abs() > 0.005).any()) if len(missed) else None
