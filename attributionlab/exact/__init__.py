"""Attributions and evaluations without approximation."""

from attributionlab.exact.integral import path_integral
from attributionlab.exact.result import PathIntegral

__all__ = ["PathIntegral", "path_integral"]
