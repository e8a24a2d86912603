"""Every experiment by the name of what it repeats."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from attributionlab.errors import AttributionLabError, nearest
from attributionlab.experiments.attributionlab_figures import PLANS
from attributionlab.experiments.comparison_plan import carry_out
from attributionlab.experiments.deep_shap_signs import deepshap_signs
from attributionlab.experiments.model_summary import table_1
from attributionlab.experiments.reproduction import Reproduction
from attributionlab.experiments.segmentations import figure_6, figure_24
from attributionlab.experiments.trained_network import figure_3

__all__ = ["EXPERIMENTS", "experiment"]

Experiment = Callable[..., Reproduction]
"""(*, n, quick, seed, show_progress, and settings of its own) -> Reproduction"""

EXPERIMENTS: dict[str, Experiment] = {
    "table-1": table_1,
    "figure-3": figure_3,
    **{item: partial(carry_out, replace(plan, item=item)) for item, plan in PLANS.items()},
    "figure-6": figure_6,
    "figure-24": figure_24,
    "deepshap-signs": deepshap_signs,
}


def experiment(item: str, settings: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment of that name, with settings of its own.

    Raises
    ------
    AttributionLabError
        If there is none, or it has no such setting.
    """
    if item not in EXPERIMENTS:
        raise AttributionLabError(f"no experiment named {item!r}: {nearest(item, EXPERIMENTS)}")
    settings = dict(settings or {})
    known = set(inspect.signature(EXPERIMENTS[item]).parameters)
    own = known - {"n", "quick", "seed", "show_progress"}
    for key in settings:
        if key not in own:
            raise AttributionLabError(f"{item} has no setting {key!r}: {nearest(key, own)}")
    return partial(EXPERIMENTS[item], **settings)
