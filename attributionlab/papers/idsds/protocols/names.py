"""The protocols and methods of Figure 2, and what the paper measured for them (ResNet-50, ImageNet)."""

from collections.abc import Mapping

from attributionlab.papers.idsds.maps import ABSOLUTE, CONTROL, PANEL

IDSDS, SDS, IDS, PARTS = "IDSDS", "SDS", "IDS", "parts"
UPDATED_IDS, ALIGNED_IDS = "IDS updated", "IDS aligned"

INTRINSIC: Mapping[str, str] = {"b-cos": "B-cos", "bag": "BagNet"}
"""Families of networks that explain themselves, and what their maps are called."""

LEGEND: Mapping[str, str] = {
    "input-x-gradient": "IxG",
    "input-x-gradient-smoothgrad": "IxG-SG",
    "integrated-gradients": "IG",
    "integrated-gradients-uniform": "IG-U",
    "integrated-gradients-smoothgrad": "IG-SG",
    "integrated-gradients-smoothgrad-squared": "IG-SG-SQ",
    "saliency": "Saliency",
    "rise": "RISE",
    "rise-uniform": "RISE-U",
    "gradcam": "Grad-CAM",
    "gradcam-plus-plus": "Grad-CAM++",
    "smooth-gradcam-plus-plus": "SG-CAM++",
    "xgradcam": "XGrad-CAM",
    "layercam": "Layer-CAM",
    "attention-rollout": "Rollout",
    "chefer-lrp": "CheferLRP",
    CONTROL: "random",
}
LEGEND = {
    name: f"{LEGEND[name.removesuffix(ABSOLUTE)]} abs." if name.endswith(ABSOLUTE) else LEGEND[name]
    for name in PANEL
}
"""Table 2: rows of the panel as the paper calls them."""

PAIRS = tuple(name.removesuffix(ABSOLUTE) for name in PANEL if name.endswith(ABSOLUTE))
"""Rows that there are raw and absolute."""
UPDATED = tuple(
    name
    for name in PANEL
    if name.removesuffix(ABSOLUTE)
    in ("input-x-gradient", "integrated-gradients", "integrated-gradients-uniform")
    or name in ("saliency", "gradcam", CONTROL)
)
"""Rows whose maps are updated: those of which the paper's text speaks and some that cost little."""

UPDATED_BY_CONSTRUCTION = tuple(name for name in UPDATED if "integrated" not in name)
"""Those that cost little and need no quadrature, which networks with steep steps would ask much of."""

PAPER: Mapping[str, Mapping[str, float]] = {
    IDSDS: {
        "IxG": 0.07, "IxG-SG": -0.005, "IG": 0.196, "IG-U": 0.255, "IG-SG": 0.049,
        "IxG abs.": 0.103, "IxG-SG abs.": 0.065, "IG abs.": 0.111, "IG-U abs.": 0.125,
        "IG-SG abs.": 0.073, "IG-SG-SQ": 0.075, "Saliency": 0.127, "RISE": 0.131, "RISE-U": 0.065,
        "Grad-CAM": 0.236, "Grad-CAM++": 0.213, "SG-CAM++": 0.102, "XGrad-CAM": 0.236,
        "Layer-CAM": 0.192, "B-cos": 0.314, "BagNet": 0.797,
    },
    IDS: {
        "IxG": 0.124, "IxG-SG": 0.188, "IG": 0.162, "IG-U": 0.198, "IG-SG": 0.224,
        "IxG abs.": 0.242, "IxG-SG abs.": 0.274, "IG abs.": 0.264, "IG-U abs.": 0.273,
        "IG-SG abs.": 0.286, "IG-SG-SQ": 0.395, "Saliency": 0.196, "RISE": 0.48, "RISE-U": 0.412,
        "Grad-CAM": 0.537, "Grad-CAM++": 0.528, "SG-CAM++": 0.51, "XGrad-CAM": 0.537,
        "Layer-CAM": 0.523,
    },
    SDS: {
        "IxG": 0.056, "IxG-SG": -0.006, "IG": 0.208, "IG-U": 0.261, "IG-SG": 0.09,
        "IxG abs.": 0.146, "IxG-SG abs.": 0.155, "IG abs.": 0.174, "IG-U abs.": 0.209,
        "IG-SG abs.": 0.164, "IG-SG-SQ": 0.168, "Saliency": 0.183, "RISE": 0.192, "RISE-U": 0.119,
        "Grad-CAM": 0.342, "Grad-CAM++": 0.319, "SG-CAM++": 0.22, "XGrad-CAM": 0.342,
        "Layer-CAM": 0.302,
    },
    PARTS: {
        "IxG": 0.545, "IxG-SG": 0.48, "IG": 0.587, "IG-U": 0.562, "IG-SG": 0.479,
        "IxG abs.": 0.506, "IxG-SG abs.": 0.538, "IG abs.": 0.523, "IG-U abs.": 0.515,
        "IG-SG abs.": 0.532, "IG-SG-SQ": 0.519, "Saliency": 0.517, "RISE": 0.576, "RISE-U": 0.549,
        "Grad-CAM": 0.555, "Grad-CAM++": 0.559, "SG-CAM++": 0.555, "XGrad-CAM": 0.555,
        "Layer-CAM": 0.554,
    },
}  # fmt: skip
"""Tables 4 to 7."""
