"""``prologue.judge_probes``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from prologue.errors import InputError, UsageError
from prologue.kernel.kernel import Kernel
from prologue.library.files import File, FileName, opened
from prologue.probe.event import EventOptions
from prologue.probe.prober import Prober
from prologue.probe.verdict import ProbeVerdict


def judge_probes(
    vmlinux: File, *places: str | int, event: bool = False, modules: Sequence[FileName] = ()
) -> list[ProbeVerdict]:
    """Say where a kernel lets one put a kprobe, by the rules of its release.

    The kernel's text is judged once for each call: ask for many places in one.

    Args:
        vmlinux: the kernel, unpacked if ``event`` is set, for DWARF is read from the file.
        places: as ``prologue probe`` takes them ("FUNC", "FUNC+0x10", "FUNC%return", "FUNC:LINE VARIABLE", ...), or
            link-time addresses. A name of several functions, or of one that is also inlined, gives several verdicts.
        event: also make the lines for ``kprobe_events``.
        modules: files of modules or directories of them, for places "MOD:FUNC".

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
    prober = Prober(kernel, modules=[Path(module) for module in modules])
    asked = [place if isinstance(place, str) else f"{int(place):#x}" for place in places]
    probes, failures = prober.probes(asked, EventOptions() if event else None)
    if failures:
        raise failures[0].error
    return [replace(each.verdict, event=each.event.line if each.event else None) for each in probes]
