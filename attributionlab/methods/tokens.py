"""Tokens of an image among all tokens of a transformer, and the grid that they are.

The class token may come first or last, registers before or behind the image's tokens, and a map that
is shifted by one token looks like any other. Where the image's tokens lie is therefore found out
(`proven_tokens`) or stated by the user, and never guessed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attributionlab.base import AttributionLabError
from attributionlab.methods.batching import in_smaller_batches
from attributionlab.methods.notices import Notice, notify


@dataclass(frozen=True)
class Tokens:
    """Tokens of an image among all tokens: a grid, row by row, of those at these places."""

    rows: int
    columns: int
    places: tuple[int, ...]

    def as_maps(
        self, values: Float[Tensor, "batch tokens features"]
    ) -> Float[Tensor, "batch features rows columns"]:
        """Those of the image as a grid, a map for each feature."""
        image = values[:, list(self.places)]
        return image.mT.reshape(len(values), -1, self.rows, self.columns)

    def as_map(
        self, values: Float[Tensor, "batch tokens"], size: Sequence[int]
    ) -> Float[Tensor, "batch 1 height width"]:
        """Those of the image as a grid, upsampled bilinearly to a height and a width."""
        return torch.nn.functional.interpolate(
            self.as_maps(values[..., None]), tuple(size), mode="bilinear"
        )


def behind(rows: int, columns: int, prefix: int) -> Tokens:
    """Tokens of an image one after the other, behind as many others as `prefix`."""
    return Tokens(rows, columns, tuple(range(prefix, prefix + rows * columns)))


def tokens_of(
    model: nn.Module,
    inputs: Float[Tensor, "batch channels height width"],
    number: int,
    maps: tuple[int, int] | None,
    grid: Sequence[int] | None,
    prefix: int | None,
    who: str,
    layer: nn.Module | None = None,
) -> Tokens:
    """The image's among a number of tokens, as the user says or as it can be proven.

    `maps` and `grid` as for `grid_of`; `layer` as for `proven_tokens`, which looks at the first image.
    Reports a `prefix` that contradicts the proof. Refuses what `grid_of` refuses, and tokens beside the
    image's where nothing is stated or proven.
    """
    rows, columns = grid_of(number, inputs.shape[2:], maps, grid, prefix)
    proven = in_smaller_batches(
        lambda _: proven_tokens(model, inputs[:1], number, (rows, columns), layer), 1, who
    )
    if prefix is not None:
        stated = behind(rows, columns, int(prefix))
        if proven is not None and proven != stated:
            text = (
                f"may show the wrong tokens: prefix is {prefix}, but of {number} tokens the image's "
                f"{rows} x {columns} are {_span(proven.places)}, as perturbing its parts proves: leave "
                "prefix out, unless you are certain"
            )
            notify(Notice(text, len(inputs)))
        return stated
    if proven is not None:
        return proven
    if number == rows * columns:
        return behind(rows, columns, 0)
    raise AttributionLabError(
        f"{who}: {number - rows * columns} of {number} tokens are not among the image's {rows} x "
        f"{columns}, and their positions cannot be inferred: state how many precede the image's, "
        "such as prefix=1 for a class token in front or prefix=0 for one at the end"
    )


def _span(places: Sequence[int]) -> str:
    first, last = min(places), max(places)
    ordered = list(places) == list(range(first, last + 1))
    return f"number {first} to {last}, counted from 0{'' if ordered else ', in another order'}"


def grid_of(
    number: int,
    size: Sequence[int],
    maps: tuple[int, int] | None,
    grid: Sequence[int] | None,
    prefix: int | None,
) -> tuple[int, int]:
    """Rows and columns of an image's tokens, as the user says or as they can be inferred.

    Without a `grid` by the user they are those of the patch embedding's `maps`, if there are at most
    twice as many tokens. Otherwise patches are square, and as many of the tokens as possible are image
    tokens; of a sequence, an image of one row, all pixels, whatever registers it has. Refuses a grid of
    more tokens, and fewer tokens than cells of the patch embedding.
    """
    before = 0 if prefix is None else prefix
    if grid is not None:
        rows, columns = grid
        if before + rows * columns > number:
            others = f" behind {prefix} others" if prefix else ""
            raise AttributionLabError(
                f"grid is {tuple(grid)}{others}: the network has only {number} tokens; take fewer "
                f"rows or columns"
            )
        return rows, columns
    if maps is not None and number < maps[0] * maps[1]:
        raise AttributionLabError(
            f"attention is between {number} tokens, fewer than the {maps[0]} x {maps[1]} cells of the "
            "patch embedding: windows and merged tokens have no rollout; if these are all the tokens "
            "of an image, state their grid=(rows, columns)"
        )
    found = [
        (r, c)
        for r, c in [*([maps] if maps else []), *_square_patches(size)]
        if before <= number - r * c and (number < 2 * r * c or (size[0], size[1]) == (1, c))
    ]
    # Where all others are said to come before it, a grid without any behind it is the first choice.
    found.sort(key=lambda each: prefix not in (None, number - each[0] * each[1]))
    if found:
        return found[0]
    stated = "" if prefix is None else f" behind a prefix of {prefix}"
    raise AttributionLabError(
        f"{number} tokens{stated} do not form a grid of square patches of an image of {size[0]} x "
        f"{size[1]} pixels: state it as grid=(rows, columns), and as prefix the number of tokens "
        "before it"
    )


def _square_patches(size: Sequence[int]) -> list[tuple[int, int]]:
    """Rows and columns of all grids of square patches, the finest first."""
    height, width = size
    sides = [side for side in range(1, min(size) + 1) if height % side == 0 and width % side == 0]
    return [(height // side, width // side) for side in sides]


@torch.no_grad()
def proven_tokens(
    model: nn.Module,
    image: Float[Tensor, "1 channels height width"],
    number: int,
    grid: tuple[int, int],
    layer: nn.Module | None = None,
) -> Tokens | None:
    """Where the cells of an image arrive among a number of tokens; None where that is not seen.

    Cell i has the code i + 1, and in copy k + 1 of the image the cells are changed whose code has bit k
    (and in those of each convolution's or pooling's maps on the way, so that no cell reaches beyond its
    own place). In which copies a token changes says from which cell it comes, as long as tokens are not
    mixed: in front of the first attention, and of what follows the `layer`.
    """
    rows, columns = grid
    # A bit more than the codes take: what is made of all cells changes in all copies, no cell does.
    bits = (rows * columns + 1).bit_length()
    codes = torch.arange(1, rows * columns + 1, device=image.device).reshape(rows, columns)
    changes = torch.stack([torch.zeros_like(codes), *((codes >> bit) % 2 for bit in range(bits))])
    if len(changes) == number:  # copies and tokens must be told apart
        changes = torch.cat([changes, torch.zeros_like(changes[:1])])
    seen = _Arrival(number, changes == 1, bits)

    def end(_module: nn.Module, _inputs: object, output: object) -> None:
        own = seen.places_in(output)
        seen.places = {own} if own else seen.places
        raise _Ended

    handles = [layer.register_forward_hook(end)] if layer is not None else []
    try:
        start = seen.changed(image.expand(len(changes), -1, -1, -1))
        with seen:
            model(start)
    except _Ended:
        pass
    finally:
        for handle in handles:
            handle.remove()
    return Tokens(rows, columns, *seen.places) if len(seen.places) == 1 else None


class _Ended(BaseException):
    """Ends a forward pass; no error, so that networks that handle errors let it through."""


class _Arrival(TorchFunctionMode):
    """Changes cells of each map on its way and notes at which tokens they arrive."""

    def __init__(
        self, number: int, changes: Bool[Tensor, "copies rows columns"], bits: int
    ) -> None:
        super().__init__()
        self.number, self.changes, self.bits = number, changes, bits
        self.places: set[tuple[int, ...]] = set()

    def changed(
        self, maps: Float[Tensor, "copies channels height width"]
    ) -> Float[Tensor, "copies channels height width"]:
        """The first copy's maps, with each copy's cells at the far end of their range."""
        first, (rows, columns) = maps[:1], self.changes.shape[1:]
        tall, wide = maps.shape[2] // rows, maps.shape[3] // columns
        if (tall * rows, wide * columns) != tuple(maps.shape[2:]) or not tall * wide:
            return maps
        chosen = self.changes.repeat_interleave(tall, 1).repeat_interleave(wide, 2)[:, None]
        low, high = first.min(), first.max()
        far = torch.where(first - low > high - first, low, high)
        if low == high:  # other values in each channel, as a normalization undoes equal ones
            far = first + 1 + torch.arange(maps.shape[1], device=maps.device)[:, None, None]
        return torch.where(chosen, far, first)

    def places_in(self, tokens: object) -> tuple[int, ...] | None:
        """At which of the tokens the cells are, if each is at one and the others hold none or all."""
        if not isinstance(tokens, Tensor) or tokens.ndim != 3 or not tokens.is_floating_point():
            return None
        if tokens.shape[:2] == (self.number, len(self.changes)):
            tokens = tokens.transpose(0, 1)
        if tokens.shape[:2] != (len(self.changes), self.number):
            return None
        # Beyond the rounding of a token, which may differ from copy to copy.
        limit = torch.finfo(tokens.dtype).eps ** 0.5 * tokens[0].abs().amax(1)
        moved = (tokens - tokens[0]).abs().amax(2) > limit
        bits = [moved[bit + 1].long() << bit for bit in range(self.bits)]
        codes = torch.stack(bits).sum(0).tolist()
        cells = range(1, self.changes[0].numel() + 1)
        if sorted(code for code in codes if code not in (0, 2**self.bits - 1)) != list(cells):
            return None
        return tuple(codes.index(code) for code in cells)

    def __torch_function__(
        self, func: Any, _types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name.endswith(("softmax", "dot_product_attention")) or "multi_head" in name:
            raise _Ended
        result = func(*args, **(kwargs or {}))
        if name.endswith(("conv2d", "pool2d")) and result.ndim == 4:
            return self.changed(result) if len(result) == len(self.changes) else result
        places = self.places_in(result)
        if places is not None:
            self.places.add(places)
        return result
