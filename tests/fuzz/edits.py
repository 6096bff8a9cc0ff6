"""Healthy files and edits of them: of ELF structures, of JSON values, of lines, and of bytes."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

SIZE: Final = 6  # bytes that describe an edit


class Edit(NamedTuple):
    """What to do, where, and with which value; each number is taken modulo what there is."""

    action: int
    place: int
    field: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A kind of input: the damaged file is ``file``; commands are words, among which ``vmlinux`` is a healthy one."""

    file: str = "x"
    healthy: bytes
    change: Callable[[bytes, list[Edit]], bytes]
    commands: tuple[str, ...]


def edits(script: bytes) -> list[Edit]:
    """What a script says; a rest that is too short for an edit is nothing."""
    return [Edit(*struct.unpack_from("<BHBH", script, at)) for at in range(0, len(script) - SIZE + 1, SIZE)]


# Values that programs get wrong, for fields of 8 bytes and less.
NUMBERS: Final = (
    0, 1, 2, 3, 4, 7, 8, 16, 23, 24, 63, 64, 0xFF, 0x1000, 0xFFF, 0x7FFF, 0xFFFE, 0xFFFF, 0x10000, 0x7FFFFFFF,
    0x80000000, 0xFFFFFFFF, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 8, (1 << 64) - 1, 0xFFFF800008000000,
    0xD503201F, 0xAA1E03E9, 0x94000000, 0x14000001, 0xD65F03C0, 0xD503245F, 0xD503233F, 0xF9400000, 0xD4200000,
)  # fmt: skip


def number(value: int, old: int) -> int:
    """A number for a field: one of ``NUMBERS``, or near the old one."""
    if value < 0x8000:
        return NUMBERS[value % len(NUMBERS)]
    return (old + (value & 0xFFF) - 0x800) & (1 << 64) - 1


# Fields by (offset, bytes), as in elf(5).
_HEADER: Final = (
    (4, 1), (5, 1), (16, 2), (18, 2), (24, 8), (32, 8), (40, 8), (52, 2), (54, 2), (56, 2), (58, 2), (60, 2), (62, 2),
)  # fmt: skip
_SECTION: Final = ((0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8))
_SEGMENT: Final = ((0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 8), (48, 8))
_SYMBOL: Final = ((0, 4), (4, 1), (5, 1), (6, 2), (8, 8), (16, 8))
_RELA: Final = ((0, 8), (8, 4), (12, 4), (16, 8))
_TABLES: Final = {2: (24, _SYMBOL), 4: (24, _RELA), 19: (8, ((0, 8),))}  # by section type: symbols, RELA, RELR


def edit_elf(healthy: bytes, script: list[Edit]) -> bytes:
    """Change an ELF file; where things are is read from the healthy one."""
    data = bytearray(healthy)
    sections = _sections(healthy)
    for edit in script:
        action = edit.action % 8
        if not sections and action in (1, 3, 4, 5, 6):  # a core
            action = 2
        if action == 0:
            _set(data, 0, _HEADER[edit.field % len(_HEADER)], edit.value)
        elif action == 1:
            _set(data, _table(healthy, 40) + 64 * (edit.place % len(sections)), _pick(_SECTION, edit), edit.value)
        elif action == 2:
            count = max(1, struct.unpack_from("<H", healthy, 56)[0])
            _set(data, _table(healthy, 32) + 56 * (edit.place % count), _pick(_SEGMENT, edit), edit.value)
        elif action in (3, 4):
            tables = [section for section in sections if section[0] in _TABLES and section[2]]
            kind, start, size = tables[edit.field % len(tables)]
            entry, fields = _TABLES[kind]
            row = start + entry * (edit.place % max(1, size // entry))
            _set(data, row, fields[(edit.field >> 4) % len(fields)], edit.value)
        elif action in (5, 6):
            kept = [section for section in sections if section[0] not in (0, 8) and section[2] >= 8]
            _, start, size = kept[edit.field % len(kept)]
            _set(data, start + 4 * (edit.place % (size // 4)), (0, 4 + 4 * (edit.action >> 7)), edit.value)
        else:
            edit_bytes(data, edit)
    return bytes(data)


def _pick(fields: tuple[tuple[int, int], ...], edit: Edit) -> tuple[int, int]:
    return fields[edit.field % len(fields)]


def _table(healthy: bytes, at: int) -> int:
    return int(struct.unpack_from("<Q", healthy, at)[0])


def _sections(healthy: bytes) -> list[tuple[int, int, int]]:
    """(type, file offset, size) of each."""
    start, count = _table(healthy, 40), struct.unpack_from("<H", healthy, 60)[0]
    rows = (struct.unpack_from("<IIQQQQ", healthy, start + 64 * k) for k in range(count))
    return [(row[1], row[4], row[5]) for row in rows]


def _set(data: bytearray, start: int, field: tuple[int, int], value: int) -> None:
    at, width = start + field[0], field[1]
    if at + width <= len(data):
        old = int.from_bytes(data[at : at + width], "little")
        data[at : at + width] = (number(value, old) & ((1 << 8 * width) - 1)).to_bytes(width, "little")


def edit_bytes(data: bytearray, edit: Edit) -> None:
    """Change, remove, repeat or add bytes, whatever they mean."""
    if not data:
        return
    at = (edit.place * 65521 + edit.field * 251) % len(data)
    size = edit.value >> 2
    kind = edit.value & 3
    if kind == 0:
        data[at] = edit.field
    elif kind == 1:
        del data[at : at + 1 + size]
    elif kind == 2:
        data[at:at] = data[at : at + 1 + size % 4096]
    else:
        del data[at:]


def edit_numbers(healthy: bytes, script: list[Edit]) -> bytes:
    """Change a file of binary records: numbers of 1 to 8 bytes where they may stand, and bytes."""
    data = bytearray(healthy)
    for edit in script:
        if edit.action % 4 and data:
            width = 1 << edit.action % 4
            at = (edit.place * 256 + edit.field) % len(data) // width * width
            _set(data, 0, (at, width), edit.value)
        else:
            edit_bytes(data, edit)
    return bytes(data)


_DEEP: Final = "nested deeply"  # stands for that: Python cannot write it
# What may stand where something else was expected.
ODD: Final[tuple[Any, ...]] = (
    None, True, 0, -1, 1, 1.5, 1e308, 5e-324, -0.0, float("nan"), float("inf"), 10**400, 1 << 64, "", "x", "\0",
    "\x1b[2J", "../../../etc/passwd", "0x", "0xffffffffffffffff", "nan", "\ud800", "a" * 5000, [], [[]], [0],
    {}, {"": ""},
    "2026-01-01",
)  # fmt: skip


def edit_json(healthy: bytes, script: list[Edit]) -> bytes:
    """Change values of a JSON document, or of one in each line."""
    lines = healthy.decode().splitlines() if healthy.count(b"\n{") else [healthy.decode()]
    documents = [json.loads(line) for line in lines if line.strip()]
    damage: list[Edit] = []
    for edit in script:
        if edit.action % 8 == 7:
            damage.append(edit)
        elif edit.action % 8 == 6 and len(documents) > 1:
            _edit_list(documents, edit)
        elif documents:
            which = edit.place % len(documents)
            documents[which] = _edit_document(documents[which], edit)
    text = "\n".join(json.dumps(document) for document in documents).replace(json.dumps(_DEEP), "[" * 5000 + "]" * 5000)
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    for edit in damage:
        edit_bytes(data, edit)
    return bytes(data)


def _edit_list(documents: list[Any], edit: Edit) -> None:
    at = edit.place % len(documents)
    if edit.field % 2:
        del documents[at]
    else:
        documents.insert(at, documents[edit.value % len(documents)])


def _edit_document(document: Any, edit: Edit) -> Any:
    holders = list(_holders(document))
    if not holders:
        return _odd(edit)
    holder, key = holders[(edit.field * 257 + edit.place // 7) % len(holders)]
    if edit.action % 8 == 0:
        del holder[key]
    elif edit.action % 8 == 1 and isinstance(holder, list):
        holder.append(holder[key])
    elif edit.action % 8 == 2:
        holder[key] = _DEEP
    else:
        holder[key] = _odd(edit)
    return document


def _odd(edit: Edit) -> Any:
    # A copy: a later edit may change what is inside.
    return copy.deepcopy(ODD[edit.value % len(ODD)])


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (object or list, key) below a value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in list(pairs):
        yield value, key
        yield from _holders(below)


_TOKENS: Final = (
    b"", b"[", b"]", b"[[", b'"', b"'''", b"=", b"= -1", b"= 1e400", b"= [[[[", b"= {}", b"= true",
    b"= \xff\xfe", b"\0", b"#",
    b"= nan", b"= 1979-05-27", b"= ['PL2']", b"= ['PL999']", b"= 'PL304'", b"[tool.prologue]", b"[[known]]",
    b"\xef\xbb\xbf",
    b"= '/'",
)  # fmt: skip


def edit_lines(healthy: bytes, script: list[Edit]) -> bytes:
    """Change a text of lines such as TOML."""
    lines = healthy.split(b"\n")
    for edit in script:
        at = edit.place % max(1, len(lines))
        token = _TOKENS[edit.value % len(_TOKENS)]
        kind = edit.action % 6
        if kind == 0 or not lines:
            lines.insert(at, token)
        elif kind == 1:
            del lines[at]
        elif kind == 2:
            lines.append(lines[at])
        elif kind == 3:
            lines[at] = lines[at].partition(b"=")[0] + token
        elif kind == 4:
            lines[at] = lines[at][: edit.field % (1 + len(lines[at]))] + token
        else:
            data = bytearray(b"\n".join(lines))
            edit_bytes(data, edit)
            lines = bytes(data).split(b"\n")
    return b"\n".join(lines)


_WORDS: Final = (
    b"", b"0", b"-1", b"0x", b"ffffffffffffffff", b"0xffff800080010000", b"10000000000000000", b"9" * 400, b"1e9",
    b"nan", b"[", b"]", b"(", b")", b"=>", b":", b"\t", b"\0", b"\xff\xfe", b"\x1b[2J", b"a" * 5000, b"vfs_read+0x4",
    b"[kernel.kallsyms]", b"old=0xd503201f", b"4294967296.000001:", b"[999999999]", b"PERF_RECORD_TEXT_POKE",
)  # fmt: skip


def edit_text(healthy: bytes, script: list[Edit]) -> bytes:
    """Change a text that tools print: its lines, words of a line, and bytes."""
    lines = healthy.split(b"\n")
    for edit in script:
        at = edit.place % max(1, len(lines))
        kind = edit.action % 6
        if kind == 0 and lines:
            del lines[at]
        elif kind == 1 and lines:
            lines.insert(edit.value % len(lines), lines[at])
        elif kind == 5 or not lines:
            data = bytearray(b"\n".join(lines))
            edit_bytes(data, edit)
            lines = bytes(data).split(b"\n")
        else:
            words = lines[at].split(b" ")
            words[edit.field % len(words)] = _WORDS[edit.value % len(_WORDS)]
            lines[at] = b" ".join(words)
    return b"\n".join(lines)
