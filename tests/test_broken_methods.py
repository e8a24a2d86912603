"""Methods broken on purpose fail, and the first likely cause is how they were broken."""

import pytest
import torch
from scipy import ndimage

import attributionlab as al

pytestmark = pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")


def right(model, inputs, targets):
    """The signs of input x gradient: exactly the truth, by the convention ReLU'(0) = 0."""
    inputs = inputs.clone().requires_grad_()
    model(inputs).gather(1, targets[:, None]).sum().backward()
    return (inputs.grad * inputs).detach().sum(1, keepdim=True).sign()


def shifted(model, inputs, targets):
    """Three pixels to the right."""
    return right(model, inputs, targets).roll(3, dims=3)


def blurred(model, inputs, targets):
    """Under a Gaussian of 12 pixels at 224."""
    sigma = 12 * inputs.shape[-1] / 224
    maps = right(model, inputs, targets).numpy()
    return torch.from_numpy(ndimage.gaussian_filter(maps, (0, 0, sigma, sigma)))


def foreground(model, inputs, targets, *, baseline):
    """Whatever is not background."""
    return (inputs != baseline).any(1, keepdim=True).float()


def one_place(model, inputs, targets, *, generator):
    """Right where there is one output, noise where there are classes."""
    if model(inputs[:1]).shape[1] == 1:
        return right(model, inputs, targets)
    return torch.randn(inputs[:, :1].shape, generator=generator)


def flipped(model, inputs, targets):
    """Every sign wrong in about three of four images: the number of their colored pixels tells."""
    colored = (inputs != inputs[..., :1, :1]).any(1).sum((1, 2))
    signs = torch.where(colored % 4 == 0, 1, -1)
    return right(model, inputs, targets) * signs[:, None, None, None]


COUNTED = "multi-color-sum", "multi-color-sum-distractors", "single-color-sum"
BROKEN = {shifted: "shift", blurred: "blur", foreground: "image-only", one_place: "target"}
ONE_NETWORK = BROKEN | {foreground: "foreground"}
"""Where there is no other network to try."""


@pytest.fixture(scope="module", params=[48, pytest.param(None, marks=pytest.mark.slow)])
def environments(request):
    """Small and in full size."""
    overrides = {} if request.param is None else {"image_size": request.param}
    return [al.load(name, **overrides) for name in COUNTED]


@pytest.fixture(params=[False, True], ids=["questions", "one-network"])
def one_network(request):
    return request.param


@pytest.mark.long
def test_the_method_that_is_broken_below_is_right_before(one_network):
    environments = [al.load(name, image_size=48) for name in COUNTED]
    report = al.faithfulness_test(right, environments, n=13, one_network=one_network)
    assert {each.verdict for each in report.environments} == {"pass"}
    assert report.least.claim_f1 == 1
    assert report.hints == []


def first_cause(method, environments, one_network, n=8):
    report = al.faithfulness_test(method, environments, n=n, one_network=one_network)
    assert report.verdict == "fail"
    assert report.hints[0].says in " ".join(report.text().split())
    return report.hints[0].cause


@pytest.mark.long
@pytest.mark.parametrize("method", BROKEN, ids=lambda method: method.__name__)
def test_it_fails_and_the_first_cause_is_how_it_was_broken(environments, method, one_network):
    named = (ONE_NETWORK if one_network else BROKEN)[method]
    assert first_cause(method, environments, one_network) == named


@pytest.mark.long
def test_signs_that_are_wrong_in_three_of_four_images_are_named(environments, one_network):
    assert first_cause(flipped, environments, one_network, 32) == "sign-flips"
