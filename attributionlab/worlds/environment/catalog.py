"""The catalog: TOML files in designs/ and datasets/ become environments."""

import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, get_type_hints

from attributionlab.base import (
    AttributionLabError,
    Count,
    Share,
    Whole,
    argument_problems,
    named,
    nearest,
    plain_arguments,
    plain_torch,
    printable,
    refuse_if,
)
from attributionlab.worlds.environment import files
from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.environment.hidden import Hidden, still_hidden
from attributionlab.worlds.environment.spec import (
    EnvironmentSpec,
    counting_of,
    shading_of,
    shown_distractors,
)
from attributionlab.worlds.images.generators import GENERATORS
from attributionlab.worlds.images.recipe import ImageRecipe
from attributionlab.worlds.learned.architectures import ARCHITECTURES
from attributionlab.worlds.learned.trained import TrainedNetwork, stated_rule, with_trained
from attributionlab.worlds.learned.training import IMAGE_SIDE, LEARNING_IMAGES
from attributionlab.worlds.nets.camouflage.camouflaging import camouflaged
from attributionlab.worlds.nets.head import Temperature
from attributionlab.worlds.nets.implementations import IMPLEMENTATIONS, PAPER, TRAINED, implemented
from attributionlab.worlds.nets.networks import BUILDERS as NETWORKS
from attributionlab.worlds.nets.networks import Network
from attributionlab.worlds.rules.networks import rule

BUILDERS: dict[str, Callable[..., Network]] = {**NETWORKS, "rule": rule}
"""Networks by the name that a design gives."""


def default_constants(*functions: Callable[..., Any]) -> dict[str, Any]:
    """Default values of all their keyword arguments."""
    return {
        name: parameter.default
        for function in functions
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty
    }


DESIGN_KEYS = {"claim": str, "formula": str, "source": str, "builder": str, "dataset": str}
HIDDEN_KEY = "hidden"
"""The table of a design that it need not have."""
DATASET_KEYS: dict[str, Any] = {"generator": str, "size": Count, "seed": Whole}
ENVIRONMENT_CONSTANTS: dict[str, Any] = {
    "smoothing": Share,
    "temperature": Temperature,
    "keep_degenerate": bool,
    "implementation": Annotated[str, named((*IMPLEMENTATIONS, TRAINED))],
    "camouflage_seed": Whole,
    "trained": str,
    "trained_digest": str,
}
"""Constants that belong to neither network nor images: the smoothed truth's sigma as a fraction of
the image side, the softmax temperature, whether images with an empty or tied truth are kept, the
implementation of the network ("paper" where none is named; "trained" is the first trained one), the
seed of a camouflage (of that), which trained network stands in its place (`find_trained`), and the
digest of that."""
OPTIONAL_CONSTANTS = {
    *("temperature", "keep_degenerate", "implementation", "camouflage_seed"),
    *("trained", "trained_digest", "shades", "spread", "overlap", "shade_pattern"),
}
"""Constants that a specification holds only where they are stated."""
SMOOTHING = 0.04
"""Default of `smoothing`: 9 pixels at 224, a cell of the 25 x 25 maps that CAMs are made of."""


def load(name: str, **overrides: Any) -> Environment:
    """Load an environment by name or from a TOML file.

    Parameters
    ----------
    name : str
        A name from `environments`, the path of a TOML file of your own,
        "random:N:DIFFICULTY:SEED" for random worlds (`attributionlab.worlds.environment.world_set`), or
        a world of tokens (``environments("tokens")``), whose one constant is `length`.
    **overrides
        Constants of its design or data set (`image_size=72`, `redundant_channels=0`,
        `accumulator="uniform"`, `distractors=2`, `temperature=1`, ...), or `dataset="name"` for
        another data set.

    Returns
    -------
    Environment

    Raises
    ------
    AttributionLabError
        For an unknown name (suggesting the nearest one), and for all problems of the files or
        overrides: unknown keys, wrong types, impossible constants.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=72)
    >>> images, labels = env.batch(2)
    >>> images.shape, env.model(images).shape
    (torch.Size([2, 3, 72, 72]), torch.Size([2, 4]))
    """
    if not isinstance(name, str | os.PathLike):
        raise AttributionLabError(
            f"environment is {name!r}: give a name or the path of a TOML file"
        )
    if files.names_random_worlds(name):
        from attributionlab.worlds.environment.world_set import (
            named_worlds,  # which makes worlds by this
        )

        return named_worlds(name, **overrides)
    if name in files.TOKEN_WORLDS:
        from attributionlab.worlds.environment.token_worlds import loaded

        return loaded(str(name), **overrides)
    spec = stated_spec(str(name), **overrides)
    with plain_torch():
        env = _build(spec)
    env.reference, env.overrides = str(name), overrides
    path = files.find_spec(str(name), "designs", "environment").resolve()
    if (
        path.parent != files.specs_folder("designs").resolve()
    ):  # which may have a name of the catalog
        env.name = f"{spec.name} ({name}, {spec.digest[:8]})"
    return env


def trained_environment(
    world: str, architecture: str = "patch-cnn", seed: Whole = 0
) -> Environment:
    """Load a world with a certified network that was trained on its rule.

    Equal to ``load(world, image_size=24, trained="ARCHITECTURE.SEED")``: images and truth are those of
    the world at the size at which the network was trained (for marker-flips, images of the data set
    that it learned from). The network approximates the rule, so the truth is about whole patches:
    score a map's sum over each patch, not single pixels.

    Parameters
    ----------
    world : str
        A name from `environments`.
    architecture : str
        "patch-cnn", "cnn", "gelu-cnn" or "vit".
    seed : int
        Which of the included networks: see `trained_networks`.

    Returns
    -------
    Environment
        ``env.layers`` has the last layer with maps, for class activation maps.

    Raises
    ------
    AttributionLabError
        For an unknown world, and where there is no such network.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.trained_environment("quadrants", "patch-cnn", 0)
    >>> images, labels = env.batch(1)
    >>> abs(env.model(images)[0, 0].item() - labels[0].item()) < 5
    True
    """
    return load(world, image_size=IMAGE_SIDE, trained=f"{architecture}.{seed}")


def stated_spec(name: str, **overrides: Any) -> EnvironmentSpec:
    """Read and check what `load` builds, with the same errors."""
    path = files.find_spec(name, "designs", "environment")
    written = overrides.get("implementation")
    if isinstance(written, str) and written == TRAINED:
        overrides = {**_of_trained(path.stem), **overrides}
        del overrides["implementation"]
    learned = LEARNING_IMAGES.get(path.stem, {})
    if "trained" in overrides and "dataset" in learned:  # images with the colors that it learned
        overrides = {"dataset": learned["dataset"], **overrides}
    as_called = dict(overrides)
    design = files.read_spec(path)
    dataset_name = overrides.pop("dataset", design.get("dataset"))
    if not isinstance(dataset_name, str):
        raise AttributionLabError(f"{path.name}: dataset is {dataset_name!r}: give its name")
    dataset = files.read_spec(files.find_dataset(path, dataset_name))
    spec = _spec(path.stem, design, dataset, overrides)
    if "trained" in spec.constants and "trained_digest" not in spec.constants:
        spec = spec.with_constants(trained_digest=_trained(spec).digest)
    return replace(spec, hidden=still_hidden(spec.hidden, as_called))


def _of_trained(world: str) -> dict[str, Any]:
    """What makes a world's network the first trained one that comes with the package."""
    there = [each.split(".") for each in files.trained_networks()]
    own = [(kind, seed) for each, kind, seed in there if each == world]
    if not own:
        known = ", ".join(dict.fromkeys(each for each, *_ in there))
        raise AttributionLabError(
            f"implementation is {TRAINED!r}, but the package has no trained network of {world}: "
            f"take one of {known}, or train one with attributionlab train and name its file: "
            "trained='FILE.safetensors'"
        )
    kind, seed = min(own, key=lambda each: [*ARCHITECTURES].index(each[0]))
    return {"image_size": IMAGE_SIDE, "trained": f"{kind}.{seed}"}


def from_spec(spec: Mapping[str, Any]) -> Environment:
    """Build an environment from its specification alone, without any TOML file.

    `spec`: the fields of an `EnvironmentSpec`, as ``dataclasses.asdict`` and JSON have them.

    Raises AttributionLabError for all that is wrong with it, as `load`.
    """
    name, constants = spec.get("name"), spec.get("constants")
    if not isinstance(name, str) or not isinstance(constants, Mapping):
        raise AttributionLabError(
            f"the specification has the name {name!r} and the constants {constants!r}: give a text "
            "and a table"
        )
    keys = (*DESIGN_KEYS, HIDDEN_KEY)
    design = {key: spec[key] for key in keys if key in spec} | {"dataset": name}
    dataset = {key: spec[key] for key in DATASET_KEYS if key in spec}
    with plain_torch():
        return _build(_spec(name, design, dataset, dict(constants)))


def load_call(env: Environment) -> str:
    """How Python would make an environment again."""
    arguments = [repr(env.reference)] if env.has_roles else ["model", "images", "truth"]
    arguments += [f"{key}={value!r}" for key, value in env.overrides.items()]
    return f"attributionlab.{env.maker}({', '.join(arguments)})"


def as_environments(
    environments: Sequence[str | Environment] | str | Environment,
) -> list[Environment]:
    """Names, environments or a mixture, as environments."""
    if isinstance(environments, str | os.PathLike | Environment):
        environments = [environments]
    if not isinstance(environments, list | tuple) or not environments:
        raise AttributionLabError(
            f"environments is {environments!r}: name at least one, in a list, or leave it out"
        )
    return [each if isinstance(each, Environment) else load(each) for each in environments]


def as_environment(env: str | Environment) -> Environment:
    """The environment of a name, or itself; a list must have one."""
    found = as_environments(env)
    if len(found) > 1:
        raise AttributionLabError(f"env is {env!r}: take one environment")
    return found[0]


def _spec(
    name: str, design: dict[str, Any], dataset: dict[str, Any], overrides: dict[str, Any]
) -> EnvironmentSpec:
    """Check both files and the overrides against the signatures; report all problems at once."""
    problems: list[str] = []
    dataset |= {key: overrides.pop(key) for key in ("size", "seed") if key in overrides}
    hidden = design.get(HIDDEN_KEY, {})
    problems += argument_problems({HIDDEN_KEY: hidden}, {HIDDEN_KEY: Hidden})
    head = _head("design", _without(design, HIDDEN_KEY), DESIGN_KEYS, problems)
    head |= _head("data set", dataset, DATASET_KEYS, problems)
    for what, known in (("builder", BUILDERS), ("generator", GENERATORS)):
        if what in head and head[what] not in known:
            problems.append(f"no {what} named {head[what]!r}: {nearest(head[what], known)}")
    builder = BUILDERS.get(head.get("builder", ""))
    generator = GENERATORS.get(head.get("generator", ""))
    if builder is None or generator is None:
        # Without them no constant can be checked.
        raise AttributionLabError(f"{name}: " + "; ".join(problems))

    images = _schema(generator)
    network = {key: hint for key, hint in _schema(builder).items() if key not in images}
    network |= ENVIRONMENT_CONSTANTS
    in_design, in_dataset = _constants(design), _constants(dataset)
    for what, given, schema, other in (
        ("design", in_design, network, images),
        ("data set", in_dataset, images, network),
    ):
        problems += [
            f"the constant {key!r} of the {what} belongs in the file of the other part"
            for key in given
            if key in other and key not in schema
        ]
    given = in_dataset | in_design | overrides
    constants = _checked(given, network | images, "constant", problems)
    defaults = default_constants(builder, generator) | {"smoothing": SMOOTHING}
    required = (network | images).keys() - defaults.keys() - OPTIONAL_CONSTANTS
    problems += [f"the constant {key!r} is missing" for key in sorted(required - given.keys())]
    if "trained_digest" in constants and "trained" not in constants:
        problems.append(
            "trained_digest is given without trained: name the network, or leave it out"
        )
    refuse_if(problems, name)
    if constants.get("implementation") == PAPER:  # the digest is that of the same network
        del constants["implementation"]
    defaults = {key: value for key, value in defaults.items() if key not in OPTIONAL_CONSTANTS}
    del head["dataset"]
    return EnvironmentSpec(
        name=name,
        **head,
        constants=dict(sorted((defaults | constants).items())),
        hidden=dict(hidden),
    )


def _head(
    what: str, file: dict[str, Any], keys: Mapping[str, Any], problems: list[str]
) -> dict[str, Any]:
    """The entries of a file outside its constants."""
    head = {key: value for key, value in file.items() if key != "constants"}
    problems += [f"the {what} lacks {key!r}" for key in keys if key not in head]
    if not isinstance(file.get("constants", {}), dict):
        problems.append(f"the {what}'s constants are not a table: write [constants] above them")
    return _checked(head, keys, f"{what} key", problems)


def _without(file: dict[str, Any], left_out: str) -> dict[str, Any]:
    return {key: value for key, value in file.items() if key != left_out}


def _constants(file: dict[str, Any]) -> dict[str, Any]:
    constants = file.get("constants", {})
    return constants if isinstance(constants, dict) else {}


def _checked(
    given: Mapping[str, Any], schema: Mapping[str, Any], what: str, problems: list[str]
) -> dict[str, Any]:
    """Values converted to their annotated types; what cannot be is added to the problems."""
    problems += [
        f"unknown {what} {key!r} ({nearest(key, schema)})" for key in given if key not in schema
    ]
    known = {  # a table is pairs in its order
        key: [*value.items()] if isinstance(value, Mapping) else value
        for key, value in given.items()
        if key in schema
    }
    problems += argument_problems(known, schema)
    return plain_arguments(known, schema)


def _schema(function: Any) -> dict[str, Any]:
    hints = get_type_hints(function, include_extras=True)
    hints.pop("return")
    return hints


def _build(spec: EnvironmentSpec) -> Environment:
    """Hand each constant to the network and the images that take it."""
    problems: list[str] = []
    made: list[Any] = []
    for make in (network_of, _recipe_of):
        try:
            made.append(make(spec))
        except AttributionLabError as error:
            # Network and images may find the same wrong.
            problems += [each for each in error.problems or [str(error)] if each not in problems]
    refuse_if(problems, printable(spec.name))
    network, recipe = made
    _check_fit(spec, network, recipe)
    env = Environment(spec, network, recipe)
    env.dataset(1)[0]  # an impossible data set fails here and not when it is used
    return env


def network_of(spec: EnvironmentSpec) -> Network:
    """The network of a specification."""
    taken = _taken(BUILDERS[spec.builder], spec)
    if "distractor_colors" in taken:
        taken["distractor_colors"] = shown_distractors(spec.constants)  # it knows no others
    network = BUILDERS[spec.builder](**taken)
    if "trained" in spec.constants:
        return _in_place(network, spec)
    if "implementation" in spec.constants:
        seed = spec.constants.get("weight_seed", 0)
        network = implemented(network, spec.constants["implementation"], seed)
    if "camouflage_seed" in spec.constants:
        return camouflaged(network, spec.constants["camouflage_seed"])
    return network


def _trained(spec: EnvironmentSpec) -> TrainedNetwork:
    """The trained network of a specification, which no rewriting can be asked of."""
    for key in ("implementation", "camouflage_seed"):
        if key in spec.constants:
            raise AttributionLabError(
                f"{key} is {spec.constants[key]}, but a trained network has no other implementation: "
                "leave one of them out"
            )
    if (shading := shading_of(spec)).shades > 1:
        raise AttributionLabError(
            f"shades is {shading.shades}, but networks are trained on flat colors: leave shades and "
            "spread out"
        )
    return TrainedNetwork.read(files.find_trained(spec.name, spec.constants["trained"]))


def _in_place(exact: Network, spec: EnvironmentSpec) -> Network:
    """A trained network in place of the hand-weighted one, if it learned that one's rule."""
    trained = _trained(spec)
    if (known := spec.constants.get("trained_digest", trained.digest)) != trained.digest:
        raise AttributionLabError(
            f"trained is {spec.constants['trained']!r}, whose digest is {trained.digest[:16]!r} and "
            f"not {known[:16]!r}, as trained_digest says: take the network with that digest"
        )
    if trained.rule != (asked := stated_rule(spec.constants, counting_of(spec), exact.classes)):
        learned, stated = json.loads(trained.rule), json.loads(asked)
        key = next(key for key in (*stated, *learned) if stated.get(key) != learned.get(key))
        raise AttributionLabError(
            f"trained is {spec.constants['trained']!r}, which was trained with {key} "
            f"{learned.get(key)!r}, but here it is {stated.get(key)!r}: use the same, or train another "
            "network"
        )
    return with_trained(exact, trained)


def _recipe_of(spec: EnvironmentSpec) -> ImageRecipe:
    return GENERATORS[spec.generator](**_taken(GENERATORS[spec.generator], spec))


def _taken(function: Callable[..., Any], spec: EnvironmentSpec) -> dict[str, Any]:
    """The constants that a builder or generator takes."""
    return {key: spec.constants[key] for key in _schema(function) if key in spec.constants}


def _check_fit(spec: EnvironmentSpec, network: Network, recipe: ImageRecipe) -> None:
    """Refuse a network and images that do not belong together."""
    if network.channels != recipe.channels or network.highest < recipe.highest:
        raise AttributionLabError(
            f"{spec.name}: {spec.builder} takes images of {network.channels} channels up to "
            f"{network.highest}, {spec.generator} makes {recipe.channels} channels up to "
            f"{recipe.highest}: choose a builder and a generator that fit"
        )
    if spec.constants.get("number") in recipe.background:
        raise AttributionLabError(
            f"{spec.name}: number is {spec.constants['number']}, the background: take another"
        )
    if network.classes == 1 and "temperature" in spec.constants:
        raise AttributionLabError(
            f"{spec.name}: temperature is {spec.constants['temperature']}, but a regression has no "
            "softmax: leave it out"
        )
