"""The methods of Wang and Wang (2022), by the names that ours have."""

__all__ = ["GRADCAM", "MAPS"]

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
