"""A recipe for images, and the one function that draws from it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import (
    AttributionLabError,
    Byte,
    Count,
    ImageSide,
    Share,
    Whole,
    checked_arguments,
)
from attributionlab.worlds.images.checks import Range, Shapes
from attributionlab.worlds.images.layout import ATTEMPTS, place_patches

Image = NDArray[np.uint8]
Labels = NDArray[np.int16]

# A recipe must place its patches within so few attempts when it is made, far fewer than `draw` may
# spend on one sample: what passes the trial by luck then rarely fails later.
TRIAL_ATTEMPTS = 5

# Drawings that `draw` offers to `accept` before it gives up.
DRAWINGS = 200


class Drawing(NamedTuple):
    """One image and its patches.

    `image`: integers in 0..255. `patches`: 0 on the background, k on every pixel of patch k = 1, 2,
    ..., filled or not.
    """

    image: Image
    patches: Labels


@runtime_checkable
class ImageRecipe(Protocol):
    """What images are drawn from: a `Recipe`, or a `attributionlab.images.scenes.Scene`."""

    @property
    def image_size(self) -> int:
        """Side of the image in pixels."""

    @property
    def background(self) -> tuple[int, ...]:
        """Value of a background pixel, one integer a channel."""

    @property
    def patches(self) -> int:
        """Number of patches."""

    @property
    def patch_size(self) -> tuple[float, float]:
        """Smallest and largest diameter of a patch as fractions of the image side."""

    @property
    def highest(self) -> int:
        """Largest value that a pixel can have."""

    @property
    def channels(self) -> int:
        """Number of channels."""

    def sketch(self, rng: np.random.Generator) -> Drawing:
        """Draw one image from a stream of random numbers."""


@runtime_checkable
class Ink(Protocol):
    """What gives the pixels of patches their values."""

    def __call__(
        self, rng: np.random.Generator, labels: Labels, background: tuple[int, ...]
    ) -> Image:
        """Values (C, P) of P pixels that belong to the patches `labels` (P,)."""

    @property
    def highest(self) -> int:
        """Largest value that it can give."""


@checked_arguments
@dataclass(frozen=True)
class BernoulliInk:
    """Each pixel of patch k is colors[k - 1] with probability `fill`, else the background."""

    colors: tuple[tuple[Byte, ...], ...]
    fill: Share

    def __call__(
        self, rng: np.random.Generator, labels: Labels, background: tuple[int, ...]
    ) -> Image:
        palette = np.array((background, *self.colors), dtype=np.uint8).T  # (C, 1 + patches)
        shown = np.where(rng.random(labels.size) < self.fill, labels, 0)
        return palette[:, shown]

    @property
    def highest(self) -> int:
        """Largest value of any color."""
        return max(max(color) for color in self.colors)


@checked_arguments
@dataclass(frozen=True)
class UniformInk:
    """Each pixel is an integer drawn uniformly from `low` to `high`, both included."""

    low: Byte
    high: Byte

    def __call__(
        self, rng: np.random.Generator, labels: Labels, background: tuple[int, ...]
    ) -> Image:
        return rng.integers(
            self.low, self.high, size=(1, labels.size), dtype=np.uint8, endpoint=True
        )

    @property
    def highest(self) -> int:
        """Largest value drawn."""
        return self.high


@checked_arguments
@dataclass(frozen=True)
class Recipe:
    """Everything that determines a distribution of images; made by the functions of `GENERATORS`.

    - `image_size`: side of the image in pixels.
    - `background`: value of a background pixel, one integer a channel.
    - `patches`: number of patches.
    - `ink`: what gives the pixels of the patches their values.
    - `shapes`: names from `SHAPES`.
    - `patch_size`: smallest and largest diameter as fractions of the image side.

    Raises AttributionLabError if a trial cannot place the patches.
    """

    image_size: ImageSide
    background: tuple[Byte, ...]
    patches: Count
    ink: Ink
    shapes: Shapes
    patch_size: Range

    def __post_init__(self) -> None:
        self._layout(np.random.default_rng(0), attempts=TRIAL_ATTEMPTS)

    @property
    def highest(self) -> int:
        """Largest value that a pixel can have."""
        return max(*self.background, self.ink.highest)

    @property
    def channels(self) -> int:
        """Number of channels: 1 or 3."""
        return len(self.background)

    def sketch(self, rng: np.random.Generator) -> Drawing:
        """Draw one image from a stream of random numbers."""
        labels = self._layout(rng)
        inside = np.flatnonzero(labels)
        image = np.empty((self.channels, labels.size), dtype=np.uint8)
        image[:] = np.array(self.background, dtype=np.uint8)[:, None]
        image[:, inside] = self.ink(rng, labels.ravel()[inside], self.background)
        return Drawing(image.reshape(self.channels, *labels.shape), labels)

    def _layout(self, rng: np.random.Generator, attempts: int = ATTEMPTS) -> Labels:
        return place_patches(
            rng,
            image_size=self.image_size,
            count=self.patches,
            shapes=self.shapes,
            patch_size=self.patch_size,
            attempts=attempts,
        )


@checked_arguments
def draw(
    recipe: ImageRecipe, seed: Whole, index: Whole, accept: Callable[[Image], bool] | None = None
) -> Drawing:
    """Draw sample `index`: a function of (recipe, seed, index) alone.

    Parameters
    ----------
    recipe : ImageRecipe
        What to draw.
    seed : int
        Names the data set, 0 or more.
    index : int
        Names the sample within it, 0 or more.
    accept : callable, optional
        `accept(image)` says whether a drawing will do. A rejected one is drawn again from the same
        stream, 200 drawings at most.

    Returns
    -------
    Drawing
        The image, uint8 (C, H, W), and the label map of its patches, int16 (H, W).

    Raises
    ------
    AttributionLabError
        If `seed` or `index` is negative or no integer, or if no drawing is accepted.

    Examples
    --------
    >>> from attributionlab.worlds.images import binary_patches, draw
    >>> image, patches = draw(binary_patches(image_size=32), seed=0, index=7)
    >>> image.shape, patches.shape, int(patches.max())
    ((1, 32, 32), (32, 32), 4)
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))
    for _ in range(DRAWINGS):
        drawing = recipe.sketch(rng)
        if accept is None or accept(drawing.image):
            return drawing
    condition = getattr(accept, "__name__", str(accept))
    raise AttributionLabError(
        f"sample {index} of seed {seed}: none of {DRAWINGS} drawings was accepted by {condition}; "
        "relax the condition, or change the recipe (larger or fewer patches, another fill)"
    )
