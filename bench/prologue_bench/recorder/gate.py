"""Judges whether a machine was fit to be measured on, from what the recorder read before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prologue_bench.results.model import Evidence
from prologue_bench.results.settings import SETTINGS, Reading, setting_text

_ARM64: Final = ("aarch64", "aarch64_be")
# What virtual machines call themselves: device tree (QEMU and kvmtool; Xen), then DMI.
_VIRTUAL_COMPATIBLE: Final = ("linux,dummy-virt", "xen,xenvm")
_VIRTUAL_MODEL: Final = (
    "virtual machine",
    "virtualization",
    "kvm",
    "qemu",
    "google compute engine",
    "vmware",
    "amazon ec2",
)
_METAL: Final = ".metal"  # EC2 calls its bare machines like its guests, except for this
# What ``virtual_kind`` asks of a machine, for a shell that has ``fact NAME VALUE``. A kernel under KVM says so
# (drivers/firmware/smccc/kvm_guest.c), or has a clock of it (drivers/ptp/ptp_kvm_common.c).
VIRTUAL_FACTS: Final = r"""
kvm=no
if dmesg 2>/dev/null | grep -q 'KVM: hypervisor services detected' ||
	grep -qs '^KVM' /sys/class/ptp/ptp*/clock_name; then
	kvm=yes
fi
fact vendor "$(cat /sys/class/dmi/id/sys_vendor 2>/dev/null)"
fact compatible "$(cat /proc/device-tree/compatible 2>/dev/null | tr '\000' ' ')"
fact hypervisor "$(cat /sys/hypervisor/type 2>/dev/null)"
fact kvm $kvm
"""
_BUSY_CPU: Final = 50  # percent of one CPU that others may use before a run
_BUSY_SHARE: Final = 10  # and percent of all, on large machines
_HOT: Final = 75_000  # millidegrees; boards begin to throttle at 80 to 85


@dataclass(frozen=True, slots=True)
class Advice:
    """Disturbance of measurements by a machine: what it is, why it matters, how to fix it.

    ``voids``: what is measured in spite of it does not count.
    """

    what: str
    why: str
    fix: str
    voids: bool = False


def evidence(machine: Mapping[str, str]) -> Evidence:
    """Return the class of wall times on a machine, from the facts that the recorder gives."""
    if machine.get("arch") not in _ARM64:
        return "smoke"
    return evidence_of(virtual_kind(machine))


def evidence_of(virtual: str) -> Evidence:
    """Return the class of wall times on an arm64 machine: KVM's are the host's, others may be emulated."""
    return "timing" if virtual in ("no", "KVM") else "smoke"


def virtual_kind(machine: Mapping[str, str]) -> str:
    """Return ``no`` for a machine, ``KVM`` for a guest of it, ``other`` for any other guest."""
    if not is_virtual(machine):
        return "no"
    return "KVM" if machine.get("kvm") == "yes" else "other"


def is_virtual(machine: Mapping[str, str]) -> bool:
    """Return whether a machine looks like a guest."""
    compatible = machine.get("compatible", "").split()
    named = f"{machine.get('vendor', '')} {machine.get('model', '')}".lower()
    return (
        "hypervisor" in machine
        or any(name in compatible for name in _VIRTUAL_COMPATIBLE)
        or (_METAL not in named and any(name in named for name in _VIRTUAL_MODEL))
    )


def void_reason(before: Reading, after: Reading) -> str | None:
    """Say why what was measured between two readings does not count; None if it does."""
    return next(_reasons(before, after), None)


def _reasons(before: Reading, after: Reading) -> Iterator[str]:
    for refused in before.get("governor_refused") or ():
        yield f"the governor could not be set: {refused}"
    if (busy := before.get("busy")) is not None and busy > busy_bound(before):
        yield f"other work used {busy / 100:.1f} CPUs before the first run"
    for warning in after.get("warnings") or ():
        yield f"the kernel warned: {warning}"
    for reading, moment in ((before, "before"), (after, "after")):
        if reading.get("cooling"):
            yield f"throttled {moment} the runs: CPUs were slowed down to cool them"
    for name, setting in {"taint": "kernel's taint", **SETTINGS}.items():
        old, new = before.get(name), after.get(name)
        if old != new:
            yield f"{setting} changed: {setting_text(old)} before, {setting_text(new)} after"


def count_cpus(text: str) -> int:
    """Count the CPUs of a list like ``0-3,6``; 0 if it is none."""
    try:
        spans = [[int(end) for end in part.split("-")] for part in text.split(",")]
    except ValueError:
        return 0
    return sum(span[-1] - span[0] + 1 for span in spans)


def summarise_midrs(words: Iterable[str]) -> str:
    """Return kinds of CPU and how many of each, ``410fd034 x4``, from the hexadecimal MIDR of every CPU."""
    return ", ".join(f"{midr} x{count}" for midr, count in Counter(word[-8:] for word in words).items())


def busy_bound(reading: Reading) -> int:
    """Return how much others may use the CPUs, in percent of one CPU."""
    return max(_BUSY_CPU, _BUSY_SHARE * count_cpus(str(reading.get("online", ""))))


def advice(reading: Reading) -> list[Advice]:
    """List what to fix before measuring, the worst first."""
    return [*_speed(reading), *_company(reading), *_sight(reading)]


def _speed(reading: Reading) -> Iterator[Advice]:
    if reading.get("cooling"):
        yield Advice(
            "throttled", "CPUs are being slowed down to cool them", "let it cool, or cool it better", voids=True
        )
    elif (hot := reading.get("temperature")) is not None and hot >= _HOT:
        yield Advice(f"{hot / 1000:.0f} degrees C", "near the point where CPUs are slowed down", "let it cool")
    for refused in reading.get("governor_refused") or ():
        yield Advice(refused, "the governor that was asked for could not be set", "run it as root", voids=True)
    if others := [name for name in reading.get("governors") or () if name != "performance"]:
        yield Advice(f"governor {', '.join(others)}", "clocks follow the load", "--governor performance")
    if reading.get("boost"):
        yield Advice(
            "boost is on", "clocks depend on temperature and on other CPUs",
            "echo 0 > /sys/devices/system/cpu/cpufreq/boost",
        )  # fmt: skip
    for limit in reading.get("limits") or ():
        if None not in (limit["max"], limit["hardware_max"]) and limit["max"] < limit["hardware_max"]:
            yield Advice(
                f"{limit['policy']} is limited to {limit['max']} of {limit['hardware_max']} kHz",
                "set by hand, or by something that cools or saves power", "see scaling_max_freq of that policy",
            )  # fmt: skip


def _company(reading: Reading) -> Iterator[Advice]:
    if (busy := reading.get("busy")) is not None and busy > busy_bound(reading):
        yield Advice(
            f"{busy / 100:.1f} CPUs are busy", "other work takes time and caches", "stop it, or wait", voids=True
        )
    kinds = reading.get("midr") or ()
    if len(kinds) > 1 and reading.get("affinity") == reading.get("online"):
        yield Advice(
            f"{len(kinds)} kinds of CPU, and no pinning", "where the scheduler puts the work decides the result",
            "run it on CPUs of one kind: taskset -c LIST prologue bench record ...",
        )  # fmt: skip
    if reading.get("taint"):
        yield Advice(
            f"taint {reading['taint']}", "an unusual kernel: see tainted-kernels.rst", "reboot, find the cause"
        )


def _sight(reading: Reading) -> Iterator[Advice]:
    if why := reading.get("unread"):
        yield Advice(
            "no read-back", str(why), "run it as root on a kernel with CONFIG_PROC_KCORE, or go without the proof"
        )
    if reading.get("messages") is None:
        yield Advice(
            "no dmesg", "kernel warnings go unnoticed", "run it as root, or install dmesg (util-linux, busybox)"
        )
    if reading.get("perf") is False:
        yield Advice("no perf", "perf bench cannot be a workload", "install perf, or use hackbench")
