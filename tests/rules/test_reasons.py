"""Why methods fail in worlds: the reasons that docs/worlds.md gives, each by an experiment."""

import pytest
import torch

import attributionlab as al
from attributionlab.metrics import parts_f1

SIDE = 48
pytestmark = pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")  # zeros, kinks


def first_images(name, n=3, **overrides):
    """Images with a label and what is asked of them."""
    env = al.load(name, image_size=SIDE, **overrides)
    images, labels = env.batch(n)
    targets = env.targets(labels)
    return env, images, targets


def test_saliency_sees_one_of_four_equal_branches():
    """A quarter s of what is relevant, and nothing else: F1 = 2 s / (1 + s) = 0.4."""
    env, images, targets = first_images("all-four")
    maps = al.attribute("saliency", env, images, targets)
    truth = env.truth(images, targets)
    found = parts_f1(maps, truth.signed, truth.mixed)["overall"]
    assert ((maps != 0) <= truth.relevant).all()
    shares = (maps != 0).sum((1, 2, 3)) / truth.relevant.sum((1, 2, 3))
    assert shares.tolist() == [0.25] * len(images)
    assert found.tolist() == pytest.approx([0.4] * len(images), abs=1e-6)  # float32 maps


@pytest.mark.parametrize("method", ["saliency", "feature-ablation-true-baseline"])
def test_beyond_a_limit_neither_a_small_change_nor_a_lost_pixel_does_anything(method):
    env, images, targets = first_images("at-least")
    assert (al.attribute(method, env, images, targets) == 0).all()
    # Each pixel that counts does matter: with one more than the limit allows gone, the output changes.
    counted = env.truth(images, targets).relevant[0, 0].nonzero()
    without = images[:1].clone()
    for row, column in counted.tolist():
        without[0, :, row, column] = env.baseline[:, 0, 0]
    assert env.model(without).item() != env.model(images[:1]).item()


def test_guided_backpropagation_passes_a_limit_because_it_drops_what_says_no_more():
    """The step is ReLU(ReLU(x - k + 1) - ReLU(x - k)): beyond it the two gradients cancel, and the rule
    keeps the positive one.
    """
    env, images, targets = first_images("at-least")
    guided = al.attribute("guided-backprop", env, images, targets)
    truth = env.truth(images, targets)
    assert parts_f1(guided, truth.signed)["positive"].min() == 1
    assert (al.attribute("saliency", env, images, targets) == 0).all()


@pytest.mark.long
def test_fifty_nodes_miss_the_part_of_the_path_in_which_a_limit_is_passed():
    env, images, targets = first_images("at-least", 2)
    truth = env.truth(images, targets)
    scores = {
        name: parts_f1(al.attribute(name, env, images, targets), truth.signed)["overall"].mean()
        for name in (
            "integrated-gradients-true-baseline",
            "integrated-gradients-exact-true-baseline",
        )
    }
    assert scores["integrated-gradients-true-baseline"] == 0
    assert scores["integrated-gradients-exact-true-baseline"] > 0.99
    # The output is constant at all of the 50 nodes, and yet it changes from end to end.
    nodes = (torch.arange(50) + 0.5) / 50
    baseline = env.baseline.expand_as(images[0])
    path = baseline + nodes.view(-1, 1, 1, 1) * (images[0] - baseline)
    with torch.no_grad():
        assert env.model(path).unique().numel() == 1
        assert env.model(torch.stack([baseline, images[0]])).unique().numel() == 2


@pytest.mark.long
def test_on_a_straight_path_nothing_is_there_without_what_gates_it():
    """`azure if orange == 0 else 0` in images with both: the output stays near 0 along the path.

    Azure alone would raise it by one for each of its pixels.
    """
    env, images, targets = first_images("no-orange", 12)
    both = [
        (image[None], target[None])
        for image, target in zip(images, targets, strict=True)
        if all(int(env.counting.counts(image[None])[0, k]) > 0 for k in range(2))
    ]
    assert both
    image, target = both[0]
    azure = int(env.truth(image, target).positive.sum())
    baseline = env.baseline.expand_as(image[0])
    nodes = torch.linspace(0, 1, 2001).view(-1, 1, 1, 1)
    with torch.no_grad():
        along = torch.cat(
            [env.model(part) for part in (baseline + nodes * (image - baseline)).split(200)]
        )
    assert along.max() < 0.05 * azure
