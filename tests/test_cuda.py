"""Every method gives on CUDA what it gives on the CPU."""

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.methods import METHODS

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning"),
]
SETTINGS = {"extremal-perturbation": {"iterations": 20}, "lime": {"n_samples": 50}}
# Sums of integers are exact on both; the softmax and what follows it are not. A map is normalized to
# [-1, 1], a float32 has 2^-24 of it, and sums of up to 24 x 24 x 3 terms lose 2^11 of these at most.
# The two optimizations amplify that from step to step.
ROUNDING = 2.0**-13
OPTIMIZED = {"iba": 0.05, "extremal-perturbation": 0.05}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["multi-color-sum", "single-color-modulo"])
def test_attributions_do_not_depend_on_the_device(name, method):
    env = al.load(name, image_size=24)
    output = "logit" if method == "lrp" else None
    maps = []
    for device in ("cpu", "cuda"):
        report = al.faithfulness_test(
            method, env, n=2, output=output, settings=SETTINGS.get(method), device=device
        )
        maps.append(report.environments[0].attributions)
    assert np.abs(maps[0] - maps[1]).max() <= OPTIMIZED.get(method, ROUNDING)
