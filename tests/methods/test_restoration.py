"""A model comes back from a method as it was, and what was repaired is named."""

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from attributionlab.methods import restored


def model():
    return nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(), nn.Flatten()).eval()


def snapshot(net):
    hooks = [
        sum(len(v) for k, v in vars(m).items() if k.endswith("hooks") and v is not None)
        for m in net.modules()
    ]
    hooks.append(len(nn.modules.module._global_forward_hooks))
    weights = [
        (p.tolist(), p.dtype, p.requires_grad, p.grad, p._backward_hooks) for p in net.parameters()
    ]
    plain = [{k: v for k, v in vars(m).items() if not isinstance(v, dict)} for m in net.modules()]
    buffers = [list(m._buffers) for m in net.modules()]
    return plain, hooks, weights, buffers, [type(m) for m in net.modules()]


def set_training(net):
    net[1].train()


def drop_gradients(net):
    net.requires_grad_(False)


def change_weight(net):
    with torch.no_grad():
        net[0].weight[0] += 1


def change_dtype(net):
    net.double()


def replace_parameter(net):
    net[0].weight = nn.Parameter(torch.zeros(2, 1, 1, 1))


def leave_hooks(net):
    net[1].register_forward_hook(lambda *_: None)
    net[0].register_forward_pre_hook(lambda *_: None, with_kwargs=True)
    net[1].register_full_backward_hook(lambda *_: None)


def replace_module(net):
    net[1] = nn.Sigmoid()


def replace_forward(net):
    net.forward = lambda inputs: inputs


def change_stride(net):
    net[0].stride = (2, 2)


def go_in_place(net):
    net[1].inplace = True


def add_buffer(net):
    net.register_buffer("extra", torch.zeros(1))


def change_class(net):
    net[1].__class__ = nn.GELU


def hook_a_weight(net):
    net[0].weight.register_hook(lambda gradient: gradient * 0)


def hook_every_module(net):
    nn.modules.module.register_module_forward_hook(lambda *_: None)


DAMAGE = {
    set_training: "training mode",
    drop_gradients: "requires_grad",
    change_weight: "weights",
    change_dtype: "weights",
    replace_parameter: "weights",
    leave_hooks: "hooks",
    replace_module: "modules",
    replace_forward: "forward",
    change_stride: "stride",
    go_in_place: "inplace",
    add_buffer: "_buffers",
    change_class: "modules",
    hook_a_weight: "hooks",
    hook_every_module: "hooks",
}


@pytest.mark.parametrize(
    ("damage", "name"), DAMAGE.items(), ids=lambda x: getattr(x, "__name__", x)
)
def test_damage_is_undone_and_named(damage, name):
    net = model()
    before = snapshot(net)
    with restored(net) as repaired:
        damage(net)
        assert snapshot(net) != before
        assert repaired == []
    assert snapshot(net) == before
    assert repaired == [name]


def test_damage_is_undone_when_the_method_raises():
    net = model()
    before = snapshot(net)

    def break_and_raise():
        leave_hooks(net)
        change_weight(net)
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"), restored(net):
        break_and_raise()
    assert snapshot(net) == before


def test_a_clean_method_repairs_nothing_and_leaves_no_gradients():
    net = model()
    with restored(net) as repaired:
        net(torch.ones(1, 1, 2, 2)).sum().backward()
    assert repaired == []
    assert all(parameter.grad is None for parameter in net.parameters())


def test_pruning_is_undone():
    net = model()
    before, expected = snapshot(net), net(torch.ones(1, 1, 2, 2))
    with restored(net):
        prune.l1_unstructured(net[0], "weight", amount=0.5)
    assert snapshot(net) == before
    assert torch.equal(net(torch.ones(1, 1, 2, 2)), expected)
