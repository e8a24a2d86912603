"""The course: questions that show their answer only after a prediction.

In `notebooks/` the line to edit is ``prediction = None``, alone in its cell with the question and
`predict`; whoever runs a notebook without a student replaces None by "skip".
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
