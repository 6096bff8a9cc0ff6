"""``prologue trace check``."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import dataclass
from typing import Any, Final

from prologue.cli.arguments import put_report
from prologue.errors import UNDECIDED, UndecidedError
from prologue.live.memory.sources import open_memory
from prologue.live.system.programs import Program, linked_program
from prologue.report.html.page import Badge
from prologue.trace.cli.divergence import divergence_data, divergence_lines, owner_of, place_data, place_text
from prologue.trace.cli.inputs import TraceReading, begin_reading, require_report, use_example_trace
from prologue.trace.cli.notes import left_out_lines, print_notes, unmatched_guests
from prologue.trace.path.check import Findings, ImageCheck, StaleWord
from prologue.trace.path.divergence import Divergences, find_divergences
from prologue.trace.path.mechanisms import Mechanisms
from prologue.trace.path.reported import ReportedWord, reported_words
from prologue.trace.readers.sources import Trace
from prologue.trace.views.summary import TraceSummary
from prologue.words import counted

SCHEMA: Final = "prologue.trace-check/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """A trace that was read, and what is wrong with the images."""

    reading: TraceReading
    owners: Mechanisms | None
    findings: Findings
    reported: list[ReportedWord]
    diverged: Divergences | None

    @property
    def judged(self) -> bool:
        """True if anything could be judged."""
        return bool(self.reading.check.judged or self.reading.check.impossible or self.reported)

    @property
    def decided(self) -> bool:
        """True if at least half of the bytes of trace were decoded, and what is in them could be judged."""
        account = self.reading.trace.account
        return (
            self.judged and not self.reading.check.ignoring and 2 * account.undecoded.total() <= account.traced.total()
        )

    @property
    def failed(self) -> bool:
        """True if an image is not what ran."""
        diverged = self.diverged is not None and bool(self.diverged.words)
        return bool(self.findings.stale or self.findings.decoder or self.reported or diverged)


def run(args: Namespace) -> int:
    """Say whether the images can be the code that ran."""
    use_example_trace(args)
    require_report(args)
    explains = args.explain is not None and args.vmlinux is not None
    owners = Mechanisms(args.vmlinux, open_memory(args.explain)) if explains else None
    with begin_reading(args, owners.slide if owners else None) as reading:
        trace, check, summary = reading.trace, reading.check, reading.summary
        for batch, numbers in check.executed(trace):
            summary.add(batch, numbers)
        notes = [
            *unmatched_guests(reading.known),
            *summary.lines(),
            *left_out_lines(check),
            *_unjudged(check),
            *trace.account.lines(),
            *_may_be_hidden(trace, summary),
            *_without_memory(trace, args),
        ]
        done = _Checked(
            reading=reading,
            owners=owners,
            findings=check.findings(),
            reported=reported_words(trace, reading.kernels),
            diverged=_compare_with_file(trace, args, reading.kernels.host),
        )
    if args.format == "text":
        _print_findings(done)
    else:
        put_report(args, _report(args, done, notes))
    print_notes(notes)
    if not done.judged:
        raise UndecidedError(f"no step could be judged: {summary.why_no_step(check.unjudged)}", path=trace.name)
    if args.format == "text" and (done.failed or not args.quiet):
        print("\n".join(_verdict(done)))
    return 1 if done.failed else 0 if done.decided else UNDECIDED


def _print_findings(done: _Checked) -> None:
    programs, check = done.reading.kernels.programs, done.reading.check
    for stale in done.findings.decoder:
        times, why = _times(stale.count, stale.cpu, stale.time), check.why_ignored(stale)
        print(f"decoder astray at {place_text(programs[stale.program], stale.vaddr)}: {why} ({times})")
    for stale in done.findings.stale:
        program, times = programs[stale.program], _times(stale.count, stale.cpu, stale.time)
        writes = ""
        if done.owners:
            writes = f"; {_owner(stale, program, done.owners) or 'no mechanism that the audit knows'}"
        print(f"image stale at {place_text(program, stale.vaddr)}: {check.describe(stale)} ({times}{writes})")
    for word in done.reported:
        place = "" if word.vaddr is None else f" at {place_text(_image_of(word, programs), word.vaddr)}"
        whose = "image" if word.fits else "decoder's image"
        print(f"{whose} stale{place}: {word.describe()} ({_times(word.count, word.cpu, word.time)})")
    if done.diverged is not None:
        print("\n".join(divergence_lines(done.diverged, done.reading.kernels.host, done.owners)))


def _document(args: Namespace, done: _Checked) -> dict[str, Any]:
    check, owners, programs = done.reading.check, done.owners, done.reading.kernels.programs
    return {
        "schema": SCHEMA,
        "trace": done.reading.trace.name,
        "images": [program.name for program in programs],
        "memory": args.memory,
        **done.reading.summary.data(),
        "left_out": dict(zip(("ranges", "instructions"), check.left_out, strict=True)),
        "steps_judged": check.judged,
        "steps_not_judged": dict(check.unjudged),
        "not_used": dict(done.reading.trace.account.counts),
        "bytes": done.reading.trace.account.bytes_data(),
        "stale": [_data(check, word, programs, owners) for word in done.findings.stale],
        "follow": [_data(check, word, programs, owners) for word in done.findings.follow],
        "decoder": [_data(check, word, programs, owners, blame=True) for word in done.findings.decoder],
        "reported": [_reported_data(word, programs) for word in done.reported],
        "divergence": None
        if done.diverged is None
        else divergence_data(done.diverged, done.reading.kernels.host, owners),
    }


def _report(args: Namespace, done: _Checked, notes: list[str]) -> str:
    document = _document(args, done)
    if args.format == "json":
        return json.dumps(document, indent=2)
    from prologue.report.html.page import render_page
    from prologue.trace.report.page import check_page

    # As the exit code: what diverged is on the page, too, but no step could be judged.
    outcome: Badge = "failed" if done.judged and done.failed else "passed" if done.decided else "not decided"
    lines = _verdict(done) if done.judged else []
    if done.diverged is not None:
        # The words are among the causes already.
        lines += divergence_lines(done.diverged, done.reading.kernels.host, done.owners)[len(done.diverged.words) :]
    return render_page(check_page(document, outcome, lines, notes, args.command_line))


def _compare_with_file(trace: Trace, args: Namespace, running: Program) -> Divergences | None:
    """Find where a decoder with the text of the file would have gone astray; None if it is what was decoded with."""
    if trace.decoded is None or trace.decoded.own_memory:
        return None
    if args.memory is None or args.vmlinux is None:
        return None
    return find_divergences(trace.decoded, linked_program(args.vmlinux, running.kernel.slide), running)


def _without_memory(trace: Trace, args: Namespace) -> list[str]:
    if trace.decoded is None or trace.decoded.own_memory:
        return []
    if args.vmlinux is None:
        return ["no vmlinux was given, so none was compared with what ran"]
    if args.memory is not None:
        return []
    return [
        "decoded with the text of the file: where it is not what ran, the decoder goes astray, and what follows is not "
        "to be believed; record with perf record --kcore"
    ]


def _verdict(done: _Checked) -> list[str]:
    check, findings, reported, lines = done.reading.check, done.findings, done.reported, list[str]()
    if findings.decoder:
        lines.append(f"the decoder went astray at {counted(len(findings.decoder), 'place')}")
    if findings.stale:
        lines.append(f"{counted(len(findings.stale), 'word')} of the image cannot be what ran")
    if findings.follow:
        words, steps = counted(len(findings.follow), "other word"), counted(findings.following, "impossible step")
        lines.append(f"also: {steps} at {words}, after the first one of a CPU and before its next gap")
    if not lines and not reported:
        left, undecoded = check.unjudged.total(), done.reading.trace.account.undecoded_text()
        lines.append(
            f"{counted(check.judged, 'step')}, none impossible"
            + (f"; {left:,} could not be judged" if left else "")
            + (f"; {undecoded}" if undecoded else "")
            + ("" if done.decided else ": not decided")
        )
    if reported:
        lines.append(f"the decoder reports {counted(len(reported), 'word')} of its image that cannot be what ran")
    return lines


def _may_be_hidden(trace: Trace, summary: TraceSummary) -> list[str]:
    """Say where perf may have left a gap instead of an impossible step (tools/perf/util/cs-etm-decoder, after 6.12)."""
    began = trace.account.counts["places where tracing began (trace on)"]
    if trace.kind != "perf" or not began or not summary.gaps:
        return []
    return [
        f"perf after 6.12, with OpenCSD 1.5.4 or later, leaves a gap (trace on) where its image cannot be what ran: "
        f"{counted(summary.gaps, 'gap')} here may be such; perf 6.12 shows the steps instead"
    ]


def _reported_data(word: ReportedWord, programs: list[Program]) -> dict[str, Any]:
    image = _image_of(word, programs)
    return {
        "image": None if image is None else image.name,
        **place_data(image, word.vaddr),
        "word": None if word.word is None else f"{word.word:08x}",
        "fits": word.fits,
        "exact": word.exact,
        "after": word.after,
        "count": word.count,
        "report": word.why,
        "message": word.describe(),
    }


def _image_of(word: ReportedWord, programs: list[Program]) -> Program | None:
    return programs[word.program] if word.program >= 0 else None


def _times(count: int, cpu: int, time: int) -> str:
    when = f" at {time // 10**9}.{time % 10**9:09}" if time else ""
    return ("once" if count == 1 else f"{count:,} times") + (f", first on cpu {cpu}{when}" if cpu >= 0 else "")


def _unjudged(check: ImageCheck) -> list[str]:
    return [
        f"{counted(check.judged, 'step')} judged",
        *(
            f"{counted(count, 'step')}{what.removeprefix('steps')}: not judged"
            for what, count in check.unjudged.items()
        ),
    ]


def _owner(stale: StaleWord, program: Program, owners: Mechanisms | None) -> str:
    """Name who writes that word, of the host's kernel."""
    return owner_of(stale.vaddr, program, owners) if stale.program == 0 else ""


def _data(
    check: ImageCheck, stale: StaleWord, programs: list[Program], owners: Mechanisms | None, *, blame: bool = False
) -> dict[str, Any]:
    program = programs[stale.program]
    return {
        "image": program.name,
        **place_data(program, stale.vaddr),
        "word": f"{stale.word:08x}",
        "count": stale.count,
        "went": [[hex(went) if went else None, count] for went, count in stale.went.most_common()],
        "mechanism": _owner(stale, program, owners) or None,
        "message": check.why_ignored(stale) if blame else check.describe(stale),
    }
