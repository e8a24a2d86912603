"""Images of folders are cut to one size, in a fixed order, and broken files are named."""

import io
import struct
import sys
import zlib
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from attributionlab.base import AttributionLabError
from attributionlab.runs import images_in
from refusals import refusal_of

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


refused = partial(refusal_of, images_in)


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


def test_the_draw_of_a_class_goes_by_its_name_and_not_by_its_place(folder):
    settings = {"size": 4, "n": 2}
    for seed in range(8):
        both = images_in(folder, seed=seed, **settings)
        turned = images_in(folder, seed=seed, classes=["c", "b", "a"], **settings)
        assert torch.equal(both.images[:2], turned.images[2:])
    for place in range(3):
        saved(folder / "0" / f"{place}.png", (9, 9, 9))
    with_another = images_in(folder, seed=7, **settings)
    assert torch.equal(both.images, with_another.images[2:])


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


@pytest.mark.parametrize("size", [(50, 31), (31, 50), (97, 12), (7, 5), (24, 24), (16, 90)])
@pytest.mark.parametrize(("side", "shorter_side"), [(8, 8), (8, 13), (24, 24), (24, 31)])
def test_the_middle_is_that_of_the_scaled_image(tmp_path, size, side, shorter_side):
    pixels = np.random.default_rng(0).integers(256, size=(size[1], size[0], 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    image.save(tmp_path / "1.png")
    scaled = [max(shorter_side, round(length * shorter_side / min(size))) for length in size]
    left, top = ((length - side) // 2 for length in scaled)
    whole = image.resize(scaled, Image.Resampling.BILINEAR)
    expected = np.asarray(whole.crop((left, top, left + side, top + side)))
    [found] = images_in(tmp_path, size=side, shorter_side=shorter_side).images
    found = (found * 255).round().numpy().transpose(1, 2, 0)
    # Both scale rows, then columns, and round after each; positions in float32 may tip either rounding.
    assert np.abs(found - expected).max() <= 2


def test_of_a_long_and_thin_image_only_the_middle_is_scaled(tmp_path):
    """Scaled whole it would be 8,960,000 x 224 pixels, 8 GB as Pillow holds them."""
    resource = pytest.importorskip("resource")
    image = Image.new("1", (40_000, 1), 1)
    image.save(tmp_path / "1.png")
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KB elsewhere
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    [found] = images_in(tmp_path, size=224).images
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert torch.equal(found, torch.ones(3, 224, 224))
    assert grown * unit < 100e6


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


def deep_png(color_type, channels):
    """A file of 2 x 2 pixels of 16 bits a channel, which Pillow cannot write in color."""

    def chunk(name, content):
        end = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + end

    header = struct.pack(">IIBBBBB", 2, 2, 16, color_type, 0, 0, 0)
    rows = 2 * (b"\0" + 2 * channels * b"\x9c\x40")
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in chunks)


def deep_tiff():
    content = io.BytesIO()
    Image.fromarray(np.full((2, 2), 40_000, dtype=np.uint16)).save(content, "TIFF")
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("gray.png", deep_png(0, 1)),
        ("gray_alpha.png", deep_png(4, 2)),
        ("color.png", deep_png(2, 3)),
        ("gray.tif", deep_tiff()),
        ("gray.ppm", b"P5\n2 2\n65535\n" + b"\x9c\x40" * 4),
        ("color.ppm", b"P6\n2 2\n65535\n" + b"\x9c\x40" * 12),
        ("text.ppm", b"P3\n2 2\n1000\n" + b"400 " * 12),
    ],
)
def test_more_than_8_bits_a_channel_are_refused_in_gray_and_in_color(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert f"{str(tmp_path / name)!r} (more than 8 bits a channel)" in refused(tmp_path, size=2)


def test_16_bits_a_pixel_and_ppm_of_8_bits_a_channel_are_read(tmp_path):
    masks = struct.pack("<III", 0xF800, 0x07E0, 0x001F)
    header = struct.pack("<IiiHHIIiiII", 40, 2, 2, 1, 16, 3, 8, 0, 0, 0, 0) + masks
    head = b"BM" + struct.pack("<IHHI", 0, 0, 0, 66)
    (tmp_path / "1.bmp").write_bytes(head + header + b"\x00\xf8" * 4)
    (tmp_path / "2.ppm").write_bytes(b"P6\n2 2\n255\n" + b"\xff\x00\x00" * 4)
    (tmp_path / "3.ppm").write_bytes(b"P6\n2 2\n100\n" + b"\x64\x00\x00" * 4)
    for image in images_in(tmp_path, size=2).images:
        assert image[:, 0, 0].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "(too large for the memory)"),
        (struct.error("two\nlines"), "(error: two lines)"),
    ],
)
def test_whatever_pillow_raises_of_a_file_is_said_of_it(tmp_path, monkeypatch, error, said):
    def broken(self, mode):
        raise error

    saved(tmp_path / "1.png", RED)
    monkeypatch.setattr(Image.Image, "convert", broken)
    assert f"{str(tmp_path / '1.png')!r} {said}" in refused(tmp_path, size=2)


def test_decompression_bombs_are_named(tmp_path, monkeypatch):
    saved(tmp_path / "1.png", RED)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 7)  # Pillow refuses twice as many
    assert "exceeds limit of 14 pixels" in refused(tmp_path, size=2)


@pytest.mark.usefixtures("links")
@pytest.mark.parametrize("of_classes", [False, True], ids=["images", "classes"])
@pytest.mark.parametrize("name", ["2.png", "b"])
def test_links_that_lead_nowhere_are_named(tmp_path, of_classes, name):
    saved(tmp_path / "data" / ("a" if of_classes else "") / "1.png", RED)
    link = (tmp_path / "data" / "a" if of_classes and "." in name else tmp_path / "data") / name
    link.symlink_to(tmp_path / "gone")
    nowhere = f"cannot read {str(link)!r} (a link that leads nowhere): replace or remove them"
    assert refused(tmp_path / "data", size=2) == nowhere
    link.unlink()
    link.symlink_to(link)
    assert refused(tmp_path / "data", size=2) == nowhere


@pytest.mark.usefixtures("links")
def test_links_to_images_and_to_folders_are_followed(tmp_path):
    saved(tmp_path / "far" / "1.png", RED)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").symlink_to(tmp_path / "far")
    (tmp_path / "far" / "2.png").symlink_to(tmp_path / "far" / "1.png")
    assert images_in(tmp_path / "data", size=2).labels.tolist() == [0, 0]


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
def test_an_image_is_turned_as_its_exif_orientation_says(tmp_path, suffix):
    image = Image.new("RGB", (16, 32), RED)
    image.paste(GREEN, (0, 0, 16, 16))  # above, and after a quarter turn clockwise on the right
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / f"1.{suffix}", exif=exif, quality=95)
    [found] = images_in(tmp_path, size=16).images
    assert found[0, :, :6].min() > 0.9
    assert found[1, :, 10:].min() > 0.9
    assert found[0, :, 10:].max() < 0.1


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
    assert refused(None, size=4) == "folder is None: pass a path"
    assert refused(folder, size=4, classes="ab") == "classes are 'ab': pass a list of texts"
    assert refused(folder, size=4, classes=[1, 2]) == "classes[0] is 1: pass a text"


@pytest.mark.usefixtures("links")
@pytest.mark.parametrize("target", ["loop.png", "x" * 300], ids=["circle", "impossible name"])
@pytest.mark.parametrize("name", ["loop.png", "loop"])
def test_a_link_that_cannot_be_followed_is_one_line(tmp_path, name, target):
    (tmp_path / name).symlink_to(target.replace("loop.png", name))
    with pytest.raises(
        AttributionLabError, match=r"loop.*\(a link that leads nowhere\): replace or"
    ):
        images_in(tmp_path, size=4)
    with pytest.raises(AttributionLabError, match=r"no folder at .*loop"):
        images_in(tmp_path / name, size=4)
