"""Commands on an arm64 machine give the bytes that they give here: what they print, and each file that they write."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.arm64.machine import PYTHONS, Outcome, run_arm64, run_here
from tests.support.live_guest import live_guest
from tests.support.needs import needs_kernel, needs_modules, needs_tools

# Where an example is put.
HOOKED = "cache/prologue/examples/hooked"
SMALL = (
    ("verify", "example:broken", "--json"),
    ("live", "audit", "example:hooked", "--json"),
    ("live", "overlay", f"{HOOKED}/vmlinux", f"{HOOKED}/memory", "-o", "vmlinux.live"),
    ("scan", "vmlinux.live", "--json"),
    ("image", f"{HOOKED}/vmlinux", "-o", "Image"),
    ("trace", "check", "example:hooked", "--json"),
)
DEBIAN = (
    ("scan", "vmlinux", "--json"),
    ("patch", "vmlinux", "-o", "vmlinux.build", "--contract", "stock", "--save-plan", "plan.json"),
    ("verify", "vmlinux.build", "--against", "vmlinux", "--json"),
    ("image", "vmlinux.build", "-o", "Image"),
    ("live", "overlay", "vmlinux", "idle.capture", "-o", "vmlinux.live"),
    ("live", "audit", "vmlinux", "idle.capture", "--json"),
    ("live", "hooks", "vmlinux", "idle.capture", "--json"),
    ("trace", "stats", "run.ptrace", "--vmlinux", "vmlinux", "--json"),
    ("trace", "check", "run.ptrace", "--vmlinux", "vmlinux", "--json"),
    ("probe", "vmlinux", "vfs_read", "vfs_read+4", "vfs_read count", "--json"),
)


def compare(suite: str, commands: Sequence[Sequence[str]], inputs: Path, place: Path) -> None:
    """Run the commands in two directories that have the same inputs, and compare after each."""
    directories = place / "arm64", place / "here"
    for directory in directories:
        directory.mkdir()
        for path in inputs.iterdir():
            os.link(path, directory / path.name)
    for command in commands:
        arm64, this = run_arm64(command, directories[0], suite), run_here(command, directories[1])
        assert this.code in (0, 1, 5), this.err
        assert in_place(arm64, directories[0]) == in_place(this, directories[1]), " ".join(command)
        assert files(directories[0]) == files(directories[1]), " ".join(command)


def in_place(outcome: Outcome, directory: Path) -> Outcome:
    """Return the outcome without the name of the directory and the time at which a report was made."""
    out = re.sub(r'"date": "[^"]*"', "", outcome.out)
    return Outcome(outcome.code, *(text.replace(str(directory), ".") for text in (out, outcome.err)))


def files(directory: Path) -> dict[str, str]:
    """Return the hash of each file by its name; what is kept of examples is not compared by its date."""
    paths = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.mark.thorough
@pytest.mark.timeout(3600)  # seconds of emulation for each command
@pytest.mark.parametrize("suite", PYTHONS)
def test_examples(suite: str, tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()
    compare(suite, SMALL, tmp_path / "inputs", tmp_path)


@pytest.mark.kernel
@pytest.mark.qemu
@pytest.mark.extended  # minutes of emulation, where nothing else runs
@pytest.mark.timeout(3600)
def test_a_kernel_of_debian(tmp_path: Path) -> None:
    """Its files, a trace of it, and what a running one has in memory: drgn, which reads dumps, has no wheel there."""
    needs_tools("qemu-system-aarch64")
    kernel, inputs, place = needs_kernel("trixie"), tmp_path / "inputs", tmp_path / "guest"
    inputs.mkdir()
    place.mkdir()
    window = ("--begin", "vfs_read", "--count", "200000", "--ram", "256", "--cpus", "1")
    assert main(["trace", "record", str(kernel.vmlinux), "-o", str(inputs / "run.ptrace"), *window]) == 0
    with live_guest(kernel.vmlinux, place, package=needs_modules(kernel), modules=()) as guest:
        guest.capture("idle").rename(inputs / "idle.capture")
    (inputs / "vmlinux").write_bytes(kernel.vmlinux.read_bytes())
    compare("trixie", DEBIAN, inputs, tmp_path)
