"""``prologue writes perf``."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Final

from prologue.live.pokes.convert import pokes_of
from prologue.live.pokes.perf_data import write_perf_data
from prologue.live.pokes.recording import Recording, longest_interval
from prologue.live.pokes.sources import read_any
from prologue.outputs import require_other
from prologue.words import counted

SCHEMA: Final = "prologue.live-perf/1"


def run(args: Namespace) -> int:
    """Write recorded writes as text pokes of perf."""
    require_other(args.output, args.writes)
    recording = read_any(args.writes)
    perf = pokes_of(recording)
    write_perf_data(args.output, perf)
    lost = [{"what": loss.what, "amount": loss.amount} for loss in recording.trailer.lost]
    if args.json:
        data = {"schema": SCHEMA, "output": str(args.output), "machine": perf.machine, "release": perf.release or None}
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
