"""Lines of ``trc_pkt_lister``: packets, elements, errors, and remarks.

OpenCSD 0.14 to 1.5.5, and later releases as far as their source shows it: ``trc_gen_elem.cpp`` (elements),
``ocsd_error.cpp`` and ``ocsd_error_logger.cpp`` (errors), ``trc_pkt_elem_*.cpp`` (packets), ``trc_pkt_lister.cpp``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from prologue.live.memory.ranges import KERNEL_HALF
from prologue.trace.coresight import elements as ocsd
from prologue.trace.coresight.elements import ElementKind
from prologue.trace.ranges import LONGEST, UNKNOWN_CYCLES

MARK: Final = b"OCSD_GEN_TRC_ELEM_"
BANNER: Final = b"Trace Packet Lister: CS Decode library testing"
VERSION: Final = b"** Library Version"
# No packet and no error has these: a hole in the text would join one of them with the end of an element.
_NO_ELEMENT: Final = rb"(?!OCSD_GEN|ELEM_|range=0x|num_i\()[^\n]"
# ETM and PTM print "NAME : TEXT"; STM "NAME:Text", with bits in figures for data; ITM "NAME: Text".
_PACKET: Final = (
    rb"Idx:\d+; ID:[0-9a-f]+; ?(?:\[[0-9a-fx ]*\];)?\t(?:\w+ : |[A-Z0-9_]+:(?=[A-Z ]|\d+ bit))(?:%s)*\n" % _NO_ELEMENT
)
# No possessive repeat: Python before 3.11.5 (Debian 12 has 3.11.2) goes on where an attempt at one failed. The engine
# keeps something of each packet until a match ends, so a match takes a few only.
LINE: Final = re.compile(
    rb"(?:%s){0,32}(?:Idx:\d+; ID:([0-9a-f]+); OCSD_GEN_TRC_ELEM_(?:"
    rb"INSTR_RANGE\(exec range=0x([0-9a-f]{1,16}):\[0x([0-9a-f]{1,16})\] num_i\((\d{1,9})\) "
    rb"last_sz\(\d+\) \(ISA=(\w+)\) ([EN] [\w+:.<> -]*)(?: \[CC=(\d{1,10})\]; )?\)\r?\n"
    rb"|(\w+)\(([^\n]*)\)\r?\n)|(?=%s)|([^\n]+)\n|\n|\Z)" % (_PACKET, _PACKET)
)
"""The packets before an element, then the element; or packets alone; or a line that is neither."""
_CONTEXT: Final = re.compile(
    rb"\(ISA=\w+\) (?:EL([0-3]))?(S|N|Root|Realm); (?:64|32)-bit; "
    rb"(?:VMID=0x([0-7]?[0-9a-f]{1,7}); )?(?:CTXTID=0x([0-9a-f]{1,8}); )?(?: \[CC=\d+\]; )?"
)
_TIME: Final = re.compile(rb" \[ TS=0x([0-9a-f]{1,16})\]; (?: \[CC=\d+\]; )?")
_ADDRESS: Final = re.compile(rb" 0x([0-9a-f]{1,16})\b")
_CYCLES: Final = re.compile(rb" \[CC=(\d{1,10})\]; ")
FIRST: Final = frozenset(kind.name.encode() for kind in ocsd.EMPTIES_STACKS)
"""The first elements of an ID; an ID that begins with another one has damaged digits."""
BESIDE: Final = frozenset(
    (b"CYCLE_COUNT", b"EVENT", b"SWTRACE", b"SYNC_MARKER", b"INSTRUMENTATION", b"ITMTRACE", b"CUSTOM")
)
"""Elements that do not change where execution goes on."""
_TRANSACTIONS: Final = (b"Init", b"Start", b"Commit", b"Fail")
"""Kinds of MEMTRANS by ``trace_memtrans_t``: tracing began in one; it began; it succeeded; it was rolled back."""
KINDS: Final = {kind.name.encode(): kind for kind in ElementKind}
_ISAS: Final = {name: number for number, name in enumerate((b"A32", b"T32", b"A64", b"TEE", b"Jaz", b"Cst", b"Unk"))}
_REASONS: Final = {b"init-decoder": ocsd.CREATED, b"reset-decoder": ocsd.RESET, b"bad-program-image": ocsd.BAD_IMAGE}
_FIELDS: Final = (ocsd.ELEMENT.names or ())[1:]
ElementRow = tuple[int, ...]
"""A row of ``ELEMENT``."""
_NUMBERS: Final = (
    rb"(?:Total Bytes|Bad Header Errors|Trace data bytes [\w ]+|Frame demux bytes[\w, ]*|Total bytes [\w ]+)"
)
_REMARK: Final = re.compile(
    rb"ID:[0-9a-f]+\t(?:END OF TRACE DATA|FLUSH operation|RESET operation)|Trace Packet Lister : |Gen_Info : |Filename="
    rb"|Frame Data;|(?:[0-9a-f]{2} ){1,16}\r?$|DSTREAM footer \[|#{7} (?:Multi Session decode: )?Buffer "
    rb"|Reading packet decoder statistics|Decode stats (?:ID|unavailable)|Frame Demux Stats|%s: \d+|\r?$" % _NUMBERS
)
_CODE: Final = re.compile(rb" : 0x[0-9a-f]{4} \(")  # patterns that begin with plain text are fast to search for
_COMPONENT: Final = re.compile(rb"(?:DCD_|PKTP_|DFMT_|ss2_|Gen_Err|Gen_Warn)\w{0,32}\Z")
_PROGRAM: Final = re.compile(rb"Trace Packet Lister(?: : |: CS Decode)")
_GLUED: Final = re.compile(rb"(?<=[^\n])(?=Idx:)")
_ERROR: Final = re.compile(
    rb"(?:(\w+) : )?(?:ERROR:|WARN :|INFO :)?0x[0-9a-f]{4} \((\w+)\)(?: \[[^\]\n]*\])?; "
    rb"(?:TrcIdx=(\d+); )?(?:CS ID=([0-9a-f]{2}); )?((?:(?!Idx:|;\t)%s)*?)(?:ID:[0-9a-f]+\t[A-Z ]+)?\r?" % _NO_ELEMENT
)
_LONGEST_ERROR: Final = 1 << 12
_FATAL: Final = b"Trace Packet Lister : Data Path fatal error"


class DecoderError(NamedTuple):
    """An error that OpenCSD reports: its name, message, and, if printed, its offset in the trace and the trace ID."""

    name: str
    message: str
    offset: int | None
    source: int | None


def read_error(line: bytes) -> DecoderError | None:
    """Read the line of an error; return None if it is another line."""
    error = _ERROR.fullmatch(line) if b"; " in line[:_LONGEST_ERROR] and len(line) <= _LONGEST_ERROR else None
    if error is None:
        return None
    component, name, index, source, message = error.groups()
    # Components of one source have its ID in their name, in decimal digits.
    digits = component.rpartition(b"_")[2] if component else b""
    number = int(source, 16) if source else int(digits) if digits.isdigit() and len(digits) == 4 else None
    text = message.decode("ascii", "backslashreplace").strip()
    return DecoderError(name.decode("ascii"), text, int(index) if index else None, number)


def is_remark(line: bytes) -> bool:
    """Return whether the program prints a line besides its trace."""
    return _REMARK.match(line) is not None


def is_fatal(line: bytes) -> bool:
    """Return whether a line says that decoding ended there."""
    return line.startswith(_FATAL)


def whole_lines(block: bytes, lost: bytes) -> bytes:
    """Break the lines of a block after each message that has no line end.

    Most messages of errors have none: the next element, packet, error or remark stands on their line. The line
    ``lost`` is put before an element or packet that begins in the middle of any other line: there the text has a hole.
    """
    starts = [program.start() for program in _PROGRAM.finditer(block)]
    for code in _CODE.finditer(block):
        component = _COMPONENT.search(block, max(code.start() - 40, 0), code.start())
        starts += [component.start()] if component else []
    glued = [start for start in sorted(starts) if start and block[start - 1 : start] != b"\n"]
    if glued:
        block = b"\n".join(block[low:high] for low, high in pairwise([0, *glued, len(block)]))
    if block.count(b"Idx:") != block.count(b"\nIdx:") + block.startswith(b"Idx:"):
        block = _GLUED.sub(_after_error(block, lost), block)
    return block


def _after_error(block: bytes, lost: bytes) -> Callable[[re.Match[bytes]], bytes]:
    def line_end(at: re.Match[bytes]) -> bytes:
        start = block.rfind(b"\n", max(at.start() - _LONGEST_ERROR, 0), at.start()) + 1
        return b"\n" if start and read_error(block[start : at.start()]) else b"\n" + lost + b"\n"

    return line_end


def range_row(start: bytes, end: bytes, count: bytes, isa: bytes, tail: bytes) -> ElementRow | None:
    """Return the row of a range; None if it cannot have that number of instructions."""
    first, last, insns = int(start, 16), int(end, 16), int(count)
    size = last - first
    if isa not in _ISAS or not 0 < size < LONGEST:
        return None
    if isa in (b"A64", b"A32"):
        is_possible = first & 3 == 0 and size == 4 * insns
    else:
        is_possible = isa not in (b"T32", b"TEE") or 2 * insns <= size <= 4 * insns
    if not is_possible:
        return None
    return (ElementKind.INSTR_RANGE, _ISAS[isa], first, last, 0, 0, 0, 0, 0, 0, 0, *_last_instruction(tail), insns)


@lru_cache(256)
def _last_instruction(tail: bytes) -> tuple[int, int, int]:
    """Return kind, subkind and flags of a range's last instruction, which a line describes at its end."""
    kind = ocsd.BRANCH if tail[2:].startswith(b"BR") else ocsd.INDIRECT if b"iBR" in tail else 0
    subkind = ocsd.LINK if b"b+link" in tail else ocsd.ERET if b"eret" in tail else 0
    return kind, subkind, ocsd.EXECUTED if tail.startswith(b"E") else 0


def cycles_row(cycles: bytes) -> ElementRow:
    """Return the row of a count of cycles."""
    return element_row(ElementKind.CYCLE_COUNT, cycles=min(int(cycles), UNKNOWN_CYCLES))


def other_row(element: bytes, content: bytes) -> ElementRow | None:
    """Return the row of an element that is no range; None if what is in its brackets cannot be read."""
    kind, value = KINDS[element], 0
    if kind == ElementKind.PE_CONTEXT:
        return _context_row(content)
    if kind == ElementKind.TIMESTAMP:
        return element_row(kind, timestamp=int(time[1], 16)) if (time := _TIME.fullmatch(content)) else None
    if kind == ElementKind.CYCLE_COUNT:
        return cycles_row(cycles[1]) if (cycles := _CYCLES.fullmatch(content)) else None
    if kind == ElementKind.ADDR_NACC:
        address = _ADDRESS.match(content)
        return element_row(kind, start=int(address[1], 16) if address else KERNEL_HALF)  # damaged: of no process
    if kind == ElementKind.MEMTRANS:
        transaction = content.partition(b" ")[0]
        return element_row(kind, value=_TRANSACTIONS.index(transaction)) if transaction in _TRANSACTIONS else None
    if kind == ElementKind.NO_SYNC:
        value = next((value for reason, value in _REASONS.items() if reason in content), 0)
    elif kind == ElementKind.TRACE_ON:
        value = ocsd.OVERFLOW if b"overflow" in content else 0
    return None if kind == ElementKind.INSTR_RANGE else element_row(kind, value=value)


def _context_row(content: bytes) -> ElementRow | None:
    match = _CONTEXT.fullmatch(content)
    if match is None:
        return None
    level, security, vmid, context = match.groups()
    valid = (ocsd.HAS_LEVEL if level else 0) | (ocsd.HAS_VMID if vmid else 0) | (ocsd.HAS_CONTEXT if context else 0)
    return element_row(
        ElementKind.PE_CONTEXT,
        security=ocsd.NONSECURE if security == b"N" else 0,
        level=int(level or b"0"),
        context=int(context or b"0", 16),
        vmid=int(vmid or b"0", 16),
        valid=valid,
    )


def element_row(kind: int, **fields: int) -> ElementRow:
    """Return a row of ``ELEMENT`` with these fields; all others are 0."""
    return (kind, *(fields.get(name, 0) for name in _FIELDS))
