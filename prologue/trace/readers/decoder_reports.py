"""A decoder's sources, what its numbers are called, and its reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from prologue.trace.ranges import GAP, NO_LEVEL, NO_VMID, Tally, TracedTask
from prologue.trace.readers.return_stack import ReturnStack

HIGHEST_VMID: Final = (1 << 31) - 1
"""The highest that a range has place for."""
OF_IMAGE: Final = frozenset(("OCSD_ERR_BAD_DECODE_IMAGE", "OCSD_ERR_INVALID_OPCODE"))
"""Errors that blame the program image: trace packets do not fit its branches, or its words are no instructions."""
_MOST_KINDS: Final = 64  # of errors and unknown elements that are named
_MOST_NAMED: Final = 4  # trace IDs
_ERROR: Final = re.compile(
    rb"(?:(\w+) : )?(?:ERROR:|WARN :|INFO :)?0x[0-9a-f]{4} \((\w+)\)(?: \[[^\]\n]*\])?; "
    rb"(?:TrcIdx=(\d+); )?(?:CS ID=([0-9a-f]{2}); )?([^\n]*)"
)
"""A message of the library: ``ocsd_error.cpp`` and ``ocsd_error_logger.cpp``, 1.3.3 to 1.5.5."""


@dataclass(slots=True, kw_only=True)
class SourceState:
    """A trace ID or a CPU: its context, which holds for the next range, and its last range, if nothing came after."""

    flags: int = GAP
    time: int = 0
    cycles: int = 0  # as in RANGE, for the next one
    task: int = 0
    vmid: int = NO_VMID
    level: int = NO_LEVEL
    world: int = 0  # OTHER_WORLD, or 0
    calls: ReturnStack | None = None  # None until the decoder meets code that it does not know
    last: tuple[int, int, int, int, int] | None = None  # start, end, flags; kind, flags of its last instruction
    failed: bool = False  # an error of the decoder came last

    def forget(self) -> None:
        """Drop the context, which lost input may have changed."""
        self.flags, self.last = GAP, None
        if self.calls is not None:
            self.calls.lose()
        self.level, self.vmid, self.task, self.world = NO_LEVEL, NO_VMID, 0, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementNaming:
    """The names of ranges for numbers of the trace.

    ``cpu`` returns the CPU of a trace ID, ``time`` ns of ticks, ``task`` the task of a process number at a time (ns).
    ``process_in_vmid``: an element's VMID is CONTEXTIDR_EL2, at every level. ``checks_images``: the library reports
    bad images. ``return_stack``: trace units leave out addresses that their return stack predicts. ``names_idle``:
    process 0 is the idle task, not a register that is never written.
    """

    cpu: Callable[[int], int]
    time: Callable[[int], int]
    task: Callable[[int, int], TracedTask]
    process_in_vmid: bool = False
    checks_images: bool = False
    return_stack: bool = False
    names_idle: bool = False


class DecoderError(NamedTuple):
    """An error that OpenCSD reports: its name, message, and, if printed, its offset in the trace and the trace ID."""

    name: str
    message: str
    offset: int | None
    source: int | None


def read_error(line: bytes) -> DecoderError | None:
    """Read a message of the library; return None if it is no error."""
    error = _ERROR.fullmatch(line)
    if error is None:
        return None
    component, name, index, source, message = error.groups()
    # Components of one source have its ID in their name, in decimal digits.
    digits = component.rpartition(b"_")[2] if component else b""
    number = int(source, 16) if source else int(digits) if digits.isdigit() and len(digits) == 4 else None
    text = message.decode("ascii", "backslashreplace").strip()
    return DecoderError(name.decode("ascii"), text, int(index) if index else None, number)


class DecoderReports:
    """The reports of a decoder, counted by kind."""

    def __init__(self, account: Tally) -> None:
        self._account = account
        self._kinds: set[str] = set()

    def count_kind(self, reports: str, kind: str) -> None:
        """Count reports of a kind; of a damaged trace, which has many kinds, only the first by their names."""
        if kind not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            kind = ", others"
        self._kinds.add(kind)
        self._account.add(reports + kind)

    def count_undescribed(self, counts: Mapping[int, int]) -> None:
        """Count a recording in which trace IDs have bytes that no decoder takes."""
        numbers = list(counts)
        if numbers:
            more = ", ..." if len(numbers) > _MOST_NAMED else ""
            named = ", ".join(f"{number:#x}" for number in numbers[:_MOST_NAMED]) + more
            self.count_kind("recordings with bytes", f" of a trace ID that no decoder here takes ({named}): left out")
