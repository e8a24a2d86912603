"""The panel of Table 2, on models whose maps follow by hand."""

import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.methods import METHODS
from attributionlab.papers.idsds import maps as module

TARGETS = torch.tensor([0, 1])


@pytest.fixture(scope="module")
def images():
    return torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def linear():
    """Logits are weighted sums, with weights of either sign."""
    layer = nn.Linear(192, 2, bias=False)
    drawn = torch.randn(2, 192, generator=torch.Generator().manual_seed(1))
    layer.weight = nn.Parameter(drawn, requires_grad=False)
    return nn.Sequential(nn.Flatten(), layer).eval()


@pytest.fixture(scope="module")
def convolutional():
    generator = torch.Generator().manual_seed(2)
    layers = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 2)
    )
    for each in layers.parameters():
        each.data = torch.randn(each.shape, generator=generator) / 4
    return layers.eval()


def weights_of(linear):
    return linear[1].weight[TARGETS].view(2, 3, 8, 8)


class Attending(nn.Module):
    """Patches of 2 x 2 pixels, two heads of attention, and the mean of all tokens."""

    def __init__(self):
        super().__init__()
        self.embedding, self.inputs = nn.Conv2d(3, 4, 2, 2), nn.Linear(4, 12)
        self.maps, self.head = nn.Unflatten(2, (4, 4)), nn.Linear(4, 2)

    def forward(self, images):
        tokens = self.embedding(images).flatten(2).transpose(1, 2)
        query, key, value = self.inputs(tokens).unflatten(2, (3, 2, 2)).permute(2, 0, 3, 1, 4)
        mixed = (query @ key.transpose(2, 3)).softmax(-1) @ value
        tokens = tokens + mixed.transpose(1, 2).flatten(2)
        return self.head(self.maps(tokens.transpose(1, 2)).mean((2, 3)))


@pytest.fixture(scope="module")
def attending():
    torch.manual_seed(0)
    return Attending().eval()


def test_the_panel_has_all_rows_of_the_paper_and_a_control():
    assert len(module.PANEL) == len(set(module.PANEL)) == 5 + 5 + 4 + 5 + 2 + 1
    assert module.PANEL[-1] == module.CONTROL
    assert {
        name.removesuffix(module.ABSOLUTE)
        for name in module.PANEL
        if name.endswith(module.ABSOLUTE)
    } < set(module.PANEL)


def test_maps_come_in_the_order_and_form_asked_for(attending, images):
    asked = tuple(reversed(module.PANEL))
    maps = module.panel_maps(
        attending, images, TARGETS, asked, layer=attending.maps, seed=0, quick=True
    )
    assert tuple(maps) == asked
    assert {(each.shape, each.dtype) for each in maps.values()} == {
        (torch.Size([2, 1, 8, 8]), torch.float64)
    }
    assert all(each.isfinite().all() for each in maps.values())


def test_channels_are_summed_before_the_absolute_value_is_taken(linear, images):
    names = ("input-x-gradient", "input-x-gradient-absolute", "saliency")
    signed, absolute, saliency = module.panel_maps(
        linear, images, TARGETS, names, layer=None, seed=0, quick=True
    ).values()
    products = (images * weights_of(linear)).double()
    assert torch.equal(signed, products.sum(1, keepdim=True))
    assert torch.equal(absolute, products.sum(1, keepdim=True).abs())
    assert torch.equal(saliency, weights_of(linear).double().sum(1, keepdim=True).abs())
    assert not torch.equal(absolute, products.abs().sum(1, keepdim=True))


def test_paths_start_at_the_baseline_and_at_random_images(linear, images):
    names = ("integrated-gradients", "integrated-gradients-uniform")
    plain, uniform = module.panel_maps(
        linear, images, TARGETS, names, layer=None, highest=2.0, baselines=0.5, seed=3, quick=True
    ).values()
    expected = ((images - 0.5) * weights_of(linear)).double().sum(1, keepdim=True)
    # Three products and sums in float32, of values up to 4: 2^-20 is 4 units of it.
    assert torch.allclose(plain, expected, rtol=0, atol=2**-20)
    # Two for each image.
    drawn = torch.rand((2, 2, 3, 8, 8), generator=torch.Generator().manual_seed(3)) * 2
    starts = drawn.mean(1)  # the map is linear in the start, so that its mean has the mean start
    expected = ((images - starts) * weights_of(linear)).double().sum(1, keepdim=True)
    assert torch.allclose(uniform, expected, rtol=0, atol=2**-19)


def test_both_ensembles_of_integrated_gradients_share_their_samples(convolutional, images):
    both = ("integrated-gradients-smoothgrad", "integrated-gradients-smoothgrad-squared")
    mean, squares = module.panel_maps(
        convolutional, images, TARGETS, both, layer=None, highest=2.0, seed=0, quick=True
    ).values()
    generator = torch.Generator().manual_seed(0)
    with al.methods.collect_notices():
        expected = al.methods.METHODS["integrated-gradients-smoothgrad"](
            convolutional, images, TARGETS, highest=2.0, generator=generator, n_samples=4, n_steps=8
        )
    # Sums of channels in float64 against float32.
    assert torch.allclose(mean, expected.double().sum(1, keepdim=True), rtol=0, atol=2**-20)
    assert (squares >= 0).all()


def test_a_row_does_not_depend_on_which_others_are_asked_for(convolutional, images):
    together = module.panel_maps(convolutional, images, TARGETS, layer=None, seed=5, quick=True)
    for name, maps in together.items():
        [alone] = module.panel_maps(
            convolutional, images, TARGETS, (name,), layer=None, seed=5, quick=True
        ).values()
        assert torch.equal(alone, maps), name


def test_only_random_rows_depend_on_the_seed(convolutional, images):
    layer = convolutional[1]
    first, second = (
        module.panel_maps(convolutional, images, TARGETS, layer=layer, seed=seed, quick=True)
        for seed in (0, 1)
    )
    random = {name for name in first if not torch.equal(first[name], second[name])}
    assert random == {
        name
        for name in module.PANEL
        if any(part in name for part in ("smoothgrad", "uniform", "rise", module.CONTROL))
    }  # Smooth Grad-CAM++ draws too, but here its gradients are the same everywhere


def test_rows_that_need_a_layer_are_left_out_without_one(convolutional, images):
    maps = module.panel_maps(convolutional, images, TARGETS, layer=None, seed=0, quick=True)
    assert set(module.PANEL) - set(maps) == {*module.ATTACHED, *module.ATTENDED}


def test_rows_of_attention_are_those_of_the_methods_and_left_out_elsewhere(
    attending, convolutional, images
):
    asked = (images, TARGETS, ("saliency", *module.ATTENDED))
    maps = module.panel_maps(attending, *asked, layer=None, seed=0, quick=True)
    for name in module.ATTENDED:
        assert torch.equal(maps[name], METHODS[name](attending, images, TARGETS).double())
    assert set(module.panel_maps(convolutional, *asked, layer=None, seed=0, quick=True)) == {
        "saliency"
    }


class Odd(nn.Module):
    """An operation for which relevance has no rule."""

    def forward(self, values):
        return values.exp() if len(values) > 1 else values


def test_rows_of_attention_are_left_out_one_by_one_where_they_refuse_the_batch(attending, images):
    network = nn.Sequential(attending, Odd()).eval()
    asked = ("chefer-lrp", "saliency", "attention-rollout")
    maps = module.panel_maps(network, images, TARGETS, asked, layer=None, seed=0, quick=True)
    assert list(maps) == ["saliency", "attention-rollout"]
    [told] = module.refused_rows(network, images, TARGETS)
    assert told.startswith("chefer-lrp is left out: has no rule for 'exp': take")
    assert not module.refused_rows(attending, images, TARGETS)


def test_why_a_network_has_no_rows_of_attention_is_told(convolutional, images):
    said = module.refused_rows(convolutional, images, TARGETS)
    assert [each.split(" is left out: ")[0] for each in said] == list(module.ATTENDED)
    assert all("needs a network with attention" in each for each in said)


def test_masks_of_rise_show_the_baseline_and_noise(linear, images):
    names = ("rise", "rise-uniform")
    settings = {"layer": None, "highest": 2.0, "baselines": 0.5, "seed": 4, "quick": True}
    plain, uniform = module.panel_maps(linear, images, TARGETS, names, **settings).values()
    given = {"generator": torch.Generator().manual_seed(4), "n_samples": 200}
    with al.methods.collect_notices():
        expected = METHODS["rise"](linear, images, TARGETS, baselines=0.5, **given)
        given["generator"].manual_seed(4)
        noisy = METHODS["rise-uniform"](linear, images, TARGETS, highest=2.0, **given)
    assert torch.equal(plain, expected.double())
    assert torch.equal(uniform, noisy.double())


@pytest.mark.parametrize("name", module.ATTACHED)
def test_rows_of_a_layer_are_those_of_the_methods(convolutional, images, name):
    [maps] = module.panel_maps(
        *(convolutional, images, TARGETS, (name,)), layer="1", highest=2.0, seed=4, quick=True
    ).values()
    drawn = {"highest": 2.0, "generator": torch.Generator().manual_seed(4), "n_samples": 4}
    settings = drawn if name.startswith("smooth") else {}
    with al.methods.collect_notices():
        expected = METHODS[name](convolutional, images, TARGETS, layer="1", **settings)
    assert torch.equal(maps, expected.double())


def test_the_global_generator_is_left_as_it_was(convolutional, images):
    before = torch.get_rng_state()
    module.panel_maps(convolutional, images, TARGETS, layer=None, seed=0, quick=True)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_name_that_is_not_in_the_panel_is_refused_with_the_nearest_one(linear, images):
    with pytest.raises(al.AttributionLabError, match=r"'salency' is not in the panel.*saliency"):
        module.panel_maps(linear, images, TARGETS, ("salency",), layer=None, seed=0, quick=True)
