r"""What one pixel of each color is worth to a class's probability, by definition and by DeepLift.

With counts k, T the temperature and p = softmax(k / T), one pixel of color c changes the probability
of the target t by about :math:`p_t ([c = t] - p_c) / T`, to first order in 1 / T, and one of every
color by exactly nothing. To that order, so for T >> 1, a definition that adds up such changes gives the
losing colors together minus what it gives the target, and definitions differ in how the losers share:
ablation by their probabilities at the image, insertion into a baseline without counts equally.

Two hold at every temperature: insertion's K - 1 : -1 : ... : -1, whatever the image, and the sum of the
count path, which integrates the first order itself. Ablation takes a whole pixel away: where the winner
is sure of itself, the losers together have -exp(-1 / T) times what the target's pixel has.
"""

from collections.abc import Iterator
from typing import Any, cast

import torch
from jaxtyping import Float64
from torch import Tensor

from attributionlab.environment import Environment
from attributionlab.methods import deep_shap, heard
from attributionlab.metrics import cosine, rank_correlation
from attributionlab.papers.attributionlab.definitions_compared import mask_scores, signs_shared
from attributionlab.truth import Truth, Truths

PLACES = ("target", "runner_up", "third", "fourth")
"""Colors by their number of pixels."""
DEEP_LIFT = "deep-shap"
Row = dict[str, Any]


def deep_lift(env: Environment, image: Tensor, target: Tensor) -> Float64[Tensor, "1 1 h w"]:
    """Captum's DeepLift from the true baseline, behind the softmax, summed over channels.

    With a single baseline it is the same as DeepSHAP.
    """
    assert env.softmax_model is not None
    with heard():  # what its sum misses is in the table
        maps = deep_shap(env.softmax_model, image, target, baselines=env.baseline)
    return maps.double().sum(1, keepdim=True)


def worth_rows(
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
        worth = [float(each.mean()) / unit for each in of_color]
        yield {
            "definition": name,
            **dict(zip(PLACES, worth, strict=False)),
            "spread": max(float(each.std(unbiased=False)) for each in of_color) / unit,
            "sum": float("nan") if name == "mask" else float(values.sum() / truths.changes[0]),
            "expected_sum": 1 - mean / counts[target] if name == DEEP_LIFT else float("nan"),
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
