"""Boots that were recorded one at a time, put together: record files, and what the recorder's script printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.host.events import Event, parse_line
from prologue_bench.recorder.output import TOKEN, read_facts, read_recorded
from prologue_bench.recorder.record import Record, blank_record, decode_record, make_record
from prologue_bench.recorder.task import Task
from prologue_bench.results.append_only import split_lines, torn_note
from prologue_bench.results.counters import join_counters
from prologue_bench.results.fields import Fields, parse, read_file
from prologue_bench.results.merge import differences
from prologue_bench.results.model import LOST, Boot, Campaign, ResultSet, Variant
from prologue_bench.results.settings import require_alike, settings_of
from prologue_bench.results.store import decode_workloads

SUFFIXES: Final = (".jsonl", ".log")
_SAME_MEMORY: Final = 0.01  # what boots of one machine may differ in: it depends on where KASLR puts things


def read_records(paths: Sequence[Path]) -> ResultSet:
    """Make one result set of all records in these files; the first label that has a boot that counts is the base.

    A record is one boot. Records of one boot_id are one boot with more runs; those of them that are void are left out,
    with a note, if others count.

    Raises:
        BenchError: a file cannot be read or is damaged, or the records are not of one setup (everything that differs is
            named, with both values), or one boot has two labels, or occurs twice.

    """
    records: list[Record] = []
    notes: list[str] = []
    for path in paths:
        of_file, left_out = _read(path)
        if not of_file:
            raise BenchError(f"{path}: contains no record")
        records += of_file
        notes += left_out
    counted = [record for record in records if record.boot.void is None] or records[:1]
    first = next((record for record in counted if "host" in record.setup.machine), counted[0])
    for record in counted:
        _require_one_setup(first, record)
    require_alike((record.where, settings_of(record.boot)) for record in counted)
    _require_one_treatment(counted)
    boots, of_tries = _join_tries(records)
    labels = tuple(dict.fromkeys(boot.variant for boot in sorted(boots, key=lambda boot: boot.void is not None)))
    campaign = replace(counted[0].setup, variants=tuple(Variant(label) for label in labels), base=labels[0])
    return ResultSet(campaign=campaign, boots=boots, notes=(*notes, *of_tries))


def _join_tries(records: Sequence[Record]) -> tuple[tuple[Boot, ...], tuple[str, ...]]:
    """Join all records that share a boot_id into one boot, in the order of their first ones; with notes on the rest."""
    by_boot: dict[str, list[Record]] = {}
    for record in records:
        by_boot.setdefault(str(record.boot.boot_id), []).append(record)
    boots: list[Boot] = []
    notes: list[str] = []
    for position, tries in enumerate(by_boot.values()):
        kept = _counting_tries(tries)
        _require_one_boot(kept)
        boots.append(_joined(position, kept))
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


def _require_one_boot(tries: Sequence[Record]) -> None:
    """Check that all are of one variant, and none occurs twice."""
    first = tries[0]
    # Two that started in the same second are one, copied; void ones may fail as fast, and have nothing to add.
    seen: dict[str, str] = {}
    for record in tries:
        boot, where = record.boot, record.where
        if boot.variant != first.boot.variant:
            raise BenchError(
                f"{where}: boot {boot.boot_id} is {boot.variant!r} here and {first.boot.variant!r} in {first.where}: "
                "one boot is of one variant"
            )
        earlier = where if boot.void is not None else seen.setdefault(boot.started, where)
        if earlier != where:
            raise BenchError(f"{where}: boot {boot.boot_id}, started {boot.started}, is in {earlier} already")


def _joined(position: int, parts: Sequence[Record]) -> Boot:
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


def _require_one_setup(first: Record, other: Record) -> None:
    ours, theirs = dict(first.setup.machine), dict(other.setup.machine)
    sizes = [_kilobytes(record.setup) for record in (first, other)]
    if abs(sizes[0] - sizes[1]) <= _SAME_MEMORY * sizes[0] and "memory" in theirs:
        theirs["memory"] = ours.get("memory", "")
    if "host" not in ours.keys() & theirs.keys():  # records did not always say it
        for machine in (ours, theirs):
            machine.pop("host", None)
    setups = (replace(first.setup, machine=ours), replace(other.setup, machine=theirs))
    if unlike := list(differences(*setups)):
        raise BenchError(f"{first.where} and {other.where} are not of one setup: {'; '.join(unlike)}")


def _kilobytes(setup: Campaign) -> int:
    number = setup.machine.get("memory", "").partition(" ")[0]
    return int(number) if number.isdigit() else 0


def _require_one_treatment(records: Sequence[Record]) -> None:
    """Check that boots of one label ran one image: a label given to the wrong boot shows here."""
    seen: dict[str, tuple[str, str]] = {}
    for record in records:
        label, readback = record.boot.variant, record.boot.readback
        if readback is None:
            continue
        word = "MOV" if readback.mov else "NOP"
        first, where = seen.setdefault(label, (word, record.where))
        if first != word:
            raise BenchError(f"label {label!r}: {where} ran with {first}, {record.where} with {word}")


def _read(path: Path) -> tuple[list[Record], list[str]]:
    """Read the records of one file, of whichever kind it is, and notes on what was left out."""
    content = read_file(path)
    if content.lstrip().startswith(b"{"):
        return _read_lines(path, content)
    return list(_read_log(path, content.decode("utf-8", "replace").split("\n"))), []


def _read_lines(path: Path, content: bytes) -> tuple[list[Record], list[str]]:
    lines, torn = split_lines(content)
    records = [decode_record(parse(line, f"{path}:{k}")) for k, line in lines if line.strip()]
    return records, [torn_note(path)] if torn else []


def _read_log(path: Path, lines: Sequence[str]) -> Iterator[Record]:
    """Read the script's output, of any number of boots. A boot that failed or broke off is void, and stays."""
    begins = [
        (k, event) for k, line in enumerate(lines) if (event := parse_line(line, TOKEN)) and event.name == "begin"
    ]
    ends = [*(k for k, _ in begins), len(lines)][1:]
    for (start, event), end in zip(begins, ends, strict=False):  # an end too many if there is no boot
        yield _read_part(lines[start:end], event, f"{path}:{start + 1}")


def _read_part(lines: Sequence[str], begin: Event, where: str) -> Record:
    plan = Fields(begin.data, where).below("task")
    task = Task(workloads=decode_workloads(plan), runs=plan.integer("runs"), governor=plan.optional_text("governor"))
    try:
        return make_record(read_recorded(lines, task), task, where=where)
    except BenchError as error:
        reason = error.message.splitlines()[0].partition("; its end:")[0]
        reason = f"{LOST}{reason}" if isinstance(error, GuestLostError) else reason
        blank = blank_record(read_facts(begin.data, {}), task, "", where)
        return replace(blank, boot=replace(blank.boot, void=reason))
