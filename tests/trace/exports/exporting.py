"""Exports of the made kernel's traces, and what ``trace stats`` says of the same trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from prologue.cli.main import main
from tests.support.cs_recording import ROUND
from tests.support.tool import Tool
from tests.trace.made import KERNEL, perf_text, recording
from tests.trace.test_check import STEPS

IRQ = ("vectors+0x280", 2)


class Traced(NamedTuple):
    """A trace and its kernel."""

    trace: Path
    vmlinux: Path

    def stats(self, tool: Tool, *options: object) -> dict[str, Any]:
        """Instructions and entries of each function, and of what is no kernel's."""
        data: dict[str, Any] = tool("trace", "stats", self.trace, "--vmlinux", self.vmlinux, "--json", *options).json
        return data

    def export(self, format_: str, *options: object) -> Path:
        """The file of a format."""
        out = self.trace.with_name(f"out.{format_}")
        where = [str(self.trace), "--vmlinux", str(self.vmlinux), "-o", str(out)]
        assert main(["trace", "export", *where, "--format", format_, *map(str, options)]) == 0
        return out


def function_counts(stats: dict[str, Any]) -> Counter[str]:
    """Instructions by function, those of other code as what stacks name it."""
    functions = [one for image in stats["images"] for one in image["functions"]]
    counts = Counter({one["name"]: one["instructions"] for one in functions})
    rest = stats["instructions"] - counts.total()
    return counts + Counter({"[user]": rest})


def two_cpus(*, timed: bool) -> bytes:
    """Two tasks on two CPUs that call vfs_read; an interrupt in between, and a loss on CPU 1."""
    rows: list[dict[str, int]] = []
    for k in range(40):
        cpu, task = k % 2, 70 + k // 2 % 3
        spans = [*ROUND[:3], (KERNEL.at(IRQ[0]), IRQ[1]), *ROUND[3:]]
        rows += [
            {"start": start, "count": count, "cpu": cpu, "task": task, "level": 1,
             "time": 5_000_000_000 + 1000 * k + 10 * n if timed else 0}
            for n, (start, count) in enumerate(spans)
        ]  # fmt: skip
        if k == 21:
            rows.append({"cpu": cpu, "flags": 17})
    return recording(rows)


TRACES = {
    "perf's text": perf_text(STEPS * 3).encode(),
    "a recording": two_cpus(timed=True),
    "a recording without times": two_cpus(timed=False),
}


@pytest.fixture(params=TRACES)
def traced(request: pytest.FixtureRequest, tmp_path: Path) -> Traced:
    trace = tmp_path / "trace"
    trace.write_bytes(TRACES[request.param])
    return Traced(trace, KERNEL.write(tmp_path / "vmlinux"))


def function_at(vaddr: int) -> str:
    """The made kernel's function at an address."""
    return max((place, name) for name, place in KERNEL.places.items() if place <= vaddr)[1]


def by_function(runs: Iterable[tuple[int, int, int]]) -> Counter[str]:
    """Instructions of each function in runs: first instruction, last one, and how often."""
    counts: Counter[str] = Counter()
    for first, last, count in runs:
        for vaddr in range(first, last + 4, 4):
            counts[function_at(vaddr)] += count
    return counts
