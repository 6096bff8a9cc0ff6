"""Guest instructions and text writes of one boot, counted by a QEMU plugin of ours: ``exact`` evidence.

One CPU under icount, no KASLR, a fixed clock and seed, and an init that powers off at its first instructions: two runs
of one vmlinux then execute the same instructions, and every count is taken twice to show that. NOP and MOV both count
1, so nothing here can say what the MOV costs. ``plugin/count.c`` says what exactly is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from prologue.elf.flat import write_flat
from prologue.insn import a64
from prologue.kernel.kernel import Kernel
from prologue_bench.errors import BenchError
from prologue_bench.exact.build import build_stop
from prologue_bench.exact.emulator import ONE_CPU, boot_command, run_plugin
from prologue_bench.exact.places import Places, boot_numbers, find_places
from prologue_bench.guest.initramfs import pack

if TYPE_CHECKING:
    from pathlib import Path

    from prologue_bench.guest.vm import Machine

_RUNS: Final = 2
_TIMEOUT: Final = 300.0  # seconds of wall time for one boot


@dataclass(frozen=True, slots=True)
class WordCounts:
    """Kernel text written, in 4-byte words; a CALL_OPS literal is two of them. A word written twice counts twice."""

    first: int  # first slots
    second: int  # second slots
    literal: int
    other: int  # alternatives, jump labels, relocated data that lies in text

    @property
    def total(self) -> int:
        """Sum of all."""
        return self.first + self.second + self.literal + self.other


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceCounts:
    """Instructions that maintain caches and TLBs, or wait for that."""

    dc: int  # DC CVAU and its like, not DC ZVA
    ic: int  # IC IVAU, IC IALLU, IC IALLUIS
    tlbi: int
    dsb: int
    isb: int


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Kernel text touched, in lines of 64 bytes that each count once; executing an instruction touches nothing."""

    read: int
    written: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of one boot, from reset to the first instruction of init.

    ``instructions``, ``ftrace_init`` and ``relocation`` are guest instructions, the second those of ``ftrace_init``
    and all that it calls, the third those that apply the Image's relocations; ``words`` and ``ftrace_init_words`` are
    the text written, ``maintenance`` and ``ftrace_init_maintenance`` those of the instructions that maintain caches.
    """

    release: str
    layout: str
    sites: int
    instructions: int
    ftrace_init: int
    relocation: int
    words: WordCounts
    ftrace_init_words: WordCounts
    maintenance: MaintenanceCounts
    ftrace_init_maintenance: MaintenanceCounts
    ftrace_init_lines: LineCounts


def count_boot(vmlinux: Path, directory: Path, machine: Machine = ONE_CPU, *, append: str = "") -> Counts:
    """Boot a vmlinux twice and return what both boots counted.

    Args:
        vmlinux: a kernel with sites, processed or not, that can boot on QEMU's virt board with a PL011 console.
        directory: where Image, plugin files and console logs go; the logs and what each run counted stay there.
        machine: CPU and memory; it gets one CPU whatever it says. BTI and PAC kernels want ``max,pauth-impdef=on``.
        append: more words for the kernel's command line.

    Raises:
        BenchError: not a kernel that can be counted, or two runs that differ, or code that is not where it is expected.
        GuestLostError: init is never reached.
        MissingToolError: no QEMU or no compiler.

    """
    kernel = Kernel(vmlinux)
    places, init = find_places(kernel), build_stop()
    image, initramfs = directory / "Image", directory / "init.cpio"
    try:
        initramfs.write_bytes(pack({"init": init.read_bytes()}))
        write_flat(kernel.image, image)
        command, numbers = boot_command(image, initramfs, machine, append), boot_numbers(places, image, init)
        runs = [
            run_plugin(command, numbers, places.classes, stem=directory / f"run-{k}", timeout=_TIMEOUT)
            for k in range(_RUNS)
        ]
        _require_equal(runs, vmlinux)
        return read_counts(kernel, places, image, runs[0])
    finally:
        for path in (image, initramfs):
            path.unlink(missing_ok=True)


def read_counts(kernel: Kernel, places: Places, image: Path, seen: dict[str, Any]) -> Counts:
    """Read the plugin's counts, after a check that it looked at the right places.

    Raises:
        BenchError: the guest's code is not where it is expected.

    """
    _require_known_places(seen["places"], places, image)
    boot, inside = seen["boot"], seen["ftrace_init"]
    counts = Counts(
        release=kernel.release,
        layout=kernel.layout,
        sites=places.sites,
        instructions=boot["instructions"],
        ftrace_init=inside["instructions"],
        relocation=boot["relocation"],
        words=_words(boot),
        ftrace_init_words=_words(inside),
        maintenance=_maintenance(boot),
        ftrace_init_maintenance=_maintenance(inside),
        ftrace_init_lines=LineCounts(**seen["lines"]),
    )
    if not counts.words.total:
        raise BenchError(
            f"{image}: no write to kernel text seen, though every arm64 kernel replaces alternatives at boot: "
            "this QEMU's physical addresses are not as expected"
        )
    return counts


def _words(span: dict[str, int]) -> WordCounts:
    return WordCounts(**{field.name: span[field.name] for field in fields(WordCounts)})


def _maintenance(span: dict[str, int]) -> MaintenanceCounts:
    return MaintenanceCounts(**{field.name: span[field.name] for field in fields(MaintenanceCounts)})


def _require_equal(runs: list[dict[str, Any]], vmlinux: Path) -> None:
    for span in ("boot", "ftrace_init", "lines", "places"):
        for name, value in runs[0][span].items():
            for other in (run[span][name] for run in runs[1:]):
                if other != value:
                    raise BenchError(
                        f"{vmlinux}: two runs differ ({span}, {name}: {value} and {other}): this is not exact evidence"
                    )


def _require_known_places(seen: dict[str, Any], places: Places, image: Path) -> None:
    """Refuse a run whose code was not where it is expected, virtually and physically."""
    for name, offset in (("load", 0), ("begin", places.begin - places.base), ("end", places.end - places.base)):
        with image.open("rb") as stream:
            stream.seek(offset)
            word = int.from_bytes(stream.read(4), "little")
        # Dynamic shadow call stacks rewrite this one before the boot gets there.
        words = (word, a64.SCS_PUSH) if word == a64.PACIASP else (word,)
        if seen[name] is None:
            raise BenchError(f"{image}: booted, but never executed the instruction of {name}")
        if seen[name]["word"] not in words or seen[name]["offset"] != offset:
            raise BenchError(
                f"{image}: {name} executed {seen[name]['word']:08x} at {seen[name]['offset']:#x} of the Image in "
                f"memory, expected {word:08x} at {offset:#x}"
            )
