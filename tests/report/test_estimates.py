"""Estimates against truths, and agreements under many conditions."""

import math

import numpy as np

from attributionlab.report.estimates import (
    Agreement,
    EstimatePanel,
    agreements_figure,
    estimates_figure,
)


def test_every_estimate_is_a_dot_and_those_that_are_missing_are_counted():
    panel = EstimatePanel("a", "true", "estimated", {"one": ([0, 1], [0.5, math.nan])})
    figure = estimates_figure([[panel, panel._replace(points={"two": ([0.5], [2.0])})]])
    first, second = figure.axes
    assert first.get_title() == "a\nwithout an estimate: 1"
    assert second.get_title() == "a\n"
    drawn = first.collections[0].get_offsets()
    assert np.ma.filled(drawn, np.nan)[0].tolist() == [0, 0.5]
    assert second.get_ylim()[1] > 2
    [legend] = figure.legends
    assert [each.get_text() for each in legend.get_texts()] == ["one", "two", "estimate = truth"]


def test_a_dot_lies_on_its_condition_and_a_missing_ranking_is_named():
    shown = {"m": [Agreement(0.5, 0.2, 0.8), Agreement(math.nan, math.nan, math.nan)]}
    figure = agreements_figure({"truth": {**shown, "k": shown["m"]}}, ["x", "y"])
    [axis] = figure.axes
    assert [each.get_text() for each in axis.get_yticklabels()] == ["x", "y"]
    dots = [each for each in axis.collections if each.get_offsets().shape == (2, 2)]
    heights = [float(each.get_offsets()[0, 1]) for each in dots]
    assert [round(height) for height in heights] == [0, 0]
    assert heights[0] < heights[1]
    assert [each.get_text() for each in axis.texts] == ["no ranking"] * 2
    assert axis.get_ylim()[0] > axis.get_ylim()[1]  # the first condition on top
