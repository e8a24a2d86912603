"""Accuracy without the worst patch, and what is true without it."""

import numpy as np
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.papers.idsds.alignment import accuracies as module
from attributionlab.papers.idsds.alignment.accuracies import idsds_table_3
from attributionlab.papers.idsds.alignment.accuracy_findings import accuracy_findings
from attributionlab.papers.idsds.alignment.worst_patch import (
    Answers,
    LeftTruth,
    answers,
    left_truth,
    rights,
)
from attributionlab.papers.idsds.data import colors_task, task_named
from attributionlab.papers.idsds.training import Pair
from attributionlab.papers.subjects.networks import Design, network_of


def test_answers_are_of_the_whole_image_and_without_each_patch():
    """A twin with the four quarters written out."""
    images = torch.rand(3, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    network = network_of(Design(width=2), 2, 3, 8, seed=0)
    network = nn.Sequential(nn.Upsample(8), network).eval()
    filling = torch.tensor([0.25, 0.75]).view(2, 1, 1)
    found = answers(network, images, 4, filling)
    quarters = [(slice(a, a + 2), slice(b, b + 2)) for a in (0, 2) for b in (0, 2)]
    for column, (rows, columns) in enumerate(quarters):
        deleted = images.clone()
        deleted[:, :, rows, columns] = filling
        assert torch.equal(found.deleted[:, column], network(deleted).argmax(1))
    assert torch.equal(found.whole, network(images).argmax(1))


def test_the_color_that_is_left_wins_and_a_tie_has_no_winner():
    """Pixels of each color counted in what remains."""
    task = colors_task(training=1, n=12, seed=0)
    truth = left_truth(task.images, task.labels, 16, 0.0)
    env = al.load("multi-color-sum-in-distribution", image_size=32)
    ties = 0
    for index, image in enumerate(task.images):
        for patch in range(16):
            row, column = divmod(patch, 4)
            deleted = image.clone()
            deleted[:, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] = 0
            counts = env.model((255 * deleted[None]).round())[0].tolist()
            winners = [color for color in range(4) if counts[color] == max(counts)]
            ties += len(winners) > 1
            expected = winners[0] if len(winners) == 1 else -1
            assert int(truth.winner[index, patch]) == expected
            assert bool(truth.same[index, patch]) == (expected == int(task.labels[index]))
    assert ties > 0


def test_right_without_the_worst_patch_is_right_without_each():
    labels = torch.tensor([0, 0, 0, 0])
    deleted = torch.tensor([[0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 0]])
    winner = torch.tensor([[0, 0, 0], [0, 1, 0], [0, 0, -1], [2, 0, -1]])
    found = Answers(torch.tensor([0, 0, 1, 1]), deleted)
    right = rights(found, labels, LeftTruth(winner, winner == 0))
    assert {name: each.tolist() for name, each in right.items()} == {
        "whole": [1, 1, 0, 0],
        "worst": [1, 0, 0, 1],
        "same": [1, 1, 0, 1],  # the second is wrong only where the label is no longer true
        "left": [1, 1, 0, 0],  # the fourth keeps to a label that lost; a tie does not count
    }
    assert list(rights(found, labels)) == ["whole", "worst"]


@pytest.fixture
def untrained(monkeypatch):
    """Networks that differ by their seed take the place of trained ones."""

    def fake(design, task, *, seed, **_):
        networks = [network_of(Design(width=2), 3, task.classes, 32, seed + k) for k in (0, 50)]
        return Pair(*(network.eval() for network in networks))

    monkeypatch.setattr(module, "trained_pair", fake)
    scale = module.Scale(1, 9, 1, 1, 2, (Design(), Design("bag")))
    monkeypatch.setattr(module, "FULL", scale)


@pytest.mark.usefixtures("untrained")
def test_the_table_has_means_over_runs_of_each_design():
    outcome = idsds_table_3(n=None, quick=False, seed=1)
    assert list(outcome.tables) == ["accuracies", "losses", "runs"]
    assert set(outcome.shown) <= set(outcome.tables)
    runs, accuracies = outcome.tables["runs"], outcome.tables["accuracies"]
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
    for each in outcome.tables["losses"].itertuples():
        here = runs[(runs.network == each.network) & (runs.version == each.version)].mean(
            numeric_only=True
        )
        assert each.loss == pytest.approx(100 * (here.whole - here.worst))
        assert each.truth == pytest.approx(100 * (here.same - here.worst))
        assert each.truth + each.network_own == pytest.approx(each.loss)
    exact = float(left_truth(data.images, data.labels, 16, 0.0).same.all(1).double().mean())
    assert f"is right on {exact:.0%} without the worst" in " ".join(outcome.findings)


@pytest.mark.usefixtures("untrained")
def test_pictures_have_no_truth_without_a_patch():
    outcome = idsds_table_3(n=4, quick=False, task="pictures")
    assert list(outcome.tables) == ["accuracies", "runs"]
    assert "color" not in " ".join(outcome.findings)


def test_findings_say_how_many_networks_change_and_whose_the_loss_is():
    import pandas as pd

    def told(whole, worst, truth, own):
        networks = [f"net {index}" for index in range(6)]
        table = pd.DataFrame({"network": networks})
        for asked, change in (("whole", whole), ("worst", worst)):
            table[f"{asked}_before"], table[f"{asked}_after"] = 50.0, 50.0 + change
            table[f"{asked}_change"] = change
            table[f"{asked}_low"], table[f"{asked}_high"] = change - 1, change + 1
        losses = pd.DataFrame(
            {
                "network": networks * 2,
                "version": ["before"] * 6 + ["after"] * 6,
                "loss": truth + own,
                "truth": truth,
                "network_own": own,
                "left": 30.0,
            }
        )
        tables = {"accuracies": table, "losses": losses}
        return " ".join(accuracy_findings(tables, 7, 0.25, 0, unseen=True))

    said = told(whole=0.5, worst=np.full(6, 8.0), truth=10.0, own=5.0)
    assert "On whole images accuracy changes by +0.5 to +0.5 points, +0.5 on average (95 %" in said
    assert "from 50.0 to 50.5 %, clearly up for 0 and clearly down for 0 of 6 networks" in said
    assert "Without the worst patch accuracy changes by +8.0 to +8.0" in said
    assert "clearly up for 6 and" in said
    assert "who counts exactly is right on 25%" in said
    assert "Before fine-tuning the worst patch costs 15.0 points on average: 10.0 (67%)" in said
    assert "no fault of the network" in said
    assert "no longer there" not in said  # accuracy by what is left does not fall
    assert "All on 7 images that no network was trained on." in said
    assert "points on whole images from" not in said
    said = told(whole=-9.0, worst=-8.0, truth=5.0, own=10.0)
    assert "takes more than 5 points on whole images from: net 0 -9.0, net 1" in said
    assert "clearly up for 0 and clearly down for 6" in said
    assert "is the networks' own" in said


@pytest.fixture
def folder(tmp_path):
    """Two classes of images, a network, and two files of weights for it."""
    from PIL import Image

    for index, name in enumerate(("dark", "light")):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(2):
            pixels = np.full((16, 16, 3), 60 + 120 * index, np.uint8)
            pixels[2 + number : 9, 2:9] += 40
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.png")
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\n\ndef net():\n"
        "    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(784, 2))\n"
    )
    for seed in (0, 1):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(784, 2))
        torch.save(network.state_dict(), tmp_path / f"{seed}.pt")
    return tmp_path


def own(folder):
    return {
        "images": str(folder / "images"),
        "model": f"{folder / 'net.py'}:net",
        "weights": str(folder / "0.pt"),
        "size": 16,
    }


def test_a_network_of_ones_own_is_judged_before_and_after(folder):
    outcome = idsds_table_3(n=2, quick=True, fine_tuned=str(folder / "1.pt"), **own(folder))
    [row] = outcome.tables["accuracies"].itertuples()
    assert row.network == "images"
    networks = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(784, 2))
        networks.append(network.eval())
    from attributionlab.local_data import images_in

    given = images_in(folder / "images", size=16, n=2, seed=0)
    right = [
        100 * float((network(given.images).argmax(1) == given.labels).double().mean())
        for network in networks
    ]
    assert [row.whole_before, row.whole_after] == right
    assert "On 4 images" not in outcome.findings[0]
    assert outcome.findings[-1].startswith("All on 4 images; nothing is known here of")
    assert "Fewer than 6 images allow no intervals." in outcome.findings[-1]


@pytest.mark.usefixtures("untrained")
def test_no_network_is_clearly_better_on_fewer_than_six_images():
    outcome = idsds_table_3(n=5, quick=False)
    table = outcome.tables["accuracies"]
    ends = ["whole_low", "whole_high", "worst_low", "worst_high"]
    assert table[ends].isna().all(axis=None)
    said = " ".join(outcome.findings)
    assert "clearly" not in said
    assert "nan" not in said
    assert "Fewer than 6 images allow no intervals." in said
    outcome = idsds_table_3(n=6, quick=False)
    assert outcome.tables["accuracies"][ends].notna().all(axis=None)
    assert "clearly" in " ".join(outcome.findings)
    assert "Fewer than 6" not in " ".join(outcome.findings)


def test_fine_tuned_weights_and_a_model_need_each_other(folder):
    with pytest.raises(al.AttributionLabError, match="without fine_tuned: pass the weights"):
        idsds_table_3(n=1, quick=True, **own(folder))
    with pytest.raises(al.AttributionLabError, match=r"fine_tuned is 'w.pt' without a model"):
        idsds_table_3(n=1, quick=True, fine_tuned="w.pt")
