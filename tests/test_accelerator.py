"""Everything runs where images and network are on another device, and gives what it gives on the CPU.

The device is a stand-in (`fake_accelerator`) that computes on the CPU and refuses what CUDA refuses, so
that results are equal. `tests/test_cuda.py` compares with a GPU where there is one.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

import attributionlab as al
from attributionlab.methods import DERIVATIONS, METHODS, as_method, collect_notices
from attributionlab.papers import reproduce
from attributionlab.papers.attributionlab import comparison_plan
from attributionlab.verdicts import CONTROLS, PAIRS, as_metric, metric_tests
from attributionlab.verdicts.faithfulness import calls
from attributionlab.verdicts.faithfulness.setup import Setup
from attributionlab.verdicts.metric_trials.registry import METRICS
from attributionlab.worlds import Environment
from attributionlab.worlds.environment import environment
from device_cases import FEW_STEPS, MORE_ROUNDING, OF_ATTENTION
from fake_accelerator import DEVICE, Accelerator, AcceleratorGenerator
from good_calls import FACES, arguments
from odd_calls import parameters
from oracles_attention import Transformer


@pytest.fixture
def accelerator(monkeypatch) -> Iterator[None]:
    """The device is there, and environments may be moved to it."""
    real, autocast = environment.as_device, torch.is_autocast_enabled
    for where in ("worlds.environment.environment", "base.device", "base"):
        monkeypatch.setattr(
            f"attributionlab.{where}.as_device",
            lambda name: DEVICE if str(name) == DEVICE.type else real(name),
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
    """Map of one image, from a single call of the method."""
    setup = Setup(method, env, output, output)
    [batch] = setup.batches()
    with collect_notices():
        return calls.attribute_batch(setup, batch).maps


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_are_called_where_the_network_is(name, accelerator):
    control, maps = as_method(name, CONTROLS), []
    for device in ("cpu", DEVICE.type):
        with al.exact_arithmetic():
            env = small("multi-color-sum").to(device)
        setup = Setup(control, env, "logit", "logit", n=2)
        [batch] = setup.batches()
        maps.append(calls.control_maps(setup, batch))
    assert maps[1].device.type == "cpu"
    assert torch.equal(*maps)


SUFFIXED = [
    # What suffixes make of saliency stands for what they make of others.
    name
    for name in METHODS
    if any(f"-{suffix}" in name for suffix in DERIVATIONS) and not name.startswith("saliency")
]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SUFFIXED else ())
        for name in METHODS
        if name not in OF_ATTENTION
    ],
)
def test_methods_run_on_the_device_and_find_the_same(name, accelerator, monkeypatch):
    monkeypatch.setattr(calls, "REFERENCE_IMAGES", 8)
    method = as_method(name, METHODS, FEW_STEPS.get(name))
    maps = []
    for device in ("cpu", DEVICE.type):
        with al.exact_arithmetic():
            env = small("multi-color-sum").to(device)
        maps.append(map_of(method, env, method.output or "logit"))
    assert torch.equal(*maps)


@pytest.mark.parametrize("name", OF_ATTENTION)
def test_attention_methods_run_on_the_device_and_find_the_same(name, accelerator):
    network = Transformer(read="mean")
    images, targets = torch.rand(1, 3, 4, 6).double(), torch.tensor([2])
    here = METHODS[name](network, images, targets)
    there = METHODS[name](network.to(DEVICE), images.to(DEVICE), targets.to(DEVICE))
    assert there.device == DEVICE
    assert torch.equal(here, there.cpu())


DRAWING = [
    name
    for name in METHODS  # without what is made of the same draws
    if as_method(name, METHODS).asks_for("generator") and name not in SUFFIXED
]


@pytest.mark.parametrize("name", DRAWING)
def test_methods_draw_from_a_generator_on_either_device(name, accelerator):
    with al.exact_arithmetic():
        env = small("multi-color-sum").to(DEVICE)
    images, labels = env.batch(1)
    given = {
        "patches": torch.ones(1, 24, 24, dtype=torch.int64),
        "layers": env.layers,
        "reference_images": env.batch(4, 1)[0],
        "highest": env.max_value,
        "baseline": env.baseline,
    }
    method = as_method(name, METHODS)
    asked = {key: value for key, value in given.items() if method.asks_for(key)}
    maps = []
    for generator in (torch.Generator(), AcceleratorGenerator()):
        settings = asked | FEW_STEPS.get(name, {}) | {"generator": generator.manual_seed(0)}
        with collect_notices():
            maps.append(METHODS[name](env.model, images.to(DEVICE), labels.to(DEVICE), **settings))
    assert torch.equal(*maps)  # the stand-in's generator gives the CPU's numbers


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
def test_a_whole_report_is_made_on_the_device(accelerator, tmp_path):
    reports = [
        al.faithfulness_test(
            "saliency",
            small("multi-color-sum"),
            n=2,
            also=["truths", "camouflage:1"],
            device=device,
        )
        for device in ("cpu", DEVICE.type)
    ]
    here, there = (report.to_dict() for report in reports)
    reports[1].to_html(tmp_path / "report.html")
    for report in (here, there):
        del report["command"], report["versions"]
        for each in report["environments"]:
            del each["seconds_per_image"]
    assert here == there


METRICS_OF_TENSORS = [face for face in FACES if face.startswith("metrics.")]


def called_on(device: str | torch.device, face: str) -> Any:
    """What a function of `al.metrics` finds where its network and tensors are."""
    torch.manual_seed(0)  # of the weights
    given = arguments(face, *parameters(FACES[face]))
    given = {k: v.to(device) if isinstance(v, nn.Module | Tensor) else v for k, v in given.items()}
    return FACES[face](**given)


def on_cpu(found: Any) -> list[Any]:
    """What a metric found, part by part."""
    if dataclasses.is_dataclass(found):
        found = vars(found)
    return [each.cpu() if isinstance(each, Tensor) else each for each in tree_flatten(found)[0]]


@pytest.mark.parametrize("face", METRICS_OF_TENSORS)
@pytest.mark.filterwarnings("ignore::attributionlab.AttributionLabWarning")
def test_metrics_run_on_the_device_and_find_the_same(face, accelerator):
    here, there = (on_cpu(called_on(device, face)) for device in ("cpu", DEVICE))
    assert len(here) == len(there) > 0
    for one, other in zip(here, there, strict=True):
        if isinstance(one, Tensor):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
        else:
            assert str(one) == str(other)  # a NaN is not equal to itself


@pytest.mark.long
def test_truths_are_answered_on_the_images_device(accelerator):
    with al.exact_arithmetic():
        env = al.load("multi-color-sum", image_size=12).to(DEVICE)
    plain = al.load("multi-color-sum", image_size=12)
    images, labels = env.batch(1)
    black = torch.zeros(3, 1, 1)
    for baseline in (None, black):  # black is unseen: Shapley values are estimated
        expected = plain.truths(images, labels, baseline=baseline, precision=1.0)
        for device in ("cpu", DEVICE):
            found = env.truths(
                images.to(device), labels.to(device), baseline=baseline, precision=1.0
            )
            for name, definition in found.items():
                assert definition.values.device == torch.device(device)
                assert torch.equal(definition.values.cpu(), expected[name].values)
    shapley = env.shapley(images[0].to(DEVICE), int(labels[0]))
    assert shapley.device == DEVICE
    assert torch.equal(shapley.cpu(), plain.shapley(images[0], int(labels[0])))


@pytest.mark.long
def test_a_metric_is_tested_on_the_device(accelerator):
    def anybodys(model, images, targets, attributions, *, replacement, truth):
        assert {each.device for each in (images, targets, attributions, replacement, truth)} == {
            next(model.parameters()).device
        }
        with torch.no_grad():
            return model(torch.where(attributions > 0, replacement, images))[:, int(targets[0])]

    anybodys.higher_is_better = False
    mine = as_metric(anybodys)
    for metrics, one_network in (([mine, METRICS["insertion"]], False), (METRICS.values(), True)):
        here, there = (
            metric_tests(
                list(metrics),
                al.load("multi-color-sum", image_size=12),
                n=2,
                doses={"strength": [1]},
                methods=["saliency"],
                device=device,
                one_network=one_network,
            )
            for device in ("cpu", DEVICE.type)
        )
        for one, other in zip(here, there, strict=True):
            pd.testing.assert_frame_equal(one.dose_frame(), other.dose_frame(), check_exact=True)
            if not one_network:
                pd.testing.assert_frame_equal(one.to_frame(), other.to_frame(), check_exact=True)


@pytest.mark.long
def test_methods_are_ranked_on_the_device(accelerator):
    here, there = (
        al.rank_methods(["saliency", "lrp"], n=1, pairs=PAIRS[:1], size=16, device=device)
        for device in ("cpu", DEVICE.type)
    )
    pd.testing.assert_frame_equal(here.to_frame(), there.to_frame(), check_exact=True)


@pytest.mark.long
def test_moving_warns_where_products_are_rounded_and_tests_need_no_warning(accelerator):
    env = small("multi-color-sum")
    with pytest.warns(al.AttributionLabWarning, match=r"multi-color-sum .*exact_arithmetic"):
        env.to(DEVICE)  # torch's default lets cuDNN round
    with al.exact_arithmetic():
        env.to(DEVICE)
    al.faithfulness_test("oracle", small("multi-color-sum"), n=1, device=DEVICE.type)
    env.to("cpu")


@pytest.mark.long
def test_a_default_device_is_there_for_a_users_method_only(accelerator):
    def method(model, inputs, targets):
        return inputs * torch.ones(3, 1, 1)

    torch.set_default_device(DEVICE)
    try:
        report = al.faithfulness_test(
            method, al.load("multi-color-sum", image_size=24), n=1, device=DEVICE.type
        )
    finally:
        torch.set_default_device(None)
    plain = al.faithfulness_test(method, small("multi-color-sum"), n=1)
    assert (report.environments[0].attributions == plain.environments[0].attributions).all()


@pytest.mark.parametrize(("name", "method"), MORE_ROUNDING)
def test_more_rounding_is_that_of_float32_on_the_cpu(name, method):
    env = small(name)
    images, labels = env.batch(2)
    targets = env.targets(labels)
    with collect_notices():
        rounded = METHODS[method](env.model, images, targets, **FEW_STEPS[method])
        precise = METHODS[method](env.model.double(), images.double(), targets, **FEW_STEPS[method])
    apart = (al.metrics.normalize(rounded.double()) - al.metrics.normalize(precise)).abs().max()
    assert 0 < apart <= MORE_ROUNDING[name, method] / 4


def test_items_that_methods_make_run_on_the_device_and_others_refuse_it(accelerator, monkeypatch):
    asked = []
    monkeypatch.setattr(
        comparison_plan, "compare", lambda *_, device, **__: asked.append(device) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        reproduce("figure-2", n=1, quick=True, device=DEVICE.type)
    assert asked == [DEVICE.type]
    with pytest.raises(al.AttributionLabError, match=r"device is 'meta'.*table-1 .*leave it out"):
        reproduce("table-1", device=DEVICE.type)
    with pytest.raises(al.AttributionLabError, match=r"device is 'tpu'.*'cpu'"):
        reproduce("figure-2", device="tpu")
