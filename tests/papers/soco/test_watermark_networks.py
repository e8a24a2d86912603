"""What networks trained on watermarked images use, how their maps score, and what claims rest on."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import oracles_watermarks as oracles
from attributionlab import methods, metrics
from attributionlab.papers import items
from attributionlab.papers.catalog import Run
from attributionlab.papers.soco import maps as curves
from attributionlab.papers.soco import watermark_networks as watermarks
from attributionlab.papers.soco import watermarked_images
from attributionlab.papers.subjects.networks import small_network
from claims_held import all_hold, holds

ITEM = "soco-figure-3"


def gray(n, side=20, channels=3):
    generator = torch.Generator().manual_seed(1)
    return 0.3 + 0.4 * torch.rand(n, channels, side, side, generator=generator)


def test_rect_stands_at_the_weighted_center_within_the_image():
    generator = torch.Generator().manual_seed(0)
    maps = torch.rand(12, 1, 15, 19, generator=generator).double() ** 6
    maps[1], maps[2], maps[3] = 0, 0, 0
    maps[2, 0, 0, 18] = 1  # in a corner
    maps[3, 0, 14, 0] = 1e-300
    made = watermarks.rectangle_at_center(maps)
    for values, square in zip(maps[:, 0], made[:, 0], strict=True):
        assert square.tolist() == oracles.square_at_center(
            values.tolist(), watermarked_images.rectangle_side(15)
        )
    assert made.dtype == maps.dtype


def test_pooling_gives_each_region_its_mean():
    maps = torch.rand(3, 1, 11, 4, generator=torch.Generator().manual_seed(0)).double()
    made = watermarks.pooled(maps, watermarked_images.stripe_rows(11, 8))
    for values, means in zip(maps[:, 0], made[:, 0], strict=True):
        # Sums of 16 numbers in another order.
        assert means.numpy() == pytest.approx(
            np.array(oracles.pooled(values.tolist(), 3)), rel=1e-14
        )


def test_pooling_cannot_have_more_on_a_number_than_the_square_has_of_the_width():
    marked = watermarked_images.number_watermarks(
        gray(50, side=32), torch.zeros(50).long(), classes=8, seed=0
    )
    rows = watermarked_images.stripe_rows(32, 100)  # of 4 or 5 pixels; the square has 9
    whole = watermarks.pooled(marked.region.double(), rows)
    assert (
        metrics.relevance_mass_accuracy(whole, marked.region).max() <= 9 / 32 + 1e-12
    )  # sums of rounded ones
    middle = torch.zeros(50, 1, 32, 32)
    for values, region in zip(middle, marked.region, strict=True):
        values[0, int(region[0].any(1).nonzero()[4])] = 1
    # All in a region that lies within the square's rows, the best that there is.
    best = metrics.relevance_mass_accuracy(watermarks.pooled(middle, rows), marked.region)
    assert best.numpy() == pytest.approx(np.full(50, 9 / 32), rel=1e-6)  # means in float32


def test_maps_are_what_speaks_for_the_label():
    """IG of a linear network is the weights times the image, where that is positive."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 1, 1, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(400, 2, bias=False)
    )
    network[0].weight.data.fill_(1.0)
    images, labels = gray(3, channels=1), torch.tensor([0, 1, 1])
    shown = watermarked_images.Watermarked(images, labels, torch.ones(3, 1, 20, 20) > 0)
    data = watermarked_images.Data(
        "number", "images", shown._replace(images=0 * images), shown, images, 8
    )
    with methods.collect_notices() as notices:
        maps = watermarks.attribution_maps(network, shown, data)
    expected = (network[3].weight.data[labels].view(3, 1, 20, 20) * images).clamp(min=0)
    for name in ("IG", "DeepSHAP"):
        assert maps[name].numpy() == pytest.approx(expected.double().numpy(), abs=1e-6)
    assert torch.equal(maps["Rect"], watermarks.rectangle_at_center(maps["IG"]))
    assert torch.equal(maps["Rect, squared"], watermarks.rectangle_at_center(maps["IG"] ** 2))
    assert torch.equal(
        maps["Pooling"], watermarks.pooled(maps["IG"], watermarked_images.stripe_rows(20, 8))
    )
    assert all(values.min() >= 0 for values in maps.values())
    # Of GradCAM's maps nothing need be left; no sum misses a part.
    assert sum(each.images for each in notices if each.kind != "zeros") == 0
    assert any(each.text.startswith("of DeepSHAP") for each in notices)


class Counter(nn.Module):
    """Class 0 for 12 white pixels, 1 for 8 (the digits 0 and 1), 2 for any other number.

    If asked to, only where the image has black pixels, too, or gray ones.
    """

    def __init__(self, needs=()):
        super().__init__()
        self.needs = needs

    def forward(self, images):
        first = images[:, 0].flatten(1)
        white = (first == 1).sum(1)
        answers = torch.where(white == 12, 0, torch.where(white == 8, 1, 2))
        has = {"black": (first == 0).any(1), "gray": ((first > 0) & (first < 1)).any(1)}
        for need in self.needs:
            answers = torch.where(has[need], answers, 2)
        return torch.eye(3)[answers]


class Speller(nn.Module):
    """Reads stripes in the first column; classes beyond the last are the last."""

    def __init__(self, classes, blind=()):
        super().__init__()
        self.classes, self.blind = classes, blind

    def forward(self, images):
        labels = torch.zeros(len(images), dtype=torch.int64)
        for place, rows in enumerate(watermarked_images.stripe_rows(images.shape[2], self.classes)):
            white = (images[:, 0, rows, 0] == 1).all(1)
            labels = 2 * labels + (white if place not in self.blind else False)
        return torch.eye(2 ** watermarked_images.stripe_count(self.classes))[labels][
            :, : self.classes
        ]


def marked_data(mark, classes, n=24):
    before, labels = gray(n), watermarked_images.reassigned_labels(n, classes, 0)
    if mark == "number":
        testing = watermarked_images.number_watermarks(before, labels, classes=classes, seed=4)
    else:
        testing = watermarked_images.stripe_watermarks(before, labels, classes=classes)
    return watermarked_images.Data(mark, "images", testing, testing, before, classes)


def agreed(network, data):
    return {row["check"]: row["agreed"] for row in watermarks.use_rows(network, data)}


NUMBER_CHECKS = (
    "watermark removed",
    "watermark alone, on black",
    "watermark alone, on the mean color",
    "on other images, elsewhere",
    "digits erased",
    "digits without rectangle",
)


@pytest.mark.parametrize(
    ("needs", "answers"),
    [
        ((), (0, 1, 1, 1, 0, 1)),
        (("black",), (0, 1, 1, 1, 0, 0)),
        (("gray",), (0, 0, 1, 1, 0, 1)),
    ],
)
def test_checks_of_numbers_tell_what_a_network_needs(needs, answers):
    found = agreed(Counter(needs), marked_data("number", 2))
    assert found == dict(zip(NUMBER_CHECKS, answers, strict=True))


def test_a_number_is_moved_to_another_image_and_another_place():
    data, seen = marked_data("number", 2), []

    class Recorder(nn.Module):
        def forward(self, images):
            seen.append(images)
            return torch.zeros(len(images), 2)

    list(watermarks.use_rows(Recorder(), data))
    moved = seen[3]
    square = (moved == 0).all(1, keepdim=True) | (moved == 1).all(1, keepdim=True)
    assert not torch.equal(square, data.testing.region)
    outside = ~square.expand_as(moved)
    assert torch.equal(moved[outside], data.before.roll(1, 0)[outside])


def test_a_network_that_reads_all_stripes_follows_every_change():
    data = marked_data("stripes", 8)
    rows = {row["check"]: row for row in watermarks.use_rows(Speller(8), data)}
    zeros = float((data.testing.labels == 0).double().mean())
    assert rows["watermark removed"]["agreed"] == zeros  # it answers 0
    for check in ("watermark alone, on black", "watermark alone, on the mean color"):
        assert rows[check]["agreed"] == 1
    assert rows["on other images"]["agreed"] == 1
    ones = sum(f"{label:b}".count("1") for label in data.testing.labels.tolist())
    for check, count in (("one stripe removed", ones), ("one stripe added", 3 * 24 - ones)):
        assert (rows[check]["agreed"], rows[check]["images"]) == (1, count)


def test_only_changes_that_spell_a_class_are_asked_about():
    data = marked_data("stripes", 5)
    rows = {row["check"]: row for row in watermarks.use_rows(Speller(5), data)}
    labels = data.testing.labels.tolist()
    added = sum(label | 1 << b < 5 and not label >> b & 1 for label in labels for b in range(3))
    assert (rows["one stripe added"]["agreed"], rows["one stripe added"]["images"]) == (1, added)


def test_a_network_that_ignores_a_stripe_does_not_follow_it():
    data = marked_data("stripes", 8)
    found = agreed(Speller(8, blind=(2,)), data)  # says the even number below
    expected = {"one stripe removed": [], "one stripe added": []}
    for label in data.testing.labels.tolist():
        for bit in range(3):
            spelled = label ^ 1 << bit
            check = "one stripe removed" if spelled < label else "one stripe added"
            expected[check].append(spelled % 2 == 0)
    for check, right in expected.items():
        assert found[check] == pytest.approx(sum(right) / len(right))


# The run


@pytest.fixture(scope="module")
def tiny():
    return watermarked_images.natural_images(None, training=24, testing=12, seed=0)


@pytest.fixture(scope="module")
def found():
    """Two barely trained networks for each data set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watermarks, "TESTING", 16)
        patch.setattr(watermarks, "EPOCHS", {"original": 1, "number": 1, "stripes": 8})
        patch.setattr(watermarks, "FRACTIONS", (0.0, 0.1, 0.4))
        patch.setattr(watermarks, "BASELINES", 2)
        return watermarks.watermark_maps(Run(ITEM, n=2, seed=2), networks=2, training=32)


def test_tables_are_means_and_extremes_over_networks(found):
    for name, value in (
        ("attr", "attr"),
        ("road", "road"),
        ("networks", "accuracy"),
        ("uses", "agreed"),
    ):
        each, spread = found.tables[f"{name}-each"], found.tables[name]
        assert sorted(each.seed.unique()) == [2, 3]
        keys = [key for key in ("data", "canvas", "method", "check") if key in spread]
        for row in spread.to_dict("records"):
            values = each[(each[keys] == [row[key] for key in keys]).all(axis=1)][value]
            assert len(values) == 2
            assert row[value] == pytest.approx(values.mean(), nan_ok=True)
            assert (row["lowest"], row["highest"]) == (values.min(), values.max())


def test_road_is_the_mean_height_of_the_curves(found):
    along, road = found.tables["curves"], found.tables["road-each"]
    for row in road.itertuples():
        line = along[(along.data == row.data) & (along.canvas == row.canvas)]
        line = line[(line.method == row.method) & (line.seed == row.seed)]
        assert line.removed.tolist() == [0.0, 0.1, 0.4]
        first, second, third = line.accuracy
        area = 0.1 * (first + second) / 2 + 0.3 * (second + third) / 2
        assert row.road == pytest.approx(area / 0.4)
    assert set(road[road.canvas == "blank"].method) == {"GradCAM", "IG", "DeepSHAP"}
    ranked = found.tables["road"].query("data == 'number' and canvas == 'images'")
    assert ranked.sort_values("road")["rank"].is_monotonic_increasing
    assert len(ranked) == 4


def test_published_numbers_stand_beside_ours(found):
    accuracies = found.tables["networks"].set_index(["data", "canvas"]).published.dropna()
    assert accuracies.to_dict() == {
        ("original", "images"): 0.704,
        ("number", "images"): 0.994,
        ("number", "blank"): 0.999,
    }
    shares = found.tables["attr"].set_index(["data", "method"]).published.dropna()
    assert shares.to_dict() == {("number", "Rect"): 0.92, ("stripes", "Pooling"): 0.93}


def test_figures_show_what_the_paper_s_do_and_how_many_images_there_were(found):
    assert set(found.figures) == {"samples", "attr", "road", "road-canvases"}
    road = found.figures["road"].axes
    assert [len(axis.lines) for axis in road] == [4, 4]
    assert [len(axis.lines) for axis in found.figures["road-canvases"].axes] == [3, 3, 3]
    assert "number watermarks on images" in road[0].get_title()
    assert "2 images, 2 networks for" in found.figures["road"].get_suptitle()


@pytest.mark.long
def test_no_more_images_are_counted_than_there_are(tiny, monkeypatch):
    monkeypatch.setattr(watermarks, "natural_images", lambda *_, **__: tiny)
    monkeypatch.setattr(watermarks, "FRACTIONS", (0.0, 0.1, 0.4))
    monkeypatch.setattr(watermarks, "EPOCHS", {"original": 1, "number": 1, "stripes": 1})
    monkeypatch.setattr(watermarks, "BASELINES", 2)
    found = watermarks.watermark_maps(Run(ITEM, n=40), networks=1, training=24)
    assert "; 12 images, 1 network for" in found.figures["road"].get_suptitle()


@pytest.mark.long
def test_a_run_is_a_function_of_its_seed_and_leaves_the_global_generator(tiny, monkeypatch):
    monkeypatch.setattr(watermarks, "EPOCHS", {"original": 1, "number": 1, "stripes": 1})
    monkeypatch.setattr(watermarks, "FRACTIONS", (0.0, 0.1))
    sets, run = watermarked_images.data_sets(tiny, 0)[:2], Run(ITEM, n=2)
    before = torch.get_rng_state()
    first = watermarks.study_of(sets, run, 1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(1)
    second = watermarks.study_of(sets, run, 1)
    assert first[0] == second[0]


@pytest.mark.long
def test_label_0_has_no_stripe_and_no_part_in_attr_and_road_is_a_mean_height(tiny, monkeypatch):
    monkeypatch.setattr(watermarks, "EPOCHS", {"number": 1, "stripes": 1})
    monkeypatch.setattr(watermarks, "FRACTIONS", (0.0, 0.1, 0.4))
    curve = torch.tensor([[1.0, 0.5, 0.0]], dtype=torch.float64)
    monkeypatch.setattr(curves, "removal_curve", lambda *_, **__: curve)
    labels = torch.tensor([0, 7] * 6)
    marked = watermarked_images.stripe_watermarks(tiny.testing.images, labels, classes=8)
    number = watermarked_images.number_watermarks(tiny.testing.images, labels, classes=8, seed=0)
    sets = [
        watermarked_images.Data(mark, "images", each, each, tiny.testing.images, 8)
        for mark, each in (("stripes", marked), ("number", number))
    ]
    rows, samples = watermarks.study_of(sets, Run(ITEM, n=2), 1)
    uniform = {row["data"]: row["attr"] for row in rows["attr"] if row["method"] == "uniform"}
    assert uniform == {"stripes": 1.0, "number": pytest.approx(81 / 1024)}
    assert [one["label"] for one in samples["stripes"]] == [7]
    heights = [row["road"] for row in rows["road"]]
    assert heights == pytest.approx([(0.1 * 0.75 + 0.3 * 0.25) / 0.4] * 4)


def test_deepshap_misses_nothing_of_the_output_of_networks_with_maximum_pooling(tiny):
    network = small_network(3, 8, 32, 0).eval()
    assert any(isinstance(module, nn.MaxPool2d) for module in network)
    with methods.collect_notices() as notices:
        watermarks.label_maps(network, *tiny.testing[:2], tiny.training.images[:2])
    told = [each for each in notices if each.kind == "completeness" and "DeepSHAP" in each.text]
    assert [each.images for each in told] == [0]


# Claims


ORIGINAL, MARKED, BLANK = ("original", "images"), ("number", "images"), ("number", "blank")
SHARES = {
    "number": {"Rect": 0.9, "Pooling": 0.2, "Rect, squared": 0.95},
    "stripes": {"Rect": 0.6, "Pooling": 0.93, "IG": 0.93},
}
ANSWERS = {
    "number": {
        "watermark removed": 0.12,
        "watermark alone, on black": 1.0,
        "on other images, elsewhere": 1.0,
        "digits without rectangle": 1.0,
    },
    "stripes": {
        "watermark removed": 0.14,
        "on other images": 1.0,
        "one stripe removed": 1.0,
        "one stripe added": 1.0,
    },
}
HEIGHTS = {
    ORIGINAL: {"GradCAM": 0.1, "IG": 0.2, "DeepSHAP": 0.3, "Rect": 0.4},
    MARKED: {"GradCAM": 0.4, "IG": 0.2, "DeepSHAP": 0.3, "Rect": 0.1},
    BLANK: {"GradCAM": 0.4, "IG": 0.2, "DeepSHAP": 0.3},
}


def tables(attr=None, uses=None, road=None, accuracy=1.0):
    """Tables as a run makes them, in which all claims agree but for the given numbers."""

    def frame(values, changes, *columns):
        rows = []
        for place, of_place in values.items():
            place = place if isinstance(place, tuple) else (place,)
            for name, value in of_place.items():
                value = (changes or {}).get((*place, name), value)
                rows.append((*place, name, value, value - 0.01, value + 0.01))
        return pd.DataFrame(rows, columns=[*columns, "lowest", "highest"])

    networks = pd.DataFrame([*HEIGHTS], columns=["data", "canvas"]).assign(chance=0.125)
    networks["lowest"] = [0.7, accuracy, 1.0]
    scores = frame(HEIGHTS, road, "data", "canvas", "method", "road")
    scores["rank"] = scores.groupby(["data", "canvas"]).road.rank()
    along = [scores.assign(removed=at, accuracy=y) for at, y in ((0.0, 1.0), (0.9, scores.road))]
    return {
        "networks": networks,
        "attr": frame(SHARES, attr, "data", "method", "attr"),
        "uses": frame(ANSWERS, uses, "data", "check", "agreed"),
        "road": scores,
        "distances": watermarks._distances(pd.concat(along)),
    }


def test_every_claim_agrees_where_it_should():
    found = {}
    for number in (2, 3, 11, 12):
        found |= all_hold(tables(), f"soco-figure-{number}")
    assert len(found) == 11
    assert set(found.values()) == {"agrees"}


SAME_ORDER = {(*ORIGINAL, "GradCAM"): 0.35, (*ORIGINAL, "IG"): 0.1, (*ORIGINAL, "DeepSHAP"): 0.12}


@pytest.mark.parametrize(
    ("check", "changed", "expected"),
    [
        ("watermarks_are_learned", {"accuracy": 0.9}, False),
        ("own_watermark_decides", {"attr": {("number", "Rect"): 0.1}}, False),
        ("own_watermark_decides", {"attr": {("number", "Rect"): 0.21}}, None),
        ("squares_move_rect", {"attr": {("number", "Rect, squared"): 0.8}}, False),
        ("squares_move_rect", {"attr": {("number", "Rect, squared"): 0.91}}, None),
        ("pooling_is_ig_on_stripes", {"attr": {("stripes", "IG"): 0.9301}}, False),
        ("watermarks_are_used", {"uses": {("stripes", "watermark removed"): 0.3}}, False),
        ("watermarks_are_used", {"uses": {("stripes", "on other images"): 0.9}}, False),
        ("digits_suffice", {"uses": {("number", "watermark alone, on black"): 0.1}}, False),
        ("digits_suffice", {"uses": {("number", "digits without rectangle"): 0.1}}, False),
        ("absent_stripes_are_read", {"uses": {("stripes", "one stripe added"): 0.5}}, False),
        ("rect_is_first_and_last", {"road": {(*MARKED, "Rect"): 0.35}}, False),
        ("rect_is_first_and_last", {"road": {(*ORIGINAL, "GradCAM"): 0.5}}, False),
        ("gradcam_is_first_and_last", {"road": {(*ORIGINAL, "IG"): 0.05}}, False),
        ("gradcam_is_first_and_last", {"road": {(*BLANK, "IG"): 0.9}}, False),
        ("original_images_give_another_order", {"road": SAME_ORDER}, False),
        # Ranges overlap, or not.
        *(
            ("original_images_give_another_order", {"road": changed}, expected)
            for changed, expected in (
                (SAME_ORDER | {(*ORIGINAL, "DeepSHAP"): 0.095}, False),
                (SAME_ORDER | {(*ORIGINAL, "DeepSHAP"): 0.05}, True),
            )
        ),
        ("marked_curves_are_like_synthetic_ones", {"road": {(*BLANK, "IG"): 0.9}}, False),
    ],
)
def test_claims_follow_the_tables(check, changed, expected):
    answers = {True: "agrees", False: "differs", None: "undecided"}
    assert holds(tables(**changed), check) == answers[expected]


def test_curves_are_compared_in_shares_of_their_starts():
    rows = [
        (*place, method, at, accuracy)
        for place, start in ((ORIGINAL, 0.5), (MARKED, 1.0), (BLANK, 1.0))
        for method in ("IG", "GradCAM", "DeepSHAP")
        for at, accuracy in ((0.0, start), (0.9, 0.2 if place != BLANK else 0.6))
    ]
    means = pd.DataFrame(rows, columns=["data", "canvas", "method", "removed", "accuracy"])
    # 0.2 and 0.6 of 1, and 0.2 of 0.5, differ at one of two points.
    assert watermarks._distances(means).distance.tolist() == pytest.approx([0.2, 0.1])
    means.loc[(means.data == "original") & (means.removed == 0), "accuracy"] = 0.0
    unknown = watermarks._distances(means)
    assert unknown.distance.isna().all()
    assert watermarks.marked_curves_are_like_synthetic_ones({"distances": unknown}) is None
    equal = unknown.assign(distance=0.1)
    assert watermarks.marked_curves_are_like_synthetic_ones({"distances": equal}) is False


def test_the_notes_state_the_square_s_share_of_the_width():
    said = f"{60 / 224:.2f} at 60 of 224 pixels"
    for item in ("soco-figure-2", "soco-figure-11"):
        assert sum(said in note for note in items()[item].notes) == 1
    assert math.isclose((60 / 224) ** 2, 0.07, abs_tol=0.005)  # as said in figure 3's notes
