"""Reads all of one kernel module (``ET_REL``)."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from prologue.arrays import I64, U32, U64, Bool, among
from prologue.elf.image import ElfImage
from prologue.elf.sections import Section, SectionMap
from prologue.elf.symbols import Symbols
from prologue.errors import InputError
from prologue.insn import a64
from prologue.insn.decode import branches
from prologue.kernel.binary import Binary, Pointers
from prologue.kernel.module_loader import RECORDS, record_sections, require_readable
from prologue.kernel.records import Records
from prologue.kernel.sites import Layout
from prologue.kernel.state import State, module_state
from prologue.words import at_offset

if TYPE_CHECKING:  # a vmlinux does without them
    from prologue.elf.identify import Compression
    from prologue.elf.relocs import Relocations
    from prologue.elf.signature import Signature, SignatureVerdict

# "ftrace: Test mcount_loc addr before calling ftrace_call_addr()", commit 6eeca746fa5f of 6.15, in stable 6.12.
_TESTS_FIRST_IN_6_12: Final = 95


class Module(Binary):
    """A ``.ko``. Its records stay where the compiler put them, whatever the contract (decision 5).

    Raises:
        InputError: not an arm64 module with symbols.

    """

    def __init__(
        self, source: Path | ElfImage, compression: Compression | None = None, *, stripped: bool = False
    ) -> None:
        """Read a module; its file is stored with ``compression``, and ``stripped`` means that it was signed."""
        image = source if isinstance(source, ElfImage) else ElfImage(source)
        if not image.relocatable:
            raise InputError("is not a kernel module", path=image.path)
        if image.section(".head.text"):  # of arch/arm64/kernel/head.S; no module has it
            raise InputError("is vmlinux.o, a kernel that is not linked yet: give its vmlinux", path=image.path)
        require_readable(image)
        super().__init__(image)
        self.compression = compression
        self.stripped = stripped
        self._signed_by: dict[tuple[bytes, ...], SignatureVerdict] = {}

    @cached_property
    def signature(self) -> Signature | None:
        """The signature at the end of the module; None if there is none.

        Raises:
            InputError: one whose lengths make no sense.

        """
        from prologue.elf.signature import find_signature

        return find_signature(self.image.content, self.path)

    @cached_property
    def unsigned_size(self) -> int:
        """Size without what signing appended: signing a module that is signed appends a second signature.

        Raises:
            InputError: as ``signature``.

        """
        from prologue.elf.signature import find_signature

        size = self.image.size
        while (inner := find_signature(memoryview(self.image.content)[:size], self.path)) is not None:
            size = inner.start
        return size

    def signed_by(self, certificates: tuple[bytes, ...]) -> SignatureVerdict | None:
        """Check the signature with the keys of these certificates (DER); None if there is no signature.

        Raises:
            InputError: a signature, or a certificate, that is damaged.

        """
        if self.signature is None:
            return None
        if certificates not in self._signed_by:  # a rule asks, and so does the report's last line
            from prologue.elf.signature import check_signature

            content = self.image.read(0, self.signature.start)
            self._signed_by[certificates] = check_signature(content, self.signature.pkcs7, certificates, self.path)
        return self._signed_by[certificates]

    @cached_property
    def relocations(self) -> Relocations:
        """Relocations that the module loader will carry out."""
        from prologue.elf.relocs import read_relocations

        return read_relocations(self.image, self.symbols)

    @cached_property
    def records(self) -> Records | None:
        """The records of every section of them, also of those that PL111 reports; None if there is none."""
        sections = [s for s in record_sections(self.image) if s.has_bytes]
        return _read_records(self, sections) if sections else None

    @cached_property
    def layout(self) -> Layout:
        """Layout of its functions: a module itself does not say; see ``layout_of``."""
        return layout_of(self.image, self.symbols, self.records) if self.records else "2"

    @cached_property
    def state(self) -> State:
        """Progress of processing."""
        return module_state(self.sites) if self.sites is not None else "no sites"

    @cached_property
    def modinfo(self) -> dict[str, str]:
        """``.modinfo``: the first value of each key, as the module loader reads it (``get_modinfo``)."""
        section = self.image.section(".modinfo")
        lines = self.image.data(section).split(b"\0") if section else []
        pairs = [line.decode("utf-8", "replace").partition("=") for line in reversed(lines)]
        return {key: value for key, sign, value in pairs if sign}

    @cached_property
    def release(self) -> str:
        """The kernel release that the module was built for, from its ``vermagic``; empty if unknown."""
        return self.modinfo.get("vermagic", "").split(" ")[0]

    @cached_property
    def adjusts_zero_records(self) -> bool | None:
        """True if kernels of its release adjust a zero record before their NULL test; None if not known.

        Up to 6.2 all do, from 6.15 on none does. The change is in 6.12.95 and later, too; of releases between, and
        those whose last number is a distribution's (6.8.0-45), the number does not say.
        """
        if self.version is None or not (6, 3) <= self.version <= (6, 14):
            return None if self.version is None else self.version < (6, 3)
        patch = re.match(r"\d+\.\d+\.([1-9]\d*)", self.release)
        return int(patch[1]) < _TESTS_FIRST_IN_6_12 if patch and self.version == (6, 12) else None

    @cached_property
    def pointers(self) -> Pointers:
        """Every relocation that makes an address, in data and in instructions."""
        from prologue.elf.relocs import R_POINTERS

        relocations = self.relocations
        index = relocations.of_types(R_POINTERS)
        index = index[relocations.defined[index]]
        return Pointers(relocations.places[index], relocations.targets[index])

    def _find_branches(self, section: Section) -> tuple[I64, U64]:
        """Find branches that the assembler resolved, and those that a relocation sends into this module."""
        index, target = branches(self.text.view(section, "<u4"), section.addr)
        places, targets, defined = self.relocations.branches
        at = np.uint64(section.addr) + index.astype(np.uint64) * np.uint64(4)
        resolved = ~among(at, places)
        # What a damaged relocation names after the last whole word is no branch.
        inside = defined & (places - np.uint64(section.addr) < np.uint64(section.size & ~3))
        relocated = ((places[inside] - np.uint64(section.addr)) >> np.uint64(2)).astype(np.int64)
        return np.concatenate([index[resolved], relocated]), np.concatenate([target[resolved], targets[inside]])

    def jump_targets(self, vaddrs: U64, words: U32) -> U64:
        """Return the place where a relocation sends the branch, or the one the assembler resolved."""
        sent = self.relocations.targets_of(vaddrs)
        return np.where(sent != 0, sent, super().jump_targets(vaddrs, words))

    def insn_text(self, word: int, vaddr: int) -> str:
        """Disassemble a word; a branch with a relocation goes to a symbol, and its bytes do not say which."""
        index = self.relocations.branch_at(vaddr)
        if index < 0:
            return super().insn_text(word, vaddr)
        if self.relocations.defined[index]:
            where = self.symbols.locate(int(self.relocations.targets[index]))
            target = at_offset(where.symbol or where.section or "", where.symbol_offset)
        else:
            target = self.symbols.name_of(int(self.relocations.symbols[index]))
        branch, _, operands = super().insn_text(word, vaddr).partition(" ")
        return " ".join([branch, *operands.split(", ")[:-1], target])

    def relative32(self, fields: U64) -> U64:
        """Return the address that the relocation at each field refers to; 0 if it is not in this module."""
        return self.relocations.targets_of(fields)

    relative64 = absolute64 = relative32


_NO_ADDRESS: Final = np.uint64(0xFFFFFFFFFFFFFFFF)


def _read_records(module: Module, sections: list[Section]) -> Records:
    from prologue.elf.dynrelocs import RELA_NONE
    from prologue.elf.relocs import R_ABS64

    vaddrs = np.concatenate([s.addr + np.arange(s.size // 8, dtype=np.uint64) * np.uint64(8) for s in sections])
    slots = np.concatenate([module.image.view(s, "<u8") for s in sections])
    relocations = module.relocations
    rows = np.flatnonzero(SectionMap(sections).indices(relocations.places) >= 0)
    place, kind = relocations.places[rows], relocations.types[rows]
    aligned = place % np.uint64(8) == 0
    if not aligned.all():
        raise InputError(f"a relocation of {RECORDS} overlaps two records: damaged", path=module.path)
    absolute = kind == R_ABS64
    index = np.searchsorted(vaddrs, place)  # sections ascend, so their slots do
    values, homes = slots.copy(), np.full(len(slots), -1, np.int64)
    # No address for a record that refers to another module, or that the loader leaves as it is in the file.
    values[values != 0] = _NO_ADDRESS
    known, target = relocations.defined[rows[absolute]], relocations.targets[rows[absolute]]
    values[index[absolute]] = np.where(known, target, _NO_ADDRESS)
    homes[index[absolute]] = relocations.homes[rows[absolute]]
    rela: Bool = np.zeros(len(slots), np.bool_)
    rela[index[absolute]] = True
    wrong = ~absolute & ~np.isin(kind, RELA_NONE)  # of a discarded function: the loader does nothing about it
    return Records(
        encoding="ABS64",
        vaddrs=vaddrs,
        slots=slots,
        values=values,
        homes=homes,
        rela=rela,
        relr=np.zeros(len(slots), np.bool_),
        rela_count=np.bincount(index, minlength=len(slots)),
        bad_types=tuple(zip(place[wrong].tolist(), kind[wrong].tolist(), strict=True)),
    )


def layout_of(image: ElfImage, symbols: Symbols, records: Records) -> Layout:
    """Tell ``=4,2`` from ``=2`` by what the records point at.

    A function symbol stands at a record in layout ``2`` (one word before it, if that is a landing pad), and 8 bytes
    after it in ``4,2``. Records that were moved stand in the function in either; then the two NOPs before every
    8-aligned function decide, which layout ``2`` has only by chance. So do the two NOPs before a pair if there are no
    symbols of functions.
    """
    value = records.values[records.nonzero & image.in_text(records.values)]
    around = image.words_around(value, range(-4, 5))
    plain = symbols.is_function_start(value)
    padded = symbols.is_function_start(value - np.uint64(4)) & (around[-1] & a64.BTI_MASK == a64.BTI)
    literal = symbols.is_function_start(value + np.uint64(8)) & (around[0] == a64.NOP) & (around[1] == a64.NOP)
    literal &= around[-1] != a64.MOV_X9_X30  # the second slot of an empty function, whose record was moved
    votes_plain, votes_literal = int((plain | padded).sum()), int((literal & ~plain).sum())
    if votes_plain or votes_literal:
        return "4,2" if votes_literal > votes_plain else "2"
    if 2 * int(_literals_by_words(value, around).sum()) > len(value):
        return "4,2"
    bti = around[-2] & a64.BTI_MASK == a64.BTI
    before = np.where(bti, around[-3], around[-2]), np.where(bti, around[-4], around[-3])
    entry = value - np.where(bti, np.uint64(8), np.uint64(4))
    reserved = (before[0] == a64.NOP) & (before[1] == a64.NOP) & (entry % np.uint64(8) == 0)
    return "4,2" if len(value) and bool(reserved.all()) else "2"


def _literals_by_words(value: U64, around: dict[int, U32]) -> Bool:
    """Return which records point at two NOPs before a pair, with or without a landing pad between."""
    bti = around[2] & a64.BTI_MASK == a64.BTI
    first, second = np.where(bti, around[3], around[2]), np.where(bti, around[4], around[3])
    literal = (around[0] == a64.NOP) & (around[1] == a64.NOP) & (value % np.uint64(8) == 0)
    begins = (around[-1] & a64.BTI_MASK == a64.BTI) | (around[-1] == a64.MOV_X9_X30)
    is_literal: Bool = literal & ~begins & ((first == a64.NOP) | (first == a64.MOV_X9_X30)) & (second == a64.NOP)
    return is_literal
