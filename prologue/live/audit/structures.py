"""Structures of the heap that an audit reads: ftrace's lists and records, and kprobes. Captures take them along.

The audit's own code finds each structure, so a capture has all that an audit of it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from prologue.dwarf.btf import Btf
from prologue.errors import InputError
from prologue.kernel.kernel import Kernel
from prologue.live.audit.breakpoints import find_breakpoints
from prologue.live.audit.ftrace_state import registered_ops
from prologue.live.memory.base import Memory
from prologue.live.memory.ranges import KERNEL_HALF
from prologue.live.memory.reading import read_if_there
from prologue.live.memory.state import BTF_BEGIN, BTF_END, FTRACE_CALLER, LIST_HEADS
from prologue.live.memory.take import Structures
from prologue.live.structs.ftrace_lists import LiveRecords, direct_call_offset, direct_targets, read_records
from prologue.live.structs.layouts import Layouts, by_release, layouts_of
from prologue.live.structs.objects import NotKnownError, Objects
from prologue.live.structs.variables import KeptVariables
from prologue.releases import version_of

# Bytes of a struct ftrace_ops that are kept if its size is not known: it has some 250 (include/linux/ftrace.h,
# 6.1-7.3), and two mutexes, 128 bytes more each with CONFIG_PROVE_LOCKING and LOCK_STAT; at the end of mapped memory
# there is less.
_OPS: Final = (512, 320)
_CALLER: Final = 64  # bytes of ftrace_caller in which it loads where to send a call
_MOST_BTF: Final = 64 << 20  # Debian's 7.3 has 6 MB


class ListStarts(NamedTuple):
    """The heads of the lists (run-time addresses by the names in ``LIST_HEADS``), and the layouts of their structs.

    ``direct_offsets`` are offsets in an ops at which it may have the address that it sends calls to.
    """

    heads: Mapping[str, int]
    layouts: Layouts
    direct_offsets: Sequence[int]


def starts_by_file(kernel: Kernel, slide: int) -> ListStarts:
    """Find the lists by a vmlinux: it has them also if the kernel's kallsyms has no variables."""
    symbols = kernel.symbols
    heads: Mapping[str, int] = {
        name: symbol.vaddr + slide & (1 << 64) - 1 for name in LIST_HEADS if (symbol := symbols.find(name)) is not None
    }
    layouts = layouts_of(kernel.image, kernel.version, realtime=kernel.is_realtime)
    caller = symbols.find(FTRACE_CALLER)
    code = kernel.image.read_at(caller.vaddr, min(caller.size, _CALLER)) if caller else None
    return ListStarts(heads, layouts, _direct_offsets(layouts, code))


def starts_by_kernel(memory: Memory) -> ListStarts:
    """Find the lists by the kernel's kallsyms, and by the BTF in its memory."""
    state = memory.state()
    anchors = state.anchors()
    heads: Mapping[str, int] = {name: anchors[name] for name in LIST_HEADS if name in anchors}
    begin, end = anchors.get(BTF_BEGIN, 0), anchors.get(BTF_END, 0)
    btf = read_if_there(memory, begin, end - begin) if begin and 0 < end - begin <= _MOST_BTF and heads else None
    layouts = by_release(version_of(memory.info.release or state.release), realtime=False)
    if btf is not None:
        with suppress(InputError):  # damaged
            layouts = Layouts("from the kernel's BTF", types=Btf(btf, memory.name))
    place = anchors.get(FTRACE_CALLER)
    return ListStarts(
        heads, layouts, _direct_offsets(layouts, read_if_there(memory, place, _CALLER) if place and heads else None)
    )


def _direct_offsets(layouts: Layouts, caller: bytes | None) -> Sequence[int]:
    """Return the offset of an ops' direct call; none in a kernel without them, all of its pointers if not known."""
    offset = direct_call_offset(layouts, caller or b"")
    if offset is not None:
        return (offset,)
    is_without = layouts.types is not None or (layouts.table and caller)
    return () if is_without else range(0, _OPS[0], 8)


def find_structures(memory: Memory, starts: ListStarts) -> Structures:
    """Walk the lists."""
    variables = _Walked(memory, starts)
    objects = Objects(variables)
    ops = registered_ops(objects, unstable=True)
    targets = frozenset(part for place in ops.places for part in _pointers(place, variables, starts))
    records: LiveRecords | None = None
    with suppress(NotKnownError):
        records = read_records(objects)
    with suppress(NotKnownError):
        direct_targets(objects)
    kprobes = find_breakpoints(variables, ())
    whole = ops.complete and records is not None and kprobes.complete
    sites = None if records is None else (records.places.tobytes(), records.flags.tobytes())
    called = frozenset(vaddr for _, vaddr in targets)
    return Structures(variables.pieces(), whole, (ops.places, targets, sites, frozenset(kprobes.at)), called)


def _pointers(place: int, variables: KeptVariables, starts: ListStarts) -> Iterator[tuple[int, int]]:
    """Yield the places in an ops with addresses of the kernel to which it may send calls, and these addresses.

    Locks and lists are pointers, too, but at rest they do not change.
    """
    size = starts.layouts.get("ftrace_ops")
    ops = next((data for each in ((size,) if size else _OPS) if (data := variables.read(place, each)) is not None), b"")
    for at in starts.direct_offsets:
        value = int.from_bytes(ops[at : at + 8], "little")
        if value >= KERNEL_HALF:
            yield place + at, value


class _Walked(KeptVariables):
    """Variables of a kernel without its vmlinux."""

    def __init__(self, memory: Memory, starts: ListStarts) -> None:
        super().__init__(memory, None, 0, starts.layouts)
        self._places = starts.heads

    def place(self, name: str) -> int | None:
        """Return the run-time address of a variable; None if it is not known."""
        return self._places.get(name)

    def is_named(self, name: str) -> bool:
        """Return whether a variable's address is known."""
        return name in self._places

    def size(self, name: str) -> int:
        """Return the size of the table of kprobes (KPROBE_TABLE_SIZE is 64): kallsyms has no sizes."""
        return 8 * 64 if name == "kprobe_table" else 0
