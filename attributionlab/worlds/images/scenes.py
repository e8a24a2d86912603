"""Scenes: which patches an image has, where each may lie, and of how many pixels exactly."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import (
    AttributionLabError,
    ImageSide,
    Share,
    Within,
    argument_problems,
    checked_arguments,
    nearest,
    not_empty,
    refuse_if,
)
from attributionlab.worlds.images.checks import Color, Range, Shapes, equal_colors
from attributionlab.worlds.images.layout import ATTEMPTS, TRIES
from attributionlab.worlds.images.recipe import TRIAL_ATTEMPTS, Drawing, Labels
from attributionlab.worlds.images.regions import (
    KNOWN_REGIONS,
    MOTIFS,
    TILE,
    Mask,
    Rectangle,
    motif_colors,
    region_mask,
    region_problems,
)
from attributionlab.worlds.images.shades import FLAT, MIXED, PATTERNS, Shades, Shading, Spread
from attributionlab.worlds.images.shapes import SHAPES

EACH, NOTHING = "each", "nothing"
"""In an item: every color that no item names, in turn; and no patch."""
OPTION = re.compile(
    r"(?P<what>\w+)(?:\((?P<colors>[\w, ]*)\))?(?:@(?P<region>\w+))?"
    r"(?::(?P<area>[\d.]+)(?:-(?P<most>[\d.]+))?)?"
)

Overlap = Annotated[float, Within(least=0, below=1)]


class Patch(NamedTuple):
    """What a patch may be."""

    colors: tuple[Color, ...]
    """its color, or those of its motif"""
    motif: str
    """empty for pixels of one color"""
    region: str
    """where it lies wholly, empty for anywhere"""
    area: tuple[float, float]
    """fewest and most pixels as shares of the image"""
    own_area: bool
    """whether it is drawn apart where areas are equal"""


@dataclass(frozen=True)
class Scene:
    """Images with a list of patches; made by `scenes`.

    - `background`: value of a background pixel, one integer a channel.
    - `items`: for each item its alternatives with equal chances, each so many patches.
    - `shapes`: names from `SHAPES`.
    - `equal_areas`: whether the patches of an image that have no area of their own have equally many
      pixels.
    - `regions`: further regions.
    - `shading`, `shade_pattern`: which values stand for each color, the background included, and which
      of them each pixel has.
    - `overlap`: share of a patch that later ones may cover; the upper patch is what a pixel shows.

    Raises AttributionLabError if a trial cannot place the patches.
    """

    image_size: int
    background: tuple[int, ...]
    items: tuple[tuple[tuple[Patch, ...], ...], ...]
    shapes: tuple[str, ...]
    fill: float
    equal_areas: bool
    regions: tuple[tuple[str, Rectangle], ...] = ()
    shading: Shading = FLAT
    overlap: float = 0.0
    shade_pattern: str = MIXED
    _allowed: dict[str, Mask] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._layout(np.random.default_rng(0), TRIAL_ATTEMPTS)

    @property
    def patches(self) -> int:
        """Number of patches, those that an image may lack included."""
        return sum(max(map(len, item)) for item in self.items)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return len(self.background)

    @cached_property
    def highest(self) -> int:
        """Largest value that a pixel can have."""
        colors = [color for patch in self._all for color in patch.colors]
        return max(*self.background, *map(max, colors)) + self.shading.spread

    @cached_property
    def patch_size(self) -> tuple[float, float]:
        """Side of a square with as many pixels as the smallest and the largest patch, as fractions."""
        areas = [patch.area for patch in self._all]
        least, most = min(low for low, _ in areas), max(high for _, high in areas)
        return least**0.5, (most / self.fill) ** 0.5

    @property
    def _all(self) -> list[Patch]:
        """Every patch that an image may have."""
        return [patch for item in self.items for option in item for patch in option]

    def sketch(self, rng: np.random.Generator) -> Drawing:
        """Draw one image from a stream of random numbers."""
        return self._layout(rng, ATTEMPTS)

    def _layout(self, rng: np.random.Generator, attempts: int) -> Drawing:
        for _ in range(attempts):
            drawing = self._attempt(rng)
            if drawing is not None:
                return drawing
        raise AttributionLabError(
            f"{self.patches} patches do not fit into an image of {self.image_size} x "
            f"{self.image_size} in {attempts} attempts: use fewer or smaller patches or a larger image"
        )

    def _attempt(self, rng: np.random.Generator) -> Drawing | None:
        """One layout, or None if a patch finds no room."""
        side = self.image_size
        image = np.empty((self.channels, side, side), dtype=np.uint8)
        image[:] = np.array(self.background, dtype=np.uint8)[:, None, None]
        labels = np.zeros((side, side), dtype=np.int16)
        chosen = [patch for item in self.items for patch in item[int(rng.integers(len(item)))]]
        share = float(rng.random()) if self.equal_areas else None
        stamps = [self._stamp(rng, patch, share) for patch in chosen]
        # The largest first finds room more often; equal ones in random order, or the label would tell
        # something of the place.
        sizes = np.array([mask.size for mask, _ in stamps])
        whole = np.zeros(1 + len(stamps), dtype=np.int64)  # pixels of each label placed so far
        for k in np.lexsort((rng.random(len(stamps)), -sizes)):
            patch, (mask, colors) = chosen[k], stamps[k]
            place = self._place(rng, labels, mask, patch, whole)
            if place is None:
                return None
            labels[place][mask] = k + 1
            whole[k + 1] = mask.sum()
            image[:, *place][:, mask] = np.array((self.background, *patch.colors)).T[
                :, colors[mask]
            ]
        if self.shading.shades > 1:
            drawn = self.shading.indices(self.shade_pattern, labels, rng)
            offsets = self.shading.offsets[drawn].transpose(2, 0, 1)  # (C, H, W)
            image = (image + offsets).astype(np.uint8)
        return Drawing(image, labels)

    def _stamp(
        self, rng: np.random.Generator, patch: Patch, share: float | None
    ) -> tuple[Mask, Labels]:
        """A patch: which pixels are its own, and for each 0 for background or k for its color k.

        `share` is where between the fewest and the most pixels it has.
        """
        low, high = (max(1, round(area * self.image_size**2)) for area in patch.area)
        place = float(rng.random()) if share is None or patch.own_area else share
        pixels = low + int(place * (high - low + 1))
        if patch.motif:
            return self._tiles(rng, patch.motif, max(1, round(pixels / TILE**2)))
        shape = SHAPES[self.shapes[int(rng.integers(len(self.shapes)))]]
        wanted, diameter = pixels / self.fill, 1
        mask = shape(rng, diameter)
        while mask.sum() < wanted:
            diameter = max(diameter + 1, round(diameter * (wanted / mask.sum()) ** 0.5))
            mask = shape(rng, diameter)
        colors = np.zeros(mask.shape, dtype=np.int16)
        inside = np.argwhere(mask)
        shown = inside[rng.permutation(len(inside))[:pixels]]
        colors[tuple(shown.T)] = 1
        return mask, colors

    def _tiles(self, rng: np.random.Generator, motif: str, tiles: int) -> tuple[Mask, Labels]:
        """A block of tiles with a motif; what is over in the last row is background."""
        rows = int(
            rng.integers(max(1, round(tiles**0.5 / 2)), round(2 * tiles**0.5), endpoint=True)
        )
        rows = min(rows, tiles)
        columns = -(-tiles // rows)
        shown = np.arange(rows * columns).reshape(rows, columns) < tiles
        of_tile = [[0 if place is None else place + 1 for place in row] for row in MOTIFS[motif]]
        block = np.kron(shown, np.array(of_tile)).astype(np.int16)
        return np.kron(shown, np.ones((TILE, TILE))).astype(bool), block

    def _place(
        self,
        rng: np.random.Generator,
        labels: Labels,
        mask: Mask,
        patch: Patch,
        whole: NDArray[np.int64],
    ) -> tuple[slice, slice] | None:
        """Where a patch lies in its region and covers no other too far, None if none was found."""
        if patch.region not in self._allowed:
            own = dict(self.regions)
            self._allowed[patch.region] = region_mask(patch.region, self.image_size, own)
        allowed = self._allowed[patch.region]
        rows, columns = np.flatnonzero(allowed.any(1)), np.flatnonzero(allowed.any(0))
        step = TILE if patch.motif else 1
        starts = []
        for places, length in zip((rows, columns), mask.shape, strict=True):
            first, last = -(-places[0] // step), (places[-1] + 1 - length) // step
            if last < first:
                return None
            starts.append(step * rng.integers(first, last, size=TRIES, endpoint=True))
        for top, left in zip(*(each.tolist() for each in starts), strict=True):
            place = slice(top, top + mask.shape[0]), slice(left, left + mask.shape[1])
            if allowed[place][mask].all() and self._may_cover(labels[place][mask], labels, whole):
                return place
        return None

    def _may_cover(self, covered: Labels, labels: Labels, whole: NDArray[np.int64]) -> bool:
        """Whether every patch keeps enough of its `whole` pixels if it loses the covered ones."""
        if not covered.any():
            return True
        if not self.overlap:
            return False
        shown, lost = (
            np.bincount(each.ravel(), minlength=len(whole)) for each in (labels, covered)
        )
        kept = (shown - lost)[1:] >= (1 - self.overlap) * whole[1:]
        return bool(kept.all())


@checked_arguments
def scenes(
    *,
    image_size: ImageSide,
    colors: Annotated[tuple[Color, ...], not_empty],
    color_names: tuple[str, ...],
    background: Color,
    items: Annotated[tuple[str, ...], not_empty],
    regions: tuple[tuple[str, float, float, float, float], ...] = (),
    area: Range = (0.008, 0.008),
    shapes: Shapes = ("bezier",),
    fill: Share = 0.75,
    equal_areas: bool = False,
    shades: Shades = 1,
    spread: Spread = 0,
    overlap: Overlap = 0.0,
    shade_pattern: str = MIXED,
) -> Scene:
    """Color images (RGB) with a list of patches, each in its region and of a given number of pixels.

    - `image_size`: side of the image in pixels, 8 to 1024.
    - `colors`: colors with values in 0..255, all distinct.
    - `color_names`: a name for each color.
    - `background`: color of all else; none of the other colors.
    - `items`: a patch each, such as "red@left": a color, a motif such as "stripes(red, blue)", "each"
      for a patch of every color that no item names, or "nothing"; then "@" and the region in which it
      lies wholly; then ":" and its pixels as a share of the image, or two shares joined by "-", where
      that is not `area`. Alternatives with equal chances stand between "|", as in "red@center|nothing";
      patches that come together are joined by "&", as in "red & white@top|blue".
    - `regions`: further regions: name, then top, left, bottom and right edge as fractions of the side.
    - `area`: fewest and most pixels of a patch as shares of the image, drawn uniformly.
    - `shapes`: names from `SHAPES`; each patch draws one of them uniformly.
    - `fill`: share of a patch's pixels that have its color; the others have that of the background.
    - `equal_areas`: whether one number of pixels is drawn for all patches of an image, instead of one
      for each.
    - `shades`: how many values stand for each color and the background, an odd number up to 27
      (`attributionlab.worlds.images.shades.Shading`).
    - `spread`: how much more or less red and green they have at most; 0 for one shade, for more a
      multiple of the shades on each side.
    - `overlap`: which share of a patch other patches may cover, at least 0 and below 1; a pixel shows
      the upper patch, and the background in its holes.
    - `shade_pattern`: which shade a pixel has: "mixed" (drawn uniformly), "gradient" (in each patch and
      in the background, from the coolest to the warmest along a direction that is drawn), "outline"
      (the warmest at the border of each patch, elsewhere the color itself).

    Raises AttributionLabError with all that is wrong with the constants, or if the patches do not fit.
    """
    own: dict[str, Rectangle] = {region[0]: region[1:] for region in regions}
    problems = equal_colors(colors, (), background) + region_problems(own, image_size)
    if len(color_names) != len(colors) or len(set(color_names)) < len(colors):
        problems.append(
            f"color_names is {color_names} for {len(colors)} colors: give each another name"
        )
    shading = Shading(shades, spread)
    problems += shading.problems(
        dict(zip(color_names, colors, strict=False)) | {"background": background}
    )
    if shade_pattern not in PATTERNS:
        problems.append(f"shade_pattern is {shade_pattern!r}: {nearest(shade_pattern, PATTERNS)}")
    elif shade_pattern != MIXED and shades == 1:
        problems.append(f"shade_pattern is {shade_pattern!r} for one shade: give shades and spread")
    refuse_if(problems, "scenes")
    named = dict(zip(color_names, colors, strict=True))
    reader = _ItemReader(named, (*KNOWN_REGIONS, *own), area)
    chosen = reader.items(items)
    refuse_if(reader.problems, "scenes")
    return Scene(
        image_size=image_size,
        background=background,
        items=chosen,
        shapes=shapes,
        fill=fill,
        equal_areas=equal_areas,
        regions=tuple(own.items()),
        shading=shading,
        overlap=overlap,
        shade_pattern=shade_pattern,
    )


class _ItemReader:
    """Items from text; problems are collected."""

    def __init__(
        self, colors: Mapping[str, Color], regions: Sequence[str], area: tuple[float, float]
    ) -> None:
        self.colors, self.regions, self.area = colors, regions, area
        self.problems: list[str] = []

    def items(self, texts: Sequence[str]) -> tuple[tuple[tuple[Patch, ...], ...], ...]:
        """One item for each text; for "each" one for every color that no item names."""
        mentioned = {word for text in texts for word in re.findall(r"\w+", text)}
        free = [name for name in self.colors if name not in mentioned]
        found: list[tuple[tuple[Patch, ...], ...]] = []
        for text in texts:
            names = free if EACH in re.findall(r"\w+", text) else [""]
            if not names:
                self.problems.append(
                    f"item {text!r}: items name every color, none is left for each"
                )
            for name in names:
                options = re.sub(rf"\b{EACH}\b", name, text).split("|")
                found.append(tuple(self.option(text, each) for each in options))
        return tuple(found)

    def option(self, item: str, text: str) -> tuple[Patch, ...]:
        """Patches that come together."""
        if text.strip() == NOTHING:
            return ()
        patches = [self.patch(item, each.strip()) for each in text.split("&")]
        return tuple(patch for patch in patches if patch is not None)

    def patch(self, item: str, text: str) -> Patch | None:
        """A patch, None where something is wrong with its text."""
        parts = OPTION.fullmatch(text)
        if parts is None:
            self.problems.append(f"item {item!r}: write a color, then @region, then :share")
            return None
        motif = parts["what"] if parts["colors"] is not None else ""
        names = [each.strip() for each in parts["colors"].split(",")] if motif else [parts["what"]]
        if motif and motif not in MOTIFS:
            self.problems.append(f"item {item!r}: no motif {motif!r} ({nearest(motif, MOTIFS)})")
        elif motif and len(names) != motif_colors(motif):
            self.problems.append(f"item {item!r}: {motif} takes {motif_colors(motif)} colors")
        unknown = [name for name in names if name not in self.colors]
        self.problems += [
            f"item {item!r}: no color {name!r} ({nearest(name, [*self.colors, EACH, NOTHING])})"
            for name in unknown
        ]
        region = parts["region"] or ""
        if region and region not in self.regions:
            self.problems.append(
                f"item {item!r}: no region {region!r} ({nearest(region, self.regions)})"
            )
        area = self.area
        if parts["area"]:
            try:
                area = float(parts["area"]), float(parts["most"] or parts["area"])
            except ValueError:
                self.problems.append(f"item {item!r}: the share of the image is not a number")
            wrong = argument_problems({"its share": area}, {"its share": Range})
            self.problems += [f"item {item!r}: {each}" for each in wrong]
        colors = () if unknown else tuple(self.colors[name] for name in names)
        return Patch(colors, motif, region, area, bool(parts["area"]))
