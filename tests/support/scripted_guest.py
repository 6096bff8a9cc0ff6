"""A guest that runs one shell script, with files of the test's own, instead of the jobs of ``guest/jobs.sh``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Final

from prologue_bench.guest.initramfs import build_initramfs, pack
from prologue_bench.guest.vm import Machine, run_console

_HEAD: Final = """\
#!/bin/busybox sh
/bin/busybox mkdir -p /bin
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t tracefs tracefs /sys/kernel/tracing
"""
_TAIL: Final = "\necho 'script: done'\npoweroff -f\n"


def run_script(
    image: Path, script: str, files: Mapping[str, bytes], log: Path, machine: Machine, *, timeout: float = 300
) -> list[str]:
    """Boot, run the script in busybox's shell, power off; the lines of the console.

    ``files`` go into the guest's root, all of them executable. The last command must not end the shell.
    """
    directories = {str(parent) for name in files for parent in PurePath(name).parents} - {"."}
    content = {"script": f"{_HEAD}{script}{_TAIL}".encode(), **files}
    # The kernel unpacks one archive after the other.
    archive = log.with_suffix(".cpio")
    archive.write_bytes(build_initramfs().read_bytes() + pack(content, sorted(directories)))
    append = "console=ttyAMA0 loglevel=4 panic=-1 oops=panic rdinit=/script"
    lines, _, ended = run_console(machine.command(image, archive, append), log, timeout)
    assert ended, log
    assert "script: done" in lines, lines[-20:]
    return lines
