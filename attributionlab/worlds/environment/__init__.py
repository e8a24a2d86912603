"""An environment: one hand-weighted network, one generator of images, and their truth."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
