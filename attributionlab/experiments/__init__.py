"""Tables and figures of the papers, repeated."""

from attributionlab.experiments.registry import EXPERIMENTS, experiment
from attributionlab.experiments.reproduction import Reproduction

__all__ = ["EXPERIMENTS", "Reproduction", "experiment"]
