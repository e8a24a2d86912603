"""Images in which every pixel is known: patch shapes, layouts, generators.

The three generators in `GENERATORS` turn constants into a `Recipe`; `draw` turns a recipe, a seed
and an index into an image and the label map of its patches.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
