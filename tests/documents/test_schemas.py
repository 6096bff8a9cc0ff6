"""Schemas are up to date, valid, and there for every document that has a name in the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import prologue
from tests.documents.__main__ import DIRECTORY, DOCUMENTS, schema_files
from tests.documents.build import name_of
from tests.support.documents import require_described
from tests.support.tool import Tool

OWN = {"journal", "writes", "exact-counts", "bench-figures"}  # files of prologue's own, which it alone reads


def test_the_files_are_up_to_date() -> None:
    assert {path.name: path.read_text() for path in DIRECTORY.iterdir()} == dict(schema_files())  # `make docs`
    for _, text in schema_files():
        Draft202012Validator.check_schema(json.loads(text))


def test_every_document_has_a_schema() -> None:
    package = Path(prologue.__file__).parent
    named = {
        name for path in package.rglob("*.py") for name in re.findall(r'"(prologue\.[a-z-]+/\d+)"', path.read_text())
    }
    named = {name for name in named if name.partition(".")[2].partition("/")[0] not in OWN}
    assert named <= set(map(name_of, DOCUMENTS))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"more": 1}, "Additional properties are not allowed"),
        ({"failed": "0"}, "is not of type 'integer'"),
        ({"files": [{"file": "a"}]}, "'kind' is a required property"),
    ],
)
def test_a_document_of_another_form_fails_its_test(change: dict[str, object], said: str) -> None:
    document = {"schema": "prologue.scan/1", "files": [], "failed": 0}
    require_described(document)
    with pytest.raises(pytest.fail.Exception, match=said):
        require_described(document | change)


def test_the_command_prints_a_schema(tool: Tool) -> None:
    assert tool("schema", "verify").json["title"] == "prologue.verify/1"
    assert tool("schema").out.split() == sorted(path.stem for path in DIRECTORY.iterdir())
    assert tool("schema", "verfy", status=2).err == "prologue: no schema 'verfy': did you mean verify?\n"
