"""Imports rich without drawing from Python's global random numbers, which rich does once.

Whatever imports rich imports this module before: a user's next random number must not depend on
whether a table or a bar has been shown.
"""

import random

_before = random.getstate()
import rich.style  # noqa: E402, F401 (between the two)

random.setstate(_before)
