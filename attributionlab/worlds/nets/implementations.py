r"""Implementations: ways to write the rule of a network as layers.

All implementations of a rule give the same answers to the images of its environment, so their truth is
the same. They differ in their gradients, in what they answer to other images, and in their layers: what
a method says of them differs too, although the axiom of implementation invariance (Sundararajan et
al., 2017) asks that it does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from attributionlab.base import AttributionLabError, Whole, checked_arguments, named
from attributionlab.worlds.nets.camouflage.draft import Draft, Layer
from attributionlab.worlds.nets.camouflage.equivalents import (
    EQUIVALENT,
    equivalent,
    equivalents_of,
)
from attributionlab.worlds.nets.exactness import Signal
from attributionlab.worlds.nets.networks import EqualOn, Network
from attributionlab.worlds.nets.planes import Part, blend, planes
from attributionlab.worlds.nets.transformers import TRANSFORMERS, as_transformer, counts_first

PAPER, TRAINED = "paper", "trained"
"""TRAINED is none of `IMPLEMENTATIONS`: a trained network learned the rule and equals it nowhere."""
DETECTOR = 5
"""Layers of a color detector made of number checkers."""
POOLED = 2
"""How often graded implementations add up 2 x 2 pixels before kernels as large as the image."""


class Implementation(NamedTuple):
    """Facts about an implementation of a rule.

    `line`: in a sentence. `equal_on`: the images on which it equals the rule, at most: see `Network`.
    """

    line: str
    equal_on: EqualOn


IMPLEMENTATIONS: Mapping[str, Implementation] = {
    PAPER: Implementation(
        "number checkers, each for one exact number, with channels for unseen colors",
        "integers",
    ),
    "planes": Implementation(
        "one plane for each color: no kink at any color shown, gradual between colors; "
        "no redundant channels",
        "palette",
    ),
    "natural": Implementation(
        "planes blended with random features: irrelevant colors have small gradients, too, as in "
        "trained networks; no redundant channels",
        "palette",
    ),
    "plateau": Implementation("number checkers that are constant around every integer", "integers"),
    "kink-side": Implementation("number checkers with the slope of the other side", "integers"),
    "both-sides-averaged": Implementation(
        "number checkers whose slopes from both sides cancel", "integers"
    ),
    "guided-pair": Implementation(
        "each logit adds the count of a distractor and subtracts it again", "integers"
    ),
    "and-two-ways": Implementation(
        "each logit adds a conjunction with a distractor and subtracts it again", "integers"
    ),
    "transformer": Implementation(
        "counted by a transformer whose heads are places; no redundant channels", "integers"
    ),
    "transformer-sdpa": Implementation(
        "the transformer with scaled_dot_product_attention", "integers"
    ),
    "transformer-gelu": Implementation(
        "the transformer with GELU in place of ReLU, so steep that it is exact: no gradient at a color",
        "integers",
    ),
}
"""All implementations by name, in the order of `implementations_of`."""
GRADED = tuple(name for name, each in IMPLEMENTATIONS.items() if each.equal_on == "palette")
"""Those that answer colors between those of the palette by degrees."""


@checked_arguments
def implementations_of(network: Network) -> tuple[str, ...]:
    """Names of the implementations that a network can be written as.

    Parameters
    ----------
    network : Network
        In its original implementation; a rewritten one has no other implementation.

    Returns
    -------
    tuple of str
        "paper", then those that apply: planes and natural where a color detector reads the pixels, and
        those of `attributionlab.nets.equivalents_of`.

    Examples
    --------
    >>> from attributionlab.worlds.nets import implementations_of, number_sum
    >>> implementations_of(number_sum(image_size=9, number=5))[:4]
    ('paper', 'plateau', 'kink-side', 'both-sides-averaged')
    """
    if network.plain is not None:
        return ()
    graded = GRADED if network.palette else ()
    transformers = TRANSFORMERS if counts_first(network) else ()
    return (PAPER, *graded, *equivalents_of(network), *transformers)


@checked_arguments
def implemented(
    network: Network, name: Annotated[str, named(IMPLEMENTATIONS)], seed: Whole = 0
) -> Network:
    """The rule of a network in another implementation.

    Parameters
    ----------
    network : Network
        In its original implementation; it is not changed.
    name : str
        One of `implementations_of(network)`.
    seed : int
        Of random features.

    Returns
    -------
    Network
        Equal outputs (``==``) on the images that `IMPLEMENTATIONS` says: all integers of the valid box,
        or those whose pixels are colors of the palette. Every layer is checked against the exactness
        budget again. Planes and natural networks have no redundant channels.

    Raises
    ------
    AttributionLabError
        For an unknown implementation, for one that does not apply to the network, for a palette that
        planes cannot separate, and where a layer would leave the exactness budget.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.worlds.nets import color_sum, implemented
    >>> colors = [(220, 20, 20), (20, 220, 20)]
    >>> network = color_sum(image_size=9, colors=colors, background=(20, 20, 20))
    >>> images = torch.tensor([220.0, 20, 20]).expand(1, 9, 9, 3).permute(0, 3, 1, 2)
    >>> network.model(images), implemented(network, "natural").model(images)
    (tensor([[81.,  0.]]...), tensor([[81.,  0.]]...))
    """
    if name == PAPER:
        return network
    if name in EQUIVALENT:
        return equivalent(network, name)
    if network.plain is not None:
        raise AttributionLabError(
            f"implementation {name!r} is for original networks, but this one was rewritten "
            f"({network.moves[-1]}): pass the plain network"
        )
    if name in TRANSFORMERS and counts_first(network):
        return as_transformer(network, name)
    if not network.palette:
        raise AttributionLabError(
            f"implementation {name!r} does not apply, the network lacks a color detector that reads "
            f"the pixels: implementations that apply are {', '.join(implementations_of(network))}"
        )
    draft = Draft.of(network)
    palette = tuple(shades[0] for shades in network.palette)
    has_shades = len(network.palette[0]) > 1
    is_natural = name == "natural"
    parts = blend(palette, seed, has_shades) if is_natural else planes(palette, has_shades)
    pooled = _put_in_front(draft, parts)
    told = f"colors detected by {name}, sums of 2 x 2 pixels before the counts: {pooled}"
    found = draft.finished(network, told)
    return replace(found, equal_on=IMPLEMENTATIONS[name].equal_on)


def _put_in_front(draft: Draft, parts: Sequence[Part]) -> int:
    """Replace the detector of a draft, and its redundant channels; how often blocks are added up."""
    attach, reader = draft.layers[DETECTOR - 1].attach, draft.layers[DETECTOR]
    detector = [
        Layer(
            part.stage.weight.double()[:, :, None, None],
            part.stage.bias.double(),
            stride=1,
            padding=0,
            has_relu=part.has_relu,
            signal=part.signal,
        )
        for part in parts
    ]
    reader = replace(reader, weight=reader.weight[:, : detector[-1].outputs])
    sums: list[Layer] = []
    if reader.signal.upper.shape[1:] == (1, 1):  # a kernel as large as the image
        while len(sums) < POOLED and (inside := _of_blocks(reader.weight)) is not None:
            reader = replace(reader, weight=inside)
            sums.append(_sum_of_blocks([*detector, *sums][-1]))
    front = [*detector, *sums]
    front[-1] = replace(front[-1], attach=attach)
    draft.flatten += len(front) - DETECTOR
    draft.layers[: DETECTOR + 1] = [*front, reader]
    return len(sums)


def _of_blocks(weight: Tensor) -> Tensor | None:
    """A kernel of half the size for sums of 2 x 2 pixels; None where its blocks are not constant."""
    if weight.shape[2] % 2 or weight.shape[2] == 2:
        return None
    inside = weight[:, :, ::2, ::2]
    again = inside.repeat_interleave(2, 2).repeat_interleave(2, 3)
    return inside if torch.equal(again, weight) else None


def _sum_of_blocks(below: Layer) -> Layer:
    """Sums of 2 x 2 pixels of each channel."""
    each = torch.eye(below.outputs).double()[:, :, None, None].repeat(1, 1, 2, 2)
    signal = Signal(4 * below.signal.upper, below.signal.step)
    return Layer(each, torch.zeros(below.outputs).double(), 2, 0, has_relu=True, signal=signal)
