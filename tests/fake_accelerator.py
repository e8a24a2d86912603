"""A device that is not there: tensors of it compute on the CPU, and refuse what CUDA refuses.

torch takes it for "meta", whose tensors have no values; these have. Inside `Accelerator` what is made
on or moved to that device is such a tensor. Refused are operations on tensors of two devices (a CPU
tensor without dimensions may stand beside others, and CPU indices index any tensor), NumPy, and draws
with a generator of the other device.
"""

import gc
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["DEVICE", "Accelerator", "AcceleratorGenerator", "OnAccelerator"]

DEVICE = torch.device("meta")
ATEN = torch.ops.aten
BETWEEN_DEVICES = {ATEN.copy_, ATEN._to_copy}
INDEXED = {ATEN.index, ATEN.index_put, ATEN.index_put_, ATEN._unsafe_index, ATEN._index_put_impl_}
NO_MIXTURE = {ATEN.cat, ATEN.stack}
"""Not even of tensors without dimensions."""


class AcceleratorGenerator(torch.Generator):
    """A generator of the accelerator, whose numbers are those of the CPU's."""

    device = DEVICE  # type: ignore[assignment]
    made: ClassVar[dict[int, "AcceleratorGenerator"]] = {}
    """By address: operations see another Python object than the caller's."""

    def __init__(self) -> None:
        self.made[self._cdata] = self


class OnAccelerator(Tensor):
    """A tensor of the accelerator; its numbers are in `held`, on the CPU."""

    held: Tensor
    is_meta = False  # as on an accelerator: it has numbers

    @staticmethod
    def __new__(cls, held: Tensor) -> "OnAccelerator":
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        made = Tensor._make_wrapper_subclass(
            cls, held.shape, dtype=held.dtype, device=DEVICE, **layout
        )
        made.held = held
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"OnAccelerator({self.held})"

    def tolist(self) -> Any:
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return computed(function, args, kwargs or {})


class FromNumbers(TorchFunctionMode):
    """Tensors made of Python's numbers, whose values a tensor on "meta" would forget."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in (Tensor.__getitem__, Tensor.__setitem__):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            found = [torch.tensor(each) if isinstance(each, list) else each for each in index]
            return function(args[0], tuple(found), *args[2:])
        if function not in (torch.tensor, torch.as_tensor, Tensor.new_tensor) or (
            function is torch.as_tensor and isinstance(args[0], Tensor)
        ):
            return function(*args, **kwargs)
        like = args[0] if function is Tensor.new_tensor else torch.empty(0, device="cpu")
        device = torch.device(kwargs.pop("device", None) or like.device)
        if device != DEVICE:
            return function(*args, **kwargs, device=device)
        if function is Tensor.new_tensor:
            kwargs, function, args = {"dtype": like.dtype, **kwargs}, torch.tensor, args[1:]
        return function(*args, **kwargs, device="cpu").to(device)


class Accelerator(TorchDispatchMode):
    """While it is entered, the device is there."""

    def __enter__(self) -> Any:
        # Or a module's parameter would take the type of another, but not what that holds.
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        self.from_numbers = FromNumbers()
        self.from_numbers.__enter__()
        # torch 2.4 lets the collector empty a tensor of this class that only a graph still holds.
        self.collects = gc.isenabled()
        gc.disable()
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        self.from_numbers.__exit__(*raised)
        if self.collects:
            gc.enable()
        torch.__future__.set_overwrite_module_params_on_conversion(False)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return computed(function, args, kwargs or {})


def computed(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What an operation gives, on the device where torch would put it."""
    given = [
        part
        for each in (*args, *kwargs.values())
        for part in (each if isinstance(each, list | tuple) else (each,))
    ]
    tensors = [each for each in given if isinstance(each, Tensor)]
    assert all(each.device != DEVICE or isinstance(each, OnAccelerator) for each in tensors), (
        f"{function} got a tensor that torch made on {DEVICE} without this file's knowledge"
    )
    asked = kwargs.get("device")
    there = any(isinstance(each, OnAccelerator) for each in tensors)
    on_accelerator = there if asked is None else torch.device(asked) == DEVICE
    for generator in (each for each in given if isinstance(each, torch.Generator)):
        if (generator._cdata in AcceleratorGenerator.made) != on_accelerator:
            expected, found = ("meta", "cpu") if on_accelerator else ("cpu", "meta")
            raise RuntimeError(
                f"Expected a '{expected}' device type for generator but found '{found}'"
            )
    if not there and not on_accelerator:
        return function(*args, **kwargs)
    refuse_mixture(function, args, tensors)
    if function.overloadpacket is ATEN.copy_ and not isinstance(args[0], OnAccelerator):
        on_accelerator = False
    if on_accelerator and asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    wrappers = {id(each.held): each for each in tensors if isinstance(each, OnAccelerator)}
    result = function(*bare(args), **{name: bare(value) for name, value in kwargs.items()})

    def wrapped(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(wrapped, value))
        if not isinstance(value, Tensor) or not on_accelerator:
            return value
        return wrappers[id(value)] if id(value) in wrappers else OnAccelerator(value)

    return wrapped(result)


def bare(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(bare, value))
    return value.held if isinstance(value, OnAccelerator) else value


def refuse_mixture(function: Any, args: Any, tensors: list[Tensor]) -> None:
    """Raise where an operation has tensors of two devices that CUDA would not take."""
    packet = function.overloadpacket
    if packet in BETWEEN_DEVICES:
        return
    if packet in INDEXED and isinstance(args[0], OnAccelerator):
        tensors = [args[0], *args[2:3]]  # indices may be on either
        tensors = [each for each in tensors if isinstance(each, Tensor)]
    there = [each for each in tensors if isinstance(each, OnAccelerator)]
    here = [each for each in tensors if not isinstance(each, OnAccelerator)]
    written = [
        value
        for argument, value in zip(function._schema.arguments, args, strict=False)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    if packet not in NO_MIXTURE:
        here = [each for each in here if each.dim() or any(each is value for value in written)]
    if there and here:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but {function} found {DEVICE} and cpu"
        )
