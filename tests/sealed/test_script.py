"""What a student's fixed script gets in laboratories: nothing is drawn that it cannot solve in part."""

import pytest

from attributionlab.teaching.sealed.questions import POINTS
from sealed_cases import sealed
from sealed_script import points, stated


@pytest.mark.long
def test_a_script_of_colors_in_quadrants_solves_easy_laboratories(laboratory, tmp_path):
    assert points(laboratory.lab, laboratory.key, tmp_path / "mine").points == POINTS


@pytest.mark.long
def test_in_drawn_places_it_solves_no_maps_and_one_that_reads_the_borders_does(tmp_path):
    made = sealed(tmp_path, bytes([2] * 16), difficulty="medium")
    found = points(made.lab, made.key, tmp_path / "quadrants")
    assert found.total < 95
    assert found.points["maps"] < POINTS["maps"]
    assert points(made.lab, made.key, tmp_path / "places", stated).points == POINTS


@pytest.mark.long
@pytest.mark.parametrize("places", ["quadrants", "points"])
def test_no_script_of_segments_solves_all_of_a_hard_laboratory(hard_laboratory, tmp_path, places):
    by = [stated] if places == "points" else []
    assert points(hard_laboratory.lab, hard_laboratory.key, tmp_path / "mine", *by).total < 100
