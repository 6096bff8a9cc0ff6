"""Boots a mini kernel and reads what it says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from prologue.elf.flat import flat_pieces
from prologue.elf.image import ElfImage
from prologue_bench.guest.vm import Machine, run_console


@dataclass(frozen=True, slots=True)
class MiniRun:
    """What follows ``mini: `` in its lines, and all ``name=value`` pairs in them."""

    lines: tuple[str, ...]
    values: dict[str, str]
    seconds: float

    @property
    def passed(self) -> bool:
        return bool(self.lines) and self.lines[-1] == "PASS"

    @property
    def verdict(self) -> str:
        return self.lines[-1] if self.lines else "nothing was said"


def run(vmlinux: Path, timeout: float = 600, *, accel: str = Machine().accel) -> MiniRun:
    """Boot the flat image of ``vmlinux`` on two CPUs; QEMU is gone when this returns."""
    image = vmlinux.with_suffix(".Image")
    with image.open("wb") as stream:
        for offset, data in flat_pieces(ElfImage(vmlinux)):
            stream.seek(offset)
            stream.write(data)
    command = Machine(memory=64, accel=accel).command(image, None, "")
    lines, seconds, ended = run_console(command, vmlinux.with_suffix(".log"), timeout)
    said = [line.removeprefix("mini: ") for line in lines if line.startswith("mini: ")]
    if not ended:
        said.append(f"FAIL no power-off within {timeout} s")
    values = dict(pair for line in said for pair in re.findall(r"(\w+)=(\S+)", line))
    return MiniRun(tuple(said), values, seconds)
