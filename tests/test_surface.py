"""What others build on stays as it was in each release; what is new is added on purpose."""

import pytest

from surface import broken, read, surface

POLICY = """
These lines of a release no longer hold. A name, parameter or option leaves in a major version only,
after two minor ones in which it still works and warns: CONTRIBUTING.md, "What stays, and releases"."""


def test_nothing_of_a_release_has_left():
    released, _ = read()
    gone = broken(released, surface())
    assert not gone, "\n".join([POLICY, *gone])


def test_what_is_new_is_written_down():
    released, new = read()
    assert sorted(set(surface()) - set(released)) == new, "python tests/surface.py"


@pytest.mark.parametrize(
    "found",
    [
        "f(a, b=..., *, c=...)",
        "f(a, b=..., e=..., *, c=..., d=...)",
        "f(a=..., b=..., c=...)",
        "f(a, b=..., *more, c=..., **others)",
    ],
)
def test_a_function_may_take_more(found):
    assert broken(["f(a, b=..., *, c=...)", "f.x"], [found, "f.x", "g"]) == []


@pytest.mark.parametrize(
    "found",
    [
        "g(a, b=..., *, c=...)",
        "f",
        "f(a, *, c=...)",
        "f(a, b=..., *, d=...)",
        "f(a, b, *, c=...)",
        "f(a, b=..., *, c)",
        "f(b=..., a=..., *, c=...)",
        "f(a, b=..., *, c=..., d)",
        "f(a, *, b=..., c=...)",
        "f(a, **settings)",
    ],
)
def test_a_function_may_not_take_less(found):
    assert broken(["f(a, b=..., *, c=...)"], [found])


@pytest.mark.parametrize("line", ["f(*values)", "f(**settings)", "al.f", "test --n", "f(...)"])
def test_what_takes_any_number_goes_on_to_and_names_stay(line):
    assert broken([line], [line]) == []
    assert broken([line], ["f(values)", "f(settings)", "test --m"]) == [line]
