"""Networks from rules: a color detector, counting layers, and a head that computes the expressions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from attributionlab.base import cut, refuse_if
from attributionlab.worlds.images.shades import Shades, Spread
from attributionlab.worlds.nets.accumulator import KERNEL
from attributionlab.worlds.nets.detector import (
    Color,
    color_detector,
    detector_budget,
    shade_detector,
)
from attributionlab.worlds.nets.exactness import LayerBudget, Signal
from attributionlab.worlds.nets.networks import (
    Network,
    Weights,
    assemble,
    layers_behind_detector,
    summing,
    weight_generator,
)
from attributionlab.worlds.nets.stage import Stage, to_convolutions, to_linears
from attributionlab.worlds.rules.compiling import compiled
from attributionlab.worlds.rules.counting import Counting, counted_in_regions, counted_on_tiles
from attributionlab.worlds.rules.expressions import Expression, counts_in
from attributionlab.worlds.rules.neurons import SHOWN
from attributionlab.worlds.rules.places import Places
from attributionlab.worlds.rules.rule import RegionEdges, RuleText, read_rule


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
        problems.append(f"{', '.join(texts)} for every image: let it depend on a color")
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
        attach = counting.tiles or detector[-1]
        layers = {"gradcam": attach, "iba": attach}
        channels, names = needed, [*map(str, counts)]
    else:
        # No redundant channels, rather than none at all: the chain of the other color networks.
        redundant = torch.zeros(len(places.colors), 0, KERNEL, KERNEL)
        generator = weight_generator(weight_seed)
        summed = summing(places.side, len(places.colors), weights, generator, redundant)
        counting = Counting(summed.module, summed.budgets, summed.signal)
        layers = layers_behind_detector(summed)
        of_color = {count.colors[0]: index for count, index in zip(counts, needed, strict=True)}
        names = list(places.colors)
        channels = [of_color.get(name, -1) for name in names]
    head, head_budgets = neurons.layers(outputs, channels, counting.signal)
    return Network(
        model=assemble(detector, counting.module, _head(head)),
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


def _head(stages: Sequence[Stage]) -> list[nn.Module]:
    """Linear layers, a ReLU behind each but the last: outputs may be negative."""
    return to_linears(stages)[:-1]
