"""Everything that attributes can be handed in, and what cannot is refused in one line."""

import sys
import warnings

import captum.attr
import numpy as np
import pytest
import torch
from torch import nn

from attributionlab import AttributionLabError
from attributionlab.methods import METHODS, Call, as_method

INPUTS = torch.arange(12.0).reshape(1, 3, 2, 2)
TARGETS = torch.tensor([1])


@pytest.fixture
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2)).eval()


def call(model, **offered):
    return Call("env", model, INPUTS.clone(), TARGETS, offered=offered)


def run(method, model, settings=None, known=METHODS, **offered):
    return as_method(method, known, settings).attribute(call(model, **offered))


def test_a_name_is_looked_up(net):
    assert torch.equal(run("saliency", net), METHODS["saliency"](net, INPUTS, TARGETS))


def test_a_captum_class_is_constructed_with_the_model_and_gets_the_settings(net):
    expected = captum.attr.Occlusion(net).attribute(
        INPUTS, target=TARGETS, sliding_window_shapes=(3, 1, 1)
    )
    got = run(captum.attr.Occlusion, net, {"sliding_window_shapes": (3, 1, 1)})
    assert torch.equal(got, expected)
    got = run("captum.attr:Occlusion", net, {"sliding_window_shapes": (3, 1, 1)})
    assert torch.equal(got, expected)


@pytest.mark.parametrize("name", ["Saliency", "IntegratedGradients", "InputXGradient", "DeepLift"])
def test_captum_gradient_classes_run_without_a_word_about_requires_grad(net, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # DeepLift announces the hooks it sets and removes; that is its business.
        warnings.filterwarnings("ignore", ".*Setting forward, backward hooks.*")
        assert run(getattr(captum.attr, name), net).shape == INPUTS.shape


def test_a_captum_layer_class_gets_the_gradcam_layer_and_its_map_is_enlarged(net):
    net[0].stride = (2, 2)
    net[3] = nn.Linear(4, 2)
    got = run(captum.attr.LayerGradCam, net, layers={"gradcam": net[1], "iba": net[0]})
    assert got.shape == (1, 1, 2, 2)
    [coarse] = captum.attr.LayerGradCam(net, net[1]).attribute(INPUTS, target=TARGETS)
    # One value enlarged is that value everywhere, up to two roundings of float32.
    torch.testing.assert_close(got, coarse.expand_as(got), rtol=2**-22, atol=0)


def test_a_captum_instance_of_this_model_runs_and_of_another_is_refused(net):
    instance = captum.attr.Saliency(net)
    assert torch.equal(run(instance, net), METHODS["saliency"](net, INPUTS, TARGETS).abs())
    with pytest.raises(AttributionLabError, match="explains another model than that of env"):
        run(instance, nn.Flatten())
    deeplift = captum.attr.DeepLift(net)
    with pytest.raises(AttributionLabError, match="pass the class DeepLift"):
        run(deeplift, nn.Flatten())


def test_a_function_gets_what_it_declares_by_name_and_nothing_else(net):
    def mine(model, inputs, targets, *, baseline, generator, scale=1.0):
        assert generator == "generator"
        return (inputs - baseline) * scale

    offered = {"baseline": 2.0, "generator": "generator", "patches": "patches", "layers": {}}
    assert torch.equal(run(mine, net, **offered), INPUTS - 2)
    assert torch.equal(run(mine, net, {"scale": 3}, **offered), (INPUTS - 2) * 3)


def test_what_the_user_sets_wins_over_what_is_offered(net):
    def mine(model, inputs, targets, *, baseline):
        return inputs - baseline

    assert torch.equal(run(mine, net, {"baseline": 5.0}, baseline=2.0), INPUTS - 5)


def test_a_function_in_a_file_is_found(tmp_path, net):
    path = tmp_path / "my_method.py"
    path.write_text("def mine(model, inputs, targets):\n    return inputs * 2\n")
    assert torch.equal(run(f"{path}:mine", net), INPUTS * 2)


@pytest.mark.parametrize("make", [torch.from_numpy, lambda array: array])
def test_computed_attributions_are_handed_on_by_index(net, make):
    arrays = np.arange(5.0).reshape(5, 1, 1)
    method = as_method({"env": make(arrays)}, METHODS)
    occasion_at = Call("env", net, INPUTS, TARGETS, first=3, total=5)
    assert method.attribute(occasion_at).item() == 3
    assert as_method(make(arrays), METHODS).attribute(occasion_at).item() == 3


def test_a_method_may_declare_its_claim(net):
    def mine(model, inputs, targets):
        return inputs

    assert as_method(mine, METHODS).claim is None
    mine.claim = "positive"
    assert as_method(mine, METHODS).claim == "positive"


@pytest.mark.parametrize(
    ("method", "key"),
    [
        ("gradcam", "gradcam"),
        ("linear-approximation", "gradcam"),
        ("iba", "iba"),
        ("saliency", None),
        (captum.attr.LayerGradCam, "gradcam"),
        (captum.attr.LayerActivation, "gradcam"),
        (captum.attr.Saliency, None),
        (np.zeros((1, 1, 2, 2)), None),
    ],
)
def test_a_method_that_enlarges_the_maps_of_a_layer_tells_which(net, method, key):
    adapted = as_method(method, METHODS)
    layers = {"gradcam": net[0], "iba": net[1]}
    assert adapted.resolution == key
    assert adapted.enlarged_layer(net, layers) is (None if key is None else layers[key])


def test_a_layer_that_the_user_chose_is_the_one_that_is_enlarged(net):
    layers = {"gradcam": net[0], "iba": net[0]}
    named = as_method("gradcam", METHODS, {"layer": "1"})
    assert named.enlarged_layer(net, layers) is net[1]
    instance = as_method(captum.attr.LayerGradCam(net, net[1]), METHODS)
    assert instance.resolution == "gradcam"
    assert instance.enlarged_layer(net, layers) is net[1]


class NoMethod:
    pass


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("salience", {}, "no method named 'salience': did you mean 'saliency'"),
        ("qqq", {}, "known are attention-rollout, chefer-lrp"),
        ("nowhere.py:mine", {}, "no file at 'nowhere.py': check the path"),
        ("no.such.module:mine", {}, "module 'no.such.module' cannot be imported: ModuleNotFound"),
        ("captum.attr:Saliencey", {}, "captum.attr has no 'Saliencey': did you mean 'Saliency'"),
        ("saliency", {"abss": True}, "saliency has no setting 'abss': did you mean 'abs'"),
        ("captum.attr:Saliency", {"abss": True}, "Saliency has no setting 'abss'"),
        (NoMethod, {}, "NoMethod is a class: pass a Captum class or instance"),
        (NoMethod(), {}, "NoMethod is no method: pass a Captum class"),
        (3, {}, "int is no method: pass a Captum class"),
        (np.zeros(3), {"a": 1}, "attributions that are computed already take none"),
    ],
)
def test_what_is_no_method_is_refused_with_the_remedy(method, settings, message):
    with pytest.raises(AttributionLabError, match=message):
        as_method(method, METHODS, settings)


def test_files_that_fail_are_refused_with_their_message(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("raise RuntimeError('not\\ntoday')\n")
    with pytest.raises(
        AttributionLabError, match="raised RuntimeError: not today while it was load"
    ):
        as_method(f"{path}:mine", METHODS)
    path.write_text("def mine(:\n")
    with pytest.raises(AttributionLabError, match="raised SyntaxError"):
        as_method(f"{path}:mine", METHODS)
    path.write_text("mien = 3\n")
    with pytest.raises(AttributionLabError, match="has no 'mine': did you mean 'mien'"):
        as_method(f"{path}:mine", METHODS)


def test_a_method_that_raises_is_refused_with_its_message_in_one_line(net):
    def mine(model, inputs, targets):
        raise ValueError("first\nsecond")

    with pytest.raises(AttributionLabError) as caught:
        run(mine, net)
    line = mine.__code__.co_firstlineno + 1
    expected = f"mine raised ValueError: first second on env (test_adapter.py, line {line})"
    assert str(caught.value) == expected
    with pytest.raises(AttributionLabError, match=r"Occlusion raised .* on env"):
        run(captum.attr.Occlusion, net)


def test_missing_attributions_are_refused(net):
    with pytest.raises(AttributionLabError, match="for 'other', none for 'env'"):
        run({"other": np.zeros((1, 2, 2))}, net)
    with pytest.raises(AttributionLabError, match=r"for env have shape \(0, 2, 2\): pass one map"):
        run(np.zeros((0, 2, 2)), net)


def test_interrupts_pass_through(net):
    def mine(model, inputs, targets):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(mine, net)


def test_loading_a_file_leaves_the_modules_alone(tmp_path, net):
    path = tmp_path / "json.py"  # the name of a module that is in use
    path.write_text("def mine(model, inputs, targets):\n    return inputs\n")
    before = sys.modules.get("json")
    run(f"{path}:mine", net)
    assert sys.modules.get("json") is before


def test_a_file_may_use_dataclasses_and_its_neighbors(tmp_path, net):
    (tmp_path / "neighbor_of_mine.py").write_text("FACTOR = 3\n")
    path = tmp_path / "my_method.py"
    path.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from neighbor_of_mine import FACTOR\n"
        "@dataclass\n"
        "class Scale:\n"
        "    kind: ClassVar[str] = 'x'\n"
        "    factor: int = FACTOR\n"
        "def mine(model, inputs, targets):\n"
        "    return inputs * Scale().factor\n"
    )
    before = list(sys.path)
    assert torch.equal(run(f"{path}:mine", net), INPUTS * 3)
    assert sys.path == before


def test_a_file_without_a_name_is_told_how_to_write_it():
    with pytest.raises(AttributionLabError, match=r"names no function: write mine\.py:name"):
        as_method("mine.py", METHODS)


@pytest.mark.parametrize("length", [0, 2, 4])
def test_one_map_for_each_image_no_more_and_no_less(net, length):
    call = Call("env", net, INPUTS, TARGETS, total=3)
    with pytest.raises(AttributionLabError, match="pass one map for each of the 3 images"):
        as_method(np.zeros((length, 2, 2)), METHODS).attribute(call)
