"""Boots that were recorded by themselves: a line for each in a record file, never changed again (docs/json.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

from prologue.words import counted
from prologue_bench.errors import BenchError
from prologue_bench.recorder.gate import evidence, void_reason
from prologue_bench.recorder.output import Recorded
from prologue_bench.recorder.task import Task
from prologue_bench.results.append_only import append, cut_torn_tail, lock
from prologue_bench.results.fields import Fields
from prologue_bench.results.model import NOTHING, Boot, Campaign, Readback, Workload
from prologue_bench.results.store import decode_measured, decode_workloads, encode_measured

SCHEMA: Final = "prologue.bench-record/1"
_HEAD: Final = f'{{"schema": "{SCHEMA}"'.encode()  # of every line that we write
_Facts = Mapping[str, str]
_OF_THE_BOOT: Final = ("label", "release", "boot_id", "build_id", "started", "clock")  # facts, but not of the machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A boot, or a part of its runs, as its user labelled it; ``setup`` has no variants, in which records differ."""

    setup: Campaign
    boot: Boot
    where: str = ""  # FILE:LINE


def make_record(recorded: Recorded, task: Task, label: str = "", where: str = "") -> Record:
    """Judge what a machine said; ``label`` is stronger than the one in it.

    Raises:
        BenchError: it has no label, or no boot_id.

    """
    void = _mixture(recorded.readback) or void_reason(recorded.gate_before, recorded.gate_after)
    blank = blank_record(recorded.machine, task, label, where)
    return replace(blank, boot=replace(recorded.added_to(blank.boot), void=void))


def blank_record(facts: _Facts, task: Task, label: str, where: str) -> Record:
    """Make a record of which nothing is known but the machine and the task.

    Raises:
        BenchError: it has no label, or no boot_id.

    """
    for name in ("boot_id", "started", "release"):
        if name not in facts:
            raise BenchError(f"{where or 'this machine'}: does not report its {name}")
    chosen = label or facts.get("label", "")
    if not chosen:
        raise BenchError(f"{where}: no label: which variant was this? (LABEL=... sh SCRIPT)")
    machine = {name: text for name, text in facts.items() if name not in _OF_THE_BOOT}
    kernel = {name: facts[name] for name in ("release", "build_id") if name in facts}
    boot = _boot(chosen, facts["boot_id"], facts["started"])
    return Record(setup=_setup(machine, kernel, task.workloads, task.runs), boot=boot, where=where)


def _setup(machine: _Facts, kernel: _Facts, workloads: tuple[Workload, ...], runs: int) -> Campaign:
    return Campaign(
        evidence=evidence(machine), machine=machine, kernel=kernel, workloads=workloads, variants=(), base="",
        runs_per_boot=runs,
    )  # fmt: skip


def _boot(label: str, boot_id: str, started: str) -> Boot:
    return Boot(block=None, position=0, variant=label, number=1, started=started, values=NOTHING, boot_id=boot_id)


def _mixture(seen: Readback | None) -> str | None:
    if seen is None or (seen.sites and seen.sites in (seen.mov, seen.nop)):
        return None
    return f"read-back: {seen.mov} MOV and {seen.nop} NOP in {counted(seen.sites, 'site')}"


def encode_record(record: Record) -> str:
    """Encode one line of a record file, with its end."""
    setup, boot = record.setup, record.boot
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "label": boot.variant,
        "boot_id": boot.boot_id,
        "machine": dict(setup.machine),
        "kernel": dict(setup.kernel),
        "workloads": list(map(asdict, setup.workloads)),
        "runs": setup.runs_per_boot,
    }
    return json.dumps(data | encode_measured(boot)) + "\n"


def decode_record(fields: Fields) -> Record:
    """Make a record of one line.

    Raises:
        BenchError: a field is absent or wrong.

    """
    fields.schema(SCHEMA)
    workloads = decode_workloads(fields)
    setup = _setup(fields.table("machine"), fields.table("kernel"), workloads, fields.integer("runs"))
    blank = _boot(fields.text("label"), fields.text("boot_id"), "")
    return Record(setup=setup, boot=decode_measured(fields, blank, workloads), where=fields.where)


@contextmanager
def appending(path: Path) -> Iterator[Callable[[Record], None]]:
    """Open a record file before the work, so that it cannot fail after it; give what appends a record to the disk.

    A last line that a killed writer left torn is cut off first. A file that we made and wrote nothing to is removed.

    Raises:
        BenchError: it cannot be written, is no record file, or another process records there.

    """
    try:
        with path.open("ab+") as stream:
            lock(stream, path)
            _require_records(stream, path)
            cut_torn_tail(stream)
            try:
                yield lambda record: append(stream, encode_record(record))
            finally:
                if not os.fstat(stream.fileno()).st_size:
                    with suppress(OSError):
                        path.unlink()
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from error


def _require_records(stream: IO[bytes], path: Path) -> None:
    """Refuse the file of another program: it keeps its last line, and readers find every record."""
    stream.seek(0)
    head = stream.read(len(_HEAD))
    if not _HEAD.startswith(head):
        raise BenchError(
            f"{path}: exists and is not a record file: name another (a board's script prints to a file of its own)"
        )
