"""Make the README's pictures: each from the command that its PNG names, beside the verdict drawn.

`python docs/pictures.py` (or `make pictures`) writes docs/images/; the second picture needs Chrome.
"""

import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image, PngImagePlugin

from attributionlab import cli

IMAGES = Path(__file__).parent / "images"
ENVIRONMENTS = "--env multi-color-sum-distractors --env quadrants"
METHOD = f"captum.attr:IntegratedGradients {ENVIRONMENTS} --quick --n 13"
COMMANDS = {
    "integrated-gradients.png": f"attributionlab test {METHOD} --figure integrated-gradients.png",
    "report.png": f"attributionlab test {METHOD} --html report.html",
}
"""What a reader types to see the same."""
SEEN = 1000, 1150
"""Width and height, in pixels, of what is shown of a page."""


def run(command: str, folder: Path) -> tuple[dict[str, Any], Path]:
    """Run a command; what its report says, and the file that it wrote."""
    *words, file = shlex.split(command)[1:]
    written, report = folder / file, folder / "report.json"
    cli.main([*words, str(written), "--json", str(report)])
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
    """Write what a browser shows first of a page."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.add_argument("--headless=new")
    options.add_argument("--no-sandbox")
    options.add_argument("--hide-scrollbars")
    options.add_argument("--window-size={},{}".format(*SEEN))
    browser = webdriver.Chrome(options=options)
    try:
        browser.get(page.as_uri())
        browser.save_screenshot(str(picture))
    finally:
        browser.quit()


def main() -> None:
    """Make the pictures that are named, or all."""
    for name in sys.argv[1:] or COMMANDS:
        with tempfile.TemporaryDirectory() as folder:
            document, written = run(COMMANDS[name], Path(folder))
            picture = Path(folder) / name
            if written.suffix == ".html":
                photograph(written, picture)
            texts = PngImagePlugin.PngInfo()
            texts.add_text("Command", COMMANDS[name])
            texts.add_text("Result", json.dumps(said(document)))
            Image.open(picture).convert("RGB").quantize(256).save(
                IMAGES / name, pnginfo=texts, optimize=True
            )


if __name__ == "__main__":
    main()
