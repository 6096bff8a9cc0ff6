"""Reads all of one vmlinux, in one place: what scan prints and what the rules look at."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

import numpy as np

from prologue.arrays import U64
from prologue.elf.dynrelocs import relocated
from prologue.elf.image import ElfImage
from prologue.errors import InputError
from prologue.insn import a64
from prologue.insn.decode import calls_to
from prologue.kernel.binary import LinkedBinary, Pointers
from prologue.kernel.init_stub import InitStub, find_init_stub
from prologue.kernel.marker import Marker, find_marker
from prologue.kernel.marker_reader import ReaderProblem, find_problem
from prologue.kernel.records import Bounds, Records, find_bounds, read_records
from prologue.kernel.sites import Layout, find_layout
from prologue.kernel.state import State, native_state, stock_state
from prologue.releases import SORTS_RECORDS_AT_BUILD, TESTS_ZERO_RECORDS_FIRST

Contract = Literal["native", "stock"]

_ADJUST: Final = "ftrace_call_adjust"
_FEW: Final = 4  # records out of order in a table that was sorted and then damaged; or one in 100


class Kernel(LinkedBinary):
    """A vmlinux. Properties are read when first asked for, so that the build step reads only what it needs.

    Raises:
        InputError: not an arm64 vmlinux with symbols.

    """

    def __init__(self, source: Path | ElfImage) -> None:
        image = source if isinstance(source, ElfImage) else ElfImage(source)
        if image.relocatable:
            raise InputError("is a kernel module, but a vmlinux is needed", path=image.path)
        image.check_segments()
        super().__init__(image)

    @cached_property
    def bounds(self) -> Bounds | None:
        """The record table's bounds; None if this kernel has no dynamic ftrace."""
        return find_bounds(self.image, self.symbols)

    @cached_property
    def records(self) -> Records | None:
        """All records; None if the table cannot be read (PL101, or half written: PL202) or does not exist."""
        bounds, marker = self.bounds, self.marker
        if bounds is None or bounds.problem or (marker is not None and marker.writing):
            return None
        if marker is None or marker.version == 1 or not marker.processed:
            return read_records(self.image, bounds)
        if marker.offsets:
            from prologue.kernel.offset_table import read_offsets

            return read_offsets(self.image, self.symbols, bounds, marker)
        return replace(read_records(self.image, bounds), form="plain")

    @cached_property
    def relocates_itself(self) -> tuple[str, ...]:
        """Evidence that this kernel is relocated before it runs; empty for a static link."""
        from prologue.kernel.relocating import evidence

        return evidence(self.image, self.symbols)

    @property
    def unknown_records(self) -> bool:
        """True if there is a table that cannot be read, or that lost its relocations."""
        writing = self.marker is not None and self.marker.writing
        return writing or bool(self.bounds and self.bounds.problem) or self.lost_relocations

    @property
    def lost_relocations(self) -> bool:
        """True if a kernel that relocates itself has records and relocates none of them."""
        records = self.records
        if records is None or not len(records) or records.form == "offsets":
            return False
        if records.rela_count.any() or records.relr.any():
            return False
        return bool(self.relocates_itself)

    @cached_property
    def layout(self) -> Layout:
        """``-fpatchable-function-entry`` that this kernel was built with."""
        return find_layout(self.symbols)

    @cached_property
    def marker(self) -> Marker | None:
        """The native contract's marker; None on an unmodified kernel."""
        return find_marker(self.image, self.symbols)

    @cached_property
    def init_stub(self) -> InitStub:
        """State of ``ftrace_init_nop``: the stock contract's business."""
        return find_init_stub(self.image, self.symbols, self.layout)

    @cached_property
    def native_problem(self) -> ReaderProblem | None:
        """Reason why the kernel is not known to read its marker; None if it does, or has no marker or no site.

        Raises:
            InputError: ``ftrace_init`` has no symbol.

        """
        if self.marker is None or self.sites is None:
            return None
        return find_problem(self, self.bounds, self.marker)

    @property
    def writes_no_prologues(self) -> bool:
        """True if a stock kernel was processed, so that it leaves first slots as they are, those of modules too."""
        return self.marker is None and self.init_stub.state in ("neutralised", "unfinished")

    @property
    def contract(self) -> Contract:
        """Contract by which the running kernel would read its records."""
        return "native" if self.marker else "stock"

    @cached_property
    def state(self) -> State:
        """Progress of processing."""
        if self.marker is not None and self.marker.writing:
            return "unfinished"
        if self.sites is None:
            return "no sites"
        return native_state(self.sites, self.marker) if self.marker else stock_state(self.sites, self.init_stub)

    @cached_property
    def banner(self) -> str:
        """``linux_banner``, the line that /proc/version shows; empty if there is none."""
        symbol = self.symbols.find("linux_banner")
        raw = self.image.read_at(symbol.vaddr, min(symbol.size or 256, 512)) if symbol else None
        return (raw or b"").split(b"\0")[0].decode("utf-8", "replace").strip()

    @cached_property
    def release(self) -> str:
        """The kernel release, as ``uname -r`` prints it; empty if the banner does not say."""
        match = re.match(r"Linux version (\S+)", self.banner)
        return match[1] if match else ""

    @property
    def is_realtime(self) -> bool:
        """True if it was built with PREEMPT_RT."""
        return "PREEMPT_RT" in self.banner

    @cached_property
    def pointers(self) -> Pointers:
        """Every address that RELA or RELR gives to data; of a static link, every aligned quadword of data."""
        places, values = relocated(self.image)
        if self.relocates_itself:
            return Pointers(places, values)
        parts = [(places, values)]
        for section in self.image.sections:
            first, size = -section.addr % 8, section.size  # of the first aligned quadword
            if section.allocated and section.has_bytes and not section.executable and size >= first + 8:
                words = np.frombuffer(self.image.content, "<u8", (size - first) // 8, section.offset + first)
                quads = np.uint64(section.addr + first) + np.arange(len(words), dtype=np.uint64) * np.uint64(8)
                parts.append((quads, words))
        return Pointers(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    @cached_property
    def _pointers_by_place(self) -> Pointers:
        """The same, ascending."""
        places, targets = self.pointers
        order = np.argsort(places, kind="stable")  # quick if most are in order
        return Pointers(places[order], targets[order])

    def absolute64(self, fields: U64) -> U64:
        """Return the address that a relocation gives each field, or its content; 0 for fields outside of the file."""
        _, result = self._read_fields(fields, 8)
        places, targets = self._pointers_by_place
        if len(places):
            index = np.minimum(np.searchsorted(places, fields), len(places) - 1)
            result = np.where(places[index] == fields, targets[index], result)
        return result

    @cached_property
    def certificates(self) -> tuple[bytes, ...]:
        """The certificates that the kernel was built with, DER; modules may be signed by their keys."""
        from prologue.elf.signature import kernel_certificates

        return tuple(kernel_certificates(self.image, self.symbols))

    @cached_property
    def checks_signatures(self) -> bool:
        """True if it checks the signatures of modules (CONFIG_MODULE_SIG: kernel/module/signing.c), and has keys."""
        return self.symbols.find("mod_verify_sig") is not None and bool(self.certificates)

    @property
    def moves_records(self) -> bool | None:
        """True if all records are at second slots, as version 2 of the marker says; None without it.

        A flag that its own count contradicts says nothing.
        """
        marker = self.marker
        if marker is None or marker.version == 1 or marker.processed != bool(marker.sites):
            return None
        return marker.processed

    @cached_property
    def sorts_at_build(self) -> bool:
        """True if this kernel trusts the link to have sorted its records.

        arm64 selects BUILDTIME_MCOUNT_SORT in 6.12.107 and 7.2.13 (arch/arm64/Kconfig) and not in 6.1; upstream it came
        with 6.15. Backports have lower numbers, so scripts/sorttable's trace decides there: only it zeroes records, and
        it puts them first. A zero that damage left in front of a table as it was linked has no order after it.
        """
        if self.version is not None and self.version >= SORTS_RECORDS_AT_BUILD:
            return True
        if self.records is None or not len(self.records) or self.records.nonzero[0]:
            return False
        values = self.records.values
        return int((values[1:] < values[:-1]).sum()) <= max(_FEW, len(values) // 100)

    @cached_property
    def adjusts_zero_records(self) -> bool | None:
        """True if a zero record would be adjusted before the NULL test and so kill ftrace; None if unknown.

        ``ftrace_process_locs`` tests first since 6.15 (and 6.12 stable). Before 6.3 ``ftrace_call_adjust`` is
        inline and the old order holds; later it is a call, and only the old order tests the call's result.
        """
        adjust = self.symbols.find(_ADJUST)
        if adjust is None:
            return None if self.version is None else self.version < TESTS_ZERO_RECORDS_FIRST
        caller = self.symbols.find("ftrace_process_locs")
        tests = []
        for section in self.text.text_sections:
            words, base = self.text.view(section, "<u4"), section.addr
            if caller is not None and caller.size:  # a whole kernel's text takes a while
                begin, end = caller.vaddr - base, caller.vaddr - base + caller.size
                if not 0 <= begin < section.size:
                    continue
                words, base = words[begin // 4 : end // 4], caller.vaddr
            for k in calls_to(words, base, adjust.vaddr).tolist():
                after = words[k + 1 : k + 3].tolist()
                tests.append(any(a64.classify(w) in ("CBZ", "CBNZ") and w >> 31 and not w & 31 for w in after))  # of X0
        return any(tests) if tests else None
