"""What a call with a wrong value says: tables of refusals, one for each wing."""

import pytest

from attributionlab.base import AttributionLabError


def refusal_of(function, *arguments, **names):
    """What a call is refused with, in one line."""
    with pytest.raises(AttributionLabError) as refusal:
        function(*arguments, **names)
    message = str(refusal.value)
    assert "\n" not in message
    assert len(message) < 1000
    return message


def refused(function, good, wrong, said):
    """A call with good arguments but for the wrong ones is refused with all parts of a text between
    " ... ".
    """
    message = refusal_of(function, **{**good, **wrong})
    assert not [part for part in said.split(" ... ") if part not in message], message
