"""Controls: attributions whose verdict is known before the test.

They have the form of a method, and they alone may declare by name `truth`, `ideal` (the best map for
the claim), and `other_target` and `other_network` (the truths of another target, and of a network in
which the colors have other roles), and be given them. They see images in which each color is one
value (`attributionlab.worlds.flattened`): shades are nothing to them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor, nn

from attributionlab.methods import METHODS
from attributionlab.worlds.truth import Truth

CATALOG_COLORS = ((220, 120, 20), (220, 20, 120), (120, 220, 20), (20, 220, 120))
"""Colors of the classes in the catalog's environments."""


def oracle(model: nn.Module, inputs: Tensor, targets: Tensor, *, ideal: Tensor) -> Tensor:
    """The best possible map for the claim: the signed truth, or `best_map` if the claim is smoothed."""
    return ideal


def inverted_oracle(model: nn.Module, inputs: Tensor, targets: Tensor, *, truth: Truth) -> Tensor:
    """The truth with every sign flipped. It must fail where signs count."""
    return -truth.signed.float()


def random(
    model: nn.Module, inputs: Tensor, targets: Tensor, *, generator: torch.Generator
) -> Tensor:
    """Uniform on [0, 1) for every pixel (AttributionLab, F.2). It must fail."""
    batch, _, height, width = inputs.shape
    return torch.rand(
        *(batch, 1, height, width),
        generator=generator,
        device=generator.device,
        dtype=torch.float32,  # whatever the user's default is
    )


def constant(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """1 for every pixel (AttributionLab, F.2). It must fail."""
    return torch.ones_like(inputs[:, :1])


def baseline_distance(
    model: nn.Module, inputs: Tensor, targets: Tensor, *, baseline: Tensor
) -> Tensor:
    """|x - baseline|, summed over channels (sees only the input)."""
    return (inputs - baseline).abs().sum(1, keepdim=True)


def non_background(
    model: nn.Module, inputs: Tensor, targets: Tensor, *, baseline: Tensor
) -> Tensor:
    """1 for every pixel that is not background (sees only the input)."""
    return (inputs != baseline).any(1, keepdim=True).float()


def filled_patches(model: nn.Module, inputs: Tensor, targets: Tensor, *, patches: Tensor) -> Tensor:
    """1 for every pixel inside a patch (knows only where the patches are)."""
    return (patches > 0).float()[:, None]


def sobel(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """An edge detector: the magnitude of the Sobel gradient of the sum over channels."""
    gray = inputs.sum(1).cpu().numpy()
    edges = [np.hypot(ndimage.sobel(image, 0), ndimage.sobel(image, 1)) for image in gray]
    return torch.from_numpy(np.stack(edges)).float()[:, None]


def majority(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """+1 for the most frequent patch color, -1 for the others (never queries the network)."""
    return _by_rank(inputs, lambda rank, _: 1.0 if rank == 0 else -1.0)


def majority_hedged(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """`majority`, with +1 for the second most frequent color too if there are more than four."""
    return _by_rank(inputs, lambda rank, colors: 1.0 if rank <= (colors > 4) else -1.0)


def half_and_half(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Alternating +1 and -1 on the pixels of each color (never queries the network)."""
    maps = _by_rank(inputs, lambda rank, _: rank + 1.0)
    for ranks in maps[:, 0]:
        for rank in range(1, int(ranks.max()) + 1):
            places = (ranks == rank).nonzero(as_tuple=True)
            signs = torch.ones(len(places[0]), device=maps.device)
            signs[1::2] = -1
            ranks[places] = signs
    return maps


def _by_rank(inputs: Tensor, value: Callable[[int, int], float]) -> Tensor:
    """Maps with a value for each color by its rank in the image; the most frequent one gets 0."""
    maps = torch.zeros_like(inputs[:, :1])
    for image, one in zip(inputs, maps[:, 0], strict=True):
        colors, pixels, counts = _colors_of(image)
        ranks = counts.argsort(descending=True, stable=True).argsort()
        values = [0.0, *(value(rank, colors.shape[1] - 1) for rank in range(colors.shape[1] - 1))]
        one[:] = torch.tensor(values).to(maps)[ranks][pixels].reshape(one.shape)
    return maps


def _colors_of(image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """An image's colors in lexicographic order, (C, K), the color of each pixel, and how many have it.

    Sorted one channel at a time: `torch.unique` of columns takes some fifteen times as long.
    """
    channels = image.flatten(1)
    pixels = torch.zeros_like(channels[0], dtype=torch.int64)
    for channel in channels:
        values, places = torch.unique(channel, return_inverse=True)
        both = pixels * len(values) + places
        _, pixels, counts = torch.unique(both, return_inverse=True, return_counts=True)
    colors = channels.new_empty(len(channels), len(counts))
    colors[:, pixels] = channels
    return colors, pixels, counts


def catalog_table(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Memorized roles of the catalog's colors (never queries the network)."""
    maps = torch.zeros_like(inputs[:, :1])
    for color_class, color in enumerate(CATALOG_COLORS if inputs.shape[1] == 3 else ()):
        values = torch.tensor(color).to(inputs)[:, None, None]
        shown = (inputs == values).all(1, keepdim=True)
        sign = torch.where(targets == color_class, 1.0, -1.0)[:, None, None, None]
        maps = torch.where(shown, sign.to(maps), maps)
    return maps


def color_lookup(model: nn.Module, inputs: Tensor, targets: Tensor, *, baseline: Tensor) -> Tensor:
    """For each color, the sign of its effect on the output, regardless of where its pixels are.

    It queries the network with one image per color, so it sees colors and network, but no places.
    """
    maps = torch.zeros_like(inputs[:, :1])
    for image, target, one in zip(inputs, targets, maps[:, 0], strict=True):
        colors, pixels, counts = _colors_of(image)
        empty = baseline.expand_as(image).flatten(1)
        asked = [empty, *(empty.clone() for _ in counts)]
        for probe, color, count in zip(asked[1:], colors.T, counts.tolist(), strict=True):
            probe[:, :count] = color[:, None]
        with torch.no_grad():
            answers = model(torch.stack(asked).reshape(-1, *image.shape))[:, int(target)]
        change = (answers[1:] - answers[0]).sign()
        one[:] = change[pixels].reshape(one.shape)
    return maps


def wrong_target(
    model: nn.Module, inputs: Tensor, targets: Tensor, *, other_target: Truth
) -> Tensor:
    """The truth for the next class (sees the network but not the target)."""
    return other_target.signed.float()


def wrong_network(
    model: nn.Module, inputs: Tensor, targets: Tensor, *, other_network: Truth
) -> Tensor:
    """The truth for a network with other color roles (sees only image and target)."""
    return other_network.signed.float()


CONTROLS: dict[str, Callable[..., Any]] = {
    "baseline-distance": baseline_distance,
    "catalog-table": catalog_table,
    "color-lookup": color_lookup,
    "constant": constant,
    "filled-patches": filled_patches,
    "half-and-half": half_and_half,
    "inverted-oracle": inverted_oracle,
    "majority": majority,
    "majority-hedged": majority_hedged,
    "non-background": non_background,
    "oracle": oracle,
    "random": random,
    "sobel": sobel,
    "wrong-network": wrong_network,
    "wrong-target": wrong_target,
}
"""The controls by name."""
KNOWN = METHODS | CONTROLS
"""What a user may name."""
ALONGSIDE = tuple(name for name in CONTROLS if name != "color-lookup")
"""Controls that every test runs; `color-lookup` takes passes of the network."""
BLIND = {
    **dict.fromkeys(
        ("majority", "majority-hedged", "half-and-half", "catalog-table", "wrong-network"), "roles"
    ),
    "wrong-target": "target",
    "color-lookup": "place",
}
"""What a control does not see of what environments hide (`worlds.environment.hidden`)."""
MUST_FAIL = ("random", "constant", "inverted-oracle")
"""Controls that must fail everywhere; the last one where the claim is about signs. `control_score` says
when those of `BLIND` and the oracle invalidate a test, too."""
OF_OTHER_TRUTHS = ("wrong-network", "wrong-target")
"""Controls made from truths that a user does not state with his own network."""
INPUT_ONLY = ("baseline-distance", "filled-patches", "non-background", "sobel")
"""Controls that see nothing of the network: what they reach is the bar that an environment sets."""
