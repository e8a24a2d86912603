"""DeepLift, DeepSHAP and LRP agree with their papers' rules, and with Captum where that does."""

import math
import warnings

import pytest
import torch
from captum.attr import LRP, DeepLift, DeepLiftShap
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
import oracles_relevance as oracles
from attributionlab import AttributionLabError, methods
from random_chains import EXACT, SHAPE, random_chain, silently, told

seeds = st.integers(0, 2**31)
few = settings(max_examples=15)


def captum(kind, model, inputs, *arguments, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(model).attribute(inputs, *arguments, **settings).detach()


class Double(nn.Module):
    """A network that calls one activation module twice."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.relu = nn.Linear(4, 4), nn.Linear(4, 3), nn.ReLU()

    def forward(self, inputs):
        return self.relu(self.second(self.relu(self.first(inputs.flatten(1)))))


@few
@given(seeds)
def test_deep_lift_is_the_rescale_rule_in_matrix_form(seed):
    model, inputs, targets = random_chain(seed)
    baselines = torch.randn(2, *SHAPE).double()
    got = silently(methods.deep_lift, model, inputs, targets, baselines=baselines)
    layers, _ = oracles.layers_of(model, SHAPE)
    for i, target in enumerate(targets):
        expected = oracles.deep_lift(layers, inputs[i], baselines[i], target)
        torch.testing.assert_close(got[i], expected, **EXACT)


def test_behind_a_softmax_an_image_does_not_depend_on_its_neighbors():
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(3)
    model = env.softmax_model
    with_others = captum(DeepLift, model, images, target=labels)[:1]
    alone = captum(DeepLift, model, images[:1], target=labels[:1])
    assert not torch.allclose(with_others, alone, rtol=1e-2)  # as it does in Captum's own class
    got = silently(methods.deep_lift, model, images, labels)[:1]
    torch.testing.assert_close(got, alone, rtol=1e-5, atol=1e-7 * float(alone.abs().max()))


def test_behind_a_softmax_all_signs_turn_where_the_probability_is_below_the_baseline_s():
    # Rescale through the softmax: (p_c - 1/K) / A_c for the logit A_c of the target, 0 for the others,
    # less the mean over logits; each pixel adds 1 to its count. The baseline's probabilities are 1/K.
    env = al.load("multi-color-sum", image_size=24)
    images, _ = env.batch(4)
    counts, classes = env.counting.counts(images).double(), env.network.classes
    above = 0
    for target in range(classes):
        targets = torch.full((4,), target)
        logits, probabilities = (
            silently(methods.deep_lift_true_baseline, model, images, targets, baseline=env.baseline)
            for model in (env.model, env.softmax_model)
        )
        with torch.no_grad():
            excess = env.softmax_model(images).double()[:, target] - 1 / classes
        shares = torch.tensor(
            [-1 / classes, 0, 1 - 1 / classes]
        )  # of other colors, none, the target's
        truth = env.truth(images, targets, "probability").signed[:, 0]
        expected = (excess / counts[:, target])[:, None, None] * shares[truth.long() + 1]
        found = probabilities.sum(1).double()
        # Differences of probabilities near each other, in float32.
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)
        turned = excess.sign()[:, None, None] * truth
        assert torch.equal(torch.where(truth != 0, found, 0).sign(), turned.double())
        right = env.truth(images, targets, "logit").signed.float()
        torch.testing.assert_close(logits.sum(1, keepdim=True), right, rtol=0, atol=1e-5)
        above += int((excess > 0).sum())
    assert 4 <= above < 12  # both signs are common


@few
@given(seeds)
def test_each_use_of_a_module_has_its_own_multipliers(seed):
    torch.manual_seed(seed)
    model = Double().double()
    inputs, baselines = torch.randn(2, 2, 1, 2, 2).double()
    got = silently(methods.deep_lift, model, inputs, torch.tensor([2, 0]), baselines=baselines)
    chain = [nn.Flatten(), model.first, model.relu, model.second, model.relu]
    layers, _ = oracles.layers_of(chain, (1, 2, 2))
    for i, target in enumerate([2, 0]):
        expected = oracles.deep_lift(layers, inputs[i], baselines[i], target)
        torch.testing.assert_close(got[i], expected, **EXACT)


def test_below_eps_the_gradient_takes_over():
    model, inputs, targets = random_chain(1)
    got = silently(methods.deep_lift, model, inputs, targets, eps=1e9)
    expected = methods.input_x_gradient(model, inputs, targets).detach()
    torch.testing.assert_close(got, expected, **EXACT)


# DeepSHAP


def test_deep_shap_from_one_baseline_is_deep_lift():
    model, inputs, targets = random_chain(5)
    expected = silently(methods.deep_lift, model, inputs, targets)
    for one in (0.0, (0.0, 0.0), torch.zeros(1, *SHAPE).double(), torch.zeros(2, 1, 1)):
        assert torch.equal(
            silently(methods.deep_shap, model, inputs, targets, baselines=one), expected
        )
    pixel = torch.tensor([1.0, 2.0])[:, None, None]
    assert torch.equal(
        silently(methods.deep_shap_true_baseline, model, inputs, targets, baseline=pixel),
        silently(methods.deep_lift_true_baseline, model, inputs, targets, baseline=pixel),
    )


@pytest.mark.long
@few
@given(seeds, st.integers(2, 4))
def test_deep_shap_from_several_baselines_is_captums_deep_lift_shap(seed, n):
    model, inputs, targets = random_chain(seed)
    baselines = torch.randn(n, *SHAPE).double()
    with methods.collect_notices() as findings:
        got = methods.deep_shap(model, inputs, targets, baselines=baselines)
    expected = captum(DeepLiftShap, model, inputs, baselines, target=targets)
    torch.testing.assert_close(got, expected, **EXACT)
    assert max(max(finding.gaps, default=0) for finding in findings) < 1e-6
    assert torch.equal(
        silently(methods.deep_shap, model, inputs, targets, baselines=baselines.numpy()), got
    )


# LRP


RULES = {
    "epsilon": {},
    "gamma 0.25": {"rule": "gamma"},
    "gamma 3": {"rule": "gamma", "gamma": 3.0},
    "alpha 1": {"rule": "alpha-beta", "alpha": 1.0},
    "alpha 2": {"rule": "alpha-beta"},
    "alpha 3": {"rule": "alpha-beta", "alpha": 3.0},
}
each_rule = pytest.mark.parametrize("how", RULES.values(), ids=RULES)


@each_rule
@settings(max_examples=3)
@given(seeds, st.booleans(), st.sampled_from([1e-9, 1e-3, 0.5]))
def test_lrp_is_its_rule_in_matrix_form(how, seed, bias, epsilon):
    model, inputs, targets = random_chain(seed, bias)
    got = silently(methods.lrp, model, inputs, targets, epsilon=epsilon, **how)
    layers, _ = oracles.layers_of(model, SHAPE)
    for i, target in enumerate(targets):
        expected = oracles.lrp(layers, inputs[i], target, epsilon, **how)
        torch.testing.assert_close(got[i], expected, **EXACT)


def test_the_rules_of_lrp_by_hand():
    # One unit of the terms 4, -1 and -1, z = 2: gamma 1 counts the first twice, so that the shares are
    # 8/6, -1/6 and -1/6; alpha 2 gives 2 * 4/4, and -1 * 1/2 to each of the others. At z = -2 the signs
    # of the terms change, and with them which are favored. The bias is a term of its own.
    layer = nn.Linear(3, 2)
    layer.weight.data = torch.tensor([[4.0, -1.0, -1.0], [-4.0, 1.0, 1.0]])
    layer.bias.data.zero_()

    def of(model, target, **how):
        inputs = torch.ones(1, 3)
        return silently(methods.lrp, model, inputs, torch.tensor([target]), epsilon=1e-12, **how)[
            0
        ].tolist()

    assert of(layer, 0, rule="gamma", gamma=1.0) == pytest.approx([8 / 3, -1 / 3, -1 / 3])
    assert of(layer, 1, rule="gamma", gamma=1.0) == pytest.approx([-8 / 3, 1 / 3, 1 / 3])
    assert of(layer, 0, rule="alpha-beta") == pytest.approx([4, -1, -1])
    assert of(layer, 0, rule="alpha-beta", alpha=1.0) == pytest.approx([2, 0, 0])
    layer.bias.data.fill_(4.0)  # z = 6, of the terms above 0 the bias is a half
    assert of(layer, 0, rule="gamma", gamma=1.0) == pytest.approx([6 * 8 / 14, -6 / 14, -6 / 14])
    assert of(layer, 0, rule="alpha-beta") == pytest.approx([6, -3, -3])


@each_rule
def test_rules_of_lrp_see_layers_however_they_are_called_and_change_no_output(how):
    torch.manual_seed(0)
    functional = nn.functional

    class Called(nn.Module):
        def __init__(self, by_name):
            super().__init__()
            self.by_name, self.last = by_name, nn.Linear(36, 2, bias=False)
            self.inner = nn.utils.parametrizations.weight_norm(nn.Conv2d(1, 2, 3, bias=False))
            self.up = nn.ConvTranspose2d(2, 1, 3, bias=False)

        def forward(self, x):
            if not self.by_name:
                return self.last(self.up(self.inner(x).relu()).relu().flatten(1))
            x = functional.conv2d(input=x, weight=self.inner.weight).relu()
            x = functional.conv_transpose2d(x, self.up.weight, bias=None).relu()
            return functional.linear(x.flatten(1), weight=self.last.weight)

    model = Called(by_name=False).double()
    inputs, targets = torch.randn(2, 1, 6, 6).double(), torch.tensor([0, 1])
    before = model(inputs)
    maps = silently(methods.lrp, model, inputs, targets, epsilon=1e-16, **how)
    model.by_name = True
    by_name = silently(methods.lrp, model, inputs, targets, epsilon=1e-16, **how)
    torch.testing.assert_close(by_name, maps, **EXACT)
    chain = [nn.Flatten(), *(nn.Linear(1, 1, bias=False) for _ in range(2)), model.last]
    for linear, layer, shape in (
        (chain[1], model.inner, (1, 6, 6)),
        (chain[2], model.up, (2, 4, 4)),
    ):
        places = torch.eye(math.prod(shape)).double().reshape(-1, *shape)
        linear.weight.data = layer(places).flatten(1).T.detach()
    chain = nn.Sequential(*chain[:2], nn.ReLU(), chain[2], nn.ReLU(), chain[3])
    of_matrices = silently(methods.lrp, chain, inputs, targets, epsilon=1e-16, **how)
    torch.testing.assert_close(maps, of_matrices, **EXACT)
    assert torch.equal(model(inputs), before)
    if how.get("rule") != "alpha-beta":  # where units have terms of one sign alone
        whole = before.detach().gather(1, targets[:, None])[:, 0]
        torch.testing.assert_close(maps.flatten(1).sum(1), whole, **EXACT)


def test_alpha_beta_says_that_units_with_terms_of_one_sign_lose_or_add_relevance():
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.data.fill_(1.0)
    maps, [finding] = told(
        methods.lrp, layer, torch.ones(1, 2), torch.tensor([0]), rule="alpha-beta"
    )
    assert maps.sum().item() == pytest.approx(4)  # alpha = 2 times the output
    assert "contributions of a single sign" in finding.text
    assert not told(methods.lrp, layer, torch.ones(1, 2), torch.tensor([0]), rule="gamma")[1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_alpha_beta_of_terms_of_one_sign_is_finite_in_any_type(dtype):
    layer = nn.Linear(2, 1, bias=False, dtype=dtype)
    layer.weight.data = torch.tensor([[1.0, 1.0]], dtype=dtype)
    images = torch.tensor([1.0, 3.0], dtype=dtype).reshape(1, 2, 1, 1)
    network = nn.Sequential(nn.Flatten(), layer)
    with pytest.warns(al.AttributionLabWarning):
        found = methods.lrp(network, images, torch.tensor([0]), rule="alpha-beta", epsilon=1e-40)
    assert found.flatten().tolist() == [2, 6]  # alpha times the terms


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"gamma": 5.0}, "gamma is 5.*'epsilon'.*rule='gamma'"),
        ({"rule": "gamma", "alpha": 3.0}, "alpha is 3.*rule='alpha-beta'"),
    ],
)
def test_a_setting_of_another_rule_is_refused(settings, said):
    with pytest.raises(al.AttributionLabError, match=said):
        methods.lrp(nn.Flatten(), torch.ones(1, 1, 1, 2), torch.tensor([0]), **settings)


def test_gamma_of_weights_that_depend_on_the_images_is_refused():
    class Weighing(nn.Module):
        def forward(self, x):
            return nn.functional.linear(x, x[:1].repeat(2, 1))

    for how in RULES.values():
        with pytest.raises(AttributionLabError, match="lrp has no rule for"):
            methods.lrp(Weighing(), torch.ones(1, 2), torch.tensor([0]), **how)


def test_lrp_at_a_unit_of_exactly_zero_has_nothing_to_distribute():
    # z = 1 - 1 = 0 carries no relevance, although its parts are large and the gradient is not 0.
    first, last = nn.Linear(2, 1, bias=False), nn.Linear(1, 1)
    first.weight.data, last.weight.data = torch.tensor([[1.0, -1.0]]), torch.ones(1, 1)
    model = nn.Sequential(nn.Flatten(), first, last)
    got = silently(methods.lrp, model, torch.ones(1, 1, 1, 2), torch.tensor([0]))
    assert got.flatten().tolist() == [0.0, 0.0]


def test_lrp_splits_at_a_skip_connection_which_captums_does_not():
    torch.manual_seed(0)

    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.inner, self.last = (nn.Linear(4, 4, bias=False) for _ in range(3))

        def forward(self, inputs):
            hidden = self.first(inputs)
            return self.last(self.inner(hidden) + hidden)

    model = Skip().double()
    inputs, target = torch.randn(1, 4).double(), torch.tensor([1])
    layers, _ = oracles.layers_of([model.first, [[model.inner], []], model.last], (4,))
    expected = oracles.lrp(layers, inputs[0], 1, 1e-9)
    torch.testing.assert_close(methods.lrp(model, inputs, target)[0], expected, **EXACT)
    wrong = captum(LRP, model, inputs, target=target)[0]
    assert (wrong - expected).abs().max() > 0.01


def test_lrp_in_the_environments_is_the_input_times_the_gradient():
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(2)
    got = silently(methods.lrp, env.model, images, labels)
    assert torch.equal(got, methods.input_x_gradient(env.model, images, labels).detach())
    assert methods.lrp.output == "logit"


def test_lrp_says_how_much_relevance_biases_absorb():
    layer = nn.Linear(2, 1)
    layer.weight.data, layer.bias.data = torch.ones(1, 2), torch.tensor([2.0])
    model = nn.Sequential(nn.Flatten(), layer)
    with methods.collect_notices() as findings:
        methods.lrp(model, torch.ones(1, 1, 1, 2), torch.tensor([0]))
    (finding,) = findings
    # f = 1 + 1 + 2 = 4, of which the bias keeps 2.
    assert finding.images == 1
    assert list(finding.gaps) == [0.5]
    assert finding.text.startswith(
        "do not sum to the output but miss up to {worst} of it: the layers'"
    )
