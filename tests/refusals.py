"""What a call with a wrong value says: tables of refusals, one for each wing."""

import pytest

from attributionlab.base import AttributionLabError


def refused(function, good, wrong, said):
    """A call with good arguments but for the wrong ones is refused in one line that holds all parts of
    a text between " ... ".
    """
    with pytest.raises(AttributionLabError) as refusal:
        function(**{**good, **wrong})
    message = str(refusal.value)
    assert "\n" not in message
    assert not [part for part in said.split(" ... ") if part not in message], message
