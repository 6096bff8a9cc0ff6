"""Literals that the first trace sets, a page at a time: no probe sees their words, the comparison of the text does."""

from __future__ import annotations

from prologue.live.pokes.literals import Changed, words_of_pages
from prologue.live.pokes.recording import Flag, Recording
from tests.live.pokes.test_recorder_output import KERNEL_READ, NOP, SAID, losses, recording

NOP_OPS = (0xF32277D0, 0xFFFFACA2)  # what kernel_read's literal held before it was traced
OTHER = KERNEL_READ + 0x3F8  # vfs_write's, say
TEXT = 0xFFFFACA2F2410000
LITERAL_HIT = next(line for line in SAID.splitlines() if "old=0xf32277d0" in line)


def word(address: int, old: int, new: int) -> str:
    """A line of the comparison: words from the beginning of the text."""
    return f"{(address - TEXT) // 4} {old:x} {new:x}\n"


def processed(changed: str) -> str:
    """The same machine with a kernel that sets all literals at the first trace."""
    lines = SAID.replace("c2=0xffffaca2f31ccca8 c3=0xffffaca2f242c468", "c2=0xffffaca2f31cce00 c3=0xffffaca2f242c830")
    first = next(line for line in lines.splitlines() if "c2=0xffffaca2f31cce00" in line)
    assert first != LITERAL_HIT
    page = first.replace("old=0xf32277d0", "old=0x0").replace("new=0xffffaca2", "new=0x1234")
    own = LITERAL_HIT.replace("1156.525234", "1156.525300")
    names = "ffffaca2f31ccd28 ffffaca2f31cce80 aarch64_insn_write_literals_u64 \n"
    lines = lines.replace(first, f"{page}\n{own}").replace("ffffaca2f31db020 ffff", f"{names}ffffaca2f31db020 ffff")
    return lines.replace("compared 3653632 words\n", f"compared 3653632 words\n{changed}")


def literal(address: int, value: tuple[int, int] = NOP_OPS) -> str:
    return word(address, NOP, value[0]) + word(address + 4, NOP, value[1])


def of_pass(found: Recording) -> list[tuple[int, int, int]]:
    rows = found.rows[(found.rows["flags"] & Flag.LITERAL != 0) & (found.rows["old"] == NOP)]
    return [(int(row["address"]), int(row["old"]), int(row["new"])) for row in rows if row["address"] < 2**64 - 2**40]


def test_words_are_those_that_changed() -> None:
    said = processed(literal(KERNEL_READ - 8) + literal(OTHER))
    found = recording(said)
    assert found.trailer.lost == ()
    ours = [row for row in of_pass(found) if KERNEL_READ - 8 <= row[0] <= OTHER + 4]
    assert ours == [
        (at + half, NOP, new) for at in (KERNEL_READ - 8, OTHER) for half, new in zip((0, 4), NOP_OPS, strict=True)
    ]


def test_another_value_has_another_writer() -> None:
    """A word that changed on such a page to something else has a writer that was not seen."""
    found = recording(
        processed(literal(KERNEL_READ - 8) + literal(OTHER, (0x11111110, 0xFFFFACA2)) + literal(OTHER + 8))
    )
    unseen = found.rows[found.rows["pc"] == 0]
    assert unseen["address"].tolist() == [OTHER, OTHER + 4]


def test_without_a_comparison() -> None:
    said = processed("").replace("compared 3653632 words", "not compared: switched off (-n)")
    assert losses(said) == {
        "pages whose literals were all set at the first trace, and no comparison of the text shows them": 1
    }


def test_words_that_are_no_literal() -> None:
    changed = {at: Changed(at, NOP, 5) for at in (0x1004, 0x1008, 0x1010, 0x1014, 0x2000, 0x2004)}
    assert words_of_pages([0x1000], changed, {0x1014: 7}) == [Changed(0x1010, NOP, 5), Changed(0x1014, NOP, 7)]
    assert words_of_pages([0x3000], changed, {}) == []
