"""Reads a written file again, and says whether it is what the plan promised.

Nothing that the writer had in its hands is believed: every word that the plan names, every site's pair, every record
and the marker are read from the file, through a descriptor of their own. Which words these must be is taken from what
the goal means, and not only from the plan. What is not read again is what no plan writes: headers, symbols and the
tables that say where the records are; deriving them once more took longer than all of the writing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from prologue.arrays import I64, U64
from prologue.elf.files import open_regular
from prologue.elf.image import ElfImage
from prologue.errors import InputError, InternalError
from prologue.insn import a64
from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import open_binary
from prologue.kernel.marker import BUILT, Marker
from prologue.kernel.module import Module
from prologue.kernel.offset_table import BASE, relocations_of_table
from prologue.kernel.records import Records
from prologue.kernel.sites import Sites
from prologue.patching.words import read_words
from prologue.rules.engine import ApprovedPlan
from prologue.signals import held_signals

Goal = Literal["processed", "untouched"]


class _Promise(NamedTuple):
    """Words that must be in the file; arrays of shape (n,)."""

    what: str
    width: int
    offsets: I64
    words: U64


def checker(approved: ApprovedPlan, *, independent: bool) -> Callable[[Path], None]:
    """Make what checks the written file, and has LIEF read it, too, if asked.

    To be called before anything is written: in place, the file that the plan was made from is the one that changes.

    Returns:
        A function of the file's path; it raises ``InternalError`` if a word, a record or a site is not what it must
        be, or if the two readers disagree.

    """
    binary, plan = approved.binary, approved.plan
    # Variants leave sites and records alone.
    goal: Goal = "processed" if plan.goal == "processed" else "untouched"
    if isinstance(binary, Module) and (binary.compression or binary.stripped):
        # Its words are elsewhere in the file now, if they are there as such at all.
        return partial(_read_whole, before=binary, goal=goal, independent=independent)
    promises = tuple(_promises(approved, goal))
    unrelocated = isinstance(binary, Kernel) and binary.marker is not None and binary.marker.offsets

    def check(path: Path) -> None:
        _require_kept(promises, path, plan.file_size)
        if unrelocated and goal == "processed":
            assert isinstance(binary, Kernel)  # noqa: S101 - ``unrelocated`` says so
            _require_unrelocated(binary, path)
        if independent:
            _read_whole(path, before=binary, goal=goal, independent=True)

    return check


def require_agreement(binary: Binary) -> None:
    """Have LIEF read the file before it is written, and refuse it if the two readers see different files.

    Raises:
        InputError: they do; the file is damaged, or one of them has a bug, so what writing would do is not known.

    """
    if binary.state not in ("processed", "untouched"):
        return  # begun: LIEF knows where both ends are, and not what lies between
    try:
        _compare(binary, processed=binary.state == "processed")
    except InternalError as error:
        raise InputError(
            f"LIEF and prologue read this file differently ({error.message}): it is damaged, or one of two ELF "
            "readers is wrong; nothing was written",
            path=binary.path,
        ) from error


def _require_kept(promises: tuple[_Promise, ...], path: Path, expected: int) -> None:
    with open_regular(path) as (fd, size):
        if size != expected:
            raise InternalError(f"has {size} bytes, expected {expected}", path=path)
        for promise in promises:
            if not np.array_equal(read_words(fd, promise.offsets, promise.width), promise.words):
                raise InternalError(f"what was written does not read back ({promise.what})", path=path)


def _promises(approved: ApprovedPlan, goal: Goal) -> Iterator[_Promise]:
    binary, sites = approved.binary, approved.binary.sites
    stages = approved.plan.stages
    if sites is not None:
        first = a64.MOV_X9_X30 if goal == "processed" else a64.NOP
        places = binary.image.offsets(sites.first)
        yield _Promise("a site's two slots", 8, places, np.full(len(sites), first | a64.NOP << 32, np.uint64))
        # Both slots hold what this stage writes: no need to read it twice.
        stages = tuple(s for s in stages if not (np.array_equal(s.offsets, places) and (s.new == first).all()))
    for stage in stages:
        yield _Promise(stage.reason, stage.width, stage.offsets, stage.new)
    if isinstance(binary, Kernel):
        yield from _promises_of_kernel(binary, goal)


def _promises_of_kernel(kernel: Kernel, goal: Goal) -> Iterator[_Promise]:
    """Yield records and the data that boot code goes by; a module's records are relocations, which no plan touches."""
    sites, records, marker = kernel.sites, kernel.records, kernel.marker
    if sites is None or records is None:
        return
    if marker is not None:
        flags, count = (BUILT, len(sites)) if goal == "processed" else (0, 0)
        places = np.array([marker.offset + 8, marker.offset + 16], np.int64)
        yield _Promise("the marker", 8, places, np.array([marker.state_word(flags), count], np.uint64))
        if marker.version > 1:
            yield from _promises_of_table(kernel, marker, sites, records) if goal == "processed" else ()
            return
    values = records.values.copy()
    values[sites.record] = sites.second if marker and goal == "processed" else sites.unmoved_values()
    yield _Promise("a record", 8, records.homes, values)
    if marker is None and goal == "processed":
        edits = kernel.init_stub.edits
        places = kernel.image.offsets(np.array([edit.vaddr for edit in edits], np.uint64))
        yield _Promise("ftrace_init_nop", 4, places, np.array([edit.new for edit in edits], np.uint64))


def _promises_of_table(kernel: Kernel, marker: Marker, sites: Sites, records: Records) -> Iterator[_Promise]:
    """Yield second slots, ascending, as version 2 of the marker has them, and nothing else that could be one."""
    second, bounds = np.sort(sites.second), kernel.bounds
    assert bounds is not None  # noqa: S101 - there are records
    slots = (bounds.stop - bounds.start) // 8
    words = np.zeros(slots, np.uint64)
    if marker.offsets:
        words[: len(second)] = second - np.uint64(kernel.symbols.require(BASE).vaddr)
        yield _Promise("a record", 4, bounds.file_offset + np.arange(slots, dtype=np.int64) * 4, words)
    else:
        words[: len(second)] = second
        yield _Promise("a record", 8, records.homes, words)


def _require_unrelocated(kernel: Kernel, path: Path) -> None:
    """Check that nothing relocates the offsets of a processed kernel."""
    bounds = kernel.bounds
    assert bounds is not None  # noqa: S101 - there are records
    left = relocations_of_table(ElfImage(path), bounds)
    if len(left):
        raise InternalError(f"what was written does not read back (a relocation of {int(left[0]):#x})", path=path)


def _read_whole(path: Path, *, before: Binary, goal: Goal, independent: bool) -> None:
    """Open the file as if we had never seen it, and compare with LIEF if asked.

    A copy on which the readers disagree is a bug in prologue only if they agreed on what it was made from.
    """
    after = open_binary(path)
    if after.state != goal:
        raise InternalError(f"the result reads as {after.state}, not as {goal}", path=path)
    if not independent:
        return
    try:
        _compare(after, processed=goal == "processed")
    except InternalError:
        if before.path != path:
            require_agreement(before)
        raise


def _compare(after: Binary, *, processed: bool) -> None:
    sites, records = after.sites, after.records
    if sites is None or records is None:
        raise InternalError("the result has no records", path=after.path)
    with held_signals():  # LIEF's bindings abort the process if a handler raises while they load
        import lief  # noqa: F401
    if isinstance(after, Kernel):
        from prologue.patching.reread.vmlinux import reread

        seen = reread(after.path, processed=processed, moved=processed and after.marker is not None)
        _require_same("records", seen.records, records.values, after.path)
        first = seen.first_slots
    else:
        from prologue.patching.reread.module import reread_module

        starts = {section.index: section.addr for section in after.image.text_sections}
        places = reread_module(bytes(after.image.content), after.path, processed=processed)
        if others := {index for index, _ in places} - starts.keys():
            raise InternalError(f"LIEF reads sites in section {min(others)}, which has no text", path=after.path)
        first = tuple(starts[index] + offset for index, offset in places)
    _require_same("sites", first, sites.first, after.path)


def _require_same(noun: str, theirs: Sequence[int], ours: U64, path: Path) -> None:
    rows = zip(theirs, ours.tolist(), strict=False)
    differing = next((k for k, (their, our) in enumerate(rows) if their != our), min(len(theirs), len(ours)))
    if differing == len(theirs) == len(ours):
        return
    first = [f"{at[differing]:#x}" if differing < len(at) else "none" for at in (theirs, ours.tolist())]
    raise InternalError(
        f"LIEF reads other {noun} than we do: {len(theirs):,}, not {len(ours):,}; the first that differs, at index "
        f"{differing}, is {first[0]}, not {first[1]}",
        path=path,
    )
