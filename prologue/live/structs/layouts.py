"""Layouts of the kernel's structs: from BTF, from DWARF, or of a table by release.

Types decide if the vmlinux has them: a configuration (lockdep, PREEMPT_RT) or a vendor's patch moves members, and a
new release may. If neither types nor the table have a struct, nothing is read of it, and its words are not decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from prologue.dwarf.struct_types import StructTypes, struct_types
from prologue.elf.image import ElfImage

# Structs whose sizes are wanted, and members; those that have other names in the types, by all of these.
_PLAIN: Final = (
    "dyn_ftrace", "dyn_ftrace.flags", "dyn_ftrace.ip", "ftrace_func_entry.direct", "ftrace_func_entry.ip",
    "ftrace_hash.buckets", "ftrace_hash.size_bits", "ftrace_ops", "ftrace_ops.direct_call", "ftrace_ops.func",
    "ftrace_ops.next", "ftrace_page.index", "ftrace_page.next", "ftrace_page.records", "kgdb_bkpt",
    "kgdb_bkpt.bpt_addr", "kgdb_bkpt.saved_instr", "kgdb_bkpt.state", "kprobe.addr", "kprobe.hlist", "kprobe.opcode",
    "module.percpu", "static_key.enabled",
)  # fmt: skip
_WANTED: Final[dict[str, tuple[str, ...]]] = {name: (name,) for name in _PLAIN} | {
    "kprobe.copy": ("kprobe.ainsn.xol_insn", "kprobe.ainsn.api.insn"),
    "mutex.owner": ("mutex.owner", "mutex.rtmutex.owner", "mutex.lock.owner"),
}

# Members whose place no configuration changes, except PREEMPT_RT that of a mutex's owner; direct_call and the size of
# an ftrace_ops depend on lockdep. include/linux/{ftrace,kprobes,kgdb,mutex,jump_label}.h, kernel/trace/ftrace.c.
_ALWAYS: Final = {
    "dyn_ftrace": 16, "dyn_ftrace.flags": 8, "dyn_ftrace.ip": 0,
    "ftrace_ops.func": 0, "ftrace_ops.next": 8,
    "ftrace_page.index": 16, "ftrace_page.next": 0, "ftrace_page.records": 8,
    "kgdb_bkpt": 24, "kgdb_bkpt.bpt_addr": 0, "kgdb_bkpt.saved_instr": 8, "kgdb_bkpt.state": 16,
    "kprobe.addr": 40, "kprobe.hlist": 0,
    "mutex.owner": 0, "static_key.enabled": 0,
}  # fmt: skip
_REALTIME: Final = {"mutex.owner": 24}
# Until 5.13 a kprobe had a fault_handler before its opcode; 6.13 put the copied instruction after the handler.
_TABLE: Final[tuple[tuple[tuple[int, int], tuple[int, int], dict[str, int]], ...]] = (
    ((5, 10), (5, 10), {"kprobe.opcode": 88, "kprobe.copy": 96}),
    ((6, 1), (6, 12), {"kprobe.opcode": 80, "kprobe.copy": 88}),
    ((6, 13), (7, 3), {"kprobe.opcode": 80, "kprobe.copy": 96}),
)

_READ: Final[WeakKeyDictionary[ElfImage, Layouts]] = WeakKeyDictionary()
_LONGEST: Final = 1 << 16  # bytes: a longer struct or offset is damage


class Layouts(NamedTuple):
    """Offsets and sizes in bytes by their names in ``_WANTED``.

    ``source`` says where they come from, as in "struct offsets: from BTF".
    """

    source: str
    known: Mapping[str, int]
    exact: bool = True  # a name that ``known`` lacks is not in this kernel; a table lacks all that settings decide
    types: StructTypes | None = None  # what ``known`` was read from: it has every other struct

    def get(self, name: str) -> int | None:
        """Return an offset or a size in bytes; None if it is not known."""
        return self.known.get(name)


def layouts_of(image: ElfImage, version: tuple[int, int] | None, *, realtime: bool) -> Layouts:
    """Return the layouts of a vmlinux; ``version`` and ``realtime`` (PREEMPT_RT) are used if it has no types.

    Of several types, the first with what every kernel with modules has, otherwise with what every one with ftrace has.
    They are read once for an open file.
    """
    if image not in _READ:
        _READ[image] = _read(image) or by_release(version, realtime=realtime)
    return _READ[image]


def _read(image: ElfImage) -> Layouts | None:
    without_modules = []
    for name, types in struct_types(image):
        layouts = by_types(f"from {name}", types)
        if types.offset("module.list") is not None:
            return layouts
        if "ftrace_ops.func" in layouts.known:
            without_modules.append(layouts)
    return without_modules[0] if without_modules else None


def by_types(source: str, types: StructTypes) -> Layouts:
    """Read layouts from types."""
    known: dict[str, int] = {}
    for name, paths in _WANTED.items():
        values = (types.offset(path) if "." in path else types.size(path) for path in paths)
        value = next((value for value in values if value is not None and value < _LONGEST), None)
        if value is not None:
            known[name] = value
    return Layouts(source, known, types=types)


def by_release(version: tuple[int, int] | None, *, realtime: bool) -> Layouts:
    """Return the table's layouts of a release; without any if the table does not have it."""
    for first, last, rest in _TABLE:
        if version is not None and first <= version <= last:
            span = _dotted(first) if first == last else f"{_dotted(first)} to {_dotted(last)}"
            known = _ALWAYS | rest | (_REALTIME if realtime else {})
            return Layouts(f"of the table for {span}", known, exact=False)
    named = _dotted(version) if version is not None else "this release"
    return Layouts(f"not known: no BTF, no DWARF, and no table for {named}", {}, exact=False)


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
