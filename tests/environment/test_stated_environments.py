"""The files of the catalog, and the networks and images made of them, held against one table."""

import tomllib
from dataclasses import asdict

import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.worlds import specs_folder
from attributionlab.worlds.environment import catalog
from cases import COUNTING, SMALL_WORLDS
from stated_environments import DRAWN, ENVIRONMENTS, FILL, SHAPES_OF_G1, SIDE, SMOOTHING, Stated

IMAGES = 4
OF_WORLDS = {
    *(name for name, _ in SMALL_WORLDS),
    *("colors-everywhere", "colors-everywhere-marker", "colors-everywhere-marks"),
    *("unequal-colors", "color-or-none"),
    *("textures", "watermarks"),
}
"""Files that tests/rules/test_worlds.py holds."""
UNSEEN = (1, 2, 3)  # the color of no patch


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def loaded(request):
    """An environment with what is stated of it."""
    return al.load(request.param), ENVIRONMENTS[request.param]


def files() -> dict[str, dict]:
    """All files by folder and name, parsed."""
    return {
        f"{kind}/{path.stem}": tomllib.loads(path.read_text(encoding="utf-8"))
        for kind in ("designs", "datasets")
        for path in specs_folder(kind).glob("*.toml")
        if path.stem not in OF_WORLDS
    }


def differences(read: dict[str, dict]) -> list[str]:
    """Environments whose files say something else than the table, or that nothing can be made of."""
    different = []
    for name, stated in ENVIRONMENTS.items():
        design = read[f"designs/{name}"]
        try:
            spec = specification(name, design, read[f"datasets/{design['dataset']}"])
        except (al.AttributionLabError, KeyError):
            different.append(name)
            continue
        if (spec, design["dataset"]) != (as_stated(name, stated), stated.dataset):
            different.append(name)
    dataset, shapes = SHAPES_OF_G1
    other = read["datasets/four-colors"]
    if read[f"datasets/{dataset}"] != other | {
        "constants": other["constants"] | {"shapes": list(shapes)}
    }:
        different.append(dataset)
    return different


def specification(name: str, design: dict, dataset: dict) -> dict:
    spec = asdict(catalog._spec(name, dict(design), dict(dataset), {}))
    del spec["hidden"]  # of questions, which the papers do not ask
    return spec


def as_stated(name: str, stated: Stated) -> dict:
    """The specification that the table asks for."""
    constants = stated.constants | {"accumulator": stated.accumulator}
    if stated.builder == "color-sum":
        constants = constants | {"redundant_channels": stated.redundant_channels}
    return {
        "name": name, "claim": stated.claim, "formula": stated.formula, "source": stated.paper,
        "builder": stated.builder, "generator": stated.generator, "constants": constants, **DRAWN,
    }  # fmt: skip


def test_the_files_say_what_the_table_states():
    assert differences(files()) == []
    assert sorted(ENVIRONMENTS) == sorted(COUNTING)


def changed(value):
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value / 2
        case str():
            return value + "s"
        case [first, *rest]:
            return [changed(first), *rest]


@pytest.mark.long
def test_every_entry_of_every_file_is_held_by_the_table():
    read = files()
    noticed = []
    for file, table in read.items():
        for key, value in table.items():
            if key not in ("constants", "hidden"):  # which only questions have
                noticed.append(differences(read | {file: table | {key: changed(value)}}) != [])
        for key, value in table["constants"].items():
            constants = table["constants"] | {key: changed(value)}
            noticed.append(differences(read | {file: table | {"constants": constants}}) != [])
    assert all(noticed)
    assert len(noticed) > 100


# Networks


def one_pixel(env, value, place=(0, 0)):
    """The background with one pixel of another value, (1, C, H, W)."""
    image = env.baseline.expand(-1, SIDE, SIDE).clone()
    image[:, place[0], place[1]] = torch.tensor(value).float()
    return image[None]


def outputs(env, images):
    with torch.no_grad():
        return env.model(images).tolist()


def test_one_pixel_of_each_kind_adds_what_the_table_states(loaded):
    env, stated = loaded
    for place in ((0, 0), (100, 37)):
        for index, value in enumerate(stated.counted):
            only = [float(index == k) for k in range(stated.classes)]
            assert outputs(env, one_pixel(env, value, place)) == [only]
        for value in (*stated.distractors, stated.background):
            assert outputs(env, one_pixel(env, value, place)) == [[0.0] * stated.classes]


def test_other_colors_count_nothing_and_disturb_where_channels_are_redundant(loaded):
    env, stated = loaded
    if len(stated.background) == 1:
        return
    known = {*stated.counted, *stated.distractors}
    places = [(0, 0), (1, 1), (100, 37)]  # of which one may happen to have weights of zero
    for value in {UNSEEN, (220, 120, 21), *stated.constants["distractor_colors"]} - known:
        found = [outputs(env, one_pixel(env, value, place))[0] for place in places]
        assert any(map(any, found)) == (stated.redundant_channels > 0)


def test_of_all_values_of_gray_the_stated_number_alone_counts():
    env = al.load("number-checker")
    for pixels in (range(256), range(5), range(6), range(6, 256)):
        image = torch.zeros(1, 1, SIDE * SIDE)
        image[0, 0, : len(pixels)] = torch.tensor(pixels)
        assert outputs(env, image.view(1, 1, SIDE, SIDE)) == [[float(5 in pixels)]]


def test_the_detector_has_a_channel_for_each_known_color_and_the_redundant_ones(loaded):
    env, stated = loaded
    if stated.builder != "color-sum":
        return
    known = len(stated.counted) + len(stated.distractors)
    *_, last = (each for each in env.model.detector if isinstance(each, nn.Conv2d))
    assert last.out_channels == known + stated.redundant_channels
    first = env.model.accumulator[0]
    assert first.in_channels == known + stated.redundant_channels
    if stated.redundant_channels:
        strength = stated.constants["redundant_strength"]
        assert first.weight[:, known:].abs().max().item() == strength
        assert first.weight[:, known:].unique().numel() > 2  # random


def test_the_accumulator_has_kernels_of_ones_or_of_random_weights(loaded):
    env, stated = loaded
    layers = [each for each in env.model.accumulator if isinstance(each, nn.Conv2d)]
    own = [layer.weight[:, : layer.out_channels] for layer in layers[:1]]
    own += [layer.weight for layer in layers[1:]]
    weights = torch.cat([each.flatten() for each in own]).unique().tolist()
    if stated.accumulator == "uniform":
        assert set(weights) <= {0.0, 1.0}
    else:
        assert len(weights) > 10


def test_remainders_are_those_of_the_stated_modulus_up_to_the_stated_count():
    env, stated = al.load("single-color-modulo"), ENVIRONMENTS["single-color-modulo"]
    counts = [
        1,
        stated.modulus - 1,
        stated.modulus,
        stated.modulus + 1,
        stated.constants["max_count"],
    ]
    images = torch.zeros(len(counts), 1, SIDE * SIDE)
    for image, count in zip(images, counts, strict=True):
        image[0, :count] = 1
    found = outputs(env, images.view(-1, 1, SIDE, SIDE))
    assert found == [[count % stated.modulus] for count in counts]
    layers = [each for each in env.model.modules() if isinstance(each, nn.Conv2d | nn.Linear)]
    assert [sum(isinstance(each, kind) for each in layers) for kind in (nn.Conv2d, nn.Linear)] == [
        10,
        7,
    ]
    assert sum(weights.numel() for weights in env.model.parameters()) == stated.parameters


def test_what_is_explained_is_what_the_table_states(loaded):
    env, stated = loaded
    assert env.network.classes == stated.classes
    assert env.task == ("classification" if stated.classes > 1 else "regression")
    assert env.max_value == stated.highest
    assert env.temperature == stated.temperature
    assert (env.softmax_model is None) == (stated.classes == 1)
    assert tuple(env.baseline.flatten().tolist()) == stated.background
    assert env.smoothing_sigma == pytest.approx(SMOOTHING * SIDE, rel=2**-52)  # one product
    assert (env.counting.values, env.counting.modulus) == (stated.counted, stated.modulus)


# Images


@pytest.mark.long
def test_images_show_the_stated_patches(loaded):
    env, stated = loaded
    dataset = env.dataset()
    assert len(dataset) == DRAWN["size"]
    other = env.dataset(1, seed=DRAWN["seed"])[0]
    assert torch.equal(dataset[0].image, other.image)
    filled = []
    low, high = stated.constants["patch_size"]
    for index in range(IMAGES):
        sample = dataset[index]
        assert sample.image.shape == (len(stated.background), SIDE, SIDE)
        assert int(sample.patches.max()) == stated.patches
        assert values_of(sample.image, sample.patches == 0) == {stated.background}
        for patch in range(1, stated.patches + 1):
            inside = sample.patches == patch
            rows, columns = inside.nonzero().T
            extent = max(float(each.max() - each.min()) + 1 for each in (rows, columns))
            # A pixel at each end may be cut by the outline.
            assert extent <= high * SIDE + 2
            assert extent >= low * SIDE / 2**0.5 - 2
            assert values_of(sample.image, inside) == expected(stated, patch)
        background = torch.tensor(stated.background)[:, None]
        filled.append((sample.image[:, sample.patches > 0] != background).any(0))
    assert env.recipe.shapes == stated.constants["shapes"]
    if "fill" in stated.constants:
        drawn = torch.cat(filled).double()
        # Five standard deviations of the mean of so many Bernoulli draws.
        assert abs(float(drawn.mean()) - FILL) < 5 * (FILL * (1 - FILL) / len(drawn)) ** 0.5


def values_of(image, where):
    return {tuple(value) for value in image[:, where].unique(dim=1).T.int().tolist()}


def expected(stated, patch):
    """All values that the pixels of a patch may have; each occurs among more than 100."""
    if "values" in stated.constants:
        low, high = stated.constants["values"]
        return {(value,) for value in range(low, high + 1)}
    shown = stated.counted if len(stated.background) == 3 else stated.counted * stated.patches
    return {(*shown, *stated.distractors)[patch - 1], stated.background}
