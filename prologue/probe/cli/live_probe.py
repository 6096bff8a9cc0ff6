"""``prologue live probe``."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from prologue.cli.arguments import add_json, add_ssh, number_from, shell_words
from prologue.cli.subcommands import Subcommand
from prologue.elf.image import ElfImage
from prologue.errors import InputError, UsageError
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import open_judged
from prologue.live.memory.kcore import KCORE
from prologue.live.tracefs.machine import LOCAL, TracedMachine
from prologue.probe.cli.probe import note_release, print_failures, status_of
from prologue.probe.event import EventOptions
from prologue.probe.prober import Failure, Probe, Prober
from prologue.probe.read_trace import TracedEvent
from prologue.probe.report.trace import hit_text, trace_data
from prologue.probe.report.verdicts import omitted_text, summary
from prologue.probe.trace_machine import ProbeRun, trace_machine
from prologue.report.terminal import note, warn
from prologue.words import counted, printable


def add_options(probe: Subcommand) -> None:
    """Give ``live probe`` its options."""
    probe.add_argument("vmlinux", type=Path, metavar="VMLINUX", help="with DWARF for arguments, of exactly that build")
    probe.add_argument("source", metavar="SOURCE", help="/proc/kcore (this machine) or ssh:HOST, as root")
    probe.add_argument("places", nargs="+", metavar="PLACE",
                       help="place and arguments, as of `prologue probe`; addresses are of the file")  # fmt: skip
    ending = probe.add_mutually_exclusive_group()
    ending.add_argument("--seconds", type=number_from(0), default=10, metavar="N",
                        help="how long (default: %(default)s; 0: until Ctrl-C, at most a day)")  # fmt: skip
    ending.add_argument("--command", metavar="COMMAND", help="trace while this command runs there")
    probe.add_argument("--buffer", type=number_from(64), default=1408, metavar="KIB",
                       help="ring buffer of each CPU (default: %(default)s)")  # fmt: skip
    probe.add_argument("--modules", type=Path, action="append", metavar="DIR",
                       help="modules for MOD:FUNC, or one of them; repeatable")  # fmt: skip
    probe.add_argument("--source", dest="source_tree", type=Path, metavar="DIR",
                       help="the kernel's source, if it is not where the compiler had it")  # fmt: skip
    add_ssh(probe)
    add_json(probe, "live-probe")


def run(args: Namespace) -> int:
    """Print a trace of events that it sets: 1 if a place or argument cannot be had, 2 if it is not known."""
    if args.source != KCORE and not args.source.startswith("ssh:"):
        raise InputError(f"is not a running kernel: expected {KCORE} or ssh:HOST", path=args.source)
    options = _options(args)
    machine = TracedMachine(
        LOCAL if args.source == KCORE else args.source, shell_words("--ssh-options", args.ssh_options)
    )
    image = ElfImage(args.vmlinux)
    if image.relocatable:
        raise InputError("is a module: name the vmlinux, and modules with --modules DIR", path=args.vmlinux)
    kernel = open_judged(image)
    prober = Prober(kernel, modules=args.modules or (), source=args.source_tree)
    judged = prober.probes(args.places, EventOptions(traced=True))
    if named := next((probe.request.asked for probe in judged[0] if probe.request.group), ""):
        raise UsageError(f"{named!r}: the group is the run's own: name events only, EVENT=PLACE")
    status = status_of(*judged)
    if not args.json:
        _report_places(kernel, *judged)
    events = [probe.event for probe in judged[0] if probe.event is not None]
    hits: list[TracedEvent] = []
    done = None
    if events and status != 2:
        take = hits.append if args.json else lambda hit: print(hit_text(hit), flush=True)
        done = trace_machine(kernel, machine, events, options, take)
        status = max(status, 1 if done.refused else 0)
    if args.json:
        print(json.dumps(trace_data(kernel, args.source, judged, hits, done), indent=2))
    elif done is not None:
        _report_run(done)
    return status


def _options(args: Namespace) -> list[str]:
    """Return the script's options and how long it runs."""
    buffer = ["-b", str(args.buffer), "--"]
    if args.command is None:
        return [*buffer, str(args.seconds)]
    command = shell_words("--command", args.command)
    if not command:
        raise UsageError("--command is empty: give a command, or --seconds N")
    return [*buffer, *command]


def _report_places(kernel: Kernel, probes: Sequence[Probe], failures: Sequence[Failure]) -> None:
    """Say on standard error what is not set, and why."""
    note_release(kernel)
    print_failures(failures)
    for probe in probes:
        if probe.verdict.answer != "yes":
            warn(printable(f"{probe.verdict.where}: {summary(probe.verdict)}"))
        event = probe.event
        for omitted in event.omitted if event is not None else ():
            text = printable(omitted_text(event, omitted)) if event is not None else ""
            if omitted.is_mistake:
                print(f"prologue: {text}", file=sys.stderr)
            else:
                warn(text)


def _report_run(done: ProbeRun) -> None:
    for line in done.messages.splitlines():
        print(printable(line), file=sys.stderr)
    for event in done.refused:
        warn(f"the kernel refused {event.line}")
    for count in done.counts:
        note(f"{count.event.name}: {counted(count.hits, 'hit')}, {counted(count.misses, 'miss', plural='misses')}")
        if count.misses:
            warn(f"{count.event.name} was missed {counted(count.misses, 'time')}")
    for loss in done.lost:
        warn(f"lost: {loss.amount:,} {loss.what}: a larger --buffer may keep them")
    if done.unread:
        warn(f"{counted(done.unread, 'event')} of the trace could not be read")
    if done.ended not in ("0", "stopped"):
        note(f"the command ended with {done.ended}")
