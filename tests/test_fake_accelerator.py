"""The stand-in for a device refuses what CUDA refuses, and gives what the CPU gives."""

import numpy as np
import pytest
import torch

from fake_accelerator import DEVICE, Accelerator, AcceleratorGenerator, OnAccelerator


@pytest.fixture(autouse=True)
def entered():
    with Accelerator():
        yield


def there(*values: float) -> torch.Tensor:
    return torch.tensor(values, device=DEVICE)


HERE = torch.tensor([1.0, 2.0])
REFUSED = {
    "a sum": lambda: there(1.0, 2.0) + HERE,
    "a sum the other way round": lambda: HERE + there(1.0, 2.0),
    "a choice": lambda: torch.where(there(1.0, 0.0) > 0, HERE, there(0.0, 0.0)),
    "cat": lambda: torch.cat([there(1.0), HERE]),
    "stack of tensors without dimensions": lambda: torch.stack([there(1.0)[0], HERE[0]]),
    "a product of matrices": lambda: HERE[None] @ there(1.0, 2.0),
    "a layer that is not there": lambda: torch.nn.Linear(2, 2)(there(1.0, 2.0)),
    "an index from there": lambda: HERE[torch.tensor([0], device=DEVICE)],
    "a mask from there": lambda: HERE[there(1.0, 0.0) > 0],
    "values from here": lambda: there(1.0, 2.0).index_put_((torch.tensor([0, 1]),), HERE),
    "writing here": lambda: HERE.clone().add_(there(1.0, 2.0)),
    "writing into a tensor without dimensions": lambda: torch.tensor(1.0).add_(there(1.0)[0]),
    "a draw from a generator here": lambda: torch.rand(
        2, device=DEVICE, generator=torch.Generator()
    ),
    "a draw from a generator there": lambda: torch.rand(2, generator=AcceleratorGenerator()),
    "noise from a generator here": lambda: there(1.0).normal_(generator=torch.Generator()),
}


@pytest.mark.parametrize("what", REFUSED)
def test_two_devices_are_not_mixed(what):
    with pytest.raises(RuntimeError, match="device"):
        REFUSED[what]()


def test_numpy_does_not_get_at_it():
    for get in (lambda: there(1.0).numpy(), lambda: np.asarray(there(1.0))):
        with pytest.raises((RuntimeError, TypeError), match="numpy"):
            get()


def test_what_cuda_takes_is_taken():
    values = there(1.0, 2.0)
    assert (values + torch.tensor(1.0)).tolist() == [2.0, 3.0]
    assert values[torch.tensor([1])].tolist() == [2.0]
    assert values[[1, 0]].tolist() == [2.0, 1.0]
    assert values.sum().item() == 3.0
    assert values.cpu().numpy().tolist() == [1.0, 2.0]
    changed = torch.zeros(2, device=DEVICE)
    changed[0] = HERE[1]
    changed.copy_(changed.cpu() + HERE)
    assert changed.tolist() == [3.0, 2.0]
    assert isinstance(changed, OnAccelerator)
    assert values.new_tensor([4]).device == torch.zeros_like(values).device == DEVICE
    assert torch.empty_like(values, device="cpu").device.type == "cpu"
    drawn = torch.rand(2, device=DEVICE, generator=AcceleratorGenerator().manual_seed(3))
    assert drawn.tolist() == torch.rand(2, generator=torch.Generator().manual_seed(3)).tolist()


def test_modules_move_and_have_gradients():
    layer = torch.nn.Linear(2, 1)
    expected = layer.weight.detach().clone()
    layer.to(DEVICE)
    values = there(1.0, 2.0).requires_grad_()
    layer(values).sum().backward()
    assert values.grad is not None
    assert torch.equal(values.grad.cpu(), expected[0])
    assert layer.double()(values.double()).dtype == torch.float64
