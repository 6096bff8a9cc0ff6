"""``prologue bench doctor``: what is wrong with this host or the machine to be measured, and how to fix it."""

from __future__ import annotations

import argparse
import platform
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from prologue.report.terminal import is_quiet
from prologue_bench.errors import BenchError
from prologue_bench.recorder.local import record_here
from prologue_bench.recorder.output import Recorded
from prologue_bench.recorder.sampling import sample_sites
from prologue_bench.recorder.task import Task
from prologue_bench.targets.doctor import Diagnosis, check_host, check_machine, check_vmlinux


def add_options(added: argparse.ArgumentParser) -> None:
    """Add all options."""
    added.add_argument(
        "--vmlinux",
        type=Path,
        metavar="VMLINUX",
        help="the kernel to measure: can it be measured, does it run there?",
    )
    added.add_argument("--target", metavar="TARGET", help="ssh:HOST, a board as it runs now (default: this host)")
    added.add_argument(
        "--install", default="kexec", metavar="HOW", help="as in bench run: without kexec, the board need not have it"
    )  # fmt: skip
    added.add_argument("--ssh-options", default="", metavar="WORDS", help="for ssh, as in --ssh-options='-p 2222'")


def run(args: Namespace) -> int:
    """Check the host and its running kernel if it is arm64, or the board that is named.

    Returns:
        0 if nothing fails, otherwise 1.

    """
    kernel = [] if args.vmlinux is None else check_vmlinux(args.vmlinux)
    diagnoses = [*check_host(), *kernel]
    if (ask := _machine(args)) is not None:
        vmlinux = None if any(diagnosis.health == "fail" for diagnosis in kernel) else args.vmlinux
        sites = () if vmlinux is None else sample_sites(vmlinux)
        diagnoses += check_machine(ask(Task(workloads=(), runs=0, sites=sites)), vmlinux)
    return report(diagnoses)


def _machine(args: Namespace) -> Callable[[Task], Recorded] | None:
    """Make the caller of a task on the machine to be checked; None if there is nothing but this host."""
    if args.target is None:
        return record_here if platform.machine() == "aarch64" else None
    kind, _, host = args.target.partition(":")
    if kind != "ssh" or not host:
        raise BenchError(f"--target {args.target}: expected ssh:HOST")
    from prologue_bench.targets.remote import split_words
    from prologue_bench.targets.ssh import SshTarget

    return SshTarget(host, install=args.install, ssh_options=split_words("--ssh-options", args.ssh_options)).ask


def report(diagnoses: Sequence[Diagnosis]) -> int:
    """Print an aligned list, with ``--quiet`` only of what is not well; return the exit code."""
    for diagnosis in diagnoses:
        if is_quiet() and diagnosis.health == "ok":
            continue
        print(f"{diagnosis.health:4}  {diagnosis.what}" + (f"\n      -> {diagnosis.fix}" if diagnosis.fix else ""))
    return int(any(diagnosis.health == "fail" for diagnosis in diagnoses))
