"""LIME recovers linear models, agrees with its definition and with Captum, and speaks when it fails."""

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
import oracles_methods as oracles
from attributionlab import GuardWarning
from attributionlab.methods import lime, lime_true_baseline, notices
from masking_cases import LABELS, Constant, seeded

IMAGES = torch.arange(2 * 3 * 3 * 5).reshape(2, 3, 3, 5).float() % 13 + 1
TARGETS = torch.tensor([1, 0])


class Squared(nn.Module):
    """Two outputs that are not linear in the image."""

    def forward(self, inputs):
        value = (inputs * torch.linspace(-1, 1, inputs[0].numel()).reshape(inputs[0].shape)).sum(
            (1, 2, 3)
        )
        return torch.stack([value, value**2 / 8], dim=1)


class Linear(nn.Module):
    """The sum over channels and pixels, times a weight for each pixel, in three outputs."""

    def forward(self, inputs):
        total = (inputs * torch.arange(15.0).reshape(3, 5)).sum((1, 2, 3))
        return torch.stack([total, -2 * total, torch.ones_like(total)], dim=1)


def run(model=None, method=lime, **settings):
    settings = {"segmentation": LABELS, "highest": 255, "generator": seeded()} | settings
    return method(model or Squared(), IMAGES, TARGETS, **settings)


def test_coefficients_are_those_of_the_definition_in_loops():
    n, alpha, width = 40, 0.7, 0.3
    baselines = torch.arange(2 * 3 * 3 * 5).reshape(2, 3, 3, 5).float() % 7
    got = run(n_samples=n, alpha=alpha, kernel_width=width, baselines=baselines)
    source, model = seeded(), Squared().double()
    for k in range(2):
        kept = torch.randint(2, (n, 5), generator=source).tolist()
        outputs = []
        for z in kept:
            image = oracles.keep(IMAGES[k].tolist(), baselines[k].tolist(), LABELS.tolist(), z)
            outputs.append(float(model(torch.tensor([image]))[0, TARGETS[k]]))
        expected = torch.tensor(oracles.lime_coefficients(kept, outputs, alpha, width))
        # Outputs are sums of 45 float32 terms, squared once: relative errors below 100 * 2^-24 of the
        # largest output, which solving a system of condition < 100 enlarges a hundredfold.
        scale = max(map(abs, outputs))
        torch.testing.assert_close(
            got[k, 0], expected[LABELS].float(), rtol=0, atol=1e4 * 2**-24 * scale
        )


@pytest.mark.long
@given(st.integers(0, 2**32), st.sampled_from([0.0, 1.0, 4.0]))
def test_a_linear_model_is_recovered_exactly(seed, baseline):
    got = run(Linear(), alpha=0.0, n_samples=64, baselines=baseline, generator=seeded(seed))
    changes = (IMAGES - baseline).sum(1) * torch.arange(15.0).reshape(3, 5)
    for k, slope in enumerate((-2, 1)):
        for label in range(5):
            here = label == LABELS
            # Integers in float32, a fit in float64 of condition < 1e4, and the result in float32.
            torch.testing.assert_close(
                got[k, 0][here],
                (slope * changes[k][here].sum()).expand(int(here.sum())),
                rtol=2**-22,
                atol=1e-8,
            )


def test_with_lasso_captum_gives_the_same_for_the_same_perturbations():
    from captum._utils.models.linear_model import SkLearnLasso
    from captum.attr import LimeBase

    n, alpha, width, baseline = 60, 0.5, 0.25, 2.0
    source = seeded()

    def perturb(inputs, **kwargs):
        yield from torch.randint(2, (n, 5), generator=source)[:, None]

    def image_of(kept, inputs, **kwargs):
        return torch.where(kept[0].bool()[LABELS], inputs, torch.tensor(baseline))

    def similarity(inputs, perturbed, kept, **kwargs):
        cosine = torch.cosine_similarity(kept[0].double(), torch.ones(5).double(), dim=0)
        return torch.exp(-((1 - cosine) ** 2) / (2 * width**2))

    explainer = LimeBase(
        Squared(), SkLearnLasso(alpha=alpha), similarity, perturb, True, image_of, None
    )
    got = run(n_samples=n, alpha=alpha, kernel_width=width, baselines=baseline, regression="lasso")
    for k in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            coefficients = explainer.attribute(
                IMAGES[k : k + 1], target=int(TARGETS[k]), n_samples=n, perturbations_per_eval=7
            )
        expected = coefficients.flatten()[LABELS]
        assert expected.any()
        # Lasso stops at its own tolerance of 1e-4.
        scale = float(expected.abs().max())
        torch.testing.assert_close(got[k, 0], expected, rtol=0, atol=1e-3 * scale)


def test_settings_of_the_segmentation_are_handed_to_it():
    got = run(Linear(), segmentation="grid", cells=2)
    assert len(got[0].unique()) == 4
    patches = torch.stack([LABELS, LABELS.flip(0)])
    assert torch.equal(
        run(Linear(), segmentation="patches", patches=patches),
        run(Linear(), segmentation=patches),
    )


# Guards


def test_it_says_when_the_penalty_leaves_nothing():
    with pytest.warns(
        GuardWarning, match="of 2 images have only coefficients of zero because .*lower alpha"
    ):
        got = run(regression="lasso", alpha=1e9)
    assert not got.any()


@pytest.mark.parametrize("wobble", [0, 1])
@pytest.mark.parametrize("value", [0.0, 0.1, 1.0, 123.4, -5e-30])
def test_outputs_that_differ_by_rounding_at_most_have_coefficients_of_exactly_0(value, wobble):
    with pytest.warns(GuardWarning, match="of 2 images .* no perturbation changes the output"):
        got = run(Constant(value, wobble))
    assert not got.any()


def test_outputs_that_differ_by_little_more_than_rounding_are_explained():
    class Faint(Linear):
        def forward(self, inputs):
            return 1 + super().forward(inputs) * 2**-28  # some 100 units in the last place

    with notices.collect_notices() as told:
        assert run(Faint()).any()
    assert not any(finding.images for finding in told)


def test_it_is_quiet_when_all_is_well():
    with notices.collect_notices() as told:
        run()
    assert [finding.images for finding in told] == [0, 0]
    assert [finding.kind for finding in told] == ["segments", "zeros"]


# In the laboratory


@pytest.mark.parametrize("method", [lime, lime_true_baseline])
def test_an_environment_offers_what_it_needs(method):
    env = al.load("multi-color-sum", image_size=24)
    settings = {"segmentation": "patches", "n_samples": 50}
    first, second = (al.faithfulness_test(method, env, n=1, settings=settings) for _ in range(2))
    assert first.environments[0].claim_f1 == second.environments[0].claim_f1 > 0
