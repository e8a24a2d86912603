"""Broken methods whose cause is known, drawn from a seed: each kind twice, written in two ways.

The second of each kind was written before the rules that name causes and set aside (`held_out`) while
they were made. All but those that look at gradients begin with a map that is right: what taking each
pixel away changes.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor
from torch.nn import functional as F

Maps = Callable[..., Tensor]


@dataclass(frozen=True)
class Broken:
    """A method, what is wrong with it, and whether it was set aside while rules were made."""

    cause: str
    name: str
    method: Maps
    held_out: bool


# Right methods


def output_of(model, inputs, targets):
    return model(inputs).gather(1, targets[:, None])[:, 0]


_effects: dict[bytes, Tensor] = {}
"""By network, images, targets and baseline: the same in every test of the gallery."""


def effects(model, inputs, targets, baseline):
    """What the output loses when one pixel becomes background, (B, 1, H, W)."""
    with torch.no_grad():
        known = (inputs, targets, model(inputs), baseline, *model.parameters())
        key = hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in known)).digest()
        if key not in _effects:
            _effects[key] = torch.stack(
                [_effect(model, *each, baseline) for each in zip(inputs, targets, strict=True)]
            )
    return _effects[key].clone()


def _effect(model, image, target, baseline):
    places = (image != baseline).any(0).nonzero()
    without = image.repeat(len(places), 1, 1, 1)
    without[torch.arange(len(places)), :, places[:, 0], places[:, 1]] = baseline[:, 0, 0]
    found = torch.zeros(1, *image.shape[1:])
    if len(places):
        changed = torch.cat([model(some)[:, target] for some in without.split(256)])
        found[0, places[:, 0], places[:, 1]] = model(image[None])[0, target] - changed
    return found


def slope(model, inputs, targets):
    inputs = inputs.clone().requires_grad_()
    output_of(model, inputs, targets).sum().backward()
    return inputs.grad.detach()


def path(model, inputs, targets, start, steps):
    """Integrated gradients from a start of one color."""
    shares = (torch.arange(steps) + 0.5) / steps
    mean = sum(slope(model, start + s * (inputs - start), targets) for s in shares) / steps
    return (mean * (inputs - start)).sum(1, keepdim=True)


def changed(change):
    """A method that changes a right map of one image: `change(map, image)`, both without the batch."""

    def method(model, inputs, targets, *, baseline):
        right = effects(model, inputs, targets, baseline)
        pairs = zip(right, inputs, strict=True)
        return torch.stack([change(each, image) for each, image in pairs])

    return method


# Pieces of images and maps


def blocks(side, start=0):
    """The mean over squares, the first of which begin `start` pixels before the image."""

    def mean(each, _image=None):
        _, height, width = each.shape
        rows, columns = ((torch.arange(n) + start) // side for n in (height, width))
        label = rows[:, None] * (int(columns.max()) + 1) + columns
        return over(each, label)

    return mean


def over(each, labels, combine="mean"):
    """One value for all pixels of a label."""
    known, place = labels.unique(return_inverse=True)
    start = torch.zeros(len(known), dtype=each.dtype)
    joined = start.scatter_reduce(0, place.flatten(), each.flatten(), combine, include_self=False)
    return joined[place].reshape(each.shape)


def colors(image):
    return ((image[0].long() * 256 + image[1].long()) * 256) + image[2].long()


def gaussian(each, sigma):
    return torch.from_numpy(ndimage.gaussian_filter(each[0].numpy(), sigma))[None]


def only(each, labels):
    """The label with the largest effect, alone."""
    sums = over(each.abs(), labels, "sum")
    return torch.where(sums == sums.max(), each, 0.0)


def connected(image):
    """Each connected piece of one color, and the background, by a number."""
    code, found, last = colors(image).numpy(), np.zeros(image.shape[1:], np.int64), 0
    for color in np.unique(code):
        labels, count = ndimage.label(code == color)
        found += np.where(labels > 0, labels + last, 0)
        last += count
    return torch.from_numpy(found)


def rescaled(each, low, high):
    return low + (high - low) * (each - each.min()) / (each.max() - each.min()).clamp(min=1e-12)


# Kinds: for each cause, two ways to be wrong; `draw` is a random generator of numpy


def one_branch(draw):
    scale = float(draw.uniform(0.1, 10))
    return lambda model, inputs, targets, *, baseline: (
        scale * slope(model, inputs, targets) * (inputs - baseline)
    )


def one_branch_of_a_square(draw):
    power = int(draw.integers(2, 4))

    def method(model, inputs, targets, *, baseline):
        inputs = inputs.clone().requires_grad_()
        (output_of(model, inputs, targets) ** power).sum().backward()
        sign = output_of(model, inputs, targets).detach().sign() ** (power - 1)
        return inputs.grad * (inputs.detach() - baseline) * sign[:, None, None, None]

    return method


def one_color(_):
    return changed(lambda each, image: only(each, colors(image)))


def one_piece(_):
    return changed(lambda each, image: only(each, connected(image)))


def color_means(_):
    return changed(lambda each, image: over(each, colors(image)))


def color_sums(draw):
    scale = float(draw.uniform(0.1, 2))
    return changed(lambda each, image: scale * over(each, colors(image), "sum").tanh())


def squares(draw):
    return changed(blocks(int(draw.integers(6, 10))))


def bands(draw):
    """One value for pieces of rows, and of half of a row."""
    rows, halves = int(draw.integers(3, 6)), int(draw.integers(2, 4))

    def change(each, _image):
        _, height, width = each.shape
        label = (torch.arange(height) // rows)[:, None] * halves + (
            torch.arange(width) * halves // width
        )
        return over(each, label)

    return changed(change)


def from_black(draw):
    steps = int(draw.integers(8, 17))
    return lambda model, inputs, targets: path(model, inputs, targets, torch.zeros(3, 1, 1), steps)


def from_a_drawn_color(draw):
    start = torch.tensor(draw.integers(100, 256, 3)).float()[:, None, None]
    return lambda model, inputs, targets: path(model, inputs, targets, start, 12)


def black_squares(draw):
    mean = blocks(int(draw.integers(3, 6)))

    def method(model, inputs, targets):
        found = path(model, inputs, targets, torch.zeros(3, 1, 1), 12)
        return torch.stack([mean(each) for each in found])

    return method


def blurred_gray(draw):
    gray, sigma = float(draw.integers(100, 200)), float(draw.uniform(1, 2))

    def method(model, inputs, targets):
        found = path(model, inputs, targets, torch.full((3, 1, 1), gray), 12)
        return torch.stack([gaussian(each, sigma) for each in found])

    return method


def _step(draw):
    """A shift of one to four pixels along both axes."""
    return tuple(int(each) for each in draw.choice([-4, -3, -2, -1, 1, 2, 3, 4], 2))


def rolled(draw):
    step = _step(draw)
    return changed(lambda each, _: each.roll(step, (1, 2)))


def rolled_squares(draw):
    step, mean = _step(draw), blocks(int(draw.integers(2, 4)))
    return changed(lambda each, _: mean(each).roll(step, (1, 2)))


def signs_of_pixels(draw):
    seed = int(draw.integers(1 << 30))

    def change(each, _image):
        generator = torch.Generator().manual_seed(seed)
        return each * (2 * torch.randint(2, each.shape, generator=generator) - 1)

    return changed(change)


def signs_of_pieces(draw):
    seed = int(draw.integers(1 << 30))

    def change(each, image):
        labels = connected(image)
        generator = torch.Generator().manual_seed(seed + int(labels.max()))
        signs = 2 * torch.randint(2, (int(labels.max()) + 1,), generator=generator) - 1
        return each * signs[labels]

    return changed(change)


def largest_output(_):
    def method(model, inputs, targets, *, baseline):
        return effects(model, inputs, model(inputs).argmax(1), baseline)

    return method


def all_outputs(draw):
    power = float(draw.uniform(1, 2))

    def method(model, inputs, targets, *, baseline):
        several = model(inputs[:1]).shape[1]
        each = [
            effects(model, inputs, torch.full_like(targets, k), baseline) for k in range(several)
        ]
        return sum((k + 1) ** power * found for k, found in enumerate(each))

    return method


def divided(draw):
    by = float(draw.choice([255.0, 256.0, 100.0]))
    return lambda model, inputs, targets, *, baseline: effects(
        model, inputs / by, targets, baseline / by
    )


def standardized(draw):
    mean = torch.tensor(draw.uniform(0.3, 0.6, 3)).float()[:, None, None]
    sd = torch.tensor(draw.uniform(0.2, 0.3, 3)).float()[:, None, None]

    def method(model, inputs, targets):
        seen = (inputs / 255 - mean) / sd
        return slope(model, seen, targets) * seen

    return method


def magnitude(_):
    return changed(lambda each, _: each.abs())


def energy(draw):
    power = float(draw.choice([2.0, 4.0]))
    return changed(lambda each, _: each**power)


def rectified(draw):
    scale = float(draw.uniform(0.1, 10))
    return changed(lambda each, _: scale * each.relu())


def without_the_lowest(draw):
    """A mask of the largest values."""
    least = float(draw.uniform(0.1, 0.4))
    return changed(lambda each, _: (each > least * each.max()).float())


def bell(draw):
    sigma = float(draw.uniform(2.5, 6))
    return changed(lambda each, _: gaussian(each, sigma))


def box(draw):
    side = int(draw.choice([9, 11, 13]))
    return changed(lambda each, _: F.avg_pool2d(each, side, 1, side // 2))


def from_0_to_1(_):
    return changed(lambda each, _: rescaled(each, 0.0, 1.0))


def plus_a_constant(draw):
    share = float(draw.choice([-0.5, 0.4, 0.8]))
    return changed(lambda each, _: each + share * each.abs().max())


def swapped(_):
    return changed(lambda each, _: each.transpose(1, 2))


def turned(draw):
    times = int(draw.integers(1, 4))
    return changed(lambda each, _: each.rot90(times, (1, 2)))


def one_outlier(draw):
    factor = float(draw.uniform(20, 1000))

    def change(each, _image):
        each = each.clone()
        sides = each.flatten().argmax(), each.flatten().argmin()
        for place in sides:
            each.view(-1)[place] *= factor
        return each

    return changed(change)


def a_bright_corner(draw):
    factor = float(draw.uniform(20, 100))

    def change(each, _image):
        each = each.clone()
        each[0, 0, 0], each[0, -1, -1] = factor * each.abs().max(), -factor * each.abs().max()
        return each

    return changed(change)


def not_background(_):
    return lambda model, inputs, targets, *, baseline: (
        (inputs != baseline).any(1, keepdim=True).float()
    )


def brightness(draw):
    weights = torch.tensor(draw.uniform(0.2, 1, 3)).float()[None, :, None, None]
    return lambda model, inputs, targets: (weights * inputs).sum(1, keepdim=True)


def local_contrast(draw):
    side = int(draw.choice([3, 5]))

    def method(model, inputs, targets):
        gray = inputs.mean(1, keepdim=True)
        mean = F.avg_pool2d(gray, side, 1, side // 2)
        return (F.avg_pool2d(gray**2, side, 1, side // 2) - mean**2).clamp(min=0).sqrt()

    return method


def center(draw):
    """A bell in the middle of every image."""
    width = float(draw.uniform(0.1, 0.4))

    def method(model, inputs, targets):
        along = torch.linspace(-1, 1, inputs.shape[2])
        found = torch.exp(-(along[:, None] ** 2 + along**2) / (2 * width))
        return found.expand(len(inputs), 1, -1, -1)

    return method


def drawn_values(draw):
    low = float(draw.choice([-1.0, 0.0]))
    return lambda model, inputs, targets, *, generator: (
        low + (1 - low) * torch.rand(inputs[:, :1].shape, generator=generator)
    )


def negated(draw):
    scale = float(draw.uniform(0.1, 10))
    return changed(lambda each, _: -scale * each)


def negated_in_some(draw):
    divisor = int(draw.integers(2, 4))

    def change(each, image):
        return -each if int(image.sum()) % divisor == 0 else each

    return changed(change)


def minus_the_batch(draw):
    share = float(draw.uniform(0.5, 1.0))

    def method(model, inputs, targets, *, baseline):
        found = effects(model, inputs, targets, baseline)
        return found - share * found.mean(0, keepdim=True)

    return method


def smeared_over_the_batch(draw):
    share = float(draw.uniform(0.3, 0.6))

    def method(model, inputs, targets, *, baseline):
        found = effects(model, inputs, targets, baseline)
        return (1 - share) * found + share * found.roll(1, 0).flip(2)

    return method


def of_no_seed(draw):
    size = float(draw.uniform(0.5, 2))

    def method(model, inputs, targets, *, baseline):
        found = effects(model, inputs, targets, baseline)
        noise = np.random.default_rng().normal(size=found.shape).astype(np.float32)
        return found + size * found.abs().amax((1, 2, 3), keepdim=True) * torch.from_numpy(noise)

    return method


def half_of_no_seed(draw):
    share = float(draw.uniform(0.4, 0.7))

    def method(model, inputs, targets, *, baseline):
        found = effects(model, inputs, targets, baseline)
        return found * torch.from_numpy(np.random.default_rng().random(found.shape) > share)

    return method


def on_a_floor(draw):
    level, seed = float(draw.uniform(0.15, 0.3)), int(draw.integers(1 << 30))

    def change(each, _image):
        noise = 2 * torch.rand(each.shape, generator=torch.Generator().manual_seed(seed)) - 1
        return each + level * each.abs().max() * noise

    return changed(change)


def on_a_gaussian_floor(draw):
    level, seed = float(draw.uniform(0.1, 0.15)), int(draw.integers(1 << 30))

    def change(each, _image):
        noise = torch.randn(each.shape, generator=torch.Generator().manual_seed(seed))
        return each + level * each.abs().max() * noise

    return changed(change)


KINDS: tuple[tuple[str, Maps, Maps], ...] = (
    ("tie", one_branch, one_branch_of_a_square),
    ("one-part", one_color, one_piece),
    ("color-values", color_means, color_sums),
    ("coarse", squares, bands),
    ("baseline", from_black, from_a_drawn_color),
    ("baseline", black_squares, blurred_gray),
    ("shift", rolled, rolled_squares),
    ("shift", rolled_squares, rolled),
    ("random-signs", signs_of_pixels, signs_of_pieces),
    ("target", largest_output, all_outputs),
    ("range", divided, standardized),
    ("unsigned", magnitude, energy),
    ("positive-only", rectified, without_the_lowest),
    ("blur", bell, box),
    ("offset", from_0_to_1, plus_a_constant),
    ("orientation", swapped, turned),
    ("outliers", one_outlier, a_bright_corner),
    ("image-only", not_background, brightness),
    ("image-only", local_contrast, center),
    ("image-only", drawn_values, drawn_values),
    ("sign-flips", negated, negated_in_some),
    ("batch-mixing", minus_the_batch, smeared_over_the_batch),
    ("unseeded", of_no_seed, half_of_no_seed),
    ("noise-floor", on_a_floor, on_a_gaussian_floor),
)
"""The true cause, a method that the rules were made with, and one that was set aside."""


def gallery(seed: int = 0) -> list[Broken]:
    """All broken methods, drawn from a seed."""
    found = []
    for place, (cause, *ways) in enumerate(KINDS):
        for held_out, way in enumerate(ways):
            method = way(np.random.default_rng([seed, place, held_out]))
            found.append(Broken(cause, f"{way.__name__} {place}", method, bool(held_out)))
    return found
