"""Layers are found, observed and replaced, and where their channels lie is proven."""

import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import attributionlab as al
from attributionlab.base import AttributionLabError, GuardWarning
from attributionlab.methods import METHODS, find_layer, layout_of, observe
from attributionlab.methods.layers import resume, returned
from cases import SMALL_ENVIRONMENTS, SMALL_WORLDS

INPUTS = torch.arange(32.0).reshape(1, 2, 4, 4)


@pytest.fixture
def chain():
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(2, 3, 2, 2), nn.ReLU(), nn.Conv2d(3, 2, 1))
    return nn.Sequential(inner, nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))


class Residual(nn.Module):
    """No chain: there is a way around the layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 2, 1)

    def forward(self, inputs):
        return (self.first(inputs) + inputs).flatten(1)[:, :3]


def test_a_layer_is_found_by_its_whole_name_or_an_unambiguous_end_of_it(chain):
    around = nn.Sequential(chain, nn.Softmax(dim=1))
    assert find_layer(around, "0.0.1", None, "iba") is chain[0][1]
    assert find_layer(chain, "0.1", None, "iba") is chain[0][1]
    assert find_layer(nn.Sequential(around), "0.0.0.1", None, "iba") is chain[0][1]
    assert find_layer(chain, None, {"iba": chain[1]}, "iba") is chain[1]
    assert find_layer(chain, 1, None, "iba") is chain[1]  # as layer=1 is read at the shell


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("frist", "layer is 'frist', which does not name a module: did you mean '1.first'?"),
        ("accumulator", "which does not name a module: known are 0, 0.first, 1, 1.first"),
        (
            1.1,
            """layer is 1.1, which does not name a module: write it as text, such as "layer='1.30'\"""",
        ),
        ("first", "layer is 'first', which matches 2 modules: take one of 0.first, 1.first"),
    ],
)
def test_an_unknown_or_ambiguous_name_is_refused(name, says):
    with pytest.raises(AttributionLabError, match=re.escape(says)):
        find_layer(nn.Sequential(Residual(), Residual()), name, None, "iba")


@pytest.mark.parametrize("layers", [None, {}, {"iba": nn.ReLU()}])
def test_without_a_name_the_layer_must_be_the_models_own(chain, layers):
    says = (
        "no layer 'iba' of its own: name .* for instance layer='0.2', the model's last convolution"
    )
    with pytest.raises(AttributionLabError, match=says):
        find_layer(chain, None, layers, "iba")


def test_a_network_without_a_convolution_has_its_modules_listed():
    linear = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    with pytest.raises(AttributionLabError, match=r"as `layer`: its modules are 0, 1$"):
        find_layer(linear, None, None, "gradcam")


def test_observing_gives_the_layers_and_the_networks_outputs(chain):
    maps, outputs = observe(chain, chain[0][1], INPUTS)
    assert torch.equal(maps, chain[0][:2](INPUTS))
    assert torch.equal(outputs, chain(INPUTS))
    assert not maps.requires_grad
    assert not outputs.requires_grad
    assert not chain[0][1]._forward_hooks


def test_maps_are_those_before_what_follows_works_in_place():
    model = nn.Sequential(nn.Conv2d(2, 3, 2), nn.ReLU(inplace=True), nn.Flatten())
    wanted = model[0](-INPUTS)
    assert (wanted < 0).any()
    assert torch.equal(observe(model, model[0], -INPUTS)[0], wanted)
    with_graph, _ = returned(model, model[0], -INPUTS)
    assert torch.equal(with_graph, wanted)
    given = [torch.autograd.grad(maps.sum(), model[0].weight) for maps in (with_graph, wanted)]
    assert torch.equal(given[0][0], given[1][0])


def test_maps_to_resume_from_stay_as_they_are():
    model, maps = nn.Sequential(nn.Identity(), nn.ReLU(inplace=True), nn.Flatten()), -INPUTS
    resume(model, model[0], INPUTS, maps)
    assert torch.equal(maps, -INPUTS)


def test_a_layer_that_runs_twice_or_returns_no_maps_is_refused(chain):
    relu = nn.ReLU()
    with pytest.raises(
        AttributionLabError, match="runs 2 times in a pass: name one that runs once"
    ):
        observe(nn.Sequential(relu, nn.Conv2d(2, 2, 1), relu), relu, INPUTS)
    with pytest.raises(AttributionLabError, match=r"returns shape \(1, 8\): name one that returns"):
        observe(chain, chain[2], INPUTS)
    assert not chain[2]._forward_hooks


def test_in_a_chain_only_what_is_behind_the_layer_runs(chain):
    maps = torch.randn(5, 3, 2, 2)
    chain[0][0].register_forward_hook(lambda *_: pytest.fail("the front ran"))
    expected = chain[1:](chain[0][2](maps))
    assert torch.equal(resume(chain, chain[0][1], INPUTS, maps), expected)


def test_elsewhere_the_layers_output_is_replaced():
    model, maps = Residual(), torch.randn(5, 2, 4, 4)
    expected = (maps + INPUTS).flatten(1)[:, :3]
    assert torch.equal(resume(model, model.first, INPUTS, maps), expected)
    assert not model.first._forward_hooks


SIZE, CHANNELS, CLASSES = 8, 4, 3
PICTURES = torch.rand(2, 2, SIZE, SIZE, generator=torch.Generator().manual_seed(0)).double()
TARGETS = torch.tensor([0, 2])


class Network(nn.Module):
    """Maps from somewhere, through a layer, to outputs."""

    def __init__(self, begin, layer, end):
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(2, CHANNELS, 2, 2)
        self.layer, self.begin, self.end = layer, begin, end
        self.convolution = nn.Conv2d(CHANNELS, CHANNELS, 1)
        self.linear = nn.Linear(CHANNELS, CHANNELS)
        self.norm = nn.LayerNorm(CHANNELS)
        self.head = nn.Linear(CHANNELS, CLASSES)
        self.double().eval()

    def forward(self, inputs):
        return self.head(self.end(self, self.layer(self.begin(self, inputs))))


class Opaque(torch.autograd.Function):
    """An operation of which nothing is known."""

    @staticmethod
    def forward(ctx, values):
        return torch.from_numpy(values.detach().numpy().copy())

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def convolved(net, inputs):
    return net.stem(inputs)


def patches_last(net, inputs):
    """What Swin begins with: (B, h, w, c)."""
    return net.linear(net.stem(inputs).permute(0, 2, 3, 1))


def unknown(net, inputs):
    return Opaque.apply(net.stem(inputs))


def unknown_last(net, inputs):
    return Opaque.apply(patches_last(net, inputs))


def tokens(net, maps):
    """Nothing tells rows and columns from channels."""
    return Opaque.apply(maps).flatten(1)[:, :CHANNELS]


FIRST, LAST = "channels-first", "channels-last"


@pytest.mark.parametrize(
    ("begin", "layer", "layout"),
    [
        (convolved, nn.ReLU(), FIRST),
        (convolved, nn.ReLU(inplace=True), FIRST),
        (convolved, nn.BatchNorm2d(CHANNELS), FIRST),
        (lambda net, x: net.stem(x) + x.mean((2, 3))[:, :1, None, None], nn.GELU(), FIRST),
        (lambda net, x: torch.cat([net.stem(x)[:, ::2], net.stem(x)[:, 2:]], 1), nn.ReLU(), FIRST),
        (lambda net, x: patches_last(net, x).permute(0, 3, 1, 2), nn.Identity(), FIRST),
        (lambda net, x: F.max_pool2d(unknown(net, x), 3, 1, 1), nn.Identity(), FIRST),
        (lambda net, x: x.repeat(1, 2, 1, 1)[..., ::2, ::2], nn.Tanh(), None),
        (lambda net, x: x[..., ::2, ::2], nn.Tanh(), FIRST),  # a cut image is one
        (patches_last, nn.GELU(), LAST),
        (lambda net, x: net.norm(patches_last(net, x)).relu(), nn.Dropout(), LAST),
        (lambda net, x: net.stem(x).movedim(1, -1), nn.Identity(), LAST),
        (lambda net, x: net.stem(x).transpose(1, 3), nn.Identity(), LAST),  # columns, then rows
        (lambda net, x: net.stem(x).transpose(1, 2), nn.Identity(), None),
        (lambda net, x: net.stem(x)[:, None, :, 0], nn.Identity(), None),
        (lambda net, x: torch.einsum("bchw->bhwc", net.stem(x)), nn.Identity(), None),
        (unknown, nn.Identity(), None),
    ],
)
def test_what_is_in_front_of_a_layer_proves_its_layout(begin, layer, layout):
    net = Network(begin, layer, tokens)
    assert proven(net) == layout


@pytest.mark.parametrize(
    ("end", "layout"),
    [
        (lambda net, maps: net.convolution(maps).flatten(1)[:, :CHANNELS], FIRST),
        (lambda net, maps: net.convolution(maps.relu_()).flatten(1)[:, :CHANNELS], FIRST),
        (lambda net, maps: F.adaptive_avg_pool2d(maps, 1).flatten(1), FIRST),
        (lambda net, maps: maps.mean((2, 3)), FIRST),
        (lambda net, maps: maps.amax(dim=[-1, -2]), FIRST),
        (lambda net, maps: maps.sum((1, 2)), LAST),
        (lambda net, maps: maps.flatten(2).mean(2), FIRST),
        (
            lambda net, maps: maps.reshape(len(maps), -1, CHANNELS).mean(1),
            LAST,
        ),  # the first two merged
        (lambda net, maps: maps.reshape(len(maps), -1)[:, :CHANNELS], None),
        (lambda net, maps: net.norm(maps).flatten(1)[:, :CHANNELS], LAST),
        (lambda net, maps: net.norm(maps.permute(0, 2, 3, 1)).mean((1, 2)), FIRST),
        (lambda net, maps: net.norm(F.gelu(maps) * 2).mean((1, 2)), LAST),
        (lambda net, maps: (maps + net.stem(PICTURES[:1])).flatten(1)[:, :CHANNELS], FIRST),
        (lambda net, maps: maps.movedim(-1, 1).mean((-2, -1)), LAST),
        (lambda net, maps: net.norm(maps).mean((1, 2)) + maps.mean((2, 3)), None),  # at odds
        (tokens, None),
        (lambda net, maps: Opaque.apply(maps).mean((1, 2)), None),
    ],
)
def test_what_takes_a_layers_output_proves_its_layout(end, layout):
    net = Network(unknown, nn.Identity(), end)
    assert proven(net) == layout


def proven(net):
    """The layout, or None where it is refused."""
    try:
        return layout_of(net, net.layer, PICTURES, None, "gradcam")
    except AttributionLabError:
        return None
    finally:
        assert not net.layer._forward_hooks


class Block(nn.Module):
    """Residual blocks as in Swin, as in ConvNeXt (permutes inside), and as in ResNet."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.norm, self.mlp = nn.LayerNorm(CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.convolution = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS)

    def forward(self, maps):
        match self.kind:
            case "swin":
                return maps + self.mlp(F.gelu(self.norm(maps)))
            case "convnext":
                inside = self.mlp(self.norm(self.convolution(maps).permute(0, 2, 3, 1)))
                return maps + inside.permute(0, 3, 1, 2)
            case "resnet":
                return F.relu(self.convolution(maps) + maps)


def blocks_of(kind, end):
    last = kind == "swin"
    begin = patches_last if last else convolved
    return Network(begin, nn.Sequential(Block(kind), Block(kind)), end)


@pytest.mark.parametrize("inner", ["", ".0", ".1"])
@pytest.mark.parametrize("kind", ["swin", "convnext", "resnet"])
def test_blocks_of_common_networks_are_proven(kind, inner):
    net = blocks_of(kind, tokens)
    layer = net.get_submodule("layer" + inner)
    assert layout_of(net, layer, PICTURES, None, "gradcam") == (LAST if kind == "swin" else FIRST)


@pytest.mark.parametrize(("name", "overrides"), [*SMALL_ENVIRONMENTS, *SMALL_WORLDS])
def test_the_layers_of_environments_are_proven(name, overrides):
    env = al.load(name, **overrides)
    for output in ("logit", "probability"):
        for layer in env.layers.values():
            model = env.explained_model(output)
            assert layout_of(model, layer, env.batch(1)[0], None, "gradcam") == FIRST


class Twin(Network):
    """A linear layer at each place as a convolution: (B, c, h, w), with the same weights and maps."""

    def __init__(self, other):
        super().__init__(convolved, nn.Identity(), other.end)
        self.load_state_dict(other.state_dict())

    def forward(self, inputs):
        maps = F.conv2d(self.stem(inputs), self.linear.weight[..., None, None], self.linear.bias)
        return self.head(self.layer(maps).square().mean((2, 3)))


def hidden():
    """Channels last, which only the user knows."""

    def end(net, maps):
        return Opaque.apply(maps).square().mean((1, 2))

    return Network(unknown_last, nn.Identity(), end)


OF_LAYERS = {
    "ablationcam": {},
    "gradcam": {},
    "gradcam-plus-plus": {},
    "guided-gradcam": {},
    "hirescam": {},
    "layercam": {},
    "linear-approximation": {},
    "scorecam": {},
    "xgradcam": {},
    "smooth-gradcam-plus-plus": {"highest": 1.0, "n_samples": 2},
    "iba": {"sigma": 0.5, "steps": 3, "copies": 2},
    "input-iba": {"sigma": 0.5, "steps": 2, "copies": 2, "feature_steps": 2, "samples": 16},
}
WHO = {"guided-gradcam": "gradcam"}


def explained(name, model, **more):
    settings = dict(OF_LAYERS[name])
    if settings:
        settings["generator"] = torch.Generator().manual_seed(0)
    if "iba" in name:
        references = torch.rand(5, *PICTURES.shape[1:], generator=torch.Generator().manual_seed(1))
        settings["reference_images"] = references.double()
    return METHODS[name](model, PICTURES, TARGETS, layer="layer", **settings, **more)


@pytest.mark.filterwarnings("ignore::attributionlab.GuardWarning")
@pytest.mark.parametrize("name", OF_LAYERS)
def test_channels_last_is_refused_where_it_is_not_proven_and_right_where_it_is_stated(name):
    net = hidden()
    refusal = rf"{WHO.get(name, name)}: .*\(1, 4, 4, 4\).*layout='channels-first'.*='channels-last'"
    with pytest.raises(AttributionLabError, match=refusal):
        explained(name, net)
    with pytest.raises(AttributionLabError, match=r"layout is 'last': .*channels-last"):
        explained(name, net, layout="last")
    got, wanted = explained(name, net, layout=LAST), explained(name, Twin(net))
    assert wanted.any()
    # float64: sums of some hundred products in another order.
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)
    assert not torch.allclose(explained(name, net, layout=FIRST), wanted, rtol=1e-6)


def test_proven_channels_last_needs_no_statement_and_contradicts_the_other():
    net = blocks_of("swin", lambda net, maps: net.norm(maps).mean((1, 2)))
    got = explained("gradcam", net)
    assert torch.equal(got, explained("gradcam", net, layout=LAST))
    warning = rf"2 images .*'{FIRST}'.* 'layer' prove '{LAST}'.*\(1, 4, 4, 4\).*leave layout out"
    with pytest.warns(GuardWarning, match=warning):
        assert not torch.allclose(got, explained("gradcam", net, layout=FIRST))


def test_excitation_backprop_down_to_a_layer_asks_too():
    net = hidden().float()
    given = (net, PICTURES.float(), TARGETS)
    with pytest.raises(AttributionLabError, match=r"excitation-backprop: .*state layout="):
        METHODS["excitation-backprop"](*given, layer="layer")
