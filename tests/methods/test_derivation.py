"""A name with suffixes is the method that the suffixes make of the known one."""

import inspect
from functools import partial

import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError, methods
from attributionlab.base import AttributionWarning, GuardWarning
from attributionlab.methods import (
    METHODS,
    Notice,
    absolute,
    as_method,
    base_and_suffix,
    collect_notices,
    declares,
    derived,
    notify,
    summarized,
)
from attributionlab.verdicts import CONTROLS
from random_chains import seeded, tanh_network

IMAGES = torch.linspace(-1, 1, 96).reshape(3, 2, 4, 4).double()
TARGETS = torch.tensor([0, 1, 1])
network = partial(tanh_network, 32)
NAMES = [
    *("input-x-gradient-smoothgrad", "saliency-smoothgrad", "input-x-gradient-absolute"),
    *("input-x-gradient-smoothgrad-absolute", "integrated-gradients-absolute"),
    *("integrated-gradients-uniform-absolute", "integrated-gradients-smoothgrad-absolute"),
    *("saliency-absolute", "integrated-gradients-smoothgrad", "integrated-gradients-vargrad"),
    "integrated-gradients-smoothgrad-squared",
]


def maps_of(name, **changes):
    function = derived(name, METHODS)
    given = {"generator": seeded(), "highest": 2.0, "baseline": torch.ones(2, 1, 1).double()}
    given = {key: value for key, value in given.items() if key in parameters(name)}
    with collect_notices():
        return function(network(), IMAGES, TARGETS, **given | changes)


def parameters(name):
    return inspect.signature(derived(name, METHODS)).parameters


# Absolute values


def test_an_absolute_value_is_that_of_the_sum_over_channels():
    signed = methods.input_x_gradient(network(), IMAGES, TARGETS)
    found = methods.input_x_gradient_absolute(network(), IMAGES, TARGETS)
    for image in range(3):
        for row in range(4):
            for column in range(4):
                first, second = signed[image, :, row, column].tolist()
                assert found[image, 0, row, column] == abs(first + second)
    assert (signed.sum(1) < 0).any()
    assert (signed.prod(1) < 0).any()  # channels that cancel


def test_a_map_of_one_channel_keeps_its_size():
    maps = -torch.rand(3, 1, 4, 4)
    found = absolute(lambda model, inputs, targets: maps)(None, IMAGES.float(), TARGETS)
    assert torch.equal(found, -maps)
    assert found.dtype == torch.float32


def test_a_sum_that_the_type_cannot_hold_is_returned_in_float64():
    maps = torch.full((3, 2, 4, 4), -3e38)
    found = absolute(lambda model, inputs, targets: maps)(None, IMAGES.float(), TARGETS)
    assert found.dtype == torch.float64
    assert torch.equal(found, -maps.double().sum(1, keepdim=True))


def test_it_claims_the_overall_truth_and_keeps_what_the_method_declares_beside():
    @declares(claim="signed", output="logit", gradient=True, resolution="iba", distribution=True)
    def method(model, inputs, targets, *, steps=3):
        """A method."""

    for made in (absolute(method), absolute(partial(method, steps=5))):
        assert (made.claim, made.output, made.gradient) == ("overall", "logit", True)
        assert (made.resolution, made.distribution) == ("iba", True)
        assert made.__name__ == "method_absolute"
        assert made.__doc__.startswith("The absolute value of method, taken after summing over")
    assert str(inspect.signature(absolute(method))) == "(model, inputs, targets, *, steps=3)"
    assert as_method(absolute(methods.saliency), METHODS).gradient


def test_what_the_method_tells_is_told_of_the_signed_map_and_without_its_sum():
    regions = torch.zeros(3, 4, 4, dtype=torch.int64)

    def telling(model, inputs, targets):
        notify(Notice("miss {worst}", 2, [0.5, 0.1, 0.2], 0.5, regions, "quadrature"))
        return inputs

    with collect_notices() as findings:
        absolute(telling)(None, IMAGES, TARGETS)
    [said] = findings
    assert summarized(findings) == [
        "attributions of 2 images are absolute values of maps that miss 50%"
    ]
    assert (said.gaps, said.kind, said.regions) == ((), "quadrature", regions)
    with pytest.warns(GuardWarning, match="are absolute values of maps that miss 50%"):
        absolute(telling)(None, IMAGES, TARGETS)


# By name


@pytest.mark.parametrize("name", NAMES)
def test_the_listed_ones_are_what_their_names_say(name):
    base, _ = base_and_suffix(name)
    again = derived(name, {base: derived(base, METHODS)})
    assert again is not METHODS[name]
    few = {"n_samples": 2, "n_steps": 2, "n_baselines": 2}
    few = {key: value for key, value in few.items() if key in parameters(name)}
    given = {"generator": seeded(), "highest": 2.0}
    given = {key: value for key, value in given.items() if key in parameters(name)}
    with collect_notices():
        expected = again(network(), IMAGES, TARGETS, **given, **few)
    assert torch.equal(maps_of(name, **few), expected)
    assert METHODS[name].__name__ == name.replace("-", "_") == again.__name__
    assert getattr(methods, METHODS[name].__name__) is METHODS[name]
    assert (METHODS[name].claim, again.claim) == (again.claim, METHODS[name].claim)


def test_suffixes_follow_each_other():
    found = maps_of("input-x-gradient-absolute-vargrad", n_samples=4, noise=0.2)
    by_hand = methods.vargrad(absolute(methods.input_x_gradient))
    with collect_notices():
        expected = by_hand(
            *(network(), IMAGES, TARGETS),
            generator=seeded(),
            highest=2.0,
            n_samples=4,
            noise=0.2,
        )
    assert torch.equal(found, expected)
    assert found.shape == (3, 1, 4, 4)
    assert derived("saliency-vargrad-absolute", METHODS).__name__ == "saliency_vargrad_absolute"


def test_the_same_name_is_the_same_object():
    assert derived("saliency", METHODS) is METHODS["saliency"]
    assert derived("saliency-vargrad", METHODS) is derived("saliency-vargrad", dict(METHODS))


def test_a_known_name_is_not_taken_apart():
    own = {"saliency-absolute": print}
    assert derived("saliency-absolute", own) is print
    assert derived("saliency-vargrad", own) is None


@pytest.mark.parametrize("name", ["absolute", "-absolute", "", "nothing-absolute", "saliency-"])
def test_what_no_known_name_is_left_of_is_nothing(name):
    assert derived(name, METHODS) is None


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("integrated-gradients-smoothgrad-true-baseline", "integrated-gradients-smoothgrad"),
        ("integrated-gradients-true-baseline-smoothgrad", "integrated-gradients-smoothgrad"),
        ("integrated-gradients-absolute-true-baseline", "integrated-gradients-absolute"),
    ],
)
def test_the_true_baseline_may_come_before_and_after_another_suffix(name, known):
    few = {"n_steps": 3} | ({"n_samples": 2} if "smooth" in name else {})
    found = maps_of(name, **few)
    expected = maps_of(known, baselines=1.0, **few)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
    assert "baselines" not in parameters(name)
    assert "baseline" in parameters(name)


def test_a_method_without_baselines_has_no_true_one():
    with pytest.raises(
        AttributionLabError,
        match=r"saliency-true-baseline: saliency has no setting 'baselines', .* take saliency$",
    ):
        derived("saliency-true-baseline", METHODS)


@pytest.mark.parametrize("suffix", ["smoothgrad", "smoothgrad-squared", "vargrad"])
@pytest.mark.parametrize("form", ["{}", "{}-absolute", "absolute-{}"])
def test_equal_maps_of_all_samples_are_told_whatever_is_made_of_them(suffix, form):
    name = f"input-x-gradient-{form.format(suffix)}"
    with collect_notices() as findings:
        derived(name, METHODS)(
            *(network(), IMAGES, TARGETS),
            generator=seeded(),
            highest=2.0,
            noise=0.0,
            n_samples=3,
        )
    [said] = summarized(findings)
    assert said.startswith("attributions of 3 images are ")
    assert "made from identical maps of all samples of input-x-gradient" in said
    with pytest.raises(AttributionLabError, match="n_samples is 0: take an integer"):
        derived(name, METHODS)(
            *(network(), IMAGES, TARGETS), generator=seeded(), highest=2.0, n_samples=0
        )


def test_an_inner_ensemble_that_draws_is_not_mistaken_for_equal_maps():
    with collect_notices() as findings:
        derived("saliency-smoothgrad-vargrad", METHODS)(
            *(network(), IMAGES, TARGETS),
            generator=seeded(),
            highest=2.0,
            noise=0.0,
            n_samples=3,
        )
    assert not summarized(findings)


def test_ensembles_of_ensembles_of_ensembles_are_refused_with_their_cost():
    with pytest.raises(AttributionLabError, match=r"3 suffixes .* 8,000 runs .* at most 2"):
        derived("saliency-smoothgrad-absolute-vargrad-smoothgrad-squared", METHODS)
    assert derived("saliency-smoothgrad-absolute-vargrad-absolute", METHODS)


@pytest.mark.parametrize(("control", "given"), [("oracle", "ideal"), ("inverted-oracle", "truth")])
def test_a_control_made_from_the_truth_takes_no_suffix(control, given):
    for name in (f"{control}-smoothgrad", f"{control}-smoothgrad-absolute"):
        with pytest.raises(
            AttributionLabError,
            match=rf"{control} is made from the truth \({given}\).* take {control}$",
        ):
            derived(name, METHODS | CONTROLS)
    assert derived("random-absolute", METHODS | CONTROLS)


# In commands and calls


def test_names_with_suffixes_are_methods_wherever_names_are():
    method = as_method("occlusion-absolute", METHODS, {"window": 9})
    assert (method.name, method.claim) == ("occlusion-absolute", "overall")
    assert method.reference == "'occlusion-absolute'"
    with pytest.raises(AttributionLabError, match="occlusion-absolute has no setting 'windw': did"):
        as_method("occlusion-absolute", METHODS, {"windw": 9})
    env = al.load("color-detector", image_size=16)
    with pytest.warns(AttributionWarning):
        report = al.faithfulness_test(
            "saliency-vargrad-absolute", env, n=2, settings={"n_samples": 2}
        )
    assert report.method == "saliency-vargrad-absolute"
    assert report.claim == "overall"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("salincy", "saliency"),
        ("lime-absolut", "lime-absolute"),
        ("gradcam-smoothgrad-sqared", "gradcam-smoothgrad-squared"),
        ("occlusion-tru-baseline", "occlusion-true-baseline"),
        ("input_x_gradient-absolute", "input-x-gradient-absolute"),
        ("gradcam-absolut-smoothgrad", "gradcam-absolute-smoothgrad"),
        ("salency-vargrad", "saliency-vargrad"),
        ("smoothgrad", "saliency-smoothgrad"),  # a suffix alone
        ("smooth-grad", "saliency-smoothgrad"),
    ],
)
def test_a_typing_error_is_refused_in_one_line_with_the_nearest_name(typed, meant):
    with pytest.raises(AttributionLabError) as caught:
        as_method(typed, METHODS)
    assert str(caught.value).startswith(f"no method named {typed!r}: did you mean {meant!r}? (or ")
    assert "\n" not in str(caught.value)


def test_what_is_like_no_name_is_refused_with_the_known_ones():
    with pytest.raises(
        AttributionLabError,
        match=r"'xyz': write path/to/file.py:xyz if it is yours .*built-in are lime, iba, and",
    ):
        as_method("xyz", {"lime": methods.lime, "iba": methods.iba})
