"""Lines of ``perf script``: one form, which one list of fields prints, and the columns in which lines alike have it.

``process_event`` and ``print_sample_bts`` (tools/perf/builtin-script.c, 6.1-7.2) print the fields of a branch in one
order, whatever the order after ``-F``. They are padded, so nearly all lines have them in the same columns.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, Bool
from prologue.trace.ranges import HIGHEST_CPU, TracedTask

FIELDS: Final = "comm,pid,tid,cpu,time,event,ip,sym,symoff,addr,dso"
"""The fields of the one form. Names of symbols may be missing, and times, which not every file has."""
COMMAND: Final = f"perf script --itrace=b -F {FIELDS}"
MOST_SECONDS: Final = 10**10
"""Times of more digits are invalid: 64 bits of ns end at 18 * 10^9 s."""
_LONGEST: Final = 1 << 14  # bytes: two paths and two symbols
# Names are padded to 16 characters; those of workers are longer. pid and tid are 5 wide in 6.1, 7 after it.
_HEAD: Final = (
    rb"(?P<task>(?P<comm>\ [^\n]{15}|(?=\S)[^\n]{16,63}?)\ \ *(?P<pid>-?\d{1,10})/(?P<tid>-?\d{1,10})\ +)"
    rb"\[(?P<cpu>\d{3,4})\]\ (?:(?P<sec>\ *\d{1,10})\.(?P<frac>\d{9}|\d{6}):\ )?"
)
# In a line that was cut, and had another joined to it, the second head is here.
_PLACE: Final = rb"(?:(?!\ =>\ |:\ )[^\n])*"
_BRANCH: Final = re.compile(
    rb"%s\ *branches(?::[a-zA-Z]*)?:\ \ (?P<ip>[\ 0-9a-f]{15}[0-9a-f])(?=[\ \n])(?P<from>%s)"
    rb"\ =>\ (?P<addr>[\ 0-9a-f]{15}[0-9a-f])(?=[\ \n])%s\n" % (_HEAD, _PLACE, _PLACE)
)
_EVENT: Final = re.compile(_HEAD + rb"\ *(?P<event>[a-zA-Z][^\s=]*?):\s")
_DSO: Final = re.compile(rb"\((?P<dso>(?:[^()]|\([^()]*\))*)\)\s*\Z")
_WIDEST: Final = 16  # characters of a column of seconds


def read_branch(line: bytes) -> re.Match[bytes] | None:
    """Read a line with its end as a branch; None for other lines."""
    match = _BRANCH.fullmatch(line) if len(line) <= _LONGEST else None
    if match is None or b" " in match["ip"].lstrip() or b" " in match["addr"].lstrip():
        return None
    return match if int(match["cpu"]) <= HIGHEST_CPU else None


def other_event(line: bytes) -> str:
    """Return the name of a line's event that is no branch; empty for other lines."""
    match = _EVENT.match(line)
    # Nothing but a branch has a target: then the event's name is damaged.
    if match is None or match["event"].startswith(b"branches") or b" => " in line:
        return ""
    return match["event"].decode("ascii", "backslashreplace")


def task_of(match: re.Match[bytes]) -> TracedTask:
    """Return the task of a branch."""
    return TracedTask(match["comm"].decode("utf-8", "backslashreplace").strip(), int(match["pid"]), int(match["tid"]))


def dso_of(text: bytes) -> str:
    """Return the program after a symbol, ``sym+0x10 (PROGRAM)``; empty if it is not there."""
    match = _DSO.search(text)
    return match["dso"].decode("utf-8", "backslashreplace") if match else ""


class Shape:
    """The columns of a branch's fields; other text (brackets, colons, the event) is the same in lines of the shape."""

    def __init__(self, line: bytes, match: re.Match[bytes]) -> None:
        self.task_end = match.end("task")
        self.cpu, self.ip = match.span("cpu"), match.start("ip")
        self.sec, self.frac = match.span("sec"), match.span("frac")  # (-1, -1) if there are no times
        if self.has_times:  # blanks before it are padding
            self.sec = (max(self.cpu[1] + 2, self.sec[1] - _WIDEST), self.sec[1])
        self.length = match.end("ip") + 1
        self.colons = line.count(b": ")
        self.has_dso = dso_of(match["from"]) != ""
        self._masks = self._literals(line)

    @property
    def has_times(self) -> bool:
        """True if there are times."""
        return self.sec[1] > 0

    def _literals(self, line: bytes) -> list[tuple[int, np.uint64, np.uint64]]:
        fixed = bytearray(b"\xff" * self.length)
        for start, end in ((0, self.task_end), self.cpu, self.sec, self.frac, (self.ip, self.length - 1)):
            fixed[max(start, 0) : max(end, 0)] = bytes(end - start)
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
        return self.task_end, self.cpu, self.ip, self.sec, self.frac, self.colons, self.has_dso, *self._masks

    def fits(self, words: npt.NDArray[np.uint64], starts: I64) -> Bool:
        """Return which lines have these separators in these columns."""
        good = np.ones(len(starts), np.bool_)
        for at, mask, value in self._masks:
            good &= words[starts + at] & mask == value
        return good
