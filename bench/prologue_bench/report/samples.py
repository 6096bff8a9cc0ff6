"""Samples for other programs: CSV with a row for each run, and Go's benchmark format, which benchstat reads."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Final

from prologue_bench.analysis.series import series_of
from prologue_bench.errors import BenchError
from prologue_bench.results.model import ResultSet, Workload

_COLUMNS: Final = (
    "workload", "unit", "direction", "variant", "boot", "block", "position", "board", "link", "started", "run", "value",
)  # fmt: skip


def samples_csv(results: ResultSet) -> str:
    """Write a row for each run of each boot that counts; ``bench compare`` reads it again."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_rows(results))
    return stream.getvalue()


def _rows(results: ResultSet) -> Iterator[dict[str, object]]:
    labels = [variant.label for variant in results.campaign.variants]
    labels.sort(key=lambda label: label != results.campaign.base)  # readers take the first for the base
    for boot in (boot for label in labels for boot in results.valid(label)):
        for workload in results.campaign.workloads:
            for run, value in enumerate(boot.values[workload.name], 1):
                yield {
                    "workload": workload.name, "unit": workload.unit, "direction": workload.direction,
                    "variant": boot.variant, "boot": boot.number if results.boots_known else None, "block": boot.block,
                    "position": boot.position, "board": boot.board, "link": boot.link, "started": boot.started,
                    "run": run, "value": value,
                }  # fmt: skip


def to_benchstat(results: ResultSet) -> str:
    """Write a line for each boot, the median of its runs: benchstat takes lines for independent.

    Raises:
        BenchError: the evidence allows no comparison of times.

    """
    campaign = results.campaign
    if campaign.evidence != "timing":
        raise BenchError(
            f"--benchstat: {campaign.evidence} evidence has no percentages, and benchstat would print some"
        )
    units = dict.fromkeys((_unit(workload), workload.direction) for workload in campaign.workloads)
    lines = [f"Unit {unit} better={direction}" for unit, direction in units]
    for workload in campaign.workloads:
        for variant in campaign.variants:
            name = f"Benchmark{_word(workload.name).capitalize()}/variant={_word(variant.label)}"
            medians = series_of(results, workload.name, variant.label).medians.tolist()
            lines += [f"{name} 1 {value!r} {_unit(workload)}" for value in medians]
    return "\n".join(lines) + "\n"


def _unit(workload: Workload) -> str:
    return "sec/op" if workload.unit in ("s", "seconds") else "_".join(workload.unit.split())


def _word(text: str) -> str:
    """Write a name as Go's format has it: no spaces, and a slash only between names."""
    return re.sub(r"[^\w.;%+()-]+", "_", text).strip("_")
