"""What a path integral answers, and how far to trust it."""

from typing import Literal, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

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
        Estimate of the Euclidean norm of the error of an image's attributions, which no single one
        exceeds, and never less than the residual. On the route exact what rounding leaves, on the
        route adaptive what the quadrature leaves, on the route secant the distance from what a
        quarter as many panels give (infinite for fewer than four).
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
