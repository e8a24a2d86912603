"""Grad-CAM++, XGrad-CAM, LayerCAM and Smooth Grad-CAM++ agree with formulas written with loops."""

import pytest
import torch
from torch import nn

import attributionlab as al
import oracles_cams as twins
from attributionlab.errors import AttributionLabError, GuardWarning
from attributionlab.methods import collect_notices, linear_approximation
from attributionlab.methods.cam_variants import (
    gradcam_plus_plus,
    layercam,
    smooth_gradcam_plus_plus,
    xgradcam,
)
from oracles_methods import enlarge

VARIANTS = {
    gradcam_plus_plus: lambda maps, gradient, relu: twins.gradcam_plus_plus(maps, [gradient], relu),
    xgradcam: twins.xgradcam,
    layercam: twins.layercam,
}


@pytest.fixture(scope="module")
def env():
    return al.load("multi-color-sum", image_size=24)


def chain(seed=0):
    """Maps of 7 x 7 cells, of both signs at "0" and positive at "1", with gradients that vary."""
    torch.manual_seed(seed)
    return nn.Sequential(
        *(nn.Conv2d(1, 3, 2), nn.Softplus(), nn.Conv2d(3, 2, 3), nn.Tanh()),
        *(nn.Flatten(), nn.Linear(50, 3)),
    ).double()


def samples_of(model, layer, images, target):
    """What a layer returns for images, and the gradients there."""
    seen = []
    handle = layer.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    output = model(images)[:, target].sum()
    handle.remove()
    (gradients,) = torch.autograd.grad(output, seen)
    return seen[0], gradients


def close(got, wanted, share):
    wanted = torch.as_tensor(wanted, dtype=got.dtype)
    torch.testing.assert_close(got, wanted, rtol=0, atol=share * float(wanted.abs().max()))


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("method", VARIANTS)
def test_variants_weigh_the_environments_maps_as_their_formulas_say(env, method, relu):
    images, labels = env.batch(2)
    got = method(env.softmax_model, images, labels, layers=env.layers, relu=relu)
    assert got.shape == (2, 1, 24, 24)
    assert not got.requires_grad
    for image, label, each in zip(images, labels, got, strict=True):
        maps, gradients = samples_of(
            env.softmax_model, env.layers["gradcam"], image[None], int(label)
        )
        coarse = VARIANTS[method](maps[0].tolist(), gradients[0].tolist(), relu)
        # Sums of some ten float32 products: 2^4 * 2^-24 of the largest value, some times over.
        close(each[0], enlarge(coarse, 24, 24), 1e-5)


@pytest.mark.parametrize("layer", ["0", "1"])
@pytest.mark.parametrize("method", VARIANTS)
def test_variants_take_any_layer_and_gradients_of_both_signs(method, layer):
    model, inputs = chain(), torch.rand(2, 1, 8, 8).double()
    with collect_notices():  # maps of both signs at "0"
        got = method(model, inputs, torch.tensor([0, 2]), layer=layer, relu=False)
    for image, target, each in zip(inputs, (0, 2), got, strict=True):
        maps, gradients = samples_of(model, model[int(layer)], image[None], target)
        assert (gradients < 0).any()
        assert (maps < 0).any() == (layer == "0")
        coarse = VARIANTS[method](maps[0].tolist(), gradients[0].tolist(), False)
        close(each[0], enlarge(coarse, 8, 8), 1e-9)  # float64 through a pole's denominator


def test_xgradcam_sums_to_what_linear_approximation_does():
    torch.manual_seed(0)
    model = nn.Sequential(  # maps as large as the image, which enlarging leaves as they are
        *(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 2, 3), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(72, 2)),
    ).double()
    given = model, torch.rand(3, 1, 8, 8).double(), torch.tensor([0, 1, 0])
    conserved = linear_approximation(*given, layer="1").sum((1, 2, 3))
    got = xgradcam(*given, layer="1", relu=False).sum((1, 2, 3))
    # Sums of some hundred float64 numbers of order 1.
    torch.testing.assert_close(got, conserved, rtol=0, atol=1e-12)


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
    assert told.text.endswith("name a layer whose maps are not negative, such as one behind a ReLU")
    # w = 0 at the pole; 4 / -2 = -2 past it, times -1; 4 / 6 before it, times 1.
    torch.testing.assert_close(got[:, 0, 0, 0], torch.tensor([0, 2, 2 / 3]), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("total", "told"), [(-1.9995, 1), (-1.001, 1), (-1.0, 0), (-0.5, 0), (0.0, 0)]
)
def test_a_denominator_that_has_lost_half_of_itself_is_told_of(total, told):
    # alpha = 1 / (2 + S g) with g = 1: above 1 from S = -1 down.
    image = torch.full((1, 1, 2, 2), total / 4)
    with collect_notices() as findings:
        gradcam_plus_plus(summing(), image, torch.zeros(1, dtype=int), layer="0")
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
        smooth(*given, layer="relu", noise=0.15, n_samples=200)
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
        maps, _ = samples_of(model, module, image[None], target)
        _, gradients = samples_of(model, module, image + 0.4 * 2 * draws, target)
        assert (gradients != gradients[0]).any()
        coarse = twins.gradcam_plus_plus(maps[0].tolist(), gradients.tolist(), False)
        close(each[0], enlarge(coarse, 8, 8), 1e-9)  # float64 through a pole's denominator


def test_an_images_smooth_map_does_not_depend_on_those_after_it():
    model, inputs = chain(), torch.rand(2, 1, 8, 8).double()
    both = smooth(model, inputs, torch.tensor([1, 2]), layer="1", n_samples=3)
    alone = smooth(model, inputs[:1], torch.tensor([1]), layer="1", n_samples=3)
    assert torch.equal(both[:1], alone)


def test_equal_gradients_of_all_samples_are_told_of():
    model, inputs, targets = chain(), torch.rand(2, 1, 8, 8).double(), torch.tensor([1, 2])
    with pytest.warns(GuardWarning, match=r"2 images are made from equal gradients .* \(noise 0, "):
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
        with pytest.raises(AttributionLabError, match="relu is 'no': take True or False"):
            method(*given, layer="0", relu="no")


def test_bad_settings_of_the_noise_are_refused_at_once():
    given = chain(), torch.rand(1, 1, 8, 8).double(), torch.tensor([1])
    with pytest.raises(AttributionLabError) as caught:
        smooth_gradcam_plus_plus(
            *given, highest=0.0, generator=7, layer="1", n_samples=0, noise=float("nan")
        )
    for part in ("highest is 0.0", "n_samples is 0", "noise is nan", "generator is of type int"):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_samples_than_fit_in_memory_are_refused():
    given = chain(), torch.rand(1, 1, 8, 8).double(), torch.tensor([1])
    message = r"^smooth-gradcam-plus-plus: n_samples is 10{15}: .* fit in memory: .*; take fewer$"
    with pytest.raises(AttributionLabError, match=message):
        smooth(*given, layer="1", n_samples=10**15)


def test_integer_images_are_refused(without_shape_checks):
    given = chain(), torch.ones(1, 1, 8, 8, dtype=torch.int64), torch.tensor([1])
    with pytest.raises(AttributionLabError, match=r"torch\.int64 of shape .*: pass floating-point"):
        smooth(*given, layer="1")


@pytest.mark.parametrize("method", [*VARIANTS, smooth_gradcam_plus_plus])
def test_they_declare_the_positive_truth_and_the_layers_grain(method):
    assert (method.claim, method.resolution) == ("positive", "gradcam")
