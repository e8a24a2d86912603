"""Designs have the layers that they name and explain themselves; training can be repeated."""

import itertools
import math

import pytest
import torch
from torch import nn

from attributionlab.methods import METHODS
from attributionlab.papers.subjects import networks as module
from attributionlab.papers.subjects.networks import (
    BCosConvolution,
    Design,
    accuracy_of,
    fit_network,
    gradcam_layer,
    intrinsic_map,
    network_of,
    small_network,
    trained_small_network,
)
from refusals import refused

DESIGNS = (
    *(
        Design(family, depth=depth, width=4, batch_norm=norm)
        for family in ("plain", "residual")
        for depth in (1, 2)
        for norm in (False, True)
    ),
    Design("bag"),
    Design("b-cos"),
)


def images_of(n, side=16, seed=0):
    return torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(seed))


def of_kind(network, kind):
    return [module for module in network.modules() if isinstance(module, kind)]


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_a_network_has_logits_maps_for_gradcam_and_a_gradient_everywhere(design):
    network = network_of(design, 3, 5, 16, seed=0).eval()
    images = images_of(2).requires_grad_()
    logits = network(images)
    assert logits.shape == (2, 5)
    logits.sum().backward()
    assert (images.grad != 0).any()
    maps = METHODS["gradcam"](
        network,
        images.detach(),
        torch.tensor([0, 3]),
        layers={"gradcam": gradcam_layer(network)},
        relu=False,
    )
    assert maps.shape == (2, 1, 16, 16)
    assert maps.abs().amax((1, 2, 3)).min() > 0


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_weights_are_those_of_the_seed_and_the_global_generator_is_left_alone(design):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (network_of(design, 3, 4, 16, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    weights = [[*each.parameters()] for each in (first, again, other)]
    assert all(torch.equal(*pair) for pair in zip(*weights[:2], strict=True))
    assert not all(torch.equal(*pair) for pair in zip(weights[0], weights[2], strict=True))


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_every_relu_is_a_module_of_its_own_that_runs_once_and_not_in_place(design):
    network = network_of(design, 3, 4, 16, seed=0)
    runs = dict.fromkeys(of_kind(network, nn.ReLU), 0)
    for relu in runs:
        assert not relu.inplace

        def count(module, *_):
            runs[module] += 1

        relu.register_forward_hook(count)
    network(images_of(2))
    assert set(runs.values()) <= {1}
    assert runs or design.family == "b-cos"


@pytest.mark.parametrize("family", ["plain", "residual"])
def test_depth_and_width_are_of_three_stages(family):
    def kernels(design):
        found = of_kind(network_of(design, 3, 4, 32, seed=0), nn.Conv2d)
        return [each.out_channels for each in found if each.kernel_size == (3, 3)]

    each = 1 if family == "plain" else 2  # convolutions of a block
    stem = [] if family == "plain" else [6]
    for depth in (1, 3):
        stages = [6 * 2**stage for stage in range(3) for _ in range(depth * each)]
        assert kernels(Design(family, depth=depth, width=6)) == stem + stages


@pytest.mark.parametrize("family", ["plain", "residual"])
def test_batch_norm_is_there_or_not(family):
    def made(**options):
        return network_of(Design(family, **options), 3, 4, 16, seed=0)

    normed, usual = made(batch_norm=True), made()
    convolutions = of_kind(normed, nn.Conv2d)
    assert len(of_kind(normed, nn.BatchNorm2d)) == len(convolutions)
    assert all(each.bias is None for each in convolutions)
    assert of_kind(normed, nn.Linear)[0].bias is not None
    assert not of_kind(usual, nn.BatchNorm2d)
    assert all(each.bias is not None for each in of_kind(usual, (nn.Conv2d, nn.Linear)))


def test_the_plain_network_is_the_small_network_with_other_weights():
    plain = network_of(Design(), 3, 4, 36, seed=0)
    assert str(plain) == str(small_network(3, 4, 36, seed=0))
    assert plain[-1].weight.shape == (4, 64 * 4 * 4)  # 36 -> 18 -> 9 -> 4
    deep = network_of(Design(depth=2, width=4, batch_norm=True), 3, 4, 32, seed=0)
    assert str(deep) == str(small_network(3, 4, 32, 0, depth=2, width=4, batch_norm=True))
    stage = ["Conv2d", "BatchNorm2d", "ReLU"] * 2 + ["MaxPool2d"]
    assert [type(each).__name__ for each in deep] == stage * 3 + ["Flatten", "Linear"]


def test_convolutions_have_weights_of_he():
    network = network_of(Design(width=64), 3, 4, 8, seed=0)
    last = of_kind(network, nn.Conv2d)[-1].weight
    # 256 x 128 x 9 normal weights; the standard error of their deviation is 0.13 % of it.
    assert float(last.detach().std()) == pytest.approx(math.sqrt(2 / (128 * 9)), rel=0.01)


def test_a_residual_block_adds_its_input():
    network = network_of(Design("residual", depth=2, width=4), 3, 4, 16, seed=0)
    block = network[3]  # the second of the first stage: no shortcut convolution
    assert not of_kind(block.shortcut, nn.Conv2d)
    maps = torch.rand(1, 4, 8, 8)
    expected = (maps + block.residual(maps)).clamp(min=0)
    assert torch.equal(block(maps), expected)
    assert [tuple(of_kind(network, nn.Conv2d)[0].stride)] == [(2, 2)]


def test_a_bag_sees_five_pixels_and_its_logits_are_sums_of_evidence():
    network = network_of(Design("bag"), 3, 4, 16, seed=0)
    images = images_of(1).requires_grad_()
    [reach] = torch.autograd.grad(network.evidence(images)[0, 0, 4, 4], images)
    seen = reach[0].abs().sum(0).nonzero()
    extent = seen.max(0).values - seen.min(0).values + 1
    assert (extent <= 5).all()

    targets = torch.tensor([2, 0])
    images = images_of(2)
    maps = intrinsic_map(network, images, targets)
    assert maps.shape == (2, 1, 16, 16)
    logits = network(images)[torch.arange(2), targets]
    # 256 summands in float32; no cancellation beyond two digits.
    assert torch.allclose(maps.sum((1, 2, 3)), logits, rtol=1e-4, atol=1e-5)
    cells = maps.view(2, 8, 2, 8, 2)
    assert torch.equal(cells.amin((2, 4)), cells.amax((2, 4)))  # a place is 2 x 2 pixels


def test_a_b_cos_convolution_is_the_linear_response_times_the_cosine():
    """A twin that reads like the definition, place by place."""
    layer = BCosConvolution(2, 3, 3, 1)
    inputs = torch.rand(1, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    padded = nn.functional.pad(inputs, (1, 1, 1, 1))
    outputs = layer(inputs).detach()
    for kernel, row, column in itertools.product(range(3), range(4), range(4)):
        x = padded[0, :, row : row + 3, column : column + 3].flatten()
        w = layer.weight[kernel].detach().flatten()
        w = w / w.norm()
        cosine = float(w @ x / x.norm())
        expected = math.sqrt(18) * abs(cosine) * float(w @ x)
        # The norm's floor of 1e-6 and float32.
        assert float(outputs[0, kernel, row, column]) == pytest.approx(expected, abs=1e-4)


def test_b_cos_contributions_sum_to_the_logit_and_its_weights_are_held():
    network = network_of(Design("b-cos"), 3, 4, 16, seed=0)
    images, targets = images_of(3), torch.tensor([1, 0, 3])
    maps = intrinsic_map(network, images, targets)
    logits = network(images)[torch.arange(3), targets]
    # The network with its cosines held is linear without a constant; sums of 1,536 float32 terms.
    assert torch.allclose(maps.sum((1, 2, 3)), logits, rtol=1e-4, atol=1e-5)
    assert not maps.requires_grad
    assert all(parameter.grad is None for parameter in network.parameters())
    # Homogeneous of degree 1 in the encoded input, so that the whole gradient sums up, too; but the
    # maps differ, because the cosines move.
    encoded = torch.cat([images, 1 - images], 1).requires_grad_()
    out = network.classifier(network.features(encoded)).mean((2, 3))
    chosen = out[torch.arange(3), targets].sum()
    [gradient] = torch.autograd.grad(chosen, encoded)
    moved = (gradient * encoded).sum(1, keepdim=True).detach()
    assert not torch.allclose(moved, maps, atol=1e-3 * float(maps.abs().max()))


def test_b_cos_weights_have_no_length_and_no_bias():
    network = network_of(Design("b-cos"), 3, 4, 16, seed=0)
    images = images_of(1)
    before = network(images)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter *= 4  # exact in float32, and undone by the norm
    assert torch.equal(network(images), before)
    assert all(each.bias is None for each in of_kind(network, nn.Conv2d))


def test_gradcam_reads_the_last_maps_before_the_classifier():
    for design in (Design(depth=2), Design("residual", depth=2), Design("bag")):
        network = network_of(design, 3, 4, 16, seed=0)
        assert gradcam_layer(network) is of_kind(network, nn.ReLU)[-1]
    network = network_of(Design("b-cos"), 3, 4, 16, seed=0)
    assert gradcam_layer(network) is network.features


# Training


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


@pytest.mark.parametrize("own", [False, True])
def test_training_is_in_batches_of_an_order_drawn_for_each_epoch(own, monkeypatch):
    """A twin that reads like the definition: by Adam, or by another optimizer whose rate changes after
    each epoch, on augmented batches; one generator draws the order and the augmentation.
    """
    monkeypatch.setattr(module, "WEIGHT_DECAY", 0.1)  # what 1e-4 changes is too little to see
    images, labels = quadrants(150)
    network, twin = nn.Linear(64, 4), nn.Linear(64, 4)
    twin.load_state_dict(network.state_dict())
    size, how = 64, {"learning_rate": 0.02}
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.02, weight_decay=0.1)
    if own:
        first, optimizer = (
            torch.optim.SGD(each.parameters(), lr=0.5, momentum=0.5) for each in (network, twin)
        )
        size, how = (
            40,
            {
                "optimizer": first,
                "batch_size": 40,
                "augmentation": lambda batch, drawing: (
                    batch + torch.rand(batch.shape, generator=drawing)
                ),
                "schedule": torch.optim.lr_scheduler.StepLR(first, 1, 0.1),
            },
        )
    fit_network(nn.Sequential(nn.Flatten(), network), images, labels, seed=5, epochs=3, **how)

    generator = torch.Generator().manual_seed(5)
    for epoch in range(3):
        order = torch.randperm(150, generator=generator).tolist()
        for batch in (order[start : start + size] for start in range(0, 150, size)):
            shown = images[batch]
            if own:
                shown = shown + torch.rand(shown.shape, generator=generator)
                optimizer.param_groups[0]["lr"] = 0.5 * 0.1**epoch
            logarithms = twin(shown.flatten(1)).log_softmax(1)
            loss = -logarithms[range(len(batch)), labels[batch]].mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    # The same steps in another order of additions; 9 steps of 0.02 each, or 12 of at most 0.5.
    assert torch.allclose(network.weight, twin.weight, atol=1e-5)
    assert torch.allclose(network.bias, twin.bias, atol=1e-5)


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
@pytest.mark.parametrize(
    ("call", "wrong", "said"),
    [
        (fit_network, {"epochs": 0}, "epochs is 0"),
        (fit_network, {"images": torch.zeros(1, 8, 8)}, "images are"),
        (fit_network, {"images": torch.full((4, 1, 8, 8), math.nan)}, "loss is nan after epoch 1"),
        (accuracy_of, {"labels": torch.zeros(2).long()}, "targets are"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(call, wrong, said):
    images, labels = quadrants(4)
    good = {"network": small_network(1, 4, 8, seed=0), "images": images, "labels": labels}
    refused(call, good | ({"seed": 0} if call is fit_network else {}), wrong, said)
