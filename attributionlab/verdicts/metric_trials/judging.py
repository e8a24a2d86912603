"""Checks of metrics that judge methods, or compare the maps of two: what they make of known ones."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, Numbers
from attributionlab.verdicts.metric_trials.asking import (
    IMAGES,
    ROUNDING,
    Check,
    Examined,
    Excused,
    Found,
    LeftChanged,
    MapsOf,
    check,
    counted,
    declared,
    equal,
    follow,
    stay,
)
from attributionlab.verdicts.metric_trials.preferences import with_nan, with_noise

JUDGING: dict[str, Check] = {}
COMPARING: dict[str, Check] = {}
DECLARE = 'declare varies="weights", "target" or "image"'


@check(JUDGING, "what it declares varies in every layer or for every image, and little else")
def varied(subject: Examined) -> Found:
    """Weights, targets and images that the method is asked about; only images may vary undeclared."""
    lab = counted(subject.seed, "count")
    model, images = lab.model, lab.images
    moved: set[tuple[str, int]] = set()

    def watch(seen: nn.Module, shown: Tensor, targets: Tensor) -> Tensor:
        pairs = zip(seen.parameters(), model.parameters(), strict=True)
        moved.update(("weights", at) for at, (new, old) in enumerate(pairs) if (new != old).any())
        whose = _nearest(shown, images)
        moved.update(("target", int(at)) for at in whose[targets != 0])
        other = (shown != images[whose]).flatten(1).any(1)
        moved.update(("image", int(at)) for at in whose[other])
        return follow(seen, shown, targets)

    subject.call(lab, watch)
    counts = {"weights": len(list(model.parameters())), "target": IMAGES, "image": IMAGES}
    found = {what: sum(each == what for each, _ in moved) for what in counts}
    said = ", ".join(f"{what} {found[what]} of {counts[what]}" for what in counts if found[what])
    said = f"varied: {said or 'nothing'}"
    if subject.varies is None:
        raise Excused("not applicable", f"{said}; {DECLARE}")
    least = {"image", subject.varies}
    complete = found[subject.varies] == counts[subject.varies]
    return complete and not any(found[what] for what in counts.keys() - least), said


@check(JUDGING, "the score that the metric declares for it")
def unchanged(subject: Examined) -> Found:
    """A method that always returns the same map."""
    scores = subject.on_all(lambda lab: stay)
    right, _ = equal(scores, np.full(len(scores), subject.score_of_equal()))
    return (
        right,
        f"{scores[0] * subject.sign + 0.0:.4g} ... for {subject.score_of_equal() * subject.sign:g}",
    )


@check(JUDGING, "better than for an unchanged map; worse where images vary")
def changed(subject: Examined) -> Found:
    """Gradient times image, which follows network, target and image."""
    scores = subject.on_all(lambda lab: follow)
    rise = (scores - subject.score_of_equal()) * (-1 if subject.varies == "image" else 1)
    shown = ", ".join(f"{each:.4g}" for each in scores[:3] * subject.sign)
    return bool((rise > ROUNDING).all()), f"{shown} ..."


@check(JUDGING, "a different score for this image, and that of an unchanged map for the others")
def each_image(subject: Examined) -> Found:
    """Maps that follow what varies for one image and stay for the others, each image in turn."""
    lab, wrong = subject.labs[-1], []

    def only(place: int, seen: nn.Module, shown: Tensor, targets: Tensor) -> Tensor:
        chosen = _nearest(shown, lab.images.to(shown)) == place
        follows, stays = (each(seen, shown, targets) for each in (follow, stay))
        return torch.where(chosen[:, None, None, None], follows, stays)

    for place in range(IMAGES):
        scores = subject.scores(lab, partial(only, place))
        moved = np.abs(scores - subject.score_of_equal()) > ROUNDING
        wrong += [place] * (moved.tolist() != [each == place for each in range(IMAGES)])
    return not wrong, f"wrong for image {', '.join(map(str, wrong))}" if wrong else "as expected"


@check(JUDGING, "finite scores or NaN")
def zero_maps(subject: Examined) -> Found:
    """A method that returns zeros."""
    return _finite(subject, torch.zeros_like)


@check(JUDGING, "finite scores or NaN")
def constant_maps(subject: Examined) -> Found:
    """A method that returns maps of one value."""
    return _finite(subject, torch.ones_like)


@check(JUDGING, "a refusal, or NaN; the network as before")
def nan_maps(subject: Examined) -> Found:
    """A method whose last maps are NaN."""
    return _refused(subject, lambda maps: maps * torch.nan)


@check(JUDGING, "a refusal, or NaN; the network as before")
def shape_of_maps(subject: Examined) -> Found:
    """A method whose last maps lack a column."""
    return _refused(subject, lambda maps: maps[..., 1:])


@check(JUDGING, "its error or a refusal; the network as before")
def error_of_method(subject: Examined) -> Found:
    """A method that raises an error in its last call."""

    def fail(maps: Tensor) -> Tensor:
        raise RuntimeError("the method raises")

    return _refused(subject, fail)


@check(COMPARING, "the score that the metric declares for them")
def equal_maps(subject: Examined) -> Found:
    """Two equal maps: exact ones, random ones, and images."""
    pairs: tuple[MapsOf, ...] = (
        lambda lab: torch.cat([subject.exact(lab)] * 2, 1),
        lambda lab: torch.cat([subject.noise(lab, 0)] * 2, 1),
        lambda lab: torch.cat([lab.images] * 2, 1),
    )
    scores = np.concatenate([subject.on_all(each) for each in pairs])
    expected = subject.score_of_equal()
    right, _ = equal(scores, np.full(len(scores), expected))
    own = scores * subject.sign + 0.0  # no negative zeros
    shown = f"{own.min():.4g} to {own.max():.4g}"
    return right, f"{shown} for {expected * subject.sign:g}"


@check(COMPARING, "below equal maps")
def unrelated(subject: Examined) -> Found:
    """A random map beside the exact one."""
    return subject.below_exact(lambda lab: subject.noise(lab, 0))


@check(COMPARING, "below equal maps", 'invariances=("sign",)')
def opposite(subject: Examined) -> Found:
    """The negative of the exact map beside it."""
    declared("sign" in subject.invariances, "that it cannot see signs")
    return subject.below_exact(lambda lab: -subject.exact(lab))


@check(COMPARING, "no score above that of equal maps")
def closest(subject: Examined) -> Found:
    """Beside the exact map: the same with noise, noise alone, and four times the same."""
    return subject.none_above_exact([*with_noise(subject), lambda lab: 4 * subject.exact(lab)])


@check(COMPARING, "equal scores if the metric declares exchange as an invariance")
def exchange(subject: Examined) -> Found:
    """The two maps exchanged."""
    lab, maps = subject.half_right()
    before, after = subject.scores(lab, maps), subject.scores(lab, maps.flip(1))
    return subject.invariance("exchange", before, after)


@check(COMPARING, "a refusal, or NaN for this image and nothing else changed")
def nan_other(subject: Examined) -> Found:
    """A NaN in the second of two equal maps."""
    lab = subject.labs[-1]
    return with_nan(subject, lab, torch.cat([subject.exact(lab)] * 2, 1), 1)


def _nearest(shown: Tensor, images: Tensor) -> Tensor:
    """Of which image each one shown is a noisy copy."""
    return torch.cdist(shown.flatten(1), images.flatten(1)).argmin(1)


def _finite(subject: Examined, maps: Callable[[Tensor], Tensor]) -> Found:
    scores: Numbers = subject.on_all(lambda lab: lambda seen, shown, targets: maps(shown))
    return True, f"{scores[0] * subject.sign + 0.0:.4g} ..."  # infinite ones are refused


def _refused(subject: Examined, spoil: Callable[[Tensor], Tensor]) -> Found:
    """What the metric makes of a method that fails when it is asked the last time."""
    lab, calls = subject.labs[-1], 0

    def late(last: int, *asked: Any) -> Tensor:
        nonlocal calls
        calls += 1
        return spoil(follow(*asked)) if calls == last else follow(*asked)

    subject.scores(lab, partial(late, 0))
    last, calls = calls, 0
    try:
        scores = subject.scores(lab, partial(late, last))
    except LeftChanged as error:
        return False, str(error)
    except AttributionLabError as error:
        return True, f"refused: {error}"
    shown = ", ".join(f"{each:.4g}" for each in scores * subject.sign)
    return bool(np.isnan(scores).any()), shown
