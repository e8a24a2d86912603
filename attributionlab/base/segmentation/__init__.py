"""Which pixels belong together: what LIME and its kin take for their features."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
