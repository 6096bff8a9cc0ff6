"""Opens a trace of any kind: its first bytes say which."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from prologue.trace.decoders import Decoder, common, decoder_of
from prologue.trace.form import Batch, Tally
from prologue.trace.opencsd import Counter, read_opencsd
from prologue.trace.opencsd_lines import MARK
from prologue.trace.perf_script import read_perf_script
from prologue.trace.recording import MAGIC, RecordingHeader, read_header, read_records
from prologue.trace.streams import Peekable, open_stream

_LOOK = 1 << 16


@dataclass(slots=True, kw_only=True)
class Trace:
    """A trace that is being read; ``account`` grows with the batches. ``header`` is that of a recording."""

    name: str
    kind: str
    batches: Iterator[Batch]
    account: Tally
    header: RecordingHeader | None = None
    decoder: Decoder | None = None
    """Which one followed the program; None for a recording."""
    guests: list[tuple[int, Trace]] = field(default_factory=list)
    """Those that were merged into it, with the guests' numbers."""

    @property
    def followed_by(self) -> Decoder | None:
        """The decoder of this trace and of all that were merged into it, as far as they were read; None for recordings.

        Runs of several versions in one text have no version that is known.
        """
        decoders = [one.decoder for one in (self, *(guest for _, guest in self.guests)) if one.decoder is not None]
        if not decoders:
            return None
        several = len(self.account.versions) > 1
        return common([*decoders, Decoder(None, authenticates=True)] if several else decoders)


@contextmanager
def open_trace(source: str, account: Tally | None = None, counter: Counter | None = None) -> Iterator[Trace]:
    """Open text of ``perf script`` or of ``trc_pkt_lister -decode``, or a recording; ``-`` is standard input.

    ``account`` is that of another trace, if both are to share one. ``counter``: see ``read_opencsd``.

    Raises:
        InputError: it cannot be opened, or is damaged from the start; its batches raise it, too.

    """
    account = account or Tally()
    with open_stream(source) as stream:
        head = stream.peek(_LOOK)
        if head.startswith(MAGIC):
            header = read_header(cast(BinaryIO, stream), stream.name)
            batches = read_records(cast(BinaryIO, stream), account, header.cpus, stream.name)
            yield Trace(name=stream.name, kind="recording", batches=batches, account=account, header=header)
        elif MARK in head or b"Trace Packet Lister" in head:
            batches = read_opencsd(stream, account, counter)
            decoder = decoder_of(head)
            yield Trace(name=stream.name, kind="opencsd", batches=batches, account=account, decoder=decoder)
        else:
            _require_text(stream, head)
            batches = read_perf_script(stream, account)
            yield Trace(name=stream.name, kind="perf", batches=batches, account=account, decoder=Decoder())


def _require_text(stream: Peekable, head: bytes) -> None:
    from prologue.errors import InputError

    if head.startswith(b"PERFILE2"):
        raise InputError(
            "is perf's data, not text: perf script -i FILE --itrace=b -F +addr | prologue trace ... -", path=stream.name
        )
    if not head:
        raise InputError("is empty", path=stream.name)
    if b"\0" in head:
        raise InputError(
            "is not a trace: neither a recording nor text of perf script or trc_pkt_lister", path=stream.name
        )
