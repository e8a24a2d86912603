"""Panels are split at the roots of the neurons and nowhere else."""

import pytest
import torch

from attributionlab.base.exact.integrals import segments

POINTS = torch.tensor([0.0, 0.5, 1.0]).double()
NOTHING = torch.zeros(3).double()


def values(*neurons):
    return torch.tensor(neurons).double().T


def test_a_root_is_added_by_linear_interpolation():
    neurons = values((-1.0, 3.0, 3.0), (2.0, 2.0, -2.0), (1.0, 0.0, 1.0))
    refinement = segments.refine(POINTS, neurons, NOTHING, segments.FINEST)
    assert refinement.points.tolist() == [0.0, 0.125, 0.5, 0.75, 1.0]
    assert refinement.before.tolist() == [0, 0, 1, 1, 2]
    assert refinement.share.tolist() == [0.0, 0.25, 0.0, 0.5, 0.0]
    inside = refinement.interpolate(neurons, 1, 4)
    assert inside.T.tolist() == [[0.0, 3, 3, 3], [2.0, 2, 0, -2], [0.75, 0, 0.5, 1]]


def test_a_root_at_a_point_is_there_already():
    neurons = values((0.0, 3.0, 0.0), (1.0, 0.0, -1.0), (-1.0, 0.0, 0.0))
    assert torch.equal(segments.refine(POINTS, neurons, NOTHING, segments.FINEST).points, POINTS)


def test_what_rounding_may_have_done_is_no_root():
    neurons = values((-1e-17, 1.0, 1.0), (1.0, 1e-17, -1e-17), (2e-3, -2e-3, 1.0))
    rounding = torch.tensor([1e-16, 1e-16, 1e-3]).double()
    points = segments.refine(POINTS, neurons, rounding, segments.FINEST).points
    assert points.tolist() == pytest.approx([0.0, 0.25, 0.5, 0.5 + 0.001 / 1.002, 1.0])


@pytest.mark.parametrize("gap", [segments.FINEST, 1e-3, 0.1])
def test_roots_within_a_gap_are_one(gap):
    shares = torch.cat([torch.linspace(0.01, 0.99, 50), torch.linspace(0.4, 0.4 + gap, 50)])
    neurons = torch.stack([-shares.double(), 1 - shares.double()])
    points = segments.refine(POINTS[[0, 2]], neurons, torch.zeros(100).double(), gap).points
    assert points.diff().min() > 0
    assert len(points) <= 2 + min(100, 1 / gap)
    assert points[1] > gap
    assert points[-2] < 1 - gap
    # No root is further from a point than a gap.
    distance = (shares.double()[:, None] - points).abs().amin(1)
    assert distance.max() <= gap


def test_roots_that_differ_by_rounding_are_one():
    slopes = torch.arange(1.0, 200.0).double()
    neurons = torch.stack([-slopes * 0.3, slopes * 0.7])
    points = segments.refine(
        POINTS[[0, 2]], neurons, torch.zeros(199).double(), segments.FINEST
    ).points
    # A cell of the grid may end among them, so one root may still become two.
    assert len(points) in (3, 4)


def test_a_neuron_is_on_for_its_share_of_the_panel():
    neurons = values((-1.0, 3.0, 3.0), (2.0, 2.0, -2.0), (0.0, 0.0, 1.0), (-1.0, 0.0, -1.0))
    share = segments.active_share(neurons, torch.zeros(4).double())
    assert share.T.tolist() == [[0.75, 1.0], [1.0, 0.5], [0.0, 1.0], [0.0, 0.0]]


def test_a_neuron_at_zero_up_to_rounding_is_off():
    neurons = values((1e-17, 1e-17, 1e-17), (1e-17, 1.0, 1.0))
    share = segments.active_share(neurons, torch.full((2,), 1e-16).double())
    assert share.T.tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_effort_ends():
    effort = segments.Effort(segments.FINEST, most=5, panels=3)
    effort.check(2)
    with pytest.raises(segments.TooManyKinksError):
        effort.check(3)
