"""The examples of docs/probe.md for ``prologue live probe`` on a running kernel: the values are what the guest did."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, Final

import numpy as np

import prologue
from prologue.kernel.kernel import Kernel
from tests.support.live_guest import HOST, TRACING, Guest
from tests.support.tool import Tool

PAGE: Final = Path(prologue.__file__).parent.parent / "docs" / "probe.md"
LOOP_CTL_GET_FREE: Final = "0x4c82"
LEFT: Final = f"ls -d /tmp/prologue* 2>/dev/null; ls {TRACING}/instances; cat {TRACING}/kprobe_events"


def examples(guest: Guest) -> list[list[str]]:
    """The commands of the page, for this guest; an offset of the page's kernel is replaced by that of this one."""
    text = PAGE.read_text(encoding="utf-8").partition("## On a machine that runs")[2].partition("\n## ")[0]
    lines = re.findall(r"^    \$ prologue (live probe .*)", text, re.MULTILINE)
    files = {"vmlinux": str(guest.vmlinux), "ssh:root@board": HOST, "modules/": str(guest.modules)}
    after = f"kernel_clone+{after_call(guest.vmlinux, 'kernel_clone', 'copy_process'):#x}"
    return [
        [re.sub(r"kernel_clone\+0x\w+", after, files.get(word, word)) for word in shlex.split(line)] for line in lines
    ]


def after_call(vmlinux: Path, outer: str, called: str) -> int:
    """The offset in a function of what follows its first call of another."""
    kernel = Kernel(vmlinux)
    start, target = kernel.symbols.require(outer), kernel.symbols.require(called)
    code = kernel.image.read_at(start.vaddr, 0x400)
    assert code is not None
    words = np.frombuffer(code, "<u4")
    # From the function's first instruction; BL has a distance of 26 bits, in words.
    targets = 4 * np.arange(len(words)) + ((words.astype(np.int64) << 38) >> 36)
    calls = np.flatnonzero((words >> 26 == 0x25) & (targets == target.vaddr - start.vaddr))
    return 4 * int(calls[0]) + 4


def run(guest: Guest, words: list[str], tool: Tool) -> dict[str, Any]:
    """What a command prints as JSON; nothing of it stays."""
    before = guest.shell(LEFT)
    data: dict[str, Any] = tool(*words, guest.ssh, "--json").json
    assert (data["refused"], data["lost"], data["unread"]) == ([], [], 0)
    for count in data["counts"]:
        assert count["hits"] >= len([hit for hit in data["hits"] if hit["event"] == count["event"]])
        assert count["misses"] == 0
    assert guest.shell(LEFT) == before
    return data


def values(data: dict[str, Any], event: str) -> list[dict[str, Any]]:
    return [hit["values"] for hit in data["hits"] if hit["event"] == event]


def check_examples(guest: Guest, tool: Tool) -> None:
    entry, both, members, middle, strings = examples(guest)
    data = run(guest, entry, tool)
    assert LOOP_CTL_GET_FREE in {each["cmd"] for each in values(data, "loop_control_ioctl")}

    data = run(guest, both, tool)
    assert 17 in {each["exit_signal"] for each in values(data, "kernel_clone")}  # SIGCHLD
    returned = [hit for hit in data["hits"] if hit["event"] == "kernel_clone__return"]
    children = {hit["values"]["retval"] for hit in returned}
    assert all(hit["place"].endswith(" <- kernel_clone") for hit in returned)
    assert children & {hit["pid"] for hit in data["hits"]} or len(children) > 1

    data = run(guest, members, tool)
    assert {each["wo_type"] for each in values(data, "wait_p")} <= {"PIDTYPE_MAX", "PIDTYPE_PID"}
    assert any(each["retval"] > 1 for each in values(data, "wait_r"))
    assert -10 in {each["retval"] for each in values(data, "wait_r")}  # ECHILD

    data = run(guest, middle, tool)
    copied = {each["task"] for each in values(data, "copied")}
    woken = {each["p"]: each["pid"] for each in values(data, "wake_up_new_task")}
    assert copied == set(woken)
    assert all(task.startswith("0xffff") for task in copied)

    data = run(guest, strings, tool)
    written = [each for each in values(data, "vfs_write") if each["name"] == "known"]
    assert [each["count"] for each in written] == [10] * 6
