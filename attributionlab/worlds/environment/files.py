"""The TOML files of the catalog: where they are and what they hold; reading them imports no torch."""

import os
import tomllib
from pathlib import Path
from typing import Any, Literal, TypeGuard

from attributionlab.base import AttributionLabError, nearest

TRAINED_SUFFIX = ".safetensors"


TOKEN_WORLDS = (
    *("after-marker", "deepest", "fewer-of-two", "halves", "induction", "last", "more-words"),
    *("negation", "retrieve-scores", "retrieve-values", "word-counts"),
)
"""Worlds of tokens (`worlds.tokens.languages.LANGUAGES`)."""


def environments(kind: Literal["images", "tokens"] = "images") -> list[str]:
    """Names of the catalog's environments, in alphabetical order: of images, or worlds of tokens."""
    if kind not in ("images", "tokens"):
        raise AttributionLabError(f"kind is {kind!r}: take 'images' or 'tokens'")
    designs = (path.stem for path in specs_folder("designs").glob("*.toml"))
    return sorted(designs if kind == "images" else TOKEN_WORLDS)


def names_random_worlds(name: object) -> TypeGuard[str]:
    """Whether it is a name such as "random:50:medium:7" (`worlds.environment.world_set`)."""
    return isinstance(name, str) and name.partition(":")[0] == "random"


def counting_environments() -> list[str]:
    """Those that count colors, numbers or white pixels; all others are worlds from rules."""
    builders = {
        name: read_spec(find_spec(name, "designs", "environment")).get("builder")
        for name in environments()
    }
    return [name for name, builder in builders.items() if builder != "rule"]


def describe(name: str) -> str:
    """What an environment of the catalog computes, in a sentence, without building it."""
    return str(read_spec(find_spec(name, "designs", "environment")).get("claim", ""))


def specs_folder(kind: str) -> Path:
    """Where the TOML files are: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[2]
    packaged = package / "_specs" / kind
    return packaged if packaged.is_dir() else package.parent / kind


def find_spec(name: str, kind: str, what: str) -> Path:
    """The file of a name of the catalog, or of a path that ends in .toml."""
    if name.endswith(".toml"):
        path = Path(name)
        if not os.path.isfile(name):  # unlike Path.is_file, also answers for impossible names
            raise AttributionLabError(f"no {what} file at {name!r}: check the path")
        return path
    path = specs_folder(kind) / f"{name}.toml"
    known = {found.stem for found in specs_folder(kind).glob("*.toml")}
    known |= {*TOKEN_WORLDS} if kind == "designs" and name not in TOKEN_WORLDS else set()
    if name not in known:
        raise AttributionLabError(f"no {what} named {name!r}: {nearest(name, known)}")
    return path


def trained_networks() -> list[str]:
    """List the trained networks included in the package, as WORLD.ARCHITECTURE.SEED."""
    return sorted(path.stem for path in _trained_folder().glob(f"*{TRAINED_SUFFIX}"))


def find_trained(world: str, which: str) -> Path:
    """The file of a trained network: ARCHITECTURE.SEED, or a path that ends in .safetensors."""
    if which.endswith(TRAINED_SUFFIX):
        if not os.path.isfile(which):
            raise AttributionLabError(f"no trained network at {which!r}: check the path")
        return Path(which)
    name = f"{world}.{which}"
    if name not in trained_networks():
        own = [each.removeprefix(f"{world}.") for each in trained_networks()]
        there = [each for each, full in zip(own, trained_networks(), strict=True) if each != full]
        known = f"{world} has {', '.join(there)}" if there else f"{world} has none"
        raise AttributionLabError(
            f"trained is {which!r}: {known}; make another with `attributionlab train {world}`, and "
            "give the path of its file"
        )
    return _trained_folder() / f"{name}{TRAINED_SUFFIX}"


def _trained_folder() -> Path:
    return specs_folder("designs") / "trained"


def find_dataset(design: Path, name: str) -> Path:
    """The file of a design's data set; a user's design may bring its own, beside it."""
    beside = design.parent / name
    return beside if os.path.isfile(beside) else find_spec(name, "datasets", "data set")


def read_spec(path: Path) -> dict[str, Any]:
    """The content of a TOML file, or one line that says why there is none."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError, OSError) as error:
        raise AttributionLabError(f"{path.name} is not valid TOML: {error}") from error
