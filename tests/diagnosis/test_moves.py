"""Correlation, shifts and blurs are those of their definitions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from attributionlab.verdicts import blurred
from attributionlab.verdicts.diagnosis.likeness import best_shift, correlation, translated


@pytest.fixture
def maps(generator):
    return torch.randn(3, 1, 20, 26, generator=generator)


def test_the_correlation_is_pearsons(maps):
    other = maps + torch.roll(maps, 1, 3)
    for one, two, found in zip(maps, other, correlation(maps, other), strict=True):
        expected = np.corrcoef(one.flatten(), two.flatten())[0, 1]
        # Sums of 520 float32 products of about 1 / 520.
        assert float(found) == pytest.approx(expected, abs=1e-5)


def test_a_constant_is_like_nothing(maps):
    for level in (0.0, 1.0, 0.1):
        flat = torch.full_like(maps, level)
        assert correlation(maps, flat).tolist() == [0, 0, 0]
        assert correlation(flat, flat).tolist() == [0, 0, 0]


@given(st.integers(-8, 8), st.integers(-8, 8))
def test_what_moves_out_is_lost_and_zero_moves_in(dy, dx):
    maps = torch.arange(1.0, 1 + 12 * 9).reshape(1, 1, 12, 9)
    moved = translated(maps, dy, dx)
    for y in range(12):
        for x in range(9):
            inside = 0 <= y - dy < 12 and 0 <= x - dx < 9
            assert moved[0, 0, y, x] == (maps[0, 0, y - dy, x - dx] if inside else 0)


@given(st.integers(-6, 6), st.integers(-6, 6))
def test_a_shift_is_found(dy, dx):
    maps = torch.randn(2, 1, 20, 26, generator=torch.Generator().manual_seed(0))
    assert best_shift(translated(maps, dy, dx), maps) == (dy, dx)


def test_no_shift_is_found_where_there_is_nothing(maps):
    assert best_shift(torch.zeros_like(maps), maps) == (0, 0)
    assert best_shift(maps, torch.ones_like(maps)) == (0, 0)


@pytest.mark.parametrize("sigma", [1, 4, 12, 24])
def test_a_blur_mirrors_the_image_at_its_edges(maps, sigma):
    expected = ndimage.gaussian_filter(
        maps.numpy(), (0, 0, sigma, sigma), mode="reflect", truncate=8
    )
    # float32 sums of at most 26 terms, twice.
    assert blurred(maps, sigma).numpy() == pytest.approx(expected, abs=1e-5)
