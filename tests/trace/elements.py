"""Elements in place of those that OpenCSD's library would make of a trace: what is said of them needs no library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from unittest.mock import patch

import numpy as np

from prologue.perf.coresight import TraceProtocol, TraceUnit
from prologue.trace.coresight import elements as ocsd
from prologue.trace.coresight.elements import ELEMENT, ElementKind, Elements
from prologue.trace.coresight.library import LibraryVersion
from prologue.trace.coresight.process import Begin, Decoded, DecodeJob, DecoderText, TracePart, TraceSource
from prologue.trace.ranges import Tally, TracedTask
from prologue.trace.readers import decoding, sources
from prologue.trace.readers.decoder_reports import ElementNaming
from prologue.trace.readers.decoding import DecodedTrace

Message = Elements | DecoderText
CPU = 16
# Kind, subkind and flags of a range's last instruction.
TAKEN, NOT_TAKEN, CALL = (ocsd.BRANCH, 0, ocsd.EXECUTED), (ocsd.BRANCH, 0, 0), (ocsd.BRANCH, ocsd.LINK, ocsd.EXECUTED)
RET, OTHER = (ocsd.INDIRECT, 0, ocsd.EXECUTED), (0, 0, ocsd.EXECUTED)


def element(kind: ElementKind, cpu: int = CPU, **fields: int) -> list[Message]:
    rows = np.zeros(1, ELEMENT)
    for name, value in {"kind": kind, **fields}.items():
        rows[name] = value
    return [Elements(rows, np.array([cpu], np.uint8), np.zeros(0, np.uint64))]


def range_(
    start: int, count: int, cpu: int = CPU, *, last: tuple[int, int, int] = TAKEN, isa: int = ocsd.A64, size: int = 0
) -> list[Message]:
    """Instructions, of four bytes each unless ``size`` says how many bytes all have."""
    kind, subkind, flags = last
    end = start + (size or 4 * count)
    fields = {"isa": isa, "last_kind": kind, "last_subkind": subkind, "flags": flags, "value": count}
    return element(ElementKind.INSTR_RANGE, cpu, start=start, end=end, **fields)


def context(
    level: int, *, security: int = ocsd.NONSECURE, vmid: int | None = None, process: int | None = None
) -> list[Message]:
    valid = ocsd.HAS_LEVEL | ocsd.HAS_VMID * (vmid is not None) | ocsd.HAS_CONTEXT * (process is not None)
    fields = {"security": security, "level": level, "vmid": vmid or 0, "context": process or 0, "valid": valid}
    return element(ElementKind.PE_CONTEXT, **fields)


def error(name: str, message: str, source: str = "CS ID=10; ", code: int = 0x19) -> list[Message]:
    """As OpenCSD's error logger prints one."""
    line = f"DCD_ETMV4_{CPU:04} : {code:#06x} ({name}) [What it is.]; TrcIdx=26; {source}{message}\n"
    return [DecoderText((line if source else line.partition(" : ")[2]).encode())]


ON = element(ElementKind.TRACE_ON)
GAP = element(ElementKind.NO_SYNC, value=ocsd.CREATED)
BAD_IMAGE = element(ElementKind.NO_SYNC, value=ocsd.BAD_IMAGE)


@dataclass(frozen=True)
class ElementTrace:
    """What the library says of a trace, its version, and the protocol of the trace unit."""

    messages: Sequence[Message]
    version: LibraryVersion = (1, 5, 5)
    protocol: TraceProtocol = TraceProtocol.ETE
    process_in_vmid: bool = False

    def _open(self, source: str, account: Tally) -> DecodedTrace:
        unit = TraceUnit(cpu=0, protocol=self.protocol)
        parts = (TracePart(0, 0, 0),)
        job = DecodeJob(path=Path(source), sources=(TraceSource((unit,), framed=False),), parts=parts, memory=())
        naming = ElementNaming(
            cpu=int,
            time=int,
            task=lambda process, _: TracedTask("", process, process),
            process_in_vmid=self.process_in_vmid,
            checks_images=True,
            return_stack=True,
        )
        return DecodedTrace(version=self.version, jobs=((job, (naming,)),), account=account, own_memory=True)

    def _decode(self, _job: DecodeJob, _version: LibraryVersion) -> Iterator[Decoded]:
        yield Begin(0)
        for are_elements, group in groupby(self.messages, lambda message: isinstance(message, Elements)):
            if not are_elements:
                yield from group
                continue
            rows, ids, indexes = zip(*group, strict=True)
            yield Elements(np.concatenate(rows), np.concatenate(ids), np.concatenate(indexes))

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let every trace that is opened be this one."""
        with patch.object(sources, "_open_decoded", self._open), patch.object(decoding, "decode", self._decode):
            yield
