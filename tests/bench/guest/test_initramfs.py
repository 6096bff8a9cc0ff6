"""The guest's root file system, from real packages."""

from __future__ import annotations

import lzma
import os
from typing import TYPE_CHECKING

import pytest

from prologue_bench.errors import UnreachableError
from prologue_bench.guest import initramfs, packages
from tests.support.needs import missing, needs_common_tools

if TYPE_CHECKING:
    from pathlib import Path


def test_modules_are_unpacked(tmp_path: Path) -> None:
    """busybox's insmod takes them as they are."""
    plain, packed = tmp_path / "a.ko", tmp_path / "b.ko.xz"
    plain.write_bytes(b"a module")
    packed.write_bytes(lzma.compress(b"another", check=lzma.CHECK_CRC32))
    assert [initramfs._plain(path) for path in (plain, packed)] == [b"a module", b"another"]


@pytest.mark.kernel  # downloads packages (3 MB and the package lists)
def test_the_same_parts_give_the_same_archive(tmp_path: Path) -> None:
    needs_common_tools("apt-get", "dpkg-deb", "cpio")
    try:
        debs = packages.download(initramfs._SUITE, initramfs._PACKAGES)
    except UnreachableError as error:
        missing(error.message)
        raise
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
