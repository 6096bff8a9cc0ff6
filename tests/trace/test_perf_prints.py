"""What perf itself prints with the fields that are asked for is read to the last line; all else is refused."""

from __future__ import annotations

import io
import re
import struct
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from prologue.errors import InputError
from prologue.trace.ranges import GAP, Tally
from prologue.trace.readers.perf_lines import COMMAND, FIELDS
from prologue.trace.readers.perf_script import read_perf_script
from prologue.trace.readers.streams import Peekable
from tests.support.perfs import SUITES, needs_perf
from tests.trace.made import BASE, KERNEL, spans

# include/uapi/linux/perf_event.h, 6.1: what a sample says, in this order (PERIOD before the stack).
_IP, _TID, _TIME, _ADDR, _CALLCHAIN, _CPU, _PERIOD, _IDENTIFIER = 1, 2, 4, 8, 1 << 5, 1 << 7, 1 << 8, 1 << 16
_HW_INSTRUCTIONS, _HW_BRANCHES = 1, 4
_MMAP, _COMM, _SAMPLE = 1, 3, 9
_KERNEL = 1  # PERF_RECORD_MISC_KERNEL
_CONTEXT_KERNEL: Final = (1 << 64) - 128
_ATTR: Final = 128  # bytes of PERF_ATTR_SIZE_VER7
_HEADER: Final = 104


class PerfSample(NamedTuple):
    """A branch, or an instruction where ``addr`` is None; ``stack`` is that of its callers."""

    ip: int
    addr: int | None
    pid: int
    cpu: int
    time: int
    stack: Sequence[int] = ()


def write_perf_data(
    path: Path, samples: Iterable[PerfSample], comms: dict[int, str], text: tuple[int, int], *, stacks: bool
) -> Path:
    """A file that perf 6.1 and later reads; ``text`` is address and size of the kernel's text."""
    kind = _IP | _TID | _TIME | _ADDR | _CPU | _PERIOD | _IDENTIFIER | (_CALLCHAIN if stacks else 0)
    attrs = b""
    for row, (config, period) in enumerate(((_HW_BRANCHES, 1), (_HW_INSTRUCTIONS, 1000))):
        attr = struct.pack("<IIQQQ", 0, _ATTR, config, period, kind).ljust(_ATTR, b"\0")
        attrs += attr + struct.pack("<QQ", _HEADER + 8 * row, 8)
    named = struct.pack("<iiQQQ", -1, 0, *text, text[0]) + _text("[kernel.kallsyms]_text")
    records = [_record(_MMAP, _KERNEL, named)]
    records += [_record(_COMM, 0, struct.pack("<II", pid, pid) + _text(comm)) for pid, comm in comms.items()]
    records += [_sample(one, stacks=stacks) for one in samples]
    data, ids = b"".join(records), struct.pack("<QQ", 1, 2)
    at = _HEADER + len(ids)
    sections = (at, len(attrs), at + len(attrs), len(data), 0, 0)
    path.write_bytes(
        b"PERFILE2" + struct.pack("<QQ6Q", _HEADER, _ATTR + 16, *sections) + bytes(32) + ids + attrs + data
    )
    return path


def _sample(one: PerfSample, *, stacks: bool) -> bytes:
    row = 1 if one.addr is not None else 2
    body = struct.pack("<QQIIQQIIQ", row, one.ip, one.pid, one.pid, one.time, one.addr or 0, one.cpu, 0, 1)
    if stacks:
        chain = (_CONTEXT_KERNEL, one.ip, *one.stack)
        body += struct.pack(f"<{1 + len(chain)}Q", len(chain), *chain)
    return _record(_SAMPLE, _KERNEL, body)


def _record(kind: int, misc: int, body: bytes) -> bytes:
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def _text(name: str) -> bytes:
    data = name.encode() + b"\0"
    return data + bytes(-len(data) % 8)


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
