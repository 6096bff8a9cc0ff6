"""``prologue probe``."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from prologue.elf.image import ElfImage
from prologue.kernel.judged import open_judged
from prologue.live.probe.arguments import arguments_at
from prologue.live.probe.event import described_at, event_line
from prologue.live.probe.judge import Judge
from prologue.live.probe.places import find_places
from prologue.live.probe.release import rules_of
from prologue.live.probe.verdict import ProbeVerdict, verdict_on
from prologue.releases import PROBES_COMPARED
from prologue.report.printable import printable
from prologue.report.probe import probe_data, probe_text, summary


def run(args: Namespace) -> int:
    """Print the verdicts, or the lines for kprobe_events; 1 if a place cannot, or not on every machine."""
    judge = Judge(open_judged(ElfImage(args.file)))
    places = [place for asked in args.places for place in find_places(judge, asked)]
    verdicts = [verdict_on(judge, place) for place in places]
    events = [_event(judge, verdict) if args.event else None for verdict in verdicts]
    if args.json:
        print(json.dumps(probe_data(judge, verdicts, events), indent=2))
    else:
        _note_release(judge)
        for verdict, event in zip(verdicts, events, strict=True):
            print(_event_text(verdict, event) if args.event else probe_text(verdict))
    return 0 if all(verdict.answer == "yes" for verdict in verdicts) else 1


def _event(judge: Judge, verdict: ProbeVerdict) -> str | None:
    if verdict.answer == "no":
        return None
    return event_line(judge, verdict, arguments_at(judge.kernel.path, described_at(judge, verdict.place.vaddr)))


def _event_text(verdict: ProbeVerdict, event: str | None) -> str:
    """What is no event is a comment, which the kernel skips."""
    comment = "" if verdict.answer == "yes" else f"# {verdict.where}: {summary(verdict)}"
    return "\n".join(line for line in (comment, event) if line)


def _note_release(judge: Judge) -> None:
    if judge.kernel.version not in PROBES_COMPARED:
        major, minor = rules_of(judge.kernel)
        said = (
            f"{judge.kernel.release} is judged by the rules of {major}.{minor}, the nearest release that was compared"
        )
        print(f"prologue: {printable(said)}", file=sys.stderr)
