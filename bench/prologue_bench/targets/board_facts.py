"""Facts of a board over ssh: a script to be run there, and the facts in its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prologue_bench.errors import BenchError
from prologue_bench.recorder.cpus import count_cpus, summarise_midrs
from prologue_bench.recorder.gate import VIRTUAL_FACTS, evidence_of, virtual_kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prologue_bench.results.model import Evidence

_FACTS: Final = """
fact() { echo "$1 $2"; }
echo "arch $(uname -m)"
echo "model $(tr -d '\\000' </proc/device-tree/model 2>/dev/null || cat /sys/class/dmi/id/product_name 2>/dev/null)"
echo "online $(cat /sys/devices/system/cpu/online)"
sed -n 's/^MemTotal: *\\([0-9]*\\) kB/memory \\1/p' /proc/meminfo
for file in /sys/devices/system/cpu/cpu*/regs/identification/midr_el1; do
	[ -r "$file" ] && echo "midr $(cat "$file")"
done
"""
FACTS: Final = _FACTS + VIRTUAL_FACTS
KEXEC_WORKS: Final = """
command -v kexec >/dev/null || echo 'kexec kexec is not installed (Debian package kexec-tools)'
[ -e /sys/kernel/kexec_loaded ] || echo 'kexec its kernel is built without CONFIG_KEXEC'
[ "$(cat /proc/sys/kernel/kexec_load_disabled 2>/dev/null)" != 1 ] || echo 'kexec kernel.kexec_load_disabled is set'
"""


def read_board(lines: Sequence[str], host: str) -> dict[str, str]:
    """Read facts out of what the board said of itself.

    Raises:
        BenchError: it cannot be used.

    """
    rows = [line.partition(" ") for line in lines]
    facts = {name: value.strip() for name, _, value in rows if value.strip()}
    if facts.get("arch") != "aarch64":
        raise BenchError(f"{host} is {facts.get('arch') or 'no Linux machine'}, not an arm64 one")
    if "kexec" in facts:
        raise BenchError(
            f"{host} cannot start an Image by kexec: {facts['kexec']}; fix that, or give --install a command"
        )
    return {
        "target": "ssh",
        "host": host,
        "arch": facts["arch"],
        "model": facts.get("model", "unknown"),
        "cpu": summarise_midrs(sorted(value for name, _, value in rows if name == "midr")) or "unknown",
        "cpus": str(count_cpus(facts["online"])),
        "memory": f"{_fitted(int(facts['memory'])) >> 10} MiB",
        "virtual": virtual_kind(facts),
    }


def _fitted(total: int) -> int:
    """Return the KiB of the board: MemTotal is what this very kernel left of it, and others leave more or less."""
    step = (1 << total.bit_length()) // 8
    return -(-total // step) * step


def board_evidence(facts: Mapping[str, str]) -> Evidence:
    """Return the class of the times of a machine with these facts."""
    return evidence_of(facts["virtual"])
