"""Camouflage: other weights for the same function, how they look, and how far maps drift."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.base import UNIT
from attributionlab.methods import METHODS, as_method
from attributionlab.metrics import normalize
from attributionlab.papers.answers import decided
from attributionlab.papers.attributionlab.comparison_plan import COLORS, environment_of
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.show import curves, dots, map_grid
from attributionlab.verdicts import Drift, camouflage_seeds, drift_on, prepared
from attributionlab.worlds import Environment, counting_environments
from attributionlab.worlds.nets import MOVES, camouflaged

DRAWN = ("multi-color-sum", "number-checker", "single-color-modulo")
"""Environments in the figure: a classifier, a plain count, and a head behind it."""
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
"""Methods whose maps are drawn, and for which each move is looked at alone."""
DRAWN_NETWORKS = 3
INTEGER_IMAGES = "integer images only: 0"
DRIFTS = ("drifts", "beyond rounding", "differs, where it must not")
"""Readings of a drift that is more than rounding."""
ZERO_GAP = 30.0
"""How far to the left of the smallest drift a drift of exactly 0 is drawn, as a factor."""


def camouflage_weights(run: Run) -> Found:
    """Weights of every environment's network, plain and camouflaged, and what each move changes.

    `equal` is the share of n images with equal outputs, `times_slower` the ratio of the forward passes'
    times on this machine.
    """
    rows: list[dict[str, Any]] = []
    octaves: list[pd.DataFrame] = []
    for name in run.track(counting_environments()):
        plain = environment_of(name, run.quick)
        pair = {"plain": plain, "camouflaged": plain.camouflaged(run.seed)}
        compared = _compared(pair, plain.batch(run.n, run.seed)[0])
        for kind, env in pair.items():
            known = {"environment": name, "network": kind}
            rows.append({**known, **weight_statistics(env.model), **compared[kind]})
            if name in DRAWN:
                octaves.append(octave_table(_weights(env.model)).assign(**known))
    network = environment_of(COLORS, run.quick).network
    alone = {move: camouflaged(network, run.seed, moves=[move]) for move in MOVES}
    every = {"none": network, **alone, "all": camouflaged(network, run.seed)}
    moves = [{"move": name, **weight_statistics(each.model)} for name, each in every.items()]
    octave = pd.concat(octaves)
    tables = {"weights": pd.DataFrame(rows), "moves": pd.DataFrame(moves), "octaves": octave}
    figure = curves(
        *(octave.assign(line=octave["network"] + ", " + octave["sign"]), "octave", "share", "line"),
        panel="environment",
        title="The same functions: weights before and after camouflage",
        xlabel="magnitude, power of 2",
        ylabel="share of the weights other than 0",
    )
    return Found(tables, {"histograms": figure})


def octave_table(weights: NDArray[np.float64]) -> pd.DataFrame:
    """Shares of the weights other than 0 by sign and power of 2 below their magnitude."""
    values = weights[weights != 0]
    octave = np.floor(np.log2(np.abs(values))).astype(int)
    table = pd.DataFrame({"octave": octave, "sign": np.where(values > 0, "positive", "negative")})
    counts = table.value_counts(["octave", "sign"], sort=False) / len(values)
    return counts.rename("share").reset_index()


def weight_statistics(model: nn.Module) -> dict[str, int | float]:
    """How hand-made the parameters of a network look, biases included.

    `layers` with weights; `parameters`; how many `distinct` values they have; `zeros`, the share that
    is 0; `negative` and `commonest`, the shares of the others that are negative and that have the
    commonest magnitude; `smallest` and `largest`, the range of their magnitudes.
    """
    weights = _weights(model)
    magnitudes = np.abs(weights[weights != 0])
    _, counts = np.unique(magnitudes, return_counts=True)
    return {
        "layers": sum(isinstance(m, nn.Conv2d | nn.Linear) for m in model.modules()),
        "parameters": len(weights),
        "distinct": len(np.unique(weights)),
        "zeros": float((weights == 0).mean()),
        "negative": float((weights < 0).sum() / len(magnitudes)),
        "commonest": float(counts.max() / len(magnitudes)),
        "smallest": float(magnitudes.min()),
        "largest": float(magnitudes.max()),
    }


def _weights(model: nn.Module) -> NDArray[np.float64]:
    return torch.cat([each.detach().flatten() for each in model.parameters()]).double().numpy()


def _compared(
    pair: Mapping[str, Environment], images: Float[Tensor, "batch channels height width"]
) -> dict[str, dict[str, float]]:
    """Whether two networks have equal outputs, and how much longer the second takes for them."""
    outputs, seconds = {}, {}
    with torch.no_grad():
        for kind, env in pair.items():
            env.model(images[:1])  # the first pass of a network sets its kernels up
            start = time.perf_counter()
            outputs[kind] = torch.cat([env.model(image[None]) for image in images])
            seconds[kind] = time.perf_counter() - start
    equal = float((outputs["plain"] == outputs["camouflaged"]).all(1).double().mean())
    slower = seconds["camouflaged"] / seconds["plain"]
    return {
        "plain": {"equal": 1.0, "times_slower": 1.0},
        "camouflaged": {"equal": equal, "times_slower": slower},
    }


def weights_look_less_made_by_hand(tables: Tables) -> bool:
    by_network = tables["weights"].set_index(["network", "environment"])
    plain, other = by_network.loc["plain"], by_network.loc["camouflaged"]
    more = (other.distinct > plain.distinct) & (other.commonest < plain.commonest)
    wider = other.largest / other.smallest > plain.largest / plain.smallest
    return bool((more & wider).all())


def no_move_alone_is_enough(tables: Tables) -> bool:
    distinct = tables["moves"].set_index("move").distinct
    return bool(distinct.drop(["none", "all"]).max() < distinct["all"])


def camouflage_drift(run: Run, *, networks: int = 3, env: str = COLORS) -> Found:
    """Explain K camouflaged networks, and networks with each move of a camouflage alone."""
    place = environment_of(env, run.quick, stated=True)
    seeds = camouflage_seeds(run.seed, networks)
    work = [(name, "") for names in FAMILIES.values() for name in names]
    work += [(name, move) for name in CHOSEN for move in MOVES]
    drifts = {(name, move): _drift(name, move, seeds, place, run) for name, move in run.track(work)}
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


def _drift(name: str, move: str, seeds: list[int], place: Environment, run: Run) -> Drift:
    """Compare maps on the plain network with those on camouflaged ones; with a move, by it alone."""

    def network(place: Environment, seed: int) -> Environment:
        if not move:
            return place.camouflaged(seed)
        alone = camouflaged(place.network, seed, moves=[move])
        return Environment(place.spec, alone, place.recipe)

    method = as_method(name, METHODS)
    declared = method.claim or "signed"
    setup = prepared(method, place, claim=declared, n=run.n, seed=run.seed)
    return drift_on({seed: partial(network, seed=seed) for seed in seeds}, setup)


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


def _invariant(methods: Sequence[str], tables: Tables) -> bool | None:
    """Whether the maps of all these methods are the same but for rounding."""
    drift = tables["drift"].set_index("method").reading
    readings = drift.reindex(methods)
    if readings.isin(DRIFTS).any():
        return False
    return None if readings.isna().any() or (readings == "not known").any() else True


sums_of_gradients_are_invariant = partial(
    _invariant, ["integrated-gradients", "integrated-gradients-true-baseline"]
)
gradients_and_integrals_are_invariant = partial(
    _invariant, ["saliency", "input-x-gradient", "integrated-gradients-exact", "gradcam"]
)


def propagation_depends_on_the_implementation(tables: Tables) -> bool | None:
    each = [_invariant([name], tables) for name in ("deep-lift", "lrp")]
    return None if None in each else not any(each)


def guided_backprop_and_iba_drift(tables: Tables) -> bool | None:
    largest = tables["drift"].set_index("method").largest.reindex(["guided-backprop", "iba"])
    return None if largest.isna().any() else bool((largest > 1).all())


def duplication_changes_guided_backprop(tables: Tables) -> bool | None:
    drift = tables["moves"].set_index("move")["guided-backprop"].astype(float)
    # A permutation changes the order of float32 sums alone.
    if drift[["duplication", "permutation"]].isna().any():
        return None
    return bool(drift["duplication"] > 0.1 and drift["permutation"] < 1e-4)


def integer_images_get_equal_maps(tables: Tables) -> bool | None:
    readings = [*tables["drift"].reading]
    differ = "differs, where it must not" in readings
    return decided(INTEGER_IMAGES in readings and not differ, differ)
