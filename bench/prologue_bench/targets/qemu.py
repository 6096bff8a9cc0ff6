"""A virtual machine of this host: TCG (``smoke``), or KVM if the host is arm64 (``timing``)."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.guest.initramfs import build_initramfs, describe_guest, fetch_programs, pack, plain_modules
from prologue_bench.guest.vm import Job, Machine, boot, qemu_version
from prologue_bench.recorder.output import read_recorded
from prologue_bench.recorder.script import script
from prologue_bench.recorder.workloads import BOOT
from prologue_bench.targets.base import Target

if TYPE_CHECKING:
    from prologue.kernel.kernel import Kernel
    from prologue_bench.guest.vm import GuestRun
    from prologue_bench.recorder.output import Recorded
    from prologue_bench.recorder.task import Task
    from prologue_bench.results.model import Evidence
    from prologue_bench.targets.base import Attempt

ACCELERATORS: Final = {"tcg": "tcg,thread=multi", "tcg-single": "tcg,thread=single", "kvm": "kvm"}
# What the port needs, if it is not built in; each after what it depends on.
_PORT_MODULES: Final = ("virtio_mmio", "virtio_console")
# A function of each driver, and the module that it is in if it is not built in.
_PORT_FUNCTIONS: Final = {"virtio_mmio_probe": "virtio_mmio", "virtcons_probe": "virtio_console"}
KVM: Final = Path("/dev/kvm")


@dataclass(frozen=True, slots=True)
class QemuTarget(Target):
    """Boots each Image in a QEMU of its own; nothing outlives a boot.

    ``modules`` is a directory with the kernel's modules, for kernels that have no virtio driver built in.
    """

    accel: str = "tcg"
    machine: Machine = field(default_factory=Machine)
    modules: Path | None = None

    @property
    def evidence(self) -> Evidence:
        """TCG measures the translator, KVM the machine."""
        return "timing" if self.accel == "kvm" else "smoke"

    def facts(self) -> Mapping[str, str]:
        """Describe the host, whose speed is the guest's, QEMU, the virtual machine, and what is in the guest."""
        if self.accel == "kvm":
            require_kvm()
        programs, packages = fetch_programs()
        inside = programs | plain_modules(self._port_modules())
        return {
            "target": "qemu",
            "host": platform.node(),
            "host cpu": host_cpu(),
            "qemu": f"{qemu_version()}, {ACCELERATORS[self.accel]}",
            "cpu": self.machine.cpu,
            "cpus": str(self.machine.cpus),
            "memory": f"{self.machine.memory} MiB",
            "guest": describe_guest(packages, (inside[name] for name in sorted(inside))),
        }

    def boot(self, attempt: Attempt, task: Task) -> Recorded:
        """Make one boot; see ``Target.boot``. What a lost machine booted with stays beside its log.

        Raises:
            BenchError: QEMU refuses the machine, or its kernel has no driver for the results' port.

        """
        run = replace(task, workloads=tuple(workload for workload in task.workloads if workload != BOOT))
        initramfs, results = (attempt.log.with_suffix(suffix) for suffix in (".cpio", ".results"))
        # The kernel unpacks archives that follow each other as one.
        content = build_initramfs(self._port_modules()).read_bytes() + pack({"record.sh": script(run).encode()})
        machine = replace(self.machine, accel=ACCELERATORS[self.accel], port=results)
        lost = False
        try:
            initramfs.write_bytes(content)
            results.touch()
            job = Job(names=("record",), timeout=attempt.timeout)
            seen = boot(attempt.image, initramfs, attempt.log, job, machine=machine)
            for event in seen.all("error"):
                raise BenchError(
                    f"{attempt.log}: {event.data['what']}; name its modules with --modules, or build it in"
                )
            recorded = read_recorded(results.read_text(encoding="utf-8", errors="replace").splitlines(), run)
            return recorded if run == task else _with_boot(recorded, seen)
        except GuestLostError as error:
            lost = True
            until_then = f"\n  results until then: {results}" if results.stat().st_size else ""
            raise GuestLostError(error.message + until_then) from error
        finally:
            if not lost:  # the command in the error boots it again
                initramfs.unlink(missing_ok=True)
            if results.exists() and not results.stat().st_size:
                results.unlink()

    def _port_modules(self) -> Sequence[Path]:
        return () if self.modules is None else port_modules(self.modules)


def _with_boot(recorded: Recorded, seen: GuestRun) -> Recorded:
    """Add the one sample that a boot gives of itself."""
    if seen.reached is None:  # a run that ended well has said so
        raise BenchError(f"{seen.log}: the guest reported nothing")
    return replace(recorded, values={**recorded.values, BOOT.name: (seen.reached,)})


def require_port(kernel: Kernel) -> None:
    """Refuse a kernel whose guests could not hand their results out, before any of them boots.

    Raises:
        BenchError: it lacks a driver, and no modules were named.

    """
    if absent := absent_drivers(kernel):
        package = (
            f"Debian's package linux-image-{kernel.release} has them" if "deb" in kernel.release else "of its build"
        )
        raise BenchError(
            f"{kernel.path}: {' and '.join(absent)} not built in, so a guest has no port for results: "
            f"give --modules DIR with the modules of {kernel.release} ({package})"
        )


def absent_drivers(kernel: Kernel) -> list[str]:
    """Return the modules that have what the results' port needs and the kernel has not."""
    return [module for function, module in _PORT_FUNCTIONS.items() if kernel.symbols.find(function) is None]


def require_kvm() -> None:
    """Refuse a host that cannot run arm64 guests at full speed.

    Raises:
        BenchError: it cannot, and why.

    """
    if platform.machine() != "aarch64":
        raise BenchError(
            f"--accel kvm: this host is {platform.machine()}; arm64 guests run at full speed on arm64 only"
        )
    if not os.access(KVM, os.R_OK | os.W_OK):
        raise BenchError(f"--accel kvm: no access to {KVM}: load the module kvm, or join the group that owns the file")


def host_cpu() -> str:
    """Name this host's CPU, and count how many we may use."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    names = [
        line.partition(":")[2].strip() for line in text.splitlines() if line.startswith(("model name", "CPU part"))
    ]
    return f"{len(os.sched_getaffinity(0))}x {names[0] if names else platform.machine()}"


def port_modules(directory: Path) -> Sequence[Path]:
    """Return the modules that the results' port needs, in the order in which they load; empty if they are built in.

    Raises:
        BenchError: what one of them needs is not there.

    """
    from prologue_bench.guest.modules import load_order

    names = [name for name in _PORT_MODULES if any(directory.rglob(f"{name}.ko*"))]
    return load_order(directory, names)
