"""Places as users name them: ``FUNC``, ``FUNC+OFF`` or an address, as link-time addresses."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from prologue.errors import InputError, UsageError
from prologue.live.probe.judge import Judge

_PLACE: Final = re.compile(r"(?P<symbol>[^+\s]+)(?:\+(?P<offset>0[xX][0-9a-fA-F]+|\d+))?")
_ADDRESS: Final = re.compile(r"0[xX][0-9a-fA-F]+|[0-9a-fA-F]{16}")
_NEAR_NAMES: Final = 3


class ProbePlace(NamedTuple):
    """One address that was asked for."""

    asked: str
    vaddr: int
    ambiguous: bool = False  # the symbol names several addresses, of which this is one


def find_places(judge: Judge, asked: str) -> list[ProbePlace]:
    """Every address that the text means, ascending: several if the symbol is ambiguous.

    Raises:
        UsageError: neither a place nor an address, or not a multiple of 4.
        InputError: no such symbol, or no code there.

    """
    if _ADDRESS.fullmatch(asked):
        return [_checked(judge, ProbePlace(asked, int(asked, 16)))]
    match = _PLACE.fullmatch(asked)
    if match is None:
        raise UsageError(f"{asked!r} is not a place: give FUNC, FUNC+OFFSET (0x10 or 16) or an address (0xffff...)")
    offset = int(match["offset"] or "0", 0 if "x" in (match["offset"] or "").lower() else 10)
    values = judge.kallsyms.by_name.get(match["symbol"], [])
    if not values:
        raise InputError(_unknown(judge, match["symbol"]), path=judge.kernel.path)
    several = len(set(values)) > 1
    return [_checked(judge, ProbePlace(asked, value + offset, several)) for value in sorted(set(values))]


def _checked(judge: Judge, place: ProbePlace) -> ProbePlace:
    if place.vaddr % 4:
        raise UsageError(f"{place.asked}: {place.vaddr:#x} is not a multiple of 4, and instructions are")
    section = judge.kernel.image.section_at(place.vaddr) if place.vaddr < 1 << 64 else None
    if section is None or not section.is_text:
        bounds = f"{judge.text_range.start:#x}-{judge.text_range.stop:#x}"
        raise InputError(
            f"{place.asked}: {place.vaddr:#x} is not code of this kernel, whose text is {bounds} "
            "(addresses are those of the vmlinux: take the KASLR offset off)",
            path=judge.kernel.path,
        )
    return place


def _unknown(judge: Judge, name: str) -> str:
    if judge.kernel.symbols.find(name) is not None:
        return f"{name} is not a symbol that the running kernel knows: kallsyms leaves it out, so give its address"
    from difflib import get_close_matches

    near = get_close_matches(name, judge.kallsyms.by_name, _NEAR_NAMES)
    hint = f"; near: {', '.join(near)}" if near else ""
    return f"no symbol {name}{hint} (a module's are not in the vmlinux)"
