"""Random rules, and images that try them."""

import random

import numpy as np

from attributionlab.worlds import Count
from attributionlab.worlds.images.regions import MOTIFS, REGIONS, RING, motif_colors
from attributionlab.worlds.rules.expressions import COMPARISONS, Constant, Expression, Operation
from attributionlab.worlds.rules.places import Places

COLORS = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "white": (255, 255, 255),
    "gray": (128, 127, 128),
}
BACKGROUND = (20, 20, 20)
OWN = {"corner_stone": (0.0, 0.0, 0.3, 0.45), "bar": (0.4, 0.0, 0.6, 1.0)}
EVERYWHERE = (*REGIONS, RING, *OWN)


def places_of(side: int) -> Places:
    return Places(COLORS, side, OWN)


def operations_in(expression: Expression) -> int:
    """How many operations an expression has."""
    if not isinstance(expression, Operation):
        return 0
    return 1 + sum(map(operations_in, expression.operands))


def random_count(rng: random.Random, *, places: bool) -> Count:
    """A color anywhere, half of the time elsewhere, sometimes a motif."""
    region = rng.choice(EVERYWHERE) if places and rng.random() < 0.5 else ""
    if places and rng.random() < 0.25:
        motif = rng.choice(list(MOTIFS))
        return Count(tuple(rng.sample(list(COLORS), motif_colors(motif))), motif, region)
    return Count((rng.choice(list(COLORS)),), region=region)


def random_number(rng: random.Random, depth: int, *, places: bool = True) -> Expression:
    """A number of operations at most so deep."""

    def number() -> Expression:
        return random_number(rng, depth - 1, places=places)

    if depth <= 0 or rng.random() < 0.15:
        return random_count(rng, places=places)
    operator = rng.choice(["+", "-", "*", "%", "relu", "abs", "min", "max", "if", "+", "-", "cond"])
    match operator:
        case "*":
            return Operation("*", (Constant(rng.choice([-3, -2, -1, 2, 3, 10])), number()))
        case "%":
            return Operation("%", (number(), Constant(rng.choice([1, 2, 3, 5, 7, 30, 1000]))))
        case "relu" | "abs":
            return Operation(operator, (number(),))
        case "min" | "max":
            return Operation(operator, tuple(number() for _ in range(rng.choice([2, 2, 3, 5]))))
        case "if":
            branches = number(), number()
            if rng.random() < 0.3:
                branches = branches[0], Constant(rng.randint(-9, 9))
            return Operation("if", (random_condition(rng, depth - 1, places=places), *branches))
        case "cond":
            return random_condition(rng, depth, places=places)
    other = Constant(rng.randint(-50, 50)) if rng.random() < 0.2 else number()
    return Operation(operator, (number(), other))


def random_condition(rng: random.Random, depth: int, *, places: bool = True) -> Expression:
    """A comparison, or several joined."""
    if depth <= 1 or rng.random() < 0.4:
        left = random_number(rng, depth - 1, places=places)
        right: Expression = Constant(rng.randint(-2, 80))
        if rng.random() < 0.5:
            right = random_number(rng, depth - 1, places=places)
        return Operation(rng.choice(COMPARISONS), (left, right))
    operator = rng.choice(["and", "or", "not", "xor"])
    operands = {"not": 1, "xor": 2}.get(operator) or rng.choice([2, 2, 3, 4])
    conditions = (random_condition(rng, depth - 1, places=places) for _ in range(operands))
    return Operation(operator, tuple(conditions))


def random_rule(rng: random.Random, depth: int = 3, *, places: bool = True) -> Expression:
    """A number or a condition."""
    draw = random_number if rng.random() < 0.7 else random_condition
    return draw(rng, depth, places=places)


def tried_images(rng: random.Random, side: int, n: int) -> np.ndarray:
    """Images (n, 3, H, W): extreme ones, one color, random values, palette noise, patches, motifs."""
    draw = np.random.default_rng(rng.randrange(2**32))
    palette = np.array([*COLORS.values(), BACKGROUND, (255, 0, 255)])
    images = [
        np.zeros((3, side, side), int),
        np.full((3, side, side), 255),
        *(np.broadcast_to(color[:, None, None], (3, side, side)) for color in palette),
        draw.integers(0, 256, (3, side, side)),
    ]
    while len(images) < n:
        kind = len(images) % 4
        if kind == 0:  # palette noise, of any mixture
            chosen = draw.choice(len(palette), (side, side), p=draw.dirichlet(np.full(7, 0.5)))
        elif kind == 1:  # colors next to known ones
            chosen = draw.choice(len(palette), (side, side))
            near = palette[chosen] + draw.integers(-1, 2, (side, side, 3)) * (draw.random() < 0.5)
            images.append(near.clip(0, 255).transpose(2, 0, 1))
            continue
        else:
            chosen = np.full((side, side), 5)  # the background
            for _ in range(draw.integers(1, 12)):
                height, width = draw.integers(1, side // 2, 2)
                y, x = draw.integers(0, side - height + 1), draw.integers(0, side - width + 1)
                one, other = draw.choice(len(palette), 2, replace=False)
                rows, columns = np.mgrid[:height, :width] % 2
                texture = [rows * 0, columns, (rows + columns) % 2, (1 - rows) * columns]
                pattern = texture[draw.integers(4)] if kind == 3 else texture[0]
                chosen[y : y + height, x : x + width] = np.where(pattern, other, one)
        images.append(palette[chosen].transpose(2, 0, 1))
    return np.stack(images[:n])
