"""A metric as the checks call it: on which laboratories, with what, and what a call leaves behind."""

import io
import os
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.base import AttributionLabError
from attributionlab.methods import isolated, random_states, restored
from attributionlab.metrics import magnitudes, normalize
from attributionlab.verdicts.metric_trials.case import Case, Evaluation
from attributionlab.verdicts.metric_trials.laboratories import SIDE, Laboratory, Linear, linear
from attributionlab.verdicts.metric_trials.registry import Metric, checked_scores, raised

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


class Examined:
    """A metric under its declarations, and the linear laboratories it is defined for.

    One that judges methods is handed a method wherever another is handed maps; one that compares the
    maps of two methods is handed both, (B, 2, 8, 8), or exact ones beside (B, 1, 8, 8).

    - `seed`: seed for laboratories and maps.
    - `side`: of the images, in pixels.
    """

    def __init__(self, metric: Metric, seed: int, side: int = SIDE) -> None:
        self.metric, self.seed, self.name, stated = metric, seed, metric.name, metric.stated
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
        """Call the metric once, with maps or a method; what is global is put back.

        Raises
        ------
        AttributionLabError
            With what the metric raised, in one line; `LeftChanged` where the model had to be restored.
        """
        model, repaired = lab.model, list[str]()
        known = self._known(lab, model, maps)
        tensors = {key: each for key, each in known.items() if isinstance(each, Tensor)}
        copies = {key: each.clone() for key, each in tensors.items()}
        try:
            with (
                restored(model) as repaired,
                isolated(global_seed),
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

    def scores(self, lab: Laboratory, maps: Maps | Explain, global_seed: int = 1) -> Scores:
        """A number for each map or image, the higher the better.

        Raises
        ------
        AttributionLabError
            For what the metric raises, and for what is no number for each map.
        """
        returned = self.call(lab, maps, global_seed).returned
        return checked_scores(returned, len(lab.images), self.name) * self.sign

    def _image_by_image(self, lab: Laboratory, model: nn.Module, maps: Maps) -> Scores:
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


def _same(first: Tensor, second: Tensor) -> bool:
    alike = first.shape == second.shape and first.dtype == second.dtype
    return alike and bool(((first == second) | (first.isnan() & second.isnan())).all())
