"""What an audit reads of the heap: ftrace's lists and records, and kprobes. Captures take it with them.

Each structure is found as the audit finds it, by the same code, so what an audit of a capture asks for is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prologue.audit.breakpoints import find_breakpoints
from prologue.audit.ftrace_lists import all_records, registered_ops
from prologue.audit.variables import Variables
from prologue.elf.symbols import Symbols
from prologue.memory.base import KERNEL_HALF, Memory, Range
from prologue.memory.take import Structures

HEADS: Final = ("ftrace_ops_list", "ftrace_list_end", "ftrace_pages_start", "kprobe_table", "removed_ops")
"""Variables where the lists begin. A kernel without ``CONFIG_KALLSYMS_ALL`` does not say where they are."""
_OPS_POINTERS: Final = 256  # bytes in which direct_call is (at 208 in 6.12; include/linux/ftrace.h, 6.4-7.2)
# Bytes of a struct ftrace_ops that are kept. It has some 250 (include/linux/ftrace.h, 6.1-7.2), and two mutexes before
# direct_call, 128 bytes more each with CONFIG_PROVE_LOCKING and LOCK_STAT; one at the end of mapped memory has less.
_OPS: Final = (512, 320)


def find_structures(memory: Memory, heads: Mapping[str, int]) -> Structures:
    """Walk the lists; ``heads`` are run-time addresses of those of ``HEADS`` that are known."""
    variables = _Walked(memory, heads)
    ops = registered_ops(variables, busy=True)
    sends = frozenset(part for place in ops.places for part in _pointers(place, _read_ops(place, variables)))
    records = all_records(variables)
    kprobes = find_breakpoints(variables, ())
    whole = ops.complete and records is not None and kprobes.complete
    sites = None if records is None else (records.places.tobytes(), records.flags.tobytes())
    return Structures(variables.pieces(), whole, (ops.places, sends, sites, frozenset(kprobes.at)))


def _read_ops(place: int, variables: Variables) -> bytes:
    return next((data for size in _OPS if (data := variables.read(place, size)) is not None), b"")


def _pointers(place: int, ops: bytes) -> Iterator[tuple[int, int]]:
    """Where an ops has which addresses of the kernel: one is where it sends calls (``direct_call``).

    Its place is in the vmlinux only. Locks and lists are pointers, too, but at rest they do not change.
    """
    for at in range(0, min(len(ops), _OPS_POINTERS), 8):
        value = int.from_bytes(ops[at : at + 8], "little")
        if value >= KERNEL_HALF:
            yield place + at, value


def heads_by_file(symbols: Symbols, slide: int) -> dict[str, int]:
    """The same addresses from a vmlinux, of a kernel whose kallsyms has no variables."""
    return {name: symbol.vaddr + slide & (1 << 64) - 1 for name in HEADS if (symbol := symbols.find(name)) is not None}


class _Walked(Variables):
    """Variables of a kernel without its vmlinux; it keeps what was read."""

    def __init__(self, memory: Memory, places: Mapping[str, int]) -> None:
        super().__init__(memory, None, 0)
        self._places = places
        self._seen: dict[Range, bytes] = {}

    def place(self, name: str) -> int | None:
        """Those that are known."""
        return self._places.get(name)

    def read(self, vaddr: int, size: int) -> bytes | None:
        """As ``Variables.read``."""
        data = super().read(vaddr, size)
        if data is not None:
            self._seen[Range(vaddr, size)] = data
        return data

    def pieces(self) -> Sequence[tuple[int, bytes]]:
        """Address and bytes of all that was read, ascending; what touches is one piece."""
        found: list[tuple[int, bytearray]] = []
        for (vaddr, _), data in sorted(self._seen.items()):
            if found and vaddr <= found[-1][0] + len(found[-1][1]):
                start, whole = found[-1]
                whole[vaddr - start : vaddr - start + len(data)] = data
            else:
                found.append((vaddr, bytearray(data)))
        return [(vaddr, bytes(data)) for vaddr, data in found]
