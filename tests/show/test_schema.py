"""The JSON Schema of a test's document: what runs write is what it says, key by key."""

import json
import re
import warnings
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

import attributionlab as al
from attributionlab.show import KNOWLEDGE, as_text, report_table
from attributionlab.show.page import THINGS
from attributionlab.show.reading import SCHEMA as VERSION
from attributionlab.verdicts import Claim
from attributionlab.verdicts.controls import INPUT_ONLY
from attributionlab.verdicts.diagnosis.shares import SHARES, ScoredPart
from attributionlab.verdicts.faithfulness.verdicts import Verdict
from attributionlab.worlds import FEATURES, Environment
from attributionlab.worlds.environment.hidden import HIDDEN
from attributionlab.worlds.nets import EQUIVALENT
from attributionlab.worlds.truth import DefinitionName, Output, Source
from pages import json_page
from schemas import SCHEMAS, problems

SCHEMA = SCHEMAS["test"]
VALIDATOR = Draft202012Validator(SCHEMA)
PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")

SMALL = ("multi-color-sum-distractors", "single-color-sum")
"""A classification with distractors, and a regression."""


def refuses_equivalent_networks(model, inputs, targets):
    if len(list(model.modules())) > plain_size(model):
        raise al.AttributionLabError("this network is too deep")
    return inputs


def plain_size(model):
    return refuses_equivalent_networks.sizes.setdefault("plain", len(list(model.modules())))


refuses_equivalent_networks.sizes = {}

RUNS: dict[str, tuple[Any, tuple[str, ...], dict[str, Any]]] = {
    "questions": ("oracle", SMALL[:1], {"n": 2, "also": "truths"}),
    "passes": ("saliency", ("quadrants",), {"n": 13, "also": "equivalent:1"}),
    "undecided": ("oracle", ("quadrants",), {"n": 10, "seed": "bound", "also": None}),
    "fresh": (
        "integrated-gradients",
        SMALL[1:],
        {"n": 2, "seed": "fresh", "also": None, "settings": {"n_steps": 5}},
    ),
    "world": ("oracle", ("quadrants",), {"n": 2}),
    "random worlds": ("oracle", ("random:2:easy:3",), {"n": 2}),
    "one network": ("input-x-gradient", SMALL, {"n": 2, "one_network": True}),
    "camouflage": (
        "saliency",
        SMALL[:1],
        {"n": 2, "one_network": True, "also": "camouflage:1"},
    ),
    "smoothed": (
        "gradcam",
        SMALL[:1],
        {"n": 2, "claim": "positive-smoothed", "preset": "paper", "one_network": True},
    ),
    "agreed": ("saliency", SMALL[:1], {"n": 2, "claim": "agreed", "explain": "logit"}),
    "seeds": ("random", SMALL[:1], {"n": 2, "also": "seeds:2"}),
    "superpixels": (
        "lime",
        SMALL[:1],
        {"n": 2, "one_network": True, "settings": {"n_samples": 16}},
    ),
    "optimizes": (
        "iba",
        SMALL[:1],
        {"n": 2, "also": None, "claim": "positive-smoothed", "explain": "probability"},
    ),
    "refused": (
        refuses_equivalent_networks,
        SMALL[:1],
        {"n": 2, "also": "equivalent:2"},
    ),
}


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    return {name: written(*run) for name, run in RUNS.items()}


def written(method: Any, names: tuple[str, ...], options: dict[str, Any]) -> Any:
    """The document of a run, as it is read from a file."""
    environments: list[Environment] = [al.load(name, image_size=24) for name in names]
    with warnings.catch_warnings():  # which the document repeats
        warnings.simplefilter("ignore", al.AttributionWarning)
        report = al.faithfulness_test(method, environments, **options)
    return json.loads(json.dumps(report.to_dict(), allow_nan=False))


def resolved(schema: Any) -> Any:
    """What a schema says, behind references."""
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema


def objects(schema: Any, value: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Every object of a document with its schema."""
    schema = resolved(schema)
    if "anyOf" in schema:
        [other] = [each for each in schema["anyOf"] if each != {"type": "null"}]
        if value is not None:
            yield from objects(other, value)
    elif isinstance(value, dict):
        yield schema, value
        for key, each in value.items():
            if (found := schema_of(schema, key)) is not None:
                yield from objects(found, each)
    elif isinstance(value, list):
        for each in value:
            yield from objects(schema.get("items") or {}, each)


def schema_of(schema: Any, key: str) -> Any:
    """What an object's schema says of a key, None where keys are data."""
    if key in schema.get("properties", {}):
        return schema["properties"][key]
    patterns = schema.get("patternProperties", {})
    matching = [said for pattern, said in patterns.items() if re.search(pattern, key)]
    if matching:
        return matching[0]
    return schema.get("additionalProperties") or None


def is_closed(schema: Any) -> bool:
    """Whether an object has the keys that are named; those of others are names of things."""
    return schema.get("additionalProperties") is False


CLOSED = {"the document": SCHEMA} | {
    name: each for name, each in SCHEMA["$defs"].items() if each["type"] == "object"
}


OPTIONAL = {"positive-smoothed", "ceiling_f1", "completeness_gap", "strict"}
OPTIONAL |= {"worlds", "by_feature"}


def test_it_is_a_schema():
    assert all(map(is_closed, CLOSED.values()))


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_has_a_version_and_is_on_the_page(name):
    Draft202012Validator.check_schema(SCHEMAS[name])
    version = SCHEMAS[name]["properties"]["schema"]["const"]
    [row] = [line for line in PAGE.splitlines() if f"/{name}.schema.json` |" in line]
    assert row.endswith(f"| {version} |")
    assert SCHEMAS[name]["title"].endswith(f", schema {version}")


def test_what_1_0_wrote_is_read_and_is_what_the_schema_says():
    """A document of another form has another version, and this one is read beside it."""
    path = Path(__file__).parents[1] / "golden" / "report-1.0.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    assert problems(document, "test") == []
    assert "saliency: inconclusive" in as_text(report_table(document))


@pytest.mark.parametrize("name", RUNS)
def test_what_a_run_writes_is_what_the_schema_says(documents, name):
    assert problems(documents[name], "test") == []


@pytest.mark.parametrize("name", RUNS)
def test_every_key_of_a_document_is_described(documents, name):
    for schema, value in objects(SCHEMA, documents[name]):
        if is_closed(schema):
            for key in value:
                assert schema_of(schema, key)["description"], key


@pytest.mark.parametrize("name", CLOSED)
def test_a_description_is_one_sentence(name):
    schema = CLOSED[name]
    said = [*schema["properties"].values(), *schema.get("patternProperties", {}).values()]
    for text in [schema["description"], *(each["description"] for each in said)]:
        assert re.fullmatch(r"[^.]((?!\. ).)*\.", text), text


def test_every_key_of_the_schema_has_a_value_in_some_run(documents):
    """So no key is described that nothing writes."""
    seen = {name: set[str]() for name in CLOSED}
    places = {id(schema): name for name, schema in CLOSED.items()}
    for document in documents.values():
        for schema, value in objects(SCHEMA, document):
            if id(schema) in places:
                filled = {key for key, each in value.items() if each is not None}
                seen[places[id(schema)]] |= filled
    missing = {name: set(schema["properties"]) - seen[name] for name, schema in CLOSED.items()}
    assert {name: keys for name, keys in missing.items() if keys} == {}


@pytest.mark.long
def test_a_missing_key_and_an_extra_one_are_refused(documents):
    """In each kind of object, of one document that has it; but for optional keys."""
    tried = set()
    for document in documents.values():
        broken = deepcopy(document)
        for schema, value in objects(SCHEMA, broken):
            if not is_closed(schema):
                continue
            optional = set(value) - set(schema.get("required", []))
            assert optional <= OPTIONAL
            for key in ["a new key", *schema.get("required", [])]:
                if (id(schema), key) in tried:
                    continue
                tried.add((id(schema), key))
                if key in value:
                    kept = value.pop(key)
                    assert not VALIDATOR.is_valid(broken), f"without {key}"
                    value[key] = kept
                else:
                    value[key] = 0
                    assert not VALIDATOR.is_valid(broken), f"with {key}"
                    del value[key]
    assert len({of for of, _ in tried}) == len(CLOSED)
    assert len(tried) == sum(1 + len(schema.get("required", [])) for schema in CLOSED.values())


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("schema",), 2),
        (("verdict",), "passed"),
        (("n",), 0),
        (("gamma",), 0.5),
        (("excludes", "luck"), {"alternatives": 2, "chance": 0.5, "environment": "here"}),
        (("excludes", "roles", "alternatives"), 1),
        (("not_excluded",), ["luck"]),
        (("given",), ["truth"]),
        (("protocol", "sha256"), "3f9a2c"),
        (("seed",), 1.5),
        (("one_network",), None),
        (("settings",), {"n_steps": [5]}),
        (("controls", "oracle"), []),
        (("environments",), []),
        (("environments", 0, "claim_f1"), 1.01),
        (("environments", 0, "claim_ci"), [0.5]),
        (("environments", 0, "claim_ci"), [0.5, 0.6, 0.7]),
        (("environments", 0, "claim_part"), "signed"),
        (("environments", 0, "spec"), "abc"),
        (("environments", 0, "solved"), 1.5),
        (("environments", 0, "solved_ci"), [0.5]),
        (("environments", 0, "hidden", "luck"), 2),
        # What hangs together:
        (("one_network",), True),
        (("environments", 0, "ceiling_f1"), 1.0),
        (("claim",), "positive-smoothed"),
    ],
)
def test_a_wrong_value_is_refused(documents, where, value):
    document = deepcopy(documents["questions"])
    *path, last = where
    place = document
    for step in path:
        place = place[step]
    place[last] = value
    assert not VALIDATOR.is_valid(document)


def test_one_network_hides_nothing(documents):
    document = deepcopy(documents["one network"])
    assert document["excludes"] == document["environments"][0]["hidden"] == {}
    document["environments"][0]["hidden"] = {"roles": 6}
    assert not VALIDATOR.is_valid(document)


def test_names_are_those_of_the_code():
    defs, said = SCHEMA["$defs"], SCHEMA["properties"]
    environment = defs["environment"]["properties"]
    assert said["verdict"]["enum"] == environment["verdict"]["enum"] == list(get_args(Verdict))
    assert said["claim"]["enum"] == list(get_args(Claim))
    for key in ("output", "truth_output"):
        assert set(environment[key]["enum"]) == set(get_args(Output))
    part, smoothed = get_args(ScoredPart)
    assert environment["claim_part"]["enum"] == [*get_args(part), *get_args(smoothed)]
    assert said["schema"]["const"] == VERSION
    assert tuple(said["not_excluded"]["items"]["enum"]) == tuple(THINGS) == HIDDEN
    for named in (said["excludes"], environment["hidden"]):
        assert tuple(named["propertyNames"]["enum"]) == HIDDEN
    assert said["given"]["items"]["enum"] == list(KNOWLEDGE)
    assert environment["bar"]["items"]["enum"] == list(INPUT_ONLY)
    assert tuple(defs["shares"]["properties"]) == SHARES
    for name in ("form", "lowest_form"):
        assert tuple(defs[name]["properties"]["form"]["enum"]) == EQUIVALENT
    assert tuple(defs["world"]["properties"]["features"]["items"]["enum"]) == tuple(FEATURES)
    truth = defs["truth"]["properties"]
    assert truth["definition"]["enum"] == list(get_args(DefinitionName))
    assert truth["source"]["enum"] == list(get_args(Source))


# The page


def test_the_page_says_what_the_schema_says():
    assert json_page(PAGE) == PAGE, "python tests/pages.py json.md"


@pytest.mark.parametrize("name", ["questions", "one network"])
def test_the_snippets_of_the_page_run(documents, name, tmp_path, monkeypatch, capsys):
    document = documents[name]
    monkeypatch.chdir(tmp_path)
    Path("report.json").write_text(json.dumps(document), encoding="utf-8")
    snippets = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(snippets) == 2
    for snippet in snippets:
        exec(compile(snippet, "json.md", "exec"), {})
    assert capsys.readouterr().out.startswith(f"{document['method']}: {document['verdict']}")
