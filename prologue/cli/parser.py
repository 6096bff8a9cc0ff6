"""The commands. Handlers and options are named, not imported: a run loads only what its command needs."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any, Final

from prologue import __version__
from prologue.cli.first_screen import FirstScreen
from prologue.cli.subcommands import (
    Parser,
    Subcommand,
    add_command,
    add_commands,
    add_common,
    every_parser,
    fill_all,
    import_function,
)

SHELLS: Final = ("bash", "zsh", "fish")


class _PrintCompletion(argparse.Action):
    """Prints a completion script and ends, like --help does."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        from prologue.cli.completion import script

        print(script(parser, str(values)))
        parser.exit()


class _PrintFunctions(argparse.Action):
    """Prints functions for a completion script, and ends."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        from prologue.cli.function_names import functions_of

        for name in functions_of(values[0], values[1:]) if values else ():
            print(name)
        parser.exit()


def build_parser(chosen: str = "") -> argparse.ArgumentParser:
    """Build the parser with the subcommand that is chosen, or with all if that is the name of none.

    ``fill_all`` gives subcommands their options before they are chosen.
    """
    parser = FirstScreen(
        prog="prologue",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Build-time ftrace prologues for arm64 Linux kernels.",
        epilog="exit codes: 0 clean; 1 findings; 2 bad input or usage; 3 internal error (a bug in prologue);\n"
        "4 machine lost; 5 nothing wrong found, not everything decided",
    )
    parser.add_argument("-V", "--version", action="version", version=f"prologue {__version__}")
    parser.add_argument(
        "--print-completion", action=_PrintCompletion, choices=SHELLS, metavar="SHELL",
        help="print a completion script for bash, zsh or fish",
    )  # fmt: skip
    # What such a script asks; users have no need of it.
    parser.add_argument("--print-functions", action=_PrintFunctions, nargs=argparse.REMAINDER, metavar="WORDS",
                        help=argparse.SUPPRESS)  # fmt: skip
    add_common(parser)
    parser.set_defaults(color="auto", quiet=False, verbose=False, debug=False)
    commands = add_commands(parser)
    wanted = [command for command in _COMMANDS if command[0] == chosen] or _COMMANDS
    for name, handler, help_, examples, options in wanted:
        add_command(commands, name, handler, help_, examples).when_chosen(partial(_add_options, options))
    return parser


def _commands_called(word: str) -> str:
    """Return a question about the commands of any group that have a name, or nothing: ``audit`` is ``live audit``."""
    parser = build_parser()
    fill_all(parser)
    called = [each.prog for each in every_parser(parser) if each.prog.split()[1:][-1:] == [word]]
    return f"did you mean {' or '.join(called)}?" if called else ""


Parser.elsewhere = staticmethod(_commands_called)


def _add_options(place: str, command: Subcommand) -> None:
    import_function(place)(command)


# Name, handler (empty for a group), help, examples, and what adds the options or the group's commands.
_COMMANDS: Final = (
    (
        "scan", "prologue.cli.scan:run", "say what a file is, and the state of its patch sites",
        "  prologue scan vmlinux\n  prologue scan vmlinux.xz modules/\n"
        "  prologue scan vmlinux --json | jq '.files[].sites_by_section'",
        "prologue.cli.scan:add_options",
    ),
    (
        "patch", "prologue.cli.patch:run", "write MOV X9, X30 into every first slot, and move the records",
        "  prologue patch vmlinux --in-place               # the build step\n"
        "  prologue patch vmlinux -o vmlinux.new           # keep the original\n"
        "  prologue patch vmlinux --dry-run                # check everything, write nothing\n"
        "  prologue patch vmlinux -o lab --contract stock --save-plan plan.json\n"
        "  prologue patch lab --in-place --reverse plan.json\n"
        "  prologue patch modules/ --in-place --contract native\n"
        "  prologue patch modules/ --in-place --vmlinux lab --strip-signature",
        "prologue.cli.patch:add_options",
    ),
    (
        "verify", "prologue.cli.verify:run", "check that only architecturally safe live transitions remain",
        "  prologue verify vmlinux\n  prologue verify vmlinux --against vmlinux.orig\n"
        "  prologue verify vmlinux --image arch/arm64/boot/Image\n"
        "  prologue verify modules/ --vmlinux vmlinux\n"
        "  prologue verify vmlinux.orig --require untouched\n"
        "  prologue verify example:broken                  # a small kernel with three faults\n"
        "  prologue verify vmlinux --release --format sarif -o report.sarif",
        "prologue.cli.verify:add_options",
    ),
    (
        "help", "prologue.cli.help:run", "show the help of a command, or a page of the documentation",
        "  prologue help verify\n  prologue help live audit\n  prologue help gate\n"
        "  prologue help live.md 'What an audit knows'",
        "prologue.cli.help:add_options",
    ),
    (
        "rules", "prologue.cli.rules:run_list", "list the rules", "  prologue rules --json",
        "prologue.cli.rules:add_list_options",
    ),
    (
        "explain", "prologue.cli.rules:run_explain", "say what a rule checks, why, and what to do",
        "  prologue explain PL202\n  prologue explain site-not-pair\n  prologue explain PL2",
        "prologue.cli.rules:add_explain_options",
    ),
    (
        "transition", "prologue.protocol.cli.transition:run", "may this instruction become that one while CPUs run it?",
        "  prologue transition nop bl\n  prologue transition 0xd503201f 0xaa1e03e9\n"
        "  prologue transition 'b.eq' nop --issue new",
        "prologue.protocol.cli.transition:add_options",
    ),
    (
        "probe", "prologue.probe.cli.probe:run", "say whether a kprobe can be put at a place, or why not",
        "  prologue probe vmlinux vfs_read vfs_read+4 0xffff800080444118\n"
        "  prologue probe vmlinux vfs_read 'vfs_read%return' --event >> /sys/kernel/tracing/kprobe_events\n"
        "  prologue probe vmlinux 'do_wait wo->wo_type' fsnotify_access --event --group mine\n"
        "  prologue probe vmlinux schedule+0x10 --json | jq .places[].answer",
        "prologue.probe.cli.probe:add_options",
    ),
    (
        "variant", "prologue.cli.variant:run", "make a variant of a vmlinux for the bench, from the same link",
        "  prologue variant vmlinux --kind nop-nop -o vmlinux.nop-nop\n"
        "  prologue variant vmlinux --kind build -o vmlinux.build",
        "prologue.cli.variant:add_options",
    ),
    (
        "image", "prologue.cli.image:run", "write the flat Image of a vmlinux",
        "  prologue image vmlinux -o Image",
        "prologue.cli.image:add_options",
    ),
    (
        "live", "", "read, explain and watch the text of a running kernel",
        "  prologue live capture ssh:root@board -o board.capture.zst\n"
        "  prologue live overlay vmlinux board.capture.zst -o vmlinux.live\n"
        "  prologue live overlay vmlinux vmcore -o vmlinux.live\n",
        "prologue.live.cli.live:add_live",
    ),
    (
        "writes", "", "record writes to kernel text, and judge which were live and unsafe",
        "  prologue writes boot vmlinux -o boot.writes     # each store, from reset to power-off\n"
        "  prologue writes record ssh:root@board -o board.writes     # those that kprobe events see, on a board\n"
        "  prologue writes judge board.writes\n",
        "prologue.live.cli.writes:add_writes",
    ),
    (
        "trace", "", "read, check and record what a kernel really executed",
        "  prologue trace record vmlinux -o read.ptrace --begin vfs_read --count 10000000     # in QEMU\n"
        "  perf script --itrace=b -F +addr | prologue trace disasm - --vmlinux vmlinux.live\n",
        "prologue.trace.cli.trace:add_trace",
    ),
    (
        "kernel", "", "put the build step into a kernel tree, and see whether it works",
        "  prologue kernel install linux --dry-run         # say which files would change\n"
        "  prologue kernel install linux\n"
        "  prologue kernel check linux --objtree build     # after make O=build\n"
        "  prologue kernel patch 6.12 | git am\n"
        "  prologue kernel install linux --uninstall\n",
        "prologue.cli.kernel:add_kernel",
    ),
    (
        "protocol", "", "check ways of patching running code, and show how the unsafe ones fail",
        "  prologue protocol list\n"
        "  prologue protocol check two-writes-live         # the shortest way to its failure; exit code 1\n"
        "  prologue protocol check two-writes-live/either  # a variant of it\n"
        "  prologue protocol check mov-at-boot --all-variants --barriers\n"
        "  prologue protocol explain stop-machine\n",
        "prologue.protocol.cli.protocol:add_options",
    ),
    (
        "bench", "", "measure variants of one link, and say what the samples prove",
        "  prologue bench run vmlinux --workload hackbench:g=10,l=1000 --target ssh:root@board -o results/\n"
        "  prologue bench compare example:2019-a57         # the report of a table that ships with the tool\n"
        "  prologue bench compare results/ --margin 0.5\n"
        "  prologue bench table results/\n"
        "  prologue bench plot results/ -o results.png\n",
        "prologue.cli.bench:add_bench",
    ),
)  # fmt: skip
