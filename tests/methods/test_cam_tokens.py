"""Class activation maps of a layer's tokens agree with their formulas on the grid of tokens."""

import pytest
import torch
from torch import nn

import oracles_cams
import oracles_methods as twins
from attributionlab import methods
from attributionlab.base import AttributionLabError, GuardWarning
from attributionlab.methods.layers import cells_of
from attributionlab.methods.tokens import behind
from oracles_attention import MAKES, Transformer

# Patches of 2 x 2 pixels of 4 x 6 images: 2 x 3 tokens, behind a class token but for "mean".
IMAGES = torch.rand(2, 3, 4, 6, generator=torch.Generator().manual_seed(0)).double()
TARGETS = torch.tensor([2, 0])
LAYER = "blocks.1.first"
# Of features of both signs, of networks without a ReLU.
pytestmark = pytest.mark.filterwarnings("ignore::attributionlab.GuardWarning")
# Sums and products of some hundred float64 numbers.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}

FORMULAS = {
    "gradcam": twins.gradcam,
    "gradcam-plus-plus": lambda maps, gradient, relu: oracles_cams.gradcam_plus_plus(
        maps, [gradient], relu
    ),
    "xgradcam": oracles_cams.xgradcam,
    "layercam": oracles_cams.layercam,
    "hirescam": oracles_cams.hirescam,
}


def grids_of(model, layer, image, target, prefix):
    """What a layer returns for an image and its gradient, as the grid of 2 x 3 tokens."""
    both = oracles_cams.tapped(model, model.get_submodule(layer), image[None], target)
    return [oracles_cams.as_grid(each[0].tolist(), 2, 3, prefix) for each in both]


def enlarged(coarse):
    return torch.tensor(twins.enlarge(coarse, 4, 6), dtype=torch.float64)


@pytest.mark.parametrize("relu", [True, False], ids=["relu", "signed"])
@pytest.mark.parametrize("read", ["class", "mean", "image"])
@pytest.mark.parametrize("name", FORMULAS)
def test_maps_of_tokens_are_those_of_their_grid(name, read, relu):
    model = Transformer(read=read)
    got = methods.METHODS[name](model, IMAGES, TARGETS, layer=LAYER, relu=relu)
    assert got.shape == (2, 1, 4, 6)
    assert got.any() or relu
    for image, target, each in zip(IMAGES, TARGETS, got, strict=True):
        maps, gradient = grids_of(model, LAYER, image, target, int(read != "mean"))
        torch.testing.assert_close(each[0], enlarged(FORMULAS[name](maps, gradient, relu)), **CLOSE)


@pytest.mark.parametrize("make", MAKES)
def test_products_with_gradients_and_guided_maps_are_those_of_the_grid(make):
    model = Transformer(make)
    coarse = methods.gradcam(model, IMAGES, TARGETS, layer=LAYER)
    guided = methods.METHODS["guided-gradcam"](model, IMAGES, TARGETS, layer=LAYER)
    assert torch.equal(guided, coarse * methods.guided_backprop(model, IMAGES, TARGETS))
    got = methods.linear_approximation(model, IMAGES, TARGETS, layer=LAYER)
    for image, target, each in zip(IMAGES, TARGETS, got, strict=True):
        wanted = enlarged(twins.linear_approximation(*grids_of(model, LAYER, image, target, 1)))
        torch.testing.assert_close(each[0], wanted, **CLOSE)


def test_noise_changes_gradients_of_tokens_too():
    settings = {"highest": 1.0, "n_samples": 3, "noise": 1e-9, "layer": LAYER}
    model = Transformer()
    got = methods.METHODS["smooth-gradcam-plus-plus"](
        model, IMAGES, TARGETS, generator=torch.Generator().manual_seed(0), **settings
    )
    # As good as no noise: maps differ by 1e-9 of them times the curvature of the network.
    torch.testing.assert_close(
        got, methods.gradcam_plus_plus(model, IMAGES, TARGETS, layer=LAYER), rtol=1e-4, atol=1e-6
    )


def test_a_function_or_a_grid_that_the_user_states_comes_first():
    model = Transformer()
    inferred = methods.layercam(model, IMAGES, TARGETS, layer=LAYER)

    def reshape(tokens):  # as for pytorch-grad-cam's reshape_transform
        return tokens[:, 1:].reshape(len(tokens), 2, 3, -1).permute(0, 3, 1, 2)

    for stated in ({"layout": reshape}, {"grid": [2, 3]}, {"prefix": 1}):
        assert torch.equal(
            methods.layercam(model, IMAGES, TARGETS, layer=LAYER, **stated), inferred
        )
    last = methods.layercam(model, IMAGES, TARGETS, layer=LAYER, grid=(2, 3), prefix=0)
    assert not torch.allclose(last, inferred)
    with pytest.raises(AttributionLabError, match=r"layout turns shape \(2, 7, 6\) into \(2, 7\)"):
        methods.layercam(model, IMAGES, TARGETS, layer=LAYER, layout=lambda tokens: tokens.sum(2))


def test_tokens_that_the_output_does_not_read_behind_a_layer_are_named():
    with pytest.warns(GuardWarning, match=r"2 images .*no gradient from the image's tokens"):
        got = methods.gradcam(Transformer(read="class"), IMAGES, TARGETS, layer="norm")
    assert not got.any()


class Merging(nn.Module):
    """Two stages of tokens: 4 x 4 patches, then 2 x 2 of them."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.patches = nn.Conv2d(3, 6, 2, 2)
        self.merged = nn.Linear(24, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, images):
        maps = self.patches(images).unflatten(2, (2, 2)).unflatten(4, (2, 2))  # (B, 6, 2, 2, 2, 2)
        tokens = self.merged(maps.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2))
        return self.head(tokens.square().mean(1))


def test_merged_tokens_are_a_grid_of_their_own():
    images = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    net = Merging()
    assert cells_of(net, net.merged, images, None, None, None, "gradcam") == behind(2, 2, 0)
    assert methods.gradcam(net, images, torch.tensor([1]), layer="merged", relu=False).any()


def test_tokens_or_features_in_front_are_refused():
    with pytest.raises(AttributionLabError, match=r"\(7, 1, 6\) for one image.*layout a function"):
        methods.gradcam(Transformer("module", batch_first=False), IMAGES, TARGETS, layer=LAYER)
    net = nn.Sequential(nn.Conv2d(3, 4, 2, 2), nn.Flatten(2), nn.Flatten(), nn.Linear(64, 3))
    with pytest.raises(AttributionLabError, match=r"\(1, 4, 16\) for one image.*layout a function"):
        methods.gradcam(net, torch.rand(1, 3, 8, 8), torch.tensor([1]), layer="1")
    assert methods.gradcam(
        *(net, torch.rand(1, 3, 8, 8), torch.tensor([1])),
        layer="1",
        layout=lambda turned: turned.unflatten(2, (4, 4)),
        relu=False,
    ).any()
