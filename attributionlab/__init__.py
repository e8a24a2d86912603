"""A laboratory for feature attribution in which the right answer is known for every pixel.

Public names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from attributionlab import (
        assess,
        dose,
        exact,
        images,
        imputation,
        methods,
        metrics,
        nets,
        ranking,
        segmentation,
        truth,
    )
    from attributionlab.catalog import environments, load
    from attributionlab.compared import Comparison
    from attributionlab.comparison import compare
    from attributionlab.dataset import Sample
    from attributionlab.device import exact_arithmetic
    from attributionlab.dose import MetricReport, metric_test
    from attributionlab.environment import Environment
    from attributionlab.errors import (
        AttributionLabError,
        AttributionLabWarning,
        AttributionWarning,
        GuardWarning,
    )
    from attributionlab.faithfulness import faithfulness_test
    from attributionlab.faithfulness_report import FaithfulnessReport
    from attributionlab.leaderboard import Leaderboard, rank_methods
    from attributionlab.truth import Truth
    from attributionlab.verification import Certificate, verify

_HOMES = {
    "AttributionLabError": "attributionlab.errors",
    "AttributionLabWarning": "attributionlab.errors",
    "AttributionWarning": "attributionlab.errors",
    "Certificate": "attributionlab.verification",
    "Comparison": "attributionlab.compared",
    "Environment": "attributionlab.environment",
    "FaithfulnessReport": "attributionlab.faithfulness_report",
    "GuardWarning": "attributionlab.errors",
    "Leaderboard": "attributionlab.leaderboard",
    "MetricReport": "attributionlab.dose",
    "Sample": "attributionlab.dataset",
    "Truth": "attributionlab.truth",
    "compare": "attributionlab.comparison",
    "environments": "attributionlab.catalog",
    "exact_arithmetic": "attributionlab.device",
    "faithfulness_test": "attributionlab.faithfulness",
    "load": "attributionlab.catalog",
    "metric_test": "attributionlab.dose",
    "rank_methods": "attributionlab.leaderboard",
    "verify": "attributionlab.verification",
}
_SUBPACKAGES = (
    *("assess", "dose", "exact", "images", "imputation", "methods", "metrics", "nets", "ranking"),
    *("segmentation", "truth"),
)

__all__ = [
    "AttributionLabError",
    "AttributionLabWarning",
    "AttributionWarning",
    "Certificate",
    "Comparison",
    "Environment",
    "FaithfulnessReport",
    "GuardWarning",
    "Leaderboard",
    "MetricReport",
    "Sample",
    "Truth",
    "assess",
    "compare",
    "dose",
    "environments",
    "exact",
    "exact_arithmetic",
    "faithfulness_test",
    "images",
    "imputation",
    "load",
    "methods",
    "metric_test",
    "metrics",
    "nets",
    "rank_methods",
    "ranking",
    "segmentation",
    "truth",
    "verify",
]


if not TYPE_CHECKING:  # to a type checker, any name would be one of the package's

    def __getattr__(name: str) -> Any:
        if name in _SUBPACKAGES:
            return import_module(f"attributionlab.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'attributionlab' has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
