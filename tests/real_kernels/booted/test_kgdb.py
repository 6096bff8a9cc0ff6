"""Breakpoints that gdb sets through a kernel's kgdb: each explained, and one that kgdb does not know found."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from prologue.cli.main import main
from prologue.live.audit.breakpoints import KGDB_BRK
from prologue.live.memory.sources import open_memory
from prologue_bench.host.child import die_with_parent
from tests.real_kernels.native import MACHINES, RECIPES
from tests.support.needs import needs_built_kernel, needs_tools
from tests.support.serial_guest import HOST, SerialGuest, serial_guest
from tests.support.tool import Tool

# tests/live/audit/test_breakpoints.py has the same tables in memory that it makes.
pytestmark = [pytest.mark.extended, pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.timeout(1200)]

# Functions that the guest does not call while it is looked at: it would stop. The second word is the BL's place.
PLACES: Final = (("kernel_restart", 0), ("kernel_halt", 4), ("orderly_reboot", 12))
REMOVED, ACTIVE = 1, 3  # enum kgdb_bpstate (include/linux/kgdb.h, 6.1-7.2)
GONE: Final = "the kernel runs"


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SerialGuest, Path]]:
    needs_tools("qemu-system-aarch64", "cpio", "gdb-multiarch")
    built, directory = needs_built_kernel(RECIPES["6.1"]), tmp_path_factory.mktemp("kgdb")
    vmlinux = Path(shutil.copy(built.vmlinux, directory))
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    with serial_guest(vmlinux, directory, MACHINES["6.1"], append="kgdboc=ttyAMA0") as running:
        yield running, vmlinux


def set_breakpoints(guest: SerialGuest, addresses: list[int]) -> None:
    """Stop the kernel, let gdb set them and continue, and take gdb away: it would remove them if it ended by itself."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(guest.line))
        line.settimeout(60)
        line.sendall(b"echo g >/proc/sysrq-trigger\n")
        time.sleep(5)  # what follows is for kgdb, not for the shell, and nothing says when it listens
        line.sendall(b"$?#3f")  # why did it stop?
        answer = b""
        while b"$S05#b8" not in answer:  # SIGTRAP
            answer += line.recv(1)
        line.sendall(b"+")
    asked = ["set architecture aarch64", f"target remote {guest.line}", *(f"break *{place:#x}" for place in addresses)]
    asked += ["continue &", f"shell echo '{GONE}'; exec sleep 60"]
    command = ["gdb-multiarch", "-nx", "-batch", *(word for text in asked for word in ("-ex", text))]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl
    ) as debugger:  # fmt: skip
        assert debugger.stdout is not None
        said: list[str] = []
        for text in debugger.stdout:
            said.append(text)
            if GONE in text:
                break
        os.killpg(debugger.pid, signal.SIGKILL)  # the shell that it waits for, too
    assert GONE in said[-1], said


def test_breakpoints_are_explained(guest: tuple[SerialGuest, Path], tool: Tool) -> None:
    running, vmlinux = guest
    names = {name: int(vaddr, 16) for vaddr, _, name in map(str.split, running.run("cat /proc/kallsyms").splitlines())}
    places = [names[name] + offset for name, offset in PLACES]
    set_breakpoints(running, places)
    captured = running.directory / "captured"
    assert main(["live", "capture", HOST, "--vmlinux", str(vmlinux), "-o", str(captured), "-q"]) == 0
    for source in (running.dump(), captured):
        memory = open_memory(str(source))
        assert [int.from_bytes(memory.read(place, 4), "little") for place in places] == [KGDB_BRK] * 3
        data = tool("live", "audit", vmlinux, source, "--json").json
        assert data["findings"] == []
        (kernel,) = data["files"]
        rows = {row["mechanism"]: (row["words"], row["changed"]) for row in kernel["mechanisms"]}
        assert rows["breakpoints"] == (3, 3)
    forget(running.directory / "dump", places[0])
    (finding,) = tool("live", "audit", vmlinux, running.directory / "dump", "--json", status=1).json["findings"]
    assert (finding["code"], finding["symbol"], finding["found"]) == ("PL501", PLACES[0][0], [f"{KGDB_BRK:#x}"])


def forget(dump: Path, place: int) -> None:
    """Change kgdb's table in memory: that breakpoint was removed, it says. Memory may hold copies of the entry."""
    entry = re.compile(re.escape(struct.pack("<Q", place)) + b"(?s:.{4})" + re.escape(struct.pack("<3I", 0, ACTIVE, 0)))
    with dump.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as content:
        starts = [match.start() for match in entry.finditer(content)]
        assert starts
        for start in starts:
            content[start + 16 : start + 20] = struct.pack("<I", REMOVED)
