"""``prologue writes record``, ``judge`` and ``perf``."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections import Counter
from typing import Any, Final

from prologue.cli.arguments import is_wanted, put_report, shell_words
from prologue.errors import UNDECIDED, UsageError
from prologue.live.cli.writes import BUFFER, SECONDS
from prologue.live.pokes.convert import pokes_of
from prologue.live.pokes.judge import judge_writes
from prologue.live.pokes.perf_data import write_perf_data
from prologue.live.pokes.recorder_output import read_output, record, script
from prologue.live.pokes.recorder_writes import writes_of_output
from prologue.live.pokes.recording import Recording, longest_interval
from prologue.live.pokes.sources import read_any
from prologue.live.report.writes import render_writes, summary
from prologue.outputs import new_file, require_other
from prologue.report.terminal import working
from prologue.words import counted

RECORD_SCHEMA: Final = "prologue.live-record/1"


def run_record(args: Namespace) -> int:
    """Record on a machine, or print the script that does."""
    if args.script:
        _require_script_alone(args)
        sys.stdout.write(script())
        return 0
    if args.output is None:
        raise UsageError("no output: use -o FILE (or --script, for a board without ssh)")
    options = ["-t", str(args.seconds), "-b", str(args.buffer)]
    if args.command is not None:
        command = shell_words("--command", args.command)
        if not command:
            raise UsageError("--command is empty: name a command, or say how long with --seconds N")
        if args.seconds != SECONDS:
            raise UsageError("--command says how long: leave out --seconds")
        options += ["--", *command]
    with new_file(args.output, mode=0o600) as temporary:
        with working(f"recording writes on {args.source}"):
            printed = record(args.source, options, shell_words("--ssh-options", args.ssh_options))
        temporary.write_text(printed, encoding="utf-8", errors="backslashreplace")
        recording = writes_of_output(read_output(printed, args.output))
    if args.json:
        print(json.dumps(_record_data(args, recording), indent=2))
    elif not args.quiet:
        print(_record_text(args, recording))
    return 0


def _require_script_alone(args: Namespace) -> None:
    """Refuse what would have no effect: the script takes its own options, on the machine that runs it.

    Raises:
        UsageError: such an option is given.

    """
    given = {
        args.source: args.source != "local", "-o": args.output is not None, "--command": args.command is not None,
        "--seconds": args.seconds != SECONDS, "--buffer": args.buffer != BUFFER, "--ssh-options": args.ssh_options,
        "--json": args.json,
    }  # fmt: skip
    if useless := next((option for option, is_given in given.items() if is_given), ""):
        raise UsageError(
            f"{useless} has no effect on the script of --script: give it -t SECONDS, -b KIB or a command there"
        )


def _record_data(args: Namespace, recording: Recording) -> dict[str, Any]:
    origin, ending = recording.header, recording.trailer
    return {
        "schema": RECORD_SCHEMA, "source": args.source, "output": str(args.output), "release": origin.release,
        "build_id": origin.build_id or None, "slide": None if ending.slide is None else hex(ending.slide),
        "words": len(recording.rows), "lost": [loss._asdict() for loss in ending.lost], "notes": list(ending.notes),
    }  # fmt: skip


def _record_text(args: Namespace, recording: Recording) -> str:
    origin, ending = recording.header, recording.trailer
    written = counted(len(recording.rows), "word of text was written", plural="words of text were written")
    lines = [f"{args.output}: {origin.release}, {written}"]
    if unseen := Counter(recording.rows["pc"].tolist())[0]:
        lines.append(f"  {unseen:,} of them seen by no probe, only as a difference in the text")
    lines += [f"  lost: {loss.amount:,} {loss.what}" for loss in ending.lost if loss.amount is not None]
    lines += [f"  {note}" for note in ending.notes]
    return "\n".join(lines)


def run_judge(args: Namespace) -> int:
    """Judge every recorded write: 1 if one of them is an error, 5 if its writer is not known for that release."""
    require_other(args.output, args.writes)
    judged = judge_writes(read_any(args.writes))
    passes = not (judged.failing or judged.undecided)
    if is_wanted(args, passes=passes):
        put_report(args, render_writes(judged, args.format, show_all=args.all), summary(judged), passes=passes)
    return 1 if judged.failing else 0 if passes else UNDECIDED


PERF_SCHEMA: Final = "prologue.live-perf/1"


def run_perf(args: Namespace) -> int:
    """Write recorded writes as text pokes of perf."""
    require_other(args.output, args.writes)
    recording = read_any(args.writes)
    perf = pokes_of(recording)
    write_perf_data(args.output, perf)
    lost = [{"what": loss.what, "amount": loss.amount} for loss in recording.trailer.lost]
    if args.json:
        data = {
            "schema": PERF_SCHEMA,
            "output": str(args.output),
            "machine": perf.machine,
            "release": perf.release or None,
        }
        data |= {"build_id": perf.build_id or None, "clock": recording.header.clock}
        counts = {"text_pokes": len(perf.pokes), "words": len(recording.rows), "lost": lost}
        print(json.dumps({**data, "within": longest_interval(recording.rows) or None, **counts}, indent=2))
    elif not args.quiet:
        pokes, words = counted(len(perf.pokes), "text poke"), counted(len(recording.rows), "word")
        print(f"{args.output}: {pokes}, {words}; times are {_times_text(recording)}")
        for loss in recording.trailer.lost:
            amount = "an unknown number" if loss.amount is None else f"{loss.amount:,}"
            print(f"  lost by the recorder: {amount}: {loss.what}")
    return 0


def _times_text(recording: Recording) -> str:
    if recording.header.clock == "instructions":
        return "instructions, not ns"
    longest = longest_interval(recording.rows)
    return f"ns: a word was written at most {longest:,} ns before its time" if longest else "ns"
