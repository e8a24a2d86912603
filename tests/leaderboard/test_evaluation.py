"""Maps and curves of one network, against forward passes."""

import numpy as np
import pytest
import torch

import oracles_leaderboard as oracle
from attributionlab.metrics import accuracy, label_probability, parts_f1
from attributionlab.verdicts import explained, f1_of, removed_pixel
from attributionlab.verdicts.leaderboard.study import areas_of, indicated
from cases import loaded

# Sums of at most 145 numbers in [0, 1] in float64.
ROUNDING = 1e-13
env = loaded("multi-color-sum", image_size=12, redundant_strength=4.0)


@pytest.fixture(scope="module")
def seen(env):
    return explained(["input-x-gradient", "random", "oracle"], env, 2, 0)


def test_maps_are_those_of_the_methods(env, seen):
    images, labels = env.batch(2, 0)
    assert torch.equal(seen.images, images)
    assert torch.equal(seen.targets, labels)
    truth = env.truth(images, labels, "probability").signed
    assert torch.equal(seen.truth.signed, truth)
    assert torch.equal(seen.maps["oracle"], truth.float())
    assert list(seen.maps) == ["input-x-gradient", "random", "oracle"]
    assert not torch.equal(seen.maps["random"][0], seen.maps["random"][1])
    assert seen.reasons == {}


def test_a_method_that_cannot_be_run_has_a_reason_and_no_map(env):
    def broken(model, inputs, targets):
        raise ValueError("not today")

    found = explained([broken, "saliency"], env, 1, 0)
    assert list(found.maps) == ["saliency"]
    assert "not today" in found.reasons["broken"]


@pytest.mark.long
@pytest.mark.parametrize("removed_to", ["black", "true baseline"])
@pytest.mark.parametrize("indicator", ["accuracy", "label-probability"])
def test_areas_are_those_of_forward_passes(env, seen, removed_to, indicator):
    found = areas_of(seen, env, removed_to, indicator)
    assert list(found) == ["MoRF", "LeRF"]
    pixel = torch.tensor([0.0] * 3 if removed_to == "black" else env.recipe.background)
    for protocol, areas in found.items():
        for row, maps in enumerate(list(seen.maps.values())[:2]):
            for index, image in enumerate(seen.images[: 1 + row]):
                values, label = maps[index].flatten().tolist(), int(seen.targets[index])
                sign = -1 if protocol == "MoRF" else 1
                order = sorted(range(144), key=lambda place: (sign * values[place], place))

                def answer(current, label=label):
                    logits = env.model(current[None])[0].tolist()
                    if indicator == "accuracy":
                        return oracle.accuracy(logits, label)
                    return oracle.probability(logits, label, env.temperature)

                curve = oracle.curve(answer, image, order, pixel)
                assert areas[row, index] == pytest.approx(oracle.area(curve), abs=ROUNDING)


def test_indicators_are_those_of_the_metrics():
    drawing = torch.Generator().manual_seed(0)
    outputs = torch.randint(0, 3, (4, 50, 3), generator=drawing).float() * 100
    labels = torch.full((200,), 2)
    rows = outputs.flatten(0, 1)
    by_accuracy = indicated(outputs, 2, "accuracy", 1.0).flatten()
    assert torch.equal(by_accuracy, accuracy(rows, labels))
    by_probability = indicated(outputs, 2, "label-probability", 16.0).flatten()
    assert torch.equal(by_probability, label_probability(rows, labels, temperature=16.0))


def test_removed_pixels_are_black_or_background(env):
    assert removed_pixel(env, "black").flatten().tolist() == [0, 0, 0]
    assert removed_pixel(env, "true baseline").flatten().tolist() == [20, 20, 20]


def test_f1_is_of_every_part(seen):
    found = f1_of(seen)
    for row, maps in enumerate(seen.maps.values()):
        for part, values in parts_f1(maps, seen.truth.signed).items():
            assert np.array_equal(found[part][row], values.numpy())
    assert found["overall"][2].tolist() == pytest.approx([1, 1])
