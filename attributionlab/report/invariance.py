"""How far maps drift between functionally equal networks, in sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

SHOWN_SEEDS = 3
MEANINGS = {
    "equal, as it must be": "0, as it must be: only integer images were shown to the networks, for "
    "which all answer alike",
    "differs, where it must not": "(!) it must be 0, as integer images only and no gradient were seen: "
    "the method reads weights or structure of the network, its random numbers depend on that structure "
    "or on no seed, or this laboratory has an error; the verdict does not change",
    "equal": "the same maps, bit for bit",
    "within rounding": "rounding",
    "beyond rounding": "more than rounding: on kinks a gradient is a convention (ReLU'(0) = 0), and "
    "depends on how the function is built",
    "drifts": "more than rounding of sums: equal functions get different maps",
    "not known": "whether it is rounding is not known: the method does not run in float64, and no "
    "bound of use is derived",
}
"""What each reading of a drift says about a method."""


def drift_number(value: float | None) -> str:
    """Two digits, as drifts span many orders of magnitude.

    Examples
    --------
    >>> drift_number(0.0), drift_number(6.4e-8), drift_number(None)
    ('0', '6.4e-08', 'n/a')
    """
    return "n/a" if value is None else f"{value:.2g}"


def drift_meaning(drift: Mapping[str, Any]) -> str:
    """What the drift of a method says about it, or why there is none.

    Parameters
    ----------
    drift : mapping
        As written by `Drift.to_dict`.

    Examples
    --------
    >>> drift_meaning({"refused": "the method has no model", "reading": ""})
    'not applicable: the method has no model'
    """
    if drift["refused"]:
        return f"not applicable: {drift['refused']}"
    return MEANINGS[drift["reading"]] + _precision(drift)


def _precision(drift: Mapping[str, Any]) -> str:
    """What is left in float64, and how far rounding may lead at most."""
    said = []
    if drift["in_float64"] is not None:
        said.append(f"{drift_number(drift['in_float64'])} is left in float64")
    if drift["rounding_bound"] is not None and drift["largest"]:
        said.append(f"bound {drift_number(drift['rounding_bound'])}")
    return f" ({', '.join(said)})" if said else ""


def drift_text(drift: Mapping[str, Any]) -> str:
    """The drift of an environment in one sentence.

    Parameters
    ----------
    drift : mapping
        As written by `Drift.to_dict`.
    """
    meaning = drift_meaning(drift)
    if drift["refused"]:
        return meaning
    networks = len(drift["networks"])
    said = [
        f"median {drift_number(drift['median'])}, largest {drift_number(drift['largest'])} of the "
        f"plain map's norm ({_count(networks, 'network')}, {_count(drift['images'], 'image')})",
        meaning,
    ]
    if drift["appeared"]:
        said.append(
            f"{_count(drift['appeared'], 'map')} not zero where the plain one is, up to "
            f"{drift_number(drift['largest_difference'])}"
        )
    if drift["plain_f1"] is not None:
        low, high = f"{drift['lowest_f1']:.2f}", f"{drift['highest_f1']:.2f}"
        span = low if low == high else f"{low} to {high}"
        said.append(f"F1 {span}, {drift['plain_f1']:.2f} on the plain network")
    return "; ".join(said)


def drift_seeds_text(networks: Sequence[int]) -> str:
    """How to load the camouflaged networks again.

    Examples
    --------
    >>> drift_seeds_text([7, 8])
    'attributionlab.load(..., camouflage_seed=SEED), SEED 7, 8'
    """
    shown = ", ".join(map(str, networks[:SHOWN_SEEDS]))
    more = f" and {len(networks) - SHOWN_SEEDS:,} more (--json)"
    return (
        f"attributionlab.load(..., camouflage_seed=SEED), SEED {shown}"
        f"{more if len(networks) > SHOWN_SEEDS else ''}"
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
