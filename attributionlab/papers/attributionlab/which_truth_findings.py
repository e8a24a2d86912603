"""What the tables of which-truth say, in sentences."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

PLAIN, UNSEEN, DISTRACTORS = (
    "multi-color-sum-in-distribution",
    "multi-color-sum",
    "multi-color-sum-distractors",
)
PATH, DEEP_LIFT = "integrated-gradients", "deep-shap"
ALIKE = 1e-6
"""Cosines that differ from 1 by less are those of proportional values, up to rounding."""
Tables = Mapping[str, "pd.DataFrame"]


def findings(tables: Tables, n: int) -> list[str]:
    """Sentences computed from the tables of `which_truth`."""
    return [
        _proportional(tables),
        _unseen_on_the_way(tables),
        *_unseen_baseline(tables),
        _shapley_and_counts(tables),
        _modulo(tables),
        _saturation(tables["temperatures"]),
        _losers(tables["worth"]),
        _masks_score(tables["images"], n),
        _deep_lift(tables),
    ]


def _proportional(tables: Tables) -> str:
    table = tables["environments"]
    alike = table[(table.relevant_agreed == 1) & (table.cosine > 1 - ALIKE)]
    named = ", ".join(alike[alike.output == "logit"].environment)
    return (
        f"In {len(alike)} of {len(table)} cases all definitions give proportional values (mean cosine "
        f"over images): {named} (output logit){_of_probabilities(alike)}. There one truth serves all."
    )


def _of_probabilities(alike: "pd.DataFrame") -> str:
    names = ", ".join(alike[alike.output == "probability"].environment)
    return f", {names} (output probability)" if names else ""


def _unseen_on_the_way(tables: Tables) -> str:
    plain, unseen, distractors = (
        _at(tables["environments"], name).relevant_agreed for name in (PLAIN, UNSEEN, DISTRACTORS)
    )
    without = _at(tables["definitions"], UNSEEN, definition=PATH).agreed_without
    cosines = [
        _at(tables["pairs"], name, first="shapley", second=PATH).cosine for name in (PLAIN, UNSEEN)
    ]
    return (
        "The same images without and with channels for unseen colors (probability): image and "
        "baseline are seen either way, but the RGB path between them is not. All definitions agree on "
        f"the sign of {plain:.0%} and {unseen:.0%} of the pixels that matter to one "
        f"({distractors:.0%} with distractors); leaving out integrated gradients they agree on "
        f"{without:.0%}. Integrated gradients and Shapley values have a cosine of {cosines[0]:.3f} and "
        f"{cosines[1]:.3f}, though both are complete in both. "
        "The other definitions see no mixture of colors and are the same."
    )


def _unseen_baseline(tables: Tables) -> list[str]:
    table, definitions = tables["environments"], tables["definitions"]
    names = [name for name in table.environment if "," in name]
    sentences = []
    for name in names:
        here = definitions[definitions.environment == name]
        [shapley] = here[here.definition == "shapley"].itertuples()
        largest = here.set_index("definition").largest
        sentences.append(
            f"{name}: absent pixels set off channels for unseen colors, so there is no mask and no "
            "path through counts, and Shapley values are an estimate (three standard errors are at "
            f"most {shapley.error / shapley.largest:.0%} of the largest value). The {len(here)} "
            f"definitions left agree on the sign of {_at(table, name).relevant_agreed:.0%} of the "
            f"pixels that matter to one, give opposite signs to {_at(table, name).opposed:.0%}, and on "
            "the rest some give none: a value of 0, or no larger than its error. The largest effects "
            f"are {largest['ablation']:.1g} by ablation and {largest['insertion']:.1g} by insertion, "
            "which meets a saturated softmax."
        )
    return sentences


def _shapley_and_counts(tables: Tables) -> str:
    pairs = tables["pairs"]
    both = pairs[(pairs["first"] == "shapley") & (pairs["second"] == "count-path")]
    return (
        "Shapley values and the path through counts are nearly the same: the lowest cosine is 1 - "
        f"{1 - both.cosine.min():.0e}. With many pixels, each of which does little, coalitions lie "
        "close to the straight line of counts (Aumann and Shapley, 1974)."
    )


def _modulo(tables: Tables) -> str:
    definitions = tables["definitions"]
    here = definitions[definitions.environment == "single-color-modulo"].set_index("definition")
    agreed = _at(tables["environments"], "single-color-modulo", "logit").relevant_agreed
    return (
        f"A count modulo N: the signs agree on {agreed:.0%}. Ablation and insertion give 1 a pixel and "
        f"sum to the count, which misses the remainder by {here.efficiency_gap['ablation']:.0f} times "
        "itself (mean); Shapley values and both path integrals spread the remainder over the pixels. "
        f"Integrated gradients add up to it through all teeth of the saw ({_size(here, PATH)} of it is "
        "missed), since the integral is exact; a quadrature need not."
    )


def _size(here: "pd.DataFrame", name: str) -> str:
    gap = here.efficiency_gap[name]
    return f"{gap:.0e}" if gap else "nothing"


def _saturation(table: "pd.DataFrame") -> str:
    sizes = table.pivot_table(index="temperature", columns="definition", values="target_pixel")
    low, high = sizes.iloc[0], sizes.iloc[-1]
    ends = sizes[["ablation", "insertion"]]
    above = sizes.index[sizes.shapley > ends.max(axis=1)].tolist()
    below = sizes.index[sizes.shapley < ends.min(axis=1)].tolist()
    between = sizes.index[sizes.shapley.between(ends.min(axis=1), ends.max(axis=1))].tolist()
    sentence = (
        f"Saturation: at temperature {sizes.index[0]:g} a pixel of the target is worth "
        f"{low.ablation:.1g} by ablation at the image and {low.insertion:.2g} by insertion at the "
        f"baseline ({_apart(low.insertion, low.ablation)}), {low.shapley:.1g} by its Shapley value; at "
        f"{sizes.index[-1]:g} they are within {max(high) / min(high) - 1:.0%} of each other. The "
        f"Shapley value lies between the other two at {_listed(between)}"
    )
    if above:
        sentence += (
            f", above both at {_listed(above)}: the softmax is steepest in the middle of the way"
        )
    if below:
        sentence += (
            f", below both at {_listed(below)}: counts that are nearly tied in the image are not so in "
            "most of its coalitions, where the softmax is flat"
        )
    return sentence + "."


def _apart(first: float, second: float) -> str:
    """How far apart two sizes are, the first of which is positive."""
    orders = abs(math.log10(first) - _log10(second))
    if math.isinf(orders):
        return "more than 300 orders of magnitude apart"
    # Rounded to fewer than one, orders say nothing.
    return f"{orders:.0f} orders of magnitude apart" if orders >= 1.5 else f"{10**orders:.2g} to 1"


def _log10(size: float) -> float:
    return math.log10(size) if size > 0 else -math.inf


def _listed(temperatures: list[float]) -> str:
    return ", ".join(f"{each:g}" for each in temperatures) or "no temperature"


def _losers(worth: "pd.DataFrame") -> str:
    here = worth[worth.environment == PLAIN].set_index("definition")

    def ratio(name: str) -> str:
        row = here.loc[name]
        return f"3 : {row.runner_up:.2f} : {row.third:.2f} : {row.fourth:.2f}"

    return (
        "One pixel of the target to one of each losing color, by their counts: "
        f"insertion {ratio('insertion')}, Shapley {ratio('shapley')}, count path "
        f"{ratio('count-path')}, ablation {ratio('ablation')}. One pixel of every color more changes "
        "no probability, so to first order in 1 / temperature the losers together weigh what the "
        "target weighs (exactly so by insertion and count path), and definitions differ in how they "
        "share it. No definition gives the mask's uniform -1 as a size "
        f"({ratio('mask')}): in size it would weigh the losers three times too much."
    )


def _masks_score(images: "pd.DataFrame", n: int) -> str:
    # Environments of equal images have equal values, of which one is enough.
    here = images[images.environment.isin([PLAIN, DISTRACTORS]) & (images.output == "probability")]
    by_name = here.groupby("definition").f1_negative
    low, high = by_name.min(), by_name.max()

    def f1(name: str) -> str:
        ends = f"{low[name]:.2f}", f"{high[name]:.2f}"
        return " to ".join(dict.fromkeys(ends))

    return (
        f"Against the mask's negative part ({n} images each of two environments) insertion scores "
        f"F1 {f1('insertion')}, exact Shapley values {f1('shapley')}, ablation {f1('ablation')}: right "
        "sizes are marked down where the mask is taken for sizes. It states signs."
    )


def _deep_lift(tables: Tables) -> str:
    here = tables["worth-images"].query(f"definition == '{DEEP_LIFT}'")
    parts = here[["f1_overall", "f1_positive", "f1_negative"]].to_numpy()
    off = (here["sum"] - here.expected_sum).abs().max()
    held = tables["deep-shap"]
    held = held[held.environment == PLAIN].set_index("definition").cosine
    return (
        "DeepLift from the true baseline, behind the softmax, gives "
        f"3 : {here.runner_up.mean():.2f} : {here.third.mean():.2f} : {here.fourth.mean():.2f} and F1 "
        f"of at least {parts.min():.2f} on every part of the mask, while its sum is "
        f"{here['sum'].min():.2f} to {here['sum'].max():.2f} of the change. Counts alone foretell "
        f"that: 1 - mean count / target's count (off by {off:.0e}). Its ratios are exactly those of "
        "insertion (cosine "
        f"{held['insertion']:.4f}; Shapley {held['shapley']:.3f}, ablation {held['ablation']:.3f}), "
        "which are the same for every image: 1.00 says that its signs are right, and nothing about how "
        "much each losing color took from the winner in this image."
    )


def _at(table: "pd.DataFrame", name: str, output: str = "probability", **keys: str) -> "pd.Series":
    chosen = (table.environment == name) & (table.output == output)
    for key, value in keys.items():
        chosen &= table[key] == value
    row: pd.Series = table[chosen].iloc[0]
    return row
