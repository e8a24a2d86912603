"""A small convolutional network, trained in seconds, for items that must train one."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    checked_images,
    checked_targets,
    integer_problem,
    refuse_if,
)

STAGES, WIDTH = 3, 16
LEARNING_RATE, WEIGHT_DECAY, BATCH_SIZE, EPOCHS = 1e-3, 1e-4, 64, 10
Images = Float[Tensor, "batch channels height width"]
Labels = Int64[Tensor, " batch"]
Augmentation = Callable[[Tensor, torch.Generator], Tensor]
"""(images of a batch, generator) -> images to train on"""


def small_network(
    channels: int,
    classes: int,
    side: int,
    seed: int,
    *,
    depth: int = 1,
    width: int = WIDTH,
    batch_norm: bool = False,
    bias: bool = True,
) -> nn.Sequential:
    """Three stages of convolutions and a linear layer, not trained; images are square.

    Each convolution (3 x 3, zero padding) has a ReLU of its own, each stage ends with 2 x 2 maximum
    pooling, and its kernels are twice those of the stage before; the linear layer reads every place
    of the last maps. By default there are three convolutions, with 16, 32 and 64 kernels; the
    options are those of `Design` in `attributionlab.papers.subjects.networks`. The side is at least
    8. The seed is that of the weights, PyTorch's default ones; the global generator is left as it
    was.
    """
    layers: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        before = channels
        for stage in range(STAGES):
            kernels = width * 2**stage
            for _ in range(depth):
                layers += [*convolution(before, kernels, 3, 1, batch_norm, bias), nn.ReLU()]
                before = kernels
            layers.append(nn.MaxPool2d(2))
        places = (side // 2**STAGES) ** 2
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * places, classes, bias=bias))


def convolution(
    before: int, after: int, kernel: int, stride: int, batch_norm: bool, bias: bool
) -> list[nn.Module]:
    """A convolution, and what normalizes it; its own bias would be undone by that."""
    own = bias and not batch_norm
    first = nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, bias=own)
    return [first, *([nn.BatchNorm2d(after)] if batch_norm else [])]


def fit_network(
    network: nn.Module,
    images: Images,
    labels: Labels,
    *,
    seed: int,
    epochs: int = EPOCHS,
    learning_rate: float = LEARNING_RATE,
) -> None:
    """Train a network in place by Adam on the mean cross-entropy, and put it in eval mode.

    Images have values of the order of 1. The seed is that of the order of the images, drawn anew in
    each epoch; the last batch may be smaller. The global generator is not used, unless the network
    uses it. Weight decay is an L2 penalty (Kingma and Ba, 2015). Refused are images, labels and
    settings that cannot be used, and a loss that is not finite.
    """
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, weight_decay=WEIGHT_DECAY)
    fit_with(optimizer, network, images, labels, seed=seed, epochs=epochs)


def fit_with(
    optimizer: torch.optim.Optimizer,
    network: nn.Module,
    images: Images,
    labels: Labels,
    *,
    seed: int,
    epochs: int,
    batch_size: int = BATCH_SIZE,
    augmentation: Augmentation | None = None,
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
) -> None:
    """Train a network as `fit_network` does, by an optimizer of its parameters.

    `augmentation`, (images of a batch, generator on the CPU) -> images, is called anew for every
    batch; `schedule` of the optimizer's learning rate is stepped after each epoch.
    """
    checked_images(images)
    checked_targets(labels, len(images))
    refuse_if(integer_problem("epochs", epochs, 1))
    generator = torch.Generator().manual_seed(seed)
    network.train()
    for epoch in range(epochs):
        order = torch.randperm(len(images), generator=generator).to(images.device)
        for chosen in torch.split(order, batch_size):
            shown = images[chosen]
            if augmentation is not None:
                shown = augmentation(shown, generator)
            loss = nn.functional.cross_entropy(network(shown), labels[chosen])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if not loss.isfinite():
            raise AttributionLabError(
                f"the loss is {loss.item()} after epoch {epoch + 1}: take a learning_rate below "
                f"{optimizer.param_groups[0]['lr']:g}, or images with values in [0, 1]"
            )
        if schedule is not None:
            schedule.step()
    network.eval()


def trained_small_network(
    images: Images, labels: Labels, *, classes: int, seed: int, epochs: int = EPOCHS
) -> nn.Sequential:
    """A `small_network` for square images, trained on them by `fit_network`; one seed for both."""
    _, channels, side, _ = checked_images(images).shape
    network = small_network(channels, classes, side, seed).to(images.device)
    fit_network(network, images, labels, seed=seed, epochs=epochs)
    return network


def accuracy_of(
    network: nn.Module, images: Images, labels: Labels, *, batch_size: int = 500
) -> float:
    """The share of images on which a network is `right`."""
    checked_targets(labels, len(checked_images(images)))
    return int(right(network, images, labels, batch_size).sum()) / len(images)


def right(
    network: nn.Module, images: Tensor, labels: Tensor, batch_size: int = 64
) -> Bool[Tensor, " batch"]:
    """Whether the label has the largest output, image by image; among equal ones the first counts."""
    with torch.no_grad():
        found = [network(part).argmax(1) for part in torch.split(images, batch_size)]
    return torch.cat(found) == labels
