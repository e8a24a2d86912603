"""Shapley values and other definitions of an environment's truth, against the network itself."""

import re

import pytest
import torch

import attributionlab as al
import oracles
from attributionlab.worlds import load_call

SIZE = 8
COLORFUL = "multi-color-sum"
PLAIN = "multi-color-sum-in-distribution"


def scattered(env: al.Environment, colors, seed=0):
    """An image of the background with one pixel of each color, in different cells of the sums."""
    image = env.baseline.expand(-1, SIZE, SIZE).clone()
    places = torch.randperm(SIZE**2, generator=torch.Generator().manual_seed(seed))
    for place, color in zip(places.tolist(), colors, strict=False):
        image[:, place // SIZE, place % SIZE] = torch.tensor(color).float()
    return image


def some_colors(env: al.Environment, counts=(3, 2, 0, 2)):
    return [env.counting.values[k] for k, n in enumerate(counts) for _ in range(n)]


def says(env: al.Environment, images, target: int, output: str):
    """The explained output in float64, by forward passes."""
    with torch.no_grad():
        logits = env.model(images).double()
    if output == "probability":
        logits = torch.softmax(logits / env.temperature, dim=1)
    return logits[:, target]


def one_by_one(env, start, end, target, output):
    """f(start) - f(start with one pixel of end), for each pixel, (1, H, W)."""
    images = []
    for pixel in range(SIZE**2):
        image = start.clone()
        image[:, pixel // SIZE, pixel % SIZE] = end[:, pixel // SIZE, pixel % SIZE]
        images.append(image)
    before = says(env, start[None], target, output)
    return (before - says(env, torch.stack(images), target, output)).reshape(1, SIZE, SIZE)


def by_enumeration(env, image, baseline, target, output):
    """(1, H, W): Shapley values of the pixels that differ, through the network."""
    places = (image != baseline).any(0).nonzero().tolist()
    images = []
    for chosen in range(2 ** len(places)):
        coalition = baseline.clone()
        for player, (y, x) in enumerate(places):
            if chosen >> player & 1:
                coalition[:, y, x] = image[:, y, x]
        images.append(coalition)
    answers = says(env, torch.stack(images), target, output).tolist()
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
    image = scattered(env, some_colors(env))
    values = env.shapley(image, target, output)
    assert values.dtype == torch.float64
    assert values.shape == (1, SIZE, SIZE)
    assert torch.allclose(
        values,
        by_enumeration(env, image, env.baseline.expand_as(image), target, output),
        rtol=0,
        atol=1e-12,
    )


def test_distractors_and_background_have_no_value():
    env = al.load("multi-color-sum-distractors", image_size=SIZE, temperature=2)
    distractors = env.spec.constants["distractor_colors"][: env.spec.constants["distractors"]]
    image = scattered(env, [*some_colors(env, (2, 2, 0, 1)), *distractors])
    values = env.shapley(image, 0)
    assert torch.allclose(
        values,
        by_enumeration(env, image, env.baseline.expand_as(image), 0, "probability"),
        rtol=0,
        atol=1e-12,
    )
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
    image = scattered(env, some_colors(env, counts))
    values = env.shapley(image, 0)
    assert torch.allclose(
        values,
        by_enumeration(env, image, env.baseline.expand_as(image), 0, "logit"),
        rtol=0,
        atol=1e-12,
    )
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
        assert not env.shapley(scattered(env, []), 0).any()


BASELINES = {
    "true": lambda env, image: env.baseline.expand_as(image),
    "black": lambda env, image: torch.zeros_like(image),
    "a counted color": lambda env, image: (
        torch.tensor(env.counting.values[1]).float()[:, None, None].expand_as(image)
    ),
}


@pytest.mark.parametrize("output", ["probability", "logit"])
@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("name", [COLORFUL, PLAIN])
def test_effects_of_single_pixels_are_those_that_forward_passes_show(name, baseline, output):
    env = al.load(name, image_size=SIZE, temperature=2)
    image = scattered(env, some_colors(env))
    absent = BASELINES[baseline](env, image)
    truths = env.truths(image[None], torch.tensor([1]), output, baseline=absent, precision=100)
    for kind, start, end, sign in (
        ("ablation", image, absent, 1),
        ("insertion", absent, image, -1),
    ):
        expected = sign * one_by_one(env, start, end, 1, output)
        found = truths[kind].values[0]
        # Two softmaxes of float64 in the twin, and their difference.
        assert torch.allclose(found, expected, rtol=0, atol=1e-14 * max(1, expected.abs().max()))
        if truths[kind].source == "evaluation":
            before = says(env, start[None], 1, output)
            largest = max(before.abs(), (before - sign * expected).abs().max()).item()
            [error] = truths[kind].error.unique().tolist()
            # Probabilities from 3e-4: a few roundings of 2^-53 of 1.
            assert error == pytest.approx(2**-50 * largest, rel=1e-11, abs=0)
    change = says(env, torch.stack([image, absent]), 1, output)
    assert truths.changes.item() == pytest.approx(float(change[0] - change[1]), abs=1e-14)


def test_where_unseen_colors_disturb_effects_are_evaluated_and_shapley_values_estimated():
    env = al.load(COLORFUL, image_size=SIZE)
    image = scattered(env, some_colors(env))
    seen = env.truths(image[None], torch.tensor([0]))
    unseen = env.truths(image[None], torch.tensor([0]), baseline=torch.zeros(1), precision=1.0)
    assert {each.name: each.source for each in seen.values()} == {
        "mask": "closed form",
        "ablation": "closed form",
        "insertion": "closed form",
        "shapley": "closed form",
        "integrated-gradients": "path integral",
        "count-path": "closed form",
    }
    assert {each.name: each.source for each in unseen.values()} == {
        "ablation": "evaluation",
        "insertion": "evaluation",
        "shapley": "estimate",
        "integrated-gradients": "path integral",
    }


@pytest.mark.parametrize("output", ["probability", "logit"])
def test_an_estimate_lies_within_its_errors_of_all_coalitions(output):
    env = al.load(COLORFUL, image_size=SIZE, temperature=2, redundant_strength=0.5)
    unseen = [(1, 2, 3), (200, 0, 200), (9, 9, 9)]
    image = scattered(env, [*some_colors(env, (2, 1, 1, 0)), *unseen])
    exact = by_enumeration(env, image, env.baseline.expand_as(image), 0, output)
    found = env.sampled_shapley(image, 0, output, precision=0.02)
    assert found.reached
    assert bool((found.standard_errors <= 0.02).all())
    # Seven values; each lies beyond 5 standard errors in less than one of a million draws.
    assert bool(((found.values - exact).abs() <= 5 * found.standard_errors + 1e-12).all())
    definition = env.truths(image[None], torch.tensor([0]), output, precision=0.02)["shapley"]
    assert torch.equal(definition.values[0], found.values)
    assert torch.equal(definition.error[0], 3 * found.standard_errors)


@pytest.mark.parametrize("output", ["probability", "logit"])
def test_shapley_values_of_other_baselines_are_those_of_all_coalitions(output):
    env = al.load(PLAIN, image_size=SIZE, temperature=2)
    image = scattered(env, some_colors(env))
    for baseline in (torch.zeros(1), torch.tensor([7.0, 8.0, 9.0])[:, None, None]):
        # Pixels of the background differ from the baseline too, and count in neither: no players.
        absent = torch.where((image == env.baseline).all(0), image, baseline)
        expected = by_enumeration(env, image, absent, 1, output)
        found = env.shapley(image, 1, output, baseline=baseline)
        assert torch.allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("baseline", [None, 0], ids=["true baseline", "black, which is unseen"])
def test_images_of_a_batch_have_truths_of_their_own(baseline):
    env = al.load(COLORFUL, image_size=24)
    images, labels = env.batch(3)
    labels = torch.tensor([int(labels[0]), *((int(label) + 1) % 4 for label in labels[1:])])
    asked = {"baseline": baseline, "precision": 1.0}
    together = env.truths(images, labels, **asked)
    for index in range(3):
        alone = env.truths(images[index : index + 1], labels[index : index + 1], **asked)
        for name, definition in alone.items():
            assert torch.equal(together[name].values[index], definition.values[0])
            assert together[name].values.shape == (3, 1, 24, 24)
            assert definition.error.shape == (1, 1, 24, 24)
        assert together.changes[index] == alone.changes[0]


@pytest.mark.parametrize("name", ["single-color-modulo", "number-checker", PLAIN])
def test_all_definitions_give_the_masks_signs_where_nothing_unseen_lies_on_the_way(name):
    env = al.load(name, image_size=24)
    images, labels = env.batch(2)
    targets = env.targets(labels)
    truths = env.truths(images, targets)
    agreement = truths.agreement()
    assert agreement.agreed.all()
    assert torch.equal(agreement.signed, env.truth(images, targets).signed)


def test_a_baseline_that_counts_has_no_mask():
    env = al.load(PLAIN, image_size=SIZE)
    image = scattered(env, some_colors(env))[None]
    counted = torch.tensor(env.counting.values[1]).float()[:, None, None]
    found = env.truths(image, torch.tensor([0]), baseline=counted, precision=1.0)
    assert list(found) == ["ablation", "insertion", "shapley", "integrated-gradients", "count-path"]


def test_a_pixel_that_has_the_baselines_value_has_none_and_no_error():
    env = al.load(COLORFUL, image_size=24)
    images, labels = env.batch(1)
    found = env.truths(images, labels)["integrated-gradients"]
    same = (images == env.baseline).all(1, keepdim=True)
    assert bool((found.values[same] == 0).all())
    assert bool((found.error[same] == 0).all())
    assert bool((found.error[~same] > 0).all())


def test_efficient_definitions_sum_to_the_change_of_the_output():
    env = al.load(PLAIN, image_size=24)
    images, labels = env.batch(2)
    truths = env.truths(images, labels)
    for name in ("shapley", "integrated-gradients", "count-path"):
        assert bool((truths.efficiency_gaps(name) < 1e-9).all())
    assert bool((truths.efficiency_gaps("ablation") > 0.01).all())


def test_a_request_without_a_closed_form_names_the_estimate():
    env = al.load(COLORFUL, image_size=SIZE)
    image = scattered(env, some_colors(env))
    with pytest.raises(al.AttributionLabError, match="sampled_shapley"):
        env.shapley(image, 0, baseline=0)
    counted = torch.tensor(env.counting.values[1]).float()[:, None, None]
    with pytest.raises(al.AttributionLabError, match="sampled_shapley"):
        env.shapley(image, 0, baseline=counted)
    found = env.sampled_shapley(image, 0, baseline=counted, precision=1.0)
    assert found.values.shape == (1, SIZE, SIZE)
    with pytest.warns(al.AttributionLabWarning, match="2,000 permutations, .*larger `most`"):
        env.sampled_shapley(image, 0, baseline=counted, precision=1e-9)


def test_mixtures_with_more_counted_pixels_than_the_network_is_right_for_are_refused():
    env = al.load("single-color-modulo", image_size=24, max_count=120)
    image = env.batch(1)[0][0]
    with pytest.raises(
        al.AttributionLabError, match="mixed with its baseline has 576 counted pixels"
    ):
        env.shapley(image, 0, baseline=torch.ones(1))


@pytest.mark.long
def test_a_camouflaged_environment_has_the_same_truths():
    env = al.load(COLORFUL, image_size=24)
    other = env.camouflaged(2)
    images, labels = env.batch(1)
    mine, others = env.truths(images, labels), other.truths(images, labels)
    for name in ("mask", "ablation", "insertion", "shapley", "count-path"):
        assert torch.equal(mine[name].values, others[name].values)
    for camouflaged in (other, al.load(COLORFUL, image_size=24, camouflage_seed=2)):
        assert camouflaged.network.moves
        assert camouflaged.network.plain is not None
        assert str(camouflaged.model) != str(env.model)
    assert other.spec.constants["camouflage_seed"] == 2
    assert al.load(COLORFUL, image_size=24, camouflage_seed=2).spec.digest == other.spec.digest
    assert env.spec.digest != other.spec.digest
    with pytest.raises(al.AttributionLabError, match="already has the camouflage 2"):
        other.camouflaged(3)
    with pytest.raises(al.AttributionLabError, match="camouflage_seed is -1"):
        al.load(COLORFUL, image_size=24, camouflage_seed=-1)


@pytest.mark.parametrize("form", ["plateau", "and-two-ways", "planes", "natural"])
def test_an_environment_in_an_implementation_is_the_same_environment(form):
    env = al.load("multi-color-sum-distractors", image_size=16, redundant_channels=0)
    other = env.with_implementation(form)
    images, labels = env.batch(2)
    assert torch.equal(other.batch(2)[0], images)
    assert torch.equal(other.truth(images, labels).signed, env.truth(images, labels).signed)
    with torch.no_grad():
        assert torch.equal(other.model(images), env.model(images))
        assert torch.equal(other.softmax_model(images), env.softmax_model(images))
    assert (other.temperature, other.layers.keys()) == (env.temperature, env.layers.keys())
    constants = {"image_size": 16, "redundant_channels": 0, "implementation": form}
    assert other.overrides == constants
    assert f"implementation={form!r}" in load_call(other)
    assert re.search(f'implementation +"{form}"', other.summary())
    loaded = al.load("multi-color-sum-distractors", **constants)
    assert loaded.spec.digest == other.spec.digest != env.spec.digest
    assert loaded.network.moves == other.network.moves
    assert env.network.moves == ()


@pytest.mark.long
def test_a_form_is_camouflaged_and_a_camouflage_takes_no_form():
    env = al.load(COLORFUL, image_size=16)
    other = env.with_implementation("kink-side").camouflaged(1)
    loaded = al.load(COLORFUL, image_size=16, camouflage_seed=1, implementation="kink-side")
    assert loaded.spec.digest == other.spec.digest
    assert loaded.network.moves == other.network.moves
    assert loaded.network.moves[0] == "number checkers as kink-side"
    assert str(loaded.model) == str(other.model)
    with pytest.raises(
        al.AttributionLabError, match=r"already has the network of implementation .kink-side."
    ):
        other.with_implementation("plateau")
    with pytest.raises(
        al.AttributionLabError, match="already has the network of camouflage_seed 1: take"
    ):
        env.camouflaged(1).with_implementation("plateau")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float64])
def test_images_of_any_type_have_the_same_truths(dtype):
    env = al.load(COLORFUL, image_size=SIZE)
    image = scattered(env, some_colors(env))
    assert torch.equal(env.shapley(image.to(dtype), 0), env.shapley(image, 0))
    asked = {
        "targets": torch.tensor([0]),
        "baseline": torch.zeros(1, dtype=dtype),
        "precision": 100,
    }
    found, expected = env.truths(image[None].to(dtype), **asked), env.truths(image[None], **asked)
    assert all(torch.equal(found[name].values, expected[name].values) for name in expected)


def test_truths_and_definitions_are_equal_to_themselves_only():
    env = al.load(PLAIN, image_size=SIZE)
    image = scattered(env, some_colors(env))[None]
    first, second = (env.truths(image, torch.tensor([0])) for _ in range(2))
    assert first == first
    assert first != second
    assert first["mask"] != second["mask"]
