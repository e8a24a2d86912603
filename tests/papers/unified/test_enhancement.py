"""Enhanced images of small networks, and what the tables and claims about them say."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from attributionlab import AttributionLabError
from attributionlab.papers import items, reproduce
from attributionlab.papers.catalog import Run
from attributionlab.papers.subjects.drawn_pictures import SIDE
from attributionlab.papers.subjects.subjects import maps_of, of_images
from attributionlab.papers.unified import counterparts, enhanced_maps, untrained_accuracy
from own_network import own_network

ITEM = "unified-table-2"


def linear(weights):
    """Logits W x of images of a few pixels."""
    weights = torch.as_tensor(weights)
    model = nn.Sequential(nn.Flatten(), nn.Linear(weights.shape[1], len(weights), bias=False))
    model[1].weight = nn.Parameter(weights)
    return model.eval()


def descended(weights, image, label, epsilon, steps):
    """One image, as defined: the gradient of the cross-entropy is sum_k (p_k - [k = y]) w_k."""
    current = list(image)
    for _ in range(steps):
        logits = [sum(w * x for w, x in zip(row, current, strict=True)) for row in weights]
        powers = [math.exp(each) for each in logits]
        errors = [power / sum(powers) - (k == label) for k, power in enumerate(powers)]
        for pixel, begin in enumerate(image):
            slope = sum(error * row[pixel] for error, row in zip(errors, weights, strict=True))
            moved = current[pixel] - epsilon / 10 * ((slope > 0) - (slope < 0))
            current[pixel] = max(0, begin - epsilon, min(1, begin + epsilon, moved))
    return current


def test_enhancement_descends_the_loss_within_the_box_and_the_range(monkeypatch):
    monkeypatch.setattr(counterparts, "AT_ONCE", 2)
    generator = torch.Generator().manual_seed(0)
    weights = torch.randint(-4, 5, (3, 4), generator=generator) / 4
    images = torch.randint(0, 9, (5, 1, 2, 2), generator=generator) / 8
    labels = torch.tensor([0, 1, 2, 1, 0])
    settings = {"epsilon": 0.3125, "steps": 16}
    got = counterparts.enhanced(linear(weights), images, labels, **settings)
    expected = [
        descended(weights.tolist(), image, int(label), **settings)
        for image, label in zip(images.flatten(1).tolist(), labels, strict=True)
    ]
    # Multiples of 1/32 in [0, 1]: exact.
    assert got.flatten(1).tolist() == expected
    assert not torch.equal(got, images)
    assert float(got.min()) == 0 < 1 == float(got.max())
    assert float((got - images).abs().max()) == 0.3125


def test_epsilon_0_and_values_without_a_gradient_leave_images_as_they_are():
    images, labels = torch.rand(2, 1, 1, 3), torch.tensor([0, 1])
    model = linear([[1.0, 2.0, 0.0], [3.0, -1.0, 0.0]])
    assert torch.equal(counterparts.enhanced(model, images, labels, epsilon=0.0), images)
    moved = counterparts.enhanced(model, images, labels, epsilon=0.25, steps=2)
    assert torch.equal(moved[..., 2], images[..., 2])
    assert (moved[..., :2] != images[..., :2]).all()


def test_enhancement_leaves_the_network_and_its_gradients_alone():
    model = counterparts.untrained_network(counterparts.DESIGNS["MnasNet-like"], "He", 0).train()
    state = {name: value.clone() for name, value in model.eval().state_dict().items()}
    counterparts.enhanced(
        model, torch.rand(2, 3, SIDE, SIDE), torch.tensor([0, 1]), epsilon=0.3, steps=2
    )
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (linear(torch.full((2, 4), math.nan)), "the loss is nan"),
        (lambda images: torch.zeros(len(images), 2), "has no gradient with respect to the images"),
        (linear(torch.ones(2, 9)), "the model raised RuntimeError"),
    ],
)
def test_a_model_without_a_finite_gradient_is_refused(model, problem):
    images, labels = torch.full((1, 1, 2, 2), 0.5), torch.tensor([1])
    with pytest.raises(AttributionLabError, match=problem) as refusal:
        counterparts.enhanced(model, images, labels, epsilon=0.25)
    assert "\n" not in str(refusal.value)


def test_he_weights_keep_the_scale_of_activations_and_the_default_shrinks_them():
    images = torch.rand(4, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    spreads = {}
    for name in counterparts.INITIALIZATIONS:
        network = counterparts.untrained_network(counterparts.DESIGNS["VGG-like"], name, 0)
        convolutions = [each for each in network if isinstance(each, nn.Conv2d)]
        features = network[: list(network).index(convolutions[-1]) + 1]
        with torch.no_grad():
            spreads[name] = float(features(images).std((0, 2, 3)).mean())
        same = counterparts.untrained_network(counterparts.DESIGNS["VGG-like"], name, 0)
        assert torch.equal(network(images), same(images))
    assert spreads["He"] > 5 * spreads["default"]
    he = counterparts.untrained_network(counterparts.DESIGNS["VGG-like"], "He", 0)
    assert all(not each.bias.any() for each in he if isinstance(each, nn.Conv2d | nn.Linear))


OBJECTS = torch.zeros(8, 1, 8, 8, dtype=torch.bool)
OBJECTS[..., 2:6, 2:6] = True


def made_up(design="VGG-like", initialization="He", seed=0, n=8):
    """Small networks: the trained one reads the mean of a channel, the untrained one is random."""
    generator = torch.Generator().manual_seed(seed)

    def network(own):
        net = nn.Sequential(
            nn.Conv2d(3, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 64, 3)
        )
        for parameter in net.parameters():
            nn.init.normal_(parameter, 0, 0.3, generator=torch.Generator().manual_seed(own))
        return net.eval()

    untrained, trained = network(seed + 1), network(seed + 100)
    images = torch.rand(n, 3, 8, 8, generator=generator)
    shown = (images, trained(images).argmax(1), torch.zeros(3, 1, 1))
    both = (
        of_images(design, net, *shown, objects=OBJECTS[:n], offered={"layers": {"gradcam": net[1]}})
        for net in (untrained, trained)
    )
    return counterparts.Counterparts(initialization, *both)


def test_maps_are_those_of_the_three_conditions_and_typical_images_are_the_papers():
    pair = made_up()
    (images, labels), better = (pair.trained.images, pair.trained.targets), pair.enhanced(0.25, 10)
    untrained, trained = pair.untrained.model, pair.trained.model
    found = enhanced_maps.condition_maps(pair, 0.25, 10, 0)
    assert set(found.maps) == set(counterparts.MAPS)
    assert torch.equal(found.images["untrained, enhanced"], better)
    assert float((better - images).abs().max()) <= 0.25 + 2**-24  # x + 0.25 is rounded
    assert 0 <= float(better.min()) < float(better.max()) <= 1
    assert found.right["trained, raw"].all()
    expected = (untrained(images).argmax(1) != labels) & (untrained(better).argmax(1) == labels)
    assert found.typical().tolist() == expected.tolist()
    for name, network, shown in zip(
        enhanced_maps.CONDITIONS,
        (untrained, untrained, trained),
        (images, better, images),
        strict=True,
    ):
        leaf = shown.clone().requires_grad_()
        network(leaf).gather(1, labels[:, None]).sum().backward()
        gradient = found.maps["saliency"][name].float()
        assert torch.allclose(gradient, leaf.grad.sum(1, keepdim=True), atol=1e-5)


def rows_by_condition(*maps):
    """Rows of two images, right in every condition or in none, with the object in the middle."""
    images = torch.zeros(2, 3, 8, 8)
    right = {name: torch.tensor([True, False]) for name in enhanced_maps.CONDITIONS}
    maps = {"gradcam": dict(zip(enhanced_maps.CONDITIONS, maps, strict=True))}
    found = enhanced_maps.ConditionMaps(
        dict.fromkeys(enhanced_maps.CONDITIONS, images), right, maps
    )
    rows = pd.DataFrame(enhanced_maps.rows_of(found, OBJECTS[:2]))
    assert not rows.typical.any()
    return rows.set_index(["what", "of", "image"]).value


RAMP = torch.arange(64.0).view(1, 1, 8, 8).expand(2, 1, 8, 8)


def test_rows_hold_similarities_of_pairs_and_plausibility_of_conditions():
    rows = rows_by_condition(RAMP, -RAMP, OBJECTS[:2].double())
    assert rows["similarity", "untrained, raw - untrained, enhanced", 0] == -1
    assert rows["mass on the object", "trained, raw", 1] == 1
    assert np.isnan(rows["mass on the object", "untrained, enhanced", 1])  # nothing is positive
    assert rows["pointing game", "trained, raw", 0] == 1
    assert rows["pointing game", "untrained, raw", 0] == 0


def test_constant_maps_have_no_numbers_but_are_counted():
    rows = rows_by_condition(RAMP, RAMP, RAMP * torch.tensor([0.0, 1.0]).view(2, 1, 1, 1))
    for what in ("pointing game", "mass on the object"):
        assert np.isnan(rows[what, "trained, raw", 0])
        assert not np.isnan(rows[what, "trained, raw", 1])
    assert np.isnan(rows["similarity", "untrained, enhanced - trained, raw", 0])
    assert [rows["constant map", "trained, raw", image] for image in (0, 1)] == [1, 0]
    assert rows["constant map", "untrained, raw", 0] == 0


def test_differences_are_of_images_of_which_all_is_known():
    pairs = list(enhanced_maps.SIMILAR.values())
    values = {0: (0.9, 0.1, 0.0), 1: (0.1, np.nan, np.nan)}  # the second image has a constant map
    rows = [
        {"network": 0, "method": method, "image": image, "typical": True, "what": what}
        | {"of": of, "value": value}
        for method in counterparts.MAPS.values()
        for image, three in values.items()
        for what, names in (("similarity", pairs), ("constant map", enhanced_maps.CONDITIONS))
        for of, value in zip(names, three if what == "similarity" else (0, 0, image), strict=True)
    ]
    tables = enhanced_maps.tables_of(pd.DataFrame(rows), 0)
    row = tables["similarities"].iloc[0]
    assert row.more == pytest.approx(0.8)
    assert row["same network"] == pytest.approx(0.9)
    assert (row.images, row.networks) == (1, 1)
    counted = tables["constant"].iloc[0]
    assert [counted[name] for name in enhanced_maps.CONDITIONS] == [0, 0, 1]
    assert counted.images == 2
    assert tables["typical"].iloc[0].tolist() == [2, 2, 1]


def test_excitation_backprop_goes_down_to_gradcams_layer_of_built_in_networks():
    pair = made_up(n=2)
    for subject in pair[1:]:
        got = counterparts.map_of(subject, "excitation-backprop", 0)
        layer = maps_of(subject, "excitation-backprop", 0, {"layer": "1"})
        assert torch.equal(got, layer)
        assert not torch.equal(got, maps_of(subject, "excitation-backprop", 0))
        assert torch.equal(
            counterparts.map_of(subject, "saliency", 0), maps_of(subject, "saliency", 0)
        )
    found = enhanced_maps.condition_maps(pair, 0.25, 1, 0).maps["excitation-backprop"]
    assert torch.equal(
        found["untrained, raw"], counterparts.map_of(pair.untrained, "excitation-backprop", 0)
    )


@pytest.fixture
def tiny(monkeypatch):
    """Made-up networks in place of drawn pictures and training."""

    def ours(design, n, training, seed, initializations=("He",)):
        for name in initializations:
            yield made_up(design, name, seed, n)

    for module in (untrained_accuracy, enhanced_maps):
        monkeypatch.setattr(module, "our_counterparts", ours)


@pytest.mark.long
def test_table_2_has_both_networks_and_comparisons_by_epsilon(tiny):
    run = Run(ITEM, n=6, quick=True)
    outcome = untrained_accuracy.accuracy_on_enhanced_images(run, networks=2, training=1, steps=3)
    table = outcome.tables["accuracies"]
    assert set(table.design) == set(counterparts.DESIGNS)
    assert set(table.initialization) == set(counterparts.INITIALIZATIONS)
    keys = {(row.network, row.images, row.epsilon) for row in table.itertuples()}
    epsilons = untrained_accuracy.QUICK_EPSILONS
    assert keys == {
        ("untrained", "raw", 0.0),
        ("trained", "raw", 0.0),
        *(("untrained", "random signs", each) for each in epsilons),
        *(("untrained", "enhanced", each) for each in epsilons),
        *(("trained", "enhanced", each) for each in epsilons),
    }
    each = outcome.tables["networks"]
    for row in table.itertuples():
        same = each[
            (each.design == row.design)
            & (each.initialization == row.initialization)
            & (each.network == row.network)
            & (each.images == row.images)
            & (each.epsilon == row.epsilon)
        ]
        assert len(same) == row.networks == 2
        assert row.accuracy == pytest.approx(same.accuracy.mean())
    assert (table.chance == 1 / 3).all()
    assert len(outcome.figures["accuracies"].axes) == len(counterparts.DESIGNS) * len(
        counterparts.INITIALIZATIONS
    )


def accuracies(paper, signs=(0.1, 0.2), own=(0.1, 0.2), networks=6):
    """Ends of intervals: at the paper's epsilon, of random signs, and with PyTorch's initialization.

    Raw images: 0.05 to 0.2, trained networks 0.6 to 0.8.
    """
    rows = []
    for initialization, ends, epsilon in (
        ("He", paper, untrained_accuracy.PAPER_EPSILON),
        ("default", own, 0.3),
    ):
        rows += [
            (initialization, "untrained", "raw", 0.0, 0.05, 0.2),
            (initialization, "trained", "raw", 0.0, 0.6, 0.8),
            (initialization, "untrained", "random signs", epsilon, *signs),
            (initialization, "untrained", "enhanced", epsilon, *ends),
            (initialization, "trained", "enhanced", epsilon, 0.5, 0.7),
        ]
    columns = ["initialization", "network", "images", "epsilon", "low", "high"]
    return {"accuracies": pd.DataFrame(rows, columns=columns).assign(design="d", networks=networks)}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"paper": (0.8, 1.0)}, ["agrees", "agrees", "agrees", "agrees"]),
        ({"paper": (0.3, 0.59)}, ["agrees", "differs", "agrees", "agrees"]),
        ({"paper": (0.3, 0.65)}, ["agrees", "undecided", "agrees", "agrees"]),
        ({"paper": (0.15, 0.8)}, ["undecided", "undecided", "undecided", "agrees"]),
        ({"paper": (0.0, 0.04)}, ["differs", "differs", "differs", "agrees"]),
        ({"paper": (0.8, 1.0), "signs": (0.7, 0.9)}, ["agrees", "agrees", "undecided", "agrees"]),
        ({"paper": (0.8, 1.0), "own": (0.6, 0.7)}, ["agrees", "agrees", "agrees", "differs"]),
        ({"paper": (0.8, 1.0), "own": (0.5, 0.7)}, ["agrees", "agrees", "agrees", "undecided"]),
        ({"paper": (0.8, 1.0), "networks": 5}, ["undecided"] * 4),
        ({"paper": (math.nan, math.nan), "networks": 1}, ["undecided"] * 4),
    ],
)
def test_claims_about_accuracies_follow_the_intervals(changes, expected, answers):
    assert answers(ITEM, accuracies(**changes)) == expected


@pytest.mark.long
def test_maps_are_served_for_every_figure_and_means_are_of_typical_images(tiny):
    run = Run("unified-appendix-figure-4", n=8)
    settings = {"networks": 2, "training": 1, "epsilon": 0.25, "steps": 12}
    outcome = enhanced_maps.maps_of_enhanced_images(run, **settings)
    assert enhanced_maps.ITEMS["unified-appendix-figure-4"] == "saliency"
    assert enhanced_maps.ITEMS["unified-figure-2"] == "gradcam"
    assert sorted(enhanced_maps.ITEMS.values()) == sorted(counterparts.MAPS)
    assert all(
        items()[item].title.startswith(counterparts.MAPS[method])
        for item, method in enhanced_maps.ITEMS.items()
    )
    assert outcome.figures["maps"].get_suptitle().startswith("Gradient for the label")
    each = outcome.tables["images"]
    kept = each[each.typical]
    assert len(kept)
    row = outcome.tables["similarities"].set_index("method").loc["Gradient"]
    own = kept[(kept.method == "Gradient") & (kept.what == "similarity")]
    wide = own.pivot(index=["network", "image"], columns="of", values="value").dropna()
    by_network = wide.groupby("network").mean().mean()
    assert row["same network"] == pytest.approx(by_network["untrained, raw - untrained, enhanced"])
    assert row["same answer"] == pytest.approx(by_network["untrained, enhanced - trained, raw"])
    assert row.more == pytest.approx(row["same network"] - row["same answer"])
    fall = (
        outcome.tables["plausibility"]
        .set_index(["metric", "method"])
        .loc[("pointing game", "Gradient")]
    )
    assert fall.fall == pytest.approx(fall["trained, raw"] - fall["untrained, enhanced"])
    images = each.drop_duplicates(["network", "image"])
    counts = [0.25, images.typical.sum(), len(images), 2]
    assert outcome.tables["typical"].iloc[0].tolist() == counts


@pytest.mark.parametrize(
    ("low", "high", "networks", "expected"),
    [
        (0.3, 0.5, 6, "agrees"),
        (-0.1, 0.5, 6, "undecided"),
        (-0.5, -0.1, 6, "differs"),
        (0.3, 0.5, 3, "undecided"),
        (-0.5, -0.1, 3, "undecided"),
        (math.nan, math.nan, 1, "undecided"),
    ],
)
def test_claims_about_maps_follow_the_intervals_of_all_methods(
    low, high, networks, expected, answers
):
    def differences(low, high):
        """One method's interval among clear ones."""
        table = pd.DataFrame({"method": list(counterparts.MAPS.values()), "low": 0.3, "high": 0.5})
        table.loc[2, ["low", "high"]] = [low, high]
        return table.assign(networks=networks)

    clear, own = differences(0.3, 0.5), differences(low, high)
    sure = "agrees" if networks >= 6 else "undecided"
    for changed, places in (
        ("similarities", [0]),
        (enhanced_maps.POINTING, [1]),
        (enhanced_maps.MASS, [2]),
    ):
        tables = {"similarities": own if changed == "similarities" else clear}
        scores = [
            (own if changed == metric else clear).assign(metric=metric)
            for metric in (enhanced_maps.POINTING, enhanced_maps.MASS)
        ]
        found = answers("unified-figure-2", tables | {"plausibility": pd.concat(scores)})
        assert found == [expected if place in places else sure for place in range(3)]
    assert answers("unified-appendix-figure-5", {"similarities": own})[1:] == ["undecided"] * 2


@pytest.fixture
def own(tmp_path):
    """Settings of a network that is another one each time it is made, with trained weights."""
    own = own_network(tmp_path) | {"weights": str(tmp_path / "100.pt")}
    return own | {"model": own["model"].replace(":fixed", ":net")}


def test_own_counterparts_differ_by_the_weights_and_leave_the_global_generator_alone(own):
    before = torch.get_rng_state()
    first, second = counterparts.given_counterparts(2, 0, 2, layer="0", **own)
    assert torch.equal(torch.get_rng_state(), before)
    assert first.trained is second.trained
    weights = (each.untrained.model[0].weight for each in (first, second))
    assert not torch.equal(*weights)
    assert len(first.untrained.images) == 4
    assert first.untrained.objects is None


@pytest.mark.long
def test_own_networks_are_enhanced_and_explained(own):
    own |= {"steps": 2}
    with pytest.raises(AttributionLabError, match=r"n is 8: .* has 2 images"):
        reproduce(ITEM, quick=True, settings=own)
    outcome = reproduce(ITEM, n=2, quick=True, settings=own | {"networks": 1})
    assert set(outcome.tables["accuracies"].design) == {"images"}
    own |= {"layer": "0", "networks": 2}
    outcome = reproduce("unified-figure-2", n=1, settings=own)
    assert "plausibility" not in outcome.tables
    assert outcome.tables["typical"].images.tolist() == [2 * 2]
    assert "is right on" in outcome.notes[-1]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"weights": None}, "weights is None: pass the file of the trained weights"),
        ({"model": "fixed"}, "returns the trained network even without weights"),
        ({"layer": None}, "layer is None, but GradCAM"),
        ({"epsilon": 0.0}, "epsilon is 0"),
    ],
)
def test_own_networks_that_do_not_fit_are_refused(own, change, problem):
    if "model" in change:
        change = {"model": own["model"].replace(":net", ":fixed")}
    settings = own | {"layer": "0"} | change
    with pytest.raises(AttributionLabError, match=problem):
        reproduce("unified-figure-2", n=1, quick=True, settings=settings)
