"""Watermarks on images, and the images that they are put on."""

import numpy as np
import pytest
import torch
from PIL import Image

import oracles_watermarks as oracles
from attributionlab import AttributionLabError
from attributionlab.papers.soco import watermarked_images


def gray(n, side=20, channels=3):
    generator = torch.Generator().manual_seed(1)
    return 0.3 + 0.4 * torch.rand(n, channels, side, side, generator=generator)


FORTY = [".......", "#.#.###", "#.#.#.#", "###.#.#", "..#.#.#", "..#.###", "......."]


def test_a_number_is_white_on_a_black_square_and_nothing_else_is_changed():
    images = gray(40, side=28)
    before = images.clone()
    labels = torch.full((40,), 40)
    marked = watermarked_images.number_watermarks(images, labels, classes=100, seed=0)
    assert torch.equal(images, before)
    assert (
        watermarked_images.rectangle_side(28) == 8
    )  # 60 / 224 of 28 is 7.5, rounded to the even number
    tops = set()
    for image, inside, was in zip(marked.images, marked.region[:, 0], before, strict=True):
        assert torch.equal(image[:, ~inside], was[:, ~inside])
        rows, columns = inside.any(1).nonzero().flatten(), inside.any(0).nonzero().flatten()
        top, left = int(rows[0]), int(columns[0])
        assert inside.sum() == 64 == len(rows) * len(columns)
        tops.add(top)
        square = image[:, top : top + 8, left : left + 8]
        for channel in square:
            drawn = ["".join(".#"[int(v)] for v in row) for row in channel]
            assert [row[:7] for row in drawn] == [*FORTY, "." * 7]
            assert not channel[:, 7].any()
    assert len(tops) > 5


def test_digits_grow_with_the_square_and_differ():
    images = torch.zeros(10, 1, 40, 40)
    marked = watermarked_images.number_watermarks(images, torch.arange(10), classes=10, seed=0)
    squares = [image[region].view(11, 11) for image, region in zip(*marked[::2], strict=True)]
    for one in squares:
        text = one[:10, 2:8]  # 3 x 5 pixels, twice as large
        assert torch.equal(text[::2, ::2], text[1::2, 1::2])
        assert one.sum() == text.sum()
    assert len({tuple(one.flatten().tolist()) for one in squares}) == 10


def test_squares_reach_every_edge_and_never_leave_the_image():
    marked = watermarked_images.number_watermarks(
        torch.zeros(300, 1, 20, 22), torch.zeros(300).long(), classes=2, seed=3
    )
    for axis, extent in ((3, 20), (2, 22)):
        covered = marked.region.any(axis)[:, 0]
        assert covered.sum(1).unique().tolist() == [5]
        assert {int(each.nonzero()[0]) for each in covered} == set(range(extent - 4))


def test_places_are_a_function_of_the_seed_and_not_of_labels_or_images():
    first = watermarked_images.number_watermarks(gray(8), torch.zeros(8).long(), classes=8, seed=5)
    second = watermarked_images.number_watermarks(
        torch.zeros(8, 3, 20, 20), torch.full((8,), 7), classes=8, seed=5
    )
    other = watermarked_images.number_watermarks(gray(8), torch.zeros(8).long(), classes=8, seed=6)
    assert torch.equal(first.region, second.region)
    assert not torch.equal(first.region, other.region)


@pytest.mark.parametrize(("classes", "height"), [(8, 32), (100, 35), (100, 32), (2, 5), (10, 9)])
def test_stripes_spell_the_label_in_binary(classes, height):
    labels = torch.arange(classes)
    images = gray(classes, side=height)
    marked = watermarked_images.stripe_watermarks(images, labels, classes=classes)
    white = torch.tensor([oracles.striped(label, classes, height) for label in range(classes)])
    assert torch.equal(marked.region[:, 0], white[:, :, None].expand(-1, -1, height))
    expected = torch.where(white[:, None, :, None], 1.0, images)
    assert torch.equal(marked.images, expected)
    assert not marked.region[0].any()


def test_seven_stripes_tell_a_hundred_classes_apart():
    assert [
        watermarked_images.stripe_count(classes) for classes in (2, 3, 4, 8, 9, 100, 128, 129)
    ] == [*(1, 2, 2, 3, 4, 7, 7, 8)]
    rows = watermarked_images.stripe_rows(224, 100)
    assert [each.stop - each.start for each in rows] == [32] * 7


def test_reassigned_labels_are_uniform_and_depend_on_the_seed_alone():
    labels = watermarked_images.reassigned_labels(8000, 8, seed=2)
    counts = torch.bincount(labels, minlength=8)
    # Six standard deviations of a binomial count.
    assert (counts - 1000).abs().max() < 6 * (8000 * 7 / 64) ** 0.5
    assert torch.equal(labels, watermarked_images.reassigned_labels(8000, 8, seed=2))
    assert not torch.equal(labels, watermarked_images.reassigned_labels(8000, 8, seed=3))


@pytest.mark.parametrize("label", [-1, 8])
def test_labels_beyond_the_classes_are_refused(label):
    for mark in (watermarked_images.stripe_watermarks, watermarked_images.number_watermarks):
        settings = {"seed": 0} if mark is watermarked_images.number_watermarks else {}
        with pytest.raises(AttributionLabError, match=f"a label is {label}: with 8 classes"):
            mark(gray(2), torch.tensor([0, label]), classes=8, **settings)


def test_images_without_room_for_the_digits_are_refused():
    with pytest.raises(AttributionLabError, match="20 x 20, whose rectangle of side 5 has no room"):
        watermarked_images.number_watermarks(gray(1), torch.tensor([3]), classes=11, seed=0)


def test_patches_have_the_label_of_the_color_with_most_pixels_by_a_lead():
    natural = watermarked_images.natural_images(None, training=12, testing=8, seed=3)
    again = watermarked_images.natural_images(None, training=12, testing=8, seed=3)
    assert natural.classes == 8
    for part, same in zip(natural[:2], again[:2], strict=True):
        assert all(map(torch.equal, part, same))
        assert not part.region.any()
    assert not torch.equal(natural.training.images[:8], natural.testing.images)
    for images, labels, _ in natural[:2]:
        for image, label in zip(images, labels, strict=True):
            pixels = [tuple(p) for p in (255 * image).round().int().flatten(1).T.tolist()]
            counts = [pixels.count(color) for color in watermarked_images.COLORS]
            assert counts[label] == max(counts)
            assert sorted(counts)[-1] - sorted(counts)[-2] >= 5


def test_cifar_is_known_by_its_files(tmp_path):
    rng = np.random.default_rng(0)
    for name, n in (("train.bin", 6), ("test.bin", 4)):
        records = rng.integers(256, size=(n, 3074), dtype=np.uint8)
        records[:, 0], records[:, 1] = 0, np.arange(n)
        records.tofile(tmp_path / name)
    natural = watermarked_images.natural_images(str(tmp_path), training=5, testing=50, seed=0)
    assert (natural.classes, natural.source) == (100, "CIFAR-100")
    assert (len(natural.training.images), len(natural.testing.images)) == (5, 4)
    assert sorted(natural.testing.labels.tolist()) == [0, 1, 2, 3]
    records = np.fromfile(tmp_path / "test.bin", np.uint8).reshape(-1, 3074)
    for image, label, _ in zip(*natural.testing, strict=True):
        assert torch.equal(
            (255 * image).round().flatten(), torch.from_numpy(records[label, 2:]).float()
        )


def test_class_folders_are_split_for_training_and_testing(tmp_path):
    for label, name in enumerate(("cat", "dog")):
        (tmp_path / name).mkdir()
        for index in range(5):
            pixels = np.full((40, 50, 3), 100 * label + 10 * index, dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{index}.png")
    natural = watermarked_images.natural_images(tmp_path, training=100, testing=100, seed=0)
    assert natural.classes == 2
    assert (len(natural.training.images), len(natural.testing.images)) == (8, 2)
    images, labels, _ = (torch.cat(parts) for parts in zip(*natural[:2], strict=True))
    values = [round(255 * float(image.mean())) for image in images]
    assert sorted(values) == [*range(0, 50, 10), *range(100, 150, 10)]
    labels = labels.tolist()
    assert labels == [int(value >= 100) for value in values]


def test_a_single_class_is_refused(tmp_path):
    (tmp_path / "cat").mkdir()
    Image.fromarray(np.zeros((40, 40, 3), dtype=np.uint8)).save(tmp_path / "cat" / "0.png")
    with pytest.raises(AttributionLabError, match="has 1 class folders: pass one with a folder"):
        watermarked_images.natural_images(tmp_path, training=4, testing=4, seed=0)


@pytest.fixture(scope="module")
def tiny():
    return watermarked_images.natural_images(None, training=24, testing=12, seed=0)


def test_the_five_data_sets_share_labels_and_places(tiny):
    sets = {(each.mark, each.canvas): each for each in watermarked_images.data_sets(tiny, 0)}
    assert len(sets) == 5
    original = sets["original", "images"]
    assert torch.equal(original.testing.labels, tiny.testing.labels)
    assert not original.testing.region.any()
    marked = [each for each in sets.values() if each.mark != "original"]
    for each in marked[1:]:
        assert torch.equal(each.training.labels, marked[0].training.labels)
        assert torch.equal(each.testing.labels, marked[0].testing.labels)
    assert not torch.equal(marked[0].testing.labels, tiny.testing.labels)
    for mark in ("number", "stripes"):
        natural, blank = sets[mark, "images"].testing, sets[mark, "blank"].testing
        assert torch.equal(natural.region, blank.region)
        assert torch.equal(
            blank.images, torch.where(natural.region, natural.images, torch.tensor(0.0))
        )
        outside = ~natural.region.expand_as(natural.images)
        assert torch.equal(natural.images[outside], tiny.testing.images[outside])
    other = watermarked_images.data_sets(tiny, 1)[1]
    assert not torch.equal(other.testing.labels, marked[0].testing.labels)


def test_labels_and_places_are_drawn_apart(tiny):
    seeds = np.random.SeedSequence(7).generate_state(4).tolist()
    number = watermarked_images.data_sets(tiny, 7)[1]
    assert torch.equal(number.testing.labels, watermarked_images.reassigned_labels(12, 8, seeds[1]))
    places = watermarked_images.number_watermarks(
        tiny.testing.images, number.testing.labels, classes=8, seed=seeds[3]
    )
    assert torch.equal(number.testing.region, places.region)
