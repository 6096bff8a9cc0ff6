"""Facts of a board of a farm: a script for its shell, and the facts in what that prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from prologue_bench.errors import GuestLostError
from prologue_bench.host.events import tail

if TYPE_CHECKING:
    from prologue_bench.results.model import Evidence

# ``virtual`` decides what times mean: a machine (no), KVM, or an emulator; KVM's own message distinguishes the two.
SCRIPT: Final = r"""
fact() { [ -z "$2" ] || echo "@fact $1=$2"; }
virtual=no
grep -qs linux,dummy-virt /proc/device-tree/compatible && virtual=emulated
grep -qs QEMU /sys/class/dmi/id/sys_vendor && virtual=emulated
[ $virtual = no ] || ! dmesg | grep -q 'smccc: KVM: hypervisor services detected' || virtual=kvm
fact arch "$(uname -m)"
fact model "$(cat /proc/device-tree/model /sys/class/dmi/id/product_name 2>/dev/null | tr -d '\000')"
fact cpu "$(sed -n 's/^CPU part[^:]*: *//p' /proc/cpuinfo | sort | uniq -c | tr -s ' \n' ' ')"
fact cpus "$(grep -c ^processor /proc/cpuinfo)"
fact virtual $virtual
"""


def read_shell_facts(lines: Sequence[str], where: str) -> dict[str, str]:
    """Read the facts in what the script printed.

    Raises:
        GuestLostError: they are not all there.

    """
    pairs = [line.partition("@fact ")[2].partition("=") for line in lines if "@fact " in line]
    facts = {name: value.strip() for name, _, value in pairs}
    if "virtual" not in facts:
        raise GuestLostError(f"{where}: the board did not report what it is; it printed:\n  {tail(lines)}")
    return facts


def evidence_of(facts: Mapping[str, str]) -> Evidence:
    """Return the class of a board's times: an emulated board measures its emulator."""
    return "smoke" if facts["virtual"] == "emulated" else "timing"
