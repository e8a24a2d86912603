"""Two networks of one design, one of them trained, images enhanced for the untrained one, and maps."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, format_error, in_one_line
from attributionlab.papers.subjects import networks, subjects
from attributionlab.papers.subjects.drawn_pictures import CLASSES, SIDE, pictures
from attributionlab.runs import local_model

EPSILON, STEPS = 0.3, 30
"""The paper's settings, epsilon in units of whatever its networks take."""

DESIGNS: Mapping[str, networks.Design] = {
    "AlexNet-like": networks.Design("plain", width=8),
    "VGG-like": networks.Design("plain", depth=2, width=8),
    "MnasNet-like": networks.Design("residual", width=8, batch_norm=True),
}
"""Small analogues: few plain convolutions, more of them, blocks with shortcuts and batch norms (which
MnasNet has, too; its convolutions are separable by channels, these are not)."""
DEFAULT, HE = "default", "He"
INITIALIZATIONS = (DEFAULT, HE)
EPOCHS = 5
STEPS_ACROSS = 10
"""Steps from the middle of the box to its side: epsilon / alpha of the paper."""
AT_ONCE = 64
"""Images of one step."""


class Counterparts(NamedTuple):
    """An untrained network and its trained counterpart, and images that neither was trained on.

    Both are subjects of the same images in [0, 1], named after their design; networks return logits
    and are in eval mode.
    """

    initialization: str
    untrained: subjects.Subject
    trained: subjects.Subject

    def enhanced(self, epsilon: float, steps: int) -> networks.Images:
        """Enhance the images for the untrained network."""
        shown = self.untrained
        return enhanced(shown.model, shown.images, shown.targets, epsilon=epsilon, steps=steps)


def enhanced(
    model: nn.Module,
    images: networks.Images,
    labels: networks.Labels,
    *,
    epsilon: float,
    steps: int = STEPS,
) -> networks.Images:
    r"""Step down the loss of the label within a box around each image (Wang and Wang, 2022, B.1).

    .. math::
        x^{s+1} = \Pi\big(x^s - \alpha \, sgn \nabla_x L(x^s, y)\big)

    The loss L is the cross-entropy of the softmax of the model's outputs, alpha is epsilon / 10,
    and Pi cuts off what leaves the box [x - epsilon, x + epsilon] or [0, 1]. It is the attack of
    Madry et al. (2018) with the other sign. The sign of 0 is 0: a value without a gradient stays.

    The paper leaves open on which scale epsilon is measured, whether values are cut to a valid
    range, and whether the first step starts from a random place in the box. Here images lie in [0,
    1], which they do not leave, and the first step starts from the image.

    The model, in eval mode, returns logits (B, K) and is not changed. Refused are a loss that is
    not finite or that no gradient reaches the images from, and a model that fails.
    """
    parts = []
    for chosen, wanted in zip(
        torch.split(images, AT_ONCE), torch.split(labels, AT_ONCE), strict=True
    ):
        below, above = ((chosen + reach).clamp(0, 1) for reach in (-epsilon, epsilon))
        current = chosen
        for _ in range(steps):
            moved = current - epsilon / STEPS_ACROSS * _gradient(model, current, wanted).sign()
            current = torch.minimum(torch.maximum(moved, below), above)
        parts.append(current)
    return torch.cat(parts)


def _gradient(
    model: nn.Module, images: networks.Images, labels: networks.Labels
) -> networks.Images:
    """The gradient of the summed cross-entropy, so that each image has its own."""
    leaf = images.clone().requires_grad_()
    with (
        torch.enable_grad(),
        in_one_line(
            lambda error: f"the model raised {format_error(error)} where its gradient is computed"
        ),
    ):
        loss = nn.functional.cross_entropy(model(leaf), labels, reduction="sum")
    if not loss.requires_grad:
        raise AttributionLabError(
            "the model's output has no gradient with respect to the images: pass a network that uses "
            "its input and runs outside of torch.no_grad()"
        )
    if not loss.isfinite():
        raise AttributionLabError(
            f"the loss is {loss.item()}: pass a model that returns finite logits"
        )
    (gradient,) = torch.autograd.grad(loss, leaf)
    return gradient


def untrained_network(design: networks.Design, initialization: str, seed: int) -> nn.Module:
    """A network for drawn pictures with random weights, in eval mode.

    "default" is PyTorch's own initialization of each layer, whose outputs shrink from layer to layer
    (uniform weights of variance 1 / (3 n) for n inputs). "He" has weights of convolutions from
    N(0, 2 / n) for n outputs, which keeps their size (He et al., 2015), weights of linear layers from
    N(0, 0.01^2) and biases 0, as torchvision initializes VGG. The global generator is left as it was.
    """
    network = networks.network_of(design, 3, CLASSES, SIDE, seed)
    # Set here, whatever network_of begins with: the initialization is what is compared.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for module in network.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                module.reset_parameters()
                if initialization == HE and isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, mode="fan_out")
                elif initialization == HE:
                    nn.init.normal_(module.weight, 0, 0.01)
                if initialization == HE and module.bias is not None:
                    nn.init.zeros_(module.bias)
    return network.eval()


def our_counterparts(
    design: str, n: int, training: int, seed: int, initializations: tuple[str, ...] = (HE,)
) -> Iterator[Counterparts]:
    """Untrained networks, one for each initialization, with one trained one of the same design.

    The trained network starts from He's. The seed is that of weights and of the pictures for training,
    seed + 1 that of the n pictures to enhance.
    """
    learned, shown = pictures(training, seed), pictures(n, seed + 1)

    def explained(network: nn.Module) -> subjects.Subject:
        return subjects.of_images(
            *(design, network, shown.images, shown.labels, subjects.mean_color(shown.images)),
            objects=shown.objects,
            offered={"layers": dict.fromkeys(subjects.ATTACHED, networks.gradcam_layer(network))},
        )

    trained = untrained_network(DESIGNS[design], HE, seed)
    networks.fit_network(trained, learned.images, learned.labels, seed=seed, epochs=EPOCHS)
    for initialization in initializations:
        untrained = untrained_network(DESIGNS[design], initialization, seed)
        yield Counterparts(initialization, explained(untrained), explained(trained))


def given_counterparts(
    n: int,
    seed: int,
    untrained: int,
    *,
    layer: str | None = None,
    layer_for: str | None = None,
    **own: Unpack[subjects.OwnNetwork],
) -> list[Counterparts] | None:
    """A user's network with its weights, and as its file makes it without them.

    Without images and model there are none. All have the same trained network. So many `untrained` ones
    are made without weights; the global generator, from which a file may draw, is seeded for each with
    seed, seed + 1, ... and put back. Weights are needed, and a file that makes the same network with
    and without them is refused.
    """
    subject = subjects.chosen_subject(n, seed, layer=layer, layer_for=layer_for, **own)
    if subject is None:
        return None
    model = own["model"]
    assert model is not None
    if own.get("weights") is None:
        raise AttributionLabError(
            f"weights is None: pass the file of the trained weights; {model} without them is the "
            "untrained network"
        )
    found = []
    for each in range(seed, seed + untrained):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(each)
            fresh = local_model(model)
        pairs = zip(fresh.parameters(), subject.model.parameters(), strict=True)
        if all(torch.equal(one, other) for one, other in pairs):
            raise AttributionLabError(
                f"{model} returns the trained network even without weights: load them by weights= only"
            )
        found.append(Counterparts("own", replace(subject, model=fresh, explained=fresh), subject))
    return found


MAPS = {
    "gradcam": "GradCAM",
    "excitation-backprop": "Excitation BP",
    "linear-approximation": "Linear approximation",
    "guided-backprop": "Guided BP",
    "saliency": "Gradient",
    "deconvolution": "DeConvNet",
}
"""The paper's methods by the names that ours have, in the order of its figures: the first three explain
by a layer."""


def map_of(
    subject: subjects.Subject, method: str, seed: int
) -> Float[Tensor, "batch 1 height width"]:
    """As `maps_of`, with excitation backpropagation down to GradCAM's layer, as in the paper.

    Built-in subjects offer layers by method, and this one is not among them: without a name it would
    go down to the input.
    """
    layer = subject.offered.get("layers", {}).get("gradcam")
    if method != "excitation-backprop" or layer is None:
        return subjects.maps_of(subject, method, seed)
    named = subject.model.named_modules()
    return subjects.maps_of(
        subject, method, seed, {"layer": next(at for at, own in named if own is layer)}
    )
