"""What a direct call of every built-in method takes, and the one line that it says to anything else."""

import functools
import inspect
import threading
import warnings
from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from attributionlab import AttributionLabError, methods
from attributionlab.methods import METHODS, collect_notices
from few_samples import OF_TRANSFORMERS, PatchTransformer, few

SIDE, OUTPUTS = 8, 3
IMAGES = torch.rand(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
TARGETS = torch.tensor([0, 2])
MODULES = {
    **dict.fromkeys(
        ("deconvolution", "guided-backprop", "deep-lift", "deep-shap", "lrp"), "activations"
    ),
    **dict.fromkeys(("gradcam", "gradcam-plus-plus", "layercam", "linear-approx"), "a layer"),
    **dict.fromkeys(("guided-gradcam", "smooth-gradcam-plus-plus", "xgradcam", "iba"), "a layer"),
    **dict.fromkeys(("hirescam", "scorecam", "ablationcam"), "a layer"),
    **dict.fromkeys(
        ("attnlrp", "input-iba", "excitation-backprop", *OF_TRANSFORMERS), "its operations"
    ),
}
"""What a method needs of the inside of a network: no function has it."""
PLACES = {
    **dict.fromkeys(("occlusion", "rise", "extremal-perturbation"), "windows, cells, blobs"),
    **dict.fromkeys(("gradcam", "gradcam-plus-plus", "guided-gradcam", "layercam"), "cells"),
    **dict.fromkeys(("linear-approx", "smooth-gradcam-plus-plus", "xgradcam"), "cells"),
    **dict.fromkeys(("hirescam", "scorecam", "ablationcam"), "cells"),
    **dict.fromkeys(("iba", "input-iba", *OF_TRANSFORMERS), "cells"),
    "integrated-gradients-blurred": "a blur",
    "gradient-norm": "a length over channels",
}
"""Why a method has a meaning for rows and columns only."""
NO_GRADIENTS = {
    **dict.fromkeys(("feature-ablation", "occlusion", "rise", "lime", "kernel-shap"), "passes"),
    **dict.fromkeys(("shapley-value-sampling", "scorecam", "ablationcam"), "passes"),
    **dict.fromkeys(
        ("iba", "input-iba"), "the price alone shapes the mask, of which a guard tells"
    ),
}
"""Why a method works without gradients."""
QUICK = {
    *("attention-rollout", "deep-lift", "excitation-backprop", "extremal-perturbation"),
    *("feature-ablation", "gradcam", "iba", "input-x-gradient-smoothgrad-absolute", "lime"),
    *("integrated-gradients-exact", "occlusion", "saliency"),
}
"""One of each way to ask a network; the others come with the long tests."""


def marks_of(name):
    return [] if name in QUICK else pytest.mark.long


EVERY = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=marks_of(name)) for name in METHODS]
)


def reason(table, name):
    """The reason in a table for a method, its variants and what is made of it."""
    return next((table[key] for key in table if name.startswith(key)), None)


class Around(nn.Module):
    """A network with another step in front of it and behind it."""

    def __init__(self, inner, behind=lambda outputs: outputs, before=lambda inputs: inputs):
        super().__init__()
        self.inner, self.behind, self.before = inner, behind, before

    def forward(self, inputs):
        return self.behind(self.inner(self.before(inputs)))


def network(name):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if name in OF_TRANSFORMERS:
            return PatchTransformer(3, 4, OUTPUTS).eval()
        return nn.Sequential(
            *(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(4 * SIDE * SIDE, OUTPUTS)),
        ).eval()


def explained(name, model, inputs=IMAGES, targets=TARGETS, layer="inner.0", **others):
    """A method's maps, with as few samples and steps as it takes, drawn from the same seeds."""
    method = METHODS[name]
    takes = inspect.signature(method).parameters
    shape = (8, *inputs.shape[1:])
    references = torch.rand(shape, generator=torch.Generator().manual_seed(2))
    offered = {
        "baseline": 0.0,
        "generator": torch.Generator().manual_seed(0),
        "highest": 1.0,
        "reference_images": references.to(inputs.dtype),
        "layer": None if name == "excitation-backprop" else layer,
        "segmentation": "pixels",
    }
    given = {key: offered[key] for key in offered if key in takes} | few(name)
    given |= {"segmentation": "pixels"} if "segmentation" in takes else {}
    given |= {"max_evaluations": 45} if "max_evaluations" in takes else {}
    with collect_notices():
        return method(model, inputs, targets, **given | others)


@functools.cache
def reference(name, whole=False):
    """The maps of the usual call: of the network itself, or where it lies in another."""
    if whole:
        return explained(name, network(name), layer="0")
    return explained(name, Around(network(name)).eval())


def assert_same(maps, expected):
    assert maps.shape == expected.shape
    # Sums of one network in another order: some thousand units of float32's 2^-24.
    assert (maps.double() - expected.double()).abs().max() <= 1e-3 * expected.abs().max()


FORMS = {
    "tuple": lambda outputs: (outputs, None),
    "list": lambda outputs: [None, outputs],
    "logits by name": lambda outputs: {"hidden": torch.ones(1), "logits": outputs},
    "one tensor by name": lambda outputs: OrderedDict(out=outputs, loss=None),
    "attribute": lambda outputs: SimpleNamespace(logits=outputs),
}


@EVERY
def test_outputs_of_other_forms_are_rows(name):
    for form in FORMS.values():
        assert_same(explained(name, Around(network(name), form).eval()), reference(name))
    single = explained(name, Around(network(name), lambda rows: rows[:, 0]).eval(), targets=0)
    expected = explained(name, Around(network(name), lambda rows: rows[:, :1]).eval(), targets=0)
    assert torch.equal(single, expected)


def test_the_output_of_a_single_image_may_have_lost_its_axes():
    model = Around(network("saliency"), lambda rows: rows[:, :1].squeeze()).eval()
    assert methods.saliency(model, IMAGES[:1], 0).shape == (1, 3, SIDE, SIDE)


@EVERY
def test_outputs_that_are_no_rows_are_refused_with_what_to_do(name):
    wrong = [
        (lambda rows: {"a": rows, "b": rows}, r"output is a dict of 'a', 'b': pass a model"),
        (lambda rows: rows.reshape(-1, 3, 1, 1), r"of shape \(\d, 3, 1, 1\): .* as targets a func"),
        (lambda rows: torch.ones(len(rows), 2).long(), "output is torch.int64 of shape"),
        (lambda rows: rows.reshape(-1, 1), r"output has \d+ rows for \d images"),
    ]
    for behind, message in wrong:
        with pytest.raises(AttributionLabError, match=message) as caught:
            explained(name, Around(network(name), behind).eval())
        assert "\n" not in str(caught.value)


@EVERY
def test_an_output_without_a_gradient_is_named_as_the_cause(name):
    model = Around(network(name), torch.Tensor.detach).eval()
    if reason(NO_GRADIENTS, name):
        assert explained(name, model).isfinite().all()
        return
    cause = "no gradient|not require grad|no rule for 'detach'"
    with pytest.raises(AttributionLabError, match=cause) as caught:
        explained(name, model)
    assert "\n" not in str(caught.value)


@EVERY
def test_targets_are_indices_in_any_form(name):
    model = Around(network(name)).eval()
    widths = (TARGETS.to(each) for each in (torch.uint8, torch.int32, torch.uint16))
    for targets in ([0, 2], (0, 2), np.array([0, 2]), *widths):
        assert torch.equal(explained(name, model, targets=targets), reference(name))
    everywhere = explained(name, model, targets=torch.tensor([1, 1]))
    for target in (1, np.int64(1), np.array(1), torch.tensor(1)):
        assert torch.equal(explained(name, model, targets=target), everywhere)
    largest = explained(name, model, targets=model(IMAGES).argmax(1))
    assert torch.equal(explained(name, model, targets="predicted"), largest)


def test_predicted_is_what_the_image_itself_shows_and_not_its_noisy_samples():
    seen = []

    def noting(model, inputs, targets):
        seen.extend(targets.tolist())
        return inputs

    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2, bias=False))
    model[1].weight.data = torch.tensor([[1.0], [-1.0]])
    images, generator = (
        torch.tensor([1.0, -1.0]).reshape(2, 1, 1, 1),
        torch.Generator().manual_seed(0),
    )
    smooth = methods.smoothgrad(noting)
    with collect_notices():
        smooth(model, images, "predicted", highest=100.0, generator=generator, n_samples=4)
    assert seen == [0] * 4 + [1] * 4


@EVERY
def test_targets_that_there_are_not_are_refused(name):
    wrong = [
        (torch.tensor([0, 3]), "targets go up to 3, but the model has 3 outputs: .* from 0 to 2"),
        (7, "targets go up to 7, but the model has 3 outputs"),
        (-1, "the smallest target is -1: pass indices"),
        ([0, 2**64], f"a target is {2**64}, beyond int64: pass indices"),
        (torch.tensor(0.0), r"targets are torch.float32 of shape \(2,\)"),
        ([0], r"targets are \[0\]: pass an integer for all images or one for each of the 2"),
        (torch.tensor([0, 1, 2]), r"targets are torch.int64 of shape \(3,\): .* of the 2 images"),
        (lambda rows: rows.sum(), r"targets\(outputs\) returns torch.float\d\d of shape \(\)"),
        (
            lambda rows: rows.flatten(),
            r"what targets\(outputs\) returns has \d+ rows for \d images",
        ),
    ]
    for layer, model in (("0", network(name)), ("inner.0", Around(network(name)).eval())):
        for targets, message in wrong:
            with pytest.raises(AttributionLabError, match=message):
                explained(name, model, targets=targets, layer=layer)
            assert not any(module._forward_hooks for module in model.modules())


class NoGradient(torch.autograd.Function):
    """Values as they are, and no gradient at all, as from a quantized layer; or that of a constant."""

    @staticmethod
    def forward(context, values):
        return values.clone()

    @staticmethod
    def backward(context, gradient):
        return None


class Branching(nn.Module):
    """ReLU(x) and, where a gradient stops, ReLU(3 - x): in all 2 ReLU(x) + ReLU(3 - x)."""

    def __init__(self, stop):
        super().__init__()
        self.stop, self.one, self.two = stop, nn.ReLU(), nn.ReLU()

    def forward(self, images):
        x = images.flatten(1)
        return 2 * self.one(x) + self.stop(self.two(3 - x))


@pytest.mark.parametrize(
    "name", ["saliency", "deep-lift", "deep-shap", "guided-backprop", "deconvolution"]
)
def test_a_function_without_a_gradient_is_a_constant_or_the_cause(name):
    with collect_notices():  # of a function that is not known, and of the change that is missed
        stopped, detached = (
            METHODS[name](Branching(stop).eval(), torch.ones(1, 1, 2, 2), 0)
            for stop in (NoGradient.apply, torch.Tensor.detach)
        )
    assert torch.equal(stopped, detached)
    assert stopped.flatten().tolist() == [2.0, 0.0, 0.0, 0.0]
    with pytest.raises(AttributionLabError, match="the gradient of the model"):
        METHODS[name](Around(network(name), NoGradient.apply).eval(), IMAGES, TARGETS)


@pytest.mark.parametrize("name", ["saliency", "deconvolution", "deep-lift"])
def test_activations_that_are_computed_again_have_gradients_or_are_refused(name):
    class Recomputing(Around):
        def forward(self, images):
            return checkpoint(self.inner, images, use_reentrant=self.reentrant)

    model = Recomputing(network(name)).eval()
    model.reentrant = False
    assert torch.equal(explained(name, model), reference(name))
    model.reentrant = True
    with pytest.raises(AttributionLabError, match=r"use_reentrant=True.*: set use_reentrant=False"):
        explained(name, model)


def test_a_score_may_ask_the_network_and_methods_about_it():
    model = network("saliency")

    def sized(rows):
        sizes = methods.saliency(model, IMAGES[:1], [0]).abs().max()
        return rows[:, 0] * sizes * len(model(IMAGES))

    size = methods.saliency(model, IMAGES[:1], [0]).abs().max()
    plain = methods.saliency(model, IMAGES, lambda rows: rows[:, 0] * size * 2)
    assert torch.equal(methods.saliency(model, IMAGES, sized), plain)


def dense(name):
    """A network of an output for each class and place, as for a segmentation."""

    def twice(rows):
        return torch.cat([rows.reshape(-1, OUTPUTS, 1, 1)] * 2, 2)

    return Around(network(name), twice).eval()


@EVERY
def test_a_score_of_the_output_is_explained(name):
    of_class = Around(network(name), lambda rows: rows[:, 1:2]).eval()
    expected = explained(name, of_class, targets=0)
    got = explained(name, dense(name), targets=lambda outputs: outputs[:, 1].mean((1, 2)))
    assert_same(got, expected)
    # A chain of layers, which other routes than the network's own call would follow.
    got = explained(name, network(name), targets=lambda outputs: outputs[:, 1], layer="0")
    assert_same(got, expected)


@EVERY
def test_what_is_switched_around_a_call_changes_nothing(name):
    model, expected = Around(network(name)).eval(), reference(name)
    with torch.no_grad():
        assert torch.equal(explained(name, model), expected)
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        images = IMAGES.clone()
        assert torch.equal(explained(name, model, images), expected)
    assert torch.equal(explained(name, model, images), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(explained(name, model), expected)
        assert torch.is_autocast_enabled("cpu")
    leaf = IMAGES.clone().requires_grad_()
    maps = explained(name, model, leaf)
    assert torch.equal(maps, expected)
    assert not maps.requires_grad
    assert leaf.grad is None
    assert leaf.requires_grad


@EVERY
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_the_map_of_the_same_network_in_float32(name, dtype):
    model, images = Around(network(name)).eval().to(dtype), IMAGES.to(dtype)
    maps = explained(name, model, images)
    assert maps.isfinite().all()
    expected = explained(name, model.float(), images.float())
    assert expected.dtype == torch.float32
    assert maps.dtype in (dtype, torch.float64)  # where squares would be lost
    # Six layers, each a sum of at most 256 terms, whose errors add up like a random walk.
    limit = 6 * 256**0.5 * torch.finfo(dtype).eps
    if name == "excitation-backprop":  # with sums back through the layers that are kept in it
        limit *= 2
    assert (maps.float() - expected).abs().max() <= limit * expected.abs().max()


@EVERY
def test_what_does_not_fit_in_memory_passes_in_smaller_batches_or_is_refused(name):
    class Short(Around):
        def forward(self, inputs):
            if len(inputs) > self.most:
                raise RuntimeError("out of memory")
            return super().forward(inputs)

    model = Short(network(name)).eval()
    model.most = 2 if name.startswith("deep-") else 1  # an image goes with its baseline
    # Where tokens lie is seen on several images at once; a copy in float64 has to take all.
    if name not in OF_TRANSFORMERS and "exact" not in name:
        assert_same(explained(name, model), reference(name))
    model.most = 0
    with pytest.raises(
        AttributionLabError, match=r"not fit in memory even one image|\(out of memory\)"
    ):
        explained(name, model)
    assert not any(module._forward_hooks for module in model.modules())


SIZES = {
    name: setting
    for name, method in METHODS.items()
    for setting in ("internal_batch_size", "perturbations_per_eval")
    if setting in inspect.signature(method).parameters
}
"""The setting that says how many images pass at once, of each method that has one."""


@pytest.mark.parametrize("name", [pytest.param(each, marks=marks_of(each)) for each in SIZES])
def test_no_more_images_pass_at_once_than_are_asked_for(name):
    seen, model = [], Around(network(name)).eval()
    model.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    for size in (1, 3, 1000):
        assert_same(explained(name, model, **{SIZES[name]: size}), reference(name))
        assert 0 < max(seen) <= max(size, len(IMAGES))  # the images as they are go together
        seen.clear()


@EVERY
def test_autocast_within_a_network_is_followed_or_refused(name):
    class Casting(Around):
        def forward(self, inputs):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return super().forward(inputs)

    model = Casting(network(name)).eval()
    if name in ("chefer-lrp", "excitation-backprop"):  # have a rule of their own for each operation
        with pytest.raises(AttributionLabError, match=r"mixes two types .* no autocast"):
            explained(name, model)
        return
    assert explained(name, model).isfinite().all()


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@EVERY
def test_networks_in_a_wrapper_are_the_networks_within(name):
    expected = reference(name, whole=True)
    compiled = network(name)
    compiled.compile(backend="eager")
    call = compiled._compiled_call_impl
    for model in (torch.compile(network(name), backend="eager"), compiled):
        assert torch.equal(explained(name, model, layer="0"), expected)
    assert compiled._compiled_call_impl is call
    within = Around(torch.compile(network(name), backend="eager")).eval()
    forward = within.inner.forward
    for layer in ("inner.0", "inner._orig_mod.0"):
        assert torch.equal(explained(name, within, layer=layer), reference(name))
    assert within.inner.forward is forward
    for layer in ("0", "module.0"):
        parallel = nn.DataParallel(network(name))
        assert torch.equal(explained(name, parallel, layer=layer), expected)


def test_hooks_on_a_wrapper_are_part_of_the_network():
    for wrapped in (nn.DataParallel, functools.partial(torch.compile, backend="eager")):
        model = wrapped(network("saliency"))
        model.register_forward_hook(lambda _module, _inputs, outputs: 2 * outputs)
        assert torch.equal(
            methods.saliency(model, IMAGES, TARGETS), 2 * reference("saliency", True)
        )


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_functions_of_a_network_in_training_mode_are_refused():
    training = nn.Sequential(network("saliency"), nn.Dropout())
    for function in (training.forward, torch.jit.script(training)):
        with pytest.raises(AttributionLabError, match=r"in training mode \(Dropout '1'\)"):
            methods.saliency(function, IMAGES, TARGETS)
    evaluated = torch.jit.script(training.eval())
    assert_same(methods.saliency(evaluated, IMAGES, TARGETS), reference("saliency", True))


@EVERY
def test_functions_are_networks_where_no_modules_are_needed(name):
    model, expected = network(name), reference(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its end, and of lengths that it keeps
        traced = torch.jit.trace(model, IMAGES, check_trace=False)
    partly = functools.partial(lambda network, inputs: network(inputs), model)
    for function in (lambda inputs: model(inputs), partly, model.forward, traced):
        if reason(MODULES, name):
            with pytest.raises(
                AttributionLabError, match=r"its modules are needed: pass the nn\.Mod"
            ):
                explained(name, function)
        elif "exact" in name:  # copies the network in float64
            with pytest.raises(AttributionLabError, match="Function fails on float64 images"):
                explained(name, function)
        else:
            assert_same(explained(name, function), expected)
    with pytest.raises(AttributionLabError, match=r"the model is of type type: pass an nn"):
        explained(name, nn.Linear)


@EVERY
@pytest.mark.parametrize("shape", [(3, 64), (3, 2, 4, SIDE)])
def test_series_and_volumes_have_the_maps_of_the_same_values_as_an_image(name, shape):
    inputs = IMAGES.reshape(2, *shape)
    model = Around(network(name), before=lambda inputs: inputs.reshape(-1, 3, SIDE, SIDE)).eval()
    if reason(PLACES, name):
        with pytest.raises(AttributionLabError, match=r"rows and columns .* \(B, C, H, W\)"):
            explained(name, model, inputs)
        return
    maps, expected = explained(name, model, inputs), reference(name)
    assert maps.shape == (2, expected.shape[1], *shape[1:])
    assert_same(maps.reshape(expected.shape), expected)


@EVERY
def test_features_have_the_maps_of_the_pixels_of_one_channel(name):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, OUTPUTS)
    rows = torch.rand(2, 6, generator=torch.Generator().manual_seed(1))
    model = nn.Sequential(*layers).eval()
    if reason(PLACES, name):
        with pytest.raises(AttributionLabError, match=r"inputs have shape \(2, 6\), and it looks"):
            explained(name, model, rows)
        return
    maps = explained(name, model, rows)
    of_image = Around(nn.Sequential(nn.Flatten(), *layers)).eval()
    expected = explained(name, of_image, rows.reshape(2, 1, 2, 3))
    assert maps.shape == (2, 6)
    assert_same(maps, expected.flatten(1))


@EVERY
def test_how_images_lie_in_memory_does_not_matter(name):
    model, expected = Around(network(name)).eval(), reference(name)
    for images in (IMAGES.contiguous(memory_format=torch.channels_last), IMAGES.mT.contiguous().mT):
        assert_same(explained(name, model, images), expected)
    shared = IMAGES[:1].expand(2, -1, -1, -1)
    assert_same(explained(name, model, shared), explained(name, model, shared.contiguous()))


def test_segments_of_series_are_removed_together():
    model = nn.Sequential(nn.Flatten(), nn.Linear(8, 1, bias=False))
    model[1].weight.data = torch.tensor([[1.0, 2, 4, 8, 16, 32, 64, 128]])
    series, segments = torch.ones(1, 2, 4), torch.tensor([0, 0, 1, 1])
    given = {"highest": 1.0, "segmentation": segments}
    maps = methods.feature_ablation(model, series, 0, **given)
    assert maps.tolist() == [[[25.5, 25.5, 102.0, 102.0]]]
    each = methods.feature_ablation(model, series, 0, **given | {"segmentation": segments[None]})
    assert torch.equal(each, maps)
    for wrong in ("grid", torch.zeros(3).long()):
        with pytest.raises(
            AttributionLabError, match=r"pass 'pixels', .* integers of shape \(4,\)"
        ):
            methods.feature_ablation(model, series, 0, **given | {"segmentation": wrong})
    with pytest.raises(AttributionLabError, match="segmentation is 'quickshift', but the inputs"):
        methods.lime(model, series, 0, highest=1.0, generator=torch.Generator())
    with pytest.raises(AttributionLabError, match=r"baselines have shape \(3,\)|2 numbers"):
        methods.feature_ablation(model, series, 0, highest=1.0, baselines=(1, 2, 3))


def test_a_call_of_another_thread_keeps_the_outputs_of_its_own_question():
    """While a score is explained here, the network itself is asked there, and another call waits."""
    model, found = Around(network("saliency")).eval(), []
    expected, rows = methods.saliency(model, IMAGES, 2), model(IMAGES)
    call = threading.Thread(target=lambda: found.append(methods.saliency(model, IMAGES, 2)))

    def score(rows):
        if not found:
            found.append(None)
            call.start()
            other = threading.Thread(target=lambda: found.append(model(IMAGES)))
            other.start()
            other.join()
        return rows[:, 0]

    methods.saliency(model, IMAGES, score)
    call.join()
    assert torch.equal(found[1], rows)
    assert torch.equal(found[2], expected)


@EVERY
def test_progress_is_shown_on_request_only(name, capsys):
    explained(name, Around(network(name)).eval(), show_progress=False)
    assert capsys.readouterr() == ("", "")
    assert torch.equal(
        explained(name, Around(network(name)).eval(), show_progress=True), reference(name)
    )


def test_progress_counts_the_images_that_have_passed(monkeypatch):
    from attributionlab.base import progress

    tasks = []

    class Noting(progress.Task):
        def __init__(self, *given):
            super().__init__(*given)
            tasks.append(self)

    monkeypatch.setattr(progress, "Task", Noting)
    methods.occlusion(nn.Flatten(), IMAGES[:1], 0, window=4, stride=4, show_progress=True)
    # One to see how many fit, one as it is, four with a window hidden; at a network's first call two
    # alone and together, which shows whether images change each other.
    assert [(each.what, each.done, each.unit) for each in tasks] == [("occlusion", 10, "images")]
    assert tasks[0].text(1.0, 0.0) == "occlusion: 10 images, 1 s"


def test_a_chain_of_modules_that_are_called_one_by_one_answers_as_a_whole():
    """IBA calls only what lies behind its layer."""
    last = Around(nn.Identity(), lambda outputs: (outputs, None))
    expected, maps = (
        reference("iba", True),
        explained("iba", nn.Sequential(*network("iba"), last), layer="0"),
    )
    assert_same(maps, expected)
