"""Maps on a scale to 1, curves of ROAD and their heights, from one pass."""

import pytest
import torch
from torch import nn

from attributionlab.metrics import Retraining, removal_curve, road
from attributionlab.papers.soco.maps import road_curve, scaled, untied
from attributionlab.papers.subjects.networks import small_network

FRACTIONS = (0.1, 0.3, 0.8)


def test_of_a_map_the_positive_part_is_rated_on_a_scale_to_1():
    maps = torch.tensor([[[[-4.0, 2.0, 1.0]]], [[[-1.0, 0.0, -2.0]]]])
    assert scaled(maps).tolist() == [[[[0, 1, 0.5]]], [[[0, 0, 0]]]]


def test_ranks_keep_the_order_and_draw_it_among_equals():
    maps = torch.zeros(2, 1, 6, 6)
    maps[:, :, 2:4, 2:4] = 1
    ranks = untied(maps, 0)
    for one in ranks:
        assert sorted(one.flatten().tolist()) == list(range(36))
        assert one[0, 2:4, 2:4].min() == 32
    zeros = ranks[0][maps[0] == 0]
    assert not torch.equal(zeros, zeros.sort().values)
    assert not torch.equal(zeros, zeros.sort(descending=True).values)
    assert not torch.equal(ranks[0], ranks[1])
    assert torch.equal(ranks, untied(maps, 0))
    assert not torch.equal(ranks, untied(maps, 1))


@pytest.mark.parametrize("order", ["morf", "lerf"])
@pytest.mark.parametrize("retrained", [False, True])
def test_a_curve_and_its_height_are_those_of_the_metrics(order, retrained):
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(40, 1, 8, 8, generator=generator)
    maps = torch.rand(40, 1, 8, 8, generator=generator).double()  # without ties
    network, labels = small_network(1, 3, 8, seed=0).eval(), torch.arange(40) % 3

    def fit(images: torch.Tensor, labels: torch.Tensor) -> nn.Module:
        torch.manual_seed(int(1000 * images.sum()))
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 3)).eval()

    retraining = Retraining(images / 2, labels, -maps, fit) if retrained else None
    settings = {"order": order, "fractions": FRACTIONS, "seed": 3, "retraining": retraining}
    found = road_curve(network, images, labels, maps, **settings)
    curve = removal_curve(network, images, labels, maps, **settings).mean(0)
    assert found[0] == curve.tolist()
    assert found[1] == float(road(network, images, labels, maps, **settings))


def test_equal_attributions_of_training_and_test_images_go_in_orders_of_their_own(monkeypatch):
    seen = {}

    def fake(network, images, labels, maps, *, retraining, **settings):
        seen.update(test=maps, train=retraining.attributions)
        return torch.ones(len(images), len(FRACTIONS), dtype=torch.float64)

    monkeypatch.setattr("attributionlab.papers.soco.maps.removal_curve", fake)
    images, labels, zeros = torch.rand(2, 1, 8, 8), torch.tensor([0, 1]), torch.zeros(2, 1, 8, 8)
    retraining = Retraining(images, labels, zeros, lambda *_: nn.Identity())
    network = small_network(1, 2, 8, seed=0)
    road_curve(network, images, labels, zeros, fractions=FRACTIONS, seed=0, retraining=retraining)
    assert torch.equal(seen["test"], untied(zeros, 0))
    assert not torch.equal(seen["test"], seen["train"])
