"""The kernel's own tables of symbols, in memory."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from prologue.errors import InputError
from prologue.live.memory.base import Memory
from prologue.live.memory.kallsyms import kernel_symbols
from prologue.live.memory.sources import open_memory
from prologue.live.memory.state import LiveSymbol
from tests.support.cores import core

TEXT = 0xFFFF800080010000
TABLES = TEXT + 0x100000
LONG = "x" * 150
SYMBOLS = [("T_text", TEXT - 0x10000), ("T_stext", TEXT), ("tvfs_read", TEXT + 0x40), (f"W{LONG}", TEXT + 0x80),
           ("Dinit_task", TEXT + 0x200000)]  # fmt: skip


def tables(*, relative: bool, stext: int = TEXT, without: str = "", cut: int = 0) -> bytes:
    """A core with the tables, and a VMCOREINFO that names them; ``relative`` offsets count from a base, as before 7.0.

    Token k is the character k, but for 1, which is "vfs_".
    """
    tokens = [b"vfs_" if k == 1 else bytes([k]) if k >= 32 else b"" for k in range(256)]
    table = b"".join(token + b"\0" for token in tokens)
    index = b"".join(struct.pack("<H", sum(len(token) + 1 for token in tokens[:k])) for k in range(256))
    names = b""
    for name, _ in SYMBOLS:
        packed = name.encode().replace(b"vfs_", b"\1")
        size = bytes([len(packed)]) if len(packed) < 128 else bytes([len(packed) & 127 | 128, len(packed) >> 7])
        names += size + packed
    names = names[: len(names) - cut]
    places, content = {}, bytearray()
    parts = {
        "num_syms": struct.pack("<I", len(SYMBOLS)),
        "names": names,
        "token_table": table + bytes(512),
        "token_index": index,
        "offsets": bytes(4 * len(SYMBOLS)),
        "relative_base": struct.pack("<Q", TEXT),
    }
    for name, data in parts.items():
        content += bytes(-len(content) % 8)
        places[name] = TABLES + len(content)
        content += data
    for k, (_, vaddr) in enumerate(SYMBOLS):
        at = places["offsets"] + 4 * k
        offset = vaddr - TEXT & 0xFFFFFFFF if relative else vaddr - at & 0xFFFFFFFF
        struct.pack_into("<I", content, at - TABLES, offset)
    if not relative:
        del places["relative_base"]
    else:
        struct.pack_into("<Q", content, places["relative_base"] - TABLES, TEXT)
    places.pop(without, None)
    said = "".join(f"SYMBOL(kallsyms_{name})={place:x}\n" for name, place in places.items())
    note = f"OSRELEASE=6.12\nSYMBOL(_stext)={stext:x}\n{said}KERNELOFFSET=0\n".encode()
    return core([(TABLES, (1 << 64) - 1, bytes(content) + bytes(4096))], [("VMCOREINFO", 0, note)])


def opened(tmp_path: Path, data: bytes) -> Memory:
    (tmp_path / "core").write_bytes(data)
    return open_memory(str(tmp_path / "core"))


@pytest.mark.parametrize("relative", [True, False], ids=["6.1", "7.2"])
def test_both_forms(relative: bool, tmp_path: Path) -> None:
    symbols = [one for one in SYMBOLS if relative is False or one[1] >= TEXT]
    found = kernel_symbols(opened(tmp_path, tables(relative=relative)))
    expected = [LiveSymbol(vaddr, name[1:], kind=name[0]) for name, vaddr in symbols]
    assert [one for one in found if one.name != "_text" or not relative] == expected
    assert [one.is_text for one in found] == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("damage", "said"),
    [({"without": "names"}, "from Linux 6.0 on"), ({"cut": 20}, "damaged kallsyms"), ({"stext": TEXT + 4}, "_stext")],
    ids=str,
)
def test_tables_that_cannot_be_read(damage: dict[str, Any], said: str, tmp_path: Path) -> None:
    memory = opened(tmp_path, tables(relative=False, **damage))
    with pytest.raises(InputError, match=said):
        kernel_symbols(memory)
