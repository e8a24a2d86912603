"""Camouflage: networks of equal function whose weights do not look hand-made; and equivalent
implementations: networks of equal answers with other gradients.
"""

from attributionlab.worlds.nets.camouflage.camouflaging import MOVES, camouflaged
from attributionlab.worlds.nets.camouflage.equivalents import EQUIVALENT, equivalent, equivalents_of

__all__ = ["EQUIVALENT", "MOVES", "camouflaged", "equivalent", "equivalents_of"]
