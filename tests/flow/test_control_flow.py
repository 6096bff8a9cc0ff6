"""Where control goes from each word, over several sections and many words, against one-by-one decoding."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from prologue.arrays import I64, U32, U64
from prologue.elf.sections import Section, SectionMap
from prologue.flow import control_flow as flow
from prologue.flow.control_flow import Flow
from prologue.insn import a64, decode
from tests.support.compare import not_ascending

BASES = (0xFFFF800080010000, 0xFFFF800080018000, 0xFFFF80008001A000)


def section(index: int, addr: int, size: int) -> Section:
    return Section(
        index=index, name=f".text{index}", type="SHT_PROGBITS", flags=6, addr=addr, offset=0, size=size, link=0,
        info=0, entsize=0,
    )  # fmt: skip


class MadeBinary:
    """Sections of words, and branches that a relocation resolves after the others."""

    def __init__(self, texts: dict[int, U32], relocated: tuple[tuple[int, int], ...] = ()) -> None:
        self._texts = list(texts.values())
        sections = tuple(section(k, addr, 4 * len(words) + k) for k, (addr, words) in enumerate(texts.items()))
        self.text: Any = SimpleNamespace(
            text_map=SectionMap(sections), view=lambda section, _: self._texts[section.index]
        )
        self.relocatable = bool(relocated)
        self.symbols: Any = SimpleNamespace(find=lambda _: None)  # no table of jump labels
        self.image: Any = SimpleNamespace(section=lambda _: None)
        self._relocated = relocated

    def relative32(self, fields: U64) -> U64:
        return fields

    def branches(self, section: Section) -> tuple[I64, U64]:
        index, target = decode.branches(self._texts[section.index], section.addr)
        if section.index or not self._relocated:
            return index, target
        mine, theirs = zip(*self._relocated, strict=True)
        kept = ~np.isin(index, mine)
        return np.concatenate([index[kept], mine]), np.concatenate([target[kept], np.array(theirs, np.uint64)])


def random_words(count: int) -> U32:
    """Half of them branches, most of them near."""
    seed = random.Random(count)  # noqa: S311 - not a secret
    kinds = (0x14000000, 0x94000000, 0x54000000, 0x54000010, 0x34000000, 0xB7000000, 0x74000000)
    near = (seed.choice(kinds) | seed.getrandbits(12) << 5 & 0x3FFFF for _ in range(count))
    return np.array([word if seed.random() < 0.5 else seed.getrandbits(32) for word in near], np.uint32)


def test_every_word_of_every_section(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (decode, flow):
        monkeypatch.setattr(module, "_CHUNK", 64)
    texts = {addr: random_words(count) for addr, count in zip(BASES, (1000, 300, 1), strict=True)}
    made = Flow(MadeBinary(texts))  # type: ignore[arg-type]  # has what is asked for
    position, inside = 0, 0
    for addr, words in texts.items():
        for k, word in enumerate(words.tolist()):
            vaddr = addr + 4 * k
            target = None if a64.classify(word) == "BL" else a64.branch_target(word, vaddr)
            wanted = -1 if target is None else int(made.positions(np.array([target], np.uint64))[0])
            assert made.after_jump_at(position + k) == wanted
            assert made.after_jump(np.array([position + k])).tolist() == [wanted]
            assert (position + k in made.jumps.tolist()) == (target is not None)
            if wanted >= 0:
                inside += 1
                assert made.vaddrs(np.array([wanted])).tolist() == [target]
        assert made.words[position : position + len(words) + 1].tolist() == [*words.tolist(), 0]
        position += len(words) + 1
    assert inside > 100
    assert not_ascending(made.jumps) == []


def test_relocated_branches_come_last_and_the_last_of_two_counts() -> None:
    words = np.array([0x14000002, 0x14000001, 0x14000001, a64.NOP], np.uint32)
    relocated = ((2, BASES[0]), (0, BASES[0] + 4), (0, BASES[0] + 8))
    made = Flow(MadeBinary({BASES[0]: words}, relocated))  # type: ignore[arg-type]  # as above
    assert made.jumps.tolist() == [0, 0, 1, 2]
    assert [made.after_jump_at(k) for k in range(4)] == [2, 2, 0, -1]
    assert made.after_jump(np.arange(4)).tolist() == [2, 2, 0, -1]


def test_nothing_to_follow() -> None:
    made = Flow(MadeBinary({BASES[0]: np.array([a64.NOP], np.uint32)}))  # type: ignore[arg-type]  # as above
    assert made.after_jump(np.array([0])).tolist() == [-1]
    assert made.after_jump_at(0) == -1
