"""Scenes: patches in regions, with exact numbers of pixels, and their text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributionlab.base import AttributionLabError
from attributionlab.worlds import QUADRANTS
from attributionlab.worlds.images import draw, regions
from attributionlab.worlds.images.scenes import scenes
from images.image_cases import BLUE, GRAY, GREEN, ORANGE, RED

NAMED = {"red": RED, "green": GREEN, "blue": BLUE, "orange": ORANGE}
EVERYWHERE = tuple(f"each@{quadrant}" for quadrant in QUADRANTS)


def scene(*items, image_size=48, **constants):
    return scenes(
        image_size=image_size,
        colors=tuple(NAMED.values()),
        color_names=tuple(NAMED),
        background=GRAY,
        items=items,
        **constants,
    )


def pixels_of(image, color):
    return (image == np.array(color)[:, None, None]).all(0)


@pytest.mark.long
@settings(max_examples=40)
@given(index=st.integers(0, 2**32), image_size=st.integers(40, 80), fill=st.floats(0.5, 1))
def test_every_patch_has_its_pixels_in_its_region(index, image_size, fill):
    drawn = scene(*EVERYWHERE, image_size=image_size, fill=fill, area=(0.01, 0.01))
    image, patches = draw(drawn, 0, index)
    pixels = max(1, round(0.01 * image_size**2))
    for color in NAMED.values():
        for quadrant in QUADRANTS:
            inside = regions.region_mask(quadrant, image_size)
            assert (pixels_of(image, color) & inside).sum() == pixels
    assert len(np.unique(patches)) == 1 + 16
    for label in range(1, 17):
        own = patches == label
        shown = own & ~pixels_of(image, GRAY)
        assert len(np.unique(image[:, shown], axis=1).T) == 1  # one patch, one color
        assert sum((own & ~regions.region_mask(q, image_size)).sum() == 0 for q in QUADRANTS) == 1


def test_areas_differ_unless_they_are_to_be_equal():
    def sizes(index, **constants):
        image, _ = draw(scene("each", area=(0.01, 0.05), **constants), 0, index)
        return [int(pixels_of(image, color).sum()) for color in NAMED.values()]

    equal = [sizes(index, equal_areas=True) for index in range(8)]
    assert all(len(set(each)) == 1 for each in equal)
    assert len({each[0] for each in equal}) > 1
    assert any(len(set(sizes(index))) > 1 for index in range(8))


def test_a_patch_with_an_area_of_its_own_is_drawn_apart():
    drawn = scene("each", "red:0.01-0.05", area=(0.02, 0.02), equal_areas=True)
    counts = {int(pixels_of(draw(drawn, 0, index).image, RED).sum()) for index in range(12)}
    assert len(counts) > 4
    assert min(counts) >= round(0.01 * 48**2)
    assert max(counts) <= round(0.05 * 48**2)


@pytest.mark.long
def test_alternatives_are_equally_likely_and_patches_come_together():
    drawn = scene("red & green|blue|nothing", area=(0.02, 0.02))
    shown = [draw(drawn, 0, index).image for index in range(600)]
    there = np.array([[pixels_of(image, c).any() for c in (RED, GREEN, BLUE)] for image in shown])
    kinds = [(True, True, False), (False, False, True), (False, False, False)]
    counts = [int((there == kind).all(1).sum()) for kind in kinds]
    assert sum(counts) == 600
    # Each is Binomial(600, 1/3): five standard deviations are 58.
    assert all(abs(count - 200) <= 58 for count in counts)


@pytest.mark.parametrize("motif", sorted(regions.MOTIFS))
@pytest.mark.parametrize("image_size", [47, 48])
def test_a_block_of_tiles_has_a_motif_on_the_grid(motif, image_size):
    names = ["red", "blue"][: 1 + (motif != "corner")]
    drawn = scene(f"{motif}({', '.join(names)})@left:0.05", image_size=image_size)
    image, _ = draw(drawn, 0, 0)
    wanted = [
        [GRAY if k is None else NAMED[names[k]] for k in row] for row in regions.MOTIFS[motif]
    ]
    complete = 0
    for top in range(0, image_size - 1, 2):
        for left in range(0, image_size - 1, 2):
            tile = [[tuple(image[:, top + y, left + x]) for x in (0, 1)] for y in (0, 1)]
            complete += tile == wanted
    assert complete == round(round(0.05 * image_size**2) / 4)
    assert not (~pixels_of(image, GRAY) & regions.region_mask("right", image_size)).any()


@given(side=st.integers(8, 90))
def test_regions_share_out_the_image(side):
    halves = [("left", "right"), ("top", "bottom"), ("center", "ring"), tuple(QUADRANTS)]
    for names in halves:
        assert (sum(regions.region_mask(name, side).astype(int) for name in names) == 1).all()
    assert regions.region_mask("", side).all()
    both = regions.region_mask("top", side) & regions.region_mask("left", side)
    assert (regions.region_mask("top_left", side) == both).all()


def test_a_pixel_belongs_to_a_rectangle_by_its_center():
    own = {"door": (0.1, 0.3, 0.5, 0.62)}
    mask = regions.region_mask("door", 10, own)
    expected = [
        [0.1 <= (y + 0.5) / 10 < 0.5 and 0.3 <= (x + 0.5) / 10 < 0.62 for x in range(10)]
        for y in range(10)
    ]
    assert mask.tolist() == expected
    assert not regions.region_problems(own, 10)


@pytest.mark.parametrize(
    ("region", "told"),
    [
        ({"left": (0, 0, 1, 1)}, ["left", "another name"]),
        ({"a door": (0, 0, 1, 1)}, ["a door", "another name"]),
        ({"door": (0.5, 0, 0.5, 1)}, ["door", "(0.5, 0, 0.5, 1)"]),
        ({"door": (0.51, 0.51, 0.52, 0.52)}, ["door", "10"]),
    ],
)
def test_impossible_regions_are_named(region, told):
    [problem] = regions.region_problems(region, 10)
    assert all(each in problem for each in told)


# Patches that lie one upon another

OVERLAPPING = {"area": (0.02, 0.02), "equal_areas": True, "fill": 0.75}


def seen_of_patches(overlap, area=0.02):
    """Of each patch of 12 images the share that is seen, at most 1, of the fewest pixels it has."""
    drawn = scene(*EVERYWHERE, overlap=overlap, **OVERLAPPING | {"area": (area, area)})
    least = round(area * 48**2) / 0.75
    seen = [np.bincount(draw(drawn, 0, index).patches.ravel())[1:] for index in range(12)]
    return np.minimum(1, np.concatenate(seen) / least)


def test_patches_cover_one_another_as_far_as_they_may():
    assert (seen_of_patches(0.0, area=0.01) == 1).all()
    for overlap in (0.25, 0.5):
        seen = seen_of_patches(overlap)
        assert seen.size == 12 * 16
        assert 1 - overlap <= seen.min() < 1 - overlap / 2
        assert (seen < 1).mean() > 0.1  # some of those that are covered have more pixels


def test_a_pixel_shows_the_upper_patch():
    """One color and holes within what is seen of each patch, whose region it does not leave."""
    image, patches = draw(scene(*EVERYWHERE, overlap=0.5, **OVERLAPPING), 0, 3)
    colors = set()
    for label in range(1, 17):
        own = patches == label
        shown = own & ~pixels_of(image, GRAY)
        [color] = np.unique(image[:, shown], axis=1).T
        assert (own & pixels_of(image, GRAY)).any()
        quadrants = [q for q in QUADRANTS if not (own & ~regions.region_mask(q, 48)).any()]
        colors.add((tuple(color.tolist()), *quadrants))
    assert colors == {(color, quadrant) for color in NAMED.values() for quadrant in QUADRANTS}
    assert not (~pixels_of(image, GRAY) & (patches == 0)).any()


@pytest.mark.long
def test_no_color_lies_above_the_others_more_often():
    """Mean numbers of seen pixels of four colors, 40 images of four patches each: each image's numbers
    have a standard deviation below 40, so differences of means one below 40 * sqrt(2 / 40) = 9.
    """
    drawn = scene(*EVERYWHERE, overlap=0.5, **OVERLAPPING)
    counts = np.array(
        [
            [pixels_of(draw(drawn, 0, index).image, color).sum() for color in NAMED.values()]
            for index in range(40)
        ]
    )
    assert counts.std(0).max() < 40
    assert np.ptp(counts.mean(0)) < 36  # 4 standard deviations


def test_nothing_may_be_covered_wholly():
    with pytest.raises(AttributionLabError, match="overlap is 1"):
        scene(*EVERYWHERE, overlap=1)
