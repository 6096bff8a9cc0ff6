"""``prologue writes record``."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections import Counter
from typing import Any, Final

from prologue.cli.arguments import shell_words
from prologue.errors import UsageError
from prologue.live.cli.writes import BUFFER, SECONDS
from prologue.live.pokes.recorder import record, script
from prologue.live.pokes.recorder_output import read_output
from prologue.live.pokes.recorder_writes import writes_of_output
from prologue.live.pokes.recording import Recording
from prologue.outputs import new_file
from prologue.report.terminal import working
from prologue.words import counted

SCHEMA: Final = "prologue.live-record/1"


def run(args: Namespace) -> int:
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
        print(json.dumps(_data(args, recording), indent=2))
    elif not args.quiet:
        print(_text(args, recording))
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
    if useless := next((option for option, there in given.items() if there), ""):
        raise UsageError(
            f"{useless} has no effect on the script of --script: give it -t SECONDS, -b KIB or a command there"
        )


def _data(args: Namespace, recording: Recording) -> dict[str, Any]:
    origin, ending = recording.header, recording.trailer
    return {
        "schema": SCHEMA, "source": args.source, "output": str(args.output), "release": origin.release,
        "build_id": origin.build_id or None, "slide": None if ending.slide is None else hex(ending.slide),
        "words": len(recording.rows), "lost": [loss._asdict() for loss in ending.lost], "notes": list(ending.notes),
    }  # fmt: skip


def _text(args: Namespace, recording: Recording) -> str:
    origin, ending = recording.header, recording.trailer
    written = counted(len(recording.rows), "word of text was written", plural="words of text were written")
    lines = [f"{args.output}: {origin.release}, {written}"]
    if unseen := Counter(recording.rows["pc"].tolist())[0]:
        lines.append(f"  {unseen:,} of them seen by no probe, only as a difference in the text")
    lines += [f"  lost: {loss.amount:,} {loss.what}" for loss in ending.lost if loss.amount is not None]
    lines += [f"  {note}" for note in ending.notes]
    return "\n".join(lines)
