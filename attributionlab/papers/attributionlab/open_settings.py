"""In which share of the settings that AttributionLab's text leaves open does each statement hold?"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attributionlab.base import share_interval
from attributionlab.papers.attributionlab.comparison_plan import (
    COLORS,
    UNIFORM,
    WITHOUT,
    Plan,
    compared,
)
from attributionlab.papers.attributionlab.perturbation_study import replacement_table, study
from attributionlab.papers.attributionlab.perturbation_tables import (
    FROM_BASELINE,
    correlations_table,
    printed_ranks,
)
from attributionlab.papers.catalog import CLAIMS, Claim, Found, Run
from attributionlab.runs import Cell, values
from attributionlab.show import dots
from attributionlab.verdicts import compare
from attributionlab.worlds import Environment, load

ITEM = "open-settings"
DISTURBED = (COLORS, WITHOUT, UNIFORM)
"""With the Unseen Data Effect, without it, and with it in the other reading of appendix I."""
ANSWERS = ("agrees", "differs", "undecided")
SHUFFLES = 2000
SIDE = 48
"""Of the images, in pixels."""
PRIMARY = {
    "colors": [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0]],
    "distractor_colors": [[255, 0, 255], [0, 255, 255]],
}
OPEN: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "colors": {"one contrast": {}, "primary": PRIMARY},
    "redundant channels": {str(k): {"redundant_channels": k} for k in (1, 2, 4)},
    "their strength": {str(k): {"redundant_strength": k} for k in (0.25, 1.0, 4.0)},
    "patch diameter": {
        "0.10 to 0.16": {"patch_size": [0.1, 0.16]},
        "0.14 to 0.245": {"patch_size": [0.14, 0.245]},
        "0.20 to 0.30": {"patch_size": [0.2, 0.3]},
    },
    "shape": {each: {"shapes": [each]} for each in ("bezier", "circle", "square")},
    "share of a patch that is filled": {str(k): {"fill": k} for k in (0.5, 0.75, 1.0)},
    "temperature": {str(k): {"temperature": k} for k in (1, 64, 1024)},
    "nodes of IG": {str(k): {"n_steps": k} for k in (10, 50, 200)},
}
"""Settings that the text leaves open, each with its levels. The weights, places and patches are drawn
anew for each setting, too."""
INTEGRATED = ("integrated-gradients", "integrated-gradients-true-baseline")
COMPARED = (
    *(*INTEGRATED, "integrated-gradients-exact", "integrated-gradients-exact-true-baseline"),
    *("occlusion", "occlusion-true-baseline", "deep-shap"),
)
ELSEWHERE = {
    WITHOUT: ("deep-shap", "integrated-gradients-exact-true-baseline"),
    UNIFORM: ("deep-shap",),
}
SEGMENTED = [
    ("lime-true-baseline", {"segmentation": each}) for each in ("quickshift", "felzenszwalb")
]
SLOW = ("extremal-perturbation", "iba", "lime")
"""Methods of tables 2, 5 and 6 that are left out: they take most of the time."""
ASKED = (
    *("ig_needs_the_true_baseline", "ig_is_more_precise_from_the_true_baseline"),
    *("the_path_costs_more_than_the_nodes", "occlusion_needs_the_true_baseline"),
    *("deep_shap_finds_pixels_without_signs", "without_redundant_channels_deep_shap_is_right"),
    *("a_uniform_accumulator_takes_the_effect_away", "quickshift_passes_at_half"),
    *("felzenszwalb_fails", "no_metric_ranks_as_f1_with_unseen_colors"),
    *("agreement_returns_without_unseen_colors", "uniform_weights_take_the_effect_away"),
    "black_sets_off_redundant_channels",
)
"""Names of the statements in items.toml. Those about tables 3 and 4 and figure 8 are left out: the
first have no open setting but the patches, the last needs slow methods."""


def drawn_settings(number: int, seed: int) -> dict[str, str]:
    """Setting `number`: a level of each, drawn uniformly."""
    rng = np.random.default_rng([seed, number])
    return {name: [*levels][rng.integers(len(levels))] for name, levels in OPEN.items()}


def answers(
    levels: Mapping[str, str], n: int, seed: int, device: str | None = None
) -> dict[str, str]:
    """What the tables say about each statement: one of `ANSWERS` by the statement's name.

    `levels`: the level of each of `OPEN`. `n`: images of each environment. `device`: that of the cell;
    the tables are computed on the CPU.
    """
    constants: dict[str, Any] = {"image_size": SIDE, "weight_seed": seed}
    for name, level in levels.items():
        constants |= OPEN[name][level]
    nodes = {"n_steps": constants.pop("n_steps")}
    plain = {key: value for key, value in constants.items() if not key.startswith("redundant")}
    envs = {name: load(name, **(plain if name == WITHOUT else constants)) for name in DISTURBED}
    tables = {**_compared(envs, nodes, n, seed), **_studied(envs, n, seed)}
    found = {each.check.__name__: each.holds(tables) for each in _statements()}
    return {name: found[name] for name in ASKED}


def _statements() -> list[Claim]:
    return [each for each in CLAIMS if each.check.__name__ in ASKED]


def _compared(
    envs: Mapping[str, Environment], nodes: Mapping[str, Any], n: int, seed: int
) -> dict[str, pd.DataFrame]:
    """Tables of figures 5, 6, 7, 22 and 23."""
    options: dict[str, Any] = {"preset": "paper", "one_network": True}
    methods = [(name, nodes if name in INTEGRATED else {}) for name in COMPARED]
    runs = [
        (Plan(23, methods, [COLORS]), compare(methods, [envs[COLORS]], n, seed, **options)),
        (
            Plan(6, SEGMENTED, [COLORS], "overall"),
            compare(SEGMENTED, [envs[COLORS]], n, seed, claim="overall", **options),
        ),
    ]
    runs += [
        (Plan(22, names, [name]), compare(names, [envs[name]], n, seed, **options))
        for name, names in ELSEWHERE.items()
    ]
    # A method is called as in the paper's tables, whatever the nodes of its sum.
    suffix = f" (n_steps={nodes['n_steps']})"
    found = [
        compared(plan, each, {name: name + suffix for name in INTEGRATED}).tables
        for plan, each in runs
    ]
    tables = {
        name: pd.concat([each[name] for each in found if name in each])
        for name in ("summary", "scores", "verdicts")
    }
    return {
        name: table.assign(method=table.method.str.replace(suffix, "", regex=False))
        for name, table in tables.items()
    }


def _studied(envs: Mapping[str, Environment], n: int, seed: int) -> dict[str, pd.DataFrame]:
    """Tables 2, 5 and 6, of fast methods."""
    studies = []
    for name, env in envs.items():
        methods = [each for each in printed_ranks(name).index if each not in SLOW]
        studies.append(study(env, [*methods, *FROM_BASELINE.values()], n, seed, quick=True))
    return {
        "correlations": correlations_table(studies, seed, without=SLOW),
        "replacement": replacement_table(studies),
    }


def open_settings(run: Run, *, settings: int) -> Found:
    """Check each statement with `settings` drawn settings.

    Tables: `shares`, in how many settings a statement agrees, differs or is undecided, the share with
    which it agrees among those that decide, its 95 % interval, and the setting that decides most;
    `levels`, the counts by the level of each setting; `answers`, setting by setting.
    """
    drawn = [drawn_settings(number, run.seed) for number in range(settings)]
    cells = [
        Cell(
            ITEM,
            {"setting": number},
            {"levels": levels, "n": run.n, "seed": run.seed, "side": SIDE},
            partial(answers, levels, run.n, run.seed + number),
        )
        for number, levels in enumerate(drawn)
    ]
    done, stop = values(cells, run.item, run.running)
    if stop is not None:
        raise stop
    rows = [
        {"setting": cell.place["setting"], "statement": name, "answer": answer}
        for cell, found in done
        for name, answer in found.items()
    ]
    asked = pd.DataFrame(rows).join(pd.DataFrame(drawn), on="setting")
    levels, shares = levels_table(asked), shares_table(asked, run.seed)
    figure = dots(
        shares.dropna(subset="agrees_in"),
        "agrees_in",
        "statement",
        title="In which share of the settings that the text leaves open does a statement hold?",
        xlabel="share of the settings that decide, with 95 % intervals",
        reference=0.5,
    )
    return Found({"shares": shares, "levels": levels, "answers": asked}, {"shares": figure})


def levels_table(asked: pd.DataFrame) -> pd.DataFrame:
    """For each statement and level of a setting: how often it agrees, differs and is undecided."""
    long = asked.melt(["setting", "statement", "answer"], var_name="of", value_name="level")
    table = pd.crosstab([long.statement, long.of, long.level], long.answer)
    return table.reindex(columns=ANSWERS, fill_value=0).reset_index().rename_axis(columns=None)


def shares_table(asked: pd.DataFrame, seed: int) -> pd.DataFrame:
    """A row for each statement: how often it agrees, differs or is undecided.

    `agrees_in`, with its exact 95 % interval, is its share among settings that decide. `decided_by` is
    the setting whose levels explain most of the variance of the answers (`explains`), if answers that
    are shuffled over the settings explain as much in less than 5 % of `SHUFFLES`, corrected for the
    number of settings (Bonferroni).
    """
    said = {each.check.__name__: each.statement for each in _statements()}
    rows = []
    for name in ASKED:
        own = asked[asked.statement == name]
        counts = {answer: int((own.answer == answer).sum()) for answer in ANSWERS}
        known = own[own.answer != "undecided"]
        row: dict[str, Any] = {"statement": said[name], **counts}
        if len(known):
            agrees = (known.answer == "agrees").to_numpy(float)
            low, high = share_interval(counts["agrees"], len(known))
            row |= {"agrees_in": agrees.mean(), "low": low, "high": high}
            row |= _decided_by(agrees, known[[*OPEN]], seed)
        rows.append(row)
    return pd.DataFrame(rows)


def _decided_by(agrees: NDArray[np.float64], levels: pd.DataFrame, seed: int) -> dict[str, Any]:
    """The setting that explains most of the variance, and its share; empty if chance does as well.

    `agrees` (settings,): 1 or 0. `levels`: a row for each setting.
    """
    rng = np.random.default_rng(seed)
    shuffled = np.stack([agrees, *(rng.permutation(agrees) for _ in range(SHUFFLES))])
    total = agrees.var()
    if not total:
        return {}
    explained = {}
    for name in levels:
        is_level = pd.get_dummies(levels[name]).to_numpy(float)  # (settings, levels)
        means = shuffled @ is_level / is_level.sum(0)
        between = ((means - agrees.mean()) ** 2 * is_level.mean(0)).sum(1) / total
        as_large = (between >= between[0] - 1e-12).mean()  # the first is what was measured
        explained[name] = between[0], as_large
    most = max(explained, key=lambda name: explained[name][0])
    share, chance = explained[most]
    return {"decided_by": most, "explains": share} if chance * len(explained) < 0.05 else {}
