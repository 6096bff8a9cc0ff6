"""Keeps of a system what ``perf record --kcore`` keeps: kcore, kallsyms and modules, in a directory.

kcore has the kernel's text and each module's, in whole pages; no data. They are one segment, as they are one of
/proc/kcore on arm64 (vmalloc), with holes in the file: perf takes all that lies below its map of the kernel for user
space, and so would not follow modules, where ``kcore_copy`` makes a segment of each (``cs_etm__cpu_mode``,
tools/perf/util/cs-etm.c, ``machine__get_kernel_start``, machine.c, symbol-elf.c, 6.1-6.12). BPF programs and
trampolines of ftrace are not there: a dump does not say where they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prologue.elf.image import ElfImage
from prologue.elf.sections import SHF_WRITE, Section
from prologue.elf.symbols import STT_FUNC, Symbols
from prologue.errors import InputError
from prologue.live.memory.base import Memory
from prologue.live.memory.capture import Piece, write_core
from prologue.live.memory.core import NO_PADDR
from prologue.live.memory.ranges import PAGE, TOP, Range
from prologue.live.memory.reading import read_until_stable
from prologue.live.system.running_module import RunningModule
from prologue.live.system.running_system import RunningSystem
from prologue.outputs import write_text


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptText:
    """The text of a system in whole pages, of modules by their names, and its symbols as lines of /proc/kallsyms.

    ``missing`` are modules that were loaded, and of which no file was there: their text is left out.
    """

    kernel: Piece
    modules: dict[str, Piece]
    missing: tuple[str, ...]
    kallsyms: str

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All text."""
        return self.kernel, *self.modules.values()

    def write(self, directory: Path) -> None:
        """Write the files into a directory that is there.

        Raises:
            OutputError: they cannot be written.

        """
        write_core(directory / "kcore", (), sorted(self.pieces), joined=True)
        write_text(directory / "kallsyms", self.kallsyms)
        lines = (f"{name} {len(text.data)} 0 - Live {text.vaddr:#x}\n" for name, text in self.modules.items())
        write_text(directory / "modules", "".join(lines))


def keep_text(system: RunningSystem) -> KeptText:
    """Read the text of the kernel from _stext to _etext, and of the modules whose files are there.

    Raises:
        InputError: memory does not have the text, or a module's file is of another build.

    """
    kernel = system.kernel
    start, end = (_place(kernel.symbols, name, kernel.slide, system) for name in ("_stext", "_etext"))
    lines = list(_lines(kernel.image, kernel.symbols, kernel.slide, ""))
    modules, missing = dict[str, Piece](), list[str]()
    for loaded, module, errors in system.open_modules(system.read_module):
        if errors:
            raise errors[0]
        if module is None:
            missing.append(loaded.name)
            continue
        extent = _extent(module)
        if extent is None:
            continue
        modules[loaded.name] = _pages(system.memory, *extent)
        lines += _lines(module.image, module.symbols, 0, f"\t[{loaded.name}]")
    return KeptText(
        kernel=_pages(system.memory, start, end),
        modules=modules,
        missing=tuple(missing),
        kallsyms="".join(lines),
    )


def _place(symbols: Symbols, name: str, slide: int, system: RunningSystem) -> int:
    symbol = symbols.find(name)
    if symbol is None:
        raise InputError(f"has no symbol {name}", path=system.image.path)
    return symbol.vaddr + slide & TOP


def _extent(module: RunningModule) -> tuple[int, int] | None:
    """Return where the text begins and ends that stays after init, with PLT entries: one piece of memory (MOD_TEXT).

    None if all of it was init text, as of keymaps.
    """
    spans = [(text.section.addr, 4 * len(text.words)) for text in module.live_text.live.values() if text.present.any()]
    spans += [(vaddr, len(module.read_plt(vaddr))) for vaddr in module.placed.plts]
    if not spans:
        return None
    return min(vaddr for vaddr, _ in spans), max(vaddr + size for vaddr, size in spans)


def _pages(memory: Memory, start: int, end: int) -> Piece:
    """Return the pages with these bytes; zeros for those that are not mapped, as in /proc/kcore."""
    start, end = start // PAGE * PAGE, -(-end // PAGE) * PAGE
    (reading,) = read_until_stable(memory, [Range(start, end - start)])
    return Piece(start, NO_PADDR, reading.data)


def _lines(image: ElfImage, symbols: Symbols, slide: int, label: str) -> Iterator[str]:
    """Yield lines of kallsyms: address, type as nm has it, name; ascending."""
    kinds = [_kind(section) for section in image.sections]
    table, values = symbols.table, symbols.values
    rows = np.flatnonzero(symbols.defined & (table["info"] & 15 <= STT_FUNC) & (table["name"] != 0))
    for row in rows[np.argsort(values[rows], kind="stable")].tolist():
        name, kind = symbols.name_of(row), kinds[int(table["shndx"][row])]
        if kind and not name.startswith(("$", ".L")):
            letter = kind if table["info"][row] >> 4 else kind.lower()
            yield f"{int(values[row]) + slide & TOP:016x} {letter} {name}{label}\n"


def _kind(section: Section) -> str:
    """Return the letter of nm for global symbols of a section; empty if it is not in memory."""
    if not section.allocated:
        return ""
    if section.executable:
        return "T"
    if section.type == "SHT_NOBITS":
        return "B"
    return "D" if section.flags & SHF_WRITE else "R"
