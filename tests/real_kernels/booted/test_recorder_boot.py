"""The recorder's script on a real kernel in QEMU: under busybox ash and nothing else, and under dash."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from prologue.cli.main import main
from prologue.kernel.kernel import Kernel
from prologue_bench.guest import deb, initramfs, packages
from prologue_bench.guest.vm import Machine, run_console
from prologue_bench.recorder.gate import evidence, void_reason
from prologue_bench.recorder.output import Recorded, read_recorded
from prologue_bench.recorder.sampling import sample_sites
from prologue_bench.recorder.script import script
from prologue_bench.recorder.task import Task
from prologue_bench.results.model import Workload
from tests.support.needs import needs_kernel, needs_tools
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]

INIT: Final = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for shell in 'busybox ash' dash; do
	LABEL="$shell" $shell /record.sh
done
poweroff -f
"""
HACKBENCH: Final = Workload("hackbench", "hackbench -g 1 -l 5", "seconds", "lower", pattern=r"^Time: \([0-9.]*\)")
NAP: Final = Workload("nap", "sleep 0.2", "seconds", "lower")


def guest(record: str) -> bytes:
    parts = [
        deb.PackageFiles(package)
        for package in packages.download("bookworm", ("busybox-static", "dash", "rt-tests", "libc6", "libnuma1"))
    ]

    def find(name: str) -> bytes:
        return next(data for part in parts if (data := part.find(name)) is not None)

    content = {"init": INIT.encode(), "record.sh": record.encode()}
    content |= {f"bin/{name}": find(name) for name in ("busybox", "dash", "hackbench")}
    todo = [content["bin/dash"], content["bin/hackbench"]]
    while todo:
        for name in initramfs._needed(todo.pop()):
            if f"lib/{name}" not in content:
                content[f"lib/{name}"] = find(name)
                todo.append(content[f"lib/{name}"])
    return initramfs.pack(content, ("bin", "lib", "proc", "sys", "dev"))


def by_label(lines: Iterable[str]) -> Iterator[list[str]]:
    found: list[str] = []
    for line in lines:
        if '@prologue {"event": "begin"' in line and found:
            yield found
            found = []
        found.append(line)
    yield found


@pytest.mark.extended  # test_campaign and test_ssh_board run the script, tests/bench/recorder each shell
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_a_booted_kernel_is_recorded(suite: str, tmp_path: Path, tool: Tool) -> None:
    """And another boot with ``mitigations=off`` is not compared with it: that and what follows of it is named."""
    needs_tools("qemu-system-aarch64", "cpio")
    vmlinux = needs_kernel(suite).vmlinux
    task = Task(workloads=(HACKBENCH, NAP), runs=2, sites=sample_sites(vmlinux))
    assert len(task.sites) == 256
    assert main(["image", str(vmlinux), "-o", str(tmp_path / "Image")]) == 0
    (tmp_path / "initramfs").write_bytes(guest(script(task)))
    logs = [tmp_path / name for name in ("monday.log", "tuesday.log")]
    for log, append in zip(logs, ("", " mitigations=off"), strict=True):
        words = f"console=ttyAMA0 loglevel=4 panic=-1{append}"
        command = Machine(cpu="cortex-a76").command(tmp_path / "Image", tmp_path / "initramfs", words)
        lines, _, ended = run_console(command, tmp_path / "console.log", 300)
        assert ended, lines[-20:]
        parts = {read_recorded(part, task).machine["label"]: part for part in by_label(lines)}
        assert list(parts) == ["busybox ash", "dash"]
        recorded = [read_recorded(part, task) for part in parts.values()]
        for seen in recorded:
            require_sound(seen, Kernel(vmlinux))
        assert len({seen.machine["boot_id"] for seen in recorded}) == 1
        settings = recorded[1].gate_before
        assert settings["command_line"] == words
        assert recorded[1].gate_after["frequencies"] == []  # a guest of QEMU has no cpufreq
        assert {"spec_store_bypass", "spectre_v2"} <= {text.partition(":")[0] for text in settings["vulnerabilities"]}
        assert all(settings[name] is not None for name in ("randomize_va_space", "huge_pages", "memory", "programs"))
        log.write_text("\n".join(parts["dash"]))
    said = tool("bench", "compare", *logs, status=2).err
    assert "settings differ: kernel command line: mitigations=off, but nothing in" in said


def test_sites_are_sampled_outside_of_init_memory() -> None:
    vmlinux = needs_kernel("bookworm").vmlinux
    kernel = Kernel(vmlinux)
    stext, begin, end = (kernel.symbols.require(name) for name in ("_stext", "__init_begin", "__init_end"))
    assert kernel.sites is not None
    first = kernel.sites.first
    assert ((first >= begin.vaddr) & (first < end.vaddr)).any()
    sample = sample_sites(vmlinux)
    assert set(sample) <= set((first - stext.vaddr).tolist())
    assert not any(begin.vaddr <= stext.vaddr + offset < end.vaddr for offset in sample)
    assert (len(sample), sorted(set(sample))) == (256, list(sample))
    assert (sample_sites(vmlinux) == sample, sample_sites(vmlinux, seed=2) == sample) == (True, False)
    assert len(sample_sites(vmlinux, count=10**6)) > 30_000


def require_sound(seen: Recorded, kernel: Kernel) -> None:
    assert seen.readback is not None, seen.gate_before["unread"]
    assert (seen.readback.sites, seen.readback.mov, seen.readback.nop) == (256, 256, 0)
    assert seen.machine["build_id"] == seen.readback.build_id
    assert re.fullmatch("[0-9a-f]{40}", seen.readback.build_id)
    assert seen.machine["release"] == kernel.release
    assert (seen.machine["arch"], seen.machine["cpus"], seen.machine["cpu"]) == ("aarch64", "2", "414fd0b1 x2")
    assert "linux,dummy-virt" in seen.machine["compatible"]
    assert all(value > 0 for value in seen.values["hackbench"])
    assert all(0.2 <= value < 60 for value in seen.values["nap"])
    assert evidence(seen.machine) == "smoke"
    assert void_reason(seen.gate_before, seen.gate_after) is None
