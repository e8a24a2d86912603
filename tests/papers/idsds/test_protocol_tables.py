"""What made-up scores come to in each table, and what protocols leak and lack."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from torch import nn

from attributionlab.base import mean_interval
from attributionlab.papers.idsds import protocol_tables as module
from attributionlab.papers.idsds.maps import ABSOLUTE, ATTENDED, PANEL
from attributionlab.papers.idsds.protocol_scores import (
    ALIGNED_IDS,
    EXACT,
    IDS,
    IDSDS,
    MASK,
    PARTS,
    SDS,
    UPDATED,
    UPDATED_IDS,
)
from attributionlab.papers.idsds.training import Pair, Task
from idsds_cases import made_up_network, made_up_task, sum_scores

IG = "integrated-gradients"


def scored(protocol, method, *networks, place="here", constant=False):
    """A row for each image of each network."""
    return pd.DataFrame(
        [
            (place, protocol, method, number, image, value, constant)
            for number, values in enumerate(networks)
            for image, value in enumerate(values)
        ],
        columns=["place", "protocol", "method", "network", "image", "score", "constant"],
    )


def table_of(*parts):
    scores = pd.concat(parts, ignore_index=True)
    return module.score_table(scores, module.units_of(scores), 0)


def test_means_are_over_networks_where_there_are_several():
    [row] = table_of(scored(IDSDS, IG, [0.0, 1.0], [0.25, np.nan], constant=True)).to_dict(
        "records"
    )
    assert row["method"] == "IG"
    assert row["mean"] == (0.5 + 0.25) / 2
    assert (row["units"], row["images"], row["constant_maps"]) == (2, 4, 4)
    assert row["paper"] == module.PAPER[IDSDS]["IG"] == 0.196
    assert (row["low"], row["high"]) == mean_interval(np.array([0.5, 0.25]), 0)


def test_means_are_over_images_where_there_is_one_network():
    [row] = table_of(scored(SDS, EXACT, [0.0, 0.5, 1.0])).to_dict("records")
    assert (row["mean"], row["units"]) == (0.5, 3)
    assert np.isnan(row["paper"])


PAIRS = {(IDSDS, "IG"): (IDSDS, "IG abs.")}


def differences(*parts, pairs=PAIRS):
    return module.difference_table(module.units_of(pd.concat(parts)), pairs, ("raw", "absolute"), 0)


def test_raw_maps_are_compared_with_absolute_ones_in_pairs():
    [row] = differences(
        scored(IDSDS, IG, [0.5, 0.7, 0.9, 0.8, 0.5, 0.5]),
        scored(IDSDS, f"{IG}{ABSOLUTE}", [0.1, 0.2, 0.3, 0.4, 0.2, 0.1]),
        scored(IDSDS, "saliency", [0.0] * 6),
    ).to_dict("records")
    assert row["difference"] == pytest.approx(2.6 / 6, abs=1e-15)
    assert (row["method"], row["better"]) == ("IG", "raw")
    assert (row["units"], row["over"]) == (6, "images")
    assert row["paper"] == module.PAPER[IDSDS]["IG"] - module.PAPER[IDSDS]["IG abs."]


@pytest.mark.parametrize(("networks", "better"), [(5, ""), (6, "absolute")])
def test_fewer_than_six_networks_tell_no_map_from_another(networks, better):
    table = differences(
        scored(IDSDS, IG, *[[0.1, 0.2]] * networks),
        scored(IDSDS, f"{IG}{ABSOLUTE}", *[[0.5, 0.7]] * networks),
    )
    [row] = table.to_dict("records")
    assert (row["better"], row["units"], row["over"]) == (better, networks, "networks")


def test_without_its_pair_a_method_has_no_difference():
    assert not len(differences(scored(IDSDS, IG, [0.5])))
    one = scored(IDSDS, f"{IG}{ABSOLUTE}", [0.5])
    assert not len(differences(scored(IDSDS, IG, [np.nan]), one))


def test_preferences_count_methods_and_signs_that_are_the_papers():
    table = pd.DataFrame(
        [
            ("IxG", 0.2, "raw", -0.1),
            ("IG", -0.2, "", 0.1),
            ("IG-U", 0.2, "", 0.1),
            ("IG-SG", module.SAME / 2, "", 0.1),
            ("IxG-SG", -0.3, "absolute", np.nan),
        ],
        columns=["method", "raw_minus_absolute", "better", "paper"],
    ).assign(protocol=IDSDS, place="here")
    [row] = module.preference_table(table).to_dict("records")
    assert row == {
        "protocol": IDSDS,
        "place": "here",
        "methods": 5,
        "raw_higher": 2,
        "absolute_higher": 2,
        "raw_better": 1,
        "absolute_better": 1,
        "paper_raw": 3,
        "paper_absolute": 1,
        "as_paper": 1,
        "with_paper": 3,
    }


def test_correlations_are_those_of_mean_scores_without_the_control():
    generator = np.random.default_rng(0)
    scores = table_of(
        *[scored(each, name, generator.random(2)) for name in PANEL for each in (IDSDS, SDS)]
    )
    table = module.correlation_table(scores, 0).set_index(["place", "first", "second"]).correlation
    wide = scores.pivot(index="method", columns="protocol", values="mean").drop("random")
    assert table["here", IDSDS, SDS] == pytest.approx(
        stats.spearmanr(wide[IDSDS], wide[SDS]).statistic, abs=1e-12
    )
    paper = module.PAPER.dropna()
    assert table["paper", IDSDS, SDS] == pytest.approx(
        stats.spearmanr(paper[IDSDS], paper[SDS]).statistic, abs=1e-12
    )


def test_agreement_is_spearmans_correlation_image_by_image():
    scores, _ = sum_scores()
    table = module.agreement_table(scores, 0).set_index(["place", "maps", "protocol"])
    here = scores[scores.protocol == IDS]
    here = here.round(dict.fromkeys(("score", "f1", "cells"), 9))  # rounding is no order
    for maps, truth in ((module.ALL, "f1"), (module.UPDATABLE, "cells")):
        part = here if maps == module.ALL else here[here.method.isin(UPDATED)]
        expected = [
            stats.spearmanr(each.score, each[truth]).statistic for _, each in part.groupby("image")
        ]
        found = table.loc[("sum", maps, IDS)]
        assert found[truth] == pytest.approx(np.mean(expected), abs=1e-9)
        assert found.images == 2


def test_protocols_that_score_some_maps_alone_agree_over_those():
    names = (*UPDATED, "rise")
    parts = [
        scored(UPDATED_IDS, name, [float(k), -float(k)] if name != "rise" else [np.nan] * 2)
        for k, name in enumerate(names)
    ]
    scores = pd.concat(parts).assign(output="logit", f1=0.0, cells=1.0)
    scores["f1"] = scores.method.map({name: k / 10 for k, name in enumerate(names)})
    scores["cells"] = scores.f1
    [row] = module.agreement_table(scores, 0).to_dict("records")
    assert (row["maps"], row["f1"], row["images"]) == (module.UPDATABLE, 0.0, 2)


def test_tables_to_read_have_a_column_for_each_place():
    scores = table_of(
        scored(IDSDS, EXACT, [0.5, 0.7], place="one", constant=True),
        scored(IDSDS, EXACT, [0.25], place="two"),
    )
    [row] = module.readable(scores, IDSDS).to_dict("records")
    assert row["one"].startswith("0.60 (")
    assert row["two"] == "0.25"
    assert row["constant_maps"] == "2 of 2, 0 of 1"
    table = pd.DataFrame({"row": ["a"], "place": ["x"], "v": [np.nan], "l": [0.0], "h": [0.0]})
    assert module.side_by_side(table, ["row"], ("v", "l", "h")).x.tolist() == [""]


def test_networks_that_explain_themselves_are_paired_with_the_best_map_of_plain_ones():
    scores = pd.concat(
        [
            scored(IDSDS, IG, *[[0.3, 0.5]] * 6),
            scored(IDSDS, "input-x-gradient", *[[0.3, 0.3]] * 6),
            scored(IDSDS, "BagNet", *[[each, each] for each in (0.5, 0.6, 0.7, 0.5, 0.6, 0.7)]),
        ]
    )
    [row] = module.intrinsic_table(scores, 0).to_dict("records")
    assert (row["method"], row["best"], row["better"], row["networks"]) == (
        *("BagNet", "IG", "first", 6),
    )
    assert (row["mean"], row["best_mean"], row["difference"]) == pytest.approx((0.6, 0.4, 0.2))
    [few] = module.intrinsic_table(scores[scores.network < 5], 0).to_dict("records")
    assert (few["better"], few["networks"]) == ("", 5)


def test_gains_are_over_fixed_maps_of_the_same_baseline_and_ties_are_all_ahead():
    updated = {"input-x-gradient": 1.0, IG: 1 - 1e-8, "saliency": 1.0, "rise": 1 - 2e-8}
    scores = [
        *(scored(UPDATED_IDS, name, [value]) for name, value in updated.items()),
        *(scored(IDS, name, [0.5]) for name in updated),
        *(scored(each, EXACT, [0.25], place="sum") for each in (UPDATED_IDS, ALIGNED_IDS)),
        *(scored(each, "random", [0.5]) for each in (UPDATED_IDS, IDS)),
        scored(IDS, EXACT, [0.125], place="sum"),
    ]
    table = module.gain_table(module.units_of(pd.concat(scores)), 0).set_index(["place", "method"])
    exact = table.loc["sum", EXACT]
    assert (exact.fixed, exact.updated, exact.difference) == (ALIGNED_IDS, 0.25, 0)
    assert table.difference["here", "IxG"] == 0.5
    assert table.fixed["here", "IxG"] == IDS
    assert table.ahead["here"].to_dict() == {
        "IxG": True,
        "IG": True,
        "Saliency": True,
        "RISE": True,
        "random": False,
    }


def test_methods_above_the_exact_values_are_counted():
    scores = table_of(
        scored(IDSDS, EXACT, [0.5]),
        scored(IDSDS, MASK, [0.9]),  # no method
        scored(IDSDS, IG, [0.75]),
        scored(IDSDS, "saliency", [0.6]),
        scored(IDSDS, "rise", [0.5 + module.SAME / 2]),
        scored(SDS, EXACT, [0.5]),
        scored(SDS, IG, [0.25]),
        scored(IDSDS, IG, [0.75], place="without exact values"),
    )
    first, second = module.above_table(scores).to_dict("records")
    assert (first["above"], first["method"], first["highest"]) == (2, "IG", 0.75)
    assert (second["protocol"], second["above"], second["method"]) == (SDS, 0, "")


def test_noise_is_compared_with_the_baseline_under_idsds_alone():
    means = {IG: 0.5, f"{IG}-uniform": 0.25, "rise": 0.125}
    scores = pd.concat(scored(p, k, [v]) for k, v in means.items() for p in (IDSDS, SDS, IDS))
    scores = pd.concat([scores, scored(UPDATED_IDS, IG, [0.5])])
    [row] = module.score_tables(scores, 0)["noise"].to_dict("records")
    assert (row["method"], row["difference"]) == ("IG-U", -0.25)
    assert row["paper"] == 0.255 - 0.196


def test_the_paper_and_the_legend_name_the_same_methods():
    unpublished = {
        *(module.LEGEND[name] for name in ATTENDED),
        "random",
    }  # ResNet-50 has no attention
    assert set(module.LEGEND) == {*PANEL, "B-cos", "BagNet"}
    for protocol in module.PAPER:
        own = set() if protocol == IDSDS else {"B-cos", "BagNet"}
        assert set(module.PAPER.index[module.PAPER[protocol].isna()]) == unpublished | own
    assert len(module.RAW) == 5


def test_another_temperature_changes_ids_and_no_rank_correlation():
    found = module.recalibration(made_up_task(), Pair(made_up_network(0), made_up_network(1)), 0)
    assert (found[SDS], found[IDSDS]) == (0.0, 0.0)
    assert found[IDS] > 0
    assert PARTS not in found  # it needs parts, which the networks' images lack


def test_another_temperature_is_tried_on_the_network_that_a_protocol_judges(monkeypatch):
    judged, explained = [], []

    def of_network(network, images, _, maps, **__):
        judged.append(network)
        explained.append(maps)
        return torch.zeros(len(images), dtype=torch.float64)

    monkeypatch.setattr(module, "idsds", of_network)
    pair = Pair(made_up_network(0), made_up_network(1))
    module.recalibration(made_up_task(), pair, 0)
    assert judged[0] is pair.original
    assert judged[2] is pair.fine_tuned
    assert torch.equal(explained[0], explained[1])
    assert not torch.equal(explained[1], explained[2])


@pytest.mark.long
def test_masks_that_follow_the_class_leak_it_and_random_cells_do_not(monkeypatch):
    n = 64
    labels = torch.arange(n) % 2
    images = torch.full((n, 3, 8, 8), 0.1)
    images[labels == 0, :, :, :4] = 1.0
    images[labels == 1, :, :, 4:] = 1.0
    task = Task("made up", images, labels, images, labels, 2, torch.zeros(3, 1, 1), images)
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 2, bias=False)).eval()
    nn.init.ones_(network[1].weight)
    monkeypatch.setattr(module, "EPOCHS", 20)
    found = module.leaks(task, network, n, 0)
    assert found[module.ROAR].accuracy == 1
    assert found[module.ROAR].low > found[module.ROAR].chance
    assert found[IDSDS].low <= found[IDSDS].chance
    assert set(found) == {module.ROAR, IDSDS, PARTS}


def test_roar_deletes_what_has_the_highest_attributions(monkeypatch):
    seen = {}
    monkeypatch.setattr(module, "_leak", lambda what, masks, *_: seen.update({what: masks}) or what)
    task = made_up_task()
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 2, bias=False)).eval()
    network[1].weight.data = torch.linspace(-1, 1, 384).view(2, 192)
    module.leaks(task, network, 4, 0)
    maps = (task.images * network[1].weight[task.labels].view(4, 3, 8, 8)).sum(1).flatten(1)
    masks = seen["the top 30% by IG"].flatten(1)
    for mask, values in zip(masks.bool(), maps, strict=True):
        assert int(mask.sum()) == round(0.3 * 64)
        assert values[mask].min() > values[~mask].max()
    assert seen["a random cell"].sum((1, 2, 3)).tolist() == [4.0] * 4


def test_exact_shapley_values_fail_single_deletion_of_remainders():
    [row] = module.modulo_table(12, 0).to_dict("records")
    assert row["images"] == 12
    assert row["low"] < row["score"] < row["high"] < 0.9


UNSEEN = pd.DataFrame(
    [(IDSDS, 0.0), (PARTS, 0.0), (IDS, 0.5), (SDS, 0.0), (SDS, 1.0), (SDS, 1.0)],
    columns=["protocol", "unseen"],
).assign(place="here", exact_drops=np.nan)


def test_networks_that_never_react_are_told_from_those_that_always_do():
    table = module.domain_table(UNSEEN).set_index("protocol")
    assert table.unseen[SDS] == 2 / 3
    assert table.loc[SDS, ["networks", "none", "all"]].tolist() == [3, 1, 2]
    assert table.loc[IDS, ["networks", "none", "all"]].tolist() == [1, 0, 0]


def test_properties_are_ticked_by_what_was_measured():
    found = {
        IDSDS: module.Leak("x", 0.5, 0.4, 0.6, 0.5),
        module.ROAR: module.Leak("y", 0.9, 0.8, 1.0, 0.5),
    }
    changes = {SDS: 0.0, IDSDS: 0.0, IDS: 0.1}
    table = module.properties_table(UNSEEN, found, changes).set_index(["protocol", "property"])
    assert table.ours[IDSDS].tolist() == ["yes", "yes", "yes", ""]
    assert table.ours[module.ROAR].tolist() == ["", "no", "", ""]
    assert table.ours[IDS].tolist() == ["no", "", "no", ""]
    assert table.ours[PARTS].tolist() == ["yes", "", "", ""]
    assert table.measured[SDS, "domain alignment"] == 2 / 3
    assert "1 of 3 networks react to none, 2 to all" in table.how[SDS, "domain alignment"]
    assert "not measured" in table.how[PARTS, "inter-model comparison"]
