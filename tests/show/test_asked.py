"""What an image asks is told color by color, from image and truth alone."""

import colorsys

import numpy as np
import pytest

import page_cases as cases
from attributionlab.show import asked, faithfulness_page

COLORS = {"green": (0, 200, 0), "rose": (200, 0, 100), "blue": (0, 0, 200), "orange": (200, 100, 0)}


def image_of(names, background=20):
    """A row of two pixels for each name, and a row of background below."""
    pixels = np.full((2 + len(names), 4, 3), background)
    for row, name in enumerate(names):
        pixels[row, :2] = COLORS[name]
    return np.moveaxis(pixels, -1, 0)


def told(truth, names=tuple(COLORS), left_out=None):
    image = image_of(names)
    whole = np.zeros(image.shape[1:], np.int8)
    for row, values in enumerate(truth):
        whole[row, :2] = values
    nothing = np.zeros(whole.shape, bool) if left_out is None else left_out
    return asked.asked_colors(image, 255, whole, nothing)


def test_each_color_says_what_its_pixels_do():
    found = told([(1, 1), (-1, -1), (0, 0), (1, -1)])
    assert [(each.name, each.does) for each in found] == [
        ("green", "raises the output"),
        ("rose", "lowers the output"),
        ("orange", "raises it in some places and lowers it in others"),
        ("blue", "does not count"),
    ]
    assert found[0].color == "#00c800"


def test_a_color_that_counts_in_one_place_only_says_so():
    [green, *_] = told([(1, 0)], ("green",))
    assert green.does == asked.DOES[True, False] + asked.IN_PLACES


def test_pixels_that_no_score_asks_for_do_not_speak():
    left_out = np.zeros((3, 4), bool)
    left_out[0, 1] = True
    [green] = told([(1, -1)], ("green",), left_out)
    assert green.does == "raises the output"


@pytest.mark.parametrize("place", range(12))
def test_hues_have_twelve_names(place):
    assert (
        asked.color_name(np.array(colorsys.hsv_to_rgb(place / 12 + 0.02, 1, 0.8)))
        == asked.HUES[place]
    )


def test_images_of_many_colors_or_other_channels_are_not_told():
    many = np.random.default_rng(0).integers(0, 256, (3, 40, 40))
    nothing = np.zeros((40, 40), bool)
    names = {asked.color_name(many[:, i, j] / 255) for i in range(40) for j in range(40)}
    assert len(names) > asked.MOST
    assert asked.asked_colors(many, 255, nothing.astype(np.int8), nothing) == []
    gray = np.arange(40 * 40).reshape(1, 40, 40)
    assert asked.asked_colors(gray, 1600, nothing.astype(np.int8), nothing) != []
    photograph = np.arange(90 * 90).reshape(1, 90, 90)
    assert asked.asked_colors(photograph, 8100, np.zeros((90, 90)), np.zeros((90, 90), bool)) == []
    assert asked.asked_colors(many[:2], 255, nothing.astype(np.int8), nothing) == []


@pytest.mark.parametrize(
    ("output", "temperature", "hidden", "said"),
    [
        (
            "probability",
            32.0,
            ["target"],
            "the probability of a class that is drawn for each question",
        ),
        (
            "probability",
            32.0,
            [],
            "the probability of the target class (softmax of temperature 32)",
        ),
        ("logit", None, ["target"], "the logit of a class that is drawn for each question"),
        ("logit", None, ["place"], "the network's output (logit)"),
    ],
)
def test_the_output_that_is_explained_has_words(output, temperature, hidden, said):
    result = {"output": output, "temperature": temperature, "hidden": dict.fromkeys(hidden, 4)}
    assert asked.output_text(result).startswith(said)


def test_colors_of_one_effect_stand_together():
    lower, not_counted = asked.DOES[False, True], asked.DOES[False, False]
    swatches = [asked.Swatch("green", "", asked.DOES[True, False])]
    swatches += [asked.Swatch(name, "", lower) for name in ("violet", "lime")]
    swatches += [asked.Swatch("orange", "", not_counted)]
    assert {
        does: [each.name for each in group] for does, group in asked.by_effect(swatches).items()
    } == {
        "raises the output": ["green"],
        "lowers the output": ["violet", "lime"],
        "does not count": ["orange"],
    }


def test_the_page_shows_the_deciding_environment_beside_the_verdict():
    document = cases.failing()
    html = faithfulness_page(document, cases.panels(document))
    first = html[html.index('class="eye"') : html.index('aria-label="On this page"')]
    assert first.count("<img") == 4
    assert all(f"<figcaption>{title}" in first for title in ("image", "truth", "map", "errors"))
    solved = [each["solved"] / each["asked"] for each in document["environments"]]
    least = document["environments"][int(np.argmin(solved))]
    assert f"<h3>{least['name']}" in first
