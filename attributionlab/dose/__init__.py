"""How much unseen data it takes for a metric to stop ranking attributions as the truth does."""

from attributionlab.dose.conditions import AXES, REFERENCE_DISTANCE, Axis, Condition, conditions_of
from attributionlab.dose.evaluations import METRICS, Metric, as_metric
from attributionlab.dose.report import Break, DoseScore, MetricReport
from attributionlab.dose.trial import metric_test, metric_tests

__all__ = [
    "AXES",
    "METRICS",
    "REFERENCE_DISTANCE",
    "Axis",
    "Break",
    "Condition",
    "DoseScore",
    "Metric",
    "MetricReport",
    "as_metric",
    "conditions_of",
    "metric_test",
    "metric_tests",
]
