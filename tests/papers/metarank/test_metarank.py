"""The items of Meta-Rank, small: what they measure, and that their sentences follow it."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

import attributionlab as al
from attributionlab.leaderboard import PAIRS, PAPER_METHODS, CaseScores, rank_methods
from attributionlab.papers.metarank import (
    boards,
    checkpoints,
    consistency,
    fusion_time,
    imputed,
    leaderboards,
    removal,
)
from attributionlab.papers.metarank.reading import (
    convention,
    draws_interval,
    mean_said,
    reading,
    shares_said,
)
from attributionlab.papers.subjects.drawn_pictures import CLASSES, pictures
from attributionlab.papers.subjects.small_network import trained_small_network
from attributionlab.ranking import meta_rank, spearman

FEW = tuple(pair for pair in PAIRS if pair.data in ("two colors", "distractors") and pair.dose != 4)
METHODS = ("input-x-gradient", "saliency", "gradcam", "deconvolution")


@pytest.fixture(scope="module")
def small_boards():
    """Of two draws of four pairs."""
    return [rank_methods(PAPER_METHODS, 1, seed, pairs=FEW, size=12) for seed in (0, 1)]


@pytest.fixture
def with_small_boards(small_boards, monkeypatch):
    asked = []

    def made(item, n, size, seeds, seed, device, show_progress):
        asked.append((n, size, seeds, seed))
        return small_boards

    for module in (leaderboards, consistency):
        monkeypatch.setattr(module, "boards_of", made)
    return asked


def test_readings_change_at_the_stated_thresholds():
    assert [reading(value) for value in (0.7, 0.699, 0.4, 0.399, -1)] == [
        "strong",
        "moderate",
        "moderate",
        "weak",
        "weak",
    ]
    assert shares_said([0.9, 0.5, math.nan]) == "1 strong, 1 moderate, 0 weak of 2, 1 undefined"
    assert "-0.01 to 0.94" in convention()


def test_fewer_than_six_draws_have_no_interval():
    values = pd.Series([0.1, 0.9, 0.2, 0.8, 0.3, 0.7, math.nan])
    assert all(map(math.isnan, draws_interval(values[:5], 0)))
    assert all(map(math.isnan, draws_interval(values[1:], 0)))
    assert draws_interval(values, 0)[0] < 0.5 < draws_interval(values, 0)[1]
    assert mean_said(values[:2], 0) == "0.50 (no interval)"


def test_boards_are_of_the_paper_s_methods_and_of_consecutive_seeds(monkeypatch):
    monkeypatch.setattr(boards, "PAIRS", FEW[:1])
    monkeypatch.setattr(boards, "PAPER_METHODS", METHODS)
    found = boards.boards_of("item", 1, 12, 2, 5, None, False)
    assert [board.seed for board in found] == [5, 6]
    assert found[0].methods == [*METHODS, "random"]
    assert boards.methods_of(found[0]) == list(range(4))


def test_the_leaderboard_averages_draws_and_compares_orders(small_boards, with_small_boards):
    outcome = leaderboards.metarank_leaderboard(n=None, quick=True)
    assert with_small_boards == [(4, 32, 2, 0)]
    table = outcome.tables["leaderboard"].set_index("method")
    mean = np.mean([board.fusions["all cases"].scores for board in small_boards], axis=0)
    for method, score in zip(small_boards[0].methods, mean, strict=True):
        assert table.score[method] == pytest.approx(score)
    assert table.paper_place["input-x-gradient"] == 1
    assert table.paper_place["deconvolution"] == 8
    assert math.isnan(table.paper_place["random"])
    methods = table.drop(index="random")
    expected = spearman(-methods.score, methods.paper_place)
    assert any(f"with the paper's: {expected:.2f} [" in each for each in outcome.findings)
    recovery = outcome.tables["recovery"]
    assert recovery.low.isna().all()
    said = " ".join(outcome.findings)
    assert "2 draws give no interval, and no verdict" in said
    assert "nan" not in said
    assert "wrong way round" not in said
    ceiling = np.mean([board.fusions["all cases"].ceiling["overall"] for board in small_boards])
    assert f"at most {ceiling:.2f}); F1 on what speaks" in said
    row = recovery[(recovery.fused == "MoRF") & (recovery.truth == "signed")].iloc[0]
    values = [board.fusions["MoRF"].agreement["signed"].correlation.value for board in small_boards]
    assert row.correlation == pytest.approx(np.mean(values))


def test_the_default_has_six_draws(with_small_boards):
    leaderboards.metarank_leaderboard(n=3, quick=False, seed=4)
    consistency.metarank_consistency(n=None, quick=False, seeds=5)
    assert with_small_boards == [(3, 48, 6, 4), (8, 48, 5, 0)]


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        (range(8, 0, -1), "the two orders agree"),
        (range(1, 9), "the two orders contradict each other"),
        ([5, 8, 1, 6, 2, 7, 3, 4], "do not show whether"),
    ],
)
def test_the_order_is_said_to_agree_where_its_interval_says_so(ours, said):
    table = pd.DataFrame(
        {
            "method": PAPER_METHODS,
            "score": [float(score) for score in ours],
            "truth": np.linspace(1, 0, 8),
            "paper_place": np.arange(1.0, 9),
        }
    )
    assert any(said in each for each in leaderboards._order(table))


def test_cases_are_compared_where_they_differ_in_one_thing(small_boards, with_small_boards):
    outcome = consistency.metarank_consistency(n=None, quick=True)
    board = small_boards[0]
    table = outcome.tables["correlations"]
    first = table[table.seed == 0]
    # Two data sets with two doses in two orders: 8 cases.
    assert first.level.value_counts().to_dict() == {"model": 4, "data set": 4, "protocol": 4}
    names = [case.name for case in board.cases]
    for row in first.itertuples():
        one, other = names.index(row.first), names.index(row.second)
        expected = spearman(board.ranks[:8, one], board.ranks[:8, other])
        assert row.correlation == pytest.approx(expected, nan_ok=True)
    levels = outcome.tables["levels"].set_index(["differ_in", "cases"])
    means = table[table.level == "model"].groupby("seed").correlation.mean()
    assert levels.correlation["model", "all"] == pytest.approx(means.mean())
    assert levels.pairs["model", "no unseen data"] == 0
    assert levels.pairs["data set", "no unseen data"] == 2
    [figure] = outcome.figures.values()
    assert len([axis for axis in figure.axes if axis.get_images()]) == 9


def case(data, network, protocol):
    return CaseScores(0, data, network, protocol, False, {}, {}, {})


def test_cases_that_differ_in_two_things_are_at_no_level():
    one = case("a", "dose 0", "MoRF")
    assert consistency.level_of(one, case("a", "dose 1", "MoRF")) == "model"
    assert consistency.level_of(one, case("b", "dose 0", "MoRF")) == "data set"
    assert consistency.level_of(one, case("a", "dose 0", "LeRF")) == "protocol"
    assert consistency.level_of(one, case("b", "dose 0", "LeRF")) is None
    assert consistency.level_of(one, one) is None


@pytest.mark.parametrize(
    ("low", "high", "verdict", "meaning"),
    [
        (0.8, 0.9, "not agreed", "shown to be strong"),
        (0.5, 0.6, "agreed", "shown not to be strong"),
        (0.6, 0.8, "undecided", "of which it is undecided"),
        (math.nan, math.nan, "undecided", "of which it is undecided"),
    ],
)
def test_the_first_finding_follows_the_intervals(low, high, verdict, meaning):
    rows = [
        {
            "differ_in": level,
            "cases": cases,
            "pairs": 2,
            "correlation": 0.75,
            "low": low,
            "high": high,
            "share_strong": 0.9,
            "truth": 0.5,
        }
        for level in consistency.LEVELS
        for cases in ("all", "no unseen data")
    ]
    correlations = pd.DataFrame(
        {"level": consistency.LEVELS, "correlation": 0.75, "truth": 0.5, "unseen": 0}
    )
    found = " ".join(consistency._findings(pd.DataFrame(rows), correlations, 2))
    assert f"model {verdict}, data set {verdict}, protocol {verdict}." in found
    assert found.count(meaning) == 3
    assert "methods are right in one case and wrong in another" in found


def test_imputations_are_what_they_are_called():
    env = al.load("multi-color-sum", image_size=12)
    images, _ = env.batch(1)
    keep = torch.rand(1, 1, 12, 12, generator=torch.Generator().manual_seed(0)) > 0.5
    made = {
        name: each(images.clone(), keep) for name, each in imputed.imputations_of(env, 0).items()
    }
    removed = ~keep.expand_as(images)
    for each in made.values():
        assert torch.equal(each[~removed], images[~removed])
    assert (made[imputed.BLACK][removed] == 0).all()
    assert (env.counting.classes_of(made[imputed.KNOWN]) >= 0).sum() > 0
    known = {tuple(color) for color in (*env.spec.constants["colors"], (20, 20, 20))}
    shown = {tuple(pixel) for pixel in made[imputed.KNOWN].flatten(2)[0].T.int().tolist()}
    assert shown <= known
    again = imputed.imputations_of(env, 0)[imputed.ROAD](images.clone(), keep)
    assert torch.equal(again, made[imputed.ROAD])
    assert not torch.equal(
        again, imputed.imputations_of(env, 1)[imputed.ROAD](images.clone(), keep)
    )
    smooth = al.imputation.noisy_linear(images, keep, noise=0)
    # Noise of 2.55 gray levels: its mean over 72 x 3 values is within 5 standard errors of 0.
    assert abs((made[imputed.ROAD] - smooth)[removed].mean()) < 5 * 2.55 / math.sqrt(100)


def test_road_is_compared_case_by_case(monkeypatch):
    monkeypatch.setattr(imputed, "PAPER_METHODS", METHODS)
    monkeypatch.setattr(imputed, "FRACTIONS", (0.0, 0.3, 0.6))
    monkeypatch.setattr(imputed, "QUICK_SIZE", 12)
    outcome = imputed.metarank_road(n=2, quick=True, seeds=2)
    draws, ranks = outcome.tables["draws"], outcome.tables["ranks"]
    assert len(draws) == 2 * 3 * 6
    assert len(ranks) == 2 * 3 * 4 * len(METHODS)
    first = ranks[(ranks.seed == 0) & (ranks.imputation == imputed.ROAD)]
    for protocol, best in (("MoRF", "min"), ("LeRF", "max")):
        [case] = [
            each
            for name, each in first.groupby(["environment", "protocol"])
            if name == ("distractors", protocol)
        ]
        assert case.area[case["rank"].idxmin()] == getattr(case.area, best)()
    wide = first.pivot(index="method", columns=["environment", "protocol"], values="rank")
    expected = spearman(wide["four colors", "MoRF"], wide["distractors", "LeRF"])
    [found] = draws[
        (draws.seed == 0)
        & (draws.imputation == imputed.ROAD)
        & (draws["first"] == "four colors, MoRF")
        & (draws["second"] == "distractors, LeRF")
    ].correlation
    assert found == pytest.approx(expected, nan_ok=True)
    assert any(each.startswith("Finding 3 of the paper") for each in outcome.findings)


def test_rankings_that_are_all_ties_have_no_difference():
    names = {"first": "a, MoRF", "second": "a, LeRF"}
    draws = pd.DataFrame(
        {"seed": seed, "imputation": name, **names, "correlation": math.nan}
        for seed in (0, 1)
        for name in (imputed.ROAD, imputed.KNOWN, imputed.BLACK)
    )
    assert imputed._differences(draws, 0).difference.isna().all()


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.1, 0.3, ": not agreed"),
        (-0.2, -0.1, ": agreed"),
        (0.0, 0.0, ": agreed"),
        (-0.1, 0.3, ": undecided"),
        (math.nan, math.nan, ": undecided"),
    ],
)
def test_the_third_finding_follows_the_difference_to_black(low, high, said):
    correlations = pd.DataFrame(
        {
            "imputation": [imputed.ROAD] * 3,
            "correlation": [0.5, 0.6, 0.8],
            "low": [0.4, 0.5, math.nan],
            "high": [0.6, 0.9, math.nan],
            "truth": 1.0,
        }
    )
    differences = pd.DataFrame(
        [
            {
                "pairs": "all",
                "against": imputed.BLACK,
                "road": 0.5,
                "other": 0.3,
                "difference": 0.2,
                "low": low,
                "high": high,
            }
        ]
    )
    ranks = pd.DataFrame(
        {
            "seed": 0,
            "environment": "a",
            "protocol": ["MoRF"] * 4 + ["LeRF"] * 4,
            "method": ["b", "c"] * 4,
            "imputation": [imputed.ROAD, imputed.ROAD, imputed.BLACK, imputed.BLACK] * 2,
            "rank": [1, 2, 1, 2, 1, 2, 2, 1],
        }
    )
    tables = {"correlations": correlations, "differences": differences, "ranks": ranks}
    assert any("in 1 of 2 cases of all draws." in each for each in imputed._findings(tables, 2))
    assert any(said in each for each in imputed._findings(tables, 2)[-1:])
    every = " ".join(imputed._findings(tables, 2))
    assert every.count("By their intervals 0 of 3 are strong, 1 are not, 2 undecided") == 1
    assert every.count("by their intervals 0 of 3 are strong, 1 are not, 2 undecided") == 1
    assert ("2 draws give no interval" in every) == math.isnan(low)


def test_curves_begin_at_accuracy_1_and_places_follow_areas(monkeypatch):
    monkeypatch.setattr(removal, "PAPER_METHODS", METHODS)
    monkeypatch.setattr(removal, "PAIRS", removal.PAIRS[:1])
    monkeypatch.setattr(removal, "QUICK_SIZE", 16)
    outcome = removal.metarank_removal(n=2, quick=True)
    curves, areas = outcome.tables["curves"], outcome.tables["areas"]
    assert (curves[curves.removed == 0].accuracy == 1).all()
    # Without unseen data the end of every curve is an image of background: four equal counts.
    assert (curves[curves.removed == 1].accuracy == 0.25).all()
    morf = areas[areas.protocol == "MoRF"].set_index("method")
    assert morf["rank"].idxmin() == morf.area.idxmin()
    lerf = areas[areas.protocol == "LeRF"].set_index("method")
    assert lerf.area[lerf["rank"].idxmin()] == lerf.area.max()
    board = rank_methods(METHODS, 2, pairs=removal.PAIRS[:1], size=16)
    assert morf.area[list(METHODS)].tolist() == pytest.approx(board.areas[:4, 0].tolist())


def test_curves_that_coincide_in_every_panel_are_one_line():
    panels = [
        {"a": np.zeros(3), "b": np.full(3, 0.02), "c": np.zeros(3)},
        {"a": np.zeros(3), "b": np.zeros(3), "c": np.array([0, 0.1, 0])},
    ]
    assert removal.coinciding(panels) == [["a", "b"], ["c"]]


def test_a_checkpoint_lies_on_the_trajectory_of_its_training():
    learned = pictures(64, 0)
    early = checkpoints.checkpoint_subject(learned, pictures(4, 1), 1, 0).model
    labels = {"classes": CLASSES, "seed": 0}
    late = trained_small_network(learned.images, learned.labels, epochs=2, **labels)
    again = trained_small_network(learned.images, learned.labels, epochs=1, **labels)
    for one, same, other in zip(
        early.parameters(), again.parameters(), late.parameters(), strict=True
    ):
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


@pytest.fixture(scope="module")
def trained():
    """Two short trainings, four methods."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "PAPER_METHODS", METHODS)
        patch.setattr(checkpoints, "QUICK_TRAINING", 64)
        patch.setattr(checkpoints, "FRACTIONS", (0.0, 0.5))
        return checkpoints.metarank_checkpoints(n=6, quick=True, seed=0)


def test_checkpoints_trainings_and_protocols_are_compared(trained):
    table = trained.tables["correlations"]
    assert table.kind.value_counts().to_dict() == {
        checkpoints.WITHIN: 2 * 2 * 6,
        checkpoints.BETWEEN: 2,
        checkpoints.PROTOCOL: 2,
    }
    areas = trained.tables["areas"]
    wide = areas.pivot(index="method", columns=["run", "epoch", "protocol"], values="rank")
    row = table[table.kind == checkpoints.BETWEEN].iloc[0]
    one, other = wide[0, 4, row.protocol], wide[1, 4, row.protocol]
    assert row.correlation == pytest.approx(spearman(one, other), nan_ok=True)
    assert row.moved == (one != other).sum()
    assert trained.tables["ranks"].shape == (8, 3 + len(METHODS))
    assert trained.tables["consistency"].low.isna().all()
    assert "undecided: 2 trainings give no interval." in trained.findings[-1]


def test_a_correlation_of_two_trainings_counts_for_both():
    table = pd.DataFrame(
        {
            "kind": checkpoints.BETWEEN,
            "run": [0, 0, 1],
            "other_run": [1, 2, 2],
            "correlation": [0.0, 0.6, 1.0],
        }
    )
    assert checkpoints._by_run(table, checkpoints.BETWEEN).tolist() == [0.3, 0.5, 0.8]


def test_impossible_trainings_are_refused():
    for settings, said in (
        ({"epochs": 6}, "epochs are 6: take a multiple of 4"),
        ({"epochs": 2}, "epochs is 2"),
        ({"runs": 1}, "runs is 1"),
    ):
        with pytest.raises(al.AttributionLabError, match=said):
            checkpoints.metarank_checkpoints(n=2, quick=True, **settings)
    with pytest.raises(al.AttributionLabError, match="seeds is 0"):
        leaderboards.metarank_leaderboard(n=2, quick=True, seeds=0)


def test_pair_by_pair_has_the_same_scores():
    ranks = fusion_time.simulated_ranks(7, 9, 0)
    assert sorted(ranks[:, 0].tolist()) == [1, 2, 3, 4, 5, 6, 7]
    ranks[1] = ranks[0]  # ties
    # A least-squares solution of 22 equations in float64.
    assert fusion_time.pair_by_pair(ranks) == pytest.approx(meta_rank(ranks), abs=1e-12)


def test_seconds_are_measured_for_every_number_of_methods(monkeypatch):
    monkeypatch.setattr(fusion_time, "METHODS", (4, 8))
    monkeypatch.setattr(fusion_time, "QUICK_LARGEST", 4)
    outcome = fusion_time.metarank_fusion_time(n=3, quick=True)
    table = outcome.tables["seconds"]
    assert table.methods.tolist() == [4, 8]
    assert (table.ours > 0).all()
    assert table.by_pairs.isna().tolist() == [False, True]
    assert table.difference[0] < 1e-12
    assert len(outcome.figures["seconds"].axes[0].lines) == 2


def test_a_fusion_that_takes_too_long_is_said():
    table = pd.DataFrame(
        {
            "cases": [100, 100],
            "methods": [8, 1000],
            "ours": [0.001, 3.0],
            "by_pairs": [0.002, math.nan],
            "ratio": [2.0, math.nan],
            "difference": [0.0, math.nan],
        }
    )
    assert any("which is too long" in each for each in fusion_time._findings(table))
