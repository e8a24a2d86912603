"""A metric as the checks call it: what it declares, what it gets, and what a call leaves behind."""

import io
import os
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, format_error, in_one_line, place_of
from attributionlab.methods import isolated, random_states, restored
from attributionlab.metrics import DECLARED, Takes, magnitudes, normalize
from attributionlab.verdicts.metric_kit.laboratories import SIDE, Laboratory, Linear, linear
from attributionlab.verdicts.metric_trials.case import Case, Evaluation
from attributionlab.verdicts.metric_trials.registry import (
    FUNCTIONS,
    OFFERED,
    as_metric,
    check_call,
    checked_scores,
    handed,
    parameters_of,
    required,
    stated_direction,
)

Scores = NDArray[np.float64]
Maps = Float[Tensor, "batch methods side side"]
"""Of one method, or of two for a metric that compares them."""
Explain = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""A method: model, images and targets to maps, (B, 1, 8, 8)."""
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


class Subject:
    """A metric with its declarations, and the linear laboratories it is defined for.

    One that judges methods is handed a method wherever another is handed maps; one that compares the
    maps of two methods is handed both, (B, 2, 8, 8), or exact ones beside (B, 1, 8, 8).

    Parameters
    ----------
    metric : str or callable
        As for `registry.as_metric`.
    higher_is_better : bool, optional
        As there.
    seed : int
        Seed for laboratories and maps.
    takes : {"logits", "probabilities"}, optional
        As there.
    side : int
        Of the images, in pixels.
    """

    def __init__(
        self,
        metric: Any,
        higher_is_better: bool | None,
        seed: int,
        takes: Takes | None = None,
        side: int = SIDE,
    ) -> None:
        self.seed, self.function = seed, metric
        if isinstance(metric, str) and higher_is_better is None:
            self.function = FUNCTIONS.get(metric, metric)
        self.handed = (
            handed(self.function, str(metric)) if callable(self.function) else "attributions"
        )
        self.scores_maps = self.handed != "attribute"
        scores = None
        if self.handed != "attributions":
            named, better = stated_direction(self.function, higher_is_better)
            self.name = metric if isinstance(metric, str) else named
        else:
            adapted = as_metric(metric, higher_is_better, takes)
            self.name, better, scores = adapted.name, adapted.higher_is_better, adapted.scores
            self.function = adapted.function
        self.sign = 1 if better else -1
        stated = {
            key: getattr(self.function, key, default)
            for key, default in {**DECLARED, "maps": "signed", "per_sample": True}.items()
        }
        self.maps, self.unit, self.invariances = (
            stated["maps"],
            stated["unit"],
            stated["invariances"],
        )
        self.sampled, self.neighbors = stated["sampled"], stated["neighbors"]
        self.rising, self.ties = stated["rising"], stated["ties"]
        self.takes = takes or stated["takes"]
        self.varies, self.unchanged = stated["varies"], stated["unchanged"]
        self.taken = parameters_of(self.function, self.name)
        if self.handed == "attribute":
            asked = {"radius", "layer"} & {*required(self.function)} | {"seed"} & self.taken
            given = {"model", "images", "targets", "attribute", *asked}
            check_call(self.function, self.name, 0, given)
        elif self.handed == "others":
            placed = 4 if "model" in self.taken else 1
            check_call(self.function, self.name, placed, {"others"} | OFFERED & self.taken)
        if self.unit is None and "truth" in self.taken:
            self.unit = "place"
        # A data set's metric of ours is checked as it is tested: image by image, by the output.
        self.of_one = None if stated["per_sample"] else scores
        self.labs = [
            linear(seed, rising=each, side=side)
            for each in ((True,) if self.rising else (True, False))
        ]

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
        """Call the metric once, with maps or a method; what is global is put back.

        Raises
        ------
        AttributionLabError
            With what the metric raised, in one line; `LeftChanged` where the model had to be restored.
        """
        model, repaired = lab.model, list[str]()
        arguments, run = (self._of_method if callable(maps) else self._of_maps)(lab, model, maps)
        copies = {key: each.clone() for key, each in arguments.items()}
        try:
            with (
                restored(model) as repaired,
                isolated(global_seed),
                redirect_stdout(io.StringIO()),
                redirect_stderr(io.StringIO()),
                warnings.catch_warnings(),
                in_one_line(lambda error: f"raised {format_error(error)}{place_of(error)}"),
            ):
                warnings.simplefilter("ignore")
                before, modes = random_states(), {key: read() for key, read in MODES.items()}
                returned = run()
                after = random_states()
                switched = [key for key, read in MODES.items() if read() != modes[key]]
                tensors = [*arguments.items(), *dict(model.named_parameters()).items()]
                gradients = [key for key, each in tensors if each.is_leaf and each.grad is not None]
        except AttributionLabError as error:
            if repaired:
                raise LeftChanged(f"{error}, and left changed: {', '.join(repaired)}") from error
            raise
        return Call(
            returned,
            [key for key, each in arguments.items() if not _same(each, copies[key])],
            repaired,
            [key for key in before if before[key] != after[key]],
            switched,
            gradients,
        )

    def _of_method(
        self, lab: Laboratory, model: nn.Module, attribute: Any
    ) -> tuple[dict[str, Tensor], Callable[[], Any]]:
        """Tensors that a metric is handed beside a method, and the call."""
        tensors = {"images": lab.images, "targets": lab.targets}
        offered = {"radius": RADIUS, "layer": list(model.modules())[-1]}
        given: dict[str, Any] = {
            key: offered[key] for key in offered.keys() & required(self.function)
        }
        if "seed" in self.taken:
            given["seed"] = self.seed
        # By name: metrics here differ in where they take the method.
        return tensors, partial(
            self.function, model=model, attribute=attribute, **(tensors | given)
        )

    def _of_maps(
        self, lab: Laboratory, model: nn.Module, maps: Any
    ) -> tuple[dict[str, Tensor], Callable[[], Any]]:
        """Tensors that a metric is handed for maps, and the call."""
        if self.handed == "others" and maps.shape[1] == 1:
            maps = torch.cat([maps, self.exact(lab)], 1)
        scaled, *others = map(self._scaled, maps.split(1, dim=1))
        values = lab.values
        offered = {
            "replacement": lab.replacement,
            "truth": values > 0,
            "values": values,
            "information": values.clamp(min=0),
        }
        if others:
            offered["others"] = others[0].clone()
        given: dict[str, Any] = {key: offered[key] for key in offered if key in self.taken}
        arguments = {"attributions": scaled.clone(), **given}
        if "model" in self.taken:
            arguments = {"images": lab.images, "targets": lab.targets} | arguments
        positional = [each for key, each in arguments.items() if key not in given]
        if "model" in self.taken:
            positional.insert(0, model)
        if "seed" in self.taken:
            given["seed"] = self.seed
        if self.of_one is not None:
            return arguments, partial(self._one_by_one, lab, model, scaled)
        return arguments, partial(self.function, *positional, **given)

    def _scaled(self, maps: Maps) -> Maps:
        """The maps that it is defined for."""
        positive = maps if self.maps == "signed" else magnitudes(maps, "positive")
        return normalize(positive) if self.maps == "unit" else positive

    def scores(self, lab: Laboratory, maps: Maps | Explain, global_seed: int = 1) -> Scores:
        """A number for each map or image, the higher the better.

        Raises
        ------
        AttributionLabError
            For what the metric raises, and for what is no number for each map.
        """
        returned = self.call(lab, maps, global_seed).returned
        return checked_scores(returned, len(lab.images), self.name) * self.sign

    def _one_by_one(self, lab: Laboratory, model: torch.nn.Module, maps: Maps) -> Scores:
        assert self.of_one is not None
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
            found.append(self.of_one(Evaluation(case, model, lab.replacement)))
        return np.concatenate(found)


def _same(first: Tensor, second: Tensor) -> bool:
    alike = first.shape == second.shape and first.dtype == second.dtype
    return alike and bool(((first == second) | (first.isnan() & second.isnan())).all())
