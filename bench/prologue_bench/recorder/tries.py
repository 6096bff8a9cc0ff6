"""Records of one boot put together: more runs of it, or tries of which some are void."""

from __future__ import annotations

from collections.abc import Sequence
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
        by_boot.setdefault(record.boot_id, []).append(record)
    boots: list[Boot] = []
    notes: list[str] = []
    for position, tries in enumerate(by_boot.values()):
        kept = _counting_tries(tries)
        _require_one_label(kept)
        _require_distinct(kept)
        boots.append(_boot(position, kept))
        if len(kept) < len(tries):
            voids = [record for record in tries if record.void is not None]
            notes += [f"{v.where}: a try that is void ({v.void}) was left out; its boot counts" for v in voids]
    return tuple(boots), tuple(notes)


def _counting_tries(tries: list[Record]) -> list[Record]:
    """Return the tries that make up the boot: those that count, if any do.

    A try is void for what the gate saw, not for its numbers, so that leaving it out chooses nothing. But a kernel that
    was tainted in one is not the kernel that others measured: its boot is void as a whole.
    """
    if any(t.void is not None and t.gate_before.get("taint") != t.gate_after.get("taint") for t in tries):
        return tries
    return [record for record in tries if record.void is None] or tries


def _require_one_label(tries: Sequence[Record]) -> None:
    for record in tries:
        if record.label != tries[0].label:
            raise BenchError(
                f"{record.where}: boot {record.boot_id} is {record.label!r} here and {tries[0].label!r} in "
                f"{tries[0].where}: one boot is of one variant"
            )


def _require_distinct(tries: Sequence[Record]) -> None:
    # Two that started in the same second are one, copied; void ones may fail as fast, and have nothing to add.
    seen: dict[str, str] = {}
    for record in tries:
        first = record.where if record.void is not None else seen.setdefault(record.started, record.where)
        if first != record.where:
            raise BenchError(f"{record.where}: boot {record.boot_id}, started {record.started}, is in {first} already")


def _boot(position: int, parts: Sequence[Record]) -> Boot:
    first, last = parts[0], parts[-1]
    names = [workload.name for workload in first.workloads]
    values = {name: tuple(value for part in parts for value in part.values.get(name, ())) for name in names}
    return Boot(
        block=None,
        position=position,
        variant=first.label,
        number=position + 1,
        started=first.started,
        boot_id=first.boot_id,
        values=MappingProxyType({name: numbers for name, numbers in values.items() if numbers}),
        readback=first.readback,
        gate_before=first.gate_before,
        gate_after=last.gate_after,
        counters=join_counters([part.counters for part in parts]),
        void=next((part.void for part in parts if part.void is not None), None),
    )
