"""What a method changes in the process is as before once it has returned, or raised."""

import os
import signal
import sys

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import _device
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

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


def enter(mode):
    mode.__enter__()


def enter_device():
    enter(torch.device("meta"))


def enter_device_and_move_default():
    enter(torch.device("meta"))
    torch.set_default_device("meta")
    enter(torch.device("meta"))


class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **kwargs or {})


class Operations(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        raise RuntimeError("not for you")


def enter_modes_of_functions():
    enter(Functions())
    enter(Functions())


def enter_mode_of_operations():
    enter(Operations())


def enter_modes_of_all_kinds():
    enter(Functions())
    enter_device()
    enter(FakeTensorMode())


def state():
    return {
        "casts": torch.is_autocast_enabled("cpu"),
        "algorithms": torch.backends.cudnn.benchmark,
        "device": _device.CURRENT_DEVICE,
        "default": getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None),
        "functions": _get_current_function_mode_stack(),
        "operations": _get_current_dispatch_mode_stack(),
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
    *(cast_automatically, search_algorithms, enter_device, enter_device_and_move_default),
    *(enter_modes_of_functions, enter_mode_of_operations, enter_modes_of_all_kinds),
]


@pytest.fixture(scope="module")
def env():
    return al.load("number-checker", image_size=24)


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
@pytest.mark.parametrize(
    ("change", "of_user"),
    # torch itself refuses set_default_device inside of the context in which a user with one is.
    [
        *((change, None) for change in CHANGES),
        *((change, "meta") for change in (clear_path, enter_device, enter_modes_of_all_kinds)),
    ],
)
def test_what_a_method_changes_in_the_process_is_restored(env, change, of_user):
    def changing(model, inputs, targets):
        maps, inside = inputs.sum(1), state()
        change()
        assert state() != inside
        return maps

    def raising(model, inputs, targets):
        changing(model, inputs, targets)
        raise RuntimeError("on purpose")

    torch.set_default_device(of_user)
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
