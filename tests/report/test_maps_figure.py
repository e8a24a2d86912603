"""Maps of several methods beside images and their truth."""

import numpy as np

from attributionlab.report import MapsRow, maps_figure


def row(methods, label="somewhere"):
    maps = {name: np.full((2, 2), value) for name, value in methods.items()}
    truth = np.array([[1, 0], [0, -1]], dtype=np.int8)
    return MapsRow(label, np.zeros((1, 2, 2), np.float32), 1, truth, maps, {})


def shown(figure):
    """By title or, below a title, by what stands above: the largest value of each map drawn."""
    return [
        [float(axis.images[0].get_array().max()) for axis in line if axis.images]
        for line in np.reshape(figure.axes[:-1], (-1, columns(figure)))
    ]


def columns(figure):
    return figure.axes[0].get_subplotspec().get_gridspec().ncols


def test_few_methods_stand_beside_each_other():
    figure = maps_figure([row({"one": 0.25, "two": 0.5}), row({"two": 0.75})])
    assert columns(figure) == 4
    assert shown(figure) == [[0, 1, 0.25, 0.5], [0, 1, 0.75]]


def test_many_methods_stand_in_bands_with_the_images_again():
    methods = {f"m{k}": k / 32 for k in range(17)}
    figure = maps_figure([row(methods), row({"m16": 1.0})])
    assert columns(figure) == 2 + 9
    first, second, third, fourth = shown(figure)
    assert first == [0, 1, *(k / 32 for k in range(9))]
    assert second == fourth[:2] == [0, 1]
    assert third == [0, 1, *(k / 32 for k in range(9, 17))]
    assert fourth == [0, 1, 1.0]
    titles = [axis.get_title() for axis in figure.axes[:-1]]
    assert titles[:3] == ["image", "ground truth", "m0"]
    assert titles[22:25] == ["image", "ground truth", "m9"]
