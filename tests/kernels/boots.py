"""One boot of one form: all jobs in it, and audits of the machine's memory in the states that it waits in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from prologue.cli.main import main as prologue
from prologue_bench.guest.initramfs import pack
from prologue_bench.guest.vm import GuestRun, Job, Machine, Observer, boot
from prologue_bench.host.events import Event
from tests.kernels.files import Form
from tests.real_kernels.native import entry_offsets
from tests.support import qmp
from tests.support.debian.kbuild import BuiltKernel
from tests.support.guest_jobs import initramfs_with_jobs
from tests.support.scripted_guest import needed

FUNCTION: Final = "vfs_write"  # exported, so that it has a landing pad where there are any, and hackbench calls it
DIRECT: Final = "ftrace-direct"
LIVEPATCH: Final = "livepatch-sample"
MODULES: Final = ("overlay", DIRECT, LIVEPATCH)  # there are more samples than these
HOT: Final = "vfs_* sock_* unix_* *schedule*"  # what hackbench runs all the time
Kind = Literal["all", "first", "from the start", "damaged"]
STATES: Final = ("idle", "function", "function_graph", "after")
TRACING: Final = ("function", "function_graph", "from the start")  # states in which everything is traced
# kernel/trace/trace_events.c, setup_trace_event(): who wants events from the beginning gets no tests; here, none.
_NO_TESTS: Final = "trace_event="
# Before anything is traced: what the log says, the text as the boot left it, a kprobe, then two tracers at once.
_FIRST: Final = ("list", "boot_log", "untraced", "kprobes", "instance")


@dataclass(frozen=True, slots=True)
class Audited:
    """What ``prologue live audit`` said of the memory of one state."""

    state: str
    problems: tuple[str, ...]
    words: int  # of text
    changed: dict[str, int]  # words that differ from the linked ones, by mechanism
    unsure: dict[str, int]  # words that were not decided, by mechanism; no zeros


@dataclass(frozen=True, slots=True, kw_only=True)
class Booted:
    """A boot, and the audits in it."""

    form: Form
    machine: Machine
    run: GuestRun
    audits: tuple[Audited, ...]
    kind: Kind = "all"
    toggles: int = 0  # asked for
    tests_at_boot: bool = False

    @property
    def untraced(self) -> bool:
        """Whether it was looked at before anything was traced."""
        return any(audit.state == "untraced" for audit in self.audits)


def boot_form(
    form: Form, built: BuiltKernel, machine: Machine, *, toggles: int, tests_at_boot: bool, timeout: float = 900
) -> Booted:
    """Boot it, with every job; without the tests at boot also the ones of a kernel that never traced.

    The kernel's tests at boot (``CONFIG_FTRACE_STARTUP_TEST``) count what is traced within 100 ms. A virtual CPU that
    its host lets wait in the middle of a call can enter it when the next test has begun: on a loaded machine they may
    fail ("filter did not filter"), which says nothing about the kernel.

    Raises:
        GuestLostError: it panicked, or did not come to its end.

    """
    modules = [path for path in form.modules if path.stem in MODULES]
    stems = {path.stem for path in modules}
    names = ["startup_tests", "trace_one", "kprobes", "ftrace_cycle", "toggle", "modules"]
    names += ["direct"] if DIRECT in stems else []
    names += ["livepatch"] if LIVEPATCH in stems else []
    names += ["states", "selftest"]
    begin = ("list",) if tests_at_boot else _FIRST
    names = [name for name in names if name not in begin]
    parameters: tuple[tuple[str, object], ...] = (("cycles", 1), ("toggles", toggles), ("toggled", HOT))
    job = Job(names=(*begin, *names), parameters=parameters, append="" if tests_at_boot else _NO_TESTS, timeout=timeout)
    booted = _boot(form, "all", machine, _with_function(job, built), (modules, _selftest(built)))
    return replace(booted, toggles=toggles, tests_at_boot=tests_at_boot)


def boot_first_trace(form: Form, built: BuiltKernel, machine: Machine) -> Booted:
    """Boot it to its first trace: what ``boot_form`` cannot see where the kernel's own tests trace at boot."""
    job = Job(names=_FIRST, append=_NO_TESTS, timeout=600)
    return _boot(form, "first", machine, _with_function(job, built))


def boot_tracing(form: Form, machine: Machine) -> Booted:
    """Boot it with a tracer on the command line: the first trace comes before other CPUs and before init."""
    job = Job(names=("list", "from_start"), append="ftrace=function", timeout=600)
    return _boot(form, "from the start", machine, job)


def boot_damaged(form: Form, machine: Machine, healthy: Path) -> Booted:
    """Boot a kernel that was damaged, try to trace, and audit it against the file before the damage."""
    job = Job(names=("damaged",), append=_NO_TESTS, timeout=300)
    return _boot(form, "damaged", machine, job, vmlinux=healthy)


def _boot(
    form: Form,
    kind: Kind,
    machine: Machine,
    job: Job,
    more: tuple[Sequence[Path], bytes] = ((), b""),
    *,
    vmlinux: Path | None = None,
) -> Booted:
    """Boot it with the modules and the archive of ``more``; audit memory whenever the guest waits."""
    directory = form.directory / f"{machine.cpu.partition(',')[0]}-{kind.replace(' ', '-')}"
    directory.mkdir()
    archive = directory / "cpio"
    archive.write_bytes(initramfs_with_jobs(more[0]).read_bytes() + more[1])
    dumps: dict[str, Path] = {}

    def keep(event: Event) -> None:  # in another thread, where commands cannot see to signals: audited later
        state = str(event.data["state"])
        dumps[state] = qmp.dump(monitor, directory / f"{state.replace(' ', '-')}.dump")

    monitor = directory / "qmp"
    run = boot(form.image, archive, directory / "log", replace(job, observer=Observer(monitor, keep)), machine=machine)
    audits = tuple(audited(vmlinux or form.vmlinux, dumped, state) for state, dumped in dumps.items())
    for dumped in dumps.values():
        dumped.unlink()
    return Booted(form=form, machine=machine, run=run, audits=audits, kind=kind)


def _with_function(job: Job, built: BuiltKernel) -> Job:
    """Give the function that is traced and probed, and where its slots are."""
    first, second = entry_offsets(built.vmlinux, FUNCTION)
    offsets = " ".join(map(str, range(0, second + 4, 4)))
    parameters = (("function", FUNCTION), ("first", first), ("offsets", offsets), *job.parameters)
    return replace(job, parameters=parameters)


def _selftest(built: BuiltKernel) -> bytes:
    """An archive with what ftracetest needs to run the self-test of the prologues."""
    content = {f"ftrace/{name}": text for name, text in needed(built.tree).items()}
    return pack(content, ("ftrace", "ftrace/test.d", "ftrace/test.d/ftrace"))


def audited(vmlinux: Path, dumped: Path, state: str) -> Audited:
    """Audit a dump."""
    report = dumped.with_suffix(".json")
    report.unlink(missing_ok=True)
    command = ["live", "audit", str(vmlinux), str(dumped), "--json", "-o", str(report), "-q"]
    status = prologue(command)
    if not report.exists():
        return Audited(state, (f"live audit ended with {status}",), 0, {}, {})
    data: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    rows = [row for one in data["files"] for row in one["mechanisms"]]
    problems = [f"{one['code']} {one['symbol']}: {one['message']}" for one in data["findings"]]
    names = {row["mechanism"] for row in rows}
    unsure = {row["mechanism"]: row["unsure"] for row in rows if row["unsure"]}
    if status and not problems and not unsure:
        problems.append(f"live audit ended with {status}")
    changed = {name: sum(row["changed"] for row in rows if row["mechanism"] == name) for name in names}
    return Audited(state, tuple(problems), sum(one["words"] for one in data["files"]), changed, unsure)
