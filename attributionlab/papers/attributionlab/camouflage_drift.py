"""Implementation invariance: how far maps drift between networks that compute the same function."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from attributionlab.environment import Environment
from attributionlab.errors import refuse_if
from attributionlab.exact.rounding import UNIT
from attributionlab.faithfulness.drift import Drift, camouflage_seeds, drift_on
from attributionlab.faithfulness.setup import Trial, chosen_outputs
from attributionlab.methods import METHODS, Preset, as_method
from attributionlab.metrics import normalize
from attributionlab.nets import MOVES, camouflaged
from attributionlab.papers.attributionlab.comparison_plan import environment_of
from attributionlab.papers.reproduction import Reproduction
from attributionlab.progress import track
from attributionlab.report import MapsRow, maps_figure
from attributionlab.report.drifts import DriftLine, drifts_figure
from attributionlab.report.invariance import MEANINGS
from attributionlab.validation import integer_problem

if TYPE_CHECKING:
    import pandas as pd

ENVIRONMENT = "multi-color-sum"
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "gradient": (
        *("saliency", "input-x-gradient", "integrated-gradients"),
        *("integrated-gradients-true-baseline", "integrated-gradients-exact"),
    ),
    "propagation": (*("guided-backprop", "deep-lift", "deep-lift-true-baseline", "lrp"),),
    "perturbation": (*("occlusion", "occlusion-true-baseline", "lime", "lime-true-baseline"),),
    "map-based": ("gradcam", "iba"),
}
"""Without extremal perturbation, which takes 800 passes an image and network."""
SHOWN = ("saliency", "guided-backprop", "deep-lift-true-baseline", "gradcam", "iba")
"""Whose maps the figure has."""
MOVED = ("saliency", "guided-backprop", "deep-lift-true-baseline", "gradcam", "iba")
"""For which each move is looked at alone."""
SHOWN_NETWORKS = 3
GAMMA = 0.5


def camouflage_drift(
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    networks: int = 3,
    env: str = ENVIRONMENT,
    show_progress: bool = False,
) -> Reproduction:
    """Built-in methods on K camouflaged networks, and some of them on each move of a camouflage alone.

    Parameters
    ----------
    n : int, optional
        Images, of which the first few are looked at; 1, or 2 in a quick run, by default.
    quick : bool
        Images of 72 x 72 pixels.
    seed : int
        Of images, methods and camouflages.
    networks : int
        K.
    env : str
        An environment.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "drift" (a row for each method) and "moves" (the largest drift by method and move),
        figures "drift" and "maps".
    """
    refuse_if(integer_problem("networks", networks, 1, 100))
    place, n = environment_of(env, quick), n or (2 if quick else 1)
    seeds = camouflage_seeds(seed, networks)
    whole = {each: partial(place.camouflaged, each) for each in seeds}
    methods = [(family, name) for family, names in FAMILIES.items() for name in names]
    found = {
        name: _drift(whole, name, place, n, seed)
        for _, name in track(methods, len(methods), "camouflage-drift", show_progress)
    }
    moves = {
        (name, move): _drift(_by(move, place, seeds), name, place, n, seed)
        for name, move in track(
            [(name, move) for name in MOVED for move in MOVES],
            len(MOVED) * len(MOVES),
            "camouflage-drift, each move",
            show_progress,
        )
    }
    side = place.recipe.image_size
    images = next(iter(found.values())).images  # the first few of n
    setting = f"{place.name}, {side} x {side}, networks: {networks}, images: {images}"
    return Reproduction(
        "camouflage-drift",
        "How far maps drift between networks that compute the same function",
        {"drift": _table(methods, found), "moves": _moves_table(moves)},
        {
            "drift": drifts_figure(
                _lines(methods, found), UNIT, f"Equal functions, equal maps?\n{setting}"
            ),
            "maps": maps_figure(
                _rows(place, found, seed),
                f"One image, equal functions\n{place.name}, {side} x {side}",
            ),
        },
        _findings(found, moves, seeds),
    )


def _drift(
    networks: Mapping[int, Callable[[], Environment]],
    name: str,
    place: Environment,
    n: int,
    seed: int,
) -> Drift:
    method = as_method(name, METHODS)
    output, truth_output = chosen_outputs(place, None, None, Preset(), method.output)
    claim = method.claim or "signed"
    trial = Trial(place, output, truth_output, claim, GAMMA, n, seed)  # type: ignore[arg-type]
    return drift_on(networks, method, trial)


def _by(move: str, place: Environment, seeds: list[int]) -> dict[int, Callable[[], Environment]]:
    """Networks to which one move alone was applied."""

    def made(seed: int) -> Environment:
        network = camouflaged(place.network, seed, moves=[move])
        return Environment(place.spec, network, place.recipe)

    return {seed: partial(made, seed) for seed in seeds}


def _table(methods: list[tuple[str, str]], found: Mapping[str, Drift]) -> "pd.DataFrame":
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for family, name in methods:
        drift = found[name].to_dict()
        columns = ("median", "largest", "in_float64", "plain_f1", "lowest_f1", "rank_correlation")
        numbers = {key: drift[key] for key in columns}
        rows.append({"family": family, "method": name, **numbers, "reading": _words(found[name])})
    return pd.DataFrame(rows)


def _words(drift: Drift) -> str:
    return "integer images only: 0" if drift.reading == "equal, as it must be" else drift.reading


def _moves_table(moves: Mapping[tuple[str, str], Drift]) -> "pd.DataFrame":
    """A row for each move, a column with the largest drift of each method."""
    import pandas as pd

    rows = [{"move": move, **{name: moves[name, move].largest for name in MOVED}} for move in MOVES]
    return pd.DataFrame(rows)


def _lines(methods: list[tuple[str, str]], found: Mapping[str, Drift]) -> list[DriftLine]:
    lines = []
    for family, name in methods:
        drift = found[name].to_dict()
        f1 = (drift["plain_f1"] or 0.0, drift["lowest_f1"] or 0.0)
        size = (drift["median"] or 0.0, drift["largest"] or 0.0, drift["in_float64"])
        lines.append(DriftLine(name, family, *size, *f1))
    return lines


def _rows(place: Environment, found: Mapping[str, Drift], seed: int) -> list[MapsRow]:
    """The first image, method by method, on the plain network and on some camouflaged ones."""
    images, labels = place.batch(1, seed)
    truth = place.truth(images, place.targets(labels)).signed[0, 0].numpy()
    rows = []
    for name in SHOWN:
        drift = found[name]
        shown = normalize(torch.from_numpy(drift.samples[: 1 + SHOWN_NETWORKS])[:, None].double())
        titles = ["plain network", *(f"camouflage {each}" for each in drift.networks)]
        notes = ["", *(f"drift {each:.2g}" for each in drift.distances[:, 0])]
        maps = dict(zip(titles, shown[:, 0].float().numpy(), strict=False))
        rows.append(
            MapsRow(
                name,
                images[0].numpy(),
                place.max_value,
                truth,
                maps,
                dict(zip(titles, notes, strict=True)),
            )
        )
    return rows


def _findings(
    found: Mapping[str, Drift], moves: Mapping[tuple[str, str], Drift], seeds: list[int]
) -> list[str]:
    by_reading: dict[str, list[str]] = {}
    for name, drift in found.items():
        by_reading.setdefault(drift.reading, []).append(name)
    sentences = [
        "All networks give equal outputs (==) for every integer image. Camouflages: "
        f"{', '.join(map(str, seeds))} (`attributionlab.load(name, camouflage_seed=SEED)`)."
    ]
    for reading, said in MEANINGS.items():
        if names := by_reading.get(reading):
            sentences.append(f"{', '.join(names)}: {said}.")
    for name in MOVED:
        worst = max(MOVES, key=lambda move: moves[name, move].largest or 0.0)
        kept = [move for move in MOVES if moves[name, move].is_zero]
        sentences.append(
            f"{name}, each move alone: most by {worst} ({moves[name, worst].largest or 0.0:.2g}); not "
            f"at all by {', '.join(kept) or 'none'}."
        )
    return sentences
