"""The grid of an image's tokens is that of its patches."""

import pytest
import torch

from attributionlab.errors import AttributionLabError
from attributionlab.methods.tokens import Tokens, read_tokens, tokens_of


@pytest.mark.parametrize(
    ("number", "size", "maps", "expected"),
    [
        (16, (16, 16), None, Tokens(4, 4, 0)),
        (17, (16, 16), None, Tokens(4, 4, 1)),
        (21, (16, 16), None, Tokens(4, 4, 5)),  # registers
        (33, (16, 32), None, Tokens(4, 8, 1)),
        (197, (224, 224), (14, 14), Tokens(14, 14, 1)),
        (13, (24, 24), (3, 4), Tokens(3, 4, 1)),  # patches that are not square
        (17, (16, 16), (2, 2), Tokens(4, 4, 1)),
    ],
)
def test_it_is_inferred(number, size, maps, expected):
    assert tokens_of(number, size, maps, None, None) == expected


def test_what_the_user_states_comes_first():
    assert tokens_of(17, (16, 16), (4, 4), [2, 8], None) == Tokens(2, 8, 1)
    assert tokens_of(17, (16, 16), (4, 4), (4, 4), 0) == Tokens(4, 4, 0)  # the class token is last
    assert tokens_of(16, (16, 16), (3, 5), None, 0) == Tokens(4, 4, 0)


@pytest.mark.parametrize("number", [10, 2, 600])
def test_tokens_that_are_no_grid_are_refused(number):
    with pytest.raises(AttributionLabError, match=f"{number} tokens are no grid .* 16 x 16 pixels"):
        tokens_of(number, (16, 16), None, None, None)


def test_fewer_tokens_than_patches_are_refused_unless_the_user_states_their_grid():
    with pytest.raises(
        AttributionLabError, match=r"16 tokens, fewer than the 8 x 8 cells .* windows"
    ):
        tokens_of(16, (32, 32), (8, 8), None, None)
    assert tokens_of(16, (32, 32), (8, 8), (4, 4), None) == Tokens(4, 4, 0)


def test_the_map_has_the_tokens_row_by_row():
    values = torch.arange(8.0)[None]
    got = Tokens(2, 3, 1).as_map(values, (2, 3))
    assert got.tolist() == [[[[1, 2, 3], [4, 5, 6]]]]


def test_tokens_with_a_gradient_in_any_head_are_read():
    gradient = torch.zeros(2, 2, 3, 3)
    gradient[0, 1, 0, 2] = -1
    assert read_tokens(gradient).tolist() == [[True, False, False], [False] * 3]
