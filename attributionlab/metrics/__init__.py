"""Metrics: plain functions that score attributions."""

from attributionlab.base import public_face

__getattr__, __dir__, __all__ = public_face(__name__, __file__)
