"""Figure 3: the designed images, training that is a function of the seed, and honest counts."""

import inspect
import re

import pandas as pd
import pytest
import torch
from torch import nn

from attributionlab.papers.attributionlab.segmentations import figure_6
from attributionlab.papers.attributionlab.trained_network import (
    _findings,
    designed_images,
    figure_3,
    outcome,
    train,
)


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
    both, center, edge = designed_images()
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
    assert tuple(outcome(detector)) == expected


@pytest.mark.parametrize("head", ["flatten", "pooling"])
def test_training_depends_on_the_seed_alone_and_ends_right_on_both_images(head):
    before = torch.get_rng_state()
    network, steps = train(head, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(1)
    again, same_steps = train(head, seed=3)
    assert steps == same_steps
    assert all(map(torch.equal, network.state_dict().values(), again.state_dict().values()))
    other, _ = train(head, seed=4)
    assert not torch.equal(network[0].weight, other[0].weight)
    with torch.no_grad():
        probabilities = network(designed_images().both).softmax(1)
    # A mean cross-entropy below 0.01 leaves neither image more than 0.02.
    assert float(probabilities.diagonal().min()) >= 0.98


def test_heads_differ_in_whether_they_see_places():
    flat, pooling = train("flatten", 0)[0], train("pooling", 0)[0]
    assert flat[-1].in_features == 16 * 8 * 8
    assert pooling[-1].in_features == 16
    with torch.no_grad():
        middle = torch.zeros(1, 1, 32, 32)
        middle[..., 10:14, 10:14] = 1  # moved by two cells of both poolings, far from all edges
        assert torch.allclose(pooling(middle), pooling(middle.roll(8, 3)), atol=1e-5)
        assert not torch.allclose(flat(middle), flat(middle.roll(8, 3)), atol=1e-2)


@pytest.fixture(scope="module")
def reproduction():
    return figure_3(n=2, quick=True, seed=5)


def test_every_network_has_a_row_that_says_how_it_ends(reproduction):
    networks = reproduction.tables["networks"]
    assert networks[["head", "seed"]].values.tolist() == [
        ["flatten", 5],
        ["flatten", 6],
        ["pooling", 5],
        ["pooling", 6],
    ]
    for row in networks.itertuples():
        network, steps = train(row.head, row.seed)
        assert steps == row.steps
        assert tuple(outcome(network)) == (row.training, row.center, row.edge, row.share)
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


def test_the_figure_shows_images_accuracies_and_all_networks(reproduction):
    figure = reproduction.figures["networks"]
    axes = figure.axes
    networks = reproduction.tables["networks"]
    first = networks.iloc[0]
    titles = [axis.get_title() for axis in axes[:3]]
    accuracies = (first.training, first.center, first.edge)
    assert [title.split()[-1] for title in titles] == [f"{a:.0%}" for a in accuracies]
    for column, images in enumerate(designed_images()):
        for label in (0, 1):
            shown = torch.as_tensor(axes[3 * label + column].images[0].get_array())
            assert torch.equal(shown, images[label, 0])
    bars, strip = axes[6], axes[7]
    assert sum(patch.get_width() for patch in bars.patches) == len(networks)
    drawn = [x for points in strip.collections for x in points.get_offsets()[:, 0]]
    assert drawn == networks.share.tolist()


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
    reproduction = figure_3(n=1, quick=True)
    assert set(reproduction.tables["networks"].outcome) == {expected}
    said = " ".join(reproduction.findings)
    assert ("does not show that they are ignored: in 2 of 2" in said) == edge_matters
    assert ("the edge objects have 0.25 to 0.25 of the difference" in said) == edge_matters
    assert f"end alike here ({expected})" in said
    alike = 2 if expected == "edge alone suffices" else 0
    assert f"{alike} of the 2 networks have the accuracies of the paper's" in said


@pytest.mark.parametrize(
    ("training", "outcomes", "says"),
    [
        (
            [1, 1],
            ["either suffices", "edge alone suffices"],
            "The 2 networks .* different parts of",
        ),
        (
            [1, 1],
            ["either suffices", "either suffices"],
            "The 2 .* end alike here .either suffices",
        ),
        ([1, 0.5], ["either suffices", "neither suffices"], "The 1 .* end alike here .either"),
        ([0.5, 0], ["neither suffices", "neither suffices"], "No network is right on both"),
    ],
)
def test_the_message_is_that_of_the_networks_right_in_training(training, outcomes, says):
    table = {"head": "flatten", "training": training, "center": 1.0, "edge": 1.0, "share": 0.5}
    findings = _findings(pd.DataFrame(table | {"outcome": outcomes}))
    assert sum(bool(re.search(says, finding)) for finding in findings) == 1


def test_it_is_called_like_every_experiment():
    common = list(inspect.signature(figure_6).parameters.values())[:4]
    assert list(inspect.signature(figure_3).parameters.values()) == common


def test_the_findings_name_the_counts_and_the_papers_numbers(reproduction):
    text = " ".join(reproduction.findings)
    assert "100 % on the edge objects alone, 50 % on the center objects alone" in text
    for head in ("flatten", "pooling"):
        assert f"Of 2 networks with the head '{head}', 2 are right" in text
    assert "52 pixels in the center" in text
    assert "45 at the edge" in text
    assert reproduction.item == "figure-3"
