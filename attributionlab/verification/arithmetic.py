"""Exact arithmetic: no answer depends on precision, memory layout or batch, for any image."""

import copy

import torch
from jaxtyping import Float
from torch import Tensor

from attributionlab.environment import Environment
from attributionlab.verification.certificate import Check, Tally
from attributionlab.verification.execution import run

__all__ = ["arithmetic_checks"]


def arithmetic_checks(
    env: Environment, images: Float[Tensor, "n channels height width"]
) -> list[Check]:
    """Compare the logits of images, of unseen colors too, with those computed in other ways.

    Parameters
    ----------
    env : Environment
        Its network is copied where precision or layout change.
    images : Tensor
        Samples and images anywhere in the valid box.
    """
    logits = run(env.model, images)
    contiguous = torch.contiguous_format
    rearranged = copy.deepcopy(env.model).to(memory_format=contiguous)  # type: ignore[call-overload]
    others = {
        "float64": (
            "Logits in float32 equal those in float64 for images anywhere in the valid box.",
            run(copy.deepcopy(env.model).double(), images),
        ),
        "memory-layout": (
            "Logits in the channels-last layout equal those in the contiguous one.",
            run(rearranged, images, contiguous),
        ),
        "batch": (
            "Logits of an image alone equal those within a batch.",
            torch.cat([run(env.model, image[None]) for image in images]),
        ),
    }
    checks = []
    for name, (claim, expected) in others.items():
        tally = Tally(name, claim)
        tally.compare(logits, expected, lambda i: f"image {i}")
        checks.append(tally.check())
    return checks
