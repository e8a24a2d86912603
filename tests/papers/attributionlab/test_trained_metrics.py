"""Metrics on hand-weighted and trained networks: nearness to the truth, and means in tables."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr

import attributionlab as al
from attributionlab.papers.attributionlab import trained_metrics as module
from claims_held import holds

NETWORKS = ("paper", "planes", "natural", "patch-cnn.0", "cnn.0")


def random_scores(worlds=3, metrics=6):
    rng = np.random.default_rng(0)
    rows = [
        {
            "replaced": replaced,
            "metric": name,
            "network": network,
            "world": f"w{world}",
            "image": image,
            "agreement": rng.random(),
        }
        for replaced in ("true baseline", "black")
        for name in (*(f"m{k}" for k in range(metrics)), "foreground-share")
        for network in NETWORKS
        for world in range(worlds)
        for image in range(2)
    ]
    return pd.DataFrame(rows)


def mean(scores, **where):
    for key, value in where.items():
        scores = scores[scores[key] == value]
    return float(np.mean([own.agreement.mean() for _, own in scores.groupby("world")]))


def test_nearness_is_the_cosine_of_sums_over_patches():
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(4, 1, 5, 5, generator=generator, dtype=torch.float64)
    maps[3] = 0
    patches = torch.randint(0, 4, (1, 5, 5), generator=generator)
    own = torch.tensor([3.0, -1, 0], dtype=torch.float64)
    for k, found in enumerate(module.nearness(maps, patches, own)):
        sums = [
            sum(
                float(maps[k, 0, y, x]) for y in range(5) for x in range(5) if patches[0, y, x] == p
            )
            for p in (1, 2, 3)
        ]
        length = np.linalg.norm(sums) * float(own.norm())
        assert found == pytest.approx(np.dot(sums, own.tolist()) / length if length else 0)


def test_tables_are_means_over_worlds_and_correlations_over_metrics(monkeypatch):
    monkeypatch.setattr(module, "RESAMPLES", 50)
    scores = random_scores()
    table = module.agreement_table(scores)
    found = module.correlation_table(scores, 0).set_index(["replaced", "predictor"])
    for replaced, own in table.groupby("replaced"):
        assert own.trained.is_monotonic_decreasing
        for row in own.itertuples():
            place = {"replaced": replaced, "metric": row.metric}
            each = [mean(scores, **place, network=name) for name in NETWORKS]
            assert [row.paper, row.planes, row.natural] == pytest.approx(each[:3])
            assert row.trained == pytest.approx(np.mean(each[3:]))
        real = own[own.metric != "foreground-share"]
        for name in ("paper", "planes", "natural"):
            row = found.loc[replaced, name]
            assert row.value == pytest.approx(spearmanr(real[name], real.trained).statistic)
            assert row.low < row.value < row.high
            assert row.metrics == 6
        other = found.loc[replaced, "another architecture"]
        wanted = spearmanr(real["patch-cnn.0"], real["cnn.0"]).statistic
        assert other.value == pytest.approx(wanted)


def test_the_statement_reads_natural_networks_without_unseen_data():
    def held(low, high):
        rows = [("true baseline", "natural", low, high), ("black", "natural", -1, -0.5)]
        table = pd.DataFrame(rows, columns=["replaced", "predictor", "low", "high"])
        return holds({"correlations": table}, "agreement_carries_over")

    assert held(0.2, 0.9) == "agrees"
    assert held(-0.2, 0.9) == "undecided"
    assert held(-0.9, -0.2) == "differs"
    assert held(np.nan, np.nan) == "undecided"


def test_every_world_has_both_networks():
    there = al.trained_networks()
    for world in module.WORLDS:
        for network in module.TRAINED:
            assert f"{world}.{network}" in there


@pytest.mark.long
def test_networks_that_are_equal_on_the_palette_rank_alike_where_nothing_is_unseen(monkeypatch):
    monkeypatch.setattr(module, "METRICS", ("idsds", "region-perturbation"))
    monkeypatch.setattr(module, "EVERY", 12)
    found = {
        network: module.metric_agreement("quadrants", network, 1, 0).set_index(
            ["replaced", "metric"]
        )
        for network in ("paper", "planes")
    }
    one, two = (each.loc["true baseline"].agreement for each in found.values())
    assert (one == two).all()
    assert one["foreground-share"] < one["idsds"]
