"""The exam: one method in many random worlds, and what it cannot do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from attributionlab.environment import Environment
from attributionlab.environment.catalog import load_call
from attributionlab.errors import Stopped, refuse_if
from attributionlab.exams.drawing import FEATURES
from attributionlab.exams.worlds import random_worlds
from attributionlab.faithfulness.comparing import method_cell
from attributionlab.faithfulness.report import (
    FaithfulnessReport,
    Files,
    ends,
    format_settings,
    labelled,
)
from attributionlab.faithfulness.setup import Claim
from attributionlab.faithfulness.test import checked_request, drawn_seed
from attributionlab.faithfulness.verdicts import Verdict
from attributionlab.methods import METHODS, AttributionMethod, as_method, preset_of
from attributionlab.methods.controls import CONTROLS
from attributionlab.progress import follow
from attributionlab.stats.intervals import Interval, share_interval, verdict_of
from attributionlab.store.running import Workers, done_before_stop, run_cells
from attributionlab.store.store import stored
from attributionlab.versions import library_versions

if TYPE_CHECKING:
    import pandas as pd

MAJORITY = 0.5
"""Share of the worlds that must be passed."""


@dataclass(frozen=True)
class WorldResult:
    """What a method made of one world.

    Parameters
    ----------
    name, rule, call : str
        The world, and how Python makes it.
    features : tuple of str
        What it asks, of `attributionlab.exams.FEATURES`.
    verdict : {"pass", "fail", "inconclusive", "invalid", "refused"}
        Of the faithfulness test in this world; "refused" where the method could not be run.
    reason : str
        Why it was refused, or is invalid.
    claim_f1 : float or None
        Mean F1 of the claim; None where it was refused.
    claim_interval : Interval or None
        Its 95 % interval over questions.
    excluded : tuple of str
        Which blind maps its score excludes (`attributionlab.faithfulness.proof.Proof.excluded`).
    """

    name: str
    rule: str
    call: str
    features: tuple[str, ...]
    verdict: Verdict | Literal["refused"]
    reason: str
    claim_f1: float | None
    claim_interval: Interval | None
    excluded: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON file."""
        lists = {"features": list(self.features), "excluded": list(self.excluded)}
        return {**vars(self), **lists, "claim_interval": ends(self.claim_interval)}


class Share(NamedTuple):
    """How many of some worlds a method passes."""

    worlds: int
    passed: int

    @classmethod
    def of(cls, results: Sequence[WorldResult]) -> "Share":
        """That of some results."""
        return cls(len(results), sum(each.verdict == "pass" for each in results))

    @property
    def value(self) -> float | None:
        """None without any world."""
        return self.passed / self.worlds if self.worlds else None

    @property
    def interval(self) -> Interval | None:
        """95 % interval over worlds."""
        return share_interval(self.passed, self.worlds) if self.worlds else None

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON file."""
        return {**self._asdict(), "share": self.value, "interval": ends(self.interval)}


@dataclass(frozen=True, eq=False)
class WorldsReport(Files):
    """What a method made of random worlds.

    Parameters
    ----------
    method : str
        Its name, with its settings.
    results : sequence of WorldResult
        One for each world, in the order in which they were drawn.
    exam : mapping
        What names the worlds: "worlds", "seed", "difficulty", "image_size".
    n, gamma, claim
        Questions in each world, the F1 that must be reached there, and of what.
    rejected : mapping of str to int
        How many drawn rules were not kept, by reason.
    command : str
        How to run it again.
    seed_drawn : bool
        Whether the seed was drawn for this exam ("fresh").
    """

    method: str
    results: Sequence[WorldResult]
    exam: Mapping[str, Any]
    n: int
    gamma: float
    claim: str
    rejected: Mapping[str, int]
    command: str
    seed_drawn: bool = False

    @property
    def share(self) -> Share:
        """How many worlds are passed; an inconclusive one, and one that refuses the method, is not."""
        return Share.of(self.results)

    @property
    def verdict(self) -> Verdict:
        """ "pass" if the 95 % interval of the share of worlds passed reaches one half with all of it,
        "fail" if with nothing of it; "invalid" if a world is, since a control did not do what it must.
        """
        if any(each.verdict == "invalid" for each in self.results):
            return "invalid"
        share = self.share
        assert share.value is not None
        return verdict_of(share.interval, MAJORITY, share.value)

    def by_feature(self) -> "pd.DataFrame":
        """Share of worlds passed with and without each feature.

        Columns: feature, and for "with" and "without" worlds, passed, share, low, high (95 % interval
        over worlds); NaN where there is no such world.
        """
        import pandas as pd

        rows = []
        for feature, shares in self._by_feature().items():
            row: dict[str, Any] = {"feature": feature}
            for side, share in shares.items():
                low, high = share.interval or (None, None)
                row |= {
                    f"worlds_{side}": share.worlds,
                    f"passed_{side}": share.passed,
                    f"share_{side}": share.value,
                    f"low_{side}": low,
                    f"high_{side}": high,
                }
            rows.append(row)
        numbers = [f"{name}_{side}" for name in ("share", "low", "high") for side in SIDES]
        return pd.DataFrame(rows).astype(dict.fromkeys(numbers, float))

    def _by_feature(self) -> dict[str, dict[str, Share]]:
        """For each feature the shares with it and without it."""
        found = {}
        for feature in FEATURES:
            has = [each for each in self.results if feature in each.features]
            lacks = [each for each in self.results if feature not in each.features]
            found[feature] = dict(zip(SIDES, (Share.of(has), Share.of(lacks)), strict=True))
        return found

    def to_frame(self) -> "pd.DataFrame":
        """One row for each world: name, rule, features, verdict, claim_f1, f1_low, f1_high, reason."""
        import pandas as pd

        rows = [
            {
                "name": each.name,
                "rule": each.rule,
                "features": ", ".join(each.features),
                "verdict": each.verdict,
                "claim_f1": each.claim_f1,
                "f1_low": each.claim_interval and each.claim_interval.low,
                "f1_high": each.claim_interval and each.claim_interval.high,
                "reason": each.reason,
            }
            for each in self.results
        ]
        return pd.DataFrame(rows).astype(dict.fromkeys(("claim_f1", "f1_low", "f1_high"), float))

    def to_dict(self) -> dict[str, Any]:
        """Document that `to_json` writes."""
        return {
            "schema": 1,
            "verdict": self.verdict,
            "method": self.method,
            "exam": dict(self.exam),
            "seed_drawn": self.seed_drawn,
            "n": self.n,
            "gamma": self.gamma,
            "claim": self.claim,
            "majority": MAJORITY,
            "passed": self.share.to_dict(),
            "by_feature": {
                feature: {side: share.to_dict() for side, share in shares.items()}
                for feature, shares in self._by_feature().items()
            },
            "worlds": [each.to_dict() for each in self.results],
            "rejected": dict(self.rejected),
            "command": self.command,
            "versions": library_versions(),
        }


SIDES = ("with", "without")


def worlds_test(
    method: AttributionMethod,
    worlds: int = 50,
    seed: int | Literal["fresh"] = 0,
    difficulty: str = "medium",
    image_size: int = 48,
    n: int = 6,
    gamma: float = 0.5,
    claim: Claim | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    preset: str | None = None,
    device: str | torch.device | None = None,
    out: str | Path | None = None,
    jobs: int | None = 1,
    retry_failed: bool = False,
    show_progress: bool = False,
    command: str | None = None,
) -> WorldsReport:
    """Test an attribution method in random worlds that it has not seen.

    Each world is an environment of `faithfulness_test`: n questions, each with the rule in drawn roles
    and with a network of its own. The result is the share of worlds that the method passes, with an
    interval over worlds, and the same by feature: what the method cannot do. It passes if all of the
    interval reaches one half: it is right in most worlds like these. A world without a clear verdict is
    not passed. A world that is invalid makes the whole invalid.

    Every world is a regression, so there is no target that a map could depend on; what a score in a
    world excludes (`WorldResult.excluded`) does not enter the verdict.

    Parameters
    ----------
    method : str, class or callable
        What `faithfulness_test` takes, unless it is bound to one network.
    worlds, seed, difficulty, image_size
        What names the worlds: `attributionlab.random_worlds`. "fresh" draws a seed, which the report
        states: an exam after the method is fixed.
    n : int
        Questions in each world; there is no verdict with fewer than 6.
    gamma, claim, settings, preset
        As for `faithfulness_test`.
    device, out, jobs, retry_failed, show_progress, command
        As for `compare`.

    Returns
    -------
    WorldsReport

    Raises
    ------
    AttributionLabError
        For all that is wrong with the arguments, and for a method that no world can run.

    Examples
    --------
    >>> import attributionlab as al
    >>> report = al.worlds_test("oracle", worlds=2, difficulty="easy", image_size=24)
    >>> report.share.passed, report.verdict  # two worlds are too few for a verdict
    (2, 'inconclusive')
    """
    resolved = as_method(method, METHODS | CONTROLS, settings)
    number, seed_drawn = drawn_seed(seed)
    preset_of(preset, "regression", "")
    claimed, gamma = checked_request(
        n=n, seed=number, gamma=gamma, claim=claim or resolved.claim or "signed", outputs=()
    )
    with follow("drawing worlds", show=show_progress):
        drawn = random_worlds(worlds, number, difficulty, image_size)
    label = labelled(resolved.name, resolved.settings)
    options = {"n": n, "gamma": gamma, "claim": claimed, "output": None, "preset": preset}
    options |= {"one_network": False, "equivalent": 0}
    cells = [
        # Questions of other images in each world, or chance in them would be in all worlds at once.
        method_cell(
            label,
            resolved,
            (method, settings or {}),
            env,
            {**options, "seed": env.spec.seed},
            device,
        )
        for env in drawn
    ]
    with stored(out) as store:
        done, stop = done_before_stop(
            run_cells(
                *(cells, store, Workers(jobs)),
                retry_failed=retry_failed,
                what="random worlds",
                show_progress=show_progress,
            )
        )
    results = []
    for env, features, cell in zip(drawn, drawn.features, cells, strict=True):
        if cell.key in done:
            outcome = done[cell.key]
            found = outcome.error if outcome.refused else outcome.value
            results.append(_world_result(env, features, found))
    said = f"{len(results)} of {worlds} worlds were done"
    reasons = list(dict.fromkeys(each.reason for each in results if each.verdict == "refused"))
    if stop is None and all(each.verdict == "refused" for each in results):
        refuse_if(reasons, resolved.name)
    report = WorldsReport(
        method=label,
        results=results,
        exam={
            "worlds": worlds,
            "seed": number,
            "difficulty": difficulty,
            "image_size": image_size,
        },
        n=n,
        gamma=gamma,
        claim=claimed,
        rejected=drawn.rejected,
        command=command
        or f"attributionlab.worlds_test({resolved.reference}, worlds={worlds}, seed={number}, "
        f"difficulty={difficulty!r}, image_size={image_size}, n={n}, gamma={gamma}, claim={claim!r}, "
        f"settings={format_settings(resolved.settings)}, preset={preset!r}, device={device!r})",
        seed_drawn=seed_drawn,
    )
    if stop is not None:
        raise Stopped(said, report if results else None) from stop
    return report


def _world_result(
    env: Environment, features: frozenset[str], found: FaithfulnessReport | str
) -> WorldResult:
    """What a report, or the reason of a refusal, says of a world."""
    assert isinstance(env.rule, str)
    shown = env.name, env.rule, load_call(env), tuple(each for each in FEATURES if each in features)
    if isinstance(found, str):
        return WorldResult(*shown, "refused", found, None, None, ())
    [result] = found.environments
    excluded = () if result.proof is None else tuple(result.proof.excluded)
    score = result.claim_f1, result.claim_interval
    return WorldResult(*shown, result.verdict, result.reason, *score, excluded)
