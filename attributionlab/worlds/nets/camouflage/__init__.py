"""Camouflage: networks of equal function whose weights do not look hand-made; and forms: networks of
equal answers with other derivatives.
"""

from attributionlab.worlds.nets.camouflage.camouflaging import MOVES, camouflaged
from attributionlab.worlds.nets.camouflage.forms import FORMS, equivalent, forms_of

__all__ = ["FORMS", "MOVES", "camouflaged", "equivalent", "forms_of"]
