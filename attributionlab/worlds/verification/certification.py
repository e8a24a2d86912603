"""Certify an environment: every part of its network against its oracle, then the whole."""

import copy
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    Seed,
    checked_arguments,
    follow,
    own_arithmetic,
    track,
)
from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.rules.rule import Rule
from attributionlab.worlds.verification.certificate import Certificate, Check, Precision, compared
from attributionlab.worlds.verification.execution import equals_rule_on, run
from attributionlab.worlds.verification.interventions import intervention_checks
from attributionlab.worlds.verification.oracle import Oracle
from attributionlab.worlds.verification.pixels import (
    anywhere_in_the_box,
    camouflage_checks,
    detector_checks,
    output_checks,
)
from attributionlab.worlds.verification.rules import irrelevance_checks, rule_checks
from attributionlab.worlds.verification.sums import head_checks, sum_checks


def arithmetic_checks(
    env: Environment, images: Float[Tensor, "n channels height width"]
) -> list[Check]:
    """Compare the logits of images, of unseen colors too, with those computed in other ways.

    `env`: its network is copied where precision or layout change. `images`: samples and images anywhere
    in the valid box.
    """
    logits = run(env.model, images)
    contiguous = torch.contiguous_format
    rearranged = copy.deepcopy(env.model).to(memory_format=contiguous)  # type: ignore[call-overload]
    others = {
        "float64": (
            "Logits in float32 equal those in float64 for samples"
            f"{' and images anywhere in the valid box' * (env.network.equal_on == 'integers')}.",
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
    return [
        compared(name, claim, logits, expected, "image")
        for name, (claim, expected) in others.items()
    ]


SAMPLES = 4
MOVES, MOVES_OF_COSTLY = 32, 8
"""How many pixels of a sample are changed in each way. Costly is a color detector, which takes a
hundred times as long as a sum, on images of 100 x 100 pixels and more."""


@checked_arguments
@own_arithmetic()
def verify(
    env: Environment, *, exhaustive: bool = False, seed: Seed = 0, show_progress: bool = False
) -> Certificate:
    """Verify a hand-weighted network against reference implementations in plain integers.

    Detectors are compared with comparisons, sums with counting, remainders with `%`, and the truth
    masks with the effects of single pixels on the logits. The network's state is not changed.

    Parameters
    ----------
    env : Environment
        What to certify.
    exhaustive : bool
        Check color detectors on all 2^24 colors instead of a sample of some thousand.
    seed : int
        Seed for the sampled colors, images and pixels, non-negative.
    show_progress : bool
        Show a progress bar on the standard error stream.

    Returns
    -------
    Certificate
        One `Check` per claim; checks that do not apply to the environment are left out. For a rewritten
        network (a camouflage, another implementation), checks of the parts (detector, accumulator,
        head) apply to the original network, and one check compares the two.

    Examples
    --------
    >>> import attributionlab as al
    >>> certificate = al.verify(al.load("number-checker", image_size=9))
    >>> certificate.passed
    True
    >>> certificate.checks[0].claim
    'The number checker is int(x == 5) for all 256 values of a pixel.'
    """
    if env.spec.is_trained:
        raise AttributionLabError(
            f"{env.name} has a trained network ({env.spec.constants['trained']}), which approximates "
            "its rule: its certificate is in its file; verify the hand-weighted one"
        )
    oracle = Oracle.of(env)
    samples, labels = env.batch(SAMPLES, seed)

    def generator() -> torch.Generator:
        # One for each part, so that what one part draws does not depend on the others.
        return torch.Generator().manual_seed(seed)

    costly = len(oracle.background) > 1 and env.recipe.image_size >= 100
    few, moves = (samples[:2], MOVES_OF_COSTLY) if costly else (samples, MOVES)
    anywhere = anywhere_in_the_box(env, samples, generator())
    of_kind: list[Callable[[], list[Check]]] = [
        lambda: sum_checks(env, oracle, generator()),
        lambda: head_checks(env, oracle, generator()),
        lambda: output_checks(env, oracle, samples, labels, generator()),
        lambda: intervention_checks(env, oracle, few, moves, generator()),
    ]
    if isinstance(env.counting, Rule):
        rule = env.counting
        of_kind = [
            lambda: rule_checks(env, rule.expressions, rule.places, generator()),
            lambda: irrelevance_checks(env, few, moves, generator()),
        ]
    shown = torch.cat([samples[:1], anywhere])
    exact = shown[equals_rule_on(env, shown)]
    parts: list[Callable[[], list[Check]]] = [
        *of_kind,
        lambda: arithmetic_checks(env, exact),
        lambda: camouflage_checks(env, oracle, torch.cat([samples, anywhere]), generator()),
    ]
    with follow(f"verify {env.name}", show=show_progress):
        # The detector shows progress of its own: it takes all the time where it is exhaustive.
        checks = detector_checks(
            env, oracle, generator(), exhaustive=exhaustive, show_progress=show_progress
        )
        for part in track(parts, len(parts), f"verify {env.name}", show_progress, "parts"):
            checks += part()
        # Half precision takes a CPU ten times as long.
        precisions = half_precisions(env, shown[:2] if costly else shown)
    return Certificate(env.name, checks, precisions)


HALVES = (torch.float16, torch.bfloat16)


def half_precisions(
    env: Environment, images: Float[Tensor, "n channels height width"]
) -> list[Precision]:
    """Compare the logits of images in each type of half precision with those in float32.

    `env`: its network is copied. `images`: samples and images anywhere in the valid box.
    """
    expected = run(env.model, images)
    precisions = []
    for dtype in HALVES:
        model = copy.deepcopy(env.model).to(dtype)
        logits = run(model, images)
        largest = float((logits - expected).abs().max())
        precisions.append(
            Precision(
                dtype=str(dtype).removeprefix("torch."),
                images=len(images),
                equal=int((logits == expected).all(1).sum()),
                largest_difference=largest if logits.isfinite().all() else None,
                proved=_is_proved(env, model, dtype),
            )
        )
    return precisions


def _is_proved(env: Environment, model: nn.Module, dtype: torch.dtype) -> bool:
    """Whether the type holds every weight, and every partial sum of every layer, without rounding.

    Every partial sum is a multiple of its neuron's grid step and at most so many of them as the type
    counts. Layers without a budget of their own hand numbers on.
    """
    limits = torch.finfo(dtype)
    weights = zip(env.model.parameters(), model.parameters(), strict=True)
    return all(torch.equal(full.double(), half.double()) for full, half in weights) and all(
        budget.steps <= 2 / limits.eps
        and budget.largest_sum <= limits.max
        and budget.finest >= limits.tiny
        for budget in env.network.budgets
    )
