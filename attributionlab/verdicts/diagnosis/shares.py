r"""Where the missing F1 goes: an exact split of 1 - F1 over the pixels' fates.

With magnitudes a_j in [0, 1] of the part that decides and a truth g_j in [0, 1],

    1 - F1 = sum_j [a_j (1 - g_j) + g_j (1 - a_j)] / (sum_j a_j + sum_j g_j),

which follows from F1 = 2 sum a g / (sum a + sum g). Each pixel's loss is false attribution, a (1 - g),
or missed truth, g (1 - a), and goes to the share that says how it came about.

Colors that a network has never seen are no share: an image that holds one has no mask
(`Environment.truth` refuses it). They lie on the paths that methods take through pixel space, which
is a cause and no place: see `attributionlab.verdicts.diagnosis.hints`.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor

from attributionlab.metrics import Part, best_map, magnitudes

ScoredPart = Part | Literal["positive-smoothed"]
"""A part of the truth that a score is about."""

PIXEL_KINDS = ("background", "irrelevant inside patches", "distractors", "counted")
"""What a pixel is, whatever its truth; `pixel_kinds` returns places in this tuple."""

BACKGROUND, INSIDE, DISTRACTOR, COUNTED = range(4)

SHARES = (
    "background",
    "irrelevant inside patches",
    "distractors",
    "other classes",
    "wrong sign",
    "whole-image sign flips",
    "relevant missed",
    "uneven values",
    "outliers",
    "smoothing",
)
"""Names of the shares; `missing_shares` says what each holds."""

ALMOST_NOTHING = 0.05
"""A magnitude up to which a relevant pixel counts as missed, as a share of the robust maximum."""

OUTLIER_SHARE = 0.01
"""How many of the largest values may be outliers, as a share of the relevant pixels; at least one."""

OUTLIER_FACTOR = 2.0
"""How many times the robust maximum the largest value must be to count as an outlier."""

FLIPPED = 0.9
"""The share of the relevant attribution that has the wrong sign in a flipped image."""

Maps = Float[Tensor, "batch 1 height width"]
Signs = Int8[Tensor, "batch 1 height width"]


def pixel_kinds(
    images: Float[Tensor, "batch channels height width"],
    patches: Int[Tensor, "batch height width"],
    classes: Int[Tensor, "batch 1 height width"],
    baseline: Float[Tensor, "*batch channels 1 1"],
) -> Int8[Tensor, "batch 1 height width"]:
    """What each pixel is: background, a gap inside a patch, a distractor, or counted.

    Places in `PIXEL_KINDS`. `patches` are 0 outside all patches, `classes` -1 where a pixel counts for
    no class, `baseline` the background's color. A pixel that neither counts nor has the background's
    color is a distractor.
    """
    background = (images == baseline).all(1, keepdim=True)
    kinds = torch.full_like(classes, DISTRACTOR, dtype=torch.int8)
    kinds[background] = BACKGROUND
    kinds[background & (patches > 0)[:, None]] = INSIDE
    kinds[classes >= 0] = COUNTED
    return kinds


def missing_shares(
    maps: Maps,
    signed: Signs,
    kinds: Int8[Tensor, "batch 1 height width"],
    part: ScoredPart,
    claimed: Maps | None = None,
) -> dict[str, Float[Tensor, " batch"]]:
    """Split 1 - F1 of each image over the names of `SHARES`.

    False attribution, a (1 - g), by the pixel that it lies on:

    - "background", "irrelevant inside patches" (gaps of the background's color), "distractors" (colors
      that the network drops), "other classes" (pixels that count for a class other than the logit's);
    - "wrong sign": pixels whose truth has the opposite sign.

    Missed truth, g (1 - a), by what the map has on the pixel:

    - "wrong sign": more than almost nothing (`ALMOST_NOTHING`) of the opposite sign;
    - "outliers": what would be gained if a robust maximum (`robust_scale`) set the scale;
    - of what is then left, "relevant missed" where the map still has almost nothing, and "uneven
      values" where it has the right sign and less than others.

    "whole-image sign flips" takes all of "wrong sign" in images where at least 90 % of the relevant
    attribution have the wrong sign.

    A smoothed truth cannot be met by any map. "smoothing" takes, pixel by pixel, what the best map
    (`attributionlab.metrics.best_map`) loses too, and what a sharp map loses by being sharp: a on
    relevant pixels that the best map leaves out, and missed gaps between relevant pixels, as far as
    the relevant pixels themselves are found (mean a of them; the rest is "relevant missed").

    - `maps`: signed attributions in [-1, 1] (`attributionlab.metrics.normalize`).
    - `part`: the part whose F1 is split. Signs do not count for "overall".

    Result: non-negative; their sum is 1 - F1. A map of zeros: all is "relevant missed". NaN for an
    image without this part of the truth.
    """
    own = {"overall": 0, "negative": -1}.get(part, 1)
    a = magnitudes(maps, "positive" if part == "positive-smoothed" else part).double()
    g = signed.abs().double() if own == 0 else (signed == own).double()
    if claimed is not None:
        g = claimed.double()
    best = g if claimed is None else best_map(claimed).double()

    loss = a * (1 - g) + g * (1 - a)
    smoothing = torch.minimum(loss, best * (1 - g) + g * (1 - best))
    loss = loss - smoothing
    false, missed = loss * (best == 0), loss * (best > 0)

    held: dict[str, Tensor] = dict.fromkeys(SHARES, torch.zeros_like(loss))
    held |= _by_place(false, signed, kinds, own)
    smoothing = smoothing + false * (signed == own) * (own != 0)
    by_value, gaps = _by_value(missed, a, maps, signed, own)
    found = _mean_over(a, signed == own) if own else torch.ones_like(a)
    by_value["relevant missed"] = by_value["relevant missed"] + gaps * (1 - found)
    held["smoothing"] = smoothing + gaps * found
    wrong = held["wrong sign"] + by_value.pop("wrong sign")
    flipped = _flipped(maps, signed)
    held |= by_value | {"wrong sign": wrong * ~flipped, "whole-image sign flips": wrong * flipped}

    total = (a + g).sum((1, 2, 3))
    present = g.sum((1, 2, 3)) > 0
    shares = {
        name: torch.where(present, held[name].sum((1, 2, 3)) / total, torch.nan) for name in SHARES
    }
    empty = (maps == 0).flatten(1).all(1) & present
    for name in SHARES:
        shares[name] = torch.where(empty, float(name == "relevant missed"), shares[name])
    return shares


def _by_place(false: Tensor, signed: Tensor, kinds: Tensor, own: int) -> dict[str, Tensor]:
    """False attribution by the pixel that it lies on; own is the sign of the part, 0 for both."""
    opposite = (signed == -own) & (signed != 0)
    irrelevant = false * (signed == 0)
    return {
        "background": irrelevant * (kinds == BACKGROUND),
        "irrelevant inside patches": irrelevant * (kinds == INSIDE),
        "distractors": irrelevant * (kinds == DISTRACTOR),
        "other classes": irrelevant * (kinds == COUNTED),
        "wrong sign": false * opposite,
    }


def _by_value(
    missed: Tensor, a: Tensor, maps: Tensor, signed: Tensor, own: int
) -> tuple[dict[str, Tensor], Tensor]:
    """Missed truth by what the map has there, and that of gaps (smoothed truths only)."""
    robust = robust_scale(maps, signed).double()
    would_be = magnitudes(robust, "overall" if own == 0 else "positive" if own > 0 else "negative")
    # (1 - a) is what a right-signed pixel misses, so this is 0 where nothing is.
    saved = torch.where(a < 1, missed * (would_be - a) / (1 - a), 0.0)
    left = missed - saved
    opposite = (robust * own < -ALMOST_NOTHING) & (signed == own)
    nothing = (would_be <= ALMOST_NOTHING) & ~opposite
    gap = (signed != own) & nothing if own else torch.zeros_like(nothing)
    return {
        "wrong sign": left * opposite,
        "outliers": saved,
        "relevant missed": left * (nothing & ~gap),
        "uneven values": left * ~(nothing | opposite),
    }, left * gap


def robust_scale(maps: Maps, signed: Signs) -> Maps:
    """Maps in [-1, 1] whose scale is set by a robust maximum instead of a few outliers.

    Outliers are, on each side of zero, the largest 1 % of as many values as there are relevant pixels
    of that sign, and at least one value: one at 24 x 24, six or seven for a patch of 600 pixels. The
    robust maximum is the largest value beyond them. Only where the maximum exceeds it more than twice
    the side is divided by it, and clipped to 1.
    """
    sides = []
    for sign in (1, -1):
        side = (maps * sign).clamp(min=0)
        relevant = (signed == sign).sum((1, 2, 3))
        outliers = (relevant * OUTLIER_SHARE).ceil().long().clamp(min=1)
        most = min(int(outliers.max()) + 1, side[0].numel())
        largest = side.flatten(1).topk(most, dim=1).values
        robust = largest.gather(1, outliers.clamp(max=most - 1)[:, None])[:, :, None, None]
        eaten = (robust > 0) & (largest[:, :1, None, None] > OUTLIER_FACTOR * robust)
        sides.append(torch.where(eaten, (side / robust).clamp(max=1), side))
    return sides[0] - sides[1]


def _flipped(maps: Tensor, signed: Tensor) -> Tensor:
    """Images whose relevant attribution has the wrong sign, (B, 1, 1, 1)."""
    product = maps.double() * signed
    wrong, relevant = product.clamp(max=0).sum((1, 2, 3)).neg(), product.abs().sum((1, 2, 3))
    return ((wrong >= FLIPPED * relevant) & (relevant > 0))[:, None, None, None]


def _mean_over(values: Tensor, where: Tensor) -> Tensor:
    """Mean of each image, (B, 1, 1, 1); 0 where there is nothing."""
    count = where.sum((1, 2, 3), keepdim=True)
    return (values * where).sum((1, 2, 3), keepdim=True) / count.clamp(min=1)
