"""Sections by address, against a look at every one of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prologue.elf.image import gather_words
from prologue.elf.sections import Section, SectionMap


def section(index: int, addr: int, size: int) -> Section:
    return Section(
        index=index, name=str(index), type="SHT_PROGBITS", flags=6, addr=addr, offset=0, size=size, link=0, info=0,
        entsize=0,
    )  # fmt: skip


spans = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=8)


@pytest.mark.thorough
@given(spans, st.lists(st.integers(0, 340), max_size=40), st.randoms(use_true_random=False))
def test_every_address_is_in_the_section_that_contains_it(
    gaps: list[tuple[int, int]], vaddrs: list[int], order: object
) -> None:
    addr, sections = 0, []
    for k, (gap, size) in enumerate(gaps):
        sections.append(section(k, addr + gap, size))
        addr += gap + size
    words = {s.index: np.arange(s.size // 4, dtype=np.uint32) + np.uint32(1 + 100 * s.index) for s in sections}
    order.shuffle(sections)  # type: ignore[attr-defined]  # hypothesis' Random
    found = SectionMap(sections)
    where = [next((s for s in sections if vaddr in s), None) for vaddr in vaddrs]
    assert [found.find(vaddr) for vaddr in vaddrs] == where
    array = np.array(vaddrs, np.uint64)
    assert [None if k < 0 else found.sections[k] for k in found.indices(array).tolist()] == where
    split: list[Section | None] = [None] * len(vaddrs)
    for inside, place in found.split(array):
        for k in np.arange(len(vaddrs))[place].tolist():
            split[k] = inside
    assert split == where
    around = gather_words(found, lambda one: words[one.index], array, (-1, 0, 2))
    for distance, gathered in around.items():
        for vaddr, one, word in zip(vaddrs, where, gathered.tolist(), strict=True):
            at = -1 if one is None or vaddr % 4 else (vaddr - one.addr) // 4 + distance
            # Only an address inside of a whole word has words around it.
            whole = one is not None and vaddr % 4 == 0 and vaddr - one.addr < one.size & ~3
            assert word == (int(words[one.index][at]) if one and whole and 0 <= at < len(words[one.index]) else 0)


def test_memory_of_each_thread_has_no_address() -> None:
    """The .tbss of every static program has the addresses of the section after it."""
    tls = replace(section(1, 0x1000, 8), flags=0x403)
    assert tls.allocated
    assert not replace(tls, type="SHT_NOBITS").allocated
