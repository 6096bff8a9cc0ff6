"""What pytest prints where numbers differ: addresses in hexadecimal, and of many numbers those that differ."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import zip_longest
from typing import Any, Final, TypeGuard

MOST: Final = 10  # differences that are shown
_ADDRESS: Final = 0xFFFF  # what is above it reads better in hexadecimal


def explain(operator: str, left: object, right: object) -> list[str] | None:
    """Return the lines for a comparison that failed; None leaves it to pytest."""
    if operator != "==" or not _has_address_or_mask(left, right):
        return None
    if isinstance(left, Set) and isinstance(right, Set):
        lines = [f"only {side}: {_shown(value)}" for side, more in _apart(left, right) for value in sorted(more)]
        return ["the sets differ", *_cut(lines)]
    if _is_sequence(left) and _is_sequence(right):
        pairs = enumerate(zip_longest(left, right, fillvalue=None))
        lines = [f"[{k}] {_shown(one)} != {_shown(other)}" for k, (one, other) in pairs if one != other]
        return [f"{len(left)} values == {len(right)} values; these differ:", *_cut(lines)]
    if isinstance(left, int) and isinstance(right, int):
        return [f"{_shown(left)} == {_shown(right)}"]
    return None


def _has_address_or_mask(*sides: Any) -> bool:
    values = [value for side in sides for value in (side if _is_sequence(side) or isinstance(side, Set) else (side,))]
    if not all(isinstance(value, int) for value in values):
        return False
    return any(value > _ADDRESS for value in values) or (len(values) > 2 and all(isinstance(v, bool) for v in values))


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def _apart(left: Set[Any], right: Set[Any]) -> tuple[tuple[str, Set[Any]], ...]:
    return ("left", left - right), ("right", right - left)


def _shown(value: object) -> str:
    return hex(value) if isinstance(value, int) and value > _ADDRESS else str(value)


def _cut(lines: list[str]) -> list[str]:
    return lines[:MOST] + [f"... and {len(lines) - MOST} more"] * (len(lines) > MOST)
