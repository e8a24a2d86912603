"""Metrics and truth are about the same maps, and score what known maps must score."""

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.methods.declaration import declares
from attributionlab.metrics import subset_effects
from attributionlab.papers.attributionlab import perturbation_study
from attributionlab.papers.attributionlab.paper_ranks import AREAS, RANKS
from attributionlab.papers.attributionlab.perturbation_findings import findings
from attributionlab.papers.attributionlab.perturbation_study import (
    constant_by_ties,
    magnitude_of,
    maps_of,
    study,
)
from attributionlab.papers.attributionlab.perturbation_tables import (
    SIGNED,
    areas_table,
    correlations_table,
    images_table,
    means_table,
    ranks_table,
    scores_table,
)

N = 3


@pytest.fixture(scope="module")
def modulo():
    env = al.load("single-color-modulo", image_size=16)
    methods = ["oracle", "inverted-oracle", "random", "constant"]
    return study(env, methods, N, 0, unsigned=["inverted-oracle"])


@pytest.fixture(scope="module")
def colors():
    return al.load("multi-color-sum", image_size=16)


def test_the_oracle_finds_every_white_pixel_first(modulo):
    scores = {name: each[0] for name, each in modulo.scores.items()}
    # The curve rises in a straight line until all of the share is found, and stays.
    assert scores["insertion"] == pytest.approx(1 - modulo.counted / 2, abs=1e-12)
    assert scores["deletion"] == pytest.approx(modulo.counted / 2, abs=1e-12)
    assert scores["sensitivity_n"] == pytest.approx(np.ones(N), abs=1e-12)
    assert list(scores["f1_overall"]) == [1] * N


def test_signs_decide_over_the_metrics_and_magnitudes_take_them_away(modulo):
    assert modulo.methods[-1] == magnitude_of("inverted-oracle")
    for name, each in modulo.scores.items():
        assert list(each[-1]) == list(each[0]), name
    assert modulo.scores["sensitivity_n"][1] == pytest.approx(-np.ones(N), abs=1e-12)
    assert modulo.scores["insertion"][1] == pytest.approx(modulo.counted / 2, abs=1e-12)
    assert list(modulo.scores["f1_overall"][1]) == [1] * N
    assert list(modulo.scores["f1_positive"][1]) == [0] * N


def test_the_counted_share_is_that_of_white_pixels(modulo):
    images, _ = modulo.env.batch(N, 0)
    assert list(modulo.counted) == list(images.double().mean((1, 2, 3)))


def test_curves_hold_a_point_for_each_image_and_method_and_end_where_they_must(modulo):
    for metric, (first, last) in {"insertion": (0, 1), "deletion": (1, 0)}.items():
        curves, x = modulo.curves[metric], modulo.points[metric]
        assert curves.shape == (5, N, len(x))
        assert (x[0], x[-1]) == (0, 1)
        assert (curves[:, :, 0] == first).all()
        assert (curves[:, :, -1] == last).all()
    assert modulo.points["sensitivity_n"][[0, -1]].tolist() == [1, 16 * 16 - 1]


def test_areas_are_those_of_forward_passes(colors):
    found = study(colors, ["input-x-gradient"], 1, 0, quick=True)
    images, labels = colors.batch(1, 0)
    order = (
        maps_of("input-x-gradient", colors, 1, 0).flatten().argsort(descending=True, stable=True)
    )
    removed, probabilities = images.clone(), {"insertion": [], "deletion": []}
    for pixel in [None, *order.tolist()]:
        if pixel is not None:
            removed.view(1, 3, -1)[..., pixel] = 0
        inserted = images - removed  # black where the other has the image's pixels
        with torch.no_grad():
            for name, image in (("deletion", removed), ("insertion", inserted)):
                output = colors.softmax_model(image)[0, labels[0]]
                probabilities[name].append(float(output))
    for name, outputs in probabilities.items():
        area = float(torch.trapezoid(torch.tensor(outputs)) / (len(outputs) - 1))
        # float32 outputs differ in their last bit with the order of summation
        assert found.scores[name][0, 0] == pytest.approx(area, abs=1e-6)
        assert found.curves[name][0, 0, 0] == pytest.approx(outputs[0], abs=1e-6)


def test_every_image_has_random_subsets_of_its_own(colors, monkeypatch):
    seeds = []

    def recorded(*args, seed, **options):
        seeds.append(seed)
        return subset_effects(*args, seed=seed, **options)

    monkeypatch.setattr(perturbation_study, "subset_effects", recorded)
    first = study(colors, ["saliency"], 2, 0, quick=True).scores["sensitivity_n"]
    again = study(colors, ["saliency"], 2, 0, quick=True).scores["sensitivity_n"]
    study(colors, ["saliency"], 1, 1, quick=True)
    assert seeds[:2] == seeds[2:4]
    assert len({*seeds}) == 3
    assert (first == again).all()


def test_f1_is_that_of_a_comparison_with_the_paper_s_settings(colors):
    methods = ["occlusion", "integrated-gradients"]
    found = study(colors, methods, 2, 0, quick=True)
    results = dict(zip(methods, al.compare(methods, colors, n=2).results, strict=True))
    for index, name in enumerate(methods):
        for part in ("overall", "positive"):
            compared = results[name][1].scores[part]["f1"]
            assert found.scores[f"f1_{part}"][index] == pytest.approx(compared, abs=1e-6)
    images, labels = colors.batch(2, 0)
    masks = colors.truth(images, labels).overall  # losing colors count too
    assert list(found.counted) == list(masks.double().mean((1, 2, 3)))


def test_maps_are_neither_normalized_nor_cut(colors):
    maps = maps_of("occlusion", colors, 2, 0)
    assert maps.shape == (2, 1, 16, 16)
    assert maps.abs().amax() > 1
    again = maps_of("occlusion", colors, 1, 0)
    assert torch.equal(maps[:1], again)


def test_a_constant_map_scores_the_order_of_its_ties():
    env = al.load("single-color-modulo", image_size=16)
    areas = constant_by_ties(env, N, 0)
    images, _ = env.batch(N, 0)
    # Deletion: each white pixel counts until it is removed, half of its own step included.
    places = (torch.arange(256) + 0.5) / 256
    mean = float(torch.stack([places[each.flatten() > 0].mean() for each in images]).mean())
    assert areas["reading order"] == pytest.approx((1 - mean, mean), abs=1e-6)
    assert areas["reversed reading order"] == pytest.approx((mean, 1 - mean), abs=1e-6)
    assert areas["Insertion in reading order, Deletion reversed"] == pytest.approx(
        (1 - mean, 1 - mean), abs=1e-6
    )
    assert areas["Insertion reversed, Deletion in reading order"] == pytest.approx(
        (mean, mean), abs=1e-6
    )
    assert areas["random"][0] != pytest.approx(1 - mean, abs=1e-3)
    # Of some 20 white pixels in 3 images: standard deviation 0.29 / sqrt(60)
    assert areas["random"] == pytest.approx((0.5, 0.5), abs=0.15)


def test_a_method_that_optimizes_has_the_lowest_and_highest_of_its_runs_in_every_table(monkeypatch):
    env = al.load("single-color-modulo", image_size=16)

    @declares(runs=3)
    def stand_in(model, inputs, targets, *, nudge, **settings):
        return inputs * [0, 1, -1][nudge]  # nothing, the truth, and the opposite of its order

    known = dict.fromkeys(AREAS, ones) | {"iba": stand_in}
    monkeypatch.setattr(perturbation_study, "METHODS", known)
    found = study(env, list(AREAS), N, 0, unsigned=SIGNED, quick=True)
    assert list(found.runs) == ["iba"]
    best = 1 - found.counted / 2
    names = ["iba", "iba, lowest of 3 runs", "iba, highest of 3 runs"]
    areas = areas_table(found).set_index("method")
    assert [name for name in areas.index if "runs" in name] == names[1:]
    ends = areas.insertion[names].tolist()
    of_nothing = float(found.scores["insertion"][found.methods.index("gradcam")].mean())
    # Areas of the paper's table are rounded to five decimals.
    assert ends == pytest.approx([of_nothing, 1 - best.mean(), best.mean()], abs=1e-5)
    assert areas.insertion_paper[names].isna().tolist() == [False, True, True]
    f1 = scores_table([found]).set_index("method").f1_positive[names]
    assert f1.tolist() == [0, 0, 1]
    ranks = ranks_table([found]).set_index("method").f1[names]
    count = len(RANKS[env.name].ranks)
    assert ranks.tolist() == [count, 1, count]
    means = means_table([found], "insertion").set_index("method")[env.name][names]
    assert means.tolist() == pytest.approx([of_nothing, 1 - best.mean(), best.mean()], abs=1e-12)
    by_image = images_table([found]).set_index(["method", "sample"]).insertion
    assert by_image["iba, highest of 3 runs"].tolist() == pytest.approx(best, abs=1e-12)
    said = " ".join(findings("insertion", [found], correlations_table([found], 0), None))
    assert f"iba ({1 - best.mean():.2f} to {best.mean():.2f} in 3 runs)" in said


def ones(model, inputs, targets, **settings):
    return torch.ones_like(inputs)
