"""The grammar of ``prologue trace``."""

from __future__ import annotations

from pathlib import Path

from prologue.cli.arguments import OrExample, add_look, add_report, number_from
from prologue.cli.subcommands import Subcommand, add_command, add_commands, add_of_companions
from prologue.trace.cli import etm as trace_etm
from prologue.trace.exports.formats import FORMATS


def add_trace(group: Subcommand) -> None:
    """Add its commands."""
    actions = add_commands(group)
    disasm = add_command(
        actions, "disasm", "prologue.trace.cli.disasm:run", "print the instructions that ran",
        "  prologue trace disasm perf.data --vmlinux vmlinux                     # of perf record --kcore\n"
        "  perf script --itrace=b -F comm,pid,tid,cpu,time,event,ip,sym,symoff,addr,dso | \\\n"
        "      prologue trace disasm - --vmlinux vmlinux.live\n"
        "  prologue trace disasm decoded.txt --vmlinux vmlinux --memory board.capture --modules /lib/modules/6.12.0\n"
        "  prologue trace disasm run.ptrace --vmlinux vmlinux.live --symbols vfs_read --format srcline",
    )  # fmt: skip
    disasm.when_chosen(_disasm)
    stats = add_command(
        actions, "stats", "prologue.trace.cli.stats:run", "count functions, executed prologues and covered text",
        "  prologue trace stats run.ptrace --vmlinux vmlinux.live\n"
        "  prologue trace stats run.ptrace --vmlinux vmlinux.live --plot run.svg",
    )  # fmt: skip
    stats.when_chosen(_stats)
    check = add_command(
        actions, "check", "prologue.trace.cli.check:run", "find words of an image that cannot be what ran",
        "  prologue trace check run.ptrace --vmlinux vmlinux\n"
        "  prologue trace check example:hooked          # a small kernel, and a trace of it with other text\n"
        "  prologue trace check decoded.txt.zst --vmlinux vmlinux.live --json | jq .stale",
    )  # fmt: skip
    check.when_chosen(_check)
    export = add_command(
        actions, "export", "prologue.trace.cli.export:run",
        "write a trace as other tools read it: time lines, profiles for compilers, line coverage",
        "  prologue trace export perf.data --vmlinux vmlinux --format perfetto -o run.pftrace\n"
        "  prologue trace export run.ptrace --vmlinux vmlinux.live --format autofdo -o run.afdo\n"
        "  prologue trace export run.ptrace --vmlinux vmlinux.live --format lcov -o run.info && genhtml run.info\n"
        "\nwhat opens the file of each format:\n"
        + "".join(f"  {name:<11} {form.opened_by}\n" for name, form in FORMATS.items()),
    )  # fmt: skip
    export.when_chosen(_export)
    etm = add_command(actions, "etm", "prologue.trace.cli.etm:run", trace_etm.HELP, trace_etm.EXAMPLES)
    etm.when_chosen(trace_etm.add_options)
    add_of_companions(actions, "trace")


def _check(command: Subcommand) -> None:
    add_images(command)
    command.add_argument("--explain", metavar="SOURCE",
                         help="a capture or other memory of that kernel: name who writes each word")  # fmt: skip
    add_report(command, "trace-check", "html")


def _export(command: Subcommand) -> None:
    add_images(command)
    add_filters(command)
    command.add_argument("--format", choices=tuple(FORMATS), required=True, help="what to write: see below")
    command.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="the file to write")


def _stats(command: Subcommand) -> None:
    add_images(command)
    add_filters(command)
    command.add_argument("--top", type=number_from(0), metavar="N", help="functions to print (default: 30)")
    command.add_argument("--times", action="store_true",
                         help="how long each function ran, when first and last, and its cycles, if the trace "
                              "has them")  # fmt: skip
    command.add_argument("--plot", type=Path, metavar="FILE",
                         help="draw instructions by call stack as a flame graph, an .svg to zoom and search in a "
                              "browser")  # fmt: skip
    add_report(command, "trace-stats", "html")
    add_look(command)


def _disasm(command: Subcommand) -> None:
    add_images(command)
    add_filters(command)
    command.add_argument("--format", choices=("perf", "text", "jsonl", "srcline"),
                         help="perf: as arm-cs-trace-disasm.py -d (default); jsonl: a line of JSON for each range "
                              "(schema prologue.trace-disasm/1); srcline: with source lines")  # fmt: skip
    command.add_argument("-S", dest="format", action="store_const", const="srcline",
                         help="source lines between the instructions: --format srcline")  # fmt: skip
    command.add_argument("--from", dest="root", action="append", default=[], metavar="FUNCTION",
                         help="print the tree of what it called instead of instructions; repeatable")  # fmt: skip
    command.add_argument("--depth", type=number_from(0), metavar="N", help="levels below the function (default: 8)")
    command.add_argument("-o", "--output", type=Path, metavar="OUT", help="write to this file, not to standard output")


def add_images(command: Subcommand) -> None:
    """Add the trace, and what ran."""
    command.add_argument("trace", action=OrExample, metavar="TRACE",
                         help="perf.data, a snapshot directory, text of perf script, "
                              "a recording, - (stdin), or example:NAME, which needs no --vmlinux")  # fmt: skip
    command.add_argument("--vmlinux", type=Path, metavar="VMLINUX",
                         help="unstripped; best the output of live overlay. Without it: text and symbols of kcore_dir, "
                              "or of --memory, and no source lines")  # fmt: skip
    command.add_argument(
        "--memory", metavar="SOURCE",
        help="where the text is read from: a capture, perf's data, a dump, /proc/kcore, ssh:HOST",
    )  # fmt: skip
    command.add_argument("--modules", type=Path, metavar="DIR", help="with --memory: the files of loaded modules")
    command.add_argument("--writes", type=Path, metavar="FILE",
                         help="recorded writes to the text: each range gets the words of its time")  # fmt: skip
    command.add_argument("--slide", metavar="BYTES",
                         help="run-time minus link-time address (default: as a recording says, or 0)")  # fmt: skip
    command.add_argument("--guest-vmlinux", action="append", default=[], metavar="VMLINUX[@ID[+SLIDE]]",
                         help="a guest's kernel; ID: its VMID, or its process in perf's names")  # fmt: skip
    command.add_argument("--symfs", type=Path, metavar="DIR",
                         help="with perf.data: binaries of processes are below it, at their paths")  # fmt: skip


def add_filters(command: Subcommand) -> None:
    """Add what to look at."""
    command.add_argument("--symbols", action="append", default=[], metavar="FUNCTION",
                         help="only ranges that touch this function; repeatable")  # fmt: skip
    command.add_argument("--cpu", type=number_from(0), action="append", metavar="N", help="only this CPU; repeatable")
    command.add_argument("--pid", type=number_from(0), action="append", metavar="N",
                         help="only this process, or this thread; repeatable")  # fmt: skip
    command.add_argument("--comm", action="append", default=[], metavar="NAME",
                         help="only tasks of this name; repeatable")  # fmt: skip
    command.add_argument("--time", metavar="FROM,TO", help="only from second FROM to second TO; either may be left out")
    command.add_argument("--level", type=int, choices=(0, 1, 2, 3), action="append",
                         help="only this exception level; repeatable")  # fmt: skip
