"""Counts a boot, from reset to the first instruction of init: class ``exact``.

One virtual CPU, a clock that follows the instructions (``-icount``), no KASLR, the same bytes for everything else: two
runs must agree in every number, or there is no result. NOP and MOV are one instruction each, so this prices what a boot
does and not what a MOV costs.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from prologue import a64
from prologue.elf.flat import flat_pieces
from prologue.sites.kernel import Kernel
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.icount.parts import plugin, stop_archive
from prologue_bench.qemu import QEMU, Machine, run_console

if TYPE_CHECKING:
    from prologue.elf.image import U64

# QEMU's virt board: RAM begins at 1 GiB, and an Image whose text_offset is 0 goes 2 MiB above that.
_LOADED_AT: Final = 0x4020_0000
_OTHER, _FIRST, _SECOND, _LITERAL, _NO_TEXT = range(5)  # as count.c has them


@dataclass(frozen=True, slots=True)
class Stores:
    """Words of kernel text that were stored to, by what is there; a literal has two."""

    first: int
    second: int
    literal: int
    other: int  # alternatives, jump labels and the like


@dataclass(frozen=True, slots=True)
class Counts:
    """One boot. An instruction that faults and is executed again counts twice."""

    instructions: int  # from reset to the first one of init, which is not counted
    inside: int  # of them from the call of ftrace_init to its return
    stores: Stores
    stores_inside: Stores


def count_boot(vmlinux: Path, cpu: str = "cortex-a57", timeout: float = 300) -> Counts:
    """Boot a vmlinux twice and count; ``cpu`` is QEMU's, ``timeout`` seconds for each boot.

    Raises:
        MissingToolError: no QEMU, no compiler for the plugin or for the guest's init.
        GuestLostError: init was not reached; with the console's last lines.
        BenchError: no ftrace_init in it, or the two boots differ.

    """
    archive, stop = stop_archive()
    return count_until(vmlinux, stop, archive, cpu, timeout)


def count_until(
    vmlinux: Path, stop: int, archive: Path | None = None, cpu: str = "cortex-a57", timeout: float = 300
) -> Counts:
    """Count to the first instruction at another virtual address than init's, which needs no init; else the same."""
    kernel = Kernel(vmlinux)
    with tempfile.TemporaryDirectory(prefix="prologue-count-") as name:
        directory = Path(name)
        base, classes = _classes(kernel)
        (directory / "sites").write_bytes(classes.tobytes())
        _write_image(kernel, directory / "Image")
        begin, end = _call(kernel)
        numbers = {"begin": begin, "end": end, "stop": stop, "text": _LOADED_AT + base, "size": 4 * len(classes)}
        words = [str(plugin()), f"sites={directory / 'sites'}", *(f"{key}={value}" for key, value in numbers.items())]
        runs = [_run(directory, words, archive, cpu, timeout) for _ in range(2)]
    if runs[0] != runs[1]:
        raise BenchError(f"{vmlinux}: two boots differ, so neither counts: {runs[0]} and {runs[1]}")
    return runs[0]


def _write_image(kernel: Kernel, path: Path) -> None:
    with path.open("wb") as stream:
        for offset, data in flat_pieces(kernel.image):
            stream.seek(offset)
            stream.write(data)


def _run(directory: Path, plugin_words: list[str], archive: Path | None, cpu: str, timeout: float) -> Counts:
    out = directory / "counts.json"
    out.unlink(missing_ok=True)
    machine = Machine(cpu=cpu, cpus=1, accel="tcg,thread=single")
    append = "console=ttyAMA0 loglevel=4 panic=-1 nokaslr"
    command = machine.command(directory / "Image", archive, append)
    # The device tree carries random bytes, and the clock a date: the same ones each time.
    command += ["-icount", "shift=0,sleep=off", "-rtc", "base=2026-01-01T00:00:00,clock=vm", "-seed", "1"]
    command += ["-plugin", ",".join([*plugin_words, f"out={out}"])]
    lines, _, ended = run_console(command, directory / "log", timeout)
    if not out.exists():
        tail = "\n  ".join(line for line in lines[-15:] if line.strip())
        how = "init was never reached" if ended else f"init was not reached within {timeout:.0f} s"
        raise GuestLostError(f"{QEMU}: {how}; the console's end:\n  {tail}")
    data = json.loads(out.read_text(encoding="ascii"))
    stores, inside = Stores(**data["stores"]), Stores(**data["stores_inside"])
    if not data["inside"]:
        raise BenchError("ftrace_init was not entered and left on the way to init")
    return Counts(data["instructions"], data["inside"], stores, inside)


def _call(kernel: Kernel) -> tuple[int, int]:
    """Where ftrace_init begins, and where its only caller, start_kernel, goes on."""
    symbol = kernel.symbols.find("ftrace_init")
    callers: list[int] = []
    for section in kernel.image.text if symbol else ():
        index, target = kernel.branches(section)
        here = np.flatnonzero(target == np.uint64(symbol.vaddr)) if symbol else np.zeros(0, np.int64)
        callers += (np.uint64(section.addr) + index[here].astype(np.uint64) * np.uint64(4)).tolist()
    if symbol is None or len(callers) != 1:
        raise BenchError(f"{kernel.path}: ftrace_init has {len(callers)} callers, expected one")
    return symbol.vaddr, callers[0] + 4


def _classes(kernel: Kernel) -> tuple[int, np.ndarray[tuple[int], np.dtype[np.uint8]]]:
    """Offset of the first text from where the Image is loaded, and the class of every word from there to the last."""
    sites, head = kernel.sites, kernel.symbols.find("_text")
    if sites is None or head is None:
        raise BenchError(f"{kernel.path}: no patch sites to count")
    low = min(section.addr for section in kernel.image.text)
    high = max(section.addr + section.size for section in kernel.image.text)
    classes = np.full((high - low) // 4, _NO_TEXT, np.uint8)
    for section in kernel.image.text:
        classes[(section.addr - low) // 4 : (section.addr + section.size - low) // 4] = _OTHER

    def mark(vaddrs: U64, value: int) -> None:
        classes[(vaddrs - np.uint64(low)) // np.uint64(4)] = value

    mark(sites.first, _FIRST)
    mark(sites.second, _SECOND)
    if kernel.layout == "4,2":
        landing = (kernel.image.words(sites.first - np.uint64(4)) & a64.BTI_MASK) == a64.BTI
        literal = sites.first - np.where(landing, np.uint64(12), np.uint64(8))
        mark(literal, _LITERAL)
        mark(literal + np.uint64(4), _LITERAL)
    return low - head.vaddr, classes
