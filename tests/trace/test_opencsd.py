"""Text of trc_pkt_lister -decode (its forms are those that OpenCSD 1.3.3 prints)."""

from __future__ import annotations

import io

import pytest

from prologue.errors import InputError
from prologue.trace.form import EXCEPTION, GAP, LOST, RETURN, Tally
from prologue.trace.opencsd import read_opencsd
from prologue.trace.streams import Peekable
from tests.trace.made import spans

A = 0xFFFF800080010000
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
    assert batch.tasks[batch.ranges["task"][0]].pid == 0x4D2
    assert spans([batch]) == [(16, A, A + 12, GAP), (16, A + 64, A + 68, 0)]


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
    ],
)
def test_what_stands_between_two_ranges(between: str, flags: int) -> None:
    assert read(range_(A, 3) + element(between) + range_(A + 64, 1))[-1] == (16, A + 64, A + 68, flags)


def test_trace_ids_are_sequences_of_their_own() -> None:
    text = (
        range_(A, 1)
        + range_(A, 1, "12")
        + element("TRACE_ON( [begin or filter])", "12")
        + range_(A, 1)
        + range_(A, 1, "12")
    )
    assert [(row[0], row[3]) for row in read(text)] == [(16, 1), (18, 1), (16, 0), (18, 1)]


def test_no_ranges_are_bad_input() -> None:
    with pytest.raises(InputError, match="no instruction ranges"):
        read(element("TRACE_ON( [begin or filter])"))
