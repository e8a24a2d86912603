"""A leaderboard of methods: rankings of many cases made one, and held against the truth."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
