"""The pytest plugin: the fixtures `assert_faithful` and `assert_metric`, and the marker `attribution`
for defaults of the first.

pytest loads it for everybody who has the package installed, so it imports nothing but pytest before
it is used.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from attributionlab.methods import AttributionMethod
    from attributionlab.verdicts import CheckReport, FaithfulnessReport

KEYS = (
    *("env", "n", "claim", "seed", "explain", "settings", "also", "one_network", "isolated"),
    "implementations",
)


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest, and `pytest --markers`, of the marker."""
    meaning = "defaults of the fixture assert_faithful, given by name (AttributionLab)."
    config.addinivalue_line("markers", f"attribution({', '.join(KEYS)}): {meaning}")


@pytest.fixture
def assert_faithful(request: pytest.FixtureRequest) -> Callable[..., "FaithfulnessReport"]:
    """Assert that an attribution method finds what networks with a known truth use.

    `assert_faithful(method, env=..., n=..., claim=..., seed=..., explain=..., settings=..., also=...,
    one_network=..., isolated=..., implementations=...)` returns the report of
    `attributionlab.faithfulness_test` where its verdict is "pass", and fails with the table of scores
    elsewhere.
    `@pytest.mark.attribution(env=..., ...)` sets defaults.
    """
    marked = _marked(request.node)

    def assert_faithful(method: "AttributionMethod", **given: Any) -> "FaithfulnessReport":
        __tracebackhide__ = True  # what is wrong is shown at the line of the test
        from attributionlab.base import nearest

        for key in given.keys() - set(KEYS):
            raise TypeError(f"assert_faithful takes no {key!r}: {nearest(key, KEYS)}")
        return _passed(method, marked | {k: v for k, v in given.items() if v is not None})

    return assert_faithful


@pytest.fixture
def assert_metric() -> Callable[..., "CheckReport"]:
    """Assert that the code of an evaluation metric does what the metric says.

    `assert_metric(metric, higher_is_better=..., seed=..., time_limit=..., only=...)` returns the report
    of `attributionlab.check_metric` where no check finds a fault or has a note, and fails with them
    elsewhere.
    """

    def assert_metric(metric: Any, **options: Any) -> "CheckReport":
        __tracebackhide__ = True
        from attributionlab.base import AttributionLabError
        from attributionlab.verdicts import check_metric

        try:
            report = check_metric(metric, **options)
        except AttributionLabError as error:
            raise AttributionLabError(str(error)) from None
        if not report.passed:
            raise AssertionError(report.text())
        return report

    return assert_metric


def _marked(item: pytest.Item) -> dict[str, Any]:
    """What the markers of a test say, key by key that of the nearest one."""
    marked: dict[str, Any] = {}
    for marker in item.iter_markers("attribution"):  # the test's own, its class's, its module's
        if marker.args or marker.kwargs.keys() - set(KEYS):
            pytest.fail(_refusal(marker), pytrace=False)
        marked = {**marker.kwargs, **marked}
    return marked


def _refusal(marker: pytest.Mark) -> str:
    """What is wrong with a marker, in one line."""
    from attributionlab.base import nearest

    problems = [f"{value!r} has no name: write env=..., n=..." for value in marker.args]
    problems += [f"no {key!r}: {nearest(key, KEYS)}" for key in marker.kwargs if key not in KEYS]
    return f"pytest.mark.attribution: {'; '.join(problems)}"


def _passed(method: "AttributionMethod", arguments: dict[str, Any]) -> "FaithfulnessReport":
    """The report of a test that was passed."""
    __tracebackhide__ = True
    from attributionlab.base import FEWEST_QUESTIONS, AttributionLabError, AttributionLabWarning
    from attributionlab.verdicts import faithfulness_test

    given = {key: value for key, value in arguments.items() if value is not None}
    n = given.get("n", FEWEST_QUESTIONS)
    if isinstance(n, int) and not isinstance(n, bool) and 0 < n < FEWEST_QUESTIONS:
        raise AttributionLabError(
            f"n is {n}: with fewer than {FEWEST_QUESTIONS} questions no method passes; take "
            f"{FEWEST_QUESTIONS} or more"
        )
    environments = given.pop("env", None)
    try:
        with warnings.catch_warnings(), _share_of_threads():
            # They are part of the report; a suite that makes errors of warnings is not to fail by them.
            warnings.simplefilter("ignore", AttributionLabWarning)
            report = faithfulness_test(method, environments, **given)
    except AttributionLabError as error:
        raise AttributionLabError(str(error)) from None  # which names in one line what is wrong
    if report.verdict != "pass":
        raise AssertionError(_failure_text(report))
    return report


def _failure_text(report: "FaithfulnessReport") -> str:
    """The table, and what was accepted although it is unusual."""
    table = repr(report)
    return "\n".join(
        [table, *(f"warning: {each}" for each in report.warnings if each not in table)]
    )


@contextmanager
def _share_of_threads() -> Iterator[None]:
    """Under pytest-xdist, as many threads as there are for each of its processes.

    More threads than cores wait for each other, and are slower by an order of magnitude.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes == 1:
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, threads // processes))
    try:
        yield
    finally:
        torch.set_num_threads(threads)
