"""Snapshots of OpenCSD's own tests, real hardware and models: each range is as OpenCSD's own program prints it."""

from __future__ import annotations

import re
import struct
from collections import Counter, defaultdict
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from prologue.errors import UNDECIDED, InputError
from prologue.insn import a64
from prologue.trace.coresight.library import require_library
from prologue.trace.coresight.snapshot import SnapshotBuffer, read_snapshot
from prologue.trace.ranges import NO_LEVEL, NO_VMID, OTHER_WORLD, UNKNOWN_CYCLES, count_instructions
from prologue.trace.readers.sources import open_trace
from tests.support.cases import kept_where
from tests.support.opencsd import listed
from tests.support.snapshots import needs_snapshots
from tests.support.tool import Tool
from tests.trace.made import KERNEL, MadeKernel

pytestmark = pytest.mark.thorough

NAMES: Final = tuple(
    f"{kind}/{name}"
    for kind, names in {
        "snapshots": (
            "Snowball TC2 a55-test-tpiu bugfix-exact-match a57_single_step init-short-addr juno-ret-stck "
            "juno-uname-001 juno-uname-002 juno_r1_1 stm-issue-27 stm_only stm_only-2 stm_only-juno tc2-ptm-rstk-t32 "
            "test-file-mem-offsets trace_cov_a15"
        ),
        "snapshots-ete": (
            "001-ack_test 002-ack_test_scr ete-bc-instr ete-ite-instr ete-wfet ete_ip ete_mem ete_spec_1 ete_spec_2 "
            "ete_spec_3 event_test infrastructure pauth_lr pauth_lr_Rm q_elem rme_test s_9001 src_addr ss_ib_el1ns "
            "tme_simple tme_tcancel tme_test trace_file_cid_vmid trace_file_vmid ts_bit64_set ts_marker"
        ),
    }.items()
    for name in names.split()
)
LARGEST: Final = "snapshots/bugfix-exact-match"
OLD: Final = {"Snowball": "PTM1.0", "TC2": "ETM3.5", "tc2-ptm-rstk-t32": "PFT1.1", "trace_cov_a15": "PFT1.1"}
"""Snapshots of ETMv3 and PTM, which are refused by name."""
COLUMNS: Final = ("cpu", "start", "end", "count", "level", "vmid", "process", "time", "is_other_world")
_JUNO: Final = 0xFFFF000008080000
_LINE: Final = re.compile(
    rb"Idx:\d+; ID:(\w+); OCSD_GEN_TRC_ELEM_(?:"
    rb"INSTR_RANGE\(exec range=0x(\w+):\[0x(\w+)\] num_i\((\d+)\)"
    rb"|PE_CONTEXT\(\(ISA=\w+\) (?:EL(\d))?(\w+); \d+-bit; (?:VMID=0x(\w+); )?(?:CTXTID=0x(\w+); )?"
    rb"|TIMESTAMP\( \[ TS=0x(\w+)\])"
)


def printed(text: bytes, buffer: SnapshotBuffer) -> list[tuple[Any, ...]]:
    """The ranges of a text of ``trc_pkt_lister``, by a reader of its own."""
    in_vmid, rows = any(unit.process_in_vmid for unit in buffer.source.units), list[tuple[Any, ...]]()
    contexts: dict[bytes, tuple[int, int, int, bool]] = defaultdict(lambda: (NO_LEVEL, NO_VMID, -1, False))
    times: dict[bytes, int] = defaultdict(int)
    for number, start, end, count, level, world, vmid, process, time in _LINE.findall(text):
        if start:
            span = int(start, 16), int(end, 16), int(count)
            rows.append((int(number, 16), *span, *contexts[number][:3], times[number], contexts[number][3]))
        elif time:
            times[number] = int(time, 16)
        else:
            own = int((vmid if in_vmid and vmid else process) or b"0", 16) or -1
            numbers = int(level) if level else NO_LEVEL, int(vmid, 16) if vmid else NO_VMID, own
            contexts[number] = (*numbers, world != b"N")
    return rows


def read(directory: Path) -> tuple[list[tuple[Any, ...]], Counter[str]]:
    """The ranges of a snapshot, in the same form, and what else was counted."""
    rows = list[tuple[Any, ...]]()
    try:
        with open_trace(str(directory)) as trace:
            for batch in trace.batches:
                ranges, tids = batch.ranges, np.array([task.tid for task in batch.tasks])
                columns = [ranges[name] for name in ("cpu", "start", "end", "level", "vmid", "time")]
                columns.insert(3, count_instructions(ranges))
                columns.insert(6, tids[ranges["task"]])
                columns.append(ranges["flags"] & np.uint8(OTHER_WORLD) != 0)
                rows += zip(*(column.tolist() for column in columns), strict=True)
    except InputError as error:
        assert re.search("has no instruction ranges|has no trace of an ETMv4 or ETE", str(error))  # noqa: PT017
        return [], Counter()
    return rows, trace.account.counts


def test_all_snapshots_are_there() -> None:
    assert set(NAMES) <= needs_snapshots().keys()


@pytest.mark.parametrize("name", kept_where(lambda name: name != LARGEST, NAMES))
def test_every_range_is_as_trc_pkt_lister_has_it(name: str, tmp_path: Path) -> None:
    directory = needs_snapshots()[name]
    short = name.rpartition("/")[2]
    if short in OLD:
        with pytest.raises(InputError, match=OLD[short]), open_trace(str(directory)):
            pass
        return
    texts = ((listed(directory, buffer.name, tmp_path / buffer.name), buffer) for buffer in read_snapshot(directory))
    expected = list(chain.from_iterable(printed(*each) for each in texts))
    rows, _ = read(directory)
    for column, own, theirs in zip(COLUMNS, zip(*rows, strict=True), zip(*expected, strict=True), strict=False):
        assert own == theirs, column
    assert len(rows) == len(expected)


def test_cycles_are_those_of_the_text(tmp_path: Path) -> None:
    directory = needs_snapshots()["snapshots-ete/src_addr"]
    text = listed(directory, "ETB_1", tmp_path / "log")
    counts = list(map(int, re.findall(rb"CYCLE_COUNT\( \[CC=(\d+)\]", text)))
    assert counts.count(0) == 1
    with open_trace(str(directory)) as trace:
        cycles = np.concatenate([batch.ranges["cycles"] for batch in trace.batches]).tolist()
    # The last count has no range after it.
    assert [count for count in cycles if count] == [count or UNKNOWN_CYCLES for count in counts[:-1]]


@pytest.mark.parametrize("name", [name for name in NAMES if name != LARGEST])
def test_no_command_fails_on_them(name: str, tmp_path: Path, tool: Tool) -> None:
    vmlinux = KERNEL.write(tmp_path / "vmlinux")
    for action in ("check", "stats"):
        end = tool("trace", action, needs_snapshots()[name], "--vmlinux", vmlinux, status=None)
        assert end.status in (0, 2, UNDECIDED), end.err
        assert "internal error" not in end.err


ERRORS: Final = {
    "snapshots-ete/infrastructure": {"0x10": 29, "0x11": 1, "0x13": 1, "0x15": 1},
    "snapshots/juno-ret-stck": {"0x11": 1},
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_counted_by_their_source(name: str) -> None:
    counts, mark = Counter[str](), "errors of the decoder on trace ID "
    for what, count in read(needs_snapshots()[name])[1].items():
        counts[what.removeprefix(mark).partition(":")[0]] += count * what.startswith(mark)
    assert +counts == ERRORS[name]


def test_transactions_that_failed_are_gaps() -> None:
    _, counts = read(needs_snapshots()["snapshots-ete/tme_test"])
    assert counts["transactions that failed and were rolled back: a gap"] == 18


def test_a_stale_return_stack_accuses_no_word_of_the_kernel_that_ran(tmp_path: Path, tool: Tool) -> None:
    """A Juno board whose decoder has no memory for a part of the kernel, and does not know the calls there."""
    directory = needs_snapshots()["snapshots/juno-ret-stck"]
    text = (directory / "kernel_dump.bin").read_bytes()
    stale = (0xFFFF0000082E5F2C, 0xFFFF000008138E7C)  # BLs; where the first one ran, nothing can be judged
    for changed, accused, left in (((), {}, 34), (stale, {stale[1]: 20}, 309)):
        words = bytearray(text)
        for vaddr in changed:
            words[vaddr - _JUNO : vaddr - _JUNO + 4] = a64.NOP.to_bytes(4, "little")
        kernel = MadeKernel({}, _JUNO)
        kernel.words = list(struct.unpack(f"<{len(words) // 4}I", words))
        command = ["trace", "check", directory, "--vmlinux", kernel.write(tmp_path / "vmlinux"), "--json"]
        end = tool(*command, status=1 if changed else 0).json
        assert {int(word["vaddr"], 16): word["count"] for word in end["stale"]} == accused
        assert sum(end["steps_not_judged"].values()) == left


def test_a_decoder_that_does_not_know_an_instruction_accuses_no_word(tmp_path: Path, tool: Tool) -> None:
    """RETAASPPC and RETABSPPC, which OpenCSD follows from 1.5.1 on; Debian 12 has 1.3.3."""
    directory = needs_snapshots()["snapshots-ete/pauth_lr"]
    data = (directory / "bindir_64" / "VAL_TEST_CODE_exec").read_bytes()
    code = MadeKernel({}, 0x1000000)
    code.words = list(struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4]))
    vmlinux = code.write(tmp_path / "vmlinux")
    end = tool("trace", "check", directory, "--vmlinux", vmlinux, "--json", status=None).json
    assert end["stale"] == []
    assert all(re.search("does not know reta[ab]sppc", word["message"]) for word in end["decoder"])
    assert (end["decoder"] != []) == (require_library() < (1, 5, 1))
