"""Documents of version 1, of tests with one network for all images, are still read.

`schema_1.json` was written by the last code of version 1: input-x-gradient, two environments of 16 x 16
pixels, n = 2, one camouflaged network; processor and system have other names here.
"""

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import page_cases as cases
from attributionlab.faithfulness import report as reports
from attributionlab.report import as_text, faithfulness_page, report_fragment, report_table

OURS = Path(__file__).with_name("schema_1.json")
SAID = "a pass does not prove that the maps depend on the network"
PROOFS = ("role-swap", "blind maps", "one network each", "fresh", "This shows", "equal networks")
"""What version 1 knows nothing of."""


@pytest.fixture
def document():
    return json.loads(OURS.read_text(encoding="utf-8"))


def one_line(text):
    """Without markup and ends of lines."""
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


WRITTEN = {
    "table": lambda document: as_text(report_table(document)),
    "fragment": report_fragment,
    "page": lambda document: faithfulness_page(document, cases.panels(document)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_it_is_read_as_a_test_with_one_network(document, name):
    assert document["schema"] == 1
    said = one_line(WRITTEN[name](document))
    assert SAID in said
    assert [each for each in PROOFS if each in said] == []
    for result in document["environments"]:
        assert result["name"] in said
        assert f"{result['claim_f1']:.2f}" in said


def test_its_head_names_images_and_the_seed_as_given(document):
    said = one_line(WRITTEN["table"](document))
    assert f"{document['n']} images of 16 x 16 pixels each, seed {document['seed']}" in said


def test_its_verdict_is_not_judged_again(document):
    """A pass of two images, to which version 2 would give none."""
    assert (document["verdict"], document["n"]) == ("pass", 2)
    assert one_line(WRITTEN["table"](document)).startswith("input-x-gradient: pass claim signed")
    assert "inconclusive" not in one_line(WRITTEN["fragment"](document))


def test_the_keys_that_it_lacks_are_those_that_the_page_of_the_keys_names(document):
    path = Path(reports.__file__).with_name("test.schema.json")
    schema = json.loads(path.read_text(encoding="utf-8"))
    lacking = set()
    for error in Draft202012Validator(schema).iter_errors(document):
        if error.validator == "required":
            lacking |= set(re.findall(r"'(.*)' is a required property", error.message))
        else:
            # The version itself; what follows from keys that are not there.
            assert error.json_path == "$.schema" or error.validator in ("type", "not"), (
                error.message
            )
    docs = Path(__file__).parents[2] / "docs" / "json.md"
    section = docs.read_text(encoding="utf-8").partition("## Version 1")[2].partition("\n## ")[0]
    listed = "\n".join(line for line in section.splitlines() if line.startswith("- "))
    assert set(re.findall(r"`(\w+)`", listed)) == lacking
