"""Returns whose address the decoder took from a stale stack of calls.

A trace unit leaves out the address of a return that its own return stack predicts, and the decoder takes it from a
stack of the calls that it followed. Calls in code that it has no memory for are in the unit's stack only. So after such
code, until tracing begins anew and empties both, a return beyond the calls that were followed since leads the decoder
to an older call's address, which may be wrong. The instructions from there to the next address in the trace did not run
(OpenCSD ``trc_pkt_decode_etmv4i.cpp``).

Packets show which returns have an address in the trace. If a text has none (``-decode_only``), each return may have
been taken from the stack.
"""

from __future__ import annotations

from typing import Final

_DEPTH: Final = 16  # of the decoder's stack


class ReturnStack:
    """The calls that the decoder of one trace ID followed since code without memory.

    ``unsure``: the decoder may be astray, whatever its image.
    """

    __slots__ = ("_calls", "_excepting", "_given", "_interrupted", "_packets", "_returning", "unsure")

    def __init__(self) -> None:
        self._calls = 0
        self._returning = False
        self._packets: bool | None = False  # the text has address packets; None if elements come long after them
        self._given = False  # an address packet came since the last range
        self._excepting = False  # the next address packet says where an exception was taken
        self._interrupted = False  # an exception came since the last range, or its return
        self.unsure = False

    def packet(self, kind: bytes) -> None:
        """Note a packet, by the beginning of its name."""
        if kind.startswith(b"EXCEPT"):
            self._excepting = True
        elif not kind.startswith(b"ADDR"):  # a unit that speculates
            self._packets = None
        elif self._excepting:
            self._excepting = False
        else:
            self._given = True
            self._packets = self._packets is not None

    def enter(self) -> bool:
        """Go on into the next range; tell whether this step, or a later one, is unsure."""
        before = self.unsure
        if self._has_address:
            if before:  # calls on a way that did not run do not count
                self.lose()
        elif self._returning:
            self._pop()
        self._returning = self._given = self._interrupted = False
        return before or self.unsure

    def leave(self, tail: bytes) -> None:
        """Follow the last instruction of a range, as an element describes it."""
        if tail[:1] != b"E":  # not taken
            return
        if b"b+link" in tail:
            self._calls = min(self._calls + 1, _DEPTH)
        elif b"iBR" in tail and b"eret" not in tail:  # an ERET's address is always in the trace
            self._returning = True

    @property
    def may_be_astray(self) -> bool:
        """True if the decoder may have gone astray after the last range."""
        return not self._has_address and (self.unsure or (self._returning and not self._calls))

    def interrupt(self) -> None:
        """Take an exception, or return from one: the trace gives the address."""
        if self._returning and self._calls:
            self._calls -= 1
        self._returning, self._interrupted = False, True

    def lose(self) -> None:
        """Go on after code that the decoder does not know, at an address that the trace gives."""
        self._calls = 0
        self._returning = self.unsure = False

    @property
    def _has_address(self) -> bool:
        """True if the trace has the address where execution went on after the last range."""
        return self._interrupted or (self._packets is True and self._given)

    def _pop(self) -> None:
        if self._calls:
            self._calls -= 1
        else:
            self.unsure = True
