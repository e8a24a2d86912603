"""What a model says when each pixel alone is replaced."""

import torch
from jaxtyping import Float, Real
from torch import Tensor, nn

from attributionlab.exact.stepwise.checks import checked_pair, kind_of
from attributionlab.exact.stepwise.forward import single_by_forward_passes
from attributionlab.exact.stepwise.replacement import mixtures_of
from attributionlab.validation import Replacement


def single_replacements(
    model: nn.Module,
    images: Real[Tensor, "batch channels height width"],
    replacements: Replacement,
) -> Float[Tensor, "batch pixels outputs"]:
    r"""Outputs after each pixel alone took its replacement's value, all channels together.

    What a model loses with a pixel is its ablation effect, f(x) - f(x without p); what it gains from
    one is its insertion effect, f(b with p) - f(b). The second is the same question with image and
    replacement swapped: ``single_replacements(model, replacements, images)``.

    Parameters
    ----------
    model, images, replacements
        As for `trajectories`: a model (B, C, H, W) -> (B, K), images, and a number or a tensor that
        broadcasts to them.

    Returns
    -------
    Tensor, (B, P, K)
        Row p = y W + x belongs to the image in which the pixel (y, x) is the replacement's; on the
        images' device, of the model's type, and equal (``==``) to forward passes where `trajectories`
        is. 0.8 MB for an image of 224 x 224 pixels and four outputs in float32.

    Raises
    ------
    AttributionLabError
        For shapes, devices and numbers that do not fit, and models whose output is not (B, K).

    Notes
    -----
    An image with one pixel replaced is a mixture of image and replacement. So `route_of` says how it is
    evaluated, and the proof that covers trajectories covers this: where no mixture is rounded, each
    pixel costs one walk through the network, from what the layers make of the image; otherwise one
    forward pass.

    Examples
    --------
    >>> import torch
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=24)
    >>> images, labels = env.batch(2)
    >>> without = al.exact.single_replacements(env.model, images, env.baseline)
    >>> without.shape
    torch.Size([2, 576, 4])
    >>> losses = env.model(images)[:, None] - without
    >>> losses.detach().unique()  # 1 for a pixel of the output's color
    tensor([0., 1.])
    """
    dtype, device = kind_of(model)
    starts, ends = checked_pair(images, replacements, dtype, device)
    results = []
    for image, end, mixture in zip(starts, ends, mixtures_of(model, starts, ends), strict=True):
        if mixture is None:
            results.append(single_by_forward_passes(model, image, end))
        else:
            results.append(mixture.single_outputs().to(image.device))
    return torch.stack(results)
