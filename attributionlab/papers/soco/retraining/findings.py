"""What Figures 1 and 10 of the soundness and completeness paper show here, in sentences."""

from typing import TYPE_CHECKING

from attributionlab.papers.subjects.drawn_pictures import CLASSES, CONTEXT

if TYPE_CHECKING:
    import pandas as pd

CLEAR = 0.05
"""Smaller differences of accuracy are called none: three standard errors of one over 1,000 images."""
PUBLISHED_LOSS = 0.887 - 0.322
CONTROL = "disc as background"
WHOLE, FIRST, SECOND, RANDOM = "unperturbed", "strategy 1", "strategy 2", "random places"
BY_CLASS = "place by class"


def figure_1_findings(networks: "pd.DataFrame", *, ours: bool, epochs: int) -> list[str]:
    """Sentences about networks trained and tested on the sets of Figure 1."""
    first, second = _of(networks, FIRST, FIRST), _of(networks, SECOND, SECOND)
    original = _of(networks, WHOLE, FIRST)
    sentences = [
        "The paper (CIFAR-10): retrained on strategy 1 0.60 (its caption says 0.66), on strategy 2 "
        "0.88; the original network on these test sets 0.24 and 0.29.",
        f"Here: retrained on strategy 1 {_said(first)}, on strategy 2 {_said(second)}; the original "
        f"networks on these test sets {_said(original)} and {_said(_of(networks, WHOLE, SECOND))} "
        f"(chance is {1 / CLASSES:g}), on unperturbed images {_said(_of(networks, WHOLE, WHOLE))}.",
        _control(networks),
        _reads_place(networks, SECOND),
    ]
    if ours:
        sentences += _known(first, second, original, _of(networks, WHOLE, CONTROL))
    return [*sentences, _differences(ours, epochs)]


def figure_10_findings(networks: "pd.DataFrame", *, ours: bool, epochs: int) -> list[str]:
    """Sentences about networks trained on the sets of Figure 10 and tested on unperturbed images."""
    original, by_class = _of(networks, WHOLE, WHOLE), _of(networks, BY_CLASS, WHOLE)
    random = _of(networks, RANDOM, WHOLE)
    loss, without = original - by_class, original - random
    if loss.mean() <= CLEAR:
        verdict = (
            f"Retraining with the place by class costs {_said(loss)} on unperturbed images, too little "
            "to show what the paper shows."
        )
    elif without.mean() <= CLEAR:
        verdict = (
            f"Retraining with the place by class costs {_said(loss)} on unperturbed images (paper: "
            f"{PUBLISHED_LOSS:.2f}); the same region at random places costs {_said(without)}. So it "
            "is not the lost pixels that cost, but that the class is written into their place."
        )
    else:
        verdict = (
            f"Retraining with the place by class costs {_said(loss)} on unperturbed images (paper: "
            f"{PUBLISHED_LOSS:.2f}), but the same region at random places costs {_said(without)} too: "
            "not all of it is the class in the place."
        )
    sentences = [
        "The paper (CIFAR-10), on unperturbed test images: original 0.887, retrained 0.322.",
        f"Here: original {_said(original)}, retrained {_said(by_class)}, retrained with random "
        f"places {_said(random)}.",
        verdict,
        _reads_place(networks, BY_CLASS),
    ]
    if ours and CLEAR < loss.mean() < PUBLISHED_LOSS - CLEAR:
        sentences.append(
            "The loss is smaller than the paper's. How easily the object is learned beside the place "
            "may be why: compare `--set contrast=1` and `--set contrast=0.25`."
        )
    return [*sentences, _differences(ours, epochs)]


def _of(networks: "pd.DataFrame", trained_on: str, tested_on: str) -> "pd.Series[float]":
    """The accuracy of each network, by its seed."""
    chosen = (networks.trained_on == trained_on) & (networks.tested_on == tested_on)
    return networks[chosen].set_index("seed").accuracy


def _said(values: "pd.Series[float]") -> str:
    mean, least, most = (
        f"{round(value, 2) + 0.0:.2f}"  # no minus before 0.00
        for value in (values.mean(), values.min(), values.max())
    )
    return mean if len(values) == 1 else f"{mean} ({least} to {most})"


def _control(networks: "pd.DataFrame") -> str:
    first = _of(networks, FIRST, FIRST)
    gain = _of(networks, SECOND, SECOND) - first
    without = _of(networks, RANDOM, RANDOM) - first
    if gain.mean() <= CLEAR:
        return (
            f"Strategy 2 changes the accuracy of retrained networks by {_said(gain)} against "
            "strategy 1, too little to show what the paper shows."
        )
    said = (
        f"Both remove 70 % of the pixels; strategy 2 raises the accuracy by {_said(gain)}. The "
        f"same region at random places, which the paper does not try, changes it by {_said(without)}: "
    )
    if abs(without.mean()) <= CLEAR:
        return said + "what is learned is the class that the place of the region tells."
    return said + "not all of the difference is the class that the place tells."


def _reads_place(networks: "pd.DataFrame", trained_on: str) -> str:
    chosen = (networks.trained_on == trained_on) & (networks.tested_on == RANDOM)
    follows = networks[chosen].set_index("seed").follows_place
    return (
        f"Where the place is random, networks retrained on {trained_on!r} answer with the class that "
        f"the place stood for in {_said(follows)} of the images, and with the image's own class in "
        f"{_said(_of(networks, trained_on, RANDOM))}."
    )


def _known(
    first: "pd.Series[float]",
    second: "pd.Series[float]",
    original: "pd.Series[float]",
    control: "pd.Series[float]",
) -> list[str]:
    """What can be said because the best possible accuracy is known."""
    near = "reach it" if abs(first.mean() - CONTEXT) <= CLEAR else "do not reach it"
    sentences = [
        "What is left is known for our pictures: no pixel of the object, and a background that is the "
        f"class's own in {CONTEXT:.0%}; no classifier can be right more often without the place. "
        f"Networks retrained on strategy 1 {near} ({first.mean():.2f})."
    ]
    if second.mean() > CONTEXT + CLEAR:
        sentences.append(
            f"Of the accuracy on strategy 2, {second.mean() - CONTEXT:.2f} cannot come from what is "
            "left: the perturbation has put it in, and retraining takes it for what was not removed."
        )
    if original.mean() < CONTEXT - CLEAR:
        gain = control - original
        black = (
            f"That the disc is black accounts for {_said(gain)} of it"
            if gain.mean() > 0
            else "That the disc is black does not account for it"
        )
        rest = (
            "; whether these networks do not use the background, or cannot in a picture without an "
            "object, is open"
            if control.mean() < CONTEXT - CLEAR
            else ""
        )
        sentences.append(
            f"The original networks are right in {original.mean():.2f} where {CONTEXT:.2f} is "
            "possible: without retraining, accuracy does not tell what is left either. With the disc "
            f"in the picture's own background color, a control that the paper lacks: {_said(control)}. "
            f"{black}{rest}."
        )
    return sentences


def road_findings(each: "pd.DataFrame") -> list[str]:
    """Whether retraining changes the order of methods by ROAD, in each order of removal.

    Parameters
    ----------
    each : DataFrame
        A row for each network (`seed`), `order`, `retrained` and `method`, with `road` and `intact`.
    """
    networks = each.seed.nunique()
    sentences = [
        f"ROAD of {networks} more network{'s' * (networks > 1)}, right in "
        f"{_said(each.groupby('seed').intact.first())} of the intact test images (mean height of the "
        "accuracy's curve)."
    ]
    for order, name in (("morf", "most relevant pixels first, lower is better"),
                        ("lerf", "least relevant pixels first, higher is better")):  # fmt: skip
        here = each[each.order == order]
        by_network = [_orders_of(rows, order) for _, rows in here.groupby("seed")]
        changed = sum(without != with_it for without, with_it in by_network)
        means = here.groupby(["retrained", "method"], as_index=False, sort=False).road.mean()
        without, with_it = _orders_of(means, order)
        listed = {
            retrained: ", ".join(f"{row.method} {row.road:.2f}" for row in rows.itertuples())
            for retrained, rows in means.groupby("retrained")
        }
        verdict = (
            f"the order stays {' - '.join(without)}"
            if without == with_it
            else f"the order changes from {' - '.join(without)} to {' - '.join(with_it)}"
        )
        sentences.append(
            f"ROAD, {name}: {listed[False]} without and {listed[True]} with retraining: by the means "
            f"{verdict}, best first; it changes for {changed} of {networks} network"
            f"{'s' * (networks > 1)}."
        )
    return sentences


def _orders_of(rows: "pd.DataFrame", order: str) -> tuple[list[str], list[str]]:
    """Methods from the best to the worst, without and with retraining."""
    ranked = rows.sort_values("road", ascending=order == "morf", kind="stable")
    return list(ranked[~ranked.retrained].method), list(ranked[ranked.retrained].method)


def _differences(ours: bool, epochs: int) -> str:
    data = (
        "drawn pictures instead of CIFAR-10 (`--set images=FOLDER` takes its binary version)"
        if ours
        else "as many images as were given and asked for"
    )
    return (
        "Against the paper: three convolutions instead of a residual network of 8 blocks; Adam with "
        f"learning rate 0.001 and weight decay 0.0001 as there, batches of 64 instead of 256, {epochs} "
        f"epochs (paper: 35); {data}. The paper does not state what Figure 1 puts in place of removed "
        "pixels (here black) or how large the region at the edge is (here 5 % of the pixels)."
    )
