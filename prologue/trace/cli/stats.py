"""``prologue trace stats``."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from prologue.cli.arguments import look_of, put_report
from prologue.errors import UsageError
from prologue.live.memory.ranges import TOP
from prologue.live.system.programs import Program
from prologue.outputs import require_distinct
from prologue.trace.cli.inputs import begin_reading, make_filters, require_no_input, require_report, use_example_trace
from prologue.trace.cli.notes import print_notes
from prologue.trace.path.known import KnownRanges
from prologue.trace.views.stats import (
    Executed,
    FoldedStacks,
    FunctionUse,
    by_function,
    executed,
    first_slots,
    merged,
)
from prologue.trace.views.summary import TraceSummary
from prologue.trace.views.times import FunctionTimes, TimeUse
from prologue.words import counted

SCHEMA: Final = "prologue.trace-stats/1"
_TOP: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProgramStats:
    """Counts of one image's execution; ``slots`` has those of each first slot; None for a kernel without any."""

    program: Program
    done: Executed
    functions: list[FunctionUse]
    slots: np.ndarray[tuple[int], np.dtype[np.int64]] | None
    times: dict[int, TimeUse] | None  # of each function by address; None without --times

    @property
    def instructions(self) -> int:
        return int(self.done.counts.sum())


def run(args: Namespace) -> int:
    """Print what a trace says in sum."""
    if args.format != "text" and args.top is not None:
        option = "--json" if args.format == "json" else f"--format {args.format}"
        raise UsageError(f"--top is for the table: {option} has every function")
    use_example_trace(args)
    look = look_of(args, ("--plot", args.plot))
    _require_outputs(args)
    with begin_reading(args) as reading:
        trace, kernels, known = reading.trace, reading.kernels, reading.known
        check, summary = reading.check, reading.summary
        filters = make_filters(args, kernels)
        stacks = FoldedStacks(known) if args.plot or args.format == "html" else None
        times = FunctionTimes(known) if args.times else None
        for batch, every, keep, _ in reading.passing(filters):
            if stacks is not None:
                stacks.add(batch, every, keep)
            if times is not None:
                times.add(batch, every, keep)
        notes = reading.notes(filters)
        clocked = trace.header is None or trace.header.clocked
    shown = times if clocked else None
    programs = [_stats(known, summary, [row], shown) for row in range(len(kernels.kernels))]
    binaries = (_stats(known, summary, rows, shown) for rows in kernels.binary_rows())
    programs += [stats for stats in binaries if stats.instructions]  # of others something ran that is not asked for
    if times is not None and not (times.has_times and clocked) and not times.has_cycles:
        notes.insert(0, "--times: the trace has no times, and no counts of cycles")
    lines = list(stacks.lines()) if stacks is not None else []
    if args.plot is not None:
        from prologue.trace.report.flames import plot_flames

        title = f"{trace.name}: {counted(summary.instructions, 'instruction')} by call stack"
        plot_flames(lines, title, args.plot, look)
    if args.format == "text":
        for stats in programs:
            print("\n".join(_text(stats, _TOP if args.top is None else args.top)))
    print_notes(notes)
    if args.format == "text":
        return 0
    images = [_data(stats) for stats in programs]
    left_out = dict(zip(("ranges", "instructions"), check.left_out, strict=True))
    flow = {"left_out": left_out, "steps_judged": check.judged, "steps_impossible": check.impossible}
    contents = {**summary.data(), **flow, "not_used": dict(trace.account.counts), "images": images}
    document = {"schema": SCHEMA, "trace": trace.name, "memory": args.memory, **contents}
    if args.format == "json":
        put_report(args, json.dumps(document, indent=2))
        return 0
    from prologue.report.html.page import render_page
    from prologue.trace.report.page import stats_page

    put_report(args, render_page(stats_page(document, notes, lines, args.command_line)))
    return 0


def _require_outputs(args: Namespace) -> None:
    """Refuse files that cannot be written, before the work."""
    require_report(args)
    if args.plot is not None:
        if args.plot.suffix.lower() != ".svg":
            raise UsageError(f"{args.plot}: a flame graph is an .svg")
        require_no_input(args.plot, args)
        require_distinct(args.output, args.plot)


def _stats(known: KnownRanges, summary: TraceSummary, rows: list[int], times: FunctionTimes | None) -> _ProgramStats:
    """Count what ran of a kernel, or of a binary: each of ``rows`` is one of its places, shown is the first."""
    program = known.kernels.programs[rows[0]]
    shifts = [program.kernel.slide - known.kernels.programs[row].kernel.slide & TOP for row in rows]
    done = merged([executed(known, summary.runs, row).moved(shift) for row, shift in zip(rows, shifts, strict=True)])
    slots = first_slots(program)
    return _ProgramStats(
        program=program,
        done=done,
        functions=by_function(program, rows[0], done),
        slots=None if slots is None else done.at(slots),
        times=None if times is None else times.by_function(rows, shifts),
    )


def _text(stats: _ProgramStats, top: int) -> list[str]:
    words = sum(len(piece.words) for piece in stats.program.pieces)
    share = 100 * len(stats.done.vaddrs) / words
    lines = [
        f"{stats.program.name}: {counted(stats.instructions, 'instruction')} in "
        f"{counted(len(stats.functions), 'function')}; "
        f"{len(stats.done.vaddrs):,} of {words:,} words of text ({share:.2f}%)"
    ]
    if stats.slots is not None and stats.instructions:
        count = int(stats.slots.sum())
        lines.append(
            f"prologues: {counted(count, 'first slot')} executed, "
            f"{100 * count / stats.instructions:.2f}% of instructions, in {int((stats.slots > 0).sum()):,} of "
            f"{len(stats.slots):,} functions with one"
        )
    if stats.functions:
        head = _columns(stats.times, f" {'us':>14} {'first s':>18} {'last s':>18}", f" {'cycles':>14}")
        lines.append(f"{'instructions':>14} {'%':>6} {'entries':>12}{head}  function")
    for use in stats.functions[:top]:
        percent = 100 * use.instructions / stats.instructions
        spent = (stats.times or {}).get(use.vaddr)
        when = _columns(stats.times, _when(spent), f" {'-' if spent is None else f'{spent.cycles or 0:,.0f}':>14}")
        lines.append(f"{use.instructions:>14,} {percent:>6.2f} {use.entries:>12,}{when}  {use.name}")
    return lines


def _columns(times: dict[int, TimeUse] | None, when: str, cycles: str) -> str:
    """Return those columns of which the trace has something."""
    uses = (times or {}).values()
    has_times, has_cycles = any(use.last for use in uses), any(use.cycles is not None for use in uses)
    return (when if has_times else "") + (cycles if has_cycles else "")


def _when(use: TimeUse | None) -> str:
    """Write the columns of time of a function; it has none before the first timestamp of its CPU."""
    if use is None or not use.last:
        return f" {'-':>14} {'-':>18} {'-':>18}"
    first, last = (f"{time // 10**9}.{time % 10**9:09}" for time in (use.first, use.last))
    return f" {use.ns / 1000:>14,.3f} {first:>18} {last:>18}"


def _data(stats: _ProgramStats) -> dict[str, Any]:
    return {
        "image": stats.program.name,
        "instructions": stats.instructions,
        "text_words": sum(len(piece.words) for piece in stats.program.pieces),
        "words_executed": len(stats.done.vaddrs),
        "first_slots": None if stats.slots is None else len(stats.slots),
        "first_slots_executed": None if stats.slots is None else int((stats.slots > 0).sum()),
        "prologues": None if stats.slots is None else int(stats.slots.sum()),
        "functions": [
            {"name": use.name, "vaddr": hex(use.vaddr), "instructions": use.instructions, "entries": use.entries,
             "words_executed": use.distinct, **_time_data(stats.times, use.vaddr)}
            for use in stats.functions
        ],
    }  # fmt: skip


def _time_data(times: dict[int, TimeUse] | None, vaddr: int) -> dict[str, Any]:
    use = (times or {}).get(vaddr)
    if use is None:
        return {}
    when = {"ns": round(use.ns), "first_ns": use.first, "last_ns": use.last} if use.last else {}
    return when if use.cycles is None else {**when, "cycles": round(use.cycles)}
