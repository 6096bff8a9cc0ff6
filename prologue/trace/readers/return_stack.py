"""Returns whose address the decoder took from a stale stack of calls.

A trace unit leaves out the address of a return that its own return stack predicts, and the decoder takes it from a
stack of the calls that it followed. Calls in code that it has no memory for are in the unit's stack only. So after such
code, until tracing begins anew and empties both, a return beyond the calls that were followed since leads the decoder
to an older call's address, which may be wrong. The instructions from there to the next address in the trace did not run
(OpenCSD ``trc_pkt_decode_etmv4i.cpp``).

Elements do not say which returns have an address in the trace, so each may have been taken from the stack.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.trace.coresight import elements as ocsd
from prologue.trace.coresight.elements import ElementKind
from prologue.trace.ranges import UNSURE

_DEPTH: Final = 16  # of the decoder's stack


class ReturnStack:
    """The calls that the decoder of one trace ID followed since code without memory.

    ``unsure``: the decoder may be astray, whatever its image.
    """

    __slots__ = ("_calls", "_interrupted", "_returning", "unsure")

    def __init__(self) -> None:
        self._calls = 0
        self._returning = False
        self._interrupted = False  # an exception came since the last range, or its return: the trace has the address
        self.unsure = False

    def enter(self) -> bool:
        """Go on into the next range; tell whether this step, or a later one, is unsure."""
        before = self.unsure
        if self._interrupted:
            if before:  # calls on a way that did not run do not count
                self.lose()
        elif self._returning and self._calls:
            self._calls -= 1
        elif self._returning:
            self.unsure = True
        self._returning = self._interrupted = False
        return before or self.unsure

    def leave(self, kind: int, subkind: int, flags: int) -> None:
        """Follow the last instruction of a range, as its element describes it."""
        if not flags & ocsd.EXECUTED:
            return
        if subkind == ocsd.LINK:
            self._calls = min(self._calls + 1, _DEPTH)
        elif kind == ocsd.INDIRECT and subkind != ocsd.ERET:  # an ERET's address is always in the trace
            self._returning = True

    @property
    def may_be_astray(self) -> bool:
        """True if the decoder may have gone astray after the last range."""
        return not self._interrupted and (self.unsure or (self._returning and not self._calls))

    def interrupt(self) -> None:
        """Take an exception, or return from one: the trace gives the address."""
        if self._returning and self._calls:
            self._calls -= 1
        self._returning, self._interrupted = False, True

    def lose(self) -> None:
        """Go on after code that the decoder does not know, at an address that the trace gives."""
        self._calls = 0
        self._returning = self.unsure = False


def find_unsure(rows: npt.NDArray[Any], calls: ReturnStack | None) -> tuple[npt.NDArray[np.uint8], ReturnStack | None]:
    """Find the ranges that a decoder may have reached by a wrong return.

    Args:
        rows: elements of a trace ID.
        calls: the stack before them; None until the decoder meets code that it does not know.

    Returns:
        ``UNSURE`` or 0 for each range, and the stack after all rows.

    """
    kinds = rows["kind"]
    unsure = np.zeros(int((kinds == ElementKind.INSTR_RANGE).sum()), np.uint8)
    if calls is None and not np.isin(kinds, ocsd.UNKNOWN_CODE).any():
        return unsure, None
    number = 0
    columns = (rows[name].tolist() for name in ("kind", "value", "last_kind", "last_subkind", "flags"))
    for kind, value, last, subkind, flags in zip(*columns, strict=True):
        if kind in ocsd.EMPTIES_STACKS:
            calls = None
        elif kind in ocsd.UNKNOWN_CODE:
            calls = calls or ReturnStack()
            calls.lose()
        elif kind == ElementKind.INSTR_RANGE:
            if calls is not None:
                unsure[number] = UNSURE if calls.enter() else 0
                calls.leave(last, subkind, flags)
            number += 1
        elif calls is not None and kind in (ElementKind.EXCEPTION, ElementKind.EXCEPTION_RET):
            calls.interrupt()
        elif calls is not None and kind == ElementKind.MEMTRANS and value == ocsd.ROLLED_BACK:
            calls.lose()
    return unsure, calls
