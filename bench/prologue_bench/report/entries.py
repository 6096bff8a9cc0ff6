"""Shows what exact boots of workloads know beyond counts: density of prologues, and most entered functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prologue_bench.exact.entered import SUFFIX, entered_table, read_entered
from prologue_bench.report.layout import wrapped
from prologue_bench.results.model import ResultSet
from prologue_bench.results.store import boot_log

_TOP: Final = 12


def entries_text(directory: Path, results: ResultSet) -> str:
    """Write the base's most entered functions, as its first boot that counts left them; empty if it left none."""
    return "\n".join(_lines(directory, results))


def _lines(directory: Path, results: ResultSet) -> Iterator[str]:
    boots = results.valid(results.campaign.base)
    path = boot_log(directory, boots[0].number).with_suffix(SUFFIX) if boots else None
    if path is None or not path.exists():
        return
    for name, entered in read_entered(path).items():
        instructions, kernel, prologues = (
            boots[0].values[workload][0] for workload in (name, f"{name}, in the kernel", f"{name}, prologues")
        )
        yield ""
        yield from wrapped(
            f"{name}, {results.campaign.base}: {1000 * prologues / instructions:.2f} prologues executed in 1000 "
            f"instructions ({1000 * prologues / kernel:.2f} in 1000 of the kernel)"
        )
        yield ""
        yield from entered_table(entered, _TOP).splitlines()
    yield ""
