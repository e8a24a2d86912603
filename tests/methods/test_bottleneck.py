"""The information bottleneck agrees with its formulas, and finds what an output needs."""

import copy
import gc
import math
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
import oracles_methods as twins
from attributionlab.base import GuardWarning
from attributionlab.methods import collect_notices, iba, observe
from attributionlab.methods.bottleneck import capacity, smoothed
from random_chains import seeded as generator


class Left(nn.Module):
    """Two classes; the logits read the left half of a 4 x 8 map only."""

    def __init__(self):
        super().__init__()
        self.maps = nn.Conv2d(1, 1, 1)
        nn.init.ones_(self.maps.weight)
        nn.init.zeros_(self.maps.bias)

    def forward(self, inputs):
        total = self.maps(inputs)[..., :4].sum((1, 2, 3))
        return torch.stack([total, -total], dim=1)


@pytest.fixture
def left():
    # References of mean 0 and deviation 1; the image lies one deviation above.
    references = torch.randn(400, 1, 4, 8, generator=generator(1))
    return Left(), torch.full((1, 1, 4, 8), 1.0), references


@given(
    passing=st.floats(0, 0.99),
    activation=st.floats(-5, 5),
    mean=st.floats(-5, 5),
    std=st.floats(0.01, 5),
)
def test_capacity_is_the_divergence_from_the_noise(passing, activation, mean, std):
    r, m, s, passed = torch.tensor([activation, mean, std, passing], dtype=torch.float64)
    wanted = twins.divergence(
        passing * activation + (1 - passing) * mean, (1 - passing) * std, mean, std
    )
    # float64; the twin loses digits in the difference of the means.
    assert float(capacity(passed, r, m, s)) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@given(
    passing=st.floats(0, 0.99),
    granted=st.floats(0, 1),
    activation=st.floats(-5, 5),
    mean=st.floats(-5, 5),
    std=st.floats(0.01, 5),
)
def test_what_is_granted_is_not_counted(passing, granted, activation, mean, std):
    numbers = [passing, activation, mean, std, granted]
    before = passing * granted
    wanted = twins.divergence(
        *(passing * activation + (1 - passing) * mean, (1 - passing) * std),
        *(before * activation + (1 - before) * mean, (1 - before) * std),
    )
    given = [torch.tensor(each, dtype=torch.float64) for each in numbers]
    # float64; the twin loses digits in the difference of the means, over a standard deviation that may
    # be 1e-4: 1e-16 / 1e-4 squared, times what the difference is.
    assert float(capacity(*given)) == pytest.approx(wanted, rel=1e-7, abs=1e-7)


def test_nothing_counts_where_all_is_granted_and_all_where_nothing_is():
    values = torch.rand(4, 3, generator=generator())
    passing = torch.tensor([0.0, 0.5, 1.0])
    assert torch.equal(capacity(passing, *values[:3], torch.ones(3)), torch.zeros(3))
    assert torch.equal(
        capacity(passing, *values[:3], torch.zeros(3)), capacity(passing, *values[:3])
    )


def test_capacity_and_its_gradient_by_hand():
    passing = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    r, mean, std = torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64)
    information = capacity(passing, r, mean, std)
    # (1/2)^2 + (1/2)^2 = 1/2, less 1, halved; and ln 2.
    assert information.item() == pytest.approx(math.log(2) - 0.25, rel=1e-12)
    (slope,) = torch.autograd.grad(information, passing)
    # 1 / (1 - l) + l ((r - mu) / sigma)^2 - (1 - l) = 2 + 1/2 - 1/2
    assert float(slope) == pytest.approx(2.0, rel=1e-12)


def test_capacity_is_zero_for_noise_and_finite_without_any():
    one, nothing = torch.ones(()), torch.zeros(())
    assert capacity(nothing, 7 * one, one, one) == 0
    # 1 - lambda counts as 2^-23: (2^2 + 2^-46 - 1) / 2 + 23 ln 2.
    assert float(capacity(one, 3 * one, one, one)) == pytest.approx(1.5 + 23 * math.log(2))


@pytest.mark.parametrize("sigma", [0.4, 1.0])
def test_the_passing_share_is_smoothed_with_mirrored_edges(sigma):
    passing = torch.rand(2, 3, 5, 7, generator=generator()).double()
    wanted = [[twins.mirrored_smoothing(m.tolist(), sigma) for m in each] for each in passing]
    torch.testing.assert_close(smoothed(passing, sigma), torch.tensor(wanted).double())
    assert smoothed(passing, 0) is passing


def test_the_steps_are_adams_on_the_stated_loss():
    model = nn.Sequential(nn.Identity(), nn.Flatten(), nn.Linear(4, 1)).double()
    inputs = torch.tensor([[[[1.0, 2.0], [0.5, -1.0]]]]).double()
    references = 3 * torch.randn(50, 1, 2, 2, generator=generator(3)).double() + 1
    kept = {"copies": 3, "sigma": 0, "beta": 0.1, "steps": 8}
    got = iba(
        model,
        inputs,
        torch.tensor([0]),
        reference_images=references,
        generator=generator(5),
        layer="0",
        **kept,
    )
    alpha, noises = torch.full((1, 2, 2), 5.0).double().requires_grad_(), generator(5)
    mean, std = references.mean(0), references.std(0)
    adam = torch.optim.Adam([alpha], lr=1.0)
    for _ in range(8):
        passing, noise = alpha.sigmoid(), torch.randn(3, 1, 2, 2, generator=noises).double()
        mixed = passing * inputs + (1 - passing) * (mean + std * noise)
        error = ((model(mixed) - model(inputs)) ** 2).mean() / (2 * model(references).var())
        loss = error + 0.1 * capacity(passing, inputs[0], mean, std).mean()
        (alpha.grad,) = torch.autograd.grad(loss, alpha)
        adam.step()
    wanted = capacity(alpha.sigmoid(), inputs[0], mean, std) / math.log(2)
    # The same float64 operations but for their order. 1 - lambda > 0.002 is rounded to 2^-53, which is
    # 6e-14 of it; eight steps and gradients that cancel may take four digits more.
    torch.testing.assert_close(got[0], wanted.detach(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("softmax", [False, True])
def test_neurons_that_the_output_ignores_let_nothing_through(left, softmax):
    model, inputs, references = left
    layer = "maps"
    if softmax:
        model, layer = nn.Sequential(model, nn.Softmax(dim=1)), "0.maps"
    (got,) = iba(
        model,
        inputs,
        torch.tensor([0]),
        reference_images=references,
        generator=generator(),
        layer=layer,
        beta=1.0,
        steps=60,
        sigma=0,
    )
    needed, ignored = got[..., :4], got[..., 4:]
    assert float(ignored.max()) < 1e-3
    assert float(needed.mean()) > 100 * float(ignored.mean())


def test_neurons_that_no_reference_image_sets_off_are_told_of(left):
    model, inputs, references = left
    common = {"generator": generator(), "layer": "maps"}
    with pytest.warns(GuardWarning, match=r"owe up to 100% of their information .* pass more"):
        iba(model, inputs, torch.tensor([0]), reference_images=0 * references, **common)
    with collect_notices() as findings:
        iba(model, inputs, torch.tensor([0]), reference_images=references, **common)
    assert [finding.images for finding in findings] == [0]


@pytest.fixture
def chain():
    """A network whose weights, buffer and references all decide about the noise."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.Conv2d(2, 2, 1), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(32, 1)).eval()


def explained(model, references, layer="2", image=None):
    images = torch.ones(1, 1, 4, 4) if image is None else image
    common = {"generator": generator(), "layer": layer, "steps": 2, "copies": 2}
    return iba(model, images, torch.tensor([0]), reference_images=references, **common)


def test_reference_images_pass_once_for_all_calls_with_the_same_ones(chain):
    references, passed = torch.randn(7, 1, 4, 4, generator=generator(1)), []
    chain[0].register_forward_hook(lambda _m, inputs, _o: passed.append(len(inputs[0])))
    alone = [
        explained(copy.deepcopy(chain), references, image=value * torch.ones(1, 1, 4, 4))
        for value in (1.0, 2.0)
    ]
    passed.clear()
    with collect_notices():  # without the passes of the guards of a direct call
        first, same = explained(chain, references), explained(chain, references.clone())
    # One to see how many fit, seven for the noise, and for each image one for the layout and its own.
    assert sorted(passed) == [1, 1, 1, 1, 1, 7]
    with collect_notices():
        other = explained(chain, references, image=2 * torch.ones(1, 1, 4, 4))
    assert len(passed) == 8
    assert torch.equal(first, same)
    assert torch.equal(first, alone[0])
    assert torch.equal(other, alone[1])


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model[0].weight.data.mul_(2),  # counts no version
        lambda model: model[1].running_mean.add_(1),
        lambda model: model[0].register_forward_hook(lambda _m, _i, output: 2 * output),
        lambda model: model[2].register_forward_pre_hook(lambda _m, inputs: (2 * inputs[0],)),
        lambda model: vars(model[1]).update(eps=3.0),  # no tensor: stands in how the module prints
    ],
)
def test_a_model_that_changes_between_calls_has_its_noise_anew(chain, change):
    references = torch.randn(7, 1, 4, 4, generator=generator(1))
    before = explained(chain, references)
    change(chain)
    unknown = copy.deepcopy(chain)
    after = explained(chain, references)
    assert not torch.equal(before, after)
    assert torch.equal(after, explained(unknown, references))


def test_other_reference_images_and_layers_have_noise_of_their_own(chain):
    references = torch.randn(7, 1, 4, 4, generator=generator(1))
    explained(chain, references)
    references.data.mul_(2)
    for layer in ("2", "0"):
        unknown = copy.deepcopy(chain)
        assert torch.equal(
            explained(chain, references, layer), explained(unknown, references, layer)
        )


def test_noise_keeps_no_model_alive(chain):
    model = copy.deepcopy(chain)
    explained(model, torch.randn(7, 1, 4, 4, generator=generator(1)))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("name", ["multi-color-sum", "single-color-modulo"])
def test_at_224_the_cells_of_27_pixels_begin_19_pixels_outside(name):
    env = al.load(name)
    images, _ = env.batch(1)
    maps, _ = observe(env.model, env.layers["iba"], images)
    assert maps.shape[2:] == (9, 9)
    side, outside = 1, 0
    for module in env.model.modules():
        if isinstance(module, nn.Conv2d):
            (kernel, _), (stride, _), (padding, _) = (
                module.kernel_size,
                module.stride,
                module.padding,
            )
            assert kernel == stride  # no two cells overlap
            outside, side = outside + side * padding, side * stride
        if module is env.layers["iba"]:
            break
    assert (side, outside) == (27, 19)
