"""The samples of one workload by variant, in the shape that statistics want."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prologue_bench.analysis.stats import Floats, median_error
from prologue_bench.errors import BenchError
from prologue_bench.results.model import Boot, ResultSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """All valid samples of one variant; ``medians`` has one value for each boot, in the order of ``boots``.

    If boots are not known, each run stands for itself: ``medians`` are the runs.
    """

    label: str
    boots: tuple[Boot, ...]
    runs: tuple[Floats, ...]  # of each boot
    medians: Floats
    boots_known: bool

    @property
    def pooled(self) -> Floats:
        """Every run of every boot."""
        return np.concatenate(self.runs) if self.runs else np.empty(0)

    @property
    def median(self) -> float:
        """Median of the boots' medians."""
        return float(np.median(self.medians))

    @property
    def error(self) -> float:
        """Standard error of the median; for rounding."""
        return median_error(self.medians)

    @property
    def in_blocks(self) -> bool:
        """True if every boot belongs to a block."""
        return self.boots_known and all(boot.block is not None for boot in self.boots)


def series_of(results: ResultSet, workload: str, variant: str) -> Series:
    """Collect the valid samples of a variant."""
    boots = results.valid(variant)
    runs = tuple(np.array(boot.values[workload]) for boot in boots)
    units = [np.median(values) for values in runs] if results.boots_known else np.concatenate(runs)
    return Series(
        label=variant,
        boots=boots,
        runs=runs,
        medians=np.asarray(units, dtype=np.float64),
        boots_known=results.boots_known,
    )


def log_medians(series: Series, workload: str) -> Floats:
    """Return the logarithms of the boots' medians.

    Raises:
        BenchError: one of them is 0, of which there is no ratio.

    """
    if not np.all(series.medians > 0):
        raise BenchError(f"{workload}: {series.label}: a median of 0 has no ratio")
    return np.log(series.medians)


def paired_differences(base: Series, other: Series, workload: str) -> dict[str | None, Floats]:
    """Return the differences of log medians for each block that has both, by board, in the order of blocks.

    Several boots of one variant in a block are averaged. All boots of a block are of one board.
    """
    ours, theirs = _by_block(other, workload), _by_block(base, workload)
    boards = {boot.block or 0: boot.board for boot in other.boots}
    by_board: dict[str | None, list[float]] = {}
    for block in sorted(ours.keys() & theirs.keys()):
        by_board.setdefault(boards[block], []).append(ours[block] - theirs[block])
    return {board: np.array(values) for board, values in by_board.items()}


def by_link(series: Series) -> dict[str, Series]:
    """Split a series of several links; one of a single link stays whole, under the name ``""``."""
    if all(boot.link is None for boot in series.boots):
        return {"": series}
    parts: dict[str, list[int]] = {}
    for k, boot in enumerate(series.boots):
        parts.setdefault(boot.link or "", []).append(k)
    return {
        link: replace(
            series,
            boots=tuple(series.boots[k] for k in rows),
            runs=tuple(series.runs[k] for k in rows),
            medians=series.medians[rows],
        )
        for link, rows in parts.items()
    }


def _by_block(series: Series, workload: str) -> dict[int, float]:
    blocks: dict[int, list[float]] = {}
    for boot, value in zip(series.boots, log_medians(series, workload).tolist(), strict=True):
        blocks.setdefault(boot.block or 0, []).append(value)
    return {block: sum(values) / len(values) for block, values in blocks.items()}
