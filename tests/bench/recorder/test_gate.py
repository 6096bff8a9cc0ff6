"""When a boot is void, what a machine is advised, and what its wall time may be used for."""

from __future__ import annotations

from typing import Any, Final

import pytest

from prologue_bench.recorder.gate import advice, evidence, is_virtual, void_reason

QUIET: Final[dict[str, Any]] = {
    "busy": 3, "governors": ["performance"], "governor_refused": [], "boost": 0,
    "limits": [{"policy": "policy0", "min": 600000, "max": 1500000, "hardware_min": 600000, "hardware_max": 1500000}],
    "temperature": 51234, "cooling": 0, "load": "4.00", "taint": 0, "messages": 345, "warnings": [], "online": "0-3",
    "affinity": "0-3", "midr": ["0x00000000410fd034"], "perf": True, "unread": None,
}  # fmt: skip
SLOWED: Final = [{**QUIET["limits"][0], "max": 1200000}]


def test_a_quiet_machine_passes() -> None:
    assert void_reason(QUIET, {**QUIET, "busy": None, "load": "40.1", "messages": 347, "temperature": 60000}) is None
    assert advice(QUIET) == []


def test_a_machine_that_says_nothing_passes() -> None:
    """Counts have no gate, and an old kernel knows little."""
    assert void_reason({}, {}) is None
    unknown = dict.fromkeys(QUIET)
    assert void_reason(unknown, unknown) is None
    assert {found.what for found in advice(unknown)} == {"no dmesg"}


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ({}, {"cooling": 2}, "throttled after the runs: CPUs were slowed down to cool them"),
        ({"cooling": 1}, {}, "throttled before the runs: CPUs were slowed down to cool them"),
        ({}, {"warnings": ["[ 9.1] WARNING: at x"]}, "the kernel warned: [ 9.1] WARNING: at x"),
        ({}, {"taint": 512}, "kernel's taint changed: 0 before, 512 after"),
        ({}, {"online": "0-2"}, "online CPUs changed: 0-3 before, 0-2 after"),
        ({}, {"governors": ["performance", "ondemand"]},
         "governors changed: performance before, performance ondemand after"),
        ({}, {"boost": 1}, "boost changed: 0 before, 1 after"),
        ({}, {"affinity": "2"}, "affinity changed: 0-3 before, 2 after"),
        ({}, {"limits": SLOWED},
         "frequency limits changed: policy0 600000-1500000 kHz before, policy0 600000-1200000 kHz after"),
        ({"busy": 51}, {}, "other work used 0.5 CPUs before the first run"),
        ({"busy": 641, "online": "0-63"}, {"online": "0-63"}, "other work used 6.4 CPUs before the first run"),
        ({"governor_refused": ["policy0: stays x"]}, {}, "the governor could not be set: policy0: stays x"),
    ],
)  # fmt: skip
def test_what_makes_a_boot_void(before: dict[str, Any], after: dict[str, Any], reason: str) -> None:
    assert void_reason({**QUIET, **before}, {**QUIET, **after}) == reason


@pytest.mark.parametrize(("online", "busy"), [("0-3", 50), ("0-63", 640), ("0,2-9,70", 100)])
def test_a_little_company_is_borne(online: str, busy: int) -> None:
    reading = {**QUIET, "online": online, "busy": busy}
    assert void_reason(reading, reading) is None


@pytest.mark.parametrize(
    ("reading", "what", "fix", "voids"),
    [
        ({"cooling": 1}, "throttled", "let it cool", True),
        ({"temperature": 82000}, "82 degrees C", "let it cool", False),
        ({"governors": ["performance", "schedutil"]}, "governor schedutil", "--governor performance", False),
        ({"governor_refused": ["no CPU has a governor"]}, "no CPU has a governor", "as root", True),
        ({"boost": 1}, "boost is on", "cpufreq/boost", False),
        ({"limits": SLOWED}, "policy0 is limited to 1200000 of 1500000 kHz", "scaling_max_freq", False),
        ({"busy": 120}, "1.2 CPUs are busy", "stop it, or wait", True),
        ({"midr": ["0x410fd034", "0x411fd072"]}, "2 kinds of CPU, and no pinning", "taskset -c", False),
        ({"taint": 4096}, "taint 4096", "reboot", False),
        ({"unread": "no /proc/kcore"}, "no read-back", "CONFIG_PROC_KCORE", False),
        ({"messages": None}, "no dmesg", "as root", False),
        ({"perf": False}, "no perf", "hackbench", False),
    ],
)
def test_advice(reading: dict[str, Any], what: str, fix: str, voids: bool) -> None:
    (found,) = advice({**QUIET, **reading})
    assert (found.what, found.voids) == (what, voids)
    assert fix in found.fix
    assert found.why


def test_big_little_may_be_pinned() -> None:
    assert advice({**QUIET, "midr": ["0x410fd034", "0x411fd072"], "affinity": "2-3"}) == []


@pytest.mark.parametrize(
    ("machine", "virtual", "expected"),
    [
        ({"arch": "aarch64", "model": "Raspberry Pi 4 Model B", "compatible": "brcm,bcm2711"}, False, "timing"),
        ({"arch": "aarch64", "compatible": "linux,dummy-virt", "kvm": "no"}, True, "smoke"),
        ({"arch": "aarch64", "compatible": "linux,dummy-virt", "kvm": "yes"}, True, "timing"),
        ({"arch": "aarch64", "model": "QEMU Virtual Machine", "vendor": "QEMU", "kvm": "no"}, True, "smoke"),
        ({"arch": "aarch64", "model": "KVM Virtual Machine", "vendor": "QEMU", "kvm": "yes"}, True, "timing"),
        ({"arch": "aarch64", "vendor": "Amazon EC2", "model": "c6g.large"}, True, "smoke"),
        ({"arch": "aarch64", "vendor": "Amazon EC2", "model": "c6g.metal"}, False, "timing"),
        ({"arch": "aarch64", "hypervisor": "xen"}, True, "smoke"),
        ({"arch": "x86_64", "model": "Some Server"}, False, "smoke"),
        ({}, False, "smoke"),
    ],
)  # fmt: skip
def test_evidence(machine: dict[str, str], virtual: bool, expected: str) -> None:
    assert is_virtual(machine) is virtual
    assert evidence(machine) == expected
