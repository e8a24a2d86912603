"""A laboratory for feature attribution in which the right answer is known for every pixel.

Public names are loaded when they are first used, so that importing the package costs nothing.
"""

import lazy_loader

__version__ = "1.0.0"

# The public names stand in __init__.pyi, for type checkers too.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
