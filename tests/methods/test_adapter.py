"""Everything that attributes can be handed in, and what cannot is refused in one line."""

import os
import sys
import warnings

import captum.attr
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
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


class Gradient:
    """In the form of Captum's classes, and of no base class."""

    def __init__(self, model, layer=None, steps=1):
        self.model, self.layer, self.steps = model, layer, steps

    def attribute(self, inputs, baseline=0.0, target=None, scale=1.0):
        outputs = self.model(inputs).gather(1, target[:, None])
        assert self.layer is self.model[1]
        return (inputs - baseline) * outputs[:, :, None, None] * scale * self.steps


class ByPlace:
    def __init__(self, model):
        self.model = model

    def attribute(self, images, labels, *, generator):
        return images * labels + generator


def test_a_class_with_attribute_is_made_with_the_model_and_gets_what_it_declares(net):
    layers = {"gradcam": net[1], "iba": net[0]}
    expected = (INPUTS - 3) * net(INPUTS)[0, 1]
    assert torch.equal(run(Gradient, net, layers=layers, baseline=3.0), expected)
    settings = {"scale": 2.0, "steps": 2, "baseline": 3.0}
    assert torch.equal(run(Gradient, net, settings, layers=layers), expected * 4)
    assert isinstance(run_error(Gradient, net, {"layer": "0"}, layers=layers), AssertionError)
    assert torch.equal(run(ByPlace, net, generator=7), INPUTS + 7)
    method = as_method(Gradient, METHODS)
    assert [method.asks_for(name) for name in ("layer", "baseline", "generator")] == [1, 1, 0]
    assert as_method(ByPlace, METHODS).asks_for("generator")
    with pytest.raises(AttributionLabError, match="no setting 'scal': did you mean 'scale'"):
        as_method(Gradient, METHODS, {"scal": 1})


def run_error(*arguments, **offered):
    """What stands behind the refusal of a method that raises."""
    with pytest.raises(AttributionLabError) as caught:
        run(*arguments, **offered)
    return caught.value.__cause__


@pytest.mark.parametrize("ending", ["npy", "npz", "pt", "pth", "safetensors", "one.safetensors"])
def test_a_file_of_attributions_is_loaded(tmp_path, net, ending):
    maps, path = np.arange(5.0).reshape(5, 1, 1), tmp_path / f"maps.{ending}"
    match ending:
        case "npy":
            np.save(path, maps)
        case "npz":
            np.savez(path, env=maps)
        case "pt":
            torch.save(torch.from_numpy(maps), path)
        case "pth":
            torch.save({"env": torch.from_numpy(maps)}, path)
        case "safetensors":
            save_file({"env": torch.from_numpy(maps), "other": torch.zeros(1)}, path)
        case "one.safetensors":
            save_file({"maps": torch.from_numpy(maps)}, path)
    method = as_method(str(path), METHODS)
    occasion_at = Call("env", net, INPUTS, TARGETS, first=3, total=5)
    assert method.attribute(occasion_at).item() == 3
    assert method.name == str(path)
    with pytest.raises(AttributionLabError, match="precomputed attributions have no settings"):
        as_method(str(path), METHODS, {"scale": 1})


class Unpickled:
    """Leaves a folder behind where it is unpickled."""

    def __init__(self, path):
        self.folder = str(path.with_suffix(".unpickled"))

    def __reduce__(self):
        return (os.mkdir, (self.folder,))


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("gone.npy", lambda path: None),
        ("objects.npy", lambda path: np.save(path, np.array([Unpickled(path)], dtype=object))),
        ("objects.npz", lambda path: np.savez(path, env=np.array([Unpickled(path)], dtype=object))),
        ("network.pt", lambda path: torch.save(Unpickled(path), path)),
        ("text.npy", lambda path: path.write_text("maps")),
        ("text.pt", lambda path: path.write_text("maps")),
        ("number.pt", lambda path: torch.save({"env": 3}, path)),
        ("none.pt", lambda path: torch.save({}, path)),
        ("text.safetensors", lambda path: path.write_text("maps")),
        ("none.safetensors", lambda path: save_file({}, path)),
    ],
)
def test_a_file_without_arrays_is_refused_and_nothing_in_it_is_run(tmp_path, name, write):
    path = tmp_path / name
    write(path)
    with pytest.raises(AttributionLabError) as caught:
        as_method(str(path), METHODS)
    assert repr(str(path)) in str(caught.value)
    assert not path.with_suffix(".unpickled").exists()
    assert ("check the path" if name == "gone.npy" else "numpy.save") in str(caught.value)


class NoMethod:
    pass


def any_settings(model, inputs, targets, **settings):
    return inputs


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("salience", {}, "no method named 'salience': did you mean 'saliency'"),
        ("qqq", {}, r"write path/to/file.py:qqq if it is yours \(or module"),
        (__file__, {}, r"does not name a function: write .*test_adapter\.py:"),
        ("nowhere.py", {}, "no file at 'nowhere.py': check the path"),
        ("nowhere.py:mine", {}, "no file at 'nowhere.py': check the path"),
        ("no.such.module:mine", {}, "module 'no.such.module' cannot be imported: ModuleNotFound"),
        ("captum.attr:Saliencey", {}, "captum.attr has no 'Saliencey': did you mean 'Saliency'"),
        ("saliency", {"targets": 3}, "'targets' of saliency is given by the test: leave it out"),
        ("captum.attr:Saliency", {"target": 3}, "'target' of captum.attr:Saliency is given"),
        (any_settings, {"model": 3}, "'model' of any_settings is given by the test"),
        (any_settings, {"inputs": 3}, "'inputs' of any_settings is given by the test"),
        ("saliency", {"abss": True}, "saliency has no setting 'abss': did you mean 'abs'"),
        ("captum.attr:Saliency", {"abss": True}, "Saliency has no setting 'abss'"),
        (
            NoMethod,
            {},
            "NoMethod is a class: pass a Captum class or instance, a class with __init__",
        ),
        (NoMethod(), {}, "NoMethod is not a method: pass a Captum class"),
        (3, {}, "int is not a method: pass a Captum class"),
        (np.zeros(3), {"a": 1}, "precomputed attributions have no settings"),
    ],
)
def test_what_is_no_method_is_refused_with_the_remedy(method, settings, message):
    with pytest.raises(AttributionLabError, match=message):
        as_method(method, METHODS, settings)


class Raising:
    """Raises where one attribute is read."""

    def __init__(self, name):
        self._name = name

    def __getattribute__(self, name):
        if name == object.__getattribute__(self, "_name"):
            raise RuntimeError("not\ntoday")
        return object.__getattribute__(self, name)

    def __call__(self, model, inputs, targets):
        return inputs


class Meta(type):
    def __getattr__(cls, name):
        raise RuntimeError("not\ntoday")


@pytest.mark.parametrize(
    ("make", "kind"),  # pytest itself reads attributes of what it is given
    [
        (lambda: Raising("claim"), "Raising"),
        (lambda: Raising("__name__"), "Raising"),
        (lambda: Meta("OfMeta", (), {}), "Meta"),
    ],
)
def test_an_object_whose_attributes_raise_is_refused_in_one_line(make, kind):
    message = rf"of type {kind} raised RuntimeError: not today \(test_adapter\.py, line \d+\): let"
    with pytest.raises(AttributionLabError, match=message):
        as_method(make(), METHODS)


def test_a_signature_that_raises_says_nothing(net):
    assert torch.equal(run(Raising("__signature__"), net), INPUTS)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise RuntimeError('not\\ntoday')", "raised RuntimeError: not today while it was load"),
        ("import torch\n\ntorch.zeros(2).reshape(3)", r"\(broken\.py, line 3\)$"),
        ("def mine(:", "raised SyntaxError"),
        ("mien = 3", "has no 'mine': did you mean 'mien'"),
    ],
)
def test_files_that_fail_are_refused_with_their_message(tmp_path, source, said):
    path = tmp_path / "broken.py"
    path.write_text(f"{source}\n")
    with pytest.raises(AttributionLabError, match=said):
        as_method(f"{path}:mine", METHODS)


def test_a_method_that_raises_is_refused_with_its_message_in_one_line(net):
    def mine(model, inputs, targets):
        raise ValueError("first\nsecond")

    line = mine.__code__.co_firstlineno + 1
    found = rf"mine .*ValueError: first second.* env\b.*test_adapter\.py, line {line}\b"
    with pytest.raises(AttributionLabError, match=found):  # a dot matches no end of a line
        run(mine, net)
    with pytest.raises(AttributionLabError, match=r"Occlusion raised .* on env"):
        run(captum.attr.Occlusion, net, {"sliding_window_shapes": (3, 9, 9)})


FAILING = """
import numpy
import torch

def stack(inputs):
    rows = torch.zeros(3)
    return torch.nn.functional.conv2d(inputs, rows)

def fails_in_torch(model, inputs, targets):
    return stack(
        inputs
    )

@torch.no_grad()
def fails_in_numpy(model, inputs, targets):
    table = inputs.numpy()
    return numpy.take_along_axis(table, table, 0)

class Fails:
    def __init__(self, model):
        self.model = model

    def attribute(self, inputs, target):
        return self.missing
"""


@pytest.mark.parametrize(
    ("name", "line"),
    [("fails_in_torch", 7), ("fails_in_numpy", 17), ("Fails", 24)],
)
@pytest.mark.parametrize("folder", [".", "site-packages/mine"])
def test_the_deepest_line_of_the_users_own_code_is_named(
    tmp_path, monkeypatch, net, name, line, folder
):
    """Not the line of the library that it called, wherever the user's module is installed."""
    path = tmp_path / folder / "mine_failing.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FAILING)
    with pytest.raises(AttributionLabError, match=rf"\(mine_failing\.py, line {line}\)$"):
        run(f"{path}:{name}", net)


def needs_two(model, inputs, targets, *, baseline, steps, width, scale=1.0):
    return inputs


class NeedsOne:
    def __init__(self, model, steps):
        self.model = model

    def attribute(self, inputs, target, width):
        return inputs


@pytest.mark.parametrize(
    ("method", "settings", "lacking"),
    [
        (needs_two, {}, ("steps", "width")),
        (needs_two, {"width": 1}, ("steps",)),
        (NeedsOne, {"width": 1}, ("steps",)),
        (NeedsOne, {"steps": 1}, ("width",)),
        (captum.attr.Occlusion, {}, ("sliding_window_shapes",)),
    ],
)
def test_a_missing_setting_is_named_for_the_shell_and_for_python(net, method, settings, lacking):
    with pytest.raises(AttributionLabError, match=method.__name__) as caught:
        run(method, net, settings, baseline=0.0)
    for name in ("steps", "width", "sliding_window_shapes"):
        for words in (f"--set {name}=...", f"{name!r}: ..."):
            assert (words in str(caught.value)) == (name in lacking)
    assert "as in compare mine.py:f with def f(model, inputs, targets)" in str(caught.value)


def times_none(model, inputs, targets):
    model(inputs)[:, 1].sum().backward()
    return inputs.grad * inputs


def asks_no_gradient(model, inputs, targets):
    return torch.autograd.grad(model(inputs)[:, 1].sum(), inputs)[0]


def inside_no_grad(model, inputs, targets):
    with torch.no_grad():
        total = model(inputs.requires_grad_()).sum()
    return torch.autograd.grad(total, inputs)[0]


@pytest.mark.parametrize(
    ("method", "remedy"),
    [
        (times_none, "; inputs come without requires_grad: call inputs.requires_grad_() first"),
        (asks_no_gradient, "; inputs come without requires_grad: call"),
        (inside_no_grad, ""),
        (lambda inputs: inputs, "; write <lambda>(model, inputs, targets)"),
    ],
)
def test_what_beginners_forget_gets_its_remedy(net, method, remedy):
    with pytest.raises(AttributionLabError) as caught:
        run(method, net)
    assert remedy in str(caught.value)
    assert bool(remedy) == ("; " in str(caught.value))


@pytest.mark.parametrize("raised", [SystemExit(0), ValueError("no text")])
def test_an_exception_that_cannot_be_written_down_is_named(net, raised):
    class Mute(Exception):
        def __str__(self):
            raise raised

    def fails(model, inputs, targets):
        raise Mute

    with pytest.raises(AttributionLabError, match="fails raised Mute on env"):
        run(fails, net)


def test_a_long_text_of_an_exception_is_cut(net):
    def fails(model, inputs, targets):
        raise ValueError("word " * 100_000)

    with pytest.raises(
        AttributionLabError, match=r"fails raised ValueError: word .* more\)"
    ) as caught:
        run(fails, net)
    assert len(str(caught.value)) < 1200


def test_missing_attributions_are_refused(net):
    with pytest.raises(AttributionLabError, match=r"are \{\}, which is empty: pass \{env.name:"):
        as_method({}, METHODS)
    with pytest.raises(AttributionLabError, match="for 'other', but none for 'env'"):
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


@pytest.mark.parametrize("length", [0, 2, 4])
def test_one_map_for_each_image_no_more_and_no_less(net, length):
    call = Call("env", net, INPUTS, TARGETS, total=3)
    with pytest.raises(AttributionLabError, match="pass one map for each of the 3 images"):
        as_method(np.zeros((length, 2, 2)), METHODS).attribute(call)


def marked(**attributes):
    def method(model, inputs, targets):
        return inputs

    vars(method).update(attributes)
    return method


@pytest.mark.parametrize(
    ("attributes", "refusal"),
    [
        ({"runs": "three"}, "runs is 'three': take an integer from 1 to 1000"),
        ({"runs": torch.ones(2)}, r"runs is .*float32 of shape \(2,\): take an integer"),
        ({"runs": 0}, "runs is 0: take an integer"),
        ({"runs": 10**9}, "runs is 1000000000: take an integer"),
        ({"runs": lambda: 3}, "runs is <function .*: take an integer"),
        ({"gradient": "no"}, "gradient is 'no': take True or False"),
        ({"gradient": torch.ones(2)}, "gradient is .*float32.*: take True or False"),
        ({"claim": torch.ones(2)}, "claim is tensor.*: take a text"),
        ({"output": ["logit"]}, r"output is \['logit'\]: take a text"),
        ({"resolution": ["iba"]}, r"resolution is \['iba'\]: take a text"),
        ({"resolution": "nolayer"}, "resolution is 'nolayer': take 'gradcam' or 'iba'"),
        ({"runs": 1.5, "claim": 3}, "claim is 3: take a text; runs is 1.5: take an integer"),
    ],
)
def test_a_declaration_that_is_none_is_refused(attributes, refusal):
    with pytest.raises(AttributionLabError, match=rf"method declares .*rename.*: {refusal}"):
        as_method(marked(**attributes), METHODS)


def test_declarations_are_read_once_and_methods_of_an_object_are_none():
    class Keeping:
        runs = None

        def gradient(self):
            """What a class with hooks may have."""

        def __call__(self, model, inputs, targets):
            self.output = self.runs = self.resolution = torch.ones(2)
            return inputs

    method = as_method(Keeping(), METHODS)
    method.attribute(call(None))
    assert (method.runs, method.gradient, method.output, method.resolution) == (
        1,
        False,
        None,
        None,
    )
    plain = as_method(marked(runs=np.int64(3), gradient=True, claim="overall"), METHODS)
    assert (plain.runs, plain.gradient, plain.claim) == (3, True, "overall")
