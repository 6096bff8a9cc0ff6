"""Numbers of a kernel that ``plugin/record.c`` needs: places in the Image, and its build-id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prologue.dwarf.struct_types import struct_types
from prologue.elf.image import ElfImage
from prologue.elf.notes import gnu_build_id
from prologue.elf.symbols import Symbols
from prologue.live.system.programs import VECTOR_SYMBOLS, VECTOR_TABLE
from prologue.words import meant
from prologue_bench.errors import BenchError
from prologue_bench.exact.build import build_guest
from prologue_bench.exact.places import image_base, load_address

if TYPE_CHECKING:
    from pathlib import Path

    from prologue.kernel.kernel import Kernel

MARK_BASE: Final = 0x5A5B0000  # address of mark.c, and of no other program
_MAPPED: Final = "start_kernel"  # runs once, at the address that the kernel was moved to


def kernel_numbers(kernel: Kernel, head: bytes) -> dict[str, list[str]]:
    """Return the plugin's arguments about a kernel, each with its values.

    Args:
        kernel: with a symbol table.
        head: the first 64 bytes of its flat Image.

    Raises:
        BenchError: symbols are missing.

    """
    base = image_base(kernel)
    numbers = {"load": [f"{load_address(head):#x}"], "base": [f"{base:#x}"], "mapped": [offset_of(kernel, _MAPPED)]}
    vectors = [symbol for name in VECTOR_SYMBOLS if (symbol := kernel.symbols.find(name)) is not None]
    if not vectors:
        raise BenchError(
            f"{kernel.path}: no symbol vectors: exceptions cannot be recognised; use an unstripped vmlinux"
        )
    # A symbol's size ends with the last instruction of its tables.
    sizes = [-(-max(symbol.size, 1) // VECTOR_TABLE) * VECTOR_TABLE for symbol in vectors]
    numbers["vectors"] = [f"{symbol.vaddr - base:#x}:{size:#x}" for symbol, size in zip(vectors, sizes, strict=True)]
    if build_id := gnu_build_id(kernel.image):
        numbers["build-id"] = [build_id]
    pid = pid_offset(kernel.path)
    return numbers | ({} if pid is None else {"pid": [f"{pid:#x}"]})


def offset_of(kernel: Kernel, name: str) -> str:
    """Return the offset of a function in the Image, as the plugin reads it.

    Raises:
        BenchError: there is no such symbol.

    """
    symbol = kernel.symbols.find(name)
    if symbol is None:
        hint = meant(name, kernel.symbols.function_names()) or f"name one of its symbol table (nm {kernel.path.name})"
        raise BenchError(f"{kernel.path}: no function {name}: {hint}")
    return f"{symbol.vaddr - image_base(kernel):#x}"


def mark_numbers() -> dict[str, int]:
    """Return addresses of the functions of ``mark.c``: arm, begin and end."""
    symbols = Symbols(ElfImage(mark_program()))
    marks = {name: symbols.find(f"mark_{name}") for name in ("arm", "begin", "end")}
    return {name: symbol.vaddr for name, symbol in marks.items() if symbol is not None}


def mark_program() -> Path:
    """Build the program that marks begin and end of the window."""
    return build_guest("mark.c", MARK_BASE)


def pid_offset(vmlinux: Path) -> int | None:
    """Return the offset of ``pid`` in ``struct task_struct``; None if the file has neither BTF nor DWARF."""
    offsets = (types.offset("task_struct.pid") for _, types in struct_types(ElfImage(vmlinux)))
    return next((offset for offset in offsets if offset is not None), None)
