"""Sealed laboratories that tests share: making one takes seconds."""

import numpy as np
import pytest

from attributionlab.teaching.sealed.laboratory import open_sealed
from sealed_cases import sealed


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory):
    """Its files, its answers, and the truth of its maps."""
    return opened(sealed(tmp_path_factory.mktemp("sealed")))


@pytest.fixture(scope="session")
def hard_laboratory(tmp_path_factory):
    """One with drawn places, two colors a role, and borders that nobody is told."""
    return opened(sealed(tmp_path_factory.mktemp("hard"), bytes([2] * 16), difficulty="hard"))


def opened(made):
    """With what submissions are held against."""
    made.truths = open_sealed(made.lab, made.key)
    made.signed = made.truths.signed.numpy().astype(np.float64)
    return made
