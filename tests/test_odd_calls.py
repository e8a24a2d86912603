"""Public functions called with one argument that is odd: each returns, or refuses it in one line."""

import pytest

from good_calls import FACES, arguments
from odd_calls import NETWORKS, ODD, odd_calls, parameters, taken_or_refused

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("without_shape_checks")]

CALLS = 25
"""Of each function, drawn from all pairs of a parameter and an odd value."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("face", FACES)
def test_an_odd_argument_is_taken_or_refused_in_one_line(face):
    function = FACES[face]
    names, needed = parameters(function)
    function(**arguments(face, names, needed))
    for name, odd in odd_calls(face, names, CALLS):
        given = {**arguments(face, names, needed), name: (ODD | NETWORKS)[odd]}
        taken_or_refused(function, given, f"{name} is {odd}")
