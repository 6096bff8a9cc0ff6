"""``prologue verify``."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from prologue.apply import new_file
from prologue.errors import UsageError
from prologue.report.findings import findings_data, findings_text
from prologue.rules.base import Finding, Severity, Subject
from prologue.rules.engine import run_rules
from prologue.rules.registry import select_rules
from prologue.sites.kernel import Kernel


def run(args: Namespace) -> int:
    """Verify each file; 1 if anything fails."""
    rules = select_rules(_split(args.select), _split(args.ignore))
    if args.against and len(args.files) > 1:
        raise UsageError("--against takes one FILE")
    before = Kernel(args.against) if args.against else None
    findings: list[Finding] = []
    notes: list[str] = []
    failing: tuple[Severity, ...] = ("fatal", "error", "warn") if args.release else ("fatal", "error")
    failed = False
    for path in args.files:
        kernel = Kernel(path)
        findings += run_rules(Subject(kernel, before), rules)
        if kernel.marker is None and kernel.state in ("processed", "unfinished"):
            notes.append(f"{path}: processed for the stock contract: for bench and lab use, not for release")
            failed |= args.release
        elif kernel.state == "no sites":
            notes.append(f"{path}: no dynamic ftrace, no sites to verify")
    files = [str(path) for path in args.files]
    if args.format == "json":
        report = json.dumps(findings_data(files, findings, notes), indent=2)
    else:
        report = findings_text(files, findings, notes, show_all=args.all)
    if args.output:
        with new_file(args.output) as temporary:
            temporary.write_text(report + "\n", encoding="utf-8")
        print(f"{args.output}: {len(findings)} findings", file=sys.stderr)
    else:
        print(report)
    return 1 if failed or any(finding.severity in failing for finding in findings) else 0


def _split(names: list[str]) -> tuple[str, ...]:
    return tuple(part for name in names for part in name.split(",") if part)
