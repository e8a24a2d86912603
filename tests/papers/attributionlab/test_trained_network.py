"""Figure 3: the designed images, training that is a function of the seed, and honest counts."""

import pandas as pd
import pytest
import torch
from torch import nn

from attributionlab.papers import items
from attributionlab.papers.attributionlab import trained_network as module
from attributionlab.papers.catalog import Run
from claims_held import all_hold

ITEM = "figure-3"


class Detector(nn.Module):
    """Two logits, 0 and bias plus weights times the brightness of four corners and the center."""

    def __init__(self, center: float, edge: float, bias: float = 0.0) -> None:
        super().__init__()
        self.center, self.edge, self.bias = center, edge, bias

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Only class 0 has pixels at the top left, only class 1 at the bottom right; at (10, 9) and
        at (9, 16) lie pixels of one center object alone."""
        corner = images[:, 0, 28, 28] - images[:, 0, 2, 2]
        middle = images[:, 0, 9, 16] - images[:, 0, 11, 9]
        margin = self.bias + self.center * middle + self.edge * corner
        return torch.stack([torch.zeros_like(margin), margin], dim=1)


def pixels_within(middle, radius):
    """How many centers of pixels lie within a disc around (middle, middle)."""
    squares = [(place + 0.5 - middle) ** 2 for place in range(32)]
    return sum(down + right < radius**2 for down in squares for right in squares)


def test_the_images_are_a_large_object_in_the_center_and_a_small_one_at_the_edge():
    both, center, edge = module.designed_images()
    assert both.shape == center.shape == edge.shape == (2, 1, 32, 32)
    assert torch.equal(both, center + edge)  # apart, and white where there is an object
    assert set(both.unique().tolist()) == {0.0, 1.0}
    assert center.sum((1, 2, 3)).tolist() == [12 * 16, pixels_within(16, 7.5)]
    assert edge.sum((1, 2, 3)).tolist() == [4 * 6, pixels_within(28.5, 2.5)]
    for image in center:  # in the middle
        assert torch.equal(image, image.flip(1))
        assert torch.equal(image, image.flip(2))
    assert edge[0, 0, 1:5, 1:7].all()
    assert not edge[1, 0, :16].any()
    assert not edge[1, 0, :, :16].any()


@pytest.mark.parametrize(
    ("detector", "expected"),
    [
        (Detector(1, 1), (1.0, 1.0, 1.0, 0.5)),
        (Detector(0, 1), (1.0, 0.5, 1.0, 1.0)),  # ignores the center
        (Detector(1, 0), (1.0, 1.0, 0.5, 0.0)),  # ignores the edge
        (Detector(3, 1, bias=2), (1.0, 1.0, 0.5, 0.25)),  # does not ignore it: the bias is larger
        (Detector(1, 1, bias=1.5), (1.0, 0.5, 0.5, 0.5)),
        (Detector(0, 1, bias=1), (1.0, 0.5, 1.0, 1.0)),  # equal logits are class 0
        (Detector(-1, -1), (0.0, 0.0, 0.0, 0.5)),
    ],
)
def test_an_outcome_has_three_accuracies_and_the_share_of_the_edge(detector, expected):
    assert tuple(module.outcome(detector)) == expected


@pytest.mark.long
@pytest.mark.parametrize("head", ["flatten", "pooling"])
def test_training_depends_on_the_seed_alone_and_ends_right_on_both_images(head):
    before = torch.get_rng_state()
    network, steps = module.train(head, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(1)
    again, same_steps = module.train(head, seed=3)
    assert steps == same_steps
    assert all(map(torch.equal, network.state_dict().values(), again.state_dict().values()))
    other, _ = module.train(head, seed=4)
    assert not torch.equal(network[0].weight, other[0].weight)
    with torch.no_grad():
        probabilities = network(module.designed_images().both).softmax(1)
    # A mean cross-entropy below 0.01 leaves neither image more than 0.02.
    assert float(probabilities.diagonal().min()) >= 0.98


@pytest.mark.long
def test_heads_differ_in_whether_they_see_places():
    flat, pooling = module.train("flatten", 0)[0], module.train("pooling", 0)[0]
    assert flat[-1].in_features == 16 * 8 * 8
    assert pooling[-1].in_features == 16
    with torch.no_grad():
        middle = torch.zeros(1, 1, 32, 32)
        middle[..., 10:14, 10:14] = 1  # moved by two cells of both poolings, far from all edges
        assert torch.allclose(pooling(middle), pooling(middle.roll(8, 3)), atol=1e-5)
        assert not torch.allclose(flat(middle), flat(middle.roll(8, 3)), atol=1e-2)


@pytest.fixture(scope="module")
def reproduction():
    return module.figure_3(Run(ITEM, n=2, seed=5))


@pytest.mark.long
def test_every_network_has_a_row_that_says_how_it_ends(reproduction):
    networks = reproduction.tables["networks"]
    assert networks[["head", "seed"]].values.tolist() == [
        ["flatten", 5],
        ["flatten", 6],
        ["pooling", 5],
        ["pooling", 6],
    ]
    for row in networks.itertuples():
        network, steps = module.train(row.head, row.seed)
        assert steps == row.steps
        assert tuple(module.outcome(network)) == (row.training, row.center, row.edge, row.share)
        alone = {"center": row.center == 1, "edge": row.edge == 1}
        expected = {
            (True, True): "either suffices",
            (True, False): "center alone suffices",
            (False, True): "edge alone suffices",
            (False, False): "neither suffices",
        }[alone["center"], alone["edge"]]
        assert row.outcome == expected
    outcomes = reproduction.tables["outcomes"]
    assert int(outcomes.networks.sum()) == 4
    for row in outcomes.itertuples():
        matches = (networks["head"] == row.head) & (networks.outcome == row.outcome)
        assert int(matches.sum()) == row.networks


def test_figures_show_all_images_accuracies_and_networks(reproduction):
    images = reproduction.figures["images"]
    first = reproduction.tables["networks"].iloc[0]
    said = [axis.get_xlabel() for axis in images.axes]
    for accuracy in (first.training, first.center, first.edge):
        assert f"accuracy {accuracy:.0%}" in said
    shown = [torch.as_tensor(axis.images[0].get_array()) for axis in images.axes[:6]]
    for row, of_kind in enumerate(module.designed_images()):
        for label in (0, 1):
            assert torch.equal(shown[2 * row + label], of_kind[label, 0])
    [axis] = reproduction.figures["networks"].axes
    drawn = [x for points in axis.collections for x in points.get_offsets()[:, 0]]
    assert sorted(drawn) == sorted(reproduction.tables["networks"].share)


@pytest.mark.parametrize(
    ("detector", "expected", "edge_matters"),
    [
        (Detector(1, 1), "either suffices", False),
        (Detector(0, 1), "edge alone suffices", False),
        (Detector(1, 0), "center alone suffices", False),
        (Detector(3, 1, bias=2), "center alone suffices", True),
        (Detector(1, 1, bias=1.5), "neither suffices", False),
    ],
)
def test_an_end_has_the_name_of_the_objects_that_suffice(
    monkeypatch, detector, expected, edge_matters
):
    monkeypatch.setattr(
        "attributionlab.papers.attributionlab.trained_network.train",
        lambda head, seed: (detector, 0),
    )
    tables = module.figure_3(Run(ITEM, n=1)).tables
    assert set(tables["networks"].outcome) == {expected}
    found = all_hold(tables, ITEM)
    missed = expected == "center alone suffices"
    ignored = ("agrees" if edge_matters else "differs") if missed else "undecided"
    assert found["half_right_is_not_ignored"] == ignored
    alike = expected == "edge alone suffices"
    assert tables["shares"].as_published.tolist() == [int(alike)] * 2
    assert found["a_network_ignores_the_center"] == ("agrees" if alike else "differs")


@pytest.mark.parametrize(
    ("training", "outcomes", "expected"),
    [
        ([1, 1], ["either suffices", "edge alone suffices"], "agrees"),
        ([1, 1], ["either suffices", "either suffices"], "undecided"),
        ([1, 0.5], ["either suffices", "neither suffices"], "undecided"),
        ([0.5, 0], ["neither suffices", "neither suffices"], "undecided"),
    ],
)
def test_accuracy_tells_little_where_right_networks_end_differently(training, outcomes, expected):
    networks = pd.DataFrame({"training": training, "outcome": outcomes, "share": 0.5})
    shares = pd.DataFrame({"as_published": [0]})
    found = all_hold({"networks": networks, "shares": shares}, ITEM)
    assert found["accuracy_does_not_tell_what_is_used"] == expected


def test_shares_are_counted_by_kind_and_notes_state_the_pixels(reproduction):
    networks, shares = (reproduction.tables[name] for name in ("networks", "shares"))
    for row in shares.itertuples():
        of_head = networks[networks["head"] == row.head]
        assert (row.networks, row.right_in_training) == (2, (of_head.training == 1).sum())
        ends = (row.least_share, row.median_share, row.largest_share)
        assert ends == (of_head.share.min(), of_head.share.median(), of_head.share.max())
    center, edge = (int((images[0] != images[1]).sum()) for images in module.designed_images()[1:])
    assert f"at {center} pixels in the center" in " ".join(items()[ITEM].notes)
    assert f"at {edge} at the edge" in " ".join(items()[ITEM].notes)
