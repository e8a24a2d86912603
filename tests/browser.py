"""A headless Chromium for tests of pages; without one they are skipped, unless REQUIRE_BROWSER=1."""

import os
import shutil

import pytest

REQUIRED = os.environ.get("REQUIRE_BROWSER") == "1"  # so that CI does not skip it unseen
if not REQUIRED:
    pytest.importorskip("selenium", reason="selenium is not installed")
from selenium import webdriver  # noqa: E402 - skipped above without it
from selenium.webdriver.chrome.service import Service  # noqa: E402 - skipped above without it

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
DRIVER = shutil.which("chromedriver")
IN_BROWSER = [
    pytest.mark.skipif(
        not ((BROWSER and DRIVER) or REQUIRED), reason="needs chromium and chromedriver"
    ),
    # selenium's connection to the driver is closed when the interpreter finds the time
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def chromium():
    """Yield a driver that logs what a page writes to the console, and what it asks of the network."""
    if not (BROWSER and DRIVER):
        pytest.fail(
            f"REQUIRE_BROWSER=1: chromium is {BROWSER}, chromedriver {DRIVER}; install them"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    # Without a sandbox, which root may not have in a container: the page is our own.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def resize(browser, width):
    """Make the window this wide, in CSS pixels."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
