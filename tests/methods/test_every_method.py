"""What holds for every built-in method, whatever it computes."""

import inspect
import re

import pytest
import torch

from attributionlab.methods import METHODS, as_method, collect_notices
from cases import loaded
from few_samples import OF_TRANSFORMERS, bases, few

SIDE = 16
CONVOLUTIONAL = [name for name in METHODS if name not in OF_TRANSFORMERS]
# Batches of another size round a convolution's sums differently; maps hold sums of at most some
# thousands of such values, and an optimization amplifies them from step to step.
SHARE = 1e-3
environment = loaded("multi-color-sum", image_size=SIDE)


@pytest.fixture(scope="module")
def offered(environment):
    images, labels = environment.batch(2)
    return {
        "baseline": environment.baseline,
        "layers": environment.layers,
        "highest": float(environment.max_value),
        "reference_images": environment.batch(8, seed=1)[0],
    }, (images, labels)


def run(name, environment, offered, images=2, generator=None, **others):
    """The maps of the first images."""
    by_name, (pictures, labels) = offered
    method = METHODS[name]
    takes = inspect.signature(method).parameters
    given = by_name | {"generator": generator or torch.Generator().manual_seed(0)}
    settings = {key: value for key, value in given.items() if key in takes}
    settings |= few(name) | others
    model = environment.explained_model(getattr(method, "output", None) or "probability")
    with collect_notices():
        return method(model, pictures[:images], labels[:images], **settings)


@pytest.mark.parametrize("name", METHODS)
def test_the_docstring_has_formula_source_and_cost(name):
    texts = [inspect.getdoc(METHODS[base]) for base in bases(name) if base in METHODS]
    assert all(texts)
    first = texts[0].partition("\n\n")[0]
    assert first.endswith(".")
    assert "\n" not in first
    whole = "\n".join(texts)
    if len(texts) == 1:
        assert ".. math::" in whole
        assert re.search(r"\b(Source:|\w+ et al\.,? \d{4})", whole)
        assert re.search(r"\b(pass|passes|[Cc]osts?)\b", whole)


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_an_image_has_the_same_map_alone_and_before_another(name, environment, offered):
    together = run(name, environment, offered)
    assert together.shape in ((2, 3, SIDE, SIDE), (2, 1, SIDE, SIDE))
    alone = run(name, environment, offered, images=1)
    assert (alone[0] - together[0]).abs().max() <= SHARE * together[0].abs().max()


def test_a_method_that_asks_for_a_generator_draws_from_it(environment, offered):
    for name in CONVOLUTIONAL:
        if "generator" in inspect.signature(METHODS[name]).parameters:
            generator = torch.Generator().manual_seed(0)
            before = generator.get_state()
            run(name, environment, offered, images=1, generator=generator)
            assert not torch.equal(before, generator.get_state()), name


POSITIVE = {
    *("ablationcam", "deconvolution", "excitation-backprop", "extremal-perturbation", "gradcam"),
    *("hirescam", "layercam", "scorecam"),
    *("gradcam-plus-plus", "guided-backprop", "guided-gradcam", "iba", "input-iba", "rise"),
    *("rise-uniform", "smooth-gradcam-plus-plus", "xgradcam", *OF_TRANSFORMERS),
}
LOGIT = {
    *("attnlrp", "excitation-backprop", "extremal-perturbation", "iba", "input-iba", "lrp"),
    *OF_TRANSFORMERS,
}
GRADCAM = {
    *("ablationcam", "gradcam", "gradcam-plus-plus", "hirescam", "layercam"),
    *("linear-approximation", "scorecam", "smooth-gradcam-plus-plus", "xgradcam"),
}
GRADIENT = {
    *("gradient-norm", "guided-backprop", "guided-gradcam", "input-x-gradient"),
    *("input-x-gradient-absolute",),
    *("saliency", "saliency-absolute"),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_declares_what_it_claims_and_explains(name):
    method = as_method(name, METHODS)
    unsigned = name.endswith(("-absolute", "-squared", "-vargrad", "-norm"))
    claim = "overall" if unsigned else "positive" if name in POSITIVE else None
    assert method.claim == claim, "POSITIVE above"
    assert method.output == ("logit" if name in LOGIT else None), "LOGIT above"
    resolution = "gradcam" if name in GRADCAM else {"iba": "iba"}.get(name)
    assert method.resolution == resolution, "GRADCAM above"
    assert method.gradient == (name in GRADIENT), "GRADIENT above"


@pytest.mark.parametrize("name", [name for name in METHODS if name.endswith("-true-baseline")])
def test_the_true_baseline_is_the_methods_baseline(name, environment, offered):
    by_name, pictures = offered
    for pixel in (environment.baseline, torch.full((3, 1, 1), 7.0)):
        of_base = environment, (by_name | {"baselines": pixel}, pictures)
        from_there = run(name, environment, (by_name | {"baseline": pixel}, pictures))
        assert torch.equal(from_there, run(name.removesuffix("-true-baseline"), *of_base))
