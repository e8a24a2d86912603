"""Detectors, pixel by pixel: number checkers and color detectors against a comparison.

Whole networks: the logits of images against counting their pixels, and those of a rewritten
network (camouflaged, or in another implementation) against the network before.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import product

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.base import track
from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.verification.certificate import Check, Tally, compared
from attributionlab.worlds.verification.execution import equals_rule_on, hand_made, run
from attributionlab.worlds.verification.oracle import Oracle, Pixel, code, codes

ALL_COLORS = 2**24
COLORS_AT_ONCE = 2**18
"""Smaller parts fit the cache of one core, but several cores then wait for each other too often."""
RANDOM_COLORS = 4096


def detector_checks(
    env: Environment,
    oracle: Oracle,
    generator: torch.Generator,
    *,
    exhaustive: bool,
    show_progress: bool,
) -> list[Check]:
    """Check the detector of an environment, if it has one."""
    parts = dict(hand_made(env).named_children())
    if "detector" not in parts:
        return []
    detector = parts["detector"]
    if len(oracle.background) == 1:
        return [_gray_check(detector, oracle.counted[0][0])]
    sample = color_sample(oracle.values, generator)
    checkers = _checkers_check(detector, oracle, sample)
    if not exhaustive:
        return [checkers, color_check(detector, oracle, [sample], "a sample of colors")]
    chunks = track(
        every_color(), ALL_COLORS // COLORS_AT_ONCE, f"all colors: {env.name}", show_progress
    )
    return [checkers, color_check(detector, oracle, chunks, "all 2^24 colors")]


def color_sample(known: tuple[Pixel, ...], generator: torch.Generator) -> Float[Tensor, "colors 3"]:
    """Every known color, everything one channel away, mixtures of them, corners of the box, others.

    A color detector reads each channel through number checkers. All 256 values in each channel show
    whether these are right; all combinations of known values show what is made of their answers.
    """
    chosen = {*known, *product((0, 255), repeat=3)}
    for color in known:
        for channel in range(3):
            for value in range(256):
                chosen.add((*color[:channel], value, *color[channel + 1 :]))
    chosen.update(product(*({color[channel] for color in known} for channel in range(3))))
    others = torch.randint(0, 256, (RANDOM_COLORS, 3), generator=generator)
    chosen.update(map(tuple, others.tolist()))
    return torch.tensor(sorted(chosen)).float()


def color_check(
    detector: nn.Module, oracle: Oracle, chunks: Iterable[Float[Tensor, "colors 3"]], which: str
) -> Check:
    """Hold a color detector against a comparison of colors.

    - `detector`: (B, 3, H, W) -> (B, summed and redundant channels, H, W).
    """
    tally = Tally(
        "color-detector",
        f"Each channel is 1 for its own color, the {oracle.redundant_channels} redundant ones for "
        f"every unknown color, and 0 otherwise: compared on {which}.",
    )
    for chunk in chunks:
        expected = _expected_channels(oracle, chunk)
        tally.compare(_respond(detector, chunk), expected, _color_namer(chunk))
    return tally.check()


def every_color() -> Iterator[Float[Tensor, "colors 3"]]:
    """All 2^24 colors, in parts."""
    for start in range(0, ALL_COLORS, COLORS_AT_ONCE):
        each = torch.arange(start, start + COLORS_AT_ONCE)
        yield torch.stack([each >> 16, each >> 8 & 255, each & 255], dim=1).float()


def _respond(
    module: nn.Module, pixels: Float[Tensor, "pixels channels"]
) -> Float[Tensor, "pixels outputs"]:
    """Outputs for each pixel, shown as one image of a single row."""
    return run(module, pixels.T[None, :, None, :])[0, :, 0, :].T


def _color_namer(colors: Float[Tensor, "colors 3"]) -> Callable[[int], str]:
    return lambda i: f"color {tuple(colors[i].int().tolist())}"


def _expected_channels(
    oracle: Oracle, colors: Float[Tensor, "colors 3"]
) -> Float[Tensor, "colors outputs"]:
    numbers = codes(colors)
    expected = torch.zeros(len(colors), oracle.channels + oracle.redundant_channels).double()
    expected[:, oracle.channels :] = 1
    for index, shades in enumerate(oracle.shades):
        row = torch.isin(numbers, torch.tensor([code(shade) for shade in shades]))
        expected[row] = 0
        if index < oracle.channels:  # the background is last and has no channel
            expected[row, index] = 1
    return expected


def _gray_check(detector: nn.Module, number: int) -> Check:
    values = torch.arange(256)[:, None]
    return compared(
        "number-checker",
        f"The number checker is int(x == {number}) for all 256 values of a pixel.",
        _respond(detector, values.float()),
        (values == number).double(),
        "value",
    )


def _checkers_check(
    detector: nn.Module, oracle: Oracle, colors: Float[Tensor, "colors 3"]
) -> Check:
    """Number checkers are the third layer: three per known color, one for each of its values; for
    colors of several shades one for each number that any of them has in a channel.
    """
    checked = [(channel, color[channel]) for color in oracle.known for channel in range(3)]
    if len(oracle.values) > len(oracle.known):
        shades = [shade for each in oracle.shades[: len(oracle.counted)] for shade in each]
        checked = sorted({(channel, shade[channel]) for shade in shades for channel in range(3)})
    channels, numbers = map(list, zip(*checked, strict=True))
    layers = list(detector.children())
    activations = [i for i, layer in enumerate(layers) if isinstance(layer, nn.ReLU)]
    return compared(
        "number-checkers",
        f"Each of the {len(checked)} number checkers inside the color detector is int(x == N) of "
        "its channel for all 256 values, whatever the other channels show.",
        _respond(nn.Sequential(*layers[: activations[2] + 1]), colors),
        (colors[:, channels] == torch.tensor(numbers)).double(),
        _color_namer(colors),
    )


PIXELS, PIXELS_OF_COLOR = 2**21, 2**19
"""In images of chosen counts; a color detector takes a hundred times as long as a sum."""


def camouflage_checks(
    env: Environment,
    oracle: Oracle,
    images: Float[Tensor, "n channels height width"],
    generator: torch.Generator,
) -> list[Check]:
    """Hold a rewritten network against the network before; nothing for any other."""
    if env.network.plain is None:
        return []
    graded = env.network.equal_on == "palette"
    others = (
        "" if graded else ", on images anywhere in the valid box, on colors next to the known ones"
    )
    tally = Tally(
        "camouflage",
        "The logits of the rewritten network (a camouflage, another implementation) equal those of the "
        f"original, on samples{others}, and on many counts.",
    )
    groups = {"image": images[equals_rule_on(env, images)]}
    if not graded:
        groups["image of pixel values"] = _images_of_values(env, oracle, generator)
    groups["image of a chosen count"] = torch.stack([*_images_of_counts(env, oracle, generator)])
    for group, shown in groups.items():
        expected = run(hand_made(env), shown)
        tally.compare(run(env.model, shown), expected, group)
    return [tally.check()]


def _images_of_values(
    env: Environment, oracle: Oracle, generator: torch.Generator
) -> Float[Tensor, "images channels height width"]:
    """Every value of a channel, or every color that a detector might take for another."""
    if len(oracle.background) > 1:
        values = color_sample(oracle.values, generator)
    else:
        values = torch.arange(env.max_value + 1.0)[:, None]
    values = values[torch.randperm(len(values), generator=generator)]
    side = env.recipe.image_size
    images = -(-len(values) // side**2)
    # The first values again, up to whole images.
    rows = values[torch.arange(images * side**2) % len(values)]
    return rows.reshape(images, side, side, -1).permute(0, 3, 1, 2)


def _images_of_counts(
    env: Environment, oracle: Oracle, generator: torch.Generator
) -> Iterator[Float[Tensor, "channels height width"]]:
    """Background with so many counted pixels: every number of them, or so many evenly spaced ones."""
    side = env.recipe.image_size
    most = (PIXELS if len(oracle.background) == 1 else PIXELS_OF_COLOR) // side**2
    counts = torch.linspace(0, side**2, min(side**2 + 1, max(2, most))).round().int().tolist()
    counted = torch.tensor(oracle.counted).float()
    for count in counts:
        image = torch.tensor(oracle.background).float().repeat(side**2, 1)
        where = torch.randperm(side**2, generator=generator)[:count]
        image[where] = counted[torch.randint(len(counted), (count,), generator=generator)]
        yield image.T.reshape(-1, side, side)


RANDOM_IMAGES = 4


def output_checks(
    env: Environment,
    oracle: Oracle,
    samples: Float[Tensor, "n channels height width"],
    labels: Int[Tensor, " n"],
    generator: torch.Generator,
) -> list[Check]:
    """Check the logits of samples and of random images, and the labels of the samples."""
    groups = {"sample": samples, "random image": _known_images(env, oracle, generator)}
    values = "known values"
    if not oracle.disturbed and oracle.modulus is None and env.network.equal_on == "integers":
        # Counting holds for any image: other values have no effect.
        groups["image of any values"] = anywhere_in_the_box(env, samples, generator)
        values = "any values"
    logits = Tally(
        "logits",
        f"The logits of samples and of random images of {values} equal the counts of their pixels"
        + (f", modulo {oracle.modulus}." if oracle.modulus is not None else "."),
    )
    for group, images in groups.items():
        expected = oracle.outputs(oracle.counts(images))
        got = run(env.model, images)
        logits.compare(got, expected, group)
    labels_check = compared(
        "labels",
        "The labels of samples are the winning class (the first if tied), or the single output.",
        labels[:, None].double(),
        torch.tensor(oracle.labels(oracle.counts(samples)))[:, None].double(),
        "label of sample",
    )
    return [logits.check(), labels_check]


def anywhere_in_the_box(
    env: Environment, samples: Float[Tensor, "n channels height width"], generator: torch.Generator
) -> Float[Tensor, "images channels height width"]:
    """Images that nothing was made for: random values, a quarter set to 0, all 0, all the largest."""
    image = samples[0]
    largest = torch.full_like(image, env.max_value)
    random = torch.randint(0, env.max_value + 1, image.shape, generator=generator).float()
    quarter = image.clone()
    half = env.recipe.image_size // 2
    quarter[:, :half, :half] = 0
    return torch.stack([random, quarter, torch.zeros_like(image), largest])


def _known_images(
    env: Environment, oracle: Oracle, generator: torch.Generator
) -> Float[Tensor, "images channels height width"]:
    """Background with known values at random pixels: none, as many as may count, and between."""
    side = env.recipe.image_size
    known = torch.tensor(oracle.known).float()
    most = min(env.network.max_count, side**2)
    between = torch.randint(0, most + 1, (RANDOM_IMAGES - 2,), generator=generator).tolist()
    images = []
    for shown in [0, most, *between]:
        image = torch.tensor(oracle.background).float().repeat(side**2, 1)
        where = torch.randperm(side**2, generator=generator)[:shown]
        # One pixel value is more frequent than the others, or all counts would be alike.
        which = torch.randint(0, len(known), (shown,), generator=generator)
        favorite = torch.randint(0, len(known), (), generator=generator)
        which[: shown // 2] = favorite
        image[where] = known[which]
        images.append(image.T.reshape(-1, side, side))
    return torch.stack(images)
