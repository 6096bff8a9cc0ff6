"""The kernels that a trace may have run, of files or of memory, and the exception level of the host's.

Kernels of another boot or build are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from prologue.elf.image import ElfImage
from prologue.elf.notes import gnu_build_id, matches_perf
from prologue.elf.symbols import Symbols
from prologue.errors import InputError, UsageError
from prologue.live.memory.base import Memory
from prologue.live.memory.ranges import KERNEL_HALF
from prologue.live.memory.sources import open_memory
from prologue.live.system.programs import (
    Program,
    bare_program,
    decoder_text,
    linked_program,
    running_program,
)
from prologue.live.system.running_system import RunningSystem, module_files
from prologue.trace.path.assign import GuestKernel, Kernels
from prologue.trace.path.processes import BinaryFiles, Processes
from prologue.trace.ranges import NO_LEVEL, NO_VMID, OTHER_WORLD, Batch
from prologue.trace.readers.sources import Trace

_ASKS_IN_TIME: Final = (1, 3, 3)
"""The first version of OpenCSD that was seen to say which process runs before it asks for its code."""
_NO_KERNEL: Final = (
    "name the kernel: --vmlinux VMLINUX; or its memory, which has text and symbols: --memory SOURCE (perf record "
    "--kcore keeps it in perf.data's directory)"
)


_LOOK: Final = 1 << 20  # ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class HostImage:
    """The host's vmlinux (None: memory has its text and symbols), and the sources of its text and its addresses.

    ``memory`` is a source of memory, and ``modules`` the directory of its modules' files. Without memory the text is
    the file's, ``slide`` bytes from where it is linked (None: as in ``explained`` or the trace). ``explained`` is
    the slide in other memory, and the name of that memory. ``symfs`` is the directory that has binaries of processes at
    their paths.
    """

    vmlinux: Path | None
    memory: str | None = None
    modules: Path | None = None
    slide: int | None = None
    explained: tuple[int, str] | None = None
    symfs: Path | None = None


class GuestImage(NamedTuple):
    """A guest's vmlinux, its VMID or process (None: the only guest), and its slide."""

    vmlinux: Path
    number: int | None = None
    slide: int = 0


def open_kernels(trace: Trace, host: HostImage, guests: Sequence[GuestImage]) -> Kernels:
    """Open the host's and the guests' kernels, and let the decoder of the trace follow the host's.

    Raises:
        InputError: a file is not a vmlinux, or is of another boot or build than the trace or memory.
        UsageError: guests cannot be told apart, or would have to be decoded.

    """
    if trace.decoded is not None and guests:
        raise UsageError(
            "guests in perf.data and snapshots are not decoded: decode with perf script, and give its text"
        )
    memory = None
    if host.memory is not None:
        memory = open_memory(host.memory)
        files = None if host.modules is None else module_files(host.modules)
        system = None if host.vmlinux is None else RunningSystem(host.vmlinux, memory, files)
        program = bare_program(memory) if system is None else running_program(system)
    elif host.vmlinux is None:
        raise UsageError(_NO_KERNEL)
    else:
        program = linked_program(host.vmlinux, _slide(host.vmlinux, host, trace))
    return follow_program(trace, program, memory, host, guests)


def follow_program(
    trace: Trace, program: Program, memory: Memory | None, host: HostImage, guests: Sequence[GuestImage] = ()
) -> Kernels:
    """Let the decoder of a trace follow the host's program, and count unknown parts of its text.

    Args:
        trace: a trace before its first read.
        program: the host's kernel with its modules.
        memory: the source of the program's text; None for a file.
        host: the source of the program.
        guests: the guests' kernels.

    Raises:
        InputError: the trace was recorded of another build or boot.
        UsageError: guests cannot be told apart.

    """
    if memory is not None:
        slide = memory.info.slide if host.vmlinux is None else program.kernel.slide
        _require_same_boot(trace, slide, host.memory or memory.name)
    _require_same_build(trace, program)
    if trace.decoded is not None:
        trace.decoded.follow(decoder_text(program, memory))
    processes = _open_processes(trace, host.symfs)
    if program.missing:
        without = f"loaded modules without a file in {host.modules}, of no image here: {', '.join(program.missing)}"
        trace.account.add(without, len(program.missing))
    for name, count in program.doubts:
        trace.account.add(name, count)
    kernels = tuple(GuestKernel(linked_program(guest.vmlinux, guest.slide), guest.number) for guest in guests)
    numbers = {guest.number for guest in kernels}
    if len(kernels) > 1 and (None in numbers or len(numbers) < len(kernels)):
        raise UsageError("several guests need an ID each: --guest-vmlinux VMLINUX@VMID")
    level, unnumbered = None, trace.header is not None
    # In recordings without guests' images, VMIDs alone decide.
    if kernels or not unnumbered:
        likely = None if trace.decoded is None else trace.decoded.kernel_level
        level, trace.batches = find_host_level(trace.batches, program, unnumbered=unnumbered, likely=likely)
    return Kernels(host=program, guests=kernels, host_level=level, unnumbered=unnumbered, processes=processes)


def _open_processes(trace: Trace, symfs: Path | None) -> Processes | None:
    """Let the decoder of a trace follow binaries of processes, if the trace says what these had mapped.

    Raises:
        UsageError: ``symfs`` has no effect.

    """
    decoded = trace.decoded
    if decoded is None or decoded.spaces is None or decoded.tasks is None:
        if symfs is not None:
            raise UsageError("--symfs is for perf.data with context IDs and maps of processes")
        return None
    if decoded.version < _ASKS_IN_TIME:
        known = ".".join(map(str, _ASKS_IN_TIME))
        decoded.account.add(f"trace of processes, whose binaries are not read: that needs OpenCSD {known} or later")
        return None
    processes = Processes(decoded.spaces, decoded.tasks.only_pid, BinaryFiles(symfs), trace.account)
    decoded.user_code, decoded.why_not = processes.read, processes.why_not
    return processes


def _slide(vmlinux: Path, host: HostImage, trace: Trace) -> int:
    """Return the slide that was given, or that other memory, a recording's header or perf's map of the kernel has."""
    if host.slide is not None:
        return host.slide
    if host.explained is not None:
        _require_same_boot(trace, *host.explained)
        return host.explained[0]
    if trace.header is not None:
        return trace.header.slide or 0
    known = trace.decoded.kernel_symbols if trace.decoded is not None else {}
    symbols = Symbols(ElfImage(vmlinux)) if known else None
    resolved = ((vaddr, symbols.find(name)) for name, vaddr in known.items()) if symbols is not None else ()
    return next((vaddr - symbol.vaddr for vaddr, symbol in resolved if symbol is not None), 0)


def _require_same_boot(trace: Trace, slide: int | None, memory: str) -> None:
    traced = trace.header.slide if trace.header else None
    if None not in (traced, slide) and traced != slide:
        raise InputError(f"has the kernel at slide {slide:#x}, {trace.name} at {traced:#x}: another boot", path=memory)


def _require_same_build(trace: Trace, program: Program) -> None:
    build_id, header = gnu_build_id(program.kernel.image), trace.header
    recorded = header.build_id.hex() if header and not header.may_be_of(build_id) else ""
    theirs = trace.decoded.build_id if header is None and trace.decoded is not None else ""
    if theirs and not matches_perf(build_id, theirs):
        recorded = theirs
    if build_id and recorded:
        raise InputError(
            f"was recorded of another kernel: build-id {recorded}, {program.name} has {build_id}", path=trace.name
        )


def find_host_level(
    batches: Iterator[Batch], host: Program, *, unnumbered: bool, likely: int | None = None
) -> tuple[int | None, Iterator[Batch]]:
    """Find the level: 2 with VHE, 1 with nVHE, None if the first ranges do not show it; return all batches, too.

    Without VHE, EL2 has one range of virtual addresses, the lower one (Arm ARM, "VMSAv8-64 address translation": one
    TTBR); so kernel addresses at EL2 are VHE's. Otherwise the host's text at EL1 under VMID 0 is nVHE's. With VHE it is
    at EL1 only while the kernel boots, before it goes back to EL2 (``finalise_el2``, arch/arm64/kernel/hyp-stub.S,
    6.1-7.2).
    ``unnumbered``: a range without a VMID is no guest's. Text of perf has no levels: its first batch ends the search.
    ``likely`` is the level that the trace was set up for: the first text of the host there ends the search, too.
    """
    seen: list[Batch] = []
    level, count = None, 0
    for batch in batches:
        seen.append(batch)
        if len(batch.ranges) and not count and (batch.ranges["level"] == NO_LEVEL).all():
            break
        ranges = batch.ranges[batch.ranges["flags"] & np.uint8(OTHER_WORLD) == 0]  # EL2 of another world is no host's
        if ((ranges["level"] == 2) & (ranges["start"] >= np.uint64(KERNEL_HALF))).any():
            level = 2
            break
        is_host = unnumbered or likely == 1
        at_el1 = (ranges["level"] == 1) & ((ranges["vmid"] == 0) | ((ranges["vmid"] == NO_VMID) & np.bool_(is_host)))
        candidates = ranges[at_el1]
        if len(candidates) and (host.piece_of(candidates["start"], candidates["end"]) >= 0).any():
            level = 1
            if likely == 1:
                break
        count += len(batch.ranges)
        if count >= _LOOK:
            break
    return level, chain(seen, batches)
