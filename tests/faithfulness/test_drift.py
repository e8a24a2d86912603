"""How far maps drift between functionally equal networks, and how that is read."""

import copy
import functools

import numpy as np
import pytest
import torch
from captum.attr import Occlusion, Saliency

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.base import gradient_rounding, is_ours
from attributionlab.base.exact import path_integral
from attributionlab.methods import METHODS, as_method, collect_notices, paths
from attributionlab.verdicts import CONTROLS, Drift, attribute_batch, camouflage_seeds, drift_on
from attributionlab.verdicts.faithfulness import equal_networks as drifting
from attributionlab.verdicts.faithfulness.equal_networks import (
    drift_of,
    maps_with_bound,
    shows_integer_images_only,
)
from attributionlab.verdicts.faithfulness.protocol import Also
from attributionlab.verdicts.faithfulness.setup import Setup
from attributionlab.worlds import Environment
from attributionlab.worlds.nets import camouflaged


@pytest.fixture(scope="module")
def colors():
    """Camouflages are made once."""
    env = al.load("multi-color-sum", image_size=16)
    env.camouflaged = functools.cache(env.camouflaged)
    return env


def setup_of(method, env, n=2, networks=2, claim="overall", output="probability", **settings):
    resolved = as_method(method, METHODS | CONTROLS, settings)
    return Setup(resolved, env, output, output, claim, n=n, also=Also(camouflage=networks))


def drift(method, env, **changes):
    return drift_of(setup_of(method, env, **changes))


def is_watched(model):
    """Whether more than what every call looks at is asked: by a search for memory, or by `Watch`."""
    return not all(map(is_ours, model._forward_pre_hooks.values()))


@pytest.mark.long
def test_drift_is_the_distance_from_the_plain_map_in_its_norm(colors):
    first, second = camouflage_seeds(0, 2)
    networks = {
        5: lambda env: env.camouflaged(first),
        6: lambda env: env.camouflaged(second),
    }
    seen = []

    def method(model, inputs, targets):
        maps = inputs - 20.0
        if model is not colors.softmax_model:
            maps[:, 0, 0, 0] += 3.0 * (1 + len(seen))
        if not is_watched(model) and inputs.dtype == torch.float32:
            seen.append(model)
        return maps

    found = drift_on(networks, setup_of(method, colors, n=1))
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


@pytest.mark.long
def test_every_network_gets_equal_images_targets_and_seeds_and_its_own_layers(colors):
    calls = []

    def method(model, inputs, targets, *, layers, baseline, generator):
        if inputs.dtype == torch.float32 and not is_watched(model):
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


@pytest.mark.long
@pytest.mark.parametrize("method", ["occlusion", "occlusion-true-baseline", Occlusion])
def test_methods_that_show_integer_images_only_do_not_drift(colors, method):
    settings = {"sliding_window_shapes": (3, 4, 4)} if method is Occlusion else {}
    found = drift_of(setup_of(method, colors, **settings))
    assert found.integer_images_only
    assert found.reading == "equal, as it must be"
    assert found.largest == found.largest_difference == 0
    assert found.in_float64 is None


@pytest.mark.long
def test_lime_does_not_drift_under_equal_seeds(colors):
    found = drift("lime", colors, n=1, n_samples=20, segmentation="grid")
    assert found.reading == "equal, as it must be"


@pytest.mark.long
@pytest.mark.parametrize("method", ["saliency", "input-x-gradient", Saliency])
def test_gradients_drift_by_no_more_than_rounding(colors, method):
    found = drift(method, colors)
    assert not found.integer_images_only
    assert found.largest > 0
    assert found.within_bound
    assert found.vanishes
    assert found.in_float64 < 2.0**-20 * found.largest
    assert found.reading == "within rounding"


def test_a_kink_that_a_mirrored_kernel_adds_is_beyond_rounding():
    env = al.load("single-color-modulo", image_size=16)

    def mirrored(env):
        network = camouflaged(env.network, 23, moves=["mirrored-kernels"])
        return Environment(env.spec, network, env.recipe)

    found = drift_on({23: mirrored}, setup_of("saliency", env, n=4, output="logit"))
    assert found.largest > 0.1
    assert not found.within_bound
    # Whether a neuron stands on its kink does not depend on the precision.
    assert found.in_float64 == pytest.approx(found.largest, rel=1e-5)
    assert found.reading == "beyond rounding"


def test_exact_integrals_stay_within_their_stated_error(colors):
    found = drift("integrated-gradients-exact", colors, n=1, networks=1)
    assert found.rounding_bound < 1e-5
    assert found.within_bound
    assert found.in_float64 is None  # it computes in float64 anyway


@pytest.mark.long
def test_a_map_of_a_layer_drifts_by_rounding_which_vanishes_in_float64(colors):
    found = drift("gradcam", colors)
    assert found.bounds is None
    assert found.largest > 0
    assert found.vanishes
    assert found.reading == "within rounding"
    assert drift("gradcam", colors, networks=1, output="logit").refused == ""


@pytest.mark.long
def test_each_of_two_maps_may_be_off_by_its_own_bound(colors, monkeypatch):
    sizes = iter([1.0, 2.0, 4.0])
    maps_with_bound = drifting.maps_with_bound

    def bounded(*asked):
        maps, _ = maps_with_bound(*asked)
        return maps, torch.full((len(maps),), next(sizes)).double()

    monkeypatch.setattr(drifting, "maps_with_bound", bounded)
    assert drift("sobel", colors).bounds.tolist() == [[3.0, 3.0], [5.0, 5.0]]


def test_each_network_is_made_once_and_each_integral_computed_once(colors, monkeypatch):
    made, integrals = [], []

    def made_once(env, seed):
        made.append(seed)
        return env.camouflaged(seed)

    def integral(*asked, **settings):
        integrals.append(asked)
        return path_integral(*asked, **settings)

    for module in (paths, drifting):
        monkeypatch.setattr(module, "path_integral", integral)
    networks = {seed: functools.partial(made_once, seed=seed) for seed in camouflage_seeds(0, 2)}
    found = drift_on(networks, setup_of("saliency", colors, n=1))
    assert found.in_float64 is not None
    assert made == list(networks)
    drift_on(networks, setup_of("integrated-gradients-exact", colors, n=1))
    assert (
        len(integrals) == 3 + 1
    )  # one network and two more; the probe's is stopped at its first look


# In float64


def on_another_network(colors, change):
    """A method whose maps change on all networks but the plain one, by image and precision."""
    first = next(colors.softmax_model.parameters())
    images = list(colors.batch(3)[0])

    def method(model, inputs, targets):
        maps = inputs - 20.0
        plain = torch.equal(next(model.parameters()).float(), first)
        for image, values in zip(inputs.float(), maps, strict=True):
            index = [torch.equal(image, each) for each in images].index(True)
            change(values, index, plain)
        return maps

    return method


@pytest.mark.long
def test_a_drift_of_a_later_image_is_no_rounding_although_the_firsts_is(colors):
    def change(values, index, plain):
        if not plain:
            values *= 1.5 if index == 2 else 1 + 1e-9

    found = drift(on_another_network(colors, change), colors, n=3)
    assert found.distances[:, :2].tolist() == [[0, 0], [0, 0]]  # 1e-9 is less than float32 resolves
    assert found.largest == pytest.approx(0.5)
    assert found.in_float64 == pytest.approx(0.5)
    assert found.reading == "drifts"


@pytest.mark.long
def test_what_is_left_of_one_image_is_not_measured_by_anothers_drift(colors):
    def change(values, index, plain):
        narrow = values.dtype == torch.float32
        if not plain:
            values *= (1.5 if narrow else 1.0) if index == 0 else 1 + 2.0**-22

    found = drift(on_another_network(colors, change), colors, n=3)
    assert found.in_float64 < 2.0**-20 * found.largest
    assert found.reading == "drifts"


@pytest.mark.long
def test_a_first_map_of_zeros_hides_no_float64(colors):
    def change(values, index, plain):
        if index == 0:
            values *= 0
        elif not plain and values.dtype == torch.float32:
            values *= 1 + 2.0**-22

    found = drift(on_another_network(colors, change), colors)
    assert found.largest == pytest.approx(2.0**-22, rel=0.5)  # of which float32 rounds some
    assert found.in_float64 == 0
    assert found.reading == "within rounding"


@pytest.mark.long
def test_a_method_that_does_not_run_in_float64_may_drift_by_rounding_or_not(colors):
    def method(model, inputs, targets):
        if inputs.dtype != torch.float32:
            raise TypeError("float32 only")
        layer = next(module for module in model.modules() if isinstance(module, torch.nn.Conv2d))
        return inputs * layer.weight.abs().sum()

    found = drift(method, colors)
    assert found.largest > 0.1
    assert found.in_float64 is None
    assert found.reading == "not known"


@pytest.mark.long
def test_a_method_that_reads_weights_drifts_and_float64_does_not_help(colors):
    def method(model, inputs, targets):
        layer = next(module for module in model.modules() if isinstance(module, torch.nn.Conv2d))
        return inputs * layer.weight.abs().sum().to(inputs.dtype)

    found = drift(method, colors)
    assert found.reading == "drifts"
    assert found.in_float64 > 0.1


@pytest.mark.long
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
    assert "cannot explain another network" in drift(maps, colors).refused
    assert "pass the class" in drift(Saliency(colors.softmax_model), colors).refused
    document = drift(maps, colors).to_dict()
    assert (document["median"], document["reading"], document["appeared"]) == (None, "", 0)


@pytest.mark.long
def test_a_method_that_does_not_run_on_a_camouflaged_network_is_not_applicable(colors):
    settings = {"layer": "accumulator.0"}
    found = drift("gradcam", colors, **settings)
    assert found.refused.startswith("the method does not run there")
    assert "accumulator.0" in found.refused


def test_f1_is_that_of_the_maps_of_each_network(colors):
    first, second = camouflage_seeds(0, 2)
    networks = {
        1: lambda env: env.camouflaged(first),
        2: lambda env: env.camouflaged(second),
    }
    truth = colors.truth(*colors.batch(1)).signed.float()
    scale = {}

    def method(model, inputs, targets):
        sign = -1.0 if scale.setdefault(id(model), len(scale)) == 1 else 1.0
        return sign * truth.to(inputs.dtype)

    found = drift_on(networks, setup_of(method, colors, n=1, claim="signed"))
    assert found.plain_f1 == 1
    assert list(found.network_f1) == [0, 1]
    document = found.to_dict()
    assert (document["lowest_f1"], document["highest_f1"]) == (0, 1)


# In a test


@pytest.mark.long
def test_a_report_has_the_drift_and_the_verdict_is_as_without(colors):
    plain = al.faithfulness_test("oracle", colors, n=2)
    report = al.faithfulness_test("oracle", colors, n=2, also="camouflage:2")
    assert plain.environments[0].drift is None
    assert plain.to_dict()["environments"][0]["drift"] is None
    assert report.verdict == plain.verdict
    document = report.to_dict()["environments"][0]["drift"]
    assert document["networks"] == camouflage_seeds(0, 2)
    assert document["images"] == 2
    assert "also=('camouflage:2',)" in report.command
    [undiagnosed] = al.compare("oracle", colors, n=2, also=["camouflage:2"]).reports
    assert undiagnosed.to_dict()["environments"][0]["drift"] == document


@pytest.mark.parametrize("networks", [-1, 0, 101, 1.5, "many"])
def test_an_impossible_number_of_networks_is_refused(colors, networks):
    with pytest.raises(AttributionLabError, match=r"also: camouflage is .* from 1 to 100"):
        al.faithfulness_test("saliency", colors, n=1, also=f"camouflage:{networks}")


def test_a_camouflaged_environment_is_refused_before_the_run(colors):
    other = al.load("multi-color-sum", image_size=16, camouflage_seed=1)
    with pytest.raises(
        AttributionLabError,
        match="names 'camouflage', but multi-color-sum already has rewritten networks",
    ):
        al.faithfulness_test("saliency", other, n=1, also="camouflage:2")


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


def left(amount):
    """What is left of the first image's drift in float64."""
    return {"sizes_in_float64": np.array([2.0, 0.0]), "apart_in_float64": np.array([[amount, 0.0]])}


TIGHT, LOOSE = np.array([[0.01, 0.0]]), np.array([[10.0, 0.0]])
SMALL = {"apart": np.array([[0.005, 0.0]]), "differences": np.array([[0.005, 0.0]])}


@pytest.mark.parametrize(
    ("found", "reading"),
    [
        (made(**SMALL, bounds=TIGHT), "within rounding"),
        (made(bounds=TIGHT), "beyond rounding"),
        (made(bounds=LOOSE, **left(1e-9)), "within rounding"),
        (made(bounds=LOOSE, **left(0.1)), "beyond rounding"),
        (made(bounds=LOOSE), "not known"),
        (made(**left(1e-9)), "within rounding"),
        (made(**left(0.1)), "drifts"),
        (made(), "not known"),
        (made(**SMALL, bounds=TIGHT, **left(0.1)), "beyond rounding"),
    ],
)
def test_bounds_and_float64_tell_what_rounding_is(found, reading):
    assert found.reading == reading


def test_next_to_nothing_is_2_to_the_minus_20_of_the_drift_or_2_to_the_minus_44_of_the_map():
    assert made(**left(2.0**-20)).vanishes
    assert not made(**left(2.0**-19)).vanishes
    # Of the second image float32 shows no drift at all.
    both = {"sizes": np.ones(2), "sizes_in_float64": np.ones(2)}
    assert made(**both, apart_in_float64=np.array([[0.0, 2.0**-44]])).reading == "within rounding"
    assert made(**both, apart_in_float64=np.array([[0.0, 2.0**-43]])).reading == "drifts"


def test_networks_that_need_no_float64_have_none_and_count_as_rounding():
    twice = {
        "networks": [1, 2],
        "apart": np.array([[1.0, 0.0], [0.0, 0.0]]),
        "differences": np.array([[0.5, 0.0], [0.0, 0.0]]),
        "sizes_in_float64": np.array([2.0, 0.0]),
    }
    found = made(**twice, apart_in_float64=np.array([[1e-9, 0.0], [np.nan, np.nan]]))
    assert found.settled.tolist() == [[False, True], [True, True]]
    assert found.in_float64 == 5e-10
    assert found.reading == "within rounding"


# Bounds on rounding, by method


def bound(name, env, **settings):
    setup = setup_of(name, env, **settings)
    [batch] = setup.batches()
    with collect_notices():  # what guards say of the maps
        maps, found = maps_with_bound(setup, batch)
        own = attribute_batch(setup, batch).maps
    assert torch.equal(maps, own)
    return found, batch


def test_channels_of_a_bound_add_up_and_the_input_multiplies(colors):
    plain, batch = bound("saliency", colors)
    times_input, _ = bound("input-x-gradient", colors)
    each = gradient_rounding(colors.softmax_model, batch.images, batch.targets)
    assert torch.equal(plain, each.sum(1).flatten(1).norm(dim=1))
    weighted = (each * batch.images).sum(1).flatten(1).norm(dim=1)
    assert torch.equal(times_input, weighted)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("integrated-gradients-exact", {"baselines": 20.0}),
        ("integrated-gradients-exact", {"max_panels": 3}),
        ("integrated-gradients-exact", {}),
        ("integrated-gradients-exact-true-baseline", {}),
    ],
)
def test_an_exact_integral_has_the_error_that_it_states(colors, name, settings):
    found, batch = bound(name, colors, **settings)
    start = colors.baseline if name.endswith("true-baseline") else settings.get("baselines", 0.0)
    start = torch.as_tensor(start).reshape(-1, 1, 1)
    limits = {"max_panels": settings.get("max_panels", 10_000)}
    model = colors.softmax_model
    result = path_integral(model, batch.images, start, batch.targets, **limits)
    # Three channels add up; float32 rounds what is returned by 2^-24 of it.
    expected = (result.error + 2.0**-24 * result.attributions.flatten(1).norm(dim=1)) * 3**0.5
    assert torch.equal(found, expected)


@pytest.mark.parametrize("name", ["guided-backprop", "integrated-gradients", "gradcam", "lime"])
def test_for_other_methods_there_is_none(colors, name):
    assert bound(name, colors)[0] is None


def probed(method, env, **settings):
    resolved = as_method(method, METHODS | CONTROLS, settings)
    setup = Setup(resolved, env, "probability", "probability")
    [batch] = setup.batches()
    return shows_integer_images_only(setup, batch)


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


@pytest.mark.long
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
