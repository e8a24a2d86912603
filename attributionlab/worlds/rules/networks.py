r"""Networks from rules: a color detector, counting layers, and a head that computes the expressions.

Counting layers: from maps of colors, 1 where a pixel has the color, to the counts of a rule.

Colors in the whole image are added up by the chain of 3 x 3 kernels that all networks here share
(`attributionlab.nets.uniform_accumulator`). Its kernels see thirds of thirds of the image and cut no
regions out, so a rule with regions has one kernel as large as the image for each count instead, 1
inside the region and 0 outside. With motifs there is a layer of tiles before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from attributionlab.base import cut, refuse_if
from attributionlab.worlds.images.regions import MOTIFS, TILE, Mask, tiles_in
from attributionlab.worlds.images.shades import Shades, Spread
from attributionlab.worlds.nets.accumulator import KERNEL, Accumulator, Level
from attributionlab.worlds.nets.detector import (
    Color,
    color_detector,
    detector_budget,
    shade_detector,
)
from attributionlab.worlds.nets.exactness import LayerBudget, Signal, check_budget
from attributionlab.worlds.nets.networks import (
    Network,
    Weights,
    assemble,
    layers_behind_detector,
    summing,
    weight_generator,
)
from attributionlab.worlds.nets.stage import convolution, to_convolutions, to_linears
from attributionlab.worlds.rules.compiling import compiled
from attributionlab.worlds.rules.expressions import Count, Expression, counts_in
from attributionlab.worlds.rules.neurons import SHOWN
from attributionlab.worlds.rules.places import Places
from attributionlab.worlds.rules.rule import RegionEdges, RuleText, read_rule


def counted_in_regions(counts: Sequence[Count], places: Places) -> Accumulator:
    r"""Count pixels of colors by a kernel as large as the image for each count.

    .. math:: n_k = \sum_{y, x} 1_{region_k}(y, x)\, color_k(y, x)

    `counts`: counts of pixels, no motifs. `places`: which colors and regions there are.
    """
    names = list(places.colors)
    kernels = torch.zeros(len(counts), len(names), places.side, places.side)
    for index, count in enumerate(counts):
        kernels[index, names.index(count.colors[0])] = _kernel(places.mask(count.region))
    return _counted(kernels)


def counted_on_tiles(counts: Sequence[Count], places: Places) -> Accumulator:
    r"""Count tiles with motifs, and pixels of colors beside them.

    The first convolution, of stride 2, gives a map of tiles (H // 2, W // 2). Its channels are of two
    kinds:

    .. math::
        motif &= ReLU(\textstyle\sum_{(i, j)} color_{m(i, j)}(2y + i, 2x + j) - (n - 1)) \\
        color_{ij} &= ReLU(color(2y + i, 2x + j))

    A motif's channel is 1 where all its n pixels fit. For colors that are counted themselves each place
    (i, j) in the tile has a channel of its own, so that regions may cut through tiles. At an odd side
    tiles leave a last row and a last column out, where colors count: the kernels are 3 x 3 then, and
    the places (2, j) and (i, 2), which are the next tile's (0, j) and (i, 0) everywhere else, are read
    in the last tiles only. The second convolution has a kernel as large as the map for each count.

    `counts`: counts of motifs, and of pixels too. `places`: which colors and regions there are.
    """
    names, side = list(places.colors), places.side // TILE
    # 3 x 3 kernels of stride 2 end with an odd side; motifs alone have nothing to do with its rest.
    reach = TILE + (places.side % TILE if any(not count.motif for count in counts) else 0)
    channels: dict[tuple[str | int, ...], Tensor] = {}
    read: list[dict[tuple[str | int, ...], Tensor]] = []
    for count in counts:
        mask = places.mask(count.region)
        if count.motif:
            key: tuple[str | int, ...] = (count.motif, *count.colors)
            channels[key] = _motif_kernel(count, names, reach)
            read.append({key: _kernel(tiles_in(mask))})
            continue
        read.append({})
        for i, j in ((i, j) for i in range(reach) for j in range(reach)):
            weights = _kernel(mask[i::TILE, j::TILE][:side, :side])
            # Read once: a third row or column is another tile's first, but for the last tile.
            weights[: side - 1 if i == TILE else 0] = 0
            weights[:, : side - 1 if j == TILE else 0] = 0
            if weights.any():
                key = (*count.colors, i, j)
                channels[key] = torch.zeros(len(names), reach, reach)
                channels[key][names.index(count.colors[0]), i, j] = 1
                read[-1][key] = weights
    place = {key: index for index, key in enumerate(channels)}
    kernels = torch.zeros(len(counts), len(channels), side, side)
    for index, weights_by_channel in enumerate(read):
        for key, weights in weights_by_channel.items():
            kernels[index, place[key]] = weights
    tiles = torch.stack(list(channels.values()))
    pixels = tiles.sum((1, 2, 3))
    relu = nn.ReLU()
    sums = (2 * pixels - 1).double()
    signal = Signal(torch.ones(len(tiles), side, side).double(), torch.ones(len(tiles)).double())
    budget = replace(check_budget("layer of tiles", sums, torch.ones_like(sums)), signal=signal)
    counting = _counted(kernels)
    module = nn.Sequential(convolution(tiles, 1 - pixels, TILE), relu, *counting.module)
    levels, budgets = [Level(side, relu)], [budget, *counting.budgets]
    return Accumulator(module, levels, budgets, counting.signal)


def _motif_kernel(count: Count, names: Sequence[str], reach: int) -> Tensor:
    """1 for the color of each pixel of a motif."""
    kernel = torch.zeros(len(names), reach, reach)
    for row, colors in enumerate(MOTIFS[count.motif]):
        for column, color in enumerate(colors):
            if color is not None:
                kernel[names.index(count.colors[color]), row, column] = 1
    return kernel


def _counted(kernels: Tensor) -> Accumulator:
    """Counts of maps of 0 and 1 by one kernel each, as large as the map."""
    layer = convolution(kernels, torch.zeros(len(kernels)))
    most = kernels.sum((1, 2, 3)).double()
    signal = Signal(most[:, None, None], torch.ones_like(most))
    budget = replace(check_budget("layer of counts", most, signal.step), signal=signal)
    return Accumulator(nn.Sequential(layer, nn.ReLU()), [], [budget], Signal(most, signal.step))


def _kernel(mask: Mask) -> Tensor:
    """A region as weights."""
    return torch.from_numpy(mask.astype(np.float32))


@dataclass(frozen=True)
class HeadSize:
    """How large the part of a network behind its counts is.

    `neurons`, `layers`, `parameters`: of its linear layers, the outputs included.
    """

    neurons: int
    layers: int
    parameters: int

    def __str__(self) -> str:
        return f"neurons {self.neurons:,}, layers {self.layers}, parameters {self.parameters:,}"


def rule(
    *,
    image_size: int,
    rule: RuleText,
    colors: Sequence[Color],
    color_names: Sequence[str],
    background: Color,
    regions: Sequence[RegionEdges] = (),
    shades: Shades = 1,
    spread: Spread = 0,
    accumulator: Weights = "uniform",
    weight_seed: int = 0,
) -> Network:
    """Compute a rule (a builder of the catalog): `rule_network` of what `read_rule` makes of it.

    - `accumulator`: kernels of ones, or random ones with the same sum, where no region and no motif is
      counted.
    """
    read = read_rule(
        rule,
        image_size=image_size,
        colors=colors,
        color_names=color_names,
        background=background,
        regions=regions,
        shades=shades,
        spread=spread,
    )
    return rule_network(
        read.expressions, read.places, background, weights=accumulator, weight_seed=weight_seed
    )


def rule_network(
    expressions: Sequence[Expression],
    places: Places,
    background: Color,
    *,
    weights: Weights = "uniform",
    weight_seed: int = 0,
) -> Network:
    """Build a network that computes expressions over counts, exactly, for every integer image.

    The detector has a channel for each color of the palette, 1 on each of its shades. Rules about the
    whole image add all of them up by the shared chain of 3 x 3 kernels, and the head drops what no
    expression needs; rules with regions or motifs read the colors they need by kernels as large as the
    image. No channel is redundant: a color outside the palette counts for nothing.

    - `places`: colors of the palette, those that no expression names too; the image side; regions.
    - `background`: known to the detector of colors of one value, without a channel.
    - `weights`: kernels of ones, or random ones with the same sum; only rules without regions and
      motifs have the latter.

    Result: map-based methods attach to the chain as in all color networks. Without the chain there is
    one map with places only, to which both attach: that of the tiles where the rule has motifs, else
    that of the colors, which leaves the detector. Raises AttributionLabError if float32 might round a
    part of an expression, if no image changes any output, and for weights that the rule cannot have.
    """
    mentioned = list(dict.fromkeys(each for rule in expressions for each in counts_in(rule)))
    neurons, outputs = compiled(expressions, mentioned, [*map(places.most, mentioned)])
    needed = neurons.counts_needed(outputs)
    counts = [mentioned[index] for index in needed]
    in_places = any(count.region or count.motif for count in counts)
    problems = []
    if not counts:
        texts = (
            f"{cut(str(rule), SHOWN)!r} is {output.offset}"
            for rule, output in zip(expressions, outputs, strict=True)
        )
        problems.append(f"{', '.join(texts)} for every input: let it depend on a color")
    if in_places and weights != "uniform":
        problems.append(
            f"weights are {weights!r}, and the rule has regions or motifs, whose kernels are uniform: "
            "take 'uniform'"
        )
    refuse_if(problems, "rule")

    if places.shading.shades > 1:
        stages = shade_detector(list(places.shades.values()))
    else:
        stages = color_detector(list(places.colors.values()), background)
    _, budgets = detector_budget(stages)
    detector = to_convolutions(stages)
    if in_places:
        has_motifs = any(count.motif for count in counts)
        counting = (counted_on_tiles if has_motifs else counted_in_regions)(counts, places)
        budgets[-1] = _everywhere(budgets[-1], places.side)
        attach = counting.levels[0].output if counting.levels else detector[-1]
        layers = {"gradcam": attach, "iba": attach}
        channels, names = needed, [*map(str, counts)]
    else:
        # No redundant channels, rather than none at all: the chain of the other color networks.
        redundant = torch.zeros(len(places.colors), 0, KERNEL, KERNEL)
        generator = weight_generator(weight_seed)
        counting = summing(places.side, len(places.colors), weights, generator, redundant)
        layers = layers_behind_detector(counting)
        of_color = {count.colors[0]: index for count, index in zip(counts, needed, strict=True)}
        names = list(places.colors)
        channels = [of_color.get(name, -1) for name in names]
    head, head_budgets = neurons.layers(outputs, channels, counting.signal)
    return Network(
        model=assemble(detector, counting.module, to_linears(head)[:-1]),
        layers=layers,
        classes=len(expressions),
        channels=3,
        highest=255,
        max_count=places.side**2,
        budgets=[*budgets, *counting.budgets, *head_budgets],
        palette=(*places.shades.values(), places.shading.of(background)),
        counts=tuple(names),
    )


def head_size(network: Network) -> HeadSize:
    """Neurons, layers and parameters behind the counts of a network, as it was built."""
    head = (network.plain or network.model).get_submodule("head")
    linear = [layer for layer in head.modules() if isinstance(layer, nn.Linear)]
    return HeadSize(
        neurons=sum(layer.out_features for layer in linear),
        layers=len(linear),
        parameters=sum(parameter.numel() for parameter in head.parameters()),
    )


def _everywhere(budget: LayerBudget, side: int) -> LayerBudget:
    """Bounds of a map place by place, as kernels of the map's size read them."""
    signal = budget.signal
    assert signal is not None
    upper = signal.upper[:, None, None].repeat(1, side, side)
    return replace(budget, signal=Signal(upper, signal.step))
