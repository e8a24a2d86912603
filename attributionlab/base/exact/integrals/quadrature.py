"""Adaptive quadrature of gradients along the path, for networks of which nothing is known."""

import heapq
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

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
