"""Implementation invariance: how far maps drift between networks that compute the same function."""

from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd
import torch
from matplotlib.figure import Figure

from attributionlab.environment import Environment
from attributionlab.errors import refuse_if
from attributionlab.exact.rounding import UNIT
from attributionlab.faithfulness.drift import Drift, camouflage_seeds, drift_on
from attributionlab.faithfulness.setup import Trial, chosen_outputs
from attributionlab.methods import METHODS, Preset, as_method
from attributionlab.metrics import normalize
from attributionlab.nets import MOVES, camouflaged
from attributionlab.papers.attributionlab.comparison_plan import environment_of
from attributionlab.papers.catalog import Found, Run, Tables, claim
from attributionlab.report.plots import dots, map_grid
from attributionlab.validation import integer_problem

ITEM = "camouflage-drift"
ENVIRONMENT = "multi-color-sum"
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "gradient": (
        *("saliency", "input-x-gradient", "integrated-gradients"),
        *("integrated-gradients-true-baseline", "integrated-gradients-exact"),
    ),
    "propagation": ("guided-backprop", "deep-lift", "deep-lift-true-baseline", "lrp"),
    "perturbation": ("occlusion", "occlusion-true-baseline", "lime", "lime-true-baseline"),
    "map-based": ("gradcam", "iba"),
}
"""Without extremal perturbation, which takes 800 passes an image and network."""
CHOSEN = ("saliency", "guided-backprop", "deep-lift-true-baseline", "gradcam", "iba")
"""Whose maps are drawn, and for which each move is looked at alone."""
DRAWN_NETWORKS = 3
GAMMA = 0.5
INTEGER_IMAGES = "integer images only: 0"
DRIFTS = ("drifts", "beyond rounding", "differs, where it must not")
"""Readings of a drift that is more than rounding."""
ZERO_GAP = 30.0
"""How far to the left of the smallest drift a drift of exactly 0 is drawn, as a factor."""


def camouflage_drift(run: Run, *, networks: int = 3, env: str = ENVIRONMENT) -> Found:
    """Explain K camouflaged networks, and networks with each move of a camouflage alone."""
    refuse_if(integer_problem("networks", networks, 1, 100))
    place = environment_of(env, run.quick)
    seeds = camouflage_seeds(run.seed, networks)
    work = [(name, "") for names in FAMILIES.values() for name in names]
    work += [(name, move) for name in CHOSEN for move in MOVES]
    drifts = {
        (name, move): _drift(name, _networks(place, seeds, move), place, run)
        for name, move in run.track(work)
    }
    whole = {name: drift for (name, move), drift in drifts.items() if not move}
    moves = [
        {"move": move, **{name: drifts[name, move].largest for name in CHOSEN}} for move in MOVES
    ]
    tables = {
        "drift": _table(whole),
        "moves": pd.DataFrame(moves),
        "networks": pd.DataFrame({"camouflage_seed": seeds}),
    }
    side = place.recipe.image_size
    images = next(iter(whole.values())).images  # the first few of n
    setting = f"{place.name}, {side} x {side}, networks: {networks}, images: {images}"
    return Found(tables, _figures(tables["drift"], setting) | {"maps": _maps(place, whole, run)})


def _networks(
    place: Environment, seeds: list[int], move: str
) -> dict[int, Callable[[], Environment]]:
    """Camouflaged networks by seed; with a move, those to which it alone was applied."""
    if not move:
        return {seed: partial(place.camouflaged, seed) for seed in seeds}

    def moved(seed: int) -> Environment:
        network = camouflaged(place.network, seed, moves=[move])
        return Environment(place.spec, network, place.recipe)

    return {seed: partial(moved, seed) for seed in seeds}


def _drift(
    name: str, networks: Mapping[int, Callable[[], Environment]], place: Environment, run: Run
) -> Drift:
    method = as_method(name, METHODS)
    output, truth_output = chosen_outputs(place, None, None, Preset(), method.output)
    declared = method.claim or "signed"
    trial = Trial(place, output, truth_output, declared, GAMMA, run.n, run.seed)  # type: ignore[arg-type]
    return drift_on(networks, method, trial)


def _table(drifts: Mapping[str, Drift]) -> pd.DataFrame:
    rows = []
    columns = ("median", "largest", "in_float64", "plain_f1", "lowest_f1", "rank_correlation")
    for family, names in FAMILIES.items():
        for name in names:
            drift = drifts[name].to_dict()
            reading = drift["reading"]
            reading = INTEGER_IMAGES if reading == "equal, as it must be" else reading
            numbers = {column: drift[column] for column in columns}
            rows.append({"family": family, "method": name, **numbers, "reading": reading})
    return pd.DataFrame(rows)


def _figures(table: pd.DataFrame, setting: str) -> dict[str, Figure]:
    sizes = table.astype({"in_float64": float}).melt(
        "method", ["median", "largest", "in_float64"], "drift"
    )
    sizes["drift"] = sizes.drift.replace("in_float64", "largest, in float64")
    zero = min(sizes.value[sizes.value > 0].min(), UNIT) / ZERO_GAP
    sizes["value"] = sizes.value.where(sizes.value != 0, zero)
    scores = table.melt("method", ["plain_f1", "lowest_f1"], "network", "f1")
    names = {"plain_f1": "plain network", "lowest_f1": "lowest of the camouflaged ones"}
    return {
        "drift": dots(
            *(sizes, "value", "method"),
            color="drift",
            title=f"Equal functions, equal maps?\n{setting}",
            xlabel="drift, share of the map's norm\n(less is better; furthest left: exactly 0;\n"
            "line: float32's rounding unit)",
            reference=UNIT,
            log=True,
        ),
        "f1": dots(
            *(scores.assign(network=scores.network.map(names)), "f1", "method"),
            color="network",
            title=f"Equal functions, equal scores?\n{setting}",
            xlabel="F1 of the claim (more is better)",
        ),
    }


def _maps(place: Environment, drifts: Mapping[str, Drift], run: Run) -> Figure:
    """The first image, method by method, on the plain network and on some camouflaged ones."""
    images, labels = place.batch(1, run.seed)
    truth = place.truth(images, place.targets(labels)).signed[0, 0].numpy()
    seeds = drifts[CHOSEN[0]].networks[:DRAWN_NETWORKS]
    none = [None] * len(seeds)
    rows = {"image": [images[0].numpy() / place.max_value, *none], "ground truth": [truth, *none]}
    notes = {}
    for name in CHOSEN:
        samples = drifts[name].samples[: 1 + len(seeds)]
        maps = normalize(torch.from_numpy(samples)[:, None].double())[:, 0]
        rows[name] = list(maps.float().numpy())
        distances = drifts[name].distances[: len(seeds), 0]
        notes[name] = ["", *(f"drift {each:.2g}" for each in distances)]
    return map_grid(
        rows,
        headings=["plain network", *(f"camouflage {seed}" for seed in seeds)],
        notes=notes,
        title=f"One image, equal functions\n{place.name}, {place.recipe.image_size} pixels a side",
    )


def _invariant(tables: Tables, *methods: str) -> bool | None:
    """Whether the maps of all these methods are the same but for rounding."""
    drift = tables["drift"].set_index("method").reading
    readings = drift.reindex(methods)
    if readings.isin(DRIFTS).any():
        return False
    return None if readings.isna().any() or (readings == "not known").any() else True


@claim(
    ITEM,
    place="Sundararajan et al. (2017)",
    statement="Integrated gradients are the same for networks that compute the same function",
    reason="A sum of 50 nodes is not the integral: between integers rounding decides on which side of "
    "a kink a neuron is, in float64 too",
)
def sums_of_gradients_are_invariant(tables: Tables) -> bool | None:
    return _invariant(tables, "integrated-gradients", "integrated-gradients-true-baseline")


@claim(
    ITEM,
    place="ours",
    statement="Gradients, their exact integrals and GradCAM drift by rounding alone",
)
def gradients_and_integrals_are_invariant(tables: Tables) -> bool | None:
    return _invariant(
        *(tables, "saliency", "input-x-gradient", "integrated-gradients-exact", "gradcam")
    )


@claim(
    ITEM,
    place="Sundararajan et al. (2017)",
    statement="DeepLift and LRP differ between networks that compute the same function",
    reason="Theirs is a network made to show it; none of these moves shows more than rounding",
)
def propagation_depends_on_the_implementation(tables: Tables) -> bool | None:
    each = [_invariant(tables, name) for name in ("deep-lift", "lrp")]
    return None if None in each else not any(each)


@claim(
    ITEM,
    place="ours",
    statement="Maps of Guided Backprop and IBA drift by more than their own size",
)
def guided_backprop_and_iba_drift(tables: Tables) -> bool | None:
    largest = tables["drift"].set_index("method").largest.reindex(["guided-backprop", "iba"])
    return None if largest.isna().any() else bool((largest > 1).all())


@claim(
    ITEM,
    place="ours",
    statement="Duplicated neurons with divided weights suffice to change Guided Backprop's map; "
    "another order of neurons does not",
)
def duplication_changes_guided_backprop(tables: Tables) -> bool | None:
    drift = tables["moves"].set_index("move")["guided-backprop"].astype(float)
    # A permutation changes the order of float32 sums alone.
    if drift[["duplication", "permutation"]].isna().any():
        return None
    return bool(drift["duplication"] > 0.1 and drift["permutation"] < 1e-4)


@claim(
    ITEM,
    place="ours",
    statement="Methods that show a network integer images only get the same maps, bit by bit",
)
def integer_images_get_equal_maps(tables: Tables) -> bool | None:
    readings = tables["drift"].reading
    if (readings == "differs, where it must not").any():
        return False
    return True if (readings == INTEGER_IMAGES).any() else None
