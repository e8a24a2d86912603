"""A run restores what a method changes, and checks what it returns."""

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import prune
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import _device
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

import attributionlab as al
from attributionlab import methods
from attributionlab.base import AttributionLabError
from cases import loaded


def search_algorithms():
    torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark


class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **kwargs or {})


class Operations(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        raise RuntimeError("not for you")


def entering(*modes):
    """Enter several modes, none of which is left."""
    return lambda: [mode().__enter__() for mode in modes]


ON_META = partial(torch.device, "meta")
CHANGES = {
    "default device": lambda: torch.set_default_device("meta"),
    "recursion": lambda: sys.setrecursionlimit(sys.getrecursionlimit() - 100),
    "cleared path": lambda: sys.path.clear(),
    "no path": lambda: vars(sys).update(path=None),
    "forgotten modules": lambda: sys.modules.pop("json"),
    "variables": lambda: os.environ.clear(),
    "streams": lambda: vars(sys).update(stdout=None, stderr=None),
    # A shell's background job ignores interrupts already.
    "interrupts": lambda: signal.signal(signal.SIGINT, lambda *_: None),
    "terminations": lambda: signal.signal(signal.SIGTERM, lambda *_: None),
    "exit": lambda: vars(os).update(_exit=print),
    "anomalies": lambda: torch.autograd.set_detect_anomaly(True),
    "precision": lambda: torch.set_float32_matmul_precision("medium"),
    "autocast": entering(partial(torch.autocast, "cpu")),
    "algorithms": search_algorithms,
    "device": entering(ON_META),
    "device and default": lambda: (
        entering(ON_META)(),
        torch.set_default_device("meta"),
        entering(ON_META)(),
    ),
    "modes of functions": entering(Functions, Functions),
    "mode of operations": entering(Operations),
    "modes of all kinds": entering(Functions, ON_META, FakeTensorMode),
}
"""What a method may do to the process, by what of it is then another."""


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
        "terminations": signal.getsignal(signal.SIGTERM),
        "exit": os._exit,
        "anomaly": torch.is_anomaly_enabled(),
        "precision": torch.get_float32_matmul_precision(),
        "errors": np.geterr(),
    }


env = loaded("number-checker", image_size=24)


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
@pytest.mark.parametrize(
    ("change", "of_user"),
    # torch itself refuses set_default_device inside of the context in which a user with one is.
    [
        *((change, None) for change in CHANGES),
        *((change, "meta") for change in ("cleared path", "device", "modes of all kinds")),
    ],
)
def test_what_a_method_changes_in_the_process_is_restored(env, change, of_user):
    def changing(model, inputs, targets):
        maps, inside = inputs.sum(1), state()
        CHANGES[change]()
        assert state() != inside
        return maps

    def raising(model, inputs, targets):
        changing(model, inputs, targets)
        raise RuntimeError("on purpose")

    torch.set_default_device(of_user)
    before = state()
    try:
        report = al.faithfulness_test(changing, env, n=2, also=None)
        assert report.environments[0].claim_f1 >= 0
        assert state() == before
        with pytest.raises(AttributionLabError, match="raising raised RuntimeError: on purpose"):
            al.faithfulness_test(raising, env, n=2, also=None)
        assert state() == before
    finally:
        torch.set_default_device(None)


def model():
    return nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(), nn.Flatten()).eval()


def snapshot(net):
    hooks = [
        sum(len(v) for k, v in vars(m).items() if k.endswith("hooks") and v is not None)
        for m in net.modules()
    ]
    hooks.append(len(nn.modules.module._global_forward_hooks))
    weights = [
        (p.tolist(), p.dtype, p.requires_grad, p.grad, p._backward_hooks) for p in net.parameters()
    ]
    plain = [{k: v for k, v in vars(m).items() if not isinstance(v, dict)} for m in net.modules()]
    buffers = [list(m._buffers) for m in net.modules()]
    return plain, hooks, weights, buffers, [type(m) for m in net.modules()]


def change_weight(net):
    with torch.no_grad():
        net[0].weight[0] += 1


def leave_hooks(net):
    net[1].register_forward_hook(lambda *_: None)
    net[0].register_forward_pre_hook(lambda *_: None, with_kwargs=True)
    net[1].register_full_backward_hook(lambda *_: None)


DAMAGE = [
    (lambda net: net[1].train(), "training mode"),
    (lambda net: net.requires_grad_(False), "requires_grad"),
    (change_weight, "weights"),
    (lambda net: net.double(), "weights"),
    (
        lambda net: net[0].register_parameter("weight", nn.Parameter(torch.zeros(2, 1, 1, 1))),
        "weights",
    ),
    (leave_hooks, "hooks"),
    (lambda net: net.register_module("1", nn.Sigmoid()), "modules"),
    (lambda net: vars(net).update(forward=lambda inputs: inputs), "forward"),
    (lambda net: vars(net[0]).update(stride=(2, 2)), "stride"),
    (lambda net: vars(net[1]).update(inplace=True), "inplace"),
    (lambda net: net.register_buffer("extra", torch.zeros(1)), "_buffers"),
    (lambda net: object.__setattr__(net[1], "__class__", nn.GELU), "modules"),
    (lambda net: net[0].weight.register_hook(lambda gradient: gradient * 0), "hooks"),
    (lambda _: nn.modules.module.register_module_forward_hook(lambda *_: None), "hooks"),
]


@pytest.mark.parametrize(("damage", "name"), DAMAGE)
def test_damage_is_undone_and_named(damage, name):
    net = model()
    before = snapshot(net)
    with methods.restored(net) as repaired:
        damage(net)
        assert snapshot(net) != before
        assert repaired == []
    assert snapshot(net) == before
    assert repaired == [name]

    def damage_and_raise():
        damage(net)
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"), methods.restored(net):
        damage_and_raise()
    assert snapshot(net) == before


def test_pruning_is_undone():
    net = model()
    before, expected = snapshot(net), net(torch.ones(1, 1, 2, 2))
    with methods.restored(net):
        prune.l1_unstructured(net[0], "weight", amount=0.5)
    assert snapshot(net) == before
    assert torch.equal(net(torch.ones(1, 1, 2, 2)), expected)


INPUTS = torch.zeros(2, 3, 4, 5)


def maps_of(attributions, start=0):
    with methods.collect_notices() as findings:
        maps = methods.as_maps(attributions, INPUTS, "mine on env", start)
    return maps, {finding.text: finding.images for finding in findings if finding.images}


PLAIN = torch.ones(2, 4, 5)
READ_ONLY = np.ones((2, 4, 5), dtype=np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("attributions", "noted"),
    [
        *((each, "") for each in (PLAIN, (PLAIN,), PLAIN.clone().requires_grad_() * 1)),
        *((PLAIN.to(each), str(each)[6:]) for each in (torch.float64, torch.float16)),
        *((PLAIN.to(each), str(each)[6:]) for each in (torch.int64, torch.bool)),
        (PLAIN.to(torch.float8_e4m3fn), "float8_e4m3fn"),
        (PLAIN.to_sparse(), ""),
        (np.ones((2, 4, 5), dtype=np.longdouble), "longdouble|float128|float64"),
        (np.ones((2, 4, 5), dtype=">f4"), ""),
        (np.ones((2, 4, 5), dtype=np.float32)[::-1, ::-1], ""),
        (np.ones((2, 4, 5), dtype=np.uint16), "uint16"),
        (READ_ONLY, ""),
    ],
)
def test_numbers_of_every_make_are_taken_and_a_conversion_is_noted(attributions, noted):
    maps, notes = maps_of(attributions)
    assert maps.dtype == torch.float64
    assert (maps == 1).all()
    assert bool(notes) == bool(noted)
    for note, count in notes.items():
        assert re.search(noted, note)
        assert count == 2


@pytest.mark.parametrize("make", [torch.ones, np.ones])
def test_maps_of_every_shape_are_summed_over_channels_with_their_signs(make):
    for shape in ((2, 3, 4, 5), (2, 1, 4, 5), (2, 4, 5)):
        attributions = make(shape)
        if len(shape) == 4:
            attributions[:, 0] = -5
        wanted = {(2, 3, 4, 5): -3, (2, 1, 4, 5): -5}.get(shape, 1)
        maps, _ = maps_of(attributions)
        assert maps.shape == (2, 1, 4, 5)
        assert (maps == wanted).all()


def test_maps_of_zeros_are_noted():
    attributions = torch.ones(2, 4, 5)
    attributions[1] = 0
    assert maps_of(attributions)[1] == {"are zero everywhere and score 0": 1}


@pytest.mark.parametrize(
    ("attributions", "message"),
    [
        (
            torch.ones(2, 5, 4),
            r"mine on env returned shape \(2, 5, 4\): return one of \(2, 3, 4, 5\)",
        ),
        (torch.ones(1, 3, 4, 5), r"returned shape \(1, 3, 4, 5\)"),
        (torch.ones(2, 2, 4, 5), r"returned shape \(2, 2, 4, 5\)"),
        (torch.ones(()), r"returned shape \(\)"),
        ([1, 2], "returned list: return a torch tensor or a numpy array"),
        (None, r"returned NoneType: return .* \(inputs.grad is None without inputs"),
        (
            torch.ones(2, 4, 5, dtype=torch.complex64),
            "returned torch.complex64: return real numbers",
        ),
        (np.array([["a"]]), "returned an array of <U1: return real numbers"),
    ],
)
def test_what_cannot_be_scored_is_refused(attributions, message):
    with pytest.raises(AttributionLabError, match=message):
        maps_of(attributions)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_are_refused_with_their_place(value):
    attributions = torch.ones(2, 3, 4, 5)
    attributions[1, 2, 3, 4] = value
    with pytest.raises(AttributionLabError, match=rf"{value} for image 7 at \(2, 3, 4\)"):
        maps_of(attributions, start=6)


def test_channels_of_any_size_are_summed_without_loss():
    huge, tiny = (
        torch.full((2, 3, 4, 5), 3e38),
        torch.full((2, 3, 4, 5), 1e-120, dtype=torch.float64),
    )
    assert (maps_of(huge)[0] == 3 * huge.double()[:, :1]).all()
    assert (maps_of(tiny)[0] > 0).all()
    with pytest.raises(AttributionLabError, match="inf for image 0"):
        maps_of(torch.full((2, 3, 4, 5), 1e308, dtype=torch.float64))


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of what is a prototype or deprecated
@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("meta", lambda: torch.ones(2, 4, 5, device="meta")),
        ("quantized", lambda: torch.quantize_per_tensor(torch.ones(2, 4, 5), 1.0, 0, torch.qint8)),
        ("nested", lambda: torch.nested.nested_tensor([torch.ones(4, 5)] * 2)),
        (
            "nested",
            lambda: torch.nested.nested_tensor([torch.ones(4, 5)] * 2, layout=torch.jagged),
        ),
    ],
)
def test_tensors_without_plain_numbers_are_refused(kind, make):
    with pytest.raises(AttributionLabError, match=f"returned a {kind} tensor: return a plain one"):
        maps_of(make())


def test_a_method_that_ends_the_process_is_refused_and_its_own_processes_may_end(env):
    def ends(model, inputs, targets):
        os._exit(0)

    with pytest.raises(AttributionLabError, match=r"ends raised .* os\._exit\(0\) would end"):
        al.faithfulness_test(ends, env, n=1)


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with os.fork")
@pytest.mark.parametrize(
    ("copy", "told"),
    [
        ("os._exit(7)", "7"),  # its own process ends as it likes
        ("return inputs", "1"),  # it does not do a second time what follows
        ("raise ValueError('copy')", "1"),
    ],
)
def test_a_copy_of_the_process_ends_in_the_method(copy, told, tmp_path):
    (tmp_path / "copies.py").write_text(
        "import os, sys\nimport attributionlab as al\n"
        "def copies(model, inputs, targets):\n"
        "    if (child := os.fork()) == 0:\n"
        f"        {copy}\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)\n"
        "    return inputs\n"
        "env = al.load('number-checker', image_size=24)\n"
        "al.faithfulness_test(copies, env, n=1, one_network=True, isolated=False)\n"
        "print('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "copies.py"],
        cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(al.__file__).parents[1])},
    )  # fmt: skip
    said = done.stdout.split()
    assert done.returncode == 0, done.stderr
    assert set(said[:-1]) == {told}
    assert said.count("done") == 1


def test_gradients_that_the_user_has_accumulated_stay_and_no_others():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    gradient = model[1].weight.grad = torch.ones(2, 4)
    with methods.restored(model) as repaired:
        model(torch.ones(1, 1, 2, 2)).sum().backward()
        assert gradient.sum() == 2 * 8
        model[1].weight.grad = None
    assert repaired == []
    assert model[1].weight.grad is gradient
    assert torch.equal(gradient, torch.ones(2, 4))
    assert model[1].bias.grad is None


def test_what_a_method_shows_the_network_of_a_single_image_is_told_and_of_several_not():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    image = torch.full((1, 3, 2, 2), 20.0)
    image[0, :, 0, 0] = 200.0

    def halves(model, inputs, targets):
        return inputs * model(inputs / 2)[:, :1, None, None]

    def shown(images):
        call = methods.Call(
            "here", model, images, torch.zeros(len(images), dtype=torch.int64), 0, 1, {}
        )
        with methods.collect_notices() as told:
            methods.attribute(methods.as_method(halves, {}), call, 0)
        return [each.shown for each in told if each.kind == "values"]

    background, half = (20.0,) * 3, (10.0,) * 3
    [found] = shown(image)
    assert (found.values, found.of_image) == ((10.0, 100.0), (20.0, 200.0))
    assert (found.color, found.lowest, found.highest) == (background, half, background)
    assert shown(image.repeat(2, 1, 1, 1)) == []
