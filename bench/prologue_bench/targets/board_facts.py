"""Facts of a board: scripts to be run there, over ssh or typed into its shell, and the facts in their lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.host.events import tail
from prologue_bench.recorder.gate import VIRTUAL_FACTS, count_cpus, summarise_midrs, virtual_kind

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
_TYPED_FACTS: Final = r"""
fact() { [ -z "$2" ] || echo "@fact $1=$2"; }
fact arch "$(uname -m)"
fact model "$(cat /proc/device-tree/model /sys/class/dmi/id/product_name 2>/dev/null | tr -d '\000')"
fact cpu "$(sed -n 's/^CPU part[^:]*: *//p' /proc/cpuinfo | sort | uniq -c | tr -s ' \n' ' ')"
fact cpus "$(grep -c ^processor /proc/cpuinfo)"
"""
TYPED_FACTS: Final = _TYPED_FACTS + VIRTUAL_FACTS
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


def read_typed_facts(lines: Sequence[str], where: str) -> dict[str, str]:
    """Read the facts in what the script printed.

    Raises:
        GuestLostError: they are not all there.

    """
    pairs = [line.partition("@fact ")[2].partition("=") for line in lines if "@fact " in line]
    facts = {name: value.strip() for name, _, value in pairs}
    if "kvm" not in facts:
        raise GuestLostError(f"{where}: the board did not report what it is; it printed:\n  {tail(lines)}")
    kept: dict[str, str] = {name: facts[name] for name in ("arch", "model", "cpu", "cpus") if name in facts}
    return {**kept, "virtual": virtual_kind(facts)}
