"""What the map- and mask-based methods cost, in one process.

GradCAM beside Captum's own calls (medians of alternating runs); seconds of the information bottleneck
and of extremal perturbations for one image, and the share of them that is spent in the network.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from captum.attr import LayerAttribution, LayerGradCam

import attributionlab as al
from attributionlab.methods.bottleneck import iba
from attributionlab.methods.cam import gradcam
from attributionlab.methods.extremal import extremal_perturbation


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


@contextmanager
def counted(model: torch.nn.Module) -> Iterator[list[int]]:
    """How many images pass the network in each call of it."""
    images: list[int] = []
    handle = model.register_forward_hook(lambda _m, inputs, _o: images.append(len(inputs[0])))
    try:
        yield images
    finally:
        handle.remove()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", default="multi-color-sum")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--references", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=100, help="of extremal perturbations")
    options = parser.parse_args()
    env = al.load(options.environment)
    model = env.model
    images, labels = env.batch(options.batch)
    targets, layer = env.targets(labels), env.layers["gradcam"]

    def captum() -> None:
        coarse = LayerGradCam(model, layer).attribute(
            images.clone().requires_grad_(), target=targets, relu_attributions=True
        )
        LayerAttribution.interpolate(coarse, tuple(images.shape[2:]), "bilinear")

    def backward() -> None:
        inputs = images[:1].clone().requires_grad_()
        torch.autograd.grad(model(inputs).sum(), inputs)

    runs: dict[str, Callable[[], object]] = {
        "ours": lambda: gradcam(model, images, targets, layers=env.layers),
        "reference": captum,
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.repeats + 1):  # the first round warms up
        for name, run in runs.items():
            times[name].append(seconds(run))
    medians = {name: statistics.median(each[1:]) for name, each in times.items()}
    for name, median in medians.items():
        print(f"gradcam, {name:<12}{1000 * median / options.batch:8.2f} ms an image")
    print(f"gradcam, ratio       {medians['ours'] / medians['reference']:8.3f}")

    one, target = images[:1], targets[:1]
    passing = statistics.median(seconds(backward) for _ in range(5))
    references, _ = env.batch(options.references, seed=1)
    generator = torch.Generator().manual_seed(0)
    with counted(model) as passed:
        spent = seconds(
            lambda: iba(
                model,
                one,
                target,
                reference_images=references,
                generator=generator,
                layers=env.layers,
            )
        )
    print(f"iba                  {spent:8.2f} s, {sum(passed)} images through the whole network")
    spent = seconds(
        lambda: extremal_perturbation(model, one, target, iterations=options.iterations)
    )
    share = options.iterations * passing / spent
    print(
        f"extremal-perturbation{800 / options.iterations * spent:8.2f} s at 800 iterations, "
        f"{share:.0%} of them in the network"
    )


if __name__ == "__main__":
    main()
