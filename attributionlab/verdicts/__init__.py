"""What is concluded: the test of methods, the test of metrics, rankings and diagnoses."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
