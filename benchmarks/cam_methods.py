"""What class activation maps cost beside their formulas and Captum's classes, in one process.

Prints the ratio of the processor's seconds, of which other programs take none: medians of alternating
runs. The formulas are written plainly: a hook, a backward pass, the weights; those of Smooth Grad-CAM++
take one sample after the other.
"""

import argparse
from collections.abc import Callable

import torch
from captum.attr import LayerAttribution, LayerGradCam, LayerGradientXActivation
from side_by_side import side_by_side
from torch import Tensor, nn
from torch.nn import functional as F

import attributionlab as al
from attributionlab.methods import METHODS

Weighting = Callable[[Tensor, Tensor], Tensor]


def seen(model: nn.Module, layer: nn.Module, images: Tensor, targets: Tensor) -> list[Tensor]:
    """A layer's maps, and their gradients."""
    maps: list[Tensor] = []
    handle = layer.register_forward_hook(lambda _module, _inputs, output: maps.append(output))
    outputs = model(images.clone().requires_grad_())
    handle.remove()
    (gradients,) = torch.autograd.grad(outputs.gather(1, targets[:, None]).sum(), maps)
    return [maps[0].detach(), gradients]


def of_moments(maps: Tensor, first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    denominator = 2 * second + maps.sum((2, 3), keepdim=True) * third
    alpha = torch.where(second == 0, 0, second / denominator)
    return (alpha * first.relu()).sum((2, 3), keepdim=True)


WEIGHTS: dict[str, Weighting] = {
    "gradcam-plus-plus": lambda a, g: of_moments(a, g, g**2, g**3),
    "hirescam": lambda _a, g: g,
    "layercam": lambda _a, g: g.relu(),
    "xgradcam": lambda a, g: (
        (a * g).sum((2, 3), keepdim=True) / (a.sum((2, 3), keepdim=True) + 1e-8)
    ),
}


def enlarged(maps: Tensor, images: Tensor) -> Tensor:
    return F.interpolate(maps, tuple(images.shape[2:]), mode="bilinear")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", default="multi-color-sum")
    parser.add_argument("--side", type=int, default=224, help="pixels a side of the images")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--samples", type=int, default=20, help="of Smooth Grad-CAM++")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    env = al.load(options.environment, image_size=options.side)
    model, layer, highest = env.model, env.layers["gradcam"], float(env.max_value)
    images, labels = env.batch(options.batch)
    targets = env.targets(labels)
    generator = torch.Generator().manual_seed(0)

    def captum(name: str) -> None:
        leaf = images.clone().requires_grad_()
        if name == "gradcam":
            maps = LayerGradCam(model, layer).attribute(leaf, targets, relu_attributions=True)
        else:
            products = LayerGradientXActivation(model, layer).attribute(leaf, targets)
            maps = products.sum(1, keepdim=True)
        LayerAttribution.interpolate(maps, tuple(images.shape[2:]), "bilinear")

    def formula(name: str) -> None:
        maps, gradients = seen(model, layer, images, targets)
        coarse = (WEIGHTS[name](maps, gradients) * maps).sum(1, keepdim=True)
        enlarged(coarse.relu(), images)

    def smooth() -> None:
        for image, target in zip(images.split(1), targets.split(1), strict=True):
            maps, _ = seen(model, layer, image, target)
            noisy = [
                image + 0.15 * highest * torch.randn_like(image) for _ in range(options.samples)
            ]
            gradients = torch.cat([seen(model, layer, each, target)[1] for each in noisy])
            means = [gradients.pow(power).mean(0, keepdim=True) for power in (1, 2, 3)]
            enlarged((of_moments(maps, *means) * maps).sum(1, keepdim=True).relu(), image)

    references: dict[str, Callable[[], None]] = {
        "gradcam": lambda: captum("gradcam"),
        "linear-approximation": lambda: captum("linear-approximation"),
        "gradcam-plus-plus": lambda: formula("gradcam-plus-plus"),
        "hirescam": lambda: formula("hirescam"),
        "layercam": lambda: formula("layercam"),
        "xgradcam": lambda: formula("xgradcam"),
        "smooth-gradcam-plus-plus": smooth,
    }
    for name, reference in references.items():
        noisy = name.startswith("smooth")
        settings = {"highest": highest, "generator": generator, "n_samples": options.samples}

        def ours(name: str = name, more: dict[str, object] = settings if noisy else {}) -> None:
            METHODS[name](model, images, targets, layers=env.layers, **more)

        times = side_by_side(ours, reference, options.repeats)
        each_image = 1000 * times.ours / options.batch
        print(f"{name:<26}{each_image:9.2f} ms an image, ratio {times.ratio:.3f}", flush=True)


if __name__ == "__main__":
    main()
