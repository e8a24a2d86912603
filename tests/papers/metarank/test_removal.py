"""Table 3, small: ranks, imputations, and what the claims rest on."""

import math

import pandas as pd
import pytest
import torch

import attributionlab as al
from attributionlab.metrics.ranking import spearman
from attributionlab.papers.catalog import Run
from attributionlab.papers.metarank import removal
from attributionlab.papers.metarank.removal import BLACK, KNOWN, ROAD
from claims_held import cases, follows

METHODS = ("input-x-gradient", "saliency", "gradcam", "deconvolution")


def test_imputations_are_what_they_are_called():
    env = al.load("multi-color-sum", image_size=12)
    images, _ = env.batch(1)
    keep = torch.rand(1, 1, 12, 12, generator=torch.Generator().manual_seed(0)) > 0.5
    filled = {
        name: each(images.clone(), keep) for name, each in removal.imputations_of(env, 0).items()
    }
    removed = ~keep.expand_as(images)
    for each in filled.values():
        assert torch.equal(each[~removed], images[~removed])
    assert (filled[BLACK][removed] == 0).all()
    assert (env.counting.classes_of(filled[KNOWN]) >= 0).sum() > 0
    known = {tuple(color) for color in (*env.spec.constants["colors"], (20, 20, 20))}
    shown = {tuple(pixel) for pixel in filled[KNOWN].flatten(2)[0].T.int().tolist()}
    assert shown <= known
    again = removal.imputations_of(env, 0)[ROAD](images.clone(), keep)
    assert torch.equal(again, filled[ROAD])
    assert not torch.equal(again, removal.imputations_of(env, 1)[ROAD](images.clone(), keep))
    smooth = al.imputation.noisy_linear(images, keep, noise=0)
    # Noise of 2.55 gray levels: its mean over 72 x 3 values is within 5 standard errors of 0.
    assert abs((filled[ROAD] - smooth)[removed].mean()) < 5 * 2.55 / math.sqrt(100)


@pytest.mark.long
def test_road_is_compared_case_by_case(monkeypatch):
    monkeypatch.setattr(removal, "PAPER_METHODS", METHODS)
    monkeypatch.setattr(removal, "FRACTIONS", (0.0, 0.3))
    found = removal.road_consistency(Run("metarank-table-3", n=2), image_size=12, seeds=2)
    draws, ranks = found.tables["draws"], found.tables["ranks"]
    assert len(draws) == 2 * 3 * 6
    assert len(ranks) == 2 * 3 * 4 * len(METHODS)
    first = ranks[(ranks.seed == 0) & (ranks.imputation == ROAD)]
    for protocol, best in (("MoRF", "min"), ("LeRF", "max")):
        case = first[(first.environment == "distractors") & (first.protocol == protocol)]
        assert case.area[case["rank"].idxmin()] == getattr(case.area, best)()
    wide = first.pivot(index="method", columns=["environment", "protocol"], values="rank")
    expected = spearman(wide["four colors", "MoRF"], wide["distractors", "LeRF"])
    [row] = draws[
        (draws.seed == 0)
        & (draws.imputation == ROAD)
        & (draws["first"] == "four colors, MoRF")
        & (draws["second"] == "distractors, LeRF")
    ].correlation
    assert row == pytest.approx(expected, nan_ok=True)
    means = found.tables["correlations"].set_index(["imputation", "first", "second"])
    for key, part in draws.groupby(["imputation", "first", "second"]):
        assert means.correlation[key] == pytest.approx(part.correlation.mean(), nan_ok=True)
        assert means.truth[key] == pytest.approx(part.truth.mean(), nan_ok=True)


def test_rankings_that_are_all_ties_have_no_difference():
    names = {"first": "a, MoRF", "second": "a, LeRF"}
    draws = pd.DataFrame(
        {"seed": seed, "imputation": name, **names, "correlation": math.nan}
        for seed in (0, 1)
        for name in (ROAD, KNOWN, BLACK)
    )
    assert removal._differences(draws, 0).difference.isna().all()


def test_a_difference_is_within_a_draw_and_mean_over_pairs_of_cases():
    rows = [
        {
            "seed": seed,
            "imputation": name,
            "first": first,
            "second": "a, LeRF",
            "correlation": value,
        }
        for seed, values in enumerate([(0.5, 0.1, 0.2, 0.4), (0.3, 0.3, 0.0, 0.8)])
        for (name, first), value in zip(
            [(ROAD, "a, MoRF"), (ROAD, "b, MoRF"), (BLACK, "a, MoRF"), (KNOWN, "a, MoRF")],
            values,
            strict=True,
        )
    ]
    found = removal._differences(pd.DataFrame(rows), 0)
    # ROAD is 0.3 in both draws on average, and 0.5 and 0.3 with MoRF and LeRF of the same images.
    assert found.difference.tolist() == pytest.approx([0.2, -0.3, 0.3, -0.2])
    assert found.road.tolist() == pytest.approx([0.3, 0.3, 0.4, 0.4])
    assert found.other.tolist() == pytest.approx([0.1, 0.6, 0.1, 0.6])


def test_intervals_and_cases_ranked_as_by_black_are_counted():
    correlations = pd.DataFrame(
        {
            "imputation": [ROAD] * 3,
            "correlation": [0.5, 0.6, 0.8],
            "low": [0.4, 0.5, math.nan],
            "high": [0.6, 0.9, math.nan],
            "truth": [1.0, 0.5, 0.0],
        }
    )
    ranks = pd.DataFrame(
        {
            "seed": 0,
            "environment": "a",
            "protocol": ["MoRF"] * 4 + ["LeRF"] * 4,
            "method": ["b", "c"] * 4,
            "imputation": [ROAD, ROAD, BLACK, BLACK] * 2,
            "rank": [1, 2, 1, 2, 1, 2, 2, 1],
        }
    )
    [row] = pd.DataFrame(removal._strength(correlations, ranks)).itertuples()
    assert (row.shown_strong, row.shown_not_strong, row.undecided) == (0, 1, 2)
    assert (row.same_as_black, row.cases) == (1, 2)
    assert row.truth == pytest.approx(0.5)
    assert row.share_moderate == pytest.approx(2 / 3)


MADE = {
    "strength": pd.DataFrame({"imputation": [ROAD, KNOWN], "shown_strong": [0, 1]}).assign(
        undecided=0, same_as_black=[3, 0], cases=4
    ),
    "differences": pd.DataFrame({"low": [-0.2, 0.1], "high": [-0.1, 0.3]}),
}
"""Tables by which every claim agrees."""


@cases(
    """
    road_is_not_strong | strength | imputation == @KNOWN | shown_strong=2 | agrees
    | strength | imputation == @ROAD | shown_strong=1, undecided=2 | differs
    | strength | imputation == @ROAD | undecided=1 | undecided
    road_is_no_better | differences | index == 0 | low=0.0, high=0.0 | agrees
    | differences | index == 0 | low=0.1, high=0.3 | differs
    | differences | index == 0 | high=0.3 | undecided
    | differences | index == 0 | low=nan, high=nan | undecided
    road_is_as_unseen_as_black | strength | imputation == @ROAD | same_as_black=3 | agrees
    | strength | imputation == @ROAD | same_as_black=2 | differs
    """,
    removal,
)
def test_each_claim_follows_its_table(name, table, where, values, answer):
    follows(MADE, name, table, where, values, answer)
