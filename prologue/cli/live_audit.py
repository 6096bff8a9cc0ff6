"""``prologue live audit``."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from prologue.audit.run import Audit, audit
from prologue.cli.arguments import shell_words
from prologue.cli.parallel import print_errors
from prologue.memory.sources import open_memory
from prologue.outputs import new_file, require_other
from prologue.report.audit import closing, failed, render_audit


def run(args: Namespace) -> int:
    """Audit the text of a kernel that runs or ran: 1 if a word is wrong, 2 if it is another kernel."""
    require_other(args.output, args.vmlinux, Path(args.source))
    memory = open_memory(args.source, shell_words("--ssh-options", args.ssh_options))
    done = audit(args.vmlinux, memory)
    another = next((one.audited.mismatch for one in done.files if one.audited.mismatch), "")
    if another:
        print_errors([(another, f"{another} (PL505)")])
    if not another or args.output or args.format != "text":
        _report(args, done)
    return 2 if another else int(failed(done))


def _report(args: Namespace, done: Audit) -> None:
    if args.quiet and not failed(done) and not args.output:
        return
    report = render_audit(done, args.format, show_all=args.all)
    if not args.output:
        print(report)
        return
    with new_file(args.output) as temporary:
        temporary.write_text(report + "\n", encoding="utf-8", errors="surrogateescape")
    if failed(done) or not args.quiet:
        print(f"{args.output}: {closing(done)}", file=sys.stderr)
