"""A sealed laboratory that all tests share: making one takes seconds."""

import numpy as np
import pytest

from attributionlab.sealed.laboratory import open_sealed
from sealed_cases import sealed


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory):
    """Its files, its answers, and the truth of its maps."""
    made = sealed(tmp_path_factory.mktemp("sealed"))
    made.truths = open_sealed(made.lab, made.key)
    made.signed = made.truths.signed.numpy().astype(np.float64)
    return made
