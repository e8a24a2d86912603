"""ROAD is what is left after removal in order, with and without a model that is trained anew."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import oracles_soundness as oracles
from attributionlab import AttributionLabError
from attributionlab.metrics import Retraining, deletion_curve, removal_curve, road
from attributionlab.metrics.imputation import constant
from soundness_cases import INDICATORS, KINDS, SETUP, case_of, linear

SEEDS = st.integers(0, 2**31)
FRACTIONS = st.lists(
    st.sampled_from([0, 0.1, 0.25, 0.3, 1 / 3, 0.5, 0.75, 0.9, 1.0]),
    min_size=2,
    max_size=5,
    unique=True,
).map(sorted)


@settings(max_examples=25)
@given(
    SEEDS,
    st.sampled_from(KINDS),
    FRACTIONS,
    st.sampled_from(list(INDICATORS)),
    st.sampled_from(["morf", "lerf"]),
)
def test_curves_and_their_mean_heights_are_their_definitions(
    seed, kind, fractions, indicator, order
):
    case = case_of(seed, kind)
    signed = case.maps - 0.5
    chosen = {"order": order, "fractions": fractions, "indicator": indicator, **SETUP}
    found = removal_curve(*case[:3], signed, **chosen)
    maps = [oracles.map_of(each) for each in signed]
    asked = INDICATORS[indicator]
    means = []
    for step, fraction in enumerate(fractions):
        kept = [oracles.kept_after_removal(values, fraction, order == "morf") for values in maps]
        for i in range(len(maps)):
            one = case._replace(images=case.images[i : i + 1], labels=case.labels[i : i + 1])
            # Quotients of integers, rounded once or twice.
            expected = float(one.performance(asked)(kept[i : i + 1]))
            assert float(found[i, step]) == pytest.approx(expected, abs=1e-15)
        means.append(float(case.performance(asked)(kept)))
    # Trapezoids between at most five means of ten numbers.
    assert float(road(*case[:3], signed, **chosen)) == pytest.approx(
        oracles.mean_height(means, fractions), abs=1e-14
    )


def test_fractions_are_by_default_those_of_roads_code():
    case = case_of(2)
    assert removal_curve(*case, **SETUP).shape == (len(case.images), 7)
    fractions = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
    assert torch.equal(
        removal_curve(*case, **SETUP), removal_curve(*case, fractions=fractions, **SETUP)
    )
    assert torch.equal(road(*case, **SETUP), road(*case, fractions=fractions, **SETUP))


def test_with_a_constant_for_an_imputation_it_is_deletion_at_a_few_fractions():
    case = case_of(10, "reals")
    pixels = case.maps[0].numel()
    fractions = [k / pixels for k in range(pixels)]

    def output(outputs, targets):
        return outputs[torch.arange(len(targets)), targets]

    found = removal_curve(
        *case,
        fractions=fractions,
        indicator=output,
        value_range=(0, 3),
        imputation=lambda images, keep: constant(images, keep, value=0),
    )
    curves = deletion_curve(*case, replacement=0)
    assert torch.equal(found, curves[:, :pixels].double())


# Training anew.


class Fits:
    """A `fit` that remembers what it was given and returns models that it made before."""

    def __init__(self, *models):
        self.models, self.calls = list(models), []

    def __call__(self, images, targets):
        self.calls.append((images.clone(), targets.clone()))
        return self.models[len(self.calls) - 1]


def test_a_model_is_fitted_once_per_fraction_on_what_is_left_of_the_training_images():
    test, training = case_of(31), case_of(31, "levels")
    generator = torch.Generator().manual_seed(8)
    images = torch.randint(0, 4, (6, *test.images.shape[1:]), generator=generator).float()
    labels = torch.randint(0, 2, (6,), generator=generator)
    maps = torch.rand(6, 1, *images.shape[2:], generator=generator)
    models = [
        linear(torch.randint(-2, 3, training.model[1].weight.shape, generator=generator).float())
        for _ in range(3)
    ]
    fit = Fits(*models)
    fractions = (0.0, 0.3, 0.6)
    for order in ("morf", "lerf"):
        fit.calls.clear()
        found = removal_curve(
            *test,
            order=order,
            fractions=fractions,
            retraining=Retraining(images, labels, maps, fit),
            **SETUP,
        )
        assert len(fit.calls) == len(fractions)
        for step, (fraction, model, (seen, targets)) in enumerate(
            zip(fractions, models, fit.calls, strict=True)
        ):
            for image, values, left in zip(images, maps, seen, strict=True):
                kept = oracles.kept_after_removal(oracles.map_of(values), fraction, order == "morf")
                assert torch.equal(left, oracles.blackened(image, kept))
            assert torch.equal(targets, labels)
            alone = removal_curve(model, *test[1:], order=order, fractions=(fraction,), **SETUP)
            assert torch.equal(found[:, step], alone[:, 0])


def test_training_images_get_the_default_imputation_and_nothing_kept_as_well():
    case = case_of(31)
    fit = Fits(case.model, case.model)
    removal_curve(
        *case,
        fractions=(0.5, 1.0),
        retraining=Retraining(case.images, case.labels, case.maps, fit),
        value_range=(0, 3),
        nothing_kept=2.0,
    )
    half, none = (images for images, _ in fit.calls)
    assert (none == 2).all()
    # Noise of 0.03 on half of the pixels: not on those that are kept.
    changed = (half != half.round()).any(1).flatten(1).sum(1)
    pixels = case.maps[0].numel()
    assert (changed == round(0.5 * pixels)).all()


def test_training_images_get_other_noise_than_test_images_at_every_seed():
    images = torch.full((4, 1, 8, 8), 0.5)
    labels, maps = torch.tensor([0, 0, 1, 1]), torch.rand(4, 1, 8, 8)
    shown = []

    class Watched(nn.Module):
        def forward(self, images):
            shown.append(images.clone())
            return images.flatten(1)[:, :2]

    model = Watched().eval()
    drawn = []
    for seed in (0, 1, 2**64 - 1):
        fit = Fits(model)
        retraining = Retraining(images, labels, maps, fit)
        removal_curve(
            model, images, labels, maps, fractions=(0.5,), retraining=retraining, seed=seed
        )
        [(left, _)] = fit.calls
        drawn += [*(left - 0.5), *(shown.pop() - 0.5)]
    for one, first in enumerate(drawn):
        for second in drawn[:one]:
            both = (first != 0) & (second != 0)
            assert both.any()
            assert (first[both] != second[both]).all()


def test_road_with_retraining_is_the_mean_height_of_the_curves_with_it():
    case = case_of(31)
    chosen = {"fractions": (0.2, 0.6, 0.8), **SETUP}
    other = linear(-case.model[1].weight)
    settled = [Retraining(*case[1:], Fits(other, case.model, other)) for _ in "ab"]
    curve = removal_curve(*case, retraining=settled[0], **chosen).mean(0).tolist()
    area = road(*case, retraining=settled[1], **chosen)
    assert float(area) == pytest.approx(oracles.mean_height(curve, (0.2, 0.6, 0.8)), abs=1e-14)
    assert float(area) != float(road(*case, **chosen))


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "what retraining.fit returned: the model is of type NoneType: pass an nn.Module"),
        (torch.zeros(2), "what retraining.fit returned: the model is of type Tensor"),
        (nn.Dropout(), "what retraining.fit returned: the model is in training mode"),
    ],
)
def test_a_fit_that_returns_no_model_in_eval_mode_is_refused(returned, message):
    case = case_of(31)
    retraining = Retraining(*case[1:], lambda images, targets: returned)
    with pytest.raises(AttributionLabError, match=message):
        removal_curve(*case, retraining=retraining, **SETUP)


def test_a_fitted_model_without_layers_is_not_taken_for_none():
    class Rows(nn.Sequential):
        def forward(self, images):
            return torch.stack([torch.zeros(len(images)), torch.ones(len(images))], 1)

    case = case_of(31)
    found = removal_curve(
        *case, retraining=Retraining(*case[1:], lambda images, targets: Rows().eval()), **SETUP
    )
    assert torch.equal(found, (case.labels == 1).double()[:, None].expand(-1, 7))


@pytest.mark.usefixtures("without_shape_checks")
def test_training_data_are_checked_as_the_test_data_are():
    case = case_of(31)
    fit = Fits(case.model)
    images, labels, maps = case[1:]
    for retraining, message in (
        ((images, labels, maps, fit), "retraining is of type tuple: pass .*Retraining"),
        (Retraining(images, labels, maps, "fit"), "retraining is .*, whose fit is a function"),
        (Retraining(images * 9, labels, maps, fit), "outside of value_range"),
        (Retraining(images, labels[:-1], maps, fit), "targets are .* for each of the"),
        (Retraining(images, labels, maps[..., :1], fit), "attributions are"),
        (Retraining(images[:0], labels[:0], maps[:0], fit), "images are .* B at least 1"),
    ):
        with pytest.raises(AttributionLabError, match=message):
            removal_curve(*case, retraining=retraining, **SETUP)


def test_everything_removed_needs_to_be_told_what_is_left():
    case = case_of(31)
    with pytest.raises(AttributionLabError, match="no pixel of image 0 is kept"):
        removal_curve(*case, fractions=[1.0], value_range=(0, 3))
