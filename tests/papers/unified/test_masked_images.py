"""Masked images of a map that is known: which pixels are black, and how isolated they are."""

import numpy as np
import pytest
import torch

from attributionlab import AttributionLabError
from attributionlab.papers import reproduce
from attributionlab.papers.catalog import Run
from attributionlab.papers.subjects.subjects import of_images
from attributionlab.papers.unified import masked_images as module
from own_network import own_network

ITEM, SIDE = "unified-figure-5", 10
MASKED, REFERENCE = 18, 24  # of 100 pixels


@pytest.fixture
def outcome(monkeypatch):
    """Two images, explained by themselves: the brightest pixels are the rows at the bottom."""
    ramp = (1 + torch.arange(SIDE**2).float()).view(1, 1, SIDE, SIDE).expand(2, 1, -1, -1) / 100
    subject = of_images(
        "made up", torch.nn.Identity(), ramp, torch.zeros(2).long(), ramp[0, :, :1, :1]
    )
    monkeypatch.setattr(module.subjects, "trained_subject", lambda n, training, seed: subject)
    monkeypatch.setattr(module.subjects, "maps_of", lambda subject, name, seed: subject.images)
    return module.masked_images(Run(ITEM, n=2), training=1)


def isolation(black):
    """Mean share of the up to eight neighbors of a black pixel that are not black."""
    shares = []
    for y, x in zip(*np.nonzero(black), strict=True):
        around = black[max(0, y - 1) : y + 2, max(0, x - 1) : x + 2]
        shares.append((around.size - around.sum()) / (around.size - 1))
    return np.mean(shares)


def test_masked_pixels_are_black_and_their_isolation_is_counted(outcome):
    cells = [axis.images[0].get_array().squeeze() for axis in outcome.figures["masked"].axes]
    image, black = cells[0], [cell == 0 for cell in cells]
    table = outcome.tables["isolation"].set_index("order")
    assert (table.masked == 0.18).all()
    for row, name in enumerate((module.RANDOM, module.WITHIN, module.GRADCAM), start=1):
        drawn = black[2 * row : 2 * row + 2]
        assert [each.sum() for each in drawn] == [MASKED] * 2
        assert np.array_equal(cells[2 * row][~drawn[0]], image[~drawn[0]])
        expected = np.mean([isolation(each) for each in drawn])
        assert table.isolation[name] == pytest.approx(expected, abs=1e-12)
    within, by_map = black[4].ravel(), black[6].ravel()
    assert by_map[-MASKED:].all()
    assert not within[:-REFERENCE].any()
    assert not np.array_equal(within, by_map)


def test_the_claim_follows_the_isolation(outcome, answers):
    table = outcome.tables["isolation"]
    for values, expected in (((0.8, 0.5, 0.3), "agrees"), ((0.8, 0.2, 0.3), "differs")):
        assert answers(ITEM, {"isolation": table.assign(isolation=values)}) == [expected]


def test_a_given_network_needs_a_layer(tmp_path):
    own = own_network(tmp_path, number=1)
    with pytest.raises(AttributionLabError, match="layer is None, and GradCAM explains by one"):
        reproduce(ITEM, n=1, settings=own)
    found = reproduce(ITEM, n=1, settings=own | {"layer": "1"})
    assert found.tables["isolation"].images.tolist() == [2, 2, 2]
    assert "is right on" in found.notes[-1]
