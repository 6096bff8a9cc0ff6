"""Modules of ours that do what public rootkits do, on a kernel of ours: each is found, and before it nothing is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from prologue.cli.main import main
from prologue.kernel.kernel import Kernel
from prologue.live.memory.sources import open_memory
from prologue_bench.guest.kbuild import make
from tests.real_kernels.native import MACHINES, RECIPES
from tests.support.live_guest import TRACING
from tests.support.needs import needs_built_kernel, needs_tools
from tests.support.serial_guest import SerialGuest, serial_guest

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.timeout(1200)]

SOURCE: Final = Path(__file__).with_name("imitator.c")
# Technique, where it writes, and what it hides from: 1 the list of modules, 2 mod_tree, 4 /sys/module.
TECHNIQUES: Final = (
    ("ftrace", "", 7), ("unlisted", "ftrace_ops_list+0x0", 5), ("kprobe", "", 5),
    ("pointer", "sys_call_table+0x340", 5),
    ("pointer", "kernfs_file_fops+0x10", 7), ("branch", "kernel_halt+0x10", 5),
)  # fmt: skip

ALWAYS: Final = "what is attached to the kernel: callbacks of other kinds"


def findings(vmlinux: Path, guest: SerialGuest, capsys: pytest.CaptureFixture[str]) -> set[tuple[str, str]]:
    """Code and symbol of each, in a dump from a moment when no module changed a direct call: some do all the time."""
    for _ in range(10):
        capsys.readouterr()
        main(["live", "audit", str(vmlinux), str(guest.dump()), "--json"])
        data: dict[str, Any] = json.loads(capsys.readouterr().out)
        if not any("is held" in note for note in data["not_looked_at"]):
            break
    notes = [note for note in data["not_looked_at"] if "attached" in note]
    # Text of init that is about to be freed cannot be told from code that hides; the last one is always there.
    unknown = [note for note in notes if "about to be freed" not in note]
    assert [note.partition(" (netfilter")[0] for note in unknown] == [ALWAYS]
    return {(one["code"], one["symbol"]) for one in data["findings"]}


def test_what_rootkits_do_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs_tools("qemu-system-aarch64", "cpio")
    built = needs_built_kernel(RECIPES["6.12"])
    source = tmp_path / "module"
    source.mkdir()
    shutil.copy(SOURCE, source)
    (source / "Kbuild").write_text("obj-m := imitator.o\n")
    done = make(built.tree, built.recipe, f"M={source}", "modules")
    assert done.returncode == 0, done.stdout
    assert main(["image", str(built.vmlinux), "-o", str(tmp_path / "Image")]) == 0
    symbols, modules = Kernel(built.vmlinux).symbols, [*built.modules, source / "imitator.ko"]
    with serial_guest(tmp_path / "Image", tmp_path, MACHINES["6.12"], modules) as guest:
        events = f"{TRACING}/kprobe_events; echo 1 >{TRACING}/events/kprobes/enable"
        guest.run(f"for m in /ftrace-direct*.ko /overlay.ko; do insmod $m; done; echo p:place vfs_statx+0x20 >{events}")
        assert findings(built.vmlinux, guest, capsys) == set()
        slide = open_memory(str(guest.dump())).info.slide
        assert slide is not None
        guest.run("rmmod ftrace-direct")  # it has vfs_read's like
        for technique, place, hide in TECHNIQUES:
            name, _, offset = place.partition("+")
            symbol = symbols.find(name) if name else None
            at = 0 if symbol is None else symbol.vaddr + slide + int(offset, 16)
            guest.run(f"insmod /imitator.ko technique={technique} at={at:#x} hide={hide}; sleep 3")
        assert "imitator" not in guest.run("cat /proc/modules; ls /sys/module")
        found = findings(built.vmlinux, guest, capsys)
    assert found >= {
        ("PL503", "kernel_halt"), ("PL509", "vfs_read"), ("PL509", "vfs_write"), ("PL512", "sys_call_table"),
        ("PL512", "kernfs_file_fops"), ("PL514", "vfs_writev"),
    }  # fmt: skip
    assert {code for code, _ in found} == {"PL503", "PL508", "PL509", "PL510", "PL511", "PL512", "PL514"}
