"""Schemas are valid, agree with each other, and are there for every document that has a name in the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import prologue
import prologue_bench
from prologue.companions import COMPANIONS, Companion, companion_of
from tests.support.documents import BY_NAME, SCHEMAS, require_described
from tests.support.tool import Tool

OWN = {"journal", "writes", "exact-counts", "bench-figures"}  # files of prologue's own, which it alone reads


def test_each_file_is_a_schema_of_its_name() -> None:
    for path in SCHEMAS.iterdir():
        form = json.loads(path.read_text())
        Draft202012Validator.check_schema(form)
        assert path.read_text() == json.dumps(form, indent=1) + "\n"
        name, _, version = form["title"].removeprefix("prologue.").partition("/")
        assert (path.name, version.isdecimal()) == (f"{name}.json", True)
        assert form["properties"]["schema"] == {"const": form["title"]}


def test_objects_of_one_name_have_one_form() -> None:
    forms: dict[str, Any] = {}
    for schema in BY_NAME.values():
        for name, form in schema.get("$defs", {}).items():
            assert forms.setdefault(name, form) == form, name


def test_the_documents_of_a_companion_are_in_its_row() -> None:
    rows = {document: companion for companion in COMPANIONS for document in companion.documents}
    homes: dict[str, Companion | None] = {}
    for package in (Path(prologue.__file__).parent, Path(prologue_bench.__file__).parent):
        for path in package.rglob("*.py"):
            module = ".".join(path.relative_to(package.parent).parts)
            for name in re.findall(r'(?:SCHEMA: Final =|"schema":) "prologue\.([a-z-]+)/', path.read_text()):
                homes[name] = companion_of(module)
    there = {path.stem for path in SCHEMAS.iterdir()}
    assert {name: homes[name] for name in there} == {name: rows.get(name) for name in there}
    assert rows.keys() <= there


def test_every_document_has_a_schema() -> None:
    package = Path(prologue.__file__).parent
    named = {
        name for path in package.rglob("*.py") for name in re.findall(r'"(prologue\.[a-z-]+/\d+)"', path.read_text())
    }
    named = {name for name in named if name.partition(".")[2].partition("/")[0] not in OWN}
    assert named <= BY_NAME.keys()


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
    assert tool("schema").out.split() == sorted(path.stem for path in SCHEMAS.iterdir())
    assert tool("schema", "verfy", status=2).err == "prologue: no schema 'verfy': did you mean verify?\n"
