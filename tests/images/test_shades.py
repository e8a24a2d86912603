"""Shades: which values stand for a color, and images that show them."""

import numpy as np
import pytest
import torch

from attributionlab.base import AttributionLabError
from attributionlab.worlds.images import draw
from attributionlab.worlds.images.scenes import scenes
from attributionlab.worlds.images.shades import Shading
from oracles_rules import shades_of

COLORS = {"warm": (200, 100, 40), "cold": (40, 100, 200), "dark": (60, 30, 60)}
BACKGROUND = (120, 120, 120)


def scene(**constants):
    return scenes(
        image_size=32,
        colors=tuple(COLORS.values()),
        color_names=tuple(COLORS),
        background=BACKGROUND,
        items=("each@left", "each@right", "stripes(warm, cold)"),
        area=(0.02, 0.04),
        **constants,
    )


@pytest.mark.parametrize(("shades", "spread"), [(1, 0), (3, 7), (9, 8), (15, 7), (27, 26)])
def test_shades_are_cooler_and_warmer_by_turns(shades, spread):
    for color in COLORS.values():
        found = Shading(shades, spread).of(color)
        assert list(found) == shades_of(color, shades, spread)
        assert len(set(found)) == shades
        assert found[0] == color
        assert {(red - green, blue) for red, green, blue in found} == {
            (color[0] - color[1], color[2])
        }
    assert Shading(shades, spread).offsets.sum() == 0


def test_shades_change_no_layout():
    """The same patches in the same places: each pixel has a shade of what it shows otherwise."""
    shading = Shading(9, 8)
    for index in range(4):
        flat, shaded = (draw(each, 3, index) for each in (scene(), scene(shades=9, spread=8)))
        assert (shaded.patches == flat.patches).all()
        images = torch.from_numpy(shaded.image)[None]
        colors = [*COLORS.values(), BACKGROUND]
        assert torch.equal(shading.flattened(images, colors)[0], torch.from_numpy(flat.image))
        known = {shade for color in colors for shade in shades_of(color, 9, 8)}
        assert set(map(tuple, shaded.image.reshape(3, -1).T.tolist())) <= known


def test_every_pixel_draws_its_shade_whatever_it_shows():
    """Counts of 9 shades in N pixels lie within 5 standard deviations of N / 9: 1 - 3e-5."""
    shading, counts = Shading(9, 8), {}
    drawn = scene(shades=9, spread=8)
    for index in range(12):
        pixels = draw(drawn, 0, index).image.reshape(3, -1).T
        for name, color in {**COLORS, "": BACKGROUND}.items():
            row = counts.setdefault(name, np.zeros(9, dtype=int))
            for place, shade in enumerate(shading.of(color)):
                row[place] += (pixels == np.array(shade)).all(1).sum()
    for name, row in counts.items():
        total = row.sum()
        assert total > 200, name
        assert np.abs(row - total / 9).max() <= 5 * np.sqrt(total * 8 / 81), (name, row)


def test_neighbors_draw_independently():
    """Both of two pixels beside each other have the same shade in 1 of 9 cases."""
    image = draw(scene(shades=9, spread=8), 0, 0).image
    background = (
        Shading(9, 8)
        .flattened(torch.from_numpy(image)[None], [BACKGROUND])[0]
        .eq(torch.tensor(BACKGROUND, dtype=torch.uint8)[:, None, None])
        .all(0)
        .numpy()
    )
    both = background[:, 1:] & background[:, :-1]
    same = (image[:, :, 1:] == image[:, :, :-1]).all(0)[both]
    # Of some 500 pairs, 5 standard deviations of sqrt(1/9 * 8/9 / 500) = 0.014.
    assert len(same) > 500
    assert abs(same.mean() - 1 / 9) < 0.07


def patterned(pattern, index):
    """A drawing, and for each pixel how much warmer than its color it is, in steps."""
    drawing = draw(scene(shades=9, spread=8, shade_pattern=pattern), 3, index)
    image = torch.from_numpy(drawing.image)[None].int()
    flat = Shading(9, 8).flattened(image, [*COLORS.values(), BACKGROUND])
    warmth = (image - flat)[0]
    assert (warmth[0] == warmth[1]).all()
    assert (warmth[2] == 0).all()
    return drawing, (warmth[0] // 2).numpy()


@pytest.mark.parametrize("pattern", ["gradient", "outline"])
def test_patterns_change_no_layout_and_no_color(pattern):
    for index in range(4):
        drawing, warmth = patterned(pattern, index)
        flat = draw(scene(), 3, index)
        assert (drawing.patches == flat.patches).all()
        assert np.abs(warmth).max() <= 4


def test_a_gradient_runs_from_the_coolest_to_the_warmest_in_each_patch():
    directions = set()
    for index in range(4):
        drawing, warmth = patterned("gradient", index)
        for patch in np.unique(drawing.patches):
            places = np.argwhere(drawing.patches == patch)
            values = warmth[drawing.patches == patch]
            found = [
                (down, right)
                for down in range(-8, 9)
                for right in range(-8, 9)
                if (values == ramp(down * places[:, 0] + right * places[:, 1])).all()
            ]
            assert found, (index, patch)
            directions.add(found[0])
    assert len(directions) > 3


def ramp(along):
    """Steps -4 to 4 of values along a direction, each an equal share of the way."""
    way = along - along.min()
    return way * 9 // (way.max() + 1) - 4


def test_an_outline_is_what_meets_another_patch():
    for index in range(4):
        drawing, warmth = patterned("outline", index)
        for row, column in np.ndindex(warmth.shape):
            own = drawing.patches[row, column]
            beside = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
            others = [
                drawing.patches[place] != own
                for place in beside
                if 0 <= min(place) <= max(place) < 32
            ]
            assert warmth[row, column] == (4 if own and any(others) else 0)


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({"shade_pattern": "gradent", "shades": 3, "spread": 7}, "'gradent'.*'gradient'"),
        ({"shade_pattern": "outline"}, "'outline' for one shade"),
    ],
)
def test_patterns_that_cannot_be_are_refused(constants, said):
    with pytest.raises(AttributionLabError, match=said):
        scene(**constants)


def test_flat_images_are_as_before():
    assert (draw(scene(shades=1), 0, 0).image == draw(scene(), 0, 0).image).all()
    images = torch.zeros(1, 3, 8, 8)
    assert Shading().flattened(images, [(0, 0, 0)]) is images


def test_the_highest_value_is_that_of_a_shade():
    assert scene().highest == 200
    assert scene(shades=9, spread=8).highest == 208
