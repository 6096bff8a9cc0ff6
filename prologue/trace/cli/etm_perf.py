"""``prologue trace etm --perf``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from prologue.elf.image import ElfImage
from prologue.elf.notes import gnu_build_id
from prologue.elf.symbols import Symbols
from prologue.errors import InputError
from prologue.live.memory.ranges import TOP
from prologue.live.memory.sources import open_memory
from prologue.live.memory.state import KernelTask
from prologue.live.memory.vmcore import Vmcore
from prologue.live.system.kcore_dir import KeptText, keep_text
from prologue.live.system.running_system import RunningSystem, module_files
from prologue.live.system.trampoline import find_trampoline
from prologue.outputs import new_directory
from prologue.report.terminal import note, warn
from prologue.trace.etm.perf_data import KernelMap, TracedKernel, write_perf_trace
from prologue.trace.etm.processes import (
    EXECVE,
    Misfit,
    TracedProcesses,
    find_code,
    find_earlier_programs,
    has_gaps,
    hide,
)
from prologue.trace.etm.stream import EtmStream, ProgramText, linked_text, require_recorded
from prologue.trace.etm.unit import HIGHEST_TRACED_CPU
from prologue.words import counted

if TYPE_CHECKING:
    from prologue.trace.readers.recording import RecordingHeader, TraceRecords


def write_perf(
    args: argparse.Namespace,
    header: RecordingHeader,
    records: TraceRecords,
    levels: tuple[int, ...],
) -> dict[int, EtmStream]:
    """Write the file, or with ``--memory`` the directory.

    Returns:
        The stream of each CPU.

    Raises:
        InputError: a recording of nothing, or the memory of another kernel or boot.
        OutputError: it cannot be written.

    """
    if not len(records):
        raise InputError("has no ranges: nothing was recorded", path=args.recording)
    if (last := int(records["cpu"].max())) > HIGHEST_TRACED_CPU:
        raise InputError(f"has a CPU {last}: trace IDs are there for 0 to {HIGHEST_TRACED_CPU}", path=args.recording)
    slide = header.slide or 0
    if args.memory is None:
        text, image = linked_text(args.vmlinux, header), ElfImage(args.vmlinux)
        kernel = TracedKernel(text=text, place=_place(image, Symbols(image), slide), build_id=gnu_build_id(image))
        return write_perf_trace(args.output, header, records, kernel, levels=levels)
    files = None if args.modules is None else module_files(args.modules)
    system = RunningSystem(args.vmlinux, open_memory(args.memory), files)
    require_recorded(system.image, header)
    if system.kernel.slide != slide:
        reason = f"has the kernel at slide {system.kernel.slide:#x}, {args.recording} at {slide:#x}: another boot"
        raise InputError(reason, path=args.memory)
    kcore = keep_text(system)
    if kcore.missing:
        warn(f"{counted(len(kcore.missing), 'loaded module')} without a file in {args.modules}, left out: "
              f"{', '.join(kcore.missing)}")  # fmt: skip
    kernel = TracedKernel(
        text=_text(system, kcore),
        place=_place(system.image, system.kernel.symbols, slide),
        modules=[KernelMap(name, piece.vaddr, len(piece.data)) for name, piece in kcore.modules.items()],
        processes=_processes(system, records, slide, with_code=0 in levels),
        build_id=gnu_build_id(system.image),
    )
    with new_directory(args.output):
        (args.output / "kcore_dir").mkdir()
        kcore.write(args.output / "kcore_dir")
        return write_perf_trace(args.output / "data", header, records, kernel, levels=levels)


def _place(image: ElfImage, symbols: Symbols, slide: int) -> KernelMap:
    start, end = symbols.find("_text"), symbols.find("_end")
    if start is None or end is None:
        raise InputError("has no symbols _text and _end, by which perf knows where the kernel ran", path=image.path)
    return KernelMap("_text", start.vaddr + slide & TOP, end.vaddr - start.vaddr & TOP)


def _processes(system: RunningSystem, records: TraceRecords, slide: int, *, with_code: bool) -> TracedProcesses:
    """Read tasks and, ``with_code``, what they executed from a dump; other memory has none."""
    if not isinstance(system.memory, Vmcore):
        warn(f"tasks have no names, and code of processes is left out: {system.memory.name} is no dump of a machine "
              "(trace record --save-memory)")  # fmt: skip
        return TracedProcesses()
    execve = system.kernel.symbols.find(EXECVE)
    try:
        if execve is None:
            raise InputError(f"has no {EXECVE}, which shows an execve", path=system.image.path)
        tasks, memory = system.memory.tasks(system.image.path), system.memory.processes(system.image.path)
    except InputError as error:
        warn(f"tasks have no names, and code of processes is left out: {error}")
        return TracedProcesses()
    earlier, executed = find_earlier_programs(records, execve.vaddr + slide & TOP)
    texts, misfits = find_code(hide(records, earlier), tasks, memory) if with_code else ({}, [])
    _warn_of_unknown(records, tasks, misfits)
    return TracedProcesses(
        tasks=tasks,
        maps={pid: process.maps for pid, process in memory.items()},
        executed=executed,
        earlier=earlier,
        texts=texts,
    )


def _warn_of_unknown(records: TraceRecords, tasks: Sequence[KernelTask], misfits: Sequence[Misfit]) -> None:
    ended = np.setdiff1d(records["task"][records["count"] > 0], [0, *(task.tid for task in tasks)])
    if len(ended):
        note(f"{counted(len(ended), 'recorded task')} ended before the memory was saved: without a name and code")
    if has_gaps(records):
        warn("the recording has gaps: names and files of processes are those at its end, whatever an execve in a gap "
             "changed")  # fmt: skip
    names = {task.tid: task.comm for task in tasks}
    for pid, mapped in misfits:
        warn(f"{names.get(pid, pid)} ({mapped.path}) executed other code at {mapped.start:#x} before: left out")


def _text(system: RunningSystem, kcore: KeptText) -> ProgramText:
    """Collect what was executed: the text of kcore, and the entry trampoline of KPTI, which perf does not keep."""
    pieces = [(piece.vaddr, np.frombuffer(piece.data, "<u4")) for piece in kcore.pieces]
    trampoline = find_trampoline(system.image, system.kernel.symbols)
    if trampoline is not None:
        start, end, runs = trampoline
        words = system.kernel.live_text.read_at(start, end - start) or b""
        pieces.append((runs, np.frombuffer(words, "<u4")))
    return ProgramText(pieces)
