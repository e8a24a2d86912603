"""Everything runs where images and network are on another device, and gives what it gives on the CPU.

The device is a stand-in (`fake_accelerator`) that computes on the CPU and refuses what CUDA refuses, so
that results are equal. `tests/test_cuda.py` compares with a GPU where there is one.
"""

from collections.abc import Iterator

import pytest
import torch

import attributionlab as al
from attributionlab.assess import CONTROLS
from attributionlab.environment import Environment, environment
from attributionlab.experiments.idsds.attention import AttentionNetwork
from attributionlab.methods import METHODS, as_method, heard
from attributionlab.trial import Trial, calls
from attributionlab.trial.question import Scene
from device_cases import FEW_STEPS, OF_ATTENTION
from fake_accelerator import DEVICE, Accelerator, AcceleratorGenerator


@pytest.fixture
def accelerator(monkeypatch) -> Iterator[None]:
    """The device is there, and environments may be moved to it."""
    real, autocast = environment.as_device, torch.is_autocast_enabled
    monkeypatch.setattr(
        environment, "as_device", lambda name: DEVICE if str(name) == DEVICE.type else real(name)
    )
    # torch knows no autocast for the device that the stand-in stands on.
    monkeypatch.setattr(
        torch, "is_autocast_enabled", lambda kind="cpu": kind != DEVICE.type and autocast(kind)
    )
    with Accelerator():
        yield


def small(name: str) -> Environment:
    return al.load(name, image_size=24)


def map_of(method, env: Environment, output) -> torch.Tensor:
    """Of one image; a single call of the method."""
    trial = Trial(env, output, output, "signed", 0.5, 1, 0, diagnosed=False)
    [scene] = trial.scenes("", show_progress=False)
    with heard():
        return calls.attribute_scene(method, trial, scene, calls.always_offered(method, trial)).maps


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_are_called_where_the_network_is(name, accelerator):
    control, maps = as_method(name, CONTROLS), []
    for device in ("cpu", DEVICE.type):
        with al.exact_arithmetic():
            env = small("multi-color-sum").to(device)
        trial = Trial(env, "logit", "logit", "signed", 0.5, 2, 0, diagnosed=False)
        [scene] = trial.scenes("", show_progress=False)
        always = calls.always_offered(control, trial)
        maps.append(calls.control_maps(control, trial, scene, always))
    assert maps[1].device.type == "cpu"
    assert torch.equal(*maps)


@pytest.mark.parametrize("name", [name for name in METHODS if name not in OF_ATTENTION])
def test_methods_run_on_the_device_and_find_the_same(name, accelerator, monkeypatch):
    monkeypatch.setattr(calls, "REFERENCE_IMAGES", 8)
    method = as_method(name, METHODS, FEW_STEPS.get(name))
    maps = []
    for device in ("cpu", DEVICE.type):
        with al.exact_arithmetic():
            env = small("multi-color-sum").to(device)
        maps.append(map_of(method, env, method.output or "logit"))
    assert torch.equal(*maps)
