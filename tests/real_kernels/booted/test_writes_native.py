"""Kernels of ours under the plugin: what is recorded inside is what was seen from outside, and faults of two kinds."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from prologue.cli.main import main
from prologue.insn import a64
from prologue.kernel.kernel import Kernel
from prologue.live.pokes.recorder import script
from prologue.live.pokes.recording import Flag, Recording
from prologue.live.pokes.sources import read_any
from prologue_bench.guest.initramfs import fetch_programs, pack
from prologue_bench.host import cache
from tests.real_kernels.native import MACHINES, RECIPES
from tests.support.cases import one_tested
from tests.support.debian.kbuild import BuiltKernel, make
from tests.support.needs import needs_built_kernel, needs_tools

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.timeout(2400)]

HEAD: Final = b"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
mount -t tmpfs tmpfs /tmp
"""
INIT: Final = (
    HEAD
    + b"""
[ ! -e /own.ko ] || insmod /own.ko
sh /record.sh -- sh /work.sh
poweroff -f
"""
)
# Tracers on and off, jump labels, a kprobe, a module: each writes.
WORK: Final = b"""cd /sys/kernel/tracing
insmod /overlay.ko
echo 'vfs_*' >set_ftrace_filter
echo ':mod:overlay' >>set_ftrace_filter
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
# The MOV is not written at boot, but when a function is traced for the first time.
LATE_MOV: Final = {
    "		WRITE_ONCE(*insn, mov);\n": "",
    "	if (first != save_lr && !aarch64_insn_is_brk(first)) {\n": "	if (0) {\n",
    '		pr_err("ftrace: no MOV X9, LR before %pS\\n", (void *)pc);\n		return -EINVAL;\n':
        "		if (ftrace_modify_code(pc - AARCH64_INSN_SIZE, aarch64_insn_gen_nop(),\n"
        "				       ftrace_gen_save_lr(), true))\n"
        "			return -EINVAL;\n",
}  # fmt: skip


def run(
    built: BuiltKernel, vmlinux: Path, module: Path, directory: Path, more: dict[str, bytes] | None = None
) -> tuple[Recording, Recording]:
    """What the recorder and what the plugin recorded."""
    needs_tools("qemu-system-aarch64", "gcc", "cpio")
    programs, _ = fetch_programs()
    content = {
        "init": INIT, "work.sh": WORK, "record.sh": script().encode(), "bin/busybox": programs["bin/busybox"],
        "overlay.ko": module.read_bytes(), **(more or {}),
    }  # fmt: skip
    initrd, out = directory / "initrd", directory / "all.writes"
    initrd.write_bytes(pack(content, ("bin", "proc", "sys", "dev", "tmp")))
    (machine,) = (MACHINES[name] for name, recipe in RECIPES.items() if recipe == built.recipe)
    command = ["writes", "boot", str(vmlinux), "--initrd", str(initrd), "-o", str(out)]
    # With times, the kernel's own messages are told from the recorder's lines.
    assert main([*command, "--cpu-model", machine.cpu, "--append", "printk.time=1"]) == 0
    return read_any(directory / "all.writes.log"), read_any(out)


def judged(capsys: pytest.CaptureFixture[str], directory: Path, status: int) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["writes", "judge", str(directory / "all.writes"), "--json"]) == status
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def live(recording: Recording) -> list[tuple[int, int, int]]:
    """Address, old and new word of each write to text that can run, in the order of time."""
    rows = recording.rows[recording.rows["flags"] & Flag.UNREACHABLE == 0]
    return list(zip(*(rows[name].tolist() for name in ("address", "old", "new")), strict=True))


def require_same(recorded: Recording, seen: Recording) -> None:
    """Nothing is missing between the recorder's first and its last write."""
    assert recorded.trailer.lost == ()
    assert recorded.trailer.slide == seen.trailer.slide
    # This kernel lets one probe the writers that are not traced: every word was recorded twice.
    assert any("copy_to_kernel_nofault was probed, too" in note for note in recorded.trailer.notes)
    ours, theirs = live(recorded), live(seen)
    assert len(ours) > 200
    starts = [k for k, write in enumerate(theirs) if write == ours[0]]
    assert ours in [theirs[start : start + len(ours)] for start in starts]


def overlay(built: BuiltKernel) -> Path:
    (module,) = (path for path in built.modules if path.stem == "overlay")
    return module


# That of 6.12 takes ten minutes, six times as long.
@pytest.mark.parametrize("release", one_tested(*RECIPES))
def test_a_processed_kernel(release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = needs_built_kernel(RECIPES[release])
    vmlinux, module = Path(shutil.copy(built.vmlinux, tmp_path)), Path(shutil.copy(overlay(built), tmp_path))
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    assert main(["patch", str(module), "--in-place", "--contract", "native"]) == 0
    recorded, seen = run(built, vmlinux, module, tmp_path)
    require_same(recorded, seen)
    said = judged(capsys, tmp_path, 0)
    assert said["findings"] == said["not_seen"] == []
    assert not [row for row in said["table"] if "MOV" in row["transition"] and row["writer"] == "ftrace"]
    writers = {row["writer"] for row in said["table"] if row["live"]}
    assert writers >= {"ftrace", "jump label"}
    assert [row["verdict"] for row in said["table"] if row["live"] and row["transition"] == "NOP -> BL"] == ["allowed"]


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[tuple[BuiltKernel, Path, Path]]:
    """6.1 whose ftrace_make_call writes the MOV, and a module that writes text: only these are compiled."""
    built = needs_built_kernel(RECIPES["6.1"])
    source = tmp_path / "module"
    source.mkdir()
    shutil.copy(OWN, source)
    (source / "Makefile").write_text("obj-m := own.o\n")
    # make writes into the build's directory, which is the cache's; on its file system the sources are hard links.
    with tempfile.TemporaryDirectory(dir=cache.root()) as name:
        tree = Path(name) / "tree"
        subprocess.run(["cp", "-al", str(built.tree), str(tree)], check=True)
        shutil.rmtree(tree / "out")
        subprocess.run(["cp", "-a", str(built.out), str(tree / "out")], check=True)
        path = tree / "arch/arm64/kernel/ftrace.c"
        text = path.read_text()
        for old, new in LATE_MOV.items():
            assert text.count(old) == 1
            text = text.replace(old, new)
        path.unlink()  # a hard link into the cache
        path.write_text(text)
        for arguments in (("-j2", "vmlinux"), (f"M={source}", "modules")):
            done = make(tree, built.recipe, "PROLOGUE=true", *arguments)
            assert done.returncode == 0, done.stdout
        yield built, Path(shutil.copy(tree / "out/vmlinux", tmp_path)), source / "own.ko"


@pytest.mark.extended  # it links a kernel; test_writes plants the same faults in an Image
def test_planted_writers(
    planted: tuple[BuiltKernel, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built, vmlinux, own = planted
    recorded, seen = run(built, vmlinux, overlay(built), tmp_path, {"own.ko": own.read_bytes()})
    require_same(recorded, seen)
    findings = judged(capsys, tmp_path, 1)["findings"]
    of: Callable[[str], list[dict[str, Any]]] = lambda code: [f for f in findings if f["code"] == code]  # noqa: E731
    assert {finding["code"] for finding in findings} - {"PL513"} == {"PL308", "PL506", "PL507"}
    # Every function that was traced got its MOV while others ran; of some, nothing had executed anything until then.
    late, kernel = of("PL308") + of("PL513"), Kernel(vmlinux)
    assert kernel.sites is not None
    assert {word for finding in late for word in finding["found"]} == {hex(a64.MOV_X9_X30)}
    assert all("ftrace_make_call" in finding["message"] for finding in late)
    slide = recorded.trailer.slide or 0
    assert {int(finding["vaddr"], 16) - slide for finding in late} <= set(kernel.sites.first.tolist())
    assert len(late) > 20
    # The module is named, with its functions; what has to follow a write is judged by the line that was written.
    strangers = of("PL507")
    assert [(f["symbol"], f["symbol_offset"]) for f in strangers] == [("kernel_halt", 4)] * 4
    assert all("own_poke+0x" in f["message"] and "init_module+0x" in f["message"] for f in strangers)
    without, elsewhere = (f for f in of("PL506") if "own_poke+0x" in f["message"])
    assert "no DC to the point of unification before" in without["message"]
    assert "no DC to the point of unification (for its line)" in elsewhere["message"]
    assert "DC of another line" in elsewhere["message"]
