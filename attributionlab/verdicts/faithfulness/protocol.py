"""What a test asks: the protocol, with a name and a hash to compare reports by, and what a user asks
beside it or in its place.
"""

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack, get_args

from attributionlab.base import (
    CONFIDENCE,
    FEWEST_QUESTIONS,
    GAMMA,
    LEAST_SHARE,
    MOST_IMAGES,
    QUESTIONS,
    SOLVED_ABOVE,
    AttributionLabError,
    boolean_problem,
    integer_problem,
    nearest,
    own_arithmetic,
    refuse_if,
    repeated_problem,
    written,
)
from attributionlab.methods import PRESETS, Method
from attributionlab.metrics import FLOOR
from attributionlab.runs import Running
from attributionlab.show import KNOWLEDGE
from attributionlab.verdicts.faithfulness.isolation import Described, fingerprint_of
from attributionlab.worlds import (
    Environment,
    EnvironmentSpec,
    as_environment,
    as_environments,
    environments,
    load,
    stated_spec,
)
from attributionlab.worlds.nets import EQUIVALENT, IMPLEMENTATIONS, TRAINED
from attributionlab.worlds.truth import Output

NAME = "protocol 1"
FLAT_ENVIRONMENTS = ("multi-color-sum-distractors", "quadrants", "marker-flips", "all-four")
"""Roles and targets, places, context, conjunction: each kind of blind map fails in one of them."""
DEFAULT_ENVIRONMENTS = (*FLAT_ENVIRONMENTS, "quadrants-of-shades")
"""Images of the last have many shades: a method cannot tell by few colors that it is being tested."""
TOKEN_ENVIRONMENTS = ("halves", "more-words", "retrieve-scores", "retrieve-values", "word-counts")
"""Worlds of tokens that together hide everything a question can hide."""
SETS: Mapping[str, Sequence[str]] = {"images": DEFAULT_ENVIRONMENTS, "tokens": TOKEN_ENVIRONMENTS}
"""Names that stand for several environments."""
DEFAULT_IMPLEMENTATIONS = ("paper", "natural")
"""A method that is right on only one of them depends on how a network is written."""
SIDE = 72
"""Side of the images, in pixels, of environments that are named; those of the paper have 224."""
RULES: Mapping[str, float] = {
    "solved_above": SOLVED_ABOVE,
    "least_share": LEAST_SHARE,
    "confidence": CONFIDENCE,
    "fewest_questions": FEWEST_QUESTIONS,
    "floor": FLOOR,
    "paper_gamma": GAMMA,
}


@lru_cache(maxsize=1)
def _specs() -> dict[tuple[str, str], EnvironmentSpec]:
    """What is asked, by environment and implementation, without building the networks."""
    return {
        (name, implementation): stated_spec(name, implementation=implementation, image_size=SIDE)
        for name in DEFAULT_ENVIRONMENTS
        for implementation in DEFAULT_IMPLEMENTATIONS
    }


@lru_cache(maxsize=1)
def protocol_document() -> dict[str, Any]:
    """The protocol as plain values: environments with digests by implementation, n, rules."""
    digests: dict[str, dict[str, str]] = {}
    for (name, implementation), spec in _specs().items():
        digests.setdefault(name, {})[implementation] = spec.digest
    return {
        "name": NAME,
        "environments": digests,
        "n": QUESTIONS,
        "rules": dict(RULES),
    }


def protocol_hash() -> str:
    """SHA-256 of the protocol as canonical JSON: keys sorted, no spaces."""
    text = json.dumps(protocol_document(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def protocol_entry(changed: Sequence[str]) -> dict[str, Any]:
    """Entry of a report in JSON: name and hash of the protocol, and what differs from it."""
    return {"name": NAME, "sha256": protocol_hash(), "changed": list(changed)}


def _environment_changes(environments: Sequence[Environment]) -> list[str]:
    """Environments, implementations and constants that are not the protocol's."""
    specs = _specs()
    given = {(env.spec.name, env.implementation): env.spec for env in environments}
    if {spec.digest for spec in given.values()} == {spec.digest for spec in specs.values()}:
        return []
    written = tuple(dict.fromkeys(implementation for _, implementation in given))
    own = {each for each in written if each in IMPLEMENTATIONS} != set(DEFAULT_IMPLEMENTATIONS)
    found = [f"implementations = {', '.join(written)}"] if own else []
    asked = {each for each in specs if each[1] in written}
    others = given.keys() != asked or len(given) != len(environments)
    by_name: dict[str, dict[str, Any]] = {}
    for env in environments:
        name, constants = env.name.replace(f" ({env.implementation})", "", 1), _own_constants(env)
        usual = specs.get((env.spec.name, env.implementation), env.spec)
        others |= (
            not constants and usual.digest != env.spec.digest
        )  # only its name is the catalog's
        by_name.setdefault(name, {}).update(constants)
    if others:
        found = [f"environments = {', '.join(by_name)}", *found]
    first, *more = by_name.values()
    if all(each == first for each in more):
        return found + [f"{key} = {value}" for key, value in first.items()]
    return found + [
        f"{key} of {name} = {value}"
        for name, each in by_name.items()
        for key, value in each.items()
    ]


def _own_constants(env: Environment) -> dict[str, Any]:
    """Constants that a test would not give to an environment of this name, such as another size."""
    spec, written = env.spec, {}
    usual = _specs().get((spec.name, env.implementation))
    if usual is None and env.reference in environments() and not spec.is_trained:
        if env.implementation in IMPLEMENTATIONS:
            written = {"implementation": env.implementation}
        usual = stated_spec(spec.name, image_size=SIDE, **written)
    if usual is None:  # a file, a rule, a trained network
        side = spec.constants.get("image_size", SIDE)
        return {"image_size": side} if side != SIDE else {}
    return {key: each for key, each in spec.constants.items() if usual.constants.get(key) != each}


def source_of(method: Method) -> dict[str, Any]:
    """Which code was tested: a built-in method's name, or a file with its SHA-256.

    `fingerprint` covers the code that the file imports, too (`attributionlab.runs.cells.fingerprint`).
    """
    if method.built_in:
        return {"built_in": True, "file": None, "sha256": None, "fingerprint": None}
    function = method.function
    code = function if inspect.isfunction(function) or inspect.isclass(function) else type(function)
    try:
        own = isinstance(function, Described)  # it is loaded in a process of its own
        file = function.file if own else inspect.getsourcefile(inspect.unwrap(code))
        data = Path(str(file)).read_bytes()
    except (OSError, TypeError, ValueError):  # made in a notebook or an interpreter, or an array
        file, data = None, None
    return {
        "built_in": False,
        "file": file and Path(file).name,
        "sha256": None if data is None else hashlib.sha256(data).hexdigest(),
        "fingerprint": fingerprint_of(method),
    }


def given_to(method: Method) -> list[str]:
    """Which arguments of `KNOWLEDGE` the method declares, and is given."""
    return [name for name in KNOWLEDGE if method.asks_for(name) and name not in method.settings]


def bound_seed(method: Method) -> int:
    """A seed that follows from the protocol and the method's code: nobody can choose it.

    Another comment in the method's file gives another one, which `sha256` beside it shows.
    """
    source = source_of(method)
    known = [protocol_hash(), method.name, source["fingerprint"]]
    return int(hashlib.sha256(json.dumps(known).encode()).hexdigest()[:13], 16)


Claim = Literal["signed", "overall", "positive", "positive-smoothed", "agreed"]
"""What a verdict may rest on. "agreed" is "signed" on the pixels to which all definitions of the truth
give the same sign; the other pixels do not count."""

Explained = Output | tuple[Output, Output]
"""The output that is explained and that the truth is about; a pair names them one after the other."""

COUNTED: Mapping[str, tuple[int, int]] = {
    "camouflage": (3, 100),
    "equivalent": (len(EQUIVALENT), len(EQUIVALENT)),
    "seeds": (5, 1_000),
}
"""Numbers in `Also`, each with its default and its largest value."""
ALSO = ("truths", *COUNTED)


class RunningMethods(Running, total=False):
    """How methods are run: keywords of everything that runs a user's method.

    Parameters
    ----------
    isolated : bool
        Run a user's method in a process of its own, which holds the network, images, targets and
        arguments, and neither truth nor scores; so it is by default. What such a method notes in
        variables stays there. Set it to False for one that cannot be sent to another process; the
        report then says so.
    """

    isolated: bool


class Also(NamedTuple):
    """What is measured beside the verdict; a number of 0 asks for nothing."""

    diagnosis: bool = False
    """the method's resolution, likely causes and, on one network, the runner-up class"""
    truths: bool = False
    """scores against every definition of the truth"""
    camouflage: int = 0
    """number of camouflaged networks on which images are explained again"""
    equivalent: int = 0
    """number of networks with identical outputs on which each question is asked again"""
    seeds: int = 1
    """number of runs on each image, for a method that draws random numbers"""

    @property
    def words(self) -> tuple[str, ...]:
        """The words that ask for all of it except the diagnosis."""
        counts = [(name, getattr(self, name)) for name in COUNTED]
        asked = [f"{name}:{count}" for name, count in counts if count > (name == "seeds")]
        return (*(["truths"] if self.truths else []), *asked)


DIAGNOSED = Also(diagnosis=True)


@dataclass(frozen=True)
class Request:
    """What is asked of a method wherever it is tested; `faithfulness_test` says what each means.

    `claim` is None for the method's own.
    """

    n: int = QUESTIONS
    seed: int = 0
    claim: Claim | None = None
    explain: Explained | None = None
    preset: str | None = None
    one_network: bool = False
    also: Also = DIAGNOSED

    @property
    def outputs(self) -> tuple[Output | None, Output | None]:
        """The output that is explained, and the truth's where it is another."""
        return self.explain if isinstance(self.explain, tuple) else (self.explain, None)

    @property
    def options(self) -> dict[str, Any]:
        """Keywords that differ from their defaults, without `also`."""
        names = ("claim", "n", "seed", "explain", "preset", "one_network")
        given = {name: getattr(self, name) for name in names}
        return {name: each for name, each in given.items() if each != getattr(DEFAULT, name)}

    def changes(self, environments: Sequence[Environment]) -> list[str]:
        """What differs from the protocol, as "n = 8"; empty where nothing does."""
        output, truth_output = self.outputs
        given = {
            "claim": self.claim,
            "output": output,
            "truth_output": truth_output,
            "preset": self.preset,
            "seeds": self.also.seeds if self.also.seeds > 1 else None,
            "one_network": self.one_network,
        }
        found = _environment_changes(environments)
        found += [f"n = {self.n}"] if self.n != QUESTIONS else []
        return found + [f"{name} = {value}" for name, value in given.items() if value]

    def call(self, *arguments: str, **running: Unpack[RunningMethods]) -> str:
        """The arguments of a call in Python that repeats the request."""
        given = {"n": self.n, "seed": self.seed, **self.options, "also": self.also.words}
        given |= {key: running.get(key) for key in ("isolated", "device", "jobs")}
        said = [f"{key}={each!r}" for key, each in given.items() if each not in (None, ())]
        return ", ".join([*arguments, *said])


DEFAULT = Request()


def requested(
    n: Any,
    seed: Any,
    claim: Any = None,
    explain: Any = None,
    preset: Any = None,
    one_network: Any = False,
    also: Any = (),
) -> Request:
    """What a user asks for. Raises AttributionLabError for all that is wrong with it, at once.

    `also` is None for a verdict without a diagnosis.
    """
    problems = [*integer_problem("n", n, 1, MOST_IMAGES), *integer_problem("seed", seed, 0)]
    if claim is not None and claim not in get_args(Claim):
        problems.append(f"claim is {claim!r}: {nearest(str(claim), get_args(Claim))}")
    outputs = tuple(explain) if isinstance(explain, list | tuple) else (explain,)
    if explain is not None:
        problems += [
            f"no output {each!r} to explain: {nearest(str(each), get_args(Output))}"
            for each in outputs
            if each not in get_args(Output)
        ]
    if len(outputs) not in (1, 2):
        problems.append(f"explain is {explain!r}: take one output, or two, the truth's behind it")
    if preset is not None and not (isinstance(preset, str) and preset in PRESETS):
        problems.append(f"preset is {preset!r}: {nearest(str(preset), PRESETS)}")
    problems += boolean_problem("one_network", one_network)
    words = [also] if isinstance(also, str) else [] if also is None else also
    beside: dict[str, Any] = {"diagnosis": also is not None}
    if not isinstance(words, list | tuple) or not all(isinstance(each, str) for each in words):
        problems.append(f"also is {written(also)}: name {', '.join(ALSO)}, in a list")
        words = []
    for word in words:
        name, colon, number = word.partition(":")
        if name in beside:
            problems.append(f"also names {name!r} twice: name it once")
        elif name not in ALSO or (colon and name not in COUNTED):
            problems.append(f"also names {word!r}: {nearest(word, ALSO)}")
        elif colon:
            beside[name] = int(number) if number.isdecimal() else number
            problems += integer_problem(f"also: {name}", beside[name], 1, COUNTED[name][1])
        else:
            beside[name] = COUNTED[name][0] if name in COUNTED else True
    refuse_if(problems)
    chosen: Any = outputs if len(outputs) == 2 else outputs[0]
    return Request(int(n), int(seed), claim, chosen, preset, one_network, Also(**beside))


def places_of(
    environments: Sequence[str | Environment] | str | Environment | None,
    running: Running,
    implementations: Sequence[str] | str | None = None,
    image_size: int | None = None,
) -> list[Environment]:
    """The environments of a test, where it computes; those of the protocol by default, and for a name
    of `SETS` all that it stands for.

    Each is asked in each of `implementations`. If that is None, a name is asked in those of the
    protocol that it has, and an `Environment` as it is.
    """
    given = DEFAULT_ENVIRONMENTS if environments is None else environments
    one = isinstance(given, str | PathLike | Environment)
    listed: Any = of_sets([given] if one else given)
    chosen = list[Environment]()
    for env, each in zip(named_environments(listed, image_size), listed, strict=True):
        is_made = implementations is None and isinstance(each, Environment)
        asked = DEFAULT_IMPLEMENTATIONS if implementations is None else implementations
        chosen += [env] if is_made else in_implementations(env, asked)
    names = [implementations] if isinstance(implementations, str) else [*(implementations or ())]
    if names and "paper" not in names and all(env.is_of_tokens for env in chosen):
        raise AttributionLabError(
            f"implementations are {', '.join(names)}, but worlds of tokens have only one network, a "
            "transformer: leave implementations out"
        )
    if len({env.spec.digest for env in chosen}) < len(chosen):
        names = [env.name for env in chosen]
        raise AttributionLabError(f"environments are {', '.join(names)}: name each once")
    device = running.get("device")
    with own_arithmetic():
        return chosen if device is None else [env.to(device) for env in chosen]


def of_sets(given: Any) -> Any:
    """Environments, with each name of `SETS` replaced by the names that it stands for."""
    if not isinstance(given, list | tuple):
        return given
    return [
        name
        for each in given
        for name in (SETS.get(each, [each]) if isinstance(each, str) else [each])
    ]


def named_environments(
    given: Sequence[str | Environment], image_size: int | None = None
) -> list[Environment]:
    """Load environments that are given by name; an `Environment` stays as it is.

    `image_size`: side of the images of named ones, in pixels, except worlds of tokens; by default the
    protocol's for names of the catalog, and for files their own.
    """
    if not isinstance(given, list | tuple):
        return as_environments(given)  # which refuses it
    known, tokens = environments(), environments("tokens")
    loaded = list[str | Environment]()
    for each in given:
        side = SIDE if image_size is None and each in known else image_size
        is_sized = isinstance(each, str | PathLike) and side is not None and each not in tokens
        loaded.append(load(each, image_size=side) if is_sized else each)
    return as_environments(loaded)


def named_environment(env: str | Environment, image_size: int | None = None) -> Environment:
    """One environment as it is, or loaded as `named_environments` does."""
    is_name = isinstance(env, str | PathLike)
    return named_environments([env], image_size)[0] if is_name else as_environment(env)


def in_implementations(env: Environment, names: Sequence[str] | str) -> list[Environment]:
    """An environment in each of the implementations that apply to it; "trained" loads a network that
    was trained on its rule.

    An environment in another implementation than the paper's, or a user's own, stays as it is.

    Raises AttributionLabError for unknown or repeated names, and where none applies.
    """
    names = [names] if isinstance(names, str) else [*names]
    known = (*IMPLEMENTATIONS, TRAINED)
    unknown = [name for name in names if name not in known]
    refuse_if(
        [f"no implementation {name!r}: {nearest(str(name), known)}" for name in unknown]
        + repeated_problem("implementations", names)
        + ["implementations are empty: name at least one"] * (not names)
    )
    if not env.implementations:
        return [env]
    found = [name for name in names if name in (*env.implementations, TRAINED)]
    if not found:
        raise AttributionLabError(
            f"implementations are {', '.join(names)}, but {env.name} has none of them: take some of "
            f"{', '.join(env.implementations)}"
        )
    return [_trained(env) if name == TRAINED else env.with_implementation(name) for name in found]


def _trained(env: Environment) -> Environment:
    """The same environment with a trained network of the package, at the image size that it learned."""
    others = {key: value for key, value in env.overrides.items() if key != "image_size"}
    found = load(env.reference, **others, implementation=TRAINED)
    found.name = f"{env.name} ({TRAINED})"
    return found.to(env.device)
