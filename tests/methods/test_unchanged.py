"""What is the user's stays as it was, for every method: globals, the network, tensors, hooks."""

import importlib
import inspect
import random
import threading

import numpy as np
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.methods import METHODS, collect_notices
from few_samples import OF_TRANSFORMERS, PatchTransformer, few
from unchanged import changed, nothing_changes, of_process, snapshot

SIDE = 8


def network():
    """Two classes; a layer is frozen, a gradient has been accumulated, a flag is the user's own."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *(
            nn.Conv2d(1, 3, 3, padding=1),
            nn.BatchNorm2d(3),
            nn.ReLU(),
            nn.Conv2d(3, 4, 3, padding=1),
        ),
        *(nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 2)),
    ).eval()
    model[6].train()  # a flag of the user's, which changes nothing
    model[0].weight.requires_grad_(False)
    model[7].weight.grad = torch.rand_like(model[7].weight)
    model.comment = "the user's"
    return model


def given(name, model):
    """Images, targets, and what a method takes by name, all of the caller's."""
    offered = {
        "baseline": torch.zeros(1, 1, 1),
        "layers": {} if name in OF_TRANSFORMERS else {"gradcam": model[4], "iba": model[4]},
        "highest": 1.0,
        "reference_images": torch.rand(6, 1, SIDE, SIDE),
    }
    takes = inspect.signature(METHODS[name]).parameters
    settings = {key: value for key, value in offered.items() if key in takes} | few(name)
    if settings.get("segmentation") == "grid":
        settings["cells"] = 2
    return torch.rand(2, 1, SIDE, SIDE), torch.tensor([0, 1]), settings


def explained(name, model, images, targets, settings):
    takes = inspect.signature(METHODS[name]).parameters
    drawn = {"generator": torch.Generator().manual_seed(0)} if "generator" in takes else {}
    return METHODS[name](model, images, targets, **settings, **drawn)


def tensors_of(images, targets, settings):
    return [
        images,
        targets,
        *(each for each in settings.values() if isinstance(each, torch.Tensor)),
    ]


def network_of(name):
    if name not in OF_TRANSFORMERS:
        return network()
    torch.manual_seed(0)
    return PatchTransformer(1, 4, 2).eval()


@pytest.fixture(scope="module", autouse=True)
def imported():
    """What torch and SciPy set as they are imported is nothing that a call sets."""
    torch.optim.SGD([torch.zeros(1, requires_grad=True)]).step()
    importlib.import_module("sklearn.linear_model")
    assert METHODS


@pytest.fixture
def odd_globals():
    """What a user may have set, each unlike its default."""
    dtype, threads, errors = torch.get_default_dtype(), torch.get_num_threads(), np.geterr()
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    torch.set_float32_matmul_precision("high")
    np.seterr(over="ignore", divide="ignore")
    yield
    np.seterr(**errors)
    torch.set_float32_matmul_precision("highest")
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::attributionlab.GuardWarning")
def test_a_method_changes_nothing_of_the_users(name, odd_globals, without_shape_checks):
    model = network_of(name)
    images, targets, settings = given(name, model)
    tensors = tensors_of(images, targets, settings)
    torch.set_default_dtype(torch.float64)
    with nothing_changes(model, *tensors):
        maps = explained(name, model, images, targets, settings)
    assert maps.shape[0] == 2
    with nothing_changes(model, *tensors), torch.no_grad():
        again = explained(name, model, images, targets, settings)
    assert torch.equal(maps, again)

    def raising(module, _inputs, output):
        raise RuntimeError("the user's own")

    for place in (model, list(model.children())[-1]):
        handle = place.register_forward_hook(raising)
        with nothing_changes(model, *tensors), pytest.raises(Exception, match=r"own|hooks|layers"):
            explained(name, model, images, targets, settings)
        handle.remove()


def counting(calls):
    """Hooks of every kind, which change nothing and count."""

    def forward(module, *_):
        calls["forward"] += 1

    def backward(module, *_):
        calls["backward"] += 1

    def hook(module):
        module.register_forward_pre_hook(forward)
        module.register_forward_hook(forward)
        module.register_full_backward_pre_hook(backward)
        module.register_full_backward_hook(backward)

    return hook


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("where", ["modules", "model"])
@pytest.mark.filterwarnings("ignore::attributionlab.GuardWarning")
@pytest.mark.filterwarnings(
    "ignore:Full backward hook is firing"
)  # torch, where no image has a gradient
def test_hooks_of_the_users_change_no_map(name, where):
    model = network_of(name)
    arguments = given(name, model)
    expected = explained(name, model, *arguments)
    calls = {"forward": 0, "backward": 0}
    hook = counting(calls)
    for module in [model] if where == "model" else list(model.modules())[1:]:
        hook(module)
    with nothing_changes(model, *tensors_of(*arguments)):
        got = explained(name, model, *arguments)
    # Hooked networks are not followed step by step: sums of some hundred terms in another order.
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))
    assert calls["forward"]


def test_in_place_hooks_of_the_users_see_copies_too():
    model, images = network(), torch.rand(1, 1, SIDE, SIDE)
    model.register_forward_pre_hook(lambda _, given: given[0].sub_(0.5))
    shifted = network()
    shifted.register_forward_pre_hook(lambda _, given: given[0] - 0.5)
    ask = images, torch.tensor([0])
    settings = {"window": 2, "stride": 2}
    before = images.clone()
    got = al.methods.occlusion(model, *ask, **settings)
    assert torch.equal(images, before)
    assert torch.equal(got, al.methods.occlusion(shifted, *ask, **settings))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("transform", ["vmap", "grad"])
def test_calls_inside_transforms_of_torch_func_are_refused(name, transform):
    """Methods look at values, which are none there; the network is left as it was."""
    model = network_of(name)
    images, targets, settings = given(name, model)

    def one(image):
        return explained(name, model, image[None], targets[:1], settings).sum()

    call = {
        "vmap": lambda: torch.func.vmap(one, randomness="same")(images),
        "grad": lambda: torch.func.grad(one)(images[0]),
    }[transform]
    with (
        nothing_changes(model, *tensors_of(images, targets, settings)),
        pytest.raises(AttributionLabError, match=r"inside torch\.func.*: call this outside"),
    ):
        call()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::attributionlab.GuardWarning")
def test_hooks_that_change_outputs_in_place_are_followed_or_refused(name):
    """Where a gradient needs the output from before, torch has none to give."""
    model, twin = network_of(name), network_of(name)
    for network, hook in ((model, lambda _, __, out: out.mul_(2)), (twin, lambda *of: of[2] * 2)):
        for module in network.modules():
            if isinstance(module, nn.ReLU | nn.Linear | nn.Conv2d):
                module.register_forward_hook(hook)
    images, targets, settings = given(name, model)
    with nothing_changes(model, *tensors_of(images, targets, settings)):
        try:
            maps = explained(name, model, images, targets, settings)
        except AttributionLabError as error:
            maps, said = None, str(error)
    if maps is None:
        assert any(part in said for part in ("in place", "inplace", "no rule for"))
    else:
        own = {
            key: given(name, twin)[2][key] if key == "layers" else settings[key] for key in settings
        }
        assert torch.equal(maps, explained(name, twin, images, targets, own))


# Threads


def at_once(*calls):
    """Run each in a thread of its own until all are done; raises what one of them raised."""
    failed = []

    def run(call):
        try:
            call()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads)
    if failed:
        raise failed[0]


def test_methods_of_several_threads_do_not_see_each_others_hooks():
    model = network()
    behind = nn.Sequential(model, nn.Softmax(dim=1)).eval()  # shares its modules
    ask = torch.rand(1, 1, SIDE, SIDE), torch.tensor([0])
    methods = al.methods
    calls = [
        lambda: methods.saliency(model, *ask),
        lambda: methods.guided_backprop(behind, *ask),
        lambda: methods.deconvolution(model, *ask),
        lambda: methods.gradcam(behind, *ask, layer="0.4"),
    ]

    def repeated(call):
        for _ in range(25):
            with collect_notices():
                assert torch.equal(call(), expected[call])

    with collect_notices():
        expected = {call: call() for call in calls}
    before = snapshot(behind, *ask)
    torch.set_default_dtype(torch.float64)
    try:
        at_once(*(lambda call=call: repeated(call) for call in calls))
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert not changed(before, snapshot(behind, *ask))


def test_defaults_of_the_process_survive_calls_that_overlap():
    """One thread begins before another and ends before it: each sees what it was promised."""
    began, ended, seen = threading.Event(), threading.Event(), []
    before = of_process()

    def first():
        with al.exact_arithmetic(), device.own_arithmetic():
            began.set()
            assert overlapping.wait(60)
        ended.set()

    def second():
        assert began.wait(60)
        with al.exact_arithmetic(), device.own_arithmetic():
            overlapping.set()
            assert ended.wait(60)
            seen.append((torch.get_default_dtype(), device.rounds_products()))

    from attributionlab.base import device

    overlapping = threading.Event()
    torch.set_default_dtype(torch.float64)
    try:
        at_once(first, second)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert seen == [(torch.float32, False)]
    assert not changed(before, of_process())


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
def test_a_method_of_the_users_may_wait_for_threads_that_call_methods():
    """A lock that a test held meanwhile would hang here."""
    env = al.load("multi-color-sum", image_size=12)
    images, labels = env.batch(2)

    def in_threads(model, inputs, targets):
        maps = [None] * len(inputs)

        def one(index):
            part = slice(index, index + 1)
            maps[index] = al.methods.saliency(model, inputs[part], targets[part])

        at_once(*(lambda index=index: one(index) for index in range(len(inputs))))
        return torch.cat(maps)

    got = al.attribute(in_threads, env, images, labels)
    # One image alone may be summed in another order than two: some roundings of numbers below 1.
    expected = al.attribute("saliency", env, images, labels)
    torch.testing.assert_close(got, expected, rtol=0, atol=2**-20)


def test_the_snapshot_sees_what_it_is_for():
    """Each of these changes is one that the tests above must notice."""
    model, images = network(), torch.rand(1, 1, SIDE, SIDE)
    changes = {
        "random state of Python": (random.random, lambda: None),
        "random state of numpy": (np.random.rand, lambda: None),
        "random state of torch": (lambda: torch.rand(1), lambda: None),
        "gradient mode": (
            lambda: torch.set_grad_enabled(False),
            lambda: torch.set_grad_enabled(True),
        ),
        "module 6": (lambda: model[6].eval(), lambda: model[6].train()),
        "tensor 1.running_mean": (lambda: model[1].running_mean.add_(1), lambda: None),
        "tensor 7.weight": (lambda: model[7].weight.grad.add_(1), lambda: None),
        "tensor 0.weight": (
            lambda: model[0].weight.requires_grad_(True),
            lambda: model[0].weight.requires_grad_(False),
        ),
        "argument 0": (lambda: images.add_(1), lambda: None),
        "module 2": (lambda: model[2].register_forward_hook(lambda *_: None), lambda: None),
        "module ": (lambda: setattr(model, "comment", "ours"), lambda: None),
    }
    for name, (change, undo) in changes.items():
        before = snapshot(model, images)
        with pytest.raises(AssertionError, match=name), nothing_changes(model, images):
            change()
        assert changed(before, snapshot(model, images)) == [name]
        undo()
