"""What is shared between maps and conditions changes no score."""

import functools
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import nnls

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.metric_trials.case import DRAWS, Case, Seen
from attributionlab.metric_trials.evaluations import METRICS, _cells, as_metric, squared_misfit
from attributionlab.metric_trials.shares import LEVELS
from attributionlab.metrics import completeness_curve, ids, magnitudes, metric, sds, soundness_at
from attributionlab.metrics.localization import (
    pointing_game,
    relevance_mass_accuracy,
    relevance_rank_accuracy,
)
from attributionlab.metrics.perturbation import deletion, insertion, pixel_flipping
from attributionlab.metrics.sensitivity import sensitivity_n
from attributionlab.truth import Truth


@pytest.fixture(scope="module")
def seen():
    """Twenty maps of one image, among them a constant one, under the Unseen Data Effect."""
    env = al.load("multi-color-sum", image_size=12)
    images, labels = env.batch(1)
    truth = env.truth(images, labels)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(18, 1, 12, 12, generator=generator)
    maps = torch.cat([truth.signed.float(), torch.full((1, 1, 12, 12), 0.1), noise])
    case = Case(images[0], labels, maps, truth, 5)
    return Seen(case, env.softmax_model, torch.zeros(3, 12, 12))


def one_by_one(function, seen, **settings):
    case = seen.case
    return [
        float(
            function(
                seen.model,
                case.image[None],
                case.target,
                each[None],
                replacement=seen.replacement,
                **settings,
            )
        )
        for each in case.maps
    ]


@pytest.mark.parametrize(
    ("name", "function"),
    [("insertion", insertion), ("deletion", deletion), ("pixel-flipping", pixel_flipping)],
)
def test_curves_of_many_maps_are_those_of_each(seen, name, function):
    metric = METRICS[name]
    # The same sums in the same order, up to how many curves are added up side by side.
    assert metric.scores(seen) == pytest.approx(one_by_one(function, seen), abs=1e-12)
    assert metric.higher_is_better == function.higher_is_better


@pytest.mark.parametrize(
    ("name", "function", "settings"),
    [("single-deletion", sds, {"patches": 16}), ("incremental-deletion", ids, {})],
)
def test_deletion_of_cells_and_in_steps_is_that_of_each_map(seen, name, function, settings):
    # Correlations are the same to the bit; means of 32 outputs up to the order of their sum.
    expected = one_by_one(function, seen, **settings)
    assert METRICS[name].scores(seen) == pytest.approx(expected, abs=1e-15)
    assert METRICS[name].higher_is_better == function.higher_is_better
    assert len(set(expected)) > 15


def test_cells_are_as_equal_as_the_size_of_an_image_allows():
    sizes = [int((_cells(6, 9) == cell).sum()) for cell in range(16)]
    assert sum(sizes) == 54
    assert set(sizes) == {2, 3, 4, 6}
    assert _cells(2, 3).flatten().tolist() == list(range(6))


def share_of_way(seen, output_of):
    """The indicator: an image's output, 0 at the replacement and 1 at the image."""
    with torch.no_grad():
        low, high = (output_of(each[None]) for each in (seen.replacement, seen.case.image))
    target = int(seen.case.target)

    def indicator(outputs, targets):
        return (outputs[:, target].double() - low[0, target]) / (high - low)[0, target]

    return indicator


def dataset_metric(seen, each, function, **settings):
    return function(
        seen.model,
        seen.case.image[None],
        seen.case.target,
        each[None],
        indicator=share_of_way(seen, lambda images: seen.model(images).double()),
        imputation=lambda images, keep: torch.where(keep, images, seen.replacement),
        nothing_kept=seen.replacement,
        value_range=(0, 255),
        **settings,
    )


@pytest.mark.filterwarnings("ignore:level")  # jumped over, or not reached: known here
def test_soundness_of_many_maps_is_the_mean_of_each_over_the_levels(seen):
    background = seen.case.image[:, :1, :1].expand(3, 12, 12)
    # The truth, the constant and two maps of noise.
    some = replace(seen.case, maps=seen.case.maps[:4])
    for replacement in (seen.replacement, torch.full((3, 12, 12), 200.0), background):
        other = Seen(some, seen.model, replacement)
        expected = []
        for each in some.positive:
            levels = [
                float(dataset_metric(other, each, soundness_at, level=level)) for level in LEVELS
            ]
            expected.append(np.mean([0 if np.isnan(value) else value for value in levels]))
        assert METRICS["soundness"].scores(other) == pytest.approx(expected, abs=1e-12)
    assert METRICS["soundness"].scores(other)[0] == 1  # the truth, from plain background


def test_completeness_of_many_maps_is_the_mean_of_each_over_the_thresholds(seen):
    expected = [
        float(
            dataset_metric(seen, each / each.max(), completeness_curve).differences.mean()
            if each.any()
            else 0.0
        )
        for each in seen.case.positive
    ]
    assert METRICS["completeness"].scores(seen) == pytest.approx(expected, abs=1e-12)


def test_soundness_and_completeness_are_nan_where_the_output_does_not_rise(seen):
    still = Seen(seen.case, seen.model, seen.case.image)
    assert np.isnan(METRICS["soundness"].scores(still)).all()
    assert np.isnan(METRICS["completeness"].scores(still)).all()


class Line(torch.nn.Module):
    """Two outputs: a constant that is far from 0, and the mean of an image a little above it."""

    def __init__(self, offset=0.0, slope=1.0):
        super().__init__()
        self.offset, self.slope = offset, slope

    def forward(self, images):
        mean = images.double().mean((1, 2, 3))
        return (self.offset + torch.stack([self.slope * mean, 0 * mean], 1)).to(images.dtype)


def line_seen(maps, **line):
    image = torch.ones(1, 10, 10)
    truth = Truth(torch.ones(1, 1, 10, 10, dtype=torch.int8))
    return Seen(Case(image, torch.tensor([0]), maps, truth, 0), Line(**line).eval(), 0 * image)


def test_a_level_that_a_map_does_not_reach_counts_zero():
    maps = torch.zeros(4, 1, 10, 10)
    maps[1, 0, :3], maps[2, 0, :7], maps[3] = 1, 1, 1
    # Of 0.2, 0.4, 0.6 and 0.8 the shares 0, 0.3, 0.7 and 1 reach none, one, three and all.
    assert METRICS["soundness"].scores(line_seen(maps)).tolist() == [0, 0.25, 0.75, 1]


def test_steps_of_exactly_epsilon_and_levels_that_are_met_exactly_count():
    # A mean of 100 pixels, in float32: every step adds 1 %, but for rounding.
    maps = torch.arange(100, 0, -1.0).view(1, 1, 10, 10)
    for slope in (1, 3, 0.7):
        assert METRICS["soundness"].scores(line_seen(maps, slope=slope)) == 1
    # The first 20, 40, 60 and 80 pixels alone reach one level more each.
    alone = torch.cat([maps * (maps > 100 - count) for count in (20, 40, 60, 80)])
    for offset in (0, 1, 0.3):
        found = METRICS["soundness"].scores(line_seen(alone, slope=0.7, offset=offset))
        assert found.tolist() == [0.25, 0.5, 0.75, 1]


def test_a_value_at_a_threshold_is_not_above_it_in_the_maps_precision():
    maps = torch.stack([(torch.arange(100) % 10 + 1.0).view(1, 10, 10) * scale
                        for scale in (1, 3, 7, 64)])  # fmt: skip
    # Of ten tenths 9, 8 ... 1 are above 0.1, 0.2 ... 0.9: half of them in the mean.
    assert METRICS["completeness"].scores(line_seen(maps)) == pytest.approx([0.5] * 4, abs=1e-6)


@pytest.mark.parametrize("name", ["soundness", "completeness"])
def test_a_rise_that_rounding_may_have_made_has_no_shares(name):
    maps = torch.rand(3, 1, 10, 10, generator=torch.Generator().manual_seed(0))
    # Steps of float32 near 1000 are 6e-5.
    for slope in (6e-5, 1e-3, -1.0):
        assert np.isnan(METRICS[name].scores(line_seen(maps, offset=1000.0, slope=slope))).all()
    assert np.isfinite(METRICS[name].scores(line_seen(maps, offset=1000.0, slope=100))).all()


def test_sensitivity_over_shared_subsets_is_that_of_each_map(seen):
    settings = {"sizes": seen.case.sizes, "draws": DRAWS, "seed": seen.case.seed}
    # Correlations of 50 numbers; the two ways round sums of 144 values to 2^-44 of the largest.
    expected = one_by_one(sensitivity_n, seen, **settings)
    assert METRICS["sensitivity-n"].scores(seen) == pytest.approx(expected, abs=1e-9)
    assert METRICS["sensitivity-n"].scores(seen)[1] == 0  # a constant explains nothing


def test_sensitivity_is_nan_where_the_output_never_changes(seen):
    still = Seen(seen.case, seen.model, seen.case.image)
    assert np.isnan(METRICS["sensitivity-n"].scores(still)).all()


def test_infidelity_is_what_the_best_multiple_from_0_up_leaves_unexplained():
    generator = torch.Generator().manual_seed(0)
    sums = torch.randn(4, 5, 4, generator=generator, dtype=torch.float64)
    losses = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    sums[2], sums[3] = 0, -sums[0]  # one of the two opposites fits best when it is inverted
    got = squared_misfit(sums, losses)
    for index in range(4):
        [factor], _ = nnls(sums[index].reshape(-1, 1).numpy(), losses.flatten().numpy())
        left = losses.flatten().numpy() - sums[index].flatten().numpy() * factor
        # Twenty terms near 1, each off by some roundings.
        assert float(got[index]) == pytest.approx((left**2).mean(), abs=1e-13)
    assert got[0] != got[3]


def test_localization_is_held_against_the_positive_mask(seen):
    mask = seen.case.truth.positive
    for name, function, maps in (
        ("pointing-game", pointing_game, seen.case.maps),
        ("relevance-rank-accuracy", relevance_rank_accuracy, seen.case.maps),
        (
            "relevance-mass-accuracy",
            relevance_mass_accuracy,
            magnitudes(seen.case.maps, "positive"),
        ),
    ):
        expected = [float(function(each[None], mask)) for each in maps]
        assert METRICS[name].scores(seen).tolist() == expected
        assert not METRICS[name].perturbs


def test_shapley_values_of_the_replaced_game_add_up_and_are_exact_for_a_sum():
    total = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(9, 1, bias=False))
    torch.nn.init.ones_(total[1].weight)
    image = torch.arange(9.0).reshape(1, 3, 3)
    truth = Truth(torch.ones(1, 1, 3, 3, dtype=torch.int8))
    case = Case(image, torch.tensor([0]), image[None], truth, 0)
    values = Seen(case, total, torch.full((1, 3, 3), 2.0)).shapley
    assert torch.equal(values, (image - 2).double())


def test_a_metric_of_anybodys_gets_what_it_declares(seen):
    got = {}

    @metric(higher_is_better=False, per_sample=True)
    def mine(model, images, targets, attributions, *, replacement, truth, seed):
        got.update(model=model, replacement=replacement, seed=seed)
        assert len(images) == len(targets) == len(attributions) == len(truth)
        assert torch.equal(truth[-1:], seen.case.truth.positive)
        assert torch.equal(images[-1], seen.case.image)
        return attributions.amax((1, 2, 3))  # which no batch rounds otherwise

    adapted = as_metric(mine)
    expected = seen.case.maps.amax((1, 2, 3)).numpy()
    np.testing.assert_array_equal(adapted.scores(seen), expected.astype(np.float64))
    assert (adapted.name, adapted.higher_is_better, adapted.perturbs) == ("mine", False, True)
    assert torch.equal(got.pop("replacement"), seen.replacement)
    assert got == {"model": seen.model, "seed": 5}


def test_a_metric_that_writes_into_what_it_gets_changes_nothing_for_others(seen):
    kept = [seen.case.maps, seen.case.image, seen.replacement, seen.case.truth.signed]
    before = [each.clone() for each in kept]

    def careless(model, images, targets, attributions, *, replacement, truth):
        scores = attributions.sum((1, 2, 3)).clone()
        for each in (images, attributions, replacement, targets):
            each.zero_()
        truth.fill_(True)
        return scores

    adapted = as_metric(careless, higher_is_better=True)
    np.testing.assert_array_equal(adapted.scores(seen), adapted.scores(seen))
    assert all(torch.equal(each, one) for each, one in zip(kept, before, strict=True))


def test_a_metric_without_a_model_gets_maps_alone_and_may_return_a_list(seen):
    def spread(attributions):
        return [float(each.std()) for each in attributions]

    adapted = as_metric(spread, higher_is_better=True)
    assert not adapted.perturbs
    assert adapted.scores(seen).tolist() == [float(each.std()) for each in seen.case.maps]


def test_a_built_in_function_is_a_metric_too(seen):
    assert as_metric(deletion).scores(seen) == pytest.approx(METRICS["deletion"].scores(seen))
    assert as_metric(deletion, higher_is_better=True).higher_is_better  # what the user says holds
    half = functools.partial(deletion, step=2)
    assert as_metric(half, higher_is_better=False).name == "partial"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("insertions", "no metric named 'insertions': did you mean 'insertion'?"),
        (3, "metric is 3: pass a name or a function"),
        (lambda attributions: 0, "does not say which direction is better"),
    ],
)
def test_what_is_no_metric_is_refused(given, message):
    with pytest.raises(AttributionLabError, match=message):
        as_metric(given)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (0.5, r"returned the shape \(\) for 16 attributions"),
        ([[1.0]] * 16, r"returned the shape \(16, 1\)"),
        ("high", "returned str: return one number for each attribution"),
    ],
)
def test_scores_that_are_no_row_of_numbers_are_refused(seen, returned, message):
    with pytest.raises(AttributionLabError, match=message):
        as_metric(lambda attributions: returned, higher_is_better=True).scores(seen)


def test_what_a_metric_raises_is_said_in_one_line_with_its_place(seen):
    def broken(attributions):
        raise RuntimeError("boom")

    place = r"\(test_evaluations\.py, line \d+\)"
    with pytest.raises(AttributionLabError, match=f"^broken raised RuntimeError: boom {place}$"):
        as_metric(broken, higher_is_better=True).scores(seen)


def test_a_direction_for_a_built_in_metric_is_refused():
    with pytest.raises(
        AttributionLabError, match="insertion says itself which direction is better"
    ):
        as_metric("insertion", higher_is_better=True)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda model, attributions: attributions,
            r"takes \(model, attributions\) \(too many.*\): write it as \(model, images, targets,",
        ),
        (lambda attributions: attributions.sum((1, 2, 3)) / 0, "returned (inf|nan|-inf)"),
        (
            lambda attributions: attributions.sum((1, 2, 3)) * 1j,
            "returned Tensor: return one number",
        ),
    ],
)
def test_what_a_metric_may_not_take_or_return_is_said(seen, function, message):
    with pytest.raises(AttributionLabError, match=message):
        as_metric(function, higher_is_better=True).scores(seen)
