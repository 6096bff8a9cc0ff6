"""Facts of a board of a farm: a script for its shell, and the facts in what that prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prologue_bench.errors import GuestLostError
from prologue_bench.host.events import tail
from prologue_bench.recorder.gate import VIRTUAL_FACTS, virtual_kind

_FACTS: Final = r"""
fact() { [ -z "$2" ] || echo "@fact $1=$2"; }
fact arch "$(uname -m)"
fact model "$(cat /proc/device-tree/model /sys/class/dmi/id/product_name 2>/dev/null | tr -d '\000')"
fact cpu "$(sed -n 's/^CPU part[^:]*: *//p' /proc/cpuinfo | sort | uniq -c | tr -s ' \n' ' ')"
fact cpus "$(grep -c ^processor /proc/cpuinfo)"
"""
SCRIPT: Final = _FACTS + VIRTUAL_FACTS


def read_shell_facts(lines: Sequence[str], where: str) -> dict[str, str]:
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
