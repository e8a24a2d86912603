"""Every figure that a test of an item draws has labels that can be read."""

import pytest
from matplotlib.figure import Figure

from attributionlab.show import figures, plots
from text_boxes import faults


@pytest.fixture(scope="session", autouse=True)
def drawn():
    """Figures of items, in the order in which they were made."""
    made = []

    class Recorded(Figure):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        for module in (figures, plots):
            patch.setattr(module, "Figure", Recorded)
        yield made


@pytest.fixture(autouse=True)
def labels_of_figures_do_not_overlap(drawn):
    yield
    new = drawn[:]
    drawn.clear()
    assert not [each for figure in new for each in faults(figure)]
