"""Boots of kernels as they were linked: nothing of ours changes what they say, so the cache keeps it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from prologue_bench.guest.vm import QEMU, GuestRun, Job, Machine, boot
from prologue_bench.host import cache, programs
from prologue_bench.host.events import parse


def boot_plain(image: Path, initramfs: Path, log: Path, job: Job, *, machine: Machine | None = None) -> GuestRun:
    """Return what ``boot`` did, or did before with these very files, this job and this QEMU.

    A boot with a complaint of the kernel or of the guest's jobs is not kept.
    """
    key = f"boots/{_key(image, initramfs, job, machine or Machine())}"
    entry = cache.root() / key
    if not entry.exists():
        seen = boot(image, initramfs, log, job, machine=machine)

        def keep(path: Path) -> None:
            path.write_text(f"{seen.command}\n{log.read_bytes().decode()}")

        if not seen.all("error") and not seen.all("dmesg"):
            cache.produce(key, keep)
        return seen
    command, *lines = entry.read_bytes().decode().removesuffix("\n").split("\n")
    log.write_text("".join(f"{line}\n" for line in lines))
    token = re.search(r"prologue\.token=(\w+)", command)
    assert token is not None
    return GuestRun(events=tuple(parse(lines, token[1])), command=command, log=log, seconds=0.0, lines=tuple(lines))


def _key(image: Path, initramfs: Path, job: Job, machine: Machine) -> str:
    """Hash all that the guest gets, and the program that plays the machine."""
    hashed = hashlib.sha256(programs.version(QEMU))
    for path in (image, initramfs):
        hashed.update(hashlib.sha256(path.read_bytes()).digest())
    hashed.update(repr(machine.command(Path("image"), Path("initramfs"), job.command_line(""))).encode())
    return hashed.hexdigest()[:16]
