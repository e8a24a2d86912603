"""Why a method fails, as far as its maps and the notices about them show.

`diagnose` is about one environment, `across` about several. A hint is a hypothesis with its numbers and
the experiment that would confirm it.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from attributionlab.base import SOLVED_ABOVE, listed
from attributionlab.verdicts.diagnosis.causes import (
    IMAGE_ONLY,
    LAST_RESORTS,
    RULES,
    runner_up,
    shown_noise,
)
from attributionlab.verdicts.diagnosis.evidence import EQUALLY_GOOD, LEAST_EXPLAINED, Evidence, Hint

LEAST_PART = 0.2
"""The share of the missing F1 that a cause must explain to be named."""

NAMED = 5
"""Environments of a cause that are named, in whatever implementation; of more, the number is told."""

CLEARLY = 0.1
"""How far the mean F1 lies from that of a solved question where a method is clearly right or wrong."""

OF_THE_ENVIRONMENT = {
    *("saturation", "hooks", "tie", "quadrature", "baseline", "unseen-colors", "color-values"),
    *("coarse", "target"),
}
"""Causes that act in some environments only, by construction."""

OF_THE_METHOD = {"unseeded", "batch-mixing"}
"""Causes found in every environment, whatever else is wrong there; alone they need not lower F1."""

OF_ZEROS = {"saturation", "empty-maps"}
"""Causes of maps of zeros."""

OF_THE_BACKGROUND = {"baseline", "unseen-colors"}
"""Causes of which one says that the background gets attribution, the other that it does not."""

VAGUE = {"unrelated", "none-found", "runner-up"}
"""Hints where no concrete cause is known, or besides."""

MOSTLY = 0.8
"""The share of the missing F1 from which concrete causes account for an environment."""

OF_SIGNS = {"positive-only", "unsigned", "offset", "wrong-class"}
"""Failures that nothing shows where no pixel lowers the output."""


@dataclass(frozen=True)
class Diagnosis:
    """Where the missing F1 goes, and what may be the cause.

    `missing`: 1 - F1 of the part that decides, mean over images. `shares`: its exact split
    (`verdicts.diagnosis.shares.SHARES`). `hints`: that which explains most first; empty where
    nothing is missing or nothing is known.
    """

    missing: float
    shares: Mapping[str, float]
    hints: tuple[Hint, ...]


def diagnose(evidence: Evidence) -> Diagnosis:
    """Name the likely causes of what is missing in one environment.

    A cause is named if it explains 0.05 of F1 and a fifth of what is missing. Noise on the input, which
    may do no harm, is named where no other cause is.
    """
    enough = max(LEAST_EXPLAINED, LEAST_PART * evidence.missing)
    for rules in (RULES, (shown_noise,), LAST_RESORTS):
        named = [hint for rule in rules if (hint := rule(evidence)) and hint.explains >= enough]
        if named:
            break
    named = [each for hint in named if (each := _beside(hint, named, evidence.missing, enough))]
    # Equally good to a hundredth: in the order of the rules.
    named.sort(key=_rank)
    exclusive = [hint for hint in named if hint.cause in OF_THE_BACKGROUND][1:]
    named = [hint for hint in named if hint not in exclusive]
    lost = runner_up(evidence)
    return Diagnosis(evidence.missing, dict(evidence.shares), (*named, *([lost] if lost else [])))


def _beside(hint: Hint, named: Sequence[Hint], missing: float, enough: float) -> Hint | None:
    """A cause that is found wherever the method runs, with what others leave of the missing F1.

    A gradient at a tie of counts is wrong from any baseline; None where no more than that is missing.
    """
    if hint.cause == "baseline" and hint.tried:
        left = missing - max((each.explains for each in named if each.cause == "tie"), default=0.0)
        return hint._replace(explains=left) if left >= enough else None
    if hint.cause not in OF_THE_METHOD:
        return hint
    no_reason = {*OF_THE_METHOD, *VAGUE, *IMAGE_ONLY}  # maps of random numbers look like a constant
    others = [each.explains for each in named if each.cause not in no_reason]
    return hint._replace(explains=missing - max(others), tried=False) if others else hint


def _rank(hint: Hint, rare: bool = False) -> tuple[bool, bool, float]:
    """A key to sort by: what is certain comes first, then maps of zeros unless they are rare, since the
    other causes are about the rest.
    """
    return not hint.tried, rare or hint.cause not in OF_ZEROS, -round(hint.explains, 2)


def across(evidence: Sequence[Evidence]) -> tuple[Hint, ...]:
    """Name the likely causes over several environments, passed ones included, most important first.

    Environments that fail decide, or all where none fails; a cause is named once, with the environments
    that it was found in. Where one environment cannot tell two failures apart (all that is not
    background is the truth without its signs, where nothing distracts), the others decide.

    What was tried out on the method and is certain (`Hint.tried`) comes first. A method that clearly
    passes some environments and clearly fails others is right on those only: that is a hint
    ("one-environment"; next, unless each failure has a concrete cause that explains most of what is
    missing), unless one cause accounts for both (a map of the foreground
    passes where the foreground is the truth), or acts in some environments only by construction.
    """
    evidence = _with_preferred(evidence)
    speaking = [e for e in evidence if 1 - e.missing < SOLVED_ABOVE] or evidence
    found: dict[str, list[tuple[Evidence, Hint]]] = {}
    for e in evidence:
        for hint in diagnose(e).hints:
            if e not in speaking and hint.cause != "runner-up":
                continue
            found.setdefault(hint.cause, []).append((e, hint))
    ordered = sorted(
        found.values(),
        key=lambda pairs: _rank(
            pairs[0][1]._replace(explains=sum(hint.explains for _, hint in pairs)),
            rare=2 * len(pairs) < len(speaking),
        ),
    )
    hints = _fact_first([_merged(pairs, evidence) for pairs in ordered])
    differs = _one_environment(evidence)
    concrete = all(_concrete(e) for e in speaking)
    before = [hint for hint in hints if hint.tried or (concrete and hint.cause not in VAGUE)]
    return (*before, *differs, *(hint for hint in hints if hint not in before))


def _fact_first(hints: list[Hint]) -> list[Hint]:
    """Hints in which a fact, that nothing is negative, comes before "baseline-distance"."""
    named = [hint.cause for hint in hints]
    known = next((cause for cause in ("positive-only", "unsigned") if cause in named), None)
    if known and "baseline-distance" in named:
        fact, resemblance = named.index(known), named.index("baseline-distance")
        hints.insert(min(fact, resemblance), hints.pop(fact))
    return hints


def _concrete(e: Evidence) -> bool:
    """Whether a concrete cause accounts for most of what is missing."""
    concrete = [hint.explains for hint in diagnose(e).hints if hint.cause not in VAGUE]
    return max(concrete, default=0.0) >= MOSTLY * e.missing


def _with_preferred(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Prefer, of the failures that an environment cannot tell apart, what explains most over all."""
    total: dict[str, float] = {}
    for e in evidence:
        for each in e.look_alikes():
            total[each.cause] = total.get(each.cause, 0.0) + each.explains
    # Rounded, so that the order of the failures breaks ties.
    preferred = [
        max(
            (each.cause for each in e.indistinct()),
            key=lambda name: round(total[name], 2),
            default=None,
        )
        for e in evidence
    ]
    return [replace(e, preferred=cause) for e, cause in zip(evidence, preferred, strict=True)]


def _merged(pairs: Sequence[tuple[Evidence, Hint]], evidence: Sequence[Evidence]) -> Hint:
    """One hint for a cause, in the words of the environment in which it explains most."""
    most, hint = max(pairs, key=lambda pair: pair[1].explains)
    if len(evidence) == 1 or hint.cause in OF_THE_METHOD:
        return hint
    found: dict[str, list[str]] = {}
    for e, _ in sorted(pairs, key=lambda pair: pair[0].environment != most.environment):
        found.setdefault(e.environment, []).append(e.implementation)
    tested = [e.environment for e in evidence]
    # With the implementations that have the cause, where others have not.
    where = listed(
        [f"{k} ({listed(v)})" if len(v) < tested.count(k) else k for k, v in found.items()]
    )
    same = len(set(map(tuple, found.values()))) == 1  # the implementations of each
    if len(found) == len(set(tested)) and same and len(evidence) > NAMED:
        which = next(iter(found.values()))
        where = "all environments" + f" ({listed(which)})" * (len(pairs) < len(evidence))
    elif len(found) > NAMED:
        where = f"{len(pairs)} of {len(evidence)} environments"
    if any(other.says != hint.says for _, other in pairs):
        several = len({e.implementation for e in evidence}) > 1
        first = most.environment + f", {most.implementation}" * several
        where += f" (figures of {first})"
    return hint._replace(says=f"in {where}: {hint.says}")


def _one_environment(evidence: Sequence[Evidence]) -> list[Hint]:
    """That the method is right on some environments only, where no cause accounts for that.

    Of one implementation: what differs between two of them is said of the whole test.
    """
    evidence = [e for e in evidence if e.implementation == evidence[0].implementation]
    right = [e for e in evidence if 1 - e.missing >= SOLVED_ABOVE + CLEARLY]
    wrong = [e for e in evidence if 1 - e.missing <= SOLVED_ABOVE - CLEARLY]
    if not right or not wrong or all(_accounted(e, right) for e in wrong):
        return []
    named = [listed([f"{e.place} (F1 {1 - e.missing:.2f})" for e in es]) for es in (right, wrong)]
    hint = Hint(
        "one-environment",
        f"the method is right on {named[0]} and wrong on {named[1]}; no known cause was found for "
        f"both{wrong[0].computes}",
        f"compare `{_shown(right[0])}` and `{_shown(wrong[0])}`",
        max(e.missing for e in wrong),
    )
    return [hint]


def _shown(e: Evidence) -> str:
    return shlex.join(["attributionlab", "show", e.environment])


def _accounted(wrong: Evidence, right: Sequence[Evidence]) -> bool:
    """Whether the first cause named in a failed environment fits those that were passed."""
    hints = diagnose(wrong).hints
    return (
        bool(hints)
        and hints[0].cause != "runner-up"
        and all(_fits(hints[0].cause, e) for e in right)
    )


def _fits(cause: str, passed: Evidence) -> bool:
    """Whether a method that fails for this cause may pass here."""
    look_alikes = {each.cause: each for each in passed.likeness.ranked}
    if cause in OF_THE_ENVIRONMENT or any(hint.cause == cause for hint in diagnose(passed).hints):
        return True
    if cause not in look_alikes:
        return cause in OF_SIGNS
    same = look_alikes[cause]
    return same.f1 is None and same.similarity >= passed.likeness.truth - EQUALLY_GOOD
