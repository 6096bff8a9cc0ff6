"""A guest that runs one shell script, with files of the test's own, instead of the jobs of ``guest/jobs.sh``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Final

from prologue_bench.guest.initramfs import build_initramfs, pack
from prologue_bench.guest.vm import Machine, run_console

_HEAD: Final = """\
#!/bin/busybox sh
/bin/busybox mkdir -p /bin /proc /sys /dev /tmp
/bin/busybox --install -s /bin
export PATH=/bin
for pair in proc:/proc sysfs:/sys devtmpfs:/dev tmpfs:/tmp tracefs:/sys/kernel/tracing debugfs:/sys/kernel/debug; do
	mount -t ${pair%%:*} ${pair%%:*} ${pair#*:}
done
"""


def guest_init(script: str) -> bytes:
    """A program for a guest's init: the script in busybox's shell, and the power is off; it must not end the shell."""
    return f"{_HEAD}{script}\npoweroff -f\n".encode()


def run_script(
    image: Path, script: str, files: Mapping[str, bytes], log: Path, machine: Machine, *, timeout: float = 300
) -> list[str]:
    """Boot, run the script in busybox's shell, power off; the lines of the console.

    ``files`` go into the guest's root, all of them executable. The last command must not end the shell.
    """
    directories = {str(parent) for name in files for parent in PurePath(name).parents} - {"."}
    content = {"script": guest_init(f"{script}\necho 'script: done'"), **files}
    # The kernel unpacks one archive after the other.
    archive = log.with_suffix(".cpio")
    archive.write_bytes(build_initramfs().read_bytes() + pack(content, sorted(directories)))
    append = "console=ttyAMA0 loglevel=4 panic=-1 oops=panic rdinit=/script"
    lines, _, ended = run_console(machine.command(image, archive, append), log, timeout)
    assert ended, log
    assert "script: done" in lines, lines[-20:]
    return lines


TEST: Final = "test.d/ftrace/func_arm64_prologue.tc"


def needed(tree: Path) -> dict[str, bytes]:
    """Names below ``ftrace/`` and contents: the tree's own runner, and our test as it is today.

    A tree from the cache may have our test as it was when the tree was made: no kernel is built again for it.
    """
    room = tree / "tools/testing/selftests/ftrace"
    runner = {name: (room / name).read_bytes() for name in ("ftracetest", "test.d/functions")}
    return runner | {TEST: files("prologue.kernel_tree").joinpath(Path(TEST).name).read_bytes()}
