"""The public names and where each is defined; loaded from here when first used."""

from . import exact as exact
from . import images as images
from . import imputation as imputation
from . import methods as methods
from . import metrics as metrics
from . import nets as nets
from . import ranking as ranking
from . import segmentation as segmentation
from . import truth as truth
from .device import exact_arithmetic as exact_arithmetic
from .environment import Environment as Environment
from .environment.catalog import load as load
from .environment.environment import Sample as Sample
from .environment.files import environments as environments
from .environment.questions import Question as Question
from .environment.questions import Questions as Questions
from .environment.worlds import world as world
from .errors import AttributionLabError as AttributionLabError
from .errors import AttributionLabWarning as AttributionLabWarning
from .errors import AttributionWarning as AttributionWarning
from .errors import GuardWarning as GuardWarning
from .exams import RandomWorlds as RandomWorlds
from .exams import WorldsReport as WorldsReport
from .exams import random_worlds as random_worlds
from .exams import worlds_test as worlds_test
from .exchange.export import export_environment as export_environment
from .exchange.score import score_export as score_export
from .faithfulness.calls import attribute as attribute
from .faithfulness.comparing import compare as compare
from .faithfulness.comparison import Comparison as Comparison
from .faithfulness.report import FaithfulnessReport as FaithfulnessReport
from .faithfulness.test import faithfulness_test as faithfulness_test
from .leaderboard import Leaderboard as Leaderboard
from .leaderboard import rank_methods as rank_methods
from .metric_kit.report import KitReport as KitReport
from .metric_kit.run import check_metric as check_metric
from .metric_trials.report import MetricReport as MetricReport
from .metric_trials.run import metric_test as metric_test
from .sweep.run import Sweep as Sweep
from .sweep.run import merge_sweeps as merge_sweeps
from .sweep.run import run_sweep as run_sweep
from .truth import Truth as Truth
from .verification import Certificate as Certificate
from .verification import verify as verify

__version__: str
