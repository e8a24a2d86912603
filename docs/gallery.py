"""Make docs/gallery.md: what commands draw, in small copies, with the seconds that it took.

`python docs/gallery.py NAME ... DIR`: a name is one of `COMMANDS`, which is run; DIR is a folder that
`attributionlab reproduce all --quick --out DIR` wrote. What is not named stays as it is.
"""

import io
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from attributionlab.papers import items
from attributionlab.runs import Store

DOCS = Path(__file__).parent
PAGE, PICTURES = DOCS / "gallery.md", DOCS / "images" / "gallery"
WIDTH, QUALITY = 400, 50  # of a thumbnail
FOUR = "saliency integrated-gradients feature-ablation-true-baseline gradcam --quick --n 6"
COMMANDS = {
    "test-figure": (
        "An image of each environment, its truth and the map of a method, with verdict and F1",
        "attributionlab test integrated-gradients --quick --n 6 --figure test-figure.png",
    ),
    "compare-figure": (
        "Share of questions solved by several methods in each environment",
        f"attributionlab compare {FOUR} --preset paper --figure compare-figure.png",
    ),
    "compare-maps": (
        "The maps of several methods beside image and truth",
        f"attributionlab compare {FOUR} --preset paper --env quadrants --maps compare-maps.png",
    ),
    "compare-forms": (
        "The F1 on the original networks and on the worst of the equivalent networks",
        f"attributionlab compare {FOUR} --preset paper --env multi-color-sum --also equivalent:3 "
        "--forms compare-forms.png",
    ),
    "metric-figure": (
        "How far a metric ranks maps as the truth does, and what unseen data take away",
        "attributionlab metric deletion --n 6 --figure metric-figure.png",
    ),
    "leaderboard-figure": (
        "Methods ranked by many cases at once, beside the ranking of the truth",
        "attributionlab leaderboard --quick --figure leaderboard-figure.png",
    ),
    "leaderboard-metrics": (
        "Metrics by their agreement with the truth, with intervals over worlds",
        "attributionlab metrics deletion insertion f1 --env multi-color-sum-distractors "
        "--env quadrants --env marker-flips --env all-four --env random:6 --image-size 24 "
        "--figure leaderboard-metrics.png",
    ),
}


def drawn(name: str) -> str:
    """Run a command in an empty folder: its block of the page."""
    title, command = COMMANDS[name]
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 1, 3):  # verdicts are no errors
            raise SystemExit(f"{command}\n{done.stderr}")
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        pictures = {path.stem: path.read_bytes() for path in Path(folder).glob("*.png")}
    return block({name: title}, dict.fromkeys(pictures, name), pictures, command, seconds)


def reproduced(folder: Path) -> dict[str, str]:
    """Blocks of items, of which those that were computed together have one."""
    blocks = {}
    with Store(folder, writable=False) as store:
        rows = list(store.rows("reproduce"))
    for row in rows:
        group = row.place["item"].split(", ")
        pictures: dict[str, bytes] = {}
        owners = {}
        for name in group:
            for key in figures(folder, name):
                png = (folder / f"{key}.png").read_bytes()
                if png not in pictures.values():  # of items that show the same
                    pictures[key], owners[key] = png, name
        if pictures:
            command = f"attributionlab reproduce {' '.join(group)} --quick --out papers"
            titles = {name: items()[name].title for name in group}
            blocks[group[0]] = block(titles, owners, pictures, command, row.seconds)
    return blocks


def figures(folder: Path, item: str) -> list[str]:
    """Names of an item's figures: no other item's name begins a longer part of the file's."""
    found = (path.stem for path in sorted(folder.glob(f"{item}-*.png")))
    longer = tuple(f"{name}-" for name in items() if name.startswith(f"{item}-"))
    return [stem for stem in found if not stem.startswith(longer)]


def block(
    titles: Mapping[str, str],
    owners: Mapping[str, str],
    pictures: Mapping[str, bytes],
    command: str,
    seconds: float,
) -> str:
    """Titles, thumbnails, the command and its seconds."""
    shown = []
    for key, png in sorted(pictures.items()):
        picture = Image.open(io.BytesIO(png)).convert("RGB")
        picture.thumbnail((WIDTH, 2 * WIDTH), Image.Resampling.LANCZOS)
        PICTURES.mkdir(exist_ok=True)
        picture.save(PICTURES / f"{key}.webp", quality=QUALITY, method=6)
        shown.append(f"![{key}: {titles[owners[key]]}](images/gallery/{key}.webp)")
    named = [f"**{name}**: {title}" for name, title in titles.items()]
    cost = f"`{command}`, {seconds:.0f} CPU seconds"
    return "\n\n".join(["  \n".join(named), "\n".join(shown), cost])


def main(names: list[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition("\n## ")
    blocks = dict(re.findall(r"<!-- (\S+) -->\n(.*?)\n<!-- end -->", rest, re.DOTALL))
    for name in names:
        blocks |= reproduced(Path(name)) if Path(name).is_dir() else {name: drawn(name)}
        parts = [head.rstrip()]
        sections = dict.fromkeys(COMMANDS, "Commands") | {n: i.paper for n, i in items().items()}
        for name, title in sections.items():
            if name in blocks:
                heading = f"## {title}"
                parts += [] if heading in parts else [heading]
                parts.append(f"<!-- {name} -->\n{blocks[name]}\n<!-- end -->")
        PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    for path in PICTURES.iterdir():
        if f"/{path.name})" not in text:
            path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
