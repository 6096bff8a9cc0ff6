"""Kernels of several links side by side: what each boot costs, in exact counts.

Times of different links are not compared: their layout alone makes a difference. Counts of the boot may be, because
they hardly depend on where the code lies. Counts of workloads depend on the scheduler's clock, and stay with one link.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prologue_bench.analysis.compare import exact_value
from prologue_bench.analysis.series import series_of
from prologue_bench.errors import BenchError
from prologue_bench.results.merge import differing
from prologue_bench.results.model import Campaign, ResultSet, Workload

_BOOT: Final = "boot"  # the command of what is counted of a boot, not of a workload


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel: counts by the name of the measure, in the order of ``Links.measures``."""

    label: str
    variant: str
    build_id: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Every variant of every link; the first row is the base of differences."""

    release: str
    layout: str
    machine: Mapping[str, str]
    measures: tuple[Workload, ...]
    rows: tuple[Row, ...]


def compare_links(sets: Sequence[tuple[str, ResultSet]]) -> Links:
    """Put result sets of several links side by side, each given with its label.

    The base of each set is labelled as the set, other variants with their own label after it.

    Raises:
        BenchError: there is only one set, or a label twice; evidence is not exact; machines, kernel releases, layouts
            or what was counted of the boot are not the same.

    """
    if len(sets) < 2:
        raise BenchError("--kernels compares several: name two result sets or more, as LABEL=DIRECTORY")
    labels = [label for label, _ in sets]
    for label in labels:
        if labels.count(label) > 1:
            raise BenchError(f"--kernels: two result sets are called {label!r}; name them as LABEL=DIRECTORY")
    for label, results in sets:
        if results.campaign.evidence != "exact":
            raise BenchError(
                f"{label}: {results.campaign.evidence} evidence: only exact counts are compared between links, "
                "because layout alone changes times (bench run --target icount)"
            )
        if results.links:
            raise BenchError(f"{label}: is of {len(results.links)} links: name the result set of each, such as link-01")
    (first_label, first), *others = ((label, results.campaign) for label, results in sets)
    for label, campaign in others:
        if differences := list(_differences(first, campaign)):
            raise BenchError(f"{first_label} and {label} cannot be compared: {'; '.join(differences)}")
    measures = _measures(first)
    if not measures:
        raise BenchError(f"{first_label}: nothing of the boot was counted")
    rows = tuple(row for label, results in sets for row in _rows(label, results, measures))
    kernel = first.kernel
    return Links(
        release=kernel.get("release", "?"), layout=kernel.get("layout", "?"), machine=first.machine,
        measures=measures, rows=rows,
    )  # fmt: skip


def _measures(campaign: Campaign) -> tuple[Workload, ...]:
    return tuple(workload for workload in campaign.workloads if workload.command == _BOOT)


def _differences(first: Campaign, second: Campaign) -> list[str]:
    differences = [*differing("machine ", first.machine, second.machine)]
    a, b = (
        {name: text for name, text in campaign.kernel.items() if name != "build_id"} for campaign in (first, second)
    )  # fmt: skip
    differences += differing("kernel ", a, b)
    a, b = ({measure.name: measure.unit for measure in _measures(campaign)} for campaign in (first, second))
    return [*differences, *differing("measure ", a, b)]


def _rows(label: str, results: ResultSet, measures: Sequence[Workload]) -> list[Row]:
    campaign = results.campaign
    variants = sorted((variant.label for variant in campaign.variants), key=lambda name: name != campaign.base)
    rows = []
    for variant in variants:
        series = {measure.name: series_of(results, measure.name, variant) for measure in measures}
        if not all(row_series.boots for row_series in series.values()):
            raise BenchError(f"{label}: no valid boot of {variant!r}")
        counts = {measure.name: exact_value(series[measure.name], measure) for measure in measures}
        name = label if variant == campaign.base else f"{label} {variant}"
        rows.append(Row(name, variant, campaign.kernel.get("build_id", "?"), counts))
    return rows
