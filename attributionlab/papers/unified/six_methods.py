"""The methods of Wang and Wang (2022), by the names that ours have."""

from jaxtyping import Float
from torch import Tensor

from attributionlab.papers.subjects.subjects import Subject, maps_of

MAPS = {
    "gradcam": "GradCAM",
    "excitation-backprop": "Excitation BP",
    "linear-approximation": "Linear approximation",
    "guided-backprop": "Guided BP",
    "saliency": "Gradient",
    "deconvolution": "DeConvNet",
}
"""In the order of the paper's figures: the first three explain by a layer."""
GRADCAM = MAPS["gradcam"]


def map_of(subject: Subject, method: str, seed: int) -> Float[Tensor, "batch 1 height width"]:
    """As `maps_of`, with excitation backpropagation down to GradCAM's layer, as in the paper.

    Built-in subjects offer layers by method, and this one is not among them: without a name it would
    go down to the input.
    """
    layer = subject.offered.get("layers", {}).get("gradcam")
    if method != "excitation-backprop" or layer is None:
        return maps_of(subject, method, seed)
    named = subject.model.named_modules()
    return maps_of(subject, method, seed, {"layer": next(at for at, own in named if own is layer)})
