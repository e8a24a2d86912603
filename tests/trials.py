"""What the tests of metrics share: checks by name, and a trial without the check of the code."""

from attributionlab import check_metric
from attributionlab.base import Stopped
from attributionlab.metrics import metric as marked
from attributionlab.verdicts import as_metric, metric_tests


def metric_trial(metric, env, n, seed=0, *, higher_is_better=None, takes=None, **options):
    """As `al.metric_test`."""
    try:
        tested = as_metric(metric, higher_is_better, takes)
        [report] = metric_tests([tested], env, n, seed, **options)
    except Stopped as stop:
        raise Stopped(str(stop), stop.result and stop.result[0]) from stop
    return report


def found(function, *only, higher_is_better=True, **marks):
    """Status and text of each check; of the function under its own marks, or under these."""
    if marks:
        marked(higher_is_better=higher_is_better, per_sample=True, **marks)(function)
    direction = None if marks or isinstance(function, str) else higher_is_better
    options = {"only": only or None, "time_limit": None}
    report = check_metric(function, higher_is_better=direction, **options)
    return {row.id: (row.status, row.found) for row in report.checks}


def faults(*given, **marks):
    """What is found of each check that ends as a fault or a note."""
    ended = found(*given, **marks).items()
    return {check: text for check, (status, text) in ended if status in ("fault", "note")}
