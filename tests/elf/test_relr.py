"""RELR encoding against a word-by-word reading of the specification, on random tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prologue.elf.relr import FILLER, Part, chains_with, decode, encode, restored, without
from tests.support.compare import addresses
from tests.support.linked_elf import relr
from tests.support.relocated import by_the_book

BASE = 0xFFFF800008000000
Chains = list[tuple[int, list[int]]]  # distance from the chain before, and of the rest of its addresses in words
CHAINS = st.lists(st.tuples(st.integers(1, 3000), st.lists(st.integers(1, 130), max_size=40)), min_size=1, max_size=6)


def places_of(chains: Chains) -> list[list[int]]:
    """Addresses of chains, not all of them multiples of eight."""
    found, where = [], BASE
    for skip, steps in chains:
        where += 2 * skip
        found.append([where, *(where + 8 * int(step) for step in np.cumsum(steps))] if steps else [where])
        where = found[-1][-1] + 8
    return found


@pytest.mark.parametrize(
    ("words", "places"),
    [
        pytest.param([BASE], [BASE], id="an address word"),
        pytest.param([BASE, BASE + 64], [BASE, BASE + 64], id="two address words"),
        pytest.param([BASE, 0b11], [BASE, BASE + 8], id="the first bit is the word after the address"),
        pytest.param([BASE, 1 << 63 | 1], [BASE, BASE + 504], id="the last bit is the 63rd word after it"),
        pytest.param([BASE, 0b11, 0b11], [BASE, BASE + 8, BASE + 512], id="a second bitmap goes on after the first"),
        pytest.param([BASE, FILLER, 0b11], [BASE, BASE + 512], id="a bitmap without bits takes its 63 words"),
    ],
)
def test_each_word_is_for_its_places(words: list[int], places: list[int]) -> None:
    assert addresses(decode(np.array(words, np.uint64))) == [f"{place:#x}" for place in places]


@pytest.mark.thorough
@given(CHAINS)
@settings(max_examples=300, deadline=None)
@example([(1, [63, 1, 62, 64, 63, 126])])
def test_encoding_is_greedy_and_decodes_to_the_same(chains: Chains) -> None:
    for places in places_of(chains):
        words = encode(np.array(places, np.uint64))
        assert words.tolist() == relr(places)
        assert by_the_book(words.tolist()) == places
        assert np.sort(decode(words)).tolist() == places


@pytest.mark.thorough
@given(CHAINS, st.integers(0, 6000), st.integers(0, 6000))
@settings(max_examples=300, deadline=None)
@example([(1, [1] * 40)], 0, 6000)  # the first chain holds records only: the table begins with fillers
def test_taking_out_leaves_the_others_and_can_be_undone(chains: Chains, low: int, size: int) -> None:
    words = np.concatenate([encode(np.array(places, np.uint64)) for places in places_of(chains)])
    start, stop = BASE + 2 * low, BASE + 2 * low + 8 * size
    after = words.copy()
    parts = chains_with(words, start, stop)
    for part in parts:
        new = without(words, part, start, stop)
        assert new is not None  # never longer
        after[part.first : part.first + part.size] = new
    everything = by_the_book(words.tolist())
    assert by_the_book(after.tolist()) == [place for place in everything if not start <= place < stop]
    assert len(after) == len(words)
    for part in parts:
        before = by_the_book(words[part.first : part.first + part.size].tolist())
        taken = np.array([place for place in before if start <= place < stop], np.uint64)
        again = restored(after, part, taken)
        assert again is not None
        assert again.tolist() == words[part.first : part.first + part.size].tolist()


def test_what_cannot_have_been_taken_out_is_refused() -> None:
    """Addresses that are there still, or between others: such a table was damaged."""
    words = encode(np.arange(BASE, BASE + 800, 8, dtype=np.uint64))
    for place in (BASE, BASE + 16, BASE + 20, BASE + 796):
        assert restored(words, Part(0, 3), np.array([place], np.uint64)) is None


def test_a_chain_of_records_only_becomes_fillers() -> None:
    words = encode(np.arange(BASE, BASE + 800, 8, dtype=np.uint64))
    (part,) = chains_with(words, BASE, BASE + 800)
    assert part == Part(0, 3)
    new = without(words, part, BASE, BASE + 800)
    assert new is not None
    assert new.tolist() == [FILLER] * 3
