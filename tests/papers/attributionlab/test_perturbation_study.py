"""Metrics and truth are about the same maps, and score what known maps must score."""

import pytest
import torch

import attributionlab as al
from attributionlab.methods import declares
from attributionlab.metrics import subset_effects
from attributionlab.papers.attributionlab import perturbation_study, perturbation_tables
from attributionlab.papers.attributionlab.perturbation_study import (
    OPPOSITE,
    SCORES,
    constant_by_ties,
    magnitude_of,
    maps_of,
    replacement_table,
    study,
)
from cases import loaded

N = 3
PLAIN = "multi-color-sum-in-distribution"


@pytest.fixture(scope="module")
def modulo():
    env = al.load("single-color-modulo", image_size=16)
    methods = ["oracle", "inverted-oracle", "random", "constant"]
    return study(env, methods, N, 0, unsigned=["inverted-oracle"])


colors = loaded("multi-color-sum", image_size=16)


def scores_of(found, method):
    return found.scores[found.scores.method == method]


def white_of(found):
    images, _ = found.env.batch(N, 0)
    return images.double().mean((1, 2, 3)).tolist()


def test_the_oracle_finds_every_white_pixel_first(modulo):
    scores, white = scores_of(modulo, "oracle"), white_of(modulo)
    # The curve rises in a straight line until all of the share is found, and stays.
    assert list(scores.insertion) == pytest.approx([1 - each / 2 for each in white], abs=1e-12)
    assert list(scores.deletion) == pytest.approx([each / 2 for each in white], abs=1e-12)
    assert list(scores.sensitivity_n) == pytest.approx([1] * N, abs=1e-12)
    assert list(scores.f1_overall) == [1] * N


def test_signs_decide_over_the_metrics_and_magnitudes_take_them_away(modulo):
    inverted = scores_of(modulo, "inverted-oracle")
    unsigned = scores_of(modulo, magnitude_of("inverted-oracle"))
    oracle = scores_of(modulo, "oracle")
    assert (unsigned[[*SCORES]].to_numpy() == oracle[[*SCORES]].to_numpy()).all()
    assert list(inverted.sensitivity_n) == pytest.approx([-1] * N, abs=1e-12)
    assert list(inverted.insertion) == pytest.approx([w / 2 for w in white_of(modulo)], abs=1e-12)
    assert list(inverted.f1_overall) == [1] * N
    assert list(inverted.f1_positive) == [0] * N


def test_the_counted_share_is_that_of_white_pixels(modulo):
    assert modulo.counted == pytest.approx(sum(white_of(modulo)) / N, abs=1e-15)


def test_curves_end_where_they_must_for_every_method(modulo):
    for metric, (first, last) in {"insertion": (0, 1), "deletion": (1, 0)}.items():
        of_metric = modulo.curves[modulo.curves.metric == metric]
        assert of_metric.method.nunique() == 5
        for _, curve in of_metric.groupby("method"):
            assert curve.x.iloc[[0, -1]].tolist() == [0, 1]
            for column in ("mean", "low", "high"):
                assert curve[column].iloc[[0, -1]].tolist() == [first, last]
    sensitivity = modulo.curves[modulo.curves.metric == "sensitivity_n"]
    assert (sensitivity.x.min(), sensitivity.x.max()) == (1, 16 * 16 - 1)


def test_it_is_known_at_which_n_nothing_is_defined(modulo, monkeypatch):
    assert modulo.undefined["share"] == 0
    sizes = perturbation_study.np.arange(1, 5)
    values = perturbation_study.np.zeros((2, 1, 4))
    values[..., 2:] = float("nan")
    found = perturbation_study._undefined("here", sizes, values)
    assert found == {"environment": "here", "share": 0.5, "first": 3, "all_from_first": True}
    values[..., 3] = 1
    found = perturbation_study._undefined("here", sizes, values)
    assert (found["share"], found["first"], found["all_from_first"]) == (0.25, 3, False)


def test_black_alone_sets_off_redundant_channels_and_nothing_else():
    places = [al.load(name, image_size=16) for name in ("multi-color-sum", PLAIN)]
    table = replacement_table([study(each, ["saliency"], 1, 0, quick=True) for each in places])
    by_name = table.groupby("environment").logit
    assert by_name.get_group("multi-color-sum").any()
    assert not by_name.get_group(PLAIN).any()
    assert by_name.size().tolist() == [4, 4]


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
        assert found.scores[name].item() == pytest.approx(area, abs=1e-6)
        curve = found.curves[found.curves.metric == name]
        assert curve["mean"].iloc[0] == pytest.approx(outputs[0], abs=1e-6)


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
    compared = al.compare(methods, colors, n=2, one_network=True, preset="paper")
    results = dict(zip(methods, compared.results, strict=True))
    for name in methods:
        for part in ("overall", "positive"):
            compared = results[name][1].scores[part]["f1"]
            ours = scores_of(found, name)[f"f1_{part}"]
            assert list(ours) == pytest.approx(list(compared), abs=1e-6)
    images, labels = colors.batch(2, 0)
    masks = colors.truth(images, labels).overall  # losing colors count too
    assert found.counted == float(masks.double().mean())


def test_maps_are_neither_normalized_nor_cut(colors):
    maps = maps_of("occlusion", colors, 2, 0)
    assert maps.shape == (2, 1, 16, 16)
    assert maps.abs().amax() > 1
    again = maps_of("occlusion", colors, 1, 0)
    assert torch.equal(maps[:1], again)


def test_a_constant_map_scores_the_order_of_its_ties():
    env = al.load("single-color-modulo", image_size=16)
    table = constant_by_ties(env, N, 0).set_index("ties")
    areas = {ties: tuple(row) for ties, row in table.iterrows()}
    images, _ = env.batch(N, 0)
    # Deletion: each white pixel counts until it is removed, half of its own step included.
    places = (torch.arange(256) + 0.5) / 256
    mean = float(torch.stack([places[each.flatten() > 0].mean() for each in images]).mean())
    assert areas["reading order"] == pytest.approx((1 - mean, mean), abs=1e-6)
    assert areas["reversed reading order"] == pytest.approx((mean, 1 - mean), abs=1e-6)
    assert areas[OPPOSITE[0]] == pytest.approx((1 - mean, 1 - mean), abs=1e-6)
    assert areas[OPPOSITE[1]] == pytest.approx((mean, mean), abs=1e-6)
    assert areas["random"][0] != pytest.approx(1 - mean, abs=1e-3)
    # Of some 20 white pixels in 3 images: standard deviation 0.29 / sqrt(60)
    assert areas["random"] == pytest.approx((0.5, 0.5), abs=0.15)


@pytest.mark.long
def test_a_method_that_optimizes_has_the_lowest_and_highest_of_its_runs_in_every_table(monkeypatch):
    env = al.load("single-color-modulo", image_size=16)

    @declares(runs=3)
    def stand_in(model, inputs, targets, *, nudge, **settings):
        return inputs * [0, 1, -1][nudge]  # nothing, the truth, and the opposite of its order

    known = dict.fromkeys(perturbation_tables.printed_areas().index, ones) | {"iba": stand_in}
    monkeypatch.setattr(perturbation_study, "KNOWN", known)
    found = study(env, list(known), N, 0, unsigned=perturbation_tables.SIGNED, quick=True)
    assert found.scores.groupby("method").run.nunique().to_dict() == {
        **dict.fromkeys([*known, *map(magnitude_of, perturbation_tables.SIGNED)], 1),
        "iba": 3,
    }
    best = 1 - torch.tensor(white_of(found)) / 2
    names = ["iba", "iba, lowest of 3 runs", "iba, highest of 3 runs"]
    areas = perturbation_tables.areas_table(found).set_index("method")
    assert [name for name in areas.index if "runs" in name] == names[1:]
    ends = areas.insertion[names].tolist()
    of_nothing = float(scores_of(found, "gradcam").insertion.mean())
    # Areas of the paper's table are rounded to five decimals.
    expected = [of_nothing, float(1 - best.mean()), float(best.mean())]
    assert ends == pytest.approx(expected, abs=1e-5)
    assert areas.insertion_paper[names].isna().tolist() == [False, True, True]
    scores = perturbation_tables.scores_table([found]).set_index("method")
    assert scores.f1_positive[names].tolist() == [0, 0, 1]
    assert scores.insertion[names].tolist() == pytest.approx(expected, abs=1e-7)
    ranks = perturbation_tables.ranks_table([found]).set_index("method").f1[names]
    count = len(perturbation_tables.printed_ranks(env.name))
    assert ranks.tolist() == [count, 1, count]
    by_image = perturbation_tables.images_table([found]).set_index(["method", "sample"]).insertion
    assert by_image["iba, highest of 3 runs"].tolist() == pytest.approx(best.tolist(), abs=1e-7)


def ones(model, inputs, targets, **settings):
    return torch.ones_like(inputs)
