"""What all tests share: shape checks while testing, one thread, reproducible examples."""

import gc
import os
import signal
from collections.abc import Iterator

import jaxtyping
import pytest
import torch
from hypothesis import HealthCheck, settings

import shape_checks

# Nothing above imports the package: from here on its annotations are checked.
shape_checks.install()

# The second takes over names of the first when it is imported: before any test replaces them.
from attributionlab.verdicts.faithfulness import isolation, test  # noqa: E402, F401
from attributionlab.verdicts.metric_trials import isolation as metric_isolation  # noqa: E402

# Thousands of tests and the modules they need live to the end: no collection of garbage looks through
# them, neither while they are made nor at every test.
gc.disable()

# Processes that a shell starts in the background ignore Ctrl-C, and so would those that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Methods and metrics of tests note what they see: they run here unless isolation is tested."""
    shape_checks.begin_test()
    alone = item.get_closest_marker("isolated") is not None
    chosen = ALONE if alone else HERE
    isolation.is_users, isolation._names_users_code, metric_isolation.is_users = chosen


# One thread, as test processes share the cores; OMP_NUM_THREADS=2 tries sums in other orders.
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))

pytest_plugins = "pytester"  # runs pytest on test files that are made for a test

# A deadline fails on a busy machine. Derandomized examples are the same in every run;
# HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=30)
settings.register_profile(
    "explore",
    deadline=None,
    max_examples=500,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


ALONE = isolation.is_users, isolation._names_users_code, metric_isolation.is_users
HERE = (lambda _: False,) * 3


@pytest.fixture
def without_shape_checks() -> Iterator[None]:
    """The package as users run it: bad input reaches our own checks and their messages."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture
def links(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip a test that makes symbolic links where this user may make none."""
    try:
        (tmp_path_factory.mktemp("links") / "link").symlink_to("nowhere")
    except (OSError, NotImplementedError):  # Windows without its developer mode
        pytest.skip("this user may make no symbolic links")


@pytest.fixture
def generator() -> torch.Generator:
    """A seeded source of randomness."""
    return torch.Generator().manual_seed(0)


@pytest.fixture
def unchecked(monkeypatch):
    """Let the checks of every metric's code pass, so that its trial is what is tested."""
    from attributionlab.verdicts import CheckReport

    passed = CheckReport("checked", True, (), 0, None)
    path = "attributionlab.verdicts.metric_trials.check.checked"
    monkeypatch.setattr(path, lambda metric, *given, **options: passed)
