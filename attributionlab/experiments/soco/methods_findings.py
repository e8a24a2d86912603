"""What the tables of `soco_methods` say, in sentences, beside what the paper found."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attributionlab.experiments.soco.methods_subjects import ENSEMBLES, PLAIN

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["findings"]

GAIN = 0.01
"""Smaller differences are none."""
SHORT = dict(zip((PLAIN, *ENSEMBLES), ("IG", "IG-SG", "IG-SQ", "IG-Var"), strict=True))
REMOVALS = {
    "road-morf": ("ROAD (MoRF)", -1),
    "road-lerf": ("ROAD (LeRF)", 1),
    "deletion-morf": ("Deletion (MoRF)", -1),
}
KEYS = ["environment", "imputation"]
Tables = Mapping[str, "pd.DataFrame"]


def findings(tables: Tables, n: int, noise: float) -> list[str]:
    """Sentences computed from the tables; without a truth there is nothing to say of it."""
    return [
        *_ensembles(tables["ensembles"], noise),
        *_leaders(tables["methods"]),
        *_agreement(tables["agreement"]),
        *_noises(tables["noise"]),
        _indicators(tables["summary"]),
        f"{_count(n, 'image')} of each environment or class. Negative values are cut off, and each map "
        "is divided by its maximum, which the thresholds of completeness need; the paper clamps maps "
        "to [0, 1], which leaves the scale to the network. Input IBA, which the paper's figure 9 has, "
        "is not built here.",
    ]


def _cases(table: "pd.DataFrame") -> Iterator[tuple[str, "pd.DataFrame"]]:
    for (environment, imputation), here in table.groupby(KEYS, sort=False):
        yield f"{environment} ({imputation})", here.set_index("method")


def _ensembles(table: "pd.DataFrame", noise: float) -> Iterator[str]:
    for case, here in _cases(table):
        known = bool(here.all_soundness.notna().any())
        parts = [
            _gained(here, "soundness", "estimated soundness", "all ensembles gain"),
            *(
                [_gained(here, "true_soundness", "true soundness of the same pixels")]
                if known
                else []
            ),
            *([_gained(here, "all_soundness", "of all attributed pixels")] if known else []),
            _gained(here, "completeness", "estimated completeness", "only IG-SG gains"),
            *([_gained(here, "true_completeness", "true completeness")] if known else []),
            *(_gained(here, key, name, "unclear", sign) for key, (name, sign) in REMOVALS.items()),
        ]
        yield f"Ensembles at noise {noise:g}, {case}: {'; '.join(parts)}."


def _gained(
    here: "pd.DataFrame", column: str, name: str, paper: str | None = None, sign: int = 1
) -> str:
    """Which ensembles are better than the method itself, which are worse, and by how much."""
    plain = float(here.loc[PLAIN, column])
    changes = {each: sign * (float(here.loc[each, column]) - plain) for each in ENSEMBLES}
    words = {"better": [], "worse": [], "no different": [], "not known": []}  # type: dict[str, list[str]]
    for each, change in changes.items():
        kind = "not known" if math.isnan(change) else "no different"
        if abs(change) > GAIN:
            kind = "better" if change > 0 else "worse"
        words[kind].append(f"{SHORT[each]} {_number(here.loc[each, column])}")
    said = ", ".join(f"{kind}: {', '.join(names)}" for kind, names in words.items() if names)
    reference = f" (the paper: {paper})" if paper else ""
    return f"{name}{reference}: IG {_number(plain)}, {said}"


def _leaders(table: "pd.DataFrame") -> Iterator[str]:
    for case, here in _cases(table):
        said = []
        for estimate in ("soundness", "completeness"):
            truth, text = f"true_{estimate}", f"{estimate}: {_best(here, estimate)} by estimate"
            if here[truth].notna().any():
                text += f", {_best(here, truth)} in truth"
            said.append(text)
        both = set(_leading(here.soundness)) & set(_leading(here.completeness))
        yield (
            f"Who leads, {case}? {'; '.join(said)}. The paper: IBA and GradCAM in soundness, extremal "
            "perturbation in completeness, no method in both; here by estimate "
            f"{' and '.join(sorted(both)) or 'no method'} in both."
        )


def _leading(values: "pd.Series[float]") -> list[str]:
    """All that are no worse than the best by more than `GAIN`."""
    return list(values[values >= values.max() - GAIN].index)


def _best(here: "pd.DataFrame", column: str) -> str:
    values = here[column].dropna()
    if not len(values):
        return "none"
    leading = _leading(values)
    names = "all methods" if len(leading) == len(here) > 1 else ", ".join(leading)
    return f"{names} ({_number(values.max())})"


def _agreement(table: "pd.DataFrame") -> Iterator[str]:
    everything = table[(table.methods == "all") & (table.indicator == "label probability")]
    if everything[["with_soundness", "with_completeness"]].isna().all(axis=None):
        return
    for (environment, imputation), here in everything.groupby(KEYS, sort=False):
        by = here.set_index("metric")
        removal = ", ".join(
            f"{name} {_number(by.loc[key, 'with_soundness'])} and "
            f"{_number(by.loc[key, 'with_completeness'])}"
            for key, (name, _) in REMOVALS.items()
        )
        yield (
            f"Do they rank the methods as the truth does, {environment} ({imputation})? Spearman's "
            f"correlation of estimated and true soundness is "
            f"{_number(by.loc['soundness', 'with_own'])}, of completeness "
            f"{_number(by.loc['completeness', 'with_own'])}. With true soundness and true completeness "
            f"correlate: {removal}."
        )


def _noises(table: "pd.DataFrame") -> Iterator[str]:
    largest = table.noise.max()
    for environment, here in table.groupby("environment", sort=False):
        strong = here[(here.noise == largest) & (here.method != PLAIN)]
        if largest == 0 or not len(strong):
            continue
        total, empty = int(strong.images.sum()), int(strong["empty"].sum())
        text = (
            f"Noise of {largest:g} value ranges on {environment}: {empty} of {_count(total, 'map')} of "
            "ensembles empty"
        )
        if strong.all_completeness.notna().any():
            plain = here[here.noise == 0].all_completeness.mean()
            text += (
                f", true completeness {_number(strong.all_completeness.mean())} (without noise "
                f"{_number(plain)}). The hand-weighted networks know exact colors, and a noisy color "
                "is none of them; a trained network has no such edge"
            )
        yield f"{text}."


def _indicators(table: "pd.DataFrame") -> str:
    said = []
    for indicator, here in table.groupby("indicator", sort=False):
        levels, jumped = int(here.levels.sum()), int(here.jumped.sum())
        asked = 9 * len(here)
        said.append(
            f"by {indicator} {levels} of {asked} levels are reached, {jumped} of them in a jump"
        )
    return (
        f"Predictive levels over all maps: {'; '.join(said)}. Accuracy changes by whole images, so "
        "the figures show the label's probability; the tables have both."
    )


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _number(value: Any) -> str:
    return "not defined" if math.isnan(float(value)) else f"{float(value):.2f}"
