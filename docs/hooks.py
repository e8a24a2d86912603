"""What `mkdocs build` adds to the pages: the live network, links of terms, code outside docs/.

MkDocs loads this file by its path (`hooks` in mkdocs.yml). The pages can be read without it.
"""

import contextlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from markdown.extensions.toc import slugify
from mkdocs.structure.files import File

LIVE = "live-network.html"
"""Not the name of a page: docs/live.md is live.html."""
FRAME = f"""<iframe class="live" src="{LIVE}" title="A network that can be touched: choose a baseline,
an image and a method, and see what the network used"></iframe>

[Open it in a page of its own]({LIVE})"""
# What stays as it is: code, links, headings, and the tags themselves.
KEPT = r"(?P<kept><(?P<tag>pre|code|a|h\d|script|iframe)\b.*?</(?P=tag)>|<[^>]*>)"
terms: dict[str, str] = {}
"""Terms of the glossary in small letters -> their anchors there."""


def on_files(files, config):
    """Read the terms; add the live page, and what snippets of networks.md draw."""
    headings = re.findall(
        r"^### (.+)$", files.get_file_from_path("glossary.md").content_string, re.M
    )
    for heading in headings:
        names = heading.lower().split(" (")[0].split(", ")
        terms.update(dict.fromkeys(names, slugify(heading, "-")))
    networks = files.get_file_from_path("networks.md").content_string
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        live = [sys.executable, "-m", "attributionlab", "live", "--out", LIVE]
        subprocess.run(live, check=True, stdout=subprocess.DEVNULL)
        for code in re.findall(r"```python\n(.*?)```", networks, re.DOTALL):
            if "savefig" in code:
                exec(code, {})
        for path in Path(folder).iterdir():
            address = path.name if path.name == LIVE else f"images/{path.name}"
            files.append(File.generated(config, address, content=path.read_bytes()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Put the live network in its place; name code outside docs/, which the site does not have."""
    markdown = re.sub(r"<!-- live -->.*<!-- /live -->", FRAME, markdown, flags=re.DOTALL)
    drawing = r"[![\2](images/\1)](images/\1)"
    markdown = re.sub(r"<!-- drawing (\S+): (.*?) -->", drawing, markdown, flags=re.DOTALL)
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
