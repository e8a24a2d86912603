"""Small networks that learn a world's rule, and interventions that certify that they did."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float32, UInt8
from torch import Tensor, nn

from attributionlab.base import own_arithmetic
from attributionlab.worlds import Environment

SCALE = 128
"""What pixels are divided by while a network is trained; a power of two, so that dividing the weights
instead changes nothing."""
WIDTH, HIDDEN = 16, 64
LEARNING_RATE, BATCH_SIZE, EVALUATED = 6e-3, 128, 500
MOST_REMOVED = 0.5
"""The share of patches, or of pixels, that is removed is drawn between 0 and this."""
AGREEMENT, SIGNS = 0.99, 0.95
"""What a certificate takes: agreement with the exact network on each kind of images, and the share of
right signs where one patch is removed."""
NO_EFFECT = 0.15
"""Changes below this many standard deviations of the output count as none. A network with R^2 = 0.99 is
off by 0.1 of them."""


class Pictures(NamedTuple):
    """Images of few colors, ready to be changed."""

    colors: Float32[Tensor, "colors channels"]
    """the background's first"""
    shown: UInt8[Tensor, "batch height width"]
    """which color each pixel has"""
    patches: UInt8[Tensor, "batch height width"]
    """0 is background, 1, 2, ... the patches"""

    @property
    def images(self) -> Float32[Tensor, "batch channels height width"]:
        """The images as networks take them, in channels-last memory format, which is faster."""
        return self.colors[self.shown.long()].permute(0, 3, 1, 2)

    def part(self, start: int, stop: int | None = None) -> "Pictures":
        """Some of the pictures."""
        return Pictures(self.colors, self.shown[start:stop], self.patches[start:stop])

    def where(self, chosen: Tensor, other: "Pictures") -> "Pictures":
        """Other pictures in place of the chosen ones."""
        pairs = zip(self[1:], other[1:], strict=True)
        return Pictures(self.colors, *(torch.where(chosen[:, None, None], b, a) for a, b in pairs))


def drawn_pictures(env: Environment, n: int, seed: int) -> Pictures:
    """The first n images of a world."""
    samples = [env.dataset(n, seed)[index] for index in range(n)]
    colors = torch.tensor([env.recipe.background, *env.colors.values()]).float()
    images = torch.stack([sample.image for sample in samples])
    same = torch.stack([(images == color[:, None, None]).all(1) for color in colors])
    patches = torch.stack([sample.patches for sample in samples])
    return Pictures(colors, same.byte().argmax(0).byte(), patches.byte())


Change = Callable[[Pictures, torch.Generator], Pictures]


def _patches_removed(pictures: Pictures, generator: torch.Generator) -> Pictures:
    """Each patch gets the background's color with a probability that is drawn for each picture."""
    n = len(pictures.shown)
    share = MOST_REMOVED * torch.rand(n, 1, generator=generator)
    kept = torch.rand(n, int(pictures.patches.max()) + 1, generator=generator) >= share
    seen = kept.gather(1, pictures.patches.flatten(1).long()).view_as(pictures.shown)
    return pictures._replace(shown=pictures.shown * seen)


def _pixels_removed(pictures: Pictures, generator: torch.Generator) -> Pictures:
    """The same for each pixel."""
    share = MOST_REMOVED * torch.rand(len(pictures.shown), 1, 1, generator=generator)
    kept = torch.rand(pictures.shown.shape, generator=generator) >= share
    return pictures._replace(shown=pictures.shown * kept)


def _colors_swapped(pictures: Pictures, generator: torch.Generator) -> Pictures:
    """The colors of each picture change places with each other."""
    n, colors = len(pictures.shown), len(pictures.colors) - 1
    order = 1 + torch.rand(n, colors, generator=generator).argsort(1)
    table = torch.cat([torch.zeros(n, 1, dtype=torch.int64), order], 1)
    shown = table.gather(1, pictures.shown.flatten(1).long()).view_as(pictures.shown)
    return pictures._replace(shown=shown.byte())


def _places_moved(pictures: Pictures, generator: torch.Generator) -> Pictures:
    """Each picture is turned by one, two or three quarters."""
    turns = torch.randint(1, 4, (len(pictures.shown),), generator=generator)
    for turn in (1, 2, 3):
        turned = Pictures(pictures.colors, *(each.rot90(turn, (1, 2)) for each in pictures[1:]))
        pictures = pictures.where(turns == turn, turned)
    return pictures


INTERVENTIONS: Mapping[str, Change] = {
    "patches_removed": _patches_removed,
    "pixels_removed": _pixels_removed,
    "colors_swapped": _colors_swapped,
    "places_moved": _places_moved,
}
"""What is done to images, for training and for a certificate. Counts then vary independently of each
other, whatever the recipe of the images ties together."""


def varied(pictures: Pictures, generator: torch.Generator) -> Pictures:
    """Pictures on which each intervention is made, or not, with equal chances."""
    for change in INTERVENTIONS.values():
        chosen = torch.rand(len(pictures.shown), generator=generator) < 0.5
        pictures = pictures.where(chosen, change(pictures, generator))
    return pictures


@own_arithmetic()
def outputs_of(model: nn.Module, pictures: Pictures) -> Float32[Tensor, "batch outputs"]:
    """What a network says of pictures."""
    with torch.no_grad():
        return torch.cat(
            [
                model(pictures.part(start, start + EVALUATED).images)
                for start in range(0, len(pictures.shown), EVALUATED)
            ]
        )


class HeldOut(NamedTuple):
    """Pictures that no network is trained on, with the outputs of the exact network."""

    asked: Mapping[str, tuple[Pictures, Tensor]]
    """by kind: held out, and after each intervention"""
    single: tuple[Pictures, Tensor]
    """those held out, without one patch of each that is drawn"""


def held_out(env: Environment, pictures: Pictures, seed: int) -> HeldOut:
    """Ask the exact network about pictures, and about each intervention on them."""
    generator = torch.Generator().manual_seed(seed)
    asked = {"held_out": pictures}
    asked |= {name: change(pictures, generator) for name, change in INTERVENTIONS.items()}
    present = torch.stack([(pictures.patches == k).flatten(1).any(1) for k in range(1, 256)], 1)
    gone = 1 + torch.multinomial(present.float(), 1, generator=generator)[:, :, None]
    alone = pictures._replace(shown=pictures.shown * (pictures.patches != gone))
    return HeldOut(
        {name: (each, outputs_of(env.model, each)) for name, each in asked.items()},
        (alone, outputs_of(env.model, alone)),
    )


def untrained(outputs: int, side: int, seed: int) -> nn.Sequential:
    """Three convolutions and two linear layers with PyTorch's first weights.

    The first convolution sees 3 x 3 pixels, the others halve the side (2 x 2, stride 2). The linear
    layers read every place of the last maps, since rules ask for places.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(3, WIDTH, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(WIDTH, WIDTH, 2, stride=2),
            nn.ReLU(),
            nn.Conv2d(WIDTH, 2 * WIDTH, 2, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * WIDTH * (side // 4) ** 2, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, outputs),
        )


def trained(
    pictures: Pictures, outputs: Float32[Tensor, "batch outputs"], *, seed: int, epochs: int
) -> nn.Sequential:
    """A network trained on the exact network's outputs, scaled to mean 0 and standard deviation 1.

    Adam (Kingma and Ba, 2015) on the mean squared error; the learning rate rises and falls once.
    Both scales are put into the weights afterwards: the network takes images with values from 0 to
    255, and gives outputs in the rule's units. The seed is that of the first weights and of the
    order.
    """
    network = untrained(outputs.shape[1], pictures.shown.shape[1], seed)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    spread, mean = outputs.std(0), outputs.mean(0)
    scaled, small = (outputs - mean) / spread, pictures._replace(colors=pictures.colors / SCALE)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    steps = epochs * -(-len(outputs) // BATCH_SIZE)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    for _ in range(epochs):
        order = torch.randperm(len(outputs), generator=generator)
        for chosen in torch.split(order, BATCH_SIZE):
            images = small._replace(shown=small.shown[chosen]).images
            loss = nn.functional.mse_loss(network(images), scaled[chosen])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            rate.step()
    first, last = network[0], network[-1]
    assert isinstance(first, nn.Conv2d)
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        first.weight.div_(SCALE)
        last.weight.mul_(spread[:, None])
        last.bias.mul_(spread).add_(mean)
    network.eval()
    return network


def certificate(network: nn.Module, questions: HeldOut) -> dict[str, float]:
    """How far a network computes the rule: agreement by kind of images, and `signs`.

    Agreement is R^2 (of all outputs together); of a rule whose output is 0 or 1, the share of images
    for which the network's output lies on the right side of 1/2. Signs: where one patch is removed, the
    share of right signs of the change, among patches with no effect or among those with one, whichever
    is lower. Effects between `NO_EFFECT` and twice that are not asked.
    """
    exact = {name: outputs for name, (_, outputs) in questions.asked.items()}
    yes_or_no = all(bool(((each == 0) | (each == 1)).all()) for each in exact.values())

    def answers(pictures: Pictures) -> Tensor:
        found = outputs_of(network, pictures)
        return (found > 0.5).float() if yes_or_no else found

    found = {name: answers(pictures) for name, (pictures, _) in questions.asked.items()}
    agreement = {
        name: float((found[name] == exact[name]).double().mean())
        if yes_or_no
        else explained(found[name], exact[name])
        for name in exact
    }
    alone, outputs = questions.single
    least = (0 if yes_or_no else NO_EFFECT) * exact["held_out"].std(0)
    effect, change = outputs - exact["held_out"], answers(alone) - found["held_out"]
    none, some = effect == 0, (effect != 0) & (effect.abs() >= 2 * least)
    sign = change.sign() * (change.abs() > least)
    right = (sign == effect.sign()).double()
    shares = [float(right[asked].mean()) for asked in (none, some) if asked.any()]
    return {**agreement, "signs": min(shares)}


def explained(found: Tensor, exact: Tensor) -> float:
    """R^2: 1 less the squared error's share of the exact outputs' variance."""
    error, spread = (found - exact).double(), (exact - exact.mean(0)).double()
    return float(1 - error.square().sum() / spread.square().sum())


def is_certified(found: Mapping[str, float]) -> bool:
    """Whether a certificate reaches what is stated above."""
    return found["signs"] >= SIGNS and all(
        value >= AGREEMENT for name, value in found.items() if name != "signs"
    )
