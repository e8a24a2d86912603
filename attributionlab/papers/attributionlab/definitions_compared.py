"""Definitions of the truth held against each other and against the masks, image by image."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, get_args

import torch
from jaxtyping import Float, Int8
from torch import Tensor

from attributionlab.metrics import Part, alignment, cosine, magnitudes, normalize, rank_correlation
from attributionlab.truth import Truth, Truths

Row = dict[str, Any]
Maps = Float[Tensor, "batch 1 height width"]
Signs = Int8[Tensor, "batch 1 height width"]


def signs_shared(first: Signs, second: Signs) -> float:
    """Share of one image's pixels with a sign in either of two maps that have the same in both."""
    either = (first != 0) | (second != 0)
    return float((first == second)[either].double().mean()) if either.any() else float("nan")


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
            "rank_correlation": float(rank_correlation(*pair)) if has_order else float("nan"),
            "cosine": float(cosine(*pair)) if has_order else float("nan"),
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
            "efficiency_gap": float("nan") if name == "mask" else _gap(truths, name),
            "agrees": sum(shared) / len(shared),
            "agreed_without": _share(without.agreed, relevant(truths)),
            **mask_scores(definition.certain, truth),
        }


def agreement_row(truths: Truths) -> Row:
    """Of one image: shares of all and of the relevant pixels on which all definitions agree.

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
    scores = {}
    for part in get_args(Part):
        marked = None if truth is None else getattr(truth, part)
        f1 = float("nan")
        if marked is not None and marked.any():
            f1 = float(alignment(magnitudes(normalize(maps), part), marked).f1)
        scores[f"f1_{part}"] = f1
    return scores


def _gap(truths: Truths, name: str) -> float:
    return float(truths.efficiency_gaps(name)[0])


def _share(agreed: Tensor, among: Tensor) -> float:
    return float(agreed[among].double().mean()) if among.any() else float("nan")
