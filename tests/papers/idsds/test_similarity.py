"""How far networks answer, explain and are excited alike."""

import numpy as np
import pandas as pd
import pytest
import torch

import attributionlab as al
from attributionlab.methods import METHODS
from attributionlab.papers import reproduce
from attributionlab.papers.catalog import Run
from attributionlab.papers.idsds import similarity as module
from attributionlab.papers.idsds import training
from attributionlab.papers.idsds.training import Pair, task_named
from attributionlab.papers.subjects.networks import Design, gradcam_layer, network_of
from claims_held import cases, follows, holds
from own_network import own_network


def images_of(n):
    return torch.rand(n, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def test_what_is_compared_is_the_labels_probability_and_the_scaled_map():
    network, images = network_of(Design(width=2), 3, 4, 16, seed=0).eval(), images_of(70)
    labels = torch.arange(70) % 4
    layer = gradcam_layer(network)
    found = module.view(network, images, labels, layer)
    logits = network(images).detach()
    expected = logits.exp()[torch.arange(70), labels] / logits.exp().sum(1)
    # Batches of another size add in another order.
    assert torch.allclose(found["output"], expected, atol=1e-6)
    raw = METHODS["gradcam"](network, images, labels, layers={"gradcam": layer})
    for own, scaled in zip(raw.detach(), found["map"], strict=True):
        most = float(own.max())
        assert torch.allclose(scaled, own / most if most > 0 else torch.zeros(1), atol=1e-6)
    assert float(found["map"].min()) == 0
    assert set(found["map"].amax((1, 2, 3)).tolist()) <= {0.0, 1.0}
    assert torch.equal(found["right"], (logits.argmax(1) == labels).double())
    assert torch.equal(found["excited"], module.excitations(network, images, layer))
    assert set(module.view(network, images, labels, None)) == {"output", "right"}
    with torch.no_grad():
        network[-1].weight[2] = -network[-1].weight[2].abs()  # nothing speaks for class 2
    scaled = module.view(network, images[:3], labels[:3], layer)["map"]
    assert scaled.amax((1, 2, 3))[2] == 0


def test_differences_are_absolute_and_means_over_pixels():
    first = {"output": torch.tensor([0.5, 0.25]), "map": torch.zeros(2, 1, 2, 2)}
    maps = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.5, 0.5]]).view(2, 1, 2, 2)
    second = {"output": torch.tensor([0.25, 0.5]), "map": maps}
    found = module.differences(first, second)
    assert found["output"].tolist() == [0.25, 0.25]
    assert found["map"].tolist() == [0.25, 0.75]
    assert list(module.differences(first, {"output": second["output"]})) == ["output"]


def test_an_excitation_is_the_largest_value_of_a_channel():
    network, images = network_of(Design(width=2), 3, 4, 16, seed=0).eval(), images_of(70)
    layer = gradcam_layer(network)
    found = module.excitations(network, images, layer)
    maps = network[:8](images)
    assert layer is network[7]
    assert torch.allclose(found, maps.flatten(2).max(2).values, atol=1e-6)
    assert not layer._forward_hooks
    with pytest.raises(
        al.AttributionLabError, match=r"returns shape \(1, 4\): name one that returns maps"
    ):
        module.excitations(network, images, network[-1])


def test_the_strongest_images_come_first_and_of_equal_ones_the_earlier():
    excited = torch.tensor([[1.0, 0.0], [3.0, 2.0], [2.0, 2.0], [2.0, 0.0]])
    assert module.strongest(excited, 3).tolist() == [[1, 2, 3], [1, 2, 0]]
    assert module.strongest(torch.zeros(5000, 1), 4).tolist() == [[0, 1, 2, 3]]


def test_overlap_is_of_the_same_channel_and_of_all_others():
    first = torch.tensor([[5.0, 0.0, 1.0], [4.0, 1.0, 1.0], [1.0, 5.0, 1.0], [0.0, 6.0, 1.0]])
    second = torch.tensor([[5.0, 1.0, 0.0], [0.0, 0.0, 1.0], [4.0, 9.0, 3.0], [0.0, 8.0, 4.0]])
    # The third channel of the first network is excited by all alike. Its two strongest images:
    # channel 0 {0, 1} and {0, 2}, channel 1 {3, 2} and {2, 3}.
    same, others, compared = module.overlap(first, second, 2)
    assert compared.tolist() == [True, True, False]
    assert same.tolist() == [0.5, 1.0]
    assert others.tolist() == [0.0, 0.5]  # {0, 1} with {2, 3}; {3, 2} with {0, 2}


@pytest.fixture(scope="module")
def outcome():
    """The experiment with networks that are not trained."""

    def fake(design, task, *, seed, **_):
        small = Design(design.family, width=4)
        networks = [network_of(small, 3, task.classes, 32, seed + k) for k in (0, 50)]
        return Pair(*(network.eval() for network in networks))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "trained_pair", fake)
        sizes = {"training": 1, "epochs": 1, "fine_tuning": 1, "runs": 2}
        return module.similarity(Run("idsds-figure-10", 20), **sizes)


def test_networks_are_compared_with_themselves_each_other_and_another_training(outcome):
    table = outcome.tables["differences"]
    assert list(dict.fromkeys(table.comparison)) == [
        "residual and its fine-tuned self",
        "plain and its fine-tuned self",
        "residual and plain",
        "residual and another training of it",
        "plain and another training of it",
    ]
    assert set(table.measure) == {"output", "map"}
    assert (table.runs == 2).all()
    data = task_named("pictures")(1, 20, 0)
    plain = [network_of(Design(width=4), 3, 10, 32, seed).eval() for seed in (0, 50, 1, 51)]
    residual = [network_of(Design("residual", width=4), 3, 10, 32, seed).eval() for seed in (0, 1)]

    def between(first, second):
        one, other = (
            network(data.images).softmax(1)[torch.arange(20), data.labels].detach()
            for network in (first, second)
        )
        return float((one - other).abs().mean())

    outputs = table[table.measure == "output"].set_index("comparison")["mean"]
    expected = {
        "plain and its fine-tuned self": [between(*plain[:2]), between(*plain[2:])],
        "residual and plain": [between(residual[0], plain[0]), between(residual[1], plain[2])],
        "plain and another training of it": [between(plain[0], plain[2])],
    }
    for name, values in expected.items():
        assert outputs[name] == pytest.approx(np.mean(values), abs=1e-5)


def test_channels_are_compared_within_a_family_alone(outcome):
    table = outcome.tables["channels"]
    assert "residual and plain" not in set(table.comparison)
    assert len(table) == 4
    assert (table.chance == 5 / 20).all()  # a quarter of twenty images
    for row in table.itertuples():
        assert row.low <= row.same <= row.high
        assert row.channels + row.not_compared == 2 * 16  # of two runs


def test_distances_are_paired_over_images(outcome):
    table = outcome.tables["nearer"]
    assert list(zip(table.network, table.than, strict=True)) == [
        (network, than)
        for network, other in (("residual", "plain"), ("plain", "residual"))
        for than in (other, other, "another training of it", "another training of it")
    ]
    means = outcome.tables["differences"].set_index(["comparison", "measure"])["mean"]
    for row in table.itertuples():
        pair = f"{row.network} and {row.than}"
        pair = "residual and plain" if row.than in ("residual", "plain") else pair
        own = means[f"{row.network} and its fine-tuned self", row.measure]
        assert row.difference == pytest.approx(means[pair, row.measure] - own)
        assert row.low <= row.difference <= row.high


MADE = {
    "nearer": pd.DataFrame({"than": ["b", "b", module.AGAIN, module.AGAIN]}).assign(
        fine_tuned_self="nearer"
    ),
    # Of a second design trainings have fewer images in common, which decides nothing.
    "channels": pd.DataFrame(
        [(0.8, 0.9, 0.2), (0.1, 0.2, 0.1), (0.8, 0.9, 0.2), (0.0, 0.05, 0.1)],
        columns=["low", "high", "others"],
    ).assign(comparison=[f"{d} and {x}" for d in "ab" for x in (module.SELF, module.AGAIN)]),
}
"""Tables by which every claim agrees."""


@cases(
    """
    fine_tuned_networks_are_nearer_than_other_designs | nearer | index > 1 | than=@AGAIN | agrees
    | nearer | index == 1 | fine_tuned_self='farther' | differs
    | nearer | index == 1 | fine_tuned_self='undecided' | undecided
    fine_tuned_networks_are_nearer_than_other_trainings | nearer | index < 2 | than='c' | agrees
    | nearer | index == 3 | fine_tuned_self='farther' | differs
    | nearer | index == 3 | fine_tuned_self='undecided' | undecided
    channels_keep_their_images | channels | index == 1 | high=0.85 | agrees
    | channels | index == 0 | low=0.1, high=0.3 | differs
    | channels | index == 0 | low=0.4, high=0.6 | undecided
    | channels | index == 0 | low=0.6, others=0.7 | undecided
    channels_of_other_trainings_do_not_correspond | channels | index == 0 | others=0.85 | agrees
    | channels | index % 2 == 0 | low=0.0, high=0.05 | differs
    | channels | index == 1 | high=0.85 | undecided
    """,
    module,
)
def test_each_claim_follows_its_table(name, table, where, values, answer):
    follows(MADE, name, table, where, values, answer)
    assert holds({}, name) == "undecided"


def test_a_network_of_ones_own_is_compared_with_its_fine_tuned_self(tmp_path):
    own = own_network(tmp_path, number=4)
    settings = own | {"fine_tuned": str(tmp_path / "100.pt")}
    outcome = reproduce("idsds-section-4-1", n=4, settings=settings | {"layer": "0"})
    assert outcome.tables["differences"]["mean"].tolist() == [0, 0]
    assert outcome.tables["channels"].same.tolist() == [1]
    assert list(outcome.figures) == ["differences", "channels"]
    outcome = reproduce("idsds-figure-10", n=4, settings=settings)
    assert list(outcome.tables) == ["differences"]
    assert list(outcome.figures) == ["differences"]
    assert {each["here"] for each in outcome.claims} == {"undecided"}
    assert "8 images" in outcome.notes[-1]
