"""Rows of pictures and maps, each map in units of its own largest magnitude."""

import numpy as np
import pytest

from attributionlab.report.picture_grid import GridRow, picture_grid_figure

PICTURE = np.full((3, 2, 2), 0.5)
MAP = np.array([[0.0, 2.0], [-4.0, 1.0]])


def drawn(axis):
    [image] = axis.get_images()
    return image


def test_pictures_have_colors_and_maps_one_scale_with_a_bar():
    rows = [
        GridRow("pictures", [PICTURE, PICTURE[:1]]),
        GridRow("maps", [MAP, 0 * MAP], ["a", "b"]),
    ]
    figure = picture_grid_figure(rows, "title", signed=True)
    color, gray, signed, empty, bar = figure.axes
    assert drawn(color).get_array().shape == (2, 2, 3)
    assert drawn(gray).get_cmap().name == "gray"
    assert drawn(signed).get_array().tolist() == (MAP / 4).tolist()
    assert drawn(signed).get_clim() == drawn(empty).get_clim() == (-1, 1)
    assert [text.get_text() for text in empty.texts] == ["empty"]
    assert not signed.texts
    assert [signed.get_xlabel(), empty.get_xlabel()] == ["a", "b"]
    assert color.get_ylabel() == "pictures"
    assert "largest magnitude" in bar.get_xlabel()


def test_maps_without_a_sign_begin_at_0_and_pictures_alone_need_no_bar():
    [axis, _] = picture_grid_figure([GridRow("maps", [MAP.clip(min=0)])], "").axes
    assert drawn(axis).get_clim() == (0, 1)
    assert float(drawn(axis).get_array().max()) == pytest.approx(1)
    assert len(picture_grid_figure([GridRow("pictures", [PICTURE])], "").axes) == 1
