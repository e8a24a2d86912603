r"""Which known failure does a map look like? Predicted maps, how like them the map is, and its texture.

The likeness of a map m and a predicted map p is their correlation over the pixels of an image,

    r(m, p) = sum (m - mean m) (p - mean p) / sqrt(sum (m - mean m)^2 sum (p - mean p)^2),

the cosine after centering (without which noise in [0, 1] would look like everything large), averaged
over images; 0 where m or p is constant. Where a failure can be undone, what it explains is measured:
the F1 after undoing it less the F1 before. Elsewhere it is an estimate, the gain in likeness over the
truth as a share of the largest possible gain:

    explained = (1 - F1) max(0, r - t) / max(MARGIN, 1 - t),  t = max(0, r_truth).

A gain in r is no gain in F1; the estimate only orders failures and drops those that explain next to
nothing. 1 - t is at least `MARGIN`, lest maps all but equal to the truth divide by nothing.

A constant has no correlation. How nearly constant magnitudes are says v = mean |m| / rms m, which is 1
for a constant and 1 / sqrt(1 + c^2) for a standard deviation of c times the mean. The estimate is then

    explained = (1 - F1) max(0, v - u) / (1 - u),  u = sqrt(3) / 2, that of noise uniform on [0, 1].
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, get_args

import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor, nn
from torch.nn import functional

from attributionlab.metrics import Part, alignment, best_map, magnitudes, normalize
from attributionlab.verdicts.controls import (
    baseline_distance,
    filled_patches,
    non_background,
    sobel,
)
from attributionlab.verdicts.diagnosis.shares import ALMOST_NOTHING, robust_scale
from attributionlab.verdicts.diagnosis.texture import (
    STRIDE,
    Texture,
    apart,
    color_codes,
    grown,
    texture_of,
)
from attributionlab.worlds.truth import Truth

LARGEST_SHIFT = 8
"""In pixels, up to which a shifted truth is looked for."""

Maps = Float[Tensor, "batch 1 height width"]


def correlation(maps: Maps, predicted: Maps) -> Float[Tensor, " batch"]:
    """Pearson correlation over the pixels of each image, 0 where either map is constant."""
    return (_standard(maps) * _standard(predicted)).flatten(1).sum(1)


def _standard(maps: Tensor) -> Tensor:
    """With mean 0 and norm 1 in each image; constants become 0."""
    centered = maps - maps.mean((1, 2, 3), keepdim=True)
    norm = centered.square().sum((1, 2, 3), keepdim=True).sqrt()
    tiny = 1e-6 * maps.abs().amax((1, 2, 3), keepdim=True) * math.sqrt(maps[0].numel())
    return torch.where(norm > tiny, centered / norm, 0.0)


def best_shift(maps: Maps, ideal: Maps) -> tuple[int, int]:
    """Rows and columns by which the truth must move to correlate most, summed over images."""
    height, width = maps.shape[2:]
    room = min(LARGEST_SHIFT, height // 3, width // 3)
    size = (height + room, width + room)
    spectra = [torch.fft.rfft2(_standard(each)[:, 0], s=size) for each in (maps, ideal)]
    products = torch.fft.irfft2((spectra[0] * spectra[1].conj()).sum(0), s=size)
    # Negative shifts wrap to the end.
    steps = torch.arange(-room, room + 1)
    window = products[steps[:, None] % size[0], steps % size[1]]
    best = int(window.argmax())
    if not window.flatten()[best] > 0:
        return 0, 0
    return int(steps[best // len(steps)]), int(steps[best % len(steps)])


def translated(maps: Maps, dy: int, dx: int) -> Maps:
    """Moved down and to the right; zero moves in."""
    moved = torch.zeros_like(maps)
    height, width = maps.shape[2:]
    moved[..., max(dy, 0) : height + min(dy, 0), max(dx, 0) : width + min(dx, 0)] = maps[
        ..., max(-dy, 0) : height + min(-dy, 0), max(-dx, 0) : width + min(-dx, 0)
    ]
    return moved


def blurred(maps: Maps, sigma: float) -> Maps:
    """Under a Gaussian, the image mirrored at its edges: two matrix products."""
    rows, columns = (_gaussian(side, sigma) for side in maps.shape[2:])
    return rows @ maps @ columns.T


def _gaussian(side: int, sigma: float) -> Tensor:
    """(side, side): what each place gets from each, mirror images included."""
    at = torch.arange(side, dtype=torch.float32)
    kernel = torch.zeros(side, side)
    for copy in range(-math.ceil(4 * sigma / side) - 1, math.ceil(4 * sigma / side) + 1):
        place = copy * side + (at if copy % 2 == 0 else side - 1 - at)
        kernel += torch.exp(-((at[:, None] - place) ** 2) / (2 * sigma**2))
    return kernel / kernel.sum(1, keepdim=True)


@dataclass(frozen=True)
class ComparedMaps:
    """Maps and what they are held against, of images that have a truth."""

    maps: Tensor
    signed: Tensor
    numbers: Tensor
    """of the images, in the order given"""
    claim: str
    claimed: Tensor | None
    among: str
    """which images these are, of those that were tested"""

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

    def dense(self) -> Iterator[Tensor]:
        """A truth in which each window of the first layer that holds relevant pixels is filled."""
        for start in range(STRIDE):
            positive, negative = (
                _windows_filled((self.signed == sign).float(), start) for sign in (1, -1)
            )
            yield self.view(positive - negative)

    @cached_property
    def own_f1(self) -> float:
        """The claim's mean F1 of the maps."""
        return self.f1(self.maps)

    def undone(self, cause: str, looks: str, better: Tensor) -> "LookAlike":
        """A failure of the truth that can be undone: what the maps are like, and score, afterwards."""
        righted = self.f1(better)
        ideal = self.view(self.signed.float())
        r = float(correlation(self.view(better), ideal).mean())
        return LookAlike(cause, f"the truth {looks}", r, righted, righted - self.own_f1)

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

    def which(self, wrong: Tensor) -> str:
        """In how many images, and in which if not in all."""
        if wrong.all():
            return f"each of the {self.among}"
        numbers = ", ".join(str(int(number)) for number in self.numbers[wrong])
        return f"{int(wrong.sum())} of the {self.among} (samples {numbers})"


def _windows_filled(places: Tensor, start: int) -> Tensor:
    """Windows without overlap, the first of which begins `start` pixels before the image."""
    height, width = places.shape[2:]
    padded = functional.pad(places, (start, STRIDE, start, STRIDE))
    highest = functional.max_pool2d(padded, STRIDE)
    enlarged = highest.repeat_interleave(STRIDE, 2).repeat_interleave(STRIDE, 3)
    return enlarged[..., start : start + height, start : start + width]


def among_those(there: int, given: int, tested: int, without_zeros: bool = False) -> str:
    """Which images those with a truth are, of those given, the first of those tested."""
    if there < given:
        nonzero = " and a map that is not zero" * without_zeros
        return f"{there} images with such a truth{nonzero}" + f" among the first {given}" * (
            tested > given
        )
    return f"{'first ' * (tested > given)}{given} images"


SIGMAS = (1, 2, 4, 6, 8, 12, 16, 24)
"""Standard deviations, in pixels, of the Gaussians that a blurred truth is looked for under."""

MARGIN = 0.1
"""By which a prediction must be more like the maps than the truth is, to be named."""

SHARP = 0.02
"""By which a blurred truth must be more like the maps than one that fills the first layer's windows."""

NARROW, SHARP_IF_NARROW = 2, 0.05
"""The sigma up to which a blur has few graded pixels to show, and `SHARP` up to there."""

UNIFORM_NOISE = math.sqrt(3) / 2
"""mean / rms of values uniform on [0, 1]: (1 / 2) / sqrt(1 / 3)."""

FLOOR = 0.5
"""Magnitudes up to which values may be a floor of noise, as a share of the robust maximum."""

ORIENTATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "with rows and columns swapped": lambda maps: maps.transpose(2, 3),
    "with rows and columns swapped, each in reverse order": lambda maps: maps.transpose(2, 3).flip(
        2, 3
    ),
    "mirrored left to right": lambda maps: maps.flip(3),
    "upside down": lambda maps: maps.flip(2),
    "turned by 180 degrees": lambda maps: maps.flip(2, 3),
    "turned by 90 degrees clockwise": lambda maps: maps.rot90(1, (2, 3)),
    "turned by 90 degrees counterclockwise": lambda maps: maps.rot90(-1, (2, 3)),
}
"""What undoes each of the ways in which a map may be turned."""

SMEARS = ("blur", "coarse", "gradient-without-input")
"""What spreads a map, and is told by estimates."""

SOME_WRONG = 0.15
"""Share of wrong signs on relevant pixels from which, up to that of right ones, signs are mixed."""

NEARLY_ALL = 0.97
"""Share of pixels, or of a map's energy, that may count as all."""

PIECEWISE = 0.6
"""Share of neighbors of different colors with one value from which a map is constant on pieces."""

ROUNDING = 1e-5
"""Below which a difference of maps in [-1, 1] is rounding."""


class LookAlike(NamedTuple):
    """A known failure and how well it accounts for a map."""

    cause: str
    looks: str
    """What the map looks like then, completing "the maps look like"."""
    similarity: float
    """r with the predicted map, mean over images; for "constant" mean |m| / rms m instead"""
    f1: float | None
    """the claim's F1 after undoing the failure, None where it cannot be undone"""
    explains: float
    """the part of the missing F1 that it accounts for: measured where `f1` is, else an estimate"""
    throughout: bool = True
    """whether every image shows it, as far as images are looked at one by one"""


@dataclass(frozen=True)
class Likeness:
    """What maps look like.

    - `truth`: r with the truth, mean over images.
    - `f1`: the claim's mean F1 of these images.
    - `ranked`: all failures looked for, that which explains most first.
    - `texture`: how values on equal pixels vary.
    """

    truth: float
    f1: float
    ranked: tuple[LookAlike, ...]
    texture: Texture
    without_zeros: bool = False
    """whether maps of zeros were left out"""


def look_alikes(
    maps: Maps,
    signed: Int8[Tensor, "batch 1 height width"],
    images: Float[Tensor, "batch channels height width"],
    patches: Int[Tensor, "batch height width"],
    baseline: Float[Tensor, "*batch channels 1 1"],
    claim: str,
    claimed: Maps | None = None,
    tested: int | None = None,
    others: Sequence[Tensor] = (),
) -> Likeness:
    """Compare maps with the truth and with what known failures would show.

    Maps of zeros are left out where others are not. Undone are: another class, an offset, wrong
    signs in whole images, a common shift of up to 8 pixels, another orientation, a sign that the
    truth lacks, a scale set by outliers, a floor of small values, unequal sizes.
    Predicted are: the foreground, filled patches, the distance from the background's color, the
    image's edges, a constant, the truth with the first layer's windows filled, the truth under a
    Gaussian and, of maps that are never negative, its positive part and the truth without signs.

    - `maps`: signed attributions in [-1, 1] (`attributionlab.metrics.normalize`); a few images suffice.
      All tensors are on the CPU.
    - `signed`, `images`, `patches`, `baseline`: the signed truth; what was explained; 0 outside all
      patches; the background's color.
    - `claim`: the claim of the F1: it decides which part of the maps counts.
    - `claimed`: the smoothed truth, for "positive-smoothed".
    - `tested`: number of tested images, of which these are the first; as many as these by default.
    - `others` (B, 1, H, W): the signed truth of each class, the targets among them.

    Result: of the images that have a truth; without any, of nothing.
    """
    present = ((signed != 0) if claim in ("signed", "overall") else (signed > 0)).flatten(1).any(1)
    empty = (maps == 0).flatten(1).all(1) & present
    without_zeros = bool(empty.any()) and not bool(empty[present].all())
    if without_zeros:
        present = present & ~empty
    baseline = baseline.expand(len(present), -1, -1, -1)
    maps, signed, images, patches, baseline = (
        each[present] for each in (maps, signed, images, patches, baseline)
    )
    others = [each[present] for each in others]
    claimed = None if claimed is None else claimed[present]
    texture = texture_of(maps, signed, images, patches)
    if not len(maps):
        return Likeness(math.nan, math.nan, (), texture)
    numbers = present.nonzero()[:, 0]
    among = among_those(len(numbers), len(present), tested or len(present), without_zeros)
    held = ComparedMaps(maps.float(), signed, numbers, claim, claimed, among)
    ideals = [held.view(signed.float())]
    if claimed is not None:
        ideals += [claimed.float(), best_map(claimed)]
    truth = max(float(correlation(held.view(held.maps), ideal).mean()) for ideal in ideals)
    found = [
        *_another_class(held, others),
        *_offset(held, patches),
        *_undone(held),
        *_predicted(held, images, patches, baseline, truth),
    ]
    moved = next((each.explains for each in found if each.cause == "shift"), 0.0)
    if moved >= MARGIN:  # measured: estimates of smears are of a map in the wrong place
        found = [
            each._replace(explains=min(each.explains, moved)) if each.cause in SMEARS else each
            for each in found
        ]
    ranked = sorted(found, key=lambda each: -round(each.explains, 2))
    return Likeness(truth, held.own_f1, tuple(ranked), texture, without_zeros)


def _another_class(held: ComparedMaps, others: Sequence[Tensor]) -> Iterator[LookAlike]:
    """That the maps are right about a class that is not the target, in half of the images or more."""
    if len(others) < 2:
        return
    seen = held.view(held.maps)
    own = correlation(seen, held.view(held.signed.float()))
    against = torch.stack([correlation(seen, held.view(each.float())) for each in others])
    r, best = against.max(0)
    # Where only two classes are there, the other's truth is the target's with its signs flipped.
    elsewhere = (r >= own.clamp(min=0) + MARGIN) & (r > -own + MARGIN / 10)
    count = int(elsewhere.sum())
    # A method that explains the winner is right wherever the winner happens to be asked for.
    if 2 * count < len(seen):
        return
    images = torch.arange(len(seen))
    nearest = torch.where(
        elsewhere[:, None, None, None], torch.stack(list(others))[best, images], held.signed
    )
    righted = replace(held, signed=nearest).f1(held.maps) if held.claimed is None else held.own_f1
    looks = f"the truth of a class other than the target in {held.which(elsewhere)}"
    yield LookAlike(
        "wrong-class", looks, float(r[elsewhere].mean()), righted, righted - held.own_f1
    )


def _offset(held: ComparedMaps, patches: Tensor) -> Iterator[LookAlike]:
    """That the background far from all patches has a value of its own."""
    inside = (patches > 0)[:, None]
    far = ~grown(inside, max(2, inside.shape[-1] // 8))
    levels = [
        each[where if where.any() else ~patch].median() if not patch.all() else each.new_zeros(())
        for each, where, patch in zip(held.maps, far, inside, strict=True)
    ]
    level = torch.stack(levels)
    if level.abs().mean() <= ALMOST_NOTHING:
        return
    lowered = held.maps - level[:, None, None, None]
    # What rounding leaves of 0 must not set the scale of a sign.
    cleared = normalize(torch.where(lowered.abs() > ROUNDING, lowered, 0.0))
    yield held.undone("offset", f"plus an offset of about {float(level.mean()):.2g}", cleared)


def _undone(held: ComparedMaps) -> Iterator[LookAlike]:
    """Failures that can be undone: what the maps are like, and score, afterwards."""
    maps, truth = held.maps, held.signed.float()
    wrong = correlation(maps, truth) < 0
    if held.claim != "overall" and wrong.any():
        looks = f"with all signs wrong in {held.which(wrong)}"
        righted = held.undone(
            "sign-flips", looks, torch.where(wrong[:, None, None, None], -maps, maps)
        )
        yield righted._replace(throughout=bool(wrong.all()))
    dy, dx = best_shift(held.view(maps), held.view(truth))
    if (dy, dx) != (0, 0):
        looks = f"shifted by {_count(dy, 'row')}, {_count(dx, 'column')}"
        yield held.undone("shift", looks, translated(maps, -dy, -dx))
    turned = [
        held.undone("orientation", name, turn(maps))
        for name, turn in ORIENTATIONS.items()
        if turn(maps).shape == maps.shape
    ]
    yield max(turned, key=lambda each: each.similarity)
    lacking = [(held.signed != sign).flatten(1).all(1)[:, None, None, None] for sign in (1, -1)]
    stray = (maps > 0) & lacking[0] | (maps < 0) & lacking[1]
    if stray.any():
        looks = (
            "and values with a sign that no pixel has there (each sign is scaled by its own maximum, "
            "however small)"
        )
        yield held.undone("stray-signs", looks, torch.where(stray, 0.0, maps))
    clipped = robust_scale(maps, held.signed)
    yield held.undone("outliers", "on a scale set by a few outliers", clipped)
    cut = torch.where(clipped.abs() > FLOOR, maps, 0.0)
    yield held.undone("noise-floor", "plus small values on other pixels, which add up", cut)
    level = torch.where(clipped.abs() > ALMOST_NOTHING, clipped.sign(), 0.0)
    sizes = held.undone("sizes", "with the right positions and signs but unequal sizes", level)
    yield sizes._replace(explains=sizes.explains - max(0.0, held.f1(clipped) - held.own_f1))
    yield from _random_signs(held)


def _random_signs(held: ComparedMaps) -> Iterator[LookAlike]:
    """That values lie where the truth does, with signs that are neither its own nor all wrong."""
    maps, truth = held.maps, held.signed.float()
    right, wrong = ((maps * truth * sign).clamp(min=0).sum((1, 2, 3)) for sign in (1, -1))
    share = wrong / (right + wrong).clamp(min=ROUNDING)
    mixed = (share > SOME_WRONG) & (share < 1 - SOME_WRONG)
    both = bool((maps > 0).any()) and bool((maps < 0).any())
    if held.claim != "signed" or not both or 2 * int(mixed.sum()) < len(maps):
        return
    righted = torch.where(truth != 0, maps.abs() * truth, maps)
    r = float(correlation(maps.abs(), truth.abs()).mean())
    lifted = held.f1(righted)
    looks = (
        f"the truth's positions with different signs: {float(share[mixed].mean()):.0%} of the value on "
        "relevant pixels has the wrong sign"
    )
    yield LookAlike("random-signs", looks, r, lifted, lifted - held.own_f1)


def _predicted(
    held: ComparedMaps, images: Tensor, patches: Tensor, baseline: Tensor, truth: float
) -> Iterator[LookAlike]:
    """Failures that predict a map."""
    seen, f1 = held.view(held.maps), held.own_f1
    from_zero = max(truth, 0.0)

    def like(cause: str, looks: str, predicted: Tensor) -> LookAlike:
        r = float(correlation(seen, predicted).mean())
        gain = max(0.0, r - from_zero) / max(MARGIN, 1 - from_zero)
        return LookAlike(cause, looks, r, None, (1 - f1) * gain)

    # Controls that look at the input only.
    given = nn.Identity(), images, torch.zeros(len(images), dtype=torch.int64)
    foreground = non_background(*given, baseline=baseline)
    yield like("foreground", "the foreground, all pixels that are not background", foreground)
    yield like("filled-patches", "filled patches", filled_patches(*given, patches=patches))
    distance = baseline_distance(*given, baseline=baseline)
    looks = "the distance of each pixel from the background's color"
    yield like("baseline-distance", looks, distance)
    yield like("edges", "the edges of the image", sobel(*given))
    never_negative = bool((held.maps >= 0).all())
    if never_negative and held.claim in ("signed", "overall") and (held.signed < 0).any():
        positive = (held.signed > 0).float()
        yield like("positive-only", "the positive part of the truth alone", positive)
        if held.claim == "signed":
            yield like("unsigned", "the truth without its signs", held.signed.abs().float())
    looks = "the truth with the empty pixels inside patches filled"
    dense = max(
        (like("gradient-without-input", looks, each) for each in held.dense()),
        key=lambda each: each.similarity,
    )
    yield dense
    # In squares of the first layer's windows, which is no grid.
    filled = dense.similarity >= NEARLY_ALL
    yield from (
        each for each in _pieces(held, images, like) if each.cause != "coarse" or not filled
    )
    blurs = (
        (sigma, like("blur", f"the truth blurred, sigma about {sigma} pixels", predicted))
        for sigma in SIGMAS
        for predicted in held.blurred(sigma, never_negative)
    )
    sigma, blur = max(blurs, key=lambda pair: pair[1].similarity)
    needed = SHARP_IF_NARROW if sigma <= NARROW else SHARP
    graded = blur.similarity >= dense.similarity + needed
    yield blur if graded else blur._replace(explains=0.0)
    flat = seen.abs().flatten(1)
    level = float((flat.mean(1) / flat.square().mean(1).sqrt().clamp(min=1e-30)).mean())
    evenness = max(0.0, level - UNIFORM_NOISE) / (1 - UNIFORM_NOISE)
    yield LookAlike("constant", "a constant", level, None, (1 - f1) * evenness)


def _pieces(
    held: ComparedMaps, images: Tensor, like: Callable[[str, str, Tensor], LookAlike]
) -> Iterator[LookAlike]:
    """Maps that have one value for each color, one for each of some pieces, or whole parts only."""
    f1 = held.own_f1
    maps, signed, colors = held.maps, held.signed, color_codes(images)
    labels = [torch.unique(each, return_inverse=True)[1] for each in colors]
    means = torch.stack([_means(each, of) for each, of in zip(maps, labels, strict=True)])
    even = 1 - float((maps - means).square().sum() / maps.square().sum().clamp(min=ROUNDING))
    best = torch.stack([_means(s.float(), of) for s, of in zip(signed, labels, strict=True)])
    if even > NEARLY_ALL and float((signed - best).abs().amax()) > 1 - NEARLY_ALL and maps.any():
        looks = "one value for each color, wherever its pixels are"
        yield LookAlike("color-values", looks, even, None, 1 - f1)
    pairs = equal = 0
    for (color, beside), (value, other) in apart(1, colors, maps):
        border = (color != beside) & ((value != 0) | (other != 0))
        pairs += int(border.sum())
        equal += int((border & (value == other)).sum())
    if pairs and equal >= PIECEWISE * pairs and even < NEARLY_ALL:
        ceiling = _best_on_values(held)
        looks = (
            "one value per piece, across color boundaries, which allows an F1 of "
            f"about {ceiling:.2f} here at most; the maps reach {f1:.2f}"
        )
        yield LookAlike("coarse", looks, equal / pairs, None, min(1 - f1, 1 - ceiling))
    scaled = robust_scale(maps, signed)  # beside an outlier all else is next to nothing
    found = (scaled.abs() > ALMOST_NOTHING) & (scaled * signed > 0)
    whole = _whole_parts(found, signed, colors)
    missing = ((signed != 0) & ~found).any() and any(
        (found & (signed == sign)).any() and (~found & (signed == sign)).any() for sign in (1, -1)
    )
    against = ((scaled.abs() > ALMOST_NOTHING) & (scaled * signed < 0)).sum()
    missing = missing and float(against) <= (1 - NEARLY_ALL) * float((signed != 0).sum())
    if whole >= NEARLY_ALL and missing and found.any() and held.claim in ("signed", "overall"):
        share = float(found.sum() / (signed != 0).sum())
        looks = f"whole parts of the truth without the others, {share:.0%} of its pixels"
        yield like("one-part", looks, held.view((found * signed).float()))


def _means(values: Tensor, labels: Tensor) -> Tensor:
    """The mean over each label, in place of each value."""
    flat, place = values.flatten(), labels.flatten()
    sums = torch.zeros(int(place.max()) + 1).index_add(0, place, flat.float())
    return (sums / torch.bincount(place))[place].reshape(values.shape)


def _best_on_values(held: ComparedMaps) -> float:
    """The claim's F1 of the truth averaged where the map has one value, and cut where that is best."""
    best = 0.0
    pieces = [torch.unique(each, return_inverse=True)[1] for each in held.maps]
    signed = held.signed.float()
    means = torch.stack([_means(s, of) for s, of in zip(signed, pieces, strict=True)])
    for least in (0.1, 0.2, 0.3, 0.4, 0.5):
        best = max(best, held.f1(torch.where(means.abs() > least, means.sign(), 0.0)))
    return best


def _whole_parts(found: Tensor, signed: Tensor, colors: Tensor) -> float:
    """How many neighbors of one color that are relevant are both found, or both missed."""
    same = alike = 0
    for own, sign, color in apart(1, found, signed, colors):
        relevant = (sign[0] != 0) & (sign[1] != 0) & (color[0] == color[1])
        same += int(relevant.sum())
        alike += int((relevant & (own[0] == own[1])).sum())
    return alike / same if same else 0.0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (abs(number) != 1)}"
