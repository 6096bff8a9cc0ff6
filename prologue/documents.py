"""Reads JSON that others wrote: strictly, so that no value replaces another one in silence.

TOML needs no such care: a key that stands there twice is an error of its grammar.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


class RepeatedKeyError(ValueError):
    """An object has one key twice; JSON leaves open which value counts."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for k, key in enumerate(keys) if key in keys[:k])
        raise RepeatedKeyError(f"{twice!r} is named twice in one object: remove or rename one of them")
    return members


def parse_json(text: str | bytes, parse_float: Callable[[str], Any] = float) -> Any:
    """Parse one JSON document; ``parse_float`` reads numbers with a point or an exponent.

    Raises:
        ValueError: not JSON, not UTF-8, or a key twice in one object.
        RecursionError: nested too deeply.

    """
    return json.loads(text, object_pairs_hook=_object, parse_float=parse_float)
