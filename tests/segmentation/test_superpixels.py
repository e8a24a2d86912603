"""Superpixels are a partition, under contiguous labels, and see the image as they should."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attributionlab import AttributionLabError
from attributionlab.base.segmentation import felzenszwalb, grid, quickshift, slic
from attributionlab.base.segmentation.superpixels import as_rgb, contiguous

ALGORITHMS = [felzenszwalb, grid, quickshift, slic]


@pytest.fixture
def halves():
    """Red on the left, green on the right."""
    image = torch.zeros(3, 24, 30)
    image[0, :, :15] = 255
    image[1, :, 15:] = 255
    return image


def is_contiguous(labels):
    return labels.unique().tolist() == list(range(int(labels.max()) + 1))


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.__name__)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_pixel_gets_one_of_the_labels_0_to_s_minus_1(algorithm, channels, generator):
    image = torch.randint(256, (channels, 24, 30), generator=generator).float()
    labels = algorithm(image, 255)
    assert labels.shape == (24, 30)
    assert labels.dtype == torch.int64
    assert is_contiguous(labels)
    assert torch.equal(labels, algorithm(image, 255))


@pytest.mark.parametrize("algorithm", [felzenszwalb, quickshift, slic], ids=lambda a: a.__name__)
def test_no_superpixel_crosses_the_border_between_two_colors(algorithm, halves):
    settings = {"ratio": 1.0} if algorithm is quickshift else {}
    settings |= {"sigma": 0.0} if algorithm is felzenszwalb else {}
    labels = algorithm(halves, 255, **settings)
    assert not set(labels[:, :15].flatten().tolist()) & set(labels[:, 15:].flatten().tolist())


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.__name__)
@pytest.mark.parametrize("channels", [1, 3])
def test_only_the_share_of_the_highest_value_counts(algorithm, channels, generator):
    image = torch.randint(2, (channels, 20, 20), generator=generator).float()
    assert torch.equal(algorithm(image, 1), algorithm(255 * image, 255))


def test_a_gray_image_is_seen_as_three_equal_channels(generator):
    gray = torch.randint(256, (1, 5, 7), generator=generator).float()
    rgb = as_rgb(gray, 255)
    assert rgb.shape == (5, 7, 3)
    assert all((rgb[..., k] == gray[0].double().numpy() / 255).all() for k in range(3))
    for algorithm in ALGORITHMS:
        large = gray.repeat(1, 4, 4)
        assert torch.equal(algorithm(large, 255), algorithm(large.expand(3, -1, -1), 255))


@pytest.mark.parametrize(
    ("algorithm", "few", "many"),
    [
        (quickshift, {"max_dist": 200.0}, {"max_dist": 3.0}),
        (quickshift, {"kernel_size": 8.0}, {"kernel_size": 1.0}),
        (quickshift, {"max_dist": 10.0, "ratio": 0.0}, {"max_dist": 10.0, "ratio": 1.0}),
        (felzenszwalb, {"scale": 1000.0}, {"scale": 0.1}),
        (felzenszwalb, {"min_size": 200}, {"min_size": 1}),
        (felzenszwalb, {"sigma": 5.0}, {"sigma": 0.0}),
    ],
)
def test_each_setting_reaches_its_algorithm(algorithm, few, many, generator):
    image = torch.randint(256, (3, 30, 30), generator=generator).float()
    assert int(algorithm(image, 255, **few).max()) < int(algorithm(image, 255, **many).max())


def test_the_settings_of_slic_reach_it():
    rows, columns = torch.meshgrid(torch.arange(30.0), torch.arange(30.0), indexing="ij")
    waves = torch.stack([rows.sin(), columns.cos(), (rows * columns).sin()]) * 100 + 120
    plain = slic(waves, 255)
    assert int(slic(waves, 255, n_segments=4).max()) < int(plain.max())
    assert not torch.equal(plain, slic(waves, 255, compactness=1.0))
    assert not torch.equal(plain, slic(waves, 255, sigma=3.0))


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_cells_of_a_grid_are_equal_up_to_one_pixel(height, width, data):
    cells = data.draw(st.integers(1, min(height, width)))
    labels = grid(torch.zeros(2, height, width), 1, cells=cells)
    assert is_contiguous(labels)
    assert int(labels.max()) + 1 == cells**2
    rows, columns = set(), set()
    for label in range(cells**2):
        y, x = (labels == label).nonzero().unbind(1)
        extent = int(y.max() - y.min() + 1), int(x.max() - x.min() + 1)
        assert extent[0] * extent[1] == len(y)
        rows.add(extent[0])
        columns.add(extent[1])
    assert rows <= {height // cells, -(-height // cells)}
    assert columns <= {width // cells, -(-width // cells)}


def test_labels_are_renamed_and_not_merged():
    got = contiguous(torch.tensor([[7, 7], [-3, 40]]), torch.zeros(1))
    assert got.tolist() == [[1, 1], [0, 2]]


@pytest.mark.parametrize(
    ("algorithm", "settings", "message"),
    [
        (quickshift, {"kernel_size": 0.5}, "kernel_size is 0.5: take a number of at least 1 and"),
        (quickshift, {"ratio": 2}, "ratio is 2: take a number of at least 0 and of at most 1"),
        (
            quickshift,
            {"max_dist": -1, "ratio": -1},
            "max_dist is -1: .* at least 0; ratio is -1: .* at least 0",
        ),
        (felzenszwalb, {"scale": -1.0}, "scale is -1.0: take a number of at least 0"),
        (felzenszwalb, {"sigma": float("nan")}, "sigma is nan"),
        (felzenszwalb, {"min_size": -2}, "min_size is -2"),
        (slic, {"n_segments": 0}, "n_segments is 0"),
        (slic, {"compactness": 0.0}, "compactness is 0.0: take a number above 0"),
        (slic, {"sigma": -1.0}, "sigma is -1.0"),
        (grid, {"cells": 0}, "cells is 0: take an integer of at least 1"),
        (grid, {"cells": 25}, "cells is 25: take an integer from 1 to 24"),
    ],
)
def test_settings_out_of_range_are_refused(algorithm, settings, message, halves):
    with pytest.raises(AttributionLabError, match=message):
        algorithm(halves, 255, **settings)


def test_an_image_that_is_none_is_refused(halves):
    with pytest.raises(
        AttributionLabError, match="the image has 2 channels: superpixels need 1 or 3"
    ):
        quickshift(halves[:2], 255)
    with pytest.raises(AttributionLabError, match="values from 0 to 255 where highest is 1: pass"):
        quickshift(halves, 1)
    with pytest.raises(AttributionLabError, match="values from -1 to 254"):
        quickshift(halves - 1, 255)
