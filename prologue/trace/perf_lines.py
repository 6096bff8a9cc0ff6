"""Lines of ``perf script``: what a line is, and its shape, by which millions of lines alike are read at once.

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
from prologue.trace.form import HIGHEST_CPU, NO_CPU

_HEAD: Final = rb"""
    (?P<machine>VM:\ *\d+\ )?(?P<vcpu>VCPU:\d+\ )?
    (?P<task>%s
        (?:\ *(?P<pid>-?\d{1,10})/(?P<tid>-?\d{1,10})\ *[ ]
            |\ *(?P<one>-?\d{1,10})\ (?!\ *\d*\ *[a-z-]+(?::[a-zA-Z]*)?:\ ))?)
    (?:\[(?P<cpu>-?\d{1,8})\]\ )?
    (?:\ *(?P<sec>\d{1,10})\.(?P<frac>\d{9}|\d{6}):\ )?
"""
_REST: Final = rb"""
    (?:\ *(?P<period>\d+)\ )?
    (?:\ *(?P<event>[a-z][^\s:=]*(?::[a-zA-Z]*)?):\ )?
    (?P<flags>\ \ [a-z][a-z ()/]*(?=\ ))?
    \ *(?P<ip>(?<=\ )[0-9a-f]{1,16})(?=[\ \n])
    (?P<from>(?:(?!\ =>\ |:\ )[^\n])*)
    (?:\ =>\ (?P<arrow>)\ *(?P<addr>[0-9a-f]{1,16})(?=[\ \n])(?P<to>(?:(?!\ =>\ |:\ )[^\n])*))?(?P<more>[^\n]*)\n
"""
MOST_SECONDS: Final = 10**10
"""Times of more digits are none: 64 bits of ns end at 18 * 10^9 s."""
_WIDEST: Final = 16  # characters in which columns of seconds are read
_COMM: Final = rb"(?P<comm>[^\n]{16})\ "
_LINES: Final = tuple(re.compile(_HEAD % comm + _REST, re.VERBOSE) for comm in (b"", _COMM))
_HEADS: Final = tuple(re.compile(_HEAD % comm + rb"(?P<rest>[^\n]*)\n", re.VERBOSE) for comm in (b"", _COMM))
_STACK: Final = re.compile(
    rb"[\t ]+(?P<ip>[0-9a-f]{1,16})(?=[ \n])"
    rb"(?P<from>(?:(?! =>)[^\n])*)(?: => +(?P<addr>[0-9a-f]{1,16})(?:[ \n].*)?)?\n?$"
)
_TARGET: Final = re.compile(rb" => +(?P<addr>[0-9a-f]{1,16})(?:[ \n].*)?\n?$")
_LOSS: Final = re.compile(rb"PERF_RECORD_LOST|PERF_RECORD_AUX .*flags: 0x[0-9a-f]*[1357bd9f]\b|trace error")
_EVENT: Final = re.compile(rb" *(?:\d+ +)?(?P<event>[a-zA-Z][^\s=]*?): ")
_DSO: Final = re.compile(rb"\((?P<dso>(?:[^()]|\([^()]*\))*)\)\s*$")


class LineKind(Enum):
    """What a line is."""

    BRANCH = "branch"
    SAMPLE = "sample"
    HEAD = "head of a sample whose stack follows"
    STACK = "line of a stack"
    TARGET = "target after a stack"
    LOSS = "loss"
    OTHER = "other event"
    BLANK = "blank"
    UNREADABLE = "unreadable"


class PerfLine(NamedTuple):
    """One line, read alone; numbers are -1 where they are not said, ``ip`` and ``addr`` 0."""

    kind: LineKind
    found: re.Match[bytes] | None = None
    event: str = ""

    def number(self, name: str, base: int = 10) -> int | None:
        """A field as a number; None if it is not printed."""
        if self.found is None or name not in self.found.re.groupindex or self.found[name] is None:
            return None
        return int(self.found[name], base)

    def time(self) -> int:
        """In ns; 0 if it is not printed."""
        if self.found is None or "sec" not in self.found.re.groupindex or self.found["sec"] is None:
            return 0
        return int(self.found["sec"]) * 10**9 + int(self.found["frac"].ljust(9, b"0"))

    def text(self, name: str) -> str:
        """A field as text, without padding; empty if it is not printed."""
        if self.found is None or name not in self.found.re.groupindex or self.found[name] is None:
            return ""
        return self.found[name].decode("utf-8", "backslashreplace").strip()


def read_line(line: bytes) -> PerfLine:
    """Say what a line (with its line end) is."""
    if not line.strip():
        return PerfLine(LineKind.BLANK)
    if _LOSS.search(line):
        return PerfLine(LineKind.LOSS, next(filter(None, (head.match(line) for head in _HEADS)), None))
    for pattern in _LINES:
        found = pattern.match(line)
        if found and _is_whole(found):
            if not _can_be(found):
                return PerfLine(LineKind.UNREADABLE)
            return PerfLine(_kind(found), found, (found["event"] or b"").decode("ascii", "backslashreplace"))
    for pattern, kind in ((_TARGET, LineKind.TARGET), (_STACK, LineKind.STACK)):
        stack = pattern.match(line)
        if stack:
            return PerfLine(kind, stack)
    for pattern in _HEADS:
        head = pattern.match(line)
        event = _EVENT.match(head["rest"] + b" ") if head and (head["cpu"] or head["sec"] or head["tid"]) else None
        if head and not _can_be(head):
            return PerfLine(LineKind.UNREADABLE)
        if head and event:
            name = event["event"].decode("ascii", "backslashreplace")
            waits = name.startswith(("branches", "instructions")) and not head["rest"][event.end() :].strip()
            if waits or not name.startswith(("branches", "instructions")):
                return PerfLine(LineKind.HEAD if waits else LineKind.OTHER, head, name)
        elif head and b"PERF_RECORD_" in head["rest"]:
            return PerfLine(LineKind.OTHER, head, head["rest"].split()[0].decode("ascii", "backslashreplace"))
    return PerfLine(LineKind.UNREADABLE)


def _is_whole(found: re.Match[bytes]) -> bool:
    """Whether a match says something: an address alone is a line of a stack, and a line may not hold a second one."""
    if not (found["event"] or found["cpu"] or found["sec"] or found["tid"] or found["arrow"] is not None):
        return False
    return b" => " not in found["more"] and not found["more"].startswith(b": ")


def _can_be(found: re.Match[bytes]) -> bool:
    """Whether there can be such a CPU; perf prints -1 where it does not know."""
    return found["cpu"] is None or NO_CPU <= int(found["cpu"]) <= HIGHEST_CPU


def _kind(found: re.Match[bytes]) -> LineKind:
    event = found["event"]
    if event is None:
        return LineKind.BRANCH if found["arrow"] is not None else LineKind.SAMPLE
    if event.startswith(b"branches"):
        return LineKind.BRANCH
    return LineKind.SAMPLE if event.startswith(b"instructions") else LineKind.OTHER


def dso_of(text: bytes) -> str:
    """The program after a symbol, ``sym+0x10 (PROGRAM)``; empty if there is none."""
    found = _DSO.search(text)
    return found["dso"].decode("utf-8", "backslashreplace") if found else ""


class Shape:
    """The columns of a line's fields. What is no field (brackets, colons, the event) must be equal in other lines."""

    def __init__(self, line: bytes, found: re.Match[bytes]) -> None:
        self.kind = _kind(found)
        self.has_target = found["arrow"] is not None
        self.machine = (found["machine"] or b"").decode().replace(" ", "")
        self.task_end = found.end("task")
        self.task = line[: self.task_end]
        self.cpu = self._span(found, "cpu")
        self.sec, self.frac = self._span(found, "sec"), self._span(found, "frac")
        end = found.end("ip")
        self.ip = end - 16
        self.length = end + 1
        self.colons = line.count(b": ")
        self.dso = dso_of(found["from"]) != ""
        self.usable = self.ip >= 0 and not line[self.ip : end].strip(b" 0123456789abcdef") and not found["more"].strip()
        self._masks = self._literals(line, found)

    @staticmethod
    def _span(found: re.Match[bytes], name: str) -> tuple[int, int] | None:
        return found.span(name) if found[name] is not None else None

    def _literals(self, line: bytes, found: re.Match[bytes]) -> list[tuple[int, np.uint64, np.uint64]]:
        fixed = bytearray(b"\xff" * self.length)
        for span in (found.span("task"), self.cpu, self.sec, self.frac, (self.ip, self.length - 1)):
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
        """What makes two shapes one."""
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
        """Which lines have these separators in these columns."""
        good = np.ones(len(starts), np.bool_)
        for at, mask, value in self._masks:
            good &= words[starts + at] & mask == value
        return good
