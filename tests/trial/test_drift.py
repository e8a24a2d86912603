"""How far maps drift between functionally equal networks, and what a method is seen to ask."""

import copy
import functools

import numpy as np
import pytest
import torch
from captum.attr import Occlusion, Saliency

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.assess import CONTROLS, Drift
from attributionlab.environment import Environment
from attributionlab.methods import METHODS, as_method
from attributionlab.nets import camouflaged
from attributionlab.trial import Trial
from attributionlab.trial import drift as drifting
from attributionlab.trial.calls import always_offered
from attributionlab.trial.drift import camouflage_seeds, drift_of, drift_on
from attributionlab.trial.probing import shows_integer_images_only


@pytest.fixture(scope="module")
def colors():
    """Camouflages are made once."""
    env = al.load("multi-color-sum", image_size=16)
    env.camouflaged = functools.cache(env.camouflaged)
    return env


def trial_of(env, n=2, networks=2, claim="overall", output="probability"):
    return Trial(env, output, output, claim, 0.5, n, 0, camouflage=networks)


def drift(method, env, **changes):
    return drift_of(as_method(method, METHODS | CONTROLS), trial_of(env, **changes))


def test_drift_is_the_distance_from_the_plain_map_in_its_norm(colors):
    first, second = camouflage_seeds(0, 2)
    networks = {
        5: lambda: colors.camouflaged(first),
        6: lambda: colors.camouflaged(second),
    }
    seen = []

    def method(model, inputs, targets):
        maps = inputs - 20.0
        if model is not colors.softmax_model:
            maps[:, 0, 0, 0] += 3.0 * (1 + len(seen))
        if not model._forward_pre_hooks and inputs.dtype == torch.float32:
            seen.append(model)
        return maps

    found = drift_on(networks, as_method(method, {}), trial_of(colors, n=1))
    image = colors.batch(1)[0]
    norm = float((image - 20.0).double().sum(1).norm())
    assert found.sizes.tolist() == [norm]
    assert found.apart.tolist() == [[6.0], [9.0]]
    assert found.distances.tolist() == [[6.0 / norm], [9.0 / norm]]
    assert found.differences.tolist() == [[6.0], [9.0]]
    assert found.median == pytest.approx(7.5 / norm)
    assert found.largest == 9.0 / norm
    assert found.largest_difference == 9.0
    assert found.networks == [5, 6]
    assert found.samples.shape == (3, 16, 16)
    assert found.samples[2, 0, 0] - found.samples[0, 0, 0] == 9


def test_every_network_gets_equal_images_targets_and_seeds_and_its_own_layers(colors):
    calls = []

    def method(model, inputs, targets, *, layers, baseline, generator):
        if inputs.dtype == torch.float32 and not model._forward_pre_hooks:
            calls.append((inputs, targets, baseline, torch.rand(3, generator=generator)))
            assert any(module is layers["gradcam"] for module in model.modules())
            assert any(module is layers["iba"] for module in model.modules())
        return inputs - 20.0

    found = drift(method, colors, n=2, networks=2)
    assert found.is_zero
    assert len(calls) == 6  # two images one by one, on three networks
    for first, second in zip(calls[:2] * 2, calls[2:], strict=True):
        assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_seeds_follow_from_the_runs_seed_and_differ():
    assert camouflage_seeds(0, 5)[:2] == camouflage_seeds(0, 2)
    assert len({*camouflage_seeds(0, 5), *camouflage_seeds(1, 5)}) == 10


# Methods


@pytest.mark.parametrize("method", ["occlusion", "occlusion-true-baseline", Occlusion])
def test_methods_that_show_integer_images_only_do_not_drift(colors, method):
    settings = {"sliding_window_shapes": (3, 4, 4)} if method is Occlusion else {}
    found = drift_of(as_method(method, METHODS, settings), trial_of(colors))
    assert found.integer_images_only
    assert found.reading == "equal, as it must be"
    assert found.largest == found.largest_difference == 0
    assert found.in_float64 is None


def test_lime_does_not_drift_under_equal_seeds(colors):
    method = as_method("lime", METHODS, {"n_samples": 20, "segmentation": "grid"})
    found = drift_of(method, trial_of(colors, n=1))
    assert found.reading == "equal, as it must be"


@pytest.mark.parametrize("method", ["saliency", "input-x-gradient", Saliency])
def test_gradients_drift_by_no_more_than_rounding(colors, method):
    found = drift(method, colors)
    assert not found.integer_images_only
    assert found.within_bound
    assert found.reading in ("within rounding", "equal")
    if not found.is_zero:
        assert found.vanishes


def test_a_kink_that_a_mirrored_kernel_adds_is_beyond_rounding():
    env = al.load("single-color-modulo", image_size=16)

    def mirrored():
        network = camouflaged(env.network, 23, moves=["mirrored-kernels"])
        return Environment(env.spec, network, env.recipe)

    trial = trial_of(env, n=4, output="logit")
    found = drift_on({23: mirrored}, as_method("saliency", METHODS), trial)
    assert found.largest > 0.1
    assert found.in_float64 is None or found.in_float64 == pytest.approx(found.distances[0, 0])
    assert found.reading == "beyond rounding"


def test_exact_integrals_stay_within_their_stated_error(colors):
    found = drift("integrated-gradients-exact", colors, n=1, networks=1)
    assert found.has_tight_bound
    assert found.within_bound
    assert found.in_float64 is None  # it computes in float64 anyway


def test_a_map_of_a_layer_drifts_by_rounding_which_vanishes_in_float64(colors):
    found = drift("gradcam", colors)
    assert found.bounds is None
    assert found.is_zero or found.vanishes
    assert found.reading in ("within rounding", "equal")
    assert drift("gradcam", colors, networks=1, output="logit").refused == ""


def test_each_of_two_maps_may_be_off_by_its_own_bound(colors, monkeypatch):
    sizes = iter([1.0, 2.0, 4.0])
    monkeypatch.setattr(
        drifting,
        "rounding_of",
        lambda _method, _trial, scene: torch.full((len(scene.images),), next(sizes)).double(),
    )
    assert drift("sobel", colors).bounds.tolist() == [[3.0, 3.0], [5.0, 5.0]]


def test_a_method_that_reads_weights_drifts_and_float64_does_not_help(colors):
    def method(model, inputs, targets):
        layer = next(module for module in model.modules() if isinstance(module, torch.nn.Conv2d))
        return inputs * layer.weight.abs().sum().to(inputs.dtype)

    found = drift(method, colors)
    assert found.reading == "drifts"
    assert found.in_float64 > 0.1


def test_integer_images_and_a_drift_all_the_same_is_said(colors):
    def method(model, inputs, targets):
        with torch.no_grad():
            outputs = model(inputs)[:, :1, None, None]
        hidden = sum(1 for _ in model.modules())
        return (inputs + outputs) * hidden

    found = drift(method, colors)
    assert found.integer_images_only
    assert found.reading == "differs, where it must not"


def test_what_cannot_be_asked_again_is_not_applicable(colors):
    maps = torch.ones(2, 1, 16, 16)
    assert "cannot be asked" in drift(maps, colors).refused
    assert "pass the class" in drift(Saliency(colors.softmax_model), colors).refused
    document = drift(maps, colors).to_dict()
    assert (document["median"], document["reading"], document["appeared"]) == (None, "", 0)


def test_a_method_that_does_not_run_on_a_camouflaged_network_is_not_applicable(colors):
    settings = {"layer": "accumulator.0"}
    method = as_method("gradcam", METHODS, settings)
    found = drift_of(method, trial_of(colors))
    assert found.refused.startswith("the method does not run there")
    assert "accumulator.0" in found.refused


def test_f1_is_that_of_the_maps_of_each_network(colors):
    first, second = camouflage_seeds(0, 2)
    networks = {
        1: lambda: colors.camouflaged(first),
        2: lambda: colors.camouflaged(second),
    }
    truth = colors.truth(*colors.batch(1)).signed.float()
    scale = {}

    def method(model, inputs, targets):
        sign = -1.0 if scale.setdefault(id(model), len(scale)) == 1 else 1.0
        return sign * truth.to(inputs.dtype)

    trial = trial_of(colors, n=1, claim="signed")
    found = drift_on(networks, as_method(method, {}), trial)
    assert found.plain_f1 == 1
    assert list(found.network_f1) == [0, 1]
    document = found.to_dict()
    assert (document["lowest_f1"], document["highest_f1"]) == (0, 1)


# The probe


def probed(method, env, **settings):
    adapted = as_method(method, METHODS | CONTROLS, settings)
    trial = trial_of(env, n=1)
    [scene] = trial.scenes("", False)
    return shows_integer_images_only(adapted, trial, scene, always_offered(adapted, trial))


def shows(change):
    """A method that shows the network one changed image."""

    def method(model, inputs, targets):
        with torch.no_grad():
            model(change(inputs))
        return inputs

    return method


def test_what_is_shown_must_be_integers_of_the_box(colors):
    assert probed(shows(lambda images: images), colors)
    assert probed(shows(lambda images: 255 - images), colors)
    assert not probed(shows(lambda images: images + 0.5), colors)
    assert not probed(shows(lambda images: images - 21), colors)
    assert not probed(shows(lambda images: images + 36), colors)


def test_gradients_layers_and_hooks_are_seen(colors):
    def by_input(model, inputs, targets):
        inputs.requires_grad_()
        return torch.autograd.grad(model(inputs).sum(), inputs)[0]

    def by_weights(model, inputs, targets):
        model(inputs).sum().backward()
        return inputs

    def one_layer(model, inputs, targets):
        with torch.no_grad():
            model(inputs)
            next(model.children())(inputs)
        return inputs

    def hooked(model, inputs, targets, *, layers):
        handle = layers["gradcam"].register_forward_hook(lambda *_: None)
        with torch.no_grad():
            model(inputs)
        handle.remove()
        return inputs

    for method in (by_input, by_weights, one_layer, hooked):
        assert not probed(method, colors)
    for name in ("saliency", "gradcam", "integrated-gradients", "deep-lift", "iba", "sobel"):
        assert not probed(name, colors)


def test_a_method_that_hides_what_it_sees_is_seen_all_the_same(colors):
    def method(model, inputs, targets):
        try:
            with torch.no_grad():
                model(inputs + 0.25)
        except BaseException:
            pass
        return inputs

    assert not probed(method, colors)


def test_a_copy_of_the_network_is_watched_too(colors):
    def method(model, inputs, targets):
        with torch.no_grad():
            copy.deepcopy(model)(inputs + 0.25)
        return inputs

    assert not probed(method, colors)


def test_the_probe_leaves_the_network_as_it_was(colors):
    probed("occlusion", colors)
    probed("integrated-gradients-exact", colors)
    for module in colors.softmax_model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


# In a test


def test_a_report_has_the_drift_and_the_verdict_is_as_without(colors):
    plain = al.faithfulness_test("oracle", colors, n=2)
    report = al.faithfulness_test("oracle", colors, n=2, camouflage=2)
    assert plain.environments[0].drift is None
    assert plain.to_dict()["environments"][0]["drift"] is None
    assert report.verdict == plain.verdict
    document = report.to_dict()["environments"][0]["drift"]
    assert document["networks"] == camouflage_seeds(0, 2)
    assert document["images"] == 2
    assert "camouflage=2" in report.command
    undiagnosed = al.faithfulness_test("oracle", colors, n=2, camouflage=2, diagnosed=False)
    assert undiagnosed.to_dict()["environments"][0]["drift"] == document


@pytest.mark.parametrize("networks", [-1, 101, 1.5, True])
def test_an_impossible_number_of_networks_is_refused(colors, networks):
    with pytest.raises(
        AttributionLabError, match=r"camouflage is .*: take an integer from 0 to 100"
    ):
        al.faithfulness_test("saliency", colors, n=1, camouflage=networks)


def test_a_camouflaged_environment_is_refused_before_the_run(colors):
    other = al.load("multi-color-sum", image_size=16, camouflage=1)
    with pytest.raises(AttributionLabError, match="camouflage is 2, but multi-color-sum is"):
        al.faithfulness_test("saliency", other, n=1, camouflage=2)


# Readings


def made(**changes):
    values = {
        "networks": [1],
        "images": 2,
        "sizes": np.array([2.0, 0.0]),
        "apart": np.array([[1.0, 0.0]]),
        "differences": np.array([[0.5, 0.0]]),
        "correlations": np.array([[0.5, np.nan]]),
    }
    return Drift(**(values | changes))


def test_a_map_of_zeros_has_no_drift_unless_the_other_is_zero_too():
    both = made()
    assert both.distances.tolist() == [[0.5, 0.0]]
    assert both.appeared == 0
    one = made(apart=np.array([[1.0, 3.0]]), differences=np.array([[0.5, 2.0]]))
    assert np.isnan(one.distances[0, 1])
    assert (one.median, one.largest, one.largest_difference, one.appeared) == (0.5, 0.5, 2.0, 1)
    assert both.rank_correlation == 0.5


def test_a_tight_bound_decides_and_float64_where_it_is_not():
    tight = np.array([[0.01, 0.0]])
    small = {"apart": np.array([[0.005, 0.0]]), "differences": np.array([[0.005, 0.0]])}
    assert made(**small, bounds=tight).reading == "within rounding"
    assert made(bounds=tight).reading == "beyond rounding"
    loose = np.array([[10.0, 0.0]])
    assert made(bounds=loose, in_float64=1e-9).reading == "within rounding"
    assert made(bounds=loose, in_float64=0.1).reading == "beyond rounding"
    assert made(bounds=loose).reading == "beyond rounding"
    assert made(in_float64=1e-9).reading == "within rounding"
    assert made(in_float64=0.1).reading == made().reading == "drifts"
