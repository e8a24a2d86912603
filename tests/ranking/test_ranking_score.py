"""The ranking score: what it is a mean of, and what it refuses."""

import numpy as np
import pytest

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.verdicts import network_scores, ranked_world
from attributionlab.worlds import LEARNING_IMAGES, soft_sister


def test_it_is_the_mean_over_planes_and_natural_and_soft_sisters_where_there_are_any():
    own = al.world("min(red, blue)", image_size=48)
    worlds = [al.load("at-least", image_size=24), al.load("quadrants", image_size=24), own]
    names = ["saliency", "gradcam", "input-x-gradient"]
    asked = [al.load("soft-at-least", image_size=24), worlds[1], soft_sister(own)]
    each = {
        env.name: np.mean(
            [
                network_scores(env.with_implementation(name), names, 2, 3).f1
                for name in ("planes", "natural")
            ],
            axis=0,
        )
        for env in asked
    }
    found = al.ranking_scores(names, worlds, n=2, seed=3).set_index("method").loc[names]
    assert [*found] == ["ranking_score", "soft-at-least", "quadrants", "soft-min(red, blue)"]
    for name, values in each.items():
        assert found[name].tolist() == pytest.approx(values)
    means = np.mean([*each.values()], axis=0)
    assert found.ranking_score.tolist() == pytest.approx(means)


def test_methods_are_in_the_order_of_their_scores():
    env = al.load("quadrants", image_size=24)
    found = al.ranking_scores(["random", "feature-ablation-true-baseline", "saliency"], [env], n=2)
    assert found.ranking_score.is_monotonic_decreasing
    assert found.method[0] == "feature-ablation-true-baseline"


def test_a_method_that_cannot_run_has_no_score():
    env = al.load("quadrants", image_size=24)
    with pytest.warns(al.AttributionWarning, match="attention-rollout has no score in quadrants"):
        found = al.ranking_scores(["attention-rollout", "saliency"], [env], n=1)
    assert found.method.tolist() == ["saliency", "attention-rollout"]
    assert np.isnan(found.ranking_score[1])


def test_two_worlds_of_one_name_are_refused():
    two = [al.load("quadrants", image_size=side) for side in (24, 32)]
    with pytest.raises(al.AttributionLabError, match="environments"):
        al.ranking_scores(["saliency"], two, n=1)


@pytest.mark.parametrize("one_method", ["oracle", "occlusion-true-baseline"])
def test_scores_on_one_network_are_those_of_the_faithfulness_test(one_method):
    env = al.load("quadrants", image_size=24)
    [found] = network_scores(env, [one_method], n=3, seed=3).itertuples()
    report = al.faithfulness_test(one_method, env, n=3, seed=3, one_network=True, also=None)
    [result] = report.environments
    assert found.f1 == pytest.approx(result.claim_f1)
    assert found.solved == result.count.solved / result.count.asked


def test_a_score_does_not_depend_on_the_other_methods():
    """LRP explains the logit, saliency the probability, and the last one claims a smoothed truth."""

    def brightness(model, inputs, targets):
        return inputs.sum(1, keepdim=True)

    brightness.claim = "positive-smoothed"
    env = al.load("multi-color-sum-distractors", image_size=24)
    methods = ["saliency", "lrp", brightness]
    found = network_scores(env, methods, n=2, seed=0)
    assert found.f1[1] == 0  # negative evidence is asked, too
    assert found.equals(network_scores(env, methods[::-1], 2, 0)[::-1].reset_index(drop=True))


def test_sisters_have_the_images_of_their_worlds():
    for name in LEARNING_IMAGES:
        env = ranked_world(name)
        sister = soft_sister(env)
        assert (sister is None) == (f"soft-{name}" not in al.environments())
        if sister is not None:
            assert (sister.batch(2, 5)[0] == env.batch(2, 5)[0]).all()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((["saliencyy"],), "saliencyy"),
        (([],), r"methods is \[\]"),
        (("saliency",), "methods is 'saliency'"),
        ((["saliency"], ["uniform-accumulator"]), "does not apply"),
        ((["saliency"], ["quadrantz"]), "quadrants"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_one_line(arguments, told):
    with pytest.raises(AttributionLabError, match=told) as refusal:
        al.ranking_scores(*arguments, n=1)
    assert "\n" not in str(refusal.value)


def test_numbers_out_of_range_are_refused_together():
    with pytest.raises(AttributionLabError, match=r"n is 0.*seed is -1"):
        al.ranking_scores(["saliency"], ["quadrants"], n=0, seed=-1)
