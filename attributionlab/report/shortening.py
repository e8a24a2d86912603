"""Anybody's text in a document, cut to lengths that a page can bear."""

import json
from collections.abc import Mapping
from typing import Any

from attributionlab.errors import cut
from attributionlab.report.terminal import printable_document

__all__ = ["shortened"]

LONGEST_NAME, LONGEST_TEXT, LONGEST_COMMAND, MOST_ITEMS = 200, 1_000, 10_000, 50  # characters


def shortened(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with anybody's text cut to a length that a page can bear, and made printable."""
    document = printable_document(document)
    least, warnings = document["least"], document["warnings"]
    shown = [cut(warning, LONGEST_TEXT) for warning in warnings[:MOST_ITEMS]]
    if len(warnings) > MOST_ITEMS:
        shown.append(f"{len(warnings) - MOST_ITEMS:,} more")
    return {
        **document,
        "method": cut(document["method"], LONGEST_NAME),
        "settings": _settings(document["settings"]),
        "command": cut(document["command"], LONGEST_COMMAND),
        "warnings": shown,
        "least": {**least, "environment": cut(least["environment"], LONGEST_NAME)},
        "environments": [
            {
                **result,
                "name": cut(result["name"], LONGEST_NAME),
                "settings": _settings(result["settings"]),
            }
            for result in document["environments"]
        ],
    }


def _settings(settings: Mapping[str, Any]) -> list[str]:
    """One line for each setting."""
    lines = [
        cut(f"{name} = {json.dumps(value, ensure_ascii=False)}", LONGEST_TEXT)
        for name, value in list(settings.items())[:MOST_ITEMS]
    ]
    left_out = len(settings) - len(lines)
    return [*lines, f"{left_out:,} more"] if left_out else lines
