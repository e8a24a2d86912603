"""Tables and figures of the papers, repeated."""

from attributionlab.experiments.registry import EXPERIMENTS, PAPERS, experiment
from attributionlab.experiments.reproduction import Reproduction

__all__ = ["EXPERIMENTS", "PAPERS", "Reproduction", "experiment"]
