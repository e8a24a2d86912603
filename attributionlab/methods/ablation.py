r"""Feature ablation: what the output loses when one pixel or one superpixel is removed."""

from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attributionlab.errors import refuse_if
from attributionlab.exact import single_replacements
from attributionlab.methods.baselines import Baselines, as_baselines, from_true_baseline
from attributionlab.methods.coalitions import (
    MASKING_SETTINGS,
    Coalitions,
    Game,
    coalition_outputs,
    followed_pixels,
    games_of,
    masking_problems,
    tell_superpixels,
    tell_unmoved,
)
from attributionlab.methods.entry import checked
from attributionlab.methods.outputs import same_outputs, target_outputs
from attributionlab.segmentation import Segmentation, segment


@checked
def feature_ablation(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    highest: float,
    segmentation: Segmentation = "pixels",
    baselines: Baselines = 0.0,
    patches: Tensor | None = None,
    perturbations_per_eval: int | None = None,
    **segmentation_settings: Any,
) -> Tensor:
    r"""How much the output falls when a pixel, or a superpixel, is replaced by the baseline.

    .. math:: a_j = \frac{1}{|S_j|} \left( f_t(x) - f_t(x_{S_j \leftarrow b}) \right)

    with S_j the superpixel of pixel j, whose pixels share its effect equally: the effect of a large
    superpixel is not counted once for each of its pixels, and the map sums to the sum of all effects.
    All channels are replaced at once.

    Source: the leave-one-out effect, as old as regression; Captum's FeatureAblation, which gives every
    pixel the whole effect of its group. Claims signs. Shows what is lost with all else in place, and
    nothing where others stand in: if any one of two pixels suffices, both have 0. From an unseen
    baseline it also shows what the unseen color does to the network.

    One forward pass for each superpixel that differs from the baseline and one for the image, that is
    50,177 for the pixels of an image of 224. Where the network adds up without rounding and every pixel
    has one path to the outputs, single pixels need none: all are followed through the network
    (`attributionlab.exact.single_replacements`, well below a second), with equal results.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    highest : float
        The largest value that a pixel can have; the environment gives it.
    segmentation : str, callable, object with `generate`, or label map
        What is removed at once (`attributionlab.segmentation.segment`); single pixels by default.
    baselines : float, sequence of float, ndarray or Tensor
        What stands where a superpixel is removed (`as_baselines`); black by default.
    patches : Tensor, (B, H, W), optional
        The environment's label map, for segmentation "patches".
    perturbations_per_eval : int, optional
        Perturbed images in one pass; by default what fits the memory budget.
    **segmentation_settings
        Of the segmentation, such as ``cells=4`` for "grid".

    Returns
    -------
    Tensor, (B, 1, H, W)
        In units of the output; 0 for an image of which no part changes the output by more than
        rounding.

    Raises
    ------
    AttributionLabError
        For settings out of range or unknown.
    """
    refuse_if(masking_problems(highest, perturbations_per_eval), "feature-ablation")
    start = as_baselines(baselines, inputs)
    labels = segment(
        inputs,
        segmentation,
        highest=highest,
        patches=patches,
        settings=segmentation_settings,
        others=MASKING_SETTINGS,
    )
    games = games_of(inputs, start, labels, targets)
    outputs = [_followed(model, game) for game in games]
    asked = [k for k, each in enumerate(outputs) if each is None]
    if asked:
        by_passes = coalition_outputs(
            model,
            [games[k] for k in asked],
            [
                Coalitions(games[k].players + 1, partial(_all_but_one, games[k].players))
                for k in asked
            ],
            perturbations_per_eval,
            "feature-ablation",
        )
        for k, each in zip(asked, by_passes, strict=True):
            outputs[k] = each
    maps, unmoved = [], 0
    for game, given in zip(games, outputs, strict=True):
        assert given is not None
        falls = given[-1].double() - given[:-1].double()
        if same_outputs(given.min(), given.max()):
            # What is left is rounding, which a normalization blows up to a full-scale map.
            falls, unmoved = torch.zeros_like(falls), unmoved + 1
        maps.append(game.shared(falls))
    tell_superpixels(labels)
    tell_unmoved(unmoved)
    return torch.stack(maps)


feature_ablation_true_baseline = from_true_baseline(
    feature_ablation,
    """Feature ablation by the environment's own background.

    Parameters
    ----------
    baseline : Tensor, (C, 1, 1)
        The true baseline pixel; the environment gives it.
    model, inputs, targets, and all other settings
        As for `feature_ablation`.
    """,
)


def _all_but_one(players: int, numbers: Tensor) -> Bool[Tensor, "n players"]:
    """The coalition number i lacks player i; the last one nobody."""
    return numbers[:, None] != torch.arange(players)


@torch.no_grad()
def _followed(model: nn.Module, game: Game) -> Float[Tensor, " players_and_all"] | None:
    """Outputs without each player, and with all; None where only forward passes have them."""
    pixels = followed_pixels(model, game)
    if pixels is None:
        return None
    without = single_replacements(model, game.image[None], game.baseline[None])[0, pixels]
    outputs = torch.cat([without, model(game.image[None])])
    return target_outputs(outputs, game.target.expand(len(outputs))).cpu()
