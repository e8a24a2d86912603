"""Figures 3, 4, 5, 8 and 9 of Hesse et al. (2024): which designs have more correct attributions?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError, nearest, refuse_if
from attributionlab.methods.layers import find_layer
from attributionlab.papers.catalog import Found, Run, Tables, claim, items
from attributionlab.papers.idsds.data import Task, colors_task, pictures_task
from attributionlab.papers.idsds.maps import (
    ABSOLUTE,
    ATTENDED,
    CONTROL,
    OF_NO_OUTPUT,
    PANEL,
    UNIFORM,
    refused_rows,
)
from attributionlab.papers.idsds.patch_scores import (
    LOGIT,
    OUTPUTS,
    PROBABILITY,
    TRUTH,
    Images,
    Labels,
    correlations,
    panel_scores,
    probabilities,
    references,
    returning,
)
from attributionlab.papers.idsds.training import trained_pair
from attributionlab.papers.subjects.networks import Design, gradcam_layer
from attributionlab.papers.subjects.small_network import accuracy_of
from attributionlab.papers.subjects.subjects import chosen_subject
from attributionlab.ranking import spearman, spearman_interval
from attributionlab.report.plots import dots, scatter
from attributionlab.stats.intervals import (
    FEWEST_FOR_ORDER,
    Difference,
    mean_interval,
    paired_difference,
    with_intervals,
)
from attributionlab.validation import integer_problem

FIGURE_3, FIGURE_4, FIGURE_5, FIGURE_8, FIGURE_9 = (f"idsds-figure-{n}" for n in (3, 4, 5, 8, 9))
PATCHES = 16
TASKS = {"colors": partial(colors_task, side=16), "pictures": pictures_task}
"""(images to train on, to explain, seed) -> Task"""
QUICK_METHODS = (
    *("input-x-gradient", "integrated-gradients", "input-x-gradient-absolute"),
    *("integrated-gradients-absolute", "saliency", "gradcam", *ATTENDED, CONTROL),
)
AFTER = ", after softmax"
"""Ends the name of a setup whose maps explain the probability."""
ALL, NOT_ABSOLUTE = "all", "not absolute"
"""Which maps are compared."""
ALIKE = 0.7
"""Rankings whose correlation is above this are called alike."""
Direction = Literal["higher", "lower"]
Held = Mapping[str, Any]
"""What maps are held against, by name."""


class Comparison(NamedTuple):
    """Two setups, and whether most methods score higher or lower on the second in the paper.

    A setup is the name of a design, with `AFTER` behind it where maps explain the probability.
    """

    part: str
    first: str
    second: str
    paper: Direction

    @property
    def of_outputs(self) -> bool:
        """Whether both setups are one network, before and after its softmax."""
        return self.second == self.first + AFTER


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
    tuple(replace(each, **how) for how in ({"batch_norm": True}, {}, {"bias": False}))
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
    numbers = {"training": training, "tested": tested, "epochs": epochs}
    numbers |= {"fine_tuning": fine_tuning, "runs": runs}
    refuse_if([line for name, value in numbers.items() for line in integer_problem(name, value, 1)])
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
        pair = trained_pair(
            *(design, given),
            seed=seed,
            patches=PATCHES,
            replacement=given.baseline,
            epochs=epochs,
            fine_tuning_epochs=fine_tuning,
        )
        network, few = pair.fine_tuned, slice(run.n)
        asked = (network, given.images[few], given.labels[few])
        held = references(
            *(*asked, None if given.truth is None else given.truth[few]),
            patches=PATCHES,
            replacement=given.baseline,
        )
        table = _scored(
            *asked,
            held,
            design.name,
            OUTPUTS if design.name in softmax else OUTPUTS[:1],
            QUICK_METHODS if run.quick else PANEL,
            layer=gradcam_layer(network),
            baselines=given.baseline,
            seed=own,
            quick=True,
        )
        scores.append(table.assign(run=own))
        networks.append(
            {
                "setup": design.name,
                "run": own,
                "parameters": sum(each.numel() for each in network.parameters()),
                "accuracy_before": accuracy_of(pair.original, given.images, given.labels),
                "accuracy": accuracy_of(network, given.images, given.labels),
                **_facts(*asked, held).mean(),
            }
        )
    title = f"{items()[run.item].title}\nn = {run.n} in each of {runs} runs"
    bars = "bars: 95 % intervals over training runs"
    of_runs = pd.DataFrame(networks)
    found = _found(
        pd.concat(scores), of_runs, study.comparisons, run.seed, f"{title}; {bars}", "IDSDS"
    )
    if not study.others:
        return found
    more = _tradeoff(found.tables["scores"], of_runs, run.seed)
    return Found(
        {**found.tables, **more},
        {**found.figures, "tradeoff": _tradeoff_figure(more["tradeoff"], bars)},
    )


def designs_or_softmax(
    run: Run,
    *,
    training: int,
    tested: int,
    epochs: int,
    fine_tuning: int,
    runs: int,
    task: str = "colors",
    images: str | None = None,
    model: str | None = None,
    weights: str | None = None,
    layer: str | None = None,
    classes: str | None = None,
    size: int = 224,
) -> Found:
    """Train `designs`, or compare maps of the logit and the probability of a network of one's own.

    That is a classifier that returns logits, as for `given_subject`. It is asked as it is: what it
    scores is IDSDS if its training has seen images without a patch, and SDS if not.
    """
    own = {"size": size, "layer": layer, "classes": classes, "weights": weights}
    subject = chosen_subject(images, model, run.n, run.seed, **own)
    if subject is None:
        return designs(
            run,
            training=training,
            tested=tested,
            epochs=epochs,
            fine_tuning=fine_tuning,
            runs=runs,
            task=task,
        )
    asked = (subject.model, subject.images, subject.targets)
    held = references(*asked, None, patches=PATCHES, replacement=subject.empty)
    # A name may mean something else in the same network with a softmax behind it.
    named = None if layer is None else find_layer(subject.model, layer, None, "gradcam")
    scores = _scored(
        *(*asked, held, subject.name, OUTPUTS, QUICK_METHODS if run.quick else PANEL),
        layer=named,
        baselines=subject.empty,
        seed=run.seed,
        quick=run.quick,
    )
    with torch.no_grad():
        right = subject.model(subject.images).argmax(1) == subject.targets
    networks = _facts(*asked, held).assign(
        setup=subject.name,
        run=range(len(subject.images)),
        parameters=sum(each.numel() for each in subject.model.parameters()),
        accuracy=right.double().numpy(),
    )
    outputs = [Comparison(SOFTMAX, subject.name, subject.name + AFTER, "lower")]
    title = f"{subject.name}: maps of the logit or of the probability"
    found = _found(
        *(scores.assign(run=scores.image), networks, outputs, run.seed),
        f"{title}\nbars: 95 % intervals over images",
        "SDS",
    )
    explained = (
        "The network is explained as it is. These are its SDS, and its IDSDS if its training has "
        "seen images without a cell, which the mean color of yours replaces."
    )
    return replace(found, notes=(*subject.notes, *refused_rows(*asked), explained))


@claim(
    FIGURE_3,
    place="Figure 3 (a)",
    statement="Most methods score higher on VGG-16 (here: plain) than on ResNet-50 (residual)",
)
def plain_networks_score_higher(tables: Tables) -> bool | None:
    return _outcome(tables, part=ARCHITECTURE, second=[PLAIN.name])


@claim(
    FIGURE_3,
    place="Figure 3 (a)",
    statement="Most methods score lower on ViT-B/16 (here: attention) than on ResNet-50 (residual)",
)
def attention_networks_score_lower(tables: Tables) -> bool | None:
    return _outcome(tables, part=ARCHITECTURE, second=[ATTENTION.name])


@claim(
    FIGURE_3,
    place="Section 4.3",
    statement="Rankings of methods are fairly stable over architectures (here: correlations above 0.7)",
    reason="Attention networks are explained best by other methods than convolutional ones",
)
def architectures_keep_the_ranking(tables: Tables) -> bool | None:
    rows = _rows(tables, part=ARCHITECTURE)
    if rows.empty or (rows.runs < FEWEST_FOR_ORDER).any():
        return None
    return bool((rows.rankings > ALIKE).all())


@claim(
    FIGURE_3,
    place="Section 4.3",
    statement="On ViT-B/16 CheferLRP and IG-U are best",
    reason="Three of four patches of our images speak against the label, which maps of one sign cannot "
    "show; and IG-U starts from noise, of which images that are black but for patches have nothing",
)
def methods_for_attention_are_best(tables: Tables) -> bool | None:
    table = tables["methods"]
    table = table[(table.setup == ATTENTION.name) & (table.against == LOGIT)]
    table = table[table.method != CONTROL].set_index("method")
    named = table.loc[[name for name in ("chefer-lrp", UNIFORM) if name in table.index]]
    if named.empty or (table.runs < FEWEST_FOR_ORDER).any():
        return None
    others = table.drop(index=named.index)
    if named.low.min() > others.high.max():
        return True
    return False if others.low.max() > named.high.max() else None


@claim(
    *(FIGURE_3, FIGURE_8),
    place="Figures 3 (b), 8 (a)",
    statement="The deeper a network, the lower most methods score",
)
def deeper_networks_score_lower(tables: Tables) -> bool | None:
    return _outcome(tables, part="depth")


@claim(
    FIGURE_4,
    place="Figure 4 (a)",
    statement="Almost all methods score lower on the wider network",
    reason="Our wider network has learned more than the narrow one, and by more than the paper's",
)
def wider_networks_score_lower(tables: Tables) -> bool | None:
    return _outcome(tables, part="width")


@claim(
    *(FIGURE_5, FIGURE_8),
    place="Figures 5 (a), 8 (b)",
    statement="Almost all methods score higher without batch norm",
)
def networks_without_batch_norm_score_higher(tables: Tables) -> bool | None:
    return _outcome(tables, part="bias", second=(BARE[1].name, BARE_PLAIN[1].name))


@claim(
    *(FIGURE_5, FIGURE_8),
    place="Figures 5 (a), 8 (b)",
    statement="Without batch norm almost all methods score higher still without bias",
)
def networks_without_bias_score_higher(tables: Tables) -> bool | None:
    return _outcome(tables, part="bias", second=(BARE[2].name, BARE_PLAIN[2].name))


@claim(
    FIGURE_5,
    place="Figure 5 (b)",
    statement="The best IDSDS of a network falls as its accuracy rises",
    reason="Our networks are trained briefly: deeper residual ones are less accurate, in the paper "
    "more. Designs are variants of each other and no sample, so that the interval is too narrow",
)
def best_scores_fall_with_accuracy(tables: Tables) -> bool | None:
    row = tables["correlation"].iloc[0]
    return True if row.high < 0 else False if row.low > 0 else None


@claim(
    *(FIGURE_4, FIGURE_9),
    place="Figures 4 (b), 9",
    statement="Almost all methods score lower for maps of the probability than for maps of the logit",
)
def maps_of_the_probability_score_lower(tables: Tables) -> bool | None:
    return _outcome(tables, part=SOFTMAX)


@claim(
    *(FIGURE_4, FIGURE_9),
    place="ours",
    statement="That is for the goal: by drops of the output that it explains each kind of map is ahead",
    reason="Maps of the probability are behind by its own drops, too, or ahead by those of the logit",
)
def each_kind_of_map_is_ahead_by_its_own_drops(tables: Tables) -> bool | None:
    logit, probability = (_rows(tables, part=SOFTMAX, against=each) for each in OUTPUTS)
    if min(logit.runs.min(), probability.runs.min()) < FEWEST_FOR_ORDER:
        return None
    if logit.high.max() < 0 < probability.low.min():
        return True
    return False if logit.low.min() > 0 or probability.high.max() < 0 else None


@claim(
    *(FIGURE_3, FIGURE_4, FIGURE_5, FIGURE_8),
    place="ours",
    statement="Designs change the networks themselves, their accuracy or how far their own drops agree "
    "with the data, and not only how well maps explain them",
    reason="For some of the pairs no difference is seen (table changes)",
)
def designs_change_networks(tables: Tables) -> bool | None:
    if "changes" not in tables or tables["runs"].groupby("setup").size().max() < FEWEST_FOR_ORDER:
        return None
    table = tables["changes"]
    return bool(
        (
            (table.accuracy_low > 0)
            | (table.accuracy_high < 0)
            | (table.truth_low > 0)
            | (table.truth_high < 0)
        ).all()
    )


def _rows(
    tables: Tables, part: str, second: Sequence[str] | None = None, against: str = LOGIT
) -> pd.DataFrame:
    """Return comparisons of all maps, of the parts whose names end so."""
    table = tables["comparisons"]
    table = table[(table.maps == ALL) & (table.against == against)]
    table = table[table.part.str.endswith(part)]
    return table if second is None else table[table.second.isin(second)]


def _outcome(tables: Tables, part: str, second: Sequence[str] | None = None) -> bool | None:
    outcomes = set(_rows(tables, part, second).outcome)
    return True if outcomes == {"agrees"} else False if "disagrees" in outcomes else None


def _scored(
    network: nn.Module,
    images: Images,
    labels: Labels,
    held: Held,
    name: str,
    outputs: Sequence[str],
    methods: Sequence[str],
    *,
    layer: nn.Module | None,
    baselines: Tensor,
    seed: int,
    quick: bool,
) -> pd.DataFrame:
    """Return `panel_scores` of maps of the outputs, each output a setup."""
    parts = []
    for output in outputs:
        table = panel_scores(
            *(returning(network, output), images, labels, held, methods),
            patches=PATCHES,
            layer=layer,
            baselines=baselines,
            seed=seed,
            quick=quick,
        )
        parts.append(table.assign(setup=name if output == LOGIT else name + AFTER))
    return pd.concat(parts)


def _facts(network: nn.Module, images: Images, labels: Labels, held: Held) -> pd.DataFrame:
    """Return what is true of a network whatever explains it, a row for each image.

    "network_truth": Spearman's correlation of the logit's drops with the data's truth (NaN where that
    is not known); "drops_agree": of the drops of logit and probability; "probability": of the label;
    "saturated": whether that is 1 after rounding.
    """
    of_label = probabilities(network, images, labels).double().numpy()
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
    """Return the tables and the figure; comparisons of outputs are held against the drops of both.

    The columns of `by_image` are those of `panel_scores`, "setup" and "run", those of `networks`
    "setup", "run" and what was measured of each network.
    """
    keys = ["setup", "run", "method", "against"]
    scores = by_image.groupby(keys, sort=False).agg(
        score=("score", "mean"),
        constant_maps=("constant_maps", "sum"),
        constant_drops=("constant_drops", "sum"),
        images=("score", "count"),
    )
    scores = scores.reset_index()
    by_reference = dict(list(scores.groupby("against", sort=False)))
    pairs = [
        (each, against)
        for each in comparisons
        for against in (OUTPUTS if each.of_outputs else OUTPUTS[:1])
    ]
    tables = {
        "comparisons": pd.DataFrame(
            [
                compared(by_reference[against], each, seed, against=against, maps=maps)
                for each, against in pairs
                for maps in (ALL, NOT_ABSOLUTE)
            ]
        ),
        "outputs": _outputs(scores, comparisons),
        "changes": pd.DataFrame(
            [network_changes(networks, each, seed) for each in comparisons if not each.of_outputs]
        ),
        "networks": _networks(scores, networks),
        "methods": pd.concat(
            [summarized(own, seed).assign(against=each) for each, own in by_reference.items()],
            ignore_index=True,
        ),
        "differences": pd.concat(
            [
                method_differences(by_reference[each], x, seed).assign(against=each)
                for x, each in pairs
            ],
            ignore_index=True,
        ),
        "scores": scores,
        "runs": networks,
    }
    figure = _figure(tables["methods"], pairs, title, f"{label} (higher is better)")
    return Found({name: each for name, each in tables.items() if len(each)}, {"setups": figure})


def summarized(scores: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return mean, interval over runs, counts and rank (the control left out) by setup and method."""
    keys = ["setup", "method"]
    table = with_intervals(scores, keys, "score", seed)
    table = table.rename(columns={"score": "mean", "images": "runs"})
    counts = scores.groupby(keys, sort=False)[["constant_maps", "constant_drops", "images"]].sum()
    table = table.join(counts, on=keys)
    ranked = table[table.method != CONTROL].groupby("setup")["mean"]
    return table.assign(rank=ranked.rank(ascending=False, method="min"))


def method_differences(scores: pd.DataFrame, comparison: Comparison, seed: int) -> pd.DataFrame:
    """Return second minus first, with an interval over runs, for each method that both have.

    The control is left out, and of one network's outputs all `OF_NO_OUTPUT`.
    """
    rows = []
    for method, own in _pairs(scores, comparison).groupby("method", sort=False):
        found = _difference(own, seed)
        row = {"difference": found.mean, "low": found.low, "high": found.high, "runs": found.images}
        rows.append({**_named(comparison), "method": method, **row})
    return pd.DataFrame(rows)


def compared(
    scores: pd.DataFrame, comparison: Comparison, seed: int, *, against: str, maps: str = ALL
) -> dict[str, Any]:
    """Count methods that score higher or lower on the second setup; of all maps, or only some.

    "difference" is that of means over methods, with its interval over "runs"; "rankings" the rank
    correlation of the methods' means on both. `NOT_ABSOLUTE` maps are no absolute values or squares.
    """
    if maps == NOT_ABSOLUTE:
        absolute = scores.method.str.endswith((ABSOLUTE, "-squared"))
        scores = scores[~absolute & (scores.method != "saliency")]
    pairs = _pairs(scores, comparison)
    by_method = (pairs.second - pairs["first"]).groupby("method").mean()
    overall = _difference(pairs.groupby("run").mean(), seed)
    ranked = pairs.groupby("method").mean()
    higher, lower = int((by_method > 0).sum()), int((by_method < 0).sum())
    sure: Direction | None = None
    if overall.better is not None:
        sure = "higher" if overall.better == "first" else "lower"  # first of the subtraction
    return {
        **_named(comparison),
        "higher": higher,
        "lower": lower,
        "methods": len(by_method),
        "difference": overall.mean,
        "low": overall.low,
        "high": overall.high,
        "runs": overall.images,
        "rankings": spearman(ranked["first"], ranked.second, missing="omit"),
        "maps": maps,
        "against": against,
        "paper": comparison.paper,
        "outcome": outcome(higher, lower, len(by_method), sure, comparison.paper),
    }


def outcome(higher: int, lower: int, methods: int, sure: Direction | None, paper: Direction) -> str:
    """Return whether the paper's direction is found again.

    "agrees" or "disagrees" where a majority of all methods and the side of 0 on which the interval of
    the mean difference lies (`sure`) say so, with "(not sure)" where the majority alone does, because
    the interval holds 0 or there are too few runs to tell; else "undecided".

    Examples
    --------
    >>> from attributionlab.papers.idsds.choices import outcome
    >>> outcome(3, 9, 12, None, "lower")
    'agrees (not sure)'
    """
    majority = "higher" if 2 * higher > methods else "lower" if 2 * lower > methods else None
    if majority is None or sure not in (majority, None):
        return "undecided"
    return ("agrees" if majority == paper else "disagrees") + ("" if sure else " (not sure)")


def network_changes(networks: pd.DataFrame, comparison: Comparison, seed: int) -> dict[str, Any]:
    """Return how the second design's networks differ from the first's, whatever explains them."""
    row: dict[str, Any] = _named(comparison)
    for prefix, column in (("truth", "network_truth"), ("accuracy", "accuracy")):
        found = _difference(_beside(networks, comparison, column, ["run"]), seed)
        row |= {f"{prefix}_difference": found.mean}
        row |= {f"{prefix}_low": found.low, f"{prefix}_high": found.high}
    return row


def _named(comparison: Comparison) -> dict[str, str]:
    return {"part": comparison.part, "first": comparison.first, "second": comparison.second}


def _pairs(scores: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    """Return scores of both setups beside each other, by method and run, for methods that both have."""
    left_out = OF_NO_OUTPUT if comparison.of_outputs else (CONTROL,)
    return _beside(scores[~scores.method.isin(left_out)], comparison, "score", ["method", "run"])


def _beside(
    table: pd.DataFrame, comparison: Comparison, column: str, keys: list[str]
) -> pd.DataFrame:
    sides = [
        table[table.setup == setup].set_index(keys)[column].rename(side)
        for side, setup in (("first", comparison.first), ("second", comparison.second))
    ]
    return sides[0].to_frame().join(sides[1], how="inner").astype(float)


def _difference(pairs: pd.DataFrame, seed: int) -> Difference:
    return paired_difference(pairs["second"].to_numpy(), pairs["first"].to_numpy(), seed)


def _outputs(scores: pd.DataFrame, comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Return means over methods of maps before and after the softmax, by what they are held against."""
    setups = [name for x in comparisons if x.of_outputs for name in (x.first, x.second)]
    own = scores[scores.setup.isin(setups) & ~scores.method.isin(OF_NO_OUTPUT)]
    table = own.groupby(["setup", "against"], sort=False).agg(
        {"score": "mean", "constant_maps": "sum", "images": "sum"}
    )
    return table.rename(columns={"images": "maps"}).reset_index()


def _networks(scores: pd.DataFrame, networks: pd.DataFrame) -> pd.DataFrame:
    """Return means over runs of each design, and over methods of what its maps score."""
    table = networks.drop(columns="run").groupby("setup", sort=False).mean()
    is_control = scores.method == CONTROL
    means = scores[~is_control].groupby(["setup", "against"]).score.mean().unstack("against")
    table["idsds"], table["map_truth"] = means[LOGIT], means.get(TRUTH, np.nan)
    table["control"] = scores[is_control & (scores.against == LOGIT)].groupby("setup").score.mean()
    table["runs"] = networks.groupby("setup").size()
    return table.astype({"parameters": int}).reset_index()


def _tradeoff(scores: pd.DataFrame, networks: pd.DataFrame, seed: int) -> dict[str, pd.DataFrame]:
    """Return accuracy and the best method of each design, and their rank correlation over designs.

    Both are means over the runs that all designs have; the control takes no part. The interval of
    "best" is of the method that is best on average, which the choice makes a little too good. A design
    none of whose maps has a score has no row. "correlation": of the means, as the paper has it of one
    run (the interval is of designs drawn again), and of each run.
    """
    counts = networks.groupby("run").setup.nunique()
    shared = counts[counts == networks.setup.nunique()].index
    known = networks[networks.run.isin(shared)]
    own = scores[scores.run.isin(shared) & (scores.method != CONTROL) & (scores.against == LOGIT)]
    rows = []
    for setup, of_setup in known.groupby("setup", sort=False):
        by_method = own[own.setup == setup].groupby("method", sort=False).score
        if by_method.mean().isna().all():
            continue
        method = by_method.mean().idxmax()
        row: dict[str, Any] = {"setup": setup, "best_method": method}
        both = (("best", by_method.get_group(method)), ("accuracy", of_setup.accuracy))
        for name, values in both:
            low, high = mean_interval(values.to_numpy(float), seed) or (np.nan, np.nan)
            row |= {name: values.mean(), f"{name}_low": low, f"{name}_high": high}
        rows.append(row | {"runs": len(of_setup)})
    table = pd.DataFrame(rows)
    value, low, high = spearman_interval(table.accuracy, table.best, seed=seed)
    found = [{"run": "means", "correlation": value, "low": low, "high": high}]
    by_run = known.set_index(["run", "setup"])[["accuracy"]]
    by_run["best"] = own.groupby(["run", "setup"]).score.max()
    for number, of_run in by_run.groupby("run"):
        alone = spearman(of_run.accuracy, of_run.best, missing="omit")
        found.append({"run": str(number), "correlation": alone, "low": np.nan, "high": np.nan})
    return {"tradeoff": table, "correlation": pd.DataFrame(found).assign(designs=len(table))}


def _figure(
    methods: pd.DataFrame, pairs: Sequence[tuple[Comparison, str]], title: str, xlabel: str
) -> Figure:
    """Draw a panel for each part, and one for the drops of the probability beside a softmax's."""
    panels: dict[str, tuple[str, list[str]]] = {}
    for each, against in pairs:
        panel = each.part if against == LOGIT else f"{each.part}, drops of the {against}"
        panels.setdefault(panel, (against, []))[1].extend((each.first, each.second))
    parts = [
        methods[(methods.against == against) & methods.setup.isin(setups)].assign(panel=panel)
        for panel, (against, setups) in panels.items()
    ]
    return dots(
        *(pd.concat(parts), "mean", "method"),
        color="setup",
        panel="panel",
        title=title,
        xlabel=xlabel,
        reference=0,
    )


def _tradeoff_figure(table: pd.DataFrame, bars: str) -> Figure:
    ends = {"accuracy_low": "x_low", "accuracy_high": "x_high", "best_low": "y_low"}
    table = table.rename(columns=ends | {"best_high": "y_high"}).assign(
        number=range(1, len(table) + 1)
    )
    names = table.number.astype(str) + " " + table.setup + "\n(best: " + table.best_method + ")"
    return scatter(
        *(table.assign(network=names), "accuracy", "best"),
        color="network",
        label="number",
        title=f"(b) Best IDSDS of each network over its accuracy\n{bars}",
        xlabel="accuracy (higher is better)",
        ylabel="best IDSDS of a method (higher is better)",
    )
