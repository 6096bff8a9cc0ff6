"""Counts the instructions of ``ftrace_init`` function by function: ``exact`` evidence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from prologue.elf.flat import write_flat
from prologue.kernel.kernel import Kernel
from prologue_bench.exact.build import build_stop
from prologue_bench.exact.emulator import ONE_CPU, boot_command, run_plugin
from prologue_bench.exact.places import boot_numbers, find_places
from prologue_bench.guest.initramfs import pack

if TYPE_CHECKING:
    from pathlib import Path

    from prologue_bench.guest.vm import Machine

_TIMEOUT: Final = 300.0  # seconds of wall time


@dataclass(frozen=True, slots=True)
class Profile:
    """Instructions of ``ftrace_init`` by function, most first. What is not in the kernel's text has no function."""

    sites: int
    total: int
    functions: tuple[tuple[str, int], ...]


def profile_ftrace_init(vmlinux: Path, directory: Path, machine: Machine = ONE_CPU) -> Profile:
    """Boot a vmlinux once and count the instructions of ``ftrace_init`` in each function.

    Args:
        vmlinux: as for ``count_boot``.
        directory: where Image, plugin files and the console log go; all but the log are removed.
        machine: CPU and memory; it gets one CPU whatever it says.

    Raises:
        BenchError: not a kernel that can be counted.
        GuestLostError: init is never reached.

    """
    kernel = Kernel(vmlinux)
    places, init = find_places(kernel), build_stop()
    image, initramfs, raw = directory / "Image", directory / "init.cpio", directory / "profile"
    try:
        initramfs.write_bytes(pack({"init": init.read_bytes()}))
        write_flat(kernel.image, image)
        seen = run_plugin(
            boot_command(image, initramfs, machine, ""), boot_numbers(places, image, init), places.classes,
            stem=directory / "run", timeout=_TIMEOUT, profile=raw,
        )  # fmt: skip
        executed = np.fromfile(raw, "<u4")
    finally:
        for path in (image, initramfs, raw):
            path.unlink(missing_ok=True)
    functions: Counter[str] = Counter()
    for word in np.flatnonzero(executed).tolist():
        vaddr = places.text + 4 * word
        functions[kernel.symbols.locate(vaddr).symbol or f"{vaddr:#x}"] += int(executed[word])
    total = int(seen["ftrace_init"]["instructions"])
    if elsewhere := total - functions.total():
        functions["(not in the kernel's text)"] = elsewhere
    return Profile(places.sites, total, tuple(functions.most_common()))
