"""Performance is the mean indicator on what is left of images, and indicators are their definitions."""

import math
from fractions import Fraction
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
import oracles_soundness as oracles
from attributionlab import AttributionLabError, metrics
from attributionlab.metrics.imputation import nearest_known_color
from soundness_cases import SETUP, black, case_of, linear

METRICS = {
    "soundness_sweep": partial(metrics.soundness_sweep, ratios=(0.75, 0.5, 0.25)),
    "soundness_at": partial(metrics.soundness_at, level=0.01, epsilon=1, ratios=(0.5,)),
    "completeness_curve": partial(metrics.completeness_curve, thresholds=(0.5, 0.25)),
    "completeness_at": partial(metrics.completeness_at, threshold=0.5),
    "removal_curve": partial(metrics.removal_curve, fractions=(0.25, 0.5, 0.75)),
    "road": partial(metrics.road, fractions=(0.25, 0.75)),
}
ALL = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)


def numbers(result):
    """All of a result's numbers in a row."""
    if hasattr(result, "per_sample"):
        return torch.cat([result.performance, result.per_sample.flatten()])
    if hasattr(result, "differences"):
        return torch.cat([result.performance, result.removed, torch.tensor([result.intact])])
    return result.flatten()


def same(first, second):
    torch.testing.assert_close(numbers(first), numbers(second), atol=0, rtol=0, equal_nan=True)


class Photographs(nn.Module):
    """A convolutional network on images in [0, 1]."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.first = nn.Conv2d(2, 4, 3, padding=1)
            self.head = nn.Linear(4, 3)
        self.eval()

    def forward(self, images):
        return 9 * self.head(torch.tanh(3 * self.first(images)).mean((2, 3)))


def photographs(count=5):
    """Probabilities hardly ever tie, and see the noise."""
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(count, 2, 4, 5, generator=generator)
    maps = torch.rand(count, 1, 4, 5, generator=generator)
    labels = torch.randint(0, 3, (count,), generator=generator)
    return Photographs(), images, labels, maps


PROBABILITY = partial(metrics.label_probability, temperature=2.0)


@settings(max_examples=3)
@given(st.integers(0, 2**31), st.booleans())
def test_by_default_removed_pixels_are_interpolated_with_the_same_noise_for_every_mask(seed, wide):
    model, images, labels, maps = photographs()
    value_range, scale = ((-1.0, 1.0), 2.0) if wide else ((0.0, 1.0), 1.0)
    found = metrics.removal_curve(
        model,
        images,
        labels,
        maps,
        fractions=(0.2, 0.9),
        indicator=PROBABILITY,
        value_range=value_range,
        seed=seed,
    )
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(images.shape, generator=generator, dtype=torch.float64)
    for step, fraction in enumerate((0.2, 0.9)):
        for i, (image, values) in enumerate(zip(images, maps, strict=True)):
            kept = oracles.kept_after_removal(oracles.map_of(values), fraction, falling=True)
            left = oracles.noisy_linear(image, kept, 0.01 * scale * noise[i])
            with torch.no_grad():
                [outputs] = model(left[None]).tolist()
            expected = oracles.label_probability(outputs, int(labels[i]), 2.0)
            # Imputed to 1e-6 of the range; the slope of the probability by a pixel is below
            # 9 * 4 weights of 1/2 * 3 / 20 pixels * 2 channels < 20, of 18 pixels.
            assert float(found[i, step]) == pytest.approx(expected, abs=1e-6 * 20 * 18)


@ALL
def test_results_depend_on_the_seed_of_the_noise_alone(metric):
    call, before = photographs(), torch.get_rng_state()
    one, again, other = (metric(*call, indicator=PROBABILITY, seed=seed) for seed in (3, 3, 4))
    same(one, again)
    if metric not in (METRICS["soundness_at"],):  # whose false steps are the same
        assert not torch.equal(numbers(one), numbers(other))
    assert torch.equal(torch.get_rng_state(), before)


def test_images_go_through_the_model_in_batches():
    seen = []

    class Watched(nn.Module):
        def forward(self, images):
            seen.append(len(images))
            return images.flatten(1)[:, :2]

    case = case_of(31, count=10)
    metrics.removal_curve(Watched().eval(), *case[1:], fractions=[0.0], batch_size=4, **SETUP)
    assert seen == [4, 4, 2]


@ALL
@pytest.mark.parametrize("batch_size", [1, 2])
def test_the_batch_size_does_not_matter_to_noise_either(metric, batch_size):
    call = photographs()
    found = metric(*call, batch_size=batch_size, indicator=PROBABILITY)
    # Convolutions of batches round in another order: a probability is off by some 2^-22.
    torch.testing.assert_close(numbers(found), numbers(metric(*call, indicator=PROBABILITY)),
                               atol=1e-6, rtol=0, equal_nan=True)  # fmt: skip


def test_somebodys_imputation_gets_all_images_at_once():
    seen = []

    def watched(images, keep):
        seen.append((len(images), len(keep)))
        return images * keep

    case = case_of(31, count=10)
    metrics.removal_curve(
        *case, fractions=[0.5], **SETUP | {"batch_size": 3, "imputation": watched}
    )
    assert seen == [(10, 10)]


class InPlace(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.eval()

    def forward(self, images):
        return self.model(images.mul_(2).sub_(1))


class OutOfPlace(InPlace):
    def forward(self, images):
        return self.model(2 * images - 1)


def blackened_in_place(images, keep):
    images[~keep.expand_as(images)] = 0
    return images


@ALL
def test_models_and_imputations_that_work_in_place_spoil_nothing(metric):
    case = case_of(31, count=10)
    before = case.images.clone()
    setup = {**SETUP, "imputation": blackened_in_place}
    same(metric(*case, **setup), metric(*case, **SETUP))
    changed = metric(InPlace(case.model), *case[1:], **setup)
    same(changed, metric(OutOfPlace(case.model), *case[1:], **SETUP))
    assert torch.equal(case.images, before)


@ALL
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_images_and_maps_may_have_any_floating_point_type(metric, dtype):
    case = case_of(31, count=10)
    model = linear(case.model[1].weight).to(dtype)
    found = metric(model, case.images.to(dtype), case.labels, case.maps.to(dtype), **SETUP)
    same(found, metric(*case, **SETUP))


# Nothing kept.


def test_an_emptied_image_is_what_the_caller_says_and_the_others_keep_their_noise():
    model, images, labels, maps = photographs()
    maps[1] = 1
    filled = torch.tensor([0.25, 0.75]).view(2, 1, 1)
    shown = []

    class Watched(nn.Module):
        def forward(self, images):
            shown.append(images.clone())
            return model(images)

    ask = partial(metrics.removal_curve, Watched().eval(), images, labels, maps, value_range=(0, 1))
    for filling in (filled, filled.expand(2, 4, 5), filled.expand(5, 2, 4, 5), 0.5):
        shown.clear()
        curve = metrics.completeness_curve(
            Watched().eval(), images, labels, maps, thresholds=[0.5], nothing_kept=filling
        )
        assert curve.emptied.tolist() == [1]
        wanted = filling if isinstance(filling, float) else filled
        assert torch.equal(shown[1][1], torch.zeros(2, 4, 5) + wanted)
    # Beside an image that is not emptied the others are the same.
    maps[1, 0, 0, 0] = 0
    metrics.completeness_curve(Watched().eval(), images, labels, maps, thresholds=[0.5])
    others = [0, 2, 3, 4]
    assert torch.equal(shown[-1][others], shown[1][others])
    assert (shown[1] != images).flatten(1).any(1).all()
    assert ask(fractions=[0.5]).shape == (5, 1)


@ALL
def test_by_default_an_emptied_image_is_refused_with_the_remedy(metric):
    model, images, labels, maps = photographs()
    found = r"image 0 .*5 of 5 images.*nothing_kept=, a number or a pixel \(C, 1, 1\)"
    with pytest.raises(AttributionLabError, match=found):
        metrics.removal_curve(model, images, labels, maps, fractions=[1.0])
    metric(model, images, labels, maps * (maps < 0.5) + (maps < 0.1))


# What is refused.

MODEL, IMAGES, LABELS, MAPS = photographs()


class Returns(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.change = change
        self.eval()

    def forward(self, images):
        return self.change(images.flatten(1)[:, :3])


@pytest.mark.usefixtures("without_shape_checks")
@ALL
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"images": IMAGES + 1},
            r"image 0 has the value 1\.\d+, outside of value_range \(0, 1\): pass",
        ),
        ({"images": IMAGES.where(IMAGES.max() > IMAGES, math.nan)}, "has the value nan, outside"),
        ({"value_range": (0.1, 1)}, "outside of value_range"),
        ({"value_range": (1, 0)}, r"value_range is \(1.0, 0.0\): pass rising numbers"),
        ({"indicator": lambda outputs, targets: 1.0}, "returned of type float.*return one real"),
        ({"indicator": lambda outputs, targets: outputs.sum()}, r"of shape \(\) for 5 images"),
        ({"indicator": lambda outputs, targets: targets * 1j}, "indicator returned torch.complex"),
        *[
            (
                {"indicator": lambda outputs, targets, value=value: targets * value},
                "NaN or infinite",
            )
            for value in (math.nan, math.inf)
        ],
        (
            {"indicator": lambda outputs, targets: outputs},
            r"the indicator returned .* \(5, 3\) for 5",
        ),
        ({"imputation": lambda images, keep: keep}, "the imputation returned torch.bool of shape"),
        (
            {"imputation": lambda images, keep: images[0]},
            r"the imputation returned .* \(2, 4, 5\): return finite images, torch.float32 of shape \(5",
        ),
        ({"imputation": lambda images, keep: images.double()}, "returned torch.float64 of shape"),
        ({"imputation": lambda images, keep: None}, "the imputation returned of type NoneType"),
        (
            {"imputation": lambda images, keep: images / keep},
            r"the imputation returned .* with NaN or infinity: return finite images",
        ),
        ({"model": Returns(lambda rows: rows[:, 0])}, r"this indicator compares classes"),
        (
            {"model": Returns(lambda rows: rows[:, :1])},
            "this indicator compares classes; pass indica",
        ),
    ],
)
def test_bad_input_is_refused_with_one_line(metric, changes, message):
    call = {"model": MODEL, "images": IMAGES, "targets": LABELS, "attributions": MAPS} | changes
    with pytest.raises(AttributionLabError, match=message) as caught:
        metric(**call)
    assert "\n" not in str(caught.value)


@ALL
def test_negative_attributions_are_refused_where_their_sum_is_meant(metric):
    maps = MAPS.clone()
    maps[3, 0, 1, 2] = -0.25
    if metric in (METRICS["removal_curve"], METRICS["road"]):
        metric(MODEL, IMAGES, LABELS, maps)
        return
    found = r"-0\.25 in image 3\b.*x\.clamp\(min=0\).*\(-x\)\.clamp\(min=0\).*x\.abs\(\)"
    with pytest.raises(AttributionLabError, match=found):
        metric(MODEL, IMAGES, LABELS, maps)


def test_an_output_that_is_nan_is_named_by_its_place_in_the_data_set_not_in_its_batch():
    images = IMAGES.clone()
    images[3] = 0.5
    model = Returns(lambda rows: torch.where(rows == 0.5, math.nan, rows))
    with pytest.raises(AttributionLabError, match="output is NaN for image 3, or for what is left"):
        metrics.completeness_curve(model, images, LABELS, MAPS, batch_size=2)


def test_a_regression_is_asked_with_an_indicator_of_its_own():
    counter, images = (
        linear(torch.ones(1, 4)),
        torch.tensor([[[[1.0, 0, 1, 1]]], [[[0, 1.0, 0, 0]]]]),
    )
    found = metrics.removal_curve(
        counter,
        images,
        torch.tensor([3, 1]),
        images,
        fractions=(0.0, 0.25),
        indicator=lambda outputs, targets: outputs[:, 0] == targets,
        imputation=black,
    )
    assert found.tolist() == [[1, 0], [1, 0]]


def test_noise_fires_redundant_channels_which_nearest_known_colors_do_not():
    # The Unseen Data Effect: the default imputation measures it along with the information.
    env = al.load("multi-color-sum", image_size=16)
    images, labels = env.batch(4)
    maps = env.truth(images, labels).positive.float()
    setup = {"value_range": (0.0, 255.0), "fractions": (0.2, 0.5), "order": "lerf"}
    colors = images.movedim(1, -1).reshape(-1, images.shape[1]).unique(dim=0)
    known = partial(nearest_known_color, colors=colors, noise=0.0)
    assert (
        metrics.removal_curve(env.model, images, labels, maps, imputation=known, **setup).mean()
        == 1
    )
    assert metrics.removal_curve(env.model, images, labels, maps, **setup).mean() < 1


ROWS = st.integers(2, 4).flatmap(
    lambda classes: st.tuples(
        st.lists(
            st.lists(st.integers(-2, 2), min_size=classes, max_size=classes), min_size=1, max_size=4
        ),
        st.integers(0, classes - 1),
    )
)


@settings(max_examples=20)
@given(ROWS, st.sampled_from([torch.float16, torch.float32, torch.float64, torch.int64]))
def test_accuracy_is_the_chance_to_be_right_among_the_largest_outputs(case, dtype):
    rows, label = case
    found = metrics.accuracy(torch.tensor(rows, dtype=dtype), torch.full((len(rows),), label))
    assert found.dtype == torch.float64
    # One division, rounded as Python's.
    assert found.tolist() == [float(oracles.accuracy(row, label)) for row in rows]


@settings(max_examples=20)
@given(ROWS, st.sampled_from([0.25, 1.0, 256]), st.sampled_from([0.0, -3.0, 1000.0]))
def test_the_labels_probability_is_a_softmax_that_no_shift_changes(case, temperature, shift):
    rows, label = case
    outputs = torch.tensor(rows, dtype=torch.float64) + shift
    found = metrics.label_probability(
        outputs, torch.full((len(rows),), label), temperature=temperature
    )
    expected = [oracles.label_probability(row, label, temperature) for row in rows]
    # Exponents of at most 16 in magnitude, off by 2^-53 of themselves, and four terms.
    assert found.tolist() == pytest.approx(expected, rel=1e-14)


def test_a_temperature_keeps_counts_from_saturating():
    outputs, targets = torch.tensor([[900.0, 300.0], [900.0, 800.0]]), torch.tensor([0, 0])
    assert metrics.label_probability(outputs, targets).tolist() == [1.0, 1.0]
    one, other = metrics.label_probability(outputs, targets, temperature=300).tolist()
    assert 1 > one > other > 0.5


def test_counts_at_the_environments_temperature_are_its_probabilities():
    env = al.load("multi-color-sum", image_size=16)
    images, labels = env.batch(2)
    with torch.no_grad():
        found = metrics.label_probability(env.model(images), labels, temperature=env.temperature)
        expected = env.softmax_model(images)[torch.arange(2), labels]
    # A softmax of float32.
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-6)


def test_impossible_classes_may_have_an_output_of_minus_infinity():
    outputs = torch.tensor([[-math.inf, 0.0, 0.0]])
    assert metrics.accuracy(outputs, torch.tensor([1])) == 0.5
    assert metrics.label_probability(outputs, torch.tensor([1])) == 0.5
    assert metrics.label_probability(outputs, torch.tensor([0])) == 0


@pytest.mark.parametrize("temperature", [1e-310, Fraction(1, 10**9)])
def test_at_a_temperature_near_zero_the_largest_output_gets_all(temperature):
    outputs = torch.tensor([[1.0, 0.0], [2.0, 2.0]])
    found = metrics.label_probability(outputs, torch.tensor([0, 0]), temperature=temperature)
    assert found.tolist() == [1, 0.5]
