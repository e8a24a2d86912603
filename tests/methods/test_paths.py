"""Integrated gradients agree with their formula, fit into memory, and know how far they are off."""

import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab import methods
from attributionlab.methods import (
    collect_notices,
    integrated_gradients,
    integrated_gradients_exact,
    summarized,
)
from random_chains import INPUTS, TARGETS, Square


@pytest.mark.parametrize("baseline", [0.0, 2.0])
def test_integrated_gradients_of_a_quadratic_are_exact(baseline):
    start = torch.full((1, 1, 1), baseline)
    inputs = INPUTS.clone()
    if baseline:
        got = methods.integrated_gradients_true_baseline(Square(), inputs, TARGETS, baseline=start)
    else:
        got = integrated_gradients(Square(), inputs, TARGETS)
    # The gradient is linear along the path, so its mean is the gradient at the midpoint.
    expected = (INPUTS - start) * Square.gradient((INPUTS + start) / 2)
    # 50 float32 terms of at most 60: 50 * 60 * 2^-24 < 2e-4.
    torch.testing.assert_close(got, expected, rtol=0, atol=2e-4)
    assert torch.equal(inputs, INPUTS)
    assert not got.requires_grad


# The exact integral


def exactly(model, inputs, start, targets, **settings):
    with collect_notices() as findings:
        maps = integrated_gradients_exact(model, inputs, targets, baselines=start, **settings)
    assert all(finding.text for finding in findings)
    assert [finding.kind for finding in findings] == ["completeness", "error", "error"]
    (gaps,) = [list(finding.gaps) for finding in findings if finding.gaps]
    assert "inf" not in " ".join(summarized(findings))
    return maps, gaps, summarized(findings)


def rectified(weight):
    """A chain of a layer and a ReLU, with the identity before the sum of its outputs."""
    last = nn.Linear(2, 1)
    last.weight.data, last.bias.data = torch.tensor([weight]), torch.tensor([1.0])
    return nn.Sequential(nn.Flatten(), nn.ReLU(), last)


def test_an_output_that_does_not_change_is_no_gap_where_attributions_cancel():
    one, other = torch.tensor([[[[0.0, 3.0]]]]), torch.tensor([[[[3.0, 0.0]]]])
    maps, gaps, said = exactly(rectified([1.0, 1.0]), one, other, torch.tensor([0]))
    assert maps.flatten().tolist() == [-3.0, 3.0]
    assert gaps == [0.0]
    assert said == []


@pytest.mark.parametrize("model", [Square(), rectified([0.0, 0.0])])
def test_nothing_is_told_where_baseline_and_input_are_the_same(model):
    one = torch.tensor([[[[1.0, 3.0]]]]) if isinstance(model, nn.Sequential) else INPUTS[:1]
    maps, gaps, said = exactly(model, one, one, torch.tensor([0]))
    assert not maps.any()
    assert gaps == [0.0]
    assert said == []


def test_equal_counts_in_an_environment_are_no_error():
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(2)
    # Mirrored, every color keeps its count.
    maps, gaps, said = exactly(env.softmax_model, images, images.flip(-1), labels)
    assert maps.any()
    assert max(gaps) < 1e-9  # rounding in float64
    assert said == []


def test_too_few_panels_are_told_in_words_without_an_infinite_number():
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(1)
    black = torch.zeros_like(images)
    _, _, said = exactly(env.model, images, black, labels, max_panels=1)
    assert said == [
        "attributions of 1 image are integrated with an unbounded error: raise max_panels "
        "or max_evaluations"
    ]


def test_a_coarse_integral_is_told_as_a_share_of_the_change():
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(1)
    black = torch.zeros_like(images)
    _, gaps, said = exactly(env.model, images, black, labels, max_panels=16)
    assert said == [
        # `path_integral` estimates 3.88, of a change of 14.
        "attributions of 1 image are integrated with an estimated error of up to 28% of the output "
        "change: raise max_panels or max_evaluations"
    ]
    # Rounding in float64: fewer than 2^13 sums follow each other (1,728 attributions; panels and layers
    # have fewer terms), of terms whose sizes sum to 3.3 changes.
    assert max(gaps) < 3.3 * 2**13 * 2.0**-53
