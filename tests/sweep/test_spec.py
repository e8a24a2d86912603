"""What a sweep runs: axes crossed and zipped, and everything that is wrong said at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import attributionlab as al
from attributionlab.verdicts.sweep.run import Plan
from attributionlab.verdicts.sweep.spec import AXES, read_sweep
from oracles_sweep import combinations

TINY = al.load("multi-color-sum", image_size=12)
VALUES = {
    "seed": st.integers(0, 99),
    "n": st.integers(1, 99),
    "output": st.sampled_from(["probability", "logit"]),
    "claim": st.sampled_from(["signed", "overall", "positive"]),
}


@st.composite
def sweeps(draw):
    """Axes of plain values, and some of the same length zipped."""
    axes = {
        name: draw(st.lists(values, min_size=1, max_size=2, unique=True))
        for name, values in VALUES.items()
    }
    names = draw(st.permutations(list(axes)))
    long = [name for name in names if len(axes[name]) == 2]
    zipped = [long[start : start + 2] for start in range(0, len(long) - 1, 2)]
    return axes, zipped[: draw(st.integers(0, 2))]


@given(sweeps())
def test_axes_are_crossed_and_zipped_as_plain_loops_do(sweep):
    axes, zipped = sweep
    given = {"seeds" if name == "seed" else name: values for name, values in axes.items()}
    spec = read_sweep(
        {"environments": [TINY], "methods": ["saliency", "gradcam"], "zip": zipped, **given}
    )
    every = {**axes, "method": ["saliency", "gradcam"]}
    ordered = {name: every[name] for name in AXES if name in every}
    expected = combinations(ordered, zipped)
    found = [
        {name: each["method"].label if name == "method" else each[name] for name in ordered}
        for each in spec.combinations()
    ]
    assert found == expected
    assert len(Plan(spec).maps) == len(expected)


def test_lists_of_constants_and_settings_are_crossed_and_named():
    spec = read_sweep(
        {
            "environments": [
                {"name": "multi-color-sum", "image_size": [12, 16], "background": [[0, 0, 0]]},
                "number-checker",
            ],
            "methods": [{"name": "integrated-gradients", "n_steps": [4, 8]}, "gradcam"],
        }
    )
    assert [each.label for each in spec.axes["environment"]] == [
        "multi-color-sum (image_size=12, background=[0, 0, 0])",
        "multi-color-sum (image_size=16, background=[0, 0, 0])",
        "number-checker",
    ]
    assert [each.value.recipe.image_size for each in spec.axes["environment"]][:2] == [12, 16]
    assert [each.label for each in spec.axes["method"]] == [
        "integrated-gradients (n_steps=4)",
        "integrated-gradients (n_steps=8)",
        "gradcam",
    ]


def test_a_file_says_the_same_as_a_mapping(tmp_path):
    text = """
    n = [2, 3]
    metrics = ["sparsity"]
    zip = [["seed", "n"]]
    seeds = [5, 6]
    [doses]
    share = [0, 0.5]
    [[environments]]
    name = "multi-color-sum"
    image_size = 12
    [[methods]]
    name = "gradcam"
    """
    (tmp_path / "sweep.toml").write_text(text)
    mapping = {
        "n": [2, 3],
        "metrics": ["sparsity"],
        "zip": [["seed", "n"]],
        "seeds": [5, 6],
        "doses": {"share": [0, 0.5]},
        "environments": [{"name": "multi-color-sum", "image_size": 12}],
        "methods": [{"name": "gradcam"}],
    }
    plans = [Plan(read_sweep(each)) for each in (tmp_path / "sweep.toml", mapping)]
    keys = [[cell.key for cells in plan.cells.values() for cell in cells] for plan in plans]
    assert keys[0] == keys[1]
    assert [len(cells) for cells in plans[0].cells.values()] == [2, 4]
    assert plans[0].spec.document == mapping


def test_everything_that_is_wrong_is_said_at_once():
    wrong = {
        "environments": ["multi-color-sm", {"image_size": 12}, {"name": "number-checker", "x": []}],
        "methods": ["gradcm", "gradcam", "gradcam", {"name": "saliency", "steps": 3}],
        "metrics": ["insertin"],
        "doses": {"share": []},
        "seeds": [],
        "n": 0,
        "claim": ["signed", "sined"],
        "output": "logits",
        "one_network": "no",
        "preset": "papr",
        "device": "tpu",
        "zip": [["environment", "sed"], ["n", "claim"], ["claim", "output"]],
        "metods": ["lime"],
    }
    with pytest.raises(al.AttributionLabError) as caught:
        read_sweep(wrong)
    message = str(caught.value)
    for problem in (
        "no key 'metods': did you mean 'methods'?",
        "no environment named 'multi-color-sm': did you mean 'multi-color-sum'?",
        "has no name: add the environment's name",
        "environment number-checker: x is an empty list",
        "no method named 'gradcm'",
        "method names 'gradcam' 2 times",
        "saliency has no setting 'steps'",
        "no metric named 'insertin': did you mean 'insertion'?",
        "doses of share are empty",
        "seeds is []: give a list",
        "n is 0: take an integer from 1",
        "claim is 'sined': did you mean 'signed'?",
        "no output 'logits' to explain: did you mean 'logit'?",
        "one_network is 'no': take True or False",
        "preset is 'papr'",
        "device is 'tpu'",
        "zip: no axis 'sed'",
        "zip needs the same number of values on each axis: n has 1, claim has 2",
        "zip names 'claim' twice",
    ):
        assert problem in message, problem


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": None}, "methods is None: give a list"),
        ({"doses": {"share": [1]}}, "doses are given and no metrics"),
        ({"metrics": ["sparsity"], "doses": {"shre": [1]}}, "no axis named 'shre'"),
        ({"metrics": ["sparsity"], "doses": {"share": [2]}}, "share is 2"),
        ({"metrics": ["sparsity"], "doses": {}}, "doses is {}"),
        ({"metrics": ["max-sensitivity"]}, "cannot be tested"),
        ({"zip": "environment"}, "zip is 'environment': give lists of axes"),
        ({"zip": [[["environment"], "seed"]]}, "zip: no axis ['environment']"),
        ({"seeds": [1, 1]}, "seed names 1 2 times"),
        ({"methods": ["maps.npy"]}, "maps.npy"),
        ({"methods": [{"name": "lrp", "rule": "zplus"}]}, "lrp: rule is 'zplus': take one of"),
        ({"methods": [{"name": "saliency-smoothgrad", "noise": -1}]}, "noise is -1: take"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_runs(change, message):
    given = {"environments": [TINY], "methods": ["gradcam"]} | change
    with pytest.raises(al.AttributionLabError) as caught:
        read_sweep(given)
    assert message in str(caught.value)


def test_an_environment_without_unseen_colors_has_no_doses():
    given = {"environments": ["number-checker"], "methods": ["gradcam"], "metrics": ["insertion"]}
    read_sweep(given)
    with pytest.raises(al.AttributionLabError, match="no redundant channels"):
        read_sweep(given | {"doses": {"share": [1]}})


@pytest.mark.parametrize("given", ["none.toml", 3])
def test_what_is_no_sweep_is_refused(given):
    with pytest.raises(al.AttributionLabError, match=r"none\.toml|pass the path"):
        read_sweep(given)


def test_methods_with_ready_maps_need_one_network():
    import numpy as np

    given = {"environments": [TINY], "methods": [np.zeros((2, 1, 12, 12))], "n": 2}
    with pytest.raises(al.AttributionLabError, match="set one_network = true"):
        read_sweep(given)
    assert read_sweep(given | {"one_network": True}).document is None
