"""Stability is its definition, written as loops over the same noise."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import oracles_metrics_methods as oracles
from attributionlab import AttributionLabError, metrics
from small_networks import gradient, smooth

TARGETS = torch.tensor([1, 0])
RELATIVE = (
    *(metrics.relative_input_stability, metrics.relative_output_stability),
    metrics.relative_representation_stability,
)


def drawn(seed):
    """A model and two images, some of whose values are 0."""
    images = torch.randint(-1, 2, (2, 2, 2, 3), generator=torch.Generator().manual_seed(seed))
    layers = nn.Conv2d(2, 2, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(12, 2)
    return smooth(seed, layers), images.double()


def on_layer(score, model):
    return {"layer": model[0]} if score is metrics.relative_representation_stability else {}


@given(st.integers(0, 2**31), st.integers(1, 4))
def test_the_local_lipschitz_estimate_is_its_definition(seed, draws):
    model, images = drawn(seed)
    found = metrics.local_lipschitz(
        model, images, TARGETS, gradient, radius=0.25, draws=draws, seed=seed
    )
    noises = oracles.noises(2, draws, images.shape[1:], 0.25, seed)
    expected = [
        oracles.lipschitz(gradient, model, images[i], int(TARGETS[i]), noises[i]) for i in range(2)
    ]
    # Gradients of 12 tanh units in float64, alone and in batches; norms of their differences.
    assert found.tolist() == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("score", RELATIVE, ids=lambda score: score.__name__)
@given(seed=st.integers(0, 2**31), draws=st.integers(1, 4), radius=st.sampled_from([0.1, 1.5]))
def test_relative_stability_is_its_definition(score, seed, draws, radius):
    model, images = drawn(seed)
    settings = {"radius": radius, "draws": draws, "seed": seed, "epsilon": 1e-3}
    found = score(model, images, TARGETS, gradient, **settings, **on_layer(score, model))
    noises = oracles.noises(2, draws, images.shape[1:], radius, seed)
    seen = {
        metrics.relative_input_stability: lambda image: image,
        metrics.relative_output_stability: lambda image: model(image[None]),
        metrics.relative_representation_stability: lambda image: model[0](image[None]),
    }[score]
    expected = [
        oracles.relative_stability(
            *(gradient, model, images[i], int(TARGETS[i]), noises[i], 1e-3, seen),
            score is not metrics.relative_output_stability,
        )
        for i in range(2)
    ]
    # As above; divided by values down to 1e-3.
    assert found.tolist() == pytest.approx(expected, rel=1e-6, nan_ok=True)


def test_a_map_that_never_changes_is_stable_and_twice_the_image_changes_as_it_does():
    model, images = drawn(0)
    call = model, images, TARGETS
    for score in RELATIVE:
        still = score(*call, lambda *asked: asked[1] * 0 + 1, radius=0.1, **on_layer(score, model))
        assert still.tolist() == [0, 0]
    gray = nn.Sequential(nn.Flatten()).eval(), torch.rand(1, 1, 2, 3) + 1, TARGETS[1:]
    twice = metrics.local_lipschitz(*gray, lambda *asked: 2 * asked[1], radius=0.1)
    assert float(twice) == pytest.approx(2, rel=1e-6)  # differences in float32
    same = metrics.relative_input_stability(*gray, lambda *asked: 2 * asked[1], radius=0.1)
    assert float(same) == pytest.approx(1, rel=1e-6)


def test_copies_that_are_answered_otherwise_do_not_count_and_none_is_not_applicable():
    answers = iter([0])  # of the image; all copies get another one

    class Fickle(nn.Module):
        def forward(self, images):
            first = next(answers, None) is not None
            return torch.tensor([[1.0, 0.0] if first and not i else [0.0, 1.0]
                                 for i in range(len(images))])  # fmt: skip

    found = metrics.relative_input_stability(
        Fickle(), torch.ones(1, 1, 1, 2), TARGETS[1:], lambda *asked: asked[1], radius=0.1
    )
    assert found.isnan().all()


def test_noise_that_rounding_swallows_is_not_applicable():
    images = torch.full((1, 1, 1, 2), 1e8)
    flat = nn.Flatten().eval()
    call = flat, images, TARGETS[1:], lambda *asked: asked[1]
    assert metrics.local_lipschitz(*call, radius=1e-3).isnan().all()
    one = flat, images[..., :1], TARGETS[1:], call[3]  # steps of 8: some of ten draws are lost
    assert metrics.local_lipschitz(*one, radius=6.0) == 1


def test_a_change_of_nothing_counts_as_epsilon():
    still = nn.Sequential(nn.Flatten(), nn.Linear(2, 1)).eval()
    nn.init.zeros_(still[1].weight)
    images, drawn = torch.ones(1, 1, 1, 2), oracles.noises(1, 3, (1, 1, 2), 0.1, 0)[0]
    found = metrics.relative_output_stability(
        still, images, TARGETS[1:], lambda *asked: asked[1], radius=0.1, draws=3, epsilon=0.25
    )
    # Differences in float32 of values near 1.
    expected = max(oracles.norm(each.flatten().tolist()) for each in drawn) / 0.25
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_neither_fewer_copies_at_a_time_nor_the_random_state_matter(monkeypatch):
    model, images = drawn(3)
    state = torch.random.get_rng_state()

    def scores():
        settings = {"radius": 0.1, "draws": 7}
        return [
            score(model, images, TARGETS, gradient, **settings, **on_layer(score, model))
            for score in (metrics.local_lipschitz, *RELATIVE)
        ]

    together = scores()
    assert torch.equal(torch.random.get_rng_state(), state)
    monkeypatch.setattr(metrics.robustness, "PIXELS_AT_ONCE", 36)
    for few, all_ in zip(scores(), together, strict=True):
        # The same float64 sums in batches of other sizes.
        torch.testing.assert_close(few, all_, rtol=1e-7, atol=0, equal_nan=True)
    assert not model[0]._forward_hooks


def test_a_layer_must_return_one_tensor_a_pass():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Flatten()

        def forward(self, images):
            return self.layer(images) + self.layer(images)

    model = Twice().eval()
    call = model, torch.ones(1, 1, 1, 2), TARGETS[1:], lambda *asked: asked[1]
    with pytest.raises(AttributionLabError, match="layer Flatten did not return one tensor"):
        metrics.relative_representation_stability(*call, radius=0.1, layer=model.layer)
    assert not model.layer._forward_hooks
