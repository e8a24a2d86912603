"""Each control is what its name says, and gets the verdict that is known in advance."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attributionlab as al
from attributionlab.verdicts import CONTROLS, DEFAULT_ENVIRONMENTS
from attributionlab.verdicts.controls import CATALOG_COLORS, _colors_of
from cases import COUNTING

INPUT_ONLY = ("baseline-distance", "filled-patches", "non-background", "sobel")


def judged(control, environments, n, **asked):
    """Verdicts and scores, without a look for likely causes."""
    return al.faithfulness_test(control, environments, n=n, also=None, one_network=True, **asked)


@pytest.fixture(scope="module")
def environments():
    """All that count, at a size at which every patch still has several pixels."""
    return {name: al.load(name, image_size=72) for name in COUNTING}


@pytest.mark.long
def test_the_oracle_scores_one_wherever_it_applies(environments):
    for claim in ("signed", "overall", "positive"):
        report = judged("oracle", list(environments.values()), 13, claim=claim)
        assert report.verdict == "pass"
        for result in report.environments:
            assert result.mean("overall", "f1") == 1
            assert result.mean("positive", "f1") == 1
            expected = 1 if result.output == "probability" else None
            assert result.mean("negative", "f1") == expected


@pytest.mark.long
def test_the_inverted_oracle_fails_on_signs_and_passes_without_them(environments):
    for env in environments.values():
        assert judged("inverted-oracle", env, 13).verdict == "fail"
        assert judged("inverted-oracle", env, 13, claim="overall").verdict == "pass"


@pytest.mark.long
@pytest.mark.parametrize("claim", ["signed", "overall", "positive"])
@pytest.mark.parametrize("control", ["random", "constant"])
def test_random_and_constant_fail_everywhere(environments, control, claim):
    for env in environments.values():
        # Of three questions without a solved one the interval ends at 0.71.
        assert judged(control, env, 3, claim=claim).verdict == "fail"


@pytest.mark.parametrize("claim", ["signed", "positive"])
@pytest.mark.parametrize("control", INPUT_ONLY)
def test_no_map_of_the_foreground_passes_where_there_are_distractors(environments, control, claim):
    env = environments["multi-color-sum-distractors"]
    assert judged(control, env, 16, claim=claim).verdict == "fail"


def test_distractors_lower_the_overall_score_of_the_foreground_by_their_share(environments):
    """F1 = 2 / (2 + d) with d distractor pixels per counted pixel, image by image."""
    env = environments["multi-color-sum-distractors"]
    images, labels = env.batch(8)
    report = judged("non-background", env, 8)
    counted = env.truth(images, labels).overall.sum((1, 2, 3))
    foreground = (images != env.baseline).any(1).sum((1, 2))
    expected = 2 / (2 + (foreground - counted) / counted)
    # Precision, recall and F1 are float64; the expectation is float32, good to 2^-22.
    torch.testing.assert_close(
        torch.from_numpy(report.environments[0].scores["overall"]["f1"]),
        expected.double(),
        rtol=2**-22,
        atol=0,
    )


def test_without_distractors_the_foreground_is_the_whole_overall_truth(environments):
    report = judged("non-background", environments["multi-color-sum"], 4)
    assert report.environments[0].mean("overall", "f1") == 1
    assert report.environments[0].mean("positive", "f1") < 1


def test_controls_are_their_definitions():
    inputs = torch.zeros(1, 1, 3, 3)
    inputs[0, 0, 1, 1] = 2.0
    targets, patches = torch.zeros(1).long(), torch.zeros(1, 3, 3).long()
    patches[0, 0] = 5
    baseline = torch.ones(1, 1, 1)
    truth = al.Truth(torch.ones(1, 1, 3, 3, dtype=torch.int8))

    def run(name, **offered):
        return CONTROLS[name](None, inputs, targets, **offered)

    assert torch.equal(run("constant"), torch.ones(1, 1, 3, 3))
    assert torch.equal(run("baseline-distance", baseline=baseline), torch.ones(1, 1, 3, 3))
    assert run("non-background", baseline=torch.zeros(1, 1, 1)).flatten().nonzero().tolist() == [
        [4]
    ]
    assert torch.equal(
        run("filled-patches", patches=patches)[0, 0, :, 0], torch.tensor([1.0, 0, 0])
    )
    assert torch.equal(run("oracle", ideal=inputs), inputs)
    assert torch.equal(run("inverted-oracle", truth=truth), -torch.ones(1, 1, 3, 3))
    # Sobel kernels [1, 2, 1] x [-1, 0, 1]: 2 * 2 beside the pixel, sqrt(2) * 2 at the corners.
    assert run("sobel")[0, 0, 1].tolist() == [4, 0, 4]
    assert run("sobel")[0, 0, 0, 0].item() == pytest.approx(8**0.5, rel=2**-23)
    uniform = run("random", generator=torch.Generator().manual_seed(0))
    assert ((uniform >= 0) & (uniform < 1)).all()
    assert uniform.unique().numel() == 9


@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 6), st.integers(1, 4))
def test_colors_are_the_distinct_columns_in_their_order(seed, channels, side, values):
    drawn = torch.Generator().manual_seed(seed)
    image = torch.randint(-values, values, (channels, side, side), generator=drawn) / 2
    expected = torch.unique(image.flatten(1), dim=1, return_inverse=True, return_counts=True)
    for found, each in zip(_colors_of(image), expected, strict=True):
        assert torch.equal(found, each)


def test_default_environments_are_in_the_catalog():
    assert set(DEFAULT_ENVIRONMENTS) <= set(al.environments())


def test_the_table_by_heart_is_that_of_the_catalog():
    for name in ("multi-color-sum", "multi-color-sum-distractors"):
        assert al.load(name, image_size=16).spec.constants["colors"] == CATALOG_COLORS
