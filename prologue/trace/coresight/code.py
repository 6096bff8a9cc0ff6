"""Code that a decoder cannot read from a buffer as it is.

Text that was written while it was traced has the words of the time that the trace has reached. Code of
processes is asked for address by address, for the process that runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from ctypes import memmove
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import numpy as np

from prologue.arrays import U32, U64
from prologue.trace.coresight.elements import HAS_CONTEXT, HAS_LEVEL, HAS_VMID, NONSECURE
from prologue.trace.coresight.library import LAST_USER, DecodeTree, OnMemory

_CONTEXT: Final = Struct("<IiIII")  # of its element, from byte 24 on: security, level, context ID, VMID, what is valid
_CONTEXT_AT: Final = 24
_EL1_NONSECURE: Final = 2  # bit of ocsd_mem_space_acc_t; the library reads EL0's memory there, too
UserCode = Callable[[int, int], memoryview | None]
"""Returns the bytes of a thread from an address on; None if they are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextChanges:
    """Words that were written, in the order of time; ``clock`` turns a trace's ticks into ns, as their times are.

    Each array has shape (n,); ``old`` is the word before.
    """

    times: U64
    vaddrs: U64
    old: U32
    new: U32
    clock: Callable[[int], int]


class ChangingText:
    """Copies of the pieces of text that change, at one moment: the first words of all until the trace has a time.

    A recording begins with the text of the last time of the one before it, which may be of another CPU.
    """

    def __init__(self, changes: TextChanges, pieces: list[tuple[int, Any]]) -> None:
        """Replace each of ``pieces`` (address and bytes of all text) that changes with a copy, in place in the list."""
        self._clock, self._times = changes.clock, changes.times.tolist()
        self._places: list[tuple[U32, int, int, int] | None] = [None] * len(self._times)
        for row, (vaddr, data) in enumerate(pieces):
            words = np.frombuffer(data, "<u4")
            at = changes.vaddrs - np.uint64(vaddr)
            inside = np.flatnonzero((changes.vaddrs >= np.uint64(vaddr)) & (at < np.uint64(4 * len(words))))
            if not len(inside):
                continue
            copy = words.copy()
            pieces[row] = (vaddr, copy)
            for k in inside.tolist():
                self._places[k] = (copy, int(at[k]) // 4, int(changes.old[k]), int(changes.new[k]))
        for place in reversed(self._places):
            if place is not None:
                place[0][place[1]] = place[2]
        self._done = 0

    def move_to(self, ticks: int) -> bool:
        """Go to the text of a time, forward or back; return whether words were written on the way."""
        time = self._clock(ticks)
        if not time:
            return False
        done, before = bisect_right(self._times, time), self._done
        for place in self._places[before:done]:
            if place is not None:
                place[0][place[1]] = place[3]
        for place in reversed(self._places[done:before]):
            if place is not None:
                place[0][place[1]] = place[2]
        self._done = done
        return done != before


class UserMemory:
    """The memory of EL0 for one decode tree; each of its trace IDs may run another process."""

    def __init__(self, code: UserCode, tree: DecodeTree, guests: set[int], *, in_vmid: bool) -> None:
        """Add the memory to the tree.

        ``guests`` are threads that ran one; it grows, and all trees share it, as threads go from CPU to CPU.
        ``in_vmid``: CONTEXTIDR_EL2, which OpenCSD calls VMID, has the thread.
        """
        self._code, self._tree, self._guests, self._in_vmid = code, tree, guests, in_vmid
        self._threads: dict[int, int] = {}  # by trace ID; 0 outside of the host's processes
        self._read = OnMemory(self._on_memory)
        tree.add_callback_memory(0, LAST_USER, _EL1_NONSECURE, self._read)

    def begin(self) -> None:
        """Start a recording: nothing is known of what runs."""
        self._threads.clear()
        self._tree.text_changed()

    def take(self, number: int, element: memoryview) -> None:
        """Follow a context of a trace ID; after it the library asks for the code that runs in it."""
        thread = self._thread(element)
        if thread and thread != self._threads.get(number):
            self._tree.text_changed()  # the library keeps copies of what it read
        self._threads[number] = thread

    def _thread(self, element: memoryview) -> int:
        """Return the thread of a context at EL0 of the host; 0 for any other."""
        security, level, process, vmid, valid = _CONTEXT.unpack_from(element, _CONTEXT_AT)
        thread = process if valid & HAS_CONTEXT else 0
        if self._in_vmid:
            thread = vmid if valid & HAS_VMID else 0
            if valid & HAS_LEVEL and level == 1:  # with VHE, that is a guest, whose EL0 has the thread of its VCPU
                self._guests.add(thread)
        elif valid & HAS_VMID and vmid:
            return 0
        is_user = valid & HAS_LEVEL and level == 0 and security == NONSECURE
        return thread if is_user and thread not in self._guests else 0

    def _on_memory(self, _context: int, vaddr: int, _space: int, number: int, size: int, buffer: int) -> int:
        thread = self._threads.get(number)
        data = self._code(thread, vaddr) if thread else None
        if data is None:
            return 0
        size = min(size, len(data)) & ~3
        memmove(buffer, data[:size].tobytes(), size)
        return size
