"""docs/kernels.md: one row for each kernel, as it came out last; rows of kernels that are not run now stay."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prologue_bench.host import programs
from tests.kernels.boots import Booted
from tests.kernels.judge import WRITTEN
from tests.kernels.recipes import KERNELS, Unusual
from tests.support.debian.kbuild import BuiltKernel

HEAD: Final = (
    "kernel",
    "compiler",
    "options",
    "sites",
    "verify",
    "boot",
    "marker 2",
    "tracers",
    "self-tests",
    "audit",
)
_RULE: Final = "|".join(["---"] * (len(HEAD) + 1))
_TEXT: Final = """\
# Kernels with unusual configurations

`make kernels` writes this table (`python -m tests.kernels NAME...` some rows). It builds each kernel from Debian's
source with the native contract, in one minimal configuration, and boots it in QEMU (TCG, two CPUs, [one thread of the
host](evidence/writes.md#what-qemu-executes-after-a-write)), not processed and processed. What a cell says was seen in
every boot of its row. Where something went wrong, the cell says FAILED, and what.

* *verify*: no finding on the vmlinux and its modules as linked. The processed ones pass `--release`, `--image` and
  `--against`, and `patch --reverse` gives the linked file back. A number beside PL206: functions that have lost their
  record in the kernel's own build, as scripts/sorttable.c (7.2) misreads the line of `nm -S` after an undefined
  symbol.
* *boot*: how many boots, and on which CPU models. No warning, no taint, and both forms can trace the same functions.
  Data races that KCSAN reports are counted: they are the kernel's own; one in what patches text is a failure.
* *marker 2*: what [version 2 of the marker](kernel-contract.md#version-2) promises: how many prologues the processed
  kernel took from the build (all sites), how many words of text ftrace has written when it is ready to trace, a boot
  with `ftrace=function`, and how many kinds of damage both `verify` refused and the kernel found before it wrote a
  BL.
* *tracers*: both over all functions, one function, in an instance; kprobes on each word of an entry; hot functions
  switched under load; modules; a direct call (`ftrace-direct`); a live patch (`livepatch-sample`).
* *self-tests*: how many times `CONFIG_FTRACE_STARTUP_TEST` says PASSED, and `func_arm64_prologue.tc`.
* *audit*: `prologue live audit` of the machine's memory before the first trace, idle, under each tracer with a
  kprobe, with a live patch, and after it. No word was left undecided.

"""


@dataclass(frozen=True, slots=True)
class Seen:
    """All that came of one kernel; ``failed`` has what is wrong by column."""

    kernel: Unusual
    built: BuiltKernel | None
    facts: dict[str, str]  # release, sites, lost (records)
    boots: tuple[Booted, ...]
    failed: dict[str, list[str]]


def row(seen: Seen) -> dict[str, str]:
    """The cells."""
    cells = {
        "kernel": seen.facts.get("release", seen.kernel.recipe.source.removeprefix("linux-source-")),
        "compiler": compiler(seen.kernel),
        "options": seen.kernel.what,
        "sites": seen.facts.get("sites", ""),
        "verify": (seen.facts.get("lost") or "clean") if seen.built else "",
    }
    cells |= _booted(seen) if seen.boots else {}
    for column, found in seen.failed.items():
        cells[column] = f"FAILED: {found[0]}" + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")
    return {name: cells.get(name, "").replace("|", "/").replace("\n", " ")[:300] for name in HEAD}


def _booted(seen: Seen) -> dict[str, str]:
    cpus = sorted({one.machine.cpu.partition(",")[0] for one in seen.boots})
    runs = [one.run for one in seen.boots]
    tested = [one.run for one in seen.boots if one.tests_at_boot]
    passed = min((event.data["passed"] for run in tested for event in run.all("startup_tests")), default=0)
    toggles = min((event.data["toggles"] for run in runs for event in run.all("toggle")), default=0)
    names = sorted({event.data["name"] for run in runs for event in run.all("module")})
    names += ["ftrace-direct"] if any(run.all("direct") for run in runs) else []
    names += ["livepatch-sample"] if any(run.all("livepatch") for run in runs) else []
    audits = [audit for one in seen.boots for audit in one.audits]
    changed = [max((sum(audit.changed.values()) for audit in one.audits), default=0) for one in seen.boots]
    races = [sum(event.data["count"] for event in run.all("races")) for run in runs]
    return {
        "marker 2": _contract(seen),
        "boot": f"{len(runs)} ({', '.join(cpus)})" + f", {min(races)} to {max(races)} data races" * any(races),
        "tracers": f"function, function_graph; kprobes; {toggles} toggles; {', '.join(names)}",
        "self-tests": f"{passed} at boot, " * bool(passed) + "prologues",
        "audit": f"{len(audits)} clean, up to {max(changed):,} words changed",
    }


def _contract(seen: Seen) -> str:
    """What the boots of the processed form showed of version 2."""
    boots = [one for one in seen.boots if one.form.processed]
    built = [event.data["built"] for one in boots for event in one.run.all("boot_log")]
    looks = [audit for one in boots for audit in one.audits if audit.state == "untraced"]
    words = [sum(look.changed.get(name, 0) for name in WRITTEN) for look in looks]
    parts = [f"{min(built):,} prologues of the build"] if built else []
    parts += [f"{max(words)} words written"] if words else []
    parts += ["`ftrace=function`"] if any(one.kind == "from the start" for one in boots) else []
    parts += [seen.facts["damage"]] if seen.facts.get("damage") else []
    return "; ".join(parts)


def compiler(kernel: Unusual) -> str:
    """Such as ``clang 19.1.7``."""
    name = kernel.recipe.compilers[0]
    versions = re.findall(r"\d+\.\d+\.\d+", programs.version(name).decode(errors="replace"))
    return f"{'GCC' if kernel.recipe.toolchain == 'gcc' else 'clang'} {versions[-1 if 'gcc' in name else 0]}"


def write(path: Path, rows: dict[str, dict[str, str]]) -> None:
    """Write the table: new rows by kernel's name, and the ones that are there for all others."""
    kept = _read(path)
    kept |= {name: " | ".join((f"`{name}`", *(cells[column] for column in HEAD))) for name, cells in rows.items()}
    lines = [kept.get(name) or _not_run(name) for name in KERNELS]
    body = "\n".join(f"| {line} |" for line in (" | ".join(("name", *HEAD)), *lines))
    head, _, rest = body.partition("\n")
    path.write_text(f"{_TEXT}{head}\n|{_RULE}|\n{rest}\n", encoding="utf-8")


def _not_run(name: str) -> str:
    cells = {"options": KERNELS[name].what, "verify": "not run"}
    return " | ".join((f"`{name}`", *(cells.get(column, "") for column in HEAD)))


def _read(path: Path) -> dict[str, str]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return {match[2]: match[1] for match in re.finditer(r"^\| (`([^`]+)` \|.*) \|$", text, re.MULTILINE)}
