r"""Which truth? Every environment's definitions of what a pixel contributes, side by side.

How large is one pixel of each color, for a class's probability? With counts k, T the temperature and
p = softmax(k / T), one pixel of color c changes the probability of the target t by about
:math:`p_t ([c = t] - p_c) / T`, to first order in 1 / T, and one of every color by exactly nothing. To
that order, so for T >> 1, a definition that adds up such changes gives the losing colors together
minus what it gives the target, and definitions differ in how the losers share: ablation by their
probabilities at the image, insertion into a baseline without counts equally.

Two hold at every temperature: insertion's K - 1 : -1 : ... : -1, whatever the image, and the sum of the
count path, which integrates the first order itself. Ablation takes a whole pixel away: where the winner
is sure of itself, the losers together have -exp(-1 / T) times what the target's pixel has.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple, cast, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64, Int8
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.methods import collect_notices, deep_shap
from attributionlab.metrics import Part, alignment, cosine, magnitudes, normalize, rank_correlation
from attributionlab.papers.attributionlab.comparison_plan import environment_of
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.show import LOWERS, RAISES, curves, dots, map_grid
from attributionlab.worlds import Environment, counting_environments
from attributionlab.worlds.truth import Output, Truth, Truths

PLAIN, UNSEEN = "multi-color-sum-in-distribution", "multi-color-sum"
BLACK = "multi-color-sum, black"
"""The case whose baseline is a color that the network has never seen."""
BLACK_SIZE, BLACK_PRECISION = 48, 6e-4
QUICK_BLACK_SIZE, QUICK_BLACK_PRECISION = 24, 2e-3
"""Its images' sides, and the standard errors of its sampled Shapley values, in probability."""
BLACK_IMAGES = 4
TEMPERATURES = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)
TEMPERATURE_IMAGES = 2
DRAWN = {
    (PLAIN, "probability"): "no unseen colors on the way",
    (UNSEEN, "probability"): "the same image; unseen colors on the RGB path",
    (BLACK, "probability"): "black, an unseen color, as baseline",
    ("single-color-modulo", "logit"): "count modulo 30",
}
PLACES = ("target", "runner_up", "third", "fourth")
"""Colors by their number of pixels."""
DEEP_LIFT, PATH = "deep-shap", "integrated-gradients"
ALIKE = 1e-6
"""Cosines that differ from 1 by less are those of proportional values, up to rounding."""
COLORS = {
    "all raise": to_rgb(RAISES),
    "all lower": to_rgb(LOWERS),
    "no effect": (1.0, 1.0, 1.0),
    "only some give a sign": (0.75, 0.75, 0.75),
    "opposite signs": (0.0, 0.0, 0.0),
}
"""Values of pixels, by what definitions say of them together."""
Row = dict[str, Any]
Maps = Float[Tensor, "batch 1 height width"]
Signs = Int8[Tensor, "batch 1 height width"]


class Case(NamedTuple):
    """One output of one environment, from one baseline."""

    name: str
    env: Environment
    output: Output
    baseline: Tensor | None = None
    precision: float | None = None


def which_truth(run: Run) -> Found:
    """Compare mask, ablation, insertion, Shapley values and two path integrals, image by image.

    Tables are means over images, but for "images" and "importance-images". From a black baseline there
    are four images at most.
    """
    cases = list(_cases(run.quick))
    work = [
        (case, index)
        for case in cases
        for index in range(run.n if case.baseline is None else min(run.n, BLACK_IMAGES))
    ]
    rows: dict[str, list[Row]] = defaultdict(list)
    drawn: dict[tuple[str, str], tuple[Tensor, Truths, int]] = {}
    for case, index in run.track(work):
        image, target, truths, truth = _answers(case, run.n, run.seed, index)
        found = {
            "agreement": [agreement_row(truths)],
            "definitions": definition_rows(truths, truth),
            "pairs": pair_rows(truths),
        }
        if truth is not None and case.output == "probability":
            lifted = deep_lift(case.env, image, target)
            found["importance"] = importance_rows(case.env, image, truths, truth, lifted)
            found["deep-shap"] = deep_lift_rows(truths, lifted)
        for name, of_image in found.items():
            keys = {"environment": case.name, "output": case.output, "sample": index}
            rows[name] += [{**keys, **row} for row in of_image]
        if index == 0 and (case.name, case.output) in DRAWN:
            drawn[case.name, case.output] = image, truths, case.env.max_value
    every = {name: pd.DataFrame(of_name) for name, of_name in rows.items()}
    pairs = _means(every["pairs"], ["first", "second"])
    importance = _means(every["importance"], ["definition"])
    temperatures = pd.DataFrame(_temperatures(run))
    tables = {
        "environments": _environments(_means(every["agreement"], []), pairs),
        "definitions": _means(every["definitions"], ["definition", "source"]),
        "pairs": pairs,
        "importance": importance,
        "colors": importance[importance.environment == UNSEEN].drop(
            columns=["output", "target", "expected_sum"]
        ),
        "ranges": _ranges(every["importance"]),
        "deep-shap": _means(every["deep-shap"], ["definition"]),
        "temperatures": _mean(temperatures, ["temperature", "definition"]),
        "images": every["definitions"],
        "importance-images": every["importance"],
    }
    side = next(case.env.recipe.image_size for case in cases)
    sizes = f"{side} x {side} pixels, {run.n} images"
    figures = {
        "maps": _map_figure({key: drawn[key] for key in DRAWN}),
        "importance": _importance_figure(importance, sizes),
        "temperatures": curves(
            *(tables["temperatures"], "temperature", "target_pixel", "definition"),
            title=f"Size of one pixel of the target, by temperature ({PLAIN}, {side} x {side} pixels)",
            ylabel="change of the target's probability",
            log="xy",
        ),
    }
    return Found(tables, figures)


def signs_shared(first: Signs, second: Signs) -> float:
    """Share of one image's pixels with a sign in either of two maps that have the same in both."""
    either = (first != 0) | (second != 0)
    return float((first == second)[either].double().mean()) if either.any() else np.nan


def pair_rows(truths: Truths) -> Iterator[Row]:
    """For each pair of definitions of one image: rank correlation, cosine, signs shared.

    Where the values of one are all equal it has no order, and where they are all 0 no direction: the
    score is NaN.
    """
    for first, second in combinations(truths.values(), 2):
        pair = first.certain, second.certain
        has_order = all(bool(each.amax() > each.amin()) for each in pair)
        yield {
            "first": first.name,
            "second": second.name,
            "rank_correlation": float(rank_correlation(*pair)) if has_order else np.nan,
            "cosine": float(cosine(*pair)) if has_order else np.nan,
            "signs_shared": signs_shared(first.signs, second.signs),
        }


def definition_rows(truths: Truths, truth: Truth | None) -> Iterator[Row]:
    """For each definition of one image: what it is off, what its sum misses, who agrees with it.

    `agrees` is the mean of `signs_shared` with each of the others, `agreed_without` the share of the
    relevant pixels (some definition gives them a sign) on which all others agree among themselves;
    `error` and `largest` are the largest error and magnitude, in units of the output.
    """
    for name, definition in truths.items():
        others = [other for other in truths.values() if other.name != name]
        shared = [signs_shared(definition.signs, other.signs) for other in others]
        without = truths.agreement([other.name for other in others])
        yield {
            "definition": name,
            "source": definition.source,
            "largest": float(definition.values.abs().max()),
            "error": float(definition.error.max()),
            "efficiency_gap": np.nan if name == "mask" else float(truths.efficiency_gaps(name)[0]),
            "agrees": sum(shared) / len(shared),
            "agreed_without": _share(without.agreed, relevant(truths)),
            **mask_scores(definition.certain, truth),
        }


def agreement_row(truths: Truths) -> Row:
    """Shares for one image, of all and of the relevant pixels on which all definitions agree.

    `opposed` is the share of the relevant pixels that raise the output by one definition and lower it
    by another. On the relevant pixels that are left, some definition gives no sign: its value is 0, or
    no larger than its error.
    """
    agreed = truths.agreement().agreed
    return {
        "pixels_agreed": float(agreed.double().mean()),
        "relevant_agreed": _share(agreed, relevant(truths)),
        "opposed": _share(opposed(truths), relevant(truths)),
    }


def opposed(truths: Truths) -> Tensor:
    """Pixels to which one definition gives + and another -: bool (B, 1, H, W)."""
    signs = torch.stack([each.signs for each in truths.values()])
    return (signs > 0).any(0) & (signs < 0).any(0)


def relevant(truths: Truths) -> Tensor:
    """Pixels to which at least one definition gives a sign: bool (B, 1, H, W)."""
    return torch.stack([each.signs != 0 for each in truths.values()]).any(0)


def mask_scores(maps: Maps, truth: Truth | None) -> Mapping[str, float]:
    """F1 of one image's map against each part of the mask; NaN where there is no mask or part."""
    scores = dict.fromkeys([f"f1_{part}" for part in get_args(Part)], np.nan)
    for part in get_args(Part) if truth is not None else ():
        if (marked := getattr(truth, part)).any():
            scores[f"f1_{part}"] = float(alignment(magnitudes(normalize(maps), part), marked).f1)
    return scores


def deep_lift(env: Environment, image: Tensor, target: Tensor) -> Float64[Tensor, "1 1 h w"]:
    """Captum's DeepLift from the true baseline, behind the softmax, summed over channels.

    With a single baseline it is the same as DeepSHAP.
    """
    assert env.softmax_model is not None
    with collect_notices():  # what its sum misses is in the table
        maps = deep_shap(env.softmax_model, image, target, baselines=env.baseline)
    return maps.double().sum(1, keepdim=True)


def importance_rows(
    env: Environment, image: Tensor, truths: Truths, truth: Truth, lifted: Tensor
) -> Iterator[Row]:
    r"""What each definition, and DeepLift, give a pixel of each color of one image.

    Means over the pixels of a color, on a scale on which the target's is K - 1; `spread` is the largest
    standard deviation within a color on the same scale, `sum` the sum over all pixels as a share of the
    output's change (not of a mask, which has no sizes). What DeepLift's should be follows from counts:
    Captum gives the target's pixels :math:`m (K - 1) / K` each and all other counted ones
    :math:`-m / K`, with :math:`m = (f(x) - f(b)) / k_t`, in sum :math:`1 - \bar k / k_t` of the change
    (`expected_sum`).
    """
    classes = env.counting.classes_of(image)
    counts = [int((classes == each).sum()) for each in range(env.network.classes)]
    target = int(truths.targets[0])
    order = sorted(range(len(counts)), key=lambda each: (each != target, -counts[each]))
    mean = sum(counts) / len(counts)
    maps = {name: each.certain for name, each in truths.items()} | {DEEP_LIFT: lifted}
    for name, values in maps.items():
        of_color = [values[classes == each] for each in order]
        unit = float(of_color[0].mean()) / (len(counts) - 1)
        sizes = [float(each.mean()) / unit for each in of_color]
        yield {
            "definition": name,
            **dict(zip(PLACES, sizes, strict=False)),
            "spread": max(float(each.std(unbiased=False)) for each in of_color) / unit,
            "sum": np.nan if name == "mask" else float(values.sum() / truths.changes[0]),
            "expected_sum": 1 - mean / counts[target] if name == DEEP_LIFT else np.nan,
            **mask_scores(values, truth),
        }


def deep_lift_rows(truths: Truths, lifted: Tensor) -> Iterator[Row]:
    """DeepLift's map of one image held against each definition, as `pair_rows` does."""
    for name, definition in truths.items():
        values = definition.certain
        yield {
            "definition": name,
            "rank_correlation": float(rank_correlation(lifted, values)),
            "cosine": float(cosine(lifted, values)),
            "signs_shared": signs_shared(lifted.sign().to(torch.int8), definition.signs),
        }


def temperature_rows(env: Environment, image: Tensor, truths: Truths) -> Iterator[Row]:
    """The size of one pixel of the target by each definition, at this environment's temperature."""
    target = int(truths.targets[0])
    chosen = env.counting.classes_of(image) == target
    with torch.no_grad():
        logits = env.model(image)[0].double() / cast(float, env.temperature)
    for name, definition in truths.items():
        if name != "mask":
            yield {
                "temperature": env.temperature,
                "definition": name,
                "probability": float(logits.softmax(0)[target]),
                "target_pixel": float(definition.values[chosen].mean()),
            }


def _cases(quick: bool) -> Iterator[Case]:
    for name in counting_environments():
        env = environment_of(name, quick)
        yield from (Case(name, env, output) for output in env.outputs)
    size = QUICK_BLACK_SIZE if quick else BLACK_SIZE
    precision = QUICK_BLACK_PRECISION if quick else BLACK_PRECISION
    small = environment_of(UNSEEN, False, image_size=size)
    yield Case(BLACK, small, "probability", torch.zeros_like(small.baseline), precision)


def _answers(
    case: Case, n: int, seed: int, index: int
) -> tuple[Tensor, Tensor, Truths, Truth | None]:
    """Image `index`, the class that is explained, and the answers; no mask for an unseen baseline."""
    sample = case.env.dataset(n, seed)[index]
    image = sample.image[None]
    # A regression has one output; its label is that output's value.
    target = sample.label[None] * (case.env.task == "classification")
    truths = case.env.truths(
        image, target, case.output, baseline=case.baseline, precision=case.precision, seed=seed
    )
    truth = case.env.truth(image, target, case.output) if "mask" in truths else None
    return image, target, truths, truth


def _temperatures(run: Run) -> Iterator[Row]:
    n = min(run.n, TEMPERATURE_IMAGES)
    for temperature in TEMPERATURES:
        env = environment_of(PLAIN, run.quick, temperature=temperature)
        for index in range(n):
            image, _, truths, _ = _answers(Case(env.name, env, "probability"), n, run.seed, index)
            yield from temperature_rows(env, image, truths)


def _share(agreed: Tensor, among: Tensor) -> float:
    return float(agreed[among].double().mean()) if among.any() else np.nan


def _environments(agreement: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """By environment and output: shares agreed, and the pair of the lowest cosine."""
    by_case = pairs.groupby(["environment", "output"], sort=False)
    least = pairs.loc[by_case.cosine.idxmin()].reset_index(drop=True)
    names = least["first"] + ", " + least["second"]
    return agreement.assign(least_alike=names, cosine=least.cosine)


def _ranges(images: pd.DataFrame) -> pd.DataFrame:
    """Least and largest F1 on the negative mask, and sum, over the images of all environments."""
    table = images.groupby("definition", sort=False)[["f1_negative", "sum"]].agg(["min", "max"])
    return table.set_axis(["_".join(column) for column in table.columns], axis=1).reset_index()


def _means(images: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Means over the images of each case, in the order in which rows come."""
    return _mean(images.drop(columns="sample"), ["environment", "output", *keys])


def _mean(images: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    return images.groupby(list(keys), sort=False).mean().reset_index()


def _map_figure(drawn: Mapping[tuple[str, str], tuple[Tensor, Truths, int]]) -> Figure:
    """Draw the first image of some cases, each definition's map, and where definitions agree."""
    rows: dict[str, list[NDArray[Any] | None]] = {
        "image": [(image[0] / highest).numpy() for image, _, highest in drawn.values()]
    }
    notes: dict[str, list[str]] = {}
    every = [truths for _, truths, _ in drawn.values()]
    for name in dict.fromkeys(name for truths in every for name in truths):
        maps = [truths[name].certain[0, 0].numpy() if name in truths else None for truths in every]
        sizes = [
            ""
            if values is None
            else f"largest {np.abs(values).max():.1e}\n"
            f"sum {values.sum() / float(truths.changes[0]):.2f}"
            for values, truths in zip(maps, every, strict=True)
        ]
        rows[name] = list(maps)
        notes[name] = ["signs only" if each else "" for each in sizes] if name == "mask" else sizes
    rows["agreement"] = [agreement_picture(truths) for truths in every]
    shares = [agreement_row(truths)["relevant_agreed"] for truths in every]
    notes["agreement"] = [f"{share:.0%} of pixels\nthat matter to one" for share in shares]
    return map_grid(
        rows,
        headings=[DRAWN[key] for key in drawn],
        notes=notes,
        title="What each pixel contributes, by definition; sum: as a share of the output's change.\n"
        "Agreement: red all raise, blue all lower, white no effect, gray only some give a sign, black "
        "opposite signs",
    )


def agreement_picture(truths: Truths) -> NDArray[Any]:
    """What the definitions of one image say together, in `COLORS`, (3, H, W)."""
    agreement = truths.agreement()
    agreed, signed = agreement.agreed[0, 0].numpy(), agreement.signed[0, 0].numpy()
    picture = np.empty((*agreed.shape, 3))
    picture[:] = COLORS["only some give a sign"]
    picture[opposed(truths)[0, 0].numpy()] = COLORS["opposite signs"]
    for name, sign in (("all raise", 1), ("all lower", -1), ("no effect", 0)):
        picture[agreed & (signed == sign)] = COLORS[name]
    return np.moveaxis(picture, -1, 0)


def _importance_figure(importance: pd.DataFrame, sizes: str) -> Figure:
    here = importance[importance.environment == UNSEEN]
    table = here.rename(columns={"runner_up": "runner-up"})
    table = table.melt("definition", [each.replace("_", "-") for each in PLACES], "color", "size")
    return dots(
        *(table, "size", "definition"),
        color="color",
        title=f"One pixel of each color ({UNSEEN}, {sizes})",
        xlabel="mean over pixels, scaled so that the target has 3",
        reference=0,
    )


def _at(table: pd.DataFrame, name: str, output: str = "probability", **keys: str) -> pd.Series:
    chosen = (table.environment == name) & (table.output == output)
    for key, value in keys.items():
        chosen &= table[key] == value
    row: pd.Series = table[chosen].iloc[0]
    return row


def counts_have_one_truth(tables: Tables) -> bool:
    table = tables["environments"]
    counts = table[~table.environment.isin(table.environment[table.output == "probability"])]
    return bool(((counts.relevant_agreed == 1) & (counts.cosine > 1 - ALIKE)).all())


def unseen_colors_on_the_path_change_one_definition(tables: Tables) -> bool:
    agreed = _at(tables["environments"], UNSEEN).relevant_agreed
    without = _at(tables["definitions"], UNSEEN, definition=PATH).agreed_without
    return bool(agreed < 1 == without)


def ablation_misses_the_remainder(tables: Tables) -> bool:
    table = tables["definitions"]
    gaps = table[table.environment == "single-color-modulo"].set_index("definition").efficiency_gap
    complete = gaps[["shapley", PATH, "count-path"]].max() < ALIKE
    return bool(complete and gaps[["ablation", "insertion"]].min() > ALIKE)


def saturation_separates_definitions(tables: Tables) -> bool:
    sizes = tables["temperatures"].pivot_table("target_pixel", "temperature", "definition")
    low, high = sizes.iloc[0], sizes.iloc[-1]
    return bool(low.insertion > 100 * low.ablation and high.max() < 1.5 * high.min())


def losers_together_weigh_what_the_target_weighs(tables: Tables) -> bool:
    table = tables["importance"]
    together = table[table.environment == PLAIN].set_index("definition")[[*PLACES[1:]]].sum(axis=1)
    near = (together[["insertion", "count-path", "shapley", "ablation"]] + 3).abs().max() < 0.1
    return bool(near and together["mask"] == -9)


def deep_lift_has_the_ratios_of_insertion(tables: Tables) -> bool:
    held = tables["deep-shap"]
    cosines = held[held.environment == PLAIN].set_index("definition").cosine
    others = cosines[["shapley", "ablation"]].max()
    return bool(cosines["insertion"] > 1 - ALIKE > others)
