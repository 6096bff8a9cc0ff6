"""The state of ftrace in memory, as its words need it: the lists, and the variables that go with them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Final, NamedTuple

from prologue.live.memory.state import KernelState
from prologue.live.structs.ftrace_lists import (
    ENABLED,
    LiveRecords,
    direct_call_offset,
    direct_targets,
    read_records,
    registered,
)
from prologue.live.structs.objects import NotKnownError, Objects
from prologue.live.structs.variables import Variables
from prologue.live.system.running_kernel import RunningKernel

# The function that writes all literals of a page: kernels that have it set those of their own text at the first trace,
# in arch_ftrace_update_code(), and not in ftrace_init() (arch/arm64/kernel/patching.c with our patch).
_SETS_ALL_LITERALS: Final = "aarch64_insn_write_literals_u64"


class Ops(NamedTuple):
    """Run-time addresses of the registered ``ftrace_ops``; not ``complete`` if the list cannot be read to its end.

    An ops that is being unregistered counts: its sites are patched after it left the list.
    """

    places: frozenset[int]
    complete: bool


def registered_ops(objects: Objects, *, unstable: bool) -> Ops:
    """Read the list of ops; ``unstable`` if ``ftrace_lock`` is held.

    ``ftrace_shutdown`` (kernel/trace/ftrace.c, 5.5-7.2) takes an ops off the list, makes it ``removed_ops``, and
    then patches.
    """
    places, complete = set[int](), False
    with suppress(NotKnownError):
        for place in registered(objects):
            places.add(place)
        complete = True
    leaving = objects.variables.number("removed_ops") if unstable else None
    return Ops(frozenset(places | ({leaving} if leaving else set())), complete)


class FtraceState:
    """The state of ftrace, read once for a kernel and all of its modules."""

    def __init__(
        self,
        kernel: RunningKernel,
        variables: Variables,
        state: KernelState | None = None,
        *,
        text_unstable: bool = False,
    ) -> None:
        """Take the kernel; ``text_unstable`` if text changed in several readings: its state is then of another moment.

        The state is ``unstable`` then, and while ``ftrace_lock`` is held.
        """
        self._kernel = kernel
        self._state = state
        self._slide = kernel.slide
        self._variables, self._objects = variables, Objects(variables)
        self.text_unstable = text_unstable
        self.unstable = text_unstable or variables.is_held("ftrace_lock")
        self.idle_ops = variables.place("ftrace_nop_ops")
        self.list_ops = variables.place("ftrace_list_ops")

    @cached_property
    def trampolines(self) -> frozenset[int]:
        """Run-time addresses of ftrace's own entry points."""
        names = ("ftrace_caller", "ftrace_regs_caller")
        return frozenset(place for name in names if (place := self._variables.place(name)) is not None)

    @cached_property
    def ops(self) -> Ops:
        """All registered ops."""
        return registered_ops(self._objects, unstable=self.unstable)

    @cached_property
    def sets_literals_late(self) -> bool:
        """True if the kernel's own literals are those of the file until something is traced."""
        marker = self._kernel.marker
        by_marker = marker is not None and marker.version > 1
        return by_marker or self._kernel.symbols.find(_SETS_ALL_LITERALS) is not None

    @cached_property
    def disabled(self) -> bool:
        """True if ftrace disabled itself, after an ``ftrace bug`` that may have ended it half-way."""
        return bool(self._variables.number("ftrace_disabled", 4))

    def may_be_leaving(self, ops: int) -> bool:
        """Return whether ``ops`` may be about to be ``removed_ops``: records are counted first, under ``ftrace_lock``.

        An ops has a function of the kernel's; the address that it sends calls to without that function has to be code
        as well. If memory is of another moment than text, something else may have its place by now.
        """
        if not self.unstable:
            return False
        if self.text_unstable:
            return True
        to_func = self._variables.layouts.get("ftrace_ops.func")
        func = None if to_func is None else self._variables.quad(ops + to_func)
        if func is None:  # a capture has registered ops only
            return self._variables.partial
        direct = self.direct_call(ops)
        if direct is not None and not self.is_code(direct):
            return False
        return self._kernel.image.section_at(func - self._slide) in self._kernel.image.text_sections

    @cached_property
    def records(self) -> LiveRecords | None:
        """Every record; None if some cannot be read."""
        with suppress(NotKnownError):
            return read_records(self._objects)
        return None

    @cached_property
    def tracing(self) -> bool:
        """True if functions are traced, by ftrace's records, and no change of that is under way.

        Then ftrace is on, whatever ``ftrace_enabled`` has: turning it off disables all records
        (``ftrace_shutdown_sysctl``, kernel/trace/ftrace.c, 5.10-7.2).
        """
        return not self.unstable and self.records is not None and bool((self.records.flags & ENABLED).any())

    def is_code(self, vaddr: int) -> bool:
        """Return whether a run-time address is in the kernel's text, or in other text with a name; yes if none has."""
        section = self._kernel.image.section_at(vaddr - self._slide & (1 << 64) - 1)
        if section is not None:
            return section in self._kernel.image.text_sections
        return self._state is None or not self._state.symbols or bool(self._state.code_owner(vaddr))

    def direct_call(self, ops: int) -> int | None:
        """Return the address to which an ops sends its functions without ftrace; None if there is none, or unknown."""
        offset = self._direct_offset
        return None if offset is None else self._variables.quad(ops + offset) or None

    @cached_property
    def direct_targets(self) -> Mapping[int, int] | None:
        """The table of direct calls, by run-time address of the second slot; None if memory lacks a part of it."""
        try:
            return direct_targets(self._objects)
        except NotKnownError:
            return None if self._objects.knows("ftrace_func_entry.direct") else {}

    @cached_property
    def _direct_offset(self) -> int | None:
        caller = self._kernel.symbols.find("ftrace_caller")
        code = self._kernel.image.read_at(caller.vaddr, min(caller.size, 64)) if caller else None
        return direct_call_offset(self._variables.layouts, code or b"")
