"""Debian's kernels while they run: what ssh and kcore give is what QEMU has in memory, and what disassemblers show."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from prologue.insn import a64
from prologue.kernel.kernel import Kernel
from prologue.live.pokes.recorder_output import script
from prologue.live.pokes.sources import read_any
from tests.real_kernels.booted.conftest import MODULES, audited, counted
from tests.real_kernels.live_probe_examples import check_examples
from tests.real_kernels.states import PROBES, states, visit
from tests.support.cases import one_tested
from tests.support.live_guest import HOST, TRACING, Guest
from tests.support.pasted import ROOT, pasted
from tests.support.texts import require_only_text_differs
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]


@pytest.fixture(scope="module")
def idle(guest: Guest) -> tuple[Path, Path]:
    """A capture and a dump before anything is traced."""
    return guest.capture("idle.zst"), guest.dump().rename(guest.directory / "idle.dump")


def test_two_ways_to_memory_agree(guest: Guest, idle: tuple[Path, Path], tool: Tool) -> None:
    """kcore read in the guest, by way of a capture and at once, and the machine's memory as QEMU dumps it."""
    captured, dumped = idle
    assert captured.stat().st_size < 30e6
    first = guest.overlay(captured, "first")
    expected = first.read_bytes()
    assert guest.overlay(dumped, "second").read_bytes() == expected
    if guest.linked:  # it reads again and again, which takes its time
        assert guest.overlay(HOST, "second").read_bytes() == expected
    data = tool("live", "overlay", guest.vmlinux, captured, "-o", first, "--json").json
    assert (int(data["slide"], 16) == 0) == guest.linked
    sections = {section["name"]: section for section in data["sections"]}
    text, init = sections[".text"], sections[".init.text"]
    assert text["changed"] > 30_000
    assert (text["kept"], text["unstable"]) == (0, [])
    assert init["kept"] == init["words"]
    require_only_text_differs(guest.vmlinux, first)


def test_somebody_with_a_board(guest: Guest, tmp_path: Path) -> None:
    """The commands of docs/live.md as they are pasted; ``ssh`` knows this board by its name."""
    (tmp_path / "vmlinux").symlink_to(guest.vmlinux)
    ssh, options = shutil.which("ssh"), shlex.join(guest.board.ssh_options)
    assert ssh is not None
    script = f'set -- "${{@/root@board/root@127.0.0.1}}"\nexec {ssh} {options} "$@"\n'
    (tmp_path / "ssh").write_text(f"#!/bin/bash\n{script}")
    (tmp_path / "ssh").chmod(0o755)
    page = (ROOT / "docs" / "live.md").read_text(encoding="utf-8")
    commands = (
        ("prologue live capture ssh:root@board --vmlinux vmlinux -o board.capture.zst", "0"),
        ("prologue live overlay vmlinux board.capture.zst -o vmlinux.live", "0"),
        ("prologue live audit vmlinux board.capture.zst", "0"),
    )
    for command, end in commands:
        assert command in {line.strip().removeprefix("$ ") for line in page.splitlines()}
        said = pasted(command, tmp_path, tmp_path)
        assert said.split()[-1] == end, said
    require_only_text_differs(guest.vmlinux, tmp_path / "vmlinux.live")


def test_every_word_is_explained(guest: Guest, idle: tuple[Path, Path], tool: Tool) -> None:
    said = []
    for source in (*idle, *((HOST,) if guest.linked else ())):
        data = audited(guest, source, tool)
        said.append({one["name"]: one["mechanisms"] for one in data["files"]})
        assert {one["name"] for one in data["files"]} >= {"kernel", *MODULES}
        words, changed, _ = counted(data, "first slots")
        assert words == changed > 36_000
        assert counted(data, "second slots")[1] == 0
        for mechanism in ("alternatives", "jump labels", "relocated literals", "nVHE addresses"):
            assert counted(data, mechanism)[1:] > (0, 0), mechanism
            assert counted(data, mechanism)[2] == 0, mechanism
    assert all(rows == said[0] for rows in said)  # a capture decides what the running kernel's memory decides


@pytest.mark.extended  # test_writes_native records, too, and compares it with what was written
def test_writes_are_recorded(guest: Guest, tool: Tool) -> None:
    """Of tracers, a kprobe and a module; what others set up stays, and of the recorder nothing."""
    events = f"echo 'p:theirs vfs_write' >>{TRACING}/kprobe_events; cat {TRACING}/kprobe_events; ls {TRACING}/instances"
    before = guest.shell(events)
    work = (
        f"cd {TRACING}; echo vfs_read >set_ftrace_filter; echo function >current_tracer; echo nop >current_tracer;"
        "echo >set_ftrace_filter; echo p:mine vfs_read+0x10 >>kprobe_events; echo 1 >events/kprobes/mine/enable;"
        "echo 0 >events/kprobes/mine/enable; echo -:mine >>kprobe_events; rmmod brd; insmod /modules/*-brd.ko"
    )
    out = guest.directory / "board.writes"
    said = tool(
        "writes", "record", HOST, guest.ssh, "-o", out, "--command", f"sh -c {shlex.quote(work)}", "--json"
    ).json
    assert said["lost"] == []
    assert "before and after: compared" in said["notes"][0]
    tool("writes", "judge", out)
    found = read_any(out)
    assert (found.rows["within"] > 0).mean() > 0.9  # the first ones are written before all probes are armed
    changes: dict[int, list[tuple[int, int]]] = {}
    for row in found.rows:
        changes.setdefault(int(row["address"]), []).append((int(row["old"]), int(row["new"])))
    start = Kernel(guest.vmlinux).symbols.require("vfs_read")
    assert found.trailer.slide is not None
    vaddr = start.vaddr + found.trailer.slide
    (old, branch), back = changes[vaddr + 4]
    assert old == a64.NOP
    assert a64.classify(branch) == "BL"
    assert back == (branch, a64.NOP)
    assert [new == 0xD4200080 for _, new in changes[vaddr + 0x10]] == [True, False]  # BRK of a kprobe
    module = [(old, new) for written in changes.values() for old, new in written]
    assert (a64.NOP, a64.MOV_X9_X30) in module
    assert guest.shell(f"cat {TRACING}/kprobe_events; ls {TRACING}/instances") == before
    assert guest.shell("ls /tmp") == ""
    guest.shell(f"echo -:theirs >>{TRACING}/kprobe_events")


# After two seconds it is still setting probes.
@pytest.mark.parametrize(("signal", "seconds"), one_tested(("KILL", 15), ("KILL", 2), ("HUP", 15)))
def test_a_recorder_that_is_killed(guest: Guest, signal: str, seconds: int) -> None:
    """Whatever ends it: no probe stays, nor anything else."""
    command = ["ssh", *guest.board.ssh_options, "root@127.0.0.1", "cat >/tmp/record.sh"]
    subprocess.run(command, input=script(), text=True, check=True)
    left = f"{{ ls -d /tmp/prologue* 2>/dev/null; ls {TRACING}/instances; grep prologue {TRACING}/kprobe_events; }}"
    # What is left when a busy machine has had 30 s to tidy up.
    left = f'for k in $(seq 30); do sleep 1; said=$({left}); [ "$said" ] || break; done; echo -n "$said"'
    said = guest.shell(
        f"timeout -s {signal} {seconds} sh /tmp/record.sh -n -t 0 >/tmp/said 2>&1; cat /tmp/said; {left}; :"
    )
    assert said.replace("Killed\n", "") == ""
    guest.shell("rm /tmp/record.sh /tmp/said")


def test_probes_are_traced(guest: Guest, tool: Tool) -> None:
    check_examples(guest, tool)


def test_every_word_of_every_state_is_explained(guest: Guest, tool: Tool) -> None:
    """No finding where nothing is wrong."""
    visited = {}
    for state, proof in visit(guest, states(guest.vmlinux)):
        visited[state.name] = proof
        audited(guest, guest.dump(), tool)
    assert visited["kprobes"] == str(2 * PROBES)
    assert visited["keys"] == "1"
    assert visited["instances"] == "function function"
    # 6.1 has no direct calls on arm64, and so no BPF at functions' entries.
    assert set(visited["fentry"]) == ({"-"} if guest.linked else {"+"})


def test_a_kernel_that_hides_itself(guest: Guest, tool: Tool) -> None:
    """The last test of a guest: a locked kernel stays so."""
    command = ("live", "capture", HOST, guest.ssh, "-o", guest.directory / "hidden")
    guest.shell("echo 2 >/proc/sys/kernel/kptr_restrict")
    assert "hides its addresses (kernel.kptr_restrict is 2)" in tool(*command, status=2).err
    guest.shell("echo 0 >/proc/sys/kernel/kptr_restrict; echo confidentiality >/sys/kernel/security/lockdown")
    said = tool(*command, status=2).err
    assert "Operation not permitted: log in as root, and see whether /sys/kernel/security/lockdown says none" in said
    assert said.count("\n") == 1
