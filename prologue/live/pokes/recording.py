"""Recorded writes to kernel text, the rows of a numpy array, and the facts of a whole recording."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

CALLERS: Final = 12

WRITE: Final = np.dtype(
    [
        ("time", "<u8"),  # in the recording's clock; never falls from row to row
        ("address", "<u8"),  # where the word is executed: its run-time virtual address, never an alias
        ("paddr", "<u8"),  # physical
        ("alias", "<u8"),  # virtual address that was written through: fixmap, linear map, or the address itself
        ("pc", "<u8"),  # of the store
        ("running", "<u8"),  # bit N: CPU N had begun to run, and had not been taken offline
        # bit N: CPU N had an ISB, an exception, or a return from one between the write and the writer's return
        ("synced", "<u8"),
        ("maintenance", "<u8"),  # by the writer's CPU until the writer returned: see ``maintenance_steps``
        ("callers", "<u8", (CALLERS,)),  # return addresses, the innermost first; 0 after the last
        ("old", "<u4"),  # the 32-bit word before, and after
        ("new", "<u4"),
        ("flags", "<u4"),
        ("cpu", "<u2"),  # of the writer; NO_CPU: not known
        ("within", "<u2"),  # the word was written at most so many ``WITHIN`` after ``time``; 0: then, or not known
    ]
)
"""A 32-bit word that was written, at an address that is a multiple of 4; a wider write is a row for each word.

0 in ``paddr``, ``alias``, ``pc`` and ``callers`` is: not known.
"""

NO_CPU: Final = 0xFFFF
WITHIN: Final = 1000  # units of the clock

Rows = npt.NDArray[np.void]  # of dtype WRITE, shape (n,)


class Flag(IntFlag):
    """Bits of ``flags``."""

    STOPPED = 1  # the writer ran under stop_machine, and every other CPU that ran was in its loop
    UNREACHABLE = 2  # nothing could execute the word yet: its page was not mapped executable
    LITERAL = 4  # the word is data among the text (a CALL_OPS pointer, a constant), not an instruction
    OLD_UNKNOWN = 8  # the recorder does not know ``old``
    NOT_RETURNED = 16  # the recording ended before the writer returned: ``maintenance`` is as seen until then
    CUT_CHAIN = 32  # there may be more callers than ``callers`` names, or their chain could not be read
    CONSTANT = 64  # the word is of a runtime constant (asm/runtime-const.h), which any function may initialise
    RAN_BEFORE = 128  # some CPU had executed the word since its page became text
    RAN_MEANWHILE = 256  # some CPU executed it between the write and the writer's return
    # Of live writes to words that no CPU had executed, except from one of NOP, B, BL and BRK to another:
    RAN_AFTER = 512  # some CPU executed it after the write, before it was written again
    RAN_UNSYNCED = 1024  # ... with no ISB, exception or return from one since the writer's maintenance


class Maintenance(IntEnum):
    """Maintenance after a write: a digit of ``maintenance``.

    If the recorder sees which lines (sight ``lines``), DC and IC_IVAU are those for the word's own line.
    """

    DC = 1  # clean to the point of unification or beyond: DC CVAU, CVAC, CVAP, CVADP, CIVAC
    DSB = 2
    IC_IVAU = 3
    IC_IALLU = 4  # of this CPU only
    IC_IALLUIS = 5
    ISB = 6
    WRITE = 7  # another write to text
    DC_ELSEWHERE = 8  # for other lines than the word's
    IC_ELSEWHERE = 9  # IC IVAU for other lines than the word's
    MORE = 15  # there was more than fits


def maintenance_steps(maintenance: int) -> tuple[Maintenance, ...]:
    """Decode the steps, in order: hexadecimal digits, the first in the lowest; equal steps in a row are one digit."""
    return tuple(Maintenance(maintenance >> shift & 15) for shift in range(0, 64, 4) if maintenance >> shift & 15)


Capability = Literal[
    "old", "alias", "paddr", "pc", "running", "stopped", "unreachable", "maintenance", "lines", "ran", "first_runs",
    "callers", "literal",
]  # fmt: skip
CAPABILITIES: Final[tuple[Capability, ...]] = get_args(Capability)
"""Things that a recorder may see besides time, CPU, address and new word; the judge names those it did not see."""


class Function(NamedTuple):
    """Code with a name; ``owner`` is a module, or ``bpf`` and the like, or empty for the kernel.

    Addresses of modules are used again: the code was there from ``since`` to before ``until``, times of the recording.
    """

    start: int
    end: int
    name: str
    owner: str = ""
    since: int = 0
    until: int = (1 << 64) - 1


class Loss(NamedTuple):
    """Events that the recorder knows it did not record; ``amount`` is None if it does not know how many."""

    what: str
    amount: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a recording: facts that are known when it begins."""

    source: str  # such as "QEMU 7.2, plugin", "kprobe events"
    machine: str  # as uname -m
    clock: Literal["instructions", "ns"]
    sees: tuple[Capability, ...]
    release: str = ""
    build_id: str = ""
    cpus: int = 0  # that the machine has; 0 if not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailer:
    """The trailer of a recording: facts that are known when it ends."""

    slide: int | None = None  # bytes that KASLR added to each link-time address; None if not known (it may be 0)
    complete: bool = True  # the recorder ran to its end, and was not killed
    functions: tuple[Function, ...] = ()  # of the addresses in rows: address, pc, callers
    lost: tuple[Loss, ...] = ()
    notes: tuple[str, ...] = ()  # for people
    ctr: int | None = None  # CTR_EL0 as the kernel uses it, if known: bits 28 (IDC) and 29 (DIC)


@dataclass(frozen=True, slots=True)
class Recording:
    """A whole recording in memory."""

    path: str
    header: Header
    trailer: Trailer
    rows: Rows = field(repr=False)


def empty_rows(count: int) -> Rows:
    """Return rows of zeros, shape (count,), to be filled in."""
    return np.zeros(count, WRITE)


def longest_interval(rows: Rows) -> int:
    """Return in units of the clock how long before its last possible time a word was written at most."""
    return WITHIN * int(rows["within"].max(initial=0))
