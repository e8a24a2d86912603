"""The documentation as a site: built strictly, and used in a browser from files, without a network."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from chromium import By, chromium, needs_browser, resize
from html_pages import Outline

REPOSITORY = Path(__file__).parents[1]
LIVE = "live-network.html"
"""Of docs/hooks.py."""
pytest.importorskip("material", reason="mkdocs-material is not installed (extra docs)")
pytestmark = [pytest.mark.long, *needs_browser]


@pytest.fixture(scope="module")
def browser():
    with chromium() as driver:
        yield driver


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {
        path.relative_to(site).as_posix(): Outline(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
        if path.name not in ("404.html", LIVE)
    }


def test_the_first_page_has_the_live_network_itself(site):
    first = (site / "index.html").read_text(encoding="utf-8")
    assert f'<iframe class="live" src="{LIVE}#scene=network' in first  # nothing to predict first
    assert 'id="question"' in (site / LIVE).read_text(encoding="utf-8")
    assert not (REPOSITORY / "docs" / LIVE).with_suffix(".md").exists()  # no page is of that name


def test_every_link_has_a_file_and_an_anchor(site, pages):
    missing = []
    anchors = {name: {"", *page.values("id", "name")} for name, page in pages.items()}
    for name, page in pages.items():
        for address in page.values("href", "src", "data"):
            parts = urlsplit(address)
            if parts.scheme:
                continue
            target = (site / name).parent / unquote(parts.path) if parts.path else site / name
            known = anchors.get(os.path.relpath(target, site).replace(os.sep, "/"))
            if not target.exists() or (known and unquote(parts.fragment) not in known):
                missing.append(f"{name}: {address}")
    assert len(pages) > 25
    assert missing == []


def test_every_picture_says_in_words_what_it_shows(pages):
    without = [
        (name, picture["src"])
        for name, page in pages.items()
        for picture in page.every("img")
        if len(picture.get("alt") or "") < 20 and picture.get("alt") != "logo"  # of the header
    ]
    assert without == []


def test_every_page_of_docs_stands_in_the_navigation(site, pages):
    links = set(pages["index.html"].values("href"))
    docs = {f"{path.stem}.html" for path in (REPOSITORY / "docs").glob("*.md")}
    assert docs - links - {"index.html"} == {"course-answers.html"}
    assert not (site / "course-answers.html").exists()  # for lecturers


def test_terms_are_linked_where_a_page_uses_them_first(site):
    text = (site / "what-a-pass-proves.html").read_text(encoding="utf-8")
    linked = re.findall(r'<a class="term" href="glossary.html#([^"]+)">', text)
    assert len(linked) >= 10
    assert len(linked) == len(set(linked))
    assert not {"question", "role", "target"} & {*linked}  # words of every other sentence
    assert not re.search(r"<(h\d|code|a )[^>]*>[^<]*<a class=\"term\"", text)


LOADED = """return Array.from(
    document.querySelectorAll("script[src], link[rel=stylesheet], img, iframe"))
    .map((each) => each.src || each.href || "data:")"""
WIDER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


TALLEST = 8000
"""Pixels of a page at a width of 1440: sections and rows that are longer open on demand."""


def test_no_page_is_endless_and_links_open_folded_sections(browser, site, pages):
    resize(browser, 1440)
    tall = {}
    for name in pages:
        browser.get((site / name).as_uri())
        tall[name] = browser.execute_script("return document.documentElement.scrollHeight")
    assert {name: height for name, height in tall.items() if height > TALLEST} == {}
    browser.get((site / "worlds.html").as_uri() + "#the-grammar")
    seen = browser.find_element(By.ID, "the-grammar").find_element(By.XPATH, "ancestor::details")
    assert seen.get_attribute("open")


def test_a_thumbnail_of_the_gallery_opens_its_figure_with_the_command(browser, site):
    browser.get((site / "gallery.html").as_uri())
    thumbnails = browser.find_elements(By.CSS_SELECTOR, ".gallery button")
    assert len(thumbnails) == len([*(REPOSITORY / "docs" / "images" / "gallery").iterdir()])
    thumbnails[0].click()
    figure = browser.find_element(By.CSS_SELECTOR, "dialog[open]")
    assert "attributionlab test integrated-gradients" in figure.text
    figure.find_element(By.TAG_NAME, "button").click()
    assert browser.find_elements(By.CSS_SELECTOR, "dialog") == []


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("name", ["index", "glossary", "methods", "gallery", "api"])
def test_pages_open_from_files_without_a_network(browser, site, name, width):
    browser.execute_cdp_cmd("Network.enable", {})
    conditions = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)
    resize(browser, width)
    browser.get((site / f"{name}.html").as_uri())
    time.sleep(0.5)  # what scripts ask for later
    sent = browser.execute_script(LOADED)
    assert any("bundle" in address for address in sent)
    assert {urlsplit(address).scheme for address in sent} <= {"file", "data", "blob"}
    assert (
        browser.get_log("browser") == []
    )  # where the network is off, any other request is an error
    assert browser.execute_script(WIDER) <= 0


def test_the_search_finds_a_term_without_a_server(browser, site):
    resize(browser, 1200)
    browser.get((site / "index.html").as_uri())
    browser.execute_script("document.querySelector('[data-md-toggle=search]').click()")
    field = browser.find_element(By.CSS_SELECTOR, ".md-search__input")
    field.send_keys("what isolation excludes")
    end = time.monotonic() + 20
    results = []
    while not results and time.monotonic() < end:
        time.sleep(0.2)
        results = browser.find_elements(By.CSS_SELECTOR, ".md-search-result__link")
    assert any("what-a-pass-proves.html" in each.get_attribute("href") for each in results)
    assert browser.get_log("browser") == []
