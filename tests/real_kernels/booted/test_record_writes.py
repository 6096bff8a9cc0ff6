"""What the recorder sees on a stock kernel is what QEMU saw: the recorder runs in a guest under the plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.kernel.load import open_binary
from prologue.live.pokes.recorder import script
from prologue.live.pokes.recording import Flag, Recording
from prologue.live.pokes.sources import read_any
from prologue_bench.guest.initramfs import fetch_programs, pack
from tests.support.needs import needs_kernel, needs_modules, needs_tools

# As test_writes_native, with a stock kernel, which is larger.
pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.extended]

INIT: Final = b"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tracefs tracefs /sys/kernel/tracing
mount -t tmpfs tmpfs /tmp
sh /record.sh -n -- sh /work.sh
echo o >/proc/sysrq-trigger
sleep 60
"""
# Tracers on and off, jump labels, kprobes, a module: each writes, and module text, too.
WORK: Final = b"""cd /sys/kernel/tracing
insmod /brd.ko
echo 'vfs_*' >set_ftrace_filter
echo ':mod:brd' >>set_ftrace_filter
for tracer in function function_graph nop; do echo $tracer >current_tracer; done
echo 1 >events/sched/enable
echo 0 >events/sched/enable
echo p:place vfs_read+0x10 >>kprobe_events
echo 1 >events/kprobes/place/enable
echo 0 >events/kprobes/place/enable
"""


def live(recording: Recording) -> list[tuple[int, int, int]]:
    """Address, old and new word of each write to text that can run, in the order of time."""
    rows = recording.rows[recording.rows["flags"] & Flag.UNREACHABLE == 0]
    return list(zip(*(rows[name].tolist() for name in ("address", "old", "new")), strict=True))


def test_the_recorder_and_the_plugin_agree(tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64", "gcc", "cpio")
    kernel = needs_kernel("trixie")
    (module,) = needs_modules(kernel).rglob("brd.ko*")
    programs, _ = fetch_programs()
    content = {
        "init": INIT, "work.sh": WORK, "record.sh": script().encode(), "bin/busybox": programs["bin/busybox"],
        "brd.ko": bytes(open_binary(module).image.content),
    }  # fmt: skip
    initrd, out = tmp_path / "initrd", tmp_path / "all.writes"
    initrd.write_bytes(pack(content, ("bin", "proc", "sys", "dev", "tmp")))
    command = ["writes", "boot", str(kernel.vmlinux), "--initrd", str(initrd), "-o", str(out)]
    assert main(command) == 0
    recorded, seen = read_any(tmp_path / "all.writes.log"), read_any(out)
    assert recorded.trailer.lost == ()
    assert recorded.trailer.slide == seen.trailer.slide
    ours, theirs = live(recorded), live(seen)
    assert len(ours) > 300
    # Before them come boot and the recorder's own search, after them its probes go away.
    starts = [k for k, write in enumerate(theirs) if write == ours[0]]
    assert ours in [theirs[start : start + len(ours)] for start in starts]
    assert np.unique(recorded.rows["address"]).size > 100
