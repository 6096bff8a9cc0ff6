"""A real kernel whose text changes while it is traced: with the writes, the vmlinux says each executed word."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from prologue.cli.main import main
from prologue.live.pokes.sources import read_any
from prologue.live.system.programs import linked_program
from prologue.trace.path.assign import Kernels
from prologue.trace.path.history import TextHistory
from prologue.trace.path.known import KnownRanges
from prologue.trace.readers.sources import open_trace
from tests.support.compare import addresses
from tests.support.needs import needs_kernel, needs_tools
from tests.support.tool import Tool
from tests.support.truth import load_truth

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]

_TRAPPED, _STALE = 1, 2
_SETUP = "echo vfs_read ksys_read >/sys/kernel/tracing/set_ftrace_filter"
_TURN = (
    "echo 1 >/proc/sys/kernel/sched_schedstats; echo function >/sys/kernel/tracing/current_tracer; cat /proc/version;"
    " echo 0 >/proc/sys/kernel/sched_schedstats; echo nop >/sys/kernel/tracing/current_tracer; cat /proc/version; "
)


class Recorded(NamedTuple):
    vmlinux: Path
    trace: Path
    writes: Path
    truth: npt.NDArray[Any]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    needs_tools("qemu-system-aarch64")
    vmlinux, directory = needs_kernel("trixie").vmlinux, tmp_path_factory.mktemp("writes")
    trace, writes, truth = (directory / name for name in ("trace", "writes", "truth"))
    command = ["trace", "record", str(vmlinux), "-o", str(trace)]
    command += ["--save-writes", str(writes), "--save-truth", str(truth), "--setup", _SETUP]
    # The window opens where the first key is switched: a longer way there would fill it before any write.
    command += ["--begin", "static_key_enable_cpuslocked", "--count", "3000000"]
    assert main([*command, "--command", f"sh -c '{_TURN * 3}'"]) == 0
    rows = load_truth(truth)
    truth.unlink()
    return Recorded(vmlinux, trace, writes, rows[(rows["level"] == 1) & (rows["flags"] & _TRAPPED == 0)])


def differing(recorded: Recorded, *, with_writes: bool) -> tuple[int, int]:
    """How many executed words of the vmlinux's text are not what is said of them, and how many were looked at."""
    with open_trace(str(recorded.trace)) as trace:
        assert trace.header is not None
        program = linked_program(recorded.vmlinux, trace.header.slide or 0)
        history = TextHistory(read_any(recorded.writes), program, 10_000_000, says_exceptions=True)
        known = KnownRanges(Kernels(host=program), history if with_writes else None)
        numbers: dict[int, list[int]] = {}
        for batch, every in known.numbered(trace):
            for cpu, level, number in zip(batch.ranges["cpu"], batch.ranges["level"], every.tolist(), strict=True):
                if level == 1 and known.table[number]["piece"] >= 0:
                    numbers.setdefault(int(cpu), []).append(number)
    wrong = looked = 0
    for cpu, own in numbers.items():
        words = {number: known.words(number) for number in set(own)}
        said = np.concatenate([words[number] for number in own])
        ran = recorded.truth[recorded.truth["cpu"] == cpu]
        ran = ran[program.piece_of(ran["vaddr"], ran["vaddr"] + np.uint64(4)) >= 0][: len(said)]
        firsts = np.cumsum([0, *(len(words[number]) for number in own)])[:-1]
        starts = known.table["start"][own]
        assert addresses(starts[ran["vaddr"][firsts] != starts]) == []
        # A word that memory did not hold any more is QEMU's fault, and no recording of writes can know it.
        wrong += int(((said[: len(ran)] != ran["word"]) & (ran["flags"] & _STALE == 0)).sum())
        looked += len(ran)
    return wrong, looked


def test_text_changes_inside_the_window(recorded: Recorded) -> None:
    with open_trace(str(recorded.trace)) as trace:
        times = np.concatenate([batch.ranges["time"] for batch in trace.batches])
    rows = read_any(recorded.writes).rows
    inside = (rows["time"] > times[times > 0].min()) & (rows["time"] < times.max())
    assert len(set(rows["address"][inside].tolist())) > 20


def test_each_executed_word_is_known(recorded: Recorded) -> None:
    wrong, looked = differing(recorded, with_writes=True)
    assert looked > 500_000
    assert wrong == 0
    assert differing(recorded, with_writes=False)[0] > 1_000


def test_check_is_clean_with_the_writes_and_not_without(recorded: Recorded, tool: Tool) -> None:
    check = ("trace", "check", recorded.trace, "--vmlinux", recorded.vmlinux, "--json")
    assert tool(*check, "--writes", recorded.writes).json["stale"] == []
    stale = {int(place["vaddr"], 16) for place in tool(*check, status=1).json["stale"]}
    assert stale
    assert stale <= set(read_any(recorded.writes).rows["address"].tolist())
