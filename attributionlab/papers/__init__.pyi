from .catalog import Reproduction as Reproduction
from .catalog import items as items
from .catalog import reproduce as reproduce
from .everything import reproduce_all as reproduce_all
