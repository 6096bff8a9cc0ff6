"""Defaults of several commands, if no option says otherwise."""

from __future__ import annotations

from typing import Final

from prologue_bench.guest.vm import Machine

MACHINE: Final = Machine()
MOST_CPUS: Final = 64  # of recordings: MAX_CPUS in exact/plugin/
TIMEOUT: Final = 600  # seconds
RUNS: Final = 3  # of each workload in a boot
