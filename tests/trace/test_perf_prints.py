"""What perf itself prints with the fields that are asked for is read to the last line; all else is refused."""

from __future__ import annotations

import io
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from prologue.errors import InputError
from prologue.live.memory.state import KernelTask
from prologue.trace.etm.perf_data import KernelMap, TracedKernel, write_perf_trace
from prologue.trace.etm.processes import TracedProcesses
from prologue.trace.ranges import GAP, Tally
from prologue.trace.readers.perf_lines import COMMAND, FIELDS
from prologue.trace.readers.perf_script import read_perf_script
from prologue.trace.readers.recording import RecordingHeader
from prologue.trace.readers.streams import Peekable
from tests.support.cs_recording import READ, ROUND, TEXT, walk
from tests.support.perfs import SUITES, needs_perf
from tests.trace.made import KERNEL, spans

ROUNDS = 9
COMMS = {77: "dd", 4194303: "my cat 3", 654321: "fifteen_letters"}  # up to the highest number (PID_MAX_LIMIT)
# Up to taken branches: the CBZ that ends the first range of a round is not taken.
TAKEN = [(READ, 5), *ROUND[2:]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of three CPUs, each with a task of its own, and the kernel."""
    made = tmp_path_factory.mktemp("perf")
    KERNEL.write(made / "vmlinux")
    tasks = [KernelTask(pid, pid, comm) for pid, comm in COMMS.items()]
    place, processes = KernelMap("_text", KERNEL.base, 4 * len(KERNEL.words)), TracedProcesses(tasks=tasks)
    rows = np.concatenate([walk(ROUNDS) for _ in COMMS])
    rows["cpu"], rows["task"] = (np.repeat(column, len(rows) // len(COMMS)) for column in (range(3), list(COMMS)))
    rows["time"] = 10**9 + 1000 * np.tile(np.arange(len(rows) // len(COMMS)), len(COMMS))
    kernel = TracedKernel(text=TEXT, place=place, processes=processes)
    write_perf_trace(made / "data", RecordingHeader(slide=0), rows, kernel, levels=(1,))
    return made


def printed(directory: Path, suite: str, fields: str) -> bytes:
    files = ["-i", str(directory / "data"), "-k", str(directory / "vmlinux"), *["-F", fields] * bool(fields)]
    command = [str(needs_perf(suite)), "script", "-f", "--itrace=bi7i", *files]
    return subprocess.run(command, capture_output=True, check=True).stdout


@pytest.mark.thorough
@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize(
    "fields", [FIELDS, "comm,pid,tid,cpu,event,ip,addr,dso"], ids=["asked for", "without times and symbols"]
)
def test_what_perf_prints_is_read(directory: Path, fields: str, suite: str) -> None:
    """Columns differ: pid and tid are five wide in 6.1, seven in 6.12 and 7.2."""
    account = Tally()
    found = spans(read_perf_script(Peekable(io.BytesIO(printed(directory, suite, fields)), "perf"), account))
    (other,) = account.counts.keys() - {"places where tracing began (trace on)"}
    assert other.startswith("other events: instructions")
    for cpu in range(len(COMMS)):
        own = [(start, (end - start) // 4, flags) for on, start, end, flags in found if on == cpu]
        assert own == [(*span, GAP * (k == 0)) for k, span in enumerate((TAKEN * ROUNDS)[:-1])]


@pytest.mark.thorough
@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize(
    "fields",
    [
        "",  # perf's own
        f"{FIELDS},period",
        f"{FIELDS},flags",
        "comm,tid,cpu,time,event,ip,addr",
        "comm,pid,tid,time,event,ip,addr",
        "comm,pid,tid,cpu,time,event,ip,sym",
        "pid,tid,cpu,time,event,ip,addr",
        "cpu,event,ip,sym,addr",
    ],
)
def test_what_perf_prints_otherwise_is_refused(directory: Path, fields: str, suite: str) -> None:
    with pytest.raises(InputError, match=re.escape(COMMAND)):
        list(read_perf_script(Peekable(io.BytesIO(printed(directory, suite, fields)), "perf"), Tally()))
