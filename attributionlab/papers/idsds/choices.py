"""Figures 3, 4, 5, 8 and 9 of Hesse et al. (2024): which designs have more correct attributions?"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Unpack

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import nn

from attributionlab.base import FEWEST_FOR_ORDER, AttributionLabError, nearest
from attributionlab.methods import find_layer
from attributionlab.papers.answers import above, decided
from attributionlab.papers.catalog import Check, Found, Run, Tables, claim, items
from attributionlab.papers.idsds import training as tasks
from attributionlab.papers.idsds.comparisons import (
    AFTER,
    ALL,
    Comparison,
    Direction,
    against_of,
    comparison_tables,
    tradeoff,
)
from attributionlab.papers.idsds.maps import (
    ATTENDED,
    CONTROL,
    LOGIT,
    OUTPUTS,
    PANEL,
    PROBABILITY,
    TRUTH,
    UNIFORM,
    Patches,
    correlations,
    panel_scores,
    references,
    refused_rows,
    returning,
)
from attributionlab.papers.idsds.training import PATCHES, Images, Labels, Task, trained_pair
from attributionlab.papers.subjects.networks import Design, gradcam_layer
from attributionlab.papers.subjects.small_network import accuracy_of, right
from attributionlab.papers.subjects.subjects import OwnNetwork, chosen_subject
from attributionlab.show import dots, scatter

FIGURE_3, FIGURE_4, FIGURE_5, FIGURE_8, FIGURE_9 = (f"idsds-figure-{n}" for n in (3, 4, 5, 8, 9))
TASKS: Mapping[str, Callable[..., Task]] = {
    **tasks.TASKS,
    "colors": partial(tasks.colors_task, side=16),
}
QUICK_METHODS = (
    *("input-x-gradient", "integrated-gradients", "input-x-gradient-absolute"),
    *("integrated-gradients-absolute", "saliency", "gradcam", *ATTENDED, CONTROL),
)
ALIKE = 0.7
"""Rankings whose correlation is above this are called alike."""


class Study(NamedTuple):
    """Designs that are trained, what is compared, and designs that are trained half as often.

    The last are for scores over accuracies of all designs; without any there is no such figure.
    """

    designs: tuple[Design, ...]
    comparisons: tuple[Comparison, ...]
    others: tuple[Design, ...] = ()


def _steps(part: str, designs: Sequence[Design], paper: Direction) -> tuple[Comparison, ...]:
    """Return each design and the next."""
    names = [design.name for design in designs]
    return tuple(Comparison(part, *pair, paper) for pair in pairwise(names))


PLAIN, ATTENTION, RESIDUAL = (
    Design("plain"),
    Design("attention"),
    Design("residual", batch_norm=True),
)
"""In place of VGG-16, which has no batch norm, ViT-B/16, and ResNet-50, which has."""
WIDE = replace(RESIDUAL, width=32)
DEEP, DEEP_PLAIN = (
    tuple(replace(each, depth=depth) for depth in (1, 2, 3)) for each in (RESIDUAL, PLAIN)
)
BARE, BARE_PLAIN = (
    (replace(each, batch_norm=True), each, replace(each, bias=False))
    for each in (Design("residual"), PLAIN)
)
"""With batch norm, without it, and without bias as well."""
ARCHITECTURE, SOFTMAX = "(a) architecture", "softmax"
STUDIES = {
    FIGURE_3: Study(
        (PLAIN, ATTENTION, *DEEP),
        (
            Comparison(ARCHITECTURE, RESIDUAL.name, PLAIN.name, "higher"),
            Comparison(ARCHITECTURE, RESIDUAL.name, ATTENTION.name, "lower"),
            *_steps("(b) depth", DEEP, "lower"),
        ),
    ),
    FIGURE_4: Study(
        (RESIDUAL, WIDE),
        (
            *_steps("(a) width", (RESIDUAL, WIDE), "lower"),
            Comparison(f"(b) {SOFTMAX}", RESIDUAL.name, RESIDUAL.name + AFTER, "lower"),
        ),
    ),
    FIGURE_5: Study(
        BARE,
        _steps("(a) batch norm and bias", BARE, "higher"),
        (*DEEP[1:], WIDE, PLAIN, replace(PLAIN, batch_norm=True), ATTENTION),
    ),
    FIGURE_8: Study(
        (*DEEP_PLAIN, *(each for each in BARE_PLAIN if each != PLAIN)),
        (
            *_steps("(a) depth", DEEP_PLAIN, "lower"),
            *_steps("(b) batch norm and bias", BARE_PLAIN, "higher"),
        ),
    ),
    FIGURE_9: Study((PLAIN,), (Comparison(SOFTMAX, PLAIN.name, PLAIN.name + AFTER, "lower"),)),
}
"""By item."""


def designs(
    run: Run,
    *,
    training: int,
    tested: int,
    epochs: int,
    fine_tuning: int,
    runs: int,
    task: str = "colors",
) -> Found:
    """Train small networks of several designs, fine-tune them, and score attribution methods for each.

    Networks of one run share the images they are trained on and explained for, so that they can be
    compared in pairs. Of `tested` images the first n are explained, all count for accuracy. `task` is
    "colors" (16 x 16 pixels, the truth is known) or "pictures" (32 x 32, where the object is).
    """
    if task not in TASKS:
        raise AttributionLabError(f"task is {task!r}: {nearest(task, TASKS)}")
    study = STUDIES[run.item]
    softmax = {each.first for each in study.comparisons if each.of_outputs}
    plans = [(own, design) for own in range(runs) for design in study.designs]
    plans += [(own, design) for own in range(math.ceil(runs / 2)) for design in study.others]
    data: dict[int, Task] = {}
    scores, networks = [], []
    for own, design in run.track(plans):
        seed = run.seed + 2 * own  # a task's images are of two seeds
        if own not in data:
            data = {own: TASKS[task](training, max(tested, run.n), seed)}
        given = data[own]
        how = {"seed": seed, "epochs": epochs, "fine_tuning": fine_tuning}
        pair = trained_pair(design, given, **how, replacement=given.baseline)
        network, few = pair.fine_tuned, slice(run.n)
        case = (network, given.images[few], given.labels[few])
        truth = None if given.truth is None else given.truth[few]
        held = references(*case, truth, patches=PATCHES, replacement=given.baseline)
        table = panel_scores(
            *(*case, held, QUICK_METHODS if run.quick else PANEL),
            outputs=OUTPUTS if design.name in softmax else OUTPUTS[:1],
            patches=PATCHES,
            layer=gradcam_layer(network),
            baselines=given.baseline,
            seed=own,
            quick=True,
        )
        scores.append(table.assign(run=own, setup=design.name))
        row: dict[str, Any] = {"setup": design.name, "run": own}
        row["parameters"] = sum(each.numel() for each in network.parameters())
        row["accuracy_before"] = accuracy_of(pair.original, given.images, given.labels)
        row["accuracy"] = accuracy_of(network, given.images, given.labels)
        networks.append({**row, **_facts(*case, held).mean()})
    of_runs = pd.DataFrame(networks)
    means = f"n = {run.n}, training runs: {runs}"
    means += "; bars: 95 % intervals over runs" if runs > 1 else ""
    title = f"{items()[run.item].title}\n{means}"
    found = _found(pd.concat(scores), of_runs, study.comparisons, run.seed, title, "IDSDS")
    if not study.others:
        return found
    more = tradeoff(found.tables["scores"], of_runs, run.seed)
    figures = {**found.figures, "tradeoff": _tradeoff_figure(more["tradeoff"], means)}
    return Found({**found.tables, **more}, figures)


def designs_or_softmax(
    run: Run,
    *,
    training: int,
    tested: int,
    epochs: int,
    fine_tuning: int,
    runs: int,
    task: str = "colors",
    layer: str | None = None,
    **own: Unpack[OwnNetwork],
) -> Found:
    """Train `designs`, or compare maps of the logit and the probability of a network of one's own.

    That network is explained as it is: what it scores is IDSDS if its training has seen images without
    a patch, and SDS if not.
    """
    subject = chosen_subject(run.n, run.seed, layer=layer, **own)
    if subject is None:
        sizes = {"training": training, "tested": tested, "epochs": epochs}
        return designs(run, **sizes, fine_tuning=fine_tuning, runs=runs, task=task)
    case = (subject.model, subject.images, subject.targets)
    held = references(*case, None, patches=PATCHES, replacement=subject.empty)
    # A name may mean something else in the same network with a softmax behind it.
    named = None if layer is None else find_layer(subject.model, layer, None, "gradcam")
    scores = panel_scores(
        *(*case, held, QUICK_METHODS if run.quick else PANEL),
        outputs=OUTPUTS,
        patches=PATCHES,
        layer=named,
        baselines=subject.empty,
        seed=run.seed,
        quick=run.quick,
    )
    networks = _facts(*case, held).assign(
        setup=subject.name,
        run=range(len(subject.images)),
        parameters=sum(each.numel() for each in subject.model.parameters()),
        accuracy=right(*case).double().numpy(),
    )
    outputs = [Comparison(SOFTMAX, subject.name, subject.name + AFTER, "lower")]
    title = f"{subject.name}: maps of the logit or of the probability"
    found = _found(
        *(scores.assign(run=scores.image, setup=subject.name), networks, outputs, run.seed),
        f"{title}\nbars: 95 % intervals over images",
        "SDS",
    )
    explained = (
        "The network is explained as it is. These are its SDS, and its IDSDS if its training has "
        "seen images without a cell, which the mean color of yours replaces."
    )
    return replace(found, notes=(*subject.notes, *refused_rows(*case), explained))


def _rows(tables: Tables, part: str, against: str = LOGIT) -> pd.DataFrame:
    """Return comparisons of all maps, of the parts whose names end so."""
    table = tables["comparisons"]
    table = table[(table.maps == ALL) & (table.against == against)]
    return table[table.part.str.endswith(part)]


def _direction(part: str, *second: Design) -> Check:
    """Return what says whether comparisons with these second designs, or all, agree."""
    names = {each.name for each in second}

    def check(tables: Tables) -> bool | None:
        rows = _rows(tables, part)
        outcomes = set(rows.outcome[rows.second.isin(names)] if names else rows.outcome)
        return decided(outcomes == {"agrees"}, "disagrees" in outcomes)

    return check


claim(
    FIGURE_3,
    place="Figure 3 (a)",
    statement="Most methods score higher on VGG-16 (here: plain) than on ResNet-50 (residual)",
)(_direction(ARCHITECTURE, PLAIN))
claim(
    FIGURE_3,
    place="Figure 3 (a)",
    statement="Most methods score lower on ViT-B/16 (here: attention) than on ResNet-50 (residual)",
)(_direction(ARCHITECTURE, ATTENTION))
claim(
    *(FIGURE_3, FIGURE_8),
    place="Figures 3 (b), 8 (a)",
    statement="The deeper a network, the lower most methods score",
)(_direction("depth"))
claim(
    FIGURE_4,
    place="Figure 4 (a)",
    statement="Almost all methods score lower on the wider network",
    reason="Our wider network has learned more than the narrow one, and by more than the paper's",
)(_direction("width"))
claim(
    *(FIGURE_4, FIGURE_9),
    place="Figures 4 (b), 9",
    statement="Almost all methods score lower for maps of the probability than for maps of the logit",
)(_direction(SOFTMAX))
claim(
    *(FIGURE_5, FIGURE_8),
    place="Figures 5 (a), 8 (b)",
    statement="Almost all methods score higher without batch norm",
)(_direction("bias", BARE[1], BARE_PLAIN[1]))
claim(
    *(FIGURE_5, FIGURE_8),
    place="Figures 5 (a), 8 (b)",
    statement="Without batch norm almost all methods score higher still without bias",
)(_direction("bias", BARE[2], BARE_PLAIN[2]))


@claim(
    FIGURE_3,
    place="Section 4.3",
    reason="Attention networks are explained best by other methods than convolutional ones",
)
def architectures_keep_the_ranking(tables: Tables) -> bool | None:
    """Rankings of methods are fairly stable over architectures (here: correlations above 0.7)."""
    rows = _rows(tables, ARCHITECTURE)
    return None if rows.runs.min() < FEWEST_FOR_ORDER else bool((rows.rankings > ALIKE).all())


@claim(
    FIGURE_3,
    place="Section 4.3",
    reason="Three of four patches of our images speak against the label, which maps of one sign cannot "
    "show; and IG-U starts from noise, of which images that are black but for patches have nothing",
)
def methods_for_attention_are_best(tables: Tables) -> bool | None:
    """On ViT-B/16 CheferLRP and IG-U are best."""
    table = tables["methods"]
    table = table[(table.setup == ATTENTION.name) & (table.against == LOGIT)]
    table = table[table.method != CONTROL]
    named = table.method.isin(["chefer-lrp", UNIFORM])
    if not named.any() or table.runs.min() < FEWEST_FOR_ORDER:
        return None
    return decided(
        table.low[named].min() > table.high[~named].max(),
        table.low[~named].max() > table.high[named].max(),
    )


@claim(
    FIGURE_5,
    place="Figure 5 (b)",
    reason="Our networks are trained briefly: deeper residual ones are less accurate, in the paper "
    "more. Designs are variants of each other and no sample, so that the interval is too narrow",
)
def best_scores_fall_with_accuracy(tables: Tables) -> bool | None:
    """The best IDSDS of a network falls as its accuracy rises."""
    row = tables["correlation"].iloc[0]
    return above(-row.high, -row.low)


@claim(
    *(FIGURE_4, FIGURE_9),
    reason="Maps of the probability are behind by its own drops, too, or ahead by those of the logit",
)
def each_kind_of_map_is_ahead_by_its_own_drops(tables: Tables) -> bool | None:
    """That is for the goal: by drops of the output that it explains each kind of map is ahead."""
    logit, probability = (_rows(tables, SOFTMAX, against) for against in OUTPUTS)
    if min(logit.runs.min(), probability.runs.min()) < FEWEST_FOR_ORDER:
        return None
    return decided(
        logit.high.max() < 0 < probability.low.min(),
        logit.low.min() > 0 or probability.high.max() < 0,
    )


@claim(
    *(FIGURE_3, FIGURE_4, FIGURE_5, FIGURE_8),
    reason="For some of the pairs no difference is seen (table changes)",
)
def designs_change_networks(tables: Tables) -> bool | None:
    """Designs change the networks themselves, their accuracy or how far their own drops agree with
    the data, and not only how well maps explain them.
    """
    if "changes" not in tables or tables["runs"].groupby("setup").size().max() < FEWEST_FOR_ORDER:
        return None
    table = tables["changes"]
    above = (table[["accuracy_low", "truth_low"]] > 0).any(axis=1)
    below = (table[["accuracy_high", "truth_high"]] < 0).any(axis=1)
    return bool((above | below).all())


def _facts(
    network: nn.Module, images: Images, labels: Labels, held: Mapping[str, Patches]
) -> pd.DataFrame:
    """Return what is true of a network whatever explains it, a row for each image.

    "network_truth": Spearman's correlation of the logit's drops with the data's truth (NaN where that
    is not known); "drops_agree": of the drops of logit and probability; "probability": of the label;
    "saturated": whether that is 1 after rounding.
    """
    with torch.no_grad():
        every = returning(network, PROBABILITY)(images)
    of_label = every[torch.arange(len(every)), labels].double().numpy()
    known = TRUTH in held
    return pd.DataFrame(
        {
            "network_truth": correlations(held[LOGIT], held[TRUTH]) if known else np.nan,
            "drops_agree": correlations(held[PROBABILITY], held[LOGIT]),
            "probability": of_label,
            "saturated": of_label == 1,
        }
    )


def _found(
    by_image: pd.DataFrame,
    networks: pd.DataFrame,
    comparisons: Sequence[Comparison],
    seed: int,
    title: str,
    label: str,
) -> Found:
    """Return the tables, and a figure with a panel for each part, and for the drops of each output."""
    tables = comparison_tables(by_image, networks, comparisons, seed)
    panels: dict[str, tuple[str, list[str]]] = {}
    for each, against in against_of(comparisons):
        panel = each.part if against == LOGIT else f"{each.part}, drops of the {against}"
        panels.setdefault(panel, (against, []))[1].extend((each.first, each.second))
    methods = tables["methods"]
    parts = [
        methods[(methods.against == against) & methods.setup.isin(setups)].assign(panel=panel)
        for panel, (against, setups) in panels.items()
    ]
    figure = dots(
        *(pd.concat(parts), "mean", "method"),
        color="setup",
        panel="panel",
        title=title,
        xlabel=f"{label} (higher is better)",
        reference=0,
    )
    return Found(tables, {"setups": figure})


def _tradeoff_figure(table: pd.DataFrame, how: str) -> Figure:
    ends = {"accuracy_low": "x_low", "accuracy_high": "x_high", "best_low": "y_low"}
    table = table.rename(columns=ends | {"best_high": "y_high"}).assign(
        number=range(1, len(table) + 1)
    )
    names = table.number.astype(str) + " " + table.setup + "\n(best: " + table.best_method + ")"
    return scatter(
        *(table.assign(network=names), "accuracy", "best"),
        color="network",
        label="number",
        title=f"(b) Best IDSDS of each network over its accuracy\n{how}",
        xlabel="accuracy (higher is better)",
        ylabel="best IDSDS of a method\n(higher is better)",
    )
