"""Images of folders are cut to one size, in a fixed order, and broken files are named."""

import numpy as np
import pytest
import torch
from PIL import Image

from attributionlab.errors import AttributionLabError
from attributionlab.local_data import images_in

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def saved(path, color, size=(4, 4), mode="RGB"):
    path.parent.mkdir(exist_ok=True, parents=True)
    Image.new(mode, size, color).save(path)


@pytest.fixture
def folder(tmp_path):
    """Two classes of two and three images, each of its own red; others lie beside them."""
    for place, name in enumerate(("b/2.png", "b/1.PNG", "a/z.jpg", "a/x.png", "a/y.bmp")):
        saved(tmp_path / name, (40 * place, 0, 0))
    (tmp_path / "a" / "notes.txt").write_text("none", encoding="utf-8")
    (tmp_path / "readme.md").write_text("none", encoding="utf-8")
    saved(tmp_path / ".hidden" / "1.png", GREEN)
    saved(tmp_path / "a" / "._x.png", GREEN)
    return tmp_path


def refused(*args, **settings):
    with pytest.raises(AttributionLabError) as caught:
        images_in(*args, **settings)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_classes_and_files_come_in_sorted_order(folder):
    images, labels, classes = images_in(folder, size=4)
    assert classes == ("a", "b")
    assert labels.tolist() == [0, 0, 0, 1, 1]
    assert labels.dtype == torch.int64
    assert images.shape == (5, 3, 4, 4)
    assert images.dtype == torch.float32
    reds = (images[:, 0, 0, 0] * 255 / 40).round().tolist()  # JPEG is off by 1 of 255
    assert reds == [3, 4, 2, 1, 0]  # x.png, y.bmp, z.jpg; 1.PNG, 2.png
    assert images[:, 1:].amax() <= 2 / 255  # what JPEG adds


def test_n_of_each_class_are_drawn_by_the_seed(folder):
    every = images_in(folder, size=4)
    drawn = [images_in(folder, size=4, n=2, seed=seed) for seed in range(8)]
    assert all(each.labels.tolist() == [0, 0, 1, 1] for each in drawn)
    again = images_in(folder, size=4, n=2, seed=0)
    assert torch.equal(drawn[0].images, again.images)
    reds = {tuple(each.images[:2, 0, 0, 0].tolist()) for each in drawn}
    of_class = every.images[:3, 0, 0, 0].tolist()
    pairs = {(of_class[0], of_class[1]), (of_class[0], of_class[2]), (of_class[1], of_class[2])}
    assert reds == pairs  # each of the three, and files in sorted order


def test_the_draw_of_a_class_does_not_depend_on_the_other_classes(folder):
    before = images_in(folder, size=4, n=1, seed=5, classes=["b", "a"])
    for path in (folder / "a").iterdir():
        path.unlink()
    (folder / "a").rmdir()
    alone = images_in(folder, size=4, n=1, seed=5, classes=["b", "a"])
    assert torch.equal(alone.images[0], before.images[0])


def test_classes_are_drawn_apart_from_each_other(tmp_path):
    for name in ("a", "b"):
        for place in range(5):
            saved(tmp_path / name / f"{place}.png", (50 * place, 0, 0), size=(1, 1))
    drawn = [images_in(tmp_path, size=1, n=1, seed=seed).images[:, 0, 0, 0] for seed in range(10)]
    assert any(first != second for first, second in torch.stack(drawn).tolist())


def test_labels_follow_the_order_of_the_classes_that_are_given(folder):
    images, labels, classes = images_in(folder, size=4, classes=["c", "b", "a"])
    assert classes == ("c", "b", "a")
    assert labels.tolist() == [1, 1, 2, 2, 2]
    assert (images[:2, 0, 0, 0] * 255).round().tolist() == [40, 0]


def test_a_folder_of_images_has_no_labels(folder):
    images, labels, classes = images_in(folder / "b", size=2)
    assert labels.tolist() == [-1, -1]
    assert classes == ()
    assert len(images) == 2


@pytest.mark.parametrize("size", [(9, 3), (3, 9)], ids=["wide", "tall"])
def test_the_middle_of_an_image_is_kept(tmp_path, size):
    """Three squares of red, green and blue in a row or column: green is the middle."""
    image = Image.new("RGB", size, RED)
    across = size[0] > size[1]
    image.paste(GREEN, (3, 0, 6, 3) if across else (0, 3, 3, 6))
    image.paste(BLUE, (6, 0, 9, 3) if across else (0, 6, 3, 9))
    image.save(tmp_path / "1.png")
    [found] = images_in(tmp_path, size=3).images
    assert torch.equal(found, torch.tensor([0.0, 1, 0])[:, None, None].expand(3, 3, 3))


def test_the_shorter_side_is_scaled_before_the_middle_is_cut(tmp_path):
    image = Image.new("RGB", (8, 16), RED)
    image.paste(GREEN, (2, 6, 6, 10))  # the 4 x 4 pixels in the middle
    image.save(tmp_path / "1.png")
    [kept] = images_in(tmp_path, size=4, shorter_side=8).images
    assert torch.equal(kept, torch.tensor([0.0, 1, 0])[:, None, None].expand(3, 4, 4))
    [scaled] = images_in(tmp_path, size=8, shorter_side=16).images
    # Twice as large, the green square is the 8 x 8 pixels in the middle, and blurred at its rim.
    assert torch.equal(scaled[1, 1:-1, 1:-1], torch.ones(6, 6))
    [whole] = images_in(tmp_path, size=4).images  # half as large: 4 x 8, of which rows 2 to 5
    assert whole[0, 0, 0] > 0.8
    assert whole[1, 1:3, 1:3].min() > 0.5


@pytest.mark.parametrize(
    ("mode", "color", "expected"),
    [("L", 51, [51] * 3), ("RGBA", (255, 0, 51, 255), [255, 0, 51]), ("1", 1, [255] * 3)],
)
def test_images_of_other_modes_become_rgb(tmp_path, mode, color, expected):
    saved(tmp_path / "1.png", color, mode=mode)
    images = images_in(tmp_path, size=2).images
    assert (images[0, :, 0, 0] * 255).round().tolist() == expected
    assert images.min() >= 0
    assert images.max() <= 1


def test_broken_files_are_named_together_and_not_all(tmp_path):
    saved(tmp_path / "a.png", RED)
    for place in range(4):
        (tmp_path / f"b{place}.jpg").write_bytes(b"no image")
    content = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(content[: len(content) // 2])
    message = refused(tmp_path, size=2)
    assert str(tmp_path / "a.png") in message
    assert f"{str(tmp_path / 'b0.jpg')!r} (no image)" in message
    assert "b2.jpg" not in message
    assert message.endswith("and 2 more: replace or remove them")


def test_more_than_8_bits_are_refused_instead_of_clipped(tmp_path):
    deep = np.full((4, 4), 40_000, dtype=np.uint16)
    Image.fromarray(deep).save(tmp_path / "1.png")
    assert "more than 8 bits a channel" in refused(tmp_path, size=2)


def test_folders_that_do_not_fit_are_refused(folder, tmp_path):
    assert refused(folder / "c", size=4).startswith("no folder at")
    assert "has 2 images; take no more" in refused(folder, size=4, n=3)
    assert "a folder 'b' that is not in classes" in refused(folder, size=4, classes=["a"])
    assert "a name twice" in refused(folder, size=4, classes=["a", "b", "a"])
    assert "leave out classes" in refused(folder / "a", size=4, classes=["a"])
    (folder / "empty").mkdir()
    assert "class folder 'empty'" in refused(folder, size=4)
    assert "neither class folders nor images" in refused(folder / "empty", size=4)
    saved(folder / "loose.png", RED)
    assert "both folders and images, such as 'loose.png'" in refused(folder, size=4)


@pytest.mark.usefixtures("without_shape_checks")
def test_settings_that_do_not_fit_are_refused(folder):
    assert "size is 0" in (message := refused(folder, size=0, n=-1, seed=0.5))
    assert "n is -1" in message
    assert "seed is 0.5" in message
    assert "shorter_side is 3" in refused(folder, size=4, shorter_side=3)
