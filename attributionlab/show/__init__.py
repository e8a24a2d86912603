"""Results as people see them: terminal tables, figures and HTML pages."""

import lazy_loader

from attributionlab.base import rich_import  # noqa: F401 (before any of its modules imports rich)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
