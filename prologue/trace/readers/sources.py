"""Traces of any kind, which their first bytes show."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from prologue.elf.files import open_regular
from prologue.errors import InputError
from prologue.perf.container import is_perf_data
from prologue.trace.coresight.snapshot import is_snapshot
from prologue.trace.ranges import Batch, Tally
from prologue.trace.readers.decoders import Decoder
from prologue.trace.readers.decoding import DecodedTrace, open_perf_trace, open_snapshot
from prologue.trace.readers.perf_script import read_perf_script
from prologue.trace.readers.recording import MAGIC, RecordingHeader, read_header, read_records
from prologue.trace.readers.streams import STDIN, Peekable, open_stream

_LOOK = 1 << 16
_LISTED = (b"OCSD_GEN_TRC_ELEM_", b"Trace Packet Lister")  # an element, the heading


@dataclass(slots=True, kw_only=True)
class Trace:
    """A trace that is being read; ``account`` grows with the batches. ``header`` is that of a recording."""

    name: str
    kind: str
    batches: Iterator[Batch]
    account: Tally
    header: RecordingHeader | None = None
    decoder: Decoder | None = None
    """The decoder that followed the program; None for a recording."""
    decoded: DecodedTrace | None = None
    """The trace before decoding; its ``follow`` needs the text before the batches are read."""


@contextmanager
def open_trace(source: str) -> Iterator[Trace]:
    """Open a trace of any kind that docs/trace.md names; ``-`` is standard input.

    Raises:
        InputError: it cannot be opened, or is damaged from the start; its batches raise it, too.

    """
    account = Tally()
    decoded = _open_decoded(source, account)
    if decoded is not None:
        decoder = Decoder(decoded.version, decoded.authenticates)
        batches = decoded.batches()
        yield Trace(name=source, kind="coresight", batches=batches, account=account, decoder=decoder, decoded=decoded)
        return
    with open_stream(source) as stream:
        head = stream.peek(_LOOK)
        if head.startswith(MAGIC):
            header = read_header(cast(BinaryIO, stream), stream.name)
            batches = read_records(cast(BinaryIO, stream), account, header.cpus, stream.name)
            yield Trace(name=stream.name, kind="recording", batches=batches, account=account, header=header)
        else:
            _require_text(stream, head)
            batches = read_perf_script(stream, account)
            yield Trace(name=stream.name, kind="perf", batches=batches, account=account, decoder=Decoder())


def _open_decoded(source: str, account: Tally) -> DecodedTrace | None:
    """Open a trace that has to be decoded, from a file, as its parts refer to each other; None for other kinds."""
    path = Path(source)
    if is_snapshot(path):
        return open_snapshot(path, account)
    if path.is_dir() and (path / "data").is_file():
        return open_perf_trace(path, account)
    if source == STDIN or not path.is_file():
        return None
    with open_regular(path) as (fd, _):
        is_perf = is_perf_data(os.pread(fd, 8, 0))
    return open_perf_trace(path, account) if is_perf else None


def _require_text(stream: Peekable, head: bytes) -> None:
    if head.startswith(b"PERFILE2"):
        raise InputError(
            "is perf's data, compressed or from a pipe: name the file itself, for its parts refer to each other",
            path=stream.name,
        )
    if any(mark in head for mark in _LISTED):
        raise InputError(
            "is text of OpenCSD's trc_pkt_lister, which is not read: give what it was made from, the snapshot "
            "directory or perf.data",
            path=stream.name,
        )
    if not head:
        raise InputError("is empty", path=stream.name)
    if b"\0" in head:
        raise InputError("is not a trace: neither a recording nor text of perf script", path=stream.name)
