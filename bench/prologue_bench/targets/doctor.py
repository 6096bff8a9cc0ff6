"""Checks of a host that drives machines, and of a machine that is to be measured."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from prologue.errors import PrologueError
from prologue.installation import how_to_install
from prologue.kernel.kernel import Kernel
from prologue.rules.base import Subject
from prologue.rules.engine import run_rules
from prologue.rules.registry import find_rule
from prologue.words import counted
from prologue_bench.errors import MissingToolError
from prologue_bench.guest.vm import QEMU, qemu_version
from prologue_bench.host import programs
from prologue_bench.recorder.gate import advice, evidence
from prologue_bench.recorder.output import Recorded
from prologue_bench.targets.qemu import KVM, absent_drivers

Health = Literal["ok", "warn", "fail"]

# What stops every target, and what stops one kind.
_NEEDED: Final = {"cpio": "guests cannot be made", "apt-get": "neither guests nor Debian kernels can be fetched"}
_USED: Final = {
    "ssh": "no --target ssh:HOST",
    "gcc": "no --target icount, writes boot or trace record",
    "aarch64-linux-gnu-gcc": "no --target icount, writes boot or trace record",
}
# Of the extra ``bench``.
_LIBRARIES: Final[Mapping[str, tuple[Health, str]]] = {
    "scipy": ("fail", "no bench run, compare, table or plot"),
    "matplotlib": ("warn", "no bench plot"),
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Result of one check; ``fix`` is empty if there is nothing to do."""

    health: Health
    what: str
    fix: str = ""


def check_host() -> list[Diagnosis]:
    """Check what this host needs to drive campaigns. An arm64 host can be measured itself: there, nothing is a must."""
    arm64 = platform.machine() == "aarch64"
    need: Health = "warn" if arm64 else "fail"
    return [_qemu(need), _kvm(arm64), *_programs(_NEEDED, need), *_programs(_USED, "warn"), *_libraries()]


def _libraries() -> Iterator[Diagnosis]:
    for name, (absent, purpose) in _LIBRARIES.items():
        if find_spec(name) is None:
            yield Diagnosis(absent, f"no {name}: {purpose}", how_to_install("bench"))
        else:
            yield Diagnosis("ok", name)


def _qemu(need: Health) -> Diagnosis:
    try:
        version = qemu_version()
    except MissingToolError as error:
        return Diagnosis(need, "no QEMU", error.message)
    return Diagnosis("ok", f"{QEMU} {version}")


def _kvm(arm64: bool) -> Diagnosis:
    if not arm64:
        return Diagnosis(
            "warn", f"this host is {platform.machine()}: arm64 is emulated, its wall time is smoke evidence",
            "measure on a board: bench run --target ssh:HOST, or bench record there",
        )  # fmt: skip
    if os.access(KVM, os.R_OK | os.W_OK):
        return Diagnosis("ok", "KVM: guests give timing evidence")
    if KVM.exists():
        return Diagnosis(
            "warn", f"{KVM} cannot be opened: guests are emulated", "join its group (usually kvm), or be root"
        )
    return Diagnosis("warn", f"no {KVM}: guests are emulated", "use a kernel with KVM, booted at EL2")


def _programs(names: Mapping[str, str], absent: Health) -> Iterator[Diagnosis]:
    # An arm64 host may have one compiler for itself and for guests.
    for name, purpose in {programs.own_name(name): purpose for name, purpose in names.items()}.items():
        try:
            programs.find(name)
        except MissingToolError as error:
            yield Diagnosis(absent, f"no {name}: {purpose}", error.message)
        else:
            yield Diagnosis("ok", name)


def check_vmlinux(vmlinux: Path) -> list[Diagnosis]:
    """Check that variants can be made of a vmlinux, and its sites be read back."""
    try:
        kernel = Kernel(vmlinux)
        sites = 0 if kernel.sites is None else len(kernel.sites)
        state = kernel.state
    except PrologueError as error:
        return [Diagnosis("fail", str(error), "name the vmlinux of an arm64 build")]
    if not sites:
        return [Diagnosis("fail", f"{vmlinux}: no ftrace sites", "build it with CONFIG_DYNAMIC_FTRACE_WITH_ARGS")]
    message = f"{vmlinux}: {kernel.release}, {sites:,} sites, {state}"
    if state != "untouched":
        return [Diagnosis("warn", message, "bench run needs the vmlinux as linked")]
    if findings := run_rules(Subject(kernel), (find_rule("kernel-ignores-marker"),)):
        return [Diagnosis("fail", str(findings[0]), findings[0].fix)]
    if findings := run_rules(Subject(kernel), (find_rule("bench-variant"),)):
        return [Diagnosis("fail", str(findings[0]), "bench run needs the vmlinux as linked")]
    return [Diagnosis("ok", message), _port(kernel)]


def _port(kernel: Kernel) -> Diagnosis:
    """Check that guests can hand their results out."""
    absent = absent_drivers(kernel)
    if not absent:
        return Diagnosis("ok", "virtio port built in")
    return Diagnosis(
        "warn", f"{' and '.join(absent)} not built in: guests have no port for results",
        "--target qemu: give --modules DIR with that kernel's modules; boards do without",
    )  # fmt: skip


def check_machine(recorded: Recorded, vmlinux: Path | None = None) -> list[Diagnosis]:
    """Check what a machine said of itself, by a task of no workload; ``vmlinux`` is what should run there."""
    return [_class(recorded), *_readback(recorded, vmlinux), *_gate(recorded)]


def _class(recorded: Recorded) -> Diagnosis:
    facts = recorded.machine
    named = ", ".join(filter(None, (facts.get("model"), facts.get("arch"), facts.get("cpu") or facts.get("cpus", ""))))
    if evidence(facts) == "timing":
        return Diagnosis("ok", f"{named}: timing evidence")
    if facts.get("arch") != "aarch64":
        return Diagnosis("warn", f"{named}: not arm64, smoke evidence", "measure on an arm64 machine")
    return Diagnosis("warn", f"{named}: emulated as far as it reports, smoke evidence", "use KVM, or a real machine")


def _readback(recorded: Recorded, vmlinux: Path | None) -> Iterator[Diagnosis]:
    seen = recorded.readback
    if seen is not None:
        mixed = seen.sites not in (seen.mov, seen.nop)
        words = f"{seen.mov} MOV, {seen.nop} NOP in {counted(seen.sites, 'site')}"
        if mixed:
            yield Diagnosis("fail", f"read back: {words}", "the vmlinux is not that of the running kernel")
        else:
            yield Diagnosis("ok", f"read back: {words}")
    if vmlinux is not None and (running := recorded.machine.get("build_id")):
        expected = Kernel(vmlinux).build_id
        if expected != running:
            yield Diagnosis(
                "fail", f"another kernel runs: build-id {running}", f"boot the one of {vmlinux}: {expected}"
            )


def _gate(recorded: Recorded) -> Iterator[Diagnosis]:
    items = advice(recorded.gate_before)
    for entry in items:
        yield Diagnosis("fail" if entry.voids else "warn", f"{entry.what}: {entry.why}", entry.fix)
    if not items:
        yield Diagnosis("ok", "nothing found that disturbs measurements")
