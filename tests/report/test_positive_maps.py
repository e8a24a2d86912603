"""Images and maps side by side: every name has its column, and a map of zeros says so."""

import numpy as np

from attributionlab.report.positive_maps import PositiveMapsRow, positive_maps_figure


def test_every_name_has_a_column_and_a_map_of_zeros_is_marked():
    image, values = np.full((3, 4, 4), 0.5), np.eye(4)
    rows = [
        PositiveMapsRow(image, {"one-map": values, "zeros": 0 * values}),
        PositiveMapsRow(image[:1], {"one-map": values}),
    ]
    figure = positive_maps_figure(rows, "title")
    axes = figure.axes[:6]
    assert [axis.get_title() for axis in axes[:3]] == ["image", "one map", "zeros"]
    assert [[text.get_text() for text in axis.texts] for axis in axes[1:3]] == [[], ["empty"]]
    assert not axes[5].axison
    assert "share of the map's maximum" in figure.axes[-1].get_xlabel()
    drawn = axes[1].images[0]
    assert (np.asarray(drawn.get_array()) == values).all()
    assert (drawn.norm.vmin, drawn.norm.vmax) == (0, 1)
