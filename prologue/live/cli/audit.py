"""``prologue live audit``."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from itertools import chain
from pathlib import Path

from prologue.cli.arguments import require_html, selected_names, shell_words, split_names
from prologue.cli.looks import look_of
from prologue.cli.reports import is_wanted, put_report
from prologue.elf.image import ElfImage
from prologue.errors import UsageError
from prologue.gate.config import Config
from prologue.gate.settings import combine
from prologue.kernel.load import open_judged
from prologue.live.audit.compare import audit_both
from prologue.live.audit.outcome import exit_code
from prologue.live.audit.run import LIVE_RULES, Audit
from prologue.live.cli.audit_boards import audit_boards, check_boards, print_audit_errors
from prologue.live.cli.examples import use_example_system
from prologue.live.hooks.run import audit, audit_with_hooks
from prologue.live.memory.sources import open_memory
from prologue.live.report.audit import closing, render_audit
from prologue.live.system.module_files import module_files
from prologue.live.system.running_system import RunningSystem
from prologue.outputs import require_distinct, require_other
from prologue.rules.base import Rule


def run(args: Namespace) -> int:
    """Audit the text of a kernel that runs or ran: 1 if a word is wrong, 5 if some could not be decided."""
    require_html(args.format)
    use_example_system(args)
    check_boards(args)
    sources = [args.source, *([args.later] if args.later else []), *args.board]
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
    memories = [] if args.board else [open_memory(source, options, args.timeout) for source in sources]
    image = ElfImage(args.vmlinux)
    if not image.relocatable:
        open_judged(image)
    if args.board:
        return audit_boards(args, image, modules, rules, left_out)
    systems = [RunningSystem(image, memory, modules) for memory in memories]
    done = audit_both((systems[0], systems[1]), rules, audit_with_hooks) if args.later else audit(systems[0], rules)
    done = replace(done, left_out={**done.left_out, **left_out})
    print_audit_errors(done)
    passes = not done.failed and not done.is_open(lacking_allowed=args.allow_undecided)
    if is_wanted(args, passes=passes) and (not done.mismatch or args.output or args.format != "text"):
        put_report(args, _rendered(args, done), closing(done), passes=passes)
    if args.plot and not done.mismatch:
        plot_audit(done, args.plot, look)
    return exit_code(done, lacking_allowed=args.allow_undecided)


def _rules(args: Namespace) -> tuple[tuple[Rule, ...], dict[str, str]]:
    """Choose rules to run, and say why each of the others does not; settings files are for builds, and not asked."""
    settings = combine(Config(), select=selected_names(args.select), ignore=split_names(args.ignore), baseline=None)
    rules = tuple(rule for rule in LIVE_RULES if rule in settings.rules)
    if not rules:
        raise UsageError(f"no rule is left that judges running text: {', '.join(rule.code for rule in LIVE_RULES)}")
    return rules, {left.rule.code: left.why for left in settings.left_out if left.rule in LIVE_RULES}


def _rendered(args: Namespace, done: Audit) -> str:
    if args.format != "html":
        brief = args.quiet and not args.output
        return render_audit(done, args.format, show_all=args.all, lacking_allowed=args.allow_undecided, brief=brief)
    from prologue.live.pages.audit import audit_page
    from prologue.report.html.page import render_page

    return render_page(audit_page(done, args.command_line, lacking_allowed=args.allow_undecided))
