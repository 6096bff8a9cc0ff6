"""The code that reads the marker. With the symbol alone, as objcopy adds it, a kernel is no native one.

In a kernel with our patch, nothing else has the marker's bytes, and a function that ``ftrace_init`` reaches loads its
flags (arch/arm64/kernel/ftrace.c, both versions of the marker). What the kernel then does is not looked at (decision
24). Compilers inline, split and outline these functions, so names do not count.

A load is found from each ADRP or ADR on, as long as its register, or a copy of it, is not written. Compilers form an
address in many shapes: ADRP and a load with the rest as its offset; an ADD between them; the address of an object near
by (GCC's section anchors); part of it in a function of its own (LLVM's outliner, ``-fno-inline``). Calls are entered
with arguments and left with results. A register may seem to stay over a call that changes it: no compiler reads it
there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from prologue.elf.symbols import STT_OBJECT, Symbols
from prologue.insn import a64
from prologue.insn.decode import adrs, calls_to
from prologue.insn.table import row_of, surely_writes
from prologue.kernel.binary import Binary
from prologue.kernel.init_path import ENTRY, ReachedFunction, reached, veneer_target
from prologue.kernel.marker import SYMBOL, Marker
from prologue.kernel.records import Bounds
from prologue.kernel.text import Text

SECTION: Final = ".init.data"
FLAGS: Final = 12  # where in the marker they are
_SIZE: Final = 24  # of version 1; a later one is longer
_DEEPEST: Final = 8  # calls; two or three, and one more for each part that was outlined
_MOST: Final = 4096  # functions that are looked at: the nearest ones
_BEFORE, _AFTER = 3 << 12, 1 << 12  # how far what ADRP gives is from what is loaded: an anchor, and two offsets
_STEPS: Final = 4096  # steps from one ADRP; dozens are usual
_ENTERED: Final = 3  # calls that are entered
_ARGUMENTS, _RESULTS = 8, 2  # registers (AAPCS64, "Parameter passing", "Result return")
_OUTLINED: Final = "OUTLINED_FUNCTION_"  # LLVM's outliner: any register may be an argument or a result
_NOWHERE: Final = 0  # no instruction is there
_ANY: Final = 0xFFFFFFFFFFFFFFFF
# Loads of integers, by their rows of the table.
_NEAR: Final = ("LDUR, LDTR", "LDAPUR", "LDR, base written back")
_PAIRS: Final = ("LDP", "LDP, base written back")
_EXACT: Final = ("LDXR, LDAR", "LDXP, LDAXP", "LDAPR")


class ReaderProblem(NamedTuple):
    """Reason why no code is known to read the marker, and an address that says where."""

    reason: str
    place: int


def find_problem(kernel: Binary, bounds: Bounds | None, marker: Marker) -> ReaderProblem | None:
    """Find out why the marker is not one that the kernel reads; None if it is.

    Raises:
        InputError: the boot cannot be followed, for ``ftrace_init`` has no symbol.

    """
    section = kernel.image.section_at(marker.vaddr)
    if section is None or section.name != SECTION:
        return ReaderProblem(f"it is in {section.name if section else 'no section'}, not in {SECTION}", marker.vaddr)
    other = _other_object(kernel, bounds, marker)
    if other:
        return ReaderProblem(f"it shares its bytes with {other}", marker.vaddr)
    entry = kernel.symbols.require(ENTRY)
    search = LoadSearch(kernel.text, kernel.symbols, marker.vaddr + FLAGS)
    for function in reached(kernel.text, kernel.symbols, entry.vaddr, _DEEPEST, _MOST):
        if function.runs and search.is_begun_in(function):
            return None
    return ReaderProblem(f"no function that {ENTRY} reaches loads its flags", entry.vaddr)


def _other_object(kernel: Binary, bounds: Bounds | None, marker: Marker) -> str:
    """Name of what shares bytes with the marker; empty if nothing does.

    Where version 1 begins, the linker script ends the records' table: a symbol without a size begins nothing there.
    """
    end = marker.vaddr + _SIZE
    if bounds is not None and bounds.start < end and marker.vaddr < bounds.stop:
        return "the mcount records"
    symbols, begin = kernel.symbols, np.uint64(marker.vaddr)
    values, sizes = symbols.values, symbols.table["size"]
    inside = (values > begin) & (values < np.uint64(end))
    is_object = symbols.table["info"] & 15 == STT_OBJECT
    covers = is_object & (values <= begin) & (begin - values < sizes)
    for row in np.flatnonzero((inside | covers) & symbols.defined).tolist():
        name = symbols.name_of(row)
        if name and name != SYMBOL and not name.startswith("$"):
            return name
    return ""


class _HeldAddress(NamedTuple):
    """An address that a register holds before the instruction at ``pc``."""

    pc: int
    register: int
    address: int
    returns: tuple[int, ...]  # where the calls that were entered return to

    @property
    def place(self) -> tuple[int, int, tuple[int, ...]]:
        """Fields other than the address."""
        return self.pc, self.register, self.returns


class LoadSearch:
    """A search for loads of the byte at one address."""

    def __init__(self, text: Text, symbols: Symbols, wanted: int) -> None:
        self._text = text
        self._symbols = symbols
        self._wanted = wanted

    def is_begun_in(self, function: ReachedFunction) -> bool:
        """Return whether an ADRP or ADR in a function leads to such a load, there or where calls and returns lead."""
        runs = function.runs
        begin, end = min(run[0] for run in runs), max(run[1] for run in runs)
        words = np.frombuffer(self._text.read_at(begin, end - begin) or b"", "<u4")
        lowest = np.uint64(max(self._wanted - _BEFORE, 0))
        for made in adrs(words, np.uint64(begin)):
            for k in np.flatnonzero(made.value - lowest <= np.uint64(_BEFORE + _AFTER)).tolist():
                pc = begin + a64.INSN_SIZE * int(made.at[k])
                if any(start <= pc < stop for start, stop in runs):
                    held = _HeldAddress(pc + a64.INSN_SIZE, int(made.register[k]), int(made.value[k]), ())
                    if self._leads_to_load(held, function.start):
                        return True
        return False

    def _leads_to_load(self, begin: _HeldAddress, function: int) -> bool:
        todo, seen = [begin], {begin.place}
        for held in todo:  # grows meanwhile
            raw = self._text.read_at(held.pc, a64.INSN_SIZE)
            word = int.from_bytes(raw or b"", "little")
            if not word >> 16:  # UDF, or no text
                continue
            address, width = loaded(word, held.register, held.address)
            if address <= self._wanted < address + width:
                return True
            # A register that holds two addresses at one place goes through an array: what matters is the first one.
            fresh = [after for after in self._after(word, held, function) if after.place not in seen]
            if len(seen) < _STEPS:
                todo += fresh
                seen.update(after.place for after in fresh)
        return False

    def _after(self, word: int, held: _HeldAddress, function: int) -> Iterator[_HeldAddress]:
        """Yield the holders of the address after an instruction, each with its place, if all began in ``function``."""
        if word & 0x1C000000 == 0x14000000 and word >> 22 != 0b1101010100:  # branches and exceptions
            yield from self._branched(word, held, function)
            return
        following = held._replace(pc=held.pc + a64.INSN_SIZE)
        for register, address in _holders(word, held.register, held.address).items():
            yield following._replace(register=register, address=address)

    def _branched(self, word: int, held: _HeldAddress, function: int) -> Iterator[_HeldAddress]:
        kind, following = a64.classify(word), held._replace(pc=held.pc + a64.INSN_SIZE)
        target = a64.branch_target(word, held.pc)
        if kind in ("BL", "BLR"):
            if held.register >= _RESULTS:
                yield following
            if target is None or len(held.returns) >= _ENTERED:
                return
            if held.register < _ARGUMENTS or self._is_outlined(target):
                yield held._replace(pc=target, returns=(following.pc, *held.returns))
        elif word & 0xFFFFF000 == 0xD65F0000:  # RET, RETAA, RETAB
            yield from self._returned(held, function)
        elif kind == "BR":
            before = self._text.read_at(held.pc - 2 * a64.INSN_SIZE, 3 * a64.INSN_SIZE)
            target = veneer_target(np.frombuffer(before or b"", "<u4").tolist(), held.pc)
            if target is not None:
                yield held._replace(pc=target)
        else:
            if kind != "B":
                yield following
            if target is not None:
                yield held._replace(pc=target)

    def _returned(self, held: _HeldAddress, function: int) -> Iterator[_HeldAddress]:
        """Continue after the call that was entered, or after every call of the function that all began in."""
        if held.returns:
            yield held._replace(pc=held.returns[0], returns=held.returns[1:])
        elif held.register < _RESULTS or self._is_outlined(function):
            for section in self._text.text_sections:
                for k in calls_to(self._text.view(section, "<u4"), section.addr, function).tolist():
                    yield held._replace(pc=section.addr + a64.INSN_SIZE * (k + 1), returns=(_NOWHERE,))

    def _is_outlined(self, vaddr: int) -> bool:
        """Return whether a function is a part of others: one that has lost its symbol may be."""
        names = self._symbols.names_at(vaddr)
        return not names or any(name.startswith(_OUTLINED) for name in names)


def _holders(word: int, register: int, address: int) -> dict[int, int]:
    """Return the registers that hold the address, or one formed from it, after an instruction that is no branch."""
    held = {} if surely_writes(word, register) else {register: address}
    first, second = word & 31, word >> 5 & 31
    if word & 0xBF800000 == 0x91000000 and second == register:  # ADD, SUB of 64 bits with an immediate
        distance = (word >> 10 & 0xFFF) << (word >> 22 & 1) * 12
        held[first] = address + (-distance if word >> 30 & 1 else distance) & _ANY
    elif word & 0xFFE0FFE0 == 0xAA0003E0 and word >> 16 & 31 == register:  # MOV Xd, Xm
        held[first] = address
    elif second == register and (amount := _written_back(word)) is not None:
        held[register] = address + amount & _ANY
    held.pop(31, None)
    return held


def _written_back(word: int) -> int | None:
    """Return the number that a load or store adds to its base."""
    if word & 0x3B200400 == 0x38000400:
        return a64.signed_field(word, 12, 9)
    if word & 0x3A800000 == 0x28800000:
        return a64.signed_field(word, 15, 7) * _pair_width(word)
    return None


def _pair_width(word: int) -> int:
    """Return the bytes of one register of LDP, LDPSW, STP."""
    return 8 if word >> 31 else 4


def loaded(word: int, base: int, address: int) -> tuple[int, int]:
    """Return address and width of a load by a base register that holds ``address``; for other words a width of 0."""
    if word >> 5 & 31 != base:
        return address, 0
    name, width = row_of(word).name, 1 << (word >> 30)
    if name == "LDR (immediate)":
        return address + (word >> 10 & 0xFFF) * width, width
    if name in _NEAR:
        after = word & 0x3B200C00 == 0x38000400  # the base is written back, and used as it was
        return address + (0 if after else a64.signed_field(word, 12, 9)), width
    if name in _PAIRS:
        width, after = _pair_width(word), word >> 23 & 3 == 1
        return address + (0 if after else a64.signed_field(word, 15, 7) * width), 2 * width
    return address, width if name in _EXACT else 0
