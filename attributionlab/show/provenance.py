"""What a document says of its run: method and settings, protocol, seed, what was given."""

from collections.abc import Mapping
from typing import Any

from attributionlab.base import listed

SHORT, CODE = 6, 12
"""Digits of a hash in print, and of the hash of code in a citation; JSON has all."""
INSIDE = "ran inside this process: isolated=False"
"""What is said of a user's method that was not isolated."""
KNOWLEDGE: Mapping[str, str] = {
    "baseline": "the value of an absent pixel",
    "highest": "the largest value of a pixel",
    "patches": "where the patches of an image are",
    "layers": "which layers count and detect",
    "reference_images": "other images in the same colors",
}
"""What a method is given that declares an argument of the name, and does not see in an image."""


def method_text(document: Mapping[str, Any]) -> str:
    """The method with the settings that it was given.

    Examples
    --------
    >>> method_text({"method": "mine.py:f", "settings": {"steps": 8}, "preset": None})
    'mine.py:f (steps=8)'
    """
    given = [f"{key}={value}" for key, value in document["settings"].items()]
    given += [f"preset {document['preset']}"] if document["preset"] else []
    return f"{document['method']} ({', '.join(given)})" if given else str(document["method"])


def protocol_text(document: Mapping[str, Any]) -> str:
    """The protocol with its short hash, and what differs from it.

    Examples
    --------
    >>> entry = {"name": "protocol 1", "sha256": "3f9a2c71", "changed": ["n = 8"]}
    >>> protocol_text({"protocol": entry})
    'protocol 1 (3f9a2c) changed: n = 8'
    """
    entry = document["protocol"]
    named = f"{entry['name']} ({entry['sha256'][:SHORT]})"
    return f"{named} changed: {', '.join(entry['changed'])}" if entry["changed"] else named


def given_text(document: Mapping[str, Any]) -> str:
    """What the method was told that an image does not show; empty where that is nothing."""
    told = [f"{name} ({KNOWLEDGE[name]})" for name in document["given"]]
    return f"the method receives {listed(told)}, which images do not show" if told else ""


def code_text(document: Mapping[str, Any]) -> str:
    """The fingerprint of a user's code, and whether it ran beside the truth; empty if it is built in.

    Examples
    --------
    >>> code_text({"source": {"fingerprint": "1a44a072a14ef787"}, "warnings": []})
    'its code has the fingerprint 1a44a072a14e'
    """
    code, warnings = document["source"].get("fingerprint"), document["warnings"]
    parts = [f"its code has the fingerprint {code[:CODE]}"] if code else []
    inside = any(each.endswith(INSIDE) for each in warnings)
    return " and ".join(parts + ["ran in the process that knows the truth"] * inside)


def seed_text(document: Mapping[str, Any]) -> str:
    """The seed, and whether somebody chose it."""
    chosen = document.get("seed_bound") and " (bound)"
    return f"seed {document['seed']}{chosen or ' (fresh)' * bool(document['seed_drawn'])}"
