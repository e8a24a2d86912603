"""Every experiment by the name of what it repeats."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from attributionlab.device import as_device
from attributionlab.errors import AttributionLabError, nearest, refuse_if
from attributionlab.papers.catalog import Run, items, reproduce
from attributionlab.papers.reproduction import Reproduction
from attributionlab.progress import follow
from attributionlab.validation import MOST_IMAGES, integer_problem

PAPERS: dict[str, dict[str, Callable[..., Any]]] = {
    "AttributionLab": {},
    "Soundness and completeness": {},
    "IDSDS": {},
    "Unified study": {},
    "Meta-Rank": {},
}
"""Items by the paper that they belong to; what we add stands with the paper that it goes on from."""

for _item in items().values():
    PAPERS[_item.paper][_item.name] = _item.load()

EXPERIMENTS: dict[str, Callable[..., Any]] = {
    item: function for functions in PAPERS.values() for item, function in functions.items()
}


def experiment(
    item: str,
    *,
    n: int | None = None,
    quick: bool = False,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    device: str | None = None,
    show_progress: bool = False,
) -> Reproduction:
    """Repeat a table or a figure.

    Parameters
    ----------
    item : str
        A name in `EXPERIMENTS`.
    n : int, optional
        Images; each experiment has its own default.
    quick : bool
        Small images, few of them.
    seed : int
        Of images and methods.
    settings : mapping, optional
        Settings of this experiment alone.
    device : str, optional
        Where methods compute, "cpu" by default. Only experiments whose methods run in environments, and
        nowhere else, take another one.
    show_progress : bool
        Show progress on standard error.

    Raises
    ------
    AttributionLabError
        For an unknown item or setting, a device that the item cannot use, and impossible numbers.
    """
    if item not in EXPERIMENTS:
        raise AttributionLabError(f"no experiment named {item!r}: {nearest(item, EXPERIMENTS)}")
    settings = dict(settings or {})
    known = set(inspect.signature(EXPERIMENTS[item]).parameters)
    own = known - {"plan", "item", "n", "quick", "seed", "device", "show_progress", "run"}
    problems = [
        f"{item} has no setting {key!r}: {nearest(key, own)}" for key in settings if key not in own
    ]
    if n is not None:
        most = (items()[item].most if item in items() else None) or MOST_IMAGES
        problems += integer_problem("n", n, 1, most)
    problems += integer_problem("seed", seed, 0)
    run: dict[str, Any] = {"n": n, "quick": quick, "seed": seed}
    if device is not None and as_device(device).type != "cpu":
        run["device"] = device
        if "device" not in known and not (item in items() and items()[item].accelerated):
            problems.append(
                f"device is {device!r}, but {item} computes on the CPU alone: leave it out"
            )
    refuse_if(problems)
    with follow(item, show=show_progress):
        if item in items():
            sizes = {**items()[item].sizes, **(items()[item].quick if quick else {})}
            of_class = items()[item].per_class if settings.get("images") is not None else None
            number = (of_class or sizes["n"]) if n is None else int(n)
            how = Run(item, number, quick, seed, device or "cpu", show_progress)
            outcome = reproduce(items()[item], how, settings)
            run["n"] = number
        else:
            outcome = EXPERIMENTS[item](**run, **settings, show_progress=show_progress)
    return replace(outcome, run=run | settings)
