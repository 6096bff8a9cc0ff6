"""What the commands of ``prologue trace`` say on standard error beside their output."""

from __future__ import annotations

import sys
from argparse import Namespace

from prologue.report.printable import printable
from prologue.trace.check import ImageCheck
from prologue.words import counted


def print_notes(lines: list[str]) -> None:
    """Print what was read and what could not be used: standard output is for the trace."""
    sys.stdout.flush()
    for line in lines:
        print(f"prologue: {printable(line)}", file=sys.stderr)


def left_out_lines(check: ImageCheck) -> list[str]:
    """Count the ranges that did not run as the image has them."""
    ranges, instructions = check.left_out
    if not ranges:
        return []
    it, do = ("it runs", "did") if ranges == 1 else ("they run", "did")
    return [
        f"{counted(ranges, 'range')} with {counted(instructions, 'instruction')} left out, a gap instead: "
        f"{it} through a branch that is always taken, so this {do} not run"
    ]


def warnings(check: ImageCheck, args: Namespace) -> list[str]:
    """Warn, in a line for each cause, that the image is not what ran, and say what to do."""
    if not check.impossible:
        return []
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


def _remedy(check: ImageCheck, args: Namespace) -> str:
    """What gives the text that ran."""
    if args.writes is not None:
        remedy = "take --writes and the image of the boot that was traced"
    elif args.memory is not None:
        remedy = "take --memory of the boot that was traced, or --writes if its text changed meanwhile"
    else:
        remedy = "give the text that ran, with prologue live overlay or --memory"
    return f"{remedy}, to the decoder too" if check.decoder is not None else remedy
