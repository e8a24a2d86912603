"""An environment: one hand-weighted network, one generator of images, and their truth."""

from attributionlab.environment.environment import Environment

__all__ = ["Environment"]
