"""``prologue live audit``: of a machine, or of an example."""

from __future__ import annotations

import argparse
from argparse import Namespace
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prologue.cli.arguments import (
    examples_with,
    is_wanted,
    look_of,
    placed,
    put_report,
    require_html,
    selected_names,
    shell_words,
    split_names,
)
from prologue.cli.parallel import print_errors
from prologue.elf.image import ElfImage
from prologue.errors import UsageError
from prologue.examples import PREFIX
from prologue.gate.settings import Config, combine
from prologue.kernel.load import open_judged
from prologue.live.audit.outcome import Audit
from prologue.live.audit.run import LIVE_RULES, live_rules
from prologue.live.hooks.run import audit
from prologue.live.memory.sources import open_memory
from prologue.live.pages.audit import audit_page
from prologue.live.report.audit import closing, render_audit
from prologue.live.system.running_system import RunningSystem, module_files
from prologue.outputs import require_distinct, require_other
from prologue.report.html.page import render_page
from prologue.rules.base import Rule

if TYPE_CHECKING:
    from prologue.examples.listing import KernelListing

_RELEASE: Final = "6.12.0-example"  # as the banner in kernel.lst


def use_example_system(args: argparse.Namespace) -> None:
    """Let an example as VMLINUX stand for SOURCE, too.

    Raises:
        UsageError: no such example, it has no memory, or SOURCE is named as well.

    """
    argument = str(args.vmlinux)
    if not argument.startswith(PREFIX):
        return
    if args.source is not None:
        raise UsageError(f"{argument} stands for VMLINUX and SOURCE: name no SOURCE")
    example = placed(argument)
    if example.memory is None:
        raise UsageError(f"{argument} has no memory: take {examples_with('memory')}")
    args.vmlinux, args.source = example.vmlinux, str(place_memory(example.vmlinux, example.memory))


def place_memory(vmlinux: Path, listing: KernelListing) -> Path:
    """Write a capture beside the example's vmlinux, of the kernel at its link-time addresses; return its path."""
    from prologue.live.memory.capture import Piece, write_capture
    from prologue.live.memory.state import KernelState, LiveSymbol

    symbols = tuple(LiveSymbol(symbol.vaddr, name, "") for name, symbol in listing.symbols.items())
    state = KernelState(release=_RELEASE, boot_id="", modules=(), symbols=symbols, kprobes=())
    vmcoreinfo = (
        f"OSRELEASE={_RELEASE}\nPAGESIZE=4096\nSYMBOL(_stext)={listing.address('_stext'):x}\n"
        "NUMBER(VA_BITS)=48\nNUMBER(TCR_EL1_T1SZ)=0x10\nKERNELOFFSET=0\n"
    )
    pieces = [Piece(section.vaddr, 0, bytes(section.data), ()) for section in listing.sections]
    path = vmlinux.with_name("memory")
    write_capture(path, "an example", state, vmcoreinfo.encode(), pieces)
    return path


def run(args: Namespace) -> int:
    """Audit the text of a kernel that runs or ran: 1 if a word is wrong, 5 if some could not be decided."""
    require_html(args.format)
    use_example_system(args)
    sources = [args.source, *([args.later] if args.later else [])]
    modules = None if args.modules is None else module_files(args.modules)
    for out in (args.output, args.plot):
        require_other(out, args.vmlinux, *map(Path, sources), *chain.from_iterable((modules or {}).values()))
    look = look_of(args, ("--plot", args.plot))
    if args.plot:
        from prologue.live.report.strips import plot_audit
        from prologue.report.pictures import require_plottable

        require_plottable(args.plot)
        require_distinct(args.plot, args.output)
    rules, left_out = _rules(args)
    options = shell_words("--ssh-options", args.ssh_options)
    memories = [open_memory(source, options, args.timeout) for source in sources]
    image = ElfImage(args.vmlinux)
    if not image.relocatable:
        open_judged(image)
    systems = [RunningSystem(image, memory, modules) for memory in memories]
    done = audit(systems[-1], rules, since=systems[0] if args.later else None)
    done = replace(done, left_out={**done.left_out, **left_out})
    print_errors([(error.message, str(error)) for error in done.all_errors])
    if done.mismatch:
        print_errors([(done.mismatch, f"{done.mismatch} (PL505)")])
    passes = not done.failed and not done.is_open(lacking_allowed=args.allow_undecided)
    if is_wanted(args, passes=passes) and (not done.mismatch or args.output or args.format != "text"):
        put_report(args, _rendered(args, done), closing(done), passes=passes)
    if args.plot and not done.mismatch:
        plot_audit(done, args.plot, look)
    return done.exit_code(lacking_allowed=args.allow_undecided)


def _rules(args: Namespace) -> tuple[tuple[Rule, ...], dict[str, str]]:
    """Choose rules to run, and say why each of the others does not; settings files are for builds, and not asked."""
    settings = combine(Config(), select=selected_names(args.select), ignore=split_names(args.ignore), baseline=None)
    left_out = {left.rule.code: left.why for left in settings.left_out if left.rule in LIVE_RULES}
    return live_rules(settings.rules), left_out


def _rendered(args: Namespace, done: Audit) -> str:
    if args.format != "html":
        brief = args.quiet and not args.output
        return render_audit(done, args.format, show_all=args.all, lacking_allowed=args.allow_undecided, brief=brief)
    return render_page(audit_page(done, args.command_line, lacking_allowed=args.allow_undecided))
