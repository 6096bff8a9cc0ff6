"""Programs that a trace may have run: kernels and their modules, at run-time addresses, with symbols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import compress
from operator import or_
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64, U32, U64, Bool
from prologue.elf.image import ElfImage
from prologue.elf.sections import SectionMap
from prologue.elf.symbols import Symbols
from prologue.errors import InputError
from prologue.live.memory.base import Memory
from prologue.live.memory.ranges import PAGE, TOP
from prologue.live.system.bare_kernel import read_bare_kernel
from prologue.live.system.running_module import RunningModule
from prologue.live.system.running_system import RunningSystem
from prologue.live.system.running_text import LiveSection
from prologue.live.system.trampoline import find_trampoline

# Tables of exception vectors, by their names in arch/arm64 (kernel/entry.S, kernel/hyp-stub.S, kvm/hyp, 5.5-7.2). An
# nVHE host's have a prefix, except in early kernels, with kvm/hyp-init.S.
_TABLES: Final = (
    "vectors", "tramp_vectors", "__bp_harden_el1_vectors", "__bp_harden_hyp_vecs", "__hyp_stub_vectors",
    "__kvm_hyp_vector", "__kvm_hyp_host_vector", "__kvm_hyp_init",
)  # fmt: skip
VECTOR_SYMBOLS: Final = (*_TABLES, *(f"__kvm_nvhe_{name}" for name in _TABLES))
VECTOR_TABLE: Final = 0x800  # bytes of one table, 16 entries (Arm ARM, "Exception vectors")
VECTOR: Final = 0x80


class Owner(NamedTuple):
    """A file that text and symbols are of; its addresses plus ``slide`` are those of the trace."""

    label: str  # empty for the kernel, a module's name for others
    image: ElfImage
    symbols: Symbols
    slide: int


class TextPiece(NamedTuple):
    """Consecutive text: its first address, its words, and its owner.

    ``of_file``: the words are the file's, because the memory that was asked has none of them.
    """

    addr: int
    words: U32
    owner: Owner
    of_file: bool = False

    @property
    def size(self) -> int:
        """Bytes."""
        return 4 * len(self.words)


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
        """Take the text of a kernel and its modules, in any order.

        ``kernel`` owns some of ``pieces``; modules are below it, and nVHE maps some of its text elsewhere, too.
        ``missing`` are loaded modules without a file. ``doubts`` are words whose content memory does not show, with
        counts.
        """
        self.name, self.missing, self.doubts = name, missing, doubts
        self.kernel = kernel
        self._map = SectionMap(pieces)
        self.pieces = self._map.sections
        self._names: dict[int, tuple[str, int]] = {}  # of a place, and its offset from what has the name
        self._data: dict[int, tuple[str, int]] = {}
        self._tables: dict[int, tuple[U64, U64]] = {}  # by the first address of a piece
        self._owners = tuple({id(piece.owner): piece.owner for piece in self.pieces}.values())

    def piece_of(self, starts: U64, ends: U64) -> I64:
        """Return the row of the piece that has each range whole, or -1; shape (n,)."""
        row = self._map.indices(starts)
        return np.where((ends > starts) & (row == self._map.indices(ends - np.uint64(1))), row, -1)

    def mapped_twice(self) -> list[tuple[int, int, int]]:
        """Return text of the kernel that is mapped elsewhere, too: its first address, its end, and bytes from there."""
        image, slide = self.kernel.image, self.kernel.slide
        shifts = [(piece, piece.owner.slide - slide) for piece in self.pieces if piece.owner.image is image]
        return [
            (piece.addr - shift & TOP, piece.addr - shift + piece.size & TOP, shift) for piece, shift in shifts if shift
        ]

    def own_address(self, vaddr: int) -> int:
        """Return the kernel's own address of text that it maps at this address, too; otherwise the address itself."""
        piece = self._map.find(vaddr)
        owner = self.kernel if piece is None else piece.owner
        return vaddr + (self.kernel.slide - owner.slide if owner.image is self.kernel.image else 0) & TOP

    def words(self, start: int, end: int, piece: int) -> U32:
        """Return the words of a range that a piece has whole."""
        base = self.pieces[piece].addr
        return self.pieces[piece].words[(start - base) // 4 : (end - base) // 4]

    def code_from(self, vaddr: int) -> memoryview | None:
        """Return the bytes of text from an address to the end of its piece; None if no piece has it."""
        piece = self._map.find(vaddr)
        return None if piece is None else piece.words.view(np.uint8).data[vaddr - piece.addr :]

    def words_at(self, vaddrs: U64) -> tuple[U32, Bool]:
        """Return the word at each address (0 if there is none), and whether there is one; shape (n,)."""
        in_piece = self.piece_of(vaddrs, vaddrs + np.uint64(4)) >= 0
        words = np.zeros(len(vaddrs), np.uint32)
        for piece, places in self._map.split(vaddrs):
            words[places] = piece.words[((vaddrs[places] - np.uint64(piece.addr)) >> np.uint64(2)).astype(np.int64)]
        return np.where(in_piece, words, np.uint32(0)), in_piece

    def place_starts(self, vaddrs: U64, *, whole: bool = True) -> U64:
        """Return where the symbol of each address (not ``whole``: its part between others) begins, or 0; shape (n,)."""
        rows = self._map.indices(vaddrs)
        starts = np.zeros(len(vaddrs), np.uint64)
        for row in np.unique(rows[rows >= 0]).tolist():
            inside = rows == row
            bounds, places = self._table(self.pieces[row])
            at = np.searchsorted(bounds, vaddrs[inside], side="right") - 1
            if len(bounds):
                starts[inside] = np.where(at >= 0, (places if whole else bounds)[np.maximum(at, 0)], 0)
        return starts

    def starts_within(self, start: int, end: int) -> list[int]:
        """Return addresses in a range where another symbol names what follows, ascending."""
        piece = self._map.find(start)
        bounds = np.zeros(0, np.uint64) if piece is None else self._table(piece)[0]
        low, high = np.searchsorted(bounds, np.array([start, end], np.uint64))
        return [int(vaddr) for vaddr in bounds[low:high]]

    def extents(self, place: int) -> tuple[U64, U64]:
        """Return where what a symbol names begins and ends, ascending: several parts if other symbols are inside."""
        piece = self._map.find(place)
        if piece is None:
            return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        bounds, places = self._table(piece)
        of_place = places == np.uint64(place)
        return bounds[of_place], np.append(bounds[1:], np.uint64(piece.addr + piece.size))[of_place]

    def _table(self, piece: TextPiece) -> tuple[U64, U64]:
        """Return addresses in a piece where another symbol names what follows, ascending, and where each begins."""
        if piece.addr not in self._tables:
            base, size = np.uint64(piece.addr), np.uint64(piece.size)
            bounds, places = (each + np.uint64(piece.owner.slide & TOP) for each in piece.owner.symbols.place_bounds)
            inside = bounds - base < size
            order = np.flatnonzero(inside)[np.argsort(bounds[inside], kind="stable")]
            self._tables[piece.addr] = bounds[order], np.where(places - base < size, places, np.uint64(0))[order]
        return self._tables[piece.addr]

    def name_at(self, place: int) -> str:
        """Return the symbol that begins at an address; of a module as perf has it: ``sym [module]``."""
        if place not in self._names:
            self._learn_names(np.array([place], np.uint64))
        return self._names.get(place, ("", 0))[0]

    def places(self, vaddrs: U64) -> list[tuple[str, int]]:
        """Return symbol and offset of each address, as ``place`` does, in one search for all of them."""
        starts = self.place_starts(vaddrs)
        self._learn_names(np.unique(starts))
        inside = (self._map.indices(vaddrs) >= 0).tolist()
        return [
            self._named(start, vaddr) if start else ("", 0) if is_text else self._data_place(vaddr)
            for vaddr, start, is_text in zip(vaddrs.tolist(), starts.tolist(), inside, strict=True)
        ]

    def _named(self, place: int, vaddr: int) -> tuple[str, int]:
        name, offset = self._names[place]
        return name, vaddr - place + offset

    def _learn_names(self, starts: U64) -> None:
        """Look up the names of symbols that begin at these addresses; 0 is no address."""
        rows = self._map.indices(starts)
        for row in np.unique(rows[rows >= 0]).tolist():
            owner = self.pieces[row].owner
            new = [start for start in starts[rows == row].tolist() if start not in self._names]
            label = f" [{owner.label}]" if owner.label else ""
            for start, where in zip(
                new, owner.symbols.locate_all([start - owner.slide & TOP for start in new]), strict=True
            ):
                self._names[start] = f"{where.symbol}{label}" if where.symbol else "", where.symbol_offset

    def place(self, vaddr: int) -> tuple[str, int]:
        """Return symbol and offset of an address; an empty name if no symbol is there."""
        return self.places(np.array([vaddr], np.uint64))[0]

    def _data_place(self, vaddr: int) -> tuple[str, int]:
        """Return symbol and offset of data, which only ADRP needs."""
        if vaddr not in self._data:
            places = (owner.symbols.locate(vaddr - owner.slide & TOP) for owner in self._owners)
            named = ((where.symbol, where.symbol_offset) for where in places if where.symbol)
            self._data[vaddr] = next(named, ("", 0))
        return self._data[vaddr]

    def find(self, name: str) -> list[int]:
        """Return addresses of the symbols of that name, ascending."""
        vaddrs = {
            symbol.vaddr + owner.slide & TOP
            for owner in self._owners
            for symbol in owner.symbols.with_prefix(name)
            if symbol.name == name
        }
        return sorted(vaddrs)

    def function_names(self) -> set[str]:
        """Return the names of all functions."""
        return {name for owner in self._owners for name in owner.symbols.function_names()}

    @cached_property
    def vectors(self) -> U64:
        """Addresses where an exception may enter, ascending; shape (n,)."""
        tables = (
            (symbol.vaddr + owner.slide, max(symbol.size, VECTOR_TABLE))
            for owner in self._owners
            for name in (() if owner.label else VECTOR_SYMBOLS)
            for symbol in owner.symbols.with_prefix(name)
            if symbol.name == name
        )
        aligned = (range(start, start + size, VECTOR) for start, size in tables if not start % VECTOR_TABLE)  # as VBAR
        return np.array(sorted({vaddr & TOP for entries in aligned for vaddr in entries}), np.uint64)


def linked_program(vmlinux: Path, slide: int) -> Program:
    """Open a kernel with the text of its file, ``slide`` bytes from where it is linked.

    Raises:
        InputError: the file is no unstripped arm64 vmlinux.

    """
    image = ElfImage(vmlinux)
    if image.relocatable:
        raise InputError("is a module: name the vmlinux", path=vmlinux)
    if slide % PAGE:  # ADRP's immediates are pages
        raise InputError(f"cannot run with slide {slide:#x}: not a multiple of {PAGE} bytes", path=vmlinux)
    owner = Owner("", image, Symbols(image), slide)
    pieces = [
        TextPiece(section.addr + slide & TOP, image.view(section, "<u4"), owner) for section in image.text_sections
    ]
    if not pieces:
        raise InputError("the vmlinux has no text", path=vmlinux)
    return Program(str(vmlinux), owner, pieces + _trampoline(owner, pieces))


def decoder_text(program: Program, memory: Memory | None) -> list[tuple[int, U32]]:
    """Return address and words of each piece of text for a decoder; of modules all memory, with their PLT entries."""
    pieces = [(piece.addr, piece.words) for piece in program.pieces]
    if memory is None:
        return pieces
    try:
        modules = memory.state().modules
    except InputError:  # a dump has no list of modules
        return pieces
    for module in modules:
        start, end = module.base, module.base + module.size // 4 * 4
        inside = [start <= vaddr and vaddr + 4 * len(words) <= end for vaddr, words in pieces]
        apart = [end <= vaddr or vaddr + 4 * len(words) <= start for vaddr, words in pieces]
        if not module.base or not all(map(or_, inside, apart)):
            continue
        with suppress(InputError):  # memory lacks a part of the module
            whole = np.frombuffer(memory.read(start, end - start), "<u4")
            pieces = [*compress(pieces, apart), (start, whole)]
    return pieces


def _trampoline(owner: Owner, pieces: list[TextPiece]) -> list[TextPiece]:
    """Return the entry trampoline of KPTI where it runs; ``pieces`` have it at the kernel's own address."""
    trampoline = find_trampoline(owner.image, owner.symbols)
    if trampoline is None:
        return []
    start, end, runs = trampoline
    for piece in pieces:
        low, high = (start + owner.slide - piece.addr) // 4, (end + owner.slide - piece.addr) // 4
        if 0 <= low < high <= len(piece.words):
            return [TextPiece(runs, piece.words[low:high], owner._replace(slide=runs - start))]
    return []


def running_program(system: RunningSystem) -> Program:
    """Open a kernel with the text that memory has, and its modules if the system has their files.

    Raises:
        InputError: memory is of another kernel, cannot be read, or has no list of modules.

    """
    kernel = system.kernel
    owner = Owner("", kernel.image, kernel.symbols, kernel.slide)
    sections = kernel.live_text.live.values()
    pieces = [
        TextPiece(live.section.addr + kernel.slide, live.words, owner, of_file=not live.present.any())
        for live in sections
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
    return Program(str(system.image.path), owner, pieces, missing, doubts)


def bare_program(memory: Memory) -> Program:
    """Open a kernel with its modules from memory alone: names are from kallsyms, and there are no source lines.

    Raises:
        InputError: memory has no symbols or no text, or cannot be read.

    """
    bare = read_bare_kernel(memory)
    symbols = Symbols(bare.image)
    owners = {text.owner: Owner(text.owner, bare.image, symbols, 0) for text in bare.texts}
    pieces = [TextPiece(text.vaddr, np.frombuffer(text.data, "<u4"), owners[text.owner]) for text in bare.texts]
    doubts = [(f"bytes of {name} that memory does not have", size) for name, size in bare.missing.items()]
    if bare.unlisted:
        doubts.append(("list of modules and BPF programs that memory does not have: their text is of no image here", 1))
    doubts += [(f"words of {text.name} in pages of zeros, wiped or not read", text.zeros) for text in bare.texts]
    return Program(memory.name, owners[""], pieces + _trampoline(owners[""], pieces), doubts=doubts)


def _doubts(label: str, sections: Iterable[LiveSection]) -> Iterator[tuple[str, int]]:
    for live in sections:
        name, zeros = f"{live.section.name}{label}", int(live.zeros.sum())
        if live.missing:
            yield f"words of {name} that memory does not have: those of the file", live.missing
        if zeros:
            yield f"words of {name} in pages of zeros, wiped or not read", zeros


def _module_pieces(module: RunningModule) -> Iterator[TextPiece]:
    owner = Owner(module.placed.loaded.name, module.image, module.symbols, 0)
    # Init text is freed when it has run, and the next module may be loaded there.
    for live in module.live_text.live.values():
        if not live.freed and live.section.allocated:  # if not, its place is not known
            yield TextPiece(live.section.addr, live.words, owner)
    for vaddr in module.placed.plts:
        yield TextPiece(vaddr, np.frombuffer(module.read_plt(vaddr), "<u4"), owner)
