"""Lines of ``trc_pkt_lister``: packets, elements, errors, and remarks.

OpenCSD 0.14 to 1.5.5, and later releases as far as their source shows it: ``trc_gen_elem.cpp`` (elements),
``ocsd_error.cpp`` and ``ocsd_error_logger.cpp`` (errors), ``trc_pkt_elem_*.cpp`` (packets), ``trc_pkt_lister.cpp``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple

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
ELEMENT: Final = re.compile(
    rb"(?:%s){0,32}(?:Idx:\d+; ID:([0-9a-f]+); OCSD_GEN_TRC_ELEM_(?:"
    rb"INSTR_RANGE\(exec range=0x([0-9a-f]+):\[0x([0-9a-f]+)\] num_i\((\d+)\) "
    rb"last_sz\(\d+\) \(ISA=(\w+)\) ([EN] [\w+:.<> -]*)(?: \[CC=(\d{1,10})\]; )?\)\r?\n"
    rb"|(\w+)\(([^\n]*)\)\r?\n)|(?=%s)|([^\n]+)\n|\n|\Z)" % (_PACKET, _PACKET)
)
"""The packets before an element, then the element; or packets alone; or a line that is neither."""
_FLOW: Final = re.compile(rb"ID:([0-9a-f]+); ?\[[0-9a-fx ]*\];\tI_(ADDR_|EXCEPT :|COMMIT|CANCEL|MISPREDICT)")
CONTEXT: Final = re.compile(
    rb"\(ISA=\w+\) (?:EL([0-3]))?(S|N|Root|Realm); (?:64|32)-bit; "
    rb"(?:VMID=0x([0-9a-f]+); )?(?:CTXTID=0x([0-9a-f]+); )?(?: \[CC=\d+\]; )?"
)
TIME: Final = re.compile(rb" \[ TS=0x([0-9a-f]+)\]; (?: \[CC=\d+\]; )?")
CYCLES: Final = re.compile(rb" \[CC=(\d{1,10})\]; ")
ISAS: Final = frozenset((b"A64", b"A32", b"T32", b"TEE", b"Jaz", b"Cst", b"Unk"))
BREAKS: Final = {
    b"TRACE_ON": "places where tracing began (trace on)",
    b"NO_SYNC": "places without synchronisation",
    b"ADDR_NACC": "places where the decoder had no memory to follow the program",
    b"UNKNOWN": "unknown elements of the decoder: a gap",
    b"I_RANGE_NOPATH": "ranges whose path the decoder does not know: a gap",
    b"ADDR_UNKNOWN": "places where the decoder did not know the address",
    b"EO_TRACE": "ends of trace",
}
"""Elements that leave a gap, with their names in the summary."""
FIRST: Final = frozenset((b"NO_SYNC", b"TRACE_ON", b"EO_TRACE"))
"""The first elements of an ID; an ID that begins with another one has damaged digits.

After these elements the return stacks of decoder and trace unit are empty.
"""
_UNKNOWN_CODE: Final = BREAKS.keys() - FIRST
BESIDE: Final = frozenset(
    (b"CYCLE_COUNT", b"EVENT", b"SWTRACE", b"SYNC_MARKER", b"INSTRUMENTATION", b"ITMTRACE", b"CUSTOM")
)
"""Elements that do not change where execution goes on."""
TRANSACTIONS: Final = frozenset((b"Init", b"Start", b"Commit", b"Fail"))
"""Kinds of MEMTRANS: tracing began in a transaction; it began; it succeeded; it was rolled back."""
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
_ADDRESS: Final = re.compile(
    rb"Idx:(\d+); ID:([0-9a-f]+); ?\[[0-9a-fx ]*\];\tI_\w*ADDR\w* : [^\n]*?\bAddr=0x([0-9A-Fa-f]{1,16})\b"
)
_ATOMS: Final = re.compile(rb"Idx:(\d+); ID:([0-9a-f]+); ?\[[0-9a-fx ]*\];\tI_ATOM_F\d : [^\n;]*; ([EN]{1,64})\r?\Z")
_LEADS: Final = re.compile(
    rb"Idx:(\d+); ID:([0-9a-f]+); OCSD_GEN_TRC_ELEM_(INSTR_RANGE|EXCEPTION|NO_SYNC|I_RANGE_NOPATH|ADDR_NACC)"
)
_LOOK_BACK: Final = 1 << 12  # bytes: some 40 lines
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


def flow_packets(packets: bytes) -> list[tuple[bytes, bytes]]:
    """Find the packets that say where execution went on, or when: trace ID, and the beginning of the name after I_."""
    return _FLOW.findall(packets)


def has_unknown_code(block: bytes) -> bool:
    """Return whether the decoder met code that it does not know in a block of lines."""
    return any(b"ELEM_%s(" % name in block for name in _UNKNOWN_CODE)


class Packets(NamedTuple):
    """Trace packets that an error is about: the address where execution went on (0: none), and the atoms from there.

    ``atoms`` are E (taken) and N (not taken), one for each branch; empty if the text has no packets (-decode_only).
    """

    address: int = 0
    atoms: str = ""


def packets_before(block: bytes, end: int, error: DecoderError) -> Packets:
    """Return the packets of an error's source in the lines before a place that no element has used."""
    atoms, ranges = "", 0
    for line in reversed(block[max(end - _LOOK_BACK, 0) : end].split(b"\n")):
        if (element := _LEADS.match(line)) and int(element[2], 16) == error.source:
            if element[3] != b"INSTR_RANGE" or int(element[1]) != error.offset or atoms:
                break
            ranges += 1  # of atoms of the same packet
            continue
        packet = _ATOMS.match(line) or _ADDRESS.match(line)
        # The packets of a single source without frames have ID 0.
        if packet is None or int(packet[2], 16) not in (error.source, 0):
            continue
        if packet.re is _ATOMS:
            if int(packet[1]) == error.offset and not atoms:
                atoms = packet[3].decode("ascii")[ranges:]
        elif int(packet[1]) < (error.offset or 0) and not ranges:
            return Packets(int(packet[3], 16), atoms)
    return Packets(0, atoms)
