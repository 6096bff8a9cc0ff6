"""QEMU under icount: instructions are counted, nothing is timed. ``exact`` evidence."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prologue_bench.errors import BenchError
from prologue_bench.exact.boot import MaintenanceCounts
from prologue_bench.exact.emulator import ONE_CPU, command_line
from prologue_bench.exact.entered import SUFFIX, write_entered
from prologue_bench.exact.workload import NO_RANDOM_MAPS, Argv, Bench, Run
from prologue_bench.guest.initramfs import describe_guest
from prologue_bench.guest.vm import Machine, qemu_version
from prologue_bench.recorder.output import Recorded
from prologue_bench.results.model import NOTHING, Workload

if TYPE_CHECKING:
    from prologue_bench.recorder.task import Task
    from prologue_bench.results.model import Evidence
    from prologue_bench.targets.base import Attempt

_MAINTENANCE: Final = tuple(field.name for field in fields(MaintenanceCounts))
# Measures of the boot, with their units.
BOOT: Final = {
    "reset to init": "instructions",
    "ftrace_init": "instructions",
    "relocation": "instructions",
    "text words written in ftrace_init": "words",
    "first slots written in ftrace_init": "words",
    "text lines read in ftrace_init": "lines",
    "text lines written in ftrace_init": "lines",
    **{f"{name.upper()} in ftrace_init": "instructions" for name in _MAINTENANCE},
}


class IcountTarget:
    """Boots each Image in a QEMU of its own, on one CPU; counts the boot and every workload that was asked for.

    One boot gives one count of everything, whatever number of runs was asked for: that counts agree is shown by
    another boot of the same Image.

    Args:
        vmlinux: the link that all Images are made of; their places are those of its symbols.
        machine: CPU and memory; it gets one CPU whatever it says. BTI and PAC kernels want ``max,pauth-impdef=on``.
        kaslr: boot with KASLR, which RELR relocations need to be applied at all; without workloads only.

    """

    def __init__(self, vmlinux: Path, machine: Machine = ONE_CPU, *, kaslr: bool = False) -> None:
        self._bench = Bench(vmlinux, machine, kaslr=kaslr)

    @property
    def evidence(self) -> Evidence:
        """Counts."""
        return "exact"

    def facts(self) -> Mapping[str, str]:
        """Describe QEMU, the virtual machine, and what is in the guest, but not the host: it cannot change a count."""
        programs, packages = self._bench.programs
        inside = (self._bench.init.read_bytes(), *(programs[name] for name in sorted(programs)))
        return {
            "target": "icount",
            "qemu": str(qemu_version()),
            "cpu": self._bench.machine.cpu,
            "cpus": "1",
            "memory": f"{self._bench.machine.memory} MiB",
            "command line": command_line(NO_RANDOM_MAPS, kaslr=self._bench.kaslr),
            "guest": describe_guest(packages, inside),
        }

    def measures(self, asked: tuple[Workload, ...]) -> tuple[Workload, ...]:
        """Return counts of the boot, and three for each workload; all are better if lower.

        Raises:
            BenchError: a workload that the guest cannot run, or that has the name of another count.

        """
        self._bench.require_runnable([read_argv(workload.command) for workload in asked])
        boot = [(name, "boot", unit) for name, unit in BOOT.items()]
        counts = [
            (name, workload.command, "entries" if name.endswith("prologues") else "instructions")
            for workload in asked
            for name in _names(workload)
        ]
        names = [name for name, *_ in (*boot, *counts)]
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise BenchError(f"workload {repeated!r}: another count has that name: name it otherwise")
        return tuple(Workload(name, command, unit, "lower") for name, command, unit in [*boot, *counts])

    def boot(self, attempt: Attempt, task: Task) -> Recorded:
        """Make one boot; see ``Target.boot``. Entered functions are in ``LOG.entered.json``, without the log's suffix.

        Raises:
            BenchError: a workload failed, or the Image is not of this link.

        """
        stem = attempt.log.with_suffix("")
        argvs = [read_argv(workload.command) for workload in task.workloads]
        run = self._bench.run(attempt.image, argvs, stem, attempt.timeout)
        for raw in (".json", ".spans"):  # all of it is in what we return, or in the file of entries
            stem.with_name(stem.name + raw).unlink(missing_ok=True)
        names = [workload.name for workload in task.workloads]
        entered = {name: counts.entered for name, counts in zip(names, run.workloads, strict=True)}
        write_entered(attempt.log.with_suffix(SUFFIX), entered)
        readback = run.readback if run.workloads else None  # a boot alone says nothing of itself
        values = {name: (float(count),) for name, count in _values(run, task)}
        return Recorded(
            machine={"release": run.boot.release},
            readback=readback,
            gate_before=NOTHING,
            gate_after=NOTHING,
            values=values,
        )


def read_argv(command: str) -> Argv:
    """Read the words of a command that needs no shell.

    Raises:
        BenchError: it needs one, or cannot be split.

    """
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = tuple(lexer)
    except ValueError as error:
        raise BenchError(f"workload {command!r}: {error}") from error
    if any(word and set(word) <= set("();<>|&") for word in words):
        raise BenchError(f"workload {command!r}: exact counts are taken without a shell: use busybox sh -c '...'")
    return words


def _names(workload: Workload) -> tuple[str, str, str]:
    name = workload.name
    return name, f"{name}, in the kernel", f"{name}, prologues"


def _values(run: Run, task: Task) -> Iterator[tuple[str, int]]:
    boot = run.boot
    words, lines = boot.ftrace_init_words, boot.ftrace_init_lines
    values = [boot.instructions, boot.ftrace_init, boot.relocation, words.total, words.first, lines.read, lines.written]
    values += [getattr(boot.ftrace_init_maintenance, name) for name in _MAINTENANCE]
    yield from zip(BOOT, values, strict=True)
    for workload, counts in zip(task.workloads, run.workloads, strict=True):
        yield from zip(_names(workload), (counts.instructions, counts.kernel, counts.prologues), strict=True)
