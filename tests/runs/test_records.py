"""Results as records: everything comes back, and a stranger's record runs nothing."""

import json
import math
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pandas.testing import assert_frame_equal

import oracles_store
from attributionlab.base import AttributionLabError
from attributionlab.runs import Outcome, Row
from attributionlab.runs.records import Record, Unreadable, record_of, value_of
from attributionlab.verdicts.faithfulness.comparison import Refusal

KINDS = st.one_of(
    arrays.boolean_dtypes(),
    arrays.integer_dtypes(),
    arrays.integer_dtypes(endianness=">"),
    arrays.floating_dtypes(),
    arrays.unsigned_integer_dtypes(),
    arrays.complex_number_dtypes(),
    arrays.unicode_string_dtypes(max_len=4),
    arrays.byte_string_dtypes(max_len=4),
    arrays.datetime64_dtypes(),
)
ARRAYS = arrays.arrays(KINDS, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
TEXTS = st.text(st.characters(exclude_categories=()), max_size=5)  # lone surrogates too
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**300), 10**300),
    st.floats(),
    TEXTS,
)
SCALARS = st.one_of(
    PLAIN,
    KINDS.flatmap(lambda kind: arrays.arrays(kind, ())).map(lambda array: array[()]),
)
KEYS = st.one_of(
    TEXTS,
    TEXTS.map("${}".format),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.tuples(st.integers(), TEXTS),
    st.none(),
)
TENSORS = ARRAYS.filter(lambda array: array.dtype.kind in "bif" and array.dtype.isnative).filter(
    lambda array: array.dtype.itemsize <= 8
)


@st.composite
def tensors(draw):
    made = torch.from_numpy(draw(TENSORS).copy())
    return made.T if draw(st.booleans()) and made.ndim == 2 else made


VALUES = st.recursive(
    st.one_of(SCALARS, ARRAYS, ARRAYS.map(np.transpose), tensors()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.sets(st.one_of(st.integers(), TEXTS), max_size=3),
        st.frozensets(st.integers(), max_size=3),
        st.builds(Refusal, TEXTS, TEXTS, inner),
    ),
    max_leaves=8,
)


def same(found, value):
    """Equal in value, type, kind and shape; NaN is NaN."""
    if isinstance(value, np.ndarray | np.generic):
        return (
            type(found) is type(value)
            and (found.dtype, found.shape) == (value.dtype, value.shape)
            and bits(found) == bits(value)
        )
    if isinstance(value, torch.Tensor):
        return (
            isinstance(found, torch.Tensor)
            and (found.dtype, found.shape) == (value.dtype, value.shape)
            and bits(found.contiguous().numpy()) == bits(value.contiguous().numpy())
        )
    if type(found) is not type(value):
        return False
    if isinstance(value, list | tuple):
        return len(found) == len(value) and all(map(same, found, value))
    if isinstance(value, dict):
        keys = zip(found, value, strict=True) if len(found) == len(value) else [(0, 1)]
        return all(same(*pair) for pair in keys) and all(map(same, found.values(), value.values()))
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(found)
    return found == value and (not isinstance(value, float) or bits(found) == bits(value))


def bits(value):
    return np.asarray(value).tobytes()


@pytest.mark.long
@given(VALUES)
@example({"$class": "os:system", "fields": {"command": "true"}})
@example(
    [np.array([[1], [2]], object)[:, 0], np.array([[1, 2], [3, 4]]).T, np.empty((0, 3), np.float16)]
)
@example(-0.0)
def test_any_nesting_comes_back(value):
    assert same(value_of(record_of(value)), value)


@given(VALUES)
def test_a_naive_reader_reads_the_same(value):
    record = record_of(value)
    try:
        found = oracles_store.value_in(*record)
    except NotImplementedError:
        return  # objects
    assert same(found, value)


def test_object_arrays_keep_lists_of_one_length_apart():
    value = np.empty(2, object)
    for inner in (list, np.array):
        value[0], value[1] = inner([1, 2]), inner([3, 4])
        found = value_of(record_of(value))
        assert found.shape == (2,)
        assert [list(each) for each in found] == [[1, 2], [3, 4]]
        assert type(found[0]) is type(value[0])


def test_views_and_shared_memory_are_kept_as_tensors_of_their_own():
    base = torch.arange(12.0)
    found = value_of(record_of([base, base[3:5], base.reshape(3, 4).T, base.requires_grad_()]))
    assert [each.tolist() for each in found[:2]] == [list(range(12)), [3.0, 4.0]]
    assert torch.equal(found[2], base.detach().reshape(3, 4).T)
    found[0][3] = 7
    assert found[1][0] == 3


def test_tensors_of_few_bits():
    for kind in (torch.bfloat16, torch.float16, torch.uint8):
        value = torch.tensor([1, 2, 3]).to(kind)
        found = value_of(record_of(value))
        assert found.dtype == kind
        assert torch.equal(found, value)


def test_mappings_sizes_and_named_tuples():
    value = {"proxy": MappingProxyType({"a": (1,)}), "shape": torch.ones(2, 3).shape}
    assert value_of(record_of(value)) == {"proxy": {"a": (1,)}, "shape": (2, 3)}
    nested = Outcome(Record("{}", b""), "", False, 0.5)
    assert repr(value_of(record_of(nested._replace(record=None)))) == repr(
        nested._replace(record=None)
    )
    row = Row("k", "kind", {"seed": 1}, {"$x": [1]}, "", 0.5, 3, 4.0)
    assert value_of(record_of(row)) == row
    assert type(value_of(record_of(row))) is Row


TABLES = {
    "mixed": pd.DataFrame({"a": [1, "x", None, 2.5], "b": [True, False, None, (1, 2)]}),
    "texts": pd.DataFrame({"t": ["x", None, "", "$"]}),
    "category": pd.DataFrame(
        {"c": pd.Categorical(["u", None, "w"], categories=["w", "v", "u"], ordered=True)}
    ),
    "numbers": pd.DataFrame({3: [1.5, np.nan], ("a", 1): np.array([1, 2], np.int8)}),
    "half": pd.DataFrame({"f": np.array([1, np.inf], np.float16), "y": [True, False]}),
    "nullable": pd.DataFrame(
        {"i": pd.array([1, None], "Int64"), "s": pd.array(["a", None], "string")}
    ),
    "no columns": pd.DataFrame(index=[3, 1]),
    "no rows": pd.DataFrame({"a": np.array([], np.int32), "b": np.array([], object)}),
    "empty": pd.DataFrame(),
    "twice": pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]),
    "index": pd.DataFrame({"a": [1, 2]}, index=pd.Index(["p", "q"], name="row")),
    "levels": pd.DataFrame(
        {"a": [1, 2]}, index=pd.MultiIndex.from_tuples([("u", 1), ("v", 2)], names=["k", None])
    ),
    "times": pd.DataFrame({"t": np.array(["2020-01-01", "NaT"], "M8[ns]")}),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_come_back(name):
    [found] = value_of(record_of([TABLES[name]]))
    assert_frame_equal(
        found, TABLES[name], check_exact=True, check_index_type=True, check_freq=False
    )
    for mine, theirs in zip(
        found.to_numpy(object).flat, TABLES[name].to_numpy(object).flat, strict=True
    ):
        assert type(mine) is type(theirs)


@pytest.mark.long
@given(st.lists(PLAIN, max_size=4))
def test_columns_of_anything(values):
    table = pd.DataFrame({"x": np.array([*values, None], object)[:-1]})
    found = value_of(record_of(table))
    assert found.dtypes.tolist() == table.dtypes.tolist()
    assert all(map(same, found["x"].tolist(), table["x"].tolist()))


def test_a_column_that_cannot_be_kept_is_named():
    table = pd.DataFrame({"when": pd.to_datetime(["2020-01-01"]).tz_localize("UTC")})
    with pytest.raises(
        AttributionLabError, match=r"column 'when' is of kind 'datetime64.*, UTC\]'"
    ):
        record_of(table)


class BadlyShown:
    def __repr__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "value",
    [
        *(
            object(),
            BadlyShown(),
            bytearray(b"ab"),
            print,
            {1, 2}.__iter__(),
            torch.eye(2).to_sparse(),
            1j,
        ),
        *(
            np.ma.masked_array([1, 2], [True, False]),
            np.zeros(2, [("a", "i4")]),
            pytest,
            int,
            bytearray(2),
        ),
    ],
)
def test_anything_else_is_kept_as_it_is_written(value):
    found = value_of(record_of({"x": value}))["x"]
    assert isinstance(found, Unreadable)
    try:
        assert repr(found) == repr(value)
    except RuntimeError:
        assert repr(found) == "<BadlyShown>"
    assert repr(value_of(record_of(found))) == repr(found)


STRANGE = {
    "os:system": {"$class": "os:system", "fields": {"command": "touch RAN"}},
    "subprocess:run": {"$class": "subprocess:Popen", "fields": {"args": ["touch", "RAN"]}},
    "a function": {
        "$class": "attributionlab.base.files:write_atomically", "fields": {"path": "RAN", "content": ""}
    },
    "through a module": {
        "$class": "attributionlab.runs.store:os.system", "fields": {"command": "touch RAN"}
    },
    "another class through a module": {
        "$class": "attributionlab.runs.store:Path", "fields": {}
    },
    "an ordinary class": {"$class": "attributionlab.runs.store:Store", "fields": {"folder": "RAN"}},
    "a class from elsewhere": {
        "$class": "attributionlab.runs.running:Future", "fields": {}
    },
    "other fields": {"$class": "attributionlab.runs.records:Record", "fields": {"code": 1}},
    "no such class": {"$class": "attributionlab.runs.records:Gone", "fields": {}},
    "no such module": {"$class": "attributionlab.gone:Gone", "fields": {}},
    "a name like ours": {"$class": "attributionlab_user_x:f", "fields": {}},
    "no fields": {"$class": "attributionlab.runs.records:Record"},
    "no name": {"$class": 3, "fields": {}},
    "unknown tag": {"$pickle": "gANjb3MKc3lzdGVt"},
    "no such array": {"$array": "0", "dtype": "<f4", "shape": [1], "scalar": False},
    "an endless array": {"$objects": [1], "dtype": "S99999999999999", "shape": [1], "scalar": False},
    "a wrong shape": {"$objects": [1], "dtype": "O", "shape": [3], "scalar": False},
    "an unhashable set": {"$set": [[1]]},
    "no list": {"$tuple": 3},
}  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_a_strangers_record_is_refused_and_runs_nothing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for tree in (STRANGE[name], [1, {"a": STRANGE[name]}]):
        with pytest.raises(AttributionLabError, match="a stored result cannot be read"):
            value_of(Record(json.dumps(tree)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\ufeff1", "nul"])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(AttributionLabError, match="a stored result cannot be read"):
        value_of(Record(text))


@given(st.binary(max_size=40))
def test_what_is_no_safetensors_is_refused_or_not_used(data):
    try:
        found = value_of(Record("1", data))
    except AttributionLabError:
        return
    assert found == 1


@pytest.mark.parametrize("value", [b"", b"\x00\xff", bytes(range(256))])
def test_bytes_come_back(value):
    assert value_of(record_of({"x": (value,)})) == {"x": (value,)}
