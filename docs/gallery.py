"""Make docs/gallery.md: run each command that draws, keep small copies of what it drew and its time.

`python docs/gallery.py` runs all of them (hours), `python docs/gallery.py NAME ...` those named; the
rows of the others stay. A name is one of `COMMANDS` or an item of `attributionlab reproduce`.
"""

import io
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from attributionlab.papers.catalog import items
from attributionlab.report.frames import markdown

DOCS = Path(__file__).parent
PAGE, PICTURES = DOCS / "gallery.md", DOCS / "images" / "gallery"
WIDTH = 480  # of a thumbnail, in pixels
COLUMNS = ["picture", "name", "what it shows", "command", "CPU seconds"]
THREE = "saliency integrated-gradients feature-ablation-true-baseline gradcam --quick --n 6"
COMMANDS = {
    "test-figure": (
        "An image of each environment, its truth and the map of a method, with verdict and F1",
        "attributionlab test integrated-gradients --quick --n 6 --figure test-figure.png",
    ),
    "compare-figure": (
        "The F1 of several methods in each environment",
        f"attributionlab compare {THREE} --figure compare-figure.png",
    ),
    "compare-maps": (
        "The maps of several methods beside image and truth",
        f"attributionlab compare {THREE} --env quadrants --maps compare-maps.png",
    ),
    "compare-forms": (
        "The F1 before the plain networks and before the worst of the networks with equal answers",
        f"attributionlab compare {THREE} --env multi-color-sum --equivalent 3 "
        "--forms compare-forms.png",
    ),
    "metric-figure": (
        "How far a metric ranks maps as the truth does, and what unseen data take away",
        "attributionlab metric deletion --quick --n 6 --figure metric-figure.png",
    ),
    "leaderboard-figure": (
        "Methods ranked by many cases at once, beside the ranking of the truth",
        "attributionlab leaderboard --quick --figure leaderboard-figure.png",
    ),
    "leaderboard-metrics": (
        "Metrics by their agreement with the truth, with intervals over worlds",
        "attributionlab leaderboard --metrics deletion insertion road --worlds 6 --image-size 32 "
        "--figure leaderboard-metrics.png",
    ),
}


def drawn(name: str) -> list[list[str]]:
    """Run a command in an empty folder; keep its pictures, and return their rows."""
    title, command = COMMANDS.get(name) or (
        items()[name].title,
        f"attributionlab reproduce {name} --quick --out .",
    )
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 1, 3):  # verdicts are no errors
            raise SystemExit(f"{command}\n{done.stderr}")
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found = sorted(Path(folder).glob("*.png"))
        return [row(path, title, command, seconds) for path in found]


def row(path: Path, title: str, command: str, seconds: float) -> list[str]:
    picture = Image.open(io.BytesIO(path.read_bytes())).convert("RGB")
    picture.thumbnail((WIDTH, WIDTH), Image.Resampling.LANCZOS)
    PICTURES.mkdir(exist_ok=True)
    picture.quantize(128).save(PICTURES / path.name, optimize=True)
    shown = f"![{path.stem}: {title}](images/gallery/{path.name})"
    return [shown, f"`{path.stem}`", title, f"`{command}`", f"{seconds:.0f}"]


def main(names: list[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    head, _, table = page.partition(markdown(COLUMNS, []).partition("\n")[0])
    rows = [re.split(r" \| ", line[2:-2]) for line in table.splitlines() if "![" in line]
    order = [*COMMANDS, *items()]
    by_name: dict[str, list[list[str]]] = {name: [] for name in order}
    for each in rows:
        own = [name for name in order if f"reproduce {name} " in each[3] or f"`{name}`" == each[1]]
        by_name[own[0]].append(each)
    for name in names or order:
        by_name[name] = drawn(name)
        kept = [each for rows in by_name.values() for each in rows]
        PAGE.write_text(f"{head}{markdown(COLUMNS, kept)}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
