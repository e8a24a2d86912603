"""Small environments that most of these tests ask."""

import pytest

import attributionlab as al


@pytest.fixture(scope="session")
def colors():
    return al.load("multi-color-sum", image_size=24)


@pytest.fixture(scope="session")
def modulo():
    return al.load("single-color-modulo", image_size=24)
