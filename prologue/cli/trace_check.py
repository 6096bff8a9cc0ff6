"""``prologue trace check``."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any, Final

from prologue.cli.trace_inputs import open_history, open_kernels, open_traces
from prologue.cli.trace_notes import left_out_lines, print_notes, unmatched_guests
from prologue.errors import InputError
from prologue.memory.sources import open_memory
from prologue.trace.check import Findings, ImageCheck, StaleWord
from prologue.trace.known import KnownRanges
from prologue.trace.mechanisms import Mechanisms
from prologue.trace.programs import Program
from prologue.trace.summary import TraceSummary
from prologue.words import counted

SCHEMA: Final = "prologue.trace-check/1"


def run(args: Namespace) -> int:
    """Say whether the images can be the code that ran."""
    with open_traces(args) as trace:
        owners = Mechanisms(args.vmlinux, open_memory(args.explain)) if args.explain else None
        kernels = open_kernels(args, trace, owners.slide if owners else None)
        known = KnownRanges(kernels, open_history(args, trace, kernels))
        check, summary = ImageCheck(known, trace), TraceSummary(known)
        for batch, numbers in check.executed(trace):
            summary.add(batch, numbers)
        findings = check.findings()
        rest = [
            *unmatched_guests(known),
            *summary.lines(),
            *left_out_lines(check),
            *_unjudged(check),
            *trace.account.lines(),
        ]
    programs = kernels.programs
    if args.json:
        data: dict[str, Any] = {
            "schema": SCHEMA,
            "trace": trace.name,
            "images": [program.name for program in programs],
            **summary.data(),
            "left_out": dict(zip(("ranges", "instructions"), check.left_out, strict=True)),
            "steps_judged": check.judged,
            "steps_not_judged": dict(check.unjudged),
            "not_used": dict(trace.account.counts),
            "stale": [_data(check, word, programs, owners) for word in findings.stale],
            "follow": [_data(check, word, programs, owners) for word in findings.follow],
            "decoder": [_data(check, word, programs, owners, blame=True) for word in findings.decoder],
        }
        print(json.dumps(data, indent=2))
    else:
        for word in findings.decoder:
            print(_decoder_text(check, word, programs[word.program]))
        for word in findings.stale:
            print(_text(check, word, programs[word.program], owners))
        print_notes(rest)
    if not check.judged and not check.impossible:
        raise InputError(
            "no step could be judged: is this the kernel that ran, and where it ran (--slide, --memory)?",
            path=trace.name,
        )
    if not args.json:
        print("\n".join(_verdict(check, findings)))
    return 1 if findings.stale or findings.decoder else 0


def _verdict(check: ImageCheck, findings: Findings) -> list[str]:
    lines = []
    if findings.decoder:
        lines.append(f"the decoder went astray at {counted(len(findings.decoder), 'place')}")
    if findings.stale:
        lines.append(f"{counted(len(findings.stale), 'word')} of the image cannot be what ran")
    if findings.follow:
        words, steps = counted(len(findings.follow), "other word"), counted(findings.following, "impossible step")
        lines.append(f"also: {steps} at {words}, after the first one of a CPU and before its next gap")
    if lines:
        return lines
    left = check.unjudged.total()
    return [f"{counted(check.judged, 'step')}, none impossible" + (f"; {left:,} could not be judged" if left else "")]


def _unjudged(check: ImageCheck) -> list[str]:
    return [
        f"{counted(check.judged, 'step')} judged",
        *(f"{count:,} {what}: not judged" for what, count in check.unjudged.items()),
    ]


def _owner(stale: StaleWord, program: Program, owners: Mechanisms | None) -> str:
    """Who writes that word, of the host's kernel."""
    return owners.owner(program.own_address(stale.vaddr)) if owners and stale.program == 0 else ""


def _text(check: ImageCheck, stale: StaleWord, program: Program, owners: Mechanisms | None) -> str:
    writes = f"; {_owner(stale, program, owners) or 'no mechanism that the audit knows'}" if owners else ""
    return f"image stale at {_place(stale, program)}: {check.describe(stale)} ({_times(stale)}{writes})"


def _decoder_text(check: ImageCheck, word: StaleWord, program: Program) -> str:
    return f"decoder astray at {_place(word, program)}: {check.why_ignored(word)} ({_times(word)})"


def _place(stale: StaleWord, program: Program) -> str:
    name, offset = program.place(stale.vaddr)
    return (f"{name}+{offset:#x}" if name else f"{stale.vaddr:#x}") + f" ({stale.vaddr:#x})"


def _times(stale: StaleWord) -> str:
    when = f" at {stale.time // 10**9}.{stale.time % 10**9:09}" if stale.time else ""
    first = f", first on cpu {stale.cpu}{when}" if stale.cpu >= 0 else ""
    return ("once" if stale.count == 1 else f"{stale.count:,} times") + first


def _data(
    check: ImageCheck, stale: StaleWord, programs: list[Program], owners: Mechanisms | None, *, blame: bool = False
) -> dict[str, Any]:
    program = programs[stale.program]
    name, offset = program.place(stale.vaddr)
    return {
        "image": program.name,
        "vaddr": hex(stale.vaddr),
        "symbol": name or None,
        "symbol_offset": offset,
        "word": f"{stale.word:08x}",
        "count": stale.count,
        "went": [[hex(went) if went else None, count] for went, count in stale.went.most_common()],
        "mechanism": _owner(stale, program, owners) or None,
        "message": check.why_ignored(stale) if blame else check.describe(stale),
    }
