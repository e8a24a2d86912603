"""The claim "agreed", and scores against each definition of the truth."""

import pytest
import torch

import attributionlab as al
from attributionlab.methods import as_method
from attributionlab.verdicts import CONTROLS
from attributionlab.verdicts.faithfulness.run import run_method
from attributionlab.verdicts.faithfulness.score import truth_score
from attributionlab.verdicts.faithfulness.setup import Setup
from attributionlab.worlds.truth import Definition, Truths

ENV = "multi-color-sum"


@pytest.fixture(scope="module")
def env():
    return al.load(ENV, image_size=24)


@pytest.fixture(scope="module")
def truths(env):
    images, labels = env.batch(1)
    return env.truths(images, labels)


def judged(env, method, **settings):
    return al.faithfulness_test(method, env, n=1, one_network=True, **settings)


def maps_of(truths: Truths, elsewhere: float):
    """What all definitions support, and one value wherever they do not agree."""
    agreement = truths.agreement()
    assert not agreement.agreed.all()  # unseen colors lie on the path through the colors
    return torch.where(agreement.agreed, agreement.signed.float(), elsewhere)


@pytest.mark.long
def test_what_a_map_says_where_definitions_differ_is_not_asked(env, truths):
    for elsewhere in (-1000.0, 1000.0):
        result = judged(env, maps_of(truths, elsewhere), claim="agreed").environments[0]
        assert [result.mean(part, "f1") for part in ("overall", "positive", "negative")] == [
            1,
            1,
            1,
        ]
    assert judged(env, maps_of(truths, 0.0), claim="signed").environments[0].claim_f1 < 0.99


def test_a_map_is_scaled_by_what_it_says_where_it_is_asked(env, truths):
    outlier = maps_of(truths, 1000.0)
    result = judged(env, outlier, claim="agreed").environments[0]
    assert float(result.attributions.max()) == 1
    assert float((result.attributions == 1).mean()) > 0.01


def test_the_truth_of_the_claim_is_what_all_definitions_give(env, truths):
    result = judged(env, "oracle", claim="agreed").environments[0]
    assert result.claim_f1 == 1
    signed = truths.agreement().signed[:, 0].numpy()
    for example in result.examples:
        assert (example.truth == signed[example.sample]).all()


def test_controls_are_asked_about_the_same_pixels_as_the_method(env):
    method = as_method("non-background", CONTROLS)
    outcome = run_method(Setup(method, env, "probability", "probability", "agreed"))
    control = outcome.controls["non-background"]["overall"]
    assert control == pytest.approx(outcome.by_seed[0]["overall"]["f1"], abs=1e-6)  # float32 maps


def test_each_definition_scores_a_map_as_the_metrics_say(env, truths):
    from attributionlab.metrics import cosine, efficiency_gap, rank_correlation, sign_agreement

    images, _ = env.batch(1)
    maps = images.mean(1, keepdim=True) - 20
    report = judged(env, maps, also="truths")
    scores = {score.definition: score for score in report.environments[0].truth_scores}
    assert list(scores) == list(truths)
    for name, definition in truths.items():
        values = torch.where(definition.signs != 0, definition.values, 0.0)
        found = scores[name]
        for score in (rank_correlation, cosine, sign_agreement):
            mean = float(score(maps, values).mean())
            assert getattr(found, score.__name__) == pytest.approx(mean, rel=1e-12)
        if name == "mask":
            assert found.sum_gap is None
        else:
            gap = float(efficiency_gap(maps, definition.values.sum((1, 2, 3))).mean())
            assert found.sum_gap == pytest.approx(gap, rel=1e-12)
        assert found.meaning == definition.meaning
    document = report.to_dict()["environments"][0]["truths"]
    assert [row["definition"] for row in document] == list(truths)
    assert "path integral" in str(report)


def test_values_within_their_error_are_nothing_to_agree_with():
    values, error = (
        torch.tensor([[[[2.0, 1e-9]]]]).double(),
        torch.full((1, 1, 1, 2), 1e-6).double(),
    )
    definition = Definition("shapley", "", values, error, "estimate")
    score = truth_score(torch.tensor([[[[1.0, -1.0]]]]), definition)
    assert score.sign_agreement == 1


def test_nobody_is_held_against_definitions_who_does_not_ask(env):
    report = judged(env, "oracle")
    assert report.environments[0].truth_scores == ()
    assert report.to_dict()["environments"][0]["truths"] == []
    assert "definition of the truth" not in str(report)
