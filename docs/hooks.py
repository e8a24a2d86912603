"""What `mkdocs build` adds to the pages: the live network, links of terms, code outside docs/.

MkDocs loads this file by its path (`hooks` in mkdocs.yml). The pages can be read without it.
"""

import inspect
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from markdown.extensions.toc import slugify
from mkdocs.structure.files import File

from attributionlab.cli.app import app

LIVE = "live-network.html"
"""Not the name of a page: docs/live.md is live.html."""
FRAME = f"""<iframe class="live" src="{LIVE}" title="A network that can be touched: choose a baseline,
an image and a method, and see what the network used"></iframe>

[Open it in a page of its own]({LIVE})"""
DRAWN = {
    "number-checker": "Weights of number-checker: six units that check, then layers that count",
    "uniform-accumulator": "The weights of uniform-accumulator: kernels of ones, layer by layer",
}
"""Networks that are small enough for a drawing, and what it shows."""
# What stays as it is: code, links, headings, and the tags themselves.
KEPT = r"(?P<kept><(?P<tag>pre|code|a|h\d|script|iframe)\b.*?</(?P=tag)>|<[^>]*>)"
terms: dict[str, str] = {}
"""Terms of the glossary in small letters -> their anchors there."""


def on_files(files, config):
    """Read the terms; add the live page and the drawings, if this version of the package makes them."""
    headings = re.findall(
        r"^### (.+)$", files.get_file_from_path("glossary.md").content_string, re.M
    )
    for heading in headings:
        names = heading.lower().split(" (")[0].split(", ")
        terms.update(dict.fromkeys(names, slugify(heading, "-")))
    commands = {
        command.name or command.callback.__name__: command for command in app.registered_commands
    }
    if "live" in commands:
        files.append(made(LIVE, config, "live", "--env", "multi-color-sum", "--out"))
    if "draw" in inspect.signature(commands["show"].callback).parameters:
        for name in DRAWN:
            files.append(made(f"images/{name}.png", config, "show", name, "--draw"))
    return files


def made(address, config, *command):
    """What a command of the package writes into the file that it names last, as a file of the site."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, Path(address).name)
        words = [sys.executable, "-m", "attributionlab", *command, path]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        return File.generated(config, address, content=path.read_bytes())


def on_page_markdown(markdown, page, config, files):
    """Put the live network in its place; name code outside docs/, which the site does not have."""
    if files.get_file_from_path(LIVE):
        markdown = re.sub(r"<!-- live -->.*<!-- /live -->", FRAME, markdown, flags=re.DOTALL)
    drawings = [
        f"![{text}](images/{name}.png)\n\n*`attributionlab show {name} --draw {name}.png`*"
        for name, text in DRAWN.items()
        if files.get_file_from_path(f"images/{name}.png")
    ]
    markdown = markdown.replace("<!-- drawings -->", "\n\n".join(drawings))
    if page.file.src_uri == "api.md":  # a module has its functions on pages of their own
        listed = re.findall(r"^\| `al\.\w+` .*`(attributionlab\.\w+\.[\w.]+)` \|$", markdown, re.M)
        markdown += "".join(f"\n::: {name}\n" for name in listed)
    return re.sub(r"\[([^]]+)\]\(\.\./[^)]+\)", r"`\1`", markdown)


def on_page_content(html, page, config, files):
    """Link each term to the glossary where a page uses it first."""
    if page.file.src_uri in ("glossary.md", "api.md"):
        return html
    unused = dict(terms)
    longest = "|".join(sorted(map(re.escape, terms), key=len, reverse=True))
    pattern = rf"{KEPT}|(?<![\w-])(?P<term>{longest})(?P<s>s?)(?![\w-])"

    def link(found):
        anchor = None if found["kept"] else unused.get(found["term"].lower())
        if anchor is None:
            return found[0]
        for name in [name for name, of in unused.items() if of == anchor]:
            del unused[name]
        return f'<a class="term" href="glossary.html#{anchor}">{found[0]}</a>'

    return re.sub(pattern, link, html, flags=re.DOTALL | re.IGNORECASE)
