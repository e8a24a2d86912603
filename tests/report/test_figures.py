"""Figures show what they are given."""

import io

import numpy as np
from matplotlib.image import imread

import attributionlab as al
from attributionlab.report import report_figure, to_png


def test_a_report_figure_shows_image_truth_and_attribution_of_each_environment():
    environments = [
        al.load("multi-color-sum", image_size=24),
        al.load("uniform-accumulator", image_size=24),
    ]
    report = al.faithfulness_test("inverted-oracle", environments, n=2)
    figure = report_figure(report)
    axes = figure.axes[:6]
    assert [axis.get_title() for axis in axes] == [
        "image",
        "ground truth",
        "attribution",
        "",
        "",
        "",
    ]
    for row, result in enumerate(report.environments):
        image, truth, attribution = (axis.images[0].get_array() for axis in axes[3 * row :][:3])
        assert np.array_equal(truth, result.example.truth)
        assert np.array_equal(attribution, -truth)
        highest = result.example.highest
        shown = result.example.image * 1.0 / highest
        assert np.array_equal(image, shown[0] if len(shown) == 1 else np.moveaxis(shown, 0, -1))
        label = axes[3 * row].get_ylabel()
        assert label.startswith(result.name)
        assert label.endswith("fail")
    assert figure.get_suptitle() == "inverted-oracle: fail"
    ticks = [label.get_text() for label in figure.axes[6].get_xticklabels()]
    assert ticks == ["-1: lowers the output", "0", "+1: raises the output"]


def test_a_png_has_the_size_of_the_figure_and_is_not_blank():
    report = al.faithfulness_test("oracle", al.load("uniform-accumulator", image_size=24), n=1)
    figure = report_figure(report)
    pixels = imread(io.BytesIO(to_png(figure, dpi=50)))
    width, height = figure.get_size_inches() * 50
    assert pixels.shape[:2] == (int(height), int(width))
    assert pixels.std() > 0.05
