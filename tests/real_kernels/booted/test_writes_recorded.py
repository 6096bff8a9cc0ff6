"""What is recorded inside of a kernel is what the plugin saw from outside: of Debian's, of ours, and of faults."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.insn import a64
from prologue.kernel.load import open_binary
from prologue.live.pokes.recorder_output import script
from prologue.live.pokes.recording import Flag, Recording
from prologue.live.pokes.sources import read_any
from prologue_bench.guest.initramfs import fetch_programs, pack
from tests.real_kernels.native import MACHINES, RECIPES
from tests.support.cases import one_tested
from tests.support.debian_modules import build_modules
from tests.support.needs import needs_built_kernel, needs_kernel, needs_modules, needs_tools
from tests.support.scripted_guest import guest_init
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.timeout(2400)]

INIT: Final = """
[ ! -e /own.ko ] || insmod /own.ko
sh /record.sh {more} -- sh /work.sh
"""
# Tracers on and off, jump labels, a kprobe, a module: each writes.
WORK: Final = """cd /sys/kernel/tracing
insmod /{module}.ko
echo 'vfs_*' >set_ftrace_filter
echo ':mod:{module}' >>set_ftrace_filter
# 6.1 lets one trace what writes text: the graph tracer changes its return addresses.
echo 'aarch64_insn_*' >>set_ftrace_filter
for tracer in function function_graph nop; do echo $tracer >current_tracer; done
echo 1 >events/sched/enable
echo 0 >events/sched/enable
echo p:place vfs_read+0x10 >>kprobe_events
echo 1 >events/kprobes/place/enable
echo 0 >events/kprobes/place/enable
"""
OWN: Final = Path(__file__).with_name("own.c")


def run(
    vmlinux: Path, module: tuple[str, bytes], directory: Path, *boot: str, more: str = "", own: bytes = b""
) -> tuple[Recording, Recording]:
    """What the recorder and what the plugin recorded."""
    needs_tools("qemu-system-aarch64", "gcc", "cpio")
    name, content = module
    files = {
        "init": guest_init(INIT.format(more=more)), "work.sh": WORK.format(module=name).encode(),
        "record.sh": script().encode(), "bin/busybox": fetch_programs()[0]["bin/busybox"], f"{name}.ko": content,
    }  # fmt: skip
    initrd, out = directory / "initrd", directory / "all.writes"
    initrd.write_bytes(pack(files | ({"own.ko": own} if own else {}), ("bin",)))
    assert main(["writes", "boot", str(vmlinux), "--initrd", str(initrd), "-o", str(out), *boot]) == 0
    return read_any(directory / "all.writes.log"), read_any(out)


def live(recording: Recording) -> list[tuple[int, int, int]]:
    """Address, old and new word of each write to text that can run, in the order of time."""
    rows = recording.rows[recording.rows["flags"] & Flag.UNREACHABLE == 0]
    return list(zip(*(rows[name].tolist() for name in ("address", "old", "new")), strict=True))


def require_same(recorded: Recording, seen: Recording, least: int) -> None:
    """Nothing is missing between the recorder's first and its last write."""
    assert recorded.trailer.lost == ()
    assert recorded.trailer.slide == seen.trailer.slide
    ours, theirs = live(recorded), live(seen)
    assert len(ours) > least
    # Before them come boot and the recorder's own search, after them its probes go away.
    starts = [k for k, write in enumerate(theirs) if write == ours[0]]
    assert ours in [theirs[start : start + len(ours)] for start in starts]


@pytest.mark.extended  # as the next, with a kernel that is larger
def test_a_stock_kernel_and_a_module_that_writes_its_text(tmp_path: Path, tool: Tool) -> None:
    """The module is named, with its functions; what has to follow a write is judged by the line that was written."""
    kernel, source = needs_kernel("bookworm"), tmp_path / "module"
    source.mkdir()
    shutil.copy(OWN, source)
    (source / "Kbuild").write_text("obj-m := own.o\n")
    build_modules(kernel, source)
    (module,) = needs_modules(kernel).rglob("brd.ko*")
    content, own = bytes(open_binary(module).image.content), (source / "own.ko").read_bytes()
    recorded, seen = run(kernel.vmlinux, ("brd", content), tmp_path, more="-n", own=own)
    require_same(recorded, seen, 300)
    assert np.unique(recorded.rows["address"]).size > 100
    findings = tool("writes", "judge", tmp_path / "all.writes", "--json", status=1).json["findings"]
    assert all("own_poke+0x" in finding["message"] for finding in findings)
    strangers = [finding for finding in findings if finding["code"] == "PL507"]
    assert [(f["symbol"], f["symbol_offset"]) for f in strangers] == [("kernel_halt", 4)] * 4 + [("fput", 0)] * 2
    assert all("init_module+0x" in finding["message"] for finding in strangers)
    without, elsewhere = (finding for finding in findings if finding["code"] == "PL506")
    assert "no DC to the point of unification before" in without["message"]
    assert "no DC to the point of unification (for its line)" in elsewhere["message"]
    assert "DC of another line" in elsewhere["message"]
    # A prologue that is taken away and written while others run, of a function that they execute.
    late = [finding for finding in findings if finding["code"] == "PL308"]
    assert [(f["symbol"], f["found"]) for f in late] == [("fput", [hex(a64.NOP)]), ("fput", [hex(a64.MOV_X9_X30)])]
    assert len(findings) == 10


# That of 6.12 takes ten minutes, six times as long.
@pytest.mark.parametrize("release", one_tested(*RECIPES))
def test_a_processed_kernel(release: str, tmp_path: Path, tool: Tool) -> None:
    built = needs_built_kernel(RECIPES[release])
    (overlay,) = (path for path in built.modules if path.stem == "overlay")
    vmlinux, module = Path(shutil.copy(built.vmlinux, tmp_path)), Path(shutil.copy(overlay, tmp_path))
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    assert main(["patch", str(module), "--in-place", "--contract", "native"]) == 0
    # With times, the kernel's own messages are told from the recorder's lines.
    options = ("--cpu-model", MACHINES[release].cpu, "--append", "printk.time=1")
    recorded, seen = run(vmlinux, (module.stem, module.read_bytes()), tmp_path, *options)
    # This kernel lets one probe the writers that are not traced: every word was recorded twice.
    assert any("copy_to_kernel_nofault was probed, too" in note for note in recorded.trailer.notes)
    require_same(recorded, seen, 200)
    said = tool("writes", "judge", tmp_path / "all.writes", "--json").json
    assert said["findings"] == said["not_seen"] == []
    assert not [row for row in said["table"] if "MOV" in row["transition"] and row["writer"] == "ftrace"]
    writers = {row["writer"] for row in said["table"] if row["live"]}
    assert writers >= {"ftrace", "jump label"}
    assert [row["verdict"] for row in said["table"] if row["live"] and row["transition"] == "NOP -> BL"] == ["allowed"]
