"""One boot of one form: all jobs in it, and audits of the machine's memory in the states that it waits in."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from prologue.cli.main import main as prologue
from prologue_bench.guest.initramfs import build_initramfs, pack
from prologue_bench.guest.kbuild import BuiltKernel
from prologue_bench.guest.vm import GuestRun, Job, Machine, Observer, boot
from prologue_bench.host.events import Event
from tests.kernels.files import Form
from tests.real_kernels.native import entry_offsets
from tests.support import qmp
from tests.support.ftracetest import needed

FUNCTION: Final = "vfs_write"  # exported, so that it has a landing pad where there are any, and hackbench calls it
MODULES: Final = ("overlay", "ftrace-direct")  # there are more samples than one
HOT: Final = "vfs_* sock_* unix_* *schedule*"  # what hackbench runs all the time
STATES: Final = ("idle", "function", "function_graph", "after")
# kernel/trace/trace_events.c, setup_trace_event(): who wants events from the beginning gets no tests; here, none.
_NO_TESTS: Final = "trace_event="


@dataclass(frozen=True, slots=True)
class Audited:
    """What ``prologue live audit`` said of the memory of one state."""

    state: str
    problems: tuple[str, ...]
    words: int  # of text
    changed: dict[str, int]  # words that differ from the linked ones, by mechanism
    unsure: dict[str, int]  # words that were not decided, by mechanism; no zeros


@dataclass(frozen=True, slots=True)
class Booted:
    """A boot, and the audits in it."""

    form: Form
    machine: Machine
    run: GuestRun
    toggles: int  # asked for
    audits: tuple[Audited, ...]
    tests_at_boot: bool


def boot_form(
    form: Form, built: BuiltKernel, machine: Machine, *, toggles: int, tests_at_boot: bool, timeout: float = 900
) -> Booted:
    """Boot it, with every job.

    The kernel's tests at boot (``CONFIG_FTRACE_STARTUP_TEST``) count what is traced within 100 ms. A virtual CPU that
    its host lets wait in the middle of a call can enter it when the next test has begun: on a loaded machine they may
    fail ("filter did not filter"), which says nothing about the kernel.

    Raises:
        GuestLostError: it panicked, or did not come to its end.

    """
    directory = form.directory / machine.cpu.partition(",")[0]
    directory.mkdir()
    modules = [path for path in form.modules if path.stem in MODULES]
    archive = directory / "cpio"
    archive.write_bytes(build_initramfs(modules).read_bytes() + _selftest(built))
    dumps: dict[str, Path] = {}

    def keep(event: Event) -> None:  # in another thread, where commands cannot see to signals: audited later
        state = str(event.data["state"])
        dumps[state] = qmp.dump(monitor, directory / f"{state}.dump")

    monitor = directory / "qmp"
    job = replace(_job(built, modules, toggles), timeout=timeout, observer=Observer(monitor, keep))
    if not tests_at_boot:
        job = replace(job, append=_NO_TESTS)
    run = boot(form.image, archive, directory / "log", job, machine=machine)
    audits = tuple(audited(form.vmlinux, dumped, state) for state, dumped in dumps.items())
    for dumped in dumps.values():
        dumped.unlink()
    return Booted(form, machine, run, toggles, audits, tests_at_boot)


def _job(built: BuiltKernel, modules: list[Path], toggles: int) -> Job:
    first, second = entry_offsets(built.vmlinux, FUNCTION)
    names = ["list", "startup_tests", "trace_one", "kprobes", "ftrace_cycle", "toggle", "modules"]
    names += ["direct"] if any(path.stem == "ftrace-direct" for path in modules) else []
    names += ["states", "selftest"]
    parameters: tuple[tuple[str, object], ...] = (
        ("function", FUNCTION),
        ("first", first),
        ("offsets", " ".join(map(str, range(0, second + 4, 4)))),
        ("cycles", 1),
        ("toggles", toggles),
        ("toggled", HOT),
    )
    return Job(names=tuple(names), parameters=parameters)


def _selftest(built: BuiltKernel) -> bytes:
    """An archive with what ftracetest needs to run the self-test of the prologues."""
    content = {f"ftrace/{name}": text for name, text in needed(built.tree).items()}
    return pack(content, ("ftrace", "ftrace/test.d", "ftrace/test.d/ftrace"))


def audited(vmlinux: Path, dumped: Path, state: str) -> Audited:
    """Audit a dump."""
    report = dumped.with_suffix(".json")
    report.unlink(missing_ok=True)
    command = ["live", "audit", str(vmlinux), str(dumped), "--format", "json", "-o", str(report), "-q"]
    status = prologue([*command, "--allow-undecided"])  # which may be left is judged by mechanism
    if not report.exists():
        return Audited(state, (f"live audit ended with {status}",), 0, {}, {})
    data: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    rows = [row for one in data["files"] for row in one["mechanisms"]]
    problems = [f"{one['code']} {one['symbol']}: {one['message']}" for one in data["findings"]]
    if status and not problems:
        problems.append(f"live audit ended with {status}")
    return Audited(
        state, tuple(problems), sum(one["words"] for one in data["files"]),
        {row["mechanism"]: row["changed"] for row in rows},
        {row["mechanism"]: row["unsure"] for row in rows if row["unsure"]},
    )  # fmt: skip
