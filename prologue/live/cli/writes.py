"""The grammar of ``prologue writes``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from prologue.cli.arguments import add_all, add_json, add_report, add_ssh, number_from
from prologue.cli.subcommands import Subcommand, add_command, add_commands, add_of_companions

if TYPE_CHECKING:
    from prologue.cli.subcommands import Commands

SECONDS: Final = 10
BUFFER: Final = 8192  # KiB


def add_writes(group: Subcommand) -> None:
    """Add its commands."""
    actions = add_commands(group)
    _record(actions)
    _judge(actions)
    _perf(actions)
    add_of_companions(actions, "writes")


def _record(actions: Commands) -> None:
    record = add_command(
        actions, "record", "prologue.live.cli.writes_runs:run_record",
        "record every write to kernel text that kprobe events can see, on a machine that runs",
        "  prologue writes record -o host.writes --seconds 60        # this machine, as root; Ctrl-C ends it, too\n"
        "  prologue writes record ssh:root@board -o board.writes     # a POSIX shell is all it needs there\n"
        "  prologue writes record ssh:root@board -o board.writes --command 'modprobe loop'\n"
        "  prologue writes record --script >record.sh                # for a board: sh record.sh -t 60 >out.writes\n"
        "  prologue writes judge board.writes",
    )  # fmt: skip
    record.add_argument("source", nargs="?", default="local", metavar="MACHINE", help="local (default) or ssh:HOST")
    record.add_argument("-o", "--output", type=Path, metavar="OUT", help="what writes judge reads; mode 0600")
    record.add_argument("--seconds", type=number_from(0), default=SECONDS, metavar="N",
                        help="how long (default: %(default)s; 0: until Ctrl-C, at most a day)")  # fmt: skip
    record.add_argument("--command", metavar="COMMAND", help="record while this command runs there")
    record.add_argument("--buffer", type=number_from(64), default=BUFFER, metavar="KIB",
                        help="ring buffer of each CPU (default: %(default)s)")  # fmt: skip
    record.add_argument("--script", action="store_true", help="print the shell script that records, and exit")
    add_ssh(record)
    add_json(record, "live-record")


def _judge(actions: Commands) -> None:
    judge = add_command(
        actions, "judge", "prologue.live.cli.writes_runs:run_judge",
        "judge recorded writes to kernel text: which were live, and which of these are unsafe",
        "  prologue writes boot vmlinux -o boot.writes\n"
        "  prologue writes judge boot.writes\n"
        "  prologue writes judge perf.data --json | jq .table",
    )  # fmt: skip
    judge.add_argument("writes", type=Path, metavar="WRITES",
                       help="from writes boot or writes record, or perf.data")  # fmt: skip
    add_all(judge)
    add_report(judge, "live-judge", "sarif", "junit")


def _perf(actions: Commands) -> None:
    perf = add_command(
        actions, "perf", "prologue.live.cli.writes_runs:run_perf",
        "convert recorded writes to kernel text to perf.data, for perf and for trace decoders",
        "  prologue writes perf boot.writes -o perf.data\n"
        "  perf script -i perf.data --show-text-poke-events",
    )  # fmt: skip
    perf.add_argument("writes", type=Path, metavar="WRITES", help="what writes judge reads")
    perf.add_argument("-o", "--output", type=Path, required=True, metavar="OUT",
                      help="perf.data, readable by its owner only")  # fmt: skip
    add_json(perf, "live-perf")
