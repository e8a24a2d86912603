"""Evidence and resolution of a run beyond its verdict."""

import captum.attr
import pytest
import torch

import attributionlab as al
from attributionlab.methods import as_method
from attributionlab.metrics import alignment
from attributionlab.verdicts import CONTROLS, pixel_kinds
from attributionlab.verdicts.diagnosis.shares import missing_shares
from attributionlab.verdicts.faithfulness.run import run_method
from attributionlab.verdicts.faithfulness.score import best_on_regions, grid_bound, truth_score
from attributionlab.verdicts.faithfulness.setup import Setup
from attributionlab.worlds.truth import Definition, Truths
from cases import loaded

pytestmark = pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")
colors = loaded("multi-color-sum-distractors", image_size=72)
modulo = loaded("single-color-modulo", image_size=72)
undisturbed = loaded("multi-color-sum", image_size=24, redundant_channels=0)


def result_of(method, env, **arguments):
    [result] = al.faithfulness_test(
        method, env, **({"n": 3, "one_network": True} | arguments)
    ).environments
    return result


@pytest.mark.long
def test_the_evidence_states_what_the_environment_is(colors, modulo, undisturbed):
    first, second, third = (
        result_of("sobel", env).evidence for env in (colors, modulo, undisturbed)
    )
    assert [each.sawtooth for each in (first, second, third)] == [False, True, False]
    assert [each.unseen_colors_disturb for each in (first, second, third)] == [True, False, False]
    assert first.temperature == colors.temperature
    assert second.temperature is None
    assert result_of("sobel", colors, explain="logit").evidence.temperature is None
    assert third.overrides == {"image_size": 24, "redundant_channels": 0}


@pytest.mark.long
def test_the_evidence_states_what_the_maps_are(colors):
    def half_empty(model, inputs, targets):
        maps = torch.randn(inputs[:, :1].shape, generator=torch.Generator().manual_seed(0))
        return maps * (inputs.sum((1, 2, 3), keepdim=True) > 0) * empty[: len(inputs)]

    empty = torch.tensor([0.0, 1.0, 0.0, 0.0])[:, None, None, None]
    evidence = result_of(half_empty, colors, n=4).evidence
    assert evidence.all_zero == 0.75
    assert not evidence.positive_only
    positive = result_of("constant", colors).evidence
    assert positive.positive_only
    assert positive.all_zero == 0
    assert (positive.own_resolution, positive.own_ceiling) == (None, None)  # a sign, no resolution
    assert result_of("constant", colors).resolution == "positive only"
    empty[:] = 0
    assert result_of(half_empty, colors).resolution is None  # neither positive nor anything else
    assert result_of("random", colors).evidence.stochastic
    assert not positive.stochastic


@pytest.mark.long
def test_the_shares_are_means_over_all_images_of_the_part_that_decides(colors):
    n = 11  # more than are studied
    result = result_of("sobel", colors, n=n, claim="overall")
    images, labels = colors.batch(n)
    patches = torch.stack([colors.dataset(n)[k].patches for k in range(n)])
    kinds = pixel_kinds(images, patches, colors.counting.classes_of(images), colors.baseline)
    maps = torch.from_numpy(result.attributions)[:, None]
    expected = missing_shares(maps, colors.truth(images, labels).signed, kinds, "overall")
    for name, share in expected.items():
        assert result.evidence.shares[name] == pytest.approx(float(share.nanmean()), abs=1e-12)
    assert result.evidence.shares["distractors"] > 0
    assert result.evidence.missing == pytest.approx(1 - result.claim_f1, abs=1e-6)


@pytest.mark.long
def test_what_guards_say_is_handed_on_by_kind():
    saturated = al.load("multi-color-sum", image_size=72, temperature=2.0**-4)
    assert "saturation" in result_of("saliency", saturated).evidence.guards
    assert "saturation" not in result_of("sobel", saturated).evidence.guards


def test_exact_shapley_values_are_scored_for_the_explained_target(colors):
    n = 4
    result = result_of("sobel", colors, n=n)
    images, labels = colors.batch(n)
    truth = colors.truth(images, labels)
    scores = []
    for index in range(n):
        values = colors.shapley(images[index], int(labels[index]))[None]
        negative = (-values).clamp(min=0)
        scores.append(alignment(negative / negative.max(), truth.negative[index : index + 1]).f1)
    # For the claim "signed" the negative part is the lowest: losers of unlike sizes.
    expected = float(torch.cat(scores).mean())
    assert result.evidence.shapley_f1 == pytest.approx(expected, abs=1e-12)
    assert expected < 1


@pytest.mark.long
def test_a_coarse_method_has_the_resolution_of_its_layer_unless_it_has_both_signs(colors):
    result = result_of("gradcam", colors)
    shape = tuple(
        al.methods.observe(colors.model, colors.layers["gradcam"], colors.batch(1)[0])[0].shape[2:]
    )
    assert result.resolution == f"{shape[0]} x {shape[1]} cells"
    assert result.evidence.own_resolution == result.resolution
    assert result.evidence.own_ceiling == result.resolution_f1
    positive = colors.truth(*colors.batch(3)).positive
    assert result.resolution_f1 == pytest.approx(float(grid_bound(positive, shape).mean()))
    signed = result_of("gradcam", colors, settings={"relu": False})
    assert (signed.resolution, signed.resolution_f1) == (None, None)
    captums = result_of(captum.attr.LayerGradCam, colors, settings={"relu_attributions": True})
    assert captums.resolution == result.resolution
    assert result_of("sobel", colors, claim="overall").resolution is None


@pytest.mark.long
def test_superpixels_have_the_resolution_of_their_own_partition(colors):
    settings = {"segmentation": "patches", "n_samples": 50}
    result = result_of("lime", colors, claim="overall", settings=settings)
    patches = torch.stack([colors.dataset(3)[k].patches for k in range(3)])
    truth = colors.truth(*colors.batch(3)).overall
    best = alignment(best_on_regions(truth, patches), truth).f1
    assert result.resolution == "own regions"
    assert result.resolution_f1 == pytest.approx(float(best.mean()), abs=1e-12)


ENV = "multi-color-sum"
env = loaded(ENV, image_size=24)


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
