"""Long work: cells, the store that keeps them, and data that lie on this machine."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
