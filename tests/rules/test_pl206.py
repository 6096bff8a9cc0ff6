"""PL206 on words that alternatives or jump labels own: NOPs there are no prologue, a MOV there is a stray one."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prologue.elf.image import ElfImage
from prologue.kernel.kernel import Kernel
from prologue.kernel.tables import Ranges
from prologue.rules import pl206_pair_without_record as pl206
from prologue.rules.base import Subject
from tests.mini_kernel.build import Spec
from tests.support.elf_edit import MOV, NOP, edit


@pytest.mark.parametrize(("word", "replaced", "found"), [(NOP, False, True), (NOP, True, False), (MOV, True, True)])
def test_words_that_alternatives_replace(
    mini: Callable[[Spec], Path], monkeypatch: pytest.MonkeyPatch, word: int, *, replaced: bool, found: bool
) -> None:
    path = mini(Spec())
    with edit(path) as elf:
        place = elf.value("work_nested") + 16
        elf.set_word(place, word)
        elf.set_word(place + 4, NOP)
        elf.set_symbol("work_empty", value=place)  # a function begins there
    words = Ranges(np.array([place] if replaced else [], np.uint64), np.array([8] if replaced else [], np.int64))
    monkeypatch.setattr("prologue.kernel.unlisted.alternatives", lambda _: (words, words))
    assert [hit.vaddr for hit in pl206.check(Subject(Kernel(ElfImage(path))))] == ([place] if found else [])


@pytest.mark.parametrize("slot", [0, 4])
def test_jump_labels_at_a_function_entry(mini: Callable[[Spec], Path], slot: int) -> None:
    """As in 7.2's __kvm_nvhe___vgic_v3_deactivate_traps; without the label it is a pair that no record lists."""
    path = mini(Spec(labels=True))
    with edit(path) as elf:
        place = elf.value("work_nested") + 16
        for k in (0, 4):
            elf.set_word(place + k, NOP)
        elf.set_symbol("work_empty", value=place)
    assert [hit.vaddr for hit in pl206.check(Subject(Kernel(path)))] == [place]
    (entry,) = (section["sh_addr"] for section in elf.elf.iter_sections() if section.name == "__jump_table")
    struct.pack_into("<i", elf.data, elf.offset(entry), place + slot - entry)
    elf.save(path)
    assert [hit.vaddr for hit in pl206.check(Subject(Kernel(path)))] == []
