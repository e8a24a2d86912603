"""Items of papers as one HTML page: claims with their answers, tables, figures, and versions."""

import io
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup

from attributionlab.base import cut, printable
from attributionlab.show.frames import cell_text
from attributionlab.show.page import HERE, LONGEST_COMMAND, style_policy, template
from attributionlab.show.pictures import png_uri

if TYPE_CHECKING:
    import pandas as pd

LARGEST_PAGE = 15_000_000
"""Bytes."""
LONGEST_TABLE, BEGINNING = 60, 10
"""Rows beyond which only a beginning of so many rows is shown."""
LONGEST_CELL, LONGEST_ERROR = 300, 10_000
"""Characters."""
WIDEST, COLORS = 1000, 128
"""A figure on the page: at most so many pixels wide, in so many colors; its file has it as drawn."""
PUBLISHED = ("paper", "published")
"""What columns with the papers' own numbers are called, or begin with."""


def reproduction_page(document: Mapping[str, Any]) -> str:
    """Items of papers as an HTML page of under 15 MB that loads nothing.

    Of a table of more than 60 rows the first 10 are shown. Figures for which there is no room are links
    to the files beside the page; every item's first comes before any item's second. A figure that
    several items have is shown once. The same input gives the same page.

    Parameters
    ----------
    document : mapping
        `quick`, `seed`, `command`, `versions` (lists by name), `summary` (a row for each paper) and
        `papers`: by name, a list of items with `name`, `title`, `place`, `grade`, `status`, `error`,
        `reason`, `claims`, `notes`, `run`, `command`, `own`, `readings`, `tables` (DataFrames),
        `figures` (bytes of PNG files) and `files`.

    Returns
    -------
    str
        To be written as UTF-8.
    """
    style = "".join((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "items.css"))
    whole = template("items")
    content = {
        **document,
        "command": cut(printable(document["command"]), LONGEST_COMMAND),
        "papers": [
            {"name": name, "anchor": f"paper-{place}", "items": [_item(each) for each in every]}
            for place, (name, every) in enumerate(document["papers"].items(), start=1)
        ],
        "total": _total(document["summary"]),
        "style": Markup(style),
        "policy": style_policy(style),
    }
    without = whole.render(content, pictures={}, alike={})
    room = LARGEST_PAGE - len(without.encode())
    pictures: dict[str, Markup] = {}
    alike: dict[str, str] = {}
    shown: dict[bytes, str] = {}
    turns = list(_by_turns(document["papers"]))
    with ThreadPoolExecutor() as pool:  # Pillow computes without the interpreter's lock
        distinct = dict.fromkeys(png for _, png in turns)
        addresses = dict(zip(distinct, pool.map(_address, distinct), strict=True))
    for anchor, png in turns:
        if png in shown:
            alike[anchor] = shown[png]
        elif len(address := addresses[png]) < room:
            pictures[anchor], shown[png] = Markup(address), anchor
            room -= len(address)
    return whole.render(content, pictures=pictures, alike=alike)


def _item(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item as the template takes it."""
    name = item["name"]
    return {
        **item,
        "anchor": name,
        "error": cut(item["error"], LONGEST_ERROR),
        "reason": cut(printable(item["reason"])),
        "answers": {each: [c["here"] for c in item["claims"]].count(each) for each in ANSWERS},
        "tables": [
            _table(name, key, table, item["readings"].get(key, ""))
            for key, table in item["tables"].items()
        ],
        "figures": [
            {"name": key, "anchor": f"{name}-figure-{key}", "file": quote(f"{name}-{key}.png")}
            for key in item["figures"]
        ],
        "files": [(file, quote(file)) for file in item["files"]],
    }


ANSWERS = ("agrees", "differs", "undecided")


def _table(item: str, name: str, table: "pd.DataFrame", reading: str) -> dict[str, Any]:
    """A table as texts, only its beginning where it is long."""
    columns = [printable(str(column)) for column in table]
    shown = table if len(table) <= LONGEST_TABLE else table[:BEGINNING]
    return {
        "name": name,
        "anchor": f"{item}-table-{name}",
        "reading": reading,
        "columns": [column.replace("_", " ") for column in columns],
        "published": [column.startswith(PUBLISHED) for column in columns],
        "numeric": [column.dtype.kind in "iuf" for _, column in table.items()],
        "rows": [
            [cut(cell_text(value), LONGEST_CELL) for value in row]
            for row in shown.itertuples(index=False)
        ],
        "length": len(table),
        "file": quote(f"{item}-{name}.csv"),
    }


def _by_turns(papers: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[tuple[str, bytes]]:
    """Anchors and figures: the first of every item, the second of every item, and so on; of those the
    small ones first, so that there is room for many.
    """
    turns = [
        (turn, f"{item['name']}-figure-{key}", png)
        for every in papers.values()
        for item in every
        for turn, (key, png) in enumerate(item["figures"].items())
    ]
    for _, anchor, png in sorted(turns, key=lambda each: (each[0], len(each[2]))):
        yield anchor, png


def _address(png: bytes) -> str:
    """A figure as a data URI, in fewer pixels and colors."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        small = image.convert("RGB")
        small.thumbnail((WIDEST, 10 * WIDEST), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        small.quantize(COLORS, dither=Image.Dither.NONE).save(buffer, "png", optimize=True)
    smaller = min(buffer.getvalue(), png, key=len)
    return png_uri(smaller)


def _total(summary: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Sums over papers."""
    return {name: sum(row[name] for row in summary) for name in summary[0] if name != "paper"}
