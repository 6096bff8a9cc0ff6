"""What writes record prints, as Debian's 6.12 printed it (most of its events and names are left out)."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest

from prologue.errors import InputError
from prologue.live.pokes.recorder_output import read_output
from prologue.live.pokes.recorder_writes import writes_of_output
from prologue.live.pokes.recording import NO_CPU, Flag, Recording

SAID = Path(__file__).with_name("debian-6.12.txt").read_text()
PATH = Path("board.writes")
NOP, MOV, BRK = 0xD503201F, 0xAA1E03E9, 0xD4200080
KERNEL_READ = 0xFFFFACA2F2844118  # vfs_read, the function after it, is traced for a moment


def recording(text: str) -> Recording:
    return writes_of_output(read_output(text, PATH))


def names(found: Recording, k: int) -> list[str]:
    """The writer's name, and its callers'."""
    places = [int(found.rows["pc"][k]), *found.rows["callers"][k].tolist()]
    return [f.name for place in places for f in found.trailer.functions if f.start <= place < f.end]


def test_a_recording() -> None:
    found = recording(SAID)
    origin, ending = found.header, found.trailer
    assert (origin.source, origin.machine, origin.clock, origin.cpus) == ("kprobe events", "aarch64", "ns", 2)
    assert (origin.release, origin.build_id) == (
        "6.12.107+deb13-cloud-arm64", "f44ce0b1d197e8e3dab952a5de8835b4ebe1e28c",
    )  # fmt: skip
    assert (ending.slide, ending.lost, ending.complete) == (0x2CA272400000, (), True)
    assert [(int(row["address"]), int(row["old"]), int(row["new"]), int(row["flags"])) for row in found.rows[:6]] == [
        (0xFFFFACA2F2426330, MOV, BRK, Flag.STOPPED),
        (0xFFFFACA2F2429828, MOV, BRK, Flag.STOPPED),
        (KERNEL_READ - 8, 0xF32277D0, 0xF3F88748, Flag.LITERAL | Flag.CUT_CHAIN),
        (KERNEL_READ - 4, 0xFFFFACA2, 0xFFFFACA2, Flag.LITERAL | Flag.CUT_CHAIN),
        (KERNEL_READ + 4, NOP, 0x97EFA1F7, Flag.CUT_CHAIN),
        (KERNEL_READ - 8, 0xF3F88748, 0xF32277D0, Flag.LITERAL | Flag.CUT_CHAIN),
    ]
    assert found.rows["time"][:5].tolist() == [
        1155382309000, 1155449773000, 1156525234000, 1156525234000, 1156526334000,
    ]  # fmt: skip
    assert found.rows["cpu"][:2].tolist() == [0, 0]
    assert names(found, 0)[:3] == ["__aarch64_insn_write", "aarch64_insn_patch_text_cb", "multi_cpu_stop"]
    assert names(found, 2)[:3] == ["aarch64_insn_write_literal_u64", "ftrace_make_call", "__ftrace_replace_code"]
    assert names(found, 4)[:3] == ["__aarch64_insn_write", "aarch64_insn_patch_text_nosync", "ftrace_make_call"]


def test_times_in_ns() -> None:
    """A reader of the trace that began under a clock without ns prints times as they are."""
    text, count = re.subn(r" (\d+)\.(\d{6}): ", lambda at: f" {at[1]}{at[2]}007: ", SAID)
    assert count > 10
    assert recording(text).rows["time"].tolist() == [time + 7 for time in recording(SAID).rows["time"].tolist()]


def with_unmaps(text: str, *, after_us: int) -> str:
    """Each page is unmapped so much later; another CPU's slot, and what was not mapped, mean nothing."""
    lines = []
    for line in text.splitlines():
        lines.append(line)
        if ": fixmap: " in line:
            before, second, us, _ = re.split(r"(\d+)\.(\d{6}): ", line, maxsplit=1)
            time = f"{int(second) + (int(us) + after_us) / 1e6:.6f}"
            clear = f"{time}: unmap: (__set_fixmap+0x0/0x100) index=516 phys=0x0"
            lines += [re.sub(r"\[\d+\]", "[007]", before) + clear, before + clear] * 2
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("after_us", "within"), [(0, 1), (7, 8), (65_534, 65_535), (65_535, 0)])
def test_when_a_write_had_ended(after_us: int, within: int) -> None:
    rows = recording(with_unmaps(SAID, after_us=after_us)).rows
    assert set(rows["within"].tolist()) == {within}
    assert rows["time"].tolist() == recording(SAID).rows["time"].tolist()
    assert not recording(SAID).rows["within"].any()


def test_a_module_that_is_loaded() -> None:
    """Its text is written before it can run."""
    found = recording(SAID)
    loading = found.rows["flags"] & Flag.UNREACHABLE != 0
    assert found.rows["new"][loading].tolist()[2::3] == [MOV, MOV]
    assert any("1 time alternatives were applied to a module's text" in note for note in found.trailer.notes)


def test_an_old_word_that_was_read_elsewhere() -> None:
    """The physical address is certain; the virtual one is where this build's usual callers keep it."""
    found = recording(SAID.replace("addr=0xffffaca2f284411c old=0xd503201f", "addr=0xffffaca2f2844000 old=0x12345678"))
    (row,) = found.rows[found.rows["new"] == 0x97EFA1F7]
    assert (int(row["address"]), int(row["old"])) == (KERNEL_READ + 4, 0)
    assert int(row["flags"]) == Flag.OLD_UNKNOWN | Flag.CUT_CHAIN
    assert found.trailer.lost == ()
    module = SAID.replace("addr=0xffffaca2e87b5008", "addr=0xffffaca2e87b500c")
    assert losses(module) == {"writes whose address does not match the mapped page": 1}


def test_return_addresses_that_are_signed() -> None:
    """As pointer authentication leaves them: the upper bits are something else."""
    signed = SAID.replace(" c2=0xffffaca2", " c2=0x7a5baca2").replace(" c4=0xffffaca2", " c4=0x0013aca2")
    assert signed != SAID
    assert np.array_equal(recording(signed).rows, recording(SAID).rows)


@pytest.mark.parametrize("message", ["[ 1157.811201] brd: module loaded", "[   12.000001][    T1] loop: x"])
def test_a_console_with_kernel_messages(message: str) -> None:
    """They come in the middle of lines, and the whole stands among what else was said there."""
    mixed = ["login: root\r\n# sh record.sh\r\n"]
    for k, line in enumerate(SAID.splitlines()):
        place = 37 * k % (len(line) + 1)
        mixed.append(line[:place] + message + "\r\n" + line[place:] + "\r\n" if k % 2 else line + "\r\n")
    text = "".join(mixed) + "# poweroff\r\n"
    found, expected = recording(text), recording(SAID)
    assert np.array_equal(found.rows, expected.rows)
    assert found.trailer == expected.trailer


def test_messages_without_time_among_the_names() -> None:
    """A console of a kernel without CONFIG_PRINTK_TIME: what is no name is left out."""
    line = "ffffaca2e87b5148 ffffaca2e87b53e8 brd_alloc.isra.0 [brd]\n"
    assert line in SAID
    found = recording(SAID.replace(line, f"{line}hrtimer: interrupt took 99871200 ns\n"))
    assert found.trailer == recording(SAID).trailer
    torn = recording(SAID.replace(line, line[:20] + "hrtimer: interrupt took 99871200 ns\n" + line[20:]))
    assert set(recording(SAID).trailer.functions) - set(torn.trailer.functions) == {
        f for f in recording(SAID).trailer.functions if f.name == "brd_alloc.isra.0"
    }


def test_whatever_is_cut_off_is_refused() -> None:
    lines = SAID.splitlines(keepends=True)
    for count in range(len(lines)):
        with pytest.raises(InputError) as caught:
            recording("".join(lines[:count]))
        assert str(caught.value).startswith("board.writes: ")


def without(text: str) -> str:
    """The output, without the first line that has a text."""
    lines = SAID.splitlines(keepends=True)
    del lines[next(k for k, line in enumerate(lines) if text in line)]
    return "".join(lines)


def losses(text: str) -> dict[str, int | None]:
    return {loss.what: loss.amount for loss in recording(text).trailer.lost}


def test_an_event_that_is_missing() -> None:
    lost = losses(without("new=0x97efa1f7"))
    assert lost["lines of events that cannot be parsed"] == 1
    # Its word was changed back by one that was recorded.
    assert lost["words that do not hold what was recorded last"] == 1
    between = SAID.replace("low=0xf3f88748 new=0xffffaca2", "low=0xf3f88740 new=0xffffaca2")
    assert losses(between) == {"changes of a word between two recorded writes to it": 1}


def test_what_the_ring_buffer_lost() -> None:
    said = SAID.replace(
        "==== lost\n", "==== lost\ncpu0 12 overrun\ncpu1 3 dropped events\nfixmap 2 missed by kprobes\n"
    )
    assert losses(said) == {
        "events, by the ring buffer (record again with a larger --buffer)": 15,
        "hits of the probe fixmap, missed by kprobes": 2,
    }
    said = SAID.replace("==== events\n", "==== events\nCPU:1 [LOST 7 EVENTS]\n").replace("\n3\n17\n", "\n3\n18\n")
    assert losses(said) == {"events, by the ring buffer (record again with a larger --buffer)": 7}


def test_text_that_changed_unseen() -> None:
    """A write without an event is a row without a writer or CPU; a word that was written and is another one is said."""
    said = SAID.replace("compared 3653632 words\n", f"compared 3653632 words\n32 {NOP:08x} {MOV:08x}\n")
    found = recording(said)
    (row,) = found.rows[found.rows["pc"] == 0]
    assert (int(row["address"]), int(row["old"]), int(row["new"])) == (0xFFFFACA2F2410080, NOP, MOV)
    assert row["cpu"] == NO_CPU
    assert found.trailer.lost == ()
    offset = (KERNEL_READ + 4 - 0xFFFFACA2F2410000) // 4
    said = SAID.replace("compared 3653632 words\n", f"compared 3653632 words\n{offset} {NOP:08x} {MOV:08x}\n")
    assert losses(said) == {"words that do not hold what was recorded last": 1}


def test_text_that_was_not_compared() -> None:
    found = recording(SAID.replace("compared 3653632 words", "not compared: switched off (-n)"))
    assert "before and after: not compared: switched off (-n)" in found.trailer.notes[0]


WORD = (
    "              sh-1542    [000] d....  1156.526340: word: (copy_to_kernel_nofault+0x0/0x9c) size=4"
    " old=0xd503201f next=0x0 new=0x97efa1f7 high=0x0 c1=0x0\n"
)


def test_a_kernel_that_lets_one_probe_the_copy() -> None:
    at = SAID.index("           <...>-1542    [000] d....  1156.534180")
    text = SAID[:at] + WORD + SAID[at:]
    text = text.replace("\n3\n17\n", "\n3\n18\n")
    assert losses(text) == {}
    assert any("1 hit" in note for note in recording(text).trailer.notes)
    assert losses(text.replace("next=0x0 new=0x97efa1f7", "next=0x0 new=0x97efa1f8")) == {
        "writes for which copy_to_kernel_nofault saw other words": 1
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("writes record 1", "writes record 2", "another version"),
        ("==== end\n", "==== end\n==== prologue writes record 1\n", None),
        ("==== machine\n", "==== prologue writes record 1\n==== machine\n", "more than one recording"),
        ("prologue end\n", "prologue enf\n", "own mark 'end'"),
        ("1155.382309", "1155.482309", None),
        ("0-1\n", "none\n", "damaged"),
        ("page=0x", "pane=0x", "damaged"),
    ],
)
def test_damaged_output(old: str, new: str, message: str | None) -> None:
    text = SAID.replace(old, new)
    assert text != SAID
    if message is None:
        recording(text)
        return
    with pytest.raises(InputError, match=message):
        recording(text)


def test_a_recorder_that_did_not_see_itself() -> None:
    """The probes that it arms are writes: without these no silence means anything."""
    text = SAID
    for _ in range(2):
        start = text.index("     migration/0-20")
        text = text[:start] + text[text.index("\n", start) + 1 :]
    with pytest.raises(InputError, match="lacks the recorder's own test writes"):
        recording(text.replace("\n3\n17\n", "\n3\n15\n"))


@pytest.mark.thorough
def test_no_damage_is_a_bug() -> None:
    chance = random.Random(13)  # noqa: S311 - damage, not secrets
    refused = 0
    for _ in range(300):
        text = list(SAID)
        for _ in range(chance.randint(1, 5)):
            text[chance.randrange(len(text))] = chance.choice("0f=: \n[-x\x00é")
        try:
            recording("".join(text))
        except InputError:
            refused += 1
    assert 10 < refused < 300
