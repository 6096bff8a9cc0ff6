"""Recording of a kernel in QEMU, to a file in the form of ``prologue.trace.readers.recording``."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prologue.documents import parse_json
from prologue.elf.flat import write_flat
from prologue.outputs import new_file
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.exact.build import build_plugin
from prologue_bench.exact.writes import WritesPlugin
from prologue_bench.guest.vm import Machine, qemu_value, qemu_version, run_console
from prologue_bench.host.events import console_end
from prologue_bench.trace.places import kernel_numbers, mark_numbers, offset_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prologue.kernel.kernel import Kernel

COMMAND_LINE: Final = "console=ttyAMA0 loglevel=4 panic=-1"
_POLL: Final = 0.1  # seconds
_FAILED: Final = r"record: command ended with status [1-9]\d*"  # of trace/init


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The window of a recording.

    Args:
        marks: it begins after the guest's command has begun, and ends when that has ended.
        begin: the function that it begins with; with ``process``, when its task calls it.
        until: the function that it ends before.
        count: it ends after this number of instructions of all CPUs.
        function: only this function, and its callees.
        process: only the command's own task.

    """

    marks: bool = True
    begin: str | None = None
    until: str | None = None
    count: int | None = None
    function: str | None = None
    process: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingFiles:
    """The files of a recording.

    Args:
        out: the recording.
        truth: each executed word.
        writes: every write to the kernel's text, from reset on, by the same clock.
        dump: the machine's memory when the window ends.
        log: the console.

    """

    out: Path
    truth: Path | None = None
    writes: Path | None = None
    dump: Path | None = None
    log: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuRecording:
    """The part of one CPU in a recording."""

    cpu: int
    instructions: int
    ranges: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTrace:
    """The result of a recording; ``why`` the window ended. ``slide``: run-time minus link-time addresses."""

    slide: int | None
    why: str
    cpus: tuple[CpuRecording, ...]
    seconds: float

    @property
    def instructions(self) -> int:
        """Instructions of all CPUs."""
        return sum(cpu.instructions for cpu in self.cpus)

    @property
    def ranges(self) -> int:
        """Ranges of all CPUs."""
        return sum(cpu.ranges for cpu in self.cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """The guest that boots.

    Args:
        initramfs: the root file system; None for a kernel without one.
        machine: the machine.
        append: more words for the kernel's command line.
        timeout: seconds of wall time.

    """

    initramfs: bytes | None = None
    machine: Machine = field(default_factory=Machine)
    append: str = ""
    timeout: float = 600


def record(kernel: Kernel, window: Window, files: RecordingFiles, guest: Guest) -> RecordedTrace:
    """Boot a kernel, record the window, stop the machine. The kernel has to boot on QEMU's virt board, with a PL011.

    The recording and the truth appear when all went well, except for pipes.

    Raises:
        BenchError: another QEMU than 7.2 to 8.2, unknown functions, a machine that does not start, or a window without
            an instruction that was to be recorded.
        GuestLostError: the window never began, or the machine ended before its end.

    """
    if qemu_version() >= (9, 0):
        raise BenchError(
            f"record needs QEMU 7.2 to 8.2, this is {qemu_version()}, whose plugins have another "
            "interface: install one of these"
        )
    with (
        tempfile.TemporaryDirectory(prefix="prologue-record-") as name,
        _when_whole(files.out) as out,
        contextlib.nullcontext() if files.truth is None else _when_whole(files.truth) as truth,
    ):
        recorded = _record(kernel, window, replace(files, out=out, truth=truth), guest, Path(name))
        if not recorded.instructions:
            raise BenchError(_why_empty(window))
        return recorded


@contextlib.contextmanager
def _when_whole(path: Path) -> Iterator[Path]:
    """Give a temporary file that becomes ``path`` when all went well; a pipe is written at once."""
    if path.exists() and not path.is_file():
        yield path
        return
    with new_file(path) as temporary:
        yield temporary


def _why_empty(window: Window) -> str:
    if window.function is not None:
        return f"nothing was recorded: {window.function} was not called in the window"
    return "nothing was recorded: no instruction of the window is wanted"


def _record(kernel: Kernel, window: Window, files: RecordingFiles, guest: Guest, scratch: Path) -> RecordedTrace:
    image, archive = scratch / "Image", scratch / "initramfs"
    write_flat(kernel.image, image)
    archive.write_bytes(guest.initramfs or b"")
    words = f"{COMMAND_LINE} {guest.append}".strip()
    command = guest.machine.command(image, None if guest.initramfs is None else archive, words)
    with image.open("rb") as stream:
        option = ",".join(_plugin_words(kernel, stream.read(64), window, files, scratch / "status"))
    command += ["-plugin", option, "-pidfile", str(scratch / "pid")]
    if files.dump is not None:
        import qemu.qmp  # noqa: F401 - whether it is there: before the recording, not after

        command += ["-qmp", f"unix:{qemu_value(scratch / 'qmp')},server=on,wait=off"]
    if files.writes is None:
        return _run(command, files, scratch, guest.timeout)
    plugin = WritesPlugin(kernel, image, guest.machine, scratch, nanoseconds=True)
    recorded = _run([*command, *plugin.options()], files, scratch, guest.timeout)
    if not plugin.has_ended():
        raise GuestLostError(f"{files.writes}: the machine ended before its writes were complete")
    plugin.convert(files.writes)
    return recorded


def _plugin_words(kernel: Kernel, head: bytes, window: Window, files: RecordingFiles, status: Path) -> Iterator[str]:
    yield qemu_value(build_plugin("record"))
    for name, values in kernel_numbers(kernel, head).items():
        yield from (f"{name}={value}" for value in values)
    paths = {"out": files.out, "truth": files.truth, "status": status}
    yield from (f"{name}={qemu_value(path)}" for name, path in paths.items() if path is not None)
    marks = mark_numbers() if window.marks else {}
    yield from (f"{name}={vaddr:#x}" for name, vaddr in marks.items())
    functions = {"from": window.begin, "until": window.until, "function": window.function}
    yield from (f"{name}={offset_of(kernel, function)}" for name, function in functions.items() if function)
    if window.count is not None:
        yield f"count={window.count:#x}"
    if window.process:
        yield "process=1"
    if files.dump is not None:
        yield "stop=1"


def _run(command: list[str], files: RecordingFiles, scratch: Path, timeout: float) -> RecordedTrace:
    log = files.log or scratch / "console.log"
    status, problems = scratch / "status", list[BenchError]()
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(scratch, files.dump, over, problems))
    watcher.start()
    try:
        lines, seconds, ended = run_console(command, log, timeout)
    finally:
        over.set()
        watcher.join()
    if problems:
        raise problems[0]
    state: dict[str, Any] | None = parse_json(status.read_text()) if status.exists() else None
    end = "the machine ended" if ended else f"stopped after {timeout:.0f} s"
    end += f"; {console_end(lines, files.log)}"
    if state is None:
        raise GuestLostError(f"the recording is not complete: {end}")
    if not state["opened"]:
        raise GuestLostError(f"the window never began: {end}")
    failed = [line for line in lines if re.fullmatch(_FAILED, line)]
    if failed:
        raise BenchError(f"{failed[-1]}: {end}")
    cpus = tuple(CpuRecording(cpu=cpu, instructions=n, ranges=ranges) for cpu, n, ranges in state["cpus"])
    return RecordedTrace(slide=state["slide"], why=state["why"], cpus=cpus, seconds=seconds)


def _watch(scratch: Path, dump: Path | None, over: threading.Event, problems: list[BenchError]) -> None:
    """Wait for the end of the window, take the dump, end the machine."""
    status = scratch / "status"
    while not over.is_set():
        if status.exists() and status.read_text().endswith("\n"):
            if dump is None:
                _end(scratch / "pid")
                return
            from prologue_bench.trace import monitor

            try:
                monitor.finish(scratch / "qmp", dump)
            except BenchError as error:
                problems.append(error)
            return
        time.sleep(_POLL)
    if dump is not None and status.exists():
        problems.append(GuestLostError(f"{dump}: the machine ended before its memory was dumped"))


def _end(pidfile: Path) -> None:
    """End QEMU in an orderly way: its other plugins have something to write, too."""
    with contextlib.suppress(OSError, ValueError):  # it has ended by itself, and removed the file
        os.kill(int(pidfile.read_text()), signal.SIGTERM)
