"""What `mkdocs build` adds to the pages: the live network, links of terms, code outside docs/.

MkDocs loads this file by its path (`hooks` in mkdocs.yml). The pages can be read without it.
"""

import contextlib
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from markdown.extensions.toc import slugify
from mkdocs.structure.files import File

LIVE = "live-network.html"
"""Not the name of a page: docs/live.md is live.html."""
FRAME = f"""<iframe class="live" src="{LIVE}#scene=network&embed=1"
title="A network that runs in the page: click a pixel and follow its value through the layers"></iframe>

[Open the live network in a page of its own]({LIVE}): ten scenes to explore, predict and try."""
FOLDED = {
    *(
        "reproduction.md",
        "claims.md",
        "quantus-and-captum.md",
        "metrics.md",
        "methods.md",
        "teaching.md",
    ),
    *("json.md", "worlds.md", "metrics-in-worlds.md", "trained-networks.md", "metric-check.md"),
    *("networks-and-methods.md", "glossary.md", "transformers.md"),
}
"""Pages so long that their sections open on demand."""
WIDE = {"gallery.md", "networks-and-methods.md", "metric-cards.md", "methods.md"}
"""Pages whose tables and thumbnails take the place of the table of contents."""
ROWS = {"reproduction.md"}
"""Pages whose tables have paragraphs in their cells: each row opens by itself."""
COMMON = {
    *(
        "question",
        "role",
        "target",
        "control",
        "mask",
        "claim",
        "world",
        "patch",
        "context",
        "hidden",
    ),
    *(
        "captum",
        "protocol",
        "temperature",
        "environment",
        "implementation",
        "alternatives",
        "exactness",
    ),
    *(
        "attribution",
        "attributions",
        "intervals",
        "precision",
        "recall",
        "isolation",
        "intervention",
    ),
    *(
        "normalization",
        "probability",
        "positive",
        "negative",
        "overall",
        "plateau",
        "solved",
        "marker",
    ),
    *("occlusion", "insertion", "deletion", "verdict", "oracle", "baseline", "gamma", "kink"),
}
"""Words of the glossary that pages also use in another sense, or in every other sentence."""
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
        terms.update(dict.fromkeys(set(names) - COMMON, slugify(heading, "-")))
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
    if page.file.src_uri in WIDE:
        page.meta["hide"] = ["toc"]
    markdown = re.sub(r"<!-- live -->.*<!-- /live -->", FRAME, markdown, flags=re.DOTALL)
    drawing = r"[![\2](images/\1)](images/\1)"
    markdown = re.sub(r"<!-- drawing (\S+): (.*?) -->", drawing, markdown, flags=re.DOTALL)
    if page.file.src_uri == "api.md":  # a module has its functions on pages of their own
        listed = re.findall(
            r"^\| `(al\.\w+)` .*`(attributionlab\.\w+\.[\w.]+)` \|$", markdown, re.M
        )
        for short, name in listed:
            opened = f'<details class="part" markdown><summary><code>{short}</code></summary>'
            markdown += f"\n{opened}\n\n::: {name}\n\n</details>\n"
    if page.file.src_uri == "gallery.md":
        markdown = re.sub(
            r"(?:<!-- (?!end)\S+ -->\n.*?\n<!-- end -->\s*)+",
            _thumbnails,
            markdown,
            flags=re.DOTALL,
        )
    return re.sub(r"\[([^]]+)\]\(\.\./[^)]+\)", r"`\1`", markdown)


def _thumbnails(blocks):
    """Figures as a grid of buttons; each opens its figure with the command that draws it."""
    shown = []
    for block in re.findall(r"<!-- \S+ -->\n(.*?)\n<!-- end -->", blocks[0], re.DOTALL):
        command = re.search(r"`(attributionlab .*?)`", block)[1]
        shown += [
            f'<button type="button" data-command="{escape(command)}">'
            f'<img src="{address}" alt="{escape(words)}" loading="lazy">'
            f"<span>{escape(words)}</span></button>"
            for words, address in re.findall(r"!\[(.*?)\]\((\S+?)\)", block)
        ]
    return f'<div class="gallery">\n{"".join(shown)}\n</div>\n\n'


def _rows(table):
    """A table as rows that open: a summary of three cells, and all others below their headings."""
    titles = re.findall(r"<th(?: [^>]*)?>(.*?)</th>", table[0], re.DOTALL)
    rows = []
    for row in re.findall(r"<tr>(.*?)</tr>", table[0].partition("<tbody>")[2], re.DOTALL):
        cells = re.findall(r"<td(?: [^>]*)?>(.*?)</td>", row, re.DOTALL)
        head = "".join(f"<span>{cell}</span>" for cell in cells[:3])
        rest = zip(titles[3:], cells[3:], strict=True)
        body = "".join(f"<dt>{title}</dt><dd>{cell}</dd>" for title, cell in rest)
        rows.append(f'<details class="part row"><summary>{head}</summary><dl>{body}</dl></details>')
    return "".join(rows)


def _folded(html):
    """Sections that open on demand, each under its heading."""
    head, *sections = re.split(r"(?=<h2 )", html)
    for section in sections:
        heading, end, rest = section.partition("</h2>")
        head += f'<details class="part"><summary>{heading}{end}</summary>{rest}</details>'
    return head


def on_page_content(html, page, config, files):
    """Fold what is long; link each term to the glossary where a page uses it first."""
    if page.file.src_uri in ROWS:
        wide = r"<table>\s*<thead>\s*<tr>(?:\s*<th(?: [^>]*)?>[^<]*</th>){7}\s*</tr>.*?</table>"
        html = re.sub(wide, _rows, html, flags=re.DOTALL)
    if page.file.src_uri in FOLDED:
        html = _folded(html)
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
