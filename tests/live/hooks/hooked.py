"""A small running kernel with one listener of each kind, and the page tables that make memory of it executable."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.mini_kernel.build import run_command
from tests.support.cores import running
from tests.support.elf_edit import ElfEdit
from tests.support.needs import needs_mini_kernel_tools
from tests.support.tool import Tool

Values = dict[str, int | str]
"""What stands at SYMBOL or SYMBOL+OFFSET, in 64 bits; a name stands for its address."""

_SOURCE = Path(__file__).with_name("hooked.c")
_TEXT = 0xFFFF_8000_0800_1000  # where tests' VMCOREINFO has _stext
_LINEAR = 0xFFFF_0000_0000_0000
_PXN = 1 << 53


def make(directory: Path, *options: str) -> Path:
    """Compile and link it; ``options`` are the compiler's."""
    needs_mini_kernel_tools()
    made, out = directory / "hooked.o", directory / "vmlinux"
    flags = ["-g", "-O1", "-ffreestanding", "-fno-pic", "-fno-stack-protector", "-fno-toplevel-reorder",
             "-mno-outline-atomics"]  # fmt: skip
    run_command(["aarch64-linux-gnu-gcc", "-c", *flags, *options, str(_SOURCE), "-o", str(made)])
    place = [f"-Ttext={_TEXT:#x}", "-z", "max-page-size=4096", "-e", "_stext"]
    run_command(["aarch64-linux-gnu-ld", *place, "-o", str(out), str(made)])
    return out


def quads(values: Mapping[int, int]) -> dict[int, int]:
    """Words of 32 bits that write these of 64, by address."""
    return {place + 4 * k: value >> 32 * k & 0xFFFFFFFF for place, value in values.items() for k in (0, 1)}


def mapped(elf: ElfEdit, executable: tuple[str, ...]) -> dict[int, int]:
    """Page tables in which the text and these variables, a page each, are executable."""
    tables = [elf.value(name) for name in ("swapper_pg_dir", "table_1", "table_2", "table_3")]
    pages = [_TEXT, *(elf.value(name) for name in executable)]
    found = {}
    for table, below, shift in zip(tables, tables[1:], (39, 30, 21), strict=False):
        found[table] = 0  # the compiler left it something there, so that it is in the file
        found[table + 8 * (_TEXT >> shift & 511)] = below - _LINEAR | 3
    found[tables[3]] = 0
    for k in range(512):
        page = (_TEXT & ~0x1FFFFF) + 4096 * k
        if page >= _TEXT:
            found[tables[3] + 8 * k] = page - _LINEAR | 3 | (0 if page in pages else _PXN)
    return quads(found)


def saved(vmlinux: Path, changes: Mapping[str, int | str] = {}, executable: tuple[str, ...] = ("module_text",)) -> Path:
    """A core of it, with these values."""
    elf, core = ElfEdit(vmlinux), vmlinux.with_name("core")
    places = {
        place(elf, name): place(elf, value) if isinstance(value, str) else value for name, value in changes.items()
    }
    core.write_bytes(running(vmlinux, mapped(elf, executable) | quads(places), 0))
    return core


def hooks(vmlinux: Path, changes: Values, tool: Tool) -> dict[str, Any]:
    """The JSON of what is attached to the kernel with these values."""
    data: dict[str, Any] = tool("live", "hooks", vmlinux, saved(vmlinux, changes), "--json", status=None).json
    return data


def of_kind(data: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The listeners of a kind."""
    return [each for each in data["listeners"] if each["kind"] == kind]


def place(elf: ElfEdit, name: str) -> int:
    """The address of ``SYMBOL+OFFSET``."""
    symbol, _, offset = name.partition("+")
    return elf.value(symbol) + int(offset or "0", 0)
