"""Pokes as recorded writes, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prologue.errors import InputError
from prologue.live.pokes.convert import pokes_of, writes_of
from prologue.live.pokes.perf_data import TextPoke
from prologue.live.pokes.recording import NO_CPU, Flag, longest_interval
from tests.live.pokes.made import recording_of
from tests.perf.made import ARM64, NOP, X86


def test_a_row_for_each_new_word() -> None:
    found = writes_of(ARM64)
    assert (found.header.machine, found.header.sees, found.header.cpus) == ("aarch64", ("old",), 2)
    rows = found.rows
    assert rows["address"].tolist() == [
        0xFFFF800080010004, 0xFFFF800080010010, 0xFFFF800080010014, *range(0xFFFF80007A000000, 0xFFFF80007A000018, 4),
    ]  # fmt: skip
    assert rows["old"][:3].tolist() == [0xD503201F, 0x01010101, 0x01010101]
    assert rows["new"].tolist() == [0x94000005, 0x02020202, 0x02020202, *[0xD503201F] * 5, 0x94000005]
    assert rows["flags"].tolist() == [0] * 3 + [Flag.OLD_UNKNOWN] * 6
    assert rows["cpu"].tolist() == [1] + [0] * 8
    assert found.trailer.notes == ("1 piece of code that went away",)


def test_other_machines_have_no_words() -> None:
    for machine in ("x86_64", ""):
        found = writes_of(replace(X86, machine=machine))
        assert (found.header.machine, len(found.rows)) == (machine or "unknown", 0)
        assert found.trailer.notes[0].startswith("2 changes of text, by a machine that is not arm64")
    with pytest.raises(InputError, match="recorded on x86_64"):
        pokes_of(writes_of(X86))


def test_text_that_does_not_say_its_machine() -> None:
    found = writes_of(replace(ARM64, machine="", lost=3, guests=2))
    assert (found.header.machine, len(found.rows)) == ("aarch64", 9)
    assert "taken for arm64" in found.trailer.notes[0]
    assert found.trailer.notes[-1].startswith("2 changes of the text of virtual machines")
    assert [loss.amount for loss in found.trailer.lost] == [3]


@pytest.mark.parametrize(
    "poke",
    [
        TextPoke(address=0xFFFF800080010002, old=NOP, new=NOP),
        TextPoke(address=0xFFFF800080010000, old=NOP, new=NOP[:2]),
    ],
)
def test_no_whole_words_on_arm64(poke: TextPoke) -> None:
    with pytest.raises(InputError, match="is not arm64 text"):
        writes_of(replace(ARM64, pokes=(poke,)))


def test_a_cpu_that_is_not_known_stays_so() -> None:
    """Not CPU 0: perf records none where it was not asked for it."""
    nobody = replace(ARM64.pokes[0], cpu=-1, pid=-1, tid=-1)
    made = writes_of(replace(ARM64, pokes=(nobody,)))
    assert made.rows["cpu"].tolist() == [NO_CPU]
    assert [poke.cpu for poke in pokes_of(made).pokes] == [-1]
    with pytest.raises(InputError, match="on CPU 65535"):
        writes_of(replace(ARM64, pokes=(replace(nobody, cpu=NO_CPU),)))


def test_a_poke_has_the_time_by_which_the_word_was_written() -> None:
    """Of both words of a literal, and in the order of the writes where one has no interval."""
    literal = {"time": 5000, "within": 3, "flags": Flag.LITERAL}
    rows = recording_of(
        {"time": 1000, "within": 2, "address": 0xFFFF800080010004, "old": 1, "new": 2},
        {**literal, "address": 0xFFFF800080010010, "old": 1, "new": 2},
        {**literal, "address": 0xFFFF800080010014, "old": 3, "new": 4},
        {"time": 7500, "address": 0xFFFF800080010024, "old": 8, "new": 9},
    )
    assert [(poke.time, len(poke.new)) for poke in pokes_of(rows).pokes] == [(3000, 4), (8000, 8), (8000, 4)]
    assert longest_interval(rows.rows) == 3000


def test_writes_become_pokes() -> None:
    recorded = recording_of(
        {"time": 1, "cpu": 1, "address": 0xFFFF800080010004, "old": 0xD503201F, "new": 0x94000005},
        {"time": 2, "address": 0xFFFF800080010010, "old": 1, "new": 2, "flags": Flag.LITERAL},
        {"time": 2, "address": 0xFFFF800080010014, "old": 3, "new": 4, "flags": Flag.LITERAL},
        {"time": 2, "address": 0xFFFF800080010018, "old": 5, "new": 6, "flags": Flag.LITERAL},
        {"time": 3, "address": 0xFFFF800080010020, "new": 7, "flags": Flag.OLD_UNKNOWN},
        {"time": 4, "address": 0xFFFF800080010024, "old": 8, "new": 9},
    )
    pair = (b"\1\0\0\0\3\0\0\0", b"\2\0\0\0\4\0\0\0")
    found = pokes_of(recorded)
    assert found.pokes == (
        TextPoke(address=0xFFFF800080010004, old=NOP, new=bytes.fromhex("05000094"), time=1, cpu=1),
        TextPoke(address=0xFFFF800080010010, old=pair[0], new=pair[1], time=2, cpu=0),
        TextPoke(address=0xFFFF800080010018, old=b"\5\0\0\0", new=b"\6\0\0\0", time=2, cpu=0),
        TextPoke(address=0xFFFF800080010020, old=b"", new=b"\7\0\0\0", time=3, cpu=0),
        TextPoke(address=0xFFFF800080010024, old=b"\x08\0\0\0", new=b"\x09\0\0\0", time=4, cpu=0),
    )
    again = writes_of(replace(found, build_id="", machine="aarch64")).rows
    assert again["address"].tolist() == recorded.rows["address"].tolist()
    assert again["new"].tolist() == recorded.rows["new"].tolist()
