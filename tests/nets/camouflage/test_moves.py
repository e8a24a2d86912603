"""What each move does to the weights."""

import torch
from torch import nn

from attributionlab.worlds.nets import camouflaged, modulo_sum, white_sum
from nets.camouflage.test_camouflaging import NETWORKS, images_of, weighted
from nets.camouflage.test_draft import seen_by


def rows(layer: nn.Conv2d | nn.Linear) -> list[tuple[float, ...]]:
    """Weights and bias of each neuron."""
    both = torch.cat([layer.weight.flatten(1), layer.bias[:, None]], dim=1)
    return [tuple(row) for row in both.tolist()]


def readers(layer: nn.Conv2d | nn.Linear, neuron: int, neurons: int) -> torch.Tensor:
    """Everything by which the next layer multiplies a neuron's outputs."""
    return layer.weight.detach().reshape(len(layer.weight), neurons, -1)[:, neuron]


def test_permutation_keeps_each_neuron_and_moves_some():
    network = NETWORKS["color-sum"]
    other = camouflaged(network, 0, moves=["permutation"])
    before, after = weighted(network.model), weighted(other.model)
    assert sorted(rows(before[0])) == sorted(rows(after[0]))
    assert rows(before[0]) != rows(after[0])
    for one, two in zip(before, after, strict=True):
        assert sorted(one.weight.flatten().tolist()) == sorted(two.weight.flatten().tolist())


def test_rescaling_multiplies_by_powers_of_two_and_keeps_every_quotient_of_the_budget():
    network = NETWORKS["color-sum"]
    other = camouflaged(network, 0, moves=["rescaling"])
    scales = set()
    for one, two in zip(weighted(network.model), weighted(other.model), strict=True):
        ratio = (two.weight / one.weight)[one.weight != 0]
        assert set(ratio.log2().frac().tolist()) == {0.0}
        assert torch.equal(one.weight == 0, two.weight == 0)
        scales |= set(ratio.tolist())
    assert min(scales) < 1 < max(scales)
    for one, two in zip(network.budgets, other.budgets, strict=False):
        assert two.steps <= one.steps * 3  # the builder's joint bound may be that much tighter


def test_copies_are_exact_and_their_readers_differ():
    network = NETWORKS["white-sum"]
    other = camouflaged(network, 0, moves=["duplication"])
    before, after = weighted(network.model), weighted(other.model)
    pairs = 0
    for index in range(len(before) - 1):
        old, new = before[index], after[index]
        added = len(new.weight) - len(old.weight)
        assert added >= 1
        rows_now = rows(new)
        for copy in range(len(old.weight), len(new.weight)):
            twin = rows_now.index(rows_now[copy])
            assert twin < len(old.weight)
            one, two = (readers(after[index + 1], k, len(rows_now)) for k in (twin, copy))
            pairs += bool((one != 0).any() and (two != 0).any())
    assert pairs >= 3


def test_the_parts_of_divided_weights_have_both_signs():
    other = camouflaged(NETWORKS["color-sum"], 0, moves=["duplication"])
    windows = [m for m in other.model.modules() if isinstance(m, nn.Conv2d) and m.stride == (3, 3)]
    assert all(bool((layer.weight < 0).any()) for layer in windows)


def test_pairs_that_cancel_fire_and_are_read_with_opposite_signs():
    network = NETWORKS["white-sum"]
    other = camouflaged(network, 0, moves=["cancelling-pairs"])
    before, after = weighted(network.model), weighted(other.model)
    with torch.no_grad():
        seen = seen_by(other, images_of(network))
    found = fired = 0
    for index in range(len(before) - 1):
        kept, now = len(before[index].weight), len(after[index].weight)
        half = (now - kept) // 2
        for k in range(half):
            one, two = kept + k, kept + half + k
            assert rows(after[index])[one] == rows(after[index])[two]
            # Neurons that were added to the next layer may read them as they like.
            old = len(before[index + 1].weight)
            read = [readers(after[index + 1], place, now)[:old] for place in (one, two)]
            assert torch.equal(read[0], -read[1])
            found += bool(read[0].any())
            fired += bool(seen[index][1][:, one].any())
    assert found >= 5
    assert fired >= 3


def test_dead_neurons_never_fire_although_they_read_and_are_read():
    for name in ("color-sum", "modulo-sum"):
        network = NETWORKS[name]
        other = camouflaged(network, 0, moves=["dead-units"])
        with torch.no_grad():
            seen = seen_by(other, images_of(network))
        read = 0
        before, after = weighted(network.model), weighted(other.model)
        for index in range(len(before) - 1):
            for dead in range(len(before[index].weight), len(after[index].weight)):
                assert not seen[index][1][:, dead].any()
                read += bool(readers(after[index + 1], dead, len(after[index].weight)).any())
        assert read >= 3


def test_identity_layers_mix_channels():
    network = NETWORKS["color-sum"]
    other = camouflaged(network, 0, moves=["identity-layers"])
    assert len(weighted(other.model)) == len(weighted(network.model)) + 2
    sizes = [len(layer.weight) for layer in weighted(other.model)]
    squares = [
        layer.weight.flatten(1)
        for layer, inputs in zip(weighted(other.model)[1:], sizes, strict=False)
        if layer.weight.flatten(1).shape == (inputs, inputs) and not layer.bias.any()
    ]
    mixing = [
        matrix for matrix in squares if (matrix >= 0).all() and (matrix.diagonal() == 1).all()
    ]
    assert len(mixing) >= 2
    assert any(int((matrix != 0).sum()) > len(matrix) for matrix in mixing)


def test_mirrored_kernels_stand_beside_their_opposites():
    network = NETWORKS["white-sum"]
    other = camouflaged(network, 1, moves=["mirrored-kernels"])
    assert len(weighted(other.model)) == len(weighted(network.model)) + 2
    opposites = 0
    for layer in weighted(other.model):
        kernels = [tuple(row) for row in layer.weight.flatten(1).tolist()]
        opposites += sum(tuple(-w for w in kernel) in kernels for kernel in kernels if any(kernel))
    assert opposites >= 2
    with torch.no_grad():
        seen = seen_by(other, images_of(network))
    # Both sides of a threshold are seen: the mirrored kernels fire too.
    assert all(left.any() for _, left in seen)


def test_convolutions_that_cover_their_map_become_linear_layers_and_back():
    kinds = set()
    for seed in range(10):
        network = white_sum(image_size=9)  # 9 -> 3 -> 1: the last kernel covers its map
        other = camouflaged(network, seed, moves=["convolution-linear"])
        linear = [m for m in weighted(other.model) if isinstance(m, nn.Linear)]
        kinds.add(len(linear))
        if len(linear) == 4:
            assert linear[0].in_features == 9
    assert {0, 4} <= kinds <= {0, 1, 3, 4}  # 2 is what it was
    small = modulo_sum(image_size=10, modulus=7, max_count=50)  # 10 -> 4 -> 2 -> 1, with padding
    widths = set()
    for seed in range(8):
        other = camouflaged(small, seed, moves=["convolution-linear"])
        widths |= {m.in_features for m in weighted(other.model) if isinstance(m, nn.Linear)}
        images = images_of(small, count=3, side=10)
        assert torch.equal(other.model(images), small.model(images))
    assert 4 in widths  # the padding is cut off
