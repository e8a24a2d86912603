"""CIFAR is read from the bytes of its binary version; other files are refused in one line."""

import numpy as np
import pytest
import torch

from attributionlab.runs import cifar10
from refusals import refusal_of

PIXELS = 3 * 32 * 32
BATCHES = [f"data_batch_{number}.bin" for number in range(1, 6)]


def written(folder, names, labels, seed=0):
    """Write files of random records, whose labels are rows of `labels`; return all records."""
    rng = np.random.default_rng(seed)
    parts = []
    for name, of_file in zip(names, labels, strict=True):
        of_file = np.asarray(of_file, dtype=np.uint8)
        image = rng.integers(256, size=(len(of_file), PIXELS), dtype=np.uint8)
        parts.append(np.concatenate([of_file, image], axis=1))
        (folder / name).write_bytes(parts[-1].tobytes())
    return np.concatenate(parts)


@pytest.fixture
def small10(tmp_path):
    labels = [[[0], [9]], [[1]], [[2]], [[3]], [[4], [5]]]
    records = written(tmp_path, BATCHES, labels)
    return tmp_path, records


def twin(record, channel, row, column):
    """One value, counted in bytes from the start of its record, as the CIFAR page describes it."""
    return record[1 + 1024 * channel + 32 * row + column] / 255


def test_files_of_cifar_10_are_read_in_order_and_each_byte_has_its_place(small10):
    folder, records = small10
    found = cifar10(folder)
    assert found.labels.tolist() == [0, 9, 1, 2, 3, 4, 5]
    assert found.images.shape == (7, 3, 32, 32)
    assert found.images.dtype == torch.float32
    for image, record in zip(found.images, records, strict=True):
        for channel, row, column in ((0, 0, 0), (0, 0, 31), (0, 1, 0), (1, 5, 7), (2, 31, 31)):
            assert image[channel, row, column] == np.float32(twin(record, channel, row, column))


def test_names_are_those_of_the_archive_or_else_numbers(small10):
    folder, _ = small10
    assert cifar10(folder).classes == tuple(map(str, range(10)))
    names = [f"animal_{number}" for number in range(10)]
    (folder / "batches.meta.txt").write_text("\n".join(names) + "\n\n", encoding="utf-8")
    assert cifar10(folder).classes == tuple(names)
    (folder / "batches.meta.txt").write_text("cat\n", encoding="utf-8")
    assert cifar10(folder).classes == tuple(map(str, range(10)))


def test_n_draws_images_without_replacement_by_the_seed(small10):
    folder, _ = small10
    every = cifar10(folder, n=7)
    assert sorted(every.labels.tolist()) == [0, 1, 2, 3, 4, 5, 9]
    drawn = [cifar10(folder, n=3, seed=seed).labels.tolist() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 3
    whole = cifar10(folder)
    few = cifar10(folder, n=3)
    for image, label in zip(few.images, few.labels, strict=True):
        assert torch.equal(image, whole.images[whole.labels == label][0])


def test_a_missing_file_is_named_with_the_archive_to_fetch(small10):
    folder, _ = small10
    (folder / "data_batch_3.bin").unlink()
    message = refusal_of(cifar10, folder)
    assert str(folder / "data_batch_3.bin") in message
    assert "cifar-10-binary.tar.gz" in message
    assert "the python version is pickled and not read" in message


def test_a_folder_with_the_python_version_is_recognized_and_not_read(tmp_path):
    (tmp_path / "data_batch_1").write_bytes(b"a pickle")
    message = refusal_of(cifar10, tmp_path)
    assert message.startswith("no file at")
    assert "'data_batch_1' next to it is the Python version" in message


@pytest.mark.parametrize("missing", [1, PIXELS])
def test_a_file_that_is_cut_off_is_refused_with_its_size(tmp_path, missing):
    (tmp_path / "test_batch.bin").write_bytes(bytes(2 * (PIXELS + 1) - missing))
    message = refusal_of(cifar10, tmp_path, "test")
    assert f"has {2 * (PIXELS + 1) - missing} bytes" in message
    assert "3073 bytes of a record" in message


def test_labels_beyond_the_classes_are_refused(tmp_path):
    written(tmp_path, ["test_batch.bin"], [[[9], [10]]])
    assert "a label in" in (message := refusal_of(cifar10, tmp_path, "test"))
    assert "is 10, beyond 0 to 9" in message


def test_names_that_are_not_utf_8_are_refused(tmp_path):
    written(tmp_path, ["test_batch.bin"], [[[9]]])
    (tmp_path / "batches.meta.txt").write_bytes("caf\xe9\n".encode("latin-1"))
    message = refusal_of(cifar10, tmp_path, "test")
    assert "batches.meta.txt' is not UTF-8 text: extract cifar-10-binary.tar.gz" in message


@pytest.mark.usefixtures("without_shape_checks")
def test_settings_that_do_not_fit_are_refused_together(small10):
    folder, _ = small10
    assert refusal_of(cifar10, None) == "folder is None: pass a path"
    message = refusal_of(cifar10, folder, "tets", n=0, seed=-1)
    assert "part is 'tets': take 'train' or 'test'" in message
    assert "n is 0" in message
    assert "seed is -1" in message
    assert "has 7 images to train; take no more" in refusal_of(cifar10, folder, n=8)
