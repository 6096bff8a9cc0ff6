"""The code that a trace may have run: kernels and their modules, at run-time addresses, with symbols."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import compress
from operator import or_
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64, U32, U64, Bool
from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.errors import InputError
from prologue.live.memory.base import Memory
from prologue.live.memory.ranges import PAGE
from prologue.live.system.bare_kernel import read_bare_kernel
from prologue.live.system.module_files import module_files
from prologue.live.system.running_module import RunningModule
from prologue.live.system.running_system import RunningSystem
from prologue.live.system.running_text import LiveSection
from prologue.trace.path.trampoline import find_trampoline
from prologue.trace.ranges import TOP

# Tables of exception vectors, by their names in arch/arm64 (kernel/entry.S, kernel/hyp-stub.S, kvm/hyp, 6.1-7.2).
_TABLES: Final = (
    "vectors", "tramp_vectors", "__bp_harden_el1_vectors", "__bp_harden_hyp_vecs", "__hyp_stub_vectors",
    "__kvm_hyp_vector", "__kvm_hyp_host_vector", "__kvm_hyp_init",
)  # fmt: skip
_VECTORS: Final = (*_TABLES, *(f"__kvm_nvhe_{name}" for name in _TABLES))
VECTOR_TABLE: Final = 0x800  # bytes of one table, 16 entries (Arm ARM, "Exception vectors")
VECTOR: Final = 0x80


class Owner(NamedTuple):
    """A file that text and symbols are of; its addresses plus ``slide`` are those of the trace."""

    label: str  # empty for the kernel, a module's name for others
    image: ElfImage
    symbols: Symbols
    slide: int


class TextPiece(NamedTuple):
    """Consecutive text: its first address, its words, and whose it is.

    ``of_file`` if memory was asked, and has none of it: the words are those of the file.
    """

    vaddr: int
    words: U32
    owner: Owner
    of_file: bool = False


class Program:
    """A kernel with its modules."""

    def __init__(
        self,
        name: str,
        kernel: Owner,
        pieces: list[TextPiece],
        missing: Sequence[str] = (),
        doubts: Sequence[tuple[str, int]] = (),
    ) -> None:
        """``kernel`` is the one of ``pieces``: arm64 loads modules below it, and nVHE maps some of it elsewhere.

        ``missing`` are modules that were loaded, and of which no file was found. ``doubts`` say of how many words
        memory does not tell what ran.
        """
        self.name, self.missing, self.doubts = name, missing, doubts
        self.kernel = kernel
        self.pieces = sorted((piece for piece in pieces if len(piece.words)), key=lambda piece: piece.vaddr)
        self._bases = [piece.vaddr for piece in self.pieces]
        self._starts = np.array([piece.vaddr for piece in self.pieces], np.uint64)
        self._sizes = np.array([4 * len(piece.words) for piece in self.pieces], np.uint64)
        self._names: dict[int, str] = {}
        self._tables: dict[int, U64] = {}
        self._owners = tuple({id(piece.owner): piece.owner for piece in self.pieces}.values())

    def piece_of(self, starts: U64, ends: U64) -> I64:
        """Row of the piece that has each range whole; -1 where none does."""
        if not self.pieces:
            return np.full(len(starts), -1, np.int64)
        row = np.searchsorted(self._starts, starts, side="right") - 1
        safe = np.maximum(row, 0)
        inside = (row >= 0) & (ends > starts) & (ends - self._starts[safe] <= self._sizes[safe])
        return np.where(inside, row, -1)

    def mapped_twice(self) -> list[tuple[int, int, int]]:
        """Text of the kernel that is mapped elsewhere, too: its first and last address, and bytes from there."""
        own = self.kernel
        shifts = [(piece, piece.owner.slide - own.slide) for piece in self.pieces if piece.owner.image is own.image]
        return [
            (piece.vaddr - shift & TOP, piece.vaddr - shift + 4 * len(piece.words) & TOP, shift)
            for piece, shift in shifts
            if shift
        ]

    def own_address(self, vaddr: int) -> int:
        """Where the kernel has what it maps at this address, too; the address itself for all else."""
        row = self._row_of(vaddr)
        owner = self.pieces[row].owner if row >= 0 else self.kernel
        return vaddr + (self.kernel.slide - owner.slide if owner.image is self.kernel.image else 0) & TOP

    def words(self, start: int, end: int, piece: int) -> U32:
        """The words of a range that a piece has whole."""
        base = self.pieces[piece].vaddr
        return self.pieces[piece].words[(start - base) // 4 : (end - base) // 4]

    def words_at(self, vaddrs: U64) -> tuple[U32, Bool]:
        """The word at each address, and where there is one."""
        rows = self.piece_of(vaddrs, vaddrs + np.uint64(4))
        found = np.zeros(len(vaddrs), np.uint32)
        for row in np.unique(rows[rows >= 0]).tolist():
            mine = rows == row
            at = (vaddrs[mine] - self._starts[row]) >> np.uint64(2)
            found[mine] = self.pieces[row].words[at.astype(np.int64)]
        return found, rows >= 0

    def place_starts(self, vaddrs: U64) -> U64:
        """Address of the symbol that each address belongs to; 0 where there is none."""
        rows = self.piece_of(vaddrs, vaddrs + np.uint64(1))
        found = np.zeros(len(vaddrs), np.uint64)
        for row in np.unique(rows[rows >= 0]).tolist():
            mine = rows == row
            table = self._table(row)
            at = np.searchsorted(table, vaddrs[mine], side="right") - 1
            if len(table):
                found[mine] = np.where(at >= 0, table[np.maximum(at, 0)], np.uint64(0))
        return found

    def starts_within(self, start: int, end: int) -> list[int]:
        """Addresses of symbols in a range, ascending."""
        row = self._row_of(start)
        if row < 0:
            return []
        table = self._table(row)
        low, high = np.searchsorted(table, np.array([start, end], np.uint64))
        return [int(vaddr) for vaddr in table[low:high]]

    def _table(self, row: int) -> U64:
        """Addresses of symbols in a piece, ascending, each once."""
        if row not in self._tables:
            piece = self.pieces[row]
            slide = np.uint64(piece.owner.slide & TOP)
            places = piece.owner.symbols.place_starts + slide
            size = np.uint64(4 * len(piece.words))
            self._tables[row] = np.sort(places[places - np.uint64(piece.vaddr) < size])
        return self._tables[row]

    def name_at(self, place: int) -> str:
        """Name of the symbol that begins at an address; modules add theirs, as perf does: ``sym [module]``."""
        if place not in self._names:
            row = self._row_of(place)
            owner = self.pieces[row].owner if row >= 0 else None
            name = owner.symbols.locate((place - owner.slide) & TOP).symbol if owner else None
            label = f" [{owner.label}]" if owner and owner.label else ""
            self._names[place] = f"{name}{label}" if name else ""
        return self._names[place]

    def place(self, vaddr: int) -> tuple[str, int]:
        """Symbol and offset of an address; an empty name where there is none."""
        row = self._row_of(vaddr)
        if row < 0:
            return self._data_place(vaddr)
        table = self._table(row)
        at = int(table.searchsorted(np.uint64(vaddr), "right")) - 1
        return (self.name_at(int(table[at])), vaddr - int(table[at])) if at >= 0 else ("", 0)

    def _row_of(self, vaddr: int) -> int:
        """Row of the piece that an address is in; -1 for none. For one address this is faster than ``piece_of``."""
        row = bisect_right(self._bases, vaddr) - 1
        inside = row >= 0 and vaddr - self._bases[row] < 4 * len(self.pieces[row].words)
        return row if inside else -1

    def _data_place(self, vaddr: int) -> tuple[str, int]:
        """The same for data: their symbols are needed for ADRP only."""
        for owner in self._owners:
            where = owner.symbols.locate((vaddr - owner.slide) & TOP)
            if where.symbol:
                return where.symbol, where.symbol_offset
        return "", 0

    def find(self, name: str) -> list[int]:
        """Addresses of the symbols of that name."""
        found = set()
        for owner in self._owners:
            for symbol in owner.symbols.with_prefix(name):
                if symbol.name == name:
                    found.add((symbol.vaddr + owner.slide) & TOP)
        return sorted(found)

    @cached_property
    def vectors(self) -> U64:
        """Every address where an exception may enter, ascending."""
        found: set[int] = set()
        for owner in (owner for owner in self._owners if not owner.label):
            named = (symbol for name in _VECTORS for symbol in owner.symbols.with_prefix(name) if symbol.name == name)
            for symbol in named:
                if (symbol.vaddr + owner.slide) % VECTOR_TABLE:  # VBAR's low bits are zeros: no table
                    continue
                size = max(symbol.size, VECTOR_TABLE)
                found.update(range(symbol.vaddr + owner.slide, symbol.vaddr + owner.slide + size, VECTOR))
        return np.array(sorted(vaddr & TOP for vaddr in found), np.uint64)


def linked_program(vmlinux: Path, slide: int, hyp_text: int | None = None) -> Program:
    """A kernel with the text of its file, ``slide`` bytes from where it is linked.

    ``hyp_text`` is where ``__hyp_text_start`` is at EL2 of an nVHE host, which maps it at addresses of its own.

    Raises:
        InputError: no unstripped arm64 vmlinux.

    """
    image = ElfImage(vmlinux)
    if image.relocatable:
        raise InputError("is a module: name the vmlinux", path=vmlinux)
    owner = Owner("", image, Symbols(image), _possible(slide, vmlinux))
    pieces = [
        TextPiece(section.addr + slide & TOP, image.view(section, "<u4"), owner) for section in image.text_sections
    ]
    if not pieces:
        raise InputError("the vmlinux has no text", path=vmlinux)
    if hyp_text is not None:
        pieces += _hyp_pieces(image, owner.symbols, hyp_text)
    return Program(str(vmlinux), owner, pieces + _trampoline(owner, pieces))


def slide_by_symbols(vmlinux: Path, known: Mapping[str, int]) -> int | None:
    """How far the kernel ran from where it is linked, by run-time addresses of symbols; None if it has none of them.

    Raises:
        InputError: no unstripped vmlinux.

    """
    symbols = Symbols(ElfImage(vmlinux))
    for name, vaddr in known.items():
        own = symbols.find(name)
        if own is not None:
            return vaddr - own.vaddr
    return None


def decoder_text(program: Program, memory: Memory | None) -> list[tuple[int, U32]]:
    """What a decoder follows: the text of a program; of modules all that memory holds, PLT entries, too."""
    pieces = [(piece.vaddr, piece.words) for piece in program.pieces]
    if memory is None:
        return pieces
    try:
        modules = memory.state().modules
    except InputError:  # a dump does not say where modules are
        return pieces
    for module in modules:
        start, end = module.base, module.base + module.size // 4 * 4
        inside = [start <= vaddr and vaddr + 4 * len(words) <= end for vaddr, words in pieces]
        apart = [end <= vaddr or vaddr + 4 * len(words) <= start for vaddr, words in pieces]
        if not module.base or not all(map(or_, inside, apart)):
            continue
        with suppress(InputError):  # not all of it is there
            whole = np.frombuffer(memory.read(start, end - start), "<u4")
            pieces = [*compress(pieces, apart), (start, whole)]
    return pieces


def _possible(slide: int, path: Path) -> int:
    """A slide that can be: ADRP's immediates are pages, so linked code runs at its offset in a page, or not at all."""
    if slide % PAGE:
        raise InputError(f"cannot run with slide {slide:#x}: not a multiple of {PAGE} bytes", path=path)
    return slide


def _hyp_pieces(image: ElfImage, symbols: Symbols, hyp_text: int) -> list[TextPiece]:
    start, section = symbols.find("__hyp_text_start"), image.section(".hyp.text")
    if start is None or section is None:
        raise InputError("has no .hyp.text: built without KVM?", path=image.path)
    slide = _possible(hyp_text - start.vaddr, image.path)
    return [TextPiece(section.addr + slide & TOP, image.view(section, "<u4"), Owner("", image, symbols, slide))]


def _trampoline(owner: Owner, pieces: list[TextPiece]) -> list[TextPiece]:
    """The entry trampoline of KPTI where it runs, which is in ``pieces`` at the kernel's own address."""
    found = find_trampoline(owner.image, owner.symbols)
    if found is None:
        return []
    start, end, runs = found
    for piece in pieces:
        low, high = (start + owner.slide - piece.vaddr) // 4, (end + owner.slide - piece.vaddr) // 4
        if 0 <= low < high <= len(piece.words):
            return [TextPiece(runs, piece.words[low:high], owner._replace(slide=runs - start))]
    return []


def running_program(vmlinux: Path, memory: Memory, modules: Path | None) -> Program:
    """A kernel with the text that memory has, and its modules if the directory of their files is given.

    Raises:
        InputError: another kernel, or memory that cannot be read, or that does not say where modules are.

    """
    system = RunningSystem(vmlinux, memory, None if modules is None else module_files(modules))
    kernel = system.kernel
    owner = Owner("", kernel.image, kernel.symbols, kernel.slide)
    sections = kernel.live_text.live.values()
    pieces = [
        TextPiece(one.section.addr + kernel.slide, one.words, owner, of_file=not one.there.any()) for one in sections
    ]
    pieces += _trampoline(owner, pieces)
    doubts = list(_doubts("", sections))
    missing: list[str] = []
    if system.files is not None:
        for loaded, module, errors in system.open_modules(system.read_module):
            if errors:
                raise errors[0]
            if module is None:
                missing.append(loaded.name)
            else:
                pieces += _module_pieces(module)
                doubts += _doubts(f" [{loaded.name}]", module.live_text.live.values())
    return Program(str(vmlinux), owner, pieces, missing, doubts)


def bare_program(memory: Memory) -> Program:
    """A kernel with its modules of which there is memory only: names are those of kallsyms, and there are no lines.

    Raises:
        InputError: memory has no symbols or no text, or cannot be read.

    """
    bare = read_bare_kernel(memory)
    symbols = Symbols(bare.image)
    owners = {text.owner: Owner(text.owner, bare.image, symbols, 0) for text in bare.texts}
    pieces = [TextPiece(text.vaddr, np.frombuffer(text.data, "<u4"), owners[text.owner]) for text in bare.texts]
    doubts = [(f"bytes of {name} that memory does not have", size) for name, size in bare.missing.items()]
    doubts += [(f"words of {text.name} in pages of zeros, wiped or not read", text.zeros) for text in bare.texts]
    kernel = owners[""]
    return Program(memory.name, kernel, pieces + _trampoline(kernel, pieces), doubts=doubts)


def _doubts(label: str, sections: Iterable[LiveSection]) -> Iterator[tuple[str, int]]:
    for one in sections:
        name, zeros = f"{one.section.name}{label}", int(one.zeros.sum())
        if one.missing:
            yield f"words of {name} that memory does not have: those of the file", one.missing
        if zeros:
            yield f"words of {name} in pages of zeros, wiped or not read", zeros


def _module_pieces(module: RunningModule) -> Iterator[TextPiece]:
    owner = Owner(module.placed.loaded.name, module.image, module.symbols, 0)
    # Init text is freed when it has run, and the next module may be loaded there.
    for one in module.live_text.live.values():
        if not one.freed:
            yield TextPiece(one.section.addr, one.words, owner)
    for vaddr in module.placed.plts:
        yield TextPiece(vaddr, np.frombuffer(module.read_plt(vaddr), "<u4"), owner)
