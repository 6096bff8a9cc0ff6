"""Lines of ``perf script``: the kind of a line, and its shape, by which millions of lines alike are read at once.

perf prints its fields in one order, whatever the order after ``-F`` (``process_event`` and
``perf_sample__fprintf_start``, tools/perf/builtin-script.c, 6.1-6.12): machine, comm, pid/tid, cpu, time, period,
event, flags, ip, and after ``=>`` the target. They are padded, so nearly all lines have them in the same columns.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, Bool
from prologue.trace.ranges import HIGHEST_CPU, NO_CPU

_HEAD: Final = rb"""
    (?P<machine>VM:\ *\d+\ )?(?P<vcpu>VCPU:\d+\ )?
    (?P<task>%s
        (?:\ {0,16}(?P<pid>-?\d{1,10})/(?P<tid>-?\d{1,10})\ {1,16}
            |(?=[\ \d-]{5}\ |[\ \d-]{7}\ |\d{6,8}\ )\ {0,6}(?P<id>-?\d{1,8})\ )?)  # 5 wide, after 6.1 7; a period 10
    (?:\[(?P<cpu>\d{3,8}|-\d{2,8})\]\ )?  # at least three digits
    (?:[KUHGg]{1,5}\ {1,5})?  # misc
    (?:\d{4}-\d\d-\d\d\ \d\d:\d\d:\d\d\.\d{6,9}\ )?  # tod
    (?:\ *(?P<sec>\d{1,10})\.(?P<frac>\d{9}|\d{6}):\ )?
"""
_MORE: Final = rb"""
    (?P<fields>(?:\ \t\ IPC:\ [^\n\t=]*)?(?:\ ilen:\ \d+)?(?:\ insn:(?:\ [0-9a-f]{2})*)?(?:\t\t[^\n=]*)?
        (?:\ \t\ IPC:\ [^\n\t=]*)?)
"""
_WORDS: Final = rb"(?:(?!\ =>\ |:\ |\ ilen:\ |\ insn:\ |\ \t\ IPC:\ |\t\t)[^\n])*"
_FLAGS: Final = rb"\ \ [a-zA-Z][a-zA-Z ()/?,_]{0,80}(?=\ )"
# A name of --call-trace's; one of hex digits alone could be an address that was cut.
_CALL_INDENT: Final = (
    rb"\ *+(?P<callee>(?=[^\s]{0,512}[^\s0-9a-f])(?!\[\d)[^\s\d=][^\s=]{0,511})\ ++(?=[0-9a-f]{9,16}[\ \n])"
)
_DATA_MORE: Final = (
    rb"(?:\ {1,16}[0-9a-f]{1,16}\ \|OP\ [A-Za-z0-9\ ./|]{0,256}?)?(?:\ {1,16}\d{1,16}){0,2}"  # data_src, weights
)
_REST: Final = rb"""
    (?:\ *(?P<period>\d+)\ )?
    (?:\ *(?P<event>[a-z][^\s:=]*(?::[a-zA-Z]*)?):\ )?
    (?P<flags>%s)?(?:%s)?
    (?:\ *(?P<data>[0-9a-f]{1,16})%s(?=\ \ *[0-9a-f]{9,16}[\ \n]))?  # a sample's data
    \ *(?P<ip>(?<=\ )[0-9a-f]{1,16})(?=[\ \n\t])
    (?P<from>%s)
    (?:\ =>\ (?P<arrow>)(?=[\ 0-9a-f]{16}[\ \n\t])\ *(?P<addr>[0-9a-f]{1,16})(?P<to>%s))?
    %s(?P<more>[^\n]*)\n
""" % (_FLAGS, _CALL_INDENT, _DATA_MORE, _WORDS, _WORDS, _MORE)
MOST_SECONDS: Final = 10**10
"""Times of more digits are invalid: 64 bits of ns end at 18 * 10^9 s."""
_WIDEST: Final = 16  # characters of a column of seconds, and of an address
# Names have at most 15 characters (kernel threads 63) and are padded to 16, except in samples with stacks.
# No name has the text of the fields after it: that is a cut line with another one joined to it.
_NAME: Final = rb"(?:(?!\[-?\d{3,8}\]\ |\d/-?\d+\ |\.\d{6,9}:\ )[^\n])"
_COMMS: Final = (
    b"",
    rb"(?P<comm>\ %s{15})\ " % _NAME,
    rb"(?P<comm>(?=\S)%s{1,63}?)\ (?=\ {0,16}-?\d|\[)" % _NAME,
)
_LINES: Final = tuple(re.compile(_HEAD % comm + _REST, re.VERBOSE) for comm in _COMMS)
_EVENT: Final = rb"(?P<rest>\ *(?:\d+\ +)?(?:(?P<event>[a-zA-Z][^\s=]*?):(?=\s)|PERF_RECORD_)(?P<after>[^\n]*))\n"
_HEADS: Final = tuple(re.compile(_HEAD % comm + _EVENT, re.VERBOSE) for comm in _COMMS)
_DATA_ENDS: Final = (16, 24 + 16)
"""Columns after the event at which an address of data ends, without and with flags; a blank precedes others."""
_WAITING: Final = rb"\ ?(?:%s)?(?:\ *[0-9a-f]{1,16}%s)?\s*" % (_FLAGS, _DATA_MORE)
_WAITS: Final = re.compile(_WAITING, re.VERBOSE)
_BARE: Final = tuple(re.compile(_HEAD % comm + rb"(?P<rest>)" + _WAITING + rb"\Z", re.VERBOSE) for comm in _COMMS)
_STACK: Final = re.compile(rb"\t(?=[ 0-9a-f]{16}[ \n]) *(?P<ip>[0-9a-f]{1,16})(?P<from>(?:(?! =>)[^\n])*)\n?$")
_TARGET: Final = re.compile(rb" => (?=[ 0-9a-f]{16}[ \n]) *(?P<addr>[0-9a-f]{1,16})(?:[ \n].*)?\n?$")
# A line of source by name, or an address without a name; with +srccode its text; or the fields after a stack.
_NOTE: Final = re.compile(
    rb"(?:(?:\ \ \S+(?:\.[a-zA-Z]+:\d+|\+\d+|\[[0-9a-f]+\])(?:\ \([a-z][^()]*\))*)?%s|\|\d+\ [^\n]*)\n?$" % _MORE,
    re.VERBOSE,
)
_LOSS: Final = re.compile(rb"PERF_RECORD_LOST|PERF_RECORD_AUX .*flags: 0x[0-9a-f]*[1357bd9f]\b|trace error")
_PLACE: Final = rb"[^\s/()]{1,512}(?:\([^()\n]{0,4096}\))?"
# Fields after a stack: branches (FROM/TO/P/-/-/0/), the instruction, a physical address, sizes of pages; or _MORE.
_FIELDS: Final = re.compile(
    rb"""(?:%s|(?:\ ?%s/%s(?:/[^/\s]{0,64}){3,9}\ )*(?:\ ilen:\ \d+)?(?:\ insn:(?:\ [0-9a-f]{2})*)?
    (?:(?=[\ 0-9a-f]{16}\s)\ *[0-9a-f]{1,16})?(?:\ (?:\d{1,4}[KMG]?|N/A)){0,2})\n?$"""
    % (_MORE, _PLACE, _PLACE),
    re.VERBOSE,
)
# No line of another event has these.
_OF_BRANCHES: Final = re.compile(rb" => [ 0-9a-f]{8}[0-9a-f]{8}[ \n]|branches(?::[a-zA-Z]*)?: ")
_COMMENT: Final = (b"# ", b"#\n", b"#\r")
_LONGEST: Final = 1 << 16  # bytes; perf's longest are stacks of branches (brstacksym)
_DSO: Final = re.compile(rb"\((?P<dso>(?:[^()]|\([^()]*\))*)\)\s*$")
_DSO_OFFSET: Final = re.compile(rb"\+0x[0-9a-f]{1,16}\Z")  # of the field dsoff: where in the program's file


class LineKind(Enum):
    """The kind of a line."""

    BRANCH = "branch"
    SAMPLE = "sample"
    HEAD = "head of a sample whose stack follows"
    STACK = "line of a stack"
    TARGET = "target after a stack"
    NOTE = "line of source"
    FIELDS = "fields after a stack"
    LOSS = "loss"
    OTHER = "other event"
    BLANK = "blank: the end of a stack"
    COMMENT = "comment, of perf script --header"
    UNREADABLE = "unreadable"


class PerfLine(NamedTuple):
    """A line that was read alone, with the match of its fields."""

    kind: LineKind
    match: re.Match[bytes] | None = None
    event: str = ""

    def number(self, name: str, base: int = 10) -> int | None:
        """Return a field as a number; None if it is not printed."""
        field = self._field(name)
        return None if field is None else int(field, base)

    def time(self) -> int:
        """Return the time in ns; 0 if it is not printed."""
        seconds, fraction = self._field("sec"), self._field("frac")
        if seconds is None or fraction is None:
            return 0
        return int(seconds) * 10**9 + int(fraction.ljust(9, b"0"))

    def text(self, name: str) -> str:
        """Return a field as text, without padding; empty if it is not printed."""
        return (self._field(name) or b"").decode("utf-8", "backslashreplace").strip()

    def dso(self) -> str:
        """Return the program of ``ip``; empty if it is not printed."""
        return dso_of(self._field("from") or b"")

    def _field(self, name: str) -> bytes | None:
        """Return a field; None if it is not printed, or no line of this kind has it."""
        return self.match[name] if self.match is not None and name in self.match.re.groupindex else None


def read_line(line: bytes) -> PerfLine:
    """Read a line, with its line end."""
    read = _read_line(line)
    # A line that begins with "#" is a comment, unless a task has such a name. A comment may look like another event.
    if line.startswith(_COMMENT) and read.kind not in (LineKind.BRANCH, LineKind.SAMPLE, LineKind.HEAD):
        return PerfLine(LineKind.COMMENT)
    return read


def _read_line(line: bytes) -> PerfLine:
    if not line.strip(b"\r\n"):
        return PerfLine(LineKind.BLANK)
    if len(line) > _LONGEST:
        return PerfLine(LineKind.UNREADABLE)
    if _LOSS.search(line):
        return PerfLine(LineKind.LOSS, next(filter(None, (head.match(line) for head in _HEADS)), None))
    if line.startswith((b"\t", b" => ")):
        stack = _STACK.match(line) or _TARGET.match(line)
        kind = LineKind.TARGET if stack and stack.re is _TARGET else LineKind.STACK
        return PerfLine(kind, stack) if stack else PerfLine(LineKind.UNREADABLE)
    if line.endswith((b": \n", b":\n")):  # heads of stacks are many, and no branch ends like that
        head = _first_head(line)
        if head is not None and head.kind is LineKind.HEAD:
            return head
    for pattern in _LINES:
        match = pattern.match(line)
        if match and _is_whole(match):
            if not _is_possible(match):
                return PerfLine(LineKind.UNREADABLE)
            return PerfLine(_kind(match), match, (match["event"] or b"").decode("ascii", "backslashreplace"))
    if _FIELDS.match(line):
        return PerfLine(LineKind.FIELDS)
    if _NOTE.match(line):
        return PerfLine(LineKind.NOTE)
    bare = read_head(line)
    if bare.kind is LineKind.HEAD:
        return bare
    return _first_head(line) or PerfLine(LineKind.UNREADABLE)


def _first_head(line: bytes) -> PerfLine | None:
    return next(filter(None, (_read_head(pattern.match(line)) for pattern in _HEADS)), None)


def read_head(line: bytes) -> PerfLine:
    """Read a line without the name of an event as the head of a sample, in which an address is one of data."""
    for pattern in _BARE:
        bare = pattern.match(line)
        if bare and (bare["cpu"] or bare["sec"] or bare["tid"] or bare["id"]) and _is_possible(bare):
            return PerfLine(LineKind.HEAD, bare)
    return PerfLine(LineKind.UNREADABLE)


def _read_head(head: re.Match[bytes] | None) -> PerfLine | None:
    """Read a line without an address: of another event, or of a sample whose stack follows; None for other lines."""
    if head is None:
        return None
    if not _is_possible(head):
        return PerfLine(LineKind.UNREADABLE)
    given = head["cpu"] or head["sec"] or head["tid"]
    name = (head["event"] or head["rest"].split()[0]).decode("ascii", "backslashreplace")
    if head["id"] and name.startswith("PERF_RECORD_"):
        given = head["id"]
    if not name.startswith(("branches", "instructions")):
        damaged = _OF_BRANCHES.search(head.string, head.start("rest")) is not None
        return PerfLine(LineKind.OTHER, head, name) if given and not damaged else None
    return PerfLine(LineKind.HEAD, head, name) if _WAITS.fullmatch(head["after"]) else None


def _is_whole(match: re.Match[bytes]) -> bool:
    """Return whether a match is a whole sample: an address alone is a line of a stack, and no line has a second one.

    perf prints addresses 16 columns wide: a narrower one was cut.
    """
    arrow, end = match["arrow"] is not None, match.end("ip")
    if match["event"] and not arrow and match["data"] is None and end - match.end("event") - 2 in _DATA_ENDS:
        return False
    if not (match["event"] or match["cpu"] or match["sec"] or match["tid"] or arrow):
        return False
    if arrow and match.end("addr") - match.start("arrow") != _WIDEST:
        return False
    padded = match.string[max(end - 16, 0) : end]
    if end <= 16 or match.string[end - 17 : end - 16] != b" " or padded.strip(b" 0123456789abcdef"):
        return False
    if match["data" if arrow else "callee"] is not None:
        return False
    return b" => " not in match["more"] and not match["more"].startswith(b": ")


def _is_possible(match: re.Match[bytes]) -> bool:
    """Return whether a line's CPU can be; perf prints -1 if it does not know."""
    return match["cpu"] is None or NO_CPU <= int(match["cpu"]) <= HIGHEST_CPU


def _kind(match: re.Match[bytes]) -> LineKind:
    event = match["event"]
    if event is None:
        return LineKind.BRANCH if match["arrow"] is not None else LineKind.SAMPLE
    if event.startswith(b"branches"):
        return LineKind.BRANCH
    if event.startswith(b"instructions"):
        return LineKind.SAMPLE
    # Nothing but a branch has a target: the event's name is damaged.
    return LineKind.OTHER if match["arrow"] is None else LineKind.UNREADABLE


def dso_of(text: bytes) -> str:
    """Return the program after a symbol, ``sym+0x10 (PROGRAM)`` or ``(PROGRAM+0x10)``; empty if it is not there."""
    match = _DSO.search(text)
    return _DSO_OFFSET.sub(b"", match["dso"]).decode("utf-8", "backslashreplace") if match else ""


class Shape:
    """The columns of a line's fields; other text (brackets, colons, the event) is the same in lines of the shape."""

    def __init__(self, line: bytes, match: re.Match[bytes]) -> None:
        self.kind = _kind(match)
        self.has_target = match["arrow"] is not None
        self.machine = (match["machine"] or b"").decode().replace(" ", "")
        self.task_end = match.end("task")
        self.task = line[: self.task_end]
        self.cpu = self._span(match, "cpu")
        self.sec, self.frac = self._span(match, "sec"), self._span(match, "frac")
        end = match.end("ip")
        self.ip = end - 16
        self.length = end + 1
        self.colons = line.count(b": ")
        self.dso = dso_of(match["from"]) != ""
        self._masks = self._literals(line, match)

    @staticmethod
    def is_common(match: re.Match[bytes]) -> bool:
        """Return whether other lines may have the shape of this one."""
        # With --call-trace each line has another callee before the address, and so another column of it.
        if match["callee"] or match["more"].strip():
            return False
        return match["arrow"] is not None or (_kind(match) is LineKind.SAMPLE and not match["fields"])

    @staticmethod
    def _span(match: re.Match[bytes], name: str) -> tuple[int, int] | None:
        return match.span(name) if match[name] is not None else None

    def _literals(self, line: bytes, match: re.Match[bytes]) -> list[tuple[int, np.uint64, np.uint64]]:
        fixed = bytearray(b"\xff" * self.length)
        for span in (match.span("task"), self.cpu, self.sec, self.frac, (self.ip, self.length - 1)):
            if span:
                fixed[span[0] : span[1]] = bytes(span[1] - span[0])
        if self.sec:  # blanks before it are padding
            start = self.sec[1]
            while start and (line[start - 1 : start].isdigit() or line[start - 1 : start] == b" "):
                start -= 1
            low = max(start, self.task_end, self.cpu[1] + 2 if self.cpu else 0, self.sec[1] - _WIDEST)
            self.sec = (low, self.sec[1])
            fixed[low : self.sec[1]] = bytes(self.sec[1] - low)
        fixed += bytes(-len(fixed) % 8)
        text = line[: len(fixed)].ljust(len(fixed), b"\0")
        masks = []
        for at in range(0, len(fixed), 8):
            mask = int.from_bytes(fixed[at : at + 8], "little")
            if mask:
                masks.append((at, np.uint64(mask), np.uint64(int.from_bytes(text[at : at + 8], "little") & mask)))
        return masks

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of a shape: equal shapes have equal keys."""
        return (
            self.has_target,
            self.dso,
            self.colons,
            self.task_end,
            self.cpu,
            self.sec,
            self.frac,
            self.ip,
            self._masks,
        )

    def fits(self, words: npt.NDArray[Any], starts: I64) -> Bool:
        """Return which lines have these separators in these columns."""
        good = np.ones(len(starts), np.bool_)
        for at, mask, value in self._masks:
            good &= words[starts + at] & mask == value
        return good
