"""The page of maps without a truth in a real browser: narrow, wide, and dark."""

import numpy as np
import pytest

from attributionlab.show import Maps, maps_page
from chromium import By, chromium, needs_browser, resize

pytestmark = [*needs_browser, pytest.mark.long]


def test_no_text_and_no_picture_leaves_the_page_at_any_width(tmp_path):
    values = np.random.default_rng(0).normal(size=(2, 20, 20))
    names = ["occlusion", "my_method_with_a_name_that_has_no_hyphens_and_is_long"]
    shown = Maps(
        "NetworkWithALongNameThatCannotBeBroken" * 3,
        {"layer of activation maps": "backbone.stages.3.blocks.17.convolution" * 3},
        np.abs(values[:, None]),
        1.0,
        ["output 3: 0.5"] * 2,
        dict.fromkeys(names, values),
        {names[1]: ["attributions of 2 images " + "are_quite_wrong_" * 20]},
        {"iba": "no value for 'reference_images'"},
    )
    path = tmp_path / "maps.html"
    path.write_text(maps_page(shown), encoding="utf-8")
    with chromium() as browser:
        for width, beside in ((390, 2), (1200, 3)):
            resize(browser, width)
            browser.get(path.as_uri())
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            pictures = browser.find_elements(
                By.CSS_SELECTOR, ".sample:first-child img, .sample img"
            )
            first = pictures[0].rect
            assert sum(each.rect["y"] == first["y"] for each in pictures) == beside
            assert all(80 < each.rect["width"] == each.rect["height"] for each in pictures)
        browser.find_element(By.LINK_TEXT, "warning").click()
        assert browser.current_url.endswith("#warning-0")
        assert browser.get_log("browser") == []
