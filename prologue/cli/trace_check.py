"""``prologue trace check``."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any, Final

from prologue.cli.trace_disasm import print_said
from prologue.cli.trace_inputs import open_history, open_kernels, open_traces
from prologue.errors import UndecidedError
from prologue.memory.sources import open_memory
from prologue.trace.check import ImageCheck, StaleWord
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
        check, summary = ImageCheck(known, says_exceptions=trace.kind != "perf"), TraceSummary(known)
        for batch, numbers in known.numbered(trace):
            check.add(batch, numbers)
            summary.add(batch, numbers)
        stale = check.stale()
        rest = [*summary.lines(), *_unjudged(check), *trace.account.lines()]
    programs = kernels.programs
    if args.json:
        data: dict[str, Any] = {
            "schema": SCHEMA,
            "trace": trace.name,
            "images": [program.name for program in programs],
            **summary.data(),
            "steps_judged": check.judged,
            "steps_not_judged": dict(check.unjudged),
            "not_used": dict(trace.account.counts),
            "stale": [_data(check, one, programs, owners) for one in stale],
        }
        print(json.dumps(data, indent=2))
    else:
        for one in stale:
            print(_text(check, one, programs[one.program], owners))
        print_said(rest)
    if not check.judged:
        raise UndecidedError(
            "no step could be judged: is this the kernel that ran, and where it ran (--slide, --memory)?",
            path=trace.name,
        )
    if not args.json:
        print(_verdict(check, stale))
    return 1 if stale else 0


def _verdict(check: ImageCheck, stale: list[StaleWord]) -> str:
    words = counted(len(stale), "word")
    if stale:
        return f"{words} of the image cannot be what ran"
    left = check.unjudged.total()
    return f"{counted(check.judged, 'step')}, none impossible" + (f"; {left:,} could not be judged" if left else "")


def _unjudged(check: ImageCheck) -> list[str]:
    return [
        f"{counted(check.judged, 'step')} judged",
        *(f"{count:,} {what}: not judged" for what, count in check.unjudged.items()),
    ]


def _owner(stale: StaleWord, program: Program, owners: Mechanisms | None) -> str:
    """Who writes that word, of the host's kernel."""
    return owners.owner(program.own_address(stale.vaddr)) if owners and stale.program == 0 else ""


def _text(check: ImageCheck, stale: StaleWord, program: Program, owners: Mechanisms | None) -> str:
    name, offset = program.place(stale.vaddr)
    place = f"{name}+{offset:#x}" if name else f"{stale.vaddr:#x}"
    when = f" at {stale.time // 10**9}.{stale.time % 10**9:09}" if stale.time else ""
    first = f", first on cpu {stale.cpu}{when}" if stale.cpu >= 0 else ""
    times = "once" if stale.count == 1 else f"{stale.count:,} times"
    writes = f"; {_owner(stale, program, owners) or 'no mechanism that the audit knows'}" if owners else ""
    return f"image stale at {place} ({stale.vaddr:#x}): {check.describe(stale)} ({times}{first}{writes})"


def _data(check: ImageCheck, stale: StaleWord, programs: list[Program], owners: Mechanisms | None) -> dict[str, Any]:
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
        "message": check.describe(stale),
    }
