"""What `al` makes, and methods of what it makes, called with one argument that is odd: each returns, or
refuses it in one line. `test_odd_calls.py` does so for the functions of its modules.
"""

from functools import wraps

import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.verdicts import Pair
from good_calls import builders
from odd_calls import NETWORKS, ODD, drawn, odd_calls, parameters, taken_or_refused

pytestmark = [
    pytest.mark.usefixtures("without_shape_checks"),
    pytest.mark.filterwarnings("ignore"),
]

FEW, CALLS = 4, 40
"""Of each function, drawn from all pairs of a parameter and an odd value: in the default tests, and in
the long ones.
"""
COSTLY = {
    ("environments", "nothing"),  # the default ones
    ("exhaustive", "true"),
    ("metrics", "nothing"),
    ("one_network", "true"),  # many maps of a metric's test
}
"""Pairs that are no mistake, but more work than a test has time for."""
FOUND = {
    "explain": [("images", "other sides"), ("model", "a network in half precision")],
    "score_export": [("folder", "a long text")],
    "load": [("implementation", "an array")],
    "attribute": [("explain", "no text")],
    "faithfulness_test": [("jobs", "numpy's integer")],
    "compare": [("jobs", "a small integer"), ("methods", "without memory")],
}
"""Pairs of a function that once ended in an error of others, or passed for none: always asked."""
LEFT_OUT = {"command", "overrides"}
"""What the command line says of itself; what is called by the names of its keys."""
QUICK = {
    "explain",
    "score_export",
    "attribute",
    "load",
    "world",
    "custom_environment",
    "Environment",
    "CustomEnvironment",
    "Truth",
}
QUICK |= {"color_sum", "scenes", "number_patches", "draw", "segment", "slic"}
SMALL = {"image_size": 12, "redundant_channels": 0}
OVERRIDES = {
    **SMALL,
    "accumulator": "uniform",
    "distractors": 0,
    "temperature": 1,
    "camouflage_seed": 0,
    "implementation": "plateau",
    "patch_size": [0.2, 0.3],
    "background": [0, 0, 0],
    "shapes": ["bezier"],
}


def faces(folder):
    """Functions by name, with arguments in good order and little work."""
    env = al.load("multi-color-sum", **SMALL)
    images, labels = env.batch(2)
    truth = env.truth(images, labels)
    asked, one = {"images": images, "targets": labels}, {"image": images[0], "target": 0}
    own = nn.Sequential(nn.Conv2d(1, 1, 4), nn.Flatten()).eval()
    user = {"model": own, "images": drawn(2, 1, 4, 4), "truth": torch.ones(2, 4, 4)}
    custom = al.custom_environment(**user)
    al.export_environment(env, folder / "export", n=1)
    lab = folder / "lab.zip"
    al.seal_laboratory(lab, folder / "key.zip", image_size=24, n=2)
    (folder / "answers").mkdir()
    return {
        "load": (al.load, {"name": "multi-color-sum", **OVERRIDES}),
        "trained_environment": (al.trained_environment, {"world": "quadrants"}),
        "world": (al.world, {"rule": "red > blue", "image_size": 12}),
        "random_worlds": (al.random_worlds, {"n": 1}),
        "custom_environment": (al.custom_environment, {**user, "interventions": 64, "baseline": 0}),
        "verify": (al.verify, {"env": env}),
        "attribute": (al.attribute, {"method": "saliency", "env": env, **asked}),
        "faithfulness_test": (
            al.faithfulness_test,
            {"method": "saliency", "environments": env, "n": 1, "also": None},
        ),
        "compare": (al.compare, {"methods": ["saliency"], "environments": env, "n": 1}),
        "explain": (al.explain, {"model": own, "images": drawn(2, 1, 4, 4), "methods": "saliency"}),
        "score_export": (
            al.score_export,
            {"folder": folder / "export", "maps": torch.ones(1, 12, 12)},
        ),
        "open_laboratory": (al.open_laboratory, {"lab": lab}),
        "check_submission": (al.check_submission, {"lab": lab, "submission": folder / "answers"}),
        "exact_arithmetic": (al.exact_arithmetic, {}),
        "export_environment": (al.export_environment, {"env": env, "out": folder / "out", "n": 1}),
        "Environment.to": (env.to, {"device": "cpu"}),
        "Environment.dataset": (env.dataset, {}),
        "Environment.loader": (env.loader, {"n": 1, "seed": 0}),
        "Environment.batch": (env.batch, {"n": 1}),
        "Environment.targets": (env.targets, {"labels": labels}),
        "Environment.camouflaged": (env.camouflaged, {"seed": 0}),
        "Environment.with_implementation": (env.with_implementation, {"name": "plateau"}),
        "Environment.explained_model": (env.explained_model, {"output": "logit"}),
        "Environment.truth": (env.truth, asked),
        "Environment.truths": (env.truths, asked),
        "Environment.shapley": (env.shapley, one),
        "sampled_shapley": (env.sampled_shapley, {**one, "precision": 1.0}),
        "CustomEnvironment.dataset": (custom.dataset, {"n": 1}),
        "CustomEnvironment.truth": (
            custom.truth,
            {"images": custom.images, "targets": custom.image_targets},
        ),
        "Truth": (al.Truth, {"signed": truth.signed}),
        "Truth.part": (truth.part, {"chosen": slice(1)}),
        "Truth.to": (truth.to, {"device": "cpu"}),
        "Truth.joined": (al.Truth.joined, {"truths": [truth]}),
    }


def trials(folder):
    """Tests of metrics, rankings, sweeps and sealed laboratories, likewise."""
    env = al.load("multi-color-sum", **SMALL)
    metrics, pair = ["foreground-share", "f1"], Pair("multi-color-sum", 0, "true baseline", {})
    sweep = {
        "environments": [{"name": "multi-color-sum", **SMALL}],
        "methods": ["saliency"],
        "n": 1,
    }
    swept, lab, key = folder / "swept", folder / "lab.zip", folder / "key.zip"
    al.run_sweep(sweep, swept)
    al.seal_laboratory(lab, key, "easy", 24, 2)
    (folder / "empty").mkdir()

    @wraps(al.seal_laboratory)
    def seal(**given):
        for made in ("sealed.zip", "answers.zip"):
            (folder / made).unlink(missing_ok=True)
        al.seal_laboratory(**given)

    return {
        "metric_test": (al.metric_test, {"metric": "foreground-share", "env": env, "n": 2}),
        "metric_cards": (al.metric_cards, {"metrics": metrics[:1], "env": env, "n": 2}),
        "check_metric": (
            al.check_metric,
            {"metric": "f1", "only": ["one-number"], "time_limit": None},
        ),
        "rank_metrics": (al.rank_metrics, {"metrics": metrics, "environments": env, "n": 2}),
        "rank_methods": (
            al.rank_methods,
            {"methods": ["saliency", "lrp"], "n": 2, "size": 16, "pairs": [pair]},
        ),
        "Pair": (Pair, {"environment": "multi-color-sum"}),
        "run_sweep": (al.run_sweep, {"spec": sweep, "out": swept}),
        "merge_sweeps": (al.merge_sweeps, {"out": folder / "merged", "folders": [swept]}),
        "seal_laboratory": (
            seal,
            {"out": folder / "sealed.zip", "answers": folder / "answers.zip"}
            | {"difficulty": "easy", "image_size": 24, "n": 2},
        ),
        "grade_submissions": (
            al.grade_submissions,
            {"lab": lab, "key": key, "submissions": [folder / "empty"]},
        ),
    }


def call_oddly(called, names, calls):
    for face, (function, good) in called.items():
        if names and face.split(".")[0] not in names:
            continue
        function(**good)  # what is imported at the first call sets what it sets
        known = [*dict.fromkeys([*parameters(function)[0], *good])]
        for name, odd in [*FOUND.get(face, ()), *odd_calls(face, known, calls)]:
            if (name, odd) not in COSTLY and name not in LEFT_OUT:
                given = {**good, name: ODD[odd] if name != "model" else (ODD | NETWORKS)[odd]}
                taken_or_refused(function, given, f"{face}: {name} is {odd}")


def test_odd_arguments_are_taken_or_refused_in_one_line(tmp_path):
    call_oddly(faces(tmp_path) | builders(), QUICK, FEW)


@pytest.mark.long
def test_many_odd_arguments_are_taken_or_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some odd words are good names of a folder
    call_oddly(faces(tmp_path), (), CALLS)


@pytest.mark.long
def test_many_odd_arguments_of_builders_are_taken_or_refused_in_one_line():
    call_oddly(builders(), (), CALLS)


@pytest.mark.long
def test_many_odd_arguments_of_trials_are_taken_or_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call_oddly(trials(tmp_path), (), CALLS // 4)
