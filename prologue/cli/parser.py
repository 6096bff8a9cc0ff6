"""The commands. Handlers and options are named, not imported: a run loads only what its command needs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from prologue import __version__
from prologue.cli.subcommands import (
    Command,
    Parser,
    add_commands,
    add_common,
    add_listed,
    every_parser,
    fill_all,
)
from prologue.companions import installed

SHELLS: Final = ("bash", "zsh", "fish")
# Title, commands, and the one to start with.
GROUPS: Final[tuple[tuple[str, tuple[str, ...], str], ...]] = (
    ("build and gate", ("scan", "patch", "verify", "kernel", "image", "variant"), "prologue verify vmlinux"),
    ("running kernel", ("live", "writes", "probe"), "prologue live audit vmlinux /proc/kcore"),
    ("traces", ("trace",), "prologue trace stats perf.data --vmlinux vmlinux"),
    ("bench", ("bench",), "prologue bench compare example:2019-a57"),
    ("reference", ("help", "schema", "rules", "explain", "transition", "protocol"), "prologue explain PL202"),
)


class FirstScreen(Parser):
    """The parser of all commands; its help has them in groups."""

    def format_help(self) -> str:
        """Return the help: usage, groups of commands, options, exit codes."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        commands = {
            action.dest: action
            for group in self._actions
            if isinstance(group, argparse._SubParsersAction)
            for action in group._choices_actions
        }
        for title, names, start in GROUPS:
            present = [commands[name] for name in names if name in commands]
            if not present:
                continue
            formatter.start_section(title)
            formatter.add_arguments(present)
            formatter.add_text(f"start here: {start}")
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action.option_strings])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


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
        from prologue.cli.completion import functions_of

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
    add_listed(commands, [each for each in _COMMANDS if each.name == chosen] or _every_command(chosen))
    return parser


def _every_command(chosen: str) -> Iterator[Command]:
    """Yield all commands but those in groups; of companions only those of the one that brings the chosen command."""
    bringing = [companion for companion in installed() if chosen in companion.commands]
    if not bringing:
        yield from _COMMANDS
    for companion in bringing or installed():
        if companion.commands:
            yield from (each for each in companion.load("cli.commands").COMMANDS if " " not in each.name)


def _commands_called(word: str) -> str:
    """Return a question about the commands of any group that have a name, or nothing: ``audit`` is ``live audit``."""
    parser = build_parser()
    fill_all(parser)
    called = [each.prog for each in every_parser(parser) if each.prog.split()[1:][-1:] == [word]]
    return f"did you mean {' or '.join(called)}?" if called else ""


Parser.elsewhere = staticmethod(_commands_called)


_COMMANDS: Final = (
    Command(
        "scan", "prologue.cli.scan:run", "say what a file is, and the state of its patch sites",
        "  prologue scan vmlinux\n  prologue scan vmlinux.xz modules/\n"
        "  prologue scan vmlinux --json | jq '.files[].sites_by_section'",
        options="prologue.cli.scan:add_options",
    ),
    Command(
        "patch", "prologue.cli.patch:run", "write MOV X9, X30 into every first slot, and move the records",
        "  prologue patch vmlinux --in-place               # the build step\n"
        "  prologue patch vmlinux -o vmlinux.new           # keep the original\n"
        "  prologue patch vmlinux --dry-run                # check everything, write nothing\n"
        "  prologue patch vmlinux -o lab --contract stock --save-plan plan.json\n"
        "  prologue patch lab --in-place --reverse plan.json\n"
        "  prologue patch modules/ --in-place --contract native\n"
        "  prologue patch modules/ --in-place --vmlinux lab --strip-signature",
        options="prologue.cli.patch:add_options",
    ),
    Command(
        "verify", "prologue.cli.verify:run", "check that only architecturally safe live transitions remain",
        "  prologue verify vmlinux\n  prologue verify vmlinux --against vmlinux.orig\n"
        "  prologue verify vmlinux --image arch/arm64/boot/Image\n"
        "  prologue verify modules/ --vmlinux vmlinux\n"
        "  prologue verify vmlinux.orig --require untouched\n"
        "  prologue verify example:broken                  # a small kernel with three faults\n"
        "  prologue verify vmlinux --release --format sarif -o report.sarif",
        options="prologue.cli.verify:add_options",
    ),
    Command(
        "help", "prologue.cli.help:run", "show the help of a command, or a page of the documentation",
        "  prologue help verify\n  prologue help live audit\n  prologue help gate\n"
        "  prologue help live.md 'What an audit knows'",
        options="prologue.cli.help:add_options",
    ),
    Command(
        "schema", "prologue.cli.help:run_schema", "print the JSON Schema of a document of --json",
        "  prologue schema                                 # their names\n  prologue schema verify",
        options="prologue.cli.help:add_schema_options",
    ),
    Command(
        "rules", "prologue.cli.rules:run_list", "list the rules", "  prologue rules --json",
        options="prologue.cli.rules:add_list_options",
    ),
    Command(
        "explain", "prologue.cli.rules:run_explain", "say what a rule checks, why, and what to do",
        "  prologue explain PL202\n  prologue explain site-not-pair\n  prologue explain PL2",
        options="prologue.cli.rules:add_explain_options",
    ),
    Command(
        "variant", "prologue.cli.image:run_variant", "make a variant of a vmlinux for the bench, from the same link",
        "  prologue variant vmlinux --kind nop-nop -o vmlinux.nop-nop\n"
        "  prologue variant vmlinux --kind build -o vmlinux.build",
        options="prologue.cli.image:add_variant_options",
    ),
    Command(
        "image", "prologue.cli.image:run_image", "write the flat Image of a vmlinux",
        "  prologue image vmlinux -o Image",
        options="prologue.cli.image:add_image_options",
    ),
    Command(
        "kernel", "", "put the build step into a kernel tree, and see whether it works",
        "  prologue kernel install linux --dry-run         # say which files would change\n"
        "  prologue kernel install linux\n"
        "  prologue kernel check linux --objtree build     # after make O=build\n"
        "  prologue kernel patch 6.12 | git am\n"
        "  prologue kernel install linux --uninstall\n",
        options="prologue.cli.kernel:add_kernel",
    ),
)  # fmt: skip
