"""Tokens of an image among all tokens of a transformer, and the grid that they are."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.validation import integer_problem


@dataclass(frozen=True)
class Tokens:
    """Tokens of an image among all tokens: a grid, row by row, behind as many others as `prefix`."""

    rows: int
    columns: int
    prefix: int

    def as_maps(
        self, values: Float[Tensor, "batch tokens features"]
    ) -> Float[Tensor, "batch features rows columns"]:
        """Those of the image as a grid, a map for each feature."""
        image = values[:, self.prefix : self.prefix + self.rows * self.columns]
        return image.mT.reshape(len(values), -1, self.rows, self.columns)

    def as_map(
        self, values: Float[Tensor, "batch tokens"], size: Sequence[int]
    ) -> Float[Tensor, "batch 1 height width"]:
        """Those of the image as a grid, enlarged bilinearly to a height and a width."""
        return torch.nn.functional.interpolate(
            self.as_maps(values[..., None]), tuple(size), mode="bilinear"
        )


def tokens_of(
    number: int,
    size: Sequence[int],
    maps: tuple[int, int] | None,
    grid: Sequence[int] | None,
    prefix: int | None,
) -> Tokens:
    """The grid of an image's tokens, as the user says or as it can be inferred.

    Without a `grid` (rows and columns) by the user it has the rows and columns of the patch embedding's
    `maps`, if there are at most twice as many tokens. Otherwise patches are square, and as many of the
    tokens as possible are image tokens. All that are not in the grid are its prefix, unless the user
    says otherwise. Refuses a grid or prefix out of range, and fewer tokens than cells of the patch
    embedding.
    """
    refuse_if(
        [*_grid_problem(grid), *([] if prefix is None else integer_problem("prefix", prefix, 0))]
    )
    if grid is not None:
        rows, columns = map(int, grid)
        before = number - rows * columns if prefix is None else int(prefix)
        if before < 0 or before + rows * columns > number:
            behind = f" behind {prefix} others" if prefix else ""
            raise AttributionLabError(
                f"grid is {tuple(grid)}{behind}: take rows and columns that the network's {number} "
                "tokens suffice for"
            )
        return Tokens(rows, columns, before)
    if maps is not None and number < maps[0] * maps[1]:
        raise AttributionLabError(
            f"attention is between {number} tokens, fewer than the {maps[0]} x {maps[1]} cells of the "
            "patch embedding: windows and merged tokens have no rollout; if these are all tokens of an "
            "image, state their grid=(rows, columns)"
        )
    grids = [*([maps] if maps else []), *_square_patches(size)]
    found = [(r, c, number - r * c) for r, c in grids if 0 <= number - r * c < r * c]
    # Where tokens come behind the grid, too, the prefix is less than all that are not in it.
    fitting = [each for each in found if prefix in (None, each[2])]
    fitting += [
        (r, c, int(prefix)) for r, c, others in found if prefix is not None and prefix < others
    ]
    if fitting:
        return Tokens(*fitting[0])
    stated = "" if prefix is None else f" behind a prefix of {prefix}"
    raise AttributionLabError(
        f"{number} tokens{stated} are no grid of square patches of an image of {size[0]} x {size[1]} "
        "pixels: state it as grid=(rows, columns), and as prefix the number of tokens before it"
    )


def _square_patches(size: Sequence[int]) -> list[tuple[int, int]]:
    """Rows and columns of all grids of square patches, the finest first."""
    height, width = size
    sides = [side for side in range(1, min(size) + 1) if height % side == 0 and width % side == 0]
    return [(height // side, width // side) for side in sides]


def _grid_problem(grid: Sequence[int] | None) -> list[str]:
    if grid is None:
        return []
    two = isinstance(grid, list | tuple) and len(grid) == 2
    if two and not any(integer_problem("grid", each, 1) for each in grid):
        return []
    return [f"grid is {grid!r}: take a pair of positive integers, rows and columns"]
