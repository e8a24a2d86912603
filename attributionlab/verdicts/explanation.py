"""Attribution maps of a user's own network side by side: no truth is known and nothing is judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    Positive,
    Seed,
    check_writable,
    checked_arguments,
    printable,
    reference_images_problem,
    refuse_if,
    write_atomically,
)
from attributionlab.methods import Handed, side_by_side, value_range

METHODS = ("input-x-gradient", "integrated-gradients", "gradcam", "occlusion")
"""What explains a network unless the user asks for others: of one pass, of a path, of a layer, of none
but forward passes."""


@dataclass(frozen=True, repr=False)
class Explanation:
    """Attribution maps of several methods for the same images.

    - `images` (B, C, H, W); `targets`, `outputs` (B,): which output is explained, and its value.
    - `maps`: by the method's name, (B, 1, H, W) in float64, summed over channels and scaled as the
      method does.
    - `warnings`: the guards' warnings about a method's maps, by its name; empty if there are none.
    - `refused`: why a method has no maps, by its name.
    - `layer`: the module that class activation maps attach to, where there is one.
    - `network`: the type of the network. `classes`: names of its outputs, where the user gave them.
    - `highest`: the length of the value range in which images are shown.
    """

    images: Float[Tensor, "batch channels height width"]
    targets: Int[Tensor, " batch"]
    outputs: Float[Tensor, " batch"]
    maps: Mapping[str, Float[Tensor, "batch 1 height width"]]
    warnings: Mapping[str, Sequence[str]]
    refused: Mapping[str, str]
    layer: str | None
    network: str
    classes: Sequence[str] | None = None
    highest: float = 1.0

    def __repr__(self) -> str:
        count, _, height, width = self.images.shape
        lines = [
            f"maps of {self.network}: {count} image{'s' * (count > 1)} of {height} x {width} pixels "
            "(no truth is known, nothing is judged)"
        ]
        for name in self.maps:
            lines.append(f"  {name}")
            lines += [f"    {text}" for text in self.warnings[name]]
        lines += [f"  {name}: no maps: {why}" for name, why in self.refused.items()]
        return "\n".join(map(printable, lines))

    def asked(self) -> list[str]:
        """The output explained for each image, in words."""
        return [
            f"{'output ' + str(target) if self.classes is None else self.classes[target]}: {value:.4g}"
            for target, value in zip(self.targets.tolist(), self.outputs.tolist(), strict=True)
        ]

    def to_html(self, path: str | Path) -> None:
        """Write one self-contained page: images, maps side by side, warnings; no verdict."""
        from attributionlab.show import Maps, maps_page

        count, _, height, width = self.images.shape
        facts = {
            "images": f"{count:,} of {height:,} x {width:,} pixels",
            "methods": str(len(self.maps)),
        }
        if self.layer is not None:
            facts["layer of activation maps"] = self.layer
        shown = Maps(
            self.network,
            facts,
            self.images.double().numpy(),
            self.highest,
            self.asked(),
            {name: values[:, 0].numpy() for name, values in self.maps.items()},
            self.warnings,
            self.refused,
        )
        write_atomically(path, maps_page(shown))


@checked_arguments
def explain(
    model: Any,
    images: Tensor,
    methods: Any = METHODS,
    targets: Any = "predicted",
    *,
    layer: str | None = None,
    highest: Positive | None = None,
    reference_images: Tensor | None = None,
    classes: Sequence[str] | None = None,
    seed: Seed = 0,
    html: str | Path | None = None,
    show_progress: bool = False,
) -> Explanation:
    """Make attribution maps of your own network side by side, without a verdict.

    Nobody knows which pixels a trained network uses, so no map is called right or wrong here; use
    `faithfulness_test` to test methods on networks where this is known. Maps that are detectably wrong
    (because they miss a part of the output, or are mostly sampling noise, for example) come with a
    warning. A method that cannot explain the network is listed with the reason, without affecting the
    others.

    Parameters
    ----------
    model : nn.Module or callable
        (B, C, H, W) -> rows of outputs (B, K), in eval mode. It is not modified.
    images : Tensor, (B, C, H, W)
        As the network expects them: normalized, unless the network does this itself.
    methods : sequence or one method
        As for `compare`: names, functions ``f(model, inputs, targets, **settings)``, Captum's classes,
        precomputed maps; a pair (method, settings) sets its settings.
    targets : Tensor, sequence of int, int or "predicted"
        The output to explain for each image, or for all; by default the largest one of each image.
    layer : str, optional
        Dotted name of the module that class activation maps and IBA attach to; by default the last
        convolution whose maps have more than one cell. A network with attention has no default.
    highest : float, optional
        The length of the images' value range, for methods that need it; by default inferred from the
        images: 1 for [0, 1] and 255 for integers up to 255.
    reference_images : Tensor, (n, C, H, W), optional
        Other images of the same kind, for methods that need them; by default the images themselves, if
        there are 16 or more.
    classes : sequence of str, optional
        Names of the outputs.
    seed : int
        Seed for methods that draw random numbers.
    html : str or Path, optional
        Where the page is written (`Explanation.to_html`).
    show_progress : bool
        Whether to show on standard error which method is at work.

    Raises
    ------
    AttributionLabError
        For an invalid network, images or targets; for unknown methods and settings; and if no method
        has a map.

    Examples
    --------
    >>> import torch
    >>> import attributionlab as al
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2)).eval()
    >>> found = al.explain(model, torch.rand(2, 1, 8, 8), ["saliency", "occlusion"], targets=1)
    >>> found.maps["occlusion"].shape
    torch.Size([2, 1, 8, 8])
    """
    if html is not None:
        check_writable(html)
    if reference_images is not None and isinstance(images, Tensor):
        refuse_if(reference_images_problem(reference_images, images, 1), "explain")
    found = side_by_side(
        *(model, images, methods, targets),
        Handed(layer, highest, reference_images, seed),
        show_progress,
    )
    if classes is not None and len(classes) <= int(found.targets.max()):
        raise AttributionLabError(
            f"classes name {len(classes)} outputs, and targets go up to {int(found.targets.max())}: "
            "name all outputs"
        )
    kept = images.detach().cpu().clone()
    explanation = Explanation(
        *(kept, found.targets, found.outputs, found.maps, found.warnings, found.refused),
        *(found.layer, _name_of(model), classes),
        _range_shown(kept, highest),
    )
    if html is not None:
        explanation.to_html(html)
    return explanation


def _name_of(model: Any) -> str:
    if isinstance(model, nn.Module):
        return type(model).__name__
    return str(getattr(model, "__name__", type(model).__name__))


def _range_shown(images: Tensor, highest: float | None) -> float:
    """The length of the value range in which images are shown: stated, told by them, or their own."""
    try:
        return value_range(highest, images, "explain")
    except AttributionLabError:
        low, high = torch.aminmax(images)
        return float(high - low.clamp(max=0)) or 1.0
