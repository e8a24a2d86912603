"""What unseen data does to an attribution method: its score against the dose, and how much of what it
shows the network has colors that the network was not made for.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    AttributionWarning,
    drawn_seed,
    explained_arguments,
    write_csv,
)
from attributionlab.methods import AttributionMethod, is_checking
from attributionlab.verdicts.faithfulness.calls import attribute
from attributionlab.verdicts.faithfulness.protocol import RunningMethods, named_environment
from attributionlab.verdicts.faithfulness.test import compare
from attributionlab.verdicts.metric_trials.conditions import AXES, wanted_doses
from attributionlab.worlds import Environment, known_colors, load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONSTANTS = {"strength": "redundant_strength", "channels": "redundant_channels"}
"""Axes on which a network reacts more or less to unseen colors, by what they set."""
AUDITED = 2
"""Images of which the queries are looked at."""


class Queries(NamedTuple):
    """What a method shows a network beside the image."""

    images: int
    """how many images it shows the network, for one map"""
    share: float
    """share of them in which at least one pixel has an unseen color"""
    pixels: float
    """share of all pixels of these images that have one"""


@dataclass(frozen=True)
class UnseenReport:
    """Results of an attribution method at increasing doses of unseen data.

    - `doses`: rows of axis, dose, solved (of `n`), low and high (95 % interval of the share solved,
      exact), f1 (mean of the claim's lowest part).
    - `queries`: None if the method never queries the network with images of the same size.
    """

    method: str
    environment: str
    n: int
    seed: int
    image_size: int
    doses: pd.DataFrame
    queries: Queries | None

    def to_frame(self) -> pd.DataFrame:
        """A row for each dose."""
        return self.doses.copy()

    def to_csv(self, path: str | Path) -> None:
        """Write the table of `to_frame`."""
        write_csv(path, self.doses)

    def shown(self) -> pd.DataFrame:
        """The same as a readable table: "12 of 13", the interval, F1 with two digits."""
        rows = [
            (row.axis, f"{row.dose:g}", f"{row.solved} of {self.n}",
             f"[{row.low:.2f}, {row.high:.2f}]", f"{row.f1:.2f}")
            for row in self.doses.itertuples()
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=["axis", "dose", "solved", "interval", "mean F1"])

    def __repr__(self) -> str:
        return f"{self.title}\n\n{self.shown().to_string(index=False)}\n\n{self.sentence}"

    @property
    def title(self) -> str:
        """What was tested, with which method."""
        side = self.image_size
        return (
            f"{self.method} by dose of unseen data\n{self.environment}, {self.n} questions of "
            f"{side} x {side} pixels each, seed {self.seed}"
        )

    @property
    def sentence(self) -> str:
        """How much of the method's queries is unseen data."""
        if self.queries is None:
            return "The method never queries the network with images of this size."
        found = self.queries
        images = "1 image" if found.images == 1 else f"{found.images:,} images"
        return (
            f"For one map, the method queries the network with {images}; {found.share:.0%} of these "
            f"queries have a pixel of an unseen color ({found.pixels:.0%} of all pixels)."
        )

    def figure(self) -> "Figure":
        """The share of questions solved with its interval, and the mean F1, by dose."""
        shares = self.doses.assign(score="share solved", value=self.doses.solved / self.n)
        means = self.doses.assign(score="mean F1", value=self.doses.f1, low=np.nan, high=np.nan)
        table = pd.concat([shares, means], ignore_index=True)
        return dose_figure(table, "value", "score", self.title, "higher is better")


def dose_figure(
    table: pd.DataFrame, value: str, line: str, title: str, ylabel: str = ""
) -> "Figure":
    """Lines over the dose, with their bands: a panel for each axis."""
    from attributionlab.show import curves

    meanings = {axis: about.meaning for axis, about in AXES.items()}
    return curves(
        *(table.assign(panel=table["axis"].map(meanings)), "dose", value, line),
        panel="panel",
        columns=2,
        title=title,
        xlabel="dose",
        ylabel=ylabel or value,
        limits=(0, 1),
    )


@explained_arguments
def unseen_test(
    method: AttributionMethod,
    env: str | Environment = "multi-color-sum",
    doses: Mapping[str, Sequence[float]] | None = None,
    n: int = 13,
    seed: int | Literal["fresh"] = 0,
    *,
    settings: Mapping[str, Any] | None = None,
    image_size: int | None = None,
    **running: Unpack[RunningMethods],
) -> UnseenReport:
    """Test an attribution method at increasing doses of unseen data.

    Networks of the paper have redundant channels, which are silent for every color in their images but
    respond to all others (the Unseen Data Effect). A method that shows the network such colors, for
    example on a path from black, measures these channels, too. At dose 0 the network does not respond
    to them.

    Parameters
    ----------
    method, settings, **running
        As for `faithfulness_test`; the two images whose queries are counted are explained in this
        process even if the method is `isolated`.
    env : str or Environment
        An environment with a color detector.
    doses : mapping of str to sequence of float, optional
        Doses of "strength" (largest weight of a redundant channel) and "channels" (their number); by
        default 0 to 4 and 0 to 8.
    n : int
        Number of questions at each dose, each with its own network.
    seed : int or "fresh"
        Which questions; the same at every dose.
    image_size : int, optional
        Side of the images in pixels if `env` is a name; 72 by default.

    Raises
    ------
    AttributionLabError
        For unknown axes, for environments without redundant channels, and as `faithfulness_test`.

    Examples
    --------
    >>> import attributionlab as al
    >>> report = al.unseen_test(
    ...     "integrated-gradients", doses={"strength": [0, 4]}, n=3, image_size=24, jobs=1
    ... )
    >>> report.doses.f1.is_monotonic_decreasing, report.queries.share > 0.9
    (True, True)
    """
    place = named_environment(env, image_size)
    if CONSTANTS["channels"] not in place.spec.constants:
        raise AttributionLabError(
            f"env is {place.name}, which has no redundant channels, so its network has no unseen "
            "colors: take multi-color-sum"
        )
    asked = wanted_doses(doses, tuple(CONSTANTS))
    if others := [axis for axis in asked if axis not in CONSTANTS]:
        raise AttributionLabError(
            f"doses name {others[0]!r}, but a method chooses its own queries: take "
            f"{' or '.join(CONSTANTS)}"
        )
    number, _ = drawn_seed(seed)
    at = {
        (axis, dose): load(
            str(place.reference),
            **{**place.overrides, CONSTANTS[axis]: int(dose) if axis == "channels" else dose},
        )
        for axis in asked
        for dose in asked[axis]
    }
    different = {each.spec.digest: each for each in at.values()}
    queries = queries_of(method, place.to(running.get("device") or "cpu"), number, settings)
    found = compare([(method, settings or {})], [*different.values()], n, number, **running)
    by_digest = {result.digest: result for _, result in found.results}
    rows = []
    for (axis, dose), each in at.items():
        result = by_digest[each.spec.digest]
        low, high = result.count.interval or (np.nan, np.nan)  # nothing could be asked
        rows.append((axis, dose, result.count.solved, low, high, result.claim_f1))
    columns = ["axis", "dose", "solved", "low", "high", "f1"]
    return UnseenReport(
        method=found.reports[0].label,
        environment=place.name,
        n=n,
        seed=number,
        image_size=place.recipe.image_size,
        doses=pd.DataFrame(rows, columns=columns),
        queries=queries,
    )


def queries_of(
    method: AttributionMethod,
    env: Environment,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Queries | None:
    """What a method shows a network of an environment, for the maps of its first two images.

    The images themselves, as they are, count as queries too. None without any query.
    """
    shown = 0
    with_unseen = pixels = 0.0
    images, targets = env.batch(AUDITED, seed=seed)
    with _looking(env) as batches, warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionWarning)  # of maps that nobody is shown
        for place in range(AUDITED):
            attribute(
                *(method, env, images[place : place + 1], targets[place : place + 1]),
                settings=settings,
            )
            for unseen in batches:
                shown += len(unseen)
                with_unseen += float(unseen.flatten(1).any(1).sum())
                pixels += float(unseen.float().flatten(1).mean(1).sum())
            batches.clear()
    return Queries(round(shown / AUDITED), with_unseen / shown, pixels / shown) if shown else None


@contextmanager
def _looking(env: Environment) -> Iterator[list[Tensor]]:
    """Where, in all images that the network is shown, the colors are none of those it was made for."""
    known = torch.tensor(known_colors(env.spec), dtype=torch.float32)
    batches = list[Tensor]()

    def look(_: nn.Module, given: tuple[Any, ...]) -> None:
        seen = given[0].detach().float().cpu()
        if seen.shape[1:] == env.image_shape and not is_checking():
            same = [(seen == color[:, None, None]).all(1) for color in known]
            batches.append(~torch.stack(same).any(0))

    look.keeps_rows = True  # type: ignore[attr-defined]  # it only looks on
    handle = env.model.register_forward_pre_hook(look)
    try:
        yield batches
    finally:
        handle.remove()
