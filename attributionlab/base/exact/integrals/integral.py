"""Integrated gradients to machine precision.

Adaptive quadrature of gradients along the path, for networks of which nothing is known.
"""

import copy
import heapq
import math
from collections.abc import Callable
from itertools import count
from typing import Annotated, Literal, NamedTuple

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor, nn

from attributionlab.base.arguments import Count, Positive, Within, checked_arguments
from attributionlab.base.errors import AttributionLabError
from attributionlab.base.exact.chain import ROUNDING, Chain, chain_of
from attributionlab.base.exact.integrals.segments import (
    FINEST,
    Effort,
    TooManyKinksError,
    integrate_chain,
)
from attributionlab.base.models import outputs_in
from attributionlab.base.passes import uncompiled
from attributionlab.base.validation import (
    broadcast_to_images,
    checked_outputs,
    checked_targets,
)

_POSITIVE = (
    (0.991455371120812639206854697526329, 0.022935322010529224963732008058970, 0.0),
    (0.949107912342758524526189684047851, 0.063092092629978553290700663189204, 0.12948496616886969),
    (0.864864423359769072789712788640926, 0.104790010322250183839876322541518, 0.0),
    (0.741531185599394439863864773280788, 0.140653259715525918745189590510238, 0.27970539148927667),
    (0.586087235467691130294144691693013, 0.169004726639267902826583426598550, 0.0),
    (0.405845151377397166906606412076961, 0.190350578064785409913256402421014, 0.38183005050511894),
    (0.207784955007898467600689403773245, 0.204432940075298892414161999234649, 0.0),
)
_MIDDLE = (0.0, 0.209482141084727828012999174891714, 0.41795918367346939)
_RULE = [(-x, k, g) for x, k, g in _POSITIVE] + [_MIDDLE] + list(reversed(_POSITIVE))
NODES, KRONROD, GAUSS = (list(column) for column in zip(*_RULE, strict=True))
"""Kronrod's 15 nodes on [-1, 1], their weights, and Gauss's for 7 of these nodes (0 elsewhere)."""
NARROWEST = 2.0**-45
"""Panels are not halved below this: their nodes would hardly differ."""

Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]


class Quadrature(NamedTuple):
    """The integral, its estimated error in the Euclidean norm, and how many panels it took."""

    attributions: Float[Tensor, "channels height width"]
    error: float
    panels: int


class _Panel(NamedTuple):
    integral: Tensor
    error: float
    left: float
    right: float
    ends: tuple[Tensor, Tensor, Tensor]  # the function at its left end, middle and right end


def integrate_gradients(
    evaluate: Evaluate, ends: tuple[Tensor, Tensor], tolerance: float, max_evaluations: int
) -> Quadrature:
    """Halve the panel with the largest error until all errors together are small enough.

    A panel's error is the larger of two: the distance between Kronrod's and Gauss's rule, and how far
    its attributions are from summing to the change of the function over it. The second finds steps
    that fall between all nodes; the values it needs are known from the nodes in the middle.

    - `evaluate`: points (n,) of the path -> the function (n,) and the attribution densities (n, C, H,
      W) there.
    - `ends`: the function at 0 and at 1.
    - `tolerance`: largest error to be content with.
    - `max_evaluations`: how many gradients to compute at most, 15 for each panel, though never fewer
      than 15.
    """

    def integrate(left: float, right: float, first: Tensor, last: Tensor) -> _Panel:
        nodes = torch.tensor(NODES, dtype=first.dtype, device=first.device)
        half = (right - left) / 2
        values, densities = evaluate(left + half + half * nodes)
        kronrod, gauss = (
            torch.tensordot(nodes.new_tensor(rule) * half, densities, 1)
            for rule in (KRONROD, GAUSS)
        )
        missing = float((kronrod.sum() - (last - first)).abs())
        error = max(float((kronrod - gauss).norm()), missing)
        return _Panel(kronrod, error, left, right, (first, values[len(NODES) // 2], last))

    order = count()  # panels of equal error come in the order in which they were made
    whole = integrate(0.0, 1.0, *ends)
    waiting = [(-whole.error, next(order), whole)]
    finished: list[_Panel] = []
    evaluations = len(NODES)
    while waiting and evaluations + 2 * len(NODES) <= max_evaluations:
        if sum(entry[2].error for entry in waiting) <= tolerance:
            break  # halving does not help those that are finished
        *_, widest = heapq.heappop(waiting)
        if widest.right - widest.left <= NARROWEST:
            finished.append(widest)
            continue
        middle = (widest.left + widest.right) / 2
        first, between, last = widest.ends
        for half in (
            integrate(widest.left, middle, first, between),
            integrate(middle, widest.right, between, last),
        ):
            heapq.heappush(waiting, (-half.error, next(order), half))
        evaluations += 2 * len(NODES)
    panels = [*finished, *(entry[2] for entry in waiting)]
    integral = torch.stack([panel.integral for panel in panels]).sum(0)
    return Quadrature(integral, sum(panel.error for panel in panels), len(panels))


PIXELS_AT_ONCE = 2 * 224**2
"""Two images of the catalog's size: a gradient keeps the values of all layers, some 250 MiB each."""


class DoubleCopy:
    """A deep copy of a model in float64; float64 holds every float32 weight exactly."""

    def __init__(self, model: nn.Module) -> None:
        try:
            self.model = copy.deepcopy(model).double().requires_grad_(False)
        except Exception as error:
            raise AttributionLabError(
                f"{type(model).__name__} cannot be copied in float64 ({_first_line(error)}): pass a "
                "module that copy.deepcopy and .double() accept"
            ) from error

    def outputs(self, images: Tensor, target: int) -> Tensor:
        """The target's output (B,) for images (B, C, H, W)."""
        with torch.no_grad():
            outputs = self._run(images)
        if not -1 < target < outputs.shape[1]:
            raise AttributionLabError(
                f"target {target} does not exist: the model has the outputs 0 to "
                f"{outputs.shape[1] - 1}"
            )
        chosen = outputs[:, target]
        if not chosen.isfinite().all():
            raise AttributionLabError(
                f"output {target} is {chosen.tolist()} at the baseline and the input: the path "
                "integral is undefined; pass a model that is finite at both"
            )
        return chosen

    def along(
        self, start: Tensor, end: Tensor, target: int
    ) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """From points of the path to the target's output and the gradient times the whole step."""
        at_once = max(1, PIXELS_AT_ONCE // start[0].numel())

        def evaluate(points: Tensor) -> tuple[Tensor, Tensor]:
            values, densities = [], []
            for some in torch.split(points, at_once):
                images = torch.lerp(start, end, some[:, None, None, None]).requires_grad_()
                with torch.enable_grad():
                    output = self._run(images)[:, target]
                    densities.append(self._gradient(output, images) * (end - start))
                values.append(output.detach())
            return torch.cat(values), torch.cat(densities)

        return evaluate

    def _run(self, images: Tensor) -> Tensor:
        try:
            with uncompiled(self.model):  # compiled anew, it would not be that of the images' type
                outputs = outputs_in(self.model(images.clone()))
        except AttributionLabError:
            raise
        except Exception as error:
            raise AttributionLabError(
                f"{type(self.model).__name__} fails on float64 images of shape "
                f"{tuple(images.shape)} ({_first_line(error)}): pass a model that runs in float64, "
                "and inputs of the shape and on the device that it takes"
            ) from error
        rows = checked_outputs(outputs, len(images))
        if rows.dtype != torch.float64:
            raise AttributionLabError(
                f"{type(self.model).__name__} returns {rows.dtype} for float64 images: pass a model "
                "that computes in the type of its images"
            )
        return rows

    def _gradient(self, output: Tensor, images: Tensor) -> Tensor:
        try:
            (gradient,) = torch.autograd.grad(output.sum(), images)
        except RuntimeError as error:
            raise AttributionLabError(
                f"{type(self.model).__name__} has no gradient ({_first_line(error)}): pass a model "
                f"that is differentiable in its inputs"
            ) from error
        return gradient


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


Route = Literal["exact", "secant", "adaptive"]


class PathIntegral(NamedTuple):
    """Integrated gradients of a batch of images. Made by `path_integral`.

    Attributes
    ----------
    attributions : Tensor of float64, (B, C, H, W)
        In units of the output.
    residual : Tensor of float64, (B,)
        Sum of an image's attributions minus f(x) - f(b), with its sign; the model itself gives f. It
        tells how good a quadrature is on the route adaptive only: on the others rounding alone
        contributes, however many kinks were merged.
    error : Tensor of float64, (B,)
        Estimate of the Euclidean norm of the error of an image's attributions, which bounds that of
        each single one, and at least the residual. On the route exact the rounding error, on the route
        adaptive the error of the quadrature, on the route secant the difference from the result with a
        quarter of the panels (infinite for fewer than four).
    panels : Tensor of int64, (B,)
        Pieces of the path that were integrated one by one.
    routes : tuple of {"exact", "secant", "adaptive"}
        Of each image: every kink of the network found; kinks too close to each other merged; a
        quadrature that knows nothing of the network.
    """

    attributions: Float[Tensor, "batch channels height width"]
    residual: Float[Tensor, " batch"]
    error: Float[Tensor, " batch"]
    panels: Int[Tensor, " batch"]
    routes: tuple[Route, ...]


def _path(
    inputs: Tensor, baselines: Tensor
) -> tuple[
    Float[Tensor, "batch channels height width"], Float[Tensor, "batch channels height width"]
]:
    """Where the paths of all images start and end, in float64."""
    starts = broadcast_to_images(baselines, inputs, name="baselines", images_name="inputs")
    path = starts.detach().double().contiguous(), inputs.detach().double().contiguous()
    for name, values in zip(("baselines", "inputs"), path, strict=True):
        if not values.isfinite().all():
            where = tuple(int(i) for i in (~values.isfinite()).nonzero()[0])
            raise AttributionLabError(
                f"{name} have the value {float(values[where])} at {where}: pass finite numbers"
            )
    return path


COARSER = 2.0**4
"""By how much the gap between kinks grows while there are too many of them."""
MARGIN = 16.0
"""Rounding is taken to leave so many units in the last place of an image's norm for each layer.

Twice what it leaves on 1000 random networks at most, unless attributions cancel and the residual tells
(`test_rounding_leaves_half_the_margin_or_shows_in_the_residual`, marked slow).
"""
FEWER = 4
"""The error left by merged kinks is estimated by the distance from a quarter as many panels."""


@checked_arguments
def path_integral(
    model: nn.Module,
    inputs: Real[Tensor, "batch channels height width"],
    baselines: Real[Tensor, "..."],
    targets: Int[Tensor, " batch"],
    *,
    tolerance: Positive = 1e-9,
    max_panels: Count = 10_000,
    max_evaluations: Annotated[int, Within(least=15)] = 3000,
) -> PathIntegral:
    r"""Integrated gradients without the error of a quadrature, in float64.

    .. math:: a_j = (x_j - b_j) \int_0^1 \partial_j f_t(b + s (x - b)) \, ds

    The path is the straight line in pixel space (for a color image in RGB) from the baseline b to
    the input x. Where every ReLU's sign is known along it, f is integrated piece by piece in closed
    form. That serves chains of `nn.Conv2d`, `nn.Linear`, `nn.ReLU` and `nn.Flatten`, nested in
    `nn.Sequential`, with at most one `nn.Softmax(dim=1)` at the end: routes "exact", or "secant" if the
    network has more kinks along the path than `max_panels`. Any other model is integrated by adaptive
    quadrature: route "adaptive".

    ReLU'(0) = 0, as in PyTorch. What a network does on a kink that the path runs along, not through,
    is a matter of this convention.

    Source: Sundararajan et al., 2017. The cost is one forward and backward pass through each layer for
    each point that the kinks of the layers before it require; there is no number of passes to choose.
    The first layers, as long as they treat each pixel separately, are evaluated only for distinct pairs
    of pixel and baseline.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K). It is not changed: copies of its weights in float64 are used.
    inputs : Tensor, (B, C, H, W)
        Images x.
    baselines : Tensor
        b: of the inputs' shape, or one that broadcasts to it, such as a pixel (C, 1, 1).
    targets : Tensor of integers, (B,)
        The output to explain in each image.
    tolerance : float
        On the route "adaptive", the acceptable error in units of the output.
    max_panels : int
        Largest number of pieces of the path on the routes "exact" and "secant".
    max_evaluations : int
        Largest number of gradients for each image on the route "adaptive", at least 15.

    Returns
    -------
    PathIntegral
        Attributions with their residual, estimated error, number of panels and route.

    Raises
    ------
    AttributionLabError
        For shapes, targets and numbers that do not fit, and for models that do not run or have no
        gradient in float64.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.base.exact import path_integral
    >>> model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Flatten())
    >>> result = path_integral(
    ...     model, torch.tensor([[[[3.0]]]]), torch.tensor(-1.0), torch.tensor([0])
    ... )
    >>> result.attributions.shape, result.attributions.item(), result.routes
    (torch.Size([1, 1, 1, 1]), 3.0, ('exact',))
    """
    starts, ends = _path(inputs, baselines)
    classes = checked_targets(targets, len(ends))
    double, chain = DoubleCopy(model), chain_of(model)
    maps, numbers = [], []
    for start, end, target in zip(starts, ends, classes, strict=True):
        first, last = double.outputs(torch.stack([start, end]), target)
        route: Route
        if chain is None:
            evaluate = double.along(start, end, target)
            attributions, error, panels = integrate_gradients(
                evaluate, (first, last), tolerance, max_evaluations
            )
            route = "adaptive"
        else:
            attributions, error, panels, route = _piece_by_piece(
                chain, start, end, target, max_panels
            )
        residual = float(attributions.sum() - (last - first))
        maps.append(attributions)
        numbers.append((residual, max(error, abs(residual)), panels, route))
    residuals, errors, counts, routes = zip(*numbers, strict=True)
    return PathIntegral(
        torch.stack(maps),
        ends.new_tensor(residuals),
        ends.new_tensor(errors),
        torch.tensor(counts, device=ends.device),
        routes,
    )


def _piece_by_piece(
    chain: Chain, start: Tensor, end: Tensor, target: int, most: int
) -> tuple[Tensor, float, int, Route]:
    """All kinks, or as fine a selection of them as there may be panels."""
    gap = FINEST
    while (found := _attempt(chain, start, end, target, Effort(gap, most))) is None:
        gap *= COARSER
    attributions, panels = found
    if gap == FINEST:
        error = MARGIN * ROUNDING * len(chain.layers) * float(attributions.norm())
        return attributions, error, panels, "exact"
    if panels < FEWER:
        return attributions, math.inf, panels, "secant"
    while (coarse := _attempt(chain, start, end, target, Effort(gap, panels // FEWER))) is None:
        gap *= 2
    return attributions, float((attributions - coarse[0]).norm()), panels, "secant"


def _attempt(
    chain: Chain, start: Tensor, end: Tensor, target: int, effort: Effort
) -> tuple[Tensor, int] | None:
    """Attributions and number of panels, or None if that takes more panels than it may."""
    try:
        return integrate_chain(chain, start, end, target, effort), effort.panels
    except TooManyKinksError:
        return None
