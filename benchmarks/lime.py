"""The processor time of LIME beside Captum's at equal settings, in one process and on one core.

Medians of alternating runs. Both have the same superpixels, number of samples, similarity kernel, ridge
regression, baseline and number of perturbed images in a pass.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from captum._utils.models.linear_model import SkLearnRidge
from captum.attr import Lime

import attributionlab as al
from attributionlab.base.segmentation import segment
from attributionlab.methods import lime

KERNEL_WIDTH = 0.25


def processor_seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def similarity(image: torch.Tensor, perturbed: torch.Tensor, kept: torch.Tensor, **_: Any) -> float:
    distance = 1 - math.sqrt(float(kept.float().mean()))
    return math.exp(-(distance**2) / (2 * KERNEL_WIDTH**2))


def compare(side: int, samples: int, width: int, repeats: int) -> None:
    env = al.load("multi-color-sum", image_size=side)
    model, (images, targets) = env.softmax_model, env.batch(1)
    assert model is not None
    labels = segment(images, "quickshift", highest=env.max_value)
    theirs = Lime(model, SkLearnRidge(alpha=1.0), similarity)
    runs: dict[str, Callable[[], object]] = {
        "captum": lambda: theirs.attribute(
            images,
            target=targets,
            feature_mask=labels[:, None].expand_as(images),
            n_samples=samples,
            perturbations_per_eval=width,
        ),
        "ours": lambda: lime(
            model,
            images,
            targets,
            highest=env.max_value,
            generator=torch.Generator().manual_seed(0),
            segmentation=labels,
            n_samples=samples,
            kernel_width=KERNEL_WIDTH,
            perturbations_per_eval=width,
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats + 1):  # the first round warms up
        for name, run in runs.items():
            times[name].append(processor_seconds(run))
    median = {name: statistics.median(each[1:]) for name, each in times.items()}
    print(
        f"{side} px, {int(labels.max()) + 1} superpixels, {samples} samples, {width} in a pass: "
        f"captum {median['captum']:.2f} s, ours {median['ours']:.2f} s, "
        f"ours / captum {median['ours'] / median['captum']:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="also one image of 224 pixels")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    sizes = {72: 50, 224: 6} if options.full else {72: 50}
    for side, width in sizes.items():
        compare(side, options.samples, width, options.repeats)


if __name__ == "__main__":
    main()
