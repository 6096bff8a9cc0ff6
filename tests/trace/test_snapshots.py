"""Snapshots of OpenCSD's own tests: what its decoder prints of real hardware and models is read to the last range."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import zstandard

from prologue.errors import UNDECIDED, InputError
from prologue.insn import a64
from prologue.trace.ranges import OTHER_WORLD, UNKNOWN_CYCLES, count_instructions
from prologue.trace.readers.sources import open_trace
from tests.support.cases import kept_where
from tests.support.snapshots import needs_kernel_dump, needs_snapshot
from tests.support.tool import Tool
from tests.trace.made import KERNEL, MadeKernel

pytestmark = pytest.mark.thorough

# The buffers of these snapshots: STM has no instruction ranges, and neither has memory that is not there.
BUFFERS: Final = {
    "snapshots": (
        "Snowball/ETB_0 TC2/ETB_0 a55-test-tpiu/DSTREAM_0 bugfix-exact-match/etr_0 "
        "a57_single_step/CSTMC_TRACE_FIFO init-short-addr/CSTMC_TRACE_FIFO juno-ret-stck/ETB_0 "
        "juno-uname-001/ETB_0 juno-uname-002/ETB_0 juno_r1_1/ETB_0 juno_r1_1/ETB_1 stm-issue-27/ETB_0 "
        "stm_only/ETB_1 stm_only-2/ETB_1 stm_only-juno/ETB_1 tc2-ptm-rstk-t32/PTM_0_2 "
        "test-file-mem-offsets/ETB_0 trace_cov_a15/PTM_0_2"
    ),
    "snapshots-ete": (
        "001-ack_test/ETB_1 002-ack_test_scr/ETB_1 ete-bc-instr/ETB_1 ete-ite-instr/ETB_1 ete-ite-instr/ETB_2 "
        "ete-wfet/ETB_1 ete-wfet/ETB_2 ete_ip/ETB_1 ete_mem/ETB_1 ete_spec_1/ETB_1 ete_spec_2/ETB_1 "
        "ete_spec_3/ETB_1 event_test/ETB_1 infrastructure/ETB_0 infrastructure/ETB_1 pauth_lr/ETB_1 "
        "pauth_lr/ETB_2 pauth_lr/ETB_3 pauth_lr_Rm/ETB_1 pauth_lr_Rm/ETB_2 pauth_lr_Rm/ETB_3 q_elem/ETB_1 "
        "q_elem/ETB_2 rme_test/ETB_1 rme_test/ETB_2 rme_test/ETB_3 s_9001/ETB_1 s_9001/ETB_2 src_addr/ETB_1 "
        "ss_ib_el1ns/ETB_1 ss_ib_el1ns/ETB_2 tme_simple/ETB_1 tme_tcancel/ETB_1 tme_test/ETB_1 "
        "trace_file_cid_vmid/ETB_1 trace_file_vmid/ETB_1 ts_bit64_set/ETB_1 ts_marker/ETB_1"
    ),
}
NAMES: Final = tuple(f"{kind}/{name}" for kind, names in BUFFERS.items() for name in names.split())
DAMAGE: Final = ("cannot be read", "begin in the middle", "begins in the middle", "not known here")
_JUNO: Final = 0xFFFF000008080000
_RANGE: Final = re.compile(rb"OCSD_GEN_TRC_ELEM_INSTR_RANGE\(exec range=0x\w+:\[0x\w+\] num_i\((\d+)\)")


def _read(path: Path) -> tuple[int, int, dict[str, int]]:
    """How many ranges and instructions there are, and what else was counted."""
    count = instructions = 0
    with open_trace(str(path)) as trace:
        try:
            for batch in trace.batches:
                count += len(batch.ranges)
                instructions += int(count_instructions(batch.ranges).sum())
        except InputError as error:
            assert "has no instruction ranges" in str(error)  # noqa: PT017 - and then there are none
            assert not count
        return count, instructions, dict(trace.account.counts)


def test_all_snapshots_are_there(texts: dict[str, Path]) -> None:
    assert set(NAMES) <= texts.keys()


LARGEST: Final = "snapshots/bugfix-exact-match"


@pytest.mark.parametrize("name", kept_where(lambda name: not name.startswith(LARGEST), NAMES))
def test_every_range_is_read_and_nothing_is_damage(name: str, texts: dict[str, Path]) -> None:
    with texts[name].open("rb") as packed:
        text = zstandard.ZstdDecompressor().stream_reader(packed).read()
    count, instructions, counts = _read(texts[name])
    numbers = list(map(int, _RANGE.findall(text)))
    assert count == len(numbers)
    assert instructions == sum(numbers)
    assert [what for what in counts if any(damage in what for damage in DAMAGE)] == []


def test_cycles_are_those_of_the_text(texts: dict[str, Path]) -> None:
    path = texts["snapshots-ete/src_addr/ETB_1"]
    with path.open("rb") as packed:
        text = zstandard.ZstdDecompressor().stream_reader(packed).read()
    counts = list(map(int, re.findall(rb"CYCLE_COUNT\( \[CC=(\d+)\]", text)))
    assert counts.count(0) == 1
    with open_trace(str(path)) as trace:
        cycles = np.concatenate([batch.ranges["cycles"] for batch in trace.batches]).tolist()
    # The last count has no range after it.
    assert [count for count in cycles if count] == [count or UNKNOWN_CYCLES for count in counts[:-1]]


def test_snapshots_of_later_releases(texts: dict[str, Path]) -> None:
    """Those that are not in the table, if the suite has come to have some."""
    for name in texts.keys() - set(NAMES):
        with texts[name].open("rb") as packed:
            text = zstandard.ZstdDecompressor().stream_reader(packed).read()
        assert _read(texts[name])[0] == len(_RANGE.findall(text)), name


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(LARGEST)])
def test_no_command_fails_on_them(name: str, texts: dict[str, Path], tmp_path: Path, tool: Tool) -> None:
    vmlinux = KERNEL.write(tmp_path / "vmlinux")
    for action in ("check", "stats"):
        printed = tool("trace", action, texts[name], "--vmlinux", vmlinux, status=None)
        said = printed.err
        assert printed.status in (0, 2, UNDECIDED), said
        assert "internal error" not in said


ERRORS: Final = {
    "snapshots-ete/infrastructure/ETB_0": {"0x10": 29, "0x11": 1, "0x13": 1, "0x15": 1},
    "snapshots/juno-ret-stck/ETB_0": {"0x11": 1},
    "snapshots/a55-test-tpiu/DSTREAM_0": {"0x1": 1},
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_counted_by_their_source(name: str, texts: dict[str, Path]) -> None:
    *_, counts = _read(texts[name])
    found = {
        what.partition("trace ID ")[2].partition(":")[0]: count
        for what, count in counts.items()
        if what.startswith("errors of the decoder on trace ID")
    }
    assert found == ERRORS[name]


def test_transactions_that_failed_are_gaps(texts: dict[str, Path]) -> None:
    *_, counts = _read(texts["snapshots-ete/tme_test/ETB_1"])
    assert counts["transactions that failed and were rolled back: a gap"] == 18


def test_a_stale_return_stack_accuses_no_word_of_the_kernel_that_ran(
    texts: dict[str, Path], tmp_path: Path, tool: Tool
) -> None:
    """A Juno board whose decoder has no memory for a part of the kernel, and does not know the calls there."""
    text = needs_kernel_dump("snapshots/juno-ret-stck").read_bytes()
    stale = (0xFFFF0000082E5F2C, 0xFFFF000008138E7C)  # BLs; where the first one ran, nothing can be judged
    for changed, accused, left in (((), {}, 34), (stale, {stale[1]: 20}, 309)):
        words = bytearray(text)
        for vaddr in changed:
            words[vaddr - _JUNO : vaddr - _JUNO + 4] = a64.NOP.to_bytes(4, "little")
        kernel = MadeKernel({}, _JUNO)
        kernel.words = list(struct.unpack(f"<{len(words) // 4}I", words))
        vmlinux = kernel.write(tmp_path / "vmlinux")
        command = ["trace", "check", str(texts["snapshots/juno-ret-stck/ETB_0"]), "--vmlinux", str(vmlinux), "--json"]
        said = tool(*command, status=1 if changed else 0).json
        assert {int(word["vaddr"], 16): word["count"] for word in said["stale"]} == accused
        assert sum(said["steps_not_judged"].values()) == left


def test_a_decoder_that_does_not_know_an_instruction_accuses_no_word(
    texts: dict[str, Path], tmp_path: Path, tool: Tool
) -> None:
    """RETAASPPC and RETABSPPC, which OpenCSD follows from 1.5.1 on; Debian 12 has 1.3.3."""
    data = (needs_snapshot("snapshots-ete/pauth_lr") / "bindir_64" / "VAL_TEST_CODE_exec").read_bytes()
    code = MadeKernel({}, 0x1000000)
    code.words = list(struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4]))
    vmlinux = code.write(tmp_path / "vmlinux")
    ignored = 0
    for name in ("ETB_1", "ETB_2", "ETB_3"):
        text = texts[f"snapshots-ete/pauth_lr/{name}"]
        said = tool("trace", "check", text, "--vmlinux", vmlinux, "--json", status=None).json
        assert said["stale"] == []
        ignored += len(said["decoder"])
        assert all(re.search("does not know reta[ab]sppc", word["message"]) for word in said["decoder"])
    with zstandard.open(texts["snapshots-ete/pauth_lr/ETB_1"]) as stream:
        is_old = re.search(rb"Library Version : 1\.[0-4]\.", stream.read()) is not None
    assert (ignored > 0) == is_old


def test_worlds_of_a_model_with_realms(texts: dict[str, Path]) -> None:
    with open_trace(str(texts["snapshots-ete/rme_test/ETB_1"])) as trace:
        worlds = [flags & OTHER_WORLD != 0 for batch in trace.batches for flags in batch.ranges["flags"].tolist()]
    assert all(worlds)
