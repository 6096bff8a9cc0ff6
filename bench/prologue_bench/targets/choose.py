"""The target that a command line names."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from prologue_bench.errors import BenchError
from prologue_bench.guest.vm import Machine

if TYPE_CHECKING:
    from prologue_bench.targets.base import Target

FORMS = "qemu, icount, ssh:HOST or labgrid:ENVIRONMENT.yaml[:TARGET]"


def choose_target(args: Namespace) -> Target:
    """Make the target of ``args.target`` with the options that belong to it; nothing is started yet.

    Raises:
        BenchError: no such target, or an option that it needs is missing.

    """
    kind, _, rest = str(args.target).partition(":")
    if args.reserve is not None and kind != "labgrid":
        raise BenchError(f"--reserve {args.reserve}: needs --target labgrid:...")
    if args.kaslr and kind != "icount":
        raise BenchError("--kaslr: needs --target icount")
    # Under KVM a guest has the host's own CPU or none.
    cpu = args.cpu_model or ("host" if args.accel == "kvm" else Machine().cpu)
    machine = Machine(cpu=cpu, cpus=args.cpus, memory=args.ram)
    if kind == "qemu" and not rest:
        from prologue_bench.targets.qemu import QemuTarget

        return QemuTarget(args.accel, machine, args.modules)
    if kind == "icount" and not rest:
        from prologue_bench.targets.icount import IcountTarget

        return IcountTarget(args.vmlinux, machine, kaslr=args.kaslr)
    if kind == "ssh" and rest:
        from prologue_bench.targets.remote import split_words
        from prologue_bench.targets.ssh import SshTarget

        return SshTarget(rest, args.install, args.reboot, split_words("--ssh-options", args.ssh_options))
    if kind == "labgrid" and rest and args.reserve is not None:
        from prologue_bench.targets.farm import open_farm

        return open_farm(rest, args.reserve)
    if kind == "labgrid" and rest:
        from prologue_bench.targets.labgrid import open_labgrid

        return open_labgrid(rest)
    raise BenchError(f"--target {args.target}: expected {FORMS}")
