"""Messages show long values by their beginning, and nothing in them moves a cursor."""

import pytest

from attributionlab.base import AttributionLabError, nearest, printable


@pytest.mark.parametrize(
    "value",
    [
        repr("x" * 10_000),
        repr("two words, " * 1_000),
        repr('it "says" so ' * 1_000),
        repr(list(range(5_000))),
        repr({"nested": [[1, 2], ["a ] b"] * 2_000]}),
        "x" * 10_000,
        "7" * 10_000,
    ],
    ids=lambda value: value[:12],
)
def test_a_long_value_is_cut_and_the_remedy_stays(value):
    message = str(AttributionLabError(f"settings' n is {value}: take the network's own (or 7)"))
    assert message.startswith(f"settings' n is {value[:190]}")
    assert message.endswith(": take the network's own (or 7)")
    assert f"... ({len(value) - 200:,} characters more)" in message
    assert len(message) < 300
    assert str(AttributionLabError(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        "",
        f"n is {'x' * 200}: take fewer",
        f"the layers' names are {', '.join('abc' * 100)}: it's one of the network's",
        "two\nlines of [brackets that ( never close",
        "a café, a no-break\N{NO-BREAK SPACE}space, 漢字",
    ],
)
def test_other_messages_stay(message):
    assert str(AttributionLabError(message)) == message


def test_control_characters_become_text():
    evil = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \r\u202egnp.exe"
    assert str(AttributionLabError(f"{evil}: rename it")) == (
        r"\x1b[31mred\x1b[0m \x1b]0;title\x07 \r\u202egnp.exe: rename it"
    )
    assert printable(printable(evil)) == printable(evil)


@pytest.mark.parametrize("name", [5, None, ["a"]])
def test_what_is_no_name_has_a_hint_too(name):
    assert nearest(name, ["b", "c"]) == "known are b, c"
