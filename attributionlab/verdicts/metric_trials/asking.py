"""How a check asks a metric a question: on networks of 8 x 8 pixels, or more, on which the exact map is
known by hand, with what, what a call leaves behind, and what several checks do with its scores.
"""

import io
import math
import os
import warnings
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, Numbers
from attributionlab.methods import globals_restored, random_states, restored
from attributionlab.metrics import magnitudes, normalize
from attributionlab.verdicts.metric_trials.case import Case, Evaluation
from attributionlab.verdicts.metric_trials.registry import Handed, Metric, checked_scores, raised

SIDE, IMAGES = 8, 4
PIXELS = SIDE * SIDE
SIGNED = 20
"""Of 64 pixels those with a positive weight, and those with a negative one; all others have none."""
STRONGER = 4
"""By how much positive weights are larger where the output rises with the whole image."""
GRID = 16
"""Images and weights are multiples of 1 / 16: each sum of products is exact in float32. Of more than
100 x 100 pixels it is off by some 2^-24 of itself, as any network's is."""
OFFSET = 8.0
EMPTY = "meta"
"""Where layers are made: elsewhere they draw initial weights from torch's global random state."""


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear network: pixel i changes the output by w_i (x_i - b_i), whatever else is there.

    `background` is b, one number for all pixels; `offset` is added to both outputs; `last` is a softmax
    behind them, or its logarithm.
    """

    weights: Float64[Tensor, "2 pixels"]
    pixels: Float64[Tensor, "batch pixels"]
    target: int = 0
    background: float = 0.0
    offset: float = OFFSET
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    last: type[nn.Module] | None = None

    @property
    def model(self) -> nn.Sequential:
        outputs, pixels = self.weights.shape
        layer = nn.Linear(pixels, outputs, device=EMPTY).to_empty(device="cpu")
        with torch.no_grad():
            layer.weight.copy_(self.weights)
            layer.bias.fill_(self.offset)
        layers = [nn.Flatten(), layer, *([self.last(1)] if self.last else [])]
        return nn.Sequential(*layers).to(self.device, self.dtype).eval()

    @property
    def side(self) -> int:
        return math.isqrt(self.weights.shape[1])

    @property
    def images(self) -> Float[Tensor, "batch 1 side side"]:
        return self._maps(self.pixels)

    @property
    def targets(self) -> Int[Tensor, " batch"]:
        return torch.full((len(self.pixels),), self.target, device=self.device)

    @property
    def replacement(self) -> Float[Tensor, "1 side side"]:
        shape = 1, self.side, self.side
        return torch.full(shape, self.background, dtype=self.dtype, device=self.device)

    @property
    def values(self) -> Float[Tensor, "batch 1 side side"]:
        """Exact Shapley values of the game "present or replaced"."""
        return self._maps(self.weights[self.target] * (self.pixels - self.background))

    @property
    def gradients(self) -> Float[Tensor, "batch 1 side side"]:
        """w, for each image."""
        return self._maps(self.weights[self.target].expand(self.pixels.shape))

    def _maps(self, rows: Tensor) -> Tensor:
        return rows.reshape(-1, 1, self.side, self.side).to(self.device, self.dtype)


def linear(seed: int, *, rising: bool, side: int = SIDE) -> Linear:
    """A linear laboratory of images of this side, 8 at least; where it is `rising`, every output rises
    from the replacement to the image: positive weights are larger, and what does not rise all the same
    is drawn again.
    """
    drawn = np.random.default_rng([seed, int(rising)])
    number = side * side
    signed = SIGNED * number // PIXELS
    sizes = 1 + np.arange(signed) % SIGNED / GRID
    row_of_values = (1 + np.arange(number) % PIXELS) / GRID
    while True:
        pixels = drawn.permuted(np.tile(row_of_values, (IMAGES, 1)), axis=1)
        weights = np.zeros((2, number))
        for row in weights:
            places = drawn.permutation(number)
            row[places[:signed]] = sizes * (STRONGER if rising else 1)
            row[places[signed : 2 * signed]] = -sizes
        # Before a flipped network, and with 1 in place of 0, too: checks ask about these.
        changes = [(pixels - b) @ w.T for b in (0, 1) for w in (weights, weights[:, ::-1])]
        if not rising or min(each.min() for each in changes) > 0:
            return Linear(torch.from_numpy(weights), torch.from_numpy(pixels))


@dataclass(frozen=True, eq=False)
class Counted:
    """Background 0, and as many pixels of value 1 as of value 2: a network that counts them.

    Outputs are the numbers (a, b) of pixels of value 1 and 2 ("count"), or (min(a, b), b)
    ("conjunction"). With r = ReLU, a pixel x in {0, 1, 2} counts for a by r(x) - 2 r(x - 1) and for b
    by r(x - 1), and min(a, b) = r(a) - r(a - b).

    *Shapley values.* Of a: 1 for each of its pixels, since it is their sum. Of min(a, b) with n pixels
    of either kind: exchanging the kinds leaves the game as it is, so all 2 n pixels have the same value
    (symmetry), together n (efficiency): 1/2 each. The background is a null player.
    """

    kinds: Int[Tensor, "batch pixels"]
    rule: Literal["count", "conjunction"]

    @property
    def model(self) -> nn.Module:
        pixel = nn.Conv2d(1, 2, 1, device=EMPTY)
        sums, last = nn.Linear(2 * PIXELS, 3, device=EMPTY), nn.Linear(3, 2, device=EMPTY)
        for layer in (pixel, sums, last):
            layer.to_empty(device="cpu")
        one = torch.ones(PIXELS)
        with torch.no_grad():
            pixel.weight.fill_(1)
            pixel.bias.copy_(torch.tensor([0.0, -1.0]))  # type: ignore[union-attr]
            # a, b and a - b
            rows = [torch.cat([p * one, q * one]) for p, q in ((1, -2), (0, 1), (1, -3))]
            sums.weight.copy_(torch.stack(rows))
            sums.bias.zero_()
            both = float(self.rule == "conjunction")
            last.weight.copy_(torch.tensor([[1, 0, -both], [0, 1, 0]]))
            last.bias.zero_()
        return nn.Sequential(pixel, nn.ReLU(), nn.Flatten(), sums, nn.ReLU(), last).eval()

    @property
    def images(self) -> Float[Tensor, "batch 1 side side"]:
        return self.kinds.reshape(-1, 1, SIDE, SIDE).float()

    @property
    def targets(self) -> Int[Tensor, " batch"]:
        return torch.zeros(len(self.kinds), dtype=torch.int64)

    @property
    def replacement(self) -> Float[Tensor, "1 side side"]:
        return torch.zeros(1, SIDE, SIDE)

    @property
    def values(self) -> Float[Tensor, "batch 1 side side"]:
        return (self.images == 1).float() if self.rule == "count" else (self.images > 0) / 2


Laboratory = Linear | Counted
"""A network, images of one channel, and by how much each pixel changes the explained output."""


def counted(seed: int, rule: Literal["count", "conjunction"]) -> Counted:
    """Images with 12 pixels of either value at random places."""
    drawn = np.random.default_rng([seed, 2])
    row = np.repeat([1, 2, 0], [12, 12, PIXELS - 24])
    return Counted(torch.from_numpy(drawn.permuted(np.tile(row, (IMAGES, 1)), axis=1)), rule)


Maps = Float[Tensor, "batch methods side side"]
"""Of one method, or of two for a metric that compares them."""
Explain = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""A method: model, images and targets to maps, (B, 1, 8, 8)."""
Found = tuple[bool, str]
"""Whether the answer is right, and what it is."""
MapsOf = Callable[[Laboratory], Tensor | Explain]
RADIUS = 0.1
"""Given to a metric that must be told how much noise images get; they are from 1/16 to 4."""


MODES: dict[str, Callable[[], Any]] = {
    "grad mode": torch.is_grad_enabled,
    "default dtype": torch.get_default_dtype,
    "default device": torch.get_default_device,
    "threads": torch.get_num_threads,
    "anomaly detection": torch.is_anomaly_enabled,
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "precision of products": torch.get_float32_matmul_precision,
    "autocast": lambda: [torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")],
    "numpy's error state": np.geterr,
    "working directory": os.getcwd,
}
"""What is global beside the random states, and how it is read."""


class Call(NamedTuple):
    """What one call of a metric returned and left behind."""

    returned: Any
    changed: list[str]
    """arguments that are not what they were"""
    repaired: list[str]
    """what of the model had to be restored"""
    drew: list[str]
    """global random states that are not what they were"""
    switched: list[str]
    """other global states that are not what they were"""
    gradients: list[str]
    """tensors of the call, weights among them, that it left a gradient on"""


class LeftChanged(AttributionLabError):
    """A metric raised, and left its model changed."""


def follow(model: nn.Module, images: Tensor, targets: Tensor) -> Tensor:
    """Gradient times image: on a linear network w x, which follows network, target and image."""
    inputs = images.detach().requires_grad_()
    explained = model(inputs).gather(1, targets[:, None]).sum()
    (gradients,) = torch.autograd.grad(explained, inputs)
    return gradients * images


def stay(model: nn.Module, images: Tensor, targets: Tensor) -> Tensor:
    """The same map, of different values, for every network, target and image."""
    first = images[:1, :1]
    return torch.arange(1, first.numel() + 1).to(images).reshape(first.shape).expand_as(images)


class Examined:
    """A metric under its declarations, and the linear laboratories it is defined for.

    One that judges methods is handed a method wherever another is handed maps; one that compares the
    maps of two methods is handed both, (B, 2, 8, 8), or exact ones beside (B, 1, 8, 8).
    """

    def __init__(self, metric: Metric, seed: int, side: int = SIDE) -> None:
        self.metric, self.seed, stated = metric, seed, metric.stated
        self.sign = 1 if metric.higher_is_better else -1
        self.handed, self.taken = metric.handed, metric.parameters
        self.scores_maps = metric.handed != "attribute"
        self.maps, self.invariances = stated["maps"], stated["invariances"]
        self.unit = stated["unit"] or ("place" if "truth" in self.taken else None)
        self.sampled, self.neighbors = stated["sampled"], stated["neighbors"]
        self.ties, self.takes = stated["ties"], metric.takes or stated["takes"]
        self.varies, self.unchanged = stated["varies"], stated["unchanged"]
        # A data set's metric of ours is checked as it is tested: image by image, by the output.
        self.by_image = not stated["per_sample"]
        rising = (True,) if stated["rising"] else (True, False)
        self.labs = [linear(seed, rising=each, side=side) for each in rising]

    def exact(self, lab: Laboratory) -> Maps:
        """The map that is exact in the unit of the metric."""
        if self.unit == "local gradient" and isinstance(lab, Linear):
            return lab.gradients
        return lab.values.sign() if self.unit == "place" else lab.values

    def noise(self, lab: Laboratory, number: int) -> Maps:
        """A map that knows nothing: normal numbers with the sum 0, as large as the exact map's in the
        mean of squares.

        With a sum of its own, a random map would miss the output's change by more than an inverted one.
        """
        exact = self.exact(lab)
        generator = torch.Generator().manual_seed(1000 * (self.seed + 1) + number)
        drawn = torch.randn(exact.shape, generator=generator, dtype=torch.float64)
        drawn -= drawn.mean((1, 2, 3), keepdim=True)
        return (drawn * float(exact.double().square().mean().sqrt())).to(exact)

    def call(self, lab: Laboratory, maps: Maps | Explain, global_seed: int = 1) -> Call:
        """Call the metric once, with maps or a method; what is global is put back. Raises
        AttributionLabError with what the metric raised, in one line; `LeftChanged` where the model had
        to be restored.
        """
        model, repaired = lab.model, list[str]()
        known = self._known(lab, model, maps)
        tensors = {key: each for key, each in known.items() if isinstance(each, Tensor)}
        copies = {key: each.clone() for key, each in tensors.items()}
        try:
            with (
                restored(model) as repaired,
                globals_restored(global_seed),
                redirect_stdout(io.StringIO()),
                redirect_stderr(io.StringIO()),
                warnings.catch_warnings(),
                raised(),
            ):
                warnings.simplefilter("ignore")
                before, modes = random_states(), {key: read() for key, read in MODES.items()}
                if self.by_image:
                    returned = self._image_by_image(lab, model, known["attributions"])
                else:
                    returned = self.metric.call(known)
                after = random_states()
                switched = [key for key, read in MODES.items() if read() != modes[key]]
                watched = [*tensors.items(), *dict(model.named_parameters()).items()]
                gradients = [key for key, each in watched if each.is_leaf and each.grad is not None]
        except AttributionLabError as error:
            if repaired:
                raise LeftChanged(f"{error}, and left changed: {', '.join(repaired)}") from error
            raise
        return Call(
            returned,
            [key for key, each in tensors.items() if not _same(each, copies[key])],
            repaired,
            [key for key in before if before[key] != after[key]],
            switched,
            gradients,
        )

    def _known(self, lab: Laboratory, model: nn.Module, maps: Any) -> dict[str, Any]:
        """What a metric may be handed, by name."""
        known = {"model": model, "images": lab.images, "targets": lab.targets, "seed": self.seed}
        if callable(maps):
            layer = list(model.modules())[-1]
            return known | {"attribute": maps, "radius": RADIUS, "layer": layer}
        if self.handed == "others" and maps.shape[1] == 1:
            maps = torch.cat([maps, self.exact(lab)], 1)
        scaled, *others = map(self._scaled, maps.split(1, dim=1))
        return known | {
            "attributions": scaled.clone(),
            "replacement": lab.replacement,
            "truth": lab.values > 0,
            "values": lab.values,
            "information": lab.values.clamp(min=0),
            **({"others": others[0].clone()} if others else {}),
        }

    def _scaled(self, maps: Maps) -> Maps:
        """The maps that it is defined for."""
        positive = maps if self.maps == "signed" else magnitudes(maps, "positive")
        return normalize(positive) if self.maps == "unit" else positive

    def scores(self, lab: Laboratory, maps: Maps | Explain, global_seed: int = 1) -> Numbers:
        """A number for each map or image, the higher the better. Raises AttributionLabError for what
        the metric raises, and for what is no number for each map.
        """
        returned = self.call(lab, maps, global_seed).returned
        return checked_scores(returned, len(lab.images), self.metric.called) * self.sign

    def _image_by_image(self, lab: Laboratory, model: nn.Module, maps: Maps) -> Numbers:
        images, targets, values = lab.images, lab.targets, lab.values
        found = []
        for place in range(len(maps)):
            case = Case(
                *(images[place], targets[place : place + 1], maps[place : place + 1]),
                truth=None,  # type: ignore[arg-type]  # no metric of a data set is given it
                values=values[place : place + 1],
                baseline=lab.replacement[:, :1, :1],
                highest=float(images.max()),
                seed=self.seed,
            )
            found.append(self.metric.scores(Evaluation(case, model, lab.replacement)))
        return np.concatenate(found)

    def needs_exact(self) -> None:
        """End the check of a metric without an exact map."""
        declared(self.neighbors == "imputation", "that it imputes: no exact map is known")

    def on_all(self, maps: MapsOf) -> Numbers:
        """Scores on all linear laboratories."""
        return np.concatenate([self.scores(lab, maps(lab)) for lab in self.labs])

    def exact_scores(self) -> Numbers:
        self.needs_exact()
        return self.on_all(self.exact)

    def half_right(self) -> tuple[Linear, Any]:
        """A laboratory with maps that are half right: exact ones hide what a metric does with pixels.

        For a metric that judges methods, with a method that follows what varies; for one that compares
        maps, with two of them, neither of which has equal values.
        """
        lab = self.labs[-1]
        if not self.scores_maps:
            return lab, follow
        numbers = (99, 98) if self.handed == "others" else (99,)
        return lab, torch.cat([self.exact(lab) + self.noise(lab, each) for each in numbers], 1)

    def score_of_equal(self) -> float:
        """The declared score of maps that stay the same, the higher the better."""
        if self.unchanged is None:
            found = "the metric does not declare the score of equal maps: declare unchanged="
            raise Excused("not applicable", found)
        return self.sign * float(self.unchanged)

    def invariance(self, name: str, before: Numbers, after: Numbers) -> Found:
        """Equal scores, for a metric that declares so."""
        right, found = equal(before, after)
        of_order = self.unit == "order" and name in ("scale", "shift")
        if name not in self.invariances and not of_order:
            raise Excused(
                "not applicable", f"the metric does not declare this invariance; scores {found}"
            )
        return right, found

    def above(self, better: Numbers, worse: Numbers) -> Found:
        """Whether scores are higher in the mean, and lower on no image."""
        tolerance = 1e-6 * np.maximum(np.abs(better), np.abs(worse)) + NOTHING
        higher, lower = better > worse + tolerance, worse > better + tolerance
        right = bool(higher.any() and not lower.any() and np.isfinite([better, worse]).all())
        means = " against ".join(self.mean_text(each) for each in (better, worse))
        counts = f"better on {higher.sum()}, worse on {lower.sum()} of {len(better)} images"
        return right, f"{means}; {counts}"

    def below_exact(self, maps: MapsOf) -> Found:
        return self.above(self.exact_scores(), self.on_all(maps))

    def mean_text(self, scores: Numbers) -> str:
        """The mean score in the metric's own direction, without a sign of 0."""
        return f"{scores.mean() * self.sign + 0.0:.4g}" if len(scores) else "none"

    def none_above_exact(self, others: Iterable[MapsOf]) -> Found:
        exact = self.exact_scores()
        tolerance = ROUNDING * np.abs(exact) + NOTHING
        excess = np.stack([self.on_all(maps) for maps in others]) - exact
        beaten = excess > tolerance
        found = f"{beaten.sum()} of {beaten.size} above it"
        return not beaten.any(), found + f", by up to {excess.max():.3g}" * bool(beaten.any())


def _same(first: Tensor, second: Tensor) -> bool:
    alike = first.shape == second.shape and first.dtype == second.dtype
    return alike and bool(((first == second) | (first.isnan() & second.isnan())).all())


Status = Literal["pass", "fault", "note", "by declaration", "not applicable"]
"""A fault is an error of the code, which is not tried then. A note is advice: the trial decides."""
Answer = Callable[[Examined], Found]

ROUNDING = 1e-4
"""Largest difference of equal scores, as a share of the larger. In float32 a sum of 64 terms is off by
64 * 2^-24 = 4e-6 of its largest partial sum; the rest is left to what a metric computes with sums."""
NOTHING = 1e-9
"""What float64 leaves of a score that is 0, in units of the outputs, which are about 100 here."""
UNIT = "its unit"


class Result(NamedTuple):
    """How a check ended."""

    status: Status
    found: str


class Check(NamedTuple):
    """A question with a known answer."""

    asks: str
    expected: str
    declared: str
    """what a metric may declare that answers it; "" for nothing"""
    blocks: bool
    """whether another answer is a fault of the code"""
    of: tuple[Handed, ...]
    """which metrics are asked, by what they are handed"""
    ask: Callable[[Examined], Result]

    @property
    def wrong(self) -> Status:
        """How it ends with another answer."""
        return "fault" if self.blocks else "note"


class Excused(Exception):
    """The check is not asked of this metric."""

    def __init__(self, status: Status, why: str) -> None:
        super().__init__(why)
        self.result = Result(status, why)


def check(
    checks: dict[str, Check],
    expected: str,
    declared: str = "",
    *,
    blocks: bool = False,
    of: tuple[Handed, ...] = get_args(Handed),
) -> Callable[[Answer], Answer]:
    """Add a check (`Check`) under its function's name; the docstring says what it asks."""

    def register(answer: Answer) -> Answer:
        def ask(subject: Examined) -> Result:
            try:
                right, found = answer(subject)
            except Excused as excuse:
                return excuse.result
            except AttributionLabError as error:
                return Result(made.wrong, str(error))
            if right:
                return Result("pass", found)
            meant = ALIKE in found if "invariances" in declared else declared != UNIT
            hint = declared if meant or (declared == UNIT and subject.unit is None) else ""
            return Result(made.wrong, found + f" (if intended: declare {hint})" * bool(hint))

        made = Check(str(answer.__doc__).rstrip("."), expected, declared, blocks, of, ask)
        checks[answer.__name__.replace("_", "-")] = made
        return answer

    return register


def declared(answers: bool, words: str) -> None:
    """End the check where a declaration answers it."""
    if answers:
        raise Excused("by declaration", f"the metric declares {words}")


ALIKE = "better on 0, worse on 0"
"""Found where two kinds of maps score alike: the metric may mean not to see what differs."""


def equal(first: Numbers, second: Numbers) -> Found:
    """Whether scores are equal up to rounding."""
    absent = np.isnan(first)
    if not (absent == np.isnan(second)).all():
        return False, "NaN in other places"
    size = np.maximum(np.abs(first), np.abs(second))
    off = np.abs(first - second)[~absent]
    right = bool((off <= ROUNDING * size[~absent] + NOTHING).all())
    most = off.max(initial=0.0)
    return right, f"differ by up to {most:.3g}" if most else "equal"
