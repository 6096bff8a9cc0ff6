"""``prologue probe``."""

from __future__ import annotations

import io
import json
import re
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from prologue.cli.arguments import add_json, number
from prologue.cli.subcommands import Subcommand
from prologue.elf.image import ElfImage
from prologue.errors import InputError, UsageError
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import open_binary, open_judged
from prologue.kernel.module import Module
from prologue.probe.event import EventOptions
from prologue.probe.instructions import rules_of
from prologue.probe.language import parse_listed
from prologue.probe.listing import list_lines
from prologue.probe.prober import Failure, Probe, Prober
from prologue.probe.report.verdicts import (
    DEFAULT_GROUP,
    event_lines,
    lines_text,
    probe_data,
    probe_text,
    script,
    variables_text,
)
from prologue.releases import PROBES_COMPARED
from prologue.report.terminal import note
from prologue.words import printable

_COMPARED: Final = 200  # functions of a copy of kallsyms, evenly chosen: another build has most of them elsewhere


def add_options(command: Subcommand) -> None:
    """Give ``probe`` its options."""
    command.add_argument("file", type=Path, metavar="FILE", help="vmlinux, or a module with --vmlinux")
    command.add_argument(
        "places", nargs="+", metavar="PLACE",
        help="as of perf probe: FUNC[+OFF|%%return|:LINE|;PATTERN][@FILE], FILE:LINE, MOD:FUNC or an address, and, in "
             "the same word, arguments: 'vfs_read file->f_path.dentry->d_name.name:string'",
    )  # fmt: skip
    command.add_argument("--event", action="store_true", help="print lines for kprobe_events; arguments are the "
                         "function's parameters if none are named")  # fmt: skip
    command.add_argument("--script", action="store_true", help="print a shell script that sets the events, traces, and "
                         "takes them off, for a machine without Python")  # fmt: skip
    command.add_argument("--list", action="store_true", help="PLACE is FUNC or FILE: list its lines, with the verdict "
                         "for each")  # fmt: skip
    command.add_argument("--vars", action="store_true", help="print the variables at each place")
    command.add_argument("--fprobe", action="store_true", help="print fprobe events (f:), for dynamic_events")
    command.add_argument("--group", metavar="GROUP", help="group of the events (default: the kernel's, kprobes)")
    command.add_argument("--name", metavar="NAME", help="name of the events; the second is NAME_1")
    command.add_argument(
        "--modules", type=Path, action="append", metavar="DIR", help="modules for MOD:FUNC, or one of them; repeatable"
    )
    command.add_argument("--vmlinux", type=Path, metavar="VMLINUX", help="the kernel of a module")
    command.add_argument("--source", type=Path, metavar="DIR", help="the kernel's source, if it is not where the "
                         "compiler had it")  # fmt: skip
    run_time = command.add_mutually_exclusive_group()
    run_time.add_argument(
        "--slide", metavar="BYTES", help="what KASLR added to the addresses in PLACE, such as 0x3000000"
    )
    run_time.add_argument(
        "--kallsyms", type=Path, metavar="FILE", help="a copy of /proc/kallsyms, as root has it: says what KASLR added"
    )
    add_json(command, "probe")


def run(args: Namespace) -> int:
    """Print verdicts, events, lines or variables; 1 if a place or argument cannot be had, 2 if it is not known."""
    _check_options(args)
    kernel, prober = _open(args)
    if not args.json:
        note_release(kernel)
    if args.list:
        return _list(args, prober, args.places)
    probes, failures = prober.probes(args.places, _options(args))
    if not _wants_events(args) and any(probe.request.arguments for probe in probes):
        note("only places are judged: arguments are looked up with --event, --fprobe or --script")
    if args.json:
        print(json.dumps(probe_data(kernel, probes, failures), indent=2))
    elif args.script:
        print(script(kernel, probes, failures), end="")
    else:
        if isinstance(sys.stdout, io.TextIOWrapper):  # kprobe_events takes the part that ends a write for a whole line
            sys.stdout.reconfigure(line_buffering=True)
        for line in _lines(args, probes, failures):
            print(line)
    if not args.json:
        print_failures(failures)
    return status_of(probes, failures)


def _check_options(args: Namespace) -> None:
    """Refuse options of which one would have no effect.

    Raises:
        UsageError: they exclude each other.

    """
    outputs = [name for name in ("event", "script", "list", "vars") if getattr(args, name)]
    if len(outputs) > 1:
        raise UsageError(f"--{outputs[0]} and --{outputs[1]} exclude each other")
    if args.json and args.script:
        raise UsageError("--json and --script exclude each other")
    if args.list and (args.fprobe or args.group or args.name):
        raise UsageError("--list prints no events: leave --fprobe, --group and --name out")
    if (args.group or args.name) and not _wants_events(args):
        raise UsageError("--group and --name are of events: add --event, --fprobe or --script")


def _options(args: Namespace) -> EventOptions | None:
    """Return how to make events; None if none are wanted."""
    if not _wants_events(args):
        return None
    group = args.group or (DEFAULT_GROUP if args.script else "")
    for name in (args.group, args.name):
        if name and not re.fullmatch(r"[A-Za-z_]\w{0,62}", name, re.ASCII):
            raise UsageError(f"{name!r} is no name of an event or group: letters, digits and _, at most 63")
    return EventOptions(group=group, name=args.name or "", fprobe=args.fprobe, all_variables=args.vars)


def _wants_events(args: Namespace) -> bool:
    return bool(args.event or args.fprobe or args.script or args.vars)


def _lines(args: Namespace, probes: Sequence[Probe], failures: Sequence[Failure]) -> Iterator[str]:
    if args.vars:
        yield from variables_text(probes)
    elif args.event or args.fprobe:
        yield from event_lines(probes, failures)
    else:
        yield from (probe_text(probe) for probe in probes if not args.quiet or probe.verdict.answer != "yes")


def _list(args: Namespace, prober: Prober, asked: Sequence[str]) -> int:
    """List the lines of functions or files."""
    files = []
    for text in asked:
        request = parse_listed(text)
        target = prober.target_of(request)
        listings = list_lines(target, request, prober.sources)
        if args.json:
            files.append({"file": str(target.path), "listings": listings})
        else:
            for line in lines_text(listings):
                print(line)
    if args.json:
        print(json.dumps({"schema": "prologue.probe-lines/1", "files": files}, indent=2))
    return 0


def _open(args: Namespace) -> tuple[Kernel, Prober]:
    """Open the kernel and what is probed: its module, if that is the file."""
    module, kernel_file = None, args.file
    if ".ko" in args.file.name or ElfImage(args.file).relocatable:
        opened = open_binary(args.file, unpack=True)
        module = opened if isinstance(opened, Module) else None
        if args.vmlinux is None:
            raise UsageError("a module is judged by the rules of its kernel: give --vmlinux VMLINUX")
        kernel_file = args.file if module is None else args.vmlinux
    elif args.vmlinux is not None:
        raise UsageError(f"--vmlinux names the kernel of a module, and {args.file} is none: leave it out")
    kernel = open_judged(ElfImage(kernel_file))
    slide = _slide(kernel, args.kallsyms) if args.kallsyms is not None else number("--slide", args.slide or "0")
    prober = Prober(kernel, modules=args.modules or (), source=args.source, slide=slide)
    if module is not None:
        prober.probe_module(module)
    return kernel, prober


def _slide(kernel: Kernel, kallsyms: Path) -> int:
    """Find what KASLR added, by the run-time address of _stext in a copy of ``/proc/kallsyms``.

    Raises:
        InputError: it cannot be read, has no addresses, or is of another kernel.

    """
    try:
        text = kallsyms.read_text("ascii", "replace")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=kallsyms) from error
    match = re.search(r"^([0-9a-f]+) \w _stext$", text, re.MULTILINE)
    linked = kernel.symbols.find("_stext")
    if match is None or linked is None:
        raise InputError("has no _stext: give a copy of /proc/kallsyms", path=kallsyms)
    if not int(match[1], 16):
        raise InputError("has no addresses: read /proc/kallsyms as root (kptr_restrict hides them)", path=kallsyms)
    slide = int(match[1], 16) - linked.vaddr
    functions = re.findall(r"^([0-9a-f]+) [tT] (\w+)$", text, re.MULTILINE | re.ASCII)
    names = Counter(name for _, name in functions)
    for address, name in functions[:: max(len(functions) // _COMPARED, 1)]:
        symbol = kernel.symbols.find(name) if names[name] == 1 else None
        if symbol is not None and symbol.vaddr + slide != int(address, 16):
            where = f"in {kernel.path} it is at {symbol.vaddr + slide:#x} with that slide"
            raise InputError(f"is of another kernel: {name} is at 0x{address}, and {where}", path=kallsyms)
    return slide


def print_failures(failures: Sequence[Failure]) -> None:
    """Print each failure in a line on standard error."""
    for failure in failures:
        print(f"prologue: {printable(str(failure.error))}", file=sys.stderr)


def status_of(probes: Sequence[Probe], failures: Sequence[Failure]) -> int:
    """Return the exit code: 2 for what is not known, 1 for a place or argument that cannot be had."""
    events = [(probe, probe.event) for probe in probes if probe.event is not None]
    if failures or any(omitted.is_mistake for _, event in events for omitted in event.omitted):
        return 2
    lacks = False
    for probe, event in events:
        named = {argument.asked for argument in probe.request.arguments or ()}
        lacks |= any(omitted.asked in named and not omitted.is_partial for omitted in event.omitted)
    return 1 if lacks or any(probe.verdict.answer != "yes" for probe in probes) else 0


def note_release(kernel: Kernel) -> None:
    """Say on standard error by whose rules a release is judged that was not compared itself."""
    if kernel.version not in PROBES_COMPARED:
        major, minor = rules_of(kernel)
        note(f"{kernel.release} is judged by the rules of {major}.{minor}, the nearest release that was compared")
