"""Checks of which of two maps a metric prefers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from attributionlab.metrics.ranking import spearman
from attributionlab.verdicts.metric_trials.asking import (
    UNIT,
    Check,
    Examined,
    Excused,
    Found,
    MapsOf,
    Scores,
    above,
    below_exact,
    check,
    declared,
    equal,
    exact_scores,
    half_right,
    mean_text,
    needs_exact,
    none_above_exact,
    on_all,
)
from attributionlab.verdicts.metric_trials.laboratories import (
    PIXELS,
    SIDE,
    Laboratory,
    Linear,
    counted,
)

NOISES = 8
SHARES = (0.0, 0.5, 0.8, 0.95)
"""Of the exact map in a mixture with noise."""
DOSES, DRAWS = 9, 2
CORRUPTED = -0.95
"""Spearman's correlation of dose and score that corruption must reach."""
MISSING = 9
"""Pixels of the largest values that are left out."""

PREFERENCES: dict[str, Check] = {}


@check(PREFERENCES, "exact above random above inverted, on no image the other way round")
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
    "together as much as exact and inverted: so random is (exact + inverted) / 2, 0 for a correlation",
    UNIT,
)
def chance(subject: Examined) -> Found:
    """A random map and its negative, linear networks."""
    declared(subject.maps != "signed", f"that its maps are {subject.maps}: no map has a negative")
    declared(subject.unit == "place", "the unit place: chance depends on how much there is")
    if subject.unit is None:
        lab, maps = half_right(subject)
        if not equal(subject.scores(lab, maps), subject.scores(lab, 4 * maps))[0]:
            raise Excused("not applicable", "sizes count, and the metric declares no unit")
    else:
        sizes = subject.unit != "order" and "scale" not in subject.invariances
        declared(sizes, f"the unit {subject.unit}, without scale as an invariance: sizes count")
    exact, inverted = exact_scores(subject), on_all(subject, lambda lab: -subject.exact(lab))
    reach = np.abs(exact - inverted).mean()
    numbers = range(NOISES // 2)
    ups, downs = (
        np.stack([on_all(subject, partial(_mixed, subject, n, 0.0, s)) for n in numbers])
        for s in (1, -1)
    )
    off = np.abs(ups + downs - exact - inverted).max() / 2
    return bool(off <= 0.02 * reach), f"off by up to {off:.3g}; exact less inverted is {reach:.3g}"


@check(PREFERENCES, "no score above that of the exact map", UNIT)
def best(subject: Examined) -> Found:
    """Exact maps with noise, and noise alone, linear networks."""
    return none_above_exact(subject, with_noise(subject))


@check(PREFERENCES, f"Spearman's correlation of part and score at most {CORRUPTED}")
def corruption(subject: Examined) -> Found:
    """Nested parts of exact maps, 0 to 64 pixels, shuffled."""
    needs_exact(subject)
    drawn = np.random.default_rng([subject.seed, 3])
    orders = [torch.from_numpy(drawn.permutation(PIXELS)) for _ in range(DRAWS)]
    counts = np.linspace(0, PIXELS, DOSES).astype(int)
    means = [
        np.mean([on_all(subject, partial(_shuffled, subject, each[:count])) for each in orders])
        for count in counts
    ]
    if np.ptp(means) == 0:
        return False, f"the score is {means[0] * subject.sign:.4g} throughout"
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

    return below_exact(subject, exchanged)


@check(PREFERENCES, "below exact", 'invariances=("added",)')
def added(subject: Examined) -> Found:
    """Exact maps with the highest value where the network looks at nothing."""
    declared("added" in subject.invariances, "that it cannot see added attribution")

    def added(lab: Laboratory) -> Tensor:
        exact = subject.exact(lab)
        return torch.where(lab.values == 0, exact.amax((1, 2, 3), keepdim=True), exact)

    return below_exact(subject, added)


@check(PREFERENCES, "below exact", 'invariances=("missing",)')
def missing(subject: Examined) -> Found:
    """Exact maps without the nine highest values."""
    declared("missing" in subject.invariances, "that it cannot see missing attribution")

    def without(lab: Laboratory) -> Tensor:
        rows = subject.exact(lab).flatten(1)
        best = rows.argsort(dim=1, descending=True, stable=True)[:, :MISSING]
        return rows.scatter(1, best, 0.0).reshape(-1, 1, SIDE, SIDE)

    return below_exact(subject, without)


@check(PREFERENCES, "below exact", 'invariances=("sign",)')
def sign(subject: Examined) -> Found:
    """Exact maps without their signs."""
    declared(subject.maps != "signed", f"that its maps are {subject.maps}")
    declared("sign" in subject.invariances, "that it cannot see signs")
    return below_exact(subject, lambda lab: subject.exact(lab).abs())


@check(PREFERENCES, "below exact")
def intensity(subject: Examined) -> Found:
    """The image in place of the map."""
    declared("added" in subject.invariances, "that it cannot see added attribution")
    return below_exact(subject, lambda lab: lab.images)


@check(PREFERENCES, "its own above the other")
def target(subject: Examined) -> Found:
    """The other output, with its exact map and the first output's."""
    return _own_above_old(subject, lambda lab: replace(lab, target=1))


@check(PREFERENCES, "its own above the other")
def network(subject: Examined) -> Found:
    """A network with the weights of other pixels, with its exact map and the first network's."""
    return _own_above_old(subject, lambda lab: replace(lab, weights=lab.weights.flip(1)))


@check(PREFERENCES, "its own above the other", 'unit="local gradient"')
def replacement(subject: Examined) -> Found:
    """The replacement 1 in place of 0, with its exact map and the first one's."""
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
    needs_exact(subject)

    def scores(maps: MapsOf) -> Scores:
        return np.concatenate([subject.scores(lab, maps(lab)) for lab in labs])

    exact, inverted = scores(subject.exact), scores(lambda lab: -subject.exact(lab))
    drawn = [scores(partial(_mixed, subject, number, 0.0, 1)) for number in range(NOISES)]
    chance = np.mean(drawn, 0)
    names = ("exact", "random", "inverted")
    scored = zip(names, (exact, chance, inverted), strict=True)
    found = ", ".join(f"{name} {mean_text(subject, each)}" for name, each in scored)
    # An inverted map may be empty where nothing lowers the output: it has no score then.
    there = np.isfinite(inverted) if (subject.maps != "signed") else slice(None)
    worst = above(subject, chance[there], inverted[there])[0] or not len(inverted[there])
    if above(subject, inverted, chance)[0] and above(subject, chance, exact)[0]:
        found += ": reversed, pass higher_is_better the other way round"
    return above(subject, exact, chance)[0] and worst, found


def _own_above_old(subject: Examined, changed: Callable[[Linear], Linear]) -> Found:
    needs_exact(subject)
    pairs = [(changed(lab), lab) for lab in subject.labs]
    own = [subject.scores(new, subject.exact(new)) for new, _ in pairs]
    other = [subject.scores(new, subject.exact(old)) for new, old in pairs]
    return above(subject, np.concatenate(own), np.concatenate(other))


def _same_ranking(subject: Examined, changed: Callable[[Linear], Linear]) -> Found:
    """Whether pairs of maps whose scores clearly differ are in the same order."""

    def panel(lab: Linear) -> Scores:
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
