"""Worlds from rules: what a rule leaves open (colors, images) is filled in."""

import re
from collections.abc import Mapping
from typing import Any

from attributionlab.base import (
    AttributionLabError,
    ImageSide,
    Name,
    Text,
    Whole,
    checked_arguments,
    cut,
    plain_torch,
)
from attributionlab.worlds.environment.catalog import from_spec
from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.environment.spec import RULE_CONSTANTS
from attributionlab.worlds.images.checks import Color
from attributionlab.worlds.images.regions import QUADRANTS, Rectangle
from attributionlab.worlds.rules.expressions import Count
from attributionlab.worlds.rules.rule import read_rule

PALETTE = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "cyan": (0, 255, 255),
    "magenta": (255, 0, 255),
}
"""The colors of every world that names none of its own."""
MORE_COLORS = {
    "white": (255, 255, 255),
    "black": (0, 0, 0),
    "gray": (127, 127, 127),
    "orange": (255, 127, 0),
    "purple": (127, 0, 127),
    "brown": (127, 63, 0),
    "pink": (255, 127, 191),
    "teal": (0, 127, 127),
}
"""Colors that a world has if its rule names them."""
BACKGROUND = (20, 20, 20)
AREA = (0.003, 0.008)
"""Pixels of a patch as shares of the image: 16 to 41 at 72 x 72."""
LONGEST_NAME = 60
RULE_SIZE = 256


@checked_arguments
@plain_torch()
def world(
    rule: Text | Mapping[Text, Text],
    image_size: ImageSide = 72,
    seed: Whole = 0,
    *,
    colors: Mapping[str, Color] | None = None,
    regions: Mapping[str, Rectangle] | None = None,
    name: Name | None = None,
    hidden: Mapping[str, Any] | None = None,
    **constants: Any,
) -> Environment:
    """Make a world from a rule: an exact network, its images and its truth.

    Parameters
    ----------
    rule : str or dict of str to str
        An expression over counts of pixels, such as "min(red, blue@left) > 40", for one output (a
        regression); or one expression for each class, by name. `worlds.rules.parsing.parse` has the
        grammar, docs/worlds.md examples.
    image_size : int
        Side of the images in pixels, 8 to 1024.
    seed : int
        Seed of the images.
    colors : dict of str to (int, int, int), optional
        All colors of the images, by name; by default red, green, blue, yellow, cyan and magenta, plus
        any of white, black, gray, orange, purple, brown, pink and teal that the rule names.
    regions : dict of str to (float, float, float, float), optional
        Your own regions: top, left, bottom and right edge as fractions of the image side.
    name : str, optional
        Name of the world, in one line of at most 200 characters; by default its rule.
    hidden : dict of str to int, optional
        What each question draws anew, with the number of alternatives, as ``[hidden]`` in a design:
        `attributionlab.worlds.environment.hidden` states the conditions. By default nothing.
    **constants
        Other constants: `items` (which patches images have), `area`, `fill`, `shapes`, `background`,
        `shades`, `spread`, `shade_pattern` and `overlap` (see `attributionlab.images.scenes.scenes`),
        `temperature`, `smoothing`, `size`. By default each color has a patch in each quadrant; anything
        that the rule counts in another region, or as a motif, has one there.

    Returns
    -------
    Environment
        With `rule`, the text, and `colors`, the colors by name.

    Raises
    ------
    AttributionLabError
        With all problems of the rule (columns, nearest names, remedies) and the constants.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.world("min(red, blue@left) > 4", image_size=24)
    >>> images, labels = env.batch(2)
    >>> bool((env.model(images)[:, 0] == labels).all())
    True
    """
    given: dict[str, Any] = {"rule": rule, "image_size": image_size, "seed": seed, **constants}
    optional = {"colors": colors, "regions": regions, "name": name, "hidden": hidden}
    given |= {key: value for key, value in optional.items() if value is not None}
    texts = dict(rule) if isinstance(rule, Mapping) else {"": rule}
    whole = " ".join(map(str, texts.values()))
    if colors is None:
        named = set(re.findall(r"\w+", whole))
        colors = PALETTE | {name: MORE_COLORS[name] for name in MORE_COLORS if name in named}
    stated: dict[str, Any] = {
        "image_size": image_size,
        "rule": rule if isinstance(rule, str) else [*rule.items()],
        "colors": list(colors.values()),
        "color_names": list(colors),
        "background": BACKGROUND,
        "regions": [(name, *edges) for name, edges in (regions or {}).items()],
        "area": AREA,
    }
    size = constants.pop("size", RULE_SIZE)
    stated |= constants
    if "items" not in stated:
        stated["items"] = _items(stated)
    title = whole if isinstance(rule, str) else "; ".join(f"{k}: {v}" for k, v in texts.items())
    env = from_spec(
        {
            "name": cut(title, LONGEST_NAME) if name is None else name,
            "claim": f"The rule {title}.",
            "formula": title,
            "source": "a rule of the user's",
            "builder": "rule",
            "generator": "scenes",
            "constants": stated,
            "size": size,
            "seed": seed,
            "hidden": {} if hidden is None else hidden,
        }
    )
    env.maker, env.reference = "world", title
    env.overrides = {key: value for key, value in given.items() if key != "rule"}
    return env


def _items(stated: Mapping[str, Any]) -> list[str]:
    """A patch of every color in every quadrant, and one for each other place that the rule names."""
    try:
        read = read_rule(**{key: stated[key] for key in RULE_CONSTANTS if key in stated})
    except AttributionLabError:
        return ["each"]  # refused with all other problems when the world is made
    quadrants = [f"{name}@{place}" for place in QUADRANTS for name in stated["color_names"]]
    return quadrants + [str(count) for count in read.counts_used if _is_apart(count)]


def _is_apart(count: Count) -> bool:
    """Whether patches in the quadrants may leave a count at 0."""
    covered = {"", "left", "right", "top", "bottom", *QUADRANTS}
    return bool(count.motif) or count.region not in covered
