"""Score-CAM and Ablation-CAM weigh maps as their definitions say, pass by pass."""

import pytest
import torch
from torch import nn

import oracles_cams
from attributionlab.base import AttributionLabError, GuardWarning
from attributionlab.methods import METHODS, ablationcam, as_method, collect_notices, scorecam
from oracles_attention import Transformer
from oracles_methods import enlarge
from random_chains import silently as quietly
from random_chains import softplus_chain as chain

BOTH = pytest.mark.parametrize("method", [scorecam, ablationcam])
TARGETS = torch.tensor([0, 2])


class Around(nn.Module):
    """The same network, which is no chain of modules."""

    def __init__(self, chain):
        super().__init__()
        self.inner = chain

    def forward(self, images):
        return 1 * self.inner(images)


def doubles(values):
    return torch.tensor(values, dtype=torch.float64)


def images(number=2, seed=0):
    return torch.rand(number, 1, 8, 8, generator=torch.Generator().manual_seed(seed)).double()


def from_layer(model, index, target):
    """The output as a function of what a chain's layer returns, in lists."""

    def output(maps):
        with torch.no_grad():
            return float(model[index + 1 :](doubles(maps)[None])[0, target])

    return output


def of_image(model, target):
    def output(image):
        with torch.no_grad():
            return float(model(doubles(image)[None])[0, target])

    return output


def coarse(method, model, index, image, target, baseline=0.0, relu=True):
    """What the definition says, before it is enlarged."""
    with torch.no_grad():
        maps = model[: index + 1](image[None])[0].tolist()
    if method is ablationcam:
        return oracles_cams.ablationcam(maps, from_layer(model, index, target), relu)
    baselines = torch.full_like(image, baseline).tolist()
    return oracles_cams.scorecam(
        maps, image.tolist(), baselines, of_image(model, target), relu=relu
    )


@BOTH
@pytest.mark.parametrize("relu", [True, False], ids=["relu", "signed"])
@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("wrapped", [False, True], ids=["chain", "no chain"])
def test_maps_are_those_of_the_definition(method, layer, relu, wrapped):
    model = chain()
    given, name = (Around(model), f"inner.{layer}") if wrapped else (model, str(layer))
    got = quietly(method, given, images(), TARGETS, layer=name, relu=relu)
    assert got.shape == (2, 1, 8, 8)
    assert not got.requires_grad
    assert got.any() or relu
    for image, target, each in zip(images(), TARGETS, got, strict=True):
        wanted = enlarge(coarse(method, model, layer, image, target, relu=relu), 8, 8)
        # Sums of some hundred float64 numbers, and quotients of their differences.
        torch.testing.assert_close(each[0], doubles(wanted), rtol=1e-9, atol=1e-12)


def test_a_baseline_stands_where_a_map_hides_the_image():
    model = chain()
    got = scorecam(model, images(), TARGETS, layer="1", baselines=0.7)
    assert not torch.allclose(got, scorecam(model, images(), TARGETS, layer="1"))
    for image, target, each in zip(images(), TARGETS, got, strict=True):
        wanted = enlarge(coarse(scorecam, model, 1, image, target, baseline=0.7), 8, 8)
        torch.testing.assert_close(each[0], doubles(wanted), rtol=1e-9, atol=1e-12)
    each_its_own = torch.stack([0.7 * torch.ones(1, 8, 8).double(), torch.zeros(1, 8, 8).double()])
    mixed = scorecam(model, images(), TARGETS, layer="1", baselines=each_its_own)
    assert torch.equal(mixed[0], got[0])
    assert torch.equal(mixed[1], scorecam(model, images(), TARGETS, layer="1")[1])
    named = as_method("scorecam-true-baseline", METHODS)
    assert named.name == "scorecam-true-baseline"
    with pytest.raises(AttributionLabError, match="baselines have shape"):
        scorecam(model, images(), TARGETS, layer="1", baselines=[1.0, 2.0])


@torch.no_grad()
def test_of_tokens_the_images_alone_are_ablated():
    model = Transformer(read="class")
    pictures = torch.rand(2, 3, 4, 6, generator=torch.Generator().manual_seed(0)).double()
    got = quietly(ablationcam, model, pictures, TARGETS, layer="blocks.1.first", relu=False)
    layer = model.get_submodule("blocks.1.first")
    for image, target, each in zip(pictures, TARGETS, got, strict=True):
        with torch.enable_grad():
            seen = oracles_cams.tapped(model, layer, image[None], target)[0].detach()

        def output(maps, image=image, target=target, seen=seen):
            tokens = seen.clone()
            tokens[0, 1:] = doubles(maps).flatten(1).T
            replaced = layer.register_forward_hook(lambda *_: tokens)
            value = float(model(image[None])[0, target])
            replaced.remove()
            return value

        maps = oracles_cams.as_grid(seen[0].tolist(), 2, 3, 1)
        wanted = enlarge(oracles_cams.ablationcam(maps, output, relu=False), 4, 6)
        torch.testing.assert_close(each[0], doubles(wanted), rtol=1e-9, atol=1e-11)


class Last(nn.Module):
    """Maps with channels last, turned by a user's function."""

    def __init__(self):
        super().__init__()
        self.chain, self.layer = chain(), nn.Identity()

    def forward(self, given):
        maps = self.layer(self.chain[:2](given).permute(0, 2, 3, 1))
        return self.chain[2:](maps.permute(0, 3, 1, 2))


@BOTH
def test_a_users_function_places_the_maps(method):
    wanted = quietly(method, chain(), images(), TARGETS, layer="1")
    turned = lambda output: output.movedim(3, 1)  # noqa: E731
    got = quietly(method, Last(), images(), TARGETS, layer="layer", layout=turned)
    # The same sums, in another order.
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)


def test_a_users_function_that_changes_values_cannot_be_ablated():
    with pytest.raises(AttributionLabError, match="ablationcam: layout changes the values"):
        ablationcam(
            *(Last(), images(), TARGETS),
            layer="layer",
            layout=lambda output: 2 * output.movedim(3, 1),
        )


class Reads(nn.Module):
    """An output for each of three maps, its sum, plus a constant."""

    def __init__(self, constant=0.0, factor=1.0):
        super().__init__()
        self.maps, self.constant, self.factor = nn.Conv2d(3, 3, 1, bias=False), constant, factor
        self.maps.weight.data = torch.eye(3)[..., None, None]

    def forward(self, given):
        return self.factor * self.maps(given).sum((2, 3)) + self.constant


def three():
    return torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("constant", "kind", "message"),
    [
        (-3.0, "zeros", "1 image are zero because .* output, which is 0.*explain the probability"),
        (-4.0, "", "1 image have reversed signs because .* negative.*probability"),
    ],
    ids=["zero", "negative"],
)
def test_an_output_that_cannot_be_divided_by_is_told(constant, kind, message):
    given = torch.zeros(2, 3, 2, 2)
    given[0, 0, 0] = 1.5
    given[1, 0] = 2.0
    target = torch.tensor([0, 0])
    with collect_notices() as findings:
        got = ablationcam(Reads(constant), given, target, layer="maps", relu=False)
    [finding] = [each for each in findings if each.images]
    assert (finding.images, finding.kind) == (1, kind)
    assert got[0].any() == (constant == -4)
    assert (got[0] <= 0).all()  # what raises the output is against it
    assert got[1].any()
    assert (got[1] >= 0).all()
    with pytest.warns(GuardWarning, match=message):
        ablationcam(Reads(constant), given, target, layer="maps", relu=False)


def test_a_map_that_is_the_same_everywhere_shows_nothing():
    given = three()
    given[0, 0] = 0.5
    got = scorecam(Reads(), given, torch.tensor([1]), layer="maps")
    maps = given[0].tolist()
    wanted = oracles_cams.scorecam(
        maps, maps, torch.zeros(3, 4, 4).tolist(), lambda image: sum(map(sum, image[1]))
    )
    torch.testing.assert_close(got[0, 0], torch.tensor(wanted), rtol=1e-5, atol=1e-6)
    flat = torch.full((1, 3, 4, 4), 0.5)
    with pytest.warns(GuardWarning, match="1 image are zero"):
        empty = scorecam(Reads(), flat, torch.tensor([1]), layer="maps")
    assert torch.equal(empty, torch.zeros(1, 1, 4, 4))
