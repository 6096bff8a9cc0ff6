"""``prologue trace check``."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any, Final

from prologue.cli.trace_disasm import print_said
from prologue.cli.trace_inputs import open_history, open_kernels, open_traces
from prologue.errors import InputError
from prologue.memory.sources import open_memory
from prologue.trace.check import ImageCheck, StaleWord
from prologue.trace.known import KnownRanges
from prologue.trace.mechanisms import Mechanisms
from prologue.trace.programs import Program
from prologue.trace.reported import ReportedWord, reported_words
from prologue.trace.sources import Trace
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
        reported = reported_words(trace, kernels)
        rest = [*summary.lines(), *_unjudged(check), *trace.account.lines(), *_may_be_hidden(trace, summary)]
    programs = kernels.programs
    if args.json:
        data: dict[str, Any] = {
            "schema": SCHEMA,
            "trace": trace.name,
            "images": [program.name for program in programs],
            "memory": args.memory,
            **summary.data(),
            "steps_judged": check.judged,
            "steps_not_judged": dict(check.unjudged),
            "not_used": dict(trace.account.counts),
            "stale": [_data(check, one, programs, owners) for one in stale],
            "reported": [_reported_data(one, programs) for one in reported],
        }
        print(json.dumps(data, indent=2))
    else:
        for one in stale:
            print(_text(check, one, programs[one.program], owners))
        for word in reported:
            print(_reported_text(word, programs))
        print_said(rest)
    if not check.judged and not reported:
        raise InputError(
            "no step could be judged: is this the kernel that ran, and where it ran (--slide, --memory)?",
            path=trace.name,
        )
    if not args.json:
        if stale or not reported:
            print(_verdict(check, stale))
        if reported:
            print(f"the decoder reports {counted(len(reported), 'word')} of its image that cannot be what ran")
    return 1 if stale or reported else 0


def _verdict(check: ImageCheck, stale: list[StaleWord]) -> str:
    words = counted(len(stale), "word")
    if stale:
        return f"{words} of the image cannot be what ran"
    left = check.unjudged.total()
    return f"{counted(check.judged, 'step')}, none impossible" + (f"; {left:,} could not be judged" if left else "")


def _may_be_hidden(trace: Trace, summary: TraceSummary) -> list[str]:
    """Where perf may have left a gap instead of an impossible step (tools/perf/util/cs-etm-decoder, after 6.12)."""
    began = trace.account.counts["places where tracing began (trace on)"]
    if trace.kind != "perf" or not began or not summary.gaps:
        return []
    return [
        f"perf after 6.12, with OpenCSD 1.5.4 or later, leaves a gap (trace on) where its image cannot be what ran: "
        f"{counted(summary.gaps, 'gap')} here may be such; perf 6.12 shows the steps instead"
    ]


def _reported_text(word: ReportedWord, programs: list[Program]) -> str:
    place = "" if word.vaddr is None else f" at {_place(word.program, word.vaddr, programs)}"
    whose = "image" if word.fits else "decoder's image"
    return f"{whose} stale{place}: {word.describe()} ({_times(word.count, word.cpu, word.time)})"


def _reported_data(word: ReportedWord, programs: list[Program]) -> dict[str, Any]:
    name, offset = ("", 0)
    if word.program >= 0 and word.vaddr is not None:
        name, offset = programs[word.program].place(word.vaddr)
    return {
        "image": programs[word.program].name if word.program >= 0 else None,
        "vaddr": None if word.vaddr is None else hex(word.vaddr),
        "symbol": name or None,
        "symbol_offset": offset,
        "word": None if word.word is None else f"{word.word:08x}",
        "fits": word.fits,
        "exact": word.exact,
        "after": word.after,
        "count": word.count,
        "report": word.why,
        "message": word.describe(),
    }


def _place(row: int, vaddr: int, programs: list[Program]) -> str:
    name, offset = programs[row].place(vaddr) if row >= 0 else ("", 0)
    return f"{name}+{offset:#x} ({vaddr:#x})" if name else f"{vaddr:#x}"


def _times(count: int, cpu: int, time: int) -> str:
    when = f" at {time // 10**9}.{time % 10**9:09}" if time else ""
    return ("once" if count == 1 else f"{count:,} times") + (f", first on cpu {cpu}{when}" if cpu >= 0 else "")


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
    writes = f"; {_owner(stale, program, owners) or 'no mechanism that the audit knows'}" if owners else ""
    times = _times(stale.count, stale.cpu, stale.time)
    return f"image stale at {place} ({stale.vaddr:#x}): {check.describe(stale)} ({times}{writes})"


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
