"""The network of a rule, as a builder of the catalog."""

from collections.abc import Sequence

from attributionlab.nets import Network
from attributionlab.nets.networks import Weights
from attributionlab.rules.networks import rule_network
from attributionlab.rules.places import Color
from attributionlab.rules.rule import RegionEdges, RuleText, read_rule


def rule(
    *,
    image_size: int,
    rule: RuleText,
    colors: Sequence[Color],
    color_names: Sequence[str],
    background: Color,
    regions: Sequence[RegionEdges] = (),
    accumulator: Weights = "uniform",
    weight_seed: int = 0,
) -> Network:
    """Compute a rule: a color detector, counts of colors or motifs in regions, then the expression.

    Parameters
    ----------
    image_size : int
        Side of the image, 8 to 1024.
    rule, colors, color_names, background, regions
        As for `attributionlab.rules.rule.read_rule`.
    accumulator : {"uniform", "nonuniform"}
        Kernels of ones, or random ones with the same sum, where no region and no motif is counted.
    weight_seed : int
        Seed of the random weights.
    """
    read = read_rule(
        rule,
        image_size=image_size,
        colors=colors,
        color_names=color_names,
        background=background,
        regions=regions,
    )
    return rule_network(
        read.expressions, read.places, background, weights=accumulator, weight_seed=weight_seed
    )
