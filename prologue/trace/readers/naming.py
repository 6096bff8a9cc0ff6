"""The names of what a decoder numbers: CPUs, times, tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prologue.trace.ranges import NO_CPU, TracedTask


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


def plain_task(process: int, _time: int) -> TracedTask:
    """Return the task of a process of which the trace has the number only."""
    return TracedTask("", process, process)


def same_number(number: int) -> int:
    """Return the CPU of a trace ID, which stands for it."""
    return number if number >= 0 else NO_CPU
