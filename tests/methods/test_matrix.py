"""No method is silently wrong on a kind of network, and the page says what each is."""

import re
import warnings
from functools import partial
from pathlib import Path

import pytest

from attributionlab.base import AttributionLabError, GuardWarning
from attributionlab.methods import METHODS, input_x_gradient, saliency
from method_matrix import REFUSED, RIGHT, SYMBOLS, TABLES, WARNED, WRONG, judged
from small_networks import KINDS

PAGE = Path(__file__).parents[2].joinpath("docs/networks-and-methods.md").read_text("utf-8")
WRITE = "python tests/pages.py networks-and-methods.md writes the tables, in two minutes"
pytestmark = pytest.mark.usefixtures("without_shape_checks")  # as users run it


def column(key):
    """What the page says of each method on a kind of network."""
    [title] = [title for title, keys in TABLES.items() if key in keys]
    head = f"| {title} | {' | '.join(TABLES[title])} |\n"
    rows = PAGE.partition(head)[2].partition("\n\n")[0].splitlines()[1:]
    said = {}
    for row in rows:
        names, *cells = (cell.strip() for cell in row.split("|")[1:-1])
        for name in re.findall(r"`([\w-]+)`", names):
            assert name not in said
            said[name] = cells[TABLES[title].index(key)]
    return said


def test_every_kind_has_its_place_on_the_page():
    assert sorted(key for keys in TABLES.values() for key in keys) == sorted(KINDS)
    named = dict(re.findall(r"^\| ([^|`]+) \| (.+) \|$", PAGE, re.MULTILINE))
    assert {key: kind.title for key, kind in KINDS.items()}.items() <= named.items()
    assert all(column(keys[0]).keys() == METHODS.keys() for keys in TABLES.values()), WRITE


@pytest.mark.long
@pytest.mark.parametrize("key", KINDS)
def test_no_cell_is_silently_wrong_and_the_page_says_what_each_is(key):
    cells = {name: judged(name, KINDS[key]) for name in METHODS}
    wrong = {name: reason for name, (verdict, reason) in cells.items() if verdict == WRONG}
    assert not wrong
    symbols = {name: SYMBOLS[verdict] for name, (verdict, _) in cells.items()}
    assert column(key) == symbols, WRITE


def rectifies_in_place(network):
    return any(getattr(module, "inplace", False) for module in network.modules())


def dependent_on_the_form(network, inputs, targets):
    return saliency(network, inputs, targets) * (2 if rectifies_in_place(network) else 1)


def after(act):
    """A method that does something to the network or the images before."""

    def method(network, inputs, targets):
        act(network, inputs)
        return saliency(network, inputs, targets)

    return method


def raising(error):
    def method(*_):
        raise error

    return method


def warning(network, inputs, targets, category=GuardWarning):
    if rectifies_in_place(network):
        warnings.warn("may be wrong", category, stacklevel=1)
    return dependent_on_the_form(network, inputs, targets)


def warning_of_settings(network, inputs, targets):
    warnings.warn("take a larger n_samples", GuardWarning, stacklevel=1)
    return dependent_on_the_form(network, inputs, targets)


JUDGED = [
    (RIGHT, "", saliency),
    (WRONG, "differs from the counterpart's map by 1.0e", dependent_on_the_form),
    (WRONG, "alone and in a batch differ", lambda *given: saliency(*given) + given[1].mean()),
    (WRONG, "largest value of the counterpart's map is 0", lambda *given: 0 * given[1]),
    (WRONG, "misses the sum by", input_x_gradient),
    (WRONG, "images are changed", after(lambda _, inputs: inputs.mul_(0.5))),
    (WRONG, "network is changed", after(lambda net, _: net.register_forward_hook(lambda *_: None))),
    (WRONG, "network is changed", after(lambda net, _: next(net.parameters()).data.mul_(0.5))),
    (WRONG, "IndexError: out of range", raising(IndexError("out of range"))),
    (WRONG, "one line\nanother one", raising(AttributionLabError("one line\nanother one"))),
    (REFUSED, "take another network", raising(AttributionLabError("take another network"))),
    (WARNED, "may be wrong", warning),
    (WRONG, "warning that is not ours: may be wrong", partial(warning, category=UserWarning)),
    (WRONG, "differs from the counterpart's map", warning_of_settings),
]


@pytest.mark.parametrize("row", range(len(JUDGED)))
def test_the_judge_sees_each_fault(row, monkeypatch):
    verdict, reason, method = JUDGED[row]
    name = f"{'deep' if method is input_x_gradient else 'own'}-{row}"  # what is deep has a sum
    monkeypatch.setitem(METHODS, name, method)
    found, why = judged(name, KINDS["in place"])
    assert found == verdict, why
    assert reason in why


def test_no_map_is_right_where_an_output_depends_on_the_images_beside_it(monkeypatch):
    monkeypatch.setitem(METHODS, "saliency-again", saliency)
    for key in ("batch", "dropout"):
        assert judged("saliency-again", KINDS[key])[0] != RIGHT
