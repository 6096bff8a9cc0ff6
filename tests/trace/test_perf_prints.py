"""What perf itself prints with the fields that are asked for is read to the last line; all else is refused."""

from __future__ import annotations

import io
import re
import subprocess
from pathlib import Path

import pytest

from prologue.errors import InputError
from prologue.trace.ranges import GAP, Tally
from prologue.trace.readers.perf_lines import COMMAND, FIELDS
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


def printed(directory: Path, suite: str, data: str, fields: str) -> bytes:
    files = ["-i", str(directory / data), "-k", str(directory / "vmlinux"), *["-F", fields] * bool(fields)]
    return subprocess.run([str(needs_perf(suite)), "script", "-f", *files], capture_output=True, check=True).stdout


@pytest.mark.thorough
@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize(
    "fields", [FIELDS, "comm,pid,tid,cpu,event,ip,addr,dso"], ids=["asked for", "without times and symbols"]
)
def test_what_perf_prints_is_read(directory: Path, fields: str, suite: str) -> None:
    """Columns differ: pid and tid are five wide in 6.1, seven in 6.12 and 7.2."""
    account = Tally()
    found = spans(read_perf_script(Peekable(io.BytesIO(printed(directory, suite, "plain", fields)), "perf"), account))
    assert [line.removesuffix(":HG") for line in account.lines()] == ["27 other events: instructions"]
    assert {row[:3] for row in found} == RANGES
    assert sum(1 for row in found if row[3] & GAP) == len(COMMS)
    assert len(found) == 3 * (9 * len(STEPS) - 1)


@pytest.mark.thorough
@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize(
    ("data", "fields"),
    [
        ("plain", ""),  # perf's own
        ("stacks", FIELDS),
        ("plain", f"{FIELDS},period"),
        ("plain", f"{FIELDS},flags"),
        ("plain", "comm,tid,cpu,time,event,ip,addr"),
        ("plain", "comm,pid,tid,time,event,ip,addr"),
        ("plain", "comm,pid,tid,cpu,time,event,ip,sym"),
        ("plain", "pid,tid,cpu,time,event,ip,addr"),
        ("plain", "cpu,event,ip,sym,addr"),
    ],
)
def test_what_perf_prints_otherwise_is_refused(directory: Path, data: str, fields: str, suite: str) -> None:
    with pytest.raises(InputError, match=re.escape(COMMAND)):
        list(read_perf_script(Peekable(io.BytesIO(printed(directory, suite, data, fields)), "perf"), Tally()))
