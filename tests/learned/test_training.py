"""Networks that are trained: a function of the seed alone, in the rule's units, in float16."""

import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.worlds.learned import training
from attributionlab.worlds.learned.architectures import ARCHITECTURES, made
from attributionlab.worlds.learned.examination import examine, outputs_of
from learned.worlds import lessons_of, world


@pytest.fixture(scope="module")
def env():
    return world("red", "blue", "green")


@pytest.fixture(scope="module")
def lessons(env):
    return lessons_of(env)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_architecture_takes_images_and_has_maps_where_cams_attach(architecture):
    network = made(architecture, 2, 24)
    seen = []
    network[ARCHITECTURES[architecture].maps].register_forward_hook(
        lambda module, inputs, outputs: seen.append(outputs.shape)
    )
    images = torch.rand(3, 3, 24, 24)
    assert network(images).shape == (3, 2)
    [maps] = seen
    assert maps[0] == 3
    assert maps[2] == maps[3] >= 6
    assert isinstance(network[0], nn.Conv2d)  # into which the scale of images is put
    assert isinstance(network[-1], nn.Linear)
    assert not network.training
    # An image's output does not depend on the others of its batch.
    assert torch.allclose(network(images)[1:2], network(images[1:2]), atol=1e-5)
    assert sum(each.numel() for each in network.parameters()) * 2 < 130_000  # bytes in float16


def test_the_attention_of_the_vit_is_torchs_own():
    torch.manual_seed(0)
    own = made("vit", 1, 16)[4].chain[1]
    tokens = torch.randn(2, 16, 32)
    theirs = nn.MultiheadAttention(32, 4, batch_first=True)
    theirs.in_proj_weight, theirs.in_proj_bias = (
        own.query_key_value.weight,
        own.query_key_value.bias,
    )
    theirs.out_proj.weight, theirs.out_proj.bias = own.out.weight, own.out.bias
    assert torch.allclose(own(tokens), theirs(tokens, tokens, tokens)[0], atol=1e-5)


def test_training_is_a_function_of_the_seed_whatever_the_threads(env, lessons):
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    first, other = (
        training.train_network(env, "patch-cnn", lessons.pictures, seed=seed, samples=1000)
        for seed in (0, 1)
    )
    try:
        torch.set_num_threads(2)
        again = training.train_network(env, "patch-cnn", lessons.pictures, seed=0, samples=1000)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.random.get_rng_state(), state)
    images = lessons.pictures.images
    values = [outputs_of(network, images) for network in (first, again, other)]
    assert torch.equal(values[0], values[1])
    assert not torch.equal(values[0], values[2])
    assert not first.training


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_weights_are_those_of_float16(env, lessons, architecture):
    network = training.train_network(env, architecture, lessons.pictures, samples=256)
    for value in network.state_dict().values():
        if value.is_floating_point():
            assert value.dtype == torch.float32
            assert torch.equal(value, value.half().float())


def test_rounding_rounds_every_weight():
    torch.manual_seed(0)
    network = made("gelu-cnn", 1, 16)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    for name, value in training.rounded(network).state_dict().items():
        assert torch.equal(value.double(), before[name].half().double())


@pytest.mark.long
def test_a_network_learns_in_the_rules_own_units(env, lessons):
    network = training.train_network(env, "patch-cnn", lessons.pictures, samples=40_000)
    found = examine(network, lessons.questions)
    assert min(found.agreement.values()) > 0.9
    assert found.signs > 0.9
    assert found.shapley > 0.9


def test_what_cannot_be_learned_is_refused(env, lessons):
    with pytest.raises(AttributionLabError, match=r"'patch-cn': did you mean 'patch-cnn'\?"):
        training.train_network(env, "patch-cn", lessons.pictures, samples=1)
    with pytest.raises(AttributionLabError, match="samples is 0"):
        training.train_network(env, "cnn", lessons.pictures, samples=0)
    with pytest.raises(AttributionLabError, match=r"samples is 100000001: .* to 100000000"):
        training.train_network(env, "cnn", lessons.pictures, samples=100_000_001)


def test_a_rule_that_is_the_same_everywhere_and_an_odd_side_are_refused(lessons):
    same = world("red", "blue", "green", rule="red >= 200")
    with pytest.raises(AttributionLabError, match="output 0 is 0 for all images"):
        training.train_network(same, "cnn", lessons.pictures, samples=128)
    odd = al.load("quadrants", image_size=26)
    with pytest.raises(AttributionLabError, match=r"image_size is 26, .* take 28"):
        training.train_network(odd, "cnn", lessons.pictures, samples=128)


def test_the_worlds_that_are_named_have_images_at_the_size():
    for name in (*training.LEARNING_IMAGES, *training.SAMPLES_OF):
        al.load(
            name, image_size=training.IMAGE_SIDE, **training.LEARNING_IMAGES.get(name, {})
        ).batch(1)
