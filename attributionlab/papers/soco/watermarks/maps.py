"""Maps for watermarked images: three methods, and two that know what the watermarks look like."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.methods import deep_shap, gradcam, integrated_gradients
from attributionlab.methods.findings import Finding, heard
from attributionlab.papers.soco.watermarks.data import rectangle_side

METHODS = ("GradCAM", "IG", "DeepSHAP")
CRAFTED = ("Rect", "Pooling")
SQUARED = "Rect, squared"
"""Rect around the center by squared attributions, which many faint ones move less."""
BASELINES = 8
"""Training images that DeepSHAP compares with."""

Maps = Float[Tensor, "batch 1 height width"]


def attribution_maps(
    network: nn.Sequential,
    images: Float[Tensor, "batch channels height width"],
    labels: Int[Tensor, " batch"],
    *,
    training: Float[Tensor, "training channels height width"],
    rows: Sequence[slice],
) -> tuple[dict[str, Maps], list[Finding]]:
    """Maps of what speaks for the label, by method, and what the methods' guards had to say.

    Logits are explained. Attributions are summed over channels, and negative sums set to 0: GradCAM
    and Attr% know no others, and so all metrics judge the same maps. IG starts from black, DeepSHAP
    from the first training images, GradCAM looks at the last ReLU before the linear layer.

    Parameters
    ----------
    network : nn.Sequential
        With at least one ReLU that returns maps.
    images, labels
        What is explained.
    training : Tensor, (N, C, H, W)
        Images that the network was trained on.
    rows : sequence of slice
        Regions of `pooled`.
    """
    last = [module for module in network if isinstance(module, nn.ReLU)][-1]
    with heard() as findings:
        found = {
            "GradCAM": gradcam(network, images, labels, layers={"gradcam": last}),
            "IG": integrated_gradients(network, images, labels),
            "DeepSHAP": deep_shap(network, images, labels, baselines=training[:BASELINES]),
        }
    maps = {
        name: values.detach().double().sum(1, keepdim=True).clamp(min=0)
        for name, values in found.items()
    }
    maps["Rect"] = rectangle_at_center(maps["IG"])
    maps["Pooling"] = pooled(maps["IG"], rows)
    maps[SQUARED] = rectangle_at_center(maps["IG"] ** 2)
    return maps, findings


def rectangle_at_center(maps: Maps) -> Maps:
    """Ones in a square of the watermark's size around the attribution's center, zeros elsewhere.

    The center is the mean place of the pixels, weighted by their attributions; the square is moved
    into the image where it would leave it. A map of zeros has its center in the middle.

    Parameters
    ----------
    maps : Tensor, (B, 1, H, W)
        Not negative.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.papers.soco.watermarks.maps import rectangle_at_center
    >>> values = torch.zeros(1, 1, 4, 8)
    >>> values[..., 1, 3], values[..., 1, 7] = 3.0, 1.0  # their center is column 4
    >>> rectangle_at_center(values)[0, 0].int()
    tensor([[0, 0, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 1, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 0]], dtype=torch.int32)
    """
    height, width = maps.shape[2:]
    side = rectangle_side(min(height, width))
    weights = maps[:, 0].double()
    weights = torch.where((weights.sum((1, 2)) > 0)[:, None, None], weights, 1.0)
    total = weights.sum((1, 2))
    result = torch.zeros_like(maps)
    for axis_sums, extent, along in ((weights.sum(2), height, 2), (weights.sum(1), width, 3)):
        center = (axis_sums @ torch.arange(extent).double()) / total
        first = (center - (side - 1) / 2).round().clamp(0, extent - side)
        place = torch.arange(extent)
        inside = (place >= first[:, None]) & (place < first[:, None] + side)
        shaped = inside[:, None, :, None] if along == 2 else inside[:, None, None, :]
        result = result + shaped
    return (result == 2).to(maps)


def pooled(maps: Maps, rows: Sequence[slice]) -> Maps:
    """Each region of rows with its mean attribution everywhere.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.papers.soco.watermarks.maps import pooled
    >>> pooled(torch.tensor([[[[0.0, 2.0], [4.0, 6.0]]]]), [slice(0, 1), slice(1, 2)])
    tensor([[[[1., 1.],
              [5., 5.]]]])
    """
    result = torch.empty_like(maps)
    for region in rows:
        result[:, :, region] = maps[:, :, region].mean((2, 3), keepdim=True)
    return result
