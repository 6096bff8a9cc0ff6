"""Records of one boot put together: more runs of it, or tries of which some are void."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from prologue_bench.errors import BenchError
from prologue_bench.recorder.record import Record
from prologue_bench.results.counters import join_counters
from prologue_bench.results.model import Boot


def join_tries(records: Sequence[Record]) -> tuple[tuple[Boot, ...], tuple[str, ...]]:
    """Join all records that share a boot_id into one boot, in the order of their first ones; with notes on the rest.

    Raises:
        BenchError: one boot has two labels, or the same record occurs twice.

    """
    by_boot: dict[str, list[Record]] = {}
    for record in records:
        by_boot.setdefault(str(record.boot.boot_id), []).append(record)
    boots: list[Boot] = []
    notes: list[str] = []
    for position, tries in enumerate(by_boot.values()):
        kept = _counting_tries(tries)
        _require_one_label(kept)
        _require_distinct(kept)
        boots.append(_boot(position, kept))
        if len(kept) < len(tries):
            voids = [record for record in tries if record.boot.void is not None]
            notes += [f"{v.where}: a try that is void ({v.boot.void}) was left out; its boot counts" for v in voids]
    return tuple(boots), tuple(notes)


def _counting_tries(tries: list[Record]) -> list[Record]:
    """Return the tries that make up the boot: those that count, if any do.

    A try is void for what the gate saw, not for its numbers, so that leaving it out chooses nothing. But a kernel that
    was tainted in one is not the kernel that others measured: its boot is void as a whole.
    """
    boots = [record.boot for record in tries]
    if any(b.void is not None and b.gate_before.get("taint") != b.gate_after.get("taint") for b in boots):
        return tries
    return [record for record in tries if record.boot.void is None] or tries


def _require_one_label(tries: Sequence[Record]) -> None:
    first = tries[0]
    for record in tries:
        if record.boot.variant != first.boot.variant:
            raise BenchError(
                f"{record.where}: boot {record.boot.boot_id} is {record.boot.variant!r} here and "
                f"{first.boot.variant!r} in {first.where}: one boot is of one variant"
            )


def _require_distinct(tries: Sequence[Record]) -> None:
    # Two that started in the same second are one, copied; void ones may fail as fast, and have nothing to add.
    seen: dict[str, str] = {}
    for record in tries:
        boot, where = record.boot, record.where
        first = where if boot.void is not None else seen.setdefault(boot.started, where)
        if first != where:
            raise BenchError(f"{where}: boot {boot.boot_id}, started {boot.started}, is in {first} already")


def _boot(position: int, parts: Sequence[Record]) -> Boot:
    boots = [part.boot for part in parts]
    names = [workload.name for workload in parts[0].setup.workloads]
    values = {name: tuple(value for boot in boots for value in boot.values.get(name, ())) for name in names}
    return replace(
        boots[0],
        position=position,
        number=position + 1,
        values=MappingProxyType({name: numbers for name, numbers in values.items() if numbers}),
        gate_after=boots[-1].gate_after,
        counters=join_counters([boot.counters for boot in boots]),
        void=next((boot.void for boot in boots if boot.void is not None), None),
    )
