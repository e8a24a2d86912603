"""What a sweep runs: axes from a TOML file or a mapping, crossed or zipped, all checked at once."""

import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from attributionlab.base import AttributionLabError, as_device, nearest, refuse_if
from attributionlab.methods import as_method
from attributionlab.runs import fingerprint
from attributionlab.verdicts.controls import KNOWN
from attributionlab.verdicts.faithfulness.calls import bound_to_one_network
from attributionlab.verdicts.faithfulness.protocol import requested
from attributionlab.verdicts.faithfulness.report import labelled
from attributionlab.verdicts.metric_trials.conditions import conditions_of
from attributionlab.verdicts.metric_trials.registry import as_metric
from attributionlab.worlds import Environment, load, read_spec

LISTS = {"environments": "environment", "methods": "method", "metrics": "metric", "seeds": "seed"}
"""Keys that hold a list, and the axis that each makes."""
OPTIONS: Mapping[str, Any] = {
    "n": 8,
    "claim": None,
    "output": None,
    "one_network": False,
}
"""Keys with one value or a list of them, which is then an axis; their defaults."""
SETTINGS: Mapping[str, Any] = {"preset": None, "device": None}
"""Keys with one value."""
KEYS = (*LISTS, "doses", *OPTIONS, *SETTINGS, "zip")
AXES = ("environment", "seed", *OPTIONS, "method", "metric", "dose")
"""In this order, the first varies slowest: cells of one environment and seed share its questions."""
MOST_COMBINATIONS = 10_000_000


class Named(NamedTuple):
    """A value of the axis "environment", "method" or "metric"."""

    label: str
    """its name with the constants or settings that the sweep sets"""
    value: Any
    """an Environment, a Method or a Metric"""
    identity: str
    """what tells it from others: a digest, the name of what is built in, or a fingerprint"""


class Dose(NamedTuple):
    """A value of the axis "dose"."""

    axis: str
    dose: float


@dataclass(frozen=True, eq=False)
class SweepSpec:
    """A sweep that can be run.

    - `axes`: values of each axis, in the order of `AXES`.
    - `together`: the axes in groups: those of a group are zipped, and the groups are crossed.
    - `listed`: options that were given as a list: they are part of a cell's name.
    - `settings`: `SETTINGS`.
    - `document`: what it was made from, as JSON; None where that holds objects of Python.
    """

    axes: Mapping[str, Sequence[Any]]
    together: Sequence[tuple[str, ...]]
    listed: frozenset[str]
    settings: Mapping[str, Any]
    document: Mapping[str, Any] | None

    def combinations(self) -> Iterator[dict[str, Any]]:
        """A value of each axis, for every combination, the last group varying fastest."""
        columns = [
            list(zip(*(self.axes[axis] for axis in group), strict=True)) for group in self.together
        ]
        names = [axis for group in self.together for axis in group]
        for values in itertools.product(*columns):
            yield dict(zip(names, itertools.chain.from_iterable(values), strict=True))


def read_sweep(spec: str | Path | Mapping[str, Any]) -> SweepSpec:
    """Read what a sweep runs.

    `spec` is a TOML file, or what it holds:

    - environments: names, or tables of a name and constants. A list of constants is an axis (a constant
      that is a list itself has another pair of brackets).
    - methods: names, or tables of a name and settings, in the same way.
    - metrics, doses: names, and a table of numbers for each axis of unseen data; optional.
    - seeds, n, claim, output, one_network: a value or a list; by default [0], 8, the method's own, the
      environment's, false.
    - preset, device: as for `faithfulness_test`.
    - zip: lists of axes ("environment", "method", "seed", "metric", "dose", or an option's name) that
      go side by side; all others are crossed.

    Raises AttributionLabError with all problems at once: unknown names and keys, what is empty, named
    twice or contradicts itself, and settings that no run could have.
    """
    given = _read_file(spec) if isinstance(spec, str | os.PathLike) else spec
    if not isinstance(given, Mapping):
        raise AttributionLabError(f"the sweep is {given!r}: pass the path of a TOML file or a dict")
    problems = [f"no key {key!r}: {nearest(str(key), KEYS)}" for key in given if key not in KEYS]
    axes: dict[str, Sequence[Any]] = {
        "environment": _axis(given, "environments", _environment, problems),
        "seed": _axis(given, "seeds", _plain, problems, default=[0]),
        **{
            name: _axis(given, name, _plain, problems, default=[default], single=True)
            for name, default in OPTIONS.items()
        },
        "method": _axis(given, "methods", _method, problems),
        "metric": _axis(given, "metrics", _metric, problems, default=[]),
        "dose": _doses(given, problems),
    }
    settings = {name: given.get(name, default) for name, default in SETTINGS.items()}
    for axis, values in axes.items():
        problems += _twice(axis, values)
    if axes["dose"] and not given.get("metrics"):
        problems.append("doses are given and no metrics: add metrics, or leave the doses out")
    problems += _impossible(axes, settings)
    groups = _groups(given.get("zip", []), axes, problems)
    refuse_if(problems, str(spec) if isinstance(spec, str | os.PathLike) else "the sweep")
    axes = {axis: values or [None] for axis, values in axes.items()}  # metrics and doses
    listed = frozenset(name for name in OPTIONS if isinstance(given.get(name), list | tuple))
    found = SweepSpec(axes, groups, listed, settings, _document(given))
    number = 1
    for group in groups:
        number *= len(axes[group[0]])
    if number > MOST_COMBINATIONS:
        raise AttributionLabError(
            f"the sweep has {number:,} combinations: leave values out, or make several sweeps of at "
            f"most {MOST_COMBINATIONS:,}"
        )
    return found


def _read_file(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    if not os.path.isfile(path):
        raise AttributionLabError(f"no sweep file at {str(path)!r}: check the path")
    return read_spec(Path(path))


def _axis(
    given: Mapping[str, Any],
    key: str,
    make: Callable[[Any], Iterable[Any]],
    problems: list[str],
    *,
    default: list[Any] | None = None,
    single: bool = False,
) -> list[Any]:
    """Values under a key; what is wrong with each is added to the problems."""
    if key not in given:
        if default is None:
            problems.append(f"{key} are missing: name at least one")
        return default or []
    values = given[key]
    if single and not isinstance(values, list | tuple):
        values = [values]
    if not isinstance(values, list | tuple) or not values:
        problems.append(f"{key} is {values!r}: give a list with at least one value")
        return []
    found = []
    for value in values:
        try:
            found += list(make(value))
        except AttributionLabError as error:
            problems.append(str(error))
    return found


def _plain(value: Any) -> Iterable[Any]:
    return [value]


def _environment(value: Any) -> Iterator[Named]:
    if isinstance(value, Environment):
        yield Named(labelled(value.name, value.overrides), value, value.spec.digest)
        return
    name, tables = _crossed(value, "environment")
    for constants in tables:
        env = load(name, **constants)
        yield Named(labelled(env.name, constants), env, env.spec.digest)


def _method(value: Any) -> Iterator[Named]:
    name, tables = _crossed(value, "method")
    for settings in tables:
        method = as_method(name, KNOWN, settings)
        identity = method.name if method.built_in else fingerprint(method.function)
        yield Named(labelled(method.name, settings), method, identity)


def _metric(value: Any) -> Iterator[Named]:
    named = isinstance(value, str) and ":" in value
    function = as_method(value, {}).function if named else value
    metric = as_metric(function)
    label = value if isinstance(value, str) else metric.name
    yield Named(label, metric, function if isinstance(function, str) else fingerprint(function))


def _crossed(value: Any, what: str) -> tuple[Any, Iterator[dict[str, Any]]]:
    """A name, and every combination of what its table sets."""
    if not isinstance(value, Mapping):
        return value, iter([{}])
    if "name" not in value:
        raise AttributionLabError(f"an entry {dict(value)!r} has no name: add the {what}'s name")
    choices = {
        key: each if isinstance(each, list) else [each]
        for key, each in value.items()
        if key != "name"
    }
    refuse_if(
        [f"{key} is an empty list: give values" for key, each in choices.items() if not each],
        f"{what} {value['name']}",
    )
    combinations = itertools.product(*choices.values())
    return value["name"], (dict(zip(choices, each, strict=True)) for each in combinations)


def _doses(given: Mapping[str, Any], problems: list[str]) -> list[Dose]:
    """Doses of unseen data; whether an environment can have them is looked at with it."""
    table = given.get("doses", {})
    if "doses" in given and (not isinstance(table, Mapping) or not table):
        problems.append(f"doses is {table!r}: give numbers for each axis, such as share = [0, 1]")
        return []
    found = []
    for axis, values in table.items():
        values = values if isinstance(values, list | tuple) else [values]
        if not values:
            problems.append(f"doses of {axis} are empty: give numbers, or leave {axis} out")
        found += [Dose(axis, float(value) if type(value) is int else value) for value in values]
    return found


def _twice(axis: str, values: Sequence[Any]) -> list[str]:
    """What an axis names more than once: both would be the same cells."""
    named = Counter(
        repr(each) if not isinstance(each, Named) else repr(each.label) for each in values
    )
    return [
        f"{axis} names {name} {count} times: once" for name, count in named.items() if count > 1
    ]


def _impossible(axes: Mapping[str, Sequence[Any]], settings: Mapping[str, Any]) -> list[str]:
    """What no cell could be computed with."""
    checks: list[Callable[[], object]] = [
        *(partial(_check_request, name, value) for name in OPTIONS for value in axes[name]),
        *(partial(_check_request, "seed", value) for value in axes["seed"]),
        *(partial(_check_networks, named, axes["one_network"]) for named in axes["method"]),
        *(partial(_check_doses, named.value, axes["dose"]) for named in axes["environment"]),
        partial(_check_request, "preset", settings["preset"]),
    ]  # fmt: skip
    if settings["device"] is not None:
        checks.append(partial(as_device, settings["device"]))
    problems = []
    for check in checks:
        try:
            check()
        except AttributionLabError as error:
            problems.append(str(error))
    return list(dict.fromkeys(problems))  # many environments may have one problem


def _check_request(name: str, value: Any) -> None:
    request: dict[str, Any] = {"seed": 0, **OPTIONS, name: value}
    requested(explain=request.pop("output"), **request)


def _check_networks(named: Named, one_network: Sequence[bool]) -> None:
    reason = bound_to_one_network(named.value)
    if reason and False in one_network:
        raise AttributionLabError(
            f"{named.label}: each question has its own network, and {reason}; or set "
            "one_network = true"
        )


def _check_doses(env: Environment, doses: Sequence[Dose]) -> None:
    table: dict[str, list[float]] = {}
    for each in doses:
        table.setdefault(each.axis, []).append(each.dose)
    if table:
        conditions_of(env, table)


def _groups(
    zipped: Any, axes: Mapping[str, Sequence[Any]], problems: list[str]
) -> list[tuple[str, ...]]:
    """Axes that go side by side, and then each other one alone, by where they first stand in `AXES`."""
    if not isinstance(zipped, list | tuple) or not all(
        isinstance(each, list | tuple) and len(each) > 1 for each in zipped
    ):
        problems.append(
            f'zip is {zipped!r}: give lists of axes, such as zip = [["environment", "seed"]]'
        )
        return []
    groups, seen = [], set[str]()
    for group in zipped:
        unknown = [axis for axis in group if axis not in AXES]
        problems += [f"zip: no axis {axis!r}: {nearest(str(axis), AXES)}" for axis in unknown]
        again = [
            axis
            for place, axis in enumerate(group)
            if axis not in unknown and (axis in seen or axis in group[:place])
        ]
        problems += [f"zip names {axis!r} twice: name each axis once" for axis in again]
        known = [axis for axis in AXES if axis in group]
        seen |= set(known)
        lengths = {axis: len(axes[axis]) for axis in known}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{axis} has {count}" for axis, count in lengths.items())
            problems.append(f"zip needs the same number of values on each axis: {told}")
        groups.append(tuple(known))
    groups += [(axis,) for axis in AXES if axis not in seen]
    return sorted((each for each in groups if each), key=lambda group: AXES.index(group[0]))


def _document(given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The spec as JSON, if all of it can be written so."""
    try:
        found: Mapping[str, Any] = json.loads(json.dumps(given, allow_nan=False))
    except (TypeError, ValueError):
        return None
    return found
