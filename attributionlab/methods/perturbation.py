r"""Methods that change a part of the image and watch the output."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.methods.baselines import Baselines, as_baselines, from_true_baseline
from attributionlab.methods.batching import images_at_once, in_smaller_batches
from attributionlab.methods.entry import checked
from attributionlab.methods.findings import Notice, notify
from attributionlab.methods.outputs import target_outputs
from attributionlab.validation import integer_problem

Window = tuple[int, int, int]
"""Image, top row and left column."""


@checked
def occlusion(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    baselines: Baselines = 0.0,
    window: int = 5,
    stride: int = 3,
) -> Tensor:
    r"""How much the output falls when a window slides over the image and hides what is below it.

    .. math::
        a_j = \frac{1}{|W_j|} \sum_{w \in W_j} \left( f_t(x) - f_t(x_{w \leftarrow b}) \right),

    with W_j the windows that cover pixel j and b the baseline. All channels are hidden at once, so a
    pixel has one value. Windows start at multiples of the stride, as many as it takes to reach the far
    border, where the last ones are cut off.

    Source: Zeiler & Fergus, 2014. Shows what the output loses with a whole window, and cannot tell its
    pixels apart; from an unseen baseline it also shows what the unseen color does to the network. One
    forward pass for each window, 5,476 for an image of 224 pixels; windows that change no value are not
    evaluated, because nothing can come of them. Computes what Captum's Occlusion does, without the
    masks as large as the image that captum 0.9.0 builds for each window (docs/methods.md, "Where
    Captum does not do the work").

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    baselines : float, sequence of float, ndarray or Tensor
        What hides a window (`as_baselines`); black by default.
    window : int
        Side of the square window in pixels.
    stride : int
        Pixels from one window to the next, at most `window`.

    Returns
    -------
    Tensor, (B, 1, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        If the window is larger than the image, or strides leave pixels uncovered.
    """
    height, width = inputs.shape[2:]
    _check_window(window, stride, height, width)
    references = as_baselines(baselines, inputs)
    tops, lefts = (list(_starts(side, window, stride)) for side in (height, width))
    changes = _covered(inputs != references, tops, lefts, window)
    windows: list[Window] = [
        (image, tops[row], lefts[column]) for image, row, column in changes.nonzero().tolist()
    ]

    def run(batch: int) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            whole = [model(part) for part in torch.split(inputs, batch)]
            before = target_outputs(torch.cat(whole), targets)
            after = [
                _hidden(model, inputs, references, targets, windows[i : i + batch], window)
                for i in range(0, len(windows), batch)
            ]
        return before, torch.cat(after) if after else before.new_empty(0)

    before, after = in_smaller_batches(run, images_at_once(model, inputs), "occlusion")
    falls = before.new_zeros(changes.shape)
    falls[changes] = before[changes.nonzero()[:, 0]] - after
    if stride == window:
        # No two windows overlap. Where they do, the map still has steps at their borders only, but few
        # of the maps with such steps are means over windows: the regions would tell next to nothing.
        rows, columns = torch.arange(height) // window, torch.arange(width) // window
        labels = (rows[:, None] * len(lefts) + columns).expand(len(inputs), -1, -1)
        notify(Notice("have one value for each window", 0, regions=labels))
    return _averaged(falls, tops, lefts, window, (height, width))


occlusion_true_baseline = from_true_baseline(
    occlusion,
    """Occlusion by the environment's own background.

    Parameters
    ----------
    baseline : Tensor, (C, 1, 1)
        The true baseline pixel; the environment gives it.
    model, inputs, targets, window, stride
        As for `occlusion`.
    """,
)


def _check_window(window: int, stride: int, height: int, width: int) -> None:
    refuse_if(
        [*integer_problem("window", window, 1), *integer_problem("stride", stride, 1)], "occlusion"
    )
    if window > min(height, width):
        raise AttributionLabError(
            f"window is {window}: take at most {min(height, width)}, the side of the image"
        )
    if stride > window:
        raise AttributionLabError(
            f"stride is {stride}: take at most {window}, the window, or pixels are left out"
        )


def _starts(side: int, window: int, stride: int) -> range:
    """Where windows start along one axis, up to the first that reaches the border."""
    return range(0, side - window + stride, stride)


def _covered(
    changed: Tensor, tops: list[int], lefts: list[int], window: int
) -> Bool[Tensor, "batch rows columns"]:
    """Whether each window holds a pixel of which any channel changes."""
    any_channel = changed.any(1)
    rows = torch.stack([any_channel[:, top : top + window].any(1) for top in tops], 1)
    return torch.stack([rows[:, :, left : left + window].any(2) for left in lefts], 2)


def _hidden(
    model: nn.Module,
    inputs: Tensor,
    references: Tensor,
    targets: Tensor,
    windows: list[Window],
    side: int,
) -> Float[Tensor, " windows"]:
    """The explained outputs of images with one window hidden in each."""
    images = torch.tensor([image for image, _, _ in windows], device=inputs.device)
    occluded = inputs[images].contiguous(
        memory_format=torch.channels_last
        if inputs.is_contiguous(memory_format=torch.channels_last)
        else torch.contiguous_format
    )
    for copy, (image, top, left) in zip(occluded, windows, strict=True):
        place = (slice(None), slice(top, top + side), slice(left, left + side))
        copy[place] = references[image][place]
    return target_outputs(model(occluded), targets[images])


def _averaged(
    falls: Tensor, tops: list[int], lefts: list[int], window: int, size: tuple[int, int]
) -> Float[Tensor, "batch 1 height width"]:
    """Every pixel's mean over the windows that cover it."""
    sums, counts = falls.new_zeros(len(falls), *size), falls.new_zeros(size)
    for row, top in enumerate(tops):
        for column, left in enumerate(lefts):
            place = (..., slice(top, top + window), slice(left, left + window))
            sums[place] += falls[:, row, column, None, None]
            counts[place] += 1
    return (sums / counts)[:, None]
