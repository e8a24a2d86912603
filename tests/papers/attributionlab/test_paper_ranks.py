"""What is printed in AttributionLab's tables, and what follows from it."""

from itertools import permutations

import pytest
from scipy.stats import spearmanr

from attributionlab.papers.attributionlab.paper_ranks import AREAS, RANKS, attainable

TABLES = {table.item: table for table in RANKS.values()}


@pytest.mark.parametrize(
    ("item", "follows"), [("table-3", True), ("table-5", False), ("table-6", False)]
)
def test_correlations_are_recomputed_from_the_printed_ranks(item, follows):
    table = TABLES[item]
    truth, *metrics = zip(*table.ranks.values(), strict=True)
    recomputed = [float(spearmanr(truth, metric).statistic) for metric in metrics]
    assert table.recomputed() == pytest.approx(recomputed, abs=1e-12)
    assert ([round(each, 2) for each in recomputed] == list(table.correlations)) == follows
    both = spearmanr(metrics[0], metrics[1]).statistic
    assert table.between_insertion_and_deletion() == pytest.approx(both, abs=1e-12)


@pytest.mark.parametrize("item", TABLES)
def test_ranks_run_from_1_to_the_number_of_methods(item):
    ranks = TABLES[item].ranks
    for column in zip(*ranks.values(), strict=True):
        assert sorted(column) == list(range(1, len(ranks) + 1))


def test_the_ranks_of_random_and_constant_contradict_their_printed_areas():
    table = TABLES["table-3"].ranks
    for metric, column, better in ((0, 1, max), (1, 2, min)):
        areas = {name: AREAS[name][metric] for name in ("random", "constant")}
        by_area = better(areas, key=areas.get)
        by_rank = min(areas, key=lambda name: table[name][column])
        assert by_area != by_rank


@pytest.mark.parametrize("methods", [4, 5, 6])
def test_attainable_correlations_are_those_of_all_rankings(methods):
    first = range(methods)
    scale = methods * (methods**2 - 1)
    found = {
        round(1 - 6 * sum((i - j) ** 2 for i, j in zip(first, each, strict=True)) / scale, 2)
        for each in permutations(first)
    }
    hundredths = [number / 100 for number in range(-100, 101)]
    assert {each for each in hundredths if attainable(each, methods)} == found


def test_eight_methods_cannot_have_four_of_the_printed_correlations_and_ten_can_have_all():
    printed = [*TABLES["table-5"].correlations, *TABLES["table-6"].correlations]
    assert [each for each in printed if not attainable(each, 8)] == [0.47, 0.65, 0.42, 0.61]
    assert not all(attainable(each, 9) for each in printed)
    assert all(attainable(each, 10) for each in printed)
