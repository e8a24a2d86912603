r"""Which known failure does a map look like? Predicted maps, and how like them the map is.

The likeness of a map m and a predicted map p is their correlation over the pixels of an image,

    r(m, p) = sum (m - mean m) (p - mean p) / sqrt(sum (m - mean m)^2 sum (p - mean p)^2),

the cosine after centering (without which noise in [0, 1] would look like everything large), averaged
over images; 0 where m or p is constant. Where a failure can be undone, the F1 after undoing says how
much it explains; elsewhere the gain in likeness over the truth itself does:

    explained = (1 - F1) (r - r_truth) / (1 - r_truth),  with r_truth at least 0.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, get_args

import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor

from attributionlab.assess.moves import best_shift, blurred, correlation, edges, translated
from attributionlab.assess.shares import ALMOST_NOTHING, robust_scale
from attributionlab.assess.texture import Texture, texture_of
from attributionlab.metrics import Part, alignment, best_map, magnitudes, normalize
from attributionlab.truth import Truth

__all__ = ["MARGIN", "Likeness", "LookAlike", "look_alikes"]

SIGMAS = (1, 2, 4, 6, 8, 12, 16, 24)
"""Standard deviations, in pixels, of the Gaussians that a blurred truth is looked for under."""

MARGIN = 0.1
"""By which a prediction must be more like the maps than the truth is, to be worth naming."""

FLOOR = 0.5
"""Magnitudes up to which values may be a floor of noise, as a share of the robust maximum."""

ORIENTATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "with rows and columns swapped": lambda maps: maps.transpose(2, 3),
    "mirrored left to right": lambda maps: maps.flip(3),
    "upside down": lambda maps: maps.flip(2),
    "turned by 180 degrees": lambda maps: maps.flip(2, 3),
}
"""What undoes each of the ways in which a map may be turned: itself."""

Maps = Float[Tensor, "batch 1 height width"]


class LookAlike(NamedTuple):
    """A known failure and how well it accounts for a map."""

    cause: str
    looks: str
    """What the map looks like then, completing "the maps look like"."""
    similarity: float
    """r with the predicted map, mean over images"""
    f1: float | None
    """The claim's F1 after undoing the failure, None where it cannot be undone"""
    explains: float
    """The part of the missing F1 that it accounts for"""


@dataclass(frozen=True)
class Likeness:
    """What maps look like.

    Parameters
    ----------
    truth : float
        r with the truth, mean over images.
    f1 : float
        The claim's mean F1 of these images.
    ranked : tuple of LookAlike
        All failures looked for, that which explains most first.
    texture : Texture
        How values on equal pixels vary.
    """

    truth: float
    f1: float
    ranked: tuple[LookAlike, ...]
    texture: Texture


@dataclass(frozen=True)
class _Scene:
    """Maps and what they are held against, of images that have a truth."""

    maps: Tensor
    signed: Tensor
    numbers: Tensor
    """of the images, in the order given"""
    claim: str
    claimed: Tensor | None

    def view(self, maps: Tensor) -> Tensor:
        """What of a map the claim is about."""
        if self.claim == "signed":
            return maps
        return magnitudes(maps, "overall" if self.claim == "overall" else "positive")

    def blurred(self, sigma: float, never_negative: bool) -> Iterator[Tensor]:
        """What a blurred truth may look like: signs blurred together, or only the positive ones."""
        positive, negative = (blurred((self.signed == sign).float(), sigma) for sign in (1, -1))
        yield self.view(normalize(positive - negative))
        if never_negative or self.claim != "signed":
            yield positive
        if self.claim == "overall":
            yield positive + negative

    def f1(self, maps: Tensor) -> float:
        """The claim's mean F1."""
        if self.claimed is not None:
            return float(alignment(magnitudes(maps, "positive"), self.claimed).f1.nanmean())
        truth = Truth(self.signed)
        means = [
            alignment(magnitudes(maps, part), getattr(truth, part)).f1.nanmean()
            for part in get_args(Part)
            if self.claim in ("signed", part)
        ]
        return min(float(mean) for mean in means if not mean.isnan())


def look_alikes(
    maps: Maps,
    signed: Int8[Tensor, "batch 1 height width"],
    images: Float[Tensor, "batch channels height width"],
    patches: Int[Tensor, "batch height width"],
    baseline: Float[Tensor, "channels 1 1"],
    claim: str,
    claimed: Maps | None = None,
) -> Likeness:
    """Compare maps with the truth and with what known failures would show.

    Undone are: wrong signs in whole images, a common shift of up to 8 pixels, another orientation, a
    sign that the truth lacks, a scale set by outliers, a floor of small values, unequal sizes.
    Predicted are: the foreground, filled patches, the distance from the background's color, the
    image's edges, a constant, the truth under a Gaussian and, of maps that are never negative, its
    positive part and the truth without signs.

    Parameters
    ----------
    maps : Tensor, (B, 1, H, W)
        Signed attributions in [-1, 1] (`attributionlab.metrics.normalize`); a few images suffice. All
        tensors are on the CPU.
    signed : Tensor of int8, (B, 1, H, W)
        The signed truth.
    images : Tensor, (B, C, H, W)
        What was explained.
    patches : Tensor, (B, H, W)
        0 outside all patches, k inside patch k.
    baseline : Tensor, (C, 1, 1)
        The background's color.
    claim : {"signed", "overall", "positive", "positive-smoothed"}
        What the F1 is about: it decides which part of the maps is looked at.
    claimed : Tensor, (B, 1, H, W), optional
        The smoothed truth, for "positive-smoothed".

    Returns
    -------
    Likeness
        Of the images that have a truth; without any, of nothing.

    Examples
    --------
    >>> import attributionlab as al
    >>> import torch
    >>> from attributionlab.assess.likeness import look_alikes
    >>> env = al.load("multi-color-sum", image_size=24)
    >>> images, labels = env.batch(2)
    >>> signed = env.truth(images, labels).signed
    >>> patches = torch.stack([sample.patches for sample in env.dataset(2)])
    >>> moved = torch.roll(signed.float(), -2, 2)
    >>> likeness = look_alikes(moved, signed, images, patches, env.baseline, "signed")
    >>> likeness.ranked[0].looks
    'the truth shifted by -2 rows, 0 columns'
    """
    present = ((signed != 0) if claim in ("signed", "overall") else (signed > 0)).flatten(1).any(1)
    maps, signed, images, patches = (each[present] for each in (maps, signed, images, patches))
    claimed = None if claimed is None else claimed[present]
    texture = texture_of(maps, signed, images, patches)
    if not len(maps):
        return Likeness(math.nan, math.nan, (), texture)
    scene = _Scene(maps.float(), signed, present.nonzero()[:, 0], claim, claimed)
    ideals = [scene.view(signed.float())]
    if claimed is not None:
        ideals += [claimed.float(), best_map(claimed)]
    truth = max(float(correlation(scene.view(scene.maps), ideal).mean()) for ideal in ideals)
    f1 = scene.f1(maps)
    found = [
        *_undone(scene, f1),
        *_predicted(scene, images, patches, baseline, truth, f1),
    ]
    ranked = sorted(found, key=lambda each: -round(each.explains, 2))
    return Likeness(truth, f1, tuple(ranked), texture)


def _undone(scene: _Scene, f1: float) -> Iterator[LookAlike]:
    """Failures that can be undone: what the maps are like, and score, afterwards."""
    maps, truth = scene.maps, scene.signed.float()
    ideal = scene.view(truth)

    def mended(cause: str, looks: str, better: Tensor) -> LookAlike:
        righted = scene.f1(better)
        r = float(correlation(scene.view(better), ideal).mean())
        return LookAlike(cause, f"the truth {looks}", r, righted, righted - f1)

    wrong = correlation(maps, truth) < 0
    if scene.claim != "overall" and wrong.any():
        which = ", ".join(str(int(number)) for number in scene.numbers[wrong])
        looks = f"with every sign wrong in {int(wrong.sum())} of {len(maps)} images ({which})"
        yield mended("sign-flips", looks, torch.where(wrong[:, None, None, None], -maps, maps))
    dy, dx = best_shift(scene.view(maps), ideal)
    if (dy, dx) != (0, 0):
        looks = f"shifted by {_count(dy, 'row')}, {_count(dx, 'column')}"
        yield mended("shift", looks, translated(maps, -dy, -dx))
    turned = [
        mended("orientation", name, turn(maps))
        for name, turn in ORIENTATIONS.items()
        if turn(maps).shape == maps.shape
    ]
    yield max(turned, key=lambda each: each.similarity)
    lacking = [(scene.signed != sign).flatten(1).all(1)[:, None, None, None] for sign in (1, -1)]
    stray = (maps > 0) & lacking[0] | (maps < 0) & lacking[1]
    if stray.any():
        looks = (
            "and values of a sign that no pixel has there (each sign is scaled by its own maximum, "
            "however small)"
        )
        yield mended("stray-signs", looks, torch.where(stray, 0.0, maps))
    clipped = robust_scale(maps, scene.signed)
    yield mended("outliers", "on a scale set by a few outliers", clipped)
    cut = torch.where(clipped.abs() > FLOOR, maps, 0.0)
    yield mended("noise-floor", "on top of small values on other pixels, which add up", cut)
    level = torch.where(clipped.abs() > ALMOST_NOTHING, clipped.sign(), 0.0)
    yield mended("sizes", "in the right places and signs with unequal sizes", level)


def _predicted(
    scene: _Scene, images: Tensor, patches: Tensor, baseline: Tensor, truth: float, f1: float
) -> Iterator[LookAlike]:
    """Failures that predict a map."""
    seen = scene.view(scene.maps)
    from_zero = max(truth, 0.0)

    def like(cause: str, looks: str, predicted: Tensor) -> LookAlike:
        r = float(correlation(seen, predicted).mean())
        gain = max(0.0, r - from_zero) / max(MARGIN, 1 - from_zero)
        return LookAlike(cause, looks, r, None, (1 - f1) * gain)

    foreground = (images != baseline).any(1, keepdim=True).float()
    yield like("foreground", "the foreground, all pixels that are not background", foreground)
    yield like("filled-patches", "filled patches", (patches > 0).float()[:, None])
    distance = (images - baseline).abs().sum(1, keepdim=True)
    yield like(
        "baseline-distance", "the distance of each pixel from the background's color", distance
    )
    yield like("edges", "the edges of the image", edges(images))
    never_negative = bool((scene.maps >= 0).all())
    if never_negative and scene.claim in ("signed", "overall") and (scene.signed < 0).any():
        positive = (scene.signed > 0).float()
        yield like("positive-only", "the positive part of the truth alone", positive)
        if scene.claim == "signed":
            yield like("unsigned", "the truth without its signs", scene.signed.abs().float())
    blurs = (
        like("blur", f"the truth blurred, sigma about {sigma} pixels", predicted)
        for sigma in SIGMAS
        for predicted in scene.blurred(sigma, never_negative)
    )
    yield max(blurs, key=lambda each: each.similarity)
    flat = seen.abs().flatten(1)
    level = (flat.mean(1) / flat.square().mean(1).sqrt().clamp(min=1e-30)).mean()
    yield LookAlike(
        "constant", "a constant", float(level), None, (1 - f1) * max(0.0, float(level) * 10 - 9)
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (abs(number) != 1)}"
