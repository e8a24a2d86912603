r"""What the output loses when a window, a pixel or a superpixel is hidden: occlusion and ablation."""

from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, Count, Positive
from attributionlab.base.exact import single_replacements
from attributionlab.base.segmentation import Segmentation
from attributionlab.methods import coalitions
from attributionlab.methods.baselines import Baselines, as_baselines, from_true_baseline
from attributionlab.methods.batching import images_at_once, in_smaller_batches
from attributionlab.methods.declaration import checked, declares
from attributionlab.methods.defaults import superpixels
from attributionlab.methods.notices import Notice, notify
from attributionlab.methods.outputs import same_outputs, target_outputs

Window = tuple[int, int, int]
"""Image, top row and left column."""
WINDOW, STRIDE = 5, 3
"""Of occlusion, in pixels."""


@checked
@declares(images=True)
def occlusion(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    baselines: Baselines = 0.0,
    window: Count | None = None,
    stride: Count | None = None,
) -> Tensor:
    r"""The drop in the output when a sliding window hides a part of the image.

    .. math::
        a_j = \frac{1}{|W_j|} \sum_{w \in W_j} \left( f_t(x) - f_t(x_{w \leftarrow b}) \right),

    with W_j the windows that cover pixel j and b the baseline. All channels are hidden at once, so a
    pixel has one value. Windows start at multiples of the stride until they reach the far border, where
    the last ones are cut off.

    Source: Zeiler & Fergus, 2014. Shows what the output loses with a whole window, without
    distinguishing its pixels; with an unseen baseline it also shows the effect of the unseen color. One
    forward pass for each window, 5,476 for an image of 224 pixels; windows that change no value are
    skipped. Computes what Captum's Occlusion does, without the masks as large as the image that captum
    0.9.0 builds for each window (docs/methods.md, "Where Captum does not do the work").

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    baselines : float, sequence of float, ndarray or Tensor
        Value of hidden pixels (`as_baselines`); black by default.
    window : int, optional
        Side of the square window in pixels, 5 by default; in images of one row (tokens) its length,
        1 by default.
    stride : int, optional
        Pixels from one window to the next, at most `window`; 3 by default, 1 in images of one row.

    Returns
    -------
    Tensor, (B, 1, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        If the window is larger than the image, or the stride skips pixels.
    """
    height, width = inputs.shape[2:]
    window, stride = (
        (1 if height == 1 else usual) if each is None else each
        for each, usual in ((window, WINDOW), (stride, STRIDE))
    )
    most = width if height == 1 else min(height, width)
    if window > most:
        raise AttributionLabError(f"window is {window}: take at most {most}, the side of the image")
    if stride > window:
        raise AttributionLabError(
            f"stride is {stride}: take at most {window}, the window; a larger one skips pixels"
        )
    references = as_baselines(baselines, inputs)
    # Up to the first window that reaches the border.
    tall = min(window, height)
    tops, lefts = (
        list(range(0, side - long + stride, stride))
        for side, long in ((height, tall), (width, window))
    )
    changed = (inputs != references).any(1)
    rows = torch.stack([changed[:, top : top + tall].any(1) for top in tops], 1)
    changes = torch.stack([rows[:, :, left : left + window].any(2) for left in lefts], 2)
    windows: list[Window] = [
        (image, tops[row], lefts[column]) for image, row, column in changes.nonzero().tolist()
    ]

    def hidden(some: list[Window]) -> Float[Tensor, " windows"]:
        """The explained outputs of images with one window hidden in each."""
        images = torch.tensor([image for image, _, _ in some], device=inputs.device)
        last = inputs.is_contiguous(memory_format=torch.channels_last)
        layout = torch.channels_last if last else torch.contiguous_format
        occluded = inputs[images].contiguous(memory_format=layout)
        for copy, (image, top, left) in zip(occluded, some, strict=True):
            place = (slice(None), slice(top, top + tall), slice(left, left + window))
            copy[place] = references[image][place]
        return target_outputs(model(occluded), targets[images])

    def run(batch: int) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            whole = [model(part) for part in torch.split(inputs, batch)]
            before = target_outputs(torch.cat(whole), targets)
            after = [hidden(windows[i : i + batch]) for i in range(0, len(windows), batch)]
        return before, torch.cat(after) if after else before.new_empty(0)

    before, after = in_smaller_batches(run, images_at_once(model, inputs), "occlusion")
    falls = before.new_zeros(changes.shape)
    falls[changes] = before[changes.nonzero()[:, 0]] - after
    if stride == window:
        # No two windows overlap. Where they do, the map still has steps at their borders only, but few
        # of the maps with such steps are means over windows: the regions would tell next to nothing.
        down, right = torch.arange(height) // tall, torch.arange(width) // window
        labels = (down[:, None] * len(lefts) + right).expand(len(inputs), -1, -1)
        notify(Notice("have one value for each window", 0, regions=labels))
    # Every pixel's mean over the windows that cover it.
    sums, counts = falls.new_zeros(len(falls), height, width), falls.new_zeros(height, width)
    for row, top in enumerate(tops):
        for column, left in enumerate(lefts):
            place = (..., slice(top, top + tall), slice(left, left + window))
            sums[place] += falls[:, row, column, None, None]
            counts[place] += 1
    return (sums / counts)[:, None]


occlusion_true_baseline = from_true_baseline(
    occlusion, "Occlusion with the environment's background as the baseline."
)


@checked
def feature_ablation(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    highest: Positive | None = None,
    segmentation: Segmentation = "pixels",
    baselines: Baselines = 0.0,
    patches: Tensor | None = None,
    perturbations_per_eval: Count | None = None,
    **segmentation_settings: Any,
) -> Tensor:
    r"""The drop in the output when a pixel or superpixel is replaced by the baseline.

    .. math:: a_j = \frac{1}{|S_j|} \left( f_t(x) - f_t(x_{S_j \leftarrow b}) \right)

    with S_j the superpixel of pixel j. Its pixels share its effect equally, so the map sums to the sum
    of all effects; the effect of a large superpixel is not counted once per pixel. All channels are
    replaced at once.

    Source: the leave-one-out effect, as old as regression; Captum's FeatureAblation, which gives every
    pixel the whole effect of its group. Claims signs. Shows the loss with everything else in place, and
    nothing for redundant pixels: if either of two pixels suffices, both have 0. With an unseen baseline
    it also shows the effect of the unseen color.

    One forward pass for each superpixel that differs from the baseline and one for the image: 50,177
    for the single pixels of a 224 x 224 image. If the network sums without rounding and every pixel has
    one path to the outputs, single pixels need no passes: all are traced through the network
    (`attributionlab.exact.single_replacements`, well below a second), with equal results.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    highest : float, optional
        The largest value that a pixel can have, which segmentations by value need; an environment
        provides it. By default it is inferred from the images: 1 for [0, 1], 255 for integers up to
        255; otherwise it is required.
    segmentation : str, callable, object with `generate`, or label map
        What is removed together (`attributionlab.segmentation.segment`); single pixels by default.
    baselines : float, sequence of float, ndarray or Tensor
        Value of removed superpixels (`as_baselines`); black by default.
    patches : Tensor, (B, H, W), optional
        The environment's label map, for segmentation "patches".
    perturbations_per_eval : int, optional
        Perturbed images per pass; by default as many as fit the memory budget.
    **segmentation_settings
        Settings of the segmentation, such as ``cells=4`` for "grid".

    Returns
    -------
    Tensor, (B, 1, H, W)
        In units of the output; 0 for an image if no part changes the output by more than rounding.

    Raises
    ------
    AttributionLabError
        For settings out of range or unknown.
    """
    start = as_baselines(baselines, inputs)
    labels = superpixels(
        inputs,
        segmentation,
        highest,
        patches,
        segmentation_settings,
        coalitions.MASKING_SETTINGS,
        "feature-ablation",
    )
    games = coalitions.games_of(inputs, start, labels, targets)
    outputs = [_followed(model, game) for game in games]
    unfollowed = [k for k, each in enumerate(outputs) if each is None]
    if unfollowed:
        by_passes = coalitions.coalition_outputs(
            model,
            [games[k] for k in unfollowed],
            [
                coalitions.Coalitions(games[k].players + 1, partial(_all_but_one, games[k].players))
                for k in unfollowed
            ],
            perturbations_per_eval,
            "feature-ablation",
        )
        for k, each in zip(unfollowed, by_passes, strict=True):
            outputs[k] = each
    maps, unmoved = [], 0
    for game, given in zip(games, outputs, strict=True):
        assert given is not None
        falls = given[-1].double() - given[:-1].double()
        if same_outputs(given.min(), given.max()):
            # What is left is rounding, which a normalization blows up to a full-scale map.
            falls, unmoved = torch.zeros_like(falls), unmoved + 1
        maps.append(game.shared(falls))
    coalitions.notify_superpixels(labels)
    coalitions.notify_unmoved(unmoved)
    return torch.stack(maps)


feature_ablation_true_baseline = from_true_baseline(
    feature_ablation, "Feature ablation with the environment's background as the baseline."
)


def _all_but_one(players: int, numbers: Tensor) -> Bool[Tensor, "n players"]:
    """The coalition number i lacks player i; the last one nobody."""
    return numbers[:, None] != torch.arange(players)


@torch.no_grad()
def _followed(model: nn.Module, game: coalitions.Game) -> Float[Tensor, " players_and_all"] | None:
    """Outputs without each player, and with all; None where only forward passes have them."""
    pixels = coalitions.followed_pixels(model, game)
    if pixels is None:
        return None
    without = single_replacements(model, game.image[None], game.baseline[None])[0, pixels]
    outputs = torch.cat([without, model(game.image[None])])
    return target_outputs(outputs, game.target.expand(len(outputs))).cpu()
