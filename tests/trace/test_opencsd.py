"""Text of trc_pkt_lister -decode (its forms are those that OpenCSD 1.3.3 prints)."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest

from prologue.errors import InputError
from prologue.trace.ranges import (
    EXCEPTION,
    GAP,
    LOST,
    OTHER_WORLD,
    RETURN,
    BadImage,
    Onward,
    Reported,
    Tally,
    count_instructions,
)
from prologue.trace.readers.opencsd import read_opencsd
from prologue.trace.readers.streams import Peekable
from tests.trace.made import spans

A = 0xFFFF800080010000
PACKET = "Idx:9; ID:0; [0xf7 ];\tI_ATOM_F1 : Atom format 1.; E\n"
CONTEXT = "Idx:20; ID:10; OCSD_GEN_TRC_ELEM_PE_CONTEXT((ISA=A64) EL2N; 64-bit; VMID=0x7; CTXTID=0x4d2; )\n"


def element(text: str, number: str = "10") -> str:
    return f"Idx:26; ID:{number}; OCSD_GEN_TRC_ELEM_{text}\n"


def range_(start: int, count: int, number: str = "10") -> str:
    end = start + 4 * count
    return element(f"INSTR_RANGE(exec range={start:#x}:[{end:#x}] num_i({count}) last_sz(4) (ISA=A64) E BR  )", number)


def read(text: str, account: Tally | None = None) -> list[tuple[int, int, int, int]]:
    return spans(read_opencsd(Peekable(io.BytesIO(text.encode()), "x"), account or Tally()))


def test_ranges_and_contexts() -> None:
    text = "Trace Packet Lister: CS Decode library testing\n" + CONTEXT + element("TIMESTAMP( [ TS=0x000000001234]; )")
    text += range_(A, 3) + "Idx:9; ID:10;\tI_ATOM_F1 : Atom format 1.; E\n" + range_(A + 64, 1)
    batch = next(iter(read_opencsd(Peekable(io.BytesIO(text.encode()), "x"), Tally())))
    assert batch.ranges["level"].tolist() == [2, 2]
    assert batch.ranges["vmid"].tolist() == [7, 7]
    assert batch.ranges["time"].tolist() == [0x1234, 0x1234]
    assert batch.tasks[batch.ranges["task"][0]].pid == 7  # CONTEXTIDR_EL2; CONTEXTIDR_EL1 is a guest's
    assert spans([batch]) == [(16, A, A + 12, GAP), (16, A + 64, A + 68, 0)]


@pytest.mark.parametrize("ticks", [0, 1234, (1 << 64) - 1])
def test_timestamps_are_taken_as_ns(ticks: int) -> None:
    text = element("TRACE_ON( [begin or filter])") + element(f"TIMESTAMP( [ TS=0x{ticks:012x}]; )") + range_(A, 3)
    batch = next(iter(read_opencsd(Peekable(io.BytesIO(text.encode()), "x"), Tally())))
    assert batch.ranges["time"].tolist() == [ticks]


@pytest.mark.parametrize(
    ("between", "flags"),
    [
        ("TRACE_ON( [begin or filter])", GAP),
        ("TRACE_ON( [overflow])", GAP | LOST),
        ("NO_SYNC( [bad-packet])", GAP | LOST),
        ("ADDR_NACC( 0xffff800080000000 )", GAP | LOST),
        ("I_RANGE_NOPATH(first 0xffff800080000000:[next 0xffff800080000010] num_i(4))", GAP | LOST),
        ("EXCEPTION(pref ret addr:0xffff80008001000c; excep num (0x0e) )", EXCEPTION),
        ("EXCEPTION_RET()", RETURN),
        ("INSTR_RANGE(exec range=0xffff8000", GAP),
        ("INSTR_RANGE(exec range=0xffff800080010000:[0xffff800080010004] num_i(2) last_sz(4) (ISA=A64) E )", GAP),
        ("CYCLE_COUNT( [CC=2]; )", 0),
        ("EVENT( Numbered:3; )", 0),
        ("ADDR_UNKNOWN()", GAP | LOST),
        ("ADDR_NACC( 0xffff800080000000; Memspace [0x2:EL1N] )", GAP | LOST),
        ("MEMTRANS(Init)", 0),
        ("MEMTRANS(Start)", 0),
        ("MEMTRANS(Commit)", 0),
        ("MEMTRANS(Fail)", GAP),
        ("MEMTRANS(Fail [CC=2]; )", GAP),
        ("MEMTRANS(Stop)", GAP),
        ("INSTRUMENTATION(EL1; 0x0000000000000001)", 0),
        ("SYNC_MARKER( [Timestamp marker(0x00000001)])", 0),
        ("ITMTRACE( whatever )", 0),
        ("OF_LATER_RELEASES()", GAP),
    ],
)
def test_what_stands_between_two_ranges(between: str, flags: int) -> None:
    assert read(range_(A, 3) + element(between) + range_(A + 64, 1))[-1] == (16, A + 64, A + 68, flags)


@pytest.mark.parametrize(
    ("isa", "count", "size"), [("A64", 3, 12), ("A32", 3, 12), ("T32", 5, 14), ("T32", 3, 12), ("T32", 6, 12)]
)
def test_instructions_are_counted_as_the_text_counts_them(isa: str, count: int, size: int) -> None:
    head = element("TRACE_ON( [begin or filter])")
    line = f"INSTR_RANGE(exec range=0x10000:[{0x10000 + size:#x}] num_i({{}}) last_sz(2) (ISA={isa}) E BR  )"
    (batch,) = read_opencsd(Peekable(io.BytesIO((head + element(line.format(count))).encode()), "x"), Tally())
    assert count_instructions(batch.ranges).tolist() == [count]
    account = Tally()
    assert len(read(head + element(line.format(1)) + element(line.format(count)), account)) == 1
    assert account.counts["lines that cannot be read: a gap on every CPU"] == 1


def test_trace_ids_are_sequences_of_their_own() -> None:
    text = (
        range_(A, 1)
        + element("TRACE_ON( [begin or filter])", "12")
        + range_(A, 1, "12")
        + element("TRACE_ON( [begin or filter])", "12")
        + range_(A, 1)
        + range_(A, 1, "12")
    )
    assert [(row[0], row[3]) for row in read(text)] == [(16, 1), (18, 1), (16, 0), (18, 1)]


def test_a_trace_id_that_lost_a_digit_is_no_other_cpu() -> None:
    """Its decoder said nothing of where it begins: what it has is missing in the sequence of another one."""
    account = Tally()
    text = element("NO_SYNC( [init-decoder])") + range_(A, 1) + range_(A + 64, 1, "1") + range_(A + 128, 1)
    assert [(row[0], row[3] & GAP) for row in read(text, account)] == [(16, GAP), (1, GAP), (16, GAP)]
    assert account.counts["trace IDs that begin in the middle: a gap on every CPU"] == 1


def test_a_trace_id_without_instructions_is_no_damage() -> None:
    """Of a CPU that was idle all the time, or of software that writes messages."""
    account = Tally()
    text = element("NO_SYNC( [init-decoder])") + range_(A, 1) + element("SWTRACE( (Ch:0x1) )", "40") + range_(A + 4, 1)
    assert len(read(text + element("EO_TRACE( [end-of-trace])", "12"), account)) == 2
    assert not account.counts


def test_a_line_of_blanks_is_damage() -> None:
    text = element("NO_SYNC( [init-decoder])") + range_(A, 1) + " " * 80 + "\n\n" + range_(A + 128, 1)
    assert [row[3] & GAP for row in read(text)] == [GAP, GAP]


def test_no_ranges_are_bad_input() -> None:
    with pytest.raises(InputError, match="no instruction ranges"):
        read(element("TRACE_ON( [begin or filter])"))


DAMAGES = {
    "put in": lambda text, at: text[:at] + "?" + text[at:],
    "replaced": lambda text, at: text[:at] + "?" + text[at + 1 :],
    "cut": lambda text, at: text[:at] + "\n",
    "lost": lambda text, at: text[:at],
    "begun late": lambda text, at: text[at:],
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("which", ["range", "context"])
def test_wherever_a_line_is_damaged_nothing_is_invented_and_a_gap_is_left(which: str, damage: str) -> None:
    lines = []
    for k in range(6):
        for number in ("10", "12"):
            lines += [range_(A + 0x100 * k, 3, number), PACKET, CONTEXT.replace("ID:10", f"ID:{number}")]
    whole = read("".join(lines))
    assert len(whole) == 12
    bad = 15 if which == "range" else 17
    for at in range(1, len(lines[bad]) - 1):
        damaged = [*lines[:bad], DAMAGES[damage](lines[bad], at), *lines[bad + 1 :]]
        account = Tally()
        found = read("".join(damaged), account)
        for cpu in (16, 18):
            mine = [row[:3] for row in whole if row[0] == cpu]
            places = [(mine.index(row[:3]), row[3]) for row in found if row[0] == cpu]
            for (before, _), (place, flags) in pairwise(places):
                assert place == before + 1 or (place > before and flags & GAP), damaged[bad]
        # Nothing but a byte in a packet's or element's index, or in what is not used, may pass.
        if found != whole:
            assert any(row[3] & GAP for row in found[2:]), damaged[bad]


def test_after_a_damaged_line_the_context_is_not_known() -> None:
    text = (
        CONTEXT
        + range_(A, 3)
        + "Idx:20; ID:10; OCSD_GEN_TRC_ELEM_PE_CON\n"
        + range_(A + 64, 1)
        + CONTEXT
        + range_(A, 3)
    )
    batch = next(iter(read_opencsd(Peekable(io.BytesIO(text.encode()), "x"), Tally())))
    assert batch.ranges["level"].tolist() == [2, 255, 2]
    assert batch.ranges["vmid"].tolist() == [7, -1, 7]


def test_what_the_decoder_prints_besides_is_no_damage() -> None:
    account = Tally()
    text = (
        "Trace Packet Lister: CS Decode library testing\n---\n\nFilename=a/memory0.bin\n"
        + CONTEXT
        + range_(A, 3)
        + PACKET
    )
    end = "Idx:30; ID:10; OCSD_GEN_TRC_ELEM_EO_TRACE( [end-of-trace])\nID:0\tEND OF TRACE DATA\n"
    text += range_(A + 64, 1) + end + "Trace Packet Lister : Trace buffer done, processed 742673 bytes.\n"
    assert len(read(text, account)) == 2
    assert not account.lines()


@pytest.mark.parametrize("cut", [0, 7, 19])
def test_a_hole_from_a_packet_into_an_element_is_a_gap(cut: int) -> None:
    """A packet's line that goes on with what is left of the line after it."""
    text = CONTEXT + range_(A, 3) + PACKET + range_(A + 64, 1) + range_(A + 128, 1)
    start = text.index("I_ATOM")
    stop = text.index(range_(A + 64, 1)) + len("Idx:26; ID:10; OCSD_GEN_TRC_ELEM_") - 19 + cut
    account = Tally()
    found = read(text[:start] + text[stop:], account)
    assert [row[1] for row in found] == [A, A + 128]
    assert found[1][3] & GAP
    assert account.counts == {"lines that cannot be read: a gap on every CPU": 1}


def tasks_of(text: str) -> list[int]:
    batch = next(iter(read_opencsd(Peekable(io.BytesIO(text.encode()), "x"), Tally())))
    return [batch.tasks[row].pid for row in batch.ranges["task"].tolist()]


@pytest.mark.parametrize(
    ("context", "start", "process"),
    [
        ("EL1N; 64-bit; CTXTID=0x4d2; ", A, 0x4D2),
        ("EL2N; 64-bit; VMID=0x4d2; ", A, 0x4D2),
        ("EL2N; 64-bit; VMID=0x4d2; CTXTID=0x7; ", A, 0x4D2),
        ("EL2N; 64-bit; VMID=0x0; CTXTID=0x7; ", A, 7),
        ("EL2N; 64-bit; ", A, -1),
        ("EL1N; 64-bit; VMID=0x4d2; ", A, -1),
        ("EL2N; 64-bit; VMID=0x4d2; ", 0x10000, -1),  # not VHE: the VMID is a guest's
    ],
)
def test_under_vhe_the_process_is_in_the_vmid(context: str, start: int, process: int) -> None:
    assert tasks_of(element(f"PE_CONTEXT((ISA=A64) {context})") + range_(start, 1)) == [process]


@pytest.mark.parametrize("security", ["S", "Realm", "Root"])
def test_other_worlds_are_marked_and_an_unknown_one_is_damage(security: str) -> None:
    text = element("PE_CONTEXT((ISA=A64) EL1%s; 64-bit; )")
    worlds = [row[3] for row in read(text % security + range_(A, 1) + text % "N" + range_(A, 1))]
    assert worlds == [GAP | OTHER_WORLD, 0]
    account = Tally()
    assert [row[3] for row in read(text % "N" + range_(A, 1) + text % "Fifth" + range_(A, 1), account)] == [GAP, GAP]
    assert account.counts == {"lines that cannot be read: a gap on every CPU": 1}


STM = [
    "C8:Set current channel; Chan=0x0001",
    "D32M:32 bit data + marker; Data=0x10000001",
    "FLAG:Flag packet",
    "FREQ:Frequency packet; Freq=10Hz",
    "VERSION:Version packet; Ver=3",
    "ITM_SWIT: {src id: 0x01}  0x41; 'Software Stimulus write packet'",
    "ITM_OVERFLOW: ; 'ITM overflow packet'",
]


@pytest.mark.parametrize("packet", STM)
def test_packets_of_another_source_are_no_gap(packet: str) -> None:
    account = Tally()
    begin = element("NO_SYNC( [init-decoder])")
    other = f"Idx:22; ID:20; [0x30 0x10 ];\t{packet}\n" + element("SWTRACE( (Ma:0x41; Ch:0x1) 0x1; +Mrk )", "20")
    assert [row[3] for row in read(begin + range_(A, 1) + other + range_(A + 64, 1), account)] == [GAP | LOST, 0]
    assert not account.counts


def error(
    name: str, message: str, number: str = "CS ID=10; ", component: str = "DCD_ETMV4_0016 : ", code: str = "0x0019"
) -> str:
    return f"{component}{code} ({name}) [What it is.]; TrcIdx=26; {number}{message}"


BAD_PACKET = error("OCSD_ERR_BAD_DECODE_PKT", "Unknown packet type.")


@pytest.mark.parametrize("end", ["", "\n", "ID:10\tEND OF TRACE DATA\n"])
def test_an_error_is_a_gap_of_its_source_and_counted_once(end: str) -> None:
    """Most of them have no line end: what is printed next stands on the same line."""
    account = Tally()
    begin = element("TRACE_ON( [begin or filter])") + element("TRACE_ON( [begin or filter])", "12")
    text = begin + range_(A, 1) + range_(A, 1, "12") + BAD_PACKET + end + element("NO_SYNC( [bad-packet])")
    found = read(text + range_(A + 64, 1, "12") + range_(A + 64, 1), account)
    assert [(row[0], row[3]) for row in found] == [(16, GAP), (18, GAP), (18, 0), (16, GAP | LOST)]
    assert account.counts == {
        "places where tracing began (trace on)": 2,
        "errors of the decoder on trace ID 0x10: OCSD_ERR_BAD_DECODE_PKT, Unknown packet type.": 1,
    }
    assert not account.bad_images


def test_an_error_that_names_no_source_is_a_gap_on_every_cpu() -> None:
    account = Tally()
    text = element("TRACE_ON( [begin or filter])") + range_(A, 1)
    text += error("OCSD_ERR_DFMTR_BAD_FHSYNC", "Bad HSYNC in frame.", "", "DFMT_CSFRAMES : ") + range_(A + 64, 1)
    assert [row[3] for row in read(text, account)] == [GAP, GAP]
    assert account.counts["errors of the decoder: OCSD_ERR_DFMTR_BAD_FHSYNC, Bad HSYNC in frame."] == 1


def test_a_fatal_error_is_counted_once() -> None:
    account = Tally()
    text = element("TRACE_ON( [begin or filter])") + range_(A, 1) + BAD_PACKET
    text += "Trace Packet Lister : Data Path fatal error\n" + BAD_PACKET.partition(" : ")[2]
    text += "Trace Packet Lister : Trace buffer done, processed 516 bytes.\n"
    read(text, account)
    assert list(account.counts.values()) == [1, 1, 1]
    assert account.counts["fatal errors of the decoder: what comes after is missing"] == 1


def test_a_hole_that_begins_in_an_error_is_seen() -> None:
    account = Tally()
    text = element("TRACE_ON( [begin or filter])") + range_(A, 1) + BAD_PACKET[:60] + range_(A + 64, 1)
    assert [row[3] for row in read(text, account)] == [GAP, GAP]
    assert account.counts["lines that cannot be read: a gap on every CPU"] == 2


def test_a_second_run_is_no_damage() -> None:
    account = Tally()
    banner = "Trace Packet Lister: CS Decode library testing\n-----\n\n** Library Version : 1.3.3\n\n"
    banner += "Test Command Line:-\n/opt/bin/trc_pkt_lister   -ss_dir  x  -decode  \n\nUsing ETB_0 as trace source\n"
    run = banner + element("NO_SYNC( [init-decoder])") + range_(A, 3)
    stats = "\nReading packet decoder statistics....\n\nDecode stats ID 0x10\nTotal Bytes: 7; Unsynced Bytes: 0\n"
    stats += "Bad Header Errors: 0; Bad Sequence Errors: 0\n\nFrame Demux Stats\n"
    stats += "Trace data bytes sent to registered ID decoders: 7\nFrame demux bytes, ID bytes and sync bytes: 1\n"
    stats += "####### Buffer 1 : ETB_0 Complete\n\nID:10\tRESET operation on trace decode path\n"
    assert [row[3] for row in read(run + stats + run, account)] == [GAP | LOST] * 2
    assert not account.counts


def test_the_first_run_was_cut() -> None:
    """Then the second one's banner stands on its last line."""
    account = Tally()
    run = "Trace Packet Lister: CS Decode library testing\n" + element("NO_SYNC( [init-decoder])") + range_(A, 3)
    assert len(read(run[:-20] + run, account)) == 1
    assert account.counts["lines that cannot be read: a gap on every CPU"] == 1


@pytest.mark.parametrize(
    ("tail", "between", "onward"),
    [
        ("N BR   <cond>", "", Onward.NEXT),
        ("E BR  b+link ", "", Onward.TARGET),
        ("E ISB ", "", Onward.NEXT),
        ("E iBR A64:ret ", "", Onward.UNKNOWN),
        ("E BR  ", element("EXCEPTION(pref ret addr:0xffff80008001000c; excep num (0x0e) )"), Onward.UNKNOWN),
    ],
)
@pytest.mark.parametrize("says", ["error", "element", "both"])
def test_what_the_decoder_reports_of_its_image_is_kept(says: str, tail: str, between: str, onward: Onward) -> None:
    account = Tally()
    text = element("PE_CONTEXT((ISA=A64) EL1N; 64-bit; )") + range_(A, 3).replace("E BR  ", tail) + between
    if says != "element":
        text += error("OCSD_ERR_BAD_DECODE_IMAGE", "Bad program image - N Atom on unconditional direct BR.\n")
    if says != "error":
        text += element("NO_SYNC( [bad-program-image])")
    read(text + range_(A, 3), account)
    why = "OCSD_ERR_BAD_DECODE_IMAGE, Bad program image - N Atom on unconditional direct BR."
    if says == "element":
        why = "bad-program-image"
    bad = BadImage(why=why, start=A, end=A + 12, flags=0, level=1, vmid=-1, onward=onward)
    assert account.bad_images == {bad: Reported(count=1, cpu=16, time=0)}


@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 1000])
def test_however_many_packets_stand_before_an_element(count: int) -> None:
    packets = "Idx:9; ID:10;\tI_ATOM_F1 : Atom format 1.; E\n" * count
    text = "Trace Packet Lister: CS Decode library testing\n" + CONTEXT + packets + range_(A, 3) + packets
    account = Tally()
    ranges = [batch.ranges for batch in read_opencsd(Peekable(io.BytesIO(text.encode()), "x"), account)]
    assert [len(batch) for batch in ranges] == [1]
    assert not account.counts
