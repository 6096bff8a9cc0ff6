"""Asks a running kernel for its state by one shell script, on this machine or on another one."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, NamedTuple

from prologue.errors import InputError
from prologue.live.memory.ranges import PAGE

FTRACE_CALLER: Final = "ftrace_caller"
# The kernel's own types lie in its memory (include/asm-generic/vmlinux.lds.h).
BTF_BEGIN, BTF_END = "__start_BTF", "__stop_BTF"
LIST_HEADS: Final = (
    "ftrace_ops_list", "ftrace_list_end", "ftrace_pages_start", "kprobe_table", "removed_ops", "direct_functions",
)  # fmt: skip
"""Variables where lists begin that an audit follows; unknown to a kernel without ``CONFIG_KALLSYMS_ALL``."""
_ANCHORS: Final = (
    "_text", "_stext", "_etext", "_end", "__init_begin", "__init_end", *LIST_HEADS,
    # How the structs in these lists are laid out.
    FTRACE_CALLER, BTF_BEGIN, BTF_END,
)  # fmt: skip
SCRIPT: Final = rf"""
part() {{ printf '==== %s\n' "$1"; }}
show() {{ part "$1"; cat "$2" 2>/dev/null; }}
show release /proc/sys/kernel/osrelease
show boot_id /proc/sys/kernel/random/boot_id
show kptr_restrict /proc/sys/kernel/kptr_restrict
show modules /proc/modules
part symbols
grep -E '[[]|^[0-9a-f]+ . ({"|".join(_ANCHORS)})$' /proc/kallsyms 2>/dev/null
part sections
grep '' /dev/null /sys/module/*/sections/.[!.]* /sys/module/*/sections/* 2>/dev/null
show kprobes /sys/kernel/debug/kprobes/list
part end
"""
"""A POSIX shell script, for busybox as well; ``parse_state`` reads what it prints."""
END: Final = b"\n==== end\n"
"""The last that it prints."""

_PARTS: Final = ("release", "boot_id", "kptr_restrict", "modules", "symbols", "sections", "kprobes")
_SYMBOL: Final = re.compile(r"^([0-9a-f]{1,16}) (\S) (\S+)(?:[ \t]+\[(\S+)\])?$", re.MULTILINE)
_TEXT: Final = frozenset("tTwW")  # as nm has them: text, and weak symbols that are no objects
_CHOSEN: Final = ("]", *(f" {name}" for name in _ANCHORS))
_SECTION: Final = re.compile(r"/sys/module/([^/]+)/sections/([^:]+):0x([0-9a-f]+)")
# After the address taints, with + or - if it is being loaded or unloaded (module_flags, kernel/module/main.c, 5.10-7.2)
_MODULE: Final = re.compile(r"(\S+) (\d+) .*0x([0-9a-f]+)(?: \(\S*\))?")


FREED: Final = (".init", ".symtab", ".strtab")
"""How names of a module's sections begin that the loader lays out as init, and frees when the module is loaded.

Where they were, another module may be by now (module_init_layout_section, layout_symtab; kernel/module/main.c and
kallsyms.c, 6.1-7.2; kernel/module.c, 5.10).
"""


class LoadedModule(NamedTuple):
    """A loaded module: its size in memory in bytes, where it begins, and where each of its sections is.

    Sections of init are named although their memory is free again (``FREED``).
    """

    name: str
    size: int
    base: int
    sections: dict[str, int]

    def has_text(self, vaddr: int) -> bool:
        """Return whether that is text which stays after init; anywhere in the module if its sections are not known.

        Each section goes on to the next one; ``size`` bounds the last (from 6.4 on it counts all of a module's memory,
        of which text is one part).
        """
        if not self.sections:
            return self.base <= vaddr < self.base + self.size
        begun = [(place, name) for name, place in self.sections.items() if place <= vaddr]
        place, name = max(begun, default=(0, ""))
        return is_module_text(name) and vaddr - place < self.size


def is_module_text(section: str) -> bool:
    """Return whether a module's section of that name is text that stays after init.

    ``.fixup`` is what an access that faulted goes on with (arch/arm64/include/asm/uaccess.h, 5.10).
    """
    return not section.startswith(FREED) and ("text" in section or section in {".plt", ".fixup"})


class LiveSymbol(NamedTuple):
    """A line of ``/proc/kallsyms``; ``owner`` is a module, or ``bpf`` and the like, or empty for the kernel itself.

    ``kind`` is the letter that nm has for it, "?" if it is not known.
    """

    vaddr: int
    name: str
    owner: str = ""
    kind: str = "?"

    @property
    def is_typed(self) -> bool:
        """True if it is known what it names."""
        return self.kind != "?"

    @property
    def is_text(self) -> bool:
        """True if it names code."""
        return self.kind in _TEXT


class KernelTask(NamedTuple):
    """A task: its number (a thread's), its process's, its name, and the process that is its parent now."""

    tid: int
    pid: int
    comm: str
    parent: int = 0


@dataclass(frozen=True, kw_only=True)
class KernelState:
    """State that the kernel reports. ``symbols`` are those of other owners, and where its image begins and ends.

    ``kprobes`` are the lines of ``/sys/kernel/debug/kprobes/list``; empty if debugfs is not mounted.
    """

    release: str
    boot_id: str
    modules: tuple[LoadedModule, ...]
    symbols: tuple[LiveSymbol, ...]
    kprobes: tuple[str, ...]

    def anchors(self) -> dict[str, int]:
        """Return the addresses of the kernel's own symbols among them."""
        return {symbol.name: symbol.vaddr for symbol in self.symbols if not symbol.owner}

    def code_owner(self, vaddr: int) -> str:
        """Return whose code is there: a module's that has text there, or another's (BPF, say) that begins near before.

        Near is less than a page; empty if no owner is known. A module's symbols do not count: they name data, and init
        text whose memory has another use now.
        """
        begun = [
            (max(place for place in (module.base, *module.sections.values()) if place <= vaddr), module.name)
            for module in self.modules if module.has_text(vaddr)
        ]  # fmt: skip
        at = bisect_right(self._other_code, vaddr, key=itemgetter(0))
        begun += [(place, owner) for place, owner in self._other_code[max(at - 1, 0) : at] if vaddr - place < PAGE]
        return max(begun, default=(0, ""))[1]

    @cached_property
    def _other_code(self) -> list[tuple[int, str]]:
        """Addresses and owners of the symbols that are neither the kernel's nor a module's, ascending."""
        modules = {module.name for module in self.modules}
        return sorted((s.vaddr, s.owner) for s in self.symbols if s.owner and s.owner not in modules)

    def as_data(self) -> dict[str, Any]:
        """Return all as JSON values; addresses as hexadecimal text."""
        return {
            "release": self.release,
            "boot_id": self.boot_id,
            "modules": [
                {
                    "name": module.name,
                    "size": module.size,
                    "base": hex(module.base),
                    "sections": {name: hex(vaddr) for name, vaddr in module.sections.items()},
                }
                for module in self.modules
            ],
            "symbols": [[hex(symbol.vaddr), symbol.name, symbol.owner] for symbol in self.symbols],
            "kprobes": list(self.kprobes),
        }


def state_from_data(data: dict[str, Any]) -> KernelState:
    """Read what ``as_data`` made.

    Raises:
        KeyError, TypeError, ValueError: it is something else.

    """
    return KernelState(
        release=str(data["release"]),
        boot_id=str(data["boot_id"]),
        modules=tuple(
            LoadedModule(
                str(module["name"]),
                int(module["size"]),
                int(module["base"], 16),
                {str(name): int(vaddr, 16) for name, vaddr in module["sections"].items()},
            )
            for module in data["modules"]
        ),
        symbols=tuple(LiveSymbol(int(vaddr, 16), str(name), str(owner)) for vaddr, name, owner in data["symbols"]),
        kprobes=tuple(map(str, data["kprobes"])),
    )


def parse_state(output: str, name: str) -> KernelState:
    """Read what ``SCRIPT`` printed on the machine ``name``.

    Raises:
        InputError: it is cut off, or the kernel hides addresses.

    """
    # What a login shell prints before it is no part of it.
    pieces = re.split(r"^==== (\w+)$", output, flags=re.MULTILINE)[1:]
    parts = dict(zip(pieces[::2], (text.strip("\n") for text in pieces[1::2]), strict=False))
    if "end" not in parts or not set(_PARTS) <= set(parts):
        raise InputError("did not say what it runs: the answer is cut off", path=name)
    symbols = _untyped(parts["symbols"])
    modules = parse_modules(parts["modules"], parts["sections"], name)
    if not any(symbol.vaddr for symbol in symbols) or not all(module.base for module in modules):
        setting = parts["kptr_restrict"]
        raise InputError(
            f"the kernel hides its addresses (kernel.kptr_restrict is {setting}): read it as root, "
            "and with kptr_restrict at most 1",
            path=name,
        )
    return KernelState(
        release=parts["release"],
        boot_id=parts["boot_id"],
        modules=modules,
        symbols=symbols,
        kprobes=tuple(parts["kprobes"].splitlines()),
    )


def parse_kallsyms(text: str) -> tuple[LiveSymbol, ...]:
    """Parse the symbols of a whole ``/proc/kallsyms`` that ``SCRIPT`` would have chosen."""
    lines = (line for line in text.split("\n") if line.endswith(_CHOSEN))  # of 150,000 a few are
    return tuple(symbol for symbol in _untyped("\n".join(lines)) if symbol.owner or symbol.name in _ANCHORS)


def parse_symbols(text: str) -> Iterator[LiveSymbol]:
    """Read the lines of a whole /proc/kallsyms."""
    for match in _SYMBOL.finditer(text):
        yield LiveSymbol(int(match[1], 16), match[3], match[4] or "", match[2])


def _untyped(text: str) -> tuple[LiveSymbol, ...]:
    """Read symbols without their kinds, which no capture has; a module's text of init is gone by now."""
    return tuple(symbol._replace(kind="?") for symbol in parse_symbols(text))


def parse_modules(modules: str, sections: str, name: str) -> tuple[LoadedModule, ...]:
    """Read ``/proc/modules`` of ``name``, and lines ``/sys/module/NAME/sections/SECTION:ADDRESS``.

    Raises:
        InputError: a line of modules is something else.

    """
    where: dict[str, dict[str, int]] = {}
    for match in _SECTION.finditer(sections):
        where.setdefault(match[1], {})[match[2]] = int(match[3], 16)
    loaded = []
    for line in modules.splitlines():
        parts = _MODULE.fullmatch(line)
        if parts is None:
            raise InputError(f"expected a line of /proc/modules, found {line!r}", path=name)
        loaded.append(LoadedModule(parts[1], int(parts[2]), int(parts[3], 16), where.get(parts[1], {})))
    return tuple(loaded)
