"""The small network learns, is the same for the same seed, and leaves the global generator alone."""

import math

import pytest
import torch
from torch import nn

from attributionlab.base import AttributionLabError
from attributionlab.papers.subjects import small_network as module
from attributionlab.papers.subjects.small_network import (
    accuracy_of,
    fit_network,
    fit_with,
    small_network,
    trained_small_network,
)


def quadrants(n, seed=0):
    """Noise in which one quadrant of the 8 x 8 pixels is bright: four classes."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(4, (n,), generator=generator)
    images = 0.3 * torch.rand(n, 1, 8, 8, generator=generator)
    for image, label in zip(images, labels.tolist(), strict=True):
        row, column = divmod(label, 2)
        image[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 0.5
    return images, labels


def same(one, other):
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(first, second) for first, second in pairs)


@pytest.mark.long
def test_a_trained_network_is_right_on_images_that_it_has_not_seen():
    network = trained_small_network(*quadrants(128), classes=4, seed=0, epochs=40)
    assert accuracy_of(network, *quadrants(100, seed=1)) > 0.95
    assert not any(module.training for module in network.modules())


def test_training_is_the_same_for_a_seed_and_leaves_the_global_generator_as_it_was():
    images, labels = quadrants(40)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = trained_small_network(images, labels, classes=4, seed=1, epochs=2)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(4)
    assert same(first, trained_small_network(images, labels, classes=4, seed=1, epochs=2))
    assert not same(first, trained_small_network(images, labels, classes=4, seed=2, epochs=2))
    start, other = small_network(1, 4, 8, seed=1), small_network(1, 4, 8, seed=1)
    fit_network(start, images, labels, seed=1, epochs=2)
    assert same(first, start)
    fit_network(other, images, labels, seed=2, epochs=2)  # another order of the images
    assert not same(first, other)


def test_training_is_adam_on_batches_in_an_order_drawn_for_each_epoch(monkeypatch):
    """A twin that reads like the definition, one batch after the other."""
    images, labels = quadrants(150)
    network, twin = nn.Linear(64, 4), nn.Linear(64, 4)
    twin.load_state_dict(network.state_dict())
    monkeypatch.setattr(module, "WEIGHT_DECAY", 0.1)  # what 1e-4 changes is too little to see
    whole = nn.Sequential(nn.Flatten(), network)
    fit_network(whole, images, labels, seed=5, epochs=3, learning_rate=0.02)

    generator = torch.Generator().manual_seed(5)
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.02, weight_decay=0.1)
    for _ in range(3):
        order = torch.randperm(150, generator=generator).tolist()
        for batch in (order[:64], order[64:128], order[128:]):
            logarithms = twin(images[batch].flatten(1)).log_softmax(1)
            loss = -logarithms[range(len(batch)), labels[batch]].mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    # The same steps in another order of additions; 9 steps of 0.02 each.
    assert torch.allclose(network.weight, twin.weight, atol=1e-5)
    assert torch.allclose(network.bias, twin.bias, atol=1e-5)


def test_any_optimizer_trains_on_augmented_batches_and_its_rate_changes_after_each_epoch():
    """A twin that reads like the definition: one generator draws the order and the augmentation."""
    images, labels = quadrants(10)
    network, twin = nn.Linear(64, 4), nn.Linear(64, 4)
    twin.load_state_dict(network.state_dict())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5, momentum=0.5)
    fit_with(
        optimizer,
        nn.Sequential(nn.Flatten(), network),
        images,
        labels,
        seed=5,
        epochs=3,
        batch_size=4,
        augmentation=lambda batch, generator: batch + torch.rand(batch.shape, generator=generator),
        schedule=torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1),
    )

    generator = torch.Generator().manual_seed(5)
    speed = {"weight": 0.0, "bias": 0.0}
    for epoch in range(3):
        order = torch.randperm(10, generator=generator).tolist()
        for batch in (order[:4], order[4:8], order[8:]):
            shown = images[batch] + torch.rand(len(batch), 1, 8, 8, generator=generator)
            loss = nn.functional.cross_entropy(twin(shown.flatten(1)), labels[batch])
            gradients = torch.autograd.grad(loss, [twin.weight, twin.bias])
            with torch.no_grad():
                for name, gradient in zip(speed, gradients, strict=True):
                    speed[name] = 0.5 * speed[name] + gradient
                    getattr(twin, name).sub_(0.5 * 0.1**epoch * speed[name])
    # The same steps in another order of additions.
    assert torch.allclose(network.weight, twin.weight, atol=1e-5)
    assert torch.allclose(network.bias, twin.bias, atol=1e-5)


def test_depth_width_batch_norm_and_bias_are_options():
    network = small_network(1, 3, 8, 0, depth=2, width=2, batch_norm=True)
    kinds = [type(module).__name__ for module in network]
    stage = ["Conv2d", "BatchNorm2d", "ReLU"] * 2 + ["MaxPool2d"]
    assert kinds == stage * 3 + ["Flatten", "Linear"]
    kernels = [each.out_channels for each in network if isinstance(each, nn.Conv2d)]
    assert kernels == [2, 2, 4, 4, 8, 8]
    bare = small_network(1, 3, 8, 0, bias=False)
    assert all(getattr(each, "bias", None) is None for each in bare)


def test_every_relu_is_a_module_of_its_own_and_every_place_has_a_weight():
    network = small_network(3, 7, 36, seed=0)
    relus = [module for module in network if isinstance(module, nn.ReLU)]
    assert len(relus) == len(set(map(id, relus))) == 3
    assert not any(relu.inplace for relu in relus)
    assert network[-1].weight.shape == (7, 64 * 4 * 4)  # 36 -> 18 -> 9 -> 4
    assert network(torch.zeros(2, 3, 36, 36)).shape == (2, 7)


def test_accuracy_counts_over_all_batches():
    class First(nn.Module):
        def forward(self, images):
            return images.flatten(1)[:, :3]

    images = torch.eye(3).repeat(3, 1)[:7].view(7, 1, 1, 3)  # classes 0 1 2 0 1 2 0
    labels = torch.tensor([0, 1, 2, 1, 1, 0, 2])
    for batch_size in (1, 3, 7, 100):
        assert accuracy_of(First(), images, labels, batch_size=batch_size) == 4 / 7
    assert accuracy_of(First(), torch.zeros(2, 1, 1, 3), torch.tensor([0, 1])) == 0.5


@pytest.mark.usefixtures("without_shape_checks")
def test_bad_input_is_refused_in_one_line():
    images, labels = quadrants(4)
    network = small_network(1, 3, 8, seed=0)

    def refused(call, *args, **settings):
        with pytest.raises(AttributionLabError) as caught:
            call(*args, **settings)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    sgd = torch.optim.SGD(network.parameters(), lr=0.1)
    assert "epochs is 0" in refused(fit_with, sgd, network, images, labels, seed=0, epochs=0)
    assert "images are" in refused(fit_network, network, images[0], labels, seed=0)
    assert "targets are" in refused(accuracy_of, network, images, labels[:2])


def test_a_loss_that_is_not_finite_is_refused():
    images, labels = quadrants(8)
    with pytest.raises(AttributionLabError, match="the loss is nan after epoch 1: take a learning"):
        fit_network(small_network(1, 4, 8, seed=0), images * math.nan, labels, seed=0, epochs=2)
