"""References that are refused from the text of a file, before it or anything large is loaded."""

import subprocess
import sys

import pytest

from attributionlab.base import AttributionLabError, refuse_unread

FILE = """
import functools
from math import floor as rounded

def plain(model, inputs, targets, *, sigma, steps=3): ...
def offered(model, inputs, targets, baseline, generator=None): ...
def any_of_them(model, inputs, targets, **settings): ...
@functools.cache
def decorated(model, inputs, targets, unknown): ...
def twice(model, inputs, targets, unknown): ...
def twice(model, inputs, targets): ...
class Own:
    def __init__(self, model, unknown): ...
made = functools.partial(plain, sigma=1)
if True:
    def below(model, inputs, targets, unknown): ...
"""
LEFT_ALONE = {
    "plain": {"sigma": 1},
    "offered": {},
    "any_of_them": {"sigma": 1},
    **{key: {"nope": 1} for key in ("decorated", "twice", "Own", "made", "below", "rounded")},
}
REFUSED = {
    "plain": ({}, "^plain: no value for 'sigma': give it by --set sigma="),
    "offered": ({"baselin": 1}, "^offered has no setting 'baselin': did you mean 'baseline'"),
    "any_of_them": ({"model": 1}, "^setting 'model' of any_of_them is given by the test"),
    "plan": ({}, r"methods.py has no 'plan': did you mean 'plain'\?$"),
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "methods.py"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_the_text_does_not_tell_is_left_to_whoever_loads_it(file, name):
    refuse_unread(f"{file}:{name}", LEFT_ALONE[name])


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_text_tells_is_refused_unread(file, name):
    settings, says = REFUSED[name]
    with pytest.raises(AttributionLabError, match=says):
        refuse_unread(f"{file}:{name}", settings)


@pytest.mark.parametrize("line", ["from math import *", "globals()['other'] = plain", "x ="])
def test_a_name_may_be_made_in_ways_that_its_text_does_not_show(file, line):
    file.write_text(FILE + line)
    refuse_unread(f"{file}:other", {})


@pytest.mark.parametrize(
    "words",
    [
        "test nowhere.py:f",
        "test no.module:f",
        "test {file}:plan",
        "test {file}:plain",
        "test {file}:plain --set nope=1",
        "compare {file}:plain saliency",
        "metric {file}:plan",
        "unseen nowhere.py:f",
    ],
)
def test_commands_refuse_before_torch_is_loaded(file, words):
    program = (
        "import sys; from attributionlab.cli.app import main; "
        "status = main(sys.argv[1:]); sys.exit(status + 10 * ('torch' in sys.modules))"
    )
    command = [sys.executable, "-c", program, *words.format(file=file).split()]
    assert subprocess.run(command, check=False, cwd=file.parent).returncode == 2
