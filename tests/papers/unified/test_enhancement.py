"""Enhanced images of small networks, and what the tables and findings about them say."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from attributionlab import AttributionLabError
from attributionlab.papers.subjects.drawn_pictures import CLASSES, SIDE
from attributionlab.papers.subjects.subjects import maps_of
from attributionlab.papers.unified.enhancement import accuracies as accuracies_module
from attributionlab.papers.unified.enhancement import map_findings
from attributionlab.papers.unified.enhancement import maps as maps_module
from attributionlab.papers.unified.enhancement.accuracies import unified_table_2
from attributionlab.papers.unified.enhancement.maps import ITEMS, unified_enhanced_maps
from attributionlab.papers.unified.enhancement.projected_descent import enhanced
from attributionlab.papers.unified.enhancement.twin_maps import (
    CONDITIONS,
    TwinMaps,
    rows_of,
    twin_maps,
)
from attributionlab.papers.unified.enhancement.twins import (
    DESIGNS,
    INITIALIZATIONS,
    Twins,
    given_twins,
    untrained_network,
)
from attributionlab.papers.unified.six_methods import MAPS, map_of


def linear(weights):
    """Logits W x of images of a few pixels."""
    weights = torch.as_tensor(weights)
    model = nn.Sequential(nn.Flatten(), nn.Linear(weights.shape[1], len(weights), bias=False))
    model[1].weight = nn.Parameter(weights)
    return model.eval()


def descended(weights, image, label, epsilon, alpha, steps, low, high):
    """One image, as defined: the gradient of the cross-entropy is sum_k (p_k - [k = y]) w_k."""
    current = list(image)
    for _ in range(steps):
        logits = [sum(w * x for w, x in zip(row, current, strict=True)) for row in weights]
        powers = [math.exp(each) for each in logits]
        errors = [power / sum(powers) - (k == label) for k, power in enumerate(powers)]
        for pixel, begin in enumerate(image):
            slope = sum(error * row[pixel] for error, row in zip(errors, weights, strict=True))
            moved = current[pixel] - alpha * ((slope > 0) - (slope < 0))
            current[pixel] = max(low, begin - epsilon, min(high, begin + epsilon, moved))
    return current


@pytest.mark.parametrize(("low", "high"), [(-math.inf, math.inf), (0.0, 1.0)])
def test_enhancement_descends_the_loss_within_the_box_and_the_range(low, high):
    generator = torch.Generator().manual_seed(0)
    weights = torch.randint(-4, 5, (3, 4), generator=generator) / 4
    images = torch.randint(0, 9, (5, 1, 2, 2), generator=generator) / 8
    labels = torch.tensor([0, 1, 2, 1, 0])
    settings = {"epsilon": 0.25, "alpha": 0.0625, "steps": 6}
    ends = {} if low == -math.inf else {"low": low, "high": high}
    got = enhanced(linear(weights), images, labels, **settings, **ends, batch_size=2)
    expected = [
        descended(weights.tolist(), image, int(label), **settings, low=low, high=high)
        for image, label in zip(images.flatten(1).tolist(), labels, strict=True)
    ]
    assert got.flatten(1).tolist() == expected  # multiples of 1/16 in [-1, 2]: exact
    assert not torch.equal(got, images)


def test_epsilon_0_and_values_without_a_gradient_leave_images_as_they_are():
    images, labels = torch.rand(2, 1, 1, 3), torch.tensor([0, 1])
    model = linear([[1.0, 2.0, 0.0], [3.0, -1.0, 0.0]])
    assert torch.equal(enhanced(model, images, labels, epsilon=0.0), images)
    moved = enhanced(model, images, labels, epsilon=0.25, steps=2)
    assert torch.equal(moved[..., 2], images[..., 2])
    assert (moved[..., :2] != images[..., :2]).all()


def test_a_random_start_lies_in_the_box_and_comes_from_the_generator_alone():
    images, labels = torch.full((4, 1, 8, 8), 0.125), torch.zeros(4, dtype=torch.int64)
    flat = linear(torch.zeros(2, 64))  # no gradient: the start is what is returned
    before = torch.get_rng_state()

    def started(seed):
        start = torch.Generator().manual_seed(seed)
        return enhanced(flat, images, labels, epsilon=0.25, low=0.0, high=1.0, start=start)

    first = started(0)
    assert torch.equal(first, started(0))
    assert not torch.equal(first, started(1))
    assert torch.equal(torch.get_rng_state(), before)
    assert (
        float(first.min()) < 0.02
    )  # of 256 uniform values in [0, 0.375]: else (1 - .053)^256 < 1e-6
    assert float(first.max()) > 0.355
    assert ((first >= 0) & (first <= 0.375)).all()


def test_enhancement_leaves_the_network_and_its_gradients_alone():
    model = untrained_network(DESIGNS["MnasNet-like"], "He", 0).train()
    state = {name: value.clone() for name, value in model.eval().state_dict().items()}
    enhanced(model, torch.rand(2, 3, SIDE, SIDE), torch.tensor([0, 1]), steps=2)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"epsilon": -0.1}, "epsilon is -0.1"),
        ({"alpha": 0}, "alpha is 0"),
        ({"steps": 0}, "steps is 0"),
        ({"low": 0.75}, "images lie in 0.5 to 0.5, low is 0.75"),
        ({"high": 0.25}, "high is 0.25: pass the range"),
        ({"labels": torch.tensor([2])}, "a label is 2: the model has outputs for 0 to 1 alone"),
        ({"labels": torch.tensor([-1])}, "a label is -1"),
        ({"model": linear(torch.full((2, 4), math.nan))}, "the loss is nan"),
        ({"model": lambda x: torch.zeros(len(x), 2)}, "does not depend on the images"),
        ({"model": None}, "model is None: pass a torch.nn.Module"),
        ({"model": linear(torch.ones(2, 4)).train()}, "the model is in training mode"),
        ({"model": linear(torch.ones(2, 9))}, "the model raised .* on images 1 x 1 x 2 x 2"),
        ({"images": torch.ones(1, 1, 2, 2).double()}, "the model raised .* of torch.float64"),
        ({"images": torch.ones(1, 1, 2, 2).int()}, "images are torch.int32 .* images.float"),
        ({"images": torch.full((1, 1, 2, 2), math.nan)}, "images have the value nan: pass finite"),
        ({"start": 0}, "start is 0: pass a torch.Generator"),
        ({"labels": [1]}, "^labels are of type list"),
    ],
)
def test_what_cannot_be_enhanced_is_refused(change, problem):
    settings = {
        "model": linear(torch.ones(2, 4)),
        "images": torch.full((1, 1, 2, 2), 0.5),
        "labels": torch.tensor([1]),
    } | change
    with pytest.raises(AttributionLabError, match=problem) as refusal:
        enhanced(settings.pop("model"), settings.pop("images"), settings.pop("labels"), **settings)
    assert "\n" not in str(refusal.value)


def test_he_weights_keep_the_scale_of_activations_and_the_default_shrinks_them():
    images = torch.rand(4, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    spreads = {}
    for name in INITIALIZATIONS:
        network = untrained_network(DESIGNS["VGG-like"], name, 0)
        convolutions = [each for each in network if isinstance(each, nn.Conv2d)]
        features = network[: list(network).index(convolutions[-1]) + 1]
        with torch.no_grad():
            spreads[name] = float(features(images).std((0, 2, 3)).mean())
        same = untrained_network(DESIGNS["VGG-like"], name, 0)
        assert torch.equal(network(images), same(images))
    assert spreads["He"] > 5 * spreads["default"]
    he = untrained_network(DESIGNS["VGG-like"], "He", 0)
    assert all(not each.bias.any() for each in he if isinstance(each, nn.Conv2d | nn.Linear))


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
    objects = torch.zeros(n, 1, 8, 8, dtype=torch.bool)
    objects[..., 2:6, 2:6] = True
    offered = tuple({"layers": {"gradcam": net[1], "iba": net[1]}} for net in (untrained, trained))
    labels = trained(images).argmax(1)
    return Twins(design, initialization, untrained, trained, images, labels, objects, offered)


def test_twin_maps_are_those_of_the_three_conditions_and_typical_images_are_the_papers():
    twins = made_up()
    found = twin_maps(twins, 0.25, 10, 0)
    assert set(found.maps) == set(MAPS)
    better = found.images["untrained, enhanced"]
    assert float((better - twins.images).abs().max()) <= 0.25 + 2**-24  # x + 0.25 is rounded
    assert float(better.max()) <= 1
    assert float(better.min()) >= 0
    assert found.right["trained, raw"].all()
    expected = [
        int(twins.untrained(x[None]).argmax()) != y and int(twins.untrained(b[None]).argmax()) == y
        for x, b, y in zip(twins.images, better, twins.labels.tolist(), strict=True)
    ]
    assert found.typical().tolist() == expected
    gradient = found.maps["saliency"]
    for name, (network, images) in {
        CONDITIONS[0]: (twins.untrained, twins.images),
        CONDITIONS[1]: (twins.untrained, better),
        CONDITIONS[2]: (twins.trained, twins.images),
    }.items():
        leaf = images.clone().requires_grad_()
        network(leaf).gather(1, twins.labels[:, None]).sum().backward()
        assert torch.allclose(gradient[name].float(), leaf.grad.sum(1, keepdim=True), atol=1e-5)


def test_rows_hold_similarities_of_pairs_and_plausibility_of_conditions():
    twins = made_up(n=2)
    ramp = torch.arange(64.0).view(1, 1, 8, 8).expand(2, 1, 8, 8)
    maps = dict(zip(CONDITIONS, (ramp, -ramp, twins.objects.double()), strict=True))
    right = {name: torch.tensor([True, False]) for name in CONDITIONS}
    found = TwinMaps(dict.fromkeys(CONDITIONS, twins.images), right, {"gradcam": maps})
    rows = pd.DataFrame(rows_of(twins, found)).set_index(["what", "of", "image"]).value
    assert rows["similarity", "untrained, raw - untrained, enhanced", 0] == -1
    assert rows["mass on the object", "trained, raw", 1] == 1
    assert np.isnan(rows["mass on the object", "untrained, enhanced", 1])  # nothing is positive
    assert rows["pointing game", "trained, raw", 0] == 1
    assert rows["pointing game", "untrained, raw", 0] == 0
    assert not any(row["typical"] for row in rows_of(twins, found))


def test_constant_maps_have_no_numbers_but_are_counted():
    twins = made_up(n=2)
    ramp = torch.arange(64.0).view(1, 1, 8, 8).expand(2, 1, 8, 8)
    empty = ramp * torch.tensor([0.0, 1.0]).view(2, 1, 1, 1)
    maps = dict(zip(CONDITIONS, (ramp, ramp, empty), strict=True))
    right = {name: torch.tensor([True, False]) for name in CONDITIONS}
    found = TwinMaps(dict.fromkeys(CONDITIONS, twins.images), right, {"gradcam": maps})
    rows = pd.DataFrame(rows_of(twins, found)).set_index(["what", "of", "image"]).value
    for what in ("pointing game", "mass on the object"):
        assert np.isnan(rows[what, "trained, raw", 0])
        assert not np.isnan(rows[what, "trained, raw", 1])
    assert np.isnan(rows["similarity", "untrained, enhanced - trained, raw", 0])
    assert [rows["constant map", "trained, raw", image] for image in (0, 1)] == [1, 0]
    assert rows["constant map", "untrained, raw", 0] == 0


def test_differences_are_of_images_of_which_all_is_known():
    pairs = list(maps_module.SIMILAR.values())
    values = {0: (0.9, 0.1, 0.0), 1: (0.1, np.nan, np.nan)}  # the second image has a constant map
    rows = [
        {"network": 0, "method": method, "image": image, "typical": True, "what": what}
        | {"of": of, "value": value}
        for method in MAPS.values()
        for image, three in values.items()
        for what, names in (("similarity", pairs), ("constant map", CONDITIONS))
        for of, value in zip(names, three if what == "similarity" else (0, 0, image), strict=True)
    ]
    tables = maps_module._tables(rows, 0)
    row = tables["similarities"].iloc[0]
    assert row.more == pytest.approx(0.8)
    assert row["same network"] == pytest.approx(0.9)
    assert (row.images, row.networks) == (1, 1)
    counted = tables["constant"].iloc[0]
    assert [counted[name] for name in CONDITIONS] == [0, 0, 1]
    assert counted.images == 2


def test_excitation_backprop_goes_down_to_gradcams_layer_of_built_in_networks():
    twins = made_up(n=2)
    untrained, trained = twins.subjects()
    for subject in (untrained, trained):
        got = map_of(subject, "excitation-backprop", 0)
        layer = maps_of(subject, "excitation-backprop", 0, {"layer": "1"})
        assert torch.equal(got, layer)
        assert not torch.equal(got, maps_of(subject, "excitation-backprop", 0))
        assert torch.equal(map_of(subject, "saliency", 0), maps_of(subject, "saliency", 0))
    found = twin_maps(twins, 0.25, 1, 0).maps["excitation-backprop"]
    assert torch.equal(found["untrained, raw"], map_of(untrained, "excitation-backprop", 0))


@pytest.fixture
def tiny(monkeypatch):
    """Made-up twins in place of drawn pictures and training."""

    def ours(design, n, training, seed, initializations=("He",)):
        for name in initializations:
            yield made_up(design, name, seed, n)

    for module in (accuracies_module, maps_module):
        monkeypatch.setattr(module, "our_twins", ours)


def test_table_2_has_both_networks_and_comparisons_by_epsilon(tiny):
    outcome = unified_table_2(n=6, quick=True, steps=3)
    table = outcome.tables["accuracies"]
    assert set(table.design) == set(DESIGNS)
    assert set(table.initialization) == set(INITIALIZATIONS)
    keys = {(row.network, row.images, row.epsilon) for row in table.itertuples()}
    epsilons = accuracies_module.QUICK_EPSILONS
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
        assert len(same) == row.networks == accuracies_module.QUICK_NETWORKS
        assert row.accuracy == pytest.approx(same.accuracy.mean())
    assert "chance is 33%" in outcome.findings[1]
    assert len(outcome.findings) == 2 + len(DESIGNS) * len(INITIALIZATIONS)


def told_of_table_2(enhanced_rows, networks=6):
    """What is said of an accuracy of 0.1 (0.05 to 0.2), trained 0.7 (0.6 to 0.8)."""
    keys = {"design": "d", "initialization": "i"}
    rows = [("untrained", "raw", 0.0, 0.1, 0.05, 0.2), ("trained", "raw", 0.0, 0.7, 0.6, 0.8)]
    for epsilon, accuracy, low, high in enhanced_rows:
        rows += [
            ("untrained", "random signs", epsilon, 0.1, 0.1, 0.1),
            ("untrained", "enhanced", epsilon, accuracy, low, high),
            ("trained", "enhanced", epsilon, 0.6, 0.5, 0.7),
        ]
    names = ["network", "images", "epsilon", "accuracy", "low", "high"]
    table = pd.DataFrame([keys | dict(zip(names, row, strict=True)) for row in rows])
    epsilons = [row[0] for row in enhanced_rows]
    return list(accuracies_module._findings(table, epsilons, 0.1, networks))[-1]


def test_findings_of_table_2_follow_the_accuracies():
    high = told_of_table_2([(0.5, 0.9, 0.8, 1.0)])
    assert "raises the accuracy from 0.5 on, to one that is not clearly below the trained" in high
    assert high.endswith("network's from 0.5 on.")
    assert "stays clearly below the trained network's" in told_of_table_2([(0.5, 0.5, 0.3, 0.59)])
    assert "not clearly below" in told_of_table_2([(0.5, 0.5, 0.3, 0.65)])
    assert "does not clearly raise" in told_of_table_2([(0.5, 0.5, 0.15, 0.8)])
    assert "does not clearly raise" in told_of_table_2([(0.5, 0.5, 0.201, 0.8)])  # 20 %, as raw


def test_an_accuracy_that_falls_again_is_not_raised_from_there_on():
    said = told_of_table_2([(0.1, 0.9, 0.8, 1.0), (0.3, 0.1, 0.05, 0.2)])
    assert "raises the accuracy at 0.1, to one that is not clearly below the trained" in said
    assert "on," not in said.split("raises the accuracy")[1]


def test_few_networks_give_no_verdict_on_accuracies():
    said = told_of_table_2([(0.5, 0.9, 0.8, 1.0)], networks=2)
    assert said.endswith("With fewer than six networks this is no verdict.")
    nothing = told_of_table_2([(0.5, 0.9, np.nan, np.nan)], networks=1)
    assert "90% (no interval)" in nothing
    assert "nan" not in nothing


def test_maps_are_served_for_every_figure_and_means_are_of_typical_images(tiny):
    outcome = unified_enhanced_maps(
        "unified-appendix-figure-4", n=8, quick=True, epsilon=0.25, steps=12
    )
    assert ITEMS["unified-appendix-figure-4"] == "saliency"
    assert ITEMS["unified-figure-2"] == "gradcam"
    assert sorted(ITEMS.values()) == sorted(MAPS)
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
    assert set(outcome.shown) <= set(outcome.tables)
    assert outcome.title.startswith("Gradient")


def told_of_maps(more, fall, *, networks=6, typical=True, constant=0):
    """Of intervals of differences, one for each method, and one for all."""
    names = list(MAPS.values())
    similar = pd.DataFrame(
        {"method": names, "same network": 0.6, "same answer": 0.2, "neither": 0.1, "more": 0.4}
    ).assign(low=[low for low, _ in more], high=[high for _, high in more], networks=networks)
    plausible = pd.DataFrame({"metric": "pointing game", "method": names})
    plausible[list(CONDITIONS)] = [0.1, 0.2, 0.6]
    plausible = plausible.assign(fall=0.4, low=fall[0], high=fall[1], networks=networks)
    counted = pd.DataFrame({"method": names}).assign(**dict.fromkeys(CONDITIONS, 0), images=2)
    counted.loc[0, CONDITIONS[2]] = constant
    images = pd.DataFrame({"network": [0, 0], "image": [0, 1], "typical": [typical, False]})
    tables = {"similarities": similar, "plausibility": plausible, "images": images}
    return " ".join(map_findings.findings_of(tables | {"constant": counted}, 0.1, networks))


def test_findings_of_maps_follow_the_tables():
    all_more = told_of_maps([(0.3, 0.5)] * 6, (0.1, 0.7))
    assert "clearly more like the former as the paper says, of every method" in all_more
    assert "lower in the former for every method" in all_more
    assert "1 of 2 images of 6 networks are as the paper's" in all_more
    assert "Constant maps" not in all_more
    mixed = told_of_maps([(0.3, 0.5), (-0.5, -0.3), *[(-0.1, 0.1)] * 4], (-0.1, 0.7))
    assert "of 1 of 6 methods (GradCAM); it is less like it for Excitation BP" in mixed
    assert "lower in the former for no method" in mixed
    assert "higher for GradCAM" in told_of_maps([(0.3, 0.5)] * 6, (-0.7, -0.1))


def test_constant_maps_are_said_by_method_and_condition():
    said = told_of_maps([(0.3, 0.5)] * 6, (0.1, 0.7), constant=1)
    assert (
        "of 2 images: GradCAM 0 (untrained, raw), 0 (untrained, enhanced), 1 (trained, raw). "
        in said
    )


def test_maps_of_images_that_are_not_typical_are_not_said_to_be_of_right_answers():
    usual = told_of_maps([(0.3, 0.5)] * 6, (0.1, 0.7))
    assert "both of which answer rightly" in usual
    other = told_of_maps([(0.3, 0.5)] * 6, (0.1, 0.7), typical=False)
    assert "answer rightly" not in other
    assert "the numbers are of all images" in other


def test_few_networks_or_no_interval_give_no_verdict_on_maps():
    few = told_of_maps([(0.3, 0.5)] * 6, (0.1, 0.7), networks=3)
    assert few.count("With fewer than six networks this is no verdict.") == 2
    assert "clearly" not in few
    single = told_of_maps([(np.nan, np.nan)] * 6, (np.nan, np.nan), networks=1)
    assert "(no interval)" in single
    assert "nan" not in single
    zero = told_of_maps([(0.001, 0.004)] * 6, (0.1, 0.7))  # printed as +0.00 to +0.00
    assert "of 0 of 6 methods" in zero


NET = """
import torch
from torch import nn


def net():
    return nn.Sequential(
        nn.Conv2d(3, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 64, 2)
    )


def fixed():
    with torch.random.fork_rng():
        torch.manual_seed(1234)
        return net()
"""


@pytest.fixture
def folder(tmp_path):
    """Two classes of images, a network and a file with weights for it."""
    from PIL import Image

    for index, name in enumerate(("dark", "light")):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(2):
            pixels = np.full((8, 8, 3), 60 + 120 * index + number, np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.png")
    (tmp_path / "net.py").write_text(NET)
    scope = {}
    exec(NET, scope)
    torch.save(scope["fixed"]().state_dict(), tmp_path / "weights.pt")
    return tmp_path


def settings_of(folder, name="net"):
    return {
        "images": str(folder / "images"),
        "model": f"{folder / 'net.py'}:{name}",
        "weights": str(folder / "weights.pt"),
        "size": 8,
    }


def test_own_twins_differ_by_the_weights_and_leave_the_global_generator_alone(folder):
    before = torch.get_rng_state()
    own = settings_of(folder)
    first, second = given_twins(
        *(own["images"], own["model"], own["weights"], 2, 0, 2), size=8, layer="0", classes=None
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert first.trained is second.trained
    assert not torch.equal(first.untrained[0].weight, second.untrained[0].weight)
    assert len(first.images) == 4
    assert first.objects is None


def test_own_twins_are_enhanced_and_explained(folder):
    own = settings_of(folder)
    table = unified_table_2(n=2, quick=True, steps=2, **own).tables["accuracies"]
    assert set(table.design) == {"images"}
    outcome = unified_enhanced_maps("unified-figure-2", n=2, quick=True, steps=2, layer="0", **own)
    assert "plausibility" not in outcome.tables
    assert outcome.findings[-1].startswith("Where the objects are is not known")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"weights": None}, "weights is None: pass the file of the trained weights"),
        ({"model": "fixed"}, "makes the trained network without weights, too"),
        ({"layer": None}, "layer is None, and GradCAM"),
        ({"epsilon": 0.0}, "epsilon is 0"),
    ],
)
def test_own_networks_that_do_not_fit_are_refused(folder, change, problem):
    settings = settings_of(folder, change.pop("model", "net")) | {"layer": "0"} | change
    with pytest.raises(AttributionLabError, match=problem):
        unified_enhanced_maps("unified-figure-2", n=1, quick=True, steps=1, **settings)


def test_drawn_pictures_have_the_networks_outputs():
    network = untrained_network(DESIGNS["AlexNet-like"], "default", 0)
    assert network(torch.zeros(1, 3, SIDE, SIDE)).shape == (1, CLASSES)
