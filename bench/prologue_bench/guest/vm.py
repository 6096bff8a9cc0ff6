"""Boots a flat Image in QEMU and listens until it powers off. TCG here: ``smoke`` evidence, never a percentage."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from prologue_bench.errors import BenchError, GuestLostError, MissingToolError
from prologue_bench.host import programs
from prologue_bench.host.child import run_lines
from prologue_bench.host.events import Event, console_end, parse, parse_line

QEMU: Final = "qemu-system-aarch64"
_PANIC: Final = "Kernel panic - "


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A virtual arm64 machine; the defaults run any Debian kernel.

    ``memory`` in MiB; ``virtualization`` has it begin at EL2; ``port`` is a file that gets what the guest
    writes to its virtio port ``prologue.results``.
    """

    cpu: str = "cortex-a57"
    cpus: int = 2
    memory: int = 1024
    accel: str = "tcg,thread=multi"
    virtualization: bool = False
    port: Path | None = None

    def command(self, image: Path, initramfs: Path | None, append: str) -> list[str]:
        """Return the QEMU command line; its console is standard output."""
        board = f"virt,gic-version={'host' if self.accel == 'kvm' else '3'}"
        board += ",virtualization=on" if self.virtualization else ""
        command = [
            QEMU, "-M", board, "-cpu", self.cpu, "-smp", str(self.cpus), "-m", str(self.memory),
            "-accel", self.accel, "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
            "-kernel", str(image),
        ]  # fmt: skip
        if self.port is not None:
            command += [
                "-device", "virtio-serial-device", "-chardev", f"file,id=results,path={qemu_value(self.port)}",
                "-device", "virtserialport,chardev=results,name=prologue.results",
            ]  # fmt: skip
        if initramfs is not None:
            command += ["-initrd", str(initramfs)]
        return [*command, "-append", append]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestRun:
    """Result of one boot."""

    events: tuple[Event, ...]
    command: str  # paste it to boot again
    log: Path
    seconds: float  # wall time of the whole run
    lines: tuple[str, ...] = field(repr=False, default=())
    reached: float | None = None  # wall time from QEMU's start to the guest's first event; not with an observer

    def all(self, name: str) -> list[Event]:
        """Return the events of that name, in order."""
        return [event for event in self.events if event.name == name]

    def one(self, name: str) -> Event:
        """Return the first event of that name.

        Raises:
            GuestLostError: there is none.

        """
        for event in self.events:
            if event.name == name:
                return event
        raise GuestLostError(f"the guest never reported {name!r}: see {self.log}")


@dataclass(frozen=True, slots=True)
class Observer:
    """Looks at a guest that waits: ``at`` is called for each event ``held``; when it returns, the guest goes on.

    ``monitor`` is where QEMU's monitor socket is to be. What ``at`` raises, ``boot`` raises when the guest has ended.
    """

    monitor: Path
    at: Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work for the guest.

    ``names`` are jobs of ``guest/jobs.sh``; ``parameters`` become ``prologue.NAME=VALUE`` (spaces become commas);
    ``append`` goes onto the kernel command line as it is; ``timeout`` is seconds of wall time for everything.
    """

    names: tuple[str, ...] = ("smoke",)
    parameters: tuple[tuple[str, object], ...] = ()
    append: str = ""
    timeout: float = 600  # half a minute where nothing else runs, 20 times that where much does
    observer: Observer | None = None

    def command_line(self, token: str) -> str:
        """Return the kernel command line."""
        words = (("token", token), ("jobs", ",".join(self.names)), *self.parameters)
        settings = [f"prologue.{name}={str(value).replace(' ', ',')}" for name, value in words]
        return " ".join(["console=ttyAMA0 loglevel=4 panic=-1 oops=panic", *self.append.split(), *settings])


def boot(image: Path, initramfs: Path, log: Path, job: Job, *, machine: Machine | None = None) -> GuestRun:
    """Boot, do the job, wait for the power-off.

    KASLR is on unless the job appends nokaslr: QEMU's virt board hands the kernel a seed.

    Raises:
        MissingToolError: no QEMU.
        GuestLostError: timeout, panic, or an end without the guest's own good-bye.

    """
    token = secrets.token_hex(4)
    command = (machine or Machine()).command(image, initramfs, job.command_line(token))
    reached: list[float] = []
    if job.observer is None:
        lines, seconds, ended = run_console(command, log, job.timeout, hear=_first_event(token, reached))
    else:
        command += ["-qmp", f"unix:{qemu_value(job.observer.monitor)},server=on,wait=off"]
        with _answers(job.observer, token) as (stdin, hear):
            lines, seconds, ended = run_console(command, log, job.timeout, stdin=stdin, hear=hear)
    result = GuestRun(
        events=tuple(parse(lines, token)), command=shlex.join(command), log=log, seconds=seconds, lines=tuple(lines),
        reached=next(iter(reached), None),
    )  # fmt: skip
    if not ended:
        raise _lost(f"no power-off within {job.timeout:.0f} s", result)
    if not result.all("end"):
        raise _lost("ended without a clean power-off", result)
    return result


@contextmanager
def _answers(observer: Observer, token: str) -> Iterator[tuple[int, Callable[[str], None]]]:
    """Give a guest standard input, and a function to call with its lines."""
    read_end, write_end = os.pipe()
    failures: list[Exception] = []

    def hear(line: str) -> None:
        event = parse_line(line, token)
        if event is not None and event.name == "held":
            try:
                observer.at(event)
            except Exception as error:
                failures.append(error)
            os.write(write_end, b"\n")

    try:
        yield read_end, hear
    finally:
        os.close(read_end)
        os.close(write_end)
    if failures:
        raise failures[0]


def _first_event(token: str, reached: list[float]) -> Callable[[str], None]:
    """Listen to a console's lines from now on; ``reached`` gets the seconds until the first event."""
    begin = time.monotonic()

    def hear(line: str) -> None:
        if not reached and parse([line], token):
            reached.append(time.monotonic() - begin)

    return hear


class QemuVersion(NamedTuple):
    """Version of a QEMU; as text ``9.2``."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def qemu_version() -> QemuVersion:
    """Return the version of this machine's QEMU."""
    text = programs.version(QEMU).decode(errors="replace")
    match = re.search(r"version (\d+)\.(\d+)", text)
    if match is None:
        raise BenchError(f"{QEMU} --version says {text[:80]!r}")
    return QemuVersion(int(match[1]), int(match[2]))


def qemu_value(path: Path) -> str:
    """Return a path as a part of one of QEMU's options: two commas stand for one."""
    return str(path.absolute()).replace(",", ",,")


def _lost(message: str, result: GuestRun) -> GuestLostError:
    # A panic's own line stands above a trace that is longer than what is shown.
    message += next((f" ({_PANIC}{line.partition(_PANIC)[2]})" for line in result.lines if _PANIC in line), "")
    end = console_end(result.lines, result.log)
    return GuestLostError(f"guest lost: {message}; {end}\n  command: {result.command}")


def run_console(
    command: list[str],
    log: Path,
    timeout: float,
    *,
    stdin: int = subprocess.DEVNULL,
    hear: Callable[[str], None] | None = None,
) -> tuple[list[str], float, bool]:
    """Run a command whose standard output is a console; ``hear`` is called with each line as it comes, in a thread.

    Returns:
        Its lines, its wall time in seconds, and whether it ended by itself.

    Raises:
        MissingToolError: no such command.
        BenchError: it refused to start: it failed, and all that was said is its own complaint.
        OSError: the log cannot be written.

    """
    if shutil.which(command[0]) is None:
        raise MissingToolError(f"{command[0]} is missing: install the package qemu-system-arm")
    begin = time.monotonic()
    lines: list[str] = []
    with log.open("w", encoding="utf-8") as copy:

        def keep(line: str) -> None:
            lines.append(line)
            with suppress(OSError):  # a full disk: closing the log says so again, and until then the console is read on
                copy.write(line + "\n")
                copy.flush()
            if hear is not None:
                hear(line)

        status = run_lines(command, timeout, keep, stdin=stdin)
    prefix = f"{Path(command[0]).name}: "
    if status is not None and status > 0 and lines and all(line.startswith(prefix) for line in lines):
        raise BenchError("; ".join(lines))
    return lines, time.monotonic() - begin, status is not None
