"""Accuracy without the worst patch, and what is true without it."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.papers import reproduce
from attributionlab.papers.catalog import Run
from attributionlab.papers.idsds import training
from attributionlab.papers.idsds import worst_patch as module
from attributionlab.papers.idsds.training import Pair, colors_task, task_named
from attributionlab.papers.idsds.worst_patch import left_truth, rights, worst_patch
from attributionlab.papers.subjects.networks import Design, network_of
from attributionlab.runs import images_in
from claims_held import cases, follows, holds
from own_network import network, own_network

ITEM = "idsds-table-3"


def test_the_color_that_is_left_wins_and_a_tie_has_no_winner():
    """Pixels of each color counted in what remains."""
    task = colors_task(training=1, n=12, seed=0)
    winners = left_truth(task.images, 16, 0.0)
    env = al.load("multi-color-sum-in-distribution", image_size=32)
    ties = 0
    for index, image in enumerate(task.images):
        for patch in range(16):
            row, column = divmod(patch, 4)
            deleted = image.clone()
            deleted[:, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] = 0
            counts = env.model((255 * deleted[None]).round())[0].tolist()
            first = [color for color in range(4) if counts[color] == max(counts)]
            ties += len(first) > 1
            assert int(winners[index, patch]) == (first[0] if len(first) == 1 else -1)
    assert ties > 0


class Fixed(nn.Module):
    """Names the classes it is given, one call after the other."""

    def __init__(self, *answers):
        super().__init__()
        self.answers = list(answers)

    def forward(self, images):
        return nn.functional.one_hot(torch.tensor(self.answers.pop(0)), 3).float()


def test_right_without_the_worst_patch_is_right_without_each():
    deleted = [[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]  # a row for each patch
    winners = torch.tensor([[0, 0, 0, -1], [0, 1, 0, 0], [0, 0, -1, 0], [2, 0, -1, 0]])
    images, labels = torch.zeros(4, 3, 4, 4), torch.tensor([0, 0, 0, 0])
    asked = (images, labels, 4, 0.0)
    whole = [0, 0, 1, 1]
    right = rights(Fixed(*deleted, whole), *asked, winners)
    assert right.to_dict("list") == {
        "image": [0, 1, 2, 3],
        "whole": [1, 1, 0, 0],
        "worst": [1, 0, 0, 1],
        "same": [1, 1, 0, 1],  # the second is wrong only where the label is no longer true
        "left": [1, 1, 0, 0],  # the fourth keeps to a label that lost; the first has a tie
    }
    assert list(rights(Fixed(*deleted, whole), *asked)) == ["image", "whole", "worst"]


def test_a_network_is_asked_about_the_image_without_each_patch():
    """A twin with the four quarters written out."""
    images = torch.rand(9, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    network = network_of(Design(width=2), 2, 3, 8, seed=0)
    network = nn.Sequential(nn.Upsample(8), network).eval()
    filling = torch.tensor([0.25, 0.75]).view(2, 1, 1)
    labels = network(images).argmax(1)
    expected = torch.ones(9, dtype=torch.bool)
    for rows in (slice(0, 2), slice(2, 4)):
        for columns in (slice(0, 2), slice(2, 4)):
            deleted = images.clone()
            deleted[:, :, rows, columns] = filling
            expected &= network(deleted).argmax(1) == labels
    right = rights(network, images, labels, 4, filling)
    assert (right.whole == 1).all()
    assert right.worst.tolist() == expected.double().tolist()
    assert 0 < right.worst.sum() < 9


@pytest.fixture
def untrained(monkeypatch):
    """Networks that differ by their seed take the place of trained ones."""

    def fake(design, task, *, seed, **_):
        networks = [network_of(Design(width=2), 3, task.classes, 32, seed + k) for k in (0, 50)]
        return Pair(*(network.eval() for network in networks))

    monkeypatch.setattr(training, "trained_pair", fake)
    monkeypatch.setattr(module, "DESIGNS", (Design(), Design("bag")))


def tables_of(n, **how):
    sizes = {"training": 1, "epochs": 1, "fine_tuning": 1, "runs": 2}
    seed = how.pop("seed", 0)
    return worst_patch(Run(ITEM, n, seed=seed), **sizes, **how).tables


@pytest.mark.long
@pytest.mark.usefixtures("untrained")
def test_the_table_has_means_over_runs_of_each_design():
    tables = tables_of(9, seed=1)
    assert list(tables) == ["accuracies", "changes", "losses", "costs", "runs"]
    runs, accuracies = tables["runs"], tables["accuracies"]
    assert len(runs) == 2 * 2 * 2
    data = task_named("colors")(1, 9, 1)
    network = network_of(Design(width=2), 3, 4, 32, 51).eval()
    right = float((network(data.images).argmax(1) == data.labels).double().mean())
    row = runs[(runs.network == "plain") & (runs.run == 0) & (runs.version == "after")].iloc[0]
    assert row.whole == pytest.approx(right)
    for each in accuracies.itertuples():
        here = runs[runs.network == each.network].groupby("version").whole.mean()
        assert each.whole_before == pytest.approx(100 * here["before"])
        assert each.whole_after == pytest.approx(100 * here["after"])
        change = 100 * (here["after"] - here["before"])
        assert each.whole_change == pytest.approx(change)
        assert each.whole_low <= change + 1e-9 <= each.whole_high + 2e-9
    for each in tables["losses"].itertuples():
        here = runs[(runs.network == each.network) & (runs.version == each.version)].mean(
            numeric_only=True
        )
        assert each.loss == pytest.approx(100 * (here.whole - here.worst))
        assert each.truth == pytest.approx(100 * (here.same - here.worst))
        assert each.truth + each.network_own == pytest.approx(each.loss)
    kept = left_truth(data.images, 16, 0.0) == data.labels[:, None]
    exact = float(kept.all(1).double().mean())
    assert tables["costs"].exact.tolist() == pytest.approx([100 * exact] * 2)
    for each in tables["costs"].itertuples():
        here = tables["losses"][tables["losses"].version == each.version]
        assert each.loss == pytest.approx(here.loss.mean())
        assert each.share == pytest.approx(here.truth.sum() / here.loss.sum())
    whole = tables["changes"].iloc[0]
    assert (whole["where"], whole.networks, whole.images) == ("whole", 2, 9)
    change = accuracies.whole_change
    assert [whole.least, whole.most, whole["mean"]] == [change.min(), change.max(), change.mean()]
    assert whole.up == (accuracies.whole_low > 0).sum()
    assert whole.down == (accuracies.whole_high < 0).sum()
    assert np.isnan(whole.low)  # of two networks


@pytest.mark.usefixtures("untrained")
def test_pictures_have_no_truth_without_a_patch():
    assert list(tables_of(4, task="pictures")) == ["accuracies", "changes", "runs"]


def test_six_networks_have_an_interval_of_their_mean():
    changes = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    rows = {f"whole_{key}": 50.0 for key in ("before", "after")}
    table = pd.DataFrame({"whole_change": changes, "worst_change": changes}).assign(**rows)
    table = table.assign(worst_before=50.0, worst_after=50.0)
    for each in ("whole", "worst"):
        table = table.assign(**{f"{each}_low": 0.1, f"{each}_high": 5.0})
    found = module._changes(table, 7, 0).iloc[1]
    assert 0.5 <= found.low < 1.75 < found.high <= 3.0
    assert (found.up, found.down, found.networks, found.images) == (6, 0, 6, 7)
    assert (found.paper_least, found.paper_most) == (4.13, 12.58)


MADE = {
    "changes": pd.DataFrame({"where": ["whole", "worst"], "down": 0.0, "low": 0.1, "high": 2.0}),
    "losses": pd.DataFrame({"truth": [9, 8], "network_own": [5, 7]}),
}


@cases(
    """
    whole_images_keep_their_accuracy | changes | where == 'worst' | down=1 | agrees
    | changes | where == 'whole' | down=1, low=-3.0 | differs
    | changes | where == 'whole' | low=-3.0 | undecided
    | changes | | down=nan, low=nan, high=nan | undecided
    the_worst_patch_costs_less | changes | where == 'whole' | low=-3.0 | agrees
    | changes | where == 'worst' | low=-3.0 | differs
    | changes | where == 'worst' | low=-3.0, high=6.0 | undecided
    | changes | | down=nan, low=nan, high=nan | undecided
    most_of_the_cost_is_the_truths | losses | | network_own=7 | agrees
    | losses | | truth=5 | differs
    | losses | index == 1 | truth=7 | undecided
    """
)
def test_each_claim_follows_its_table(name, table, where, values, answer):
    follows(MADE, name, table, where, values, answer)
    if table == "losses":
        assert holds({}, name) == "undecided"


@pytest.fixture
def own(tmp_path):
    return own_network(tmp_path) | {"weights": str(tmp_path / "100.pt")}


def test_a_network_of_ones_own_is_judged_before_and_after(own, tmp_path):
    own |= {"fine_tuned": str(tmp_path / "101.pt")}
    outcome = reproduce(ITEM, n=2, settings=own)
    [row] = outcome.tables["accuracies"].itertuples()
    assert row.network == "images"
    given = images_in(tmp_path / "images", size=8, n=2, seed=0)
    right = [
        100 * float((network(8, seed)(given.images).argmax(1) == given.labels).double().mean())
        for seed in (100, 101)
    ]
    assert [row.whole_before, row.whole_after] == right
    assert outcome.tables["changes"].images.tolist() == [4, 4]
    assert "4 images" in outcome.notes[-1]
    assert {each["here"] for each in outcome.claims} == {"undecided"}
    single = reproduce(ITEM, settings=own)
    assert single.tables["changes"].images.tolist() == [2, 2]  # one of each class


@pytest.mark.long
@pytest.mark.usefixtures("untrained")
def test_no_network_is_clearly_better_on_fewer_than_six_images():
    ends = ["whole_low", "whole_high", "worst_low", "worst_high"]
    few, enough = tables_of(5), tables_of(6)
    assert few["accuracies"][ends].isna().all(axis=None)
    assert few["changes"][["up", "down"]].isna().all(axis=None)
    names = ("whole_images_keep_their_accuracy", "the_worst_patch_costs_less")
    assert {holds(few, name) for name in names} == {"undecided"}
    assert enough["accuracies"][ends].notna().all(axis=None)
    assert enough["changes"][["up", "down"]].notna().all(axis=None)


def test_fine_tuned_weights_and_a_model_need_each_other(own):
    with pytest.raises(al.AttributionLabError, match="without fine_tuned: pass the weights"):
        reproduce(ITEM, n=1, settings=own)
    with pytest.raises(al.AttributionLabError, match=r"fine_tuned is 'w.pt' without images"):
        reproduce(ITEM, n=1, settings={"fine_tuned": "w.pt"})
