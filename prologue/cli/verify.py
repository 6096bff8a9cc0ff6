"""``prologue verify``."""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import partial
from pathlib import Path

from prologue.cli.parallel import print_errors, run_many
from prologue.errors import OutputError, UsageError
from prologue.gate.baseline import baseline_text
from prologue.gate.config import Config, load_config, load_config_file
from prologue.gate.judge import judge
from prologue.outputs import new_file, require_other
from prologue.report.render import render
from prologue.rules.registry import select_rules
from prologue.sites.load import named_files
from prologue.verify import Request, verify_file


def run(args: Namespace) -> int:
    """Verify each file; 1 if anything fails, 2 if a file could not be verified."""
    config = _config(args)
    release = args.release or config.release
    rules = select_rules(_split(args.select) or config.select, (*_split(args.ignore), *config.ignore))
    paths = named_files(args.files)
    baseline = args.baseline or config.baseline
    _require_writable(args, paths, baseline)
    if len(paths) > 1 and (args.against or args.image):
        raise UsageError("--against and --image take one FILE")
    request = Request(tuple(rule.code for rule in rules), args.against, args.image, args.vmlinux)
    results = list(run_many(partial(verify_file, request), paths, "verify", args.jobs))
    print_errors([(result.reason, result.error) for result in results if result.error])
    worst = max((result.exit_code for result in results), default=0)
    verdict = judge(results, rules, release=release, baseline=baseline)
    if args.write_baseline:
        _write(args.write_baseline, baseline_text(verdict.findings))
        print(f"{args.write_baseline}: fill in reason and owner in each entry", file=sys.stderr)
    failed = bool(worst) or verdict.failed
    if args.quiet and not failed and not args.output:
        return 0
    report = render(verdict, args.format, show_all=args.all)
    if args.output:
        _write(args.output, report + "\n")
        if failed or not args.quiet:
            print(f"{args.output}: {len(verdict.findings) + len(verdict.refused)} findings", file=sys.stderr)
    else:
        print(report)
    return worst or int(verdict.failed)


def _require_writable(args: Namespace, paths: list[Path], baseline: Path | None) -> None:
    """Check before the work that no input, and no baseline with its reasons, would be overwritten."""
    for out in (args.output, args.write_baseline):
        require_other(out, *paths, args.against, args.image, args.vmlinux, args.config)
    require_other(args.output, baseline)
    if args.write_baseline and args.write_baseline.exists():
        raise OutputError("exists: its reasons and owners would be lost; name a new file", path=args.write_baseline)


def _config(args: Namespace) -> Config:
    if args.no_config:
        return Config()
    return load_config_file(args.config) if args.config else load_config(Path.cwd())


def _write(path: Path, text: str) -> None:
    with new_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape")


def _split(names: list[str]) -> tuple[str, ...]:
    return tuple(part for name in names for part in name.split(",") if part)
