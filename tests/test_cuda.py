"""Every method gives on CUDA what it gives on the CPU."""

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.experiments.idsds.attention import AttentionNetwork
from attributionlab.methods import METHODS

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning"),
]
# An optimization amplifies rounding from step to step: its first ones are compared, which all the same
# pass everything that may lie on the wrong device. One step of Adam is as long as the learning rate
# whatever the gradient's size; the second step of the descent of extremal perturbations is the first
# with momentum.
SETTINGS = {
    "extremal-perturbation": {"iterations": 2},
    "iba": {"steps": 1},
    "input-iba": {"steps": 1, "feature_steps": 1, "epochs": 1},
    "kernel-shap": {"n_samples": 50},
    "lime": {"n_samples": 50},
    "rise": {"n_samples": 50},
    "rise-uniform": {"n_samples": 50},
}
OF_ATTENTION = ("attention-rollout", "chefer-lrp")  # the environments' networks have none
# Sums of integers are exact on both; the softmax and what follows it are not. A map is normalized to
# [-1, 1], a float32 has 2^-24 of it, and sums of up to 24 x 24 x 3 terms lose 2^11 of these at most.
ROUNDING = 2.0**-13


@pytest.mark.parametrize("method", [name for name in METHODS if name not in OF_ATTENTION])
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
    assert np.abs(maps[0] - maps[1]).max() <= ROUNDING


@pytest.mark.parametrize("method", OF_ATTENTION)
def test_attention_does_not_depend_on_the_device(method):
    torch.manual_seed(0)
    network = AttentionNetwork(3, 5, 16).double().eval()
    images, targets = torch.rand(2, 3, 16, 16).double(), torch.tensor([0, 4])
    on_cpu = METHODS[method](network, images, targets)
    on_cuda = METHODS[method](network.cuda(), images.cuda(), targets.cuda())
    # Some thousand float64 products, sums and quotients.
    torch.testing.assert_close(on_cuda.cpu(), on_cpu, rtol=1e-8, atol=0)
