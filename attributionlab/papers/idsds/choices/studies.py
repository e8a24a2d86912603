"""Which designs and outputs each figure compares, and what the paper says of them."""

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from attributionlab.papers.idsds.choices.cells import AFTER
from attributionlab.papers.idsds.choices.comparisons import Comparison, Direction
from attributionlab.papers.subjects.networks import Design

PLAIN, ATTENTION = Design("plain"), Design("attention")
RESIDUAL = Design("residual", batch_norm=True)
"""In place of VGG-16, which has no batch norm, ViT-B/16, and ResNet-50, which has."""
DEPTHS = (1, 2, 3)


class Study(NamedTuple):
    """What a figure shows.

    Parameters
    ----------
    title : str
        Of the figure.
    paper : str
        What the paper finds, in a sentence.
    designs : tuple of Design
        That are trained.
    comparisons : tuple of Comparison
        Of setups: names of designs, with `AFTER` behind those whose probability is explained.
    others : tuple of Design
        That are trained half as often, for scores over accuracies of all designs; without any there is
        no such figure.
    note : str
        What else a reader must know.
    """

    title: str
    paper: str
    designs: tuple[Design, ...]
    comparisons: tuple[Comparison, ...]
    others: tuple[Design, ...] = ()
    note: str = ""


def _steps(part: str, designs: tuple[Design, ...], paper: Direction) -> tuple[Comparison, ...]:
    """Each design and the next."""
    names = [design.name for design in designs]
    return tuple(Comparison(part, *pair, paper) for pair in pairwise(names))


def _depths(design: Design) -> tuple[Design, ...]:
    return tuple(replace(design, depth=depth) for depth in DEPTHS)


def _without(design: Design) -> tuple[Design, ...]:
    """With batch norm, without it, and without bias as well."""
    bare = replace(design, batch_norm=False)
    return replace(design, batch_norm=True), bare, replace(bare, bias=False)


def _softmax(part: str, design: Design) -> tuple[Comparison, ...]:
    return (Comparison(part, design.name, design.name + AFTER, "lower"),)


WIDE = replace(RESIDUAL, width=32)
BARE = _without(RESIDUAL)

STUDIES = {
    "idsds-figure-3": Study(
        "IDSDS by (a) architecture and (b) depth",
        "Most methods score higher on VGG-16 and lower on ViT-B/16 than on ResNet-50, and lower the "
        "deeper a ResNet is.",
        (PLAIN, ATTENTION, *_depths(RESIDUAL)),
        (
            Comparison("(a) architecture", RESIDUAL.name, PLAIN.name, "higher"),
            Comparison("(a) architecture", RESIDUAL.name, ATTENTION.name, "lower"),
            *_steps("(b) depth", _depths(RESIDUAL), "lower"),
        ),
        note="The attention network averages its tokens, so that GradCAM and its kin read those of the "
        "last block as a map. Rollout and CheferLRP explain attention alone and are in no comparison. "
        "Residual networks have batch norm and the plain one has none, as ResNet-50 and VGG-16; "
        "idsds-figure-5 and idsds-figure-8 have each with and without.",
    ),
    "idsds-figure-4": Study(
        "IDSDS by (a) width, and (b) of maps of the logit or of the probability",
        "Almost all methods score lower on the wider ResNet-50, and almost all lower after the softmax "
        "than before.",
        (RESIDUAL, WIDE),
        (
            *_steps("(a) width", (RESIDUAL, WIDE), "lower"),
            *_softmax("(b) softmax", RESIDUAL),
        ),
    ),
    "idsds-figure-5": Study(
        "IDSDS by (a) batch norm and bias, and (b) accuracy",
        "All methods score higher without batch norm, almost all higher still without bias; the best "
        "IDSDS of a network falls as accuracies rise.",
        BARE,
        _steps("(a) batch norm and bias", BARE, "higher"),
        (*_depths(RESIDUAL)[1:], WIDE, PLAIN, replace(PLAIN, batch_norm=True), ATTENTION),
    ),
    "idsds-figure-8": Study(
        "Plain networks: IDSDS by (a) depth and (b) batch norm and bias",
        "The deeper a VGG is, the lower most methods score; almost all score higher without batch norm "
        "and higher still without bias.",
        (*_depths(PLAIN), *(each for each in _without(PLAIN) if each != PLAIN)),
        (
            *_steps("(a) depth", _depths(PLAIN), "lower"),
            *_steps("(b) batch norm and bias", _without(PLAIN), "higher"),
        ),
    ),
    "idsds-figure-9": Study(
        "A plain network: IDSDS of maps of the logit or of the probability",
        "Almost all methods score lower on VGG-16 after the softmax than before.",
        (PLAIN,),
        _softmax("softmax", PLAIN),
    ),
}
"""By the name of the item."""
