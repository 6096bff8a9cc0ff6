"""A window of Debian's 6.12 with KASLR, on two CPUs, with the function tracer on.

The recording, what was executed, the overlay of the machine's memory, and OpenCSD's decoder agree to the last
instruction; the vmlinux does not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.trace.ranges import EXCEPTION, RETURN
from prologue.trace.readers.recording import load_recording
from tests.support.needs import needs_kernel, needs_tools
from tests.support.opencsd import decode, merged
from tests.support.texts import text_at
from tests.support.tool import Tool
from tests.support.truth import compare, compare_words

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]

TRACER = "cd /sys/kernel/tracing; echo 0 >tracing_on; echo function >current_tracer"
COMMAND = "sh -c 'dd if=/dev/zero bs=4096 count=60 | cat >/dev/null'"  # more than a pipe holds: both have to run


def test_a_traced_window(tmp_path: Path, tool: Tool) -> None:
    needs_tools("qemu-system-aarch64", "trc_pkt_lister")
    vmlinux = needs_kernel("trixie").vmlinux
    out, truth, dump, live = (tmp_path / name for name in ("out", "truth", "dump", "live"))
    said = tool(
        "trace", "record", vmlinux, "-o", out, "--save-truth", truth, "--save-memory", dump, "--json",
        "--setup", TRACER, "--command", COMMAND, "--begin", "pipe_write", "--until", "__arm64_sys_exit_group",
    ).json  # fmt: skip
    # A count of instructions would end it earlier on a busy host, where a virtual CPU spins for all of them.
    assert said["ended_by"] == "end"
    assert main(["live", "overlay", str(vmlinux), str(dump), "-o", str(live), "-q"]) == 0

    account = compare(out, truth)
    assert account.differences == []
    assert account.executed == said["instructions"] >= 500_000
    header, records = load_recording(out)
    assert header.slide == int(said["slide"], 16) != 0
    # Where an exception came between two ranges, a record of its own says where it returns to; none may have come.
    assert said["ranges"] == np.count_nonzero(records["count"]) <= len(records)
    assert set(np.unique(records["level"]).tolist()) == {0, 1}
    assert {EXCEPTION, RETURN} <= set(np.unique(records["flags"]).tolist())
    assert len(np.unique(records["task"])) >= 2
    ran = compare_words(truth, text_at(live, header.slide), (1,))
    assert ran.inside > 400_000
    assert ran.outside < ran.inside / 50  # the entry trampoline of KPTI is mapped elsewhere
    assert ran.wrong_addresses.tolist() == []
    stale = compare_words(truth, text_at(vmlinux, header.slide), (1,))
    assert stale.wrong > 1_000

    for name, memory in (("good", live), ("bad", vmlinux)):
        command = ("trace", "etm", out, "--vmlinux", live, "-o", tmp_path / name)
        data = tool(*command, "--decoder-vmlinux", memory, "--json").json
    decoded, misled = 0, False
    for cpu in data["cpus"]:
        good, bad = (
            decode(tmp_path / name, cpu["source"], tmp_path / f"{name}{cpu['cpu']}") for name in ("good", "bad")
        )
        mine = records[(records["cpu"] == cpu["cpu"]) & (records["level"] == 1) & (records["count"] > 0)]
        inside = np.zeros(len(mine), np.bool_)
        for vaddr, words in text_at(live, header.slide):
            offset = mine["start"] - np.uint64(vaddr)
            inside |= offset + 4 * mine["count"].astype(np.uint64) <= 4 * len(words)
        assert np.array_equal(good, merged(mine["start"][inside], mine["count"][inside]))
        misled |= not np.array_equal(good, bad)
        decoded += cpu["instructions"]
    assert decoded == ran.inside
    assert misled  # by the vmlinux, on one CPU at least: what each executes in the window is the scheduler's choice
