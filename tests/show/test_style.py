"""Colors keep their meaning on paper, in gray and with every color vision."""

import io

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

from attributionlab import show
from attributionlab.base import AttributionLabError
from attributionlab.cli import paths
from attributionlab.show import map_grids, plots
from attributionlab.show.style import LINE_COLORS, SIGNED, SIZES, rgb
from contact_sheet import XYZ, contrast, light_of, luminance, seen
from text_boxes import faults

APART = 10.0
"""In CIELAB. About 2.3 is a just noticeable difference of large patches side by side (Mahy et al.,
1994). Scattered pixels of 1/3 mm, seen from 50 cm, are 2 minutes of arc: patches of that size need
about four times as much."""


def lab(light):
    ratio = XYZ @ light / XYZ.sum(1)
    x, y, z = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_dollars_in_a_name_begin_no_formula():
    figure = Figure()
    axis = figure.subplots()
    axis.set_title("f (s=$_$)")
    axis.set_yticks([0], labels=[r"$\frac{$"])
    assert show.encoded(figure).startswith(b"\x89PNG")


def test_the_ends_of_the_signed_colors_have_contrast_to_each_other_and_to_white():
    assert contrast(show.RAISES, show.LOWERS) >= 1.5
    assert min(contrast(each, "#ffffff") for each in (show.RAISES, show.LOWERS)) >= 3
    assert min(luminance(each) for each in (show.RAISES, show.LOWERS)) > 0.05  # not near black


@pytest.mark.parametrize("vision", ["usual", "protanopia", "deuteranopia", "gray"])
def test_the_ends_and_white_stay_apart_with_every_color_vision(vision):
    up, down, zero = (
        lab(seen(light_of(each), vision)) for each in (show.RAISES, show.LOWERS, "#ffffff")
    )
    for one, other in ((up, down), (up, zero), (down, zero)):
        assert np.linalg.norm(one - other) >= APART


def test_red_raises_blue_lowers_and_zero_is_white():
    drawn = [np.rint(255 * np.array(SIGNED(each)[:3])).tolist() for each in (0.0, 0.5, 1.0)]
    assert drawn == [rgb(show.LOWERS).tolist(), [255] * 3, rgb(show.RAISES).tolist()]
    red, _, blue = light_of(show.RAISES)
    assert red > blue


# Files and sizes

TABLE = pd.DataFrame(
    {
        "value": [0.2, 0.4, 0.6, 0.8],
        "method": ["IG, true baseline (integrated-gradients-true-baseline)", "LIME"] * 2,
        "place": ["one", "one", "two", "two"],
    }
)


def drawn(size):
    with show.laid_out_for(size):
        return plots.dots(TABLE, "value", "method", panel="place", title="A title", reference=0.5)


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES)
def test_a_figure_has_the_size_asked_for_and_no_text_collides(size):
    figure = drawn(size)
    pixels = imread(io.BytesIO(show.encoded(figure, ".png", size, dpi=100)))
    width, height, exact = SIZES[size]
    assert abs(pixels.shape[1] / 100 - width) < 0.02 or not exact
    assert pixels.shape[1] <= 100 * width + 1
    assert pixels.shape[0] <= 100 * height + 1
    assert not faults(figure)


@pytest.mark.long
@pytest.mark.parametrize(
    ("suffix", "start"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")]
)
def test_each_format_is_written_and_the_same_figure_has_the_same_bytes(suffix, start):
    first, second = (show.encoded(drawn(None), suffix) for _ in range(2))
    assert first.startswith(start)
    assert first == second


def test_unknown_formats_and_sizes_are_refused():
    with pytest.raises(AttributionLabError, match=r"\.gif.*\.png"):
        show.encoded(drawn(None), ".gif")
    with pytest.raises(AttributionLabError, match=r"pag.*page"), show.laid_out_for("pag"):
        pass
    assert len(drawn("column").axes) == len(drawn(None).axes)  # the refusal left nothing behind


@pytest.mark.long
def test_the_command_line_names_the_sizes_and_formats_that_there_are():
    assert set(paths.SIZE_NAMES) == set(SIZES)
    for suffix in paths.FIGURES:
        assert show.encoded(drawn(None), suffix)


def test_a_pdf_has_true_type_fonts_whatever_the_user_sets():
    with mpl.rc_context({"pdf.fonttype": 3}):
        written = show.encoded(drawn(None), ".pdf")
        assert mpl.rcParams["pdf.fonttype"] == 3
    assert b"/Type3" not in written
    assert b"/CIDFontType2" in written or b"/TrueType" in written


def test_verdicts_are_green_red_and_gray_in_every_figure():
    names = ["pass", "inconclusive", "fail"]
    table = pd.DataFrame({"share": [0.9, 0.5, 0.1], "method": list("abc"), "verdict": names})
    figure = plots.dots(table, "share", "method", color="verdict")
    handles = dict(zip(names, figure.legends[0].legend_handles, strict=True))
    colors = {name: rgb(handle.get_color()) for name, handle in handles.items()}
    assert colors["pass"].argmax() == 1
    assert colors["fail"].argmax() == 0
    assert np.ptp(colors["inconclusive"]) < 20
    assert len({handle.get_marker() for handle in handles.values()}) == 3
    other = plots.dots(
        table.assign(verdict=["pass", "mine", "fail"]), "share", "method", color="verdict"
    )
    assert other.legends[0].legend_handles[0].get_color() == LINE_COLORS[0]


def smallest_text(figure):
    texts = [
        each for each in figure.findobj(Text) if each.get_visible() and each.get_text().strip()
    ]
    return min(each.get_fontsize() for each in texts)


LEAST = 6 - 1e-9
"""Points; the scale 6/7 is rounded, and 7 times it may be less than 6 by that."""


def grid(columns, rows):
    cells = [np.full((4, 4), 0.5)] * columns
    with show.laid_out_for("column"):
        figure = map_grids.map_grid(
            {f"integrated-gradients {row}": cells for row in range(rows)},
            headings=[f"quadrants\nimage {place}" for place in range(columns)],
            title="Attributions",
        )
    show.encoded(figure, ".png", "column", dpi=40)
    return figure


def test_a_grid_in_a_column_goes_on_below_in_text_that_can_be_read():
    figure = grid(columns=5, rows=2)
    assert abs(figure.get_figwidth() - SIZES["column"][0]) < 1e-6
    assert smallest_text(figure) >= LEAST
    shown = [axis for axis in figure.axes if axis.images]
    assert len(shown) == 10
    assert [axis.get_title() for axis in shown if axis.get_title()] == [
        f"quadrants\nimage {place}" for place in range(5)
    ]
    assert not faults(figure)


def test_a_grid_without_room_shows_the_first_columns_and_says_how_many():
    figure = grid(columns=40, rows=4)
    shown = len([axis for axis in figure.axes if axis.images]) // 4
    assert 4 <= shown < 40
    assert f"the first {shown} of 40" in figure.get_suptitle()
    assert figure.get_figheight() <= SIZES["column"][1]
    assert smallest_text(figure) >= LEAST


@pytest.mark.parametrize("size", ["column", "page"])
def test_panels_and_heat_maps_have_text_that_can_be_read(size):
    names = [f"method-{place}" for place in range(9)]
    pairs = [(one, other) for one in names for other in names]
    table = pd.DataFrame(pairs, columns=["one", "other"]).assign(value=0.5)
    with show.laid_out_for(size):
        figures = [drawn(size), plots.heat_map(table, "one", "other", "value", title="Values")]
    for figure in figures:
        show.encoded(figure, ".png", size, dpi=40)
        assert figure.get_figwidth() <= SIZES[size][0] + 1e-6
        assert smallest_text(figure) >= LEAST
        assert not faults(figure)
    texts = [text.get_text() for axis in figures[1].axes for text in axis.texts]
    assert texts == ["0.50"] * 81


ODD = {"text.usetex": True, "font.size": 40, "savefig.dpi": 7, "axes.facecolor": "black"}


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_settings_of_the_users_change_no_figure_and_stay_as_they_are(suffix):
    def drawn():
        layers = [([[1.0, -1.0]], [0.5])]
        drawing = show.network_drawing(layers, inputs=["x", "y"], outputs=["z"], title="a title")
        maps = map_grids.map_grid(
            {"row": [np.zeros((3, 4))]}, headings=["map"], title="maps", signed=True
        )
        return [show.encoded(each, suffix) for each in (drawing, maps)]

    plain = drawn()
    with mpl.rc_context(ODD):
        before = dict(mpl.rcParams)
        assert drawn() == plain
        assert dict(mpl.rcParams) == before
