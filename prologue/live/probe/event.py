"""The line that makes a kprobe event: what is written to ``kprobe_events`` (Documentation/trace/kprobetrace.rst)."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from prologue.insn.a64 import INSN_SIZE
from prologue.live.probe.arguments import Argument
from prologue.live.probe.judge import Judge
from prologue.live.probe.verdict import ProbeVerdict

_LONGEST_NAME: Final = 63  # MAX_EVENT_NAME_LEN of kernel/trace/trace_probe.h is 64
_MOST_ARGUMENTS: Final = 128  # MAX_TRACE_ARGS


def event_line(judge: Judge, verdict: ProbeVerdict, arguments: list[Argument] | None) -> str:
    """``p:NAME PLACE ARGUMENT...``; the place is the same wherever KASLR puts the kernel."""
    where = verdict.where
    offset = f"_{where.symbol_offset:#x}" if where.symbol_offset else ""
    room = _LONGEST_NAME - len(offset)
    name = re.sub(r"\W", "_", where.symbol or f"at_{verdict.place.vaddr:x}", flags=re.ASCII)[:room] + offset
    name = f"_{name}"[:_LONGEST_NAME] if name[0].isdigit() else name
    fetched = [
        f"{argument.name}=%x{argument.register}" + (f":{argument.type}" if argument.type else "")
        for argument in arguments or ()
        if argument.register is not None and re.fullmatch(r"[A-Za-z_]\w*", argument.name, re.ASCII)
    ]
    return " ".join([f"p:{name}", _place(judge, verdict), *fetched[:_MOST_ARGUMENTS]])


def described_at(judge: Judge, vaddr: int) -> int:
    """Where to look for the arguments of a place: after the pair of slots, which leave them alone, if it is in these.

    GCC 12 (Debian's 6.1) lets the function that DWARF describes begin there.
    """
    sites = judge.kernel.sites
    if sites is None:
        return vaddr
    inside = np.flatnonzero((sites.entry <= np.uint64(vaddr)) & (np.uint64(vaddr) <= sites.second))
    return int(sites.second[inside[0]]) + INSN_SIZE if len(inside) else vaddr


def _place(judge: Judge, verdict: ProbeVerdict) -> str:
    """Symbol and offset; from _stext on if the kernel knows several symbols of that name, or none."""
    where = verdict.where
    start = verdict.place.vaddr - where.symbol_offset
    if where.symbol is not None and judge.kallsyms.by_name.get(where.symbol) == [start]:
        return f"{where.symbol}+{where.symbol_offset:#x}" if where.symbol_offset else where.symbol
    return f"_stext+{verdict.place.vaddr - judge.text_range.start:#x}"
