"""Excitation backpropagation hands down probabilities through every operation that it knows."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
import oracles_methods as oracles
from attributionlab.base import AttributionLabError
from attributionlab.methods import collect_notices, excitation_backprop
from random_chains import SHAPE, random_chain, silently
from small_networks import Function

# Some hundred float64 products and quotients of numbers between 0 and 1.
EXACT = {"rtol": 0, "atol": 1e-12}
TARGETS = torch.tensor([1, 0])


def run(model, inputs=None, **settings):
    if inputs is None:
        torch.manual_seed(7)
        inputs = torch.rand(2, 2, 4, 4).double()
    return silently(excitation_backprop, model.double().eval(), inputs, TARGETS, **settings)


class Of(nn.Module):
    """A function of the image by two layers, and a linear layer at the end."""

    def __init__(self, function, maps=3, seed=0, last=48):
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.second = nn.Conv2d(2, maps, 3, padding=1), nn.Conv2d(maps, 3, 1)
        self.last, self.function = nn.Linear(last, 2), function

    def forward(self, inputs):
        return self.last(self.function(self, inputs).flatten(1))


def relu_chain(net, x):
    return net.second(net.first(x).relu()).relu()


SAME = {
    "functions": lambda net, x: F.relu(net.second(torch.relu(net.first(x)))),
    "in place": lambda net, x: net.second(net.first(x).relu_()).relu_(),
    "arguments by name": lambda net, x: F.relu(
        F.conv2d(
            F.relu(F.conv2d(padding=1, bias=net.first.bias, weight=net.first.weight, input=x)),
            net.second.weight,
            bias=net.second.bias,
        ),
        inplace=True,
    ),
    "a constant added": lambda net, x: (
        F.conv2d(net.first(x).relu(), net.second.weight) + net.second.bias.reshape(1, -1, 1, 1)
    ).relu(),
    "shapes": lambda net, x: (
        net.second(net.first(x.view(2, 2, 16).reshape(2, 2, 4, 4)).relu())
        .permute(0, 2, 3, 1)
        .transpose(1, 3)
        .transpose(2, 3)
        .contiguous()
        .relu()
    ),
    "in parts": lambda net, x: torch.cat(net.second(net.first(x).relu()).relu().chunk(3, 1), 1),
}


@pytest.mark.parametrize("way", SAME.values(), ids=SAME)
def test_the_way_in_which_an_operation_is_called_is_of_no_importance(way):
    expected = run(Of(relu_chain))
    assert expected.any()
    torch.testing.assert_close(run(Of(way)), expected, **EXACT)


def test_a_residual_sum_is_a_layer_of_two_inputs():
    """ReLU(W x + b) + x is [1 1] of what [W; 1] of x gives, with images of at least 0."""
    model = Of(lambda net, x: net.first(x).relu() + x, maps=2, last=32).double()
    inputs = torch.rand(2, 2, 4, 4).double()
    [(weight, bias)] = oracles.in_matrix_form([model.first], (2, 4, 4))
    one, none = torch.eye(32).double(), torch.zeros(32).double()
    stages = [
        (torch.cat([weight, one]), torch.cat([bias, none])),
        None,
        (torch.cat([one, one], 1), none),
        (model.last.weight.detach(), model.last.bias.detach()),
    ]
    got = run(model, inputs)
    for i, target in enumerate(TARGETS):
        *_, expected = oracles.winning_probabilities(stages, inputs[i], target)
        torch.testing.assert_close(got[i, 0], expected.reshape(2, 4, 4).sum(0), **EXACT)


def test_a_sum_may_work_in_place():
    def in_place(net, x):
        hidden = net.first(x)
        same = hidden
        hidden += x
        return same.relu_()

    expected = run(Of(lambda net, x: (net.first(x) + x).relu(), maps=2, last=32))
    assert expected.any()
    assert torch.equal(run(Of(in_place, maps=2, last=32)), expected)


def test_what_is_below_zero_adds_nothing_to_a_sum():
    """The first summand of 3 + (-1) wins all; that of 3 + 1 wins three quarters."""

    class Rows(nn.Module):
        def forward(self, inputs):
            first, second = inputs.split(1, 2)
            return (first + second).flatten(1)

    images = torch.tensor([[3.0, -1.0], [3.0, 1.0]]).reshape(2, 1, 2, 1)
    got = excitation_backprop(Rows(), images, torch.tensor([0, 0]))
    assert got.flatten(1).tolist() == [[1, 0], [0.75, 0.25]]


def normalization(channels, seed):
    torch.manual_seed(seed)
    norm = nn.BatchNorm2d(channels)
    norm.running_mean.data, norm.running_var.data = (
        torch.randn(channels),
        0.5 + torch.rand(channels),
    )
    norm.weight.data, norm.bias.data = torch.randn(channels), torch.randn(channels)
    return norm


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_batch_normalization_is_part_of_the_layer_in_front_of_it(affine, bias):
    torch.manual_seed(1)
    conv, norm = nn.Conv2d(2, 4, 3, padding=1, bias=bias), normalization(4, 2)
    if not affine:
        norm.weight = norm.bias = None
    rest = [nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)]
    whole = nn.Sequential(conv, norm, *rest).double().eval()
    scale = (norm.running_var + norm.eps).rsqrt() * (norm.weight if affine else 1)
    folded = nn.Conv2d(2, 4, 3, padding=1).double()
    folded.weight.data = conv.weight.data * scale.reshape(-1, 1, 1, 1)
    shift = (conv.bias if bias else 0) - norm.running_mean
    folded.bias.data = shift * scale + (norm.bias if affine else 0)
    inputs = torch.rand(2, 2, 4, 4).double()
    expected = run(nn.Sequential(folded, *rest), inputs)
    torch.testing.assert_close(run(whole, inputs), expected, **EXACT)
    assert not affine or (scale < 0).any()
    by_layer = [
        run(net, inputs, layer=str(at))
        for net, at in ((whole, 2), (nn.Sequential(folded, *rest), 1))
    ]
    torch.testing.assert_close(*by_layer, **EXACT)
    assert by_layer[0].any()


def test_batch_normalization_behind_another_operation_has_one_weight_for_each_unit():
    torch.manual_seed(1)
    conv, norm = nn.Conv2d(2, 3, 1), normalization(3, 2).double()
    rest = [nn.ReLU(), nn.Flatten(), nn.Linear(48, 2)]
    scale = ((norm.running_var + norm.eps).rsqrt() * norm.weight).detach()
    diagonal = nn.Conv2d(3, 3, 1).double()
    diagonal.weight.data = torch.diag(scale).reshape(3, 3, 1, 1)
    diagonal.bias.data = norm.bias.data - norm.running_mean * scale
    got = run(nn.Sequential(conv, nn.ReLU(inplace=True), norm, *rest))
    expected = run(nn.Sequential(conv, nn.ReLU(), diagonal, *rest))
    torch.testing.assert_close(got, expected, **EXACT)
    assert got.any()


def averaging(size):
    conv = nn.Conv2d(3, 3, size, stride=size, groups=3, bias=False)
    conv.weight.data.fill_(1 / size**2)
    return conv


@pytest.mark.parametrize("average", [nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(2)])
def test_averages_are_layers_with_positive_weights(average):
    def chain(pool):
        torch.manual_seed(1)
        last = nn.Linear(12, 2)
        return nn.Sequential(nn.Conv2d(2, 3, 1), nn.ReLU(), pool, nn.Flatten(), last)

    expected = run(chain(averaging(2)))
    assert expected.any()
    torch.testing.assert_close(run(chain(average)), expected, **EXACT)


@pytest.mark.parametrize("reduce", [torch.mean, torch.sum])
def test_means_and_sums_are_layers_with_positive_weights(reduce):
    pooled = Of(lambda net, x: reduce(relu_chain(net, x), (2, 3)), last=3)
    twin = Of(lambda net, x: F.avg_pool2d(relu_chain(net, x), 4), last=3)
    assert run(twin).any()
    torch.testing.assert_close(run(pooled), run(twin), **EXACT)


def test_max_pooling_hands_all_to_the_largest():
    model = nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1, 1, bias=False))
    model[2].weight.data.fill_(0.5)
    image = torch.tensor([[1.0, 4.0], [3.0, 2.0]]).reshape(1, 1, 2, 2)
    got = excitation_backprop(model, image, torch.tensor([0]))
    assert got.flatten().tolist() == [0, 1, 0, 0]


def test_rounding_in_place_of_zero_excites_nothing():
    """In float32, 2^-22 of the largest excitation of an image is rounding, and 2^-10 is not."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight.data = torch.eye(2)
    model[2].weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    images = torch.tensor([[1.0, 2.0**-22], [1.0, 2.0**-10]]).reshape(2, 1, 1, 2)
    got = silently(excitation_backprop, model, images, torch.tensor([1, 1]))
    assert got.flatten(1).tolist() == [[0, 0], [0, 1]]


class Scaled(nn.Module):
    def forward(self, inputs):
        return 2 * inputs


class Unexcited(nn.Module):
    def forward(self, inputs):
        return torch.add(inputs, inputs, alpha=-1)


class Normalized(nn.Module):
    def forward(self, inputs):
        one, none = torch.ones(2), torch.zeros(2)
        return torch.batch_norm(inputs, one, none, none, one, False, 0.1, 1e-5, False)


REFUSED = {
    "gelu": (nn.GELU(), "no rule for 'gelu' in module '1.0'"),
    "layer norm": (nn.LayerNorm(4), "no rule for 'layer_norm' in module '1.0'"),
    "product": (Scaled(), "no rule for 'mul' in module '1.0'"),
    "difference": (Unexcited(), "no rule for 'add' in module '1.0'"),
    "torch's own normalization": (Normalized(), "no rule for 'batch_norm' in module '1.0'"),
    "transposed": (nn.ConvTranspose2d(2, 2, 1), "no rule for 'conv_transpose2d' in module '1.0'"),
    "softmax": (
        nn.Softmax(1),
        "explains logits, but this network has a softmax: pass explain='logit'",
    ),
    "log softmax": (nn.LogSoftmax(1), "this network has a softmax"),
    "dropout": (
        Function(partial(F.dropout, training=True)),
        r"module '1.0' is in training mode: call model.eval\(\)",
    ),
    "normalization": (
        Function(partial(F.batch_norm, running_mean=None, running_var=None, training=True)),
        "module '1.0' is in training mode",
    ),
}


@pytest.mark.parametrize(("module", "message"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_rule_is_refused_with_its_place(module, message):
    model = nn.Sequential(nn.Conv2d(2, 2, 1), nn.Sequential(module), nn.Flatten(), nn.Linear(32, 2))
    inputs = torch.rand(2, 2, 4, 4)
    with pytest.raises(AttributionLabError, match=message) as caught:
        excitation_backprop(model, inputs, TARGETS)
    assert "\n" not in str(caught.value)
    # In front of the layer anything may run.
    behind = silently(excitation_backprop, model, inputs, TARGETS, layer="1")
    assert torch.isfinite(behind).all()


def test_a_function_of_the_network_itself_is_refused_too():
    model = Of(lambda net, x: net.first(x).sigmoid()).double()
    with pytest.raises(AttributionLabError, match="no rule for 'sigmoid' in the network: take"):
        run(model)


@pytest.mark.parametrize("training", [{"training": True}, {}])
def test_training_is_found_whatever_way_it_is_asked_for(training):
    def forward(net, x):
        if training:
            return F.dropout(net.first(x), **training)
        return torch.dropout(net.first(x), 0.5, True)

    with pytest.raises(AttributionLabError, match="the network is in training mode"):
        run(Of(forward))


def test_what_is_computed_without_gradients_is_a_constant():
    torch.manual_seed(7)
    images = torch.rand(2, 2, 4, 4).double()  # those of `run`

    def aside(net, x):
        with torch.no_grad():
            hidden = net.first(x).sigmoid()
        return net.first(x).relu() + hidden

    constant = Of(aside).double().first(images).sigmoid().detach()
    expected = run(Of(lambda net, x: net.first(x).relu() + constant))
    assert expected.any()
    torch.testing.assert_close(run(Of(aside)), expected, **EXACT)


def test_weights_that_are_computed_are_weights_too():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.direction = nn.Parameter(torch.randn(2, 32).double())

        def weight(self):
            return self.direction / self.direction.norm()

        def forward(self, inputs):
            return F.linear(inputs.flatten(1), self.weight())

    plain = nn.Sequential(nn.Flatten(), nn.Linear(32, 2, bias=False)).double()
    plain[1].weight.data = Normed().weight().detach()
    assert torch.equal(run(Normed()), run(plain))


def test_a_weight_that_depends_on_the_image_is_refused():
    class Own(nn.Module):
        def forward(self, inputs):
            return F.linear(inputs.flatten(1)[:, :16], inputs[0].reshape(2, 16))

    with pytest.raises(AttributionLabError, match="no rule for 'linear'"):
        run(Own())


seeds = st.integers(0, 2**31)
few = settings(max_examples=8)
# Some thousand float64 products and quotients of numbers between 0 and 1.


@few
@given(seeds, st.booleans())
def test_each_winner_is_drawn_among_what_excites_it(seed, bias):
    model, inputs, targets = random_chain(seed, bias)
    got = silently(excitation_backprop, model, inputs, targets)
    stages = oracles.in_matrix_form(model, SHAPE)
    assert got.shape == (2, 1, 5, 5)
    for i, target in enumerate(targets):
        *_, expected = oracles.winning_probabilities(stages, inputs[i], target)
        torch.testing.assert_close(got[i, 0], expected.reshape(SHAPE).sum(0), **EXACT)


@few
@given(seeds)
def test_a_layer_gets_what_the_units_that_it_returns_win(seed):
    model, inputs, targets = random_chain(seed)
    got = silently(excitation_backprop, model, inputs, targets, layer="1")
    stages = oracles.in_matrix_form(model, SHAPE)
    for i, target in enumerate(targets):
        expected = oracles.winning_probabilities(stages, inputs[i], target)[-3]
        # The layer has the size of the image: nothing is enlarged.
        torch.testing.assert_close(got[i, 0], expected.reshape(3, 5, 5).sum(0), **EXACT)


@pytest.mark.parametrize("layer", ["2", "3"])
def test_a_smaller_layer_is_enlarged_bilinearly(layer):
    model, inputs, targets = random_chain(1, bias=False)
    got = excitation_backprop(model, inputs, targets, layer=layer)
    stages = oracles.in_matrix_form(model, SHAPE)
    for i, target in enumerate(targets):
        coarse = oracles.winning_probabilities(stages, inputs[i], target)[-int(layer) - 2]
        rows = coarse.reshape(2, 2, 2).sum(0).tolist()
        expected = torch.tensor(oracles.enlarge(rows, 5, 5), dtype=torch.float64)
        torch.testing.assert_close(got[i, 0], expected, **EXACT)
        assert expected.any()


@few
@given(seeds)
def test_contrastive_subtracts_what_the_negated_last_layer_wins(seed):
    model, inputs, targets = random_chain(seed)
    with collect_notices():  # maps of zeros are right for some of these
        got = excitation_backprop(model, inputs, targets, contrastive=True)
    stages = oracles.in_matrix_form(model, SHAPE)
    for i, target in enumerate(targets):
        *_, own = oracles.winning_probabilities(stages, inputs[i], target)
        *_, dual = oracles.winning_probabilities(stages, inputs[i], target, dual=True)
        expected = (own - dual).reshape(SHAPE).sum(0).clamp(min=0)
        torch.testing.assert_close(got[i, 0], expected, **EXACT)


def chain_of(*, seed, inputs):
    """A network without biases and its positive images, every winner of which has an exciting input."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        *(nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(6, 3, bias=False)),
    )
    return model.double().eval(), torch.rand(inputs, 2, 12, 12).double(), torch.arange(inputs) % 3


@few
@given(seeds)
def test_probability_is_conserved_where_every_winner_has_an_exciting_input(seed):
    model, inputs, targets = chain_of(seed=seed, inputs=3)
    last = model[:-1](inputs)
    with collect_notices() as findings:
        sums = excitation_backprop(model, inputs, targets).sum((1, 2, 3))
    excited = ((last > 0) & (model[-1].weight[targets] > 0)).any(1)
    torch.testing.assert_close(sums, excited.double(), **EXACT)
    assert findings[0].images == int((~excited).sum())


def test_what_a_unit_wins_by_its_bias_alone_is_lost_and_told():
    """f = 3 ReLU(x - 0) + 1 ReLU(0 x + 3): a half of the excitation has no input."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    for layer, weight, bias in ((model[1], [[1.0], [-1.0]], [0, 4.0]), (model[3], [[3.0, 1]], [9])):
        layer.weight.data, layer.bias.data = torch.tensor(weight), torch.tensor(bias).float()
    image, target = torch.ones(1, 1, 1, 1), torch.tensor([0])
    with collect_notices() as findings:
        got = excitation_backprop(model, image, target)
    assert got.item() == 0.5  # 3 x 1 of 3 x 1 + 1 x 3
    [finding] = findings
    assert (finding.images, finding.worst) == (1, 0.5)
    assert finding.text.startswith("lose up to {worst} of the probability")
    with collect_notices() as findings:
        excitation_backprop(model, image, target, contrastive=True)
    assert not findings


def test_the_prior_is_one_whatever_the_size_and_sign_of_the_output():
    model, inputs, targets = chain_of(seed=3, inputs=3)
    expected = excitation_backprop(model, inputs, targets)
    model[-1].bias = nn.Parameter(torch.full((3,), -7.0).double())
    assert (model(inputs) < 0).all()
    assert torch.equal(excitation_backprop(model, inputs, targets), expected)
    assert torch.equal(
        excitation_backprop(model.float(), inputs.float(), targets) > 0, expected > 0
    )


@pytest.mark.parametrize("name", ["multi-color-sum", "single-color-modulo"])
def test_on_an_environment_it_finds_what_excites_the_output(name):
    env = al.load(name, image_size=24)
    images, labels = env.batch(2)
    targets = labels if env.task == "classification" else torch.zeros_like(labels)
    with collect_notices() as findings:
        got = excitation_backprop(env.model, images, targets)
    assert not any(finding.images for finding in findings)
    positive = env.truth(images, targets, output="logit").positive.reshape(got.shape)
    assert torch.equal(got > 0, positive > 0)
    # Sums of some thousand float32 numbers.
    torch.testing.assert_close(got.sum((1, 2, 3)), torch.ones(2), rtol=0, atol=1e-4)


def test_a_layer_from_which_nothing_leads_to_the_outputs_is_refused():
    class Aside(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.aside = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 1, 1)

        def forward(self, inputs):
            self.aside(inputs)
            return self.used(inputs).flatten(1)

    given = Aside(), torch.rand(1, 1, 2, 2), torch.tensor([0])
    with pytest.raises(AttributionLabError, match="no path leads from the layer to the outputs"):
        excitation_backprop(*given, layer="aside")
    assert excitation_backprop(*given, layer="used").sum() == 1


def test_what_has_no_weights_may_be_behind_the_last_layer():
    model, inputs, targets = chain_of(seed=3, inputs=3)
    model[-1].weight.data.add_(0.2)  # outputs of which a ReLU lets all pass
    assert (model(inputs)[torch.arange(3), targets] > 0).all()
    expected = excitation_backprop(model, inputs, targets, contrastive=True)
    assert expected.any()
    behind = nn.Sequential(model, nn.ReLU(), nn.Unflatten(1, (3, 1, 1)), nn.AvgPool2d(1))
    behind.append(nn.Flatten())
    got = silently(excitation_backprop, behind, inputs, targets, contrastive=True)
    torch.testing.assert_close(got, expected, **EXACT)


@pytest.mark.parametrize("parts", [0, 2])
def test_contrastive_needs_one_last_layer_with_weights(parts):
    class Parted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Conv2d(1, 1, 1) for _ in range(parts)])

        def forward(self, inputs):
            return torch.cat([layer(inputs) for layer in self.layers] or [inputs], 1).flatten(1)

    given = Parted(), torch.rand(1, 1, 1, 1), torch.tensor([0])
    with pytest.raises(AttributionLabError, match="does not end in a single layer with weights"):
        excitation_backprop(*given, contrastive=True)
