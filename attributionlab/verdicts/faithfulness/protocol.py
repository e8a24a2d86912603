"""A protocol: what a test asks unless it is changed, with a name and a hash to compare reports by."""

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from attributionlab.base import CONFIDENCE, FEWEST_QUESTIONS, GAMMA, LEAST_SHARE, SOLVED_ABOVE
from attributionlab.methods import Method
from attributionlab.metrics import FLOOR
from attributionlab.show import KNOWLEDGE
from attributionlab.verdicts.faithfulness.isolation import Described, fingerprint_of
from attributionlab.worlds import Environment, EnvironmentSpec, stated_spec

NAME = "protocol 1"
DEFAULT_ENVIRONMENTS = ("multi-color-sum-distractors", "quadrants", "marker-flips", "all-four")
"""Roles and targets, places, context, conjunction: each kind of blind map fails in one of them."""
QUESTIONS = 32
RULES: Mapping[str, float] = {
    "solved_above": SOLVED_ABOVE,
    "least_share": LEAST_SHARE,
    "confidence": CONFIDENCE,
    "fewest_questions": FEWEST_QUESTIONS,
    "floor": FLOOR,
    "paper_gamma": GAMMA,
}


@lru_cache(maxsize=1)
def _specs() -> dict[str, EnvironmentSpec]:
    return {name: stated_spec(name) for name in DEFAULT_ENVIRONMENTS}


@lru_cache(maxsize=1)
def protocol_document() -> dict[str, Any]:
    """The protocol as plain values: environments by name with their digests, n, rules."""
    return {
        "name": NAME,
        "environments": {name: spec.digest for name, spec in _specs().items()},
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


def protocol_changes(environments: Sequence[Environment], **given: Any) -> list[str]:
    """What differs from the protocol, as "n = 8"; empty where nothing does.

    `given`: options by name; those that are None, False or 0 are as the protocol has them.
    """
    found = _environment_changes(environments)
    n = given.pop("n")
    found += [f"n = {n}"] if n != QUESTIONS else []
    return found + [f"{name} = {value}" for name, value in given.items() if value]


def _environment_changes(environments: Sequence[Environment]) -> list[str]:
    specs = _specs()
    digests = {spec.digest for spec in specs.values()}
    if {env.spec.digest for env in environments} == digests:
        return []
    names = [env.spec.name for env in environments]
    differing = [
        {
            key: value
            for key, value in env.spec.constants.items()
            if specs[env.spec.name].constants.get(key) != value
        }
        for env in environments
        if env.spec.name in specs
    ]
    same = all(each == differing[0] for each in differing)
    if sorted(names) == sorted(specs) and same and differing[0]:
        return [f"{key} = {value}" for key, value in differing[0].items()]
    return [f"environments = {', '.join(env.name for env in environments)}"]


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
