"""Shapley values of an environment: against the network itself on every coalition of pixels."""

import pytest
import torch

import attributionlab as al
import oracles

SIZE = 8


def painted(env: al.Environment, counts: list[int], others: list[tuple[int, ...]] = ()):
    """An image of the background with `counts[k]` pixels of class k and one of each other color."""
    colors = [env.counting.values[k] for k, n in enumerate(counts) for _ in range(n)]
    image = env.baseline.expand(-1, SIZE, SIZE).clone()
    for place, color in enumerate([*colors, *others]):
        # Spread out, so that players lie in different cells of the accumulator.
        image[:, (5 * place) % SIZE, (3 * place) % SIZE] = torch.tensor(color).float()
    return image


def by_enumeration(env: al.Environment, image: torch.Tensor, target: int, output: str):
    """(1, H, W): values of all pixels that differ from the background, through the network."""
    places = (image != env.baseline).any(0).nonzero().tolist()
    images = []
    for chosen in range(2 ** len(places)):
        coalition = env.baseline.expand_as(image).clone()
        for player, (y, x) in enumerate(places):
            if chosen >> player & 1:
                coalition[:, y, x] = image[:, y, x]
        images.append(coalition)
    model = env.explained_model(output).double()
    with torch.no_grad():
        answers = model(torch.stack(images).double())[:, target].tolist()
    model.float()
    values = oracles.shapley(
        lambda coalition: answers[sum(1 << player for player in coalition)], len(places)
    )
    result = torch.zeros(1, SIZE, SIZE, dtype=torch.float64)
    for (y, x), value in zip(places, values, strict=True):
        result[0, y, x] = value
    return result


@pytest.mark.parametrize("temperature", [0.5, 4])
@pytest.mark.parametrize("target", [0, 1, 3])
@pytest.mark.parametrize("output", ["probability", "logit"])
def test_the_values_are_those_of_all_coalitions_through_the_network(temperature, target, output):
    env = al.load("multi-color-sum", image_size=SIZE, temperature=temperature)
    image = painted(env, [3, 2, 0, 2])
    values = env.shapley(image, target, output)
    assert values.dtype == torch.float64
    assert values.shape == (1, SIZE, SIZE)
    assert torch.allclose(values, by_enumeration(env, image, target, output), rtol=0, atol=1e-12)


def test_the_unseen_data_effect_changes_nothing_because_no_coalition_has_an_unseen_color():
    plain = al.load("multi-color-sum-in-distribution", image_size=SIZE, temperature=1)
    env = al.load("multi-color-sum", image_size=SIZE, temperature=1)
    image = painted(env, [3, 1, 1, 0])
    assert torch.equal(env.shapley(image, 0), plain.shapley(image, 0))


def test_distractors_and_background_have_no_value():
    env = al.load("multi-color-sum-distractors", image_size=SIZE, temperature=2)
    distractors = env.spec.constants["distractor_colors"][: env.spec.constants["distractors"]]
    image = painted(env, [2, 2, 0, 1], distractors)
    values = env.shapley(image, 0)
    assert torch.allclose(values, by_enumeration(env, image, 0, "probability"), rtol=0, atol=1e-12)
    assert int((values != 0).sum()) == 5


@pytest.mark.parametrize(
    ("name", "overrides", "counts"),
    [
        ("number-checker", {}, [6]),
        ("color-detector", {}, [5]),
        ("uniform-accumulator", {}, [4]),
        ("single-color-modulo", {"modulus": 3, "max_count": 60}, [5]),
        ("single-color-modulo", {"modulus": 3, "max_count": 60}, [6]),
    ],
)
def test_regressions_share_their_count_or_its_remainder(name, overrides, counts):
    env = al.load(name, image_size=SIZE, **overrides)
    image = painted(env, counts)
    values = env.shapley(image, 0)
    assert torch.allclose(values, by_enumeration(env, image, 0, "logit"), rtol=0, atol=1e-12)
    assert float(values.sum()) == pytest.approx(
        oracles.remainder(counts[0], 3) if overrides else counts[0]
    )


def test_signs_are_those_of_the_mask_and_the_default_output_is_that_of_the_truth():
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(2)
    for image, label, signed in zip(images, labels, env.truth(images, labels).signed, strict=True):
        values = env.shapley(image, int(label))
        assert torch.equal(values.sign(), signed.double())
        assert torch.equal(values, env.shapley(image, int(label), "probability"))
        logit = env.shapley(image, int(label), "logit")
        assert torch.equal(logit, (signed > 0).double())


def test_an_image_without_counted_pixels_has_values_of_zero():
    for name in ("multi-color-sum", "single-color-modulo"):
        env = al.load(name, image_size=SIZE)
        assert not env.shapley(painted(env, []), 0).any()


def test_counts_above_the_networks_bound_are_refused():
    env = al.load("single-color-modulo", image_size=SIZE, modulus=2, max_count=4)
    with pytest.raises(al.AttributionLabError, match="has 64 counted pixels"):
        env.shapley(torch.ones(1, SIZE, SIZE), 0)
