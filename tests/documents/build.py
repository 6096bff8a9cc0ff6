"""Makes a JSON Schema (draft 2020-12) from the type of a document: a TypedDict whose fields may have a text."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)


class Pattern(NamedTuple):
    """The form of a text."""

    regex: str


Hex = Annotated[str, Pattern("^-?0x[0-9a-f]+$")]
Word = Annotated[str, Pattern("^[0-9a-f]{8}$")]
"""A number in hexadecimal, and an instruction: JSON readers round large numbers."""
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: Final = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def schema_of(document: type) -> dict[str, Any]:
    """Return the schema of a document; objects that it contains are in ``$defs``."""
    objects: dict[str, Any] = {}
    _name_object(document, objects)
    own = objects.pop(document.__name__)
    return {"$schema": _DRAFT, "title": name_of(document), **own, **({"$defs": objects} if objects else {})}


def name_of(document: type) -> str:
    """Return what the field ``schema`` of a document says."""
    (name,) = get_args(get_type_hints(document)["schema"])
    return str(name)


def _name_object(kind: type, objects: dict[str, Any]) -> None:
    """Put an object's own form among the named ones."""
    if kind.__name__ in objects:
        return
    objects[kind.__name__] = form = {"type": "object"}
    hints = get_type_hints(kind, include_extras=True)
    if is_dataclass(kind):  # without those that are made when asked for
        hints = {field.name: hints[field.name] for field in fields(kind)}
    form["properties"] = {name: _form(hint, objects) for name, hint in hints.items()}  # type: ignore[assignment]
    form["required"] = [name for name, hint in hints.items() if get_origin(hint) is not NotRequired]  # type: ignore[assignment]


def _form(hint: Any, objects: dict[str, Any]) -> dict[str, Any]:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is NotRequired:
        return _form(parts[0], objects)
    if origin is Annotated:
        form = _form(parts[0], objects)
        for note in parts[1:]:
            form |= {"pattern": note.regex} if isinstance(note, Pattern) else {"description": note}
        return form
    if origin is Literal:
        return {"enum": list(parts)} if len(parts) > 1 else {"const": parts[0]}
    if origin in (Union, UnionType):
        return {"anyOf": [_form(part, objects) for part in parts]}
    if origin is list:
        return {"type": "array", "items": _form(parts[0], objects)}
    if origin is tuple and parts[1:] == (...,):
        return _form(list[parts[0]], objects)  # type: ignore[valid-type]
    if origin is tuple:
        rows = [_form(part, objects) for part in parts]
        return {"type": "array", "prefixItems": rows, "minItems": len(rows), "maxItems": len(rows)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _form(parts[1], objects)}
    if is_typeddict(hint) or is_dataclass(hint):
        _name_object(hint, objects)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {} if hint is Any else {"type": _PLAIN[hint]}
