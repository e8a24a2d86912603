"""Ensembles are what their formulas say of maps of noisy samples, and what Captum makes of the same."""

import inspect
from functools import partial

import pytest
import torch

import attributionlab as al
import oracles_methods
from attributionlab import AttributionLabError, methods
from attributionlab.methods import (
    METHODS,
    Call,
    Notice,
    as_method,
    attribute,
    collect_notices,
    input_x_gradient,
    maps_of_samples,
    notify,
    summarized,
)
from random_chains import seeded, tanh_network

ENSEMBLES = {
    "smoothgrad": (methods.smoothgrad, oracles_methods.mean),
    "smoothgrad_sq": (methods.smoothgrad_squared, oracles_methods.mean_of_squares),
    "vargrad": (methods.vargrad, oracles_methods.variance),
}
each = pytest.mark.parametrize("kind", ENSEMBLES)
IMAGES = torch.linspace(-1, 1, 96).reshape(3, 2, 4, 4).double()
TARGETS = torch.tensor([0, 1, 1])
network = partial(tanh_network, 32)


def run(kind, method=input_x_gradient, images=IMAGES, **changes):
    settings = {"highest": 2.0, "noise": 0.25, "n_samples": 5, "generator": seeded()} | changes
    return ENSEMBLES[kind][0](method)(network(), images, TARGETS[: len(images)], **settings)


@each
def test_every_value_is_reduced_over_the_samples_as_the_formula_says(kind):
    generator, expected = seeded(), []
    for image, target in zip(IMAGES, TARGETS, strict=True):
        draws = torch.randn((5, 2, 4, 4), generator=generator).double()
        samples = [image + 0.25 * 2.0 * draw for draw in draws]
        maps = [input_x_gradient(network(), x[None], target[None])[0].flatten() for x in samples]
        values = zip(*(of_sample.tolist() for of_sample in maps), strict=True)
        expected.append([ENSEMBLES[kind][1](list(of_value)) for of_value in values])
    # A few operations of float64 on values below 10.
    torch.testing.assert_close(
        run(kind).flatten(1), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-13
    )


def test_each_image_keeps_its_own_baseline_even_where_samples_and_images_are_as_many():
    starts = IMAGES.flip(0)
    with collect_notices():
        together = run("smoothgrad", methods.integrated_gradients, n_samples=3, baselines=starts)
        first = run(
            "smoothgrad",
            methods.integrated_gradients,
            IMAGES[:1],
            n_samples=3,
            baselines=starts[:1],
        )
    # The nodes of three samples are evaluated in one batch either way.
    torch.testing.assert_close(together[:1], first, rtol=0, atol=1e-13)


@each
def test_of_bit_for_bit_equal_float32_maps_reductions_are_exact(kind):
    values = torch.rand(3, 1, 4, 4, generator=seeded())

    def constant(model, inputs, targets):
        return values[:1].expand(len(inputs), -1, -1, -1)

    with collect_notices():
        maps = ENSEMBLES[kind][0](constant)(
            *(network(), values, TARGETS), highest=1.0, generator=seeded(), n_samples=7
        )
    expected = {"smoothgrad": values, "smoothgrad_sq": values**2, "vargrad": 0 * values}
    assert torch.equal(maps[0], expected[kind][0])


def test_maps_of_zeros_are_left_to_the_guard_of_saturation():
    with collect_notices() as findings:
        run("vargrad", lambda model, inputs, targets: torch.zeros_like(inputs))
    assert not summarized(findings)


def test_what_is_told_of_samples_is_told_once_for_each_image_with_the_worst_value():
    def telling(model, inputs, targets):
        worst = float(targets[0])
        notify(
            Notice("are odd by {worst}", len(inputs), gaps=[0.1], worst=worst, kind="quadrature")
        )
        notify(Notice("are fine", 0))
        return inputs

    with collect_notices() as findings:
        run("smoothgrad", telling)
    assert summarized(findings) == [
        "attributions of 3 images are made from maps of noisy samples, some of which are odd by 100%"
    ]
    [said] = [each for each in findings if each.images]
    assert (said.kind, tuple(said.gaps)) == ("quadrature", ())


@each
def test_an_ensemble_of_a_partial_is_that_of_its_method_with_these_settings(kind):
    starts = IMAGES.flip(0)
    with collect_notices():
        expected = run(kind, methods.integrated_gradients, n_samples=3, baselines=starts)
        found = run(kind, partial(methods.integrated_gradients, baselines=starts), n_samples=3)
    assert torch.equal(found, expected)
    ensemble = methods.smoothgrad(partial(methods.guided_backprop))
    assert ensemble.__name__ == "guided_backprop_smoothgrad"
    assert as_method(ensemble, METHODS).claim == "positive"
    assert as_method(methods.vargrad(partial(methods.lrp)), METHODS).output == "logit"


def test_what_a_partial_has_bound_stays_bound():
    seen = []

    def knowing(model, inputs, targets, *, highest):
        seen.append(highest)
        return inputs

    run("smoothgrad", partial(knowing, highest=7.0))
    assert seen == [7.0] * 3


def test_an_ensemble_of_an_object_goes_by_its_type():
    class Own:
        def __call__(self, model, inputs, targets):
            return inputs

    assert methods.smoothgrad(Own()).__name__ == "Own_smoothgrad"


@pytest.mark.parametrize(
    ("size", "kind", "dtype"),
    [
        (1.8e-25, "smoothgrad", torch.float32),
        (1.8e-25, "smoothgrad_sq", torch.float64),  # 3e-50: float32 ends at 1e-45
        (1.8e-25, "vargrad", torch.float64),
        (1e-20, "smoothgrad_sq", torch.float64),  # 1e-40: held by float32, in a few bits
        (1e-18, "smoothgrad_sq", torch.float32),
        (1e18, "smoothgrad_sq", torch.float32),
        (1e25, "smoothgrad_sq", torch.float64),  # 1e50: float32 ends at 3e38
        (0.0, "smoothgrad_sq", torch.float32),
    ],
)
def test_maps_are_returned_in_float64_where_the_type_of_the_inputs_would_lose_them(
    size, kind, dtype
):
    with collect_notices():
        maps = run(
            kind,
            lambda model, inputs, targets: size * (3 + inputs.sign()),
            IMAGES.float(),
            noise=9.0,
        )
    assert maps.dtype == dtype
    low, high = {"smoothgrad": (2, 4), "smoothgrad_sq": (4, 16), "vargrad": (0, 1)}[kind]
    scale = size if kind == "smoothgrad" else size**2
    # Values lie between those of the least and the largest sample, up to roundings of float32.
    assert (maps.double() >= low * scale * (1 - 1e-6)).all()
    assert (maps.double() <= high * scale * (1 + 1e-6)).all()
    assert (maps > 0).any() == (size > 0)


def test_what_is_not_finite_is_left_to_the_check_of_maps_in_a_test_and_refused_elsewhere():
    def infinite(model, inputs, targets):
        return torch.full_like(inputs, torch.inf)

    with pytest.raises(AttributionLabError, match="of image 0 are inf somewhere"):
        run("smoothgrad", infinite, IMAGES.float())
    with collect_notices():
        maps = run("smoothgrad", infinite, IMAGES.float())
    assert maps.dtype == torch.float32
    assert maps.isinf().all()


def test_an_ensemble_takes_the_settings_of_its_method_and_says_what_it_claims():
    smooth = METHODS["integrated-gradients-smoothgrad"]
    assert {"n_steps", "baselines", "noise", "n_samples", "highest", "generator"} <= set(
        inspect.signature(smooth).parameters
    )
    with pytest.raises(AttributionLabError, match="did you mean 'n_steps'"):
        as_method("integrated-gradients-smoothgrad", METHODS, {"n_step": 9})
    assert as_method("integrated-gradients-smoothgrad", METHODS).claim is None
    assert as_method("integrated-gradients-vargrad", METHODS).claim == "overall"
    guided = as_method(methods.smoothgrad(methods.guided_backprop), METHODS)
    assert (guided.claim, guided.gradient) == ("positive", False)
    assert as_method(methods.vargrad(methods.lrp), METHODS).output == "logit"
    assert as_method(methods.vargrad(methods.gradcam), METHODS).resolution == "gradcam"


@each
def test_a_setting_of_the_method_may_have_the_name_of_any_parameter(kind):
    def own(model, inputs, targets, *, method, settings):
        return inputs * (method + settings)

    with collect_notices():
        found = ENSEMBLES[kind][0](own)(
            *(network(), IMAGES, TARGETS),
            highest=2.0,
            noise=0.25,
            n_samples=5,
            generator=seeded(),
            method=2.0,
            settings=1.0,
        )
        assert torch.equal(found, run(kind, lambda model, inputs, targets: inputs * 3.0))
    assert {"method", "settings"} < set(inspect.signature(methods.vargrad(own)).parameters)


def test_a_quadrature_can_be_chosen_of_all_that_is_made_of_integrated_gradients():
    names = ("smoothgrad", "smoothgrad-absolute", "true-baseline-vargrad", "absolute-smoothgrad")
    for name in names:
        maps = []
        for rule in ("riemann_left", "riemann_right"):
            settings = {"method": rule, "n_steps": 3}
            method = as_method(f"integrated-gradients-{name}", METHODS, settings)
            offered = {"generator": seeded(), "highest": 2.0, "baseline": torch.zeros(2, 1, 1)}
            with collect_notices():
                call = Call("mine", network(), IMAGES, TARGETS, 0, 3, offered)
                maps.append(attribute(method, call, 0).maps)
        assert not torch.equal(*maps), name


def test_a_method_that_draws_shares_the_generator_and_knows_the_value_range():
    seen = []

    def drawing(model, inputs, targets, *, generator, highest):
        seen.append((generator, highest))
        return torch.randn(inputs.shape, generator=generator)

    generator = seeded()
    run("vargrad", drawing, generator=generator)
    assert seen == [(generator, 2.0)] * 3


def test_the_maps_that_are_reduced_can_be_had_themselves():
    settings = {"highest": 2.0, "noise": 0.25, "n_samples": 5}
    maps = list(
        maps_of_samples(
            input_x_gradient, network(), IMAGES, TARGETS, generator=seeded(), **settings
        )
    )
    assert [tuple(of_image.shape) for of_image in maps] == [(5, 2, 4, 4)] * 3
    assert torch.equal(torch.stack([of_image.mean(0) for of_image in maps]), run("smoothgrad"))


def test_a_run_offers_what_an_ensemble_asks_for_and_sees_that_it_draws():
    env = al.load("color-detector", image_size=16)
    method = as_method(methods.vargrad(methods.saliency), METHODS, {"noise": 0.001})
    images, labels = env.batch(2)
    found = []
    for seed in (3, 3, 4):
        offered = {"generator": seeded(seed), "highest": env.max_value}
        call = Call(env.name, env.model, images, env.targets(labels), 0, 2, offered)
        with collect_notices():
            found.append(attribute(method, call, seed))
    assert all(each.random for each in found)
    assert torch.equal(found[0].maps, found[1].maps)
    assert not torch.equal(found[0].maps, found[2].maps)
