"""What others build on stays as it is, or is changed on purpose."""

import difflib

from surface import GOLDEN, surface


def test_the_public_surface_is_what_is_written_down():
    """After a change on purpose: `python tests/surface.py`, and a line in CHANGELOG.md."""
    kept, found = GOLDEN.read_text(encoding="utf-8").splitlines(), surface().splitlines()
    changed = [line for line in difflib.ndiff(kept, found) if line[0] in "+-"]
    assert changed == []
