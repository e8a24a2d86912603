"""What a call with a wrong value says: tables of refusals, one for each wing."""

import pytest

from attributionlab.base import AttributionLabError


def refused(function, good, wrong, said):
    """A call with good arguments but for the wrong ones is refused in one line that holds the parts of
    a text between " ... ", in this order.
    """
    with pytest.raises(AttributionLabError) as refusal:
        function(**{**good, **wrong})
    message = str(refusal.value)
    assert "\n" not in message
    place = 0
    for part in said.split(" ... "):
        assert part in message[place:], message
        place = message.index(part, place) + len(part)
