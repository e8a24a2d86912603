"""Worlds from rules: what a rule leaves open (colors, images) is filled in."""

import re
from collections.abc import Mapping
from typing import Any, get_type_hints

from attributionlab.base import (
    LARGEST_IMAGE,
    AttributionLabError,
    cut,
    integer_problem,
    name_problem,
    plain_torch,
    refuse_if,
)
from attributionlab.worlds.environment.catalog import convert, from_spec
from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.images.regions import QUADRANTS, Rectangle
from attributionlab.worlds.rules.expressions import Count
from attributionlab.worlds.rules.places import Color
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
RULE_SIZE, RULE_SEED = 256, 0


@plain_torch()
def world(
    rule: str | Mapping[str, str],
    image_size: int = 72,
    seed: int = 0,
    *,
    colors: Mapping[str, tuple[int, int, int]] | None = None,
    regions: Mapping[str, tuple[float, float, float, float]] | None = None,
    name: str | None = None,
    hidden: Mapping[str, Any] | None = None,
    **constants: Any,
) -> Environment:
    """Make a world from a rule: an exact network, its images and its truth.

    Parameters
    ----------
    rule : str or dict of str to str
        An expression over counts of pixels, such as "min(red, blue@left) > 40", for one output (a
        regression); or one for each class by its name. `worlds.rules.parsing.parse` has the
        grammar, docs/worlds.md examples.
    image_size : int
        Side of the images in pixels, 8 to 1024.
    seed : int
        Seed of the images.
    colors : dict of str to (int, int, int), optional
        All colors that images show, by name; by default red, green, blue, yellow, cyan and magenta,
        and those of white, black, gray, orange, purple, brown, pink and teal that the rule names.
    regions : dict of str to (float, float, float, float), optional
        Regions of one's own: top, left, bottom and right edge as fractions of the image side.
    name : str, optional
        What the world is called, in one line of at most 200 characters; its rule by default.
    hidden : dict of str to int, optional
        What each question draws anew, with the number of alternatives, as a design's ``[hidden]``:
        `attributionlab.worlds.environment.hidden` says what must hold. By default nothing.
    **constants
        Other constants: `items` (which patches images have), `area`, `fill`, `shapes`, `background`
        (see `attributionlab.images.scenes.scenes`), `temperature`, `smoothing`, `size`. By default each
        color has a patch in each quadrant, and whatever the rule counts in another region, or as a
        motif, has one there.

    Returns
    -------
    Environment
        With `rule`, the text, and `colors`, the colors by name.

    Raises
    ------
    AttributionLabError
        With all that is wrong with the rule (columns, nearest names, remedies) and the constants.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.world("min(red, blue@left) > 4", image_size=24)
    >>> images, labels = env.batch(2)
    >>> bool((env.model(images)[:, 0] == labels).all())
    True
    """
    problems = _rule_problems(rule)
    problems += integer_problem("image_size", image_size, 8, LARGEST_IMAGE)
    problems += integer_problem("seed", seed, 0)
    problems += _table_problems("colors", colors, Color, "{'red': (255, 0, 0)}")
    problems += _table_problems("regions", regions, Rectangle, "{'door': (0, 0.25, 0.5, 0.75)}")
    problems += [] if name is None else name_problem(name)
    refuse_if(problems, "world")
    given: dict[str, Any] = {"rule": rule, "image_size": image_size, "seed": seed, **constants}
    given |= {"colors": colors} if colors is not None else {}
    given |= {"regions": regions} if regions is not None else {}
    given |= {"name": name} if name is not None else {}
    given |= {"hidden": hidden} if hidden is not None else {}
    texts = dict(rule) if isinstance(rule, Mapping) else {"": rule}
    whole = " ".join(map(str, texts.values()))
    if colors is None:
        named = set(re.findall(r"\w+", whole))
        colors = PALETTE | {name: MORE_COLORS[name] for name in MORE_COLORS if name in named}
    stated: dict[str, Any] = {
        "image_size": image_size,
        "rule": rule,
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


def _rule_problems(rule: Any) -> list[str]:
    """What is wrong with what should be one text, or a text for each class."""
    remedy = "write a text such as 'red > 40'"
    if not isinstance(rule, Mapping):
        is_text = isinstance(rule, str) and rule.strip()
        return [] if is_text else [f"rule is {rule!r}: {remedy}"]
    problems = [
        f"a class is named {name!r}: give it a name that is not empty"
        for name in rule
        if not isinstance(name, str) or not name.strip()
    ]
    return problems + [
        f"the rule of class {name!r} is {text!r}: {remedy}"
        for name, text in rule.items()
        if not isinstance(text, str) or not text.strip()
    ]


def _table_problems(name: str, table: Any, kind: Any, example: str) -> list[str]:
    """What is wrong with values by name, where there are any."""
    if table is None:
        return []
    if not isinstance(table, Mapping):
        return [f"{name} is {table!r}: pass a dict such as {example}"]
    problems = []
    for key, value in table.items():
        try:
            convert((key, value), tuple[str, kind])
        except TypeError:
            problems.append(f"{name}[{key!r}] is {value!r}: pass a dict such as {example}")
    return problems


def _items(stated: Mapping[str, Any]) -> list[str]:
    """A patch of every color in every quadrant, and one for each other place that the rule names."""
    hints = get_type_hints(read_rule)
    try:
        read = read_rule(
            **{key: convert(stated[key], hint) for key, hint in hints.items() if key != "return"}
        )
    except (AttributionLabError, TypeError):
        return ["each"]  # refused with all other problems when the world is made
    quadrants = [f"{name}@{place}" for place in QUADRANTS for name in stated["color_names"]]
    return quadrants + [str(count) for count in read.counts_used if _is_apart(count)]


def _is_apart(count: Count) -> bool:
    """Whether patches in the quadrants may leave a count at 0."""
    covered = {"", "left", "right", "top", "bottom", *QUADRANTS}
    return bool(count.motif) or count.region not in covered
