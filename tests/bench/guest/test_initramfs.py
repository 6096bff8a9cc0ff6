"""The root file system of the guest, from real packages, and what its init makes of the log of the kernel."""

from __future__ import annotations

import lzma
import os
import re
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from prologue_bench.guest import initramfs
from tests.support.needs import needs_common_tools, needs_packages


def test_modules_are_unpacked(tmp_path: Path) -> None:
    """busybox's insmod takes them as they are."""
    plain, packed = tmp_path / "a.ko", tmp_path / "b.ko.xz"
    plain.write_bytes(b"a module")
    packed.write_bytes(lzma.compress(b"another", check=lzma.CHECK_CRC32))
    assert [initramfs._plain(path) for path in (plain, packed)] == [b"a module", b"another"]


@pytest.mark.kernel  # downloads packages (3 MB and the package lists)
def test_the_same_parts_give_the_same_archive(tmp_path: Path) -> None:
    needs_common_tools("apt-get", "dpkg-deb", "cpio")
    debs = needs_packages(initramfs._SUITE, *initramfs._PACKAGES)
    archives = []
    for mask in (0o022, 0o077):
        before = os.umask(mask)
        try:
            path = tmp_path / f"{mask:o}"
            initramfs._make(path, {"init": b"#!/bin/busybox sh\n"}, debs, {"modules/00-a.ko": b"a"})
        finally:
            os.umask(before)
        archives.append(path.read_bytes())
    assert archives[0] == archives[1]
    assert archives[0].startswith(b"070701")
    for name in (
        b"init",
        b"bin/busybox",
        b"bin/hackbench",
        b"lib/libc.so.6",
        b"lib/ld-linux-aarch64.so.1",
        b"modules/00-a.ko",
    ):
        assert name + b"\0" in archives[0]


INIT = files("prologue_bench.guest").joinpath("init").read_text(encoding="utf-8")
RACES = [
    "[   12.345678] BUG: KCSAN: data-race in dispatch_signal / tick_nohz_idle_stop_tick",
    "[   12.345678] BUG: KCSAN: data-race in __d_lookup_rcu+0x58/0x118",
]
COMPLAINTS = [
    "[   12.345678] BUG: KCSAN: data-race in __aarch64_insn_write / vfs_write",
    "[   12.345678] BUG: KCSAN: data-race in patch_map / patch_unmap",
    "[   12.345678] BUG: KCSAN: data-race in vfs_read / __patch_text",
    "[   12.345678] BUG: KCSAN: data-race in ftrace_modify_code+0x58/0x118",
    "[   12.345678] BUG: KCSAN: assert: race in vfs_read / vfs_write",
    "[   12.345678] BUG: unable to handle page fault",
    "[   12.345678] WARNING: CPU: 0 PID: 1 at kernel/trace/ftrace.c:2180 ftrace_bug+0x90/0x280",
    "[   12.345678] ftrace failed to modify",
    "[   12.345678] ------------[ ftrace bug ]------------",
]
# What ftrace says about a processed kernel is news; that it gave up is a warning.
QUIET = [
    "[    0.000000] ftrace: build-time prologues: 43880",
    "[    0.000000] ftrace: allocating 43880 entries in 172 pages",
]


def filtered(name: str) -> list[str]:
    """Lines of the log that the function lets through."""
    filters = re.search(r"^other_race='.*?(?=^emit start )", INIT, re.MULTILINE | re.DOTALL)
    assert filters is not None
    log = "\n".join([*RACES, *QUIET, *COMPLAINTS, ""])
    done = subprocess.run(["sh", "-c", filters[0] + name], input=log, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_data_races_of_what_patches_text_are_no_noise() -> None:
    assert filtered("other_races") == RACES
    assert filtered("complaints") == COMPLAINTS


def test_the_log_is_read_by_these() -> None:
    """What was said is reported; every other reading of the log would go past them."""
    assert "dmesg | other_races | wc -l" in INIT
    assert "dmesg | complaints | head -n 20 | while read -r line; do" in INIT
