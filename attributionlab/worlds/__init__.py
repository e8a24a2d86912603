"""Worlds in which the truth is known: networks, images, rules, truths, environments."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
