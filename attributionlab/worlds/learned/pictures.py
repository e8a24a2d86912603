"""Images of few colors as indices of colors, what is done to them, and the rule's answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from jaxtyping import Float32, UInt8
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, own_arithmetic, track
from attributionlab.worlds.images.recipe import ImageRecipe
from attributionlab.worlds.nets.networks import Network
from attributionlab.worlds.rules.rule import Rule
from attributionlab.worlds.truth.masks import Counting

MOST_REMOVED = 0.5
"""The share of patches, or of pixels, that is removed is drawn between 0 and this."""
AT_ONCE = 500
"""Images of one forward pass."""
MOST_COLORS = 255
"""Beside the background's: an index is a byte."""


class World(Protocol):
    """What is needed of an environment."""

    name: str
    network: Network
    recipe: ImageRecipe
    counting: Counting | Rule
    spec: Any

    def dataset(self, n: int, seed: int) -> Any:
        """Samples with an image and a label map of patches."""


class Pictures(NamedTuple):
    """Images of few colors, ready to be changed."""

    colors: Float32[Tensor, "colors channels"]
    """the background's first"""
    shown: UInt8[Tensor, "batch height width"]
    """which color each pixel has"""
    patches: UInt8[Tensor, "batch height width"]
    """0 is background, 1, 2, ... the patches"""

    @property
    def images(self) -> Float32[Tensor, "batch channels height width"]:
        """The images as networks take them, in channels-last memory format, which is faster."""
        return self.colors[self.shown.long()].permute(0, 3, 1, 2)

    def part(self, chosen: slice | Tensor) -> "Pictures":
        """Some of the pictures."""
        return Pictures(self.colors, self.shown[chosen], self.patches[chosen])


def drawn_pictures(
    env: World, n: int, seed: int, kind: str = "", show_progress: bool = False
) -> Pictures:
    """The first n images of a world, which are called of a `kind` where progress is shown.

    Raises AttributionLabError for images with other colors than those that the world states: they are
    no pictures of few colors.
    """
    if env.recipe.channels != 3:
        raise AttributionLabError(
            f"{env.name}: its images have {env.recipe.channels} channel, but networks are trained on "
            "color images: take a world of colors"
        )
    colors = torch.tensor([env.recipe.background, *_stated_colors(env)]).float()
    what = f"drawing {kind} images of {env.name}"
    indices = track(range(n), n, what, show_progress, "images")
    samples = [env.dataset(n, seed)[index] for index in indices]
    images = torch.stack([sample.image for sample in samples])
    same = torch.stack([(images == color[:, None, None]).all(1) for color in colors])
    if len(colors) > 1 + MOST_COLORS or not same.any(0).all():
        raise AttributionLabError(
            f"{env.name}: its images have colors beyond the {len(colors)} that it states, but networks "
            "are trained on images of few colors: take a world with flat colors"
        )
    patches = torch.stack([sample.patches for sample in samples])
    return Pictures(colors, same.byte().argmax(0).byte(), patches.byte())


def _stated_colors(env: World) -> Sequence[tuple[int, ...]]:
    """The colors that images may show: those that count, and distractors."""
    constants = env.spec.constants
    return [*constants.get("colors", ()), *constants.get("distractor_colors", ())]


class RuleAnswers:
    """What the hand-weighted network of a world says of pictures, from the colors' indices.

    Its detector sees single pixels, so that its answer for each color is all there is to know; the
    layers behind it are run on those. Equal to the whole network, and several times as fast.
    """

    def __init__(self, env: World, colors: Float32[Tensor, "colors channels"]) -> None:
        parts = dict((env.network.plain or env.network.model).named_children())
        detector = parts.pop("detector", nn.Identity())
        with own_arithmetic(), torch.no_grad():
            self.detected = detector(colors[:, :, None, None])[:, :, 0, 0]
        self.behind = nn.Sequential(*parts.values())

    @own_arithmetic()
    def __call__(
        self, shown: UInt8[Tensor, "batch height width"]
    ) -> Float32[Tensor, "batch outputs"]:
        """Outputs for indices of colors."""
        with torch.no_grad():
            return torch.cat(
                [
                    self.behind(self.detected[some.long()].permute(0, 3, 1, 2))
                    for some in torch.split(shown, AT_ONCE)
                ]
            )


Change = Callable[[Pictures, torch.Generator], Pictures]


def _of_patches(pictures: Pictures, values: Tensor) -> Tensor:
    """A value for each pixel from one for each label of its picture."""
    return values.gather(1, pictures.patches.flatten(1).long()).view_as(pictures.shown)


def _labels(pictures: Pictures) -> int:
    return int(pictures.patches.max()) + 1


def _patches_removed(pictures: Pictures, generator: torch.Generator) -> Pictures:
    """Each patch gets the background's color with a probability that is drawn for each picture."""
    n = len(pictures.shown)
    share = MOST_REMOVED * torch.rand(n, 1, generator=generator)
    kept = torch.rand(n, _labels(pictures), generator=generator) >= share
    return pictures._replace(shown=pictures.shown * _of_patches(pictures, kept))


def _pixels_removed(pictures: Pictures, generator: torch.Generator) -> Pictures:
    """The same for each pixel."""
    share = MOST_REMOVED * torch.rand(len(pictures.shown), 1, 1, generator=generator)
    kept = torch.rand(pictures.shown.shape, generator=generator) >= share
    return pictures._replace(shown=pictures.shown * kept)


def _colors_swapped(pictures: Pictures, generator: torch.Generator) -> Pictures:
    """The colors of each picture change places with each other."""
    n, colors = len(pictures.shown), len(pictures.colors) - 1
    order = 1 + torch.rand(n, colors, generator=generator).argsort(1)
    table = torch.cat([torch.zeros(n, 1, dtype=torch.int64), order], 1)
    shown = table.gather(1, pictures.shown.flatten(1).long()).view_as(pictures.shown)
    return pictures._replace(shown=shown.byte())


def _places_moved(pictures: Pictures, generator: torch.Generator) -> Pictures:
    """Each picture is turned by one, two or three quarters."""
    turns = torch.randint(1, 4, (len(pictures.shown),), generator=generator)[:, None, None]
    shown, patches = pictures.shown, pictures.patches
    for turn in (1, 2, 3):
        shown, patches = (
            torch.where(turns == turn, before.rot90(turn, (1, 2)), now)
            for before, now in zip(pictures[1:], (shown, patches), strict=True)
        )
    return Pictures(pictures.colors, shown, patches)


def _patches_recolored(pictures: Pictures, generator: torch.Generator) -> Pictures:
    """Each patch gets one color, any of the world's, with probability 1/2."""
    size = (len(pictures.shown), _labels(pictures))
    colors = torch.randint(1, len(pictures.colors), size, generator=generator)
    changed = torch.rand(size, generator=generator) < 0.5
    changed = _of_patches(pictures, changed) & (pictures.shown > 0)
    painted = _of_patches(pictures, colors).byte()
    return pictures._replace(shown=torch.where(changed, painted, pictures.shown))


def _picture_rolled(pictures: Pictures, generator: torch.Generator) -> Pictures:
    """Each picture is moved by even numbers of pixels; what leaves comes in on the other side."""
    n, side = len(pictures.shown), pictures.shown.shape[1]
    down, right = 2 * torch.randint(0, side // 2, (2, n, 1), generator=generator)
    rows, columns = ((torch.arange(side) + by) % side for by in (down, right))
    places = torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]
    return Pictures(pictures.colors, pictures.shown[places], pictures.patches[places])


INTERVENTIONS: Mapping[str, Change] = {
    "patches_removed": _patches_removed,
    "pixels_removed": _pixels_removed,
    "colors_swapped": _colors_swapped,
    "places_moved": _places_moved,
}
"""What is done to images, for training and for a certificate. Counts then vary independently of each
other, whatever the recipe of the images ties together."""
VARIATIONS: Mapping[Change, float] = {
    **dict.fromkeys(INTERVENTIONS.values(), 0.5),
    _patches_recolored: 0.3,
    _picture_rolled: 0.3,
}
"""What is done to the images of a batch, and with which probability to each."""


def varied(pictures: Pictures, generator: torch.Generator) -> Pictures:
    """Pictures on which each variation is made, or not."""
    shown, patches = pictures.shown.clone(), pictures.patches.clone()
    for change, probability in VARIATIONS.items():
        chosen = torch.rand(len(shown), generator=generator) < probability
        if chosen.any():
            changed = change(Pictures(pictures.colors, shown[chosen], patches[chosen]), generator)
            shown[chosen], patches[chosen] = changed.shown, changed.patches
    return Pictures(pictures.colors, shown, patches)
