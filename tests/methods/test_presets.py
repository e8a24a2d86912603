"""Presets hold what the paper states, for methods and settings that exist."""

import inspect

import pytest

from attributionlab import AttributionLabError
from attributionlab.methods import METHODS, PRESETS, Preset, preset_of

ENTRIES = [
    (task, method, preset)
    for task, methods in PRESETS["paper"].items()
    for method, preset in methods.items()
]


@pytest.mark.parametrize(("task", "method", "preset"), ENTRIES)
def test_every_preset_is_of_a_method_that_takes_it(task, method, preset):
    parameters = inspect.signature(METHODS[method]).parameters
    assert set(preset.settings) <= set(parameters)


def test_what_f2_and_g2_state():
    paper = PRESETS["paper"]
    for task in ("regression", "classification"):
        assert paper[task]["iba"].settings["beta"] == 20
        assert paper[task]["extremal-perturbation"].settings["area"] == 0.1
        assert paper[task]["occlusion"].settings["window"] == 5
        assert paper[task]["occlusion"].settings["stride"] == 3
        assert paper[task]["deep-shap"].settings["baselines"] == 0
    assert paper["classification"]["occlusion"].output == "logit"
    assert paper["classification"]["lime"].settings["segmentation"] == "quickshift"
    assert "lime" not in paper["regression"]


def test_what_is_made_of_a_method_is_set_up_like_it():
    def stated(method, task="classification"):
        return preset_of("paper", task, method)

    assert stated("occlusion-absolute") == stated("occlusion")
    assert stated("iba-absolute-vargrad") == stated("iba")
    samples = {"baselines": 0.0, "n_samples": 20, "noise": 0.124}
    assert stated("integrated-gradients-smoothgrad-absolute").settings == samples
    assert stated("integrated-gradients-absolute").settings == {"baselines": 0.0}
    assert stated("saliency-smoothgrad") == Preset()
    # What an ensemble, or the true baseline, calls by the same name is another setting.
    assert stated("integrated-gradients-smoothgrad-vargrad").settings == {"baselines": 0.0}
    smooth = stated("integrated-gradients-smoothgrad-true-baseline").settings
    assert smooth == {"n_samples": 20, "noise": 0.124}
    occluded = stated("occlusion-true-baseline-absolute", "regression").settings
    assert occluded == {"window": 5, "stride": 3}


def test_without_a_preset_and_where_it_is_silent_nothing_is_set():
    assert preset_of(None, "regression", "iba") == Preset()
    assert preset_of("paper", "regression", "saliency") == Preset()


def test_an_unknown_preset_is_refused_with_the_known_ones():
    with pytest.raises(AttributionLabError, match="preset is 'papr': did you mean 'paper'"):
        preset_of("papr", "regression", "iba")
