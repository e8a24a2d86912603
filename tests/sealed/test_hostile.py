"""Submissions that attack: graded or refused with a reason, never a crash, nothing written."""

import io
import json
import os
import pickle
import struct
import zipfile
import zlib

import numpy as np
import pytest

import attributionlab as al
from attributionlab.teaching.sealed import archives, submission
from sealed_cases import IMAGES, SIDE, hand_in, npz

LIMIT = archives.LARGEST_FILE


def zipped(*files, method=zipfile.ZIP_DEFLATED):
    """An archive of (name or ZipInfo, bytes), names twice too."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return packed.getvalue()


def npy(header, data=b""):
    """A NumPy file with a header as it is given."""
    text = header.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def npy_of(shape, kind="<f8", data=b"", order="False"):
    return npy(f"{{'descr': {kind!r}, 'fortran_order': {order}, 'shape': {shape}}}\n", data)


def patched(packed, signature, offset, value):
    """An archive with a number of four bytes behind every signature."""
    found, place = bytearray(packed), packed.find(signature)
    while place >= 0:
        found[place + offset : place + offset + 4] = struct.pack("<I", value)
        place = packed.find(signature, place + 1)
    return bytes(found)


def stating(packed, size):
    """An archive whose files state another size unfolded, in the list and in front of each."""
    return patched(patched(packed, b"PK\x01\x02", 24, size), b"PK\x03\x04", 22, size)


class Bomb:
    """Whoever unpickles it writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def objects(folder):
    packed = io.BytesIO()
    array = np.empty(1, dtype=object)
    array[0] = Bomb(folder / "executed")
    np.savez(packed, maps=array)
    return packed.getvalue()


def link(name, target):
    entry = zipfile.ZipInfo(name)
    entry.create_system, entry.external_attr = 3, 0o120777 << 16
    return entry, target


def quoted(first, second):
    """Two entries of an archive that share the bytes of one file."""
    packed = zipped((first, b"x" * 1000), (second, b"y" * 1000))
    entries = packed.find(b"PK\x01\x02", packed.find(b"PK\x01\x02") + 1)
    return packed[: entries + 42] + struct.pack("<I", 0) + packed[entries + 46 :]


def lying_zip64(packed):
    """An archive whose file has a size of its own behind the one in its list, of a terabyte."""
    entry = zipfile.ZipInfo("maps.npz")
    entry.extra = struct.pack("<HHQ", 1, 8, 2**40)
    found = zipped((entry, packed))
    return patched(found, b"PK\x01\x02", 24, 2**32 - 1)


ZEROS = bytes(LIMIT + 1)
SHAPE = (IMAGES, SIDE, SIDE)
COUNT = IMAGES * SIDE * SIDE
GOOD = npz(maps=np.ones(SHAPE))

ARCHIVES = {
    "empty": (lambda _: b"", "zip"),
    "text": (lambda _: b"maps", "zip"),
    "binary": (lambda _: bytes(range(256)) * 40, "zip"),
    "only the end": (lambda _: b"PK\x05\x06" + bytes(18), "missing"),
    "cut": (lambda _: zipped(("maps.npz", GOOD))[:-40], "zip"),
    "large": (lambda _: ZEROS, "16,777,217 bytes"),
    "bomb": (lambda _: zipped(("maps.npz", ZEROS)), "decompresses to more than"),
    "bomb that lies": (
        lambda _: stating(zipped(("maps.npz", bytes(2 * LIMIT))), 1000),
        "zip|size|unfolds",
    ),
    "bomb inside a bomb": (
        lambda _: zipped(("maps.npz", zipped(("maps.npy", ZEROS)))),
        "maps.npy in maps.npz decompresses to more than",
    ),
    "bomb by bzip2": (
        lambda _: zipped(("maps.npz", ZEROS), method=zipfile.ZIP_BZIP2),
        "uses an unsupported compression",
    ),
    "bomb by lzma": (
        lambda _: zipped(("maps.npz", ZEROS), method=zipfile.ZIP_LZMA),
        "uses an unsupported compression",
    ),
    "size too small": (lambda _: stating(zipped(("maps.npz", GOOD)), 10), "zip|size"),
    "size too large": (lambda _: stating(zipped(("maps.npz", GOOD)), 10**6), "zip|size"),
    "overlap": (lambda _: quoted("maps.npz", "answers.json"), "zip|missing"),
    "many files": (
        lambda _: zipped(*((f"{k}.txt", b"") for k in range(101))),
        "more than 100 files",
    ),
    "parent": (lambda _: zipped(("../maps.npz", GOOD)), "leads out"),
    "parent inside": (lambda _: zipped(("a/../../maps.npz", GOOD)), "leads out"),
    "absolute": (lambda _: zipped(("/tmp/maps.npz", GOOD)), "leads out"),
    "drive": (lambda _: zipped(("C:\\maps.npz", GOOD)), "leads out"),
    "backslash": (lambda _: zipped(("..\\maps.npz", GOOD)), "leads out"),
    "null": (
        lambda _: zipped(("maps.npzXtxt", GOOD)).replace(b"maps.npzXtxt", b"maps.npz\0txt"),
        "leads out",
    ),
    "twice": (lambda _: zipped(("a/maps.npz", GOOD), ("b/maps.npz", GOOD)), "twice"),
    "link": (lambda _: zipped(link("maps.npz", "/etc/passwd")), "link"),
    "encrypted": (
        lambda _: patched(zipped(("maps.npz", GOOD)), b"PK\x01\x02", 8, 1 | 8 << 16),
        "encrypted|zip",
    ),
    "checksum": (
        lambda _: patched(zipped(("maps.npz", GOOD)), b"PK\x01\x02", 16, 0),
        "Bad CRC-32",
    ),
    "zip64": (lambda _: lying_zip64(GOOD), "decompresses to more than"),
    "list elsewhere": (
        lambda _: patched(zipped(("maps.npz", GOOD)), b"PK\x05\x06", 16, 2**31),
        "zip",
    ),
    "file elsewhere": (
        lambda _: patched(zipped(("maps.npz", GOOD)), b"PK\x01\x02", 42, 2**31),
        "zip",
    ),
    "archive inside": (
        lambda _: zipped(("work.zip", zipped(("maps.npz", GOOD)))),
        "maps.npz is missing and gets no points: hand in",
    ),
    "damaged": (
        lambda _: zipped(("maps.npz", GOOD)).replace(b"PK\x03\x04", b"PK\x03\x05"),
        "zip",
    ),
}


def only(laboratory, *paths):
    """What became of the first; the others are right, and get all points."""
    found = al.grade_submissions(laboratory.lab, laboratory.key, paths).submissions
    assert [each.marks.total for each in found[1:]] == [100] * (len(found) - 1)
    return found[0]


@pytest.fixture
def good(laboratory, tmp_path):
    return hand_in(tmp_path / "good", laboratory.signed, laboratory.right)


def tree(folder):
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archives_are_refused_with_a_reason(laboratory, tmp_path, good, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, said = ARCHIVES[name]
    path = tmp_path / "hostile.zip"
    path.write_bytes(make(tmp_path))
    before = tree(tmp_path)
    found = only(laboratory, path, good)
    assert (found.status, found.marks.total) == ("refused", 0)
    [reason] = found.marks.problems
    assert any(each in reason for each in said.split("|")), reason
    assert "\n" not in reason
    assert len(reason) < 500
    assert tree(tmp_path) == before


HOSTILE_MAPS = {
    "objects": (objects, "object|'\\|O'|holds"),
    "pickle": (lambda folder: pickle.dumps(Bomb(folder / "executed")), "zip"),
    "nan": (lambda _: npz(maps=np.full(SHAPE, np.nan)), "NaN or infinity (image 0)"),
    "infinity": (lambda _: npz(maps=np.full(SHAPE, -np.inf)), "NaN or infinity"),
    "complex": (lambda _: npz(maps=np.ones(SHAPE, complex)), "holds <c16"),
    "texts": (lambda _: npz(maps=np.full(SHAPE, "x")), "holds <U1"),
    "dates": (lambda _: npz(maps=np.zeros(SHAPE, "M8[s]")), "holds <M8"),
    "records": (lambda _: npz(maps=np.zeros(SHAPE, [("a", "f8")])), "holds |V8"),
    "long double": (lambda _: zipped(("maps.npy", npy_of(SHAPE, "<f16"))), "holds <f16"),
    "transposed": (lambda _: npz(maps=np.ones(SHAPE[::-1])), "shape (24, 24, 4)"),
    "too few": (lambda _: npz(maps=np.ones((1, SIDE, SIDE))), "shape (1, 24, 24)"),
    "scalar": (lambda _: npz(maps=np.float64(3)), "shape ()"),
    "two arrays": (lambda _: npz(maps=np.ones(SHAPE), arr_0=np.ones(SHAPE)), "exactly one array"),
    "two others": (lambda _: npz(heat=np.ones(SHAPE), b=np.ones(SHAPE)), "exactly one array"),
    "no array": (lambda _: npz(), "exactly one array"),
    "huge shape": (lambda _: zipped(("maps.npy", npy_of((10**9,) * 3))), "states the shape"),
    "overflowing shape": (
        lambda _: zipped(("maps.npy", npy_of((2**32, 2**32)))),
        "states the shape",
    ),
    "negative shape": (lambda _: zipped(("maps.npy", npy_of((-1, 24)))), "states the shape"),
    "many axes": (lambda _: zipped(("maps.npy", npy_of((1,) * 99))), "states the shape"),
    "true as side": (lambda _: zipped(("maps.npy", npy_of("(True,)"))), "states the shape"),
    "no data": (lambda _: zipped(("maps.npy", npy_of(SHAPE))), "0 bytes follow"),
    "header runs code": (
        lambda _: zipped(("maps.npy", npy("__import__('os').mkdir('executed')"))),
        "header",
    ),
    "deep header": (lambda _: zipped(("maps.npy", npy("(" * 4000))), "header"),
    "deep list": (lambda _: zipped(("maps.npy", npy("[" * 90 + "]" * 90))), "header"),
    "unary header": (lambda _: zipped(("maps.npy", npy("-" * 4000 + "1"))), "header"),
    "large header": (
        lambda _: zipped(("maps.npy", npy(" " * 60_000))),
        "length (60000)",
    ),
    "binary header": (lambda _: zipped(("maps.npy", npy("\xff\xfe\x00"))), "header"),
    "no header": (lambda _: zipped(("maps.npy", b"\x93NUMPY")), "not a NumPy file"),
    "version": (lambda _: zipped(("maps.npy", b"\x93NUMPY\x09\x00" + bytes(99))), "a NumPy"),
    "header of a later version": (
        lambda _: zipped(("maps.npy", npy_of(SHAPE).replace(b"Y\x01", b"Y\x03", 1))),
        "not a NumPy file",
    ),
    "header longer than its file": (
        lambda _: zipped(("maps.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31))),
        "expected 2147483648 bytes",
    ),
    "no image": (lambda _: npz(maps=np.ones((0, SIDE, SIDE))), "shape (0, 24, 24)"),
    "half precision": (
        lambda _: npz(maps=np.full(SHAPE, np.inf, np.float16)),
        "NaN or infinity",
    ),
    "one NaN": (
        lambda _: npz(maps=np.where(np.indices(SHAPE)[0] < IMAGES - 1, 1, np.nan)),
        "NaN or infinity (image 3)",
    ),
    "subarray": (lambda _: zipped(("maps.npy", npy_of((), "(9999,9999)f8"))), "holds"),
}


@pytest.mark.parametrize("name", HOSTILE_MAPS)
def test_hostile_maps_get_no_points_and_the_answers_count(
    laboratory, tmp_path, good, name, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    make, said = HOSTILE_MAPS[name]
    path = hand_in(tmp_path / "hostile", make(tmp_path), laboratory.right)
    before = tree(tmp_path)
    found = only(laboratory, path, good)
    assert (found.status, found.marks.total) == ("graded", 60)
    [reason] = found.marks.problems
    assert any(each in reason for each in said.split("|")), reason
    assert tree(tmp_path) == before
    assert not (tmp_path / "executed").exists()


HOSTILE_ANSWERS = {
    "empty": (b"", "not JSON"),
    "binary": (bytes(range(256)), "not JSON"),
    "latin": ('{"parts": "\xe4"}'.encode("latin-1"), "encoding UTF-8"),
    "utf-16": ("{}".encode("utf-16"), "encoding UTF-8"),
    "list": (b"[]", "not a JSON object"),
    "nan": (b'{"doses": {"a": NaN}}', "NaN is not a JSON number"),
    "infinity": (b'{"doses": {"a": -Infinity}}', "Infinity is not a JSON number"),
    "deep": (b"[" * 60_000, "not JSON"),
    "deep objects": (b'{"a":' * 10_000, "not JSON"),
    "twice": (b'{"parts": {}, "parts": {}}', "'parts' occurs twice"),
    "twice by escapes": (b'{"parts": {}, "p\\u0061rts": {}}', "'parts' occurs twice"),
    "two documents": (b"{}{}", "Extra data"),
    "huge": (b'{"parts": "' + b"x" * 70_000 + b'"}', "70,013 bytes"),
    "many digits": (b'{"doses": ' + b"9" * 5000 + b"}", "not JSON"),
}


@pytest.mark.parametrize("name", HOSTILE_ANSWERS)
def test_hostile_answers_get_no_points_and_the_maps_count(laboratory, tmp_path, good, name):
    content, said = HOSTILE_ANSWERS[name]
    found = only(laboratory, hand_in(tmp_path / "hostile", laboratory.signed, content), good)
    assert (found.status, found.marks.total) == ("graded", 40)
    [reason] = found.marks.problems
    assert said in reason


def test_characters_that_cannot_be_written_do_not_stop_tables_or_pages(laboratory, tmp_path, good):
    answers = b'{"\\ud800": 1, "parts": {"\\ud800": 1}, "contexts": [["\\udfff", "x"]]}'
    path = hand_in(tmp_path / "hostile", laboratory.signed, answers)
    grades = al.grade_submissions(laboratory.lab, laboratory.key, [path, good])
    grades.to_csv(tmp_path / "marks.csv")
    grades.to_html(tmp_path / "pages")
    assert grades.submissions[0].marks.points["maps"] == 40


def test_a_byte_order_mark_is_no_reason_to_refuse(laboratory, tmp_path):
    content = b"\xef\xbb\xbf" + json.dumps(laboratory.right).encode()
    assert only(laboratory, hand_in(tmp_path / "windows", None, content)).marks.total == 60


def test_thousands_of_answers_to_nothing_are_one_short_sentence(laboratory, tmp_path, good):
    answers = {**laboratory.right, **{f"{k:x}": 0 for k in range(5000)}, ";=1+1": 0}
    path = hand_in(tmp_path / "hostile", laboratory.signed, answers)
    found = only(laboratory, path, good)
    assert found.marks.total == 100
    assert found.marks.problems == [
        "answers.json has '0', '1', '10', 4,998 more, which is not asked for",
    ]


def test_a_key_that_is_handed_in_is_marked_and_nothing_of_it_is_told(laboratory, good):
    found = only(laboratory, laboratory.key, good)
    assert found.marks.total == 0
    said = "; ".join(found.marks.problems)
    document = laboratory.document
    secrets = [document["key"], document["rule"], document["truth"], *laboratory.right["parts"]]
    assert not [each for each in secrets if each in said]


def test_maps_in_double_precision_of_every_channel_fit_whatever_the_laboratory(tmp_path):
    """Of large images they have more than the bytes that files of strangers may have else."""
    shape = [2, 3, 600, 600]
    path = hand_in(tmp_path / "large", np.ones(shape))
    assert (path / "maps.npz").stat().st_size > LIMIT
    assert submission.read_submission(path, {"images": shape}).maps.shape == (2, 1, 600, 600)
    with pytest.raises(al.AttributionLabError, match="bytes"):
        submission.read_submission(path, {"images": [2, 3, 500, 500]})


# Names

MISNAMED = {
    "case": ("Maps.npz", "maps.npz is missing and gets no points ('Maps.npz' is another name)"),
    "twice the ending": ("maps.npz.npz", "'maps.npz.npz' is another name"),
    "one array": ("maps.npy", "'maps.npy' is another name"),
    "answers": ("answer.json", "'answer.json' is another name"),
}


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
@pytest.mark.parametrize("name", MISNAMED)
def test_of_a_wrong_name_it_is_said_which(laboratory, tmp_path, good, name, packed):
    given, said = MISNAMED[name]
    target = hand_in(tmp_path / "student", GOOD, laboratory.right)
    (target / ("answers.json" if "json" in given else "maps.npz")).rename(target / given)
    if packed:
        content = zipped(
            *((f"student/{file.name}", file.read_bytes()) for file in target.iterdir())
        )
        target = tmp_path / "student.zip"
        target.write_bytes(content)
    [reason] = only(laboratory, target, good).marks.problems
    assert said in reason
    assert reason.count("is another name") == 1
    assert "hand in maps.npz and answers.json" in reason


def test_a_single_array_counts_whatever_its_name(laboratory, tmp_path):
    path = hand_in(tmp_path / "named", npz(heat=laboratory.signed))
    assert only(laboratory, path).marks.points["maps"] == 40


def test_of_names_that_were_meant_each_answer_says_the_right_one(laboratory, tmp_path):
    answers = {"parts": {"a@topleft": 1}, "methods": {"salency": "passes"}}
    path = hand_in(tmp_path / "hasty", npz(heat=laboratory.signed), answers)
    spec = al.open_laboratory(laboratory.lab).spec
    found = submission.read_submission(path, {**spec, "parts": ["a@top_left", "b"]}).problems
    assert found[:2] == [
        "parts has 'a@topleft': did you mean 'a@top_left'?",
        "methods has 'salency': did you mean 'saliency'?",
    ]


def test_a_folder_of_submissions_stands_for_each_of_them(laboratory, tmp_path):
    for name in ("ben", "anna"):
        hand_in(tmp_path / "all" / name, laboratory.signed, laboratory.right)
    (tmp_path / "all" / "notes.txt").touch()
    found = al.grade_submissions(laboratory.lab, laboratory.key, [tmp_path / "all"]).submissions
    assert [(each.name.rpartition(os.sep)[2], each.marks.total) for each in found] == [
        ("anna", 100),
        ("ben", 100),
    ]


# Folders


@pytest.mark.parametrize("kind", ["file", "folder", "inside", "loop"])
def test_links_are_not_followed(laboratory, tmp_path, good, links, kind):
    target = tmp_path / "hostile"
    if kind == "inside":
        hand_in(target, answers=laboratory.right)
        (target / "maps.npz").symlink_to(good / "maps.npz")
    elif kind == "loop":
        target.symlink_to(target)
    else:
        target.symlink_to(good if kind == "folder" else good / "maps.npz")
    found = only(laboratory, target, good)
    assert found.marks.total == (60 if kind == "inside" else 0)
    assert "link" in found.marks.problems[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "itself"])
def test_a_pipe_is_not_waited_for(laboratory, tmp_path, good, inside):
    target = tmp_path / "hostile"
    if inside:
        hand_in(target, answers=laboratory.right)
        os.mkfifo(target / "maps.npz")
    else:
        os.mkfifo(target)
    assert "pipe" in only(laboratory, target, good).marks.problems[0]


def test_what_is_no_file_or_too_large_is_not_even_opened(tmp_path, monkeypatch):
    (tmp_path / "large").write_bytes(b"12345")
    opened = []
    monkeypatch.setattr(archives.os, "open", lambda *given: opened.append(given))
    for name, said in (("large", "5 bytes"), (".", "folder")):
        with pytest.raises(al.AttributionLabError, match=said):
            archives.file_bytes(tmp_path / name, 4)
    assert opened == []


def test_folders_in_place_of_files_and_large_files_are_no_maps(laboratory, tmp_path, good):
    target = hand_in(tmp_path / "hostile", answers=laboratory.right)
    (target / "maps.npz").mkdir()
    assert "folder" in only(laboratory, target, good).marks.problems[0]
    (target / "maps.npz").rmdir()
    with (target / "maps.npz").open("wb") as file:
        file.truncate(10**10)  # a file with a hole: it takes no room
    assert "10,000,000,000 bytes" in only(laboratory, target, good).marks.problems[0]


def test_a_folder_of_many_files_is_refused(laboratory, tmp_path, good):
    target = hand_in(tmp_path / "hostile", laboratory.signed, laboratory.right)
    for k in range(100):
        (target / f"{k}.txt").touch()
    found = only(laboratory, target, good)
    assert found.status == "refused"
    assert "more than 100 files" in found.marks.problems[0]


@pytest.mark.parametrize("name", ["\0", "x" * 5000, ""], ids=["null", "long", "current folder"])
def test_paths_that_cannot_be_are_refused(laboratory, good, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good2").mkdir()
    found = only(laboratory, name, good)
    assert found.status == "refused"


def test_what_is_just_small_enough_is_read(laboratory, tmp_path, good):
    """As many bytes, and files, as are allowed; one more is refused."""
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    packed = zipped(("file", b"12345"), *((str(k), b"") for k in range(99)))
    assert archives.file_bytes(path, 5) == b"12345"
    assert archives.zip_members(packed, ["file"], "it", 5)[0] == {"file": b"12345"}
    for read in (
        archives.file_bytes,
        lambda _, most: archives.zip_members(packed, ["file"], "", most),
    ):
        with pytest.raises(al.AttributionLabError, match="bytes"):
            read(path, 4)
    space = archives.LARGEST_JSON - 2
    assert archives.json_document(b"{" + b" " * space + b"}", "it") == {}
    for k in range(98):  # beside the two
        (good / f"{k}.txt").touch()
    assert only(laboratory, good).marks.total == 100


def test_what_nobody_expected_becomes_a_row_too(laboratory, tmp_path, good, monkeypatch):
    def failing(packed, what):
        if len(packed) < 10:
            raise MemoryError("no room")
        return real(packed, what)

    real = archives.json_document
    monkeypatch.setattr(archives, "json_document", failing)
    found = only(laboratory, hand_in(tmp_path / "hostile", laboratory.signed, b"{}"), good)
    assert found.status == "refused"
    assert "MemoryError: no room" in found.marks.problems[0]


def test_a_bomb_is_never_unfolded(monkeypatch):
    """However small an archive says that its file is: no more than the limit leaves the unfolding."""
    packed = stating(zipped(("maps.npz", bytes(4 * LIMIT))), LIMIT)
    unfolded = []
    make = zlib.decompressobj

    class Counted:
        def __init__(self, *given):
            self.own = make(*given)

        def __getattr__(self, name):
            return getattr(self.own, name)

        def decompress(self, *given):
            found = self.own.decompress(*given)
            unfolded.append(len(found))
            return found

    monkeypatch.setattr(zipfile.zlib, "decompressobj", Counted)
    with pytest.raises(al.AttributionLabError):
        archives.zip_members(packed, ["maps.npz"], "the archive")
    assert 0 < sum(unfolded) <= 2 * LIMIT
