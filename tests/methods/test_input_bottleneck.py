"""InputIBA agrees with its formulas step by step, and finds what must be seen of an image."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import oracles_bottleneck as twins
from attributionlab.methods import bottleneck, collect_notices, input_bottleneck, input_iba
from attributionlab.methods.input_bottleneck import Adversary, generated_mask, let_through
from random_chains import seeded as generator

QUICK = {"steps": 3, "copies": 2, "feature_steps": 10, "epochs": 1, "samples": 20, "batch": 4}
TARGET = torch.tensor([1])


@pytest.fixture
def net():
    """Two channels of 8 x 8 to two maps of 4 x 4, then two logits; smooth, without kinks."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [nn.Conv2d(2, 2, 2, stride=2), nn.Tanh(), nn.Flatten(), nn.Linear(32, 2)]
        return nn.Sequential(*layers)


@pytest.fixture
def images():
    drawn = torch.randn(31, 2, 8, 8, generator=generator(1))
    return 3 + 2 * drawn[:1], 5 + 2 * drawn[1:]


def explained(model, images, **settings):
    given = {"generator": generator(), "layer": "0"} | QUICK | settings
    return input_iba(model, images[0], TARGET, reference_images=images[1], **given)


def told(model, images, **settings):
    with collect_notices() as findings:
        explained(model, images, **settings)
    return [finding.text for finding in findings if finding.images]


@pytest.mark.parametrize("attribution", ["mask", "information"])
def test_all_steps_are_those_of_the_twin(net, images, attribution):
    net.double()
    image, references = (each.double() for each in images)
    settings = {"steps": 4, "copies": 3, "sigma": 0.7, "learning_rate": 0.5, "beta": 2.0}
    training = {"epochs": 3, "batch": 6, "clip": 0.2}
    got = explained(
        *(net, (image, references)),
        **(settings | training),
        samples=20,
        feature_steps=5,
        feature_beta=0.5,
        attribution=attribution,
    )

    draws = generator()
    shared = {"rate": 0.5, "copies": 3, "sigma": 0.7}
    with torch.no_grad():
        maps, activation = net[0](references), net[0](image)
    mean, std = maps.mean(0), maps.std(0)
    passing = twins.adam(
        *(activation, mean, std, lambda mixed: F.cross_entropy(net[1:](mixed), TARGET)),
        *(torch.zeros(()), draws),
        **({"beta": 0.5, "steps": 5} | shared),
    )
    bits = twins.information(passing, activation, mean, std, 0).sum(1, keepdim=True) / math.log(2)
    true = twins.true_samples((activation - mean) / std, passing, 20, draws)
    center = references.mean((0, 2, 3))[:, None, None]
    scale = references.std((0, 2, 3))[:, None, None]
    values = (image - center) / scale
    granted = twins.adversarial_mask(
        *(values, lambda mixed: (net[0](mixed * scale + center) - mean) / std, true),
        *(F.interpolate(bits, (8, 8), mode="bilinear"), (True, True), draws),
        **training,
    )
    zero, one = torch.zeros(2, 1, 1).double(), torch.ones(2, 1, 1).double()
    passing = twins.adam(
        *(values, zero, one),
        lambda mixed: F.cross_entropy(net(mixed * scale + center), TARGET),
        *(granted, draws),
        **({"beta": 2.0, "steps": 4} | shared),
    )
    wanted = passing.mean(1, keepdim=True)
    if attribution == "information":
        bits = twins.information(passing, values, zero, one, granted) / math.log(2)
        wanted = bits.sum(1, keepdim=True)
    # float64, but for the order of sums. Four steps of about 0.5 leave 1 - lambda > 9e-4, rounded to
    # 2^-53; a divergence divides a difference of means by its square: 1e-10. Adam may take two digits.
    torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("shape", "halved"),
    [
        ((1, 1, 1), (False, False)),
        ((1, 3, 3), (True, False)),
        ((2, 2, 7), (True, False)),
        ((1, 9, 9), (True, True)),
    ],
)
def test_the_mask_is_learned_as_by_the_twin_whatever_the_size_of_the_maps(shape, halved):
    draws = generator(2)
    true = torch.randn(12, *shape, generator=draws).double()
    image = torch.randn(1, 1, 9, 9, generator=draws).double()
    start = torch.randn(1, 1, 9, 9, generator=draws).double()

    def layer(given):
        return F.interpolate(given, shape[1:]).expand(-1, shape[0], -1, -1)

    kept = {"epochs": 4, "batch": 4, "clip": 0.1}
    got = generated_mask(image, layer, true, start, Adversary(samples=12, **kept), generator())
    wanted = twins.adversarial_mask(image, layer, true, start, halved, generator(), **kept)
    # Gradients of about 1e-12, sums of a hundred terms below 0.01 in float64, are off by 1e-16, a share
    # of 1e-4. RMSprop divides each by its own size and that of the gradient before it, also off: two
    # steps of 0.03, at most a quarter of which reaches the mask.
    torch.testing.assert_close(got.mask, wanted, rtol=0, atol=2 * 2e-4 * 0.03 / 4)
    if shape[1:] == (9, 9):
        assert got.moved
        assert (got.mask - start.sigmoid()).abs().max() > 1e-3


@pytest.mark.parametrize("samples", [10, 40])
def test_true_samples_are_features_under_ten_strengths_of_noise(samples):
    activation = torch.randn(1, 2, 3, 3, generator=generator(1)).double()
    passing = torch.rand(1, 2, 3, 3, generator=generator(2)).double()
    got = let_through(activation, passing, samples, generator())
    wanted = twins.true_samples(activation, passing, samples, generator())
    # u + v epsilon is made in float32 here, in float64 there: two roundings, to 2^-24 each, of numbers
    # up to 2 + 5 * 5.
    torch.testing.assert_close(got, wanted, rtol=0, atol=2 * 27 * 2**-24)
    everything = let_through(activation, torch.ones_like(passing), 7, generator())
    assert torch.equal(everything, activation.expand(7, -1, -1, -1))


class Left(nn.Module):
    """Logits of the sum over the left half of an 8 x 8 image in units of 20 around 100, and less it."""

    def __init__(self):
        super().__init__()
        self.maps = nn.Conv2d(1, 1, 1)
        nn.init.constant_(self.maps.weight, 0.05)
        nn.init.constant_(self.maps.bias, -5.0)

    def forward(self, inputs):
        total = self.maps(inputs)[..., :4].sum((1, 2, 3))
        return torch.stack([total, -total], dim=1)


@pytest.mark.long
@pytest.mark.parametrize("attribution", ["mask", "information"])
def test_pixels_that_the_output_ignores_need_not_be_seen(attribution):
    references = 100 + 20 * torch.randn(60, 1, 8, 8, generator=generator(1))
    given = {"generator": generator(), "layer": "maps", "sigma": 0, "copies": 4, "epochs": 2}
    got = input_iba(
        *(Left(), torch.full((1, 1, 8, 8), 120.0), torch.tensor([0])),
        reference_images=references,
        attribution=attribution,
        beta=0.5,
        **given,
    )
    needed, ignored = got[..., :4], got[..., 4:]
    assert got.shape == (1, 1, 8, 8)
    assert float(needed.mean()) > 5 * float(ignored.mean())
    assert float(ignored.max()) < float(needed.max())


def test_copies_that_do_not_fit_at_once_are_passed_in_parts(net, images, monkeypatch):
    sizes = []
    net.double()
    images = [each.double() for each in images]
    net.register_forward_hook(lambda _m, given, _o: sizes.append(len(given[0])))
    whole = explained(net, images, copies=5)
    assert sizes.count(5) == QUICK["steps"]
    sizes.clear()
    monkeypatch.setattr(input_bottleneck, "images_at_once", lambda *_: 8)
    parts = explained(net, images, copies=5)
    assert sizes.count(5) == 0
    # float64: the sum of the copies in another order (1e-16), and gradients that cancel.
    torch.testing.assert_close(parts, whole, rtol=1e-9, atol=1e-9)


def test_a_channel_that_is_empty_is_no_problem(net, images):
    for each in images:
        each[:, 1] = 0
    with collect_notices():
        assert explained(net, images).isfinite().all()


def test_an_output_without_gradient_is_told_of(net, images):
    nn.init.zeros_(net[3].weight)
    assert told(net, images)[0].startswith("are masks that hardly depend on the network")


def test_an_output_apart_from_the_layer_is_told_of(images):
    class Apart(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(2, 1, 2)

        def forward(self, given):
            self.layer(given)
            return given.new_zeros(len(given), 2)

    assert "hardly depend on the network" in told(Apart(), images, layer="layer")[0]


def test_a_layer_that_noise_does_not_reach_is_told_of(net, images):
    nn.init.zeros_(net[0].weight)
    unvaried, blind, still = told(net, images)
    assert "neurons that hardly vary over the reference images" in unvaried
    assert "hardly depend on the network" in blind
    assert "the critic could change less than half" in still


def test_a_prior_that_grants_everything_is_told_of(net, images):
    [still] = told(net, images, feature_steps=2)  # alpha = 4 or so: 8 bits and more a cell
    assert "its map already lets everything pass" in still


def test_nothing_is_told_where_all_is_well(net, images):
    assert told(net, images) == []


def test_the_noise_of_the_layer_is_that_of_iba(net, images, monkeypatch):
    bottleneck.iba(
        net, images[0], TARGET, reference_images=images[1], generator=generator(), layer="0"
    )
    monkeypatch.setattr(bottleneck, "images_at_once", None)  # nothing passes again
    explained(net, images)
