"""JSON objects read with suspicion: every field is asked for by name and kind, and an error says where it stood."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from prologue.documents import RepeatedKeyError, parse_json
from prologue_bench.errors import BenchError

_SHOWN = 40  # characters of a wrong value in a message
# The analysis squares variances, which are squares: samples stay where that fits into a double.
SMALLEST: Final = 1e-60
BIGGEST: Final = 1e60
SAMPLE: Final = "0 or a number from 1e-60 to 1e60"


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object and where it came from (``FILE``, or ``FILE:LINE``), for messages.

    Every reader raises BenchError if the field is absent or not what it must be.
    """

    data: Mapping[str, Any]
    where: str

    @classmethod
    def of(cls, data: object, where: str) -> Fields:
        """Take a JSON value that must be an object."""
        if not isinstance(data, dict):
            raise BenchError(f"{where}: expected an object, found {shown(data)}")
        return cls(MappingProxyType(data), where)

    def wrong(self, name: str, expected: str) -> BenchError:
        """Make the error for a field that is not what was expected."""
        value = shown(self.data[name]) if name in self.data else "nothing"
        return BenchError(f"{self.where}: {name}: expected {expected}, found {value}")

    def schema(self, expected: str) -> None:
        """Refuse a document of another kind or version."""
        if self.data.get("schema") != expected:
            raise self.wrong("schema", f'"{expected}"')

    def text(self, name: str) -> str:
        """Return text that is not empty."""
        value = self.data.get(name)
        if not isinstance(value, str) or not value:
            raise self.wrong(name, "text")
        return value

    def optional_text(self, name: str) -> str | None:
        """Return text; None for null or no such field."""
        return None if self.data.get(name) is None else self.text(name)

    def choice(self, name: str, *options: str) -> str:
        """Return the field, which must be one of these texts."""
        value = self.data.get(name)
        if value not in options:
            raise self.wrong(name, "one of " + ", ".join(options))
        return str(value)

    def integer(self, name: str) -> int:
        """Return a whole number from 0 on."""
        value = self.data.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.wrong(name, "a whole number from 0 on")
        return value

    def optional_integer(self, name: str) -> int | None:
        """Return a whole number; None for null or no such field."""
        return None if self.data.get(name) is None else self.integer(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self.data.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(name, "a list of texts")
        return tuple(value)

    def table(self, name: str) -> Mapping[str, str]:
        """Return an object whose values are texts."""
        value = self.data.get(name)
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.wrong(name, "an object of texts")
        return MappingProxyType(value)

    def rows(self, name: str) -> tuple[Fields, ...]:
        """Return a list of objects, at least one."""
        value = self.data.get(name)
        if not isinstance(value, list) or not value:
            raise self.wrong(name, "a list of objects")
        return tuple(Fields.of(item, f"{self.where}: {name}[{k}]") for k, item in enumerate(value))

    def below(self, name: str) -> Fields:
        """Return the object in this field."""
        value = self.data.get(name)
        if not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return Fields(MappingProxyType(value), f"{self.where}: {name}")

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return a list of at least one sample: 0, or a number whose square is in the analysis' range."""
        value = self.data.get(name)
        if not isinstance(value, list) or not value:
            raise self.wrong(name, "a list of numbers")
        for item in value:
            if isinstance(item, bool) or not isinstance(item, int | float) or not is_sample(item):
                raise BenchError(f"{self.where}: {name}: expected {SAMPLE}, found {shown(item)}")
        return tuple(float(item) for item in value)


def is_sample(value: float) -> bool:
    """Return whether it can be a time, a rate or a count: 0, or between ``SMALLEST`` and ``BIGGEST``."""
    return value == 0 or SMALLEST <= value <= BIGGEST


def shown(value: object) -> str:
    """Shorten a JSON value for an error message: one line."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def read_file(path: Path) -> bytes:
    """Read the content of a file.

    Raises:
        BenchError: it cannot be read.

    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from error


def parse(text: str | bytes, where: str, parse_float: Callable[[str], float] = float) -> Fields:
    """Read one JSON object.

    Raises:
        BenchError: not JSON, not an object, or one that names a key twice.

    """
    try:
        return Fields.of(parse_json(text, parse_float), where)
    except RepeatedKeyError as error:
        raise BenchError(f"{where}: {error}") from error
    except (ValueError, RecursionError) as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
        raise BenchError(f"{where}: not JSON: {error}") from error
