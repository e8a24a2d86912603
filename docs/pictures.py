"""Make pictures of README and docs, with what they show written into each PNG.

`python docs/pictures.py` (or `make pictures`) writes docs/images/; that of a page needs Chrome.
"""

import base64
import contextlib
import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from PIL import Image, PngImagePlugin

import attributionlab as al
from attributionlab import cli
from attributionlab.show.style import SIGNED, VERDICT_COLORS

IMAGES = Path(__file__).parent / "images"
METHOD = "captum.attr:IntegratedGradients --n 13"
HERO = "networks.png"
COMMANDS = {
    "report.png": f"attributionlab test {METHOD} --html report.html",
}
"""What a reader types to see the same."""
SOLVED = 2 / 3
WORLD, SIDE, SEED, SHOWN = "multi-color-sum-distractors", 24, 2, 3
"""Where three networks are compared, and on which image, of the size at which one was trained."""
METHODS = {
    "Saliency": "saliency",
    "Input x\nGradient": "input-x-gradient",
    "GradCAM": "gradcam",
    "Integrated\nGradients\n(from black)": "integrated-gradients",
    "Integrated\nGradients\n(true baseline)": "integrated-gradients-true-baseline",
    "Feature\nablation": "feature-ablation-true-baseline",
}
RETRIEVES = "two-retrieves.png"
OF_TOKENS = (
    *("feature-ablation", "input-x-gradient", "integrated-gradients", "integrated-gradients-exact"),
    *("attention-rollout", "chefer-lrp", "attnlrp"),
)
SEEN = 1000
"""Width, in pixels, of what is shown of a page; it ends with the verdict's card."""


def run(command: str, folder: Path) -> tuple[dict[str, Any], Path]:
    """Run a command; what its report says, and the file that it wrote."""
    *words, file = shlex.split(command)[1:]
    written, report = folder / file, folder / "report.json"
    with contextlib.chdir(folder):  # the page shows the command
        cli.main([*words, file, "--json", report.name])
    return json.loads(report.read_text(encoding="utf-8")), written


def said(document: dict[str, Any]) -> dict[str, Any]:
    """Verdict, and of each environment its verdict and the mean F1 of every part to two digits."""
    return {
        "verdict": document["verdict"],
        "environments": {
            each["name"]: {
                "verdict": each["verdict"],
                **{
                    part: None if not each[part] else round(each[part]["f1"], 2)
                    for part in ("overall", "positive", "negative")
                },
            }
            for each in document["environments"]
        },
    }


def photograph(page: Path, picture: Path) -> None:
    """Write what a browser shows of a page, down to the end of its verdict."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.add_argument("--headless=new")
    options.add_argument("--no-sandbox")
    options.add_argument("--hide-scrollbars")
    options.add_argument(f"--window-size={SEEN},1000")
    browser = webdriver.Chrome(options=options)
    try:
        browser.get(page.as_uri())
        verdict = "document.querySelector('.verdict').getBoundingClientRect()"
        height = browser.execute_script(f"return {verdict}.bottom + 16")
        clip = {"x": 0, "y": 0, "width": SEEN, "height": height, "scale": 1}
        wanted = {"clip": clip, "captureBeyondViewport": True}
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", wanted)
        picture.write_bytes(base64.b64decode(shot["data"]))
    finally:
        browser.quit()


def networks() -> dict[str, al.Environment]:
    """Three networks of one rule: same images, same truth."""
    return {
        "the paper's\nnetwork": al.load(WORLD, image_size=SIDE),
        "a natural\nnetwork": al.load(WORLD, image_size=SIDE, implementation="natural"),
        "a trained\nnetwork": al.trained_environment(WORLD),
    }


def explained(env: al.Environment) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """The image that is shown, its signed truth, and the map of each method."""
    images, labels = (each[[SHOWN]] for each in env.batch(SHOWN + 1, seed=SEED))
    truth = env.truth(images, labels).signed
    maps = {name: al.attribute(name, env, images, labels) for name in METHODS.values()}
    return images[0].numpy(), truth[0, 0].numpy(), {n: m[0, 0].numpy() for n, m in maps.items()}


def counted_f1(name: str, values: np.ndarray, truth: np.ndarray) -> float:
    """The F1 that a test counts: that of the method's claim, or the lowest of all parts."""
    maps, signed = torch.from_numpy(values)[None, None], torch.from_numpy(truth)[None, None]
    parts = al.metrics.parts_f1(maps, signed)
    claim = getattr(al.methods.METHODS[name], "claim", None)
    return float(parts[claim]) if claim in parts else min(map(float, parts.values()))


def three_networks(picture: Path) -> dict[str, dict[str, float]]:
    """Draw one image, its truth, and what methods show on three networks of one rule; return F1."""
    drawn, found = Figure(figsize=(11, 5.2), layout="compressed"), {}
    axes = drawn.subplots(3, 2 + len(METHODS))
    for row, (label, env) in zip(axes, networks().items(), strict=True):
        image, truth, maps = explained(env)
        row[0].imshow(image.transpose(1, 2, 0) / 255)
        row[0].set_ylabel(label, rotation=0, ha="right", va="center", labelpad=8)
        row[1].imshow(truth, cmap=SIGNED, vmin=-1, vmax=1)
        scores = {name: counted_f1(name, values, truth) for name, values in maps.items()}
        for axis, name in zip(row[2:], maps, strict=True):
            values, right = maps[name], scores[name] > SOLVED
            axis.imshow(values / (np.abs(values).max() or 1), cmap=SIGNED, vmin=-1, vmax=1)
            color = VERDICT_COLORS["pass" if right else "fail"]
            mark = "\N{CHECK MARK}" if right else "\N{BALLOT X}"
            axis.set_xlabel(f"{mark} F1 {scores[name]:.2f}", color=color, fontsize=9)
            for spine in axis.spines.values():
                spine.set(color=color, linewidth=1.5)
        found[" ".join(label.split())] = {name: round(f1, 2) for name, f1 in scores.items()}
    for axis, title in zip(axes[0], ("image", "truth", *METHODS), strict=True):
        axis.set_title(title, fontsize=9)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    drawn.savefig(picture, dpi=130, bbox_inches="tight")
    return found


def attention(model: Any, ids: torch.Tensor) -> list[torch.Tensor]:
    """The attention of each block to each token, (tokens, tokens), the largest over its heads; 0 where
    they move nothing.
    """
    found: list[torch.Tensor] = []

    def note(block: Any, output: torch.Tensor) -> None:
        found.append(output[0].amax(0) * bool(block.attention.value.weight.any()))

    for block in model.blocks:
        block.attention.softmax.register_forward_hook(
            lambda *call, block=block: note(block, call[2])
        )
    with torch.no_grad():
        model(ids)
    return found


def two_retrieves(picture: Path) -> dict[str, dict[str, list[float]]]:
    """Draw one function as two transformers: their attention, and maps of methods; return the maps."""
    drawn, found = Figure(figsize=(11, 5.2), layout="constrained"), {}
    axes = drawn.subplots(2, 2, height_ratios=(1, 1.3), sharex=True, sharey="row")
    for (above, below), place in zip(axes.T, ("scores", "values"), strict=True):
        env: Any = al.load(f"retrieve-{place}")
        images, _ = env.batch(1)
        given = (env, images, torch.tensor([0]))
        maps = {name: al.attribute(name, *given)[0, 0, 0].double().numpy() for name in OF_TOKENS}
        matrices = [each.numpy() for each in attention(env.model, env.ids(images))]
        arrives = {env.model.read % 16}  # what the output is read from, and what is moved there
        for level in reversed(range(len(matrices))):
            above.scatter(range(-1, 15), [level + 1] * 16, s=8, color="#888888")
            pairs = list(zip(*np.nonzero(matrices[level] > 0.01), strict=True))
            for token, other in pairs:
                color = "#0072B2" if token in arrives else "#bbbbbb"
                strength = 0.3 + 0.7 * matrices[level][token, other]
                above.plot([token - 1, other - 1], [level + 1, level], color=color, alpha=strength)
            arrives |= {other for token, other in pairs if token in arrives}
        above.scatter(range(-1, 15), [0] * 16, s=8, color="#888888")
        above.set_yticks([0.5, 1.5, 2.5], ["block 1", "block 2", "block 3"])
        above.set(xlim=(-1.5, 14.5), title=f"retrieve-{place}: the gate stands in {place}")
        truth = env.truth(images, [0]).signed[0, 0, 0].numpy()
        rows = np.stack([truth, *(each / (np.abs(each).max() or 1) for each in maps.values())])
        below.imshow(rows, cmap=SIGNED, vmin=-1, vmax=1, aspect="auto")
        below.set_yticks(range(len(rows)), ["truth", *maps])
        below.set_xticks(range(-1, 15), ["start", *env.said(images[0])], rotation=60, ha="right")
        found[place] = {name: np.round(each, 3).tolist() for name, each in maps.items()}
    drawn.savefig(picture, dpi=130)
    return found


def written_into(picture: Path, name: str, texts: dict[str, str]) -> None:
    """Keep a picture in docs/images/, with these texts in it."""
    told = PngImagePlugin.PngInfo()
    for key, text in texts.items():
        told.add_text(key, text)
    few = Image.open(picture).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=0)
    few.save(IMAGES / name, pnginfo=told, optimize=True)


def main() -> None:
    """Make the pictures that are named, or all."""
    for name in sys.argv[1:] or (HERO, RETRIEVES, *COMMANDS):
        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder) / name
            if name in (HERO, RETRIEVES):
                result: Any = (three_networks if name == HERO else two_retrieves)(picture)
                written_into(picture, name, {"Result": json.dumps(result)})
                continue
            document, written = run(COMMANDS[name], Path(folder))
            photograph(written, picture)
            texts = {"Command": COMMANDS[name], "Result": json.dumps(said(document))}
            written_into(picture, name, texts)


if __name__ == "__main__":
    main()
