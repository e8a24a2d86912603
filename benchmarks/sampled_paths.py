"""How long ensembles and path methods over several starts take beside Captum's own, in one process.

Medians of alternating runs at equal settings, from the same number of draws; ours include the guards.
"""

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import torch
from captum.attr import GradientShap, InputXGradient, IntegratedGradients, NoiseTunnel, Saliency
from side_by_side import side_by_side

import attributionlab as al
from attributionlab import methods
from attributionlab.methods import collect_notices
from attributionlab.methods.baselines import blur_pyramid
from attributionlab.methods.paths import nodes_at_once

BASELINES, STEPS, SAMPLES = 5, 50, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--full", action="store_true", help="images of 224 pixels instead of 72")
    options = parser.parse_args()
    env = al.load("multi-color-sum", image_size=224 if options.full else 72)
    images, labels = env.batch(options.batch)
    references, _ = env.batch(16, seed=1)
    model = env.softmax_model
    generator = torch.Generator().manual_seed(0)
    offered: dict[str, Any] = {"generator": generator, "highest": env.max_value}
    # As many nodes at once as ours take by themselves.
    nodes = nodes_at_once(model, images)
    black = torch.zeros_like(images[:1])

    def from_starts(draw: Callable[[], torch.Tensor]) -> None:
        """Captum's integrated gradients from all starts of one image after the other."""
        for image, label in zip(images, labels, strict=True):
            starts = draw()
            IntegratedGradients(model).attribute(
                image.expand_as(starts),
                starts,
                label.expand(len(starts)),
                n_steps=STEPS,
                internal_batch_size=nodes,
            ).mean(0)

    def uniform() -> torch.Tensor:
        return env.max_value * torch.rand(BASELINES, *images.shape[1:], generator=generator)

    def others() -> torch.Tensor:
        return references[torch.randperm(len(references), generator=generator)[:BASELINES]]

    def blurred() -> None:
        sigma = 20 * min(images.shape[2:]) / 224
        start = blur_pyramid(images, sigma, 2)[1]
        IntegratedGradients(model).attribute(
            images, start, labels, n_steps=STEPS, internal_batch_size=nodes
        )

    def tunnel(method: Any, **more: Any) -> None:
        NoiseTunnel(method).attribute(
            images,
            nt_type="smoothgrad",
            nt_samples=SAMPLES,
            stdevs=0.15 * env.max_value,
            target=labels,
            **more,
        )

    sampled = {"n_samples": SAMPLES, **offered}
    several = {"n_baselines": BASELINES, "n_steps": STEPS}
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "integrated-gradients-uniform": (
            lambda: methods.integrated_gradients_uniform(
                model, images, labels, **several, **offered
            ),
            lambda: from_starts(uniform),
        ),
        "integrated-gradients-random": (
            lambda: methods.integrated_gradients_random(
                *(model, images, labels),
                reference_images=references,
                generator=generator,
                **several,
            ),
            lambda: from_starts(others),
        ),
        "integrated-gradients-blurred": (
            lambda: methods.integrated_gradients_blurred(model, images, labels, n_steps=STEPS),
            blurred,
        ),
        "gradient-shap": (
            lambda: methods.gradient_shap(model, images, labels, **(sampled | {"n_samples": 50})),
            lambda: GradientShap(model).attribute(
                images, black, n_samples=50, stdevs=0.0, target=labels
            ),
        ),
        "gradient-shap, with noise": (
            lambda: methods.gradient_shap(
                model, images, labels, noise=0.15, **(sampled | {"n_samples": 50})
            ),
            lambda: GradientShap(model).attribute(
                images, black, n_samples=50, stdevs=0.15 * env.max_value, target=labels
            ),
        ),
        "saliency-smoothgrad": (
            lambda: methods.saliency_smoothgrad(model, images, labels, **sampled),
            lambda: tunnel(Saliency(model), abs=False),
        ),
        "input-x-gradient-smoothgrad": (
            lambda: methods.input_x_gradient_smoothgrad(model, images, labels, **sampled),
            lambda: tunnel(InputXGradient(model)),
        ),
    }
    with collect_notices(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Captum's about gradients
        for name, (ours, theirs) in pairs.items():
            our, their, ratio = side_by_side(ours, theirs, options.repeats)
            print(f"{name:<30}Captum {1000 * their:9.1f} ms   ours {1000 * our:9.1f} ms", end="   ")
            print(f"ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
