"""The schemas that the package ships, and what documents break of them."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

import attributionlab

SCHEMAS = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(Path(attributionlab.__file__).parent.rglob("*.schema.json"))
}


def problems(document: Any, name: str, part: str = "") -> list[str]:
    """What is wrong with a document, or with an object that is one of its parts."""
    schema = SCHEMAS[name]
    if part:
        schema = {"$ref": f"#/$defs/{part}", "$defs": schema["$defs"]}
    validator = Draft202012Validator(schema)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
