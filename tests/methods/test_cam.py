"""Class activation maps agree with their formulas, written with loops."""

import warnings

import pytest
import torch
from torch import nn

import oracles_cams
import oracles_methods as twins
from attributionlab.base import AttributionLabError, GuardWarning
from attributionlab.methods import (
    METHODS,
    collect_notices,
    gradcam,
    gradcam_plus_plus,
    guided_backprop,
    guided_gradcam,
    hirescam,
    layercam,
    linear_approximation,
    smooth_gradcam_plus_plus,
    xgradcam,
)
from attributionlab.methods.cam import layer_maps
from cases import loaded
from oracles_cams import tapped
from oracles_methods import enlarge
from random_chains import softplus_chain as chain

env = loaded("multi-color-sum", image_size=24)


VARIANTS = {
    gradcam_plus_plus: lambda maps, gradient, relu: oracles_cams.gradcam_plus_plus(
        maps, [gradient], relu
    ),
    xgradcam: oracles_cams.xgradcam,
    layercam: oracles_cams.layercam,
    hirescam: oracles_cams.hirescam,
}
FORMULAS = VARIANTS | {
    gradcam: twins.gradcam,
    linear_approximation: lambda maps, gradient, relu: twins.linear_approximation(maps, gradient),
}


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("layer", [None, "accumulator.1"])
@pytest.mark.parametrize("method", FORMULAS)
def test_a_layers_maps_are_weighed_as_the_formulas_say(env, method, layer, relu):
    images, labels = env.batch(2)
    settings = {} if method is linear_approximation else {"relu": relu}
    with collect_notices():
        got = method(env.softmax_model, images, labels, layers=env.layers, layer=layer, **settings)
    module = env.layers["gradcam"] if layer is None else env.model.get_submodule(layer)
    assert got.shape == (2, 1, 24, 24)
    assert not got.requires_grad
    for image, label, each in zip(images, labels, got, strict=True):
        maps, gradients = tapped(env.softmax_model, module, image[None], int(label))
        coarse = FORMULAS[method](maps[0].tolist(), gradients[0].tolist(), relu)
        # Sums of at most 64 float32 products: 64 * 2^-24 of the largest value < 1e-5.
        close(each[0], enlarge(coarse, 24, 24), 1e-5)


def against():
    """One map of 2 x 2 cells, which lowers the first output, raises the second and leaves the third."""
    last = nn.Linear(4, 3, bias=False)
    last.weight.data = torch.tensor([[-1.0] * 4, [1.0] * 4, [0.0] * 4])
    return nn.Sequential(nn.ReLU(), nn.Flatten(), last)


CUT_OFF = r"attributions of 1 image are zero because .* nowhere positive.*: relu=False shows it"


@pytest.mark.parametrize(
    "method", [gradcam, guided_gradcam, xgradcam, METHODS["smooth-gradcam-plus-plus"]]
)
def test_a_map_of_which_nothing_is_left_is_told(method):
    images, targets = torch.ones(3, 1, 2, 2), torch.tensor([0, 1, 2])
    settings = {"layer": "0"}
    if method is METHODS["smooth-gradcam-plus-plus"]:
        # Grad-CAM++ has no weight for negative gradients: a map that is negative is one.
        settings |= {"highest": 1.0, "generator": torch.Generator(), "n_samples": 2, "noise": 0}
        images, targets = torch.tensor([-0.25, 1.0])[:, None, None, None].expand(2, 1, 2, 2), [1, 1]
        model, targets = nn.Sequential(nn.Identity(), *against()[1:]), torch.tensor(targets)
    else:
        model = against()
    with collect_notices() as findings:
        got = method(model, images, targets, **settings)
    [finding] = [each for each in findings if each.images and "nowhere positive" in each.text]
    assert (finding.images, finding.kind) == (1, "zeros")
    assert not got[0].any()
    assert got[1].any()
    if method is gradcam:
        images, targets = images[:2], targets[:2]  # the third has no evidence at all
        with pytest.warns(GuardWarning, match=CUT_OFF):
            gradcam(model, images, targets, layer="0")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert (gradcam(model, images, targets, layer="0", relu=False)[0] < 0).all()


def test_linear_approximation_sums_to_the_output_behind_which_nothing_has_a_bias():
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 3, 1, bias=False), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(192, 2, bias=False)),
    ).double()
    inputs, targets = torch.rand(2, 1, 8, 8).double(), torch.tensor([0, 1])
    got = linear_approximation(model, inputs, targets, layer="1").sum((1, 2, 3))
    # Sums of some hundred float64 numbers of order 1.
    torch.testing.assert_close(got, model(inputs)[[0, 1], [0, 1]], rtol=0, atol=1e-12)


def small_network():
    torch.manual_seed(1)
    return nn.Sequential(
        *(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)),
    ).double()


def test_guided_gradcam_is_the_product_of_both():
    model = small_network()
    inputs, targets = torch.rand(3, 1, 8, 8).double(), torch.tensor([0, 1, 2])
    with collect_notices():  # where nothing speaks for the output
        got = guided_gradcam(model, inputs, targets, layer="4")
        coarse = gradcam(model, inputs, targets, layer="4")
    assert got.any()
    assert torch.equal(got, coarse * guided_backprop(model, inputs, targets))


def test_guided_gradcam_tells_of_rectifiers_that_are_no_relu():
    model = nn.Sequential(small_network(), nn.ReLU6())
    with collect_notices() as findings:
        guided_gradcam(model, torch.rand(1, 1, 8, 8).double(), torch.tensor([0]), layer="0.4")
    assert "gradient of 1 ReLU6" in next(each for each in findings if each.images).text


class Tailed(nn.Module):
    """A layer's maps pass on as this function has it."""

    def __init__(self, tail):
        super().__init__()
        self.layer, self.tail = nn.Conv2d(1, 2, 3), tail

    def forward(self, inputs):
        return self.tail(self.layer, inputs)


@pytest.mark.parametrize(
    "tail",
    [
        lambda layer, x: layer(x).detach().sum((2, 3)),
        lambda layer, x: (layer(x), x.sum((2, 3)) * torch.ones(2, requires_grad=True))[1],
    ],
)
def test_an_output_without_a_gradient_at_the_layer_is_refused(tail):
    with pytest.raises(AttributionLabError, match="gradcam: the output has no gradient with respe"):
        gradcam(Tailed(tail), torch.rand(1, 1, 8, 8), torch.tensor([0]), layer="layer")


def test_a_layer_beside_a_shortcut_and_one_computed_without_gradients_work():
    def beside(layer, x):
        return (layer(x) * x[:, :, 1:-1, 1:-1]).sum((2, 3))

    def frozen(layer, x):
        with torch.no_grad():
            maps = layer(x)
        return maps.square().sum((2, 3))

    inputs, targets = torch.rand(2, 1, 8, 8), torch.tensor([0, 1])
    for tail in (beside, frozen):
        model = Tailed(tail)
        maps, gradients = layer_maps(
            model, model.layer, inputs, targets, "channels-first", "layercam"
        )
        wanted = torch.zeros_like(maps)
        for k in range(2):
            wanted[k, k] = inputs[k, 0, 1:-1, 1:-1] if tail is beside else 2 * maps[k, k]
        assert torch.equal(gradients, wanted)


def close(got, wanted, share):
    wanted = torch.as_tensor(wanted, dtype=got.dtype)
    torch.testing.assert_close(got, wanted, rtol=0, atol=share * float(wanted.abs().max()))


@pytest.mark.parametrize("layer", ["0", "1"])
@pytest.mark.parametrize("method", FORMULAS)
def test_any_layer_is_taken_and_gradients_of_both_signs(method, layer):
    model, inputs = chain(), torch.rand(2, 1, 8, 8).double()
    settings = {} if method is linear_approximation else {"relu": False}
    with collect_notices():  # maps of both signs at "0"
        got = method(model, inputs, torch.tensor([0, 2]), layer=layer, **settings)
    for image, target, each in zip(inputs, (0, 2), got, strict=True):
        maps, gradients = tapped(model, model[int(layer)], image[None], target)
        assert (gradients < 0).any()
        assert (maps < 0).any() == (layer == "0")
        coarse = FORMULAS[method](maps[0].tolist(), gradients[0].tolist(), False)
        close(each[0], enlarge(coarse, 8, 8), 1e-9)  # float64 through a pole's denominator


def scaled(factor):
    """A map of 2 x 2 cells, those of the image, and a multiple of their sum as output."""
    last = nn.Linear(4, 1, bias=False)
    last.weight.data.fill_(factor)
    return nn.Sequential(nn.ReLU(), nn.Flatten(), last)


@pytest.mark.parametrize("factor", [1e-30, 1e-20, 1e-3])
def test_gradcam_plus_plus_of_small_gradients_is_half_their_sum(factor):
    # alpha = 1 / (2 + S g) with S = 4 and g = factor; squares of the first are 0 in float32.
    got = gradcam_plus_plus(
        scaled(factor), torch.ones(1, 1, 2, 2), torch.zeros(1, dtype=int), layer="0"
    )
    wanted = 4 * factor / (2 + 4 * factor)
    torch.testing.assert_close(got, torch.full((1, 1, 2, 2), wanted), rtol=1e-6, atol=0)


def test_gradcam_plus_plus_of_large_gradients_counts_cells():
    image = torch.tensor([[[[0.0, 1], [2, 1]]]])
    got = gradcam_plus_plus(scaled(1e12), image, torch.zeros(1, dtype=int), layer="0")
    # 4 cells with a positive gradient over S = 4: the size of the gradient is gone. alpha g is
    # 1e12 / (2 + 4e12), and 1/4 in float32.
    assert torch.equal(got, image)


def summing():
    """The sum of 2 x 2 cells of any sign, whose gradients are 1."""
    last = nn.Linear(4, 1, bias=False)
    last.weight.data.fill_(1.0)
    return nn.Sequential(nn.Identity(), nn.Flatten(), last)


def test_a_denominator_below_or_at_zero_is_told_of():
    model = summing()
    # S = -2, so that 2 + S g is 0; and S = -4, where it is -2; and 4, where all is well.
    images = torch.tensor([-0.5, -1.0, 1.0])[:, None, None, None].expand(3, 1, 2, 2)
    with collect_notices() as findings:
        got = gradcam_plus_plus(model, images, torch.zeros(3, dtype=int), layer="0", relu=False)
    [told] = [each for each in findings if each.images]
    assert (told.images, told.worst) == (2, 1.0)
    assert "alpha above 1 or below 0" in told.text
    assert told.text.endswith("name a layer whose maps are not negative, such as one after a ReLU")
    # w = 0 at the pole; 4 / -2 = -2 past it, times -1; 4 / 6 before it, times 1.
    torch.testing.assert_close(got[:, 0, 0, 0], torch.tensor([0, 2, 2 / 3]), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("total", "told"), [(-1.9995, 1), (-1.001, 1), (-1.0, 0), (-0.5, 0), (0.0, 0)]
)
def test_a_denominator_that_has_lost_half_of_itself_is_told_of(total, told):
    # alpha = 1 / (2 + S g) with g = 1: above 1 from S = -1 down.
    image = torch.full((1, 1, 2, 2), total / 4)
    with collect_notices() as findings:
        gradcam_plus_plus(summing(), image, torch.zeros(1, dtype=int), layer="0", relu=False)
    assert sum(each.images for each in findings) == told


class Turning(nn.Module):
    """t - 9 ReLU(t - 22), t the sum behind a ReLU: its gradient is 1, and -8 where t is above 22."""

    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU()

    def forward(self, images):
        total = self.relu(images).sum((2, 3))
        return total - 9 * (total - 22).relu()


def test_a_negative_mean_cube_behind_a_relu_is_told_of_as_what_it_is():
    given = Turning(), torch.full((1, 1, 4, 4), 1.25), torch.zeros(1, dtype=int)
    with collect_notices() as findings:
        smooth(*given, layer="relu", noise=0.15, n_samples=200, relu=False)
    [told] = [each for each in findings if each.images]
    assert (told.images, told.worst) == (1, 1.0)
    assert told.text.endswith("of both signs, so take less noise, or gradcam-plus-plus")
    with collect_notices() as findings:
        gradcam_plus_plus(*given, layer="relu")
    assert not any(each.images for each in findings)


def test_gradients_whose_squares_underflow_beside_the_largest_are_no_poles():
    model = scaled(1.0)
    model[2].weight.data[0, 1] = 1e-30
    with collect_notices() as findings:
        gradcam_plus_plus(model, torch.ones(1, 1, 2, 2), torch.zeros(1, dtype=int), layer="0")
    assert not any(each.images for each in findings)


def test_xgradcam_tells_of_maps_that_cancel():
    last = nn.Linear(4, 1, bias=False)
    last.weight.data = torch.tensor([[1.0, -1, 1, -1]])
    model = nn.Sequential(nn.Identity(), nn.Flatten(), last)
    canceled = torch.tensor([[[1.0, -1], [1, -1]]])  # sums to 0
    nearly = torch.tensor([[[1.0, -1], [1, -0.5]]])  # 3.5 / 0.5 = 7, of gradients of 1
    positive = torch.tensor([[[1.0, 0.5], [1, 0.5]]])
    with collect_notices() as findings:
        got = xgradcam(
            *(model, torch.stack([canceled, nearly, positive]), torch.zeros(3, dtype=int)),
            layer="0",
            relu=False,
        )
    assert [each.images for each in findings] == [2]
    assert got[:, 0, 0, 0].tolist() == [0, 7, pytest.approx(1 / 3, rel=1e-6)]


@pytest.mark.parametrize(("low", "told"), [(-0.01, 1), (-0.004, 0)])
def test_xgradcam_tells_of_weights_a_hundredth_above_every_gradient(low, told):
    last = nn.Linear(2, 1, bias=False)
    last.weight.data = torch.tensor([[1.0, -1]])
    model = nn.Sequential(nn.Identity(), nn.Flatten(), last)
    # (1 - low) / (1 + low) is 1.020 and 1.008.
    image = torch.tensor([[[[1.0, low]]]])
    with collect_notices() as findings:
        xgradcam(model, image, torch.zeros(1, dtype=int), layer="0")
    assert sum(each.images for each in findings) == told


def smooth(model, images, targets, seed=0, **settings):
    generator = torch.Generator().manual_seed(seed)
    return smooth_gradcam_plus_plus(
        model, images, targets, highest=2.0, generator=generator, **settings
    )


@pytest.mark.parametrize("layer", ["0", "1"])
def test_smooth_gradcam_plus_plus_averages_powers_of_gradients_over_the_same_draws(layer):
    model, inputs = chain(), torch.rand(2, 1, 8, 8).double()
    settings = {"n_samples": 5, "noise": 0.4, "layer": layer, "relu": False}
    with collect_notices():  # maps of both signs at "0"
        got = smooth(model, inputs, torch.tensor([1, 2]), **settings)
    generator = torch.Generator().manual_seed(0)
    for image, target, each in zip(inputs, (1, 2), got, strict=True):
        draws = torch.randn((5, 1, 8, 8), generator=generator).double()
        module = model[int(layer)]
        maps, _ = tapped(model, module, image[None], target)
        _, gradients = tapped(model, module, image + 0.4 * 2 * draws, target)
        assert (gradients != gradients[0]).any()
        coarse = oracles_cams.gradcam_plus_plus(maps[0].tolist(), gradients.tolist(), False)
        close(each[0], enlarge(coarse, 8, 8), 1e-9)  # float64 through a pole's denominator


def test_equal_gradients_of_all_samples_are_told_of():
    model, inputs, targets = chain(), torch.rand(2, 1, 8, 8).double(), torch.tensor([1, 2])
    with pytest.warns(GuardWarning, match=r"2 images .* identical gradients .* \(noise 0, "):
        got = smooth(model, inputs, targets, layer="1", noise=0.0, n_samples=3)
    torch.testing.assert_close(got, gradcam_plus_plus(model, inputs, targets, layer="1"))
    with collect_notices() as findings:
        smooth(model, inputs, targets, layer="1", noise=0.4)
    assert not any(each.images for each in findings)


class Bent(nn.Module):
    """The sum of x + slope x^2 / 2, whose gradient 1 + slope x hardly depends on the image."""

    def __init__(self, slope):
        super().__init__()
        self.slope, self.same = slope, nn.Identity()

    def forward(self, images):
        values = self.same(images)
        return (values + self.slope * values.square() / 2).sum((2, 3))


@pytest.mark.parametrize(("share", "told"), [(0.9, 1), (1.1, 0)])
def test_gradients_are_equal_up_to_a_share_of_the_largest(share, told):
    draws = torch.randn((3, 1, 4, 4), generator=torch.Generator().manual_seed(0))
    # noise 0.5 of the range 2: the samples' gradients are 1 + slope times the draws.
    slope = share * 2.0**-18 / float((draws - draws[0]).abs().max())
    given = Bent(slope), torch.zeros(1, 1, 4, 4).double(), torch.zeros(1, dtype=int)
    with collect_notices() as findings:
        smooth(*given, layer="same", noise=0.5, n_samples=3)
    assert sum(each.images for each in findings) == told


@pytest.mark.parametrize("method", [*VARIANTS, smooth])
def test_relu_keeps_the_positive_part(method):
    model = chain()
    given = model, torch.rand(2, 1, 8, 8).double(), torch.tensor([1, 2])
    with collect_notices():
        assert method(*given, layer="0", relu=False).min() < 0
        assert method(*given, layer="0").min() >= 0
