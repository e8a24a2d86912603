"""Trained networks in a test: which, and scores of sums over patches."""

import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.verdicts import DEFAULT_IMPLEMENTATIONS
from attributionlab.verdicts.faithfulness.setup import patch_sums_in_place, truth_of_patches
from attributionlab.worlds.truth import Truth

ASKED = {"n": 13, "one_network": True, "implementations": "trained", "also": None}


def asked_of(method, **changed):
    with pytest.warns(al.AttributionWarning, match="on images of 24 pixels, .* sums over patches"):
        return al.faithfulness_test(method, "quadrants", **ASKED | changed)


def test_patches_get_their_sums_and_their_truth():
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(3, 1, 6, 6, generator=generator)
    patches = torch.randint(0, 5, (3, 6, 6), generator=generator)
    signed = torch.randint(-1, 2, (3, 1, 6, 6), generator=generator).to(torch.int8)
    asked = torch.rand(3, 1, 6, 6, generator=generator) < 0.3
    asked[0, 0][patches[0] == 1] = False
    signed[1, 0][patches[1] == 2] = 1
    sums = patch_sums_in_place(maps, patches)
    truth = truth_of_patches(Truth(signed, asked=asked), patches)
    firsts = 0
    for b in range(3):
        for label in patches[b].unique():
            inside = [(y, x) for y in range(6) for x in range(6) if patches[b, y, x] == label]
            signs = {int(signed[b, 0, y, x]) for y, x in inside} - {0}
            for place in inside:
                first = place == inside[0] and int(label) > 0
                at = (b, 0, *place)
                wanted = sum(float(maps[b, 0, y, x]) for y, x in inside) * first
                assert float(sums[at]) == pytest.approx(wanted, abs=1e-6)
                assert bool(truth.relevant[at]) == (first and bool(signs))
                assert int(truth.signed[at]) == first * sum(signs)  # both signs are none
                assert bool(truth.asked[at]) == (
                    first and any(asked[b, 0, y, x] for y, x in inside)
                )
                firsts += first
    assert firsts == 12


def test_what_knows_the_rule_is_right_and_what_does_not_is_wrong():
    report = asked_of("oracle")
    assert report.verdict == "pass"
    [result] = report.environments
    assert result.implementation == "trained"
    assert result.name == "quadrants (trained)"
    assert asked_of("random").verdict == "fail"


def test_a_right_sum_is_enough():
    """All of a patch's attribution may lie on one pixel: the truth is about its sum."""

    def on_one_pixel(model, inputs, targets, *, patches, baseline):
        maps = torch.zeros(len(inputs), 1, *inputs.shape[2:])
        whole = model(inputs)[:, 0]
        for label in range(1, int(patches.max()) + 1):
            mask = (patches == label)[:, None]
            effect = whole - model(torch.where(mask, baseline, inputs))[:, 0]
            first = torch.zeros_like(mask)
            for b in range(len(inputs)):
                there = mask[b].flatten().nonzero()
                if len(there):
                    first[b].view(-1)[there[-1]] = True
            maps += first * effect[:, None, None, None]
        return maps

    assert asked_of(on_one_pixel, isolated=False).environments[0].count.solved == 13


def test_nothing_of_it_is_in_the_default_verdict():
    assert "trained" not in DEFAULT_IMPLEMENTATIONS
    assert "trained" not in al.load("quadrants", image_size=24).implementations


def test_the_name_loads_the_first_network_of_a_world():
    env = al.load("quadrants", implementation="trained")
    assert env.spec.digest == al.trained_environment("quadrants").spec.digest
    assert env.implementation == "trained"
    assert env.image_shape == (3, 24, 24)


@pytest.mark.parametrize(
    ("world", "changed", "told"),
    [
        (
            "all-four",
            {},
            r"no trained network of all-four: take one of at-least, .*watermark-read",
        ),
        ("quadrants", {"one_network": False}, "set one_network"),
        ("quadrants", {"also": "truths"}, "scored on patches"),
        ("quadrants", {"claim": "positive-smoothed"}, "scored on patches"),
        ("quadrants", {"implementations": "trainde"}, "trained"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(world, changed, told):
    with pytest.raises(AttributionLabError, match=told) as refusal:
        al.faithfulness_test("oracle", world, **ASKED | changed)
    assert "\n" not in str(refusal.value)


def test_images_of_another_size_are_refused():
    with pytest.raises(AttributionLabError, match="trained with image_size 24, but here it is 48"):
        al.load("quadrants", image_size=48, implementation="trained")
