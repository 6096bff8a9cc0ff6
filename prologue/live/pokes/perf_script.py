"""Text pokes of the text that ``perf script --show-text-poke-events`` printed, also with ``--header`` or ``-D``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from prologue.errors import InputError
from prologue.live.pokes.text_poke import PokeRecording, TextPoke

MARK: Final = "PERF_RECORD_TEXT_POKE"
# Of perf_event__fprintf_text_poke (tools/perf/util/event.c, 6.1-6.12): address, symbol if perf has one, lengths.
_POKE: Final = re.compile(
    MARK + r" (?:addr )?(?:0x)?(?P<address>[0-9a-f]{1,16})\b.* old len (?P<old>\d{1,5}) new len (?P<new>\d{1,5})\s*$"
)
# Before it, with the default fields or others that -F chose: NAME PID/TID [CPU] SECONDS.FRACTION:
_FIELDS: Final = re.compile(
    r"(?:(?:(?P<pid>-?\d+)/)?(?P<tid>-?\d+)\s+)?(?:\[(?P<cpu>\d+)\]\s+)?(?P<seconds>\d+)\.(?P<fraction>\d{6,9}):\s+$"
)
_DUMPED: Final = re.compile(r"^(?P<cpu>-?\d+) (?P<ns>\d+) 0x[0-9a-f]+(?:@\S+)? \[0x[0-9a-f]+\]: $")  # with -D
_BYTES: Final = re.compile(r"^\s+(?P<which>Old|New) bytes:(?P<bytes>(?: [0-9a-f]{2}){1,16})\s*$")
_HEADER: Final = re.compile(r"^# (?P<name>arch|os release|nrcpus avail) : (?P<value>\S+)\s*$")
_LOST: Final = re.compile(r"PERF_RECORD_LOST lost (?P<lost>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """A poke whose bytes are still to come."""

    poke: TextPoke
    old: int  # bytes that it has to get
    new: int
    line: int
    is_dump: bool


def read_poke_script(lines: Iterable[str], path: Path) -> PokeRecording:
    """Read the pokes among other lines, in the order of time; ``path`` is for messages.

    perf prints microseconds, unless asked for ``--ns``.

    Raises:
        InputError: no pokes, or one that is cut off or has other bytes than it says.

    """
    begun: list[_Open] = []
    header: dict[str, str] = {}
    lost = 0
    for number, line in enumerate(lines, 1):
        if (more := _BYTES.match(line)) and begun:
            begun[-1] = replace(begun[-1], poke=_with_bytes(begun[-1].poke, more))
        elif MARK in line:
            begun.append(_begun(line, number, path))
        elif head := _HEADER.match(line):
            header[head["name"]] = head["value"]
        elif gone := _LOST.search(line):
            lost += int(gone["lost"])
    pokes = _whole(begun, path)
    if not pokes:
        raise InputError("has no text pokes: print it with perf script --header --show-text-poke-events", path=path)
    cpus = header.get("nrcpus avail", "")
    return PokeRecording(
        path=str(path),
        pokes=tuple(sorted(pokes, key=lambda poke: poke.time)),
        machine=header.get("arch", ""),
        release=header.get("os release", ""),
        cpus=int(cpus) if re.fullmatch(r"[0-9]{1,5}", cpus) else 0,
        lost=lost,
    )


def _begun(line: str, number: int, path: Path) -> _Open:
    begin = _POKE.search(line)
    if begin is None:
        raise InputError(f"line {number}: a text poke that cannot be parsed: {line.strip()[:80]!r}", path=path)
    poke = TextPoke(address=int(begin["address"], 16), old=b"", new=b"")
    before = line[: begin.start()]
    dumped = _DUMPED.match(before)
    if dumped:
        poke = replace(poke, cpu=int(dumped["cpu"]), time=int(dumped["ns"]))
    elif fields := _FIELDS.search(before):
        time = int(fields["seconds"]) * 10**9 + int(fields["fraction"].ljust(9, "0"))
        cpu, pid, tid = (-1 if fields[name] is None else int(fields[name]) for name in ("cpu", "pid", "tid"))
        poke = replace(poke, time=time, cpu=cpu, pid=pid, tid=tid)
    return _Open(poke=poke, old=int(begin["old"]), new=int(begin["new"]), line=number, is_dump=dumped is not None)


def _with_bytes(poke: TextPoke, more: re.Match[str]) -> TextPoke:
    data = bytes.fromhex(more["bytes"])
    return replace(poke, old=poke.old + data) if more["which"] == "Old" else replace(poke, new=poke.new + data)


def _whole(begun: list[_Open], path: Path) -> list[TextPoke]:
    """Return the pokes, which must have all of their bytes; -D with --show-text-poke-events prints each twice."""
    for entry in begun:
        if (len(entry.poke.old), len(entry.poke.new)) != (entry.old, entry.new):
            has = f"{len(entry.poke.old)} old and {len(entry.poke.new)} new bytes"
            raise InputError(f"line {entry.line}: has {has}, and says {entry.old} and {entry.new}: cut off?", path=path)
    dumped = [entry.poke for entry in begun if entry.is_dump]
    return dumped or [entry.poke for entry in begun]
