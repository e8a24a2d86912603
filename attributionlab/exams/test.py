"""The exam: one method in many random worlds, and what it cannot do."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from attributionlab.exams.exam import MAJORITY, ExamReport, InWorld, WorldLabel, run_exam
from attributionlab.faithfulness.comparing import method_cell
from attributionlab.faithfulness.isolation import as_tested, processes_ended
from attributionlab.faithfulness.report import FaithfulnessReport, ends, format_settings, labelled
from attributionlab.faithfulness.setup import Claim
from attributionlab.faithfulness.test import checked_request, drawn_seed
from attributionlab.faithfulness.verdicts import Verdict
from attributionlab.methods import AttributionMethod, preset_of
from attributionlab.stats.intervals import Interval, verdict_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class WorldResult(InWorld):
    """What a method made of one world.

    The verdict is that of the faithfulness test in this world, or "refused" where the method could not
    be run.

    `claim_f1`: mean F1 of the claim; None where it was refused. `claim_interval`: its 95 % interval
    over questions. `excluded`: which blind maps its score excludes
    (`attributionlab.faithfulness.proof.Proof.excluded`).
    """

    claim_f1: float | None
    claim_interval: Interval | None
    excluded: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON file."""
        return super().to_dict() | {"claim_interval": ends(self.claim_interval)}


@dataclass(frozen=True, eq=False, kw_only=True)
class WorldsReport(ExamReport[WorldResult]):
    """What a method made of random worlds.

    `method`: its name, with its settings. `gamma`, `claim`: the F1 that must be reached in each world,
    and of what.
    """

    PASSED = "pass"

    method: str
    gamma: float
    claim: str

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
        return self.document(
            verdict=self.verdict,
            method=self.method,
            gamma=self.gamma,
            claim=self.claim,
            worlds=[each.to_dict() for each in self.results],
        )


@processes_ended()
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
    isolated: bool = True,
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
    gamma, claim, settings, preset, isolated
        As for `faithfulness_test`.
    device, out, jobs, retry_failed, show_progress, command
        As for `compare`.

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
    resolved = as_tested(method, settings, isolated)
    number, seed_drawn = drawn_seed(seed)
    preset_of(preset, "regression", "")
    claimed, gamma = checked_request(
        n=n, seed=number, gamma=gamma, claim=claim or resolved.claim or "signed", outputs=()
    )
    label = labelled(resolved.name, resolved.settings)
    options = {"n": n, "gamma": gamma, "claim": claimed, "output": None, "preset": preset}
    options |= {"one_network": False, "equivalent": 0, "isolated": isolated}
    run = run_exam(
        *(worlds, number, difficulty, image_size),
        # Questions of other images in each world, or chance in them would be in all worlds at once.
        lambda env: method_cell(
            label,
            resolved,
            (method, settings or {}),
            env,
            {**options, "seed": env.spec.seed},
            device,
        ),
        _world_result,
        out=out,
        jobs=jobs,
        retry_failed=retry_failed,
        show_progress=show_progress,
    )
    report = WorldsReport(
        method=label,
        results=run.results,
        exam=run.exam,
        n=n,
        gamma=gamma,
        claim=claimed,
        rejected=run.rejected,
        command=command
        or f"attributionlab.worlds_test({resolved.reference}, worlds={worlds}, seed={number}, "
        f"difficulty={difficulty!r}, image_size={image_size}, n={n}, gamma={gamma}, claim={claim!r}, "
        f"settings={format_settings(resolved.settings)}, preset={preset!r}, isolated={isolated}, "
        f"device={device!r})",
        seed_drawn=seed_drawn,
    )
    return run.checked(report, resolved.name)


def _world_result(shown: WorldLabel, found: FaithfulnessReport | str) -> WorldResult:
    """What a report, or the reason of a refusal, says of a world."""
    if isinstance(found, str):
        return WorldResult(*shown, "refused", found, None, None, ())
    [result] = found.environments
    excluded = () if result.proof is None else tuple(result.proof.excluded)
    score = result.claim_f1, result.claim_interval
    return WorldResult(*shown, result.verdict, result.reason, *score, excluded)
