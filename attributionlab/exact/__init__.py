"""Attributions and evaluations without approximation."""

from attributionlab.exact.integral import path_integral
from attributionlab.exact.replacement import Route, route_of, trajectories, trajectory
from attributionlab.exact.result import PathIntegral

__all__ = ["PathIntegral", "Route", "path_integral", "route_of", "trajectories", "trajectory"]
