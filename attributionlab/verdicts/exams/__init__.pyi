from .drawing import DIFFICULTIES as DIFFICULTIES
from .drawing import FEATURES as FEATURES
from .metric import MetricWorldsReport as MetricWorldsReport
from .metric import metric_worlds_test as metric_worlds_test
from .test import WorldsReport as WorldsReport
from .test import worlds_test as worlds_test
from .worlds import RandomWorlds as RandomWorlds
from .worlds import random_worlds as random_worlds
