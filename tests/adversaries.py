"""Methods that must not pass: each lacks something, hedges, or is right only here and there.

An adversary takes an `Asked` and gives a map (1, H, W). Most of them are given the right map and spoil
it, which is more than any method has; what they lack is what their docstring says.
"""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from scipy import ndimage
from torch import Tensor

import attributionlab as al

MARKS = ((220, 220, 220), (220, 220, 20))
"""Colors that lie at the center of marker-flips, one of them in each image."""


@dataclass
class Asked:
    """A question, with more than a method may know."""

    design: al.Environment
    """as the catalog has it: its network is that of no question"""
    index: int
    env: al.Environment
    image: Tensor
    """(C, H, W)"""
    target: int
    patches: Tensor
    """(H, W)"""
    right: Tensor
    """(1, H, W), the signs of the truth"""
    output: str
    earlier: list["Asked"] = field(default_factory=list)
    """the questions before it, in this environment"""

    @property
    def model(self) -> torch.nn.Module:
        """The network as it is explained."""
        return self.env.explained_model(self.output)

    @cached_property
    def pieces(self) -> list[tuple[Any, Tensor, float]]:
        """Color and quadrant of each segment, its mask, and its right sign."""
        quarters = quadrants(self.image)
        found = []
        for where in segments(self.image)[0]:
            color = tuple(self.image[:, where][:, 0].int().tolist())
            quarter = next(k for k, each in enumerate(quarters) if bool((each & where).any()))
            found.append(((color, quarter), where, float(self.right[0][where].mean())))
        return found

    def drawn(self, name: str) -> torch.Generator:
        """Random numbers of this question."""
        seed = zlib.crc32(f"{name} {self.design.name} {self.index}".encode())
        return torch.Generator().manual_seed(seed)

    def coin(self, name: str, probability: float) -> bool:
        """Whether a coin of this question falls on this side."""
        return float(torch.rand((), generator=self.drawn(name))) < probability


# What is looked at by asking the network


def segments(image: Tensor) -> tuple[list[Tensor], Tensor]:
    """Masks (H, W) of the pixels of one color in one quadrant, and the color of most pixels."""
    colors, index, counts = image.flatten(1).T.unique(
        dim=0, return_inverse=True, return_counts=True
    )
    index, background = index.view(image.shape[1:]), int(counts.argmax())
    quarters = quadrants(image)
    found = [
        (index == color) & quarter
        for color in range(len(colors))
        if color != background
        for quarter in quarters
    ]
    return [each for each in found if each.any()], colors[background]


def quadrants(image: Tensor) -> list[Tensor]:
    """Masks (H, W) of the four quadrants."""
    _, height, width = image.shape
    below = (torch.arange(height) >= height // 2)[:, None].expand(height, width)
    right = (torch.arange(width) >= width // 2)[None].expand(height, width)
    return [(below == down) & (right == far) for down in (False, True) for far in (False, True)]


def effects(model: torch.nn.Module, image: Tensor, target: int) -> Tensor:
    """What each segment adds to the output, (1, H, W): made for images such as the laboratory's."""
    found, fill = segments(image)
    images = image[None].repeat(len(found) + 1, 1, 1, 1)
    for row, where in enumerate(found, 1):
        images[row][:, where] = fill[:, None]
    with torch.no_grad():
        outputs = model(images)[:, target].double()
    maps = torch.zeros(1, *image.shape[1:], dtype=torch.float64)
    for where, output in zip(found, outputs[1:], strict=True):
        maps[0][where] = outputs[0] - output
    return torch.where(maps.abs() < 1e-6, 0.0, maps)


def signs(model: torch.nn.Module, image: Tensor, target: int) -> Tensor:
    """The right map of the laboratory's questions: signs of `effects`."""
    return effects(model, image, target).sign()


def noise_off_the_laboratory(model: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Right on images of at most 32 colors, noise on all others: made for this laboratory."""
    maps = []
    for image, target in zip(inputs, targets.tolist(), strict=True):
        few = len(image.flatten(1).T.unique(dim=0)) <= 32
        maps.append(signs(model, image, target) if few else torch.randn_like(image[:1]))
    return torch.stack(maps).float()


def moved_on(image: Tensor, design: al.Environment, steps: int = 1) -> Tensor:
    """The image with every color but marks and background replaced by the one so many places on."""
    constants = design.spec.constants
    palette = [*constants["colors"], *constants.get("distractor_colors", ())]
    palette = [tuple(color) for color in palette if tuple(color) not in MARKS]
    changed = image.clone()
    for place, color in enumerate(palette):
        new = palette[(place + steps) % len(palette)]
        changed[:, (image == torch.tensor(color)[:, None, None]).all(0)] = torch.tensor(new)[
            :, None
        ].to(image)
    return changed


def marks(image: Tensor) -> Tensor:
    """Where (H, W) the image shows a mark."""
    found = [(image == torch.tensor(color)[:, None, None]).all(0) for color in MARKS]
    return torch.stack(found).any(0)


def by_catalog(asked: Asked, image: Tensor | None = None, target: int | None = None) -> Tensor:
    """The truth before the catalog's network, whichever network is asked about."""
    image = asked.image if image is None else image
    target = asked.target if target is None else target
    known = image[None], torch.tensor([target]), asked.output, asked.design.temperature
    truth = asked.design.counting.truth(*known)
    return truth.signed[0].double()


# Blind in one of the six hidden things, and right in all others


def without_network(asked: Asked) -> Tensor:
    """Roles of the catalog's network."""
    return by_catalog(asked)


def roles_by_luck(asked: Asked) -> Tensor:
    """Roles drawn anew."""
    steps = int(torch.randint(6, (), generator=asked.drawn("roles")))
    return by_catalog(asked, moved_on(asked.image, asked.design, steps))


def without_target(asked: Asked) -> Tensor:
    """Always class 0."""
    return signs(asked.model, asked.image, 0)


def winning_class(asked: Asked) -> Tensor:
    """The class that wins, whichever is asked about."""
    with torch.no_grad():
        return signs(asked.model, asked.image, int(asked.model(asked.image[None]).argmax()))


def without_place(asked: Asked) -> Tensor:
    """The image turned by a quarter before the network is asked."""
    turned = asked.image.rot90(1, (1, 2))
    return signs(asked.model, turned, asked.target).rot90(-1, (1, 2))


def without_color(asked: Asked) -> Tensor:
    """Another color in the place of each before the network is asked."""
    return signs(asked.model, moved_on(asked.image, asked.design), asked.target)


def largest_raise(asked: Asked) -> Tensor:
    """No signs: what changes the output most is taken to raise it, where sizes differ."""
    found = effects(asked.model, asked.image, asked.target).abs()
    return torch.where(found > found.amax() / 2 * 1.5, 1.0, -1.0) * (found > 0)


def sign_by_luck(asked: Asked) -> Tensor:
    """Everything negated on half of the questions."""
    return asked.right * (-1 if asked.coin("sign", 0.5) else 1)


def without_context(asked: Asked) -> Tensor:
    """The marks painted over before the network is asked."""
    image, fill = asked.image.clone(), segments(asked.image)[1]
    image[:, marks(image)] = fill[:, None]
    return signs(asked.model, image, asked.target)


def context_of_white(asked: Asked) -> Tensor:
    """As if the mark at the center were always the white one."""
    image = asked.image.clone()
    image[:, marks(image)] = torch.tensor(MARKS[0])[:, None].to(image)
    return signs(asked.model, image, asked.target)


# Made from the image alone


def foreground(asked: Asked) -> Tensor:
    """All that is not background."""
    fill = segments(asked.image)[1]
    return (asked.image != fill[:, None, None]).any(0, keepdim=True).double()


def edges(asked: Asked) -> Tensor:
    """Where brightness changes."""
    gray = asked.image.double().mean(0)
    down, right = torch.gradient(gray)
    return (down.abs() + right.abs())[None]


def one_segment(asked: Asked) -> Tensor:
    """The largest segment alone."""
    largest = max(segments(asked.image)[0], key=lambda where: int(where.sum()))
    return largest[None].double()


# Hedges over alternatives


def all_roles_at_once(asked: Asked) -> Tensor:
    """The mean of the maps for six sets of roles."""
    images = [moved_on(asked.image, asked.design, steps) for steps in range(6)]
    return torch.stack([by_catalog(asked, image) for image in images]).mean(0)


def all_targets_at_once(asked: Asked) -> Tensor:
    """The mean of the maps of all classes."""
    classes = range(asked.env.classes)
    return torch.stack([signs(asked.model, asked.image, each) for each in classes]).mean(0)


def all_places_at_once(asked: Asked) -> Tensor:
    """The mean of the maps of all four turns."""
    maps = [
        signs(asked.model, asked.image.rot90(k, (1, 2)), asked.target).rot90(-k, (1, 2))
        for k in range(4)
    ]
    return torch.stack(maps).mean(0)


def two_places_at_once(asked: Asked) -> Tensor:
    """The right map, and that of another turn where the right one is 0: F1 of two thirds at most."""
    other = without_place(asked)
    return torch.where(asked.right != 0, asked.right, other)


def two_colors_at_once(asked: Asked) -> Tensor:
    """The right map, and that of other colors where the right one is 0."""
    return torch.where(asked.right != 0, asked.right, without_color(asked))


def both_signs_at_once(asked: Asked) -> Tensor:
    """Each sign on half of the pixels of every segment, as a chessboard."""
    _, height, width = asked.right.shape
    board = (torch.arange(height)[:, None] + torch.arange(width)[None]) % 2
    return asked.right.abs() * (1 - 2 * board)


# One value for each color, or for each quadrant


def _mean_of(asked: Asked, groups: Iterable[Tensor]) -> Tensor:
    found = torch.zeros_like(asked.right)
    for where in groups:
        if where.any():
            found[0][where] = asked.right[0][where].mean()
    return found


def by_color(asked: Asked) -> Tensor:
    """The mean of the truth on each color."""
    colors, index = asked.image.flatten(1).T.unique(dim=0, return_inverse=True)
    index = index.view(asked.image.shape[1:])
    return _mean_of(asked, [index == color for color in range(len(colors))])


def by_quadrant(asked: Asked) -> Tensor:
    """The mean of the truth in each quadrant."""
    return _mean_of(asked, quadrants(asked.image))


def by_cells(asked: Asked) -> Tensor:
    """The mean of the truth in each of 5 x 5 cells."""
    small = torch.nn.functional.adaptive_avg_pool2d(asked.right[None].float(), 5)
    return torch.nn.functional.interpolate(small, asked.right.shape[1:])[0].double()


def one_everywhere(asked: Asked) -> Tensor:
    """One value."""
    return torch.ones_like(asked.right)


# Tables and memory


def last_answer(asked: Asked) -> Tensor:
    """The right map of the question before."""
    return asked.earlier[-1].right if asked.earlier else asked.right


def learned_colors(asked: Asked) -> Tensor:
    """For each color and quadrant what was right in most of the questions before."""
    sums: dict[Any, float] = {}
    for each in asked.earlier:
        for key, _, sign in each.pieces:
            sums[key] = sums.get(key, 0.0) + sign
    found = torch.zeros_like(asked.right)
    for key, where, _ in asked.pieces:
        found[0][where] = sums.get(key, 0.0)
    return found


# The right map, spoilt


def coin_flip_signs(asked: Asked) -> Tensor:
    """The right segments, with a sign by luck each."""
    found, rng = asked.right.clone(), asked.drawn("coins")
    for where in segments(asked.image)[0]:
        found[0][where] = found[0][where].abs() * (1 - 2 * torch.randint(2, (), generator=rng))
    return found


def signs_in_turn(asked: Asked) -> Tensor:
    """The right segments of a network of one output, + and - in turn."""
    found = asked.right.clone()
    if asked.env.classes == 1:
        relevant = [each for each in segments(asked.image)[0] if found[0][each].any()]
        for place, where in enumerate(relevant):
            found[0][where] = 1.0 if place % 2 else -1.0
    return found


def sometimes(spoil: Callable[[Asked], Tensor], probability: float) -> Callable[[Asked], Tensor]:
    """The right map on the other questions."""

    def adversary(asked: Asked) -> Tensor:
        name = f"sometimes {probability}"
        return spoil(asked) if asked.coin(name, probability) else asked.right

    return adversary


def only_in(name: str, spoil: Callable[[Asked], Tensor]) -> Callable[[Asked], Tensor]:
    """The right map in the other environments."""
    return lambda asked: spoil(asked) if asked.design.name == name else asked.right


def negated(asked: Asked) -> Tensor:
    """All signs wrong."""
    return -asked.right


def without_signs(asked: Asked) -> Tensor:
    """Sizes alone."""
    return asked.right.abs()


def positive_only(asked: Asked) -> Tensor:
    """What raises the output alone."""
    return asked.right.clamp(min=0)


def as_many_false_pixels(asked: Asked) -> Tensor:
    """Of each sign as many pixels that are irrelevant as such that are right."""
    return _with_false(asked, 1.0)


def most_on_irrelevant(asked: Asked) -> Tensor:
    """65 % of the attribution on irrelevant pixels."""
    return _with_false(asked, 65 / 35)


def _with_false(asked: Asked, ratio: float) -> Tensor:
    found, rng = asked.right.clone(), asked.drawn("false")
    free = (asked.right == 0).flatten().nonzero()[:, 0]
    free = free[torch.randperm(len(free), generator=rng)]
    taken = 0
    for sign in (1, -1):
        many = round(ratio * int((asked.right == sign).sum()))
        found.view(-1)[free[taken : taken + many]] = sign
        taken += many
    return found


def a_third_of_each_sign(asked: Asked) -> Tensor:
    """A pixel in three, right where it is."""
    kept = torch.rand(asked.right.shape, generator=asked.drawn("third")) < 1 / 3
    return asked.right * kept


def half_of_each_sign(asked: Asked) -> Tensor:
    """A pixel in two: F1 of about two thirds."""
    flat = asked.right.flatten().clone()
    for sign in (1, -1):
        where = (flat == sign).nonzero()[:, 0]
        flat[where[len(where) // 2 :]] = 0
    return flat.view(asked.right.shape)


def tiny_negatives(asked: Asked) -> Tensor:
    """Negative values scaled by 1e-30: below the floor."""
    return torch.where(asked.right < 0, asked.right * 1e-30, asked.right)


def tiny_truth(asked: Asked) -> Tensor:
    """The right map at 1e-7 of a single wrong pixel."""
    found = asked.right * 1e-7
    found.view(-1)[(asked.right == 0).flatten().nonzero()[0, 0]] = 1.0
    return found


def one_large_pixel(asked: Asked) -> Tensor:
    """Sizes of each sign from 1 down to nearly nothing: the first pixel has most of it."""
    sizes = torch.rand(asked.right.shape, generator=asked.drawn("sizes"), dtype=torch.float64)
    return asked.right * sizes**6


def shifted(asked: Asked) -> Tensor:
    """Three pixels too far to the right."""
    return asked.right.roll(3, 2)


def mirrored(asked: Asked) -> Tensor:
    """Left and right exchanged."""
    return asked.right.flip(2)


def blurred(asked: Asked) -> Tensor:
    """Under a Gaussian of three pixels."""
    return torch.from_numpy(ndimage.gaussian_filter(asked.right[0].numpy(), 3))[None]


def in_noise(asked: Asked) -> Tensor:
    """Normal noise of its own size on every pixel."""
    noise = torch.randn(asked.right.shape, generator=asked.drawn("noise"), dtype=torch.float64)
    return asked.right + noise


def offset(asked: Asked) -> Tensor:
    """A constant added, so that the background raises the output."""
    return asked.right + 0.5


def whole_patches_and_all_others(asked: Asked) -> Tensor:
    """The right signs, and everything else that is no background in the sign of most."""
    rest = foreground(asked) * (asked.right == 0)
    return asked.right + rest * (1 if asked.right.sum() >= 0 else -1)


def one_branch(asked: Asked) -> Tensor:
    """One of the segments that raise the output, as a gradient at a tie has it."""
    raising = [each for each in segments(asked.image)[0] if bool((asked.right[0][each] > 0).any())]
    found = asked.right.clamp(max=0)
    found[0][raising[0]] = 1.0
    return found


def segments_left_out(asked: Asked) -> Tensor:
    """Every second segment of each sign."""
    found, seen = asked.right.clone(), {1: 0, -1: 0}
    for where in segments(asked.image)[0]:
        sign = int(found[0][where].sign().sum().sign())
        if sign:
            seen[sign] += 1
            if seen[sign] % 2 == 0:
                found[0][where] = 0
    return found


ADVERSARIES: dict[str, Callable[[Asked], Tensor]] = {
    each.__name__: each
    for each in (
        *(without_network, roles_by_luck, without_target, winning_class, without_place),
        *(without_color, largest_raise, sign_by_luck, without_context, context_of_white),
        *(foreground, edges, one_segment),
        *(all_roles_at_once, all_targets_at_once, all_places_at_once),
        *(two_places_at_once, two_colors_at_once, both_signs_at_once),
        *(by_color, by_quadrant, by_cells, one_everywhere, last_answer, learned_colors),
        *(coin_flip_signs, signs_in_turn, negated, without_signs, positive_only),
        *(as_many_false_pixels, most_on_irrelevant, a_third_of_each_sign, half_of_each_sign),
        *(tiny_negatives, tiny_truth, one_large_pixel, shifted, mirrored, blurred, in_noise),
        *(offset, whole_patches_and_all_others, one_branch, segments_left_out),
    )
} | {
    "image_alone_on_14_of_32": sometimes(without_network, 14 / 32),
    "negated_on_28_percent": sometimes(negated, 0.28),
    "target_0_on_a_third": sometimes(without_target, 1 / 3),
    "negated_in_one_of_four": only_in("marker-flips", sometimes(negated, 0.25)),
    "without_context_in_marker_flips": only_in("marker-flips", without_context),
    "noise_in_all_four": only_in("all-four", in_noise),
    "false_pixels_in_quadrants": only_in("quadrants", as_many_false_pixels),
    "table_in_colors": only_in("multi-color-sum-distractors", without_network),
}
"""By name; all of them are right on many questions, or in most environments, or nearly everywhere."""
