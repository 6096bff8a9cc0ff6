"""What a decoder reports of its own program image: a finding of ``trace check``, with the word and its address."""

from __future__ import annotations

from typing import Any

import pytest

from prologue.insn.a64 import encode_b
from tests.trace.made import KERNEL, Run, perf_text
from tests.trace.test_check import STEPS
from tests.trace.test_opencsd import element, error

NOP = 0xD503201F
CONTEXT = element("PE_CONTEXT((ISA=A64) EL1N; 64-bit; )")
SYNC = element("NO_SYNC( [init-decoder])") + element("TRACE_ON( [begin or filter])") + CONTEXT
DIRECT = "Bad program image - N Atom on unconditional direct BR.\n"
INDIRECT = "Bad program image - N Atom on unconditional indirect BR.\n"
BROKEN = "Discontinuous ranges - Inconsistent program image for decode\n"


def ran(first: str, last: str, tail: str) -> str:
    """The range from one place to the instruction at another one."""
    start, end = KERNEL.at(first), KERNEL.at(last) + 4
    size = (end - start) // 4
    return element(f"INSTR_RANGE(exec range={start:#x}:[{end:#x}] num_i({size}) last_sz(4) (ISA=A64) {tail})")


def bad(message: str, name: str = "OCSD_ERR_BAD_DECODE_IMAGE") -> str:
    return error(name, message, code="0x002e") + element("NO_SYNC( [bad-program-image])")


def later(text: str) -> str:
    """The same at another place of the trace: an error that is printed twice with one place is one error."""
    return text.replace("TrcIdx=26", "TrcIdx=52")


def check(run: Run, text: str, changed: dict[str, int] | None = None) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON, and standard output of the same without ``--json``."""
    printed = run("check", text, "--json", changed=changed, status=None)
    return printed.status, printed.json, run("check", text, changed=changed, status=printed.status).out


CALLED = SYNC + ran("vfs_read", "vfs_read+0xc", "N BR   <cond>")
TAKEN = SYNC + ran("vfs_read", "vfs_read+0xc", "E BR   <cond>")
PLACES = {
    "after a branch that was not taken": (CALLED + bad(DIRECT), "vfs_read+0x10", "bl "),
    "after a taken branch": (TAKEN + bad(INDIRECT), "vfs_read+0x24", "ret"),
    "two ranges that do not join": (
        SYNC + ran("read_zero", "read_zero+0x10", "N BR   <cond>") + bad(BROKEN), "read_zero+0x10", "b.eq "
    ),
    "an element without an error": (CALLED + element("NO_SYNC( [bad-program-image])"), "vfs_read+0x10", "bl "),
}  # fmt: skip


@pytest.mark.parametrize("where", PLACES)
def test_the_word_is_found_in_the_image(run: Run, where: str) -> None:
    text, place, start = PLACES[where]
    code, data, out = check(run, text)
    (word,) = data["reported"]
    assert code == 1
    assert (word["vaddr"], word["fits"], word["after"]) == (hex(KERNEL.at(place)), True, False)
    assert word["message"].startswith(start)
    assert f"image stale at {place} ({KERNEL.at(place):#x}): {start}" in out
    assert "the decoder reports 1 word of its image that cannot be what ran" in out
    assert data["stale"] == []


def test_a_word_that_is_no_instruction(run: Run) -> None:
    text = CALLED + error("OCSD_ERR_INVALID_OPCODE", "Error processing atom packet.") + "\n"
    code, data, _ = check(run, text, {"vfs_read+0x10": 0x1234})
    (word,) = data["reported"]
    assert (code, word["vaddr"], word["word"], word["fits"]) == (1, hex(KERNEL.at("vfs_read+0x10")), "00001234", True)


GAP = CALLED + element("TRACE_ON( [begin or filter])")


def test_a_branch_that_the_report_does_not_describe_is_not_accused(run: Run) -> None:
    """A later one may be meant, or the decoder had another image."""
    _, data, out = check(run, CALLED + bad(DIRECT))
    assert data["reported"][0]["exact"] is False
    assert "perhaps it is a branch after this one" in out
    _, data, _ = check(run, CALLED + bad(DIRECT), {"vfs_read+0x10": NOP, "vfs_read+0x18": NOP})
    (word,) = data["reported"]
    assert (word["vaddr"], word["after"], word["fits"]) == (hex(KERNEL.at("vfs_read+0xc")), True, False)
    to_next = encode_b(KERNEL.at("vfs_read+0x10"), KERNEL.at("vfs_read+0x14"))
    assert not check(run, CALLED + bad(DIRECT), {"vfs_read+0x10": to_next})[1]["reported"][0]["fits"]


UNKNOWN = {
    "after a return": (SYNC + ran("vfs_read+0x14", "vfs_read+0x24", "E iBR A64:ret "), "vfs_read+0x24", True),
    "after an exception": (
        CALLED + element("EXCEPTION(pref ret addr:0xffff80008001000c; excep num (0x0e) )"), "vfs_read+0xc", True
    ),
    "after a gap": (GAP + CONTEXT, None, False),
}  # fmt: skip


@pytest.mark.parametrize("where", UNKNOWN)
def test_an_address_that_is_not_said_is_not_guessed(run: Run, where: str) -> None:
    text, place, after = UNKNOWN[where]
    code, data, _ = check(run, text + bad(DIRECT))
    (word,) = data["reported"]
    assert (code, word["after"], word["fits"]) == (1, after, False)
    assert word["vaddr"] == (hex(KERNEL.at(place)) if place else None)


OTHERS = {
    "a process": ("EL0N", 0),
    "a Secure kernel": ("EL1S", 0),
    "this kernel": ("EL1N", 1),
}


@pytest.mark.parametrize("whose", OTHERS)
def test_only_reports_about_the_kernel_count(run: Run, whose: str) -> None:
    level, count = OTHERS[whose]
    text = (
        SYNC + ran("vfs_read", "vfs_read+0xc", "N BR   <cond>") + ran("vfs_read+0x10", "vfs_read+0x10", "E BR  b+link ")
    )
    other = element(f"PE_CONTEXT((ISA=A64) {level}; 64-bit; )") + ran("read_zero", "read_zero+0x10", "N BR   <cond>")
    code, data, _ = check(run, text + other + bad(BROKEN))
    assert (code, len(data["reported"])) == (count, count)


def test_other_errors_are_gaps_with_their_text(run: Run) -> None:
    text = (
        SYNC + ran("vfs_read", "vfs_read+0xc", "N BR   <cond>") + ran("vfs_read+0x10", "vfs_read+0x10", "E BR  b+link ")
    )
    text += error("OCSD_ERR_BAD_DECODE_PKT", "Unknown packet type.") + element("NO_SYNC( [bad-packet])")
    code, data, _ = check(run, text + ran("vfs_read", "vfs_read+0xc", "N BR   <cond>"))
    assert (code, data["reported"], data["gaps"]) == (0, [], 1)
    assert (
        data["not_used"]["errors of the decoder on trace ID 0x10: OCSD_ERR_BAD_DECODE_PKT, Unknown packet type."] == 1
    )


def test_a_failed_transaction_accuses_no_word(run: Run) -> None:
    text = SYNC + ran("vfs_read", "vfs_read+0x8", "E TSTART") + element("MEMTRANS(Start)")
    text += ran("vfs_read+0xc", "vfs_read+0xc", "N BR   <cond>")
    again = ran("vfs_read+0xc", "vfs_read+0xc", "E BR   <cond>")
    assert check(run, text + element("MEMTRANS(Fail)") + again)[0] == 0
    assert check(run, text + element("MEMTRANS(Commit)") + again)[0] == 1


def test_a_text_of_perf_says_what_newer_ones_hide(run: Run) -> None:
    hint = "perf after 6.12, with OpenCSD 1.5.4 or later, leaves a gap (trace on)"
    assert hint not in run("check", perf_text([(0, "vfs_read"), *STEPS[1:]])).err
    assert hint in run("check", perf_text([*STEPS, (0, "vfs_read"), *STEPS[1:]])).err


@pytest.mark.parametrize("action", ["disasm", "stats"])
def test_other_commands_warn_once_of_what_the_decoder_reports(run: Run, action: str) -> None:
    printed = run(action, CALLED + bad(DIRECT) + CALLED + later(bad(DIRECT)))
    (warning,) = (line for line in printed.err.splitlines() if "warning" in line)
    assert warning.startswith("warning: the decoder reports 1 word of its image that cannot be what ran: ")


def test_a_word_that_is_reported_on_several_ways_is_one(run: Run) -> None:
    again = SYNC + ran("vfs_read+0x8", "vfs_read+0xc", "N BR   <cond>") + bad(DIRECT)
    code, data, out = check(run, CALLED + bad(DIRECT) + later(again))
    assert (code, [word["count"] for word in data["reported"]]) == (1, [2])
    assert "the decoder reports 1 word of its image" in out
