"""The sheet datasets/previews.png, which `python tests/pages.py previews.png` draws."""

import hashlib
import io
import tomllib
from pathlib import Path

import attributionlab as al
from attributionlab.show import map_grid, visible

DATASETS = Path(__file__).parents[1] / "datasets"
PREVIEWS = DATASETS / "previews.png"
SIDE, ACROSS = 72, 8


def digest() -> str:
    """What the sheet depends on: the data sets' files, and the designs, which say what counts."""
    files = sorted(DATASETS.glob("*.toml")) + sorted((DATASETS.parent / "designs").glob("*.toml"))
    content = "".join(f"{file.name}\n{file.read_text(encoding='utf-8')}" for file in files)
    return hashlib.sha256(content.encode("utf-8")).hexdigest()


def environment_with(dataset: str, side: int) -> al.Environment:
    """The first environment, by name, that has a data set."""
    for name in al.environments():
        design = DATASETS.parent / "designs" / f"{name}.toml"
        if tomllib.loads(design.read_text(encoding="utf-8"))["dataset"] == dataset:
            return al.load(name, image_size=side)
    like = "quadrants" if dataset.startswith("colors-everywhere") else "multi-color-sum"
    return al.load(like, dataset=dataset, image_size=side)


def sheet(side: int = SIDE, across: int = ACROSS) -> bytes:
    """The contact sheet as a PNG file."""
    rows = {}
    for file in sorted(DATASETS.glob("*.toml")):
        env = environment_with(file.stem, side)
        images, _ = env.batch(across)
        rows[file.stem] = [visible(each, float(images.max())) for each in images.numpy()]
    figure = map_grid(
        rows,
        title=f"The first images of each data set, {side} x {side} pixels; each row brightened",
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80, metadata={"Description": digest()})
    return buffer.getvalue()


def drawn_from(png: bytes) -> str:
    """The digest with which a sheet was drawn."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        return str(image.info.get("Description"))
