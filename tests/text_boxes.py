"""Where a figure has text, as it is drawn: no two texts may share pixels, none may be cut off."""

from itertools import combinations
from unittest.mock import patch

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

TOUCHING = 1.0
"""Pixels that boxes may share: they are rounded up, and have room below the line for letters like g."""


def drawn_texts(figure):
    """(text, box in pixels) of each text that is really drawn."""
    found, draw = [], Text.draw

    def record(self, renderer, *args, **kwargs):
        draw(self, renderer, *args, **kwargs)
        if self.get_visible() and self.get_text().strip():
            found.append((self.get_text(), self.get_window_extent(renderer)))

    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # the layout settles
    with patch.object(Text, "draw", record):
        canvas.draw()
    return found


def faults(figure):
    """Pairs of texts that overlap, and texts that leave the figure."""
    texts = drawn_texts(figure)
    assert texts
    overlapping = [
        (one, other)
        for (one, a), (other, b) in combinations(texts, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > TOUCHING
        and min(a.y1, b.y1) - max(a.y0, b.y0) > TOUCHING
    ]
    whole = figure.bbox
    cut = [
        (text, "cut")
        for text, box in texts
        if box.x0 < whole.x0 - TOUCHING
        or box.y0 < whole.y0 - TOUCHING
        or box.x1 > whole.x1 + TOUCHING
        or box.y1 > whole.y1 + TOUCHING
    ]
    return overlapping + cut
