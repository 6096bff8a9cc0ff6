"""Samples that other programs took, put together as a result set: what is known of boots is what their files say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

from prologue_bench.errors import BenchError
from prologue_bench.results.fields import SAMPLE, is_sample
from prologue_bench.results.model import NOTHING, Boot, Campaign, Direction, Evidence, ResultSet, Variant, Workload

BY_HAND: Final = "docs/json.md has a table to write by hand, in ten lines to copy (prologue.bench-samples/1)"
_LESS_IS_BETTER: Final = ("s", "sec", "seconds", "ms", "us", "ns", "sec/op", "ns/op", "B/op", "allocs/op", "bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Runs of one workload in one boot of a variant; ``boot`` and ``block`` are None if the file does not say them."""

    variant: str
    workload: str
    unit: str
    values: tuple[float, ...]
    direction: str = ""  # empty: that of the unit
    boot: str | None = None
    block: str | None = None
    started: str = ""


def require_samples(values: Sequence[float], where: str) -> tuple[float, ...]:
    """Return samples that the analysis can take.

    Raises:
        BenchError: there are none, or one is none.

    """
    if not values:
        raise BenchError(f"{where}: no samples")
    for value in values:
        if not is_sample(value):
            raise BenchError(f"{where}: expected {SAMPLE}, found {value}")
    return tuple(values)


def direction_of(unit: str, named: str, where: str) -> Direction:
    """Return which numbers are better: what the file says, or what the unit means.

    Raises:
        BenchError: neither is known.

    """
    direction = named or ("lower" if unit in _LESS_IS_BETTER else "higher" if unit.endswith("/s") else "")
    if direction not in ("lower", "higher"):
        raise BenchError(f"{where}: unit {unit!r}: is less or more of it better? {BY_HAND}, with a direction")
    return cast("Direction", direction)


def to_result_set(
    measured: Sequence[Measured],
    where: str,
    *,
    base: str = "",
    evidence: Evidence = "timing",
) -> ResultSet:
    """Make a result set; its base is the first variant, if none is named.

    Raises:
        BenchError: there is one variant only, or variants or boots do not have the same workloads.

    """
    labels = tuple(dict.fromkeys(part.variant for part in measured))
    if len(labels) < 2:
        raise BenchError(f"{where}: one variant only ({labels[0]}): name the file of another too, as in base=A build=B")
    units = {part.workload: (part.unit, part.direction) for part in measured}
    for part in measured:
        if units[part.workload] != (part.unit, part.direction):
            raise BenchError(f"{where}: {part.workload}: units {units[part.workload][0]} and {part.unit}")
    campaign = Campaign(
        evidence=evidence,
        machine=NOTHING,
        kernel=NOTHING,
        workloads=tuple(
            Workload(name, name, unit, direction_of(unit, named, where)) for name, (unit, named) in units.items()
        ),
        variants=tuple(map(Variant, labels)),
        base=base or labels[0],
    )
    known = all(part.boot is not None for part in measured)
    boots = tuple(_boots(measured, known=known))
    for boot in boots:
        if absent := [name for name in units if name not in boot.values]:
            raise BenchError(f"{where}: {boot.variant}: no samples of {absent[0]}{' in every boot' * known}")
    return ResultSet(campaign=campaign, boots=boots, boots_known=known)


def _boots(measured: Sequence[Measured], *, known: bool) -> Iterator[Boot]:
    """Make a boot of all runs that share one; of each variant if boots are not known."""
    parts: dict[tuple[str, str | None], list[Measured]] = {}
    for part in measured:
        parts.setdefault((part.variant, part.boot if known else None), []).append(part)
    blocks = {
        name: k for k, name in enumerate(dict.fromkeys(part.block for part in measured if part.block is not None))
    }
    for number, ((variant, _), group) in enumerate(parts.items()):
        values: dict[str, tuple[float, ...]] = {}
        for part in group:
            values[part.workload] = values.get(part.workload, ()) + part.values
        block = None if group[0].block is None else blocks[group[0].block]
        yield Boot(
            block=block if known else None, position=number, variant=variant, number=number,
            started=group[0].started, values=MappingProxyType(values),
        )  # fmt: skip
