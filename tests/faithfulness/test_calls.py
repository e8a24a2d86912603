"""Every call of a method is a call of its own; what depends on chance or company is said."""

import os
import warnings

import numpy as np
import pytest
import torch

import attributionlab as al
from cases import loaded

wide = loaded("multi-color-sum", image_size=72)
"""Large enough for every patch to have many pixels, and several images a batch."""


def gradient(model, inputs, targets):
    inputs = inputs.clone().requires_grad_()
    model(inputs).gather(1, targets[:, None]).sum().backward()
    return (inputs.grad * inputs).detach()


def quietly(*arguments, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", al.AttributionWarning)
        return al.faithfulness_test(*arguments, **settings)


def said(report):
    return " ".join(report.warnings)


def assert_first_cause(report, cause):
    """In the report, in the file, in the table, and so in the message of the pytest plugin."""
    assert report.hints[0].cause == cause
    document = report.to_dict()
    assert document["hints"][0]["cause"] == cause
    assert document["environments"][0]["diagnosis"]["hints"][0]["cause"] == cause
    table = " ".join(report.text().split())
    assert table.index(report.hints[0].says) < table.index("controls")


@pytest.mark.long
@pytest.mark.parametrize("one_network", [False, True])
def test_what_a_call_changes_in_place_no_other_call_and_no_control_sees(colors, one_network):
    offers = []

    def vandal(model, inputs, targets, *, baseline, reference_images, layers, patches):
        maps = gradient(model, inputs, targets)
        offers.append((baseline.clone(), reference_images.clone(), dict(layers)))
        for tensor in (inputs, targets, baseline, reference_images, patches):
            tensor.zero_()
        layers.clear()
        return maps

    asked = {"n": 3, "claim": "overall", "one_network": one_network}
    [spoiled] = quietly(vandal, colors, **asked).environments
    [clean] = quietly(gradient, colors, **asked).environments
    assert spoiled.controls == clean.controls
    assert spoiled.bar == clean.bar
    assert spoiled.diagnosis.shares == clean.diagnosis.shares
    assert spoiled.resolution_f1 == clean.resolution_f1
    assert np.array_equal(spoiled.attributions, clean.attributions)
    assert len(offers) > 2  # the check of batches makes calls, too
    if not one_network:  # the first question is asked again, after the others
        offers = [offers[0], offers[3], offers[4]]
    baseline, images, layers = offers[0]
    assert images.any()
    for other in offers[1:]:
        assert torch.equal(other[0], baseline)
        assert torch.equal(other[1], images)
        assert other[2] == layers != {}


def test_changed_targets_are_said(colors):
    def method(model, inputs, targets):
        maps = gradient(model, inputs, targets)
        targets.fill_(99)
        return torch.zeros_like(maps)

    assert "came with modified targets" in said(quietly(method, colors, n=2))


def test_settings_are_the_users_after_every_call(colors):
    def method(model, inputs, targets, *, seen):
        seen.append(1)
        assert len(seen) == 1
        return gradient(model, inputs, targets)

    report = quietly(method, colors, n=2, settings={"seen": []})
    assert report.settings == {"seen": []}


@pytest.mark.long
def test_a_setting_that_cannot_be_written_down_costs_no_result(colors, tmp_path):
    class Shy:
        def __repr__(self):
            raise ValueError("no")

    def method(model, inputs, targets, *, shy, large):
        return gradient(model, inputs, targets)

    report = quietly(method, colors, n=2, settings={"shy": Shy(), "large": 10**6000})
    report.to_json(tmp_path / "t.json")
    report.to_html(tmp_path / "t.html")
    assert "<Shy>" in report.command


def test_where_a_method_stands_and_what_it_switches_is_put_back(colors, tmp_path):
    folder, errors = os.getcwd(), np.geterr()

    def method(model, inputs, targets):
        os.chdir(tmp_path)
        np.seterr(all="raise")
        torch.use_deterministic_algorithms(True)
        maps = gradient(model, inputs, targets)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        return maps

    quietly(method, colors, n=2)
    assert os.getcwd() == folder
    assert np.geterr() == errors
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()


@pytest.mark.long
def test_a_method_that_cannot_explain_the_runner_up_keeps_its_verdict(colors):
    labels = colors.batch(4)[1]

    def method(model, inputs, targets):
        if not torch.equal(targets, labels[: len(targets)]) and len(targets) == 4:
            raise ValueError("only labels")
        return gradient(model, inputs, targets)

    report = quietly(method, colors, n=4, one_network=True)
    assert report.verdict == quietly(gradient, colors, n=4, one_network=True).verdict
    assert report.environments[0].runner_up is None
    assert "for the class with the second-most pixels" in said(report)
    assert "only labels" in said(report)


def test_chance_that_no_seed_sets_is_said(colors):
    source = np.random.default_rng()

    def method(model, inputs, targets):
        return source.random(inputs.shape)

    report = quietly(method, colors, n=2)
    assert "draws random numbers that no seed sets" in said(report)
    assert_first_cause(report, "unseeded")


@pytest.mark.long
@pytest.mark.parametrize("one_network", [False, True])
@pytest.mark.parametrize("size", [24, pytest.param(224, marks=pytest.mark.slow)])
def test_images_that_a_method_mixes_are_noticed_at_every_size(size, one_network):
    env = al.load("multi-color-sum", image_size=size)

    def first_for_all(model, inputs, targets):
        return gradient(model, inputs, targets)[:1].expand_as(inputs)

    def reversed_batch(model, inputs, targets):
        return gradient(model, inputs, targets).flip(0)

    for method in (first_for_all, reversed_batch):
        report = quietly(method, env, n=2, one_network=one_network)
        assert "mixes the images of a batch" in said(report)
        assert_first_cause(report, "batch-mixing")
    assert "mixes" not in said(quietly(gradient, env, n=2, one_network=one_network))


@pytest.mark.long
def test_each_image_of_a_method_that_draws_has_a_seed_of_its_own(wide):
    """A coin for each call: images that shared it would agree, and their interval have no width."""

    def declared(model, inputs, targets, *, generator):
        return gradient(model, inputs, targets) * (
            1 if torch.rand((), generator=generator) < 0.5 else -1
        )

    def from_global_state(model, inputs, targets):
        return gradient(model, inputs, targets) * (1 if torch.rand(()) < 0.5 else -1)

    for method in (declared, from_global_state):
        [result] = quietly(method, wide, n=12, also=None).environments
        assert result.stochastic
        assert set(np.round(result.scores["positive"]["f1"], 3)) == {0.0, 1.0}
        low, high = result.claim_interval
        assert high - low > 0.2


env = loaded("multi-color-sum", image_size=16)


def test_a_method_gets_what_the_test_gives_it(env):
    images, labels = env.batch(3, 5)
    seen, given = {}, {"settings": {"by": 3}, "explain": "logit"}

    def method(model, inputs, targets, *, baseline, generator, by=1):
        seen["model"], seen["baseline"] = model, baseline
        model.train()
        inputs += torch.rand(1, generator=generator)
        return inputs * by

    with pytest.warns(al.AttributionWarning) as warned:
        maps = al.attribute(method, env, images, labels, **given, seed=2)
    assert seen["model"] is env.model
    assert torch.equal(seen["baseline"], env.baseline)
    assert not env.model.training
    assert maps.shape == (3, 1, 16, 16)
    assert maps.dtype == torch.float64
    texts = " ".join(str(each.message) for each in warned)
    assert "training mode" in texts
    assert "modified inputs" in texts
    # Each image is drawn for by itself, and the images given stay as they are.
    added = maps - 3 * images.double().sum(1, keepdim=True)
    assert len({round(float(each.mean()), 4) for each in added}) == 3
    with pytest.warns(al.AttributionWarning):
        same, changed = (
            al.attribute(method, env, images, labels, **given, seed=seed) for seed in (2, 3)
        )
    assert torch.equal(maps, same)
    assert not torch.equal(maps, changed)


def test_controls_and_patches_are_given_where_they_are_known(env):
    images, labels = env.batch(2, 5)
    truth = env.truth(images, labels)
    assert torch.equal(al.attribute("oracle", env, images, labels), truth.signed.double())
    patches = torch.stack([env.dataset(2, 5)[i].patches for i in range(2)])
    filled = al.attribute("filled-patches", env, images, labels, patches=patches)
    assert torch.equal(filled[:, 0] > 0, patches > 0)
    with pytest.raises(al.AttributionLabError, match="pass patches"):
        al.attribute("filled-patches", env, images, labels)
    with pytest.raises(al.AttributionLabError, match="pass patches"):
        al.attribute("lime", env, images, labels, settings={"segmentation": "patches"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "gradcm"}, "no method named 'gradcm'"),
        ({"env": "multi-color-sum"}, "env is 'multi-color-sum': pass an environment"),
        ({"settings": {"x": 1}}, "gradcam has no setting 'x'"),
        ({"explain": "logits"}, "output"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_what_cannot_be_attributed_is_refused(env, without_shape_checks, change, message):
    images, labels = env.batch(1)
    given = {"method": "gradcam", "env": env, "images": images, "targets": labels} | change
    with pytest.raises(al.AttributionLabError, match=message):
        al.attribute(**given)


def test_images_that_the_network_was_not_made_for_are_refused(env):
    images, labels = env.batch(1)
    with pytest.raises(al.AttributionLabError):
        al.attribute("gradcam", env, images + 0.5, labels)
