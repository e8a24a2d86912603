from .integrals.integral import PathIntegral as PathIntegral
from .integrals.integral import path_integral as path_integral
from .stepwise.replacement import Route as Route
from .stepwise.replacement import route_of as route_of
from .stepwise.replacement import single_replacements as single_replacements
from .stepwise.replacement import trajectories as trajectories
from .stepwise.replacement import trajectory as trajectory
