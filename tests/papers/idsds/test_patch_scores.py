"""Scores of maps patch by patch, by drops of outputs and by the data."""

import numpy as np
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.metrics import patch_sums
from attributionlab.papers.idsds.maps import (
    LOGIT,
    OUTPUTS,
    PROBABILITY,
    TRUTH,
    interval_over_images,
    panel_maps,
    panel_scores,
    references,
)

SIDE = 8


def linear(seed, classes=3):
    """Logits that are weighted sums of pixels."""
    layer = nn.Linear(3 * SIDE**2, classes, bias=False)
    draw = torch.randn(layer.weight.shape, generator=torch.Generator().manual_seed(seed))
    layer.weight = nn.Parameter(draw)
    return nn.Sequential(nn.ReLU(), nn.Flatten(), layer).eval()


@pytest.fixture
def asked():
    """A linear network, four images and their labels."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(4, 3, SIDE, SIDE, generator=generator)
    return linear(0), images, torch.randint(3, (4,), generator=generator)


def truth_of(images):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(-1, 2, (len(images), 1, SIDE, SIDE), generator=generator).float()


def scored(asked, held, method, output=LOGIT):
    return panel_scores(
        *(*asked, held, (method,)),
        outputs=(output,),
        patches=16,
        layer=None,
        seed=0,
        quick=True,
    )


def test_maps_can_be_held_against_drops_of_either_output_and_the_truth(asked):
    network, images, labels = asked
    held = references(*asked, truth_of(images), patches=16, replacement=0.0)
    assert list(held) == [*OUTPUTS, TRUTH]
    assert torch.equal(held[TRUTH], patch_sums(truth_of(images), 16))
    label = int(labels[1])
    for cell in (0, 7, 15):
        without = images[1].clone()
        top, left = cell // 4 * 2, cell % 4 * 2
        without[:, top : top + 2, left : left + 2] = 0
        with torch.no_grad():
            logits = network(torch.stack([images[1], without]))
        for name, outputs in zip(OUTPUTS, (logits, logits.softmax(1)), strict=True):
            drop = float(outputs[0, label] - outputs[1, label])
            # float32 in batches of other sizes: some 200 products of the order of 1
            assert float(held[name][1, cell]) == pytest.approx(drop, abs=1e-4)
    assert TRUTH not in references(*asked, None, patches=16, replacement=0.0)
    assert list(references(*asked, None, outputs=(LOGIT,), patches=16, replacement=0.0)) == [LOGIT]


def test_scores_are_those_of_the_metric_where_maps_or_drops_are_constant_too(asked):
    network, images, labels = asked
    images[1], images[3] = 0, 0  # nothing to delete: all drops are 0, and so is the map
    held = references(*asked, None, outputs=(LOGIT,), patches=16, replacement=0.0)
    held[LOGIT][1] = torch.arange(16)
    found = scored(asked, held, "saliency")
    maps = panel_maps(*asked, ("saliency",), layer=None, seed=0, quick=True)["saliency"]
    metric = al.metrics.single_deletion(network, images, labels, maps, patches=16, replacement=0.0)
    assert np.array_equal(found.score[[0, 2, 3]], metric.scores[[0, 2, 3]], equal_nan=True)
    assert found.constant_drops.tolist() == [False, False, False, True]
    flat = scored(asked, held, "input-x-gradient")
    assert flat.score[1] == 0
    assert np.isnan(flat.score[3])
    assert flat.constant_maps.tolist() == [False, True, False, False]


def test_maps_of_the_logit_of_a_linear_network_have_the_order_of_its_drops(asked):
    held = references(*asked, None, patches=16, replacement=0.0)
    found = scored(asked, held, "input-x-gradient").groupby("against").score
    assert found.get_group(LOGIT).tolist() == [1] * 4
    other = scored(asked, held, "input-x-gradient", PROBABILITY).groupby("against").score
    assert (other.get_group(LOGIT) < 1).all()


def test_fewer_than_six_images_allow_no_interval():
    values = np.arange(6.0)
    low, high = interval_over_images(values, 0)
    assert 0 <= low < 2.5 < high <= 5
    values[0] = np.nan
    assert np.isnan(interval_over_images(values, 0)).all()
