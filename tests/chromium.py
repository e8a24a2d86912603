"""Headless Chromium for tests of pages; tests are skipped where it is missing."""

import os
import shutil
from contextlib import contextmanager

import pytest

REQUIRED = os.environ.get("REQUIRE_BROWSER") == "1"  # so that CI does not skip it unseen
if not REQUIRED:
    pytest.importorskip("selenium", reason="selenium is not installed")
from selenium import webdriver  # noqa: E402 - skipped above without it
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

__all__ = ["ActionChains", "By", "Keys", "chromium", "needs_browser", "resize"]

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
DRIVER = shutil.which("chromedriver")
needs_browser = [
    pytest.mark.skipif(
        not ((BROWSER and DRIVER) or REQUIRED), reason="needs chromium and chromedriver"
    ),
    # selenium's connection to the driver is closed when the interpreter finds the time
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@contextmanager
def chromium():
    """A browser that keeps what pages log."""
    if not (BROWSER and DRIVER):
        pytest.fail(
            f"REQUIRE_BROWSER=1: chromium is {BROWSER}, chromedriver {DRIVER}; install them"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    # Without a sandbox, which root may not have in a container: the page is our own.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def resize(browser, width):
    """Make the window so many pixels wide."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
