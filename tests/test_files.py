"""Files are there whole or not at all."""

import os
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from attributionlab import AttributionLabError, base
from refusals import refusal_of


def test_a_file_is_written_whole_in_utf8_and_readable_by_others(tmp_path):
    path = tmp_path / "out.txt"
    umask = os.umask(0o022)
    try:
        base.write_atomically(path, "é\n")
    finally:
        os.umask(umask)
    assert path.read_bytes() == "é\n".encode()
    if os.name == "posix":  # elsewhere there are no such modes
        assert path.stat().st_mode & 0o777 == 0o644
    base.write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "out.txt"
    path.write_text("old")

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        base.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (".", "is a folder: give the path of a file"),
        ("no/out.txt", "there is no folder"),
        ("x" * 300, "cannot write"),
        ("a\0b", "cannot write"),
    ],
)
def test_paths_that_cannot_be_written_are_refused_once(tmp_path, name, said):
    message = refusal_of(base.check_writable, tmp_path / name)
    assert said in message
    assert message.count("cannot write") <= 1


def test_a_path_without_permission_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    assert "no permission" in refusal_of(base.check_writable, tmp_path / "out.txt")


@pytest.mark.usefixtures("links")
def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "file.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "file.txt")
    base.write_atomically(tmp_path / "link.txt", "new")
    assert (tmp_path / "file.txt").read_text() == "new"
    assert (tmp_path / "link.txt").is_symlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a system with named pipes")
def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AttributionLabError, match="is a device or pipe: give the path of a file"):
        base.check_writable(tmp_path / "pipe")


@pytest.mark.usefixtures("links")
def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(AttributionLabError, match="cannot write"):
        base.check_writable(tmp_path / "loop")


@pytest.mark.usefixtures("links")
@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs names of open files")
def test_a_name_for_a_pipe_is_refused(tmp_path):
    reading, writing = os.pipe()
    try:
        named = tmp_path / "out"
        named.symlink_to(f"/dev/fd/{writing}")  # as /dev/stdout is
        with pytest.raises(AttributionLabError, match="is a device or pipe: give the path of a"):
            base.check_writable(named)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.skipif(os.name != "posix", reason="needs devices")
@pytest.mark.parametrize("name", ["/dev", "/dev/null", "/dev/null/new", "/dev/new", "/proc"])
def test_a_folder_of_the_systems_is_refused_and_nothing_made_there(name):
    with pytest.raises(AttributionLabError, match=f"^'{name}' is a device .*name another folder"):
        base.make_folder(name)
    assert not os.path.exists("/dev/new")


@pytest.mark.skipif(os.name != "posix", reason="needs names of open files")
@pytest.mark.parametrize("number", [1, 2])
def test_the_file_that_is_printed_to_is_refused(tmp_path, number):
    """By its name, by a link to it, and by that of the stream."""
    path = tmp_path / "log"
    (tmp_path / "link").symlink_to(path)
    before = os.dup(number)
    try:
        with path.open("w") as file:
            os.dup2(file.fileno(), number)
            for name in (path, tmp_path / "link"):
                with pytest.raises(AttributionLabError, match="give the path of another file"):
                    base.check_writable(name)
            for name in (f"/dev/fd/{number}", f"/proc/self/fd/{number}", "/dev/new", "/../dev/new"):
                with pytest.raises(AttributionLabError, match="is a device or pipe: give the path"):
                    base.check_writable(name)
    finally:
        os.dup2(before, number)
        os.close(before)
    assert base.check_writable(path) == path.resolve()
    assert base.check_writable("/dev/shm/../../tmp/new").name == "new"


def test_a_full_disk_is_one_line(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(AttributionLabError, match="No space left on device"):
        base.write_atomically(tmp_path / "out.txt", "new")
    assert not list(tmp_path.iterdir())


def test_a_folder_is_there_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out"
    umask = os.umask(0o022)
    try:
        with base.folder_made_whole(target) as folder:
            (folder / "a.txt").write_text("a")
            assert folder.parent == tmp_path
            assert not target.exists()
    finally:
        os.umask(umask)
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "a.txt"]
    if os.name == "posix":
        assert target.stat().st_mode & 0o777 == 0o755
    with (  # noqa: PT012 - the block is what is tested
        pytest.raises(KeyboardInterrupt),
        base.folder_made_whole(tmp_path / "other") as folder,
    ):
        (folder / "b.txt").write_text("b")
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "a.txt"]


def test_what_somebody_put_into_the_folder_meanwhile_stays(tmp_path):
    target = tmp_path / "out"
    with (  # noqa: PT012 - the block is what is tested
        pytest.raises(AttributionLabError, match=r"cannot write .*out"),
        base.folder_made_whole(target) as folder,
    ):
        (folder / "a.txt").write_text("ours")
        target.mkdir()
        (target / "b.txt").write_text("theirs")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "b.txt"]


def test_folders_that_cannot_be_made_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for name, said in (
        ("file", "is not a folder"),
        ("file/out", "there is no folder"),
        ("no/out", "there is no folder"),
        ("x" * 300, "cannot make"),
        ("a\0b", "cannot make"),
        ("/dev/null" if os.name == "posix" else "file", "is not a folder"),
    ):
        assert said in refusal_of(base.check_new_folder, tmp_path / name)


def test_json_is_written_whole_and_without_nan(tmp_path):
    base.write_json(tmp_path / "a.json", {"é": [1, None]})
    assert (tmp_path / "a.json").read_text(
        encoding="utf-8"
    ) == '{\n  "é": [\n    1,\n    null\n  ]\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        base.write_json(tmp_path / "a.json", float("nan"))
    assert list(tmp_path.iterdir()) == [tmp_path / "a.json"]


class Pair(NamedTuple):
    name: str
    value: float


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64("nan"), None),
        (np.float32("nan"), None),
        (np.int64(3), 3),
        (np.array([[1, np.nan]], np.float32), [[1.0, None]]),
        (Pair("a", float("nan")), {"name": "a", "value": None}),
        ({"a": (1, [True, None])}, {"a": [1, [True, None]]}),
        (pd.DataFrame({"a": [1.5, np.nan], "b": "x"}), [{"a": 1.5, "b": "x"}, {"a": None, "b": "x"}]),
        (pd.Series([0.5, np.nan]), [0.5, None]),
    ],
)  # fmt: skip
def test_values_become_what_json_can_hold(value, expected):
    assert base.as_json(value) == expected
