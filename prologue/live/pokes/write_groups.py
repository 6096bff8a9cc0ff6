"""Groups of writes that are alike, so that each kind is judged once; and which of them were live."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from prologue.arrays import I64
from prologue.insn import a64, cmodx
from prologue.insn.cmodx import word_name
from prologue.live.pokes.recording import Flag, Maintenance, Recording, maintenance_steps
from prologue.live.pokes.writers import NameTable, TextWriter, writer_of

_ANY: Final = "instruction"
_KEY: Final = np.dtype([("chain", "<i8"), ("old", "<i4"), ("new", "<i4"), ("maintenance", "<u8"), ("many", "?"),
                        ("flags", "<u4"), ("same", "?")])  # fmt: skip
_DECIDING: Final = (
    Flag.STOPPED | Flag.UNREACHABLE | Flag.LITERAL | Flag.OLD_UNKNOWN | Flag.NOT_RETURNED | Flag.RAN_BEFORE
    | Flag.RAN_MEANWHILE | Flag.RAN_AFTER | Flag.RAN_UNSYNCED
)  # fmt: skip


class PriorRun(Enum):
    """Execution of a word by any CPU before it was written, or before its writer returned."""

    NOT_KNOWN = "not known"
    NEVER = "never executed before"
    YES = "executed"


class FirstRun(Enum):
    """The first execution of a word by other CPUs after it was written."""

    NOT_KNOWN = "not known"
    NONE = "not executed afterwards"
    SYNCED = "synchronised"  # each CPU had a context synchronization event in between
    UNSYNCED = "not synchronised"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteGroup:
    """Writes by one writer, between instructions of the same two classes, in the same circumstances.

    ``old`` and ``new`` are names of instructions, with the words of the first of the writes. ``not_live`` is the reason
    why no other CPU could be executing the word; empty if one could. ``steps`` is the maintenance, None if the recorder
    does not see it, or the recording ended before the writer returned.
    """

    writer: TextWriter
    old: str
    new: str
    old_word: int
    new_word: int
    old_known: bool
    same: bool  # the word did not change
    literal: bool
    not_live: str
    steps: tuple[Maintenance, ...] | None
    executed: PriorRun
    first_run: FirstRun
    ctr: int | None
    rows: I64  # indexes into the recording's rows, ascending

    @property
    def live(self) -> bool:
        """True if another CPU could be executing the word."""
        return not self.not_live

    @property
    def unlisted(self) -> bool:
        """True if another CPU could be executing it, and the architecture does not list this change of an instruction.

        If the old word is not known, the new one alone decides.
        """
        if not self.live or self.literal or self.same:
            return False
        old = self.old_word if self.old_known else self.new_word
        return not (cmodx.judge(old, self.new_word, "new").allowed and cmodx.listed(self.new_word, "new"))

    @property
    def transition(self) -> str:
        """Both instructions, as in ``NOP -> BL``."""
        if self.literal:
            return "data"
        return f"{self.old if self.old_known else '?'} -> {self.new}"


def group_writes(recording: Recording) -> tuple[WriteGroup, ...]:
    """Group all writes of a recording, in the order of their first writes."""
    rows = recording.rows
    if not len(rows):
        return ()
    keys = np.zeros(len(rows), _KEY)
    writers, keys["chain"] = _writers(recording)
    names: list[str] = []
    for field in ("old", "new"):
        keys[field] = _classes(rows[field], names)
    keys["maintenance"] = rows["maintenance"]
    keys["many"] = (rows["running"] & (rows["running"] - np.uint64(1))) != 0
    keys["flags"] = rows["flags"] & np.uint32(_DECIDING)
    keys["same"] = rows["old"] == rows["new"]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    members = np.split(np.argsort(inverse, kind="stable"), np.cumsum(np.bincount(inverse))[:-1])
    groups = [
        _group(recording, writers[int(keys["chain"][k])], (names[keys["old"][k]], names[keys["new"][k]]), k, member)
        for k, member in zip(first.tolist(), members, strict=True)
    ]
    return tuple(sorted(groups, key=lambda group: int(group.rows[0])))


def _group(recording: Recording, writer: TextWriter, names: tuple[str, str], first: int, rows: I64) -> WriteGroup:
    row, sees = recording.rows[first], recording.header.sees
    flags = Flag(int(row["flags"]))
    seen = "maintenance" in sees and Flag.NOT_RETURNED not in flags
    return WriteGroup(
        writer=writer,
        old=names[0],
        new=names[1],
        old_word=int(row["old"]),
        new_word=int(row["new"]),
        old_known="old" in sees and Flag.OLD_UNKNOWN not in flags,
        same=bool(row["old"] == row["new"]) and Flag.OLD_UNKNOWN not in flags,
        literal=Flag.LITERAL in flags,
        not_live=_not_live(recording, row, writer, flags),
        steps=maintenance_steps(int(row["maintenance"])) if seen else None,
        executed=_executed(recording, flags),
        first_run=_first_run(recording, flags),
        ctr=recording.trailer.ctr,
        rows=rows,
    )


def _executed(recording: Recording, flags: Flag) -> PriorRun:
    if "ran" not in recording.header.sees:
        return PriorRun.NOT_KNOWN
    if flags & (Flag.RAN_BEFORE | Flag.RAN_MEANWHILE):
        return PriorRun.YES
    return PriorRun.NOT_KNOWN if Flag.NOT_RETURNED in flags else PriorRun.NEVER


def _first_run(recording: Recording, flags: Flag) -> FirstRun:
    if "first_runs" not in recording.header.sees:
        return FirstRun.NOT_KNOWN
    if Flag.RAN_UNSYNCED in flags:
        return FirstRun.UNSYNCED
    return FirstRun.SYNCED if Flag.RAN_AFTER in flags else FirstRun.NONE


def _not_live(recording: Recording, row: np.void, writer: TextWriter, flags: Flag) -> str:
    sees, running = recording.header.sees, int(row["running"])
    if "running" in sees and running.bit_count() == 1:
        return "one CPU runs"
    if "stopped" in sees and Flag.STOPPED in flags:
        return "stop_machine"
    if "unreachable" in sees and Flag.UNREACHABLE in flags:
        return "not reachable"
    if not writer.why_unreachable or "ran" not in sees:
        return writer.why_unreachable
    # The writer's name shows it, and the CPUs have to confirm it.
    if Flag.RAN_MEANWHILE in flags:
        return ""
    return (
        f"{writer.why_unreachable}: {'not executed meanwhile' if Flag.RAN_BEFORE in flags else 'never executed before'}"
    )


def _classes(words: np.ndarray[tuple[int], np.dtype[np.uint32]], names: list[str]) -> I64:
    """Return the index in ``names`` of each word's name; append new names."""
    distinct, inverse = np.unique(words, return_inverse=True)
    numbers = np.zeros(len(distinct), np.int64)
    for k, word in enumerate(distinct.tolist()):
        name = word_name(word)
        if name == f"{word:08x}":
            name = a64.classify(word) or _ANY
        if name not in names:
            names.append(name)
        numbers[k] = names.index(name)
    index: I64 = numbers[inverse]
    return index


def _writers(recording: Recording) -> tuple[list[TextWriter], I64]:
    """Return all writers, and the index of each row's; a chain may have other names at other times."""
    rows, table = recording.rows, NameTable(recording.trailer.functions)
    others = sorted({t for f in recording.trailer.functions if f.owner for t in (f.since, f.until)})
    constant = (rows["flags"] & np.uint32(Flag.CONSTANT)) != 0
    epoch = np.searchsorted(np.array(others, np.uint64), rows["time"], side="right")
    chains = np.column_stack(
        [rows["pc"][:, None], rows["callers"], epoch.astype(np.uint64)[:, None], constant[:, None]]
    )
    distinct, first, inverse = np.unique(chains, axis=0, return_index=True, return_inverse=True)
    writers: list[TextWriter] = []
    index = np.zeros(len(distinct), np.int64)
    for k, row in enumerate(first.tolist()):
        places = (table.place(vaddr, int(rows["time"][row])) for vaddr in chain_of(rows[row]))
        writer = writer_of(places, constant=bool(constant[row]))
        if writer not in writers:
            writers.append(writer)
        index[k] = writers.index(writer)
    return writers, index[inverse.reshape(-1)]


def chain_of(row: np.void) -> list[int]:
    """Return the program counter and the callers of a write, the innermost first, as far as they are known."""
    return [vaddr for vaddr in (int(row["pc"]), *row["callers"].tolist()) if vaddr]
