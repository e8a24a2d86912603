"""The face of a namespace that users know: public names, and those for the other wings alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lazy_loader

MARK = "# For the other wings alone."
"""The line of a stub below which names are not public."""


def public_face(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose stub has `MARK`.

    All names of the stub load when first used. `__dir__` and `__all__` have those above the mark.
    """
    load, _, names = lazy_loader.attach_stub(package, file)
    inner = Path(file).with_suffix(".pyi").read_text(encoding="utf-8").partition(MARK)[2]
    hidden = {line.split(" as ")[-1] for line in inner.splitlines()}
    public = [name for name in names if name not in hidden]
    return load, public.copy, public
