"""The store of results: what is in it, who may write, and what damage does."""

import gc
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import oracles_store
import store_cases
from attributionlab.base import AttributionLabError, AttributionLabWarning
from attributionlab.runs import NAME, Outcome, Store, run_cells, stored
from attributionlab.runs import store as store_module
from attributionlab.runs.database import SCHEMA
from attributionlab.runs.records import record_of
from attributionlab.runs.store import INLINE_BYTES
from store_cases import cell, fail, filled, number, numbers, refuse, run_python

LARGE = 4 * INLINE_BYTES
SCHEMA_OF_STORE = f"schema{SCHEMA}".encode()
"""How a store's number of its schema lies in its file."""


def fill(folder, count=8, size=300):
    """A closed store with some cells."""
    cells = numbers(count, size)
    with Store(folder) as store:
        list(run_cells(cells, store))
    return cells


def computed(cells, folder):
    """Titles of the cells that a run computes, and what it warns of."""
    marked, done = [], []
    for each in cells:
        marked.append(
            type(each)(each.kind, each.place, each.inputs, lambda device, own=each: note(own, done))
        )
    with Store(folder) as store:
        outcomes = [outcome for _, outcome in run_cells(marked, store)]
    assert not any(outcome.error for outcome in outcomes)
    return done


def note(own, done):
    done.append(own.title)
    return own.compute(None)


# What is in it


def test_results_come_back_and_a_naive_reader_reads_the_same(tmp_path):
    cells = [*fill(tmp_path / "s", size=10), cell("large", filled, 3, LARGE)]
    with Store(tmp_path / "s") as store:
        found = {each.key: outcome for each, outcome in run_cells(cells, store)}
        assert store.keys() == dict.fromkeys((each.key for each in cells), False)
    naive = oracles_store.cells_in(tmp_path / "s")
    assert set(naive) == set(found)
    for each in cells:
        place, *record = naive[each.key]
        assert place == each.place
        assert repr(oracles_store.value_in(*record)) == repr(each.compute(None))
        assert repr(found[each.key].value) == repr(each.compute(None))
    assert [path.stat().st_size > LARGE for path in (tmp_path / "s" / "arrays").iterdir()] == [True]


@given(st.integers(INLINE_BYTES - 200, INLINE_BYTES + 200))
@settings(max_examples=10)
def test_arrays_lie_inside_or_beside(tmp_path_factory, size):
    with Store(tmp_path_factory.mktemp("s")) as store:
        each = cell("x", filled, 1, size)
        outcome = Outcome(record_of(each.compute(None)))
        store.put(each, outcome)
        assert store.outcome(each.key) == outcome
        inside = len(outcome.record.data) <= INLINE_BYTES
        assert len(list((store.folder / "arrays").iterdir())) == 1 - inside


def test_failures_are_rows_with_their_error(tmp_path):
    cells = [
        cell("a", refuse, "no such thing: take another"),
        cell("b", fail, "x"),
        cell("c", number, 1),
    ]
    with Store(tmp_path) as store:
        list(run_cells(cells, store))
        refused, failed, good = (store.outcome(each.key) for each in cells)
        assert (refused.error, refused.refused) == ("no such thing: take another", True)
        with pytest.raises(AttributionLabError, match=r"^no such thing: take another$"):
            refused.value  # noqa: B018
        assert failed.error.endswith("KeyError: 'x'\n")
        assert not failed.refused
        with pytest.raises(RuntimeError, match="KeyError"):
            failed.value  # noqa: B018
        assert good.value == {"value": 1, "device": None}
        assert [row.error != "" for row in store.rows()] == [True, True, False]
        assert set(store.keys().values()) == {True, False}


def test_errors_may_hold_any_text(tmp_path):
    each = cell("a", number, 1)
    with Store(tmp_path) as store:
        store.put(each, Outcome(None, "\udcff \0 é", False))
        assert store.outcome(each.key).error == "\\udcff \0 é"


def test_rows_by_kind_and_place(tmp_path):
    with Store(tmp_path) as store:
        for kind, name in [("b", "y"), ("b", "x"), ("a", "z")]:
            made = type(cell("", number))(kind, {"name": name}, {"n": 3}, print)
            store.put(made, Outcome(record_of(1), seconds=2.5))
        assert [(row.kind, row.place["name"]) for row in store.rows()] == [
            ("a", "z"),
            ("b", "x"),
            ("b", "y"),
        ]
        [row] = store.rows("a")
        assert (row.depends_on["n"], row.seconds, row.bytes, row.error) == (3, 2.5, 0, "")
        assert abs(row.finished - time.time()) < 60


def test_a_result_takes_the_place_of_an_older_one(tmp_path):
    each = cell("a", number, 1)
    with Store(tmp_path) as store:
        store.put(each, Outcome(None, "failed", True))
        store.put(each, Outcome(record_of(2)))
        assert store.outcome(each.key).value == 2
        assert len(list(store.rows())) == 1


def test_why_a_cell_is_missing(tmp_path):
    with Store(tmp_path) as store:
        store.put(cell("a", number, n=1, m=[1]), Outcome(record_of(1)))
        assert store.why_missing(cell("b", number, n=1)) == "new"
        assert store.why_missing(cell("a", number, n=2, m=[1])) == "changed: n"
        assert store.why_missing(cell("a", number, k=2, m=[2])) == "changed: k, m, n"
        store.put(cell("a", number, n=2, m=[1]), Outcome(record_of(1)))
        assert store.why_missing(cell("a", number, n=1, m=[1])) == "damaged"
        store.put(cell("q", number, n=float("nan")), Outcome(record_of(1)))
        assert store.why_missing(cell("q", number, n=float("nan"), k=1)) == "changed: k"


@pytest.mark.parametrize("name", ["a b", "50%", "a#b", "a?mode=memory", "é&x=1", "a;b'c\"d"])
def test_any_name_of_a_folder(tmp_path, name):
    cells = fill(tmp_path / name, 2)
    assert (tmp_path / name / NAME).is_file()
    assert computed(cells, tmp_path / name) == []
    with Store(tmp_path / name, writable=False) as store:
        assert len(store.keys()) == 2
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert not any(":" in path.name for path in tmp_path.rglob("*"))


def test_a_relative_folder_stays_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with stored("s") as store:
        monkeypatch.chdir("/")
    monkeypatch.chdir(tmp_path)
    with stored("s") as store, stored(None) as nothing:
        assert store.keys() == {}
        assert nothing is None


# Who may write


@pytest.mark.long
def test_a_second_run_is_refused_with_process_and_age(tmp_path):
    with Store(tmp_path):
        code = "import sys; from attributionlab.runs.store import Store; Store(sys.argv[1])"
        run = run_python(code, str(tmp_path))
        message = run.stderr.splitlines()[-1]
        assert f"is in use by process {os.getpid()} on " in message
        assert re.search(
            r" for \d min: wait for it, or stop it$", message
        )  # a busy machine is slow
        with pytest.raises(AttributionLabError, match=f"is in use by process {os.getpid()}"):
            Store(tmp_path)  # in this process, too
        holder = tmp_path / "holder.json"
        who = json.loads(holder.read_text())
        holder.write_text(json.dumps({**who, "since": time.time() - 7200}))
        with pytest.raises(AttributionLabError, match="for 120 min"):
            Store(tmp_path)
        holder.write_text("{")
        with pytest.raises(AttributionLabError, match="is in use: wait for it"):
            Store(tmp_path)
    assert not holder.exists()
    Store(tmp_path).close()


def test_two_stores_of_one_process(tmp_path):
    with Store(tmp_path / "a") as one, Store(tmp_path / "b") as other:
        one.put(cell("x", number), Outcome(record_of(1)))
        other.put(cell("y", number), Outcome(record_of(2)))
        assert len(one.keys()) == len(other.keys()) == 1


def test_a_store_may_be_closed_twice(tmp_path):
    store = Store(tmp_path)
    store.close()
    with Store(tmp_path):
        store.close()  # leaves the other's name where it is
        assert (tmp_path / "holder.json").exists()
        with pytest.raises(AttributionLabError, match="is in use by process"):
            Store(tmp_path)


HOLD = """
import sys, time, store_cases
from attributionlab.runs.records import Outcome
from attributionlab.runs.store import Store
from attributionlab.runs.records import record_of
store = Store(sys.argv[1])
for each in store_cases.numbers(3):
    store.put(each, Outcome(record_of(each.compute(None))))
print("held", flush=True)
time.sleep(100)
"""


@pytest.mark.long
def test_the_lock_of_a_killed_process_is_free_and_what_it_wrote_is_there(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True,
        env=store_cases.environment(),
    ) as holder:  # fmt: skip
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(AttributionLabError, match=f"is in use by process {holder.pid} "):
            Store(tmp_path)
        with Store(tmp_path, writable=False) as reader:  # while the writer is there
            assert len(reader.keys()) == 3
        holder.kill()
        holder.wait()
    assert json.loads((tmp_path / "holder.json").read_text())["process"] == holder.pid
    left = tmp_path / "arrays" / ".attributionlab-half"
    left.touch()
    assert computed(store_cases.numbers(3), tmp_path) == []
    assert not left.exists()


def test_a_reader_sees_what_comes_and_writes_nothing(tmp_path):
    with Store(tmp_path) as store, Store(tmp_path, writable=False) as reader:
        rows = reader.rows()
        assert list(rows) == []
        for count, each in enumerate(numbers(3), 1):
            store.put(each, Outcome(record_of(1)))
            assert len(list(reader.rows())) == count
        with pytest.raises(AttributionLabError, match="readonly"):
            reader.put(each, Outcome(record_of(2)))
        reading = reader.rows()
        next(reading)
        store.put(cell("more", number), Outcome(record_of(1)))
    with Store(tmp_path) as store:
        assert len(store.keys()) == 4


def test_nothing_is_left_open_on_errors(tmp_path):
    """Python 3.13 warns of connections that nobody closed; on every version the lock would stay."""
    (tmp_path / NAME).write_bytes(b"no database" * 100)
    for _ in range(2):
        with pytest.raises(AttributionLabError, match="is damaged"):
            Store(tmp_path)
    gc.collect()
    with pytest.raises(KeyError), Store(tmp_path / "s"):
        raise KeyError
    Store(tmp_path / "s").close()


# Folders


@pytest.mark.parametrize("folder", [3, b"x", True, ["a"], None])
def test_what_names_no_folder_is_refused(folder):
    with pytest.raises(AttributionLabError, match=r"out is .*: name a folder, or leave it out"):
        Store(folder)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(
        AttributionLabError, match=r"holds 'thesis.tex' but no store.sqlite: name an empty"
    ):
        Store(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(AttributionLabError, match="cannot be a folder"):
        Store(tmp_path / "thesis.tex")
    with pytest.raises(
        AttributionLabError, match=r"does not hold a store: name the folder of --out"
    ):
        Store(tmp_path, writable=False)
    with pytest.raises(AttributionLabError, match="null"):
        Store("a\0b")


def test_a_database_of_something_else_is_refused_and_stays(tmp_path):
    with closing(sqlite3.connect(tmp_path / NAME)) as other:
        other.execute("CREATE TABLE recipes (name)")
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(AttributionLabError, match="is another program's database"):
        Store(tmp_path)
    assert (tmp_path / NAME).read_bytes() == before


def test_a_store_without_its_database_is_not_made_anew(tmp_path):
    fill(tmp_path, 1, LARGE)
    (tmp_path / NAME).unlink()
    with pytest.raises(
        AttributionLabError, match=r"holds 'arrays/[0-9a-f]{64}\.safetensors' but no store"
    ):
        Store(tmp_path)
    shutil.rmtree(tmp_path / "arrays")
    Store(tmp_path).close()


@pytest.mark.parametrize(
    "left", [["holder"], ["holder", "holder.json"], ["holder.json", ".attributionlab-x"]]
)
def test_what_a_kill_at_the_start_leaves_is_no_obstacle(tmp_path, left):
    for name in left:
        (tmp_path / name).touch()
    (tmp_path / ".attributionlab-store.sqlite").write_bytes(b"half")
    Store(tmp_path).close()


def test_another_schema_is_refused_with_the_remedy(tmp_path):
    cells = fill(tmp_path / "s", 2)
    with closing(sqlite3.connect(tmp_path / "s" / NAME)) as database:
        database.execute("UPDATE about SET value = '0'")
        database.execute("ALTER TABLE cells RENAME COLUMN place TO somewhere")
        database.commit()
    for writable in (True, False):
        with pytest.raises(
            AttributionLabError, match=r"has schema 0, but this version reads 2: name an"
        ):
            Store(tmp_path / "s", writable=writable)
    with (
        Store(tmp_path / "t") as store,
        pytest.raises(
            AttributionLabError, match=r"has schema 0, but this version reads 2: merge it with"
        ),
    ):
        store.take_over([tmp_path / "s"])
    assert len(cells) == 2


AS_NOBODY = """
import os, sys
from attributionlab.runs.store import Store
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for folder in sys.argv[1:]:
    for writable in (False, True):
        try:
            with Store(folder, writable=writable) as store:
                print(len(store.keys()))
        except Exception as error:
            print(type(error).__name__, *str(error).splitlines())
"""


@pytest.fixture
def shared():
    """A folder that another user may read, which pytest's are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        for path in folder.rglob("*"):
            path.chmod(0o755)


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="another user must read")
def test_where_nothing_can_be_written(shared):
    cells = fill(shared / "s", 3)
    store = Store(shared / "t")
    store.put(cell("x", number), Outcome(record_of(1)))
    shutil.copytree(shared / "t", shared / "killed")  # with its log
    store.close()
    (shared / "killed" / f"{NAME}-shm").unlink()
    shutil.copytree(shared / "s", shared / "closed")
    for name in ("s", "killed"):
        (shared / name / "arrays").chmod(0o555)
        (shared / name).chmod(0o555)
    (shared / "closed").chmod(0o700)
    folders = [str(shared / name) for name in ("s", "killed", "closed")]
    run = run_python(AS_NOBODY, *folders)
    assert run.stderr == ""
    lines = run.stdout.splitlines()
    assert lines[0] == "3"
    assert "was interrupted and cannot be repaired in a read-only folder: copy" in lines[2]
    assert lines[1].startswith("AttributionLabError cannot write into ")
    assert all(line.startswith("AttributionLabError ") for line in lines[1:])
    assert len(lines) == 6
    (shared / "s").chmod(0o755)
    assert computed(cells, shared / "s") == []
    (shared / "killed").chmod(0o755)
    with Store(shared / "killed", writable=False) as store:
        assert len(store.keys()) == 1


# Damage


def test_a_truncated_database_is_named_and_kept(tmp_path):
    cells = fill(tmp_path / "s", 30)
    whole = (tmp_path / "s" / NAME).read_bytes()
    for length in (0, 1, 100, 4096, 5000, len(whole) - 4096):
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        shutil.copytree(tmp_path / "s", tmp_path / "t")
        (tmp_path / "t" / NAME).write_bytes(whole[:length])
        for writable in (True, False, True):
            with pytest.raises(AttributionLabError) as refused:
                Store(tmp_path / "t", writable=writable)
            assert "is damaged (" in str(refused.value)
            assert f"; a copy is '{NAME}.damaged'. Save what can be read: attribution" in str(
                refused.value
            )
            assert "\n" not in str(refused.value)
        assert (tmp_path / "t" / f"{NAME}.damaged").read_bytes() == whole[:length]
        assert (tmp_path / "t" / NAME).read_bytes() == whole[:length]  # not made anew
    (tmp_path / "t" / NAME).write_bytes(whole[:-100])  # SQLite fills the last page up with zeros
    with Store(tmp_path / "t") as store:
        known = [store.outcome(each.key) for each in cells]
    assert 0 < known.count(None) < 5


def test_random_bytes_are_named(tmp_path):
    (tmp_path / NAME).write_bytes(random.Random(0).randbytes(9000))
    with pytest.raises(AttributionLabError, match=r"is damaged \(file is not a database\)"):
        Store(tmp_path)
    shutil.rmtree(tmp_path / "arrays")
    (tmp_path / "holder").write_bytes(random.Random(0).randbytes(9000))
    with pytest.raises(AttributionLabError, match=r"holder' is not a lock \(.*\): remove it"):
        Store(tmp_path)


def outcomes_of(cells, folder):
    with Store(folder) as store:
        found = {each.key: outcome for each, outcome in run_cells(cells, store)}
    return {key: outcome._replace(seconds=0.0) for key, outcome in found.items()}


@pytest.mark.long
@pytest.mark.filterwarnings(
    "ignore:the stored result of:attributionlab.base.errors.AttributionLabWarning"
)
@pytest.mark.filterwarnings(
    "ignore:.*were left out:attributionlab.base.errors.AttributionLabWarning"
)
def test_no_flipped_byte_goes_unseen(tmp_path):
    """A byte that is flipped is named, or seen by a checksum, or was of no use: results stay right."""
    cells = fill(tmp_path / "s", 40, 600)
    good = outcomes_of(cells, tmp_path / "s")
    whole = bytearray((tmp_path / "s" / NAME).read_bytes())
    source, refused, named, again, merged = random.Random(1), 0, 0, 0, []
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[source.randrange(len(whole))] ^= 1 << source.randrange(8)
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        shutil.copytree(tmp_path / "s", tmp_path / "t")
        (tmp_path / "t" / NAME).write_bytes(damaged)
        try:
            with Store(tmp_path / "t", writable=False) as store:
                known = {each.key: store.outcome(each.key) for each in cells}
            again += None in known.values()
            for key, outcome in known.items():
                assert outcome is None or outcome.record == good[key].record
            assert {k: o.record for k, o in outcomes_of(cells, tmp_path / "t").items()} == {
                k: o.record for k, o in good.items()
            }
        except AttributionLabError as error:
            text = str(error)
            named += any(part in text for part in ("is damaged (", "has schema", "another program"))
            refused += 1
            if "is damaged" in text:
                merged.append(saved(tmp_path / "t", good))
    assert named == refused >= 1
    assert again >= 20


def saved(folder, good):
    """How many cells a merge saves of a damaged store; all of them right."""
    new = folder.with_name("new")
    shutil.rmtree(new, ignore_errors=True)
    with Store(new) as store:
        try:
            taken = store.take_over([folder])
        except AttributionLabError:  # the very first page
            return 0
        found = store.keys()
        assert len(found) == taken
        for key in found:
            assert store.outcome(key).record == good[key].record
    return taken


@pytest.mark.filterwarnings(
    "ignore:.*were left out:attributionlab.base.errors.AttributionLabWarning"
)
def test_merge_saves_what_a_page_of_noise_leaves(tmp_path):
    cells = fill(tmp_path / "s", 60, 3000)
    good = outcomes_of(cells, tmp_path / "s")
    whole = (tmp_path / "s" / NAME).read_bytes()
    counts = []
    for page in range(1, len(whole) // 4096, 7):
        damaged = bytearray(whole)
        damaged[page * 4096 : (page + 1) * 4096] = random.Random(page).randbytes(4096)
        (tmp_path / "s" / NAME).write_bytes(damaged)
        counts.append(saved(tmp_path / "s", good))
    assert min(counts) >= 30
    assert sum(counts) / len(counts) > 54


@pytest.fixture(scope="module")
def sixty(tmp_path_factory):
    """A store of sixty cells of about a page each, and what it holds."""
    folder = tmp_path_factory.mktemp("sixty") / "s"
    good = outcomes_of(fill(folder, 60, 3000), folder)
    return folder, (folder / NAME).read_bytes(), good


def merged_from(sixty, damaged):
    """How many cells a merge saves, all of them right, and what it says."""
    folder, whole, good = sixty
    try:
        (folder / NAME).write_bytes(damaged)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            taken = saved(folder, good)
    finally:
        (folder / NAME).write_bytes(whole)
    return taken, [str(each.message) for each in caught]


def saved_when_cut(sixty, length):
    taken, said = merged_from(sixty, sixty[1][:length])
    whole_pages = length // 4096
    assert taken >= whole_pages - 12  # those of the indexes, and of the tables' inner nodes
    [line] = said
    assert f"is damaged: {taken} of " in line
    assert "could be read, the others were left out; they are computed again" in line
    return taken


@pytest.mark.parametrize("share", [0.0, 0.1, 0.75, 0.99])
def test_merge_saves_what_is_in_front_of_a_cut(sixty, share):
    taken = saved_when_cut(sixty, int(share * len(sixty[1])))
    assert (taken >= 40) == (share >= 0.75)


@pytest.mark.parametrize("filling", ["zeros", "noise"])
def test_merge_saves_the_same_of_a_store_that_was_filled_up_to_its_pages_again(sixty, filling):
    """As a file system does whose blocks are lost: SQLite counts as many pages as the header says."""
    cut = int(0.75 * len(sixty[1])) // 4096 * 4096
    missing = len(sixty[1]) - cut
    rest = bytes(missing) if filling == "zeros" else random.Random(0).randbytes(missing)
    taken, [line] = merged_from(sixty, sixty[1][:cut] + rest)
    assert taken >= saved_when_cut(sixty, cut)
    assert f"is damaged: {taken} of " in line


@pytest.mark.long
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(share=st.floats(0, 1))
def test_merge_saves_what_is_in_front_of_any_cut(sixty, share):
    saved_when_cut(sixty, int(share * (len(sixty[1]) - 1)) // 512 * 512)


@pytest.mark.long
@pytest.mark.parametrize("bit", range(8))
def test_merge_saves_all_cells_whatever_bit_of_the_tables_list_is_flipped(sixty, bit):
    """The end of the first page says where the tables are."""
    for place in range(3_000 + bit, 4_096, 17):
        damaged = bytearray(sixty[1])
        damaged[place] ^= 1 << bit
        assert merged_from(sixty, damaged)[0] == 60, place


def test_a_row_whose_text_became_bytes_is_left_out(tmp_path):
    fill(tmp_path / "s", 3)
    with closing(sqlite3.connect(tmp_path / "s" / NAME)) as database, database:
        database.execute("UPDATE cells SET error = x'00' WHERE rowid = 2")
    with (
        Store(tmp_path / "new") as store,
        pytest.warns(AttributionLabWarning, match="2 of 3 cells"),
    ):
        assert store.take_over([tmp_path / "s"]) == 2


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of what fails
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), share=st.floats(0.9, 1))
def test_merge_passes_no_flipped_bit_as_right(sixty, place, bit, share):
    """Also of a store that is cut as well: what is taken is right (`saved`)."""
    damaged = bytearray(sixty[1][: int(share * len(sixty[1]))])
    damaged[int(place * len(damaged))] ^= 1 << bit
    assume(damaged.count(SCHEMA_OF_STORE) or bit > 2)  # another number is another version's
    assert merged_from(sixty, damaged)[0] >= 40


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("back", [1, 8], ids=["the number", "its kind"])
def test_merge_refuses_another_schema_and_reads_past_a_damaged_one(sixty, back, bit):
    damaged = bytearray(sixty[1])
    at = damaged.index(SCHEMA_OF_STORE) + len(SCHEMA_OF_STORE) - back
    damaged[at] ^= 1 << bit
    refused = back == 1 and chr(damaged[at]).isdecimal()
    assert merged_from(sixty, damaged)[0] == (0 if refused else 60)


@pytest.mark.parametrize("noise", ["zeros", "noise"])
def test_the_first_page_can_be_replaced(sixty, noise):
    page = bytes(4096) if noise == "zeros" else random.Random(0).randbytes(4096)
    taken, said = merged_from(sixty, page + sixty[1][4096:])
    assert taken == 60
    assert "is damaged: 60 of at least 60 cells" in said[0]


@pytest.mark.parametrize("name", [NAME, "holder", "holder.json", "arrays"])
@pytest.mark.parametrize("kind", ["folder", "empty", "bytes"])
def test_what_is_in_the_way_is_one_line(tmp_path, name, kind):
    fill(tmp_path / "s", 2)
    place = tmp_path / "s" / name
    if place.is_dir():
        place.rmdir()
    place.unlink(missing_ok=True)
    if kind == "folder":
        place.mkdir()
        (place / "inside").mkdir()
    else:
        place.write_bytes(b"[" * (kind == "bytes"))
    uses = (
        ("s", True, lambda store: None),
        ("s", False, Store.holder),
        ("t", True, lambda store: store.take_over([tmp_path / "s"])),
    )
    said = []
    for folder, writable, use in uses:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AttributionLabWarning)
            try:
                with Store(tmp_path / folder, writable=writable) as store:
                    use(store)
            except AttributionLabError as error:
                said.append(str(error))
    assert "\n" not in "".join(said)
    assert said or name != NAME


def test_damage_at_work_is_named(tmp_path, monkeypatch):
    cells = fill(tmp_path, 200)
    path = tmp_path / NAME
    monkeypatch.setattr(store_module, "CHECKED_BYTES", 0)
    whole = bytearray(path.read_bytes())
    for page in range(6, len(whole) // 4096):
        whole[page * 4096 : page * 4096 + 100] = bytes(100)
    path.write_bytes(whole)
    with (
        Store(tmp_path) as store,
        pytest.raises(AttributionLabError, match=r"is damaged \(.*copy is"),
    ):
        [store.outcome(each.key) for each in cells]
    assert (tmp_path / f"{NAME}.damaged").exists()


def test_a_large_database_is_looked_through_after_a_kill(tmp_path, monkeypatch):
    fill(tmp_path, 200)
    monkeypatch.setattr(store_module, "CHECKED_BYTES", 0)
    path = tmp_path / NAME
    whole = bytearray(path.read_bytes())
    whole[-4096:] = bytes(4096)
    path.write_bytes(whole)
    Store(tmp_path).close()
    (tmp_path / "holder.json").write_text("{}")
    for _ in range(2):  # it is not forgotten
        with pytest.raises(AttributionLabError, match="is damaged"):
            Store(tmp_path)


@pytest.mark.parametrize("harm", ["missing", "other bytes", "empty", "a folder"])
def test_a_damaged_file_of_arrays_is_computed_again_alone(tmp_path, harm):
    cells = fill(tmp_path, 4, LARGE)
    with closing(sqlite3.connect(tmp_path / NAME)) as database:
        query = "SELECT file FROM cells WHERE key = ?"
        [(name,)] = database.execute(query, (cells[2].key,)).fetchall()
    path = tmp_path / "arrays" / name
    before = path.read_bytes()
    path.unlink()
    if harm == "a folder":
        path.mkdir()
    elif harm != "missing":
        path.write_bytes(before[:-1] + b"?" if harm == "other bytes" else b"")
    with Store(tmp_path, writable=False) as store:
        assert [store.outcome(each.key) is None for each in cells] == [False, False, True, False]
        assert store.why_missing(cells[2]) == "damaged"
    if harm == "a folder":
        path.rmdir()
    with pytest.warns(
        AttributionLabWarning, match="the stored result of 0002 is damaged: it is computed ag"
    ):
        assert computed(cells, tmp_path) == ["0002"]
    assert path.read_bytes() == before
    assert computed(cells, tmp_path) == []


# Merging


def test_merge_takes_what_is_missing_or_failed(tmp_path):
    cells = [*numbers(3, 10), *numbers(5, LARGE)[3:]]
    good = {each.key: Outcome(record_of(each.compute(None)), seconds=1.0) for each in cells}
    bad = Outcome(None, "failed", True)
    with Store(tmp_path / "a") as a, Store(tmp_path / "b") as b, Store(tmp_path / "c") as c:
        for store, outcomes in (
            (a, (0, 1, None)),
            (b, (None, 1, 2, 3)),
            (c, (None, None, 2, 3, 4)),
        ):
            for place in range(len(outcomes)):
                known = outcomes[place] is not None
                store.put(cells[place], good[cells[place].key] if known else bad)
        assert b.take_over([a]) == 1
        assert b.take_over([a, tmp_path / "c"]) == 1
        assert b.take_over([str(tmp_path / "c")]) == 0
        assert {key: b.outcome(key) for key in good} == good
        with pytest.raises(AttributionLabError, match="does not hold a store"):
            b.take_over([tmp_path / "gone"])


def test_a_strangers_store_leads_nowhere_else(tmp_path):
    """A file name with a path in it is neither read nor written, checksums right or not."""
    cells = fill(tmp_path / "s", 2, LARGE)
    secret = tmp_path / "s" / "secret"
    secret.write_text("mine")
    with closing(sqlite3.connect(tmp_path / "s" / NAME)) as database:
        for name in ("../secret", str(secret)):
            text, error = database.execute(
                "SELECT result, error FROM cells WHERE key = ?", (cells[0].key,)
            ).fetchone()
            checksum = store_module._checksum(error, name, "[]", text, b"")
            database.execute(
                "UPDATE cells SET file = ?, checksum = ? WHERE key = ?",
                (name, checksum, cells[0].key),
            )
            database.commit()
            with Store(tmp_path / "s", writable=False) as store:
                assert store.outcome(cells[0].key) is None
            shutil.rmtree(tmp_path / "t", ignore_errors=True)
            with (
                Store(tmp_path / "t") as store,
                pytest.warns(AttributionLabWarning, match="1 of 2 cells could be read"),
            ):
                assert store.take_over([tmp_path / "s"]) == 1
            assert not (tmp_path / "t" / "secret").exists()
        # A row under another cell's key.
        database.execute("UPDATE cells SET key = ? WHERE key = ?", ("0" * 64, cells[1].key))
        database.commit()
    shutil.rmtree(tmp_path / "t")
    with (
        Store(tmp_path / "t") as store,
        pytest.warns(AttributionLabWarning, match="0 of 2 cells could be read"),
    ):
        assert store.take_over([tmp_path / "s"]) == 0


# A full disk


def test_a_full_database_is_one_line_and_goes_on_later(tmp_path):
    cells = numbers(60, 3000)
    with Store(tmp_path) as store:
        store._database.execute("PRAGMA max_page_count = 30")
        with pytest.raises(
            AttributionLabError, match=r"is full\): its content is kept; free space"
        ):
            list(run_cells(cells, store))
        done = len(store.keys())
    assert 5 < done < 60
    assert len(oracles_store.cells_in(tmp_path)) == done
    assert computed(cells, tmp_path) == [each.title for each in cells[done:]]


@contextmanager
def largest_file(size):
    """No file of this process may become larger, as on a disk that is full."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("size", "limit"), [(3000, 150_000), (80_000, 70_000), (80_000, 4_500), (10, 0)]
)
def test_a_full_disk_is_one_line_and_goes_on_later(tmp_path, size, limit):
    cells, done, refused = numbers(60, size), [], ""
    with largest_file(limit):
        try:
            with Store(tmp_path) as store:
                done.extend(each.title for each, _ in run_cells(cells, store))
        except AttributionLabError as error:
            refused = str(error)
        if (tmp_path / NAME).exists():
            with Store(tmp_path, writable=False) as store:  # it can be looked at as it is
                done = [row.place["name"] for row in store.rows()]
    assert refused.startswith("cannot ")
    assert "\n" not in refused
    assert len(done) < 60
    assert not list((tmp_path / "arrays").glob(".attributionlab-*"))
    assert computed(cells, tmp_path) == [each.title for each in cells[len(done) :]]
    assert len(oracles_store.cells_in(tmp_path)) == 60
