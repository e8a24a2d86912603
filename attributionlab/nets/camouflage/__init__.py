"""Camouflage: networks of equal function whose weights do not look hand-made."""

from attributionlab.nets.camouflage.camouflaging import MOVES, camouflaged

__all__ = ["MOVES", "camouflaged"]
