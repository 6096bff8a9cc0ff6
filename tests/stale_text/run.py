"""Builds the guest, boots it, and reads what it counted."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prologue_bench.errors import GuestLostError
from prologue_bench.guest.vm import Machine, run_console

HERE: Final = Path(__file__).parent
_LOADED_AT: Final = 0x40200000  # where QEMU's virt board puts an Image
_FLAGS: Final = (
    "-O2", "-g0", "-ffreestanding", "-nostdlib", "-static", "-fno-pic", "-fno-stack-protector", "-mgeneral-regs-only",
    "-mstrict-align", "-Wall", "-Wextra", "-Werror", "-Wl,--build-id=none", f"-Wl,-Ttext={_LOADED_AT:#x}",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Executed:
    """Functions that were run after they had been written, and how many of them ran a word that was gone.

    ``stale_again`` of the stale ones did so once more, after another ISB: they would have for ever.
    """

    executed: int
    stale: int
    stale_again: int


def build(directory: Path, *, rounds: int, functions: int = 64, words: int = 16) -> Path:
    """Build the Image, with as many functions of as many words, which are written as often."""
    sizes = (f"-DROUNDS={rounds}", f"-DFUNCTIONS={functions}", f"-DWORDS={words}")
    linked, image = directory / "guest", directory / "Image"
    sources = [str(HERE / "guest.S"), str(HERE / "guest.c")]
    subprocess.run(["aarch64-linux-gnu-gcc", *_FLAGS, *sizes, *sources, "-o", str(linked)], check=True)
    subprocess.run(["aarch64-linux-gnu-objcopy", "-O", "binary", str(linked), str(image)], check=True)
    return image


def run(image: Path, accel: str, timeout: float = 60) -> Executed:
    """Boot the Image on two CPUs of QEMU with this accelerator.

    Raises:
        GuestLostError: it did not come to its end.

    """
    command = Machine(memory=64, accel=accel).command(image, None, "")
    lines, _, _ = run_console(command, image.with_suffix(".log"), timeout)
    for line in lines:
        if match := re.fullmatch(r"executed=(\d+) stale=(\d+) stale_again=(\d+)", line):
            return Executed(*map(int, match.groups()))
    raise GuestLostError(f"{image}: it said nothing of its end in {timeout} s")
