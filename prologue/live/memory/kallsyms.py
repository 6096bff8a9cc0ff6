"""All symbols of a kernel without its vmlinux: the text of kallsyms, or the tables that the kernel keeps of it.

VMCOREINFO says where the tables are from 6.0 on (``crash_save_vmcoreinfo_init``, kernel/crash_core.c, 6.1;
kernel/vmcore_info.c, 6.12). How they are packed: scripts/kallsyms.c and kernel/kallsyms.c, 6.1 to 7.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prologue.errors import InputError
from prologue.kernel.kallsyms import TOKENS, symbol_addresses, unpack_names
from prologue.live.memory.base import Memory
from prologue.live.memory.perf import PerfData
from prologue.live.memory.state import LiveSymbol, parse_symbols

MOST_UNSIZED: Final = 1 << 21
"""Bytes of text that are looked for after the last symbol of BPF and the like, of which kallsyms does not say the size.

BPF's packs have as many, with pages of 4 KiB (``BPF_PROG_PACK_SIZE``, kernel/bpf/core.c, 6.9-7.2).
"""
BPF_FILLER: Final = 0xD4202000.to_bytes(4, "little")
"""What BPF's memory has where no program is: a BRK (``jit_fill_hole``, arch/arm64/net/bpf_jit_comp.c, 5.10-7.2)."""
_TABLES: Final = ("names", "num_syms", "token_table", "token_index", "offsets")
_RELATIVE_BASE: Final = "kallsyms_relative_base"  # before 7.0; then each offset counts from its own place
_LONGEST_TOKEN: Final = 512
_MOST_NAMES: Final = 1 << 26  # bytes


def kernel_symbols(memory: Memory) -> tuple[LiveSymbol, ...]:
    """Read the symbols of the kernel, and of all else that has some, as far as memory says; not sorted.

    Raises:
        InputError: memory does not say where kallsyms is, or what it has there is damaged.

    """
    if isinstance(memory, PerfData):
        return tuple(parse_symbols(memory.kallsyms))
    unpacked = tuple(_unpacked(memory))
    try:
        others = memory.state().symbols
    except InputError:  # a dump, which knows modules only by DWARF
        others = ()
    return (*unpacked, *(symbol for symbol in others if symbol.owner))


def _unpacked(memory: Memory) -> Iterator[LiveSymbol]:
    """Unpack the tables in memory."""
    anchors = memory.info.anchors
    places = {name: anchors.get(f"kallsyms_{name}", 0) for name in _TABLES}
    if not all(places.values()):
        raise InputError(
            "does not say where kallsyms is (VMCOREINFO does from Linux 6.0 on, with CONFIG_KALLSYMS): give the "
            "vmlinux, or the data of perf record --kcore, which have a copy",
            path=memory.name,
        )
    try:
        count = int.from_bytes(memory.read(places["num_syms"], 4), "little")
        base = anchors.get(_RELATIVE_BASE)
        start = None if base is None else int.from_bytes(memory.read(base, 8), "little")
        addresses = symbol_addresses(memory.read(places["offsets"], 4 * count), places["offsets"], start)
        index = memory.read(places["token_index"], 2 * TOKENS)
        tokens = memory.read(places["token_table"], int.from_bytes(index[-2:], "little") + _LONGEST_TOKEN)
        packed = unpack_names(_packed_names(memory, places["names"]), count, index, tokens)
        names = [name.decode(errors="replace") for name in packed]
    except (IndexError, ValueError) as error:
        raise InputError(f"damaged kallsyms in memory ({error})", path=memory.name) from error
    symbols = [
        LiveSymbol(vaddr, name[1:], kind=name[:1]) for vaddr, name in zip(addresses.tolist(), names, strict=True)
    ]
    stext = anchors.get("_stext")
    if not any(symbol.vaddr == stext and symbol.name == "_stext" for symbol in symbols):
        raise InputError(
            "its kallsyms cannot be read: _stext is not where VMCOREINFO has it (another kernel release?)",
            path=memory.name,
        )
    yield from symbols


def _packed_names(memory: Memory, vaddr: int) -> bytes:
    """Return all names, and what follows them up to the next table."""
    after = [place for name, place in memory.info.anchors.items() if name.startswith("kallsyms_") and place > vaddr]
    size = min(after, default=vaddr) - vaddr
    if not 0 < size < _MOST_NAMES:
        raise ValueError(f"names of {size} bytes")
    return memory.read(vaddr, size)
