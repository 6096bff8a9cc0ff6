"""Data of perf record with branches and instructions, as a decoder makes them: for perf script to print."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

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
