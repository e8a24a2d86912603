"""The live page: networks as lists of layers, images and truth, in one HTML file with what runs them.

What the browser runs is what Python built: variants of a network (strengths of unseen colors, other
forms) are networks of their own here, and the weights that they share are stored once.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import jinja2
import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray

from attributionlab import show as report
from attributionlab.base import (
    SOLVED_ABOVE,
    AttributionLabError,
    Whole,
    Within,
    checked_arguments,
    library_versions,
    own_arithmetic,
)
from attributionlab.show import LOWERS, RAISES, SIGNLESS_COLORS
from attributionlab.verdicts import listed_network
from attributionlab.worlds import Environment, load
from attributionlab.worlds.nets import equivalents_of

HERE = Path(__file__).parent
COMMON = Path(report.__file__).parent / "page.css"
"""What all pages look like."""
SCHEMA = 1
SMALLEST, LARGEST = 24, 128
"""Sides of images, in pixels: worlds need room for their patches, and a map should take a browser less
than a second."""
MOST_IMAGES = 16
LARGEST_PAGE = 4_000_000  # bytes
PARTS = ("live.css", "explore.js", "live.js", "worker.js")
PLAIN = "plain"
WORLDS = ("quadrants", "marker-flips", "all-four", "either")
"""Networks of rules in which place, context or other pixels decide what a pixel does."""
STRENGTHS = tuple(step / 4 for step in range(9))
"""Strengths of the redundant channels: the grid of the weights, up to twice the catalog's."""


class _Tensors:
    """Arrays of float32 behind each other, equal ones once."""

    def __init__(self) -> None:
        self.places: list[list[int]] = []
        self._chunks: list[bytes] = []
        self._known: dict[tuple[bytes, tuple[int, ...]], int] = {}
        self._length = 0

    def add(self, array: NDArray[Any]) -> int:
        """Index of an array whose values float32 holds."""
        data = np.ascontiguousarray(array, dtype="<f4")
        key = (data.tobytes(), data.shape)
        if key not in self._known:
            self._known[key] = len(self.places)
            self.places.append([self._length, *data.shape])
            self._chunks.append(key[0])
            self._length += data.size
        return self._known[key]

    def packed(self) -> str:
        """All of them as text: compressed as zlib does, then base64."""
        return base64.b64encode(zlib.compress(b"".join(self._chunks), 9)).decode("ascii")


@checked_arguments
def live_page(
    env: Environment,
    n: Annotated[int, Within(least=1, most=MOST_IMAGES)] = 4,
    seed: Whole = 0,
    *,
    command: str = "",
) -> str:
    """A page in which an environment's network runs, with six things to predict, try and see.

    The page is one file that loads nothing. The same call gives the same page.

    Parameters
    ----------
    env : Environment
        Its network must be a chain of Conv2d, Linear, ReLU, Flatten and Softmax; its images have 24 to
        128 pixels a side.
    n : int
        How many images, 1 to 16, of the environment and of each world.
    seed : int
        Which images, 0 or more.
    command : str
        How to write the page again; it is shown, never run.

    Returns
    -------
    str
        HTML of at most 4 MB.

    Raises
    ------
    AttributionLabError
        For numbers out of range, a network that is no such chain, and one too large for a page.

    Examples
    --------
    >>> import attributionlab as al
    >>> from attributionlab.teaching.live.page import live_page
    >>> page = live_page(al.load("multi-color-sum", image_size=24), n=1)  # doctest: +SKIP
    """
    side = env.image_shape[-1]
    if not SMALLEST <= side <= LARGEST:
        raise AttributionLabError(
            f"{env.name} has images of {side} x {side} pixels, a page shows {SMALLEST} to {LARGEST}: "
            "give another image_size"
        )
    tensors = _Tensors()
    variants, scenes = _variants(env)
    worlds = [load(name, image_size=side) for name in WORLDS]
    names = {tuple(value): name for world in worlds for name, value in world.colors.items()}
    subjects = [_subject(env, variants, n, seed, names, tensors)]
    subjects += [_subject(world, {PLAIN: world}, n, seed, names, tensors) for world in worlds]
    document = {
        "schema": SCHEMA,
        "subjects": subjects,
        "scenes": scenes,
        "solved": SOLVED_ABOVE,
        "colors": {"mixed": SIGNLESS_COLORS["mixed"], "unasked": SIGNLESS_COLORS["not asked"]},
        "tensors": tensors.places,
    }
    page = _rendered(env, document, tensors.packed(), command)
    size = len(page.encode())
    if size > LARGEST_PAGE:
        raise AttributionLabError(
            f"live: the page of {env.name} has {size:,} bytes, at most {LARGEST_PAGE:,} are written: "
            "take smaller images or a smaller network"
        )
    return page


def _variants(env: Environment) -> tuple[dict[str, Environment], dict[str, Any]]:
    """Networks by name, and of each scene that needs some: which, or why there are none."""
    variants, scenes = {PLAIN: env}, dict[str, Any]()
    gray = {int(value) for value in env.recipe.background}
    if env.max_value == 1:
        scenes["baseline"] = "The images are black and white: there are no gray values between."
    elif len(gray) > 1:
        scenes["baseline"] = f"The background {tuple(env.recipe.background)} is not a gray value."
    if not env.spec.constants.get("redundant_channels", 0):
        scenes["strength"] = "This network has no channels that unseen colors activate."
    else:
        for strength in STRENGTHS:
            other = load(env.reference, **{**env.overrides, "redundant_strength": strength})
            variants[f"strength {other.network.effective['redundant_strength']:g}"] = other
    forms = equivalents_of(env.network)
    if not forms:
        scenes["forms"] = "No other implementation of this network is available here."
    variants |= {form: env.with_implementation(form) for form in forms}
    return variants, scenes


@own_arithmetic()
def _subject(
    env: Environment,
    variants: Mapping[str, Environment],
    n: int,
    seed: int,
    names: Mapping[tuple[int, ...], str],
    tensors: _Tensors,
) -> dict[str, Any]:
    """Images with their truth, the networks that see them and what torch says these answer."""
    images, labels = env.batch(n, seed)
    targets = env.targets(labels)
    truth = env.truth(images, targets)
    with torch.no_grad():
        logits = {name: each.model(images).tolist() for name, each in variants.items()}
    classes = _classes(env, names)
    named = [{"name": name, "color": list(color)} for name, color in env.colors.items()]
    return {
        "name": env.name,
        "claim": env.spec.claim,
        "formula": env.spec.formula,
        "side": env.image_shape[-1],
        "highest": env.max_value,
        "background": [int(value) for value in env.recipe.background],
        "output": env.outputs[0],
        "classes": classes,
        "named": named or [each for each in classes if "color" in each],
        "images": tensors.add(images.numpy()),
        "targets": targets.tolist(),
        # 2 and 3 stand for no sign: relevant with both, and not asked.
        "truth": tensors.add(
            torch.where(truth.asked, torch.where(truth.mixed, 2, truth.signed), 3).numpy()
        ),
        "networks": {name: _network(each, tensors) for name, each in variants.items()},
        "logits": logits,
    }


def _classes(env: Environment, names: Mapping[tuple[int, ...], str]) -> list[dict[str, Any]]:
    """Names of the outputs, with a color where one stands for the class."""
    if env.task == "regression":
        return [{"name": "output"}]
    if isinstance(env.rule, dict):
        return [{"name": name} for name in env.rule]
    colors = env.spec.constants.get("colors", ())
    if len(colors) != env.classes:
        return [{"name": f"class {place + 1}"} for place in range(env.classes)]
    return [
        {"name": names.get(tuple(color), f"color {place + 1}"), "color": list(color)}
        for place, color in enumerate(colors)
    ]


def _network(env: Environment, tensors: _Tensors) -> dict[str, Any]:
    """Layers up to the explained output; how many of them give the logits."""
    listed = listed_network(env)
    layers = []
    for layer in listed.document["layers"]:
        weights = {
            key: tensors.add(listed.tensors[layer[key]])
            for key in ("weight", "bias")
            if layer.get(key) is not None
        }
        rest = {key: layer[key] for key in ("kind", "stride", "padding") if key in layer}
        layers.append(rest | weights)
    return {"layers": layers, "logits": listed.document["outputs"]["logit"]}


def _rendered(env: Environment, document: Mapping[str, Any], tensors: str, command: str) -> str:
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    common, style, explore, script, worker = (
        path.read_text(encoding="utf-8") for path in (COMMON, *(HERE / name for name in PARTS))
    )
    script = explore + script
    named = f"--raises: {RAISES}; --lowers: {LOWERS}; --solved: {SOLVED_ABOVE:.3%}"
    style = f":root {{ {named}; }}\n" + common + style
    # The worker is a text in the page: a file that is opened from a disk may load no other.
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; worker-src blob:; img-src data:; "
        f"style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    )
    return templates.get_template("live.html.j2").render(
        name=env.name,
        claim=env.spec.claim,
        formula=env.spec.formula,
        side=env.image_shape[-1],
        parameters=sum(each.numel() for each in env.model.parameters()),
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        worker=Markup(worker),
        document=Markup(json.dumps(document, allow_nan=False).replace("<", "\\u003c")),
        tensors=Markup(tensors),
        command=command,
        versions={name: library_versions()[name] for name in ("attributionlab", "torch")},
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
