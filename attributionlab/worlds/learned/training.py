"""Training a network on a world's rule, on images that are varied anew for every batch."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    Seed,
    Within,
    checked_arguments,
    named,
    one_thread,
    own_arithmetic,
    plain_torch,
    track,
)
from attributionlab.worlds.learned.architectures import ARCHITECTURES, made
from attributionlab.worlds.learned.pictures import (
    Pictures,
    RuleAnswers,
    World,
    varied,
)

SCALE = 128
"""What pixels are divided by while a network is trained; a power of two, so that dividing the weights
instead changes nothing."""
BATCH, BETAS = 128, (0.9, 0.99)
BASE_IMAGES, IMAGES_SEED = 320, 1_000_003
"""Images that batches are made of, and their seed: no question of a test is about them."""
CHUNK = 16
"""Batches whose images are made at once."""
SAMPLES = 400_000
"""Images that a network sees unless its world needs others."""
Samples = Annotated[int, Within(least=1, most=100_000_000)]
SAMPLES_OF: Mapping[str, int] = {"all-four": 700_000, "marker-flips": 700_000}
"""Those that worlds need that are harder to learn."""
LEARNING_IMAGES: Mapping[str, Mapping[str, Any]] = {
    "no-orange": {"area": (0.004, 0.03)},
    "at-least": {"area": (0.002, 0.03)},
    "watermark-read": {"equal_areas": False},
    "watermark-ignored": {"equal_areas": False},
    "either": {"area": (0.002, 0.05)},
    "stripes-or-checks": {"equal_areas": False},
    "quadrants": {"area": (0.004, 0.02), "equal_areas": False},
    # With one mark, which is at the center or not.
    "marker-flips": {
        "dataset": "colors-everywhere-marker",
        "area": (0.004, 0.02),
        "equal_areas": False,
    },
    "all-four": {},
    "multi-color-sum-distractors": {},
}
"""How the images that networks learn from differ from those of the catalog, by world. Where all patches
of an image have equal areas the counts are tied together; here each patch draws its own area."""
IMAGE_SIDE = 24
"""Of the images that networks are trained on, in pixels."""


class Recipe(NamedTuple):
    """How a network is trained, from which it can be made again on the same machine."""

    architecture: Annotated[str, named(ARCHITECTURES)]
    seed: Seed
    samples: Samples


@checked_arguments
def train_network(
    env: World,
    architecture: str,
    pictures: Pictures,
    *,
    seed: Seed = 0,
    samples: Samples = SAMPLES,
    show_progress: bool = False,
) -> nn.Sequential:
    """Train a network on the exact outputs of a world's rule.

    Every batch is made anew: images of the world, each of which has each variation or not (patches or
    pixels removed, colors swapped, patches recolored, the picture turned or rolled). Adam (Kingma and
    Ba, 2015) on the mean squared error of outputs scaled to mean 0 and standard deviation 1; the
    learning rate rises and falls once. Both scales are put into the weights afterwards: the network
    takes images with values from 0 to 255, and gives outputs in the rule's units. Its weights are
    rounded to float16, in which they are kept, so that a certificate is about what is kept.

    - `env`: a world whose images have few colors and a side that 4 divides.
    - `architecture`: one of `attributionlab.worlds.ARCHITECTURES`.
    - `pictures`: images of the world, of which batches are made.
    - `seed`: of the first weights and of the batches.
    - `samples`: how many images it sees.

    Result: in eval mode, (B, 3, H, W) float32 -> (B, K); the same on one machine, whatever its threads.
    Raises AttributionLabError for an unknown architecture, images that it does not take, and rules
    whose output is the same for all images.
    """
    generator = torch.Generator().manual_seed(seed)
    with one_thread(), own_arithmetic(), plain_torch():
        network = _untrained(architecture, env.network.classes, env.recipe.image_size, seed)
        answers = RuleAnswers(env, pictures.colors)
        scale = _scale(env, answers(varied(_repeated(pictures, 4), generator).shown))
        batches = _batches(pictures, answers, samples, generator)
        steps = -(-samples // BATCH)
        _fit(
            network,
            track(batches, steps, f"training on {env.name}", show_progress, "batches"),
            scale,
            ARCHITECTURES[architecture].rate,
            steps,
        )
        _put_in(network, scale)
        return rounded(network)


def rounded(network: nn.Sequential) -> nn.Sequential:
    """A network whose weights are those of float16, in float32, in eval mode."""
    with torch.no_grad():
        for value in network.state_dict().values():
            if value.is_floating_point():
                value.copy_(value.half().float())
    return network.eval()


class _Scale(NamedTuple):
    """Mean and standard deviation of each output, and colors as a network in training sees them."""

    mean: Tensor
    spread: Tensor


def _scale(env: World, outputs: Tensor) -> _Scale:
    mean, spread = outputs.mean(0), outputs.std(0)
    if not (spread > 0).all():
        raise AttributionLabError(
            f"{env.name}: output {int((spread == 0).nonzero()[0])} is {float(mean[spread == 0][0]):g} "
            "for all images that a network would learn from: nothing can be learned"
        )
    return _Scale(mean, spread)


def _untrained(architecture: str, outputs: int, side: int, seed: int) -> nn.Sequential:
    """First weights of a seed, whatever the global generator has drawn, and draws on."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return made(architecture, outputs, side)


def _repeated(pictures: Pictures, times: int) -> Pictures:
    return pictures.part(torch.arange(len(pictures.shown)).repeat(times))


def _batches(
    base: Pictures, answers: RuleAnswers, samples: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Scaled images and the rule's outputs, so many images in all."""
    small = base.colors / SCALE
    left = samples
    while left > 0:
        size = min(left, CHUNK * BATCH)
        drawn = torch.randint(0, len(base.shown), (size,), generator=generator)
        shown = varied(base.part(drawn), generator).shown
        outputs = answers(shown)
        for indices, exact in zip(
            *(torch.split(each, BATCH) for each in (shown, outputs)), strict=True
        ):
            yield small[indices.long()].permute(0, 3, 1, 2), exact
        left -= size


def _fit(
    network: nn.Sequential,
    batches: Iterator[tuple[Tensor, Tensor]],
    scale: _Scale,
    rate: float,
    steps: int,
) -> None:
    """Adam, one step for each batch."""
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), lr=rate, betas=BETAS)
    # A cycle needs two steps at least.
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=max(steps, 2))
    for images, exact in batches:
        loss = nn.functional.mse_loss(network(images), (exact - scale.mean) / scale.spread)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        cycle.step()
    network.eval()


def _put_in(network: nn.Sequential, scale: _Scale) -> None:
    """Put the scales of images and outputs into the first and the last weights."""
    first, last = network[0], network[-1]
    assert isinstance(first, nn.Conv2d)
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        first.weight.div_(SCALE)
        last.weight.mul_(scale.spread[:, None])
        last.bias.mul_(scale.spread).add_(scale.mean)
