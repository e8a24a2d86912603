"""The page in a real browser: opened as a file, used by mouse and keyboard, narrow, wide, printed."""

import base64
import io

import matplotlib.image
import numpy as np
import pytest

import page_cases as cases
from attributionlab.show import faithfulness_page
from chromium import By, Keys, chromium, needs_browser, resize

pytestmark = needs_browser
WIDTHS = (360, 768, 1280)
SAMPLES = 15
DECIDING = "environment-2"
"""That of the page, whose samples are shown first."""


@pytest.fixture(scope="module")
def browser():
    with chromium() as driver:
        yield driver


def written(folder, document):
    path = folder / "report.html"
    path.write_text(faithfulness_page(document, cases.panels(document)), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    document = cases.failing()
    document["settings"] = {"s" * 150: "v" * 600}
    document["method"] = "a-method-with-a-long-name-" * 7
    document["command"] = "attributionlab test " + "x" * 400
    return written(tmp_path_factory.mktemp("page"), document)


@pytest.fixture
def page(browser, address):
    """The page, freshly opened; nothing that it did may have been logged as an error."""
    resize(browser, 1280)
    browser.get(address)
    yield browser
    assert browser.get_log("browser") == []


def button(page, kind, name):
    buttons = page.find_elements(By.CSS_SELECTOR, f"button[data-filter={kind}]")
    return next(b for b in buttons if b.text == name)


def shown(page):
    """Environment and rank of every sample that can be seen."""
    return [
        (sample.get_attribute("data-environment"), sample.get_attribute("data-rank"))
        for sample in page.find_elements(By.CLASS_NAME, "sample")
        if sample.is_displayed()
    ]


def status(page):
    return page.find_element(By.ID, "shown").text


def pressed(page):
    return [b.text for b in page.find_elements(By.CSS_SELECTOR, "button[aria-pressed=true]")]


@pytest.mark.long
def test_filters_work_by_mouse(page):
    assert {place for place, _ in shown(page)} == {DECIDING}
    assert status(page) == "Showing 5 of 15 samples."
    button(page, "environment", "all").click()
    assert len(shown(page)) == SAMPLES
    assert status(page) == "Showing all 15 samples."
    button(page, "rank", "median").click()
    assert shown(page) == [(f"environment-{place}", "median") for place in (1, 2, 3)]
    assert status(page) == "Showing 3 of 15 samples."
    button(page, "environment", cases.NAMES[1]).click()
    assert shown(page) == [("environment-2", "median")]
    assert pressed(page) == [cases.NAMES[1], "median"]
    button(page, "rank", "all").click()
    assert shown(page) == [("environment-2", rank) for rank in cases.RANKS]
    button(page, "environment", "all").click()
    assert len(shown(page)) == SAMPLES
    assert pressed(page) == ["all", "all"]


def test_filters_work_by_keyboard(page):
    body = page.find_element(By.TAG_NAME, "body")
    for _ in range(60):
        body.send_keys(Keys.TAB)
        body = page.switch_to.active_element
        if body.text == "worst":
            break
    outline = page.execute_script("return getComputedStyle(document.activeElement).outlineWidth")
    assert outline == "3px"
    body.send_keys(Keys.SPACE)
    assert shown(page) == [(DECIDING, "worst")]
    body.send_keys(Keys.TAB)
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert shown(page) == [(DECIDING, "lower quartile")]
    assert pressed(page)[1:] == ["lower quartile"]


def test_the_first_key_leads_past_the_head(page):
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    link = page.switch_to.active_element
    assert link.text == "Skip to the verdict"
    assert link.rect["x"] >= 0
    link.send_keys(Keys.ENTER)
    assert page.switch_to.active_element.get_attribute("id") == "main"


def test_the_command_can_be_copied_or_is_at_least_selected(page):
    page.find_element(By.ID, "copy").click()
    said = page.find_element(By.ID, "copied")
    page.execute_async_script("setTimeout(arguments[0], 100)")
    if said.text != "Copied.":
        assert said.text.startswith("Selected")
        selection = page.execute_script("return String(getSelection())")
        assert selection == page.find_element(By.ID, "command").text


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("many", [False, True], ids=["three", "nine"])
def test_the_page_itself_never_scrolls_sideways(page, width, many, tmp_path):
    resize(page, width)
    if many:
        page.get(written(tmp_path, cases.nine()))
    root = "document.documentElement"
    sizes = f"return [innerWidth, {root}.clientWidth, {root}.scrollWidth]"
    window, room, content = page.execute_script(sizes)
    assert window == width
    assert content <= room


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_seen_is_not_blank(page, width):
    resize(page, width)
    for place in ("verdict", "each", "browser"):
        page.execute_script(f"document.getElementById('{place}').scrollIntoView()")
        picture = matplotlib.image.imread(
            io.BytesIO(base64.b64decode(page.get_screenshot_as_base64()))
        )
        pixels = picture[::4, ::4].reshape(-1, picture.shape[-1])
        assert len(np.unique(pixels, axis=0)) > 20


def test_every_picture_is_decoded(page):
    sizes = page.execute_script("return [...document.images].map((i) => i.naturalWidth)")
    assert sizes == [56] * 4 * (1 + SAMPLES)  # one beside the verdict


@pytest.mark.long
@pytest.mark.parametrize("many", [False, True], ids=["three", "nine"])
def test_a_printed_page_shows_the_chosen_samples_whole_tables_and_no_filters(page, many, tmp_path):
    if many:
        page.get(written(tmp_path, cases.nine()))
    button(page, "rank", "best").click()
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        resize(page, 690)  # A4 at 96 pixels an inch, less its margins
        assert shown(page) == [(DECIDING, "best")]
        for name in ("filters", "copy"):
            assert not page.find_element(By.ID, name).is_displayed()
        ends = "(table) => table.getBoundingClientRect().right"
        tables = "[...document.querySelectorAll('table')]"
        assert max(page.execute_script(f"return {tables}.map({ends})")) <= 690
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_without_scripts_every_sample_is_shown_and_no_button(page):
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.refresh()
        assert len(shown(page)) == SAMPLES
        assert not any(b.is_displayed() for b in page.find_elements(By.TAG_NAME, "button"))
    finally:
        page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_a_dark_screen_gets_a_dark_page(page):
    color = "return getComputedStyle(document.body).backgroundColor"
    feature = {"name": "prefers-color-scheme", "value": "dark"}
    assert page.execute_script(color) == "rgb(255, 255, 255)"
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    try:
        assert page.execute_script(color) == "rgb(18, 22, 27)"
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
