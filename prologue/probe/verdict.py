"""The verdict on a place: yes, no or it depends, the reasons, and the nearest place that can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from prologue.errors import Location
from prologue.kernel.module import Module
from prologue.probe.instructions import REFUSED, SIMULATED, STEPPED, why_refused
from prologue.probe.judge import KERNEL_REASONS, Answer, Judge, Reason
from prologue.probe.places import ProbePlace

Stepping = Literal["stepped", "simulated", "stepped or simulated", ""]

_STEPPING: Final[dict[int, Stepping]] = {
    STEPPED: "stepped", SIMULATED: "simulated", STEPPED | SIMULATED: "stepped or simulated", 0: "",
}  # fmt: skip
_REASON_TEXTS: Final = {
    Reason.NOTRACE: "ftrace cannot trace this function, so kprobe events, perf and BPF are refused",
    Reason.SECOND_SLOT: "the second slot of a patch site, which belongs to ftrace",
    Reason.JUMP_LABEL: "a jump label, which static keys rewrite",
    Reason.BUG: "the BRK of a BUG or WARN",
    Reason.CFI_PREAMBLE: "what the compiler puts before a function",
    Reason.EXCEPTION_TABLE: "an instruction whose fault the exception table handles",
    Reason.EXCLUSIVE: "inside an exclusive sequence (LDXR to STXR), which an exception would break",
    Reason.DATA: "data between the code: the kernel does not look, and a probe would change what is read",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeVerdict:
    """The verdict on a place."""

    place: ProbePlace
    where: Location
    word: int
    answer: Answer
    how: Stepping
    reasons: tuple[tuple[str, str], ...]  # (name in lower case, explanation), in the order in which the kernel checks
    modules_may: bool  # a module's register_kprobe() is not refused
    notes: tuple[str, ...]
    nearest: tuple[int, Location] | None  # the nearest place of the same symbol that can: address and location
    event: str | None = None  # the line for kprobe_events; None if no event is wanted, or if the place cannot


def verdict_on(judge: Judge, place: ProbePlace) -> ProbeVerdict:
    """Judge a place, and look for the nearest one that can if it cannot."""
    vaddr = place.vaddr
    bits, outcome = (int(part[0]) for part in judge.judge(np.array([vaddr], np.uint64)))
    reasons, answer = Reason(bits), judge.answer(vaddr)
    refused = reasons & KERNEL_REASONS & ~Reason.NOTRACE
    word = judge.word(vaddr)
    return ProbeVerdict(
        place=place,
        where=judge.kernel.symbols.locate(vaddr),
        word=word,
        answer=answer,
        how="" if refused else _STEPPING[outcome & ~REFUSED],
        reasons=tuple(_explained(judge, reason, vaddr, word) for reason in reasons),
        modules_may=reasons == Reason.NOTRACE and not outcome & REFUSED,
        notes=tuple(_notes(judge, vaddr, outcome, refused)),
        nearest=None if answer == "yes" else _nearest(judge, vaddr),
    )


def _explained(judge: Judge, reason: Reason, vaddr: int, word: int) -> tuple[str, str]:
    name = (reason.name or "").lower()
    if reason == Reason.BLACKLIST:
        return name, "in " + next(area.reason for area in judge.blacklist if area.start <= vaddr < area.stop)
    if reason == Reason.INSTRUCTION:
        return name, f"{why_refused(word)}, which can be neither stepped nor simulated"
    if reason == Reason.NOT_TEXT:
        return name, _not_text(judge, vaddr)
    return name, _REASON_TEXTS[reason]


def _not_text(judge: Judge, vaddr: int) -> str:
    section = judge.kernel.image.section_at(vaddr)
    name = section.name if section is not None else "no section"
    if name.startswith(".init"):
        return f"in {name}, which is freed when the kernel has booted"
    return f"in {name}, which is not kernel text (_stext to _etext) to a running kernel"


def _notes(judge: Judge, vaddr: int, outcome: int, refused: Reason) -> list[str]:
    notes = []
    sites = judge.kernel.sites
    if sites is not None and not refused and bool((sites.first == np.uint64(vaddr)).any()):
        notes.append("the first slot: it holds MOV X9, X30 when the kernel runs, and ftrace leaves it alone then")
    if refused:
        return notes
    if isinstance(judge.kernel, Module) and judge.text.name.startswith(".init"):
        # An event is set when the module comes, before its init function runs (trace_kprobe_module_callback).
        notes.append("init text of a module, which is freed when it is loaded: set the event before that")
    if judge.replaced(vaddr):
        notes.append("boot may replace this instruction by an alternative")
    elif outcome & REFUSED:
        notes.append(
            "alternatives before it decide whether it is inside an exclusive sequence: "
            "LSE atomics, or an erratum of loads from devices"
        )
    return notes


def _nearest(judge: Judge, vaddr: int) -> tuple[int, Location] | None:
    """Find the nearest word of the same symbol that certainly can; of two, the one that is executed first."""
    start, stop = (int(part[0]) for part in judge.kallsyms.spans(np.array([vaddr], np.uint64)))
    words = np.arange((start + 3) & ~3, stop, 4, dtype=np.uint64)
    reasons, outcomes = judge.judge(words)
    able = words[(reasons == 0) & (outcomes & REFUSED == 0)]
    if not len(able):
        return None
    best = int(able[np.argmin(np.abs((able - np.uint64(vaddr)).view(np.int64)))])
    return best, judge.kernel.symbols.locate(best)
