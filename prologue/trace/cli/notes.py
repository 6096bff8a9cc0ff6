"""Notes and warnings of the commands of ``prologue trace``, beside their output."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Set
from typing import Any, Final

import numpy as np

from prologue.report.terminal import note, warn
from prologue.trace.path.check import ImageCheck
from prologue.trace.path.filters import Filters
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.reported import reported_words
from prologue.trace.ranges import NO_CPU, NO_LEVEL, NO_TASK
from prologue.trace.readers.sources import Trace
from prologue.words import counted

_MOST: Final = 16  # numbers in a line
_WARNING: Final = "warning: "


def print_notes(lines: list[str]) -> None:
    """Print what was read and what could not be used: standard output is for the trace."""
    for line in lines:
        if line.startswith(_WARNING):
            warn(line.removeprefix(_WARNING))
        else:
            note(line)


def left_out_lines(check: ImageCheck) -> list[str]:
    """Count the ranges that did not run as the image has them."""
    ranges, instructions = check.left_out
    if not ranges:
        return []
    first = check.first_stop()
    why = f"it runs through {first}" if ranges == 1 else f"they run through words that never go on, first {first}"
    return [
        f"{counted(ranges, 'range')} with {counted(instructions, 'instruction')} left out, a gap instead: "
        f"{why}, so this did not run"
    ]


def warnings(check: ImageCheck, trace: Trace, args: Namespace) -> list[str]:
    """Warn, in a line for each cause, that the image is not what ran, and say what to do."""
    lines = [*_step_warnings(check, args)] if check.impossible else []
    if check.ignoring:
        lines.append(f"warning: {check.ignoring}")
    if reported := len(reported_words(trace, check.kernels)):
        lines.append(
            f"warning: the decoder reports {counted(reported, 'word')} of its image that cannot be what ran: "
            f"decode again with the text that ran, from prologue live overlay; prologue trace check names the words"
        )
    return lines


def _step_warnings(check: ImageCheck, args: Namespace) -> list[str]:
    findings, lines = check.findings(), []
    if findings.decoder:
        word = findings.decoder[0]
        place = check.place(word)
        more = f" (and {len(findings.decoder) - 1:,} more)" if len(findings.decoder) > 1 else ""
        lines.append(f"warning: the decoder is astray from {place} on{more}: {check.why_ignored(word)}")
    if findings.stale:
        words = counted(len(findings.stale), "word")
        verb = "is" if len(findings.stale) == 1 else "are"
        lines.append(
            f"warning: {words} of the image {verb} not what ran, {counted(check.impossible, 'impossible step')}: "
            f"{_remedy(check, args)}; prologue trace check names the words"
        )
    return lines


def unmatched(
    args: Namespace, filters: Filters, known: KnownRanges, entered: Set[tuple[int, int]] = frozenset()
) -> list[str]:
    """Say which filters match nothing of the trace, and what it has; ``entered`` are roots of call trees."""
    extent, lines = filters.extent, list[str]()
    tasks = extent.tasks - {NO_TASK}
    has_task = _has("", {f"{task.comm or '?'} {task.tid}" for task in tasks}) if tasks else "it says no tasks"
    for option, wanted, present, why in (
        ("cpu", filters.cpus, extent.cpus, f"the trace has no such CPU ({_has('CPU', extent.cpus - {NO_CPU})})"),
        ("level", filters.levels, extent.levels, f"nothing ran at it ({_has('level', extent.levels - {NO_LEVEL})})"),
        ("pid", filters.pids, {number for task in tasks for number in (task.pid, task.tid)},
         f"the trace has no such task ({has_task})"),
        ("comm", filters.comms, {task.comm for task in tasks}, f"the trace has no such task ({has_task})"),
    ):  # fmt: skip
        lines += [f"--{option} {value}: {why}" for value in sorted(wanted - present)]
    if filters.times is not None and not extent.timely:
        has = f"it is from {_seconds(extent.first)} to {_seconds(extent.last)}" if extent.last else "it has no times"
        lines.append(f"--time {args.time}: no range of the trace is of that time ({has})")
    kernels = known.kernels
    for name in args.symbols:
        if not Filters.touching(known, tuple(kernels.find_symbols([name]))).any():
            lines.append(f"--symbols {name}: nothing of it ran")
    for name in getattr(args, "root", ()):
        if not entered & set(kernels.find_symbols([name])):
            lines.append(f"--from {name}: it was not entered")
    if (
        not lines
        and not extent.passed
        and (filters.cpus or filters.levels or filters.places or filters.times or filters.pids or filters.comms)
    ):
        lines.append("no range passes all of the filters together")
    return [*lines, *unmatched_guests(known)]


def unmatched_guests(known: KnownRanges) -> list[str]:
    """Say which guests' kernels no range is of."""
    ran = set(np.unique(known.table["program"]).tolist())
    return [
        f"--guest-vmlinux {guest.program.name}"
        + ("" if guest.number is None else f"@{guest.number}")
        + ": the trace has no range of that guest"
        for row, guest in enumerate(known.kernels.guests, 1)
        if row not in ran
    ]


def _has(what: str, values: Set[Any]) -> str:
    if not values:
        return f"it says no {what}s"
    more = f" and {len(values) - _MOST:,} more" if len(values) > _MOST else ""
    noun = f"{what}{'s' * (len(values) > 1)} " if what else ""
    return f"it has {noun}{', '.join(map(str, sorted(values)[:_MOST]))}{more}"


def _seconds(time: int) -> str:
    return f"{time // 10**9}.{time % 10**9:09} s"


def _remedy(check: ImageCheck, args: Namespace) -> str:
    """Name what gives the text that ran."""
    if args.writes is not None:
        remedy = "take --writes and the image of the boot that was traced"
    elif args.memory is not None:
        remedy = "take --memory of the boot that was traced, or --writes if its text changed meanwhile"
    else:
        remedy = "give the text that ran, with prologue live overlay or --memory"
    return f"{remedy}, to the decoder too" if check.decoder is not None else remedy
