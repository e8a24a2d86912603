"""A sealed laboratory: the world that a secret key names, its files, and how they are opened."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.device import plain_torch
from attributionlab.environment import Environment
from attributionlab.environment.worlds import PALETTE, world
from attributionlab.errors import AttributionLabError
from attributionlab.exams.worlds import AREA, WorldDrawing
from attributionlab.exchange.network import listed_network
from attributionlab.images.regions import QUADRANTS
from attributionlab.rules.places import Color
from attributionlab.rules.rule import Rule
from attributionlab.sealed.archives import (
    array_of,
    file_bytes,
    json_bytes,
    json_document,
    npy_bytes,
    zip_members,
)
from attributionlab.sealed.questions import (
    CAUSES,
    DOSES,
    METHODS,
    POINTS,
    STEPS,
    breaking_doses,
    causes,
    contexts,
    parts,
    safe_baselines,
    signs_of_parts,
)

SCHEMA = 1
LAB, NETWORK, WEIGHTS = "lab.json", "network.json", "network.safetensors"
IMAGES, CHOSEN, QUESTIONS, COMMITMENT = "images.npy", "doses.npy", "questions.md", "commitment.txt"
LAB_FILES = (LAB, NETWORK, WEIGHTS, IMAGES, CHOSEN, QUESTIONS, COMMITMENT)
LARGEST_LAB = 2**28
MOST_DRAWN = 100
"""Worlds that are drawn until each part has one sign in all images, some parts act together, and no
dose and no cause would be right for everything that is asked."""
LEAST_DISTANCE = 24
"""Gray levels by which colors differ in at least one channel, so that one can tell them apart."""
GRAYS = {"black": (0, 0, 0), "gray": (127, 127, 127), "white": (255, 255, 255)}
"""Colors that papers take as baselines: candidates in every laboratory."""


class World(NamedTuple):
    """What a key names."""

    env: Environment
    """camouflaged"""
    images: Tensor
    """(n, 3, H, W) float32"""
    signed: NDArray[np.int8]
    """(n, 1, H, W)"""
    answers: dict[str, Any]
    """The right ones, in the form of a student's answers.json."""


class Laboratory(NamedTuple):
    """A sealed laboratory as a student opens it.

    Parameters
    ----------
    spec : dict
        What lab.json holds: colors, places, parts, baselines, methods, doses, points.
    model : nn.Sequential
        (n, 3, H, W) float32 -> (n, 1).
    images : Tensor, (n, 3, H, W)
        Integers from 0 to 255 as float32.
    doses : Tensor of bool, (doses, H, W)
        At each dose the pixels that get a color when they are replaced.
    """

    spec: dict[str, Any]
    model: nn.Sequential
    images: Tensor
    doses: Tensor


def derived(key: bytes, purpose: str) -> int:
    """A number of 256 bits that says nothing about the key, or about those for other purposes."""
    return int.from_bytes(hashlib.sha256(key + purpose.encode()).digest(), "big")


def drawn_colors(key: bytes) -> tuple[dict[str, Color], Color]:
    """The colors of a laboratory, sorted, and its background.

    Black and white are among the colors by a toss of a coin each: no usual baseline is safe as such.
    """
    rng = np.random.default_rng(derived(key, "colors"))
    drawn: list[Color] = []
    for gray in (GRAYS["black"], GRAYS["white"]):
        drawn += [gray] if rng.random() < 0.5 else []
    while len(drawn) <= len(PALETTE):
        color: Color = tuple(rng.integers(0, 256, 3).tolist())
        apart = (max(map(abs, np.subtract(color, each))) for each in (*drawn, *GRAYS.values()))
        drawn += [color] if min(apart) >= LEAST_DISTANCE else []
    background = drawn.pop()
    return dict(zip("abcdef", sorted(drawn), strict=True)), background


@plain_torch()
def drawn_world(key: bytes, difficulty: str, image_size: int, n: int) -> World:
    """The world of a key: a rule over colors in quadrants, a camouflaged network, n images."""
    colors, background = drawn_colors(key)
    seed = derived(key, "rule")
    for index in range(seed % MOST_DRAWN, MOST_DRAWN + seed % MOST_DRAWN):
        drawing = WorldDrawing(seed, difficulty, image_size, index)
        if drawing.textured or drawing.wanted == "linear":  # in a sum no parts act together
            continue
        try:
            expression, _ = drawing.found(set(), Counter())
        except AttributionLabError:  # in small images no rule of a kind may be fair
            continue
        text = str(expression)
        for usual, name in zip(PALETTE, colors, strict=True):
            text = text.replace(f"{usual}@", f"{name}@")
        env = world(
            text,
            image_size,
            colors=colors,
            background=background,
            items=[f"each@{place}" for place in QUADRANTS],
            area=AREA,
            equal_areas=True,
        )
        images, labels = env.batch(n, derived(key, "images"))
        truth = env.truth(images, env.targets(labels))
        signed, asked = truth.signed.numpy(), (truth.asked & ~truth.mixed).numpy()
        rule = _rule(env)
        pixels = images.numpy().astype(np.int64)
        signs = signs_of_parts(rule, pixels, signed, asked)
        together = contexts(rule, pixels)
        if signs is None or not together:
            continue
        doses = breaking_doses(rule, pixels, signed, _chosen(key, image_size))
        if len(set(doses.values())) == 1:
            continue
        env = env.camouflaged(derived(key, "camouflage"))
        methods = causes(env, images, truth.signed)
        if len(set(methods.values())) < 2:  # all pass, or all fail for the same reason
            continue
        answers = {
            "parts": {name: sign for name, sign in signs.items() if sign},
            "contexts": together,
            "baselines": safe_baselines(rule, candidates(rule)),
            "methods": methods,
            "doses": doses,
        }
        return World(env, images, signed, answers)
    raise AttributionLabError(
        f"none of {MOST_DRAWN} {difficulty} worlds can be asked at an image size of {image_size}: seal "
        "again, or take larger images"
    )


def _rule(env: Environment) -> Rule:
    assert isinstance(env.counting, Rule)
    return env.counting


def laboratory_files(key: bytes, found: World, difficulty: str) -> dict[str, bytes]:
    """The files of a laboratory but for the commitment: nothing in them is derived from the answers."""
    from safetensors.numpy import save

    rule = _rule(found.env)
    network = listed_network(found.env)
    names = {each["name"]: f"layer{k:02}" for k, each in enumerate(network.document["layers"])}

    def renamed(name: str) -> str:
        layer, _, tensor = name.rpartition(".")
        return f"{names[layer]}.{tensor}"

    layers = [
        {
            **each,
            "name": names[each["name"]],
            **{what: renamed(each[what]) for what in ("weight", "bias") if each.get(what)},
        }
        for each in network.document["layers"]
    ]
    tensors = {renamed(name): values for name, values in network.tensors.items()}
    document = {"schema": SCHEMA, "layers": layers, "input": network.document["input"]}
    spec = {
        "schema": SCHEMA,
        "difficulty": difficulty,
        "images": list(found.images.shape),
        "box": [0, 255],
        "output": "logit",
        "reading_weights": "allowed",
        "colors": rule.places.colors,
        "parts": [str(each) for each in parts(rule.places.colors)],
        "baselines": candidates(rule),
        "methods": METHODS,
        "causes": CAUSES,
        "doses": DOSES,
        "steps": STEPS,
        "points": POINTS,
    }
    questions = Path(__file__).with_name(QUESTIONS).read_text(encoding="utf-8")
    return {
        LAB: json_bytes(spec),
        NETWORK: json_bytes(document),
        WEIGHTS: save(tensors),
        IMAGES: npy_bytes(found.images.byte().numpy()),
        CHOSEN: npy_bytes(_chosen(key, found.env.recipe.image_size)),
        QUESTIONS: questions.encode(),
    }


def candidates(rule: Rule) -> dict[str, Color]:
    """Colors that may be baselines, lettered in their order: all that images show, and the usual."""
    colors = {tuple(rule.background), *rule.places.colors.values(), *GRAYS.values()}
    return {f"p{k}": (color[0], color[1], color[2]) for k, color in enumerate(sorted(colors))}


def _chosen(key: bytes, side: int) -> NDArray[np.bool_]:
    """Pixels that get a color at each dose: those of a small one do at a larger one too."""
    drawn = np.random.default_rng(derived(key, "doses")).random((side, side))
    return np.stack([drawn < dose for dose in DOSES])


def open_laboratory(lab: str | Path) -> Laboratory:
    """Open a sealed laboratory as torch objects: its network, its images and what is asked.

    Parameters
    ----------
    lab : str or Path
        A lab.zip that `seal_laboratory` wrote.

    Returns
    -------
    Laboratory

    Raises
    ------
    AttributionLabError
        If a file is missing or does not hold what it should.
    """
    files = lab_files(Path(lab))
    return Laboratory(
        json_document(files[LAB], LAB),
        _network(json_document(files[NETWORK], NETWORK), files[WEIGHTS]),
        torch.from_numpy(array_of(files[IMAGES], IMAGES).astype(np.float32)),
        torch.from_numpy(array_of(files[CHOSEN], CHOSEN).astype(bool)),
    )


def lab_files(lab: Path) -> dict[str, bytes]:
    """The files of a laboratory by name; nothing is known yet about what they hold."""
    files = zip_members(file_bytes(lab, LARGEST_LAB), LAB_FILES, str(lab), LARGEST_LAB)
    missing = [name for name in LAB_FILES if name not in files]
    if missing:
        raise AttributionLabError(
            f"{str(lab)!r} lacks {', '.join(missing)}: pass a laboratory that attributionlab seal wrote"
        )
    return files


def _network(document: Mapping[str, Any], weights: bytes) -> nn.Sequential:
    from safetensors.numpy import load

    modules: list[nn.Module] = []
    try:
        tensors = {name: torch.from_numpy(each) for name, each in load(weights).items()}
        for layer in document["layers"]:
            modules.append(_module(layer, tensors))
    except Exception as error:  # safetensors has an exception of its own
        raise AttributionLabError(f"{NETWORK} or {WEIGHTS} is damaged: {error}") from error
    return nn.Sequential(*modules).eval()


def _module(layer: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> nn.Module:
    kind = layer["kind"]
    if kind == "relu":
        return nn.ReLU()
    if kind == "flatten":
        return nn.Flatten()
    weight, bias = tensors[layer["weight"]], layer.get("bias")
    outputs, inputs = weight.shape[:2]
    module: nn.Conv2d | nn.Linear
    if kind == "conv2d":
        kernel, stride, padding = (tuple(layer[each]) for each in ("kernel", "stride", "padding"))
        module = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=bool(bias))
    else:
        module = nn.Linear(inputs, outputs, bias=bool(bias))
    state = {"weight": weight, **({"bias": tensors[bias]} if bias else {})}
    module.load_state_dict(state)
    return module
