"""RELR decoding against a word-by-word reading of the specification."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prologue.elf.dynrelocs import relr_in, relr_targets
from prologue.elf.image import ElfImage
from prologue.errors import InputError
from tests.support.compare import addresses
from tests.support.elf_edit import tiny_elf
from tests.support.relocated import by_the_book

BASE = 0xFFFF800008000000


@pytest.mark.thorough
@given(
    st.lists(
        st.tuples(st.integers(0, 1000), st.lists(st.integers(0, (1 << 63) - 1), max_size=3)), min_size=1, max_size=8
    )
)
@settings(max_examples=60, deadline=None)
def test_relr_is_decoded_by_the_book(
    tmp_path_factory: pytest.TempPathFactory, groups: list[tuple[int, list[int]]]
) -> None:
    words = [w for start, maps in groups for w in (BASE + 8 * start, *(m << 1 | 1 for m in maps))]
    path = tmp_path_factory.mktemp("relr") / "a"
    raw = struct.pack(f"<{len(words)}Q", *(w % (1 << 64) for w in words))
    path.write_bytes(tiny_elf({".data": (BASE, b"\0" * 65536), ".relr.dyn": (BASE + (1 << 20), raw)}))
    image = ElfImage(path)
    assert set(relr_targets(image).tolist()) == set(by_the_book(words))
    for start, stop in ((BASE, BASE + 65536), (BASE + 512, BASE + 1024), (BASE + 4000, BASE + 4008), (BASE, BASE)):
        wanted = {target for target in by_the_book(words) if start <= target < stop}
        assert set(relr_in(image, start, stop).tolist()) == wanted


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(0, id="the address word"),
        pytest.param(1, id="the first bit of a bitmap"),
        pytest.param(63, id="its last bit"),
        pytest.param(64, id="the first bit of the next bitmap"),
        pytest.param(126, id="its last bit, too"),
    ],
)
def test_a_range_of_one_word_has_its_relocation(tmp_path: Path, number: int) -> None:
    every = (1 << 64) - 1
    raw = struct.pack("<3Q", BASE, every, every)
    (tmp_path / "a").write_bytes(tiny_elf({".data": (BASE, bytes(4096)), ".relr.dyn": (BASE + 4096, raw)}))
    place = BASE + 8 * number
    assert addresses(relr_in(ElfImage(tmp_path / "a"), place, place + 8)) == [f"{place:#x}"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([3], "begins with a bitmap"),
        ([BASE - (1 << 30)], "outside of the kernel"),
        ([BASE + (1 << 40)], "outside"),
        ([BASE + (1 << 20), (1 << 64) - 1], "outside"),
    ],
)
def test_damaged_relr_is_named(tmp_path: Path, words: list[int], message: str) -> None:
    path = tmp_path / "a"
    raw = struct.pack(f"<{len(words)}Q", *words)
    path.write_bytes(tiny_elf({".data": (BASE, b"\0" * 4096), ".relr.dyn": (BASE + (1 << 20), raw)}))
    with pytest.raises(InputError, match=message):
        relr_targets(ElfImage(path))
    with pytest.raises(InputError, match=message):  # also where none of it is wanted
        relr_in(ElfImage(path), BASE, BASE + 8)
