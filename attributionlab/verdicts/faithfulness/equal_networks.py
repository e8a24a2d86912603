"""Networks that compute the same: how far maps drift between them, and what a method scores."""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import (
    UNIT,
    AttributionLabError,
    Tally,
    attributes,
    gradient_rounding,
    track,
)
from attributionlab.base.exact import PathIntegral, path_integral
from attributionlab.methods import METHODS, Call, as_baselines, collect_notices
from attributionlab.metrics.ranking import spearman
from attributionlab.verdicts.faithfulness.calls import (
    attribute_batch,
    batch_maps,
    bound_to_one_network,
    claim_score,
)
from attributionlab.verdicts.faithfulness.isolation import Apart, EnoughError, Watch
from attributionlab.verdicts.faithfulness.setup import Batch, Setup, joined, on_networks
from attributionlab.verdicts.faithfulness.verdicts import Verdict, lowest_mean
from attributionlab.worlds import Environment
from attributionlab.worlds.nets import EQUIVALENT, equivalents_of

VANISHING = 2.0**-20
"""What is left of rounding in float64, whose unit is 2^-29 of float32's; the rest is for chance."""

NEGLIGIBLE = 2.0**-44
"""Drift that is rounding in float64 (512 units) even where float32, by chance, shows none."""

TIGHT = 0.01
"""Drift above which a bound that holds says nothing: absolute weights forbid the cancellation on which
duplicated and mirrored neurons rest, so that their bound may exceed the map itself."""

LIMITS = ("max_panels", "max_evaluations")
"""Settings of exact integrated gradients."""


NOTHING: Callable[..., NDArray[Any]] = partial(np.empty, (0, 0))
"""What a drift holds where none was measured."""


@dataclass(frozen=True, eq=False)
class Drift:
    r"""A method's maps on K functionally equal networks against its maps on the plain one.

    Implementation invariance (Sundararajan et al., 2017): methods should give equal attributions for
    networks whose outputs are equal for all inputs. Maps are summed over channels and not normalized.
    The drift of an image is :math:`\lVert a_k - a \rVert / \lVert a \rVert` (Euclidean). It is 0 where
    both maps are zero everywhere; where the plain map alone is, no drift is defined: such pairs are
    counted (`appeared`) and left out of `median` and `largest`, and `largest_difference` sees them.

    A property of the method, which decides nothing about a verdict.

    - `networks`, `images`: the seeds of the camouflaged networks (`attributionlab.load(name,
      camouflage_seed=SEED)`), and how many images, the first ones of the test.
    - `refused`: why there is no drift, empty if there is one.
    - `sizes`, `apart`: the Euclidean norm of each plain map, and the distance of each map from it.
    - `differences`, `correlations`: the largest absolute difference, in the attributions' own unit;
      Spearman's rank correlation over pixels with the plain map, NaN where a map is constant.
    - `plain_f1`, `network_f1`: the claim's F1 of these images on the plain network, and on each
      camouflaged one.
    - `integer_images_only`: whether the method was seen to show the network only integer images of the
      valid box, to take no gradient and to look at no layer: it gets equal answers, so its drift must
      be 0.
    - `bounds`: (networks, images), how far apart rounding can take the two maps, where that is derived.
    - `sizes_in_float64`, `apart_in_float64`: `sizes` and `apart` where the same is computed in float64;
      None if that decides nothing, or the method does not run in float64. NaN on networks where it
      decides nothing: the maps are equal anyway, or a tight bound holds.
    - `samples`: (1 + networks, H, W), the maps of the first image, that on the plain network first.
    """

    networks: Sequence[int]
    images: int
    refused: str = ""
    sizes: NDArray[np.float64] = field(default_factory=NOTHING, repr=False)
    apart: NDArray[np.float64] = field(default_factory=NOTHING, repr=False)
    differences: NDArray[np.float64] = field(default_factory=NOTHING, repr=False)
    correlations: NDArray[np.float64] = field(default_factory=NOTHING, repr=False)
    plain_f1: float | None = None
    network_f1: Sequence[float | None] = ()
    integer_images_only: bool = False
    bounds: NDArray[np.float64] | None = field(default=None, repr=False)
    sizes_in_float64: NDArray[np.float64] | None = field(default=None, repr=False)
    apart_in_float64: NDArray[np.float64] | None = field(default=None, repr=False)
    samples: NDArray[np.float32] = field(default_factory=NOTHING, repr=False)

    @property
    def distances(self) -> NDArray[np.float64]:
        """(networks, images), the drift of each image, NaN where it is not defined."""
        return _relative(self.apart, self.sizes)

    @property
    def median(self) -> float | None:
        """Median drift over all images and networks."""
        return _of(np.nanmedian, self.distances)

    @property
    def largest(self) -> float | None:
        """Largest drift over all images and networks."""
        return _of(np.nanmax, self.distances)

    @property
    def largest_difference(self) -> float | None:
        """Largest difference of two attributions of one pixel."""
        return _of(np.max, self.differences)

    @property
    def rank_correlation(self) -> float | None:
        """Rank correlation of the median image and network."""
        return _of(np.nanmedian, self.correlations)

    @property
    def appeared(self) -> int:
        """How many maps are not zero although the plain map of the same image is."""
        return int(np.isnan(self.distances).sum())

    @property
    def is_zero(self) -> bool:
        """Whether all maps are equal (`==`) to the plain ones."""
        return bool((self.differences == 0).all())

    @property
    def rounding_bound(self) -> float | None:
        """The largest drift to which rounding can lead, None where no bound is derived."""
        return None if self.bounds is None else _of(np.nanmax, _relative(self.bounds, self.sizes))

    @property
    def within_bound(self) -> bool | None:
        """Whether no image drifts farther than rounding can take it; None where no bound is derived."""
        return None if self.bounds is None else bool((self.apart <= self.bounds).all())

    @property
    def settled(self) -> NDArray[np.bool_]:
        """(networks, images), where no float64 is needed: the maps are equal, or a bound that a
        hundredth of the plain map would exceed holds.
        """
        equal: NDArray[np.bool_] = self.differences == 0
        if self.bounds is None:
            return equal
        tight = _relative(self.bounds, self.sizes) <= TIGHT
        return equal | (tight & (self.apart <= self.bounds))

    @property
    def in_float64(self) -> float | None:
        """The largest drift of all images and networks of which it is computed in float64."""
        if self.apart_in_float64 is None or self.sizes_in_float64 is None:
            return None
        return _of(np.nanmax, _relative(self.apart_in_float64, self.sizes_in_float64))

    @property
    def vanishes(self) -> bool | None:
        """Whether next to nothing of any image's drift remains in float64, where that was looked at;
        None if it was not.
        """
        if self.apart_in_float64 is None or self.sizes_in_float64 is None:
            return None
        of_image = VANISHING * self.apart.max(0)
        next_to_nothing = np.maximum(of_image, NEGLIGIBLE * self.sizes_in_float64)
        return not (self.apart_in_float64 > next_to_nothing).any()

    @property
    def reading(self) -> str:
        """In words: "equal, as it must be", "differs, where it must not" (of a method that shows the
        network integer images only), "equal", "within rounding", "beyond rounding" (of a method with a
        derived bound), "drifts" or "not known"; empty if there is none.

        More than rounding is what exceeds a bound, or remains in float64. Rounding is what a tight
        bound covers, or what vanishes in float64, image by image.
        """
        if self.refused:
            return ""
        if self.integer_images_only:
            return "equal, as it must be" if self.is_zero else "differs, where it must not"
        if self.is_zero:
            return "equal"
        if self.within_bound is False:
            return "beyond rounding"
        if self.vanishes is False:
            return "drifts" if self.bounds is None else "beyond rounding"
        return "within rounding" if self.vanishes or self.settled.all() else "not known"

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON file: numbers, None for what does not apply."""
        scored = [f1 for f1 in self.network_f1 if f1 is not None]
        return {
            "networks": list(self.networks),
            **attributes(self, "images", "refused", "reading", "median", "largest"),
            **attributes(self, "largest_difference", "appeared", "rank_correlation", "plain_f1"),
            "lowest_f1": min(scored, default=None),
            "highest_f1": max(scored, default=None),
            **attributes(self, "integer_images_only", "rounding_bound", "in_float64"),
        }


def _relative(amounts: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Beside the plain map: 0 of nothing is 0, more than that is not defined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(sizes > 0, amounts / sizes, np.nan)
    return np.where(amounts == 0, 0.0, shares)


def _of(statistic: Any, values: NDArray[np.float64]) -> float | None:
    """A statistic of what is defined, None without any or if it is not finite."""
    if not np.isfinite(values).any():
        return None
    found = float(statistic(values))
    return found if math.isfinite(found) else None


STREAM = 6
"""Stream of the seeds of camouflaged networks, apart from those of images and methods."""


def camouflage_seeds(seed: int, networks: int) -> list[int]:
    """Seeds of K camouflaged networks, from a run's seed; the first ones are those of a smaller K."""
    state = np.random.SeedSequence(seed, spawn_key=(STREAM,)).generate_state(networks)
    return [int(each) for each in state]


def drift_of(setup: Setup, show_progress: bool = False) -> Drift:
    """Drift between the plain network and `setup.also.camouflage` camouflaged ones."""
    seeds = camouflage_seeds(setup.seed, setup.also.camouflage)
    networks = {seed: partial(Environment.camouflaged, seed=seed) for seed in seeds}
    return drift_on(networks, setup, show_progress)


def drift_on(
    networks: Mapping[int, Callable[[Environment], Environment]],
    setup: Setup,
    show_progress: bool = False,
) -> Drift:
    """Drift between the images' own networks and others, which functions make of them, by seed.

    The first images of the test are explained on every network with the same targets, offers and
    seeds; `layers` are those of each network. Computed attributions have no maps on other networks, nor
    has an instance of one of Captum's classes, which is bound to its model.
    """
    setup = setup.first_images()
    if reason := bound_to_one_network(setup.method):
        return Drift(list(networks), setup.n, reason)
    plain = list(setup.batches())
    makers = [lambda env: env, *networks.values()]
    title = f"{setup.method.name} on camouflaged {setup.env.name}"
    places: list[list[Batch]] = []
    kept: list[Tensor] = []
    bounds: list[Tensor | None] = []
    for make in track(makers, len(makers), title, show_progress):
        batches = on_networks(plain, make)
        try:
            with collect_notices():  # the notices of the test are those of its own run
                found = [maps_with_bound(setup, batch) for batch in batches]
        except AttributionLabError as error:
            return Drift(list(networks), setup.n, f"the method does not run there: {error}")
        places.append(batches)
        kept.append(torch.cat([maps for maps, _ in found]))
        known = [bound for _, bound in found if bound is not None]
        bounds.append(torch.cat(known) if known else None)
    (first, *others), whole = kept, joined(plain)
    measured = Drift(
        networks=list(networks),
        images=setup.n,
        sizes=_norms(first),
        apart=np.stack([_norms(maps - first) for maps in others]),
        differences=np.stack([(maps - first).flatten(1).abs().amax(1).numpy() for maps in others]),
        correlations=np.stack([_correlations(first, maps) for maps in others]),
        plain_f1=lowest_mean(setup.claimed_f1(first, whole))[1],
        network_f1=[lowest_mean(setup.claimed_f1(maps, whole))[1] for maps in others],
        integer_images_only=shows_integer_images_only(setup, plain[0]),
        bounds=_together(bounds),
        samples=torch.stack([maps[0, 0] for maps in kept]).float().numpy(),
    )
    unsettled = np.flatnonzero(~measured.settled.all(1))
    if not len(unsettled):
        return measured
    double = _in_float64(setup, [places[0], *(places[1 + index] for index in unsettled)])
    if double is None:
        return measured
    first, *others = double
    apart = np.full_like(measured.apart, np.nan)
    apart[unsettled] = [_norms(maps - first) for maps in others]
    return replace(measured, sizes_in_float64=_norms(first), apart_in_float64=apart)


def _norms(maps: Tensor) -> NDArray[np.float64]:
    norms: NDArray[np.float64] = maps.flatten(1).norm(dim=1).numpy()
    return norms


def _together(bounds: Sequence[Tensor | None]) -> NDArray[np.float64] | None:
    """How far apart rounding can take two maps: each may be off by its own bound, (networks, B)."""
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds):
        return None
    first, *others = known
    return np.stack([(first + bound).numpy() for bound in others])


def _in_float64(setup: Setup, places: Sequence[Sequence[Batch]]) -> list[Tensor] | None:
    """The maps on each network in float64, (B, 1, H, W), None if the method does not run so."""
    found = []
    for batches in places:
        double = on_networks(batches, _doubled)  # of one set of networks at a time
        double = [batch._replace(images=batch.images.double()) for batch in double]
        try:
            found.append(batch_maps(setup, double))
        except AttributionLabError:
            return None
    return found


def _doubled(env: Environment) -> Environment:
    """The same environment with float64 copies of its networks."""
    double = copy(env)
    networks = (env.model, env.softmax_model, env.layers)
    copies = deepcopy(networks)  # layers stay parts of them
    double.model, double.softmax_model, double.layers = copies
    (double.softmax_model or double.model).double()
    return double


def _correlations(plain: Tensor, others: Tensor) -> NDArray[np.float64]:
    """Rank correlation of each image's pixels, (B,)."""
    pairs = zip(plain.flatten(1).numpy(), others.flatten(1).numpy(), strict=True)
    return np.array([spearman(first, second) for first, second in pairs])


# How far rounding alone may take a map, for methods of which that is derived


def maps_with_bound(
    setup: Setup, batch: Batch
) -> tuple[Float[Tensor, "batch 1 height width"], Float64[Tensor, " batch"] | None]:
    """A method's maps, channels summed, with a bound on the Euclidean norm of each one's error.

    The gradient and its product with the input: `gradient_rounding`, summed over channels. Exact
    integrated gradients: the error that `path_integral` states, and the rounding of what is returned;
    the integral is computed once for both. None for all other methods: what they compute is no function
    of the network's function, or their forward passes round (any path between images), which no pattern
    of ReLUs survives surely.
    """
    if _is_one_of(setup, METHODS["integrated-gradients-exact"]):
        return _integrals(setup, batch, setup.method.settings.get("baselines", 0))
    if _is_one_of(setup, METHODS["integrated-gradients-exact-true-baseline"]):
        return _integrals(setup, batch, batch.env.baseline)
    return attribute_batch(setup, batch).maps, _of_gradient(setup, batch)


def _of_gradient(setup: Setup, batch: Batch) -> Tensor | None:
    from captum.attr import InputXGradient, Saliency

    times_input = _is_one_of(setup, METHODS["input-x-gradient"], InputXGradient)
    if not times_input and not _is_one_of(setup, METHODS["saliency"], Saliency):
        return None
    images, targets = (each.to(batch.env.device) for each in (batch.images, batch.targets))
    bound = gradient_rounding(batch.env.explained_model(setup.output), images, targets)
    if bound is None:
        return None
    norms: Tensor = (bound * images.abs() if times_input else bound).sum(1).flatten(1).norm(dim=1)
    return norms.cpu()


def _is_one_of(setup: Setup, *functions: object) -> bool:
    return any(setup.method.function is function for function in functions)


def _integrals(setup: Setup, batch: Batch, baselines: Any) -> tuple[Tensor, Tensor]:
    stated: list[Tensor] = []

    def call(_: Any, call: Call, settings: Any) -> Tensor:
        inputs = call.inputs
        limits = {key: settings[key] for key in LIMITS if key in settings}
        result = path_integral(
            call.model, inputs, as_baselines(baselines, inputs), call.targets, **limits
        )
        stated.append(_stated_error(result))
        return result.attributions.to(inputs.dtype)

    setup = replace(setup, method=replace(setup.method, call=call))
    return attribute_batch(setup, batch).maps, torch.cat(stated)


def _stated_error(result: PathIntegral) -> Tensor:
    attributions = result.attributions
    written = UNIT * attributions.flatten(1).norm(dim=1)
    # A sum of C channels is off by at most sqrt(C) times the norm of what all are off by.
    bound: Tensor = (result.error + written) * attributions.shape[1] ** 0.5
    return bound.cpu()


def shows_integer_images_only(setup: Setup, batch: Batch) -> bool:
    """Whether a method learns of a network nothing but its outputs for integer images of the valid box.

    The method explains the first image of the batch while hooks look on: whether each image that it
    shows the network consists of integers in [0, highest], whether a gradient is taken, and whether
    layers are called alone or watched by hooks of the method. Reading weights leaves no trace. False
    also if the network was shown no image at all.

    It is a run of its own: `attributionlab.exact` reads a network with hooks as one whose layers are
    unknown.
    """
    watch, method = Watch(batch.images.shape[1:], setup.env.max_value), setup.method
    if isinstance(method, Apart):
        method = replace(method, watch=watch)
    else:
        method = replace(method, call=watch.around(method.call))
    setup = replace(setup, method=method)
    try:
        batch_maps(setup, [batch.part(0, 1)])
    except (AttributionLabError, EnoughError):
        if not watch.saw_more:
            raise
    return watch.passes > 0 and not watch.saw_more


@dataclass(frozen=True)
class FormScore:
    """The claim's score before networks of one form."""

    form: str
    f1: float | None
    """mean over questions, None where the method did not run"""
    count: Tally | None
    """how many questions it solves"""
    verdict: Verdict | None
    refused: str = ""
    """why the method did not run"""


@dataclass(frozen=True)
class Robustness:
    """Scores on equivalent networks: equal outputs for every integer image, other derivatives.

    `verdict`: verdict before the plain networks. `forms`: one for each form that the networks have.
    """

    verdict: Verdict
    forms: Sequence[FormScore]

    @property
    def lowest(self) -> FormScore | None:
        """The form with the lowest score, None where there is none."""
        scored = [each for each in self.forms if each.f1 is not None]
        return min(scored, key=lambda each: each.f1 or 0.0, default=None)

    @property
    def reading(self) -> Literal["robust", "depends on the implementation", "undecided", ""]:
        """Of a method that passes: whether it passes before every form, or fails before one; empty for
        a method that does not, and without forms.
        """
        found = {each.verdict for each in self.forms}
        if self.verdict != "pass" or not found:
            return ""
        if "fail" in found:
            return "depends on the implementation"
        return "robust" if found == {"pass"} else "undecided"

    def to_dict(self) -> dict[str, Any]:
        """Entry of an environment in the JSON file."""
        lowest = self.lowest
        return {
            "reading": self.reading,
            "lowest": lowest and {"form": lowest.form, "claim_f1": lowest.f1},
            "forms": [
                {
                    "form": each.form,
                    "claim_f1": each.f1,
                    "solved": each.count and each.count.solved,
                    "verdict": each.verdict,
                    "refused": each.refused,
                }
                for each in self.forms
            ],
        }


def robustness_of(setup: Setup, verdict: Verdict, show_progress: bool = False) -> Robustness:
    """Score a method before the first `setup.also.equivalent` forms, each scored by itself."""
    known = [equivalents_of(env.network) for env in setup.env.worlds]
    forms = [
        form for form in EQUIVALENT[: setup.also.equivalent] if all(form in each for each in known)
    ]
    return Robustness(verdict, [_score(setup, form, show_progress) for form in forms])


def _score(setup: Setup, form: str, show_progress: bool) -> FormScore:
    """The claim's score of one run before networks of a form."""
    batches = (
        other
        for batch in setup.batches(f"{setup.title}, {form}", show_progress)
        for other in on_networks([batch], lambda env: env.with_implementation(form))
    )
    try:
        mean, count = claim_score(setup, batches)
    except AttributionLabError as error:
        return FormScore(form, None, None, None, str(error))
    return FormScore(form, mean, count, count.verdict(setup.environments))
