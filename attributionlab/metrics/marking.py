"""What marks a function as a metric, and what a metric says about itself.

What no run tells of a metric: formula, source, range, best score and use, from facts.toml.
"""

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from attributionlab.base import number_problem, refuse_if


class Facts(NamedTuple):
    """What somebody wrote about a metric in facts.toml."""

    formula: str
    source: str
    range: str
    best: str
    use: str


def known_facts() -> Mapping[str, Facts]:
    """The facts by the name of the metric's function."""
    return {name: Facts(**each) for name, each in _file().items() if name != "symbols"}


def symbols() -> str:
    """What the letters in the formulas stand for."""
    return str(_file()["symbols"])


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("facts.toml").read_text(encoding="utf-8"))


Function = TypeVar("Function", bound=Callable[..., Any])

Scale = Literal["signed", "nonnegative", "unit"]
"""Maps that a metric is defined for: any, those of at least 0, or those in [0, 1]."""
Unit = Literal["output change", "local gradient", "order", "place"]
"""What the values of a map mean to a metric: by how much a pixel changes the output, the derivative of
the output, nothing but an order of pixels, or where something is (masks)."""
Ties = Literal["expected", "reading order"]
"""What a metric makes of equal values: the same wherever they lie, or it takes them as one reads."""
NeighborsUse = Literal["none", "patches", "imputation"]
"""What a metric uses neighboring pixels for: nothing, sums over patches, or values in place of removed
pixels. With the last its replacement depends on the image, so that no exact map is known."""
Invariance = Literal["scale", "shift", "sign", "added", "missing", "exchange"]
"""Changes of a map that a metric cannot see: a positive factor, a constant, lost signs, attribution
where nothing is, attribution that is left out; and which of two maps is which."""
Takes = Literal["logits", "probabilities"]
"""What the outputs of the model are that a metric is handed: before a softmax, or behind it."""
Varied = Literal["weights", "target", "image"]
"""What a metric that judges a method changes between the maps that it compares."""

DECLARED: dict[str, Any] = {
    "unit": None,
    "sampled": False,
    "ties": "expected",
    "invariances": (),
    "neighbors": "none",
    "rising": False,
    "takes": None,
    "varies": None,
    "unchanged": None,
}
"""What a metric may declare, and what holds for one that does not."""
WORDS: dict[str, tuple[Any, ...]] = {
    "maps": get_args(Scale),
    "unit": (None, *get_args(Unit)),
    "ties": get_args(Ties),
    "neighbors": get_args(NeighborsUse),
    "takes": (None, *get_args(Takes)),
    "varies": (None, *get_args(Varied)),
}


def metric(
    *,
    higher_is_better: bool,
    per_sample: bool,
    maps: Scale = "signed",
    unit: Unit | None = None,
    sampled: bool = False,
    ties: Ties = "expected",
    invariances: tuple[Invariance, ...] = (),
    neighbors: NeighborsUse = "none",
    rising: bool = False,
    takes: Takes | None = None,
    varies: Varied | None = None,
    unchanged: float | None = None,
) -> Callable[[Function], Function]:
    """Declare a metric's direction, what it scores, for which maps, and what it cannot see.

    The function gets attributes of these names; nothing else changes. `al.check_metric` checks a metric
    against its declarations, and skips checks that a declaration settles.

    Parameters
    ----------
    higher_is_better : bool
        If not, lower scores are better.
    per_sample : bool
        Whether it scores each sample of a batch; otherwise the data set as a whole.
    maps : {"signed", "nonnegative", "unit"}
        The maps for which it is defined: any, those of at least 0, or those in [0, 1]. `al.metric_test`
        passes the positive values of a map to the last two, scaled to a maximum of 1 to the last.
    unit : {"output change", "local gradient", "order", "place"}, optional
        What the values of a map mean, and so which map is exact for a linear model with the weights w
        and the replacement b: w (x - b), w, w (x - b) up to its order, or the signs of w (x - b).
    sampled : bool
        Whether it draws random subsets: all scores except that of the exact map then depend on the
        numbering of pixels and on the position in the batch.
    ties : {"expected", "reading order"}
        How it treats equal values: independently of their positions, or in reading order.
    invariances : tuple of {"scale", "shift", "sign", "added", "missing", "exchange"}
        Changes of a map that it cannot see, see `Invariance`. A metric of the order sees neither scale
        nor shift.
    neighbors : {"none", "patches", "imputation"}
        What it uses neighboring pixels for, see `NeighborsUse`.
    rising : bool
        Whether it is defined only if the output rises from the replacement to the image.
    takes : {"logits", "probabilities"}, optional
        The outputs of the model that it receives; by default the explained ones. A metric that applies
        a softmax itself takes logits.
    varies : {"weights", "target", "image"}, optional
        For a metric that judges a method (it takes `attribute`): what it changes between the maps that
        it compares.
    unchanged : float, optional
        Its score for a method whose maps do not change, or for two equal maps: 1 for a correlation, 0
        for a distance.

    Raises
    ------
    AttributionLabError
        For other values.
    """
    stated = {
        "higher_is_better": higher_is_better,
        "per_sample": per_sample,
        "maps": maps,
        "unit": unit,
        "sampled": sampled,
        "ties": ties,
        "invariances": invariances,
        "neighbors": neighbors,
        "rising": rising,
        "takes": takes,
        "varies": varies,
        "unchanged": unchanged,
    }
    refuse_if(marking_problems(**stated))

    def mark(function: Function) -> Function:
        for name, value in stated.items():
            setattr(function, name, value)
        return function

    return mark


def marking_problems(**stated: Any) -> list[str]:
    """What is wrong with the attributes that a metric states, each by its name."""
    problems = []
    for name, value in stated.items():
        if name == "invariances":
            known = get_args(Invariance)
            if not isinstance(value, tuple) or any(each not in known for each in value):
                words = ", ".join(map(repr, known))
                problems.append(f"{name} is {value!r}: take a tuple of {words}")
            continue
        if name == "unchanged":
            problems += [] if value is None else number_problem(name, value)
            continue
        allowed = WORDS.get(name, (True, False))
        # By type, too: 1 equals True, and an array equals nothing as a whole.
        if not any(type(value) is type(each) and value == each for each in allowed):
            problems.append(f"{name} is {value!r}: take {' or '.join(map(repr, allowed))}")
    return problems
