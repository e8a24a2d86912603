"""What a method declares about itself beside its signature."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray
from torch import Tensor


class Attributing(Protocol):
    """An object that attributes, as those of Captum do."""

    @property
    def attribute(self) -> Callable[..., Any]:
        """Inputs, and targets by name -> attributions."""


Maps = Tensor | NDArray[Any]

AttributionMethod = (
    str
    | Attributing
    | Callable[..., Attributing]
    | Callable[..., Maps]
    | Maps
    | Mapping[str, Tensor]
    | Mapping[str, NDArray[Any]]
)
"""What can be tested: a name; a Captum instance or class; ``f(model, inputs, targets, **settings)``;
attributions, or those of each environment."""

Function = TypeVar("Function", bound=Callable[..., Any])


def declares(
    *,
    claim: str | None = None,
    output: str | None = None,
    gradient: bool = False,
    resolution: str | None = None,
    distribution: bool = False,
    runs: int = 1,
) -> Callable[[Function], Function]:
    """State what a method claims to find, and which output it explains where it cannot explain all.

    Parameters
    ----------
    claim : {"signed", "overall", "positive", "positive-smoothed"}, optional
        What it is judged by unless the user asks for something else.
    output : {"probability", "logit"}, optional
        What it explains unless the user asks for something else.
    gradient : bool
        Whether it is the gradient at the input itself, which is a convention on a ReLU's kink.
    resolution : {"gradcam", "iba"}, optional
        The environment's layer whose maps it enlarges, unless told of another one by `layer`.
    distribution : bool
        Whether four-dimensional `baselines` are several for all images, rather than one for each.
    runs : int
        How many runs there are, whose lowest and highest numbers stand beside those of the first. More
        than one for a method that optimizes: it amplifies rounding, so one seed gives other numbers on
        other machines. Runs differ by their seeds; a method that draws nothing takes `nudge`, which is
        0 for the first run.
    """

    def mark(function: Function) -> Function:
        function.claim = claim  # type: ignore[attr-defined]
        function.output = output  # type: ignore[attr-defined]
        function.gradient = gradient  # type: ignore[attr-defined]
        function.resolution = resolution  # type: ignore[attr-defined]
        function.distribution = distribution  # type: ignore[attr-defined]
        function.runs = runs  # type: ignore[attr-defined]
        return function

    return mark
