"""``prologue bench run``: a campaign from its link to its report."""

from __future__ import annotations

import argparse
import shlex
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from prologue.cli.arguments import number_from
from prologue.plan.variants import KINDS, VariantKind
from prologue.report.terminal import note, warn, working
from prologue.words import counted, meant
from prologue_bench.analysis.boards import require_statsmodels
from prologue_bench.analysis.compare import compare
from prologue_bench.analysis.sources import open_results
from prologue_bench.analysis.stats import LEAST
from prologue_bench.campaign.execution import Execution, Plan, missing_of, plan_campaign, planned_of, run_rounds
from prologue_bench.campaign.variants import Variants, link_aside, plan_variants
from prologue_bench.campaign.watch import watching
from prologue_bench.cli.common import MACHINE, RUNS, TIMEOUT, add_counters, put
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.exact.build import build_counter
from prologue_bench.links.making import link_directories
from prologue_bench.links.recorded import RECORD, VMLINUX, read_record
from prologue_bench.recorder.sampling import sample_sites
from prologue_bench.recorder.task import Task
from prologue_bench.recorder.workloads import parse_workloads
from prologue_bench.report.text import to_text
from prologue_bench.results.journal import hold, open_journal
from prologue_bench.results.merge import LINK
from prologue_bench.results.store import CAMPAIGN, RESULTS
from prologue_bench.targets.choose import choose_target
from prologue_bench.targets.farm import FarmTarget
from prologue_bench.targets.qemu import QemuTarget, require_port

if TYPE_CHECKING:
    from prologue_bench.links.recorded import RecordedLink
    from prologue_bench.results.model import Workload
    from prologue_bench.targets.base import SeveralBoards, Target

# What a campaign's own command says even if it is the default, so that another default changes no campaign.
_ALWAYS_SAID: Final = ("target", "variants", "boots", "runs", "seed")
# Every default of the command; which CPU depends on the accelerator.
DEFAULTS: Final[MappingProxyType[str, Any]] = MappingProxyType({
    "target": "qemu", "variants": "nop-nop,boot,build", "boots": 10, "runs": RUNS, "seed": 1,
    "accel": QemuTarget().accel, "cpu_model": None, "cpus": MACHINE.cpus, "ram": MACHINE.memory,
    "modules": None, "install": "kexec", "reboot": "reboot",
    "ssh_options": "", "reserve": None, "governor": None, "no_control": False, "retries": 2,
    "timeout": TIMEOUT, "kaslr": False, "counters": False,
})  # fmt: skip
# The number of boots with --target icount: a second one shows that counts agree.
_EXACT_BOOTS: Final = 2
# They depend on the target, so the parser leaves them None.
_LEFT_OPEN: Final = ("boots", "runs")


def add_options(added: argparse.ArgumentParser) -> None:
    """Add all options."""
    kernels = added.add_mutually_exclusive_group(required=True)
    kernels.add_argument(
        "vmlinux", type=Path, nargs="?", metavar="VMLINUX", help="as linked; every variant is made from it"
    )
    kernels.add_argument(
        "--links", type=Path, metavar="DIR", help="links of one build, of bench links: blocks of boots on each of them"
    )
    added.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="result set, created or resumed"
    )  # fmt: skip
    added.add_argument(
        "--variants", metavar="KIND,...", help="nop-nop, boot, build; the first is the base (default: %(default)s)"
    )
    added.add_argument(
        "--workload", action="append", default=[], metavar="SPEC",
        help="what to run (icount counts the boot even without one); may be repeated: "
        "hackbench:process,sockets,g=10,l=1000; perf-messaging:thread,pipes; "
        "kernel-build:TREE,j=8; time:COMMAND; FILE.toml with name, command, unit, direction, pattern; "
        "or boot (qemu: seconds from its start to init)",
    )  # fmt: skip
    added.add_argument(
        "--boots", type=number_from(1), metavar="N",
        help=f"boots of each variant (and link), fixed before (default: {DEFAULTS['boots']}; icount: {_EXACT_BOOTS})",
    )  # fmt: skip
    added.add_argument(
        "--runs", type=number_from(1), metavar="N",
        help=f"runs of each workload in a boot (default: {DEFAULTS['runs']}; icount: always 1)",
    )  # fmt: skip
    added.add_argument(
        "--seed", type=number_from(0), metavar="N", help="for the order of boots (default: %(default)s)"
    )  # fmt: skip
    added.add_argument("--no-control", action="store_true", help="no A/A control; differences then have no noise floor")
    added.add_argument(
        "--retries", type=number_from(0), metavar="N", help="attempts after a lost or void boot (default: %(default)s)"
    )
    added.add_argument(
        "--timeout", type=number_from(1), metavar="SECONDS",
        help="for one boot with all its runs (default: %(default)s)",
    )  # fmt: skip
    added.add_argument("--governor", metavar="NAME", help="cpufreq governor during the runs; restored afterwards")
    add_counters(added)
    _add_target_options(added.add_argument_group("target machine"))
    added.set_defaults(**{name: value for name, value in DEFAULTS.items() if name not in _LEFT_OPEN})


def _add_target_options(target: argparse._ArgumentGroup) -> None:
    """Add the options that choose and describe the machine."""
    target.add_argument(
        "--target", metavar="TARGET",
        help="qemu, icount (exact counts), ssh:HOST, labgrid:ENVIRONMENT.yaml[:TARGET] (default: %(default)s)",
    )  # fmt: skip
    target.add_argument(
        "--accel", choices=("tcg", "tcg-single", "kvm"), help="accelerator of qemu (default: %(default)s)"
    )
    target.add_argument(
        "--cpu-model",
        metavar="MODEL",
        help=f"CPUs of qemu and icount (default: host with kvm, otherwise {MACHINE.cpu})",
    )
    target.add_argument(
        "--kaslr", action="store_true", help="icount: boot with KASLR, always moved by the same distance"
    )
    target.add_argument("--cpus", type=number_from(1), metavar="N", help="CPUs of qemu (default: %(default)s)")
    target.add_argument(
        "--ram", type=number_from(1), metavar="MIB", help="RAM of qemu and icount (default: %(default)s)"
    )  # fmt: skip
    target.add_argument(
        "--modules", type=Path, metavar="DIR", help="modules of that kernel, for qemu, if virtio is not built in"
    )
    target.add_argument(
        "--install", metavar="HOW",
        help="how ssh:HOST gets an Image: kexec, or a command run here as COMMAND IMAGE HOST (default: %(default)s)",
    )  # fmt: skip
    target.add_argument(
        "--reboot", metavar="COMMAND",
        help="run on ssh:HOST after that command; none if it reboots the board itself (default: %(default)s)",
    )  # fmt: skip
    target.add_argument(
        "--reserve", metavar="TAG=VALUE,...",
        help="for labgrid: any place of the coordinator with these tags, and another one if its board dies",
    )  # fmt: skip
    target.add_argument("--ssh-options", metavar="WORDS", help="for ssh, as in --ssh-options='-p 2222'")


def run(args: Namespace) -> int:
    """Record what is missing, then print the report.

    Returns:
        0; 1 if places of the plan have no boot that counts.

    """
    import scipy  # noqa: F401 - whether it is there: before the boots, not after

    _settle(args)
    args.recorded_by = _command(args)
    kinds = _kinds(args.variants)
    workloads = parse_workloads(args.workload, boot=args.target == "qemu")
    with ExitStack() as stack:
        if args.links is None:
            target = choose_target(args)
            boards = target if isinstance(target, FarmTarget) else None
            variants = _planned(args.vmlinux, kinds)  # before anything is made: it refuses what is no kernel
            if isinstance(target, QemuTarget) and target.modules is None:
                require_port(variants.kernel)
            stack.enter_context(hold(args.output))
            stack.enter_context(boards or nullcontext())
            executions = [stack.enter_context(_opened(args, variants, workloads, (target, boards), None))]
        else:
            executions = [
                stack.enter_context(_opened(each, _planned(each.vmlinux, kinds), workloads, (target, None), link))
                for each, target, link in _over_links(args)
            ]
        boots = args.boots * len(executions)
        if executions[0].campaign.evidence == "timing" and boots < LEAST:
            warn(f"{counted(boots, 'boot')} of each variant: no verdict is possible below {LEAST}; ten is normal")
        left = _record(executions, args)
    return _report(args.output, left)


def _over_links(args: Namespace) -> Iterator[tuple[Namespace, Target, RecordedLink]]:
    """Yield the arguments of each link's own result set, its target and its record."""
    if args.reserve is not None:
        raise BenchError("--reserve: not with --links: one board for all links (--target labgrid:..., ssh:HOST)")
    if (args.output / CAMPAIGN).exists():  # the report would be of that
        raise BenchError(f"{args.output}: is a result set of a single link: name another directory")
    directories = link_directories(args.links)
    _require_same_links(args.output, {directory.name for directory in directories})
    shared = None if args.target == "icount" else choose_target(args)  # icount counts at a vmlinux's own places
    if shared is not None and shared.evidence == "timing":
        require_statsmodels()  # before the boots, not after
    for number, directory in enumerate(directories):
        of_link = {"vmlinux": directory / VMLINUX, "output": args.output / directory.name, "seed": args.seed + number}
        each = Namespace(**{**vars(args), **of_link})
        yield each, shared or choose_target(each), read_record(directory)


def _require_same_links(output: Path, names: set[str]) -> None:
    """Refuse links that were added or went since boots were recorded: the number of links is fixed before them.

    A link of which nothing was booted, as no boot was, leaves the plan.
    """
    plans = {path.parent.name: path for path in output.glob(f"*/{CAMPAIGN}")}
    if not any(path.stat().st_size for path in output.glob(f"*/{RESULTS}")):
        for name in plans.keys() - names:
            with hold(plans[name].parent):
                plans[name].unlink()
    elif other := names ^ plans.keys():
        raise BenchError(
            f"{output}: was begun with other links (not of both: {', '.join(sorted(other))}): name a new directory"
        )


def _planned(vmlinux: Path, kinds: Sequence[VariantKind]) -> Variants:
    with working(f"planning variants of {vmlinux}"):
        return plan_variants(vmlinux, kinds)


@contextmanager
def _opened(
    args: Namespace,
    variants: Variants,
    workloads: tuple[Workload, ...],
    machine: tuple[Target, SeveralBoards | None],
    recorded: RecordedLink | None,
) -> Iterator[Execution]:
    """Make the variants of a link, print the proof that they are, and open its result set."""
    target, boards = machine
    images = args.output / "images"
    # The caller holds the directory of a single link before it reserves a board.
    lock = nullcontext() if recorded is None else hold(args.output)
    with lock, ExitStack() as stack:
        with working(f"asking {args.target}"):  # before Images are made: it may be down
            target.facts()
        with working(f"making variants of {args.vmlinux}"):
            link = stack.enter_context(link_aside(variants, images))
        if recorded is not None and recorded.build_id != link.build_id:
            raise BenchError(f"{args.vmlinux}: is not the link that {RECORD} beside it describes")
        if not args.quiet:
            print("" if recorded is None else f"{recorded.name}: ", end="")
            for line in link.proof:
                print(line, flush=True)
        task = Task(
            workloads=workloads,
            runs=args.runs,
            sites=sample_sites(args.vmlinux),
            governor=args.governor,
            stub=tuple(link.stub),
            counter=build_counter() if args.counters else b"",
        )
        plan = Plan(
            task=task,
            blocks=args.boots,
            seed=args.seed,
            control=not args.no_control,
            retries=args.retries,
            timeout=args.timeout,
            command=args.recorded_by,
            kernel={} if recorded is None else {LINK: recorded.name, "functions": recorded.functions},
        )
        campaign = plan_campaign(plan, link, target)
        with open_journal(args.output, campaign) as journal:
            yield Execution(
                plan=plan, campaign=campaign, link=link.moved(images), target=target, journal=journal, boards=boards
            )


def _settle(args: Namespace) -> None:
    """Fill in what the command line left open, and what it cannot choose: one run of exact counts is all runs."""
    if not args.workload and args.target != "icount":
        raise BenchError(f"--target {args.target}: nothing to measure; name at least one --workload")
    if args.target == "icount":
        if args.boots == 1:
            raise BenchError("--boots 1: exact counts are taken at least twice")
        if option := "--counters" if args.counters else "--governor" if args.governor else "":
            raise BenchError(f"{option}: not with --target icount, which counts instructions itself, exactly")
        args.boots, args.runs, args.no_control = args.boots or _EXACT_BOOTS, 1, True
    args.boots, args.runs = args.boots or DEFAULTS["boots"], args.runs or DEFAULTS["runs"]


def _report(directory: Path, left: int) -> int:
    """Print what can be said without the ``left`` boots; return the exit code."""
    try:
        put(to_text(compare(open_results([str(directory)])), ["prologue", "bench", "compare", str(directory)]))
    except BenchError as error:
        if not left:
            raise
        warn(f"no report: {error.message}")
    return 1 if left else 0


def _record(executions: Sequence[Execution], args: Namespace) -> int:
    """Run what is missing, and report how many boots are recorded, however it ends.

    Returns:
        How many places have no boot that counts.

    """
    planned, missing = planned_of(executions), missing_of(executions)
    all_are = counted(planned, "boot is", plural="boots are")
    note(f"{args.output}: {planned - missing} of {all_are} recorded, {missing} to go")
    try:
        with watching(planned - missing, planned) as watch:
            if args.links is None:
                executions[0].run(watch)
            else:
                run_rounds(executions, args.seed, watch)
    except (KeyboardInterrupt, GuestLostError):
        note(f"{planned - missing_of(executions)} of {all_are} in {args.output}; the same command resumes")
        raise
    if left := missing_of(executions):
        where = args.output / RESULTS if args.links is None else f"{RESULTS} of each link"
        warn(f"{left} of {counted(planned, 'boot')} stayed void (see {where}); the same command tries them again")
    return left


def _kinds(text: str) -> list[VariantKind]:
    kinds: list[VariantKind] = []
    for kind in text.split(","):
        known = next((known for known in KINDS if known == kind), None)
        if known is None:
            near = meant(kind, KINDS)
            raise BenchError(f"--variants {text}: {kind!r} is not one of {', '.join(KINDS)}{near and ': ' + near}")
        if known in kinds:
            raise BenchError(f"--variants {text}: {kind} is named twice (the A/A control is added by itself)")
        kinds.append(known)
    return kinds


def _command(args: Namespace) -> str:
    """Write the command that records this campaign, to be pasted."""
    kernels = [args.vmlinux] if args.links is None else ["--links", args.links]
    words: list[object] = ["prologue", "bench", "run", *kernels, "--target", args.target]
    words += ["--variants", args.variants]
    for workload in args.workload:
        words += ["--workload", workload]
    words += ["--boots", args.boots, "--runs", args.runs, "--seed", args.seed]
    for name, default in DEFAULTS.items():
        value = getattr(args, name)
        if name not in _ALWAYS_SAID and value != default:
            option = f"--{name.replace('_', '-')}"
            words += [option] if value is True else [f"{option}={value}"]
    return shlex.join(map(str, [*words, "-o", args.output]))
