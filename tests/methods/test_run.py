"""What a method changes in the process is as before once it has returned, or raised."""

import os
import signal
import sys

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.errors import AttributionLabError


def move_default_device():
    torch.set_default_device("meta")


def lower_recursion_limit():
    sys.setrecursionlimit(sys.getrecursionlimit() - 100)


def clear_path():
    sys.path.clear()


def replace_path():
    sys.path = None


def forget_modules():
    del sys.modules["json"]


def clear_variables():
    os.environ.clear()


def replace_streams():
    sys.stdout = sys.stderr = None


def take_interrupts():
    signal.signal(signal.SIGINT, lambda *_: None)  # a shell's background job ignores them already


def detect_anomalies():
    torch.autograd.set_detect_anomaly(True)


def lower_precision():
    torch.set_float32_matmul_precision("medium")


def cast_automatically():
    torch.autocast("cpu").__enter__()


def search_algorithms():
    torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark


def state():
    return {
        "casts": torch.is_autocast_enabled("cpu"),
        "algorithms": torch.backends.cudnn.benchmark,
        "device": torch.empty(0).device,
        "recursion": sys.getrecursionlimit(),
        "path": (id(sys.path), list(sys.path or [])),
        "modules": sys.modules.get("json"),
        "variables": dict(os.environ),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "interrupts": signal.getsignal(signal.SIGINT),
        "anomaly": torch.is_anomaly_enabled(),
        "precision": torch.get_float32_matmul_precision(),
        "errors": np.geterr(),
    }


CHANGES = [
    *(move_default_device, lower_recursion_limit, clear_path, replace_path, forget_modules),
    *(clear_variables, replace_streams, take_interrupts, detect_anomalies, lower_precision),
    *(cast_automatically, search_algorithms),
]


@pytest.fixture(scope="module")
def env():
    return al.load("number-checker", image_size=24)


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_a_method_changes_in_the_process_is_restored(env, change):
    def changing(model, inputs, targets):
        change()
        assert state() != before
        return inputs.sum(1)

    def raising(model, inputs, targets):
        changing(model, inputs, targets)
        raise RuntimeError("on purpose")

    before = state()
    try:
        report = al.faithfulness_test(changing, env, n=2, diagnosed=False)
        assert report.environments[0].claim_f1 >= 0
        assert state() == before
        with pytest.raises(AttributionLabError, match="raising raised RuntimeError: on purpose"):
            al.faithfulness_test(raising, env, n=2, diagnosed=False)
        assert state() == before
    finally:
        torch.set_default_device(None)
