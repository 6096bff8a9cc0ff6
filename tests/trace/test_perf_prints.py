"""What perf itself prints, with every set of fields that has the addresses, is read; and nothing of it is lost."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest

from prologue.trace.ranges import GAP, SAMPLE, Tally
from prologue.trace.readers.perf_script import read_perf_script
from prologue.trace.readers.streams import Peekable
from tests.support.perfs import SUITES, needs_perf
from tests.trace.made import BASE, KERNEL, spans
from tests.trace.perf_data import PerfSample, write_perf_data

STEPS = [("vfs_read+16", "read_zero"), ("read_zero+16", "read_zero+24"), ("read_zero+24", "vfs_read+20"),
         ("vfs_read+24", "vfs_read+32"), ("vfs_read+36", "vfs_read")]  # fmt: skip
COMMS = {77: "dd", 4194303: "my cat 3", 654321: "fifteen_letters"}  # up to the highest number (PID_MAX_LIMIT)
RANGES = {
    (cpu, KERNEL.at(start), KERNEL.at(end) + 4)
    for cpu in (0, 1, 2)
    for (_, start), (end, _) in zip(STEPS, [*STEPS[1:], STEPS[0]], strict=True)
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("perf")
    KERNEL.write(made / "vmlinux")
    samples = []
    for time in range(9):
        for cpu, pid in enumerate(COMMS):
            rows: list[tuple[str, str | None]] = [*STEPS, ("read_zero+8", None)]
            for ip, addr in rows:
                at, target = KERNEL.at(ip), None if addr is None else KERNEL.at(addr)
                samples.append(PerfSample(at, target, pid, cpu, 10**9 + time * 1000, (KERNEL.at("vfs_read+20"),)))
    text = BASE, 4 * len(KERNEL.words)
    write_perf_data(made / "plain", samples, COMMS, text, stacks=False)
    write_perf_data(made / "stacks", samples, COMMS, text, stacks=True)
    return made


@pytest.mark.thorough
@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("data", ["plain", "stacks"])
@pytest.mark.parametrize(
    "fields",
    [
        "",  # perf's own
        "comm,pid,tid,cpu,time,event,ip,sym,symoff,addr,dso",
        "comm,pid,tid,cpu,time,event,ip,addr,dso",
        "comm,pid,tid,cpu,event,ip,addr,dso",
        "comm,tid,cpu,time,period,event,ip,addr",
        "pid,cpu,ip,addr,event",
        "cpu,event,ip,sym,addr",
        "comm,pid,tid,cpu,time,misc,event,flags,ip,sym,addr,dso",
        "comm,tid,cpu,event,ip,sym,addr,insn,insnlen,ipc",
        "comm,pid,tid,cpu,time,event,ip,sym,symoff,addr,dso,srcline,insnlen",
        "comm,pid,cpu,time,event,flags,callindent,ip,sym,addr",
    ],
)
def test_what_perf_prints_is_read(directory: Path, data: str, fields: str, suite: str) -> None:
    """Columns differ: pid and tid are five wide in 6.1, seven in 6.12 and 7.2."""
    files = ["-i", str(directory / data), "-k", str(directory / "vmlinux"), *["-F", fields] * bool(fields)]
    text = subprocess.run([str(needs_perf(suite)), "script", "-f", *files], capture_output=True, check=True).stdout
    account = Tally()
    found = spans(read_perf_script(Peekable(io.BytesIO(text), "perf"), account))
    assert account.lines() == []
    assert {row[:3] for row in found if not row[3] & SAMPLE} == RANGES
    assert sum(1 for row in found if row[3] & GAP) == len(COMMS)
    samples = [row for row in found if row[3] & SAMPLE]
    assert [row[1] for row in samples] == [KERNEL.at("read_zero+8")] * 27
    assert len(found) - len(samples) == 3 * (9 * len(STEPS) - 1)
