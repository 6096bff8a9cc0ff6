"""A kernel without its vmlinux: the text that memory has, at run-time addresses, with the symbols of kallsyms.

No line tables, no sizes of symbols (each reaches to the next one, as in the kernel's own traces), no mark of what in
text is data, no init text: its memory was given away.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import Bool, spans_of
from prologue.elf.image import ElfImage
from prologue.elf.symbols import SHN_ABS, STT_FUNC, STT_NOTYPE, STT_OBJECT, SYM
from prologue.elf.written import NewSection, write_executable
from prologue.errors import InputError
from prologue.live.memory.base import Memory
from prologue.live.memory.kallsyms import BPF_FILLER, MOST_UNSIZED, kernel_symbols
from prologue.live.memory.ranges import PAGE, Range
from prologue.live.memory.reading import StableReading, read_until_stable, zero_pages
from prologue.live.memory.state import FREED, LiveSymbol, LoadedModule, is_module_text

# Text outside of .text, between symbols of arch/arm64/kernel/vmlinux.lds.S and include/asm/sections.h, 6.1 to 7.2.
_ISLANDS: Final = ("__idmap_text", "__hibernate_exit_text", "__relocate_new_kernel", "__entry_tramp_text")
_MOST_MODULE: Final = 1 << 26
_BPF: Final = "bpf"  # the owner of its programs, as kallsyms has it
_LOCAL, _GLOBAL = 0, 1
_BOUND: Final = re.compile(r"^_.*(text|_start|_end|_begin)$")
"""A linker script's symbol: where a function begins at the same address, that is the better name."""


class _Wanted(NamedTuple):
    """A range of text, as far as names and sizes say it; ``owner`` is a module, or empty.

    Of a range with an owner only the part ``known`` is text in any case: from a first name of text to a last one.
    """

    where: Range
    name: str
    owner: str = ""
    known: Range = Range(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BareText:
    """Consecutive text that memory has; ``zeros`` are words of it in pages of zeros, ``unstable`` those that changed.

    ``owner`` is a module, or ``bpf`` and the like; empty for the kernel.
    """

    name: str
    owner: str
    vaddr: int
    data: bytes
    zeros: int
    unstable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BareKernel:
    """A kernel of which there is memory only; ``image`` has its text at run-time addresses, and all symbols.

    ``missing`` says of how many bytes of text, by what they are, memory has nothing: of modules and the like, at least.
    ``unlisted`` is the reason why text of modules and the like is left out; empty if memory says what was loaded.
    """

    image: ElfImage
    texts: tuple[BareText, ...]
    symbols: int
    missing: Counter[str]
    unlisted: str


def read_bare_kernel(memory: Memory) -> BareKernel:
    """Read all text that memory has and that symbols or modules' places lead to.

    Raises:
        InputError: memory does not say where kallsyms is, hides addresses, or has none of the kernel's text.

    """
    symbols = sorted(kernel_symbols(memory), key=attrgetter("vaddr", "kind", "name", "owner"))
    places = {symbol.name: symbol.vaddr for symbol in symbols if not symbol.owner}
    main = _between(places, "_stext", "_etext")
    if main is None:
        raise InputError("its kallsyms does not say where the kernel's text is (_stext, _etext)", path=memory.name)
    modules, unlisted = dict[str, LoadedModule](), ""
    try:
        modules = {module.name: module for module in memory.state().modules}
    except InputError as error:  # a dump: modules are known by DWARF only
        unlisted = error.message
    wanted = [_Wanted(main, ".text"), *_islands(places, main), *_others(symbols, modules, main, places)]
    read = read_until_stable(memory, [piece.where for piece in wanted])
    runs = [list(_texts(piece, reading)) for piece, reading in zip(wanted, read, strict=True)]
    texts = sorted((text for run in runs for text in run), key=lambda text: text.vaddr)
    if not any(text.name == ".text" for text in texts):
        raise InputError("has none of the kernel's text, which kallsyms has from _stext to _etext", path=memory.name)
    missing = Counter[str]()
    for piece, reading, run in zip(wanted, read, runs, strict=True):
        lacking = _lacking(piece, run) if _is_unsized(piece) else 4 * int((~reading.present).sum())
        if lacking:
            missing[piece.name] += lacking
    sections = [
        *(NewSection(name=text.name, vaddr=text.vaddr, size=len(text.data), data=text.data) for text in texts),
        *_data_sections(texts, places),
    ]
    content, count = _executable(sections, symbols, memory.info.build_id)
    image = ElfImage(Path(memory.name), content)
    return BareKernel(image=image, texts=tuple(texts), symbols=count, missing=missing, unlisted=unlisted)


def _between(places: dict[str, int], first: str, last: str) -> Range | None:
    start, end = places.get(first, 0), places.get(last, 0) & ~3
    return Range(start, end - start) if 0 < start < end and not start % 4 else None


def _islands(places: dict[str, int], main: Range) -> Iterator[_Wanted]:
    """Yield text that is among the read-only data."""
    for name in _ISLANDS:
        where = _between(places, f"{name}_start", f"{name}_end")
        if where is not None and where.vaddr >= main.end:
            yield _Wanted(where, ".rodata.text")


class _Edge(NamedTuple):
    """A place where something begins, which ends whatever was before it."""

    vaddr: int
    owner: str
    is_text: bool


def _others(
    symbols: Sequence[LiveSymbol], modules: dict[str, LoadedModule], main: Range, places: dict[str, int]
) -> Iterator[_Wanted]:
    """Yield text of modules, and of what has symbols and is none: BPF programs, pages of kprobes and of ftrace.

    Text goes on to where something else begins; after the last symbol as far as the module is long, or a bit.
    """
    end = max(places.get("_end", main.end), main.end)
    edges = sorted({edge for edge in _edges(symbols, modules) if not main.vaddr <= edge.vaddr < end})
    # Of what is no module each symbol begins its own text: what is between two of them may be anybody's.
    runs = [edge for k, edge in enumerate(edges) if not k or edge[1:] != edges[k - 1][1:] or edge.owner not in modules]
    stops = [*(run.vaddr for run in runs), 1 << 64][1:]
    for run, after in zip(runs, stops, strict=True):
        if not run.is_text:
            continue
        last = edges[bisect_right(edges, after - 1, key=lambda edge: edge.vaddr) - 1].vaddr
        module = modules.get(run.owner)
        room = last - run.vaddr + MOST_UNSIZED if module is None else max(module.size, last - run.vaddr + PAGE)
        size = min(after - run.vaddr, room, _MOST_MODULE) & ~3
        if size > 0:
            where = Range(run.vaddr, size)
            known = Range(run.vaddr, 4) if module is None else _known(symbols, module, where, min(last, where.end - 4))
            yield _Wanted(where, f"[{run.owner}]", run.owner, known)


def _known(symbols: Sequence[LiveSymbol], module: LoadedModule, where: Range, last: int) -> Range:
    """Return the part of a range that has names of a module's text; ``last`` is where its last section there begins.

    It begins with a name, and not with a section, because pages of a PLT without entries are zeros; without names that
    are surely of text it is empty, after all of which text may be.
    """
    low, high = (bisect_left(symbols, vaddr, key=lambda symbol: symbol.vaddr) for vaddr in (where.vaddr, where.end))
    names = [symbol for symbol in symbols[low:high] if symbol.owner == module.name]
    text = [s.vaddr & ~3 for s in names if (s.is_text if s.is_typed else module.sections and module.has_text(s.vaddr))]
    if text:
        return Range(text[0], max(text[-1], last) + 4 - text[0])
    return Range(last if module.sections or not names else names[-1].vaddr & ~3, 0)


def _edges(symbols: Sequence[LiveSymbol], modules: dict[str, LoadedModule]) -> Iterator[_Edge]:
    for module in modules.values():
        yield _Edge(module.base & ~3, module.name, is_text=True)
        for name, vaddr in module.sections.items():
            if vaddr % 4 == 0 and not name.startswith(FREED):
                yield _Edge(vaddr, module.name, is_text=is_module_text(name))
    for symbol in symbols:
        module_ = modules.get(symbol.owner)
        if not symbol.owner or (module_ is not None and (module_.sections or not symbol.is_typed)):
            continue
        if symbol.vaddr % 4 == 0:
            yield _Edge(symbol.vaddr, symbol.owner, is_text=symbol.is_text or module_ is None)


def _is_unsized(piece: _Wanted) -> bool:
    """Return whether nothing says that all of it is there."""
    return bool(piece.owner)


def _lacking(piece: _Wanted, texts: Sequence[BareText]) -> int:
    """Return how many bytes at least are lacking of text whose size is not known."""
    known, lacking = piece.known, piece.known.size
    for text in texts:
        lacking -= max(min(known.end, text.vaddr + len(text.data)) - max(known.vaddr, text.vaddr), 0)
    if lacking or piece.owner != _BPF:
        return lacking
    end, is_limit = texts[-1].vaddr + len(texts[-1].data), piece.where.size == MOST_UNSIZED
    # A program ends with filler, or where the next one begins; not with a page.
    is_cut = is_limit if end == piece.where.end else end % PAGE == 0
    return 4 if is_cut and not texts[-1].data.endswith(BPF_FILLER) else 0


def _texts(piece: _Wanted, reading: StableReading) -> Iterator[BareText]:
    """Yield the runs of words that memory has; zeros after the last word fill a page, or all that is mapped there.

    Where no size is known, text ends at the first page after its last name that is not there: others' comes next.
    """
    blank = np.repeat(zero_pages(reading.data, piece.where.vaddr), PAGE // 4)[piece.where.vaddr % PAGE // 4 :]
    zeros: Bool = reading.present & blank[: len(reading.present)]
    present = reading.present & ~zeros if _is_unsized(piece) else reading.present
    spans = spans_of(present)
    if _is_unsized(piece):
        last = (max(piece.known.end - 4, piece.known.vaddr) - piece.where.vaddr) // 4
        spans = [span for span in spans if span[0] <= last]
    for low, high in spans:
        data = reading.data[4 * low : 4 * high]
        filled = -(-len(data.rstrip(b"\0")) // 4)
        if not filled:
            continue
        data = data[: 4 * filled] if _is_unsized(piece) else data
        start = piece.where.vaddr + 4 * low
        inside = range(start, start + len(data))
        yield BareText(
            name=piece.name,
            owner=piece.owner,
            vaddr=start,
            data=data,
            zeros=int(zeros[low : low + filled].sum()),
            unstable=sum(place in inside for place in reading.unstable),
        )


def _data_sections(texts: Sequence[BareText], places: dict[str, int]) -> Iterator[NewSection]:
    """Yield the kernel's image between its texts: data, of which only the symbols are wanted."""
    kernel_texts = [text for text in texts if not text.owner]
    stop = places.get("_end", 0)
    for text, after in pairwise([*((text.vaddr, len(text.data)) for text in kernel_texts), (max(stop, 0), 0)]):
        start, size = sum(text), after[0] - sum(text)
        if size > 0:
            yield NewSection(name=".nobits", vaddr=start, size=size, data=None)


def _executable(sections: Sequence[NewSection], symbols: Sequence[LiveSymbol], build_id: str) -> tuple[bytes, int]:
    """Make the file, and count its symbols."""
    ordered = sorted(range(len(sections)), key=lambda row: sections[row].vaddr)
    starts = np.array([sections[row].vaddr for row in ordered], np.uint64)
    stops = np.array([sections[row].vaddr + sections[row].size for row in ordered], np.uint64)
    numbers = np.array(ordered, np.uint16) + np.uint16(1)
    is_code = np.array([sections[row].data is not None for row in ordered])
    vaddrs = np.array([symbol.vaddr for symbol in symbols], np.uint64)
    row = np.maximum(np.searchsorted(starts, vaddrs, side="right"), 1) - 1
    inside = (vaddrs >= starts[row]) & (vaddrs < stops[row])
    # Init text is where others may be by now, and freed memory has no section: such symbols are left out.
    kept = inside | np.array([not symbol.owner and not symbol.is_text for symbol in symbols])
    after = np.searchsorted(vaddrs, vaddrs, side="right")
    following = np.append(vaddrs, np.uint64((1 << 64) - 1))[after]
    table = np.zeros(len(symbols), SYM)
    table["name"] = np.arange(len(symbols))
    table["value"] = vaddrs
    table["shndx"] = np.where(inside, numbers[row], SHN_ABS)
    table["size"] = np.where(inside, np.minimum(following, stops[row]) - vaddrs, 0)
    kinds = np.where(inside & is_code[row], STT_FUNC, STT_OBJECT)
    alone = after - np.searchsorted(vaddrs, vaddrs) == 1
    kinds[~alone & np.array([_BOUND.search(symbol.name) is not None for symbol in symbols])] = STT_NOTYPE
    bindings = np.array(
        [_LOCAL if symbol.kind.islower() and symbol.kind not in "wv" else _GLOBAL for symbol in symbols]
    )
    table["info"] = bindings << 4 | kinds
    return write_executable(sections, table[kept], [symbol.name for symbol in symbols], build_id), int(kept.sum())
