"""Keys of cells: they depend on all that changes a result, and are the same in every process."""

import importlib.util
import json
import subprocess
import sys
import threading
from collections import OrderedDict
from functools import partial
from types import MappingProxyType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracles_store
import store_cases
from attributionlab.base import code_digest
from attributionlab.papers import reproduce
from attributionlab.papers.catalog import Run
from attributionlab.runs import Cell, cells, decisive_versions, fingerprint
from attributionlab.verdicts.leaderboard.study import _groups

JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=4)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
PLACES = st.dictionaries(
    st.text(max_size=4), st.one_of(st.integers(), st.text(max_size=4)), max_size=3
)
INPUTS = st.dictionaries(st.text(max_size=3), JSON, max_size=3)


def key(inputs, place=MappingProxyType({"seed": 0}), kind="compare"):
    return Cell(kind, place, inputs, print).key


@given(PLACES, INPUTS)
def test_keys_are_what_a_naive_reader_makes_of_them(place, inputs):
    cell = Cell("compare", place, inputs, print)
    stored = {**inputs, "code": code_digest(), **decisive_versions()}
    assert cell.depends_on == json.loads(json.dumps(stored))
    assert cell.key == oracles_store.key_of("compare", place, stored)


@given(INPUTS, INPUTS)
def test_other_inputs_other_key(some, others):
    same = json.dumps(some, sort_keys=True) == json.dumps(others, sort_keys=True)
    assert (key(some) == key(others)) is same


def test_the_order_of_keys_does_not_matter():
    first = {"a": 1, "b": {"c": 2, "d": [1, 2]}}
    again = OrderedDict([("b", MappingProxyType({"d": (1, 2), "c": 2})), ("a", 1)])
    assert key(first) == key(again)
    assert key({}, {"x": 1, "y": 2}) == key({}, {"y": 2, "x": 1})
    assert key({"a": {1: 2, "x": 3}}) == key({"a": {"x": 3, 1: 2}})


def test_each_input_counts():
    assert key({"n": 1}) not in {
        key({"n": 2}),
        key({"n": "1"}),
        key({"n": 1.0}),
        key({"n": True}),
        key({}),
    }
    assert key({}) not in {key({}, {"seed": 1}), key({}, {"seed": "0"}), key({}, kind="metric")}
    assert key({"a": {1: 2}}) != key({"a": {"1": 2}})
    assert key({"a": [1, [2]]}) != key({"a": [[1], 2]})


def test_numbers_of_numpy_are_numbers():
    assert key({"n": np.float64(0.5), "t": np.str_("a")}) == key({"n": 0.5, "t": "a"})
    assert key({"n": np.int64(3)}) != key({"n": np.int64(4)})


def test_code_and_versions_count(monkeypatch):
    before = key({})
    monkeypatch.setattr(cells, "code_digest", lambda *also: "other")
    assert key({}) != before
    monkeypatch.undo()
    monkeypatch.setattr(cells, "decisive_versions", lambda: {**decisive_versions(), "torch": "0.1"})
    assert key({}) != before
    monkeypatch.undo()
    assert key({}) == before
    assert "torch" in decisive_versions()
    assert "+" not in "".join(decisive_versions().values())


def test_a_cell_depends_on_the_code_of_its_work_of_what_that_is_given_and_of_what_it_names():
    def code(compute, **more):
        return Cell("k", {}, {}, compute, **more).depends_on["code"]

    study, items = "attributionlab.verdicts.leaderboard.study", "attributionlab.papers.catalog"
    assert code(print) == code_digest()
    assert code(_groups) == code(partial(_groups, 3)) == code_digest(study)
    assert code(_groups, modules=[items]) == code_digest(study, items) != code_digest(study)
    assert code(partial(_groups, Run("table-1", 1))) == code_digest(study, items)
    assert code(partial(_groups, item=reproduce)) == code_digest(study, items)


def load(path, name="by_user"):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def user(tmp_path, monkeypatch):
    """Writes a user's file and loads it."""
    monkeypatch.setitem(sys.modules, "by_user", None)

    def write(text):
        (tmp_path / "by_user.py").write_text(text)
        return load(tmp_path / "by_user.py")

    return write


def test_a_changed_file_is_seen(user):
    text = (
        "K = 1\ndef f(x):\n    return x + K\nclass C:\n    def __call__(self):\n        return 1\n"
    )
    module = user(text)
    before = [fingerprint(each) for each in (module.f, module.C, module.C(), module.C().__call__)]
    assert len(set(before)) == 4
    module = user(text)
    assert before == [
        fingerprint(each) for each in (module.f, module.C, module.C(), module.C().__call__)
    ]
    module = user(text.replace("K = 1", "K = 2"))
    after = [fingerprint(each) for each in (module.f, module.C, module.C(), module.C().__call__)]
    assert not set(before) & set(after)


def test_a_partial_is_seen_through(user):
    module = user("def f(x, k):\n    return x\n")
    before = fingerprint(partial(module.f, k=1))
    assert fingerprint(partial(module.f, k=1)) == before
    assert fingerprint(partial(module.f, k=2)) != before
    module = user("def f(x, k):\n    return x * k\n")
    assert fingerprint(partial(module.f, k=1)) != before


def made_here(text, **names):
    """What a notebook defines: no file has it."""
    space = {"__name__": "notebook", **names}
    exec(compile(text, "<cell 3>", "exec"), space)
    return space["f"]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("f = lambda x: x + 1", "f = lambda x: x + 2"),
        ("f = lambda x: x + 1", "f = lambda x: x - 1"),
        ("f = lambda x: x.sum()", "f = lambda x: x.mean()"),
        ("f = lambda x, k=1: x", "f = lambda x, k=2: x"),
        ("f = lambda x, *, k=1: x", "f = lambda x, *, k=2: x"),
        ("k = 1\nf = lambda x: x + k", "k = 2\nf = lambda x: x + k"),
        ("f = lambda x: [y + 1 for y in x]", "f = lambda x: [y + 2 for y in x]"),
        ("g = lambda x: 1\nf = lambda x: g(x)", "g = lambda x: 2\nf = lambda x: g(x)"),
        ("def m(k):\n  return lambda x: k\nf = m(1)", "def m(k):\n  return lambda x: k\nf = m(2)"),
        ("class C:\n  k = 1\nf = C()", "class C:\n  k = 2\nf = C()"),
        (
            "class C:\n  def __call__(self, x):\n    return 1\nf = C()",
            "class C:\n  def __call__(self, x):\n    return 2\nf = C()",
        ),
        ("f = {1, 'a', (2,)}", "f = {1, 'a', (3,)}"),
        ("def f(x): return x\nf.k = 1", "def f(x): return x\nf.k = 2"),
    ],
)
def test_what_has_no_file_is_seen_by_its_code(text, other):
    assert fingerprint(made_here(text)) == fingerprint(made_here(text))
    assert fingerprint(made_here(text)) != fingerprint(made_here(other))


def test_lambdas_of_one_file_and_closures_are_told_apart(user):
    module = user(
        "two = [lambda x: x, lambda x: -x]\n"
        "def make(k):\n    def f(x):\n        return x * k\n    return f\n"
    )
    assert fingerprint(module.two[0]) != fingerprint(module.two[1])
    assert fingerprint(module.make(1)) == fingerprint(module.make(1))
    assert fingerprint(module.make(1)) != fingerprint(module.make(2))


def test_values_of_arrays_and_networks():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU())
    same = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU())
    same.load_state_dict(net.state_dict())
    assert fingerprint(net) == fingerprint(same)
    with torch.no_grad():
        same[0].weight[0, 0, 0, 0] += 1e-6
    assert fingerprint(net) != fingerprint(same)
    base = torch.arange(4.0)
    others = [base + 1, base.double(), base.reshape(2, 2), base.numpy(), base.to(torch.bfloat16)]
    assert fingerprint(base) == fingerprint(base.clone()) == fingerprint(torch.arange(8.0)[:4])
    assert len({fingerprint(each) for each in [base, *others]}) == 6
    assert fingerprint(np.array([1, 2])) != fingerprint(np.array([2, 1]))
    assert fingerprint(np.array([[], "a"], object)) == fingerprint(np.array([[], "a"], object))


def test_what_cannot_be_pickled_is_never_the_same():
    assert fingerprint(threading.Lock()) != fingerprint(threading.Lock())


def test_a_circle_ends():
    one, other = [1], [1]
    one.append(one)
    other.append(other)
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(one) != fingerprint([1, [1]])


ELSEWHERE = """
import sys, torch, numpy, functools, store_cases
from attributionlab.runs.cells import Cell, fingerprint
torch.manual_seed(0)
named = {"blue", "red", "green", 3, ("a", None)}
make = lambda k: lambda x: (x * k, named)
class Method:
    names = named
    def __call__(self, x):
        return x
inputs = {"net": torch.nn.Linear(3, 2), "array": numpy.arange(5), "set": named, "f": make(3),
    "class": Method, "object": Method(), "partial": functools.partial(store_cases.number, 2)}
for name, value in inputs.items():
    print(name, fingerprint(value))
print(Cell("k", {"seed": 1}, inputs, print).key)
"""


@pytest.mark.long
def test_keys_are_equal_in_every_process():
    runs = [
        store_cases.run_python(ELSEWHERE, env=store_cases.environment(PYTHONHASHSEED=seed))
        for seed in ("1", "2")
    ]
    assert [run.stderr for run in runs] == ["", ""]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stdout.count("\n") == 8


def scaled(by, default=0):
    def inner(value, other=default):
        return value * by + other

    return inner


class Scale:
    def __init__(self, by):
        self.by = by

    def __call__(self, value):
        return value * self.by


state = []


def test_functions_of_one_factory_differ_by_what_they_hold():
    different = [
        *(scaled(1), scaled(2), scaled(1, 1), scaled(torch.ones(2)), scaled(torch.zeros(2))),
        *(Scale(1), Scale(2), Scale(1).__call__, Scale(2).__call__, Scale, scaled),
    ]
    assert len({fingerprint(each) for each in different}) == len(different)
    assert fingerprint(scaled(torch.ones(2))) == fingerprint(scaled(torch.ones(2)))
    assert fingerprint(Scale(2).__call__) == fingerprint(Scale(2).__call__)


def test_what_a_function_has_written_meanwhile_changes_nothing():
    def counting(value):
        state.append(value)

    before = fingerprint(counting)
    counting(1)
    assert fingerprint(counting) == before


PROGRAM = """
import torch
from attributionlab.runs.cells import fingerprint
model = torch.nn.Linear(2, 1)
torch.nn.init.ones_(model.weight), torch.nn.init.ones_(model.bias)
print(fingerprint(torch.arange(3.0)), fingerprint({"a": torch.ones(2)}), fingerprint(model.weight))
"""


@pytest.mark.long
def test_tensors_are_known_by_their_values_in_every_process():
    found = [
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert found[0].stdout == found[1].stdout
    assert len(set(found[0].stdout.split())) == 3
    assert fingerprint(torch.zeros(3)) != fingerprint(torch.ones(3))
    assert fingerprint(np.zeros(3)) != fingerprint(np.ones(3))
