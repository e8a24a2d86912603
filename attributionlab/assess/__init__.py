"""What a score is held against: controls, intervals, ceilings, and what a failure looks like."""

from attributionlab.assess.ceilings import (
    EXACT_SHAPLEY,
    POSITIVE_ONLY,
    claim_ceilings,
    part_ceilings,
)
from attributionlab.assess.controls import (
    CONTROLS,
    INPUT_ONLY,
    MUST_FAIL,
    baseline_distance,
    constant,
    filled_patches,
    inverted_oracle,
    non_background,
    oracle,
    random,
    sobel,
)
from attributionlab.assess.deciding import images_to_decide
from attributionlab.assess.graded import Graded, graded_attributions
from attributionlab.assess.hints import Diagnosis, Evidence, Hint, across, diagnose
from attributionlab.assess.intervals import (
    Interval,
    gamma_curve,
    least_mean_interval,
    mean_interval,
    paired_difference,
    verdict_of,
)
from attributionlab.assess.invariance import Drift
from attributionlab.assess.likeness import look_alikes
from attributionlab.assess.runs import OfRuns, over_runs, run_name
from attributionlab.assess.scores import mean_score
from attributionlab.assess.shares import missing_shares, pixel_kinds
from attributionlab.assess.verdicts import Band, ControlScore, Standing, Verdict, control_score

__all__ = [
    "CONTROLS",
    "EXACT_SHAPLEY",
    "INPUT_ONLY",
    "MUST_FAIL",
    "POSITIVE_ONLY",
    "Band",
    "ControlScore",
    "Diagnosis",
    "Drift",
    "Evidence",
    "Graded",
    "Hint",
    "Interval",
    "OfRuns",
    "Standing",
    "Verdict",
    "across",
    "baseline_distance",
    "claim_ceilings",
    "constant",
    "control_score",
    "diagnose",
    "filled_patches",
    "gamma_curve",
    "graded_attributions",
    "images_to_decide",
    "inverted_oracle",
    "least_mean_interval",
    "look_alikes",
    "mean_interval",
    "mean_score",
    "missing_shares",
    "non_background",
    "oracle",
    "over_runs",
    "paired_difference",
    "part_ceilings",
    "pixel_kinds",
    "random",
    "run_name",
    "sobel",
    "verdict_of",
]
