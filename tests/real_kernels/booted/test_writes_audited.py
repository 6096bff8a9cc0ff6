"""What the audit of two dumps says changed in between is what the plugin saw written in between, word for word."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Final

import pytest

from prologue.elf.flat import write_flat
from prologue.elf.image import ElfImage
from prologue.insn import a64
from prologue.insn.cmodx import word_name
from prologue.kernel.kernel import Kernel
from prologue.live.pokes.recording import Flag, Recording
from prologue.live.pokes.sources import read_any
from prologue_bench.exact.writes import WritesRun, record_writes
from prologue_bench.guest.initramfs import fetch_programs, pack
from prologue_bench.guest.vm import Machine
from tests.support import qmp
from tests.support.needs import needs_kernel, needs_tools
from tests.support.scripted_guest import guest_init
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.timeout(900)]

PLACE: Final = "kernel_halt"  # not called before the end
ONE, TWO = 0x10, 0x14  # where it gets a probe for a moment, before the dumps
PAUSE: Final = 12  # seconds in which the guest writes no text, and is dumped
INIT: Final = f"""
cd /sys/kernel/tracing
pause() {{
	echo "p:$1 {PLACE}+$2" >>kprobe_events
	echo 1 >events/kprobes/$1/enable
	echo 0 >events/kprobes/$1/enable
	echo "pause $1"
	sleep {PAUSE}
	echo "on after $1"
}}
echo 'vfs_*' >set_ftrace_filter
echo function >current_tracer
pause one {ONE}
echo nop >current_tracer
echo 'ksys_*' >>set_ftrace_filter
echo function_graph >current_tracer
echo nop >current_tracer
echo 'ip_*' >set_ftrace_filter
echo function >current_tracer
echo 1 >events/sched/enable
for function in vfs_read vfs_write ksys_read; do
	echo p:k_$function $function+0x10 >>kprobe_events
	echo 1 >events/kprobes/k_$function/enable
done
echo 0 >events/kprobes/k_vfs_read/enable
pause two {TWO}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched(Machine):
    """With a monitor."""

    monitor: Path

    def command(self, image: Path, initramfs: Path | None, append: str) -> list[str]:
        return [*Machine.command(self, image, initramfs, append), "-qmp", f"unix:{self.monitor},server=on,wait=off"]


def dump_in_pauses(monitor: Path, log: Path, dumps: dict[str, Path], over: Event) -> None:
    """Dump the machine in each pause, in which QEMU stops it; one that began too late is left out."""
    for name, path in dumps.items():
        while not (log.exists() and f"pause {name}" in log.read_text(errors="replace")):
            if over.wait(0.2):
                return
        qmp.dump(monitor, path)
        if f"on after {name}" in log.read_text(errors="replace"):
            path.unlink()


def net(recording: Recording, kernel: Kernel) -> Counter[tuple[str, str]]:
    """What became of each word of the kernel between the two marks, by kind."""
    rows, slide, place = recording.rows, recording.trailer.slide or 0, kernel.symbols.require(PLACE)
    address = rows["address"]
    one, two = ((address == place.vaddr + slide + at).nonzero()[0] for at in (ONE, TWO))
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    literals: set[int] = set()
    for row in rows[int(one[-1]) + 1 : int(two[0])]:
        vaddr = int(row["address"])
        first.setdefault(vaddr, int(row["old"]))
        last[vaddr] = int(row["new"])
        if int(row["flags"]) & Flag.LITERAL:
            literals.add(vaddr)
    text = kernel.image.text_sections
    changed = [
        vaddr
        for vaddr, new in last.items()
        if new != first[vaddr] and any(s.addr <= vaddr - slide < s.addr + s.size for s in text)
    ]
    return Counter(
        ("data", "data") if vaddr in literals else (kind(first[vaddr]), kind(last[vaddr])) for vaddr in changed
    )


def kind(word: int) -> str:
    """The class that the audit names."""
    name = word_name(word)
    return (a64.classify(word) or "another") if name == f"{word:08x}" else name


@pytest.mark.extended  # the writes of test_writes and the audits of test_live, compared
def test_counts_agree_with_two_dumps(tmp_path: Path, tool: Tool) -> None:
    needs_tools("qemu-system-aarch64", "gcc", "cpio")
    vmlinux, out, image = needs_kernel("trixie").vmlinux, tmp_path / "out.writes", tmp_path / "Image"
    programs, _ = fetch_programs()
    initrd, log, monitor = tmp_path / "initrd", tmp_path / "log", tmp_path / "qmp"
    content = {"init": guest_init(INIT), "bin/busybox": programs["bin/busybox"]}
    initrd.write_bytes(pack(content, ("bin",)))
    write_flat(ElfImage(vmlinux), image)
    dumps = {name: tmp_path / name for name in ("one", "two")}
    over = Event()
    dumper = Thread(target=dump_in_pauses, args=(monitor, log, dumps, over), daemon=True)
    dumper.start()
    machine = Watched(memory=512, monitor=monitor)
    append = "console=ttyAMA0 panic=-1"
    run = WritesRun(vmlinux=vmlinux, image=image, initramfs=initrd, append=append, machine=machine, timeout=600)
    try:
        record_writes(run, out, tmp_path, log)
    finally:
        over.set()
        dumper.join()
    assert all(path.exists() for path in dumps.values()), "the machine was too slow: a dump was not done in its pause"
    data = tool("live", "audit", vmlinux, *dumps.values(), "--json").json
    said: Counter[tuple[str, str]] = Counter()
    for row in data["transitions"]:
        said[row["old"], row["new"]] += row["words"]
        assert row["allowed"], row
    assert said == net(read_any(out), Kernel(vmlinux))
    assert said["NOP", "BL"] > 50
    assert said["BL", "NOP"] > 50
    assert said["another", "BRK"] == 2
    assert said["NOP", "B"] > 10
    assert said["data", "data"] > 100
