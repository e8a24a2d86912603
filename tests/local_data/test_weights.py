"""Weights come from a file as tensors alone; what is wrong with it is said, and nothing is loaded."""

import argparse
import os
import pickle
import warnings

import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

from attributionlab.base import AttributionLabError, located
from attributionlab.runs import local_model
from attributionlab.runs.local_data.models import load_weights

SIDE, CLASSES = 8, 3


class Residual(nn.Module):
    """One block with batch normalization, as in a ResNet."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x):
        x = self.norm(self.stem(x)).relu()
        return self.head((x + self.conv(x)).relu().mean((2, 3)))


class Attention(nn.Module):
    """One block over 2 x 2 patches, as in a ViT, with a mask of attention that is a buffer."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, SIDE // 2, stride=SIDE // 2)
        self.class_token = nn.Parameter(torch.zeros(1, 1, 8))
        self.position = nn.Parameter(torch.randn(1, 5, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, CLASSES)
        self.register_buffer("mask", torch.zeros(5, 5).index_fill(1, torch.tensor([4]), -torch.inf))

    def forward(self, x):
        tokens = self.patches(x).flatten(2).mT
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), tokens], 1) + self.position
        return self.head(self.block(tokens, src_mask=self.mask)[:, 0])


class BCos(nn.Module):
    """A convolution whose output is scaled by how well it aligns with its input."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, CLASSES, 3, bias=False)

    def forward(self, x):
        weight = self.conv.weight / self.conv.weight.flatten(1).norm(dim=1)[:, None, None, None]
        out = nn.functional.conv2d(x, weight)
        return (out * out.abs()).mean((2, 3))


def vgg():
    """Convolutions and linear layers in one row."""
    return nn.Sequential(
        *(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(4 * (SIDE // 2) ** 2, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, CLASSES)),
    )


def bag():
    """Logits of small parts of the image, averaged."""
    return nn.Sequential(
        *(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, CLASSES, 1)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )


ARCHITECTURES = {"vgg": vgg, "resnet": Residual, "vit": Attention, "b-cos": BCos, "bagnet": bag}


def seeded(architecture, seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ARCHITECTURES[architecture]().eval()


def entries(network):
    return {name: value.clone() for name, value in network.state_dict().items()}


def same(one, other):
    """In value: `nn.DataParallel` moves a network to the accelerator where there is one."""
    return one.keys() == other.keys() and all(
        torch.equal(one[name].cpu(), other[name].cpu()) for name in one
    )


@pytest.fixture
def trained():
    return seeded("resnet", 1)


@pytest.fixture
def network():
    return seeded("resnet", 2)


def saved(content, tmp_path, name="weights.pt"):
    path = tmp_path / name
    (save_file if name.endswith(".safetensors") else torch.save)(content, path)
    return path


@pytest.fixture
def refusal(network):
    """The message about a file; the network has its own weights before and after."""

    def refuse(path, of=network):
        before = entries(of)
        with pytest.raises(AttributionLabError) as caught:
            load_weights(of, path)
        assert same(entries(of), before)
        message = str(caught.value)
        assert "\n" not in message
        assert len(message) < 500
        return message

    return refuse


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_network_with_the_weights_of_another_has_its_logits(architecture, ending, tmp_path):
    one, other = seeded(architecture, 1), seeded(architecture, 2)
    images = torch.rand(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert not torch.equal(one(images), other(images))
        load_weights(other, saved(one.state_dict(), tmp_path, f"weights.{ending}"))
        assert torch.equal(one(images), other(images))


@pytest.mark.parametrize("name", ["state_dict", "model_state_dict", "model"])
def test_a_state_dict_is_found_beside_what_else_a_training_script_saves(
    name, trained, network, tmp_path
):
    path = saved({"epoch": 3, "best": [0.5], name: trained.state_dict()}, tmp_path)
    load_weights(network, path)
    assert same(entries(network), entries(trained))


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.", "_orig_mod.module."])
def test_prefixes_of_wrappers_are_left_out(prefix, trained, network, tmp_path):
    path = saved({prefix + name: value for name, value in entries(trained).items()}, tmp_path)
    load_weights(network, path)
    assert same(entries(network), entries(trained))


def test_a_prefix_that_the_network_has_itself_stays(trained, tmp_path):
    wrapped, other = nn.DataParallel(trained), nn.DataParallel(seeded("resnet", 2))
    load_weights(other, saved(wrapped.state_dict(), tmp_path))
    assert same(entries(other), entries(wrapped))


def test_what_is_missing_has_its_own_name_where_a_wrappers_prefix_is_the_networks(
    trained, tmp_path, refusal
):
    network = nn.ModuleDict({"model": trained, "extra": nn.Linear(1, 1, bias=False)})
    state = {f"model.{name}": value for name, value in entries(trained).items()}
    path = saved(state, tmp_path)
    assert refusal(path, network).endswith(
        "it lacks extra.weight; pass the weights of this network"
    )


def test_weights_fit_the_only_part_of_a_network_that_has_any(trained, network, tmp_path, refusal):
    path = saved(trained.state_dict(), tmp_path)
    load_weights(nn.Sequential(nn.AvgPool2d(1), nn.Sequential(network)), path)
    assert same(entries(network), entries(trained))
    before = entries(seeded("resnet", 2))
    network.load_state_dict(before)
    message = refusal(path, nn.Sequential(network, nn.Linear(CLASSES, 2)))
    assert "it lacks 0.stem.weight" in message
    assert "has beside those of the network stem.weight" in message
    other = saved({"weight": torch.zeros(2)}, tmp_path, "other.pt")
    assert "it lacks 0.stem.weight" in refusal(other, nn.Sequential(network))


class Normalized(nn.Module):
    """A network behind a normalization whose numbers are buffers, as torchvision's is not."""

    def __init__(self, network):
        super().__init__()
        self.register_buffer("mean", torch.full((3, 1, 1), 0.5))
        self.register_buffer("std", torch.full((3, 1, 1), 0.25))
        self.model = network

    def forward(self, x):
        return self.model((x - self.mean) / self.std)


def test_a_normalization_with_buffers_keeps_them_where_the_names_are_those_behind_it(
    trained, network, tmp_path, refusal
):
    normalized = Normalized(network)
    load_weights(normalized, saved(trained.state_dict(), tmp_path))
    assert same(entries(network), entries(trained))
    assert normalized.mean.unique().tolist() == [0.5]
    alone = {f"model.{name}": value for name, value in entries(trained).items()}
    assert "lacks mean, std" in refusal(saved(alone, tmp_path), normalized)  # names of its own


def tied(value=0.0, shared=True):
    """Two linear layers with the same weight, or with weights of their own."""
    network = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
    if shared:
        network["b"].weight = network["a"].weight
    nn.init.constant_(network["a"].weight, value)
    return network


@pytest.mark.parametrize("twin", ["a", "b"])
def test_a_tied_weight_is_in_a_file_once_or_twice(twin, tmp_path):
    network = tied()
    load_weights(network, saved({f"{twin}.weight": torch.ones(2, 2)}, tmp_path))
    assert network["a"].weight.tolist() == [[1, 1], [1, 1]]
    load_weights(network, saved(tied(2.0).state_dict(), tmp_path))
    assert network["b"].weight.tolist() == [[2, 2], [2, 2]]
    save_model(tied(3.0), str(tmp_path / "tied.safetensors"))
    load_weights(network, tmp_path / "tied.safetensors")
    assert network["b"].weight.tolist() == [[3, 3], [3, 3]]


def test_entries_that_differ_where_the_network_has_one_weight_are_refused(tmp_path, refusal):
    path = saved(tied(1.0, shared=False).state_dict(), tmp_path)
    message = refusal(path, tied())
    assert "a.weight and b.weight are one in the network and differ in the file" in message


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_numbers_of_other_floating_point_types_are_converted(
    kind, ending, trained, network, tmp_path
):
    load_weights(network, saved(seeded("resnet", 1).to(kind).state_dict(), tmp_path, f"w.{ending}"))
    expected = {
        name: value.to(kind).to(value.dtype) if value.is_floating_point() else value
        for name, value in entries(trained).items()
    }
    assert same(entries(network), expected)
    assert network.head.weight.dtype == torch.float32
    assert network.head.weight.requires_grad


def test_files_of_older_versions_load(trained, network, tmp_path):
    state = trained.state_dict()
    del state["norm.num_batches_tracked"]  # which batch normalization did not always have
    state._metadata.clear()
    path = tmp_path / "old.pth"
    torch.save(state, path, _use_new_zipfile_serialization=False)
    load_weights(network, path)
    assert same(entries(network), entries(trained))


def test_a_path_that_leads_to_no_file_is_refused(tmp_path, refusal):
    missing = tmp_path / "none.pt"
    assert refusal(missing) == f"no file of weights at {str(missing)!r}: check the path"
    assert "no file of weights at" in refusal("a\0b")
    assert "is a folder: pass the file of weights in it" in refusal(tmp_path)


def test_what_is_no_path_is_refused(refusal, without_shape_checks):
    assert refusal(3) == "the weights are of type int: pass the path of a file"


def test_nothing_in_a_file_is_executed(tmp_path, refusal):
    path = tmp_path / "evil.pt"

    class Evil:
        def __reduce__(self):
            return (path.write_text, ("executed",))

    torch.save({"weight": Evil()}, tmp_path / "weights.pt")
    refusal(tmp_path / "weights.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Evil(), protocol=2))
    refusal(tmp_path / "plain.pt")
    assert not path.exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_object_is_called_one(protocol, tmp_path, refusal):
    class Command:
        def __reduce__(self):
            return (os.system, ("true",))

    path = tmp_path / "command.pt"
    path.write_bytes(pickle.dumps(Command(), protocol=protocol))
    message = refusal(path)
    assert "pickled object" in message
    assert "files are never unpickled" in message
    assert "cut off" not in message
    if protocol < 4:  # torch names nothing of those that it does not know
        assert f"{os.system.__module__}.system" in message


def test_a_compiled_archive_is_refused_as_one(network, tmp_path, refusal):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated; its files are not gone
        torch.jit.trace(network, torch.zeros(1, 3, SIDE, SIDE)).save(tmp_path / "jit.pt")
    assert "is a TorchScript archive: save the network's state dict" in refusal(tmp_path / "jit.pt")


class Writing(nn.Module):
    """Writes a file when it is unpickled, if anything runs its code."""

    def __init__(self, path):
        super().__init__()
        self.path: str = path

    def forward(self, x):
        return x

    @torch.jit.export
    def __getstate__(self):
        return (self.path, self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]):
        self.path, self.training = state
        torch.save(torch.zeros(1), self.path)


def test_nothing_in_a_compiled_archive_is_executed(tmp_path, refusal):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated; its files are not gone
        torch.jit.script(Writing(str(tmp_path / "written"))).save(tmp_path / "weights.pt")
    refusal(tmp_path / "weights.pt")
    with pytest.raises(AttributionLabError, match="holds no array"):
        located(str(tmp_path / "weights.pt"), {})
    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
@pytest.mark.parametrize("share", [0, 0.005, 0.5, 0.99])
def test_truncated_files_are_refused(ending, share, trained, tmp_path, refusal):
    path = saved(trained.state_dict(), tmp_path, f"weights.{ending}")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert "is truncated or not a" in refusal(path)


def test_files_of_other_formats_are_refused(trained, tmp_path, refusal):
    text = tmp_path / "text.pt"
    text.write_text("hello world")
    assert "not a file of torch.save" in refusal(text)
    named = saved(trained.state_dict(), tmp_path).rename(tmp_path / "weights.safetensors")
    message = refusal(named)
    assert "not a safetensors file" in message
    assert "another ending, such as .pt" in message
    other = saved(trained.state_dict(), tmp_path, "a.safetensors").rename(tmp_path / "a.pt")
    assert "pass a .safetensors file" in refusal(other)


def renamed(state, *names, prefix="other."):
    return {prefix + name if name in names else name: each for name, each in state.items()}


def holding(state, name, value):
    """The same with another value in one place."""
    state[name][1] = value
    return state


CONV_AND_HEAD = ("head.weight", "head.bias", "conv.weight", "conv.bias")
WEIGHT = torch.zeros(2)
WRONG = [
    (lambda state: {}, "holds an empty dict"),
    (lambda state: {"state_dict": {}}, "holds an empty dict"),
    (lambda state: [WEIGHT], "of type list, not a state dict"),
    (lambda state: WEIGHT, "torch.float32 of shape (2,), not a state"),
    (lambda state: {**state, "epoch": 3}, "of its entries epoch is not a tensor"),
    (lambda state: {str(k): k for k in range(5)}, "entries 0, 1, 2 ... (5 in all) are not tensors"),
    (lambda state: {None: WEIGHT}, "of its names None is not text"),
    (lambda state: {1: WEIGHT, 2: WEIGHT}, "of its names 1, 2 are not text"),
    (lambda state: {**state, "a\nb": WEIGHT}, r"beside those of the network 'a\nb'"),
    (
        lambda state: renamed(state, "head.bias", prefix="module."),
        "lacks head.bias; it has beside those of the network module.head.bias",
    ),
    (
        lambda state: renamed(state, *CONV_AND_HEAD),
        "it lacks conv.weight, conv.bias, head.weight ... (4 in all)",
    ),
    (
        lambda state: {name: state[name] for name in state if name != "head.bias"},
        "it lacks head.bias; pass the weights of this network",
    ),
    (
        lambda state: state | {"head.weight": torch.zeros(1000, 4), "head.bias": torch.zeros(1000)},
        "head.weight 1000 x 4 for 3 x 4, head.bias 1000 for 3; pass its own weights",
    ),
    (
        lambda state: state | {"head.bias": torch.zeros(3, dtype=torch.int8)},
        "types differ from the network's: head.bias torch.int8 for torch.float32",
    ),
    (
        lambda state: holding(state, "norm.running_var", -1),
        "a variance is negative: norm.running_var;",
    ),
    *(
        (
            lambda state, name=name, value=value: holding(state, name, value),
            f"not all weights are finite: {name};",
        )
        for name in ("conv.bias", "norm.running_var", "norm.running_mean")
        for value in (torch.nan, torch.inf, -torch.inf)
    ),
    (lambda state: nn.Sequential(nn.Linear(2, 2)), "torch.nn.modules.container.Sequential"),
    (
        lambda state: {"state_dict": state, "args": argparse.Namespace(lr=1)},
        "holds a pickled object argparse.Namespace",
    ),
]


@pytest.mark.parametrize(("content", "said"), WRONG)
def test_what_does_not_fit_is_named(content, said, trained, tmp_path, refusal):
    assert said in refusal(saved(content(entries(trained)), tmp_path))


def test_what_is_no_network_is_refused(trained, tmp_path, without_shape_checks):
    path = saved(trained.state_dict(), tmp_path)
    with pytest.raises(AttributionLabError, match=r"network is of type NoneType: pass a torch\.nn"):
        load_weights(None, path)


class Counted(nn.Linear):
    """A layer with a state of its own beside tensors."""

    def __init__(self, state):
        super().__init__(2, 2)
        self.state = state

    def get_extra_state(self):
        return self.state

    def set_extra_state(self, state):
        self.state = state


@pytest.mark.parametrize("state", [{"steps": 7}, 7, torch.tensor(7)])
def test_a_state_beside_tensors_is_loaded_and_left_as_it_was_after_a_refusal(
    state, tmp_path, refusal
):
    given = nn.Sequential(Counted(state))
    network = nn.Sequential(Counted({"steps": 1}))
    load_weights(network, saved(given.state_dict(), tmp_path))
    assert network[0].state == state
    network[0].state = {"steps": 1}
    nn.init.constant_(given[0].bias, torch.nan)
    path = saved(given.state_dict(), tmp_path)
    with pytest.raises(AttributionLabError, match="not all weights are finite"):
        load_weights(network, path)
    assert network[0].state == {"steps": 1}


def test_equal_states_of_two_modules_are_no_tied_weights(tmp_path):
    given = nn.Sequential(Counted(7), Counted(7))
    network = nn.Sequential(Counted(0), Counted(0))
    load_weights(network, saved(given.state_dict(), tmp_path))
    assert [layer.state for layer in network] == [7, 7]


@pytest.mark.parametrize(
    ("own", "value", "said"),
    [
        ([1, 2], [0.9, torch.nan], "torch.float32 for torch.int64"),
        (1, 1.5, "torch.float32 for torch.int64"),
        ([True], [0.3], "torch.float32 for torch.bool"),
        ([True], [2], "torch.int64 for torch.bool"),
    ],
)
def test_numbers_that_an_integer_buffer_cannot_hold_are_refused(
    own, value, said, tmp_path, refusal
):
    network = nn.Linear(1, 1)
    network.register_buffer("own", torch.tensor(own))
    state = {**network.state_dict(), "own": torch.tensor(value)}
    message = refusal(saved(state, tmp_path), network)
    assert f"types differ from the network's: own {said}" in message


def test_whole_numbers_of_another_type_are_converted(trained, network, tmp_path):
    state = entries(trained)
    state["norm.num_batches_tracked"] = torch.tensor(5.0).half()
    load_weights(network, saved(state, tmp_path))
    assert network.norm.num_batches_tracked.tolist() == 5
    masked = nn.Module()
    masked.register_buffer("mask", torch.zeros(2, dtype=torch.bool))
    load_weights(masked, saved({"mask": torch.tensor([0, 1], dtype=torch.uint8)}, tmp_path))
    assert masked.mask.tolist() == [False, True]


def test_what_overflows_the_networks_type_is_refused(tmp_path, refusal):
    network = nn.Linear(2, 1).half()
    state = {name: value.double() + 1e6 for name, value in network.state_dict().items()}
    assert "not all weights are finite" in refusal(saved(state, tmp_path), network)


def test_what_a_layer_refuses_in_its_own_words_is_said_in_one_line(tmp_path, refusal):
    class Picky(nn.Linear):
        def _load_from_state_dict(self, *arguments):
            arguments[-1].append("not\nmine")

    path = saved(nn.Linear(2, 2).state_dict(), tmp_path)
    message = refusal(path, Picky(2, 2))
    assert "does not fit the network (RuntimeError:" in message
    assert "not mine" in message

    class Raising(nn.Linear):
        def _load_from_state_dict(self, *arguments):
            raise ValueError("not\nours")

    assert "does not fit the network (ValueError: not ours)" in refusal(path, Raising(2, 2))


SOURCE = """
from torch import nn

def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
"""


def test_a_reference_with_weights_gives_the_network_with_them(tmp_path):
    (tmp_path / "mine.py").write_text(SOURCE)
    reference = f"{tmp_path / 'mine.py'}:make"
    trained = local_model(reference)
    path = saved(trained.state_dict(), tmp_path)
    before = torch.random.get_rng_state()
    loaded = local_model(reference, path)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert same(entries(loaded), entries(trained))
    assert not loaded.training
    with pytest.raises(AttributionLabError, match="no file of weights"):
        local_model(reference, tmp_path / "none.pt")
