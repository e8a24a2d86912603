"""Faithfulness correlation, estimate, monotonicity, non-sensitivity and sufficiency are as defined."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import oracles_metrics
import oracles_metrics_patches as oracles
from attributionlab import metrics
from small_networks import Squares, summing

SEEDS = st.integers(0, 2**31)


def drawn(seed, highest=2):
    """Model, images, targets, maps, replacement, labels of patches and the patches."""
    g = torch.Generator().manual_seed(seed)

    def integers(*shape):
        return torch.randint(-highest, highest + 1, shape, generator=g).float()

    labels = torch.randint(-1, 6, (3, 4), generator=g)
    labels[0, :3] = torch.tensor([0, 1, 2])
    patches = [p for n in range(6) if (p := (labels.flatten() == n).nonzero()[:, 0].tolist())]
    return (
        *(Squares(integers(3, 2, 3, 4)).eval(), integers(2, 2, 3, 4)),
        *(torch.randint(3, (2,), generator=g), integers(2, 1, 3, 4)),
        *(integers(2, 2, 1, 1), labels, patches),
    )


def drops_of(case, i):
    model, images, targets, _, replacement, _, patches = case
    other = replacement[i].expand(images[i].shape)
    return [
        oracles_metrics.loss(model, images[i], other, patch, int(targets[i])) for patch in patches
    ]


@pytest.mark.long
@given(SEEDS)
def test_scores_of_patches_are_their_definitions(seed):
    case = model, images, targets, maps, replacement, labels, patches = drawn(seed)
    call = (model, images, targets, maps)
    settings = {"replacement": replacement, "patches": labels}
    estimates, correlations, shares = [], [], []
    for i in range(2):
        values, drops = maps[i].flatten().tolist(), drops_of(case, i)
        sizes = oracles.sums_of([abs(value) for value in values], patches)
        changes = [abs(drop) for drop in drops]
        estimates.append(oracles.correlated(oracles.sums_of(values, patches), drops, ranked=False))
        correlations.append(oracles.correlated(sizes, changes, ranked=True))
        shares.append(oracles.one_without_the_other(sizes, changes, 0.25))
    # Correlations of at most six integers.
    close = {"abs": 1e-12, "nan_ok": True}
    assert metrics.faithfulness_estimate(*call, **settings).tolist() == pytest.approx(
        estimates, **close
    )
    found = metrics.monotonicity_correlation(*call, **settings).tolist()
    assert found == pytest.approx(correlations, **close)
    assert metrics.non_sensitivity(*call, **settings, tolerance=0.25).tolist() == shares


@given(SEEDS, st.integers(1, 11), st.integers(3, 6))
def test_faithfulness_correlation_is_that_of_subsets_of_one_size(seed, k, draws):
    model, images, targets, maps, replacement, *_ = drawn(seed)
    found = metrics.faithfulness_correlation(
        *(model, images, targets, maps),
        replacement=replacement,
        share=k / 12,
        draws=draws,
        seed=seed,
    )
    for i, orders in enumerate(oracles_metrics.permutations(2, draws, 12, seed)):
        other = replacement[i].expand(images[i].shape)
        values = maps[i].flatten().tolist()
        drops = [
            oracles_metrics.loss(model, images[i], other, order[:k], int(targets[i]))
            for order in orders
        ]
        expected = oracles_metrics.sensitivity(values, drops, orders, k)
        expected = math.nan if expected is None else expected
        # Correlations of at most six integers.
        assert float(found[i]) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(SEEDS, st.sampled_from([1, 2, 5]))
def test_monotonicity_says_whether_the_output_never_falls(seed, step):
    model, images, targets, maps, replacement, *_ = drawn(seed, highest=1)
    found = metrics.monotonicity(model, images, targets, maps, replacement=replacement, step=step)
    for i in range(2):
        order = oracles_metrics.removal_order(maps[i].flatten().tolist(), falling=False)
        start = replacement[i].expand(images[i].shape)
        outputs = oracles_metrics.outputs_along(model, start, images[i], order, int(targets[i]))
        kept = [outputs[count] for count in oracles_metrics.kept_steps(12, step)]
        assert float(found[i]) == float(kept == sorted(kept))


def test_monotonicity_finds_what_never_falls():
    total = summing(4)
    images = torch.tensor([[[[1.0, 0, 2, 3]]], [[[1.0, -1, 2, 3]]]])
    found = metrics.monotonicity(total, images, torch.tensor([0, 0]), images, replacement=0.0)
    assert found.tolist() == [1, 0]


@given(
    st.lists(st.lists(st.integers(-2, 2), min_size=4, max_size=4), min_size=1, max_size=6),
    st.sampled_from([0.0, 1.0, 2.0, 3.0]),
)
def test_sufficiency_is_the_share_of_similar_maps_with_the_same_answer(values, closeness):
    maps = torch.tensor(values).double().view(-1, 1, 2, 2)
    images = maps.roll(1, 0)
    model = nn.Flatten()  # answers where the largest value is
    targets = torch.zeros(len(maps), dtype=torch.int64)
    answers = [each.index(max(each)) for each in images.flatten(1).tolist()]
    expected = oracles.same_answers(values, answers, closeness)
    found = metrics.sufficiency(model, images, targets, maps, closeness=closeness)
    assert repr(found.tolist()) == repr(expected)  # quotients of integers


def test_maps_that_say_nothing_score_0_and_outputs_that_never_change_are_not_applicable():
    model, images, targets, maps, replacement, *_ = drawn(1)
    same = maps * 0 + 2
    cells = torch.arange(12).view(3, 4)  # of one pixel, so that equal values have equal sums
    for score, options in (
        (metrics.faithfulness_estimate, {"patches": cells}),
        (metrics.monotonicity_correlation, {"patches": cells}),
        (metrics.faithfulness_correlation, {}),
    ):
        settings = {"replacement": replacement, **options}
        assert score(model, images, targets, same, **settings).tolist() == [0, 0]
        still = score(model, images, targets, maps, **{**settings, "replacement": images})
        assert still.isnan().all()


def test_the_exact_map_of_a_sum_scores_best_on_any_scale():
    generator = torch.Generator().manual_seed(0)
    total = nn.Sequential(nn.Flatten(), nn.Linear(16, 1, bias=False)).double().eval()
    total[1].weight.data = torch.randn(1, 16, generator=generator, dtype=torch.float64)
    image = torch.ones(1, 1, 4, 4).double()
    exact = total[1].weight.data.view(1, 1, 4, 4)
    call = (total, image, torch.tensor([0]))
    for factor in (2.0**-500, 1.0, 2.0**500):
        # Sixteen float64 numbers; drops are differences of sums of them.
        settings = {"replacement": 0.0}
        maps = factor * exact
        for score in (metrics.faithfulness_correlation, metrics.faithfulness_estimate):
            assert float(score(*call, maps, **settings)) == pytest.approx(1, abs=1e-12)
        assert float(metrics.monotonicity_correlation(*call, -maps, **settings, patches=16)) <= 1
        assert metrics.non_sensitivity(*call, maps, **settings) == 0
    pixels = torch.arange(16).view(4, 4)
    found = metrics.monotonicity_correlation(*call, -exact, replacement=0.0, patches=pixels)
    assert found == 1
