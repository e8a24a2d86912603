"""The answers of a sealed laboratory, found again with nothing but its files and forward passes."""

import itertools
import json
import math
import re
import warnings
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.base import AttributionWarning
from attributionlab.teaching.sealed import questions
from attributionlab.teaching.sealed.world import drawn_world
from attributionlab.worlds import Count, least_f1
from attributionlab.worlds.images.regions import region_mask
from attributionlab.worlds.rules.rule import read_rule
from sealed_cases import IMAGES, SIDE

PART = r"\w@\w+"


@pytest.fixture(scope="module", params=["easy", pytest.param("hard", marks=pytest.mark.long)])
def laboratory(request, laboratory):
    """The easy one, and one with drawn places and two colors a role."""
    return laboratory if request.param == "easy" else request.getfixturevalue("hard_laboratory")


@pytest.fixture(scope="module")
def opened(laboratory):
    """As a student opens it, with the borders of places, which on hard worlds the key alone has."""
    opened = al.open_laboratory(laboratory.lab)
    return SimpleNamespace(**opened._asdict(), borders=laboratory.document["places"])


@pytest.fixture(scope="module")
def background(opened):
    colors, counts = np.unique(opened.images[0].flatten(1).T.numpy(), axis=0, return_counts=True)
    return torch.tensor(colors[counts.argmax()])[:, None, None]


def part_mask(opened, image, part):
    """Pixels (H, W) of a part, from its name."""
    color, place = part.split("@")
    wanted = torch.tensor(opened.spec["colors"][color])[:, None, None]
    return (image == wanted).all(0) & torch.from_numpy(region_mask(place, SIDE, opened.borders))


def without(opened, image, parts, background):
    """The image after parts were replaced by the background."""
    for part in parts:
        image = torch.where(part_mask(opened, image, part), background, image)
    return image


def outputs(opened, images):
    with torch.no_grad():
        return opened.model(torch.stack(list(images)).float())[:, 0].double()


def rule_of(laboratory, opened, background):
    spec = opened.spec
    return read_rule(
        laboratory.document["rule"],
        image_size=SIDE,
        colors=[tuple(each) for each in spec["colors"].values()],
        color_names=list(spec["colors"]),
        background=tuple(int(each) for each in background.flatten()),
        regions=[(name, *edges) for name, edges in opened.borders.items()],
    )


def test_the_network_in_the_files_computes_the_rule_on_any_colors(laboratory, opened, generator):
    rule = laboratory.document["rule"]
    if laboratory.drawn_by[1] == "easy":
        assert rule == "relu(c@bottom_left - c@bottom_right)"
    noise = torch.randint(0, 256, (3, 3, SIDE, SIDE), generator=generator).float()
    images = torch.cat([opened.images, noise, opened.images.roll(SIDE // 2, 2)])
    for image, output in zip(images, outputs(opened, images), strict=True):
        counted = rule
        for part in set(re.findall(PART, rule)):
            counted = counted.replace(part, str(int(part_mask(opened, image, part).sum())))
        assert output == int(eval(counted, {"relu": lambda number: max(number, 0)}))


def test_every_role_is_in_every_place_with_equally_many_pixels(laboratory, opened):
    """Sizes of patches say nothing about which of them count."""
    for image in opened.images:
        sizes = [int(part_mask(opened, image, part).sum()) for part in opened.spec["parts"]]
        assert len({*sizes} - {0}) == 1
        assert np.count_nonzero(sizes) == 6 * len(opened.spec["places"])
    # Where two colors have a role, an image shows one of them.
    assert (0 in sizes) is (laboratory.drawn_by[1] == "hard")


def test_colors_of_one_role_count_alike(laboratory, opened):
    alike = re.findall(rf"\(({PART}) \+ ({PART})\)", laboratory.document["rule"])
    assert bool(alike) is (laboratory.drawn_by[1] == "hard")
    for first, second in alike:
        assert first.split("@")[1] == second.split("@")[1]
        for image in opened.images:
            exchanged = image.clone()
            for part, other in ((first, second), (second, first)):
                color = torch.tensor(opened.spec["colors"][other.split("@")[0]]).float()
                exchanged[:, part_mask(opened, image, part)] = color[:, None]
            assert not torch.equal(exchanged, image)
            one, two = outputs(opened, [image, exchanged])
            assert one == two


def test_signs_of_parts_are_those_of_shapley_values_by_forward_passes(
    laboratory, opened, background
):
    right = laboratory.right["parts"]
    for image in opened.images:
        shown = {part for part in opened.spec["parts"] if part_mask(opened, image, part).any()}
        counted, others = sorted(shown & right.keys()), sorted(shown - right.keys())
        value = {
            gone: float(outputs(opened, [without(opened, image, gone, background)])[0])
            for size in range(len(counted) + 1)
            for gone in itertools.combinations(counted, size)
        }
        for part in counted:
            shapley = sum(
                (value[gone] - value[tuple(sorted((*gone, part)))])
                / (len(counted) * math.comb(len(counted) - 1, len(gone)))
                for gone in value
                if part not in gone
            )
            assert np.sign(round(shapley, 9)) == right[part]
        for gone in value:  # whatever else is there, the other parts change nothing
            left = without(opened, image, gone, background)
            assert (
                outputs(opened, [without(opened, left, [part], background) for part in others])
                == value[gone]
            ).all()


@pytest.mark.parametrize("laboratory", ["easy"], indirect=True)
def test_a_part_without_one_sign_in_all_images_has_none(laboratory, opened, background):
    rule = rule_of(laboratory, opened, background)
    pixels, signed = opened.images.long().numpy(), laboratory.truths.signed.numpy()
    asked = np.ones_like(signed, dtype=bool)
    groups = [
        [Count((each.split("@")[0],), "", each.split("@")[1])] for each in opened.spec["parts"]
    ]
    found = questions.signs_of_parts(rule, groups, pixels, signed, asked)
    assert {part: sign for part, sign in found.items() if sign} == laboratory.right["parts"]
    assert list(found) == opened.spec["parts"]
    [row, column] = np.argwhere(part_mask(opened, opened.images[1], "a@top_left").numpy())[0]
    for changed, value in ((signed, 1), (asked, False)):
        before, changed[1, 0, row, column] = changed[1, 0, row, column], value
        assert questions.signs_of_parts(rule, groups, pixels, signed, asked) is None
        changed[1, 0, row, column] = before


def test_contexts_are_second_differences_by_forward_passes(laboratory, opened, background):
    counted = sorted(laboratory.right["parts"])
    found = set()
    for image, pair in itertools.product(opened.images, itertools.combinations(counted, 2)):
        rest = [part for part in counted if part not in pair]
        for size in range(len(rest) + 1):
            for gone in itertools.combinations(rest, size):
                sets = [gone, (*gone, pair[0]), (*gone, pair[1]), (*gone, *pair)]
                f = outputs(opened, [without(opened, image, each, background) for each in sets])
                if f[0] - f[1] - f[2] + f[3] != 0:
                    found.add(pair)
    assert sorted(map(list, found)) == laboratory.right["contexts"]
    assert found  # the laboratory of the tests has some


def test_what_adds_up_is_no_context():
    env = al.world("red@left + min(blue@top, green@right, 4) - 2 * (red@top)", SIDE)
    images, _ = env.batch(2)
    found = questions.contexts(env.counting, images.long().numpy())
    assert found == [["blue@top", "green@right"]]


def test_safe_baselines_change_nothing_wherever_they_are(laboratory, opened, background):
    empty = background.expand(3, SIDE, SIDE)
    nothing = outputs(opened, [empty])
    # The minimum hides what subtracts: each place is tried beside an image's patches, too.
    places = opened.spec["places"]
    masks = [torch.from_numpy(region_mask(name, SIDE, opened.borders)) for name in places]
    found = []
    for name, color in opened.spec["baselines"].items():
        filled = torch.tensor(color)[:, None, None].expand(3, SIDE, SIDE)
        tried = [torch.where(mask, filled, empty) for mask in masks]
        shown = [
            (torch.where(mask & (image == background).all(0), filled, image), image)
            for mask in masks
            for image in opened.images
        ]
        same = (outputs(opened, tried) == nothing).all() and (
            outputs(opened, [a for a, _ in shown]) == outputs(opened, [b for _, b in shown])
        ).all()
        found += [name] if same else []
    assert found == laboratory.right["baselines"]
    assert 0 < len(found) < len(opened.spec["baselines"])


@pytest.mark.parametrize("dose", range(len(questions.DOSES)), ids=lambda dose: f"dose{dose}")
def test_deletion_from_counts_is_deletion_by_forward_passes(
    laboratory, opened, background, dose, generator
):
    rule = rule_of(laboratory, opened, background)
    values = torch.randint(-1, 2, (SIDE, SIDE), generator=generator).numpy()
    color = torch.tensor(opened.spec["colors"]["c"])[:, None, None]
    canvas = torch.where(opened.doses[dose], color, background)
    image = opened.images[0]
    order = sorted(range(SIDE**2), key=lambda pixel: -values.ravel()[pixel])  # sorted is stable
    steps = []
    for step in range(questions.STEPS + 1):
        gone = torch.zeros(SIDE**2, dtype=torch.bool)
        gone[order[: step * SIDE**2 // questions.STEPS]] = True
        steps.append(torch.where(gone.reshape(SIDE, SIDE), canvas, image))
    expected = int(outputs(opened, steps).sum())
    assert questions.deletion(rule, image.long().numpy(), canvas.long().numpy(), values) == expected


@pytest.mark.long
def test_doses_of_the_laboratory_follow_from_deletion_by_forward_passes(
    laboratory, opened, background
):
    """Naive: the smallest dose at which the truth is no better than reading order, or its reverse."""

    def score(values, canvas):
        total = 0.0
        for image, value in zip(opened.images, values, strict=True):
            order = sorted(range(SIDE**2), key=lambda pixel: -value.ravel()[pixel])
            gone = torch.zeros(questions.STEPS + 1, SIDE**2, dtype=torch.bool)
            for step in range(questions.STEPS + 1):
                gone[step, order[: step * SIDE**2 // questions.STEPS]] = True
            filled = [torch.where(g.reshape(SIDE, SIDE), canvas, image) for g in gone]
            total += float(outputs(opened, filled).sum())
        return total

    zeros = np.zeros((IMAGES, SIDE**2))
    rising = np.tile(np.arange(SIDE**2), (IMAGES, 1))
    right = laboratory.right["doses"]
    breaking = next(name for name, dose in right.items() if dose != "never")
    safe = next(name for name, dose in right.items() if dose == "never")
    for name in (breaking, safe):
        color = torch.tensor(opened.spec["colors"][name])[:, None, None]
        found = "never"
        for dose, chosen in zip(questions.DOSES, opened.doses, strict=True):
            canvas = torch.where(chosen, color, background)
            if score(laboratory.signed, canvas) >= min(score(zeros, canvas), score(rising, canvas)):
                found = dose
                break
        assert right[name] == found


@pytest.mark.long
def test_single_removals_from_counts_are_those_of_forward_passes():
    env = al.world("red@top_left - 2 * (blue@bottom_right)", SIDE)
    images, _ = env.batch(2)
    color = env.colors["blue"]
    maps = questions.single_removals(env.counting, images.long().numpy(), color)
    for image, found in zip(images, maps, strict=True):
        filled = image.repeat(SIDE**2, 1, 1, 1)
        for pixel, changed in enumerate(filled):
            changed[:, pixel // SIDE, pixel % SIDE] = torch.tensor(color).float()
        with torch.no_grad():
            falls = env.model(image[None]) - env.model(filled)
        assert (falls[:, 0].numpy() == found.ravel()).all()
        assert set(found.ravel().tolist()) == {0, 1, 2}


@pytest.mark.long
def test_what_is_said_of_methods_follows_from_their_scores(laboratory):
    world = drawn_world(*laboratory.drawn_by, SIDE, IMAGES)
    assert al.verify(world.env).passed
    signed = torch.from_numpy(world.signed)
    found = questions.causes(world.env, world.images, signed)
    assert found == laboratory.right["methods"]
    targets = torch.zeros(IMAGES, dtype=torch.int64)
    for method in ("saliency", "integrated-gradients", "input-x-gradient"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AttributionWarning)
            maps = al.attribute(method, world.env, world.images, targets)
        passes = least_f1(maps, signed) >= 0.5
        assert (found[method] == "passes") is passes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionWarning)
        maps = al.attribute("integrated-gradients-true-baseline", world.env, world.images, targets)
    f1 = least_f1(maps, signed)
    if found["integrated-gradients"] != "passes":
        assert found["integrated-gradients"] == ("baseline" if f1 >= 0.5 else "path")


def test_questions_name_every_answer_and_cause(laboratory):
    with zipfile.ZipFile(laboratory.lab) as archive:
        text = archive.read("questions.md").decode()
        spec = json.loads(archive.read("lab.json"))
    assert all(f"`{question}`" in text for question in laboratory.right)
    assert sum(spec["points"].values()) == 100
    assert spec["causes"].keys() >= set(laboratory.right["methods"].values())
