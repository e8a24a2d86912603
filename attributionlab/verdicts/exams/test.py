"""The exam: one method in many random worlds, and what it cannot do."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from attributionlab.base import LEAST_SHARE, verdict_of
from attributionlab.methods import AttributionMethod, preset_of
from attributionlab.verdicts.exams.exam import MAJORITY, ExamReport, InWorld, WorldLabel, run_exam
from attributionlab.verdicts.faithfulness.comparing import method_cell
from attributionlab.verdicts.faithfulness.isolation import as_tested, processes_ended
from attributionlab.verdicts.faithfulness.report import (
    FaithfulnessReport,
    format_settings,
    labelled,
)
from attributionlab.verdicts.faithfulness.setup import Claim
from attributionlab.verdicts.faithfulness.test import checked_request, drawn_seed
from attributionlab.verdicts.faithfulness.verdicts import Verdict

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class WorldResult(InWorld):
    """What a method made of one world.

    The verdict is that of the faithfulness test in this world, or "refused" where the method could not
    be run.

    `claim_f1`: mean F1 of the claim; None where it was refused. `solved`, `asked`: questions.
    """

    claim_f1: float | None
    solved: int
    asked: int


@dataclass(frozen=True, eq=False, kw_only=True)
class WorldsReport(ExamReport[WorldResult]):
    """What a method made of random worlds.

    `method`: its name, with its settings. `claim`: what is held against the truth.
    """

    PASSED = "pass"

    method: str
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
        """One row for each world: name, rule, features, verdict, claim_f1, solved, asked, reason."""
        import pandas as pd

        rows = [
            {
                "name": each.name,
                "rule": each.rule,
                "features": ", ".join(each.features),
                "verdict": each.verdict,
                "claim_f1": each.claim_f1,
                "solved": each.solved,
                "asked": each.asked,
                "reason": each.reason,
            }
            for each in self.results
        ]
        return pd.DataFrame(rows).astype({"claim_f1": float})

    def to_dict(self) -> dict[str, Any]:
        """Document that `to_json` writes."""
        return self.document(
            verdict=self.verdict,
            method=self.method,
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
    and with a network of its own. A world is passed by three quarters of its
    questions. The result is the share of worlds passed, with an interval over worlds, and the same by
    feature: what the method cannot do. The method passes if all of the interval reaches one half: it is
    right in most worlds like these. A world that is invalid makes the whole invalid.

    Parameters
    ----------
    method : str, class or callable
        What `faithfulness_test` takes, unless it is bound to one network.
    worlds, seed, difficulty, image_size
        What names the worlds: `attributionlab.random_worlds`. "fresh" draws a seed, which the report
        states: an exam after the method is fixed.
    n : int
        Questions in each world.
    claim, settings, preset, isolated
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
    claimed = checked_request(
        n=n, seed=number, claim=claim or resolved.claim or "signed", outputs=()
    )
    label = labelled(resolved.name, resolved.settings)
    options = {"n": n, "claim": claimed, "output": None, "preset": preset}
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
        claim=claimed,
        rejected=run.rejected,
        command=command
        or f"attributionlab.worlds_test({resolved.reference}, worlds={worlds}, seed={number}, "
        f"difficulty={difficulty!r}, image_size={image_size}, n={n}, claim={claim!r}, "
        f"settings={format_settings(resolved.settings)}, preset={preset!r}, isolated={isolated}, "
        f"device={device!r})",
        seed_drawn=seed_drawn,
    )
    return run.checked(report, resolved.name)


def _world_result(shown: WorldLabel, found: FaithfulnessReport | str) -> WorldResult:
    """What a report, or the reason of a refusal, says of a world."""
    if isinstance(found, str):
        return WorldResult(*shown, "refused", found, None, 0, 0)
    [result] = found.environments
    verdict: Verdict = result.verdict
    if verdict != "invalid":  # so few questions decide nothing about one world, many worlds do
        passed = result.count.solved >= LEAST_SHARE * result.count.asked
        verdict = "pass" if passed else "fail"
    return WorldResult(*shown, verdict, result.reason, result.claim_f1, *result.count)
