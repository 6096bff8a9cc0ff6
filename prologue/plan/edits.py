"""Edits as data: every edit has its place, its old value, its new value and its reason.

Edits of one kind are arrays, because a kernel has some 44,000 sites. Stages are ordered, because a kill between any
two writes must leave a file whose state can be recognised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import numpy as np

from prologue.arrays import I64, U64
from prologue.errors import InputError
from prologue.kernel.marker import BUILT, Marker

Kind = Literal["site", "record", "relocation", "init", "marker"]
SCHEMA: Final = "prologue.plan/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """A stage: edits of one kind, every array of shape (n,).

    ``width`` is 4 (an instruction) or 8 (an address or the marker's words); values are little-endian in the file.
    """

    kind: Kind
    width: Literal[4, 8]
    reason: str
    vaddrs: U64
    offsets: I64  # in the file
    old: U64
    new: U64

    def __len__(self) -> int:
        return len(self.vaddrs)

    def inverse(self) -> Edits:
        """Swap old and new."""
        return replace(self, old=self.new, new=self.old)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchPlan:
    """All edits that bring an unprocessed file to ``goal``, in the order in which they must be written.

    The plan is the same if an interrupted run has already written a part of it.

    ``guard`` is a third value of the last stage's only word, for plans that cannot be read off a half-written file: a
    run that writes in place keeps a journal, writes the guard first, and the word's new value last.
    """

    contract: str
    build_id: str
    file_size: int
    goal: Literal["processed", "untouched", "variant"]
    stages: tuple[Edits, ...]
    guard: int | None = None

    def __len__(self) -> int:
        return sum(len(stage) for stage in self.stages)

    def count(self, kind: Kind) -> int:
        """Count the edits of that kind."""
        return sum(len(stage) for stage in self.stages if stage.kind == kind)

    def changed_words(self, kind: Kind | None = None) -> dict[int, int]:
        """Return the new value of every 4-byte word that changes, by file offset; of one kind of edits, or of all."""
        words: dict[int, int] = {}
        for stage in (stage for stage in self.stages if kind in (None, stage.kind)):
            for part in range(0, stage.width, 4):
                old, new = (values >> np.uint64(8 * part) & np.uint64(0xFFFFFFFF) for values in (stage.old, stage.new))
                changed = old != new
                words.update(zip((stage.offsets[changed] + part).tolist(), new[changed].tolist(), strict=True))
        return words

    def inverse(self) -> PatchPlan:
        """Make the plan that undoes this one, last stage first; a guarded word stays last."""
        goal: Literal["processed", "untouched"] = "untouched" if self.goal == "processed" else "processed"
        guarded = len(self.stages) - (self.guard is not None)
        order = (*reversed(self.stages[:guarded]), *self.stages[guarded:])
        return replace(self, goal=goal, stages=tuple(stage.inverse() for stage in order))


def edits_at(
    kind: Kind, reason: str, places: tuple[U64, I64], words: tuple[U64, U64], *, width: Literal[4, 8] = 8
) -> Edits:
    """Make a stage; ``places`` are (vaddrs, file offsets), ``words`` are (old, new)."""
    (vaddrs, offsets), (old, new) = places, words
    return Edits(kind=kind, width=width, reason=reason, vaddrs=vaddrs, offsets=offsets, old=old, new=new)


def edit(kind: Kind, width: Literal[4, 8], reason: str, place: tuple[int, int], words: tuple[int, int]) -> Edits:
    """Make a stage of one edit; ``place`` is (vaddr, file offset), ``words`` is (old, new)."""
    vaddrs, old, new = (np.array([value], np.uint64) for value in (place[0], *words))
    return edits_at(kind, reason, (vaddrs, np.array([place[1]], np.int64)), (old, new), width=width)


def marker_word(marker: Marker, at: int, reason: str, new: int) -> Edits:
    """Make a stage that sets one word of the marker, ``at`` bytes from its start; as linked the word is 0."""
    return edit("marker", 8, reason, (marker.vaddr + at, marker.offset + at), (0, new))


def marker_flag(marker: Marker) -> Edits:
    """Make the last stage: with the flag set, the kernel trusts the rest."""
    states = marker.state_word(0), marker.state_word(BUILT)
    return edit("marker", 8, "processed", (marker.vaddr + 8, marker.offset + 8), states)


def to_json(plan: PatchPlan) -> dict[str, Any]:
    """Return the plan as plain data; 64-bit values as hex text, because JSON readers round large numbers."""
    return {
        "schema": SCHEMA,
        "contract": plan.contract,
        "build_id": plan.build_id,
        "file_size": plan.file_size,
        "goal": plan.goal,
        **({} if plan.guard is None else {"guard": hex(plan.guard)}),
        "stages": [
            {
                "kind": stage.kind,
                "width": stage.width,
                "reason": stage.reason,
                "edits": [
                    [hex(vaddr), offset, hex(old), hex(new)]
                    for vaddr, offset, old, new in zip(
                        *(column.tolist() for column in (stage.vaddrs, stage.offsets, stage.old, stage.new)),
                        strict=True,
                    )
                ],
            }
            for stage in plan.stages
        ],
    }


def from_json(data: Any, path: object) -> PatchPlan:
    """Make a plan from what ``to_json`` returned.

    Raises:
        InputError: not a plan, or one of another schema.

    """
    try:
        if data["schema"] != SCHEMA:
            raise InputError(f"schema {data['schema']!r}, expected {SCHEMA!r}", path=path)
        stages = []
        for stage in data["stages"]:
            rows = stage["edits"]
            if stage["kind"] not in get_args(Kind) or stage["width"] not in (4, 8):
                raise ValueError(f"an edit is 4 or 8 bytes wide, and of a {', '.join(get_args(Kind))}")
            if any(len(row) != 4 or type(row[1]) is not int for row in rows):
                raise ValueError("an edit is address, file offset, old and new")
            columns = [[row[k] if k == 1 else int(row[k], 16) for row in rows] for k in range(4)]
            vaddrs, old, new = (np.array(columns[k], np.uint64) for k in (0, 2, 3))
            places = vaddrs, np.array(columns[1], np.int64)
            stages.append(edits_at(stage["kind"], stage["reason"], places, (old, new), width=stage["width"]))
        return PatchPlan(
            contract=data["contract"],
            build_id=data["build_id"],
            file_size=data["file_size"],
            goal=data["goal"],
            stages=tuple(stages),
            guard=int(data["guard"], 16) if "guard" in data else None,
        )
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise InputError(f"not a plan that prologue saved ({error})", path=path) from error
