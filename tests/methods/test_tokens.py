"""Where an image's tokens lie among all tokens is found out or asked for, and never guessed."""

import pytest
import torch
from torch import nn

from attributionlab.base import AttributionLabError, GuardWarning
from attributionlab.methods import METHODS, collect_notices
from attributionlab.methods.tokens import Tokens, behind, proven_tokens
from random_chains import seeded

ROWS, COLUMNS = 3, 4
CELLS = ROWS * COLUMNS
METHODS_OF_TOKENS = (
    "gradcam",
    "layercam",
    "linear-approximation",
    "attention-rollout",
    "chefer-lrp",
)


def images_of_one_patch():
    """An image for each of the 3 x 4 patches of 2 x 2 pixels, which alone is bright in it."""
    cells = torch.eye(CELLS).reshape(CELLS, 1, ROWS, COLUMNS)
    return cells.repeat_interleave(2, 2).repeat_interleave(2, 3)


def with_others(first, last):
    """Image tokens behind `first` others and in front of `last`."""

    def placed(tokens):
        other = torch.zeros_like(tokens[:, :1]) + torch.tensor([0.0, 1.0])
        return torch.cat([other.expand(-1, first, -1), tokens, other.expand(-1, last, -1)], 1)

    return placed


def in_the_middle(tokens):
    return torch.cat([tokens[:, :5], torch.zeros_like(tokens[:, :1]), tokens[:, 5:]], 1)


def padded(tokens):
    return nn.functional.pad(tokens, (0, 0, 0, 1))


def written_into(tokens):
    whole = tokens.new_zeros(len(tokens), CELLS + 1, 2)
    whole[:, :-1] = tokens
    return whole


def of_their_mean(tokens):
    return torch.cat([tokens.mean(1, keepdim=True), tokens], 1)


def column_by_column(tokens):
    return with_others(0, 1)(tokens.unflatten(1, (ROWS, COLUMNS)).transpose(1, 2).flatten(1, 2))


BY_COLUMNS = tuple(int(i) for i in torch.arange(CELLS).reshape(COLUMNS, ROWS).T.flatten())
PLACED = {
    "none": (with_others(0, 0), range(CELLS)),
    "class token first": (with_others(1, 0), range(1, CELLS + 1)),
    "class token last": (with_others(0, 1), range(CELLS)),
    "registers before": (with_others(5, 0), range(5, CELLS + 5)),
    "registers behind": (with_others(1, 4), range(1, CELLS + 1)),
    "in the middle": (in_the_middle, [*range(5), *range(6, CELLS + 1)]),
    "padding": (padded, range(CELLS)),
    "written into zeros": (written_into, range(CELLS)),
    "mean of all patches": (of_their_mean, range(1, CELLS + 1)),
    "column by column": (column_by_column, BY_COLUMNS),
}
"""How tokens are arranged, and where those of the image are then."""
READ = {
    "none": None,
    "class token first": 0,
    "registers before": 0,
    "registers behind": 0,
    "in the middle": 5,
    "mean of all patches": 0,
}
"""The token that the output reads, by default the last one, or None for the mean of all."""


class Embedding(nn.Module):
    """Brightness of each patch of 2 x 2 pixels, and a second feature that is 0: (B, 12, 2)."""

    def __init__(self, kind="convolution"):
        super().__init__()
        self.kind = kind
        self.patches, self.pixels = nn.Conv2d(1, 2, 2, 2, bias=False), nn.Conv2d(1, 2, 3, 1, 1)
        self.patches.weight.data = torch.tensor([0.25, 0.0])[:, None, None, None].expand(2, 1, 2, 2)

    def forward(self, images):
        match self.kind:
            case "convolution":
                maps = self.patches(images)
            case "pooling":  # behind a stem whose cells overlap
                blurred = nn.functional.avg_pool2d(images, 3, 1, 1, divisor_override=81)
                maps = nn.functional.max_pool2d(images + blurred, 2).expand(-1, 2, -1, -1)
                maps = maps * torch.tensor([1.0, 0.0])[:, None, None]
            case (
                "rearranged"
            ):  # no convolution, as where a linear layer takes the pixels of a patch
                cut = images.unflatten(2, (ROWS, 2)).unflatten(4, (COLUMNS, 2))
                pixels = cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
                return pixels @ self.patches.weight.flatten(1).T
        return maps.flatten(2).mT


class Attending(nn.Module):
    """Attends to what is bright, and returns how bright what one token attends to is."""

    def __init__(self, arrangement=None, read=-1, kind="convolution", causal=False):
        super().__init__()
        self.embedding, self.tokens = Embedding(kind), nn.Identity()
        self.arrangement, self.read, self.causal = arrangement, read, causal
        self.positions = nn.Parameter(1e-3 * torch.randn(1, 40, 2, generator=seeded()))

    def attended(self, tokens):
        scores = 4 * tokens[..., :1].mT.expand(-1, tokens.shape[1], -1)
        if self.causal:
            future = torch.ones(tokens.shape[1], tokens.shape[1]).triu(1).bool()
            scores = scores.masked_fill(future, -torch.inf)
        return tokens + scores.softmax(-1) @ tokens

    def forward(self, images):
        tokens = self.arrangement(self.embedding(images))
        mixed = self.attended(self.tokens(tokens + self.positions[:, : tokens.shape[1]]))
        pooled = mixed.mean(1) if self.read is None else mixed[:, self.read]
        return pooled * torch.tensor([1.0, -1.0])


def maps_of(name, model, **settings):
    if name not in ("attention-rollout", "chefer-lrp"):
        settings["layer"] = "tokens"
    images = images_of_one_patch()
    return METHODS[name](model, images, torch.zeros(len(images), dtype=torch.long), **settings)


def assert_peaks_at_its_patch(maps):
    for k, each in enumerate(maps):
        at = int(each.argmax())
        assert (at // (2 * COLUMNS) // 2, at % (2 * COLUMNS) // 2) == (k // COLUMNS, k % COLUMNS)


@pytest.mark.parametrize("name", METHODS_OF_TOKENS)
@pytest.mark.parametrize("arrangement", PLACED)
def test_a_map_peaks_at_the_only_patch_that_is_bright(arrangement, name):
    model = Attending(PLACED[arrangement][0], READ.get(arrangement, -1))
    assert_peaks_at_its_patch(maps_of(name, model))


@pytest.mark.parametrize("name", METHODS_OF_TOKENS)
@pytest.mark.parametrize("kind", ["pooling", "rearranged"])
@pytest.mark.parametrize("arrangement", ["class token first", "class token last"])
def test_it_does_not_matter_how_patches_are_embedded(arrangement, kind, name):
    model = Attending(PLACED[arrangement][0], READ.get(arrangement, -1), kind)
    assert_peaks_at_its_patch(maps_of(name, model))


@pytest.mark.parametrize("name", METHODS_OF_TOKENS)
@pytest.mark.parametrize("first", [0, 1], ids=["no start", "start"])
def test_causal_attention_is_read_at_its_last_token(name, first):
    """Behind a token that starts the sequence, the last one is a token of the image or comes behind."""
    last = with_others(first, 1)
    assert_peaks_at_its_patch(maps_of(name, Attending(last, -1, causal=True)))
    # The share of the last patch in itself is the residual's.
    settings = {"residual": 0.25} if name == "attention-rollout" else {}
    without = with_others(first, 0)
    assert_peaks_at_its_patch(maps_of(name, Attending(without, -1, causal=True), **settings))


@pytest.mark.parametrize("kind", ["convolution", "pooling", "rearranged"])
@pytest.mark.parametrize("arrangement", PLACED)
@pytest.mark.parametrize("image", ["zeros", "random", "patch"])
def test_where_tokens_lie_is_proven_on_any_image(arrangement, kind, image):
    function, places = PLACED[arrangement]
    shape = (1, 1, 2 * ROWS, 2 * COLUMNS)
    given = {
        "zeros": torch.zeros(shape),
        "random": torch.rand(shape, generator=seeded()),
        "patch": images_of_one_patch()[:1],
    }[image]
    number = function(torch.zeros(1, CELLS, 2)).shape[1]
    found = proven_tokens(Attending(function, kind=kind), given, number, (ROWS, COLUMNS))
    assert found == Tokens(ROWS, COLUMNS, tuple(places))


@pytest.mark.parametrize("cells", range(2, 18))
@pytest.mark.parametrize("others", [0, 1, 3])
@pytest.mark.parametrize("batch_first", [True, False])
def test_every_number_of_cells_and_tokens_has_its_codes(cells, others, batch_first):
    class Row(nn.Module):
        def forward(self, images):
            if batch_first:
                return with_others(1, others)(images.flatten(2).mT.expand(-1, -1, 2)).mean(1)
            tokens = images.flatten(2).permute(2, 0, 1).expand(-1, -1, 2)
            return torch.cat([tokens[:1] * 0, tokens, *[tokens[:1] * 0] * others]).mean(0)

    number = 1 + cells + others
    found = proven_tokens(Row(), torch.rand(1, 1, 1, cells), number, (1, cells))
    assert found == behind(1, cells, 1)


class Late(Attending):
    """The class token comes behind the first attention, at the end."""

    def forward(self, images):
        tokens = self.attended(self.embedding(images))
        mixed = self.attended(self.tokens(self.arrangement(tokens)))
        return mixed[:, -1] * torch.tensor([1.0, -1.0])


@pytest.mark.parametrize("first", [0, 1])
def test_what_is_not_seen_is_asked_for(first):
    model = Late(with_others(first, 1 - first), -1)
    if first:
        model = Late(lambda tokens: with_others(1, 0)(tokens).roll(0, 1), -1)
    for name in ("gradcam", "layercam"):
        with pytest.raises(
            AttributionLabError, match=rf"{name}: 1 of 13 tokens .* 3 x 4.*state .* prefix=1 "
        ):
            maps_of(name, model)
    with collect_notices() as findings:
        maps = maps_of("layercam", model, prefix=first)
    assert not any("prefix" in each.text for each in findings)
    if not first:
        assert_peaks_at_its_patch(maps)


class Turned(Attending):
    """Tokens in the other direction, where attention is computed."""

    def attended(self, tokens):
        return super().attended(tokens.flip(1)).flip(1)


def test_tokens_that_change_places_are_asked_for_unless_the_layer_itself_has_them():
    model = Turned(with_others(1, 0), 0)
    with pytest.raises(AttributionLabError, match="attention-rollout: 1 of 13 tokens"):
        maps_of("attention-rollout", model)
    assert_peaks_at_its_patch(maps_of("gradcam", model))
    rolled = Attending(lambda tokens: with_others(1, 0)(tokens).roll(-1, 1))
    with pytest.raises(AttributionLabError, match="chefer-lrp: 1 of 13 tokens"):
        maps_of("chefer-lrp", rolled)
    for name in ("gradcam", "layercam"):
        assert_peaks_at_its_patch(maps_of(name, rolled))


@pytest.mark.parametrize("name", METHODS_OF_TOKENS)
def test_a_prefix_that_contradicts_what_is_proven_holds_and_is_told(name):
    model = Attending(with_others(0, 1))
    right = maps_of(name, model, prefix=0)
    assert torch.equal(right, maps_of(name, model))
    with pytest.warns(
        GuardWarning, match=r"12 images .*prefix is 1, .* 3 x 4 are number 0 to 11.*leave prefix"
    ):
        wrong = maps_of(name, model, prefix=1)
    assert not torch.equal(wrong, right)
    turned = Attending(column_by_column)
    with pytest.warns(GuardWarning, match="prefix is 0.* 0 to 11, .*in another order"):
        maps_of(name, turned, prefix=0)


def test_a_grid_that_the_user_states_is_looked_for():
    model = Attending(with_others(1, 0), 0, "rearranged")
    inferred = maps_of("gradcam", model)
    assert torch.equal(maps_of("gradcam", model, grid=(ROWS, COLUMNS)), inferred)
    with pytest.raises(AttributionLabError, match=r"1 of 13 tokens .* 2 x 6, .* state"):
        maps_of("gradcam", model, grid=(2, 6))
    assert maps_of("gradcam", model, grid=(2, 6), prefix=1).shape == inferred.shape


@pytest.mark.parametrize("layer", ["tokens", None])
def test_a_network_runs_no_further_than_its_first_attention_and_keeps_nothing(layer):
    passed = []
    model = Attending(with_others(1, 0), 0)
    model.register_forward_hook(lambda *_: passed.append("whole"))
    model.embedding.register_forward_hook(lambda *_: passed.append("embedding"))
    state, image = torch.get_rng_state(), images_of_one_patch()[:1]
    module = layer and model.get_submodule(layer)
    assert proven_tokens(model, image, 13, (ROWS, COLUMNS), module) == behind(ROWS, COLUMNS, 1)
    assert passed == ["embedding"]
    assert not model.tokens._forward_hooks
    assert torch.equal(image, images_of_one_patch()[:1])
    assert torch.equal(state, torch.get_rng_state())
