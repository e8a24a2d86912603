"""Files that commands are tried on, and ways to run a command."""

import os
import re
import subprocess
import sys
from pathlib import Path

import attributionlab as al

DESIGN = """
claim = "A test."
formula = "sum of x"
source = "a test"
"""
FILES = {
    "small.toml": f"""{DESIGN}
builder = "white-sum"
dataset = "images.toml"
[constants]
smoothing = 0.05
""",
    "images.toml": """
generator = "binary-patches"
size = 4
seed = 0
[constants]
image_size = 16
""",
    "colors.toml": f"""{DESIGN}
builder = "color-sum"
dataset = "four.toml"
""",
    "four.toml": """
generator = "color-patches"
size = 4
seed = 0
[constants]
image_size = 24
colors = [[220, 120, 20], [220, 20, 120], [120, 220, 20], [20, 220, 120]]
background = [20, 20, 20]
""",
    "mine.py": """
def right(model, inputs, targets):
    return inputs

def wrong(model, inputs, targets):
    return 1 - inputs

def gradients(model, inputs, targets):
    inputs.requires_grad_()
    model(inputs).gather(1, targets[:, None]).sum().backward()
    return (inputs.grad * inputs).sum(1).sign()

def foreground(model, inputs, targets):
    return (inputs != inputs[:, :1]).any(1).float()

def broken(model, inputs, targets, **settings):
    raise ValueError("no such\\nluck")

def shifted(model, inputs, targets, *, by: int = 0):
    return inputs.roll(by, dims=3)

def leave(model, inputs, targets):
    raise SystemExit(0)

def stopped(model, inputs, targets):
    raise KeyboardInterrupt
""",
}
"""Designs, their data sets and methods."""

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(al.__file__).parents[1])}


def write_files(folder: Path) -> Path:
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def python(*words: str, env: dict[str, str] | None = None, **options):
    """A process of this Python with the package under test; its output as text unless told where."""
    if not {"stdout", "stderr"} & options.keys():
        options["capture_output"] = True
    return subprocess.run(
        [sys.executable, *words], env=ENVIRONMENT | (env or {}), text=True, check=False, **options
    )


def command(*words: str, **options):
    """`attributionlab` in a process of its own."""
    return python("-m", "attributionlab", *words, **options)


def without_progress(error: str) -> str:
    """Standard error without lines such as "right on small: 1 of 2 images, 3 s, about 3 s left"."""
    return re.sub(r"^.*\d s( left)?\n", "", error, flags=re.MULTILINE)
