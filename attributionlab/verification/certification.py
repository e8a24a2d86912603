"""Certify an environment: every part of its network against its oracle, then the whole."""

from collections.abc import Callable

import torch

from attributionlab.device import own_arithmetic
from attributionlab.environment import Environment
from attributionlab.errors import AttributionLabError
from attributionlab.progress import follow, track
from attributionlab.verification.arithmetic import arithmetic_checks
from attributionlab.verification.camouflage import camouflage_checks
from attributionlab.verification.certificate import Certificate, Check
from attributionlab.verification.heads import head_checks
from attributionlab.verification.interventions import intervention_checks
from attributionlab.verification.oracle import Oracle
from attributionlab.verification.outputs import anywhere_in_the_box, output_checks
from attributionlab.verification.pixels import detector_checks
from attributionlab.verification.precision import half_precisions
from attributionlab.verification.sums import sum_checks

__all__ = ["verify"]

SAMPLES = 4
MOVES, MOVES_OF_COSTLY = 32, 8
"""How many pixels of a sample are changed in each way. Costly is a color detector, which takes a
hundred times as long as a sum, on images of 100 x 100 pixels and more."""


@own_arithmetic()
def verify(
    env: Environment, *, exhaustive: bool = False, seed: int = 0, show_progress: bool = False
) -> Certificate:
    """Hold a hand-weighted network against oracles of plain integers.

    Detectors are held against comparisons, sums against counting, remainders against `%`, and the
    truth masks against what single pixels do to the logits. The network's state is left as it is.

    Parameters
    ----------
    env : Environment
        What to certify.
    exhaustive : bool
        Show a color detector all 2^24 colors instead of a sample of some thousand.
    seed : int
        Which colors, images and pixels are sampled, non-negative.
    show_progress : bool
        Show a progress bar on the standard error stream.

    Returns
    -------
    Certificate
        One `Check` per claim; checks that do not apply to the environment are left out. Those about
        the parts of a camouflaged network (detector, accumulator, head) are about the network before
        it was camouflaged, and one holds the two against each other.

    Examples
    --------
    >>> import attributionlab as al
    >>> certificate = al.verify(al.load("number-checker", image_size=9))
    >>> certificate.passed
    True
    >>> certificate.checks[0].claim
    'The number checker is int(x == 5) for all 256 values of a pixel.'
    """
    if not isinstance(env, Environment):
        raise AttributionLabError(f"environment is {env!r}: pass attributionlab.load(name)")
    oracle = Oracle.of(env)
    samples, labels = env.batch(SAMPLES, seed)

    def generator() -> torch.Generator:
        # One for each part, so that what one part draws does not depend on the others.
        return torch.Generator().manual_seed(seed)

    costly = len(oracle.background) > 1 and env.recipe.image_size >= 100
    few, moves = (samples[:2], MOVES_OF_COSTLY) if costly else (samples, MOVES)
    anywhere = anywhere_in_the_box(env, samples, generator())
    parts: list[Callable[[], list[Check]]] = [
        lambda: sum_checks(env, oracle, generator()),
        lambda: head_checks(env, oracle, generator()),
        lambda: output_checks(env, oracle, samples, labels, generator()),
        lambda: intervention_checks(env, oracle, few, moves, generator()),
        lambda: arithmetic_checks(env, torch.cat([samples[:1], anywhere])),
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
        shown = torch.cat([samples[:1], anywhere[:1] if costly else anywhere])
        precisions = half_precisions(env, shown)
    return Certificate(env.name, checks, precisions)
