"""Outputs along orders, areas and summaries agree with their definitions, written as loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn

import oracles_metrics
from attributionlab import metrics


@st.composite
def networks_and_orders(draw):
    """A network of small integers, for which float32 is exact, images and two orders for each."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    channels, height, width = draw(st.sampled_from([(1, 2, 3), (3, 4, 2), (2, 3, 3)]))
    model = nn.Sequential(
        nn.Conv2d(channels, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3)
    ).eval()
    model(torch.zeros(1, channels, height, width))
    for parameter in model.parameters():
        parameter.data = torch.randint(-2, 3, parameter.shape, generator=generator).float()
    images, others = torch.randint(0, 3, (2, 2, channels, height, width), generator=generator)
    orders = torch.rand(2, 2, height * width, generator=generator).argsort(2)
    targets = torch.randint(0, 3, (2,), generator=generator)
    return model, images.float(), others.float(), orders, targets


@pytest.mark.long
@given(networks_and_orders())
def test_outputs_along_orders_are_those_of_one_forward_pass_a_step(case):
    model, images, others, orders, targets = case
    got = metrics.outputs_along(model, images, targets, orders, replacement=others)
    assert got.dtype == torch.float64
    for i, (image, other, target) in enumerate(zip(images, others, targets, strict=True)):
        for order, curve in zip(orders[i].tolist(), got[i], strict=True):
            expected = oracles_metrics.outputs_along(model, image, other, order, int(target))
            assert curve.tolist() == expected


@pytest.mark.long
@given(networks_and_orders(), st.sampled_from([[0], [1, 3], [2, 5, 6], range(0, 7, 2)]))
def test_counts_choose_from_the_whole_curve_under_both_measures(case, counts):
    model, images, others, orders, targets = case
    for measure in ("output", "changed-steps"):
        settings = {"replacement": others, "measure": measure}
        whole = metrics.outputs_along(model, images, targets, orders, **settings)
        some = metrics.outputs_along(model, images, targets, orders, counts=counts, **settings)
        assert torch.equal(some.nan_to_num(-1), whole[..., list(counts)].nan_to_num(-1))


@given(networks_and_orders())
def test_changed_steps_are_counted_one_pixel_at_a_time(case):
    model, images, others, orders, targets = case
    got = metrics.outputs_along(
        model, images, targets, orders, replacement=others, measure="changed-steps"
    )
    for i, (image, other, target) in enumerate(zip(images, others, targets, strict=True)):
        for order, curve in zip(orders[i].tolist(), got[i], strict=True):
            outputs = oracles_metrics.outputs_along(model, image, other, order, int(target))
            expected = oracles_metrics.changed_so_far(outputs)
            if expected is None:
                assert curve.isnan().all()
            else:
                assert curve.tolist() == expected


@pytest.mark.parametrize("replacement", [7, 7.0, torch.tensor(7.0), torch.full((2, 1, 1), 7)])
def test_a_replacement_may_be_a_number_or_anything_that_broadcasts(replacement):
    images = torch.arange(8.0).reshape(1, 2, 2, 2)
    model = nn.Flatten()
    order, target = torch.tensor([[[3, 0, 1, 2]]]), torch.tensor([0])
    got = metrics.outputs_along(model, images, target, order, replacement=replacement)
    assert got.tolist() == [[[0, 0, 7, 7, 7]]]


@given(st.integers(1, 60), st.integers(1, 70))
def test_curves_are_known_at_multiples_of_the_step_and_at_the_end(pixels, step):
    expected = oracles_metrics.kept_steps(pixels, step)
    assert list(metrics.curve_counts(pixels, step)) == expected
    assert metrics.curve_fractions(pixels, step).tolist() == [count / pixels for count in expected]


def test_the_counts_of_a_whole_curve_are_a_range_which_costs_nothing():
    assert metrics.curve_counts(12) == range(13)
    assert metrics.curve_counts(12, 4) == range(0, 13, 4)


def test_a_step_may_be_any_integer_and_longer_than_the_curve():
    assert metrics.curve_counts(1000, np.int8(100)) == range(0, 1001, 100)
    assert len(metrics.curve_fractions(1000, np.int8(100))) == 11
    for huge in (10**18, 10**30):
        assert list(metrics.curve_counts(1000, huge)) == [0, 1000]
        assert metrics.curve_fractions(1000, huge).tolist() == [0, 1]


HEIGHTS = st.floats(-100, 100)


@given(hnp.arrays(np.float64, (2, 7), elements=HEIGHTS), st.integers(1, 8))
def test_areas_are_sums_of_trapezoids_over_steps_that_may_differ(curves, step):
    places = oracles_metrics.kept_steps(6, step)
    curves = curves[:, : len(places)]
    got = metrics.area_under_curve(torch.from_numpy(curves), metrics.curve_fractions(6, step))
    for area, heights in zip(got, curves.tolist(), strict=True):
        expected = oracles_metrics.area(heights, [place / 6 for place in places])
        # At most six products of magnitude 100 in float64.
        assert float(area) == pytest.approx(expected, abs=1e-11)


@given(hnp.arrays(np.float64, st.tuples(st.integers(2, 9), st.just(3)), elements=HEIGHTS))
def test_summaries_are_mean_deviation_and_quartiles_of_every_column(curves):
    got = metrics.summarize_curves(torch.from_numpy(curves))
    for column, values in enumerate(curves.T.tolist()):
        expected = oracles_metrics.summary(values)
        # Nine values up to 100; the root of a rounded square sum may be off by its own root.
        for name, value in zip(got._fields, expected, strict=False):
            assert float(getattr(got, name)[column]) == pytest.approx(value, abs=1e-6), name
        assert got.samples[column] == len(values)


def test_summaries_leave_out_what_is_not_applicable_and_count_the_rest():
    nan = math.nan
    curves = torch.tensor([[1.0, 2.0, nan], [nan, 4.0, nan], [5.0, nan, nan], [9.0, nan, nan]])
    got = metrics.summarize_curves(curves)
    assert got.samples.tolist() == [3, 2, 0]
    assert got.mean[:2].tolist() == [5, 3]
    assert got.median[:2].tolist() == [5, 3]
    assert got.lower_quartile[:2].tolist() == [3, 2.5]
    assert got.upper_quartile[:2].tolist() == [7, 3.5]
    assert got.standard_deviation[0] == 4
    for part in got[:-1]:
        assert part[2].isnan()


def test_a_single_sample_has_no_standard_deviation():
    got = metrics.summarize_curves(torch.tensor([[2.0]]))
    assert got.standard_deviation.isnan().all()
    assert got.mean.tolist() == got.median.tolist() == got.upper_quartile.tolist() == [2]
