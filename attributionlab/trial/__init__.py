"""One method in one environment: what is asked, the run that answers, and how the answer is judged."""

from attributionlab.trial.judgment import judge
from attributionlab.trial.question import Claim, Trial, chosen_outputs
from attributionlab.trial.run import Outcome, carry_out

__all__ = ["Claim", "Outcome", "Trial", "carry_out", "chosen_outputs", "judge"]
