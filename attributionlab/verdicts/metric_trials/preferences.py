"""Checks of what a program must do whatever it measures, which changes of a map it sees, and which of
two maps it prefers.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, Numbers
from attributionlab.metrics.ranking import spearman
from attributionlab.verdicts.metric_trials.asking import (
    IMAGES,
    NOTHING,
    PIXELS,
    ROUNDING,
    SIDE,
    UNIT,
    Check,
    Examined,
    Excused,
    Found,
    Laboratory,
    Linear,
    MapsOf,
    check,
    counted,
    declared,
    equal,
    follow,
    stay,
)
from attributionlab.verdicts.metric_trials.registry import Handed, checked_scores

CONDUCT: dict[str, Check] = {}
ALONE: tuple[Handed, ...] = ("attributions",)
PAIRS: tuple[Handed, ...] = ("attributions", "others")
"""Which metrics are asked about single maps, and which about maps at all."""
WARM_UP = 2
"""Calls in which a metric may fill what it keeps for all later ones."""
GROWING = 3
"""Calls after them, of which none needs to keep anything."""


@check(CONDUCT, f"a finite number for each of {IMAGES} maps", blocks=True)
def one_number(subject: Examined) -> Found:
    """Scores of exact maps."""
    scores = subject.on_all(lambda lab: subject.exact(lab) if subject.scores_maps else follow)
    shown = ", ".join(f"{each:.4g}" for each in scores[:3] * subject.sign)
    if np.isnan(scores).any():  # not applicable here; elsewhere it may be
        raise Excused("note", f"{shown} ...")
    return True, f"{shown} ..."


@check(CONDUCT, "equal scores", blocks=True)
def repeatable(subject: Examined) -> Found:
    """The same call twice under one global seed."""
    lab, maps = subject.half_right()
    return equal(subject.scores(lab, maps), subject.scores(lab, maps))


@check(CONDUCT, "equal scores")
def global_seed(subject: Examined) -> Found:
    """The same call under other seeds of random, numpy.random and torch."""
    lab, maps = subject.half_right()
    return equal(subject.scores(lab, maps), subject.scores(lab, maps, 77))


@check(CONDUCT, "as before")
def random_states_kept(subject: Examined) -> Found:
    """Global random states after a call."""
    return _unchanged(subject.call(*subject.half_right()).drew)


@check(CONDUCT, "as before", blocks=True)
def arguments_kept(subject: Examined) -> Found:
    """Images, targets and maps after a call."""
    return _unchanged(subject.call(*subject.half_right()).changed)


@check(CONDUCT, "as before", blocks=True)
def model_kept(subject: Examined) -> Found:
    """Weights, mode and hooks of the network after a call."""
    return _unchanged(subject.call(*subject.half_right()).repaired)


@check(CONDUCT, "none")
def gradients_left(subject: Examined) -> Found:
    """Gradients of images and weights after a call."""
    left = subject.call(*subject.half_right()).gradients
    return not left, ", ".join(left) or "none"


@check(CONDUCT, "as before")
def modes_kept(subject: Examined) -> Found:
    """Torch's global modes, threads and the working directory after a call."""
    return _unchanged(subject.call(*subject.half_right()).switched)


@check(CONDUCT, "no more than before")
def memory_kept(subject: Examined) -> Found:
    """Memory that tensors take after one call and after the next."""
    lab, maps = subject.half_right()
    held = []
    for _ in range(WARM_UP + GROWING):
        subject.call(lab, maps)
        held.append(_bytes_held())
    grown = int(np.diff(held[WARM_UP - 1 :]).min())
    return grown <= 0, f"{grown:,} bytes more after each call" if grown > 0 else "no more"


@check(CONDUCT, "equal scores", "sampled=True")
def batch_size(subject: Examined) -> Found:
    """Each image alone, and all in one batch."""
    lab, maps = _settled(subject)
    alone = [subject.scores(*_some(lab, maps, torch.tensor([place]))) for place in range(IMAGES)]
    return equal(subject.scores(lab, maps), np.concatenate(alone))


@check(CONDUCT, "equal scores", "sampled=True")
def batch_order(subject: Examined) -> Found:
    """The images in another order."""
    lab, maps = _settled(subject)
    order = torch.arange(IMAGES).roll(1)
    moved = subject.scores(*_some(lab, maps, order))
    return equal(subject.scores(lab, maps)[order.numpy()], moved)


@check(CONDUCT, "equal scores")
def float64(subject: Examined) -> Found:
    """Network, images and maps in float64."""
    return _elsewhere(subject, dtype=torch.float64)


@check(CONDUCT, "equal scores")
def cuda(subject: Examined) -> Found:
    """Network, images and maps on an accelerator."""
    if not torch.cuda.is_available():
        raise Excused("not applicable", "there is no CUDA device here")
    if subject.by_image:
        raise Excused("not applicable", "its scores of single images are computed on the CPU")
    return _elsewhere(subject, device="cuda")


@check(CONDUCT, "a refusal, or NaN for this image and nothing else changed", of=PAIRS)
def nan_map(subject: Examined) -> Found:
    """A NaN in the first map."""
    return with_nan(subject, *_settled(subject), 0)


@check(CONDUCT, "finite scores or NaN, none better than that of the exact map", of=PAIRS)
def zero_map(subject: Examined) -> Found:
    """Maps of zeros."""
    return _without_content(subject, 0.0)


@check(CONDUCT, "finite scores or NaN, none better than that of the exact map", of=PAIRS)
def constant_map(subject: Examined) -> Found:
    """Maps of one value."""
    return _without_content(subject, 1.0)


@check(CONDUCT, "scores that differ by less than a thousandth of exact less inverted", of=ALONE)
def rounding(subject: Examined) -> Found:
    """Exact maps with relative errors of a millionth."""

    def rounded(lab: Laboratory) -> Tensor:
        return subject.exact(lab) * (1 + 1e-6 * subject.noise(lab, 0).sign())

    exact, inverted = subject.exact_scores(), subject.on_all(lambda lab: -subject.exact(lab))
    off = np.abs(subject.on_all(rounded) - exact)
    reach = np.abs(exact - inverted)
    allowed = 1e-3 * reach + ROUNDING * np.abs(exact) + NOTHING
    return bool((off <= allowed).all()), f"{off.max():.3g} of {reach.mean():.3g}"


@check(CONDUCT, "equal scores if the metric declares scale as an invariance, or an order")
def scale(subject: Examined) -> Found:
    """Maps times 4."""
    return _invariance(subject, "scale", lambda maps: 4 * maps)


@check(CONDUCT, "equal scores if the metric declares shift as an invariance, or an order")
def shift(subject: Examined) -> Found:
    """Maps plus 3."""
    declared(subject.maps != "signed", f"that its maps are {subject.maps}")
    return _invariance(subject, "shift", lambda maps: maps + 3)


@check(CONDUCT, "equal scores", 'sampled=True or neighbors="patches"', of=PAIRS)
def relabelled(subject: Examined) -> Found:
    """Pixels of network, images and maps in another order."""
    return _pixels_moved(subject, *subject.half_right())


@check(CONDUCT, "equal scores", 'ties="reading order" or sampled=True', of=PAIRS)
def relabelled_ties(subject: Examined) -> Found:
    """The same where many values of a map are equal."""
    declared(subject.ties == "reading order", "that it takes equal values in reading order")
    lab, maps = subject.half_right()
    return _pixels_moved(subject, lab, (2 * maps / maps.abs().max()).round())


@check(CONDUCT, 'other scores, unless the metric declares takes="logits"', of=ALONE)
def own_softmax(subject: Examined) -> Found:
    """A network's logits, and the logarithms of their softmax: both have the same softmax."""
    if "model" not in subject.taken or subject.by_image:
        raise Excused("not applicable", "it does not receive a model")
    lab, maps = subject.half_right()
    small = replace(lab, weights=lab.weights / PIXELS, offset=0.0)
    logits, logarithms, probabilities = (
        subject.scores(replace(small, last=last), maps)
        for last in (None, nn.LogSoftmax, nn.Softmax)
    )
    # Outputs are about 1: what rounding leaves of them is far less than a softmax changes.
    same, other = (np.allclose(logits, each, 1e-3, 1e-5) for each in (logarithms, probabilities))
    if subject.takes == "logits":
        found = "it applies a softmax" if same else "it applies no softmax"
        why = "" if same else ': its truth is that of the logits (output="logit")'
        return True, found + why
    if not same or other:
        return True, "other scores"
    return False, (
        "equal: it applies a softmax itself, or compares classes; of probabilities it sees a second "
        'softmax: declare takes="logits"'
    )


def with_nan(subject: Examined, lab: Linear, maps: Tensor, which: int) -> Found:
    """What a metric makes of a NaN in the first image's map; `which` is the method, 0 or 1."""
    broken = maps.clone()
    broken[0, which, 0, 0] = torch.nan
    try:
        returned = subject.call(lab, broken).returned
    except AttributionLabError as error:
        return True, f"refused: {error}"
    scores = checked_scores(returned, IMAGES, subject.metric.called) * subject.sign
    if not np.isnan(scores[0]):
        return False, f"{scores[0] * subject.sign:.4g} for this image"
    return equal(scores[1:], subject.scores(lab, maps)[1:])


def _settled(subject: Examined) -> tuple[Linear, Any]:
    """Half-right maps; for a metric that samples exact ones, or a method that nothing changes: their
    score depends on no draw.
    """
    lab = subject.labs[-1]
    if not subject.sampled:
        return subject.half_right()
    return lab, subject.exact(lab) if subject.scores_maps else stay


def _some(lab: Linear, maps: Any, places: Tensor) -> tuple[Linear, Any]:
    """Some of the images with their maps, or with a method, which explains any."""
    chosen = maps if callable(maps) else maps[places]
    return replace(lab, pixels=lab.pixels[places]), chosen


def _elsewhere(subject: Examined, **to: Any) -> Found:
    """Equal scores for another type of numbers, in which weights are drawn otherwise, or device."""
    lab, maps = subject.half_right() if subject.scores_maps else _settled(subject)
    moved = maps if callable(maps) else maps.to(**to)
    return equal(subject.scores(lab, maps), subject.scores(replace(lab, **to), moved))


def _bytes_held() -> int:
    """Memory of all tensors that anything refers to, whatever they share counted twice."""
    gc.collect()
    tensors = [each for each in gc.get_objects() if issubclass(type(each), Tensor)]
    return sum(each.numel() * each.element_size() for each in tensors)


def _unchanged(changed: Sequence[str]) -> Found:
    return not changed, f"changed: {', '.join(changed)}" if changed else "as before"


def _without_content(subject: Examined, value: float) -> Found:
    scores = subject.on_all(lambda lab: torch.full_like(subject.exact(lab), value))
    imputes = subject.neighbors == "imputation"
    above = np.zeros(1) if imputes else scores - subject.exact_scores()
    beaten = bool((above > NOTHING).any())
    shown = f"{scores[0] * subject.sign + 0.0:.4g} ..."
    return not beaten, shown + ", better than exact" * beaten


def _invariance(subject: Examined, name: str, change: Callable[[Tensor], Tensor]) -> Found:
    lab, maps = subject.half_right()
    changed = (lambda *asked: change(maps(*asked))) if callable(maps) else change(maps)
    return subject.invariance(name, subject.scores(lab, maps), subject.scores(lab, changed))


def _pixels_moved(subject: Examined, lab: Linear, maps: Tensor) -> Found:
    declared(subject.sampled, "that it samples: its subsets go by the numbers of pixels")
    declared(subject.neighbors != "none", f"{subject.neighbors}, which use neighboring pixels")
    order = torch.from_numpy(np.random.default_rng([subject.seed, 4]).permutation(PIXELS))
    moved = replace(lab, weights=lab.weights[:, order], pixels=lab.pixels[:, order])
    maps_moved = maps.flatten(2)[:, :, order].reshape(maps.shape)
    return equal(subject.scores(lab, maps), subject.scores(moved, maps_moved))


NOISES = 8
SHARES = (0.0, 0.5, 0.8, 0.95)
"""Of the exact map in a mixture with noise."""
DOSES, DRAWS = 9, 2
CORRUPTED = -0.95
"""Spearman's correlation of dose and score that corruption must reach."""
MISSING = 9
"""Pixels of the largest values that are left out."""

PREFERENCES: dict[str, Check] = {}


@check(PREFERENCES, "exact above random above inverted, never in reverse order")
def order(subject: Examined) -> Found:
    """Exact, random and inverted maps of linear networks."""
    return _in_order(subject, subject.labs)


@check(PREFERENCES, "as for order")
def counting(subject: Examined) -> Found:
    """The same for a network that counts pixels."""
    return _in_order(subject, [_counted(subject, "count")])


@check(PREFERENCES, "as for order")
def conjunction(subject: Examined) -> Found:
    """The same for the minimum of two counts."""
    return _in_order(subject, [_counted(subject, "conjunction")])


@check(
    PREFERENCES,
    "the same sum as exact and inverted, so random is (exact + inverted) / 2, 0 for a correlation",
    UNIT,
)
def chance(subject: Examined) -> Found:
    """A random map and its negative, linear networks."""
    declared(subject.maps != "signed", f"that its maps are {subject.maps}: no map has a negative")
    declared(subject.unit == "place", "the unit place: chance depends on how much there is")
    if subject.unit is None:
        lab, maps = subject.half_right()
        if not equal(subject.scores(lab, maps), subject.scores(lab, 4 * maps))[0]:
            raise Excused("not applicable", "sizes matter, but the metric declares no unit")
    else:
        sizes = subject.unit != "order" and "scale" not in subject.invariances
        declared(sizes, f"the unit {subject.unit}, without scale as an invariance: sizes count")
    exact, inverted = subject.exact_scores(), subject.on_all(lambda lab: -subject.exact(lab))
    reach = np.abs(exact - inverted).mean()
    numbers = range(NOISES // 2)
    ups, downs = (
        np.stack([subject.on_all(partial(_mixed, subject, n, 0.0, s)) for n in numbers])
        for s in (1, -1)
    )
    off = np.abs(ups + downs - exact - inverted).max() / 2
    return bool(off <= 0.02 * reach), f"off by up to {off:.3g}; exact less inverted is {reach:.3g}"


@check(PREFERENCES, "no score above that of the exact map", UNIT)
def best(subject: Examined) -> Found:
    """Exact maps with noise, and noise alone, linear networks."""
    return subject.none_above_exact(with_noise(subject))


@check(PREFERENCES, f"Spearman's correlation of part and score at most {CORRUPTED}")
def corruption(subject: Examined) -> Found:
    """Nested parts of exact maps, 0 to 64 pixels, shuffled."""
    subject.needs_exact()
    drawn = np.random.default_rng([subject.seed, 3])
    orders = [torch.from_numpy(drawn.permutation(PIXELS)) for _ in range(DRAWS)]
    counts = np.linspace(0, PIXELS, DOSES).astype(int)
    means = [
        np.mean([subject.on_all(partial(_shuffled, subject, each[:count])) for each in orders])
        for count in counts
    ]
    if np.ptp(means) == 0:
        return False, f"the score is always {means[0] * subject.sign:.4g}"
    found = spearman(counts, means)
    return found <= CORRUPTED, f"{found:.3f}"


@check(PREFERENCES, "below exact")
def extremes(subject: Examined) -> Found:
    """Exact maps with the highest and the lowest value exchanged."""

    def exchanged(lab: Laboratory) -> Tensor:
        rows = subject.exact(lab).flatten(1).clone()
        order = rows.argsort(dim=1, stable=True)
        ends = order[:, [0, -1]]
        return rows.scatter(1, ends, rows.gather(1, ends.flip(1))).reshape(-1, 1, SIDE, SIDE)

    return subject.below_exact(exchanged)


@check(PREFERENCES, "below exact", 'invariances=("added",)')
def added(subject: Examined) -> Found:
    """Exact maps with the highest value on pixels that the network ignores."""
    declared("added" in subject.invariances, "that it cannot see added attribution")

    def added(lab: Laboratory) -> Tensor:
        exact = subject.exact(lab)
        return torch.where(lab.values == 0, exact.amax((1, 2, 3), keepdim=True), exact)

    return subject.below_exact(added)


@check(PREFERENCES, "below exact", 'invariances=("missing",)')
def missing(subject: Examined) -> Found:
    """Exact maps without the nine highest values."""
    declared("missing" in subject.invariances, "that it cannot see missing attribution")

    def without(lab: Laboratory) -> Tensor:
        rows = subject.exact(lab).flatten(1)
        best = rows.argsort(dim=1, descending=True, stable=True)[:, :MISSING]
        return rows.scatter(1, best, 0.0).reshape(-1, 1, SIDE, SIDE)

    return subject.below_exact(without)


@check(PREFERENCES, "below exact", 'invariances=("sign",)')
def sign(subject: Examined) -> Found:
    """Exact maps without their signs."""
    declared(subject.maps != "signed", f"that its maps are {subject.maps}")
    declared("sign" in subject.invariances, "that it cannot see signs")
    return subject.below_exact(lambda lab: subject.exact(lab).abs())


@check(PREFERENCES, "below exact")
def intensity(subject: Examined) -> Found:
    """The image instead of the map."""
    declared("added" in subject.invariances, "that it cannot see added attribution")
    return subject.below_exact(lambda lab: lab.images)


@check(PREFERENCES, "its own map above the other")
def target(subject: Examined) -> Found:
    """The other output, with its own exact map and that of the first output."""
    return _own_above_old(subject, lambda lab: replace(lab, target=1))


@check(PREFERENCES, "its own map above the other")
def network(subject: Examined) -> Found:
    """A network with the weights of other pixels, with its exact map and the first network's."""
    return _own_above_old(subject, lambda lab: replace(lab, weights=lab.weights.flip(1)))


@check(PREFERENCES, "its own map above the other", 'unit="local gradient"')
def replacement(subject: Examined) -> Found:
    """The replacement 1 instead of 0, with its own exact map and that of the first one."""
    declared(
        subject.unit == "local gradient", "the unit local gradient, which no replacement changes"
    )
    if "replacement" not in subject.taken:
        raise Excused("not applicable", "the metric takes no replacement")
    return _own_above_old(subject, lambda lab: replace(lab, background=1.0))


@check(PREFERENCES, "the same ranking of maps")
def output_scale(subject: Examined) -> Found:
    """Outputs, and with them exact maps, times 0.3."""
    return _same_ranking(
        subject, lambda lab: replace(lab, weights=0.3 * lab.weights, offset=0.3 * lab.offset)
    )


@check(PREFERENCES, "the same ranking of maps")
def output_constant(subject: Examined) -> Found:
    """Outputs plus 56."""
    return _same_ranking(subject, lambda lab: replace(lab, offset=lab.offset + 56))


def _counted(subject: Examined, rule: Literal["count", "conjunction"]) -> Laboratory:
    declared(subject.unit == "local gradient", "the unit local gradient: integers lie on its kinks")
    return counted(subject.seed, rule)


def _in_order(subject: Examined, labs: Sequence[Laboratory]) -> Found:
    subject.needs_exact()

    def scores(maps: MapsOf) -> Numbers:
        return np.concatenate([subject.scores(lab, maps(lab)) for lab in labs])

    exact, inverted = scores(subject.exact), scores(lambda lab: -subject.exact(lab))
    drawn = [scores(partial(_mixed, subject, number, 0.0, 1)) for number in range(NOISES)]
    chance = np.mean(drawn, 0)
    names = ("exact", "random", "inverted")
    scored = zip(names, (exact, chance, inverted), strict=True)
    found = ", ".join(f"{name} {subject.mean_text(each)}" for name, each in scored)
    # An inverted map may be empty where nothing lowers the output: it has no score then.
    there = np.isfinite(inverted) if (subject.maps != "signed") else slice(None)
    worst = subject.above(chance[there], inverted[there])[0] or not len(inverted[there])
    if subject.above(inverted, chance)[0] and subject.above(chance, exact)[0]:
        found += ": reversed (pass the opposite higher_is_better)"
    return subject.above(exact, chance)[0] and worst, found


def _own_above_old(subject: Examined, changed: Callable[[Linear], Linear]) -> Found:
    subject.needs_exact()
    pairs = [(changed(lab), lab) for lab in subject.labs]
    own = [subject.scores(new, subject.exact(new)) for new, _ in pairs]
    other = [subject.scores(new, subject.exact(old)) for new, old in pairs]
    return subject.above(np.concatenate(own), np.concatenate(other))


def _same_ranking(subject: Examined, changed: Callable[[Linear], Linear]) -> Found:
    """Whether pairs of maps whose scores clearly differ are in the same order."""

    def panel(lab: Linear) -> Numbers:
        exact = subject.exact(lab)
        noises = [subject.noise(lab, number) for number in range(2)]
        maps = [exact, -exact, *noises, *(exact + each for each in noises)]
        return np.stack([subject.scores(lab, each) for each in maps])

    turned = pairs = 0
    for lab in subject.labs:
        before, after = panel(lab), panel(changed(lab))
        steps = [each[:, None] - each for each in (before, after)]
        clear = steps[0] > 1e-3 * np.ptp(before, axis=0)
        turned += int((clear & ~(steps[1] > 0)).sum())
        pairs += int(clear.sum())
    return turned == 0 and pairs > 0, f"{turned} of {pairs} pairs turned"


def with_noise(subject: Examined) -> Iterator[MapsOf]:
    """Exact maps with noise, and noise alone."""
    for number in range(NOISES):
        yield partial(_mixed, subject, number, SHARES[number % len(SHARES)], 1)


def _mixed(subject: Examined, number: int, share: float, sign: int, lab: Laboratory) -> Tensor:
    """A share of the exact map, and noise for the rest; all times the sign."""
    return sign * (share * subject.exact(lab) + (1 - share) * subject.noise(lab, number))


def _shuffled(subject: Examined, places: Tensor, lab: Laboratory) -> Tensor:
    """Exact maps with the values at some places moved on by one place."""
    maps = subject.exact(lab)
    rows = maps.flatten(1).clone()
    rows[:, places] = rows[:, places.roll(1)]
    return rows.reshape(maps.shape)
