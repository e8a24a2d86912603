"""The contact sheet of the data sets is that of the files beside it."""

import tomllib

import numpy as np
import pytest

import previews
from attributionlab.show import map_grids


def test_the_sheet_is_drawn_from_the_present_files():
    assert previews.drawn_from(previews.PREVIEWS.read_bytes()) == previews.digest(), (
        "python tests/pages.py previews.png"
    )


@pytest.mark.long
def test_every_data_set_has_a_row_of_its_images(monkeypatch):
    drawn = []
    draw = map_grids.map_grid
    monkeypatch.setattr(
        previews, "map_grid", lambda rows, **options: drawn.append(rows) or draw(rows, **options)
    )
    assert previews.drawn_from(previews.sheet(side=24, across=2)) == previews.digest()
    [rows] = drawn
    assert set(rows) == {file.stem for file in previews.DATASETS.glob("*.toml")}
    for name, images in rows.items():
        data = tomllib.loads((previews.DATASETS / f"{name}.toml").read_text(encoding="utf-8"))
        assert len(images) == 2
        for image in images:
            assert image.shape[1:] == (24, 24)
            assert 0 <= image.min() < image.max() <= 1
            background = np.array(data["constants"].get("background", image[:, 0, 0]))
            assert background.size == len(image)
