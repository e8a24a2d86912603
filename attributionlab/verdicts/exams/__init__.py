"""Exams: random worlds that no method has seen, and what a method or a metric makes of them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
