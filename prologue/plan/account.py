"""Explains every byte that differs between a file and what was made from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from prologue.arrays import I64, among
from prologue.elf.image import differing_files
from prologue.errors import InputError, RefusedError
from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import proper_size, why_incomparable
from prologue.plan.build import build_plan
from prologue.plan.edits import Edits, Kind


@dataclass(frozen=True, slots=True)
class Account:
    """Explanation of the differing bytes."""

    words: dict[Kind, int]  # words that hold what processing writes, by kind
    unexplained: I64  # file offsets of all other bytes that differ, ascending
    incomparable: str = ""  # why the files cannot be compared byte by byte: they are of two builds


@lru_cache(maxsize=1)  # PL403 and the note use the same pair, and comparing 350 MB is slow
def account(before: Binary, after: Binary) -> Account:
    """Compare two files byte by byte and explain what the plan for ``before`` explains.

    Processing changes neither the build-id nor the size: if one differs, every byte may, and none is explained.
    A module's appended signature is not part of the module and is left out: processing must strip it.
    """
    size = proper_size(after)
    if incomparable := why_incomparable(before, after):
        return Account({}, np.zeros(0, np.int64), incomparable)
    differing = differing_files(before.image, after.image, size)
    words: dict[Kind, int] = {}
    explained = [np.zeros(0, np.int64)]
    for stage in _stages(before):
        was, now = (binary.image.words_at(stage.offsets, stage.width) for binary in (before, after))
        changed = stage.offsets[(was == stage.old) & (now == stage.new) & (was != now)]
        if len(changed):
            words[stage.kind] = words.get(stage.kind, 0) + len(changed)
            explained.append((changed[:, None] + np.arange(stage.width)).ravel())
    unexplained = differing[~among(differing, np.concatenate(explained))]
    return Account(words, unexplained)


def _stages(before: Binary) -> tuple[Edits, ...]:
    try:
        return build_plan(before, before.contract if isinstance(before, Kernel) else "native").stages
    except (InputError, RefusedError):  # no sites, or an unrecognised init stub: then nothing may differ
        return ()
