"""``prologue verify``."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Literal, NamedTuple

from prologue.cli.arguments import (
    OrExample,
    add_jobs,
    add_reports,
    add_rules,
    example_files,
    is_wanted,
    put_report,
    require_html,
    selected_names,
    split_names,
)
from prologue.cli.parallel import print_errors, run_many
from prologue.cli.subcommands import Subcommand
from prologue.errors import InputError, OutputError, UsageError
from prologue.gate.baseline import baseline_text
from prologue.gate.judge import JudgedFile, Verdict, judge, verified_of
from prologue.gate.settings import (
    SETTINGS,
    Config,
    Settings,
    combine,
    load_config,
    load_config_file,
    no_rule_applies,
    require_releasable,
    settings_directory,
)
from prologue.gate.verify import (
    Request,
    Unverified,
    Verified,
    modules_without_records,
    modules_without_signature,
    unverified,
    verify_file,
)
from prologue.kernel.load import is_missing, is_vmlinux, kernels_among, named_files, unfollowed_links
from prologue.outputs import require_distinct, require_other, same_file, write_text
from prologue.report.closing import closing_line
from prologue.report.findings import Format, cause_lines, render
from prologue.report.terminal import note, shows_both, warn


class _Target(NamedTuple):
    """A file to verify; ``lost`` is set for a directory whose files could not be found."""

    path: Path
    settings: Settings
    lost: Unverified | None = None
    added: bool = False  # no FILE, but the kernel of modules: options that compare do not mean it


def add_options(command: Subcommand) -> None:
    """Give ``verify`` its options."""
    command.add_argument("files", action=OrExample, type=Path, nargs="+", metavar="FILE",
                         help="vmlinux or module (.xz, .gz, .zst, too), a directory of modules, "
                              "or example:NAME")  # fmt: skip
    command.add_argument("--against", type=Path, metavar="BEFORE", help="explain every byte that differs from BEFORE")
    command.add_argument("--image", type=Path, metavar="IMAGE",
                         help="boot file made from this vmlinux: flat, compressed or EFI zboot")  # fmt: skip
    command.add_argument("--vmlinux", type=Path, metavar="VMLINUX",
                         help="the kernel that loads these modules: its keys, its contract")  # fmt: skip
    command.add_argument("--release", action="store_true",
                         help="fail on warnings, too, and on everything but native, processed kernels")  # fmt: skip
    command.add_argument("--require", choices=("untouched", "processed"), help="fail on files in any other state")
    add_rules(command, "PL2")
    command.add_argument("--config", type=Path, metavar="FILE",
                         help="settings (default: .prologue.toml or pyproject.toml beside FILE)")  # fmt: skip
    command.add_argument("--no-config", action="store_true", help="ignore settings files")
    command.add_argument("--baseline", type=Path, metavar="FILE", help="known findings, each with reason and owner")
    command.add_argument("--save-baseline", type=Path, metavar="FILE",
                         help="write a baseline of today's findings, reasons and owners to be filled in")  # fmt: skip
    add_jobs(command)
    add_reports(command, "verify", "html", "sarif", "junit")


def run(args: Namespace) -> int:
    """Verify each file; 1 if anything fails, 2 if a file could not be verified."""
    for form in (args.format, *(form for form, _ in args.saved)):
        require_html(form)
    args.files = example_files(args.files)
    targets = _targets(args)
    release = args.release or any(target.settings.release for target in targets)
    _require_sense(args, targets, release=release)
    paths = [target.path for target in targets if target.lost is None]
    kernels = kernels_among(args.vmlinux, paths)
    if release:
        if args.vmlinux is not None and is_missing(args.vmlinux, paths):
            targets.append(_Target(args.vmlinux, _settings(args, args.vmlinux), added=True))
        for settings in {target.settings.path: target.settings for target in targets}.values():
            require_releasable(settings)
    _require_writable(args, targets)
    results = _verify(args, targets, kernels)
    failed = [result for result in results if isinstance(result, Unverified)]
    if not (shows_both() and args.format == "text" and not args.output):  # otherwise the report has them
        print_errors([(lost.reason, lost.error) for lost in failed])
    judged = [JudgedFile(result, target.settings) for result, target in zip(results, targets, strict=True)]
    verified = verified_of(judged)
    notes = [*modules_without_records(verified), *modules_without_signature(verified), *_not_used(args, judged)]
    verdict = judge(judged, release=release, require=args.require, notes=notes)
    _require_a_rule(verdict)
    if args.save_baseline:
        write_text(args.save_baseline, baseline_text(verdict.findings))
        note(f"{args.save_baseline}: fill in reason and owner in each entry")
    _report(args, verdict)
    return max((lost.exit_code for lost in failed), default=int(verdict.failed))


def _targets(args: Namespace) -> list[_Target]:
    """Return every file once, with what applies to it."""
    targets_by_path: dict[Path, _Target] = {}
    for argument in args.files:
        settings = _settings(args, argument)
        try:
            targets = [_Target(path, settings) for path in named_files([argument])]
        except InputError as error:
            targets = [_Target(argument, settings, unverified(argument, error))]
        for target in targets:
            targets_by_path.setdefault(target.path, target)
    return list(targets_by_path.values())


def _settings(args: Namespace, argument: Path) -> Settings:
    if args.no_config:
        config = Config()
    else:
        config = load_config_file(args.config) if args.config else load_config(settings_directory(argument))
    return combine(config, select=selected_names(args.select), ignore=split_names(args.ignore), baseline=args.baseline)


def _require_sense(args: Namespace, targets: list[_Target], *, release: bool) -> None:
    """Refuse options that contradict each other, or that nothing would look at."""
    if len(targets) > 1 and (args.against or args.image):
        raise UsageError("--against and --image take one FILE")
    if args.image and not any("I" in rule.inputs for target in targets for rule in target.settings.rules):
        raise UsageError("--image is for PL404, which would not run: remove it from --ignore, or select it")
    if args.no_config and args.config:
        raise UsageError("--no-config and --config contradict each other")
    others = (t.lost is None and is_vmlinux(t.path) and not same_file(args.vmlinux, t.path) for t in targets)
    if args.vmlinux and targets and not release and all(others):
        raise UsageError(f"--vmlinux {args.vmlinux} is for modules, but no FILE is a module")
    if release and args.require == "untouched":
        raise UsageError("a release must be processed: --release and --require untouched contradict each other")


def _require_a_rule(verdict: Verdict) -> None:
    """Refuse a selection of which nothing applies: a report of what was not looked at would read as clean."""
    if not verdict.facts or any(verdict.rules_run(path) for path in verdict.facts):
        return
    path = next(iter(verdict.facts))
    files = "this file" if len(verdict.facts) == 1 else "any of these files"
    raise no_rule_applies(verdict.settings[path].rules, files)


def _not_used(args: Namespace, judged: list[JudgedFile]) -> list[str]:
    """Return notes about what was named, or is there, and was not looked at."""
    notes = [
        f"{argument}: {len(links)} symbolic link{'s' if len(links) != 1 else ''} not followed: {', '.join(links[:3])}"
        f"{' ...' if len(links) > 3 else ''}"
        for argument in args.files
        if (links := unfollowed_links(argument))
    ]
    verified = verified_of(judged)
    if args.vmlinux and len(verified) == len(judged) and all(each.facts.kind == "vmlinux" for each in verified):
        notes.append(f"--vmlinux {args.vmlinux} is for modules, and none was verified")
    path = Path.cwd() / SETTINGS
    if not (args.config or args.no_config) and path.is_file() and path not in {file.settings.path for file in judged}:
        notes.append(f"{path}: not used, since it is not beside a verified file: --config {SETTINGS} uses it")
    return notes


def _verify(args: Namespace, targets: list[_Target], kernels: tuple[Path, ...]) -> list[Verified | Unverified]:
    """Verify every file that was found, in the order of the targets."""
    work = []
    for target in targets:
        codes = tuple(rule.code for rule in target.settings.rules)
        against, image = (None, None) if target.added else (args.against, args.image)
        if target.lost is None:
            work.append((Request(codes, against, image, kernels), target.path))
    done = iter(list(run_many(_verify_one, work, "verify", args.jobs)))
    return [target.lost or next(done) for target in targets]


def _verify_one(work: tuple[Request, Path]) -> Verified | Unverified:
    return verify_file(*work)


def _report(args: Namespace, verdict: Verdict) -> None:
    """Print or write the report. ``--quiet`` saves text that passes, but what a release did without is always said."""
    for form, path in args.saved:
        write_text(path, _rendered(args, verdict, form) + "\n")
    if is_wanted(args, passes=verdict.passed):
        report, causes = _rendered(args, verdict, args.format), cause_lines(verdict)
        put_report(args, report, closing_line(verdict), passes=verdict.passed, causes=causes)
    elif verdict.release:
        for exception in verdict.exceptions:
            warn(exception)


def _rendered(args: Namespace, verdict: Verdict, form: Format | Literal["html"]) -> str:
    if form != "html":
        return render(verdict, form, show_all=args.all)
    from prologue.report.html.page import render_page
    from prologue.report.html.verify import verify_page

    return render_page(verify_page(verdict, args.command_line))


def _require_writable(args: Namespace, targets: list[_Target]) -> None:
    """Check before the work that no input, baseline with its reasons, or other output would be overwritten."""
    paths = [target.path for target in targets]
    settings = [target.settings for target in targets]
    outs = [args.output, args.save_baseline, *(path for _, path in args.saved)]
    for out in outs:
        require_other(out, *paths, args.against, args.image, args.vmlinux, *{setting.path for setting in settings})
        if out is not args.save_baseline:
            require_other(out, *{setting.baseline for setting in settings})
    require_distinct(*outs)
    if args.save_baseline and args.save_baseline.exists():
        raise OutputError("exists: its reasons and owners would be lost; name a new file", path=args.save_baseline)
