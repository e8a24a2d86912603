"""What every wing uses: errors, checks of settings, files, progress, devices, statistics, and how a network is run."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
