"""Reads the last object of ``plugin/writes.c``, and its rows with addresses and names."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from prologue.arrays import among
from prologue.kernel.tables import runtime_constants
from prologue.live.pokes.recording import CALLERS, Flag, Function, Loss, Rows
from prologue.words import counted
from prologue_bench.exact.places import image_base, load_address

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prologue.arrays import U64, Bool
    from prologue.kernel.kernel import Kernel

_UPPER: Final = np.uint64(1 << 63)
_LAST: Final = 1 << 64
_LITERAL_WRITER: Final = "aarch64_insn_write_literal_u64"


class ModuleSymbol(NamedTuple):
    """A function of a module; ``region`` is an index."""

    region: int
    vaddr: int
    size: int
    name: str

    @property
    def end(self) -> int:
        """Address after its last byte; symbols of assembly may have no size."""
        return self.vaddr + max(self.size, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Memory outside of the Image that was executable for a time; ``name`` is the module's, or empty."""

    vaddr: int
    size: int
    since: int
    until: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReport:
    """Counts of the plugin; addresses of the Image: physical, and as linked."""

    load: int
    base: int
    size: int
    slide: int | None
    ctr: int | None
    rows: int
    cpus: int  # that ran
    instructions: int
    unseen: int
    unseen_at: int
    executed_elsewhere: int
    tables: bool
    regions: tuple[Region, ...]
    symbols: tuple[ModuleSymbol, ...]
    registers: bool  # whether QEMU let the plugin read them
    unaddressed: int  # DC and IC between a write and its writer's return, whose address is not known

    @classmethod
    def read(cls, data: dict[str, Any], kernel: Kernel, image: Path) -> PluginReport:
        """Read the plugin's object."""
        with image.open("rb") as stream:
            load = load_address(stream.read(64))
        base, end = image_base(kernel), kernel.symbols.find("_end")
        return cls(
            load=load,
            base=base,
            size=(end.vaddr if end else base) - base,
            slide=data["image_vaddr"] - base if data["image_vaddr"] else None,
            ctr=data["ctr"] or None,
            cpus=data["running"].bit_count(),
            tables=data["va_bits"] != 0,
            regions=tuple(
                Region(vaddr=vaddr, size=size, since=since, until=until, name=name)
                for vaddr, size, since, until, name in data["regions"]
            ),
            symbols=tuple(ModuleSymbol(*symbol) for symbol in data["symbols"]),
            **{name: data[name] for name in (
                "rows", "instructions", "unseen", "unseen_at", "executed_elsewhere", "registers",
                "unaddressed",
            )},
        )  # fmt: skip

    def losses(self) -> tuple[Loss, ...]:
        """Return the events that were looked for and not recorded."""
        losses = [Loss(f"words of text that changed without a store, the first at {self.unseen_at:#x}", self.unseen)]
        if not self.tables:
            losses.append(Loss("writes to text outside of the Image: the kernel's page tables were not found", None))
        return tuple(loss for loss in losses if loss.amount != 0)

    def notes(self) -> tuple[str, ...]:
        """Return the notes for people."""
        modules = {region.name for region in self.regions if region.name}
        unnamed = sum(region.size for region in self.regions if not region.name)
        notes = [
            f"{counted(self.cpus, 'CPU')} ran {counted(self.instructions, 'instruction')}",
            f"{counted(len(modules), 'module')} had text; what was written to their pages before these were "
            "executable is not recorded",
        ]
        if not self.registers:
            notes.append("which address a DC or an IC was for is not known: this QEMU shows its plugins no registers")
        elif self.unaddressed:
            notes.append(
                f"{self.unaddressed:,} DC or IC whose address is not known "
                f"{'counts' if self.unaddressed == 1 else 'count'} as for every line that was written"
            )
        if unnamed:
            notes.append(f"{counted(unnamed, 'byte')} of executable memory that belonged to no module (kprobes, BPF)")
        if self.executed_elsewhere:
            shown = "that the kernel's tables did not show"
            notes.append(
                counted(self.executed_elsewhere, f"page was executed {shown}", plural=f"pages were executed {shown}")
            )
        return tuple(notes)


class AddressNames:
    """Names of the addresses that rows have: the kernel's by its symbols, others by region."""

    def __init__(self, kernel: Kernel, seen: PluginReport) -> None:
        self._kernel, self._seen = kernel, seen
        self._literals = _literals(kernel) + np.uint64(seen.slide or 0)
        self._constants = runtime_constants(kernel) + np.uint64(seen.slide or 0)
        self._start: dict[int, int] = {}  # run-time address -> that of its symbol, for what was asked
        self._functions: dict[int, Function] = {}
        self._modules = sorted({(symbol.vaddr, symbol.end) for symbol in seen.symbols})
        self._outside: set[int] = set()  # what was asked of addresses outside of the Image

    def learn(self, addresses: U64) -> None:
        """Look up the names of run-time addresses; shape (n,)."""
        slide, base, size = self._seen.slide or 0, self._seen.base, self._seen.size
        is_inside = (addresses - np.uint64(base + slide)) < np.uint64(size)
        inside = addresses[is_inside]
        self._outside.update(np.unique(addresses[~is_inside]).tolist())
        fresh = [vaddr for vaddr in np.unique(inside).tolist() if vaddr not in self._start]
        for vaddr, where in zip(fresh, self._kernel.symbols.locate_all([v - slide for v in fresh]), strict=True):
            start = vaddr - where.symbol_offset
            self._start[vaddr] = start
            if where.symbol is not None:
                known = self._functions.get(start)
                end = max(vaddr + 4, known.end if known else 0)
                self._functions[start] = Function(start=start, end=end, name=where.symbol)

    def are_constants(self, addresses: U64) -> Bool:
        """Return which run-time addresses are words of runtime constants; shape of ``addresses``."""
        return among(addresses, self._constants)

    def are_literals(self, addresses: U64) -> Bool:
        """Return which run-time addresses are words of CALL_OPS literals; shape of ``addresses``."""
        return among(addresses, self._literals)

    def start(self, vaddr: int) -> int:
        """Return where an address's function starts; the address itself if it is not known."""
        k = bisect_right(self._modules, (vaddr, _LAST)) - 1
        if k >= 0 and vaddr < self._modules[k][1]:
            return self._modules[k][0]
        return self._start.get(vaddr, vaddr)

    def name(self, vaddr: int) -> str:
        """Return the name of the kernel's function at an address; empty if it is not known."""
        function = self._functions.get(self.start(vaddr))
        return function.name if function else ""

    def used(self) -> tuple[Function, ...]:
        """Return all functions that were looked up, and all regions."""
        others = [
            Function(
                start=region.vaddr,
                end=region.vaddr + region.size,
                name="text",
                owner=region.name or "unknown",
                since=region.since,
                until=region.until,
            )
            for region in self._seen.regions
        ]
        return (*sorted(self._functions.values()), *others, *self._of_modules())

    def _of_modules(self) -> Iterator[Function]:
        asked = sorted(self._outside)
        for symbol in self._seen.symbols:
            region = self._seen.regions[symbol.region]
            if symbol.vaddr >= region.vaddr + region.size or not region.name:
                continue
            k = bisect_left(asked, symbol.vaddr)
            if k < len(asked) and asked[k] < symbol.end:
                yield Function(
                    start=symbol.vaddr,
                    end=symbol.end,
                    name=symbol.name,
                    owner=region.name,
                    since=region.since,
                    until=region.until,
                )


def _literals(kernel: Kernel) -> U64:
    """Return the address of each word of the CALL_OPS literals before functions, as linked; shape (n,)."""
    if kernel.sites is None or kernel.layout != "4,2":
        return np.zeros(0, np.uint64)
    entry = kernel.sites.entry
    return np.concatenate([entry - np.uint64(8), entry - np.uint64(4)])


def completed(raw: Rows, seen: PluginReport, names: AddressNames) -> Rows:
    """Add to the plugin's rows what it does not know: addresses of the Image's words, whose words are data.

    Code that ran at physical addresses gets the virtual ones. The first caller is dropped if it is not known, or
    only repeats the writer itself.
    """
    rows = raw.copy()
    start = np.uint64(seen.base + (seen.slide or 0))
    inside = rows["paddr"] - np.uint64(seen.load) < np.uint64(seen.size)
    rows["address"][inside] = rows["paddr"][inside] - np.uint64(seen.load) + start
    for field in ("pc", "callers"):
        values = rows[field]
        low = (values < _UPPER) & (values - np.uint64(seen.load) < np.uint64(seen.size))
        values[low] += start - np.uint64(seen.load)
    names.learn(np.concatenate([rows["address"], rows["pc"], rows["callers"].ravel()]))
    dropped = np.array(
        [names.start(pc) == names.start(first) for pc, first in
         zip(rows["pc"].tolist(), rows["callers"][:, 0].tolist(), strict=True)], np.bool_,
    )  # fmt: skip
    dropped |= rows["callers"][:, 0] == 0
    rows["callers"][dropped, : CALLERS - 1] = rows["callers"][dropped, 1:]
    rows["callers"][dropped, CALLERS - 1] = 0
    literal = {pc for pc in np.unique(rows["pc"]).tolist() if names.name(pc) == _LITERAL_WRITER}
    first = {pc for pc in np.unique(rows["callers"][:, 0]).tolist() if names.name(pc) == _LITERAL_WRITER}
    data = np.isin(rows["pc"], list(literal)) | np.isin(rows["callers"][:, 0], list(first))
    data |= names.are_literals(rows["address"])
    rows["flags"][data] |= np.uint32(Flag.LITERAL)
    rows["flags"][names.are_constants(rows["address"])] |= np.uint32(Flag.CONSTANT)
    return rows
