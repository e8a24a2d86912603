"""Curves of modified maps and their distances, on a model of sixteen pixels."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.papers.soco.methods.measures import imputation_of
from attributionlab.papers.soco.modifications import experiment as experiment_module
from attributionlab.papers.soco.modifications import findings as modifications_findings
from attributionlab.papers.soco.modifications.curves import (
    BY_ORDER,
    LEVELS,
    METRICS,
    UNCLIPPED,
    change_rows,
    curves_of,
    distances,
    modifications,
    paired_differences,
)
from attributionlab.papers.soco.modifications.experiment import ITEMS, soco_modifications
from attributionlab.papers.soco.modified_maps import SCHEMES, modified
from attributionlab.papers.subjects.subjects import TRAINED, Subject, trained_subject

RATIOS = tuple(sixteenth / 16 for sixteenth in range(15, -1, -1))
TENTHS = tuple(tenth / 10 for tenth in range(1, 10))


def made_up(name="made up", n=6):
    """Two classes by which half of a 4 x 4 image is brighter."""
    generator = torch.Generator().manual_seed(0)
    linear = nn.Linear(16, 2, bias=False)
    left = torch.tensor([1.0, 1.0, 0.0, 0.0]).repeat(4)
    linear.weight = nn.Parameter(torch.stack([left, 1 - left]), requires_grad=False)
    model = nn.Sequential(nn.Flatten(), linear).eval()
    images = torch.rand(n, 1, 4, 4, generator=generator)
    targets = model(images).argmax(1)
    return Subject(name, model, model, images, targets, 1.0, torch.full((1, 1, 1), 0.5), 1.0)


@pytest.fixture(scope="module")
def subject():
    return made_up()


@pytest.fixture(scope="module")
def maps(subject):
    weights = subject.model[1].weight[subject.targets].view(-1, 1, 4, 4)
    values = (subject.images * weights).double()
    return values / values.amax((1, 2, 3), keepdim=True)


def test_curves_are_those_of_the_metrics(subject, maps):
    found = {key[:2]: key[2] for key in curves_of(subject, maps, 0, RATIOS)}
    assert set(found) == {
        (indicator, metric) for indicator in ("accuracy", "label probability") for metric in METRICS
    }
    setup = {
        "imputation": imputation_of(subject, "noisy-linear", 0),
        "nothing_kept": 0.5,
    }
    asked = (subject.model, subject.images, subject.targets, maps)
    for name, indicator in (
        ("accuracy", "accuracy"),
        ("label probability", al.metrics.label_probability),
    ):
        same = setup | {"indicator": indicator}
        complete = al.metrics.completeness_curve(*asked, **same)
        points = found[name, "Completeness"]
        assert points[:, 0].tolist() == list(TENTHS)
        assert points[::-1, 1].tolist() == complete.differences.tolist()
        sweep = al.metrics.soundness_sweep(*asked, ratios=RATIOS, expansion="attributed", **same)
        levels = [sweep.at(level) for level in LEVELS]
        expected = [[each.level, each.soundness] for each in levels if each.reached]
        assert found[name, "Soundness"].tolist() == expected
        steps = torch.stack([sweep.performance, sweep.soundness], 1)
        assert found[name, "Soundness, every step"].tolist() == steps.tolist()
        for metric, imputation in (
            ("ROAD", setup["imputation"]),
            ("Deletion", lambda images, keep: images * keep),
        ):
            curve = al.metrics.removal_curve(
                *asked, fractions=TENTHS, **same | {"imputation": imputation}
            )
            assert found[name, metric][:, 1].tolist() == curve.mean(0).tolist()
    assert len(found["label probability", "Soundness"]) < len(LEVELS)  # high levels are not reached


def test_metrics_of_order_alone_take_maps_of_either_sign(subject, maps):
    found = list(curves_of(subject, maps - 0.6, 0, RATIOS, BY_ORDER))
    assert {metric for _, metric, _ in found} == set(BY_ORDER)


def test_a_constant_that_is_not_clamped_leaves_metrics_of_order_exactly_alike(subject, maps):
    versions = modifications(maps, "constant", 0, clip=False)
    first, *others = (
        {key[:2]: key[2].tolist() for key in curves_of(subject, each, 0, RATIOS, BY_ORDER)}
        for each in versions.values()
    )
    assert len(others) == 2
    assert all(each == first for each in others)


def test_distances_are_of_all_pairs_and_the_smallest():
    x = np.linspace(0, 1, 5)
    curves = {
        name: np.stack([x, np.full(5, height)], 1)
        for name, height in (("Original", 0.0), ("Remove", 0.1), ("Introduce", 0.5))
    }
    found = distances(curves)
    assert found == pytest.approx(
        {
            "Original - Remove": 0.1,
            "Original - Introduce": 0.5,
            "Remove - Introduce": 0.4,
            "smallest": 0.1,
        }
    )


def test_a_curve_without_points_has_no_distance():
    line = np.zeros((2, 2))
    found = distances({"Original": line, "Remove": np.zeros((0, 2)), "Introduce": line})
    assert found["Original - Introduce"] == 0
    assert np.isnan(found["Original - Remove"])
    assert np.isnan(found["smallest"])


def test_changes_count_ties_and_ranks(maps):
    versions = modifications(maps, "constant", 0)
    rows = {row["direction"]: row for row in change_rows(maps, versions)}
    assert set(rows) == {"Remove", "Introduce"}
    assert rows["Remove"]["at_0"] == pytest.approx(float((maps <= 0.6).double().mean()))
    assert rows["Introduce"]["at_1"] == pytest.approx(float((maps + 0.6 >= 1).double().mean()))
    change = (maps - modified(maps, "constant", "remove")).abs().mean()
    assert rows["Remove"]["value_change"] == pytest.approx(float(change))
    same = next(change_rows(maps, {"Original": maps, "Remove": maps}))
    assert same["rank_correlation"] == pytest.approx(1)


@pytest.fixture(scope="module")
def outcome(maps):
    """The experiment on made-up subjects, with two methods that cost nothing."""

    def cheap(subject, names, seed, *, quick):
        yield from zip(names, (maps, maps**2), strict=False)

    with pytest.MonkeyPatch.context() as patch:
        for name, replacement in {
            "method_maps": cheap,
            "trained_subject": lambda n, training, seed: made_up(TRAINED),
            "load": lambda name, image_size: name,
            "environment_subject": lambda env, n, seed: made_up(env),
            "QUICK_RATIOS": RATIOS[::4],
        }.items():
            patch.setattr(experiment_module, name, replacement)
        return soco_modifications("soco-figure-13", n=6, quick=True)


def test_the_summary_is_over_schemes_and_methods(outcome):
    pairs, summary = outcome.tables["pairs"], outcome.tables["distances"]
    assert set(pairs.scheme) == {*SCHEMES, UNCLIPPED}
    assert len(summary) == 2 * 2 * len(METRICS)
    assert set(outcome.shown) <= set(outcome.tables)
    for row in summary.itertuples():
        here = pairs[
            (pairs.subject == row.subject)
            & (pairs.indicator == row.indicator)
            & (pairs.metric == row.metric)
            & (pairs.scheme != UNCLIPPED)
        ].smallest.dropna()
        assert row.cases == len(here) <= 6
        assert row.mean == pytest.approx(here.mean())
        assert row.sd == pytest.approx(here.std())
    free = pairs[pairs.scheme == UNCLIPPED]
    order = free[free.metric.isin(BY_ORDER)]
    assert (order[[name for name in order if " - " in name]] == 0).all(axis=None)
    values = free[free.metric == "Completeness"]
    assert (values["Original - Introduce"] > 0).all()
    assert values["Original - Remove"].isna().all()
    said = " ".join(outcome.findings)
    assert "exactly 0, as they must be" in said


def test_an_item_has_both_figures_and_its_own_comes_first(outcome):
    assert outcome.item == "soco-figure-13"
    assert list(outcome.figures) == ["maps", "curves"]
    assert {first for _, first in ITEMS.values()} == {"distances", "curves", "maps"}


def apart(completeness, soundness):
    """A table of differences, both intervals of each metric alike."""
    return pd.DataFrame(
        [
            {
                "subject": "s",
                "indicator": "accuracy",
                "metric": metric,
                "against": against,
                "difference": sum(ends) / 2,
                "low": ends[0],
                "high": ends[1],
                "cases": 9,
            }
            for metric, ends in (("Completeness", completeness), ("Soundness", soundness))
            for against in BY_ORDER
        ]
    )


def test_differences_are_paired_by_method_and_scheme():
    values = {
        "Completeness": [0.5, 0.4, 0.6, 9.0],
        "Soundness": [0.1, np.nan, 0.1, 9.0],
        "Deletion": [0.1, 0.1, 0.1, 0.0],
        "ROAD": [0.4, 0.1, 0.7, 0.0],
    }
    cases = [("a", "constant"), ("a", "random"), ("b", "constant"), ("b", UNCLIPPED)]
    pairs = pd.DataFrame(
        [
            (method, scheme, metric, value)
            for metric, of_metric in values.items()
            for (method, scheme), value in zip(cases, of_metric, strict=True)
        ],
        columns=["method", "scheme", "metric", "smallest"],
    ).assign(subject="s", indicator="accuracy")
    shuffled = pairs.sample(frac=1, random_state=0)
    table = paired_differences(shuffled, 0).set_index(["metric", "against"])
    row = table.loc[("Completeness", "ROAD")]
    assert (row.difference, row.cases) == (pytest.approx((0.1 + 0.3 - 0.1) / 3), 3)
    assert row.low == pytest.approx(-0.1)
    assert row.high == pytest.approx(0.3)
    row = table.loc[("Soundness", "Deletion")]
    assert (row.difference, row.low, row.high, row.cases) == (0, 0, 0, 2)


def test_findings_follow_the_distances():
    metrics = ["Completeness", "Soundness", "Deletion", "ROAD"]
    pairs = pd.DataFrame(
        {
            "scheme": "constant",
            "metric": metrics,
            "Original - Remove": [0.5, 0.01, 0.02, 0.02],
            "Original - Introduce": [0.6, 0.02, 0.03, 0.03],
            "smallest": [0.5, 0.01, 0.02, 0.02],
        }
    )
    pairs = pairs.assign(subject="s", indicator="accuracy", method="m")
    free = pairs.assign(scheme=UNCLIPPED)
    summary = pairs.assign(mean=pairs.smallest, sd=0.1, cases=1)
    changes = pd.DataFrame(
        {
            "scheme": "constant",
            "direction": ["Remove", "Introduce"],
            "at_0": [0.5, 0.0],
            "at_1": [0.0, 0.25],
            "rank_correlation": [0.8, 0.9],
        }
    )
    curves = pd.DataFrame(
        [
            ("Soundness", "Original", 0.5, 1.0),
            ("Soundness", "Original", 0.6, 0.9),
            ("Soundness", "Remove", 0.5, 1.0),
            ("Soundness", "Introduce", 0.5, 1.0),
            ("Soundness, every step", "Original", 0.5, 1.0),
            ("Soundness, every step", "Remove", 0.55, 1.0),
            ("Soundness, every step", "Introduce", 0.4, 1.0),
            ("Soundness, every step", "Introduce", 0.6, 1.0),
        ],
        columns=["metric", "map", "x", "y"],
    ).assign(subject="s", method="m", scheme="constant", indicator="accuracy")
    tables = {
        "distances": summary,
        "differences": apart(completeness=(0.1, 0.2), soundness=(-0.1, 0.1)),
        "pairs": pd.concat([pairs, free]),
        "changes": changes,
        "curves": curves,
    }
    said = " ".join(modifications_findings.findings_of(tables, {"s": 6}))
    assert "Completeness 0.500 ± 0.100" in said
    assert "on 6 images (± is the standard deviation over 1 cases" in said
    assert "Completeness - ROAD 0.150 (0.100 to 0.200), Soundness - Deletion 0.000 (-0.100" in said
    assert "Completeness alone is farther apart" in said
    assert "s: Deletion (black) and ROAD have the same distance in 1 of 1 cases" in said
    assert "so that they are one measurement" in said
    assert "soundness is 1 at every level that is reached in 2 of 3 curves; in 1 the first" in said
    assert "constant: Completeness 0.500, Soundness 0.010, Deletion 0.020, ROAD 0.020" in said
    assert "up to 0.030, since rounding ties" in said
    assert "50% of the pixels become 0 (Remove) and 25% become 1" in said
    assert "Soundness by Original - Remove in 1 of 1 cases, 0 in 0" in said


def test_the_trained_network_is_better_than_chance_on_pictures_it_has_not_seen():
    subject = trained_subject(40, 200, 0)
    with torch.no_grad():
        right = (subject.model(subject.images).argmax(1) == subject.targets).double().mean()
    assert right > 0.2  # chance is 0.1
    assert subject.offered["layers"]["gradcam"] in list(subject.model)
    assert not torch.equal(subject.images, subject.offered["reference_images"][:40])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"images": "there"}, "pass both, or neither"),
        ({"model": "m.py:net"}, "pass both, or neither"),
        ({"n": 0}, "n is 0: take an integer"),
        ({"size": 0}, "size is 0"),
    ],
)
def test_impossible_settings_are_refused(settings, problem):
    with pytest.raises(al.AttributionLabError, match=problem):
        soco_modifications("soco-table-1", **({"n": None, "quick": True} | settings))


@pytest.mark.slow
def test_given_images_and_a_given_model_are_judged(tmp_path):
    from PIL import Image

    for index, name in enumerate(("dark", "light")):
        (tmp_path / "images" / name).mkdir(parents=True)
        pixels = np.zeros((8, 8, 3), np.uint8) + 60 + 120 * index
        pixels[2:5, 2:5] += 40
        Image.fromarray(pixels).save(tmp_path / "images" / name / "1.png")
    model = tmp_path / "net.py"
    model.write_text(
        "import torch\nfrom torch import nn\n\n\ndef net():\n"
        "    with torch.random.fork_rng():\n        torch.manual_seed(0)\n"
        "        return nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 2))\n"
    )
    outcome = soco_modifications(
        "soco-figure-13",
        n=1,
        quick=True,
        images=str(tmp_path / "images"),
        model=f"{model}:net",
        layer="0",
        size=8,
    )
    assert set(outcome.tables["pairs"].subject) == {"images"}
    assert set(outcome.tables["pairs"].method) == {"GradCAM", "IG", "ExPerturb"}


def test_findings_say_which_metrics_of_values_are_farther_apart_than_those_of_order():
    def told(**ends):
        [said] = modifications_findings._message(apart(**ends))
        return said

    assert "both are farther apart" in told(completeness=(0.1, 0.2), soundness=(0.01, 0.3))
    assert "Soundness alone is farther" in told(completeness=(0.0, 0.2), soundness=(0.01, 0.3))
    assert "neither is clearly" in told(completeness=(-0.2, -0.1), soundness=(-0.1, 0.3))
