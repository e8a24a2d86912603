"""What every built-in method takes, refuses before it begins, and explains."""

import inspect

import numpy as np
import pytest
import torch
from torch import nn

from attributionlab import AttributionLabError, methods
from attributionlab.methods import METHODS, as_baselines, declares
from attributionlab.methods.baselines import from_true_baseline
from attributionlab.methods.declaration import checked
from attributionlab.methods.outputs import same_outputs, target_outputs

IMAGES, TARGETS = torch.rand(2, 1, 4, 4), torch.tensor([0, 1])


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).eval()


@checked
def some_method(model, inputs, targets, *, factor=1.0):
    """A method."""
    return factor * inputs


def test_finite_inputs_may_have_a_sum_beyond_their_type():
    images = torch.full((2, 1, 4, 4), 3e38)
    assert torch.equal(some_method(network(), images, TARGETS), images)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model": "network"},
            "some-method: the model is of type str: pass an nn.Module, or a function",
        ),
        ({"inputs": IMAGES[:0]}, "inputs are torch.float32 of shape .*B at least 1"),
        ({"inputs": IMAGES.tolist()}, "inputs are of type list: pass a tensor"),
        ({"inputs": IMAGES.byte()}, "inputs are torch.uint8 .*: pass floating-point images"),
        (
            {"inputs": IMAGES.to(torch.float8_e5m2)},
            "inputs are torch.float8_e5m2 .*: pass floating",
        ),
        ({"inputs": IMAGES.to_sparse()}, "inputs are torch.sparse_coo: pass a dense tensor"),
        ({"inputs": IMAGES.to("meta")}, "inputs are on meta: pass a dense tensor"),
        ({"inputs": IMAGES / 0}, "inputs hold NaN or infinity"),
        ({"inputs": (IMAGES - 0.5) / 0}, "inputs hold NaN or infinity"),
        (
            {"targets": TARGETS[:1]},
            "targets are .*: pass a tensor of one integer for each of the 2",
        ),
        ({"targets": TARGETS.float()}, "targets are torch.float32"),
        ({"targets": [0, 0.5]}, r"targets are \[0, 0.5\]: pass an integer .* each of the 2, 'pred"),
        ({"targets": True}, "targets are of type bool: pass an integer"),
        ({"targets": "best"}, "targets are 'best': pass an integer"),
        ({"targets": TARGETS - 1}, "the smallest target is -1: pass indices"),
        (
            {"model": nn.Sequential(network(), nn.Dropout())},
            r"in training mode \(Dropout '1'\): call model.eval\(\)",
        ),
        (
            {"model": nn.Sequential(nn.BatchNorm2d(1), network())},
            r"in training mode \(BatchNorm2d '0'\)",
        ),
    ],
)
def test_what_cannot_be_explained_is_refused(changes, message, without_shape_checks):
    given = {"model": network(), "inputs": IMAGES, "targets": TARGETS} | changes
    with pytest.raises(AttributionLabError, match=message) as caught:
        some_method(*given.values())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "module",
    [
        nn.Dropout2d(0.1),
        nn.BatchNorm2d(1),
        nn.InstanceNorm2d(1, track_running_stats=True),
        nn.RReLU(),
        nn.MultiheadAttention(4, 1, dropout=0.5),
        nn.LSTM(4, 4, 2, dropout=0.5),
    ],
)
def test_modules_that_are_others_in_training_are_refused_there(module):
    model = network()
    model.held = module.train()
    model.forward = lambda inputs: inputs  # what runs does not matter
    with pytest.raises(AttributionLabError, match=r"in training mode \(\w+ 'held'\)"):
        some_method(model, IMAGES, TARGETS)
    assert torch.equal(some_method(model.eval(), IMAGES, TARGETS), IMAGES)


@pytest.mark.parametrize(
    "module", [nn.Dropout(0.0), nn.InstanceNorm2d(1), nn.MultiheadAttention(4, 1), nn.ReLU()]
)
def test_training_mode_alone_is_no_reason(module):
    model = nn.Sequential(network())
    model.held = module.train()
    assert torch.equal(some_method(model, IMAGES, TARGETS), IMAGES)


def test_weights_of_another_type_are_named_where_the_model_does_not_cast():
    class Casting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network().double()

        def forward(self, inputs):
            return self.inner(inputs.double()).float()

    assert methods.saliency(Casting(), IMAGES, TARGETS).dtype == torch.float32
    message = "saliency: inputs are torch.float64 on cpu, the model's weights torch.float32 on cpu"
    with pytest.raises(AttributionLabError, match=message):
        methods.saliency(network(), IMAGES.double(), TARGETS)


@pytest.mark.parametrize(
    ("weights", "text"),
    [(torch.float32, "this type of image is not known"), (torch.float64, "no such image")],
)
def test_an_error_of_the_models_own_stays_what_it_is(weights, text):
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(1, 1, dtype=weights)

        def forward(self, inputs):
            raise RuntimeError(text)

    with pytest.raises(RuntimeError, match=text):
        methods.saliency(Broken(), IMAGES, TARGETS)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is (deprecated|not supported)")
def test_where_modules_are_needed_scripted_models_are_refused_and_always_those_of_inference_mode():
    scripted = torch.jit.script(network())
    expected = methods.saliency(network(), IMAGES, TARGETS)
    assert torch.equal(methods.saliency(scripted, IMAGES, TARGETS), expected)
    with pytest.raises(AttributionLabError, match=r"its modules are needed: pass the nn\.Module"):
        methods.lrp(scripted, IMAGES, TARGETS)
    with torch.inference_mode():
        made = network()
    with pytest.raises(AttributionLabError, match=r"made in torch\.inference_mode"):
        methods.saliency(made, IMAGES, TARGETS)


def test_settings_signature_and_docstring_are_the_methods_own():
    assert torch.equal(some_method(network(), IMAGES, TARGETS, factor=2.0), 2 * IMAGES)
    assert some_method.__doc__ == "A method."
    assert methods.gradcam.claim == "positive"


def test_dropout_that_is_off_and_integers_of_any_width_are_taken():
    model = nn.Sequential(network(), nn.Dropout()).eval()
    assert torch.equal(some_method(model, IMAGES, TARGETS.int()), IMAGES)


OFFERED = {
    "baseline": torch.zeros(1, 1, 1),
    "generator": torch.Generator(),
    "highest": 1.0,
    "reference_images": IMAGES,
}


def offered(method):
    return {key: OFFERED[key] for key in OFFERED if key in inspect.signature(method).parameters}


@pytest.mark.parametrize("name", METHODS)
def test_every_built_in_method_begins_so(name, without_shape_checks):
    method = METHODS[name]
    with pytest.raises(AttributionLabError, match=r"inputs are torch\.uint8"):
        method(network(), IMAGES.byte(), TARGETS, **offered(method))


@pytest.mark.parametrize(
    "method", [methods.feature_ablation, methods.gradient_shap, methods.deconvolution]
)
def test_a_class_that_there_is_not_is_refused(method):
    with pytest.raises(
        AttributionLabError, match="targets go up to 3, but the model has 3 outputs"
    ):
        method(network(), IMAGES, TARGETS + 2, **offered(method))


def test_outputs_that_are_no_rows_are_refused(without_shape_checks):
    class Named(nn.Module):
        def forward(self, inputs):
            return {"first": inputs.flatten(1), "second": inputs.flatten(1)}

    with pytest.raises(AttributionLabError, match="the model's output is a dict of 'first', 'sec"):
        methods.gradient_shap(Named(), IMAGES, TARGETS, **offered(methods.gradient_shap))


def test_each_image_has_a_target_of_its_own():
    outputs = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert target_outputs(outputs, torch.tensor([2, 0])).tolist() == [3.0, 4.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1.0, -3.0, 1e-20, 1e20])
def test_outputs_are_the_same_up_to_four_units_in_the_last_place(dtype, size):
    eps = torch.finfo(dtype).eps
    first = torch.full((3,), size, dtype=dtype)
    second = first * (1 + eps * torch.tensor([0, 3, 8], dtype=dtype))
    assert same_outputs(first, second).tolist() == [True, True, False]
    assert same_outputs(second, first).tolist() == [True, True, False]


def test_zero_is_the_same_as_zero_only():
    assert same_outputs(torch.zeros(2), torch.tensor([0.0, 1e-38])).tolist() == [True, False]


INPUTS = torch.zeros(2, 3, 4, 5)
PIXEL = torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "baselines",
    [
        (1, 2, 3),
        [1.0, 2.0, 3.0],
        PIXEL,
        PIXEL.numpy(),
        PIXEL[:, None, None],
        PIXEL[:, None, None].expand(3, 4, 5),
        PIXEL[:, None, None].expand(2, 3, 4, 5),
        PIXEL.double(),
    ],
)
def test_every_form_of_a_pixel_is_the_same_image(baselines):
    images = as_baselines(baselines, INPUTS)
    assert images.dtype == torch.float32
    assert torch.equal(images, PIXEL[:, None, None].expand(2, 3, 4, 5))


@pytest.mark.parametrize("number", [7, 7.0, np.float64(7), torch.tensor(7)])
def test_a_number_holds_for_all_channels(number):
    assert torch.equal(as_baselines(number, INPUTS), torch.full((2, 3, 4, 5), 7.0))


def test_a_variant_from_the_true_baseline_asks_for_it_and_keeps_the_other_settings():
    @declares(claim="positive", output="logit")
    def method(model, inputs, targets, *, baselines=0.0, steps=5):
        """A method."""
        return as_baselines(baselines, inputs) * steps

    variant = from_true_baseline(method, "From the background.")
    assert list(inspect.signature(variant).parameters) == [
        *("model", "inputs", "targets", "baseline", "steps")
    ]
    assert variant.__name__ == "method_true_baseline"
    assert variant.__doc__.partition("\n\n")[0] == "From the background."
    assert "baseline : Tensor, (C, 1, 1)" in variant.__doc__
    assert (variant.claim, variant.output) == ("positive", "logit")
    got = variant(None, INPUTS, None, baseline=PIXEL[:, None, None], steps=2)
    assert torch.equal(got, method(None, INPUTS, None, baselines=PIXEL, steps=2))


def test_a_variant_from_the_true_baseline_refuses_another_one():
    def method(model, inputs, targets, *, baselines=0.0, **others):
        raise AssertionError

    variant = from_true_baseline(method, "From the background.")
    with pytest.raises(
        AttributionLabError, match=r"method_true_baseline: baselines is 0: .* or take method"
    ):
        variant(None, INPUTS, None, baseline=PIXEL, baselines=0)


def test_numbers_keep_the_digits_of_the_images():
    images = as_baselines((0.2, -0.1, 1e-17), INPUTS.double())
    assert images[0, :, 0, 0].tolist() == [0.2, -0.1, 1e-17]


def test_a_background_that_a_call_lacks_is_named():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 2)).eval()
    with pytest.raises(AttributionLabError) as refused:
        METHODS["occlusion-true-baseline"](model, torch.rand(1, 3, 2, 2), torch.tensor([0]))
    says = "occlusion_true_baseline: no value for 'baseline': pass baseline=, the pixel (C, 1, 1)"
    assert str(refused.value).startswith(says)
