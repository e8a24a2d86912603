"""Table 3 of Hesse et al. (2024): accuracy before and after fine-tuning on images without a patch."""

from typing import Unpack

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int64
from matplotlib.figure import Figure
from torch import Tensor, nn

from attributionlab.base import FEWEST_FOR_ORDER, Replacement
from attributionlab.papers.answers import decided, mean_ends, over_draws
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.papers.idsds.training import (
    BLACK,
    PATCHES,
    Images,
    Labels,
    Pair,
    colors_left,
    given_pair,
    task_named,
    trained_pairs,
    without_each,
)
from attributionlab.papers.subjects.networks import Design
from attributionlab.papers.subjects.subjects import OwnNetwork
from attributionlab.show import dots

Winners = Int64[Tensor, "batch patches"]

BEFORE, AFTER = "before", "after"
DESIGNS = (
    *(Design("residual", batch_norm=True), Design("residual", depth=2, batch_norm=True)),
    *(Design("residual", width=24, batch_norm=True), Design("residual")),
    *(Design("residual", bias=False), Design("plain")),
    *(Design("attention"), Design("b-cos"), Design("bag")),
)
"""In the order of the paper's table; of its four depths two have a counterpart."""
QUICK_DESIGNS = (Design("residual", batch_norm=True), Design("plain"), Design("bag"))
QUESTIONS = {
    "whole": "whole images",
    "worst": "without the worst patch",
    "same": "without the worst patch that leaves the label true",
    "left": "without the worst patch, by what wins then",
}
"""The columns of `rights`."""
PUBLISHED_CHANGES = {"whole": (-0.67, 4.16), "worst": (4.13, 12.58)}
"""Least and largest change of accuracy of eleven networks on ImageNet, in points."""

ENDS = (BEFORE, AFTER, "change", "low", "high")
"""What a table has of each question."""


def worst_patch(
    run: Run,
    *,
    training: int,
    epochs: int,
    fine_tuning: int,
    runs: int,
    task: str = "colors",
    fine_tuned: str | None = None,
    **own: Unpack[OwnNetwork],
) -> Found:
    """Count how often networks are right before and after fine-tuning: whole, and without each patch.

    `task` is "colors" or "pictures"; what is true of an image without a patch is known of the colors
    alone. A user's network is measured instead where `images` and `model` are given, with `weights`
    before and `fine_tuned` after fine-tuning; the mean color of the images then takes the place of
    black.
    """
    given = given_pair(run, fine_tuned, **own)
    filling: Replacement = BLACK
    winners = None
    if given is not None:
        subject, tuned = given
        assert tuned is not None
        images, labels, filling = subject.images, subject.targets, subject.empty
        pairs = iter([(subject.name, 0, Pair(subject.model, tuned))])
    else:
        data = task_named(task)(training, run.n, run.seed)
        images, labels = data.images, data.labels
        if data.name == "colors":
            winners = left_truth(images, PATCHES, BLACK)
        chosen = {each.name: each for each in (QUICK_DESIGNS if run.quick else DESIGNS)}
        how = {"runs": runs, "epochs": epochs, "fine_tuning": fine_tuning}
        pairs = trained_pairs(run, chosen, data, **how)
    every = pd.concat(
        rights(network, images, labels, PATCHES, filling, winners).assign(
            network=name, run=repeat, version=version
        )
        for name, repeat, pair in pairs
        for version, network in zip((BEFORE, AFTER), pair, strict=True)
    )
    questions = [name for name in QUESTIONS if name in every]
    by_image = 100 * every.groupby(["network", "version", "image"], sort=False)[questions].mean()
    accuracies = _accuracies(by_image, run.seed)
    tables = {"accuracies": accuracies, "changes": _changes(accuracies, len(images), run.seed)}
    if winners is not None:
        tables["losses"] = losses = _losses(by_image)
        means = losses.groupby("version", sort=False).mean(numeric_only=True).reset_index()
        means.insert(2, "share", (means.truth / means.loss).where(means.loss > 0))
        kept = (winners == labels[:, None]).all(1)
        tables["costs"] = means.assign(exact=100 * float(kept.double().mean()))
    if given is None:
        columns = ["network", "run", "version"]
        tables["runs"] = every.groupby(columns, sort=False)[questions].mean().reset_index()
    figures = {"accuracies": _accuracy_figure(by_image, run.seed)}
    return Found(tables, figures, () if given is None else given[0].notes[:2])


def whole_images_keep_their_accuracy(tables: Tables) -> bool | None:
    row = tables["changes"].set_index("where").loc["whole"]
    return decided(row.low > -1 and not row.down > 0, row.down > 0)


def the_worst_patch_costs_less(tables: Tables) -> bool | None:
    row = tables["changes"].set_index("where").loc["worst"]
    return decided(row.low > 0, row.high < PUBLISHED_CHANGES["worst"][0])


def most_of_the_cost_is_the_truths(tables: Tables) -> bool | None:
    if "losses" not in tables:
        return None
    more = tables["losses"].truth > tables["losses"].network_own
    return decided(more.all(), not more.any())


def left_truth(images: Images, patches: int, replacement: Replacement) -> Winners:
    """The color that has the most pixels in images of the colors task without each patch.

    It is -1 where two have.
    """
    deleted = torch.cat(without_each(images, patches, replacement))
    pixels, colors = colors_left(deleted).topk(2, dim=1)
    sole = torch.where(pixels[:, 0] > pixels[:, 1], colors[:, 0], -1)
    return sole.view(patches, len(images)).T


def rights(
    network: nn.Module,
    images: Images,
    labels: Labels,
    patches: int,
    replacement: Replacement,
    winners: Winners | None = None,
) -> pd.DataFrame:
    """Where a network is right (1 or 0), in up to four ways, a row for each image.

    "whole": on the image. "worst": without whichever patch, so on the image without the worst one (the
    paper's accuracy on corrupted images). "same": without whichever patch of those that leave the
    label the winner. "left": without whichever patch, held against the color that wins then; ties
    are left out.
    """
    with torch.no_grad():
        named = [network(each).argmax(1) for each in without_each(images, patches, replacement)]
        right = {"whole": network(images).argmax(1) == labels}
    answers, wanted = torch.stack(named, 1), labels[:, None]
    right["worst"] = (answers == wanted).all(1)
    if winners is not None:
        right["same"] = ((answers == wanted) | (winners != wanted)).all(1)
        right["left"] = ((answers == winners) | (winners < 0)).all(1)
    columns = {name: each.double().cpu().numpy() for name, each in right.items()}
    return pd.DataFrame({"image": range(len(labels)), **columns})


def _accuracies(by_image: pd.DataFrame, seed: int) -> pd.DataFrame:
    rows = []
    for network, part in by_image.groupby("network", sort=False):
        before, after = (part.xs(each, level="version") for each in (BEFORE, AFTER))
        row = {"network": network}
        for name in PUBLISHED_CHANGES:
            change = after[name] - before[name]
            found = [each.mean() for each in (before[name], after[name], change)]
            found += mean_ends(change, seed, FEWEST_FOR_ORDER)
            row |= {f"{name}_{key}": value for key, value in zip(ENDS, found, strict=True)}
        rows.append(row)
    return pd.DataFrame(rows)


def _changes(accuracies: pd.DataFrame, images: int, seed: int) -> pd.DataFrame:
    """What accuracies and their changes are over networks."""
    rows = []
    for question, paper in PUBLISHED_CHANGES.items():
        old, new, change, low, high = (accuracies[f"{question}_{key}"] for key in ENDS)
        ends = mean_ends(change, seed, FEWEST_FOR_ORDER)
        clear = [(low > 0).sum(), (high < 0).sum()] if low.notna().all() else [np.nan, np.nan]
        middle = (old.mean(), new.mean(), change.min(), change.max(), change.mean(), *ends)
        rows.append((question, *middle, *clear, len(change), images, *paper))
    columns = ["where", "before", "after", "least", "most", "mean", "low", "high", "up", "down"]
    return pd.DataFrame(rows, columns=[*columns, "networks", "images", "paper_least", "paper_most"])


def _losses(by_image: pd.DataFrame) -> pd.DataFrame:
    """loss = whole - worst = (whole - same) + (same - worst), the network's part and the truth's."""
    mean = by_image.groupby(["network", "version"], sort=False).mean()
    columns = {
        "loss": mean.whole - mean.worst,
        "truth": mean.same - mean.worst,
        "network_own": mean.whole - mean.same,
        "left": mean.left,
    }
    return pd.DataFrame(columns).reset_index()


def _accuracy_figure(by_image: pd.DataFrame, seed: int) -> Figure:
    long = by_image.rename(columns=QUESTIONS).rename_axis(columns="question").stack()
    table = long.rename("accuracy").reset_index()
    table["version"] += " fine-tuning"
    table = over_draws(table, ["question", "network", "version"], "accuracy", seed)
    images = by_image.index.get_level_values("image").nunique()
    return dots(
        *(table, "accuracy", "network"),
        color="version",
        panel="question",
        columns=2,
        title=f"Accuracy with 95 % intervals over {images} images (Table 3)",
        xlabel="accuracy in % (higher is better)",
    )
