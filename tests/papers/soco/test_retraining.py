"""Retraining reads what the perturbation says: pictures, regions, accuracies, and the claims."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from attributionlab.papers import items, reproduce
from attributionlab.papers.catalog import Run
from attributionlab.papers.soco import retraining as module
from attributionlab.papers.subjects.drawn_pictures import (
    CLASSES,
    COLORS,
    CONTEXT,
    SIDE,
    Pictures,
    cut_out,
    hidden_in_background,
    pictures,
    regions,
)
from attributionlab.papers.subjects.networks import small_network
from claims_held import all_hold, holds

# Pictures


def test_pictures_are_the_same_for_a_seed_and_differ_between_seeds():
    first, again, other = pictures(5, 0), pictures(5, 0), pictures(5, 1)
    for one, same in zip(first, again, strict=True):
        assert torch.equal(one, same)
    assert not torch.equal(first.images, other.images)
    assert first.images.shape == (5, 3, SIDE, SIDE)
    assert first.images.min() >= 0
    assert first.images.max() <= 1
    assert first.images.dtype == torch.float32


def test_the_middle_of_every_picture_shows_its_class():
    """The object's mean color, to three standard errors of noise of 0.05 over at least 30 pixels."""
    colors = np.array(COLORS)
    images, labels, objects = pictures(60, 0)
    shares = []
    for image, label, inside in zip(images, labels.tolist(), objects[:, 0], strict=True):
        assert int(inside.sum()) >= 30
        found = image[:, inside].mean(dim=1).numpy()
        assert np.abs(colors - found).sum(axis=1).argmin() == label % 5
        rows, columns = (inside.any(dim=side).sum() for side in (1, 0))
        shares.append((label // 5, float(inside.sum() / (rows * columns))))
    discs = [share for shape, share in shares if shape == 0]
    triangles = [share for shape, share in shares if shape == 1]
    assert min(discs) > 0.7 > 0.65 > max(triangles)  # pi / 4, and at most about 1 / 2


@pytest.mark.long
def test_the_background_is_the_class_s_own_as_often_as_it_is_said():
    images, labels, _ = pictures(800, 2)
    # The corners, without the three patches of clutter in most pictures.
    corner = images[:, :, [0, 0, -1, -1], [0, -1, 0, -1]].median(dim=2).values
    angle = 2 * math.pi * (torch.arange(CLASSES)[:, None] / CLASSES + torch.arange(3) / 3)
    palette = 0.45 + 0.25 * torch.cos(angle)  # (10, 3)
    contexts = (corner[:, None] - palette).abs().sum(dim=2).argmin(dim=1)
    share = float((contexts == labels).float().mean())
    # Three standard errors of a share over 800 pictures, and 2 % that noise or clutter misplace.
    assert abs(share - CONTEXT) < 3 * math.sqrt(CONTEXT * (1 - CONTEXT) / 800) + 0.02
    others = contexts[contexts != labels]
    gaps = (others - labels[contexts != labels]) % CLASSES
    assert torch.bincount(gaps, minlength=CLASSES)[1:].min() > 10  # of 36 expected


def test_contrast_mixes_objects_with_their_background():
    full, half = pictures(6, 3), pictures(6, 3, contrast=0.5)
    assert torch.equal(full.objects, half.objects)
    for one, other, inside in zip(full.images, half.images, full.objects[:, 0], strict=True):
        color, mixed = one[:, inside].mean(dim=1), other[:, inside].mean(dim=1)
        background = one.flatten(1).median(dim=1).values
        # Noise of 0.05 over at least 30 pixels has a standard error of 0.009; what is cut off at 1
        # and the median add to it.
        assert torch.allclose(mixed, (color + background) / 2, atol=0.04)


# Regions


def test_all_regions_of_figure_1_remove_the_same_number_of_pixels():
    """round(0.7 x 1024) = 717 = round(0.65 x 1024) + round(0.05 x 1024)."""
    first = regions(SIDE, CLASSES, center=0.7, edge=0)
    second = regions(SIDE, CLASSES, center=0.65, edge=0.05)
    assert first.flatten(1).sum(dim=1).tolist() == [717] * CLASSES
    assert second.flatten(1).sum(dim=1).tolist() == [717] * CLASSES
    assert torch.equal(first[0], first[9])
    assert len({tuple(mask.flatten().tolist()) for mask in second}) == CLASSES


def test_no_pixel_of_an_object_is_left_by_any_disc_of_figure_1():
    objects = pictures(300, 4).objects[:, 0]
    for cut in list(module.STUDIES[module.FIGURE_1].cuts.values())[1:]:
        disc = regions(SIDE, 1, center=cut.center, edge=0)[0]
        assert not (objects & ~disc).any()


def test_regions_of_figure_10_barely_touch_the_object():
    """A region of 51 pixels around a pixel of the frame reaches about 6 pixels inward."""
    found = regions(SIDE, CLASSES, center=0, edge=0.05)
    assert found.flatten(1).sum(dim=1).tolist() == [51] * CLASSES
    assert not found[:, 8:-8, 8:-8].any()
    objects = pictures(200, 5).objects[:, 0]
    assert (objects[:, None] & found).sum() / (CLASSES * objects.sum()) < 0.01


def naive_region(side, places, place, center, edge):
    """Pixels sorted one after the other; the place is reached by walking along the frame."""
    frame = [(0, x) for x in range(side)] + [(y, side - 1) for y in range(1, side)]
    frame += [(side - 1, x) for x in range(side - 2, -1, -1)]
    frame += [(y, 0) for y in range(side - 2, 0, -1)]
    assert len(frame) % places == 0
    row, column = frame[place * len(frame) // places]
    pixels = [(y, x) for y in range(side) for x in range(side)]

    def from_middle(pixel):
        return (2 * pixel[0] - side + 1) ** 2 + (2 * pixel[1] - side + 1) ** 2

    def from_place(pixel):
        return (pixel[0] - row) ** 2 + (pixel[1] - column) ** 2

    taken = sorted(pixels, key=from_middle)[: round(center * side**2)]
    left = sorted([pixel for pixel in pixels if pixel not in taken], key=from_place)
    taken += left[: round(edge * side**2)]
    return [[(y, x) in taken for x in range(side)] for y in range(side)]


@pytest.mark.parametrize(("center", "edge"), [(0.5, 0.1), (0, 0.1), (0.3, 0)])
def test_a_region_is_the_disc_and_then_what_is_nearest_to_its_place(center, edge):
    found = regions(11, 8, center=center, edge=edge)  # 40 pixels in the frame: a place every 5
    for place in range(8):
        assert found[place].tolist() == naive_region(11, 8, place, center, edge)


def test_each_image_loses_the_region_of_its_own_place_and_nothing_else():
    images = torch.rand(3, 2, 8, 8) + 0.1
    places = torch.tensor([3, 0, 1])
    found = cut_out(images, places, 4, center=0.2, edge=0.1)
    masks = regions(8, 4, center=0.2, edge=0.1)
    for before, after, place in zip(images, found, places, strict=True):
        removed = masks[place]
        assert (after[:, removed] == 0).all()
        assert torch.equal(after[:, ~removed], before[:, ~removed])


def test_a_disc_in_the_background_s_color_hides_the_object_and_leaves_the_rest():
    images, _, objects = pictures(40, 6)
    hidden = hidden_in_background(images, center=0.7, seed=0)
    [disc] = regions(SIDE, 1, center=0.7, edge=0)
    assert torch.equal(hidden[:, :, ~disc], images[:, :, ~disc])
    assert torch.equal(hidden, hidden_in_background(images, center=0.7, seed=0))
    assert not torch.equal(hidden, hidden_in_background(images, center=0.7, seed=1))
    corner = images[:, :, ~disc].median(dim=2).values
    for image, inside, color in zip(hidden, objects[:, 0], corner, strict=True):
        # Three and a half standard errors of noise of 0.05 over at least 30 pixels, a little less
        # where it is cut off at 0 or 1.
        assert int(inside.sum()) >= 30
        assert torch.allclose(image[:, inside].mean(dim=1), color, atol=3.5 * 0.05 / 30**0.5)
        assert float(image[:, inside].std(dim=1).min()) > 0.03


# Experiments


@pytest.fixture(scope="module")
def one():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROAD_SHARE", 0.08)
        patch.setattr(module, "ROAD_EPOCHS", 0.25)
        patch.setattr(module, "FRACTIONS", (0.2, 0.5))
        return module.retrained_networks(
            Run(module.FIGURE_1, n=1), road_networks=1, train_images=250, epochs=8, contrast=1
        )


@pytest.mark.long
def test_retraining_learns_the_class_from_the_place_and_not_from_random_places(one):
    table = one.tables["summary"].set_index(["trained_on", "tested_on"])
    right, follows = table["mean"], table.follows_place
    assert right["strategy 2", "strategy 2"] > 0.9
    assert right["strategy 1", "strategy 1"] < 0.75
    assert right["random places", "random places"] < 0.75
    assert right["strategy 2", "random places"] < 0.3
    assert follows["strategy 2", "random places"] > 0.9
    assert follows["strategy 1", "random places"] < 0.3
    assert follows[[pair for pair in follows.index if pair[1] != "random places"]].isna().all()


@pytest.mark.long
def test_tables_have_every_pair_of_sets_and_what_is_published_and_possible(one):
    networks, summary = one.tables["networks"], one.tables["summary"]
    assert len(networks) == len(summary) == 17
    [control] = summary[summary.tested_on == "disc as background"].to_dict("records")
    assert control["trained_on"] == "unperturbed"
    first, second, whole = "strategy 1", "strategy 2", "unperturbed"
    published = summary.set_index(["trained_on", "tested_on"]).published.dropna()
    known = {(first, first): 0.60, (second, second): 0.88, (whole, first): 0.24}
    assert published.to_dict() == known | {(whole, second): 0.29}
    possible = summary.groupby("tested_on").possible.agg(["min", "max"])
    assert (possible["min"] == possible["max"]).all()
    by_background = {first, "random places", "disc as background"}
    assert {name for name, most in possible["max"].items() if most < 1} == by_background
    assert set(possible["max"]) == {CONTEXT, 1}
    assert [len(axis.get_title()) > 0 for axis in one.figures["accuracies"].axes] == [True] * 4


@pytest.mark.long
def test_road_has_every_method_order_and_retraining(one):
    each, table = one.tables["road-each"], one.tables["road"]
    keys = ["order", "retrained", "method"]
    assert len(table[keys].drop_duplicates()) == len(table) == len(each) == 2 * 2 * 3
    for (order, _), rows in table.groupby(["order", "retrained"]):
        best = rows.road.min() if order == "morf" else rows.road.max()
        assert (rows.road[rows["rank"] == rows["rank"].min()] == best).all()
        assert rows["rank"].sum() == 6
    assert [len(axis.lines) for axis in one.figures["road"].axes] == [3, 3, 3, 3]
    assert "1 network" in one.figures["road"].get_suptitle()
    along = one.tables["road-curves"]
    for row in each.itertuples():
        line = along[(along[keys] == [row.order, row.retrained, row.method]).all(axis=1)]
        assert line.removed.tolist() == [0.2, 0.5]
        assert row.road == pytest.approx(line.accuracy.mean())


def test_road_explains_and_retrains_networks_of_one_seed_on_known_images(monkeypatch):
    trained, scored = [], []

    def fake_training(images, labels, *, classes, seed, epochs):
        trained.append((images, seed, epochs))
        return small_network(3, classes, SIDE, seed=0).eval()

    def fake_curve(network, images, labels, maps, *, retraining, **settings):
        scored.append((maps, retraining, settings))
        return [0.0] * 3, 0.25

    monkeypatch.setattr(module, "trained_small_network", fake_training)
    monkeypatch.setattr(module, "road_curve", fake_curve)
    train, test = (
        module.Images(*pictures(n, n)[:2], torch.zeros(n, dtype=torch.int64), 0) for n in (4, 3)
    )
    rows = module.road_rows(train, test, seed=5, epochs=2)[::3]  # one of three fractions
    assert len(trained) == 1
    assert trained[0][1:] == (5, 2)
    assert torch.equal(trained[0][0], train[0])
    assert [row["road"] for row in rows] == [0.25] * 12
    for row, (maps, retraining, settings) in zip(rows, scored, strict=True):
        assert (retraining is not None) == row["retrained"]
        assert settings["order"] == row["order"]
        assert maps.shape == (3, 1, SIDE, SIDE)
        if retraining is not None:
            assert torch.equal(retraining.images, train[0])
            assert retraining.attributions.shape == (4, 1, SIDE, SIDE)
            assert not torch.equal(retraining.attributions[:3], maps)
            retraining.fit(*test[:2])
            assert trained[-1][1:] == (5, 2)
    by_method = {row["method"]: maps for row, (maps, *_) in zip(rows, scored, strict=True)}
    assert (by_method["IG"] < 0).any()
    assert (by_method["GradCAM"] >= 0).all()
    assert float(by_method["random"].mean()) == pytest.approx(0.5, abs=0.03)


@pytest.fixture
def recorded(monkeypatch):
    """Trainings that are not carried out: what the networks would have seen, and their seeds."""
    seen = []

    def fake(images, labels, *, classes, seed, epochs):
        seen.append((images, labels, seed, epochs))
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(images[0].numel(), classes))

    monkeypatch.setattr(module, "trained_small_network", fake)
    return seen


def test_each_network_has_a_seed_and_pictures_of_its_own(recorded):
    found = module.retrained_networks(Run(module.FIGURE_10, n=2, seed=3), train_images=4, epochs=2)
    assert [(seed, epochs) for _, _, seed, epochs in recorded] == [(3, 2)] * 3 + [(4, 2)] * 3
    whole, by_class, random = (images for images, *_ in recorded[:3])
    labels = recorded[0][1]
    assert torch.equal(by_class, cut_out(whole, labels, CLASSES, center=0, edge=0.05))
    assert not torch.equal(random, by_class)
    assert torch.equal(random == 0, (random == 0).all(dim=1, keepdim=True).expand_as(random))
    assert not torch.equal(whole, recorded[3][0])
    assert sorted(set(found.tables["networks"].seed)) == [3, 4]
    assert set(found.figures) == {"samples", "accuracies"}


@pytest.mark.long
def test_no_picture_to_train_on_is_one_to_test_on(recorded, monkeypatch):
    tested = []

    def fake(network, images, labels):
        tested.append(images)
        return 0.5

    monkeypatch.setattr(module, "accuracy_of", fake)
    module.retrained_networks(Run(module.FIGURE_10, n=2), train_images=4)
    known = {tuple(image.flatten().tolist()) for images, *_ in recorded for image in images}
    assert not known & {tuple(image.flatten().tolist()) for images in tested for image in images}


@pytest.mark.long
def test_numbers_have_defaults_and_quick_is_less(recorded, monkeypatch):
    def blank(n, seed, contrast):
        labels = torch.arange(n) % CLASSES
        return Pictures(
            torch.ones(n, 3, SIDE, SIDE), labels, torch.ones(n, 1, SIDE, SIDE, dtype=torch.bool)
        )

    monkeypatch.setattr(module, "pictures", blank)
    monkeypatch.setattr(module, "_figures", lambda *_: {})
    reproduce(module.FIGURE_10, quick=True)
    assert len(recorded) == 2 * 3
    assert {(len(images), epochs) for images, _, _, epochs in recorded} == {(500, 8)}
    recorded.clear()
    reproduce(module.FIGURE_10, n=1)
    assert {len(images) for images, *_ in recorded} == {2000}
    recorded.clear()
    reproduce(module.FIGURE_10, settings={"train_images": 20})
    assert len(recorded) == 5 * 3


@pytest.mark.long
def test_images_of_cifar_10_are_used_where_their_folder_is_given(recorded, tmp_path, monkeypatch):
    sizes = []

    def fake(train, test, *, seed, epochs):
        sizes.append((len(train.images), len(test.images), seed, epochs))
        return road_table((0.2, 0.3, 0.4)).assign(removed=0.1, accuracy=0.5).to_dict("records")

    monkeypatch.setattr(module, "road_rows", fake)
    rng = np.random.default_rng(0)
    for name in [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]:
        records = rng.integers(256, size=(4, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        (tmp_path / name).write_bytes(records.tobytes())
    found = module.retrained_networks(
        Run(module.FIGURE_1, n=1), road_networks=1, images=str(tmp_path)
    )
    assert {(len(images), epochs) for images, _, _, epochs in recorded} == {(20, 35)}
    assert sizes == [(5, 1, 0, 52)]
    assert "possible" not in found.tables["summary"]
    assert "CIFAR-10, 20 to train, 4 to test" in found.figures["accuracies"].get_suptitle()
    assert list(all_hold(found.tables, module.FIGURE_1).values()).count("undecided") == 3
    recorded.clear()
    module.retrained_networks(Run(module.FIGURE_1, n=1), images=str(tmp_path), train_images=8)
    assert {len(images) for images, *_ in recorded} == {8}


# Claims


def road_table(retrained, other=None):
    """Two networks: all without retraining, and the second's retrained, 0.1 apart."""
    return pd.DataFrame(
        {"seed": seed, "order": order, "retrained": with_it, "method": method, "intact": 0.8}
        | {"road": height}
        for seed, found in enumerate((retrained, other or retrained))
        for order in ("morf", "lerf")
        for with_it, heights in ((False, (0.2, 0.3, 0.4)), (True, found))
        for method, height in zip(("IG", "GradCAM", "random"), heights, strict=True)
    )


def test_orders_of_methods_are_compared_by_network_and_by_their_means():
    table = module._road_orders(road_table((0.1, 0.2, 0.6))).set_index("order")
    assert table.without.to_dict() == {
        "morf": "IG - GradCAM - random",
        "lerf": "random - GradCAM - IG",
    }
    assert (table.without == table["with"]).all()
    assert table[["changed", "networks", "intact"]].to_numpy().tolist() == [[0, 2, 0.8]] * 2
    assert module.retraining_changes_the_order({"road-orders": table}) is False
    table = module._road_orders(road_table((0.1, 0.2, 0.6), (0.4, 0.2, 0.6))).set_index("order")
    assert table["with"]["morf"] == "GradCAM - IG - random"
    assert table["with"]["lerf"] == "random - IG - GradCAM"
    assert table.changed.tolist() == [1, 1]
    assert module.retraining_changes_the_order({"road-orders": table}) is True
    assert module.retraining_changes_the_order({}) is None


def tables_of(item, found, follows=0.7, spread=0.01):
    """Tables of two networks, 0.01 below and above the given accuracies; the rest are 0.5."""
    study = module.STUDIES[item]
    pairs = [(a, b) for a in study.cuts for b in study.cuts]
    pairs += [("unperturbed", name) for name in study.control]
    networks = pd.DataFrame(
        {
            "seed": seed,
            "trained_on": pair[0],
            "tested_on": pair[1],
            # Means differ by the accuracies; their networks by twice the spread where one rises.
            "accuracy": found.get(pair, 0.5) + (spread if seed else -spread) * (pair in found),
            "follows_place": follows if pair[1] == "random places" else np.nan,
        }
        for seed in (0, 1)
        for pair in pairs
    )
    return {
        "summary": module._summary(networks, study, True),
        "differences": module._differences(networks, study),
    }


ONE, TWO, RANDOM = (("strategy 1",) * 2, ("strategy 2",) * 2, ("random places",) * 2)
ORIGINAL, FILLED = ("unperturbed", "strategy 1"), ("unperturbed", "disc as background")
AS_FOUND = {ONE: 0.6, TWO: 0.9, RANDOM: 0.6, ORIGINAL: 0.2, FILLED: 0.25}
NORMAL, BY_CLASS = ("unperturbed",) * 2, ("place by class", "unperturbed")
AS_FOUND_10 = {NORMAL: 0.9, BY_CLASS: 0.6, ("random places", "unperturbed"): 0.9}


@pytest.mark.parametrize(
    ("check", "changed", "expected"),
    [
        ("place_by_class_costs", {}, True),
        ("place_by_class_costs", {BY_CLASS: 0.88}, False),
        ("lost_pixels_cost_nothing", {}, True),
        ("lost_pixels_cost_nothing", {("random places", "unperturbed"): 0.7}, False),
        ("lost_pixels_cost_nothing", {BY_CLASS: 0.88}, False),
        ("place_is_read", {("place by class", "random places"): 0.8}, False),
        ("strategies_differ", {}, True),
        ("strategies_differ", {TWO: 0.62}, False),
        ("random_places_add_nothing", {}, True),
        ("random_places_add_nothing", {RANDOM: 0.8}, False),
        ("random_places_add_nothing", {RANDOM: 0.4}, False),
        ("place_is_read", {}, True),
        ("place_is_read", {("strategy 2", "random places"): 0.8}, False),
        ("strategy_1_reaches_the_possible", {}, True),
        ("strategy_1_reaches_the_possible", {ONE: 0.4}, False),
        ("strategy_2_puts_information_in", {}, True),
        ("strategy_2_puts_information_in", {TWO: 0.62}, False),
        ("original_networks_do_not_tell_either", {}, True),
        ("original_networks_do_not_tell_either", {ORIGINAL: 0.6}, False),
        ("original_networks_do_not_tell_either", {FILLED: 0.6}, False),
    ],
)
def test_claims_follow_the_accuracies(check, changed, expected):
    of_10 = "cost" in check or any("place by class" in pair for pair in changed)
    item, found = (module.FIGURE_10, AS_FOUND_10) if of_10 else (module.FIGURE_1, AS_FOUND)
    answer = "agrees" if expected else "differs"
    assert holds(tables_of(item, found | changed), check) == answer


def test_networks_that_do_not_agree_decide_nothing():
    found = tables_of(module.FIGURE_1, {**AS_FOUND, TWO: 0.7})
    found["differences"].loc[0, "min"] = 0.01
    assert module.strategies_differ(found) is None


def test_differences_are_within_a_seed():
    table = tables_of(module.FIGURE_1, AS_FOUND)["differences"]
    assert table["mean"].tolist() == pytest.approx([0.3, 0.0, 0.05])
    assert (table["max"] - table["min"]).tolist() == pytest.approx([0.0] * 3)
    assert table.published[0] == pytest.approx(0.28)
    assert table.published[1:].isna().all()
    table = tables_of(module.FIGURE_10, AS_FOUND_10)["differences"]
    assert table.published[0] == pytest.approx(0.565)


def test_the_notes_state_the_share_of_backgrounds_that_are_the_class_s_own():
    said = f"belongs to the class in {CONTEXT:.0%} of".replace("%", " %")
    assert any(said in note for note in items()[module.FIGURE_1].notes)
