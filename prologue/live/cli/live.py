"""The grammar of ``prologue live``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prologue.cli.arguments import InPlaceOf, OrExample, add_json, add_look, add_report, add_rules, add_ssh, number_from
from prologue.cli.subcommands import Subcommand, add_command, add_commands, add_of_companions

if TYPE_CHECKING:
    from prologue.cli.subcommands import Commands

_SOURCES = "/proc/kcore, ssh:HOST, a capture, what perf record --kcore wrote, or a dump (kdump, QEMU, libvirt)"


def add_live(group: Subcommand) -> None:
    """Add its commands."""
    actions = add_commands(group)
    capture = add_command(
        actions, "capture", "prologue.live.cli.capture:run",
        "save the text of the running kernel and its modules, with symbols and settings",
        "  prologue live capture -o host.capture.zst                 # this machine, as root\n"
        "  prologue live capture ssh:root@board -o board.capture     # a POSIX shell and dd are all it needs there\n"
        "  prologue live capture ssh:root@board --vmlinux vmlinux -o board.capture   # a kernel without KALLSYMS_ALL",
    )  # fmt: skip
    capture.add_argument("source", nargs="?", default="/proc/kcore", metavar="SOURCE",
                         help="/proc/kcore (default) or ssh:HOST")  # fmt: skip
    capture.add_argument("-o", "--output", type=Path, required=True, metavar="OUT",
                         help="an ELF core, readable by its owner only; compressed if it ends in .zst")  # fmt: skip
    capture.add_argument("--vmlinux", type=Path, metavar="VMLINUX",
                         help="its kernel: keeps what is attached, too (prologue help live-hooks)")  # fmt: skip
    _add_how(capture, "live-capture")
    _add_timeout(capture)
    overlay = add_command(
        actions, "overlay", "prologue.live.cli.overlay:run",
        "write the vmlinux that is really running: its text from memory, its symbols and DWARF from the file",
        "  prologue live overlay vmlinux /proc/kcore -o vmlinux.live\n"
        "  prologue live overlay vmlinux board.capture -o vmlinux.live\n"
        "  prologue live overlay vmlinux perf.data -o vmlinux.live     # after perf record --kcore\n"
        "  prologue live overlay vmlinux vmcore -o vmlinux.live\n"
        "  prologue live overlay vmlinux board.capture --at runtime -o vmlinux.live     # for gdb, objdump, perf\n"
        "  prologue live overlay vmlinux board.capture --modules /lib/modules/6.12.0 -o live/\n"
        "  prologue live overlay --without-vmlinux perf.data -o kernel.elf      # text and symbols, no source lines",
    )  # fmt: skip
    named = (
        overlay.add_argument("vmlinux", type=Path, metavar="VMLINUX", help="unstripped, of exactly that build"),
        overlay.add_argument("source", metavar="SOURCE", help=_SOURCES),
    )
    overlay.add_argument("--without-vmlinux", action=InPlaceOf, const=named, metavar="SOURCE",
                         help="memory alone: text and kallsyms' symbols, at run-time addresses")  # fmt: skip
    overlay.add_argument("--at", choices=("link", "runtime"),
                         help="addresses: as the file has them (default), or where KASLR put the kernel")  # fmt: skip
    overlay.add_argument("--modules", type=Path, metavar="DIR", help="also the loaded modules, from files in DIR")
    overlay.add_argument("-o", "--output", type=Path, required=True, metavar="OUT",
                         help="the file; with --modules the directory for vmlinux and modules")  # fmt: skip
    _add_how(overlay, "live-overlay")
    _add_timeout(overlay)
    _audit(actions)
    _hooks(actions)
    add_of_companions(actions, "live")


def _audit(actions: Commands) -> None:
    audit = add_command(
        actions, "audit", "prologue.live.cli.audit:run",
        "explain every word of the running text: which mechanism of the kernel put it there, and may it stand there?",
        "  prologue live audit vmlinux /proc/kcore                   # this machine, as root\n"
        "  prologue live audit vmlinux board.capture.zst --modules /lib/modules/6.12.0\n"
        "  prologue live audit vmlinux before.capture after.capture\n"
        "  prologue live audit example:hooked                        # a small kernel that somebody changed\n"
        "  prologue live audit vmlinux vmcore --format sarif -o report.sarif",
    )  # fmt: skip
    vmlinux = audit.add_argument("vmlinux", action=OrExample, type=Path, metavar="VMLINUX",
                                 help="unstripped, of exactly that build; example:NAME has its SOURCE")  # fmt: skip
    vmlinux.const = (audit.add_argument("source", metavar="SOURCE", help=_SOURCES),)
    audit.add_argument("later", nargs="?", metavar="SOURCE2",
                       help="later memory of the same boot: what changed in between, and was it allowed?")  # fmt: skip
    audit.add_argument("--plot", type=Path, metavar="FILE", help="a picture of the text: where each mechanism patches")
    audit.add_argument("--modules", type=Path, metavar="DIR", help="also the loaded modules, from files in DIR")
    add_rules(audit, "PL5")
    audit.add_argument("--allow-undecided", action="store_true",
                       help="pass even if memory does not decide some words")  # fmt: skip
    add_ssh(audit)
    _add_timeout(audit)
    add_report(audit, "live-audit", "html", "sarif", "junit")
    add_look(audit)


def _hooks(actions: Commands) -> None:
    hooks = add_command(
        actions, "hooks", "prologue.live.cli.hooks:run",
        "list what is attached to a kernel: who listens at which function, and whose code is called",
        "  prologue live hooks vmlinux /proc/kcore                   # this machine, as root\n"
        "  prologue live hooks vmlinux board.capture --format html -o hooks.html\n"
        "  prologue live hooks vmlinux ssh:root@board --timeout 20\n"
        "  prologue live hooks vmlinux vmcore --json | jq '.listeners[] | select(.kind == \"kprobe\")'",
    )  # fmt: skip
    hooks.add_argument(
        "vmlinux", type=Path, metavar="VMLINUX", help="unstripped, of exactly that build, with BTF or DWARF"
    )
    hooks.add_argument("source", metavar="SOURCE", help=_SOURCES)
    hooks.add_argument("--all", action="store_true", help="name every function in the second table")
    add_ssh(hooks)
    _add_timeout(hooks)
    add_report(hooks, "live-hooks", "html")


def _add_how(command: Subcommand, schema: str) -> None:
    add_ssh(command)
    add_json(command, schema)


def _add_timeout(command: Subcommand) -> None:
    command.add_argument("--timeout", type=number_from(1), metavar="SECONDS",
                         help="that ssh:HOST may be silent (default: 300)")  # fmt: skip
