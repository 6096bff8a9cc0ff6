"""Everything that is read of one vmlinux, in one place: what scan prints and what the rules look at."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from prologue import a64
from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.errors import InputError
from prologue.sites.init_stub import InitStub, find_init_stub
from prologue.sites.marker import Marker, find_marker
from prologue.sites.records import Bounds, Records, find_bounds, read_records
from prologue.sites.sites import Layout, Sites, find_layout, find_sites

Contract = Literal["native", "stock"]
State = Literal["untouched", "processed", "unfinished", "mixed", "no sites"]

_ADJUST: Final = "ftrace_call_adjust"


class Kernel:
    """One vmlinux. Properties are read when first asked for, so that the build step reads only what it needs.

    Raises:
        InputError: not an arm64 vmlinux with symbols.

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.image = ElfImage(path)
        if self.image.elf_type == "ET_REL":
            raise InputError("is a kernel module, not a vmlinux; this version processes vmlinux only", path=path)
        self.symbols = Symbols(self.image)

    @cached_property
    def bounds(self) -> Bounds | None:
        """The record table's bounds; None if this kernel has no dynamic ftrace."""
        return find_bounds(self.image, self.symbols)

    @cached_property
    def records(self) -> Records | None:
        """All records, or None where the table cannot be read (PL101) or does not exist."""
        if self.bounds is None or self.bounds.problem:
            return None
        return read_records(self.image, self.bounds)

    @cached_property
    def layout(self) -> Layout:
        """Which ``-fpatchable-function-entry`` this kernel was built with."""
        return find_layout(self.symbols)

    @cached_property
    def sites(self) -> Sites | None:
        """The site of every record that points into text; None without a readable table."""
        return find_sites(self.image, self.symbols, self.records, self.layout) if self.records else None

    @cached_property
    def marker(self) -> Marker | None:
        """The native contract's marker; None on an unmodified kernel."""
        return find_marker(self.image, self.symbols)

    @cached_property
    def init_stub(self) -> InitStub:
        """What ``ftrace_init_nop`` looks like: the stock contract's business."""
        return find_init_stub(self.image, self.symbols, self.layout)

    @property
    def contract(self) -> Contract:
        """What the running kernel would expect of its records."""
        return "native" if self.marker else "stock"

    @cached_property
    def state(self) -> State:
        """How far processing got.

        Writing goes sites, then records or the init stub, then the marker: every state that a kill can leave
        behind is ``unfinished``, and what no run of ours leaves behind is ``mixed``.
        """
        sites = self.sites
        if sites is None or not len(sites):
            return "no sites"
        mov, nop, moved = int(sites.has_mov.sum()), int(sites.has_nop.sum()), int(sites.moved.sum())
        marked = self.marker is not None and self.marker.processed
        stubbed = self.marker is None and self.init_stub.state in ("neutralised", "unfinished")
        if mov + nop != len(sites) or (moved and (nop or self.marker is None)) or (marked and moved < len(sites)):
            return "mixed"
        if not mov:
            return "mixed" if stubbed else "untouched"
        if self.marker is not None:
            return "processed" if marked else "unfinished"
        if stubbed and nop:
            return "mixed"
        return "processed" if self.init_stub.state == "neutralised" else "unfinished"

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

    @cached_property
    def version(self) -> tuple[int, int] | None:
        """Major and minor of the release; None if unknown."""
        match = re.match(r"(\d+)\.(\d+)", self.release)
        return (int(match[1]), int(match[2])) if match else None

    @cached_property
    def build_id(self) -> str:
        """The GNU build-id in hex; empty if there is none."""
        for section in self.image.sections:
            if section.type == "SHT_NOTE" and section.has_bytes:
                found = _gnu_build_id(self.image.data(section))
                if found:
                    return found
        return ""

    @cached_property
    def sorts_at_build(self) -> bool:
        """Whether this kernel trusts the link to have sorted its records.

        arm64 selects BUILDTIME_MCOUNT_SORT in 6.12.107 and 7.2.13 (arch/arm64/Kconfig) and not in 6.1; upstream it came
        with 6.15. Backports have lower numbers, so scripts/sorttable's trace decides there: only it zeroes records, and
        it puts them first.
        """
        if self.version is not None and self.version >= (6, 15):
            return True
        return self.records is not None and len(self.records) > 0 and not bool(self.records.live[0])

    @cached_property
    def adjusts_zero_records(self) -> bool | None:
        """Whether a zero record would be adjusted before the NULL test and so kill ftrace; None if unknown.

        ``ftrace_process_locs`` tests first since 6.15 (and 6.12 stable). Before 6.3 ``ftrace_call_adjust`` is
        inline and the old order holds; later it is a call, and only the old order tests the call's result.
        """
        adjust = self.symbols.find(_ADJUST)
        if adjust is None:
            return None if self.version is None else self.version < (6, 15)
        caller = self.symbols.find("ftrace_process_locs")
        tests = []
        for section in self.image.text:
            words, base = self.image.view(section, "<u4"), section.addr
            if caller is not None and caller.size:  # a whole kernel's text takes a while
                begin, end = caller.vaddr - base, caller.vaddr - base + caller.size
                if not 0 <= begin < section.size:
                    continue
                words, base = words[begin // 4 : end // 4], caller.vaddr
            for k in a64.calls_to(words, base, adjust.vaddr).tolist():
                tests.append(_tests_x0(words[k + 1 : k + 3].tolist()))
        return any(tests) if tests else None


def _tests_x0(words: list[int]) -> bool:
    """A CBZ or CBNZ on X0 among the words."""
    return any(a64.classify(w) in ("CBZ", "CBNZ") and w >> 31 and not w & 31 for w in words)


def _gnu_build_id(notes: bytes) -> str:
    """Walk ELF notes (System V gABI, "Note Section") to NT_GNU_BUILD_ID."""
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = (int.from_bytes(notes[at + k : at + k + 4], "little") for k in (0, 4, 8))
        name_at = at + 12
        body_at = name_at + (name_size + 3) // 4 * 4
        if kind == 3 and notes[name_at : name_at + name_size] == b"GNU\0" and body_at + size <= len(notes):
            return notes[body_at : body_at + size].hex()
        at = body_at + (size + 3) // 4 * 4
    return ""
