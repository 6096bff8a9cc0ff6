"""``prologue.probe``."""

from __future__ import annotations

from dataclasses import replace

from prologue.errors import InputError, UsageError
from prologue.kernel.kernel import Kernel
from prologue.library.files import File, opened
from prologue.live.probe.arguments import arguments_at
from prologue.live.probe.event import described_at, event_line
from prologue.live.probe.judge import Judge
from prologue.live.probe.places import find_places
from prologue.live.probe.verdict import ProbeVerdict, verdict_on


def probe(vmlinux: File, *places: str | int, event: bool = False) -> list[ProbeVerdict]:
    """Say where a kernel lets one put a kprobe, by the rules of its release.

    The kernel's text is judged once for each call: ask for many places in one.

    Args:
        vmlinux: the kernel, unpacked if ``event`` is set, for DWARF is read from the file.
        places: "FUNC", "FUNC+0x10" or link-time addresses. A name of several functions gives several verdicts.
        event: also make the lines for ``kprobe_events``.

    Returns:
        A ``ProbeVerdict`` for each place, in order: ``answer`` ("yes", "no", "depends"), ``reasons``, ``where`` (a
        ``Location``), ``word`` (the instruction there), ``nearest`` place that can, ``event``.

    Raises:
        InputError: not a kernel with kprobes and kallsyms, of an unknown release; or no such symbol; or no code there.
        UsageError: not a place, or an address that is not a multiple of 4.

    """
    kernel = opened(vmlinux)
    if not isinstance(kernel, Kernel):
        raise InputError("is a module: name the vmlinux of its kernel", path=kernel.path)
    if any(not isinstance(place, str) and not 0 <= place < 1 << 64 for place in places):
        raise UsageError("an address has at most 64 bits")
    judge = Judge(kernel)
    asked = [place if isinstance(place, str) else f"{int(place):#x}" for place in places]
    verdicts = [verdict_on(judge, place) for name in asked for place in find_places(judge, name)]
    return [replace(verdict, event=_event(judge, verdict)) for verdict in verdicts] if event else verdicts


def _event(judge: Judge, verdict: ProbeVerdict) -> str | None:
    if verdict.answer == "no":
        return None
    return event_line(judge, verdict, arguments_at(judge.kernel.path, described_at(judge, verdict.place.vaddr)))
