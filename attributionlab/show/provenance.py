"""What a report says of itself: which protocol was followed, on which code, and how to cite it."""

from collections.abc import Mapping
from typing import Any

from attributionlab.show.reading import listed

SHORT = 6
"""Digits of a hash in print; JSON has all."""
INSIDE = "ran inside this process: isolated=False"
"""What is said of a user's method that was not isolated."""
KNOWLEDGE: Mapping[str, str] = {
    "baseline": "the value of an absent pixel",
    "highest": "the largest value of a pixel",
    "patches": "where the patches of an image lie",
    "layers": "which layers count and detect",
    "reference_images": "other images in the same colors",
}
"""What a method is given that declares an argument of the name, and does not see in an image."""


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
    return f"the method is given {listed(told)}, which an image does not show" if told else ""


def seed_text(document: Mapping[str, Any]) -> str:
    """The seed, and whether somebody chose it."""
    chosen = document.get("seed_bound") and " (bound)"
    return f"seed {document['seed']}{chosen or ' (fresh)' * bool(document['seed_drawn'])}"


def citation(document: Mapping[str, Any]) -> str:
    """A sentence for a paper that reports the result, and BibTeX of what it cites."""
    version = document["versions"]["attributionlab"]
    counts = listed(
        [
            f"{each['solved']} of {each['asked']} in {each['name']}"
            for each in document["environments"]
        ]
    )
    return (
        f"{document['method']} was tested with AttributionLab {version}, {protocol_text(document)}, "
        f"{seed_text(document)}; claim {document['claim']}: {document['verdict']}; questions solved: "
        f"{counts} \\citep{{attributionlab-software,attributionlab}}.\n\n"
        f"{BIBTEX.replace('VERSION', version)}"
    )


BIBTEX = """\
@software{attributionlab-software,
  title = {AttributionLab},
  author = {{The AttributionLab developers}},
  version = {VERSION},
}

@inproceedings{attributionlab,
  title = {AttributionLab: Faithfulness of Feature Attribution Under Controllable Environments},
  author = {Zhang, Yang and Li, Yawei and Brown, Hannah and Rezaei, Mina and Bischl, Bernd and
    Torr, Philip and Khakzar, Ashkan and Kawaguchi, Kenji},
}
"""
