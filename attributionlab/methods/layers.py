"""A layer that maps come from: how it is found, what passes through it, and where its channels lie.

(B, c, h, w) and (B, h, w, c) look alike, and maps that are read the wrong way give a picture, too. The
layout is stated, or proven by what a network computes. One image passes under a torch function mode
that follows the channels: from the image, and from what convolutions, normalizations and linear layers
return, to the layer; and from there to what takes its output, by modules or by functions.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeGuard, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from attributionlab.base import AttributionLabError, nearest
from attributionlab.methods.answers import answered
from attributionlab.methods.batching import in_smaller_batches
from attributionlab.methods.notices import Notice, notify
from attributionlab.methods.tokens import Tokens, tokens_of


def find_layer(
    model: nn.Module, name: str | float | None, layers: Mapping[str, nn.Module] | None, key: str
) -> nn.Module:
    """The module to attach to: the one named, or else the environment's layer of that key.

    A name is dotted, or the end of one that no other module shares: "accumulator.5" also finds
    "0.accumulator.5", its place in the same network with a softmax behind it. 4 is "4", as modules of a
    sequence are called. Refuses if there is no such module, or several.
    """
    named: dict[str, nn.Module] = {
        _as_written(path): module for path, module in model.named_modules() if path
    }
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if isinstance(name, str):
        name = _as_written(name)
        if name not in named:  # as in a data-parallel module
            name = name.removeprefix("module.")
    if name is not None:
        fitting = [path for path in named if path == name or path.endswith(f".{name}")]
        if name in named:
            return named[name]
        if len(fitting) == 1:
            return named[fitting[0]]
        if fitting:
            raise AttributionLabError(
                f"layer is {name!r}, which matches {len(fitting)} modules: take one of "
                f"{', '.join(fitting)}"
            )
        remedy = nearest(str(name), named)
        if isinstance(name, float):  # 1.30 is 1.3
            remedy = "write it as text, such as \"layer='1.30'\" at the shell"
        raise AttributionLabError(f"layer is {name!r}, which does not name a module: {remedy}")
    module = (layers or {}).get(key)
    if not any(module is own for own in named.values()):
        raise AttributionLabError(
            f"the model has no layer {key!r} of its own: name one that returns maps (B, C, h, w) as "
            f"`layer`{_for_instance(named)}"
        )
    assert module is not None  # it is one of the model's
    return module


def _for_instance(named: Mapping[str, nn.Module]) -> str:
    """Which module that may be, as the end of a refusal: the convolution that was made last, or any."""
    last = last_convolution(named)
    if last is not None:
        return f", for instance layer={last!r}, the model's last convolution"
    return f": its modules are {', '.join(named)}" if named else ""


def last_convolution(named: Mapping[str, nn.Module]) -> str | None:
    """The name of the two-dimensional convolution that stands last among modules, if there is one."""
    names = [path for path, module in named.items() if isinstance(module, nn.Conv2d)]
    return names[-1] if names else None


def _as_written(path: str) -> str:
    """A module's dotted name as it was before `torch.compile` wrapped it or what it lies in."""
    return ".".join(part for part in path.split(".") if part != "_orig_mod")


def observe(
    model: nn.Module, layer: nn.Module, inputs: Float[Tensor, "batch channels height width"]
) -> tuple[Float[Tensor, "batch maps rows columns"], Float[Tensor, "batch outputs"]]:
    """What a layer and the whole network return, without gradients.

    Raises
    ------
    AttributionLabError
        If the layer does not run exactly once, or returns no maps.
    """
    with torch.no_grad():
        return returned(model, layer, inputs)


def returned(
    model: nn.Module, layer: nn.Module, inputs: Float[Tensor, "batch channels height width"]
) -> tuple[Float[Tensor, "batch maps rows columns"], Float[Tensor, "batch outputs"]]:
    """What a layer and the whole network return, with gradients where they are enabled (`observe`)."""
    output, outputs = returned_output(model, layer, inputs)
    return _of_four_axes(output), outputs


def returned_output(
    model: nn.Module, layer: nn.Module, inputs: Float[Tensor, "batch channels height width"]
) -> tuple[Tensor, Float[Tensor, "batch outputs"]]:
    """As `returned`, of a layer that may return a tensor of any shape."""
    seen: list[object] = []

    def keep(_module: nn.Module, _inputs: object, output: object) -> None:
        # A clone, because what follows may work in place.
        seen.append(output.clone() if isinstance(output, Tensor) else output)

    handle = layer.register_forward_hook(keep)
    try:
        outputs = model(inputs)
    finally:
        handle.remove()
    return only_output(seen), outputs


def only_maps(returned: Sequence[object]) -> Float[Tensor, "batch maps rows columns"]:
    """The maps that a layer returned, refused unless it ran exactly once and returned some."""
    return _of_four_axes(only_output(returned))


def only_output(returned: Sequence[object]) -> Tensor:
    """The tensor that a layer returned, refused unless it ran exactly once and returned one."""
    if len(returned) != 1:
        raise AttributionLabError(
            f"the layer runs {len(returned)} times in a pass: name one that runs once"
        )
    [output] = returned
    return output if isinstance(output, Tensor) else _of_four_axes(output)


def _of_four_axes(output: object) -> Float[Tensor, "batch maps rows columns"]:
    if isinstance(output, Tensor) and output.ndim == 4:
        return output
    shape = tuple(getattr(output, "shape", ()))
    raise AttributionLabError(
        f"the layer returns shape {shape}: name one that returns maps (B, C, h, w)"
    )


def refuse_single_cell(maps: Float[Tensor, "batch maps rows columns"], who: str) -> None:
    """Refuse maps of 1 x 1 cells, which upsampled would be one value for all pixels."""
    if maps.shape[2:].numel() == 1:
        raise AttributionLabError(
            f"{who}: the layer's maps have a single cell, 1 x 1, and therefore no positions: name "
            "an earlier layer"
        )


def resume(
    model: nn.Module,
    layer: nn.Module,
    inputs: Float[Tensor, "1 channels height width"],
    maps: Float[Tensor, "batch ..."],
) -> Float[Tensor, "batch outputs"]:
    """What a network returns for an image if a layer returns these maps (or tokens) instead of its own.

    In a chain of modules only those behind the layer run. In any other network all of it runs, once
    for each of the maps, because the layer's may not be the only way through.
    """
    maps = maps.clone()  # what follows may work in place
    chain = _chain(model)
    for index, module in enumerate(chain):
        if module is layer:
            for following in chain[index + 1 :]:
                maps = following(maps)
            return answered(model, maps)
    handle = layer.register_forward_hook(lambda *_: maps)
    try:
        outputs: Tensor = model(inputs.expand(len(maps), -1, -1, -1))
    finally:
        handle.remove()
    return outputs


def _chain(module: nn.Module) -> list[nn.Module]:
    """The modules that run one after the other; one alone if it is no `nn.Sequential`."""
    if type(module) is not nn.Sequential:
        return [module]
    return [link for child in module for link in _chain(child)]


Layout = Literal["channels-first", "channels-last"]
"""Layout of a layer's output: (B, c, h, w) or (B, h, w, c)."""

Reshape = Callable[[Tensor], Tensor]
"""A layer's output -> maps (B, c, h, w), in which each value is one of the output's."""

Cells = Layout | Tokens | Reshape
"""Where the cells of an image lie in a layer's output."""

FIRST, LAST = 1, 3
LAYOUTS: Mapping[int, Layout] = {FIRST: "channels-first", LAST: "channels-last"}

PLANES = (
    *("conv2d", "conv_transpose2d", "batch_norm", "group_norm", "instance_norm"),
    *("avg_pool2d", "adaptive_avg_pool2d", "max_pool2d", "max_pool2d_with_indices", "lp_pool2d"),
    *("adaptive_max_pool2d", "adaptive_max_pool2d_with_indices", "local_response_norm"),
    *("interpolate", "pixel_shuffle", "pixel_unshuffle"),
)
"""Operations on (B, c, h, w)."""
REDUCTIONS = ("mean", "sum", "amax", "max", "std", "var", "logsumexp")
RESHAPES = ("flatten", "reshape", "view")
PERMUTATIONS = ("permute", "transpose", "swapaxes", "swapdims", "movedim", "moveaxis")
JOINED = (
    *("add", "radd", "iadd", "sub", "rsub", "isub", "mul", "rmul", "imul"),
    *("cat", "concat"),
)
"""Operations in which several tensors' axes are the same ones."""
PARTS = ("cat", "chunk", "concat", "getitem", "narrow", "pad", "split")
"""Operations that change lengths and leave axes in their places."""
MIXED = ("get", "bmm", "einsum", "matmul", "rmatmul", "rot90")
"""Operations after which axes may be other ones, even where the shape is the same."""
SHAPED = PERMUTATIONS + JOINED + PARTS
"""Operations of which axes are known although the shape may be another."""
LENGTHS = (2, 3, 5, 7)
"""Lengths of a tensor, by which its axes can be told apart."""


class _Axes(NamedTuple):
    """What is known of a tensor with four axes."""

    origins: tuple[int, ...] | None
    """Which of the layer's axes its own are, if it was made from the layer's output."""
    channels: int | None
    """Which of its own axes holds channels."""


NOTHING = _Axes(None, None)


def layout_of(
    model: nn.Module,
    layer: nn.Module,
    inputs: Float[Tensor, "batch channels height width"],
    stated: Layout | None,
    who: str,
    seen: "_Seen | None" = None,
) -> Layout:
    """The layout that the user states, or the one that a pass of the first image proves (`seen`, where
    it was made already); report where they contradict each other.

    Proven by the layer itself, by what is in front of it, or by what takes its output: convolutions,
    pooling and batch normalization have channels first, linear layers and layer normalization have them
    last, and means are over places. Refuses an unknown layout, none stated where none or both are
    proven, and a layer that does not run exactly once, or returns no maps.
    """
    _check_layout(stated, who)
    seen = seen or in_smaller_batches(lambda _: _seen(model, layer, inputs[:1]), 1, who)
    only_maps([seen.returned])
    shape = tuple(seen.returned.shape)
    proven = LAYOUTS.get(min(seen.channels)) if len(seen.channels) == 1 else None
    if stated is None:
        if proven is None:
            raise AttributionLabError(
                f"{who}: the operations around the layer do not show which axis of its output {shape} "
                "holds channels: state layout='channels-first' (B, c, h, w) or layout='channels-last' "
                "(B, h, w, c)"
            )
        return proven
    if proven not in (None, stated):
        name = next(path for path, module in model.named_modules() if module is layer)
        text = (
            f"may be read along the wrong axes: layout is {stated!r}, but the operations around "
            f"layer {name!r} prove {proven!r} for its output {shape}: leave layout out, unless you "
            "are certain"
        )
        notify(Notice(text, len(inputs)))
    return stated


def cells_of(
    model: nn.Module,
    layer: nn.Module,
    inputs: Float[Tensor, "batch channels height width"],
    layout: Layout | Reshape | None,
    grid: Sequence[int] | None,
    prefix: int | None,
    who: str,
) -> Cells:
    """Where an image's cells lie in what a layer returns: tokens (B, N, c), or maps as in `layout_of`.

    A function that the user states comes first. Tokens are a grid among others as in `tokens_of`; the
    patch embedding is the last convolution or pooling in front of the layer. Refuses a grid or a prefix
    where the layer returns no tokens, tokens whose first axis is not the batch, and what `tokens_of`
    and `layout_of` refuse.
    """
    if callable(layout):
        return layout
    _check_layout(layout, who)
    seen = in_smaller_batches(lambda _: _seen(model, layer, inputs[:1]), 1, who)
    if seen.returned.ndim == 3 and layout is None:
        images, number, features = shape = tuple(seen.returned.shape)
        cells = math.prod(seen.convolved or (0,))
        turned = grid is None and number < cells <= features
        if images != 1 or turned:
            raise AttributionLabError(
                f"{who}: the layer returns {shape} for one image, not (1, tokens, features): state as "
                "layout a function that turns it into maps (B, c, h, w)"
            )
        # Fewer tokens than patches: a later stage of a network that merges them.
        maps = seen.convolved if number >= cells else None
        return tokens_of(model, inputs, number, maps, grid, prefix, who, layer)
    only_maps([seen.returned])
    for name, value in (("grid", grid), ("prefix", prefix)):
        if value is not None:
            raise AttributionLabError(
                f"{who}: {name} is {value!r}, but the layer returns maps "
                f"{tuple(seen.returned.shape)}, not tokens (B, N, c): leave it out"
            )
    return layout_of(model, layer, inputs, layout, who, seen)


def _check_layout(stated: object, who: str) -> None:
    if stated is not None and stated not in get_args(Layout):
        hint = nearest(str(stated), get_args(Layout))
        raise AttributionLabError(f"{who}: layout is {stated!r}: {hint}")


def channels_first(output: Tensor, cells: Cells) -> Float[Tensor, "batch maps rows columns"]:
    """A layer's output as maps, with its channels as the second axis."""
    if isinstance(cells, Tokens):
        return cells.as_maps(output)
    if callable(cells):
        maps = cells(output)
        if not isinstance(maps, Tensor) or maps.ndim != 4 or len(maps) != len(output):
            shape = tuple(getattr(maps, "shape", ()))
            raise AttributionLabError(
                f"layout turns shape {tuple(output.shape)} into {shape}: return maps (B, c, h, w) of "
                f"the same {len(output)} images"
            )
        return maps
    return output if cells == LAYOUTS[FIRST] else output.movedim(LAST, FIRST)


def as_layer(maps: Float[Tensor, "batch maps rows columns"], layout: Layout) -> Tensor:
    """Maps as the layer returns them, the inverse of `channels_first`."""
    return maps if layout == LAYOUTS[FIRST] else maps.movedim(FIRST, LAST)


class _Seen(NamedTuple):
    """What a pass shows of a layer: its output, which axes of it must hold channels, and the rows and
    columns of what the last convolution or pooling in front of it returns.
    """

    returned: Tensor
    channels: set[int]
    convolved: tuple[int, int] | None


@torch.no_grad()
def _seen(model: nn.Module, layer: nn.Module, image: Tensor) -> _Seen:
    proof, returned = _Proof(), list[object]()

    def begin(_module: nn.Module, _inputs: object, output: object) -> None:
        returned.append(output)
        proof.follow(output)

    image = image.clone()  # the network may work in place
    proof.axes[image] = _Axes(None, FIRST)
    handle = layer.register_forward_hook(begin)
    try:
        with proof:
            model(image)
    finally:
        handle.remove()
    return _Seen(only_output(returned), proof.found, proof.convolved)


class _Proof(TorchFunctionMode):
    """Follows channels through all that is computed inside."""

    def __init__(self) -> None:
        super().__init__()
        self.axes: Any = WeakTensorKeyDictionary()
        self.found: set[int] = set()
        """Axes of the layer's output that must hold channels."""
        self.convolved: tuple[int, int] | None = None
        """Rows and columns of what the last convolution or pooling in front of the layer returns."""
        self._behind = False

    def follow(self, output: object) -> None:
        """Begin at what the layer returns."""
        self._behind = True
        if isinstance(output, Tensor) and output.ndim == 4:
            channels = self.axes.get(output, NOTHING).channels
            self.axes[output] = axes = _Axes((0, 1, 2, 3), channels)
            self._demand(axes, channels)

    def __torch_function__(
        self, func: Any, _types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [each for each in _flat([*args, *kwargs.values()]) if _is_map(each)]
        name = func.__name__.strip("_")  # __add__, add_ and add are one
        known = [self.axes.get(each, NOTHING) for each in given[: None if name in JOINED else 1]]
        shape = given[0].shape if given else None
        result = func(*args, **kwargs)
        if shape is None:
            return result
        if (
            name.endswith(("conv2d", "pool2d"))
            and not self._behind
            and result.shape[-2:].numel() > 1
        ):
            self.convolved = (result.shape[-2], result.shape[-1])
        axes = _Axes(
            next((each.origins for each in known if each.origins is not None), None),
            next((each.channels for each in known if each.channels is not None), None),
        )
        after, channels = NOTHING, _channels(name, shape, args[1:], kwargs, result)
        if channels is not None:
            after = _Axes(None, channels if axes.channels is None else axes.channels)
            self._demand(axes, after.channels)
        elif name in PERMUTATIONS:
            probe = torch.empty(LENGTHS, device="meta")
            after = _permuted(axes, func(probe, *args[1:], **kwargs).shape)
        elif name not in MIXED and not (name == "getitem" and _picks(args[1])):
            after = axes
            self._demand(axes, axes.channels)
        for each in _flat([result]):
            if _is_map(each) and (channels or name in SHAPED or each.shape == shape):
                self.axes[each] = after
        return result

    def _demand(self, axes: _Axes, channels: int | None) -> None:
        if axes.origins is not None and channels is not None:
            self.found.add(axes.origins[channels])


def _flat(values: Iterable[Any]) -> list[Any]:
    """Values, and what is in lists and tuples among them."""
    return [
        each for value in values for each in (value if isinstance(value, list | tuple) else [value])
    ]


def _is_map(value: object) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.ndim == 4


def _channels(
    name: str, shape: torch.Size, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
) -> int | None:
    """The axis in which an operation takes channels to be, if it takes any."""
    if name in PLANES:
        return FIRST
    if name == "linear":
        return LAST
    if name in ("layer_norm", "rms_norm"):
        lengths = (*args, *kwargs.values())[0]
        return LAST if isinstance(lengths, Sequence) and len(lengths) == 1 else None
    if name in REDUCTIONS:
        over = kwargs.get("dim", kwargs.get("axis", args[0] if args else None))
        places = {axis % 4 for axis in over} if isinstance(over, list | tuple) else set()
        return {(2, 3): FIRST, (1, 2): LAST}.get(tuple(sorted(places)))
    if name in RESHAPES and result.ndim == 3:
        _, first, middle, last = shape
        if result.shape[1:] == (first, middle * last):
            return FIRST
        if result.shape[1:] == (first * middle, last):
            return LAST
    return None


def _permuted(axes: _Axes, lengths: Sequence[int]) -> _Axes:
    """After a permutation that gives a tensor of `LENGTHS` these ones."""
    order = [LENGTHS.index(length) for length in lengths]
    origins = None if axes.origins is None else tuple(axes.origins[axis] for axis in order)
    return _Axes(origins, None if axes.channels is None else order.index(axes.channels))


def _picks(index: Any) -> bool:
    """Whether an index does more than cut axes shorter."""
    return not all(isinstance(each, slice) or each is ... for each in _flat([index]))
