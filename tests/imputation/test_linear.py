"""Noisy linear imputation: against dense solves, its limits, its noise and what it refuses."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracles_imputation
from attributionlab.metrics.imputation import noisy_linear, noisy_linear_1d


def kept_mask(kind, height, width, share, draw):
    """At least one pixel is kept; blobs leave large holes, lines leave narrow ones."""
    y, x = np.mgrid[:height, :width]
    if kind == "noise":
        rank = draw.random((height, width))
    elif kind == "blobs":
        centers = draw.random((3, 2)) * [height, width]
        rank = np.min([np.hypot(y - a, x - b) for a, b in centers], axis=0)
    elif kind == "lines":
        rank = (y % 3 + draw.random((height, width)) * 0.1).astype(float)
    else:  # only a corner is known
        rank = np.hypot(y, x)
    order = rank.ravel().argsort().argsort().reshape(height, width)
    return order < max(1, round(share * height * width))


@given(
    st.sampled_from(["noise", "blobs", "lines", "corner"]),
    st.integers(1, 20),
    st.integers(1, 20),
    st.floats(0, 1),
    st.integers(0, 2**32 - 1),
)
def test_removed_pixels_are_those_of_a_dense_solve(kind, height, width, share, seed):
    draw = np.random.default_rng(seed)
    images = torch.from_numpy(draw.random((2, 3, height, width)))
    keep = torch.from_numpy(np.stack([kept_mask(kind, height, width, share, draw) for _ in "ab"]))
    filled = noisy_linear(images, keep[:, None], noise=0, tolerance=1e-7)
    for image, kept, got in zip(images.numpy(), keep.numpy(), filled.numpy(), strict=True):
        # The dense solve itself: 2^-53 times a condition number of at most (20 * 20)^2.
        expected = oracles_imputation.linear_imputation(image, ~kept)
        assert np.abs(got - expected).max() <= 1e-7 + 1e-10
        assert (got[:, kept] == image[:, kept]).all()


@pytest.mark.parametrize("kind", ["noise", "blobs", "lines", "corner"])
@pytest.mark.parametrize("share", [0.003, 0.3])
def test_large_images_are_solved_to_the_tolerance(kind, share):
    draw = np.random.default_rng(1)
    image = 255 * draw.random((1, 2, 90, 70))
    kept = kept_mask(kind, 90, 70, share, draw)
    filled = noisy_linear(
        torch.from_numpy(image),
        torch.from_numpy(kept)[None, None],
        noise=0,
        value_range=255,
        tolerance=1e-5,
    )
    expected = oracles_imputation.sparse_imputation(image[0], ~kept)
    assert np.abs(filled[0].numpy() - expected).max() <= 255e-5


def test_a_constant_image_stays_what_it_is():
    images = torch.full((1, 3, 17, 8), 0.7)
    keep = torch.zeros(1, 1, 17, 8, dtype=torch.bool)
    keep[..., 3, 4] = True
    assert torch.equal(noisy_linear(images, keep, noise=0), images)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-12])
def test_values_lie_between_those_that_are_kept(tolerance, generator):
    # Mostly 1, or mostly 0
    share = torch.tensor([0.99, 0.99, 0.01, 0.01])[:, None, None, None]
    images = (torch.rand(4, 1, 30, 30, generator=generator) < share).double()
    keep = torch.rand(4, 1, 30, 30, generator=generator) < 0.5
    filled = noisy_linear(
        torch.where(keep, images, 5 - 10 * images), keep, noise=0, tolerance=tolerance
    )
    assert float(filled.min()) >= 0
    assert float(filled.max()) <= 1


def test_two_threads_do_what_one_does(generator):
    images, start = torch.rand(2, 5, 3, 20, 20, generator=generator)
    keep = torch.rand(5, 1, 20, 20, generator=generator) < 0.3
    filled = []
    for threads in (2, 1):
        torch.set_num_threads(threads)
        seeded = torch.Generator().manual_seed(0)
        filled.append(noisy_linear(images, keep, noise=0.1, generator=seeded, start=start))
    assert torch.equal(*filled)


def test_an_image_alone_is_what_it_is_in_a_batch(generator):
    image = torch.rand(1, 3, 20, 20, generator=generator)
    keep = torch.rand(5, 1, 20, 20, generator=generator) < 0.3
    together = noisy_linear(image, keep, noise=0)
    alone = torch.cat([noisy_linear(image, each[None], noise=0) for each in keep])
    assert torch.equal(together, alone)
    repeated = noisy_linear(image.expand(5, -1, -1, -1), keep, noise=0)
    assert torch.equal(repeated, together)
    one_mask = noisy_linear(image.expand(2, -1, -1, -1), keep[:1], noise=0)
    assert torch.equal(one_mask, together[[0, 0]])


def test_a_start_changes_no_more_than_the_tolerance_allows(generator):
    images = torch.rand(1, 2, 30, 30, generator=generator).double()
    keep = torch.rand(1, 1, 30, 30, generator=generator) < 0.1
    cold = noisy_linear(images, keep, noise=0, tolerance=1e-6)
    for start in (cold, 1e3 * torch.randn(1, 2, 30, 30, generator=generator).double()):
        warm = noisy_linear(images, keep, noise=0, tolerance=1e-6, start=start)
        assert float((warm - cold).abs().max()) <= 2e-6
    # Of a start beyond all values nothing remains, not even in what rounding allows.
    far = noisy_linear(images, keep, noise=0, tolerance=1e-6, start=torch.full_like(cold, 1e200))
    assert float((far - cold).abs().max()) <= 2e-6
    # What is already solved is within the tolerance.
    exact = noisy_linear(images, keep, noise=0, tolerance=1e-12)
    again = noisy_linear(images, keep, noise=0, tolerance=1e-6, start=exact)
    assert torch.equal(again, exact)


@pytest.mark.parametrize("factor", [2.0**8, 2.0**490, 2.0**-490])
def test_scales_of_values_do_not_matter(factor, generator):
    images = torch.rand(1, 1, 16, 16, generator=generator).double()
    keep = torch.rand(1, 1, 16, 16, generator=generator) < 0.2
    plain = noisy_linear(images, keep, noise=0)
    # A power of two, so that every product and sum is that of the plain ones, scaled.
    scaled = noisy_linear(factor * images, keep, noise=0, value_range=factor)
    assert torch.equal(scaled, factor * plain)


def test_values_far_larger_than_the_tolerance_are_solved_as_well_as_rounding_allows(generator):
    images = 1e60 * torch.rand(1, 1, 16, 16, generator=generator).double()
    keep = torch.rand(1, 1, 16, 16, generator=generator) < 0.2
    filled = noisy_linear(images, keep, noise=0, tolerance=1e-12)
    expected = oracles_imputation.linear_imputation(images[0].numpy(), ~keep[0, 0].numpy())
    # Roundings of 2^-52, times the inverse's row sums: at most 2 * 16^2
    assert np.abs(filled[0].numpy() - expected).max() <= 1e60 * 2 * 16**2 * 2.0**-52


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_short_types_are_solved_in_long_ones_and_rounded_once(dtype, generator):
    images = torch.rand(2, 3, 12, 9, generator=generator).to(dtype)
    keep = torch.rand(2, 1, 12, 9, generator=generator) < 0.4
    for noise in (0, 0.1):
        short, long = (
            noisy_linear(
                each, keep, noise=noise, generator=torch.Generator().manual_seed(0), start=each
            )
            for each in (images, images.double())
        )
        assert short.dtype == dtype
        assert torch.equal(short, long.to(dtype))


def test_callers_may_share_threads(generator):
    images = torch.rand(4, 1, 20, 20, generator=generator)
    keep = torch.rand(4, 1, 20, 20, generator=generator) < 0.3
    with ThreadPoolExecutor(4) as pool:
        filled = list(
            pool.map(lambda i: noisy_linear(images[i : i + 1], keep[i : i + 1], noise=0), range(4))
        )
    assert torch.equal(torch.cat(filled), noisy_linear(images, keep, noise=0))


def test_noise_is_that_of_the_value_range_and_only_where_pixels_were_removed():
    images = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(1)).double()
    keep = torch.rand(1, 1, 64, 64, generator=torch.Generator().manual_seed(2)) < 0.5
    plain = noisy_linear(images, keep, noise=0, value_range=255)
    noisy = noisy_linear(
        images, keep, noise=0.02, value_range=255, generator=torch.Generator().manual_seed(3)
    )
    drawn = torch.randn(
        images.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )
    assert torch.equal(noisy, torch.where(keep, images, plain + 0.02 * 255 * drawn))
    assert noisy_linear(images.float(), keep, noise=0).dtype == torch.float32


@given(st.integers(1, 30), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_rows_are_interpolated_between_known_neighbors(count, share, seed):
    draw = np.random.default_rng(seed)
    rows, keep = draw.random((3, count)), draw.random((3, count)) < share
    keep[:, draw.integers(count)] = True
    filled = noisy_linear_1d(torch.from_numpy(rows), torch.from_numpy(keep), noise=0).numpy()
    place = np.arange(count)
    for row, kept, got in zip(rows, keep, filled, strict=True):
        # A few roundings of numbers below 1
        assert np.abs(got - np.interp(place, place[kept], row[kept])).max() <= 8 * 2.0**-53
        assert (got[kept] == row[kept]).all()


def test_rows_get_noise_of_the_value_range_where_features_were_removed():
    rows, keep = torch.zeros(2, 5).double(), torch.tensor([[True, False, True, False, False]] * 2)
    got = noisy_linear_1d(rows, keep, value_range=4, generator=torch.Generator().manual_seed(0))
    drawn = torch.randn(2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.equal(got, torch.where(keep, rows, 0.04 * drawn))
