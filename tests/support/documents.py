"""Every JSON document that prologue makes in a test is checked against its schema, which knows all of its fields."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest

import prologue

SCHEMAS: Final = Path(prologue.__file__).parents[1] / "docs" / "schemas"
BY_NAME: Final = {form["title"]: form for form in (json.loads(path.read_text()) for path in SCHEMAS.iterdir())}
_ROWS: Final = 50  # of a list: a kernel has 40,000 findings that are alike


@contextmanager
def checked_documents() -> Iterator[None]:
    """Fail a test in whose process the package makes a document that its schema does not describe."""
    real = json.dumps

    def dumps(data: Any, *arguments: Any, **named: Any) -> str:
        maker = str(sys._getframe(1).f_globals.get("__name__"))
        if maker.startswith("prologue") and isinstance(data, dict) and str(data.get("schema")) in BY_NAME:
            require_described(data)
        return real(data, *arguments, **named)

    with patch.object(json, "dumps", dumps):
        yield


def require_described(data: dict[str, Any]) -> None:
    """Fail if a document lacks a field, has one more, or another type than its schema says."""
    name = data["schema"]
    for error in _validator(name).iter_errors(_shortened(data)):
        pytest.fail(f"{name} is not as docs/schemas has it: {error.json_path}: {error.message[:300]}")


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(_closed(BY_NAME[name]))


def _closed(form: Any) -> Any:
    """Return a schema without room for fields that it does not name."""
    if isinstance(form, list):
        return [_closed(part) for part in form]
    if not isinstance(form, dict):
        return form
    closed = {key: _closed(part) for key, part in form.items()}
    return {**closed, "additionalProperties": False} if "required" in form else closed


def _shortened(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _shortened(part) for key, part in data.items()}
    return [_shortened(part) for part in data[:_ROWS]] if isinstance(data, list | tuple) else data
