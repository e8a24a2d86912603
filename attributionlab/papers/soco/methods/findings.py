"""What the tables of `soco_methods` say, in sentences, beside what the paper found."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attributionlab.papers.soco.maps import ENSEMBLES, PLAIN
from attributionlab.papers.soco.methods.measures import LEVELS
from attributionlab.papers.soco.methods.tables import GAIN

if TYPE_CHECKING:
    import pandas as pd

SHORT = dict(zip((PLAIN, *ENSEMBLES), ("IG", "IG-SG", "IG-SQ", "IG-Var"), strict=True))
REMOVALS = {
    "road-morf": ("ROAD (MoRF)", -1),
    "road-lerf": ("ROAD (LeRF)", 1),
    "deletion-morf": ("Deletion (MoRF)", -1),
}
KEYS = ["environment", "imputation"]
Tables = Mapping[str, "pd.DataFrame"]


PAPER = {"soundness": "all ensembles gain", "completeness": "only IG-SG gains"}
"""The others are unclear."""


def findings_of(tables: Tables, images: Mapping[str, int]) -> list[str]:
    """Sentences computed from the tables, and how many images each network was asked about; without a
    truth there is nothing to say of it."""
    counted = "; ".join(f"{name}: {_count(n, 'image')}" for name, n in images.items())
    return [
        *_ensembles(tables["ensembles"]),
        *_trained(tables["networks"], tables["summary"]),
        *_leaders(tables["methods"]),
        *_agreement(tables["agreement"]),
        *_noises(tables["noise"]),
        _indicators(tables["summary"]),
        f"{counted}. Negative values are cut off, and each map "
        "is divided by its maximum, which the thresholds of completeness need; the paper clamps maps "
        "to [0, 1], which leaves the scale to the network.",
        *_noise_of_environments(tables["ensembles"]),
    ]


def _cases(table: "pd.DataFrame") -> Iterator[tuple[str, "pd.DataFrame"]]:
    for (environment, imputation), here in table.groupby(KEYS, sort=False):
        yield f"{environment} ({imputation})", here.set_index("method")


def _ensembles(table: "pd.DataFrame") -> Iterator[str]:
    for case, here in _cases(table):
        noise = here.noise.iloc[0]
        known = bool(here.all_soundness.notna().any())
        parts = [
            _gained(here, "soundness", "estimated soundness", PAPER["soundness"]),
            *(
                [_gained(here, "true_soundness", "true soundness of the same pixels")]
                if known
                else []
            ),
            *([_gained(here, "all_soundness", "of all attributed pixels")] if known else []),
            _gained(here, "completeness", "estimated completeness", PAPER["completeness"]),
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


def _trained(table: "pd.DataFrame", summary: "pd.DataFrame") -> Iterator[str]:
    """Which ensembles gain on how many trained networks, and which method leads on their average."""
    if not len(table):
        return
    networks = int(table.networks.max())
    noise = summary[summary.all_completeness.isna()].noise.iloc[0]
    metrics = {
        "soundness": "estimated soundness",
        "completeness": "estimated completeness",
        **{key: name for key, (name, _) in REMOVALS.items()},
    }
    parts = []
    for metric, name in metrics.items():
        here = table[table.metric == metric].set_index("method")
        plain = here.loc[PLAIN]
        said = ", ".join(
            f"{SHORT[each]} {_number(row['mean'])} (better in {row['better']}, worse in {row['worse']})"
            for each, row in here.loc[list(ENSEMBLES)].iterrows()
        )
        parts.append(
            f"{name} (the paper: {PAPER.get(metric, 'unclear')}): IG {_number(plain['mean'])} "
            f"({_number(plain['least'])} to {_number(plain['greatest'])}), {said}"
        )
    yield (
        f"Ensembles at noise {noise:g}, {_count(networks, 'network')} trained on pictures, means, and "
        f"in how many networks an ensemble differs from IG by more than {GAIN:g}: {'; '.join(parts)}."
    )
    leaders = [
        f"{metric}: {_best(table[table.metric == metric].set_index('method'), 'mean')}"
        for metric in PAPER
    ]
    yield f"Who leads on trained networks, by the means of estimates? {'; '.join(leaders)}."


def _noise_of_environments(table: "pd.DataFrame") -> Iterator[str]:
    known = table[table.all_completeness.notna()]
    if len(known):
        noise = known.noise.iloc[0]
        yield (
            f"Noise of environments: {noise:g}. The default, 0.0005, is not the paper's 0.124, but was "
            "chosen by looking at what hand-weighted networks bear."
        )


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
            f"correlation of estimated and true soundness is {_own(by.loc['soundness'])}, of "
            f"completeness {_own(by.loc['completeness'])}; integrated gradients and its three "
            "ensembles are not independent, so that the intervals are too narrow. With true soundness "
            f"and true completeness correlate: {removal}."
        )


def _own(row: Any) -> str:
    """A correlation with its interval, if it has one."""
    if math.isnan(row.low):
        return _number(row.with_own)
    return (
        f"{_number(row.with_own)} (95 % interval {_number(row.low)} to {_number(row.high)} for "
        f"{row['count']} methods)"
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
                f"{_number(plain)}); the hand-weighted networks know exact colors, and a noisy color "
                "is none of them"
            )
        yield f"{text}."


def _indicators(table: "pd.DataFrame") -> str:
    said = []
    for indicator, here in table.groupby("indicator", sort=False):
        levels, jumped = int(here.levels.sum()), int(here.jumped.sum())
        asked = len(LEVELS) * len(here)
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
