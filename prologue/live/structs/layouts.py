"""Layouts of the kernel's structs: from BTF, from DWARF, or of a table by release.

Types decide if the vmlinux has them: a configuration (lockdep, PREEMPT_RT) or a vendor's patch moves members, and a
new release may. If neither types nor the table have a struct, nothing is read of it, and its words are not decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from prologue.dwarf.struct_types import StructTypes, struct_types
from prologue.elf.image import ElfImage

# Members that have other names in the types, by all of these.
_OTHER_NAMES: Final[dict[str, tuple[str, ...]]] = {
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


class Layouts:
    """Offsets of members and sizes of structs in bytes, by names such as ``kprobe.addr`` and ``kprobe``.

    ``source`` says where they come from, as in "struct offsets: from BTF": from ``types``, which say all of a kernel's
    structs, or else from a ``table``, which lacks all that settings decide.
    """

    def __init__(self, source: str, table: Mapping[str, int] | None = None, types: StructTypes | None = None) -> None:
        self.source, self.types, self.table = source, types, table or {}
        self._found: dict[str, int | None] = {}

    def get(self, name: str) -> int | None:
        """Return an offset or a size in bytes; None if it is not known."""
        if self.types is None:
            return self.table.get(name)
        if name not in self._found:
            paths = _OTHER_NAMES.get(name, (name,))
            values = (self.types.offset(path) if "." in path else self.types.size(path) for path in paths)
            self._found[name] = next((value for value in values if value is not None and value < _LONGEST), None)
        return self._found[name]


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
        layouts = Layouts(f"from {name}", types=types)
        if layouts.get("module.list") is not None:
            return layouts
        if layouts.get("ftrace_ops.func") is not None:
            without_modules.append(layouts)
    return without_modules[0] if without_modules else None


def by_release(version: tuple[int, int] | None, *, realtime: bool) -> Layouts:
    """Return the table's layouts of a release; without any if the table does not have it."""
    for first, last, offsets in _TABLE:
        if version is not None and first <= version <= last:
            span = _dotted(first) if first == last else f"{_dotted(first)} to {_dotted(last)}"
            return Layouts(f"of the table for {span}", _ALWAYS | offsets | (_REALTIME if realtime else {}))
    named = _dotted(version) if version is not None else "this release"
    return Layouts(f"not known: no BTF, no DWARF, and no table for {named}")


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
