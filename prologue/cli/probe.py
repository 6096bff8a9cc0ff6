"""``prologue probe``."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path

from prologue.cli.subcommands import Subcommand
from prologue.elf.image import ElfImage
from prologue.kernel.judged import open_judged
from prologue.kernel.kernel import Kernel
from prologue.library.probing import probe
from prologue.live.probe.release import rules_of
from prologue.live.probe.verdict import ProbeVerdict
from prologue.releases import PROBES_COMPARED
from prologue.report.printable import printable
from prologue.report.probe import probe_data, probe_text, summary


def add_options(command: Subcommand) -> None:
    """Give ``probe`` its options."""
    command.add_argument("file", type=Path, metavar="VMLINUX")
    command.add_argument(
        "places", nargs="+", metavar="FUNC[+OFF]|ADDRESS", help="an address is the link-time one, without KASLR"
    )
    command.add_argument(
        "--event", action="store_true", help="print lines for kprobe_events, with arguments where DWARF has them"
    )
    command.add_argument("--json", action="store_true", help="print JSON (schema prologue.probe/1)")


def run(args: Namespace) -> int:
    """Print the verdicts, or the lines for kprobe_events; 1 if a place cannot, or not on every machine."""
    kernel = open_judged(ElfImage(args.file))
    verdicts = probe(kernel, *args.places, event=args.event)
    if args.json:
        print(json.dumps(probe_data(kernel, verdicts), indent=2))
    else:
        _note_release(kernel)
        for verdict in verdicts:
            print(_event_text(verdict) if args.event else probe_text(verdict))
    return 0 if all(verdict.answer == "yes" for verdict in verdicts) else 1


def _event_text(verdict: ProbeVerdict) -> str:
    """What is no event is a comment, which the kernel skips."""
    comment = "" if verdict.answer == "yes" else f"# {verdict.where}: {summary(verdict)}"
    return "\n".join(line for line in (comment, verdict.event) if line)


def _note_release(kernel: Kernel) -> None:
    if kernel.version not in PROBES_COMPARED:
        major, minor = rules_of(kernel)
        note = f"{kernel.release} is judged by the rules of {major}.{minor}, the nearest release that was compared"
        print(f"prologue: {printable(note)}", file=sys.stderr)
