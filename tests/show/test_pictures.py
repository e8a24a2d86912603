"""Pictures hold, pixel by pixel, what they are drawn from."""

import base64
import colorsys
import io
import re

import matplotlib.image
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attributionlab.metrics import alignment
from attributionlab.show import SIGNLESS_COLORS
from attributionlab.show.pictures import (
    ERROR_COLORS,
    SIGNED_COLORS,
    averaged,
    data_uri,
    error_picture,
    errors,
    image_picture,
    map_picture,
    of_tokens,
)
from attributionlab.show.style import NO_ATTRIBUTION, SIGNED


def read(uri):
    """The colors of a picture, as another library reads them: (H, W, 3) in 0..255."""
    kind, _, content = uri.partition(",")
    assert kind == "data:image/png;base64"
    drawn = matplotlib.image.imread(io.BytesIO(base64.b64decode(content)))
    return np.rint(255 * drawn[..., :3]).astype(int)


def rgb(color):
    return [int(color[i : i + 2], 16) for i in (1, 3, 5)]


@pytest.mark.parametrize(
    ("image", "highest", "shown"),
    [
        ([[[-1.0, 0.0, 1.0]]], 2.0, [0, 128, 255]),
        ([[[-1.0, 0.0, 0.0]]], 4.0, [0, 64, 64]),
        ([[[0.0, 1.0, 1.0]], [[1.0, 1.0, 0.0]]], 1.0, [128, 255, 128]),
        ([[[0.0, 2.0, 9.0]]], 4.0, [0, 128, 255]),
    ],
    ids=["negative values", "a part of the range", "two channels", "beyond the range"],
)
def test_images_of_any_range_and_number_of_channels_are_shown(image, highest, shown):
    drawn = read(image_picture(np.array(image), highest, 16))
    assert drawn.tolist() == [[[level] * 3 for level in shown]]


def naive_average(values, block):
    height, width = len(values), len(values[0])
    rows = []
    for top in range(0, height, block):
        row = []
        for left in range(0, width, block):
            cells = [
                values[y][x]
                for y in range(top, min(top + block, height))
                for x in range(left, min(left + block, width))
            ]
            row.append(sum(cells) / len(cells))
        rows.append(row)
    return rows


@given(
    height=st.integers(1, 12),
    width=st.integers(1, 12),
    side=st.integers(1, 14),
    seed=st.integers(0, 99),
)
def test_averages_are_those_of_the_naive_twin_and_fit(height, width, side, seed):
    values = np.random.default_rng(seed).integers(-9, 10, (height, width)).astype(float)
    block = next(b for b in range(1, 13) if -(-max(height, width) // b) <= side)
    means = averaged(values, side)
    assert max(means.shape) <= side
    # Sums of integers are exact; one division rounds.
    assert means.tolist() == naive_average(values.tolist(), block)


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_is_drawn_as_it_is(channels):
    image = np.random.default_rng(0).integers(0, 256, (channels, 5, 7)).astype(np.float32)
    expected = np.moveaxis(np.broadcast_to(image, (3, 5, 7)), 0, -1)
    assert np.array_equal(read(image_picture(image, 255, 7)), expected)


def test_a_binary_image_is_black_and_white():
    assert read(image_picture(np.array([[[0.0, 1.0]]]), 1, 9)).tolist() == [[[0] * 3, [255] * 3]]


def test_maps_have_the_colors_of_the_figures_and_zero_the_middle_one():
    values = np.array([[-1.0, 0.0, 1.0]])
    colors = SIGNED([0.0, 0.5, 1.0], bytes=True)[:, :3]
    assert np.abs(read(map_picture(values, 9))[0] - colors.astype(int)).max() <= 1
    assert np.array_equal(read(map_picture(values, 1))[0, 0], read(map_picture(values, 3))[0, 1])


def naive_error(sign, value, claim):
    """(missed, wrong sign, false) of one pixel."""
    if claim == "overall":
        sign, value = abs(sign), abs(value)
    elif claim in ("positive", "positive-smoothed"):
        sign, value = max(sign, 0), max(value, 0)
    if sign == 0:
        return 0, 0, abs(value)
    if sign * value < 0:
        return 1, abs(value), 0
    return 1 - abs(value), 0, 0


@pytest.mark.parametrize("claim", ["signed", "overall", "positive", "positive-smoothed"])
@given(sign=st.sampled_from([-1, 0, 1]), value=st.integers(-64, 64).map(lambda k: k / 64))
def test_errors_are_those_of_the_naive_twin(claim, sign, value):
    found = errors(np.array([[sign]]), np.array([[value]]), claim)
    missed, wrong, false = naive_error(sign, value, claim)
    # Multiples of 2^-6: exact.
    assert (found.missed.item(), found.wrong_sign.item(), found.false.item()) == (
        missed,
        wrong,
        false,
    )


@pytest.mark.parametrize("claim", ["signed", "overall", "positive"])
@given(
    sign=st.sampled_from([-1, 0, 1]),
    value=st.integers(-64, 64).map(lambda k: k / 64),
    kind=st.sampled_from(["mixed", "not asked"]),
)
def test_pixels_without_a_sign_are_asked_for_their_relevance_or_not_at_all(
    claim, sign, value, kind
):
    """One pixel of the kind beside one that is asked."""
    signless = {kind: np.array([[True, False]])}
    truth = np.array([[0, sign]], dtype=np.int8)
    found = errors(truth, np.array([[value, value]]), claim, signless)
    relevant = kind == "mixed" and claim == "overall"
    missed, wrong, false = naive_error(1, abs(value), claim) if relevant else (0, 0, 0)
    beside = naive_error(sign, value, claim)
    assert found.missed.tolist() == [[missed, beside[0]]]
    assert found.wrong_sign.tolist() == [[wrong, beside[1]]]
    assert found.false.tolist() == [[false, beside[2]]]
    assert found.asked.tolist() == [[relevant, True]]
    # What lies on pixels that are not asked is no part of the map.
    on_truth = sum(
        1 - each[0] + each[1]
        for each, there in (
            (naive_error(1, abs(value), claim), relevant),
            (beside, found.relevant[0, 1]),
        )
        if there
    )
    total = on_truth + beside[2]
    assert found.shares[2] == (on_truth / total if total else 0)


def test_pixels_without_a_sign_have_the_colors_of_the_legend():
    signless = {"mixed": np.array([[True, False, False]]), "not asked": np.array([[0, 1, 0]]) > 0}
    drawn = read(map_picture(np.array([[1.0, -1.0, 0.0]]), 9, signless))[0]
    gray = read(map_picture(np.array([[1.0, -1.0]]), 9, faint=True))
    assert (gray == rgb(NO_ATTRIBUTION)).all()  # not the colors of its own scale
    zero = read(map_picture(np.zeros((1, 1)), 9))[0, 0].tolist()
    assert drawn.tolist() == [*map(rgb, SIGNLESS_COLORS.values()), zero]
    shown = errors(np.array([[1, -1, 0]]), np.zeros((1, 3)), "signed", signless)
    assert read(error_picture(shown, 9))[0].tolist() == [
        *[rgb(SIGNLESS_COLORS["not asked"])] * 2,
        [255] * 3,
    ]


def test_shares_are_of_the_relevant_pixels_and_of_the_map():
    truth = np.array([[1, 1, -1, 0, 0]])
    attribution = np.array([[1.0, 0.5, 0.25, 0.5, 0.0]])
    missed, wrong, precision = errors(truth, attribution, "signed").shares
    assert (missed, wrong, precision) == ((0 + 0.5 + 1) / 3, 1 / 3, 1.75 / 2.25)
    scores = alignment(
        *(torch.tensor(abs(each)).float()[None, None] for each in (attribution, truth))
    )
    assert precision == pytest.approx(scores.precision.item(), abs=1e-6)  # in float32
    assert errors(truth, attribution, "positive").shares[2] == 1.5 / 2.25
    assert errors(np.zeros((1, 1)), np.zeros((1, 1)), "signed").shares == (0, 0, 0)


def test_the_four_kinds_of_pixel_have_the_colors_of_the_legend_and_the_rest_is_white():
    truth = np.array([[1, 1, 0, 1, 0]])
    attribution = np.array([[1.0, 0.0, -1.0, -1.0, 0.0]])
    found = errors(truth, attribution, "signed")
    colors = [*map(rgb, ERROR_COLORS.values()), [255] * 3]
    assert read(error_picture(found, 9))[0].tolist() == colors
    assert error_picture(found, 5) == error_picture(found, 9)  # 5 pixels fit: a palette, few bytes
    # Averaged colors where it is too large: found, missed, false, wrong, white.
    assert np.abs(read(error_picture(found, 1))[0, 0] - np.mean(colors, axis=0)).max() <= 0.5


def test_the_larger_an_error_the_fuller_its_color():
    steps = np.linspace(0, 1, 9)[None]
    for truth, attribution in ((1, 1 - steps), (0, steps)):
        found = errors(np.full(steps.shape, truth), attribution, "signed")
        levels = read(error_picture(found, 9))[0].sum(1)
        assert (np.diff(levels) < 0).all()


def test_a_wrong_sign_is_full_however_small_its_value():
    drawn = read(error_picture(errors(np.array([[1, -1]]), np.array([[-0.01, 1.0]]), "signed"), 9))
    assert drawn.tolist() == [[rgb(ERROR_COLORS["wrong sign"])] * 2]


def test_found_and_missed_differ_in_hue_too_for_strokes_of_one_pixel():
    found, missed = (colorsys.rgb_to_hsv(*rgb(ERROR_COLORS[name])) for name in ("found", "missed"))
    assert abs(found[0] - missed[0]) > 0.3
    assert min(found[1], missed[1]) > 0.2


def test_kinds_of_error_differ_in_lightness():
    weights = np.array([0.2126, 0.7152, 0.0722])
    light = sorted(float(weights @ (np.array(rgb(c)) / 255) ** 2.2) for c in ERROR_COLORS.values())
    assert min(np.diff([*light, 1.0])) > 0.1


def test_indices_are_read_back_as_the_colors_of_their_palette():
    palette = np.random.default_rng(1).integers(0, 256, (256, 3)).astype(np.uint8)
    indices = np.arange(256, dtype=np.uint8).reshape(8, 32)
    assert np.array_equal(read(data_uri(indices, palette)), palette[indices])


def test_sequences_are_shown_as_words_in_the_colors_of_their_values():
    """Seven tokens in rows of five; word 0 is absent. Other images stay as they are."""
    words = [3, 1, 0, 2, 4, 1, 2]
    image = np.eye(5)[words].T[:, None]
    truth = np.array([[1, 0, 0, -1, 0, 0, 0]], dtype=np.int8)
    plain = {"truth": map_picture(truth, 72)}
    found, size = of_tokens(plain, image)
    svg = base64.b64decode(found["truth"].partition(",")[2]).decode()
    assert re.findall(r">(\d*)</text>", svg) == ["3", "1", "", "2", "4", "1", "2"]
    fills = re.findall(r'<rect [^>]*fill="#(\w+)"', svg)
    red, white, blue = (bytes(SIGNED_COLORS[at].tolist()).hex() for at in (254, 127, 0))
    assert fills == [red, white, white, blue, white, white, white]
    assert size == (2, 5)
    assert of_tokens(plain, np.zeros((3, 1, 7))) == (plain, (1, 7))
