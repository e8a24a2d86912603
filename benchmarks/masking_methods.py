"""Feature ablation, KernelSHAP and sampled Shapley values beside Captum's, in one process on one core.

Medians of alternating runs at equal settings: the same superpixels, baseline, number of samples and
number of perturbed images in a pass. Ours asks nothing of superpixels that look like the baseline; here
none does, because it is a gray that no image has. The last row is about single pixels, which ours
follows through the network.
"""

import argparse
import warnings
from collections.abc import Callable, Mapping

import torch
from captum.attr import FeatureAblation, KernelShap, ShapleyValueSampling
from side_by_side import side_by_side
from torch import Tensor, nn

import attributionlab as al
from attributionlab.base.segmentation import segment
from attributionlab.methods import (
    collect_notices,
    feature_ablation,
    kernel_shap,
    shapley_value_sampling,
)

GRAY = 128.0
Run = Callable[[], object]


def report(what: str, runs: Mapping[str, Run], repeats: int) -> None:
    with collect_notices(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = side_by_side(runs["ours"], runs["captum"], repeats)
    print(
        f"{what:<58} captum {times.theirs:7.3f} s, ours {times.ours:7.3f} s, "
        f"ours / captum {times.ratio:.2f}",
        flush=True,
    )


def pairs(
    model: nn.Module,
    image: Tensor,
    target: Tensor,
    labels: Tensor,
    highest: float,
    samples: int,
    width: int,
) -> dict[str, dict[str, Run]]:
    """What to run, by method."""
    mask = labels[:, None].expand_as(image).contiguous()
    players = int(labels.max()) + 1
    shared = {"highest": highest, "segmentation": labels, "baselines": GRAY}
    permutations = max(1, samples // players)

    def source() -> torch.Generator:
        return torch.Generator().manual_seed(0)

    return {
        f"feature-ablation, {players} superpixels": {
            "captum": lambda: FeatureAblation(model).attribute(
                *(image, GRAY, target), feature_mask=mask, perturbations_per_eval=width
            ),
            "ours": lambda: feature_ablation(
                model, image, target, perturbations_per_eval=width, **shared
            ),
        },
        f"kernel-shap, {players} superpixels, {samples} samples": {
            "captum": lambda: KernelShap(model).attribute(
                *(image, GRAY, target),
                feature_mask=mask,
                n_samples=samples,
                perturbations_per_eval=width,
            ),
            "ours": lambda: kernel_shap(
                *(model, image, target),
                generator=source(),
                n_samples=samples,
                perturbations_per_eval=width,
                **shared,
            ),
        },
        f"shapley-value-sampling, {players} superpixels, {permutations} orders": {
            "captum": lambda: ShapleyValueSampling(model).attribute(
                *(image, GRAY, target),
                feature_mask=mask,
                n_samples=permutations,
                perturbations_per_eval=width,
            ),
            "ours": lambda: shapley_value_sampling(
                *(model, image, target),
                generator=source(),
                n_samples=permutations,
                perturbations_per_eval=width,
                **shared,
            ),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="also images of 224 pixels")
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for side, width in ({72: 50, 224: 6} if options.full else {72: 50}).items():
        env = al.load("multi-color-sum", image_size=side)
        model, (images, targets) = env.softmax_model, env.batch(1)
        assert model is not None
        labels = segment(images, "grid", highest=env.max_value, settings={"cells": 8})
        every = pairs(model, images, targets, labels, env.max_value, options.samples, width)
        for what, runs in every.items():
            report(f"{side} px, {what}", runs, options.repeats)
    env = al.load("multi-color-sum", image_size=48)
    model, (images, targets) = env.softmax_model, env.batch(1)
    assert model is not None
    mask = torch.arange(48 * 48).reshape(1, 1, 48, 48).repeat(1, 3, 1, 1)
    pixels: dict[str, Run] = {
        "captum": lambda: FeatureAblation(model).attribute(
            images, GRAY, targets, feature_mask=mask, perturbations_per_eval=50
        ),
        "ours": lambda: feature_ablation(
            model, images, targets, highest=env.max_value, baselines=GRAY
        ),
    }
    report("48 px, feature-ablation, 2304 pixels", pixels, 1)


if __name__ == "__main__":
    main()
