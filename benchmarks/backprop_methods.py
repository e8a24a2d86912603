"""How long the backpropagation methods and Occlusion take beside Captum's own classes, in one process.

Equal settings, one thread (`side_by_side`). Ours include the guards.
On the smaller images Occlusion's windows that change nothing are few, because black changes all.
"""

import argparse
import warnings
from collections.abc import Callable
from typing import Any

from captum.attr import (
    LRP,
    Deconvolution,
    DeepLift,
    GuidedBackprop,
    GuidedGradCam,
    InputXGradient,
    IntegratedGradients,
    Occlusion,
    Saliency,
)
from side_by_side import side_by_side
from torch import Tensor, nn

import attributionlab as al
from attributionlab.methods import (
    collect_notices,
    deconvolution,
    deep_lift,
    guided_backprop,
    guided_gradcam,
    images_at_once,
    input_x_gradient,
    integrated_gradients,
    lrp,
    occlusion,
    saliency,
)


class Reshaped(nn.Module):
    """The same network without `nn.Flatten`, at which Captum's LRP raises."""

    def __init__(self, model: nn.Sequential) -> None:
        super().__init__()
        parts = list(model.children())
        place = next(i for i, part in enumerate(parts) if isinstance(part, nn.Flatten))
        self.before, self.after = nn.Sequential(*parts[:place]), nn.Sequential(*parts[place + 1 :])

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.after(self.before(inputs).flatten(1))
        return outputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--full", action="store_true", help="images of 224 pixels instead of 72")
    options = parser.parse_args()
    env = al.load("multi-color-sum", image_size=224 if options.full else 72)
    images, labels = env.batch(options.batch)
    model, logits = env.softmax_model, env.model
    assert isinstance(model, nn.Module)
    assert isinstance(logits, nn.Sequential)
    one, reshaped = (images[:1], labels[:1]), Reshaped(logits)
    width = images_at_once(model, images)
    nodes = max(width // 2, 1)

    def captum(method: Any, inputs: Tensor = images, targets: Tensor = labels, **more: Any) -> Any:
        return method.attribute(inputs, target=targets, **more)

    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "saliency": (
            lambda: saliency(model, images, labels),
            lambda: captum(Saliency(model), abs=False),
        ),
        "input-x-gradient": (
            lambda: input_x_gradient(model, images, labels),
            lambda: captum(InputXGradient(model)),
        ),
        "guided-backprop": (
            lambda: guided_backprop(model, images, labels),
            lambda: captum(GuidedBackprop(model)),
        ),
        "deconvolution": (
            lambda: deconvolution(model, images, labels),
            lambda: captum(Deconvolution(model)),
        ),
        "guided-gradcam": (
            lambda: guided_gradcam(model, images, labels, layers=env.layers),
            lambda: captum(
                GuidedGradCam(model, env.layers["gradcam"]), interpolate_mode="bilinear"
            ),
        ),
        "deep-lift": (
            lambda: deep_lift(model, images, labels),
            lambda: captum(DeepLift(model), baselines=0),
        ),
        "lrp": (lambda: lrp(logits, images, labels), lambda: captum(LRP(reshaped))),
        "integrated-gradients": (
            lambda: integrated_gradients(model, images, labels, internal_batch_size=nodes),
            lambda: captum(IntegratedGradients(model), internal_batch_size=nodes),
        ),
        "occlusion, one image": (
            lambda: occlusion(model, *one),
            lambda: captum(
                Occlusion(model),
                *one,
                sliding_window_shapes=(3, 5, 5),
                strides=(3, 3, 3),
                baselines=0,
                perturbations_per_eval=width,
            ),
        ),
    }
    with collect_notices(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Captum's about hooks and gradients
        for name, (ours, theirs) in pairs.items():
            many = not name.startswith(("integrated", "occlusion"))
            repeats = options.repeats if many else max(3, options.repeats // 10)
            our, their, ratio = side_by_side(ours, theirs, repeats)
            print(f"{name:<24}Captum {1000 * their:9.1f} ms   ours {1000 * our:9.1f} ms", end="   ")
            print(f"ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
