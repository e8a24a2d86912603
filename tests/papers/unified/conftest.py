"""What the tests of the paper's items share."""

import pytest

from attributionlab.papers.catalog import CLAIMS


@pytest.fixture(scope="session")
def answers():
    """Whether an item's claims, in their order, agree with tables."""

    def held(item, tables):
        return [each.holds(tables) for each in CLAIMS if item in each.items]

    return held
