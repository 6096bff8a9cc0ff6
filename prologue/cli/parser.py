"""The command line's grammar. Handlers are named, not imported: a command loads only what it needs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from prologue import __version__
from prologue.cli.arguments import number_from
from prologue.cli.subcommands import Parser, Subcommand, add_command, add_commands

SHELLS: Final = ("bash", "zsh", "fish", "tcsh")


class _PrintCompletion(argparse.Action):
    """Prints a completion script and ends, like --help does."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        from prologue.cli.completion import script

        print(script(parser, str(values)))
        parser.exit()


def build_parser(chosen: str = "") -> argparse.ArgumentParser:
    """Build the parser with the subcommand that is chosen, or with all if that is the name of none.

    ``fill_all`` gives subcommands their options before they are chosen.
    """
    parser = Parser(
        prog="prologue",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Build-time ftrace prologues for arm64 Linux kernels.",
        epilog="exit codes: 0 clean; 1 findings; 2 bad input or usage; 3 internal error (a bug in prologue);\n"
        "4 machine lost (bench); 5 nothing wrong found, not everything decided\n\n"
        "examples:\n  prologue scan vmlinux\n  prologue patch vmlinux --in-place\n  prologue verify vmlinux",
    )
    parser.add_argument("--version", action="version", version=f"prologue {__version__}")
    parser.add_argument("--debug", action="store_true", help="show a traceback when something fails")
    parser.add_argument(
        "--print-completion", action=_PrintCompletion, choices=SHELLS, metavar="SHELL",
        help="print a completion script for bash, zsh, fish or tcsh",
    )  # fmt: skip
    commands = add_commands(parser)
    wanted = [command for command in _COMMANDS if command[0] == chosen] or _COMMANDS
    for name, handler, help_, examples, fill in wanted:
        add_command(commands, name, handler, help_, examples).when_chosen(fill)
    return parser


def _scan(command: Subcommand) -> None:
    command.add_argument("files", type=Path, nargs="+", metavar="FILE",
                         help="vmlinux or module, compressed or not, boot file, or a directory of modules")  # fmt: skip
    command.add_argument(
        "--jobs", type=number_from(0), default=0, metavar="N", help="processes (default: one for each CPU)"
    )
    command.add_argument("--json", action="store_true", help="print JSON (schema prologue.scan/1)")


def _patch(command: Subcommand) -> None:
    command.add_argument("files", type=Path, nargs="+", metavar="FILE",
                         help="vmlinux, module (.ko, .ko.xz, .ko.gz, .ko.zst), or a directory of modules")  # fmt: skip
    where = command.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", type=Path, metavar="OUT", help="write a copy: whole or not at all")
    where.add_argument("--in-place", action="store_true", help="write into the file; a rerun finishes after a kill")
    command.add_argument(
        "--contract", choices=("auto", "native", "stock"), default="auto",
        help="what the kernel expects (default: native if it has the marker, else an error)",
    )  # fmt: skip
    command.add_argument("--vmlinux", type=Path, metavar="VMLINUX", help="the kernel that will load these modules")
    command.add_argument("--strip-signature", action="store_true", help="strip the signatures of signed modules")
    command.add_argument(
        "--jobs", type=number_from(0), default=0, metavar="N", help="processes (default: one for each CPU)"
    )
    command.add_argument("--dry-run", action="store_true", help="plan and check, write nothing")
    command.add_argument(
        "--reverse", nargs="?", const="", metavar="PLAN",
        help="undo: restore the file as it was linked (stock: needs the saved plan)",
    )  # fmt: skip
    command.add_argument(
        "--save-plan", type=Path, metavar="PLAN", help="write all edits as JSON before the first is made"
    )
    command.add_argument("--reread", action=argparse.BooleanOptionalAction, default=None,
                         help="re-read the result with an independent reader (default: with -o)")  # fmt: skip
    _how_to_say(command, "patch", "print nothing but errors")


def _how_to_say(command: Subcommand, schema: str, quiet: str) -> None:
    say = command.add_mutually_exclusive_group()
    say.add_argument("--json", action="store_true", help=f"print JSON (schema prologue.{schema}/1)")
    say.add_argument("-q", "--quiet", action="store_true", help=quiet)


def _verify(command: Subcommand) -> None:
    command.add_argument("files", type=Path, nargs="+", metavar="FILE",
                         help="vmlinux or module (.xz, .gz, .zst, too), or a directory of modules")  # fmt: skip
    command.add_argument("--against", type=Path, metavar="BEFORE", help="explain every byte that differs from BEFORE")
    command.add_argument("--image", type=Path, metavar="IMAGE",
                         help="boot file made from this vmlinux: flat, compressed or EFI zboot")  # fmt: skip
    command.add_argument("--vmlinux", type=Path, metavar="VMLINUX",
                         help="the kernel that loads these modules: its keys, its contract")  # fmt: skip
    command.add_argument("--release", action="store_true",
                         help="fail on warnings, too, and on everything but native, processed kernels")  # fmt: skip
    command.add_argument("--require", choices=("untouched", "processed"), help="fail on files in any other state")
    command.add_argument("--select", action="append", default=[], metavar="RULE", help="run only these; PL2 is a group")
    command.add_argument("--ignore", action="append", default=[], metavar="RULE", help="do not run these")
    amount = command.add_mutually_exclusive_group()
    amount.add_argument("--all", action="store_true", help="print every finding, not the first few of each rule")
    amount.add_argument("-q", "--quiet", action="store_true", help="print no report unless something fails")
    command.add_argument("--config", type=Path, metavar="FILE",
                         help="settings (default: .prologue.toml or pyproject.toml beside FILE)")  # fmt: skip
    command.add_argument("--no-config", action="store_true", help="ignore settings files")
    command.add_argument("--baseline", type=Path, metavar="FILE", help="known findings, each with reason and owner")
    command.add_argument("--write-baseline", type=Path, metavar="FILE",
                         help="write a baseline of today's findings, reasons and owners to be filled in")  # fmt: skip
    command.add_argument(
        "--jobs", type=number_from(0), default=0, metavar="N", help="processes (default: one for each CPU)"
    )
    command.add_argument("--format", choices=("text", "json", "sarif", "junit", "ktap"), default="text",
                         help="of the report (json: schema prologue.verify/1)")  # fmt: skip
    command.add_argument("-o", "--output", type=Path, metavar="REPORT", help="write the report to this file")


def _rules(command: Subcommand) -> None:
    command.add_argument("--json", action="store_true", help="print JSON (schema prologue.rules/1)")


def _explain(command: Subcommand) -> None:
    command.add_argument("rule", metavar="CODE|SLUG", help="such as PL202 or sites-partly-patched")


def _transition(command: Subcommand) -> None:
    command.add_argument("old", help="mnemonic, or 32-bit word as 0x...")
    command.add_argument("new", help="mnemonic, or 32-bit word as 0x...")
    command.add_argument(
        "--issue", choices=("old", "new"), default="old", help="older or newer issues of the Arm ARM (default: old)"
    )
    command.add_argument("--json", action="store_true", help="print JSON (schema prologue.transition/1)")


def _probe(command: Subcommand) -> None:
    command.add_argument("file", type=Path, metavar="VMLINUX")
    command.add_argument(
        "places", nargs="+", metavar="FUNC[+OFF]|ADDRESS", help="an address is the link-time one, without KASLR"
    )
    command.add_argument(
        "--event", action="store_true", help="print lines for kprobe_events, with arguments where DWARF has them"
    )
    command.add_argument("--json", action="store_true", help="print JSON (schema prologue.probe/1)")


def _variant(command: Subcommand) -> None:
    command.add_argument("file", type=Path, metavar="VMLINUX")
    command.add_argument("--kind", choices=("nop-nop", "boot", "build"), required=True,
                         help="sites never touched (not safe to trace) | as linked | processed")  # fmt: skip
    command.add_argument("-o", "--output", type=Path, required=True, metavar="OUT")


def _image(command: Subcommand) -> None:
    command.add_argument("file", type=Path, metavar="VMLINUX")
    command.add_argument("-o", "--output", type=Path, required=True, metavar="IMAGE")


def _kernel(group: Subcommand) -> None:
    from prologue.cli.kernel import add_kernel

    add_kernel(group)


def _protocol(group: Subcommand) -> None:
    from prologue.cli.protocol import add_options

    add_options(group)


def _bench(group: Subcommand) -> None:
    from prologue.cli.bench import add_bench

    add_bench(group)


def _live(group: Subcommand) -> None:
    from prologue.cli.live import add_live

    add_live(group)


def _trace(group: Subcommand) -> None:
    from prologue.cli.trace import add_trace

    add_trace(group)


# Name, handler, help, examples, and what adds the options.
_COMMANDS: Final[tuple[tuple[str, str, str, str, Callable[[Subcommand], None]], ...]] = (
    (
        "scan", "prologue.cli.scan:run", "say what a file is, and the state of its patch sites",
        "  prologue scan vmlinux\n  prologue scan vmlinux.xz modules/\n"
        "  prologue scan vmlinux --json | jq .sites_by_section",
        _scan,
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
        _patch,
    ),
    (
        "verify", "prologue.cli.verify:run", "check that only architecturally safe live transitions remain",
        "  prologue verify vmlinux\n  prologue verify vmlinux --against vmlinux.orig\n"
        "  prologue verify vmlinux --image arch/arm64/boot/Image\n"
        "  prologue verify modules/ --vmlinux vmlinux\n"
        "  prologue verify vmlinux.orig --require untouched\n"
        "  prologue verify vmlinux --release --format sarif -o report.sarif",
        _verify,
    ),
    (
        "rules", "prologue.cli.rules:run_list", "list the rules", "  prologue rules --json",
        _rules,
    ),
    (
        "explain", "prologue.cli.rules:run_explain", "say what a rule checks, why, and what to do",
        "  prologue explain PL202\n  prologue explain site-not-pair",
        _explain,
    ),
    (
        "transition", "prologue.cli.transition:run", "may this instruction become that one while CPUs run it?",
        "  prologue transition nop bl\n  prologue transition 0xd503201f 0xaa1e03e9\n"
        "  prologue transition 'b.eq' nop --issue new",
        _transition,
    ),
    (
        "probe", "prologue.cli.probe:run", "may one put a kprobe there?",
        "  prologue probe vmlinux vfs_read vfs_read+4 0xffff800080444118\n"
        "  prologue probe vmlinux vfs_read --event >> /sys/kernel/tracing/kprobe_events\n"
        "  prologue probe vmlinux schedule+0x10 --json | jq .places[].answer",
        _probe,
    ),
    (
        "variant", "prologue.cli.variant:run", "make a bench variant of one link",
        "  prologue variant vmlinux --kind nop-nop -o vmlinux.nop-nop\n"
        "  prologue variant vmlinux --kind build -o vmlinux.build",
        _variant,
    ),
    (
        "image", "prologue.cli.image:run", "write the flat Image of a vmlinux",
        "  prologue image vmlinux -o Image",
        _image,
    ),
    (
        "live", "", "read, explain and watch the text of a running kernel",
        "  prologue live capture ssh:root@board -o board.capture.zst\n"
        "  prologue live overlay vmlinux board.capture.zst -o vmlinux.live\n"
        "  prologue live overlay vmlinux vmcore -o vmlinux.live\n",
        _live,
    ),
    (
        "trace", "", "read, check and record what a kernel really executed",
        "  prologue trace record vmlinux -o read.ptrace --begin vfs_read --count 10000000     # in QEMU\n"
        "  perf script --itrace=b -F +addr | prologue trace disasm - --vmlinux vmlinux.live\n",
        _trace,
    ),
    (
        "kernel", "", "put the build step into a kernel tree, and see whether it works",
        "  prologue kernel install linux --dry-run         # say which files would change\n"
        "  prologue kernel install linux\n"
        "  prologue kernel check linux --objtree build     # after make O=build\n"
        "  prologue kernel patch 6.12 | git am\n"
        "  prologue kernel install linux --uninstall\n",
        _kernel,
    ),
    (
        "protocol", "", "check ways of patching running code, and show how the unsafe ones fail",
        "  prologue protocol list\n"
        "  prologue protocol check two-writes-live         # the shortest way to its failure; exit code 1\n"
        "  prologue protocol check two-writes-live/either  # a variant of it\n"
        "  prologue protocol check mov-at-boot --all --barriers\n"
        "  prologue protocol explain stop-machine\n",
        _protocol,
    ),
    (
        "bench", "", "measure variants of one link, and say what the samples prove",
        "  prologue bench run --vmlinux vmlinux --workload hackbench:g=10,l=1000 --target ssh:root@board -o results/\n"
        "  prologue bench compare example:2019-a57         # the report of a table that ships with the tool\n"
        "  prologue bench compare results/ --margin 0.5\n"
        "  prologue bench table results/\n"
        "  prologue bench plot results/ -o results.png\n",
        _bench,
    ),
)  # fmt: skip
