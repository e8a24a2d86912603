"""A user's own environment in the tests of methods: verdicts, comparisons, maps, documents."""

import json
import re

import numpy as np
import pytest
import torch
from captum.attr import InputXGradient, LayerGradCam
from torch import nn

import attributionlab as al
from attributionlab.verdicts import DEFAULT_ENVIRONMENTS
from attributionlab.worlds.environment.hidden import HIDDEN
from schemas import problems

SIDE = 8

pytestmark = pytest.mark.filterwarnings("ignore:.*rest on a convention")


def network():
    """Two logits, by hand: channel 0 minus channel 1 in the left half, and the reverse; no ReLU."""
    last = nn.Linear(2 * SIDE * SIDE, 2, bias=False)
    weights = torch.zeros(2, SIDE, SIDE)
    weights[0, :, : SIDE // 2], weights[1, :, : SIDE // 2] = 1, -1
    last.weight.data = torch.stack([weights.flatten(), -weights.flatten()])
    return nn.Sequential(nn.Identity(), nn.Flatten(), last).eval()


def questions(n):
    drawn = torch.randint(4, (n, SIDE, SIDE), generator=torch.Generator().manual_seed(0))
    shades = 0.25 + 0.5 * torch.rand(n, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    images = torch.stack([(drawn == 2) * shades, (drawn == 3) * shades], 1)
    first = (images[:, 0] - images[:, 1]).sign()
    first[:, :, SIDE // 2 :] = 0
    return images, torch.stack([first, -first], 1)


@pytest.fixture(scope="module")
def env():
    model = network()
    return al.custom_environment(
        model, *questions(16), baseline=0, layers={"gradcam": model[0]}, name="halves"
    )


def ablation(model, inputs, targets, *, baseline):
    """What each pixel's removal takes from the output, by a forward pass each: the Shapley values of a
    sum.
    """
    maps = torch.zeros_like(inputs[:, 0])
    with torch.no_grad():
        for place in np.ndindex(*maps.shape[1:]):
            removed = inputs.clone()
            removed[(slice(None), slice(None), *place)] = baseline[:, 0, 0]
            change = model(inputs) - model(removed)
            maps[(slice(None), *place)] = change.gather(1, targets[:, None])[:, 0]
    return maps


def test_shapley_values_solve_the_questions_and_exclude_no_blind_maps(env):
    report = al.faithfulness_test(ablation, environments=[env], n=13)
    [result] = report.environments
    assert (report.verdict, result.verdict) == ("inconclusive", "pass")
    assert (result.count, result.hidden) == ((13, 13), {})
    assert report.not_excluded == list(HIDDEN)
    assert result.claim_f1 > 0.8
    text = " ".join(report.text().split())
    assert "Network and truth are the user's own, so nothing is hidden" in text
    assert "13 images of 8 x 8 pixels each" in text
    assert "wrong-network" not in text
    assert result.diagnosis is None
    assert (result.resolution, result.resolution_f1) == (None, None)
    for name in ("wrong-network", "wrong-target"):
        assert result.controls[name].claim_f1 is None


def test_a_verdict_without_that_can_be_asked_for(env):
    report = al.faithfulness_test(ablation, env, n=13, one_network=True)
    assert (report.verdict, report.not_excluded) == ("pass", [])
    assert "A pass excludes no map that is made without the network" in " ".join(
        report.text().split()
    )


@pytest.mark.long
def test_environments_of_the_laboratory_beside_it_hide_what_it_does_not(env):
    beside = [al.load(name, image_size=40) for name in DEFAULT_ENVIRONMENTS[:3]]
    report = al.faithfulness_test("oracle", [env, *beside], n=13)
    assert (report.verdict, report.not_excluded) == ("pass", [])
    assert report.environments[0].hidden == {}
    assert "13 questions each" in " ".join(report.text().split())


def test_saliency_fails_where_gradients_do_not_look_at_the_image(env):
    """The gradient is 1 and -1 in the two channels of every pixel of the half: its sum is 0."""
    with pytest.warns(al.AttributionWarning, match="13 images are zero everywhere"):
        report = al.faithfulness_test("saliency", env, n=13)
    assert report.verdict == report.environments[0].verdict == "fail"
    assert report.environments[0].claim_f1 == 0


def test_few_images_give_no_verdict(env):
    text = "n is 12: with fewer than 13 questions no method passes; take 13 or more"
    with pytest.warns(al.AttributionWarning, match=text):
        [result] = al.faithfulness_test("oracle", env, n=12).environments
    assert (result.verdict, result.count) == ("inconclusive", (12, 12))
    assert result.controls["oracle"].passes


def test_more_images_than_there_are_are_refused(env):
    with pytest.raises(al.AttributionLabError, match="n is 17, and there are 16 images"):
        al.faithfulness_test("saliency", env, n=17)


@pytest.mark.parametrize("one_network", [False, True])
def test_the_document_is_what_the_schema_says(env, one_network, tmp_path):
    report = al.faithfulness_test("input-x-gradient", env, n=8, one_network=one_network)
    report.to_json(tmp_path / "report.json")
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert problems(document, "test") == []
    assert document["not_excluded"] == ([] if one_network else list(HIDDEN))
    call = "attributionlab.custom_environment(model, images, truth, name='halves')"
    assert call in document["command"]
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "halves" in page
    assert len(report.to_frame()) == 3 * 8


def test_images_keep_their_range_in_the_report(env):
    result = al.faithfulness_test("random", env, n=12).environments[0]
    expected = np.stack([env.dataset(12)[index].image.numpy() for index in range(12)])
    assert np.array_equal(result.images, expected)


def test_three_methods_side_by_side(env):
    methods = ["input-x-gradient", "saliency", ablation]
    comparison = al.compare(methods, env, n=13)
    table = comparison.to_frame().query("part == 'overall'").set_index("method")
    assert table.loc["ablation", "verdict"] == table.loc["input-x-gradient", "verdict"] == "pass"
    assert table.loc["saliency", "verdict"] == "fail"
    assert set(table["environment"]) == {"halves"}
    for things in comparison.to_dict()["not_excluded"].values():
        assert things == list(HIDDEN)
    assert comparison.maps(2) is not None


def test_attribute_calls_a_method_as_the_test_does(env):
    images, targets = env.batch(3)
    maps = al.attribute("input-x-gradient", env, images, targets)
    other = network()
    images.requires_grad_()
    other(images).gather(1, targets[:, None]).sum().backward()
    assert torch.equal(maps, (images.grad * images).detach().double().sum(1, keepdim=True))


def test_methods_that_are_bound_to_the_network_and_computed_maps_are_taken(env):
    images, targets = env.batch(13)
    maps = al.attribute("input-x-gradient", env, images, targets).float().numpy()
    assert al.faithfulness_test(maps, env, n=13).environments[0].verdict == "pass"
    bound = InputXGradient(env.model)
    assert al.faithfulness_test(bound, env, n=13).environments[0].verdict == "pass"
    with pytest.raises(al.AttributionLabError, match="each question has its own network"):
        al.faithfulness_test(maps, [env, "quadrants"], n=6)


def test_a_method_gets_what_there_is_and_no_patches(env):
    seen = {}

    def method(
        model, inputs, targets, *, baseline, layers, highest, reference_images, patches=None
    ):
        seen.update(locals())
        return inputs

    al.faithfulness_test(method, env, n=6)
    assert seen["model"] is env.model
    assert seen["layers"] == {"gradcam": env.model[0]}
    assert seen["highest"] == env.max_value
    assert seen["reference_images"].shape == (16, 2, SIDE, SIDE)
    assert seen["patches"] is None

    def asks(model, inputs, targets, *, patches):
        return inputs

    with pytest.raises(al.AttributionLabError, match="patches"):
        al.faithfulness_test(asks, env, n=6)


def test_a_layer_that_nobody_named_is_asked_for():
    model = network()
    env = al.custom_environment(model, *questions(6), baseline=0)
    for method in (LayerGradCam, "gradcam"):
        with pytest.raises(al.AttributionLabError, match="no layer 'gradcam' of its own: name one"):
            al.faithfulness_test(method, env, n=6)


def test_a_method_that_mixes_images_is_told_here_too(env):
    def mixes(model, inputs, targets):
        return inputs - inputs.mean(0)

    with pytest.warns(al.AttributionWarning, match="change when two images share a batch"):
        al.faithfulness_test(mixes, env, n=6)


def test_all_that_only_the_laboratory_has_is_refused_at_once(env):
    options = {"claim": "agreed", "also": ["truths", "camouflage:1", "equivalent:2"]}
    with pytest.raises(al.AttributionLabError) as refused:
        al.faithfulness_test("saliency", ["quadrants", env], n=6, **options)
    text = str(refused.value)
    assert text.startswith(
        "halves, a user's own environment: claim is 'agreed', which needs a network"
    )
    assert len(re.findall("leave it out", text)) == 4


def test_pixels_that_are_not_asked_count_for_nothing():
    model, (images, truth) = network(), questions(8)
    truth[:, :, :2] = torch.nan
    env = al.custom_environment(model, images, truth, baseline=0)

    def wrong_there(model, inputs, targets, *, baseline):
        maps = ablation(model, inputs, targets, baseline=baseline)
        maps[:, :2] = 100
        return maps

    scores = [
        al.faithfulness_test(method, env, n=8).environments[0].claim_f1
        for method in (ablation, wrong_there)
    ]
    assert scores[0] == scores[1] > 0.8


def test_images_that_are_not_square_are_tested_and_stated():
    weights = torch.zeros(4, 10)
    weights[:, 0], weights[:, 1] = 1, -1
    model = nn.Sequential(nn.Flatten(), nn.Linear(40, 1, bias=False)).eval()
    model[1].weight.data = weights.reshape(1, -1)
    images = 0.5 + torch.rand(13, 1, 4, 10, generator=torch.Generator().manual_seed(0)) / 2
    env = al.custom_environment(model, images, weights.expand(13, -1, -1), baseline=0)
    report = al.faithfulness_test("input-x-gradient", env, n=13)
    assert report.environments[0].verdict == "pass"
    assert "13 images of 4 x 10 pixels each" in " ".join(report.text().split())
    assert al.attribute("saliency", env, *env.batch(2)).shape == (2, 1, 4, 10)


@pytest.mark.filterwarnings("error")
def test_one_map_an_image_is_enough_for_a_test():
    images, truth = questions(13)
    model = network()
    own = truth[torch.arange(13), model(images).argmax(1)]
    env = al.custom_environment(model, images, own, baseline=0)
    assert al.faithfulness_test(ablation, env, n=13).environments[0].verdict == "pass"


def test_what_the_network_returns_is_explained_also_where_a_method_names_another_output(env):
    def method(model, inputs, targets):
        return inputs

    method.output = "probability"
    assert al.faithfulness_test(method, env, n=6).environments[0].output == "logit"
    for explain in ("probability", ("logit", "probability")):
        with pytest.raises(al.AttributionLabError, match="its only output is 'logit', not 'prob"):
            al.faithfulness_test("saliency", env, n=6, explain=explain)


def test_reports_say_what_was_checked_of_a_truth_that_a_user_states():
    for checked, options in ((True, {"baseline": 0, "tolerance": 0.25}), (False, {})):
        env = al.custom_environment(network(), *questions(6), **options)
        report = al.faithfulness_test("input-x-gradient", env, n=4, one_network=True)
        assert ("and not checked" in report.text()) != checked
        shown = " ".join(report.text().split())
        passes = env.spec.constants["interventions"]
        assert (passes > 0) == checked
        assert (f"{passes:,} forward passes" in shown) == checked
        assert ("changes of up to 0.25 count as none" in shown) == checked
        assert "a lookup table of its colors" not in shown
