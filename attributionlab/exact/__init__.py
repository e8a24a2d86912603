"""Attributions and evaluations without approximation."""

from attributionlab.exact.integrals.integral import path_integral
from attributionlab.exact.integrals.result import PathIntegral
from attributionlab.exact.stepwise.replacement import Route, route_of, trajectories, trajectory
from attributionlab.exact.stepwise.single import single_replacements

__all__ = [
    "PathIntegral",
    "Route",
    "path_integral",
    "route_of",
    "single_replacements",
    "trajectories",
    "trajectory",
]
