"""Noise of a map is what its definition says, counted pixel by pixel."""

import math

import pytest
import torch

import oracles_photographs as oracles
from attributionlab.papers.attributionlab.map_noise import (
    scattered_share,
    sign_changes,
    total_variation,
)


@pytest.fixture
def maps(generator):
    """Of both signs, with exact zeros, and one without positive values; halves are exact."""
    drawn = torch.randint(-6, 7, (6, 1, 5, 4), generator=generator) / 2
    drawn[4] = -drawn[4].abs()
    drawn[5] = 0
    return drawn


def test_total_variation_is_its_definition(maps):
    expected = [oracles.total_variation(each[0].tolist()) for each in maps]
    # float64: 31 terms and a division, each rounded by at most 2^-53
    assert total_variation(maps).tolist() == pytest.approx(expected, rel=1e-14)
    assert expected[5] == 0


def test_total_variation_knows_no_scale(maps):
    assert torch.equal(total_variation(4 * maps), total_variation(maps))
    assert torch.equal(total_variation(-maps), total_variation(maps))


def test_the_largest_total_variation_is_that_of_a_checkerboard():
    board = (torch.arange(4)[:, None] + torch.arange(5)) % 2 * 2.0 - 1
    assert total_variation(board[None, None]).tolist() == [2]
    assert total_variation(torch.full((1, 1, 3, 3), -0.5)).tolist() == [0]


def test_the_scattered_share_is_its_definition(maps):
    expected = [oracles.scattered_share(each[0].tolist()) for each in maps]
    assert [math.isnan(share) for share in expected[4:]] == [True, True]
    # float64: sums of at most 20 halves are exact, one division and one difference are rounded
    assert scattered_share(maps).tolist() == pytest.approx(expected, abs=1e-15, nan_ok=True)


def test_the_main_region_has_the_largest_sum_and_touches_by_sides_alone():
    corner = torch.tensor([[[[2.0, 0.0], [0.0, 2.0]]]])
    assert scattered_share(corner).tolist() == [0.5]
    wide = torch.tensor([[[[4.0, 0.0, 3.0, 3.0, -9.0]]]])
    assert scattered_share(wide).tolist() == [pytest.approx(0.4)]
    half = torch.tensor([[[[4.0, 2.0, 1.0, 1.0]]]])
    assert scattered_share(half).tolist() == [0.25]


def test_sign_changes_are_their_definition(maps, generator):
    everywhere = torch.ones_like(maps, dtype=torch.bool)
    within = torch.rand(maps.shape, generator=generator) < 0.6
    within[3] = False
    for where in (everywhere, within):
        expected = [
            oracles.sign_changes(each[0].tolist(), inside[0].tolist())
            for each, inside in zip(maps, where, strict=True)
        ]
        assert sign_changes(maps, where).tolist() == pytest.approx(expected, nan_ok=True)
    assert torch.equal(sign_changes(maps), sign_changes(maps, everywhere))
    assert math.isnan(sign_changes(maps, within)[3])
