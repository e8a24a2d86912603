from .cases import PAIRS as PAIRS
from .cases import PROTOCOLS as PROTOCOLS
from .cases import CaseScores as CaseScores
from .cases import Pair as Pair
from .report import Leaderboard as Leaderboard
from .study import DEFAULT_METHODS as DEFAULT_METHODS
from .study import PAPER_METHODS as PAPER_METHODS
from .study import rank_methods as rank_methods
